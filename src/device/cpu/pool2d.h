/* What the files of pooling share. */
#ifndef CULM_DEVICE_CPU_POOL2D_H
#define CULM_DEVICE_CPU_POOL2D_H

#include "device/cpu/variant.h"

/* The taps of window o that lie inside the image: `count` of them from `start` on. */
struct taps {
    int64_t start, step, count, first, divisor;
};

static inline struct taps taps_of(const struct culm_window *p, int d, int64_t o) {
    if (p->adaptive) {
        int64_t start = o * p->in[d] / p->out[d];
        int64_t count = ceil_div((o + 1) * p->in[d], p->out[d]) - start;
        return (struct taps){.start = start, .step = 1, .count = count, .divisor = count};
    }
    int64_t base = o * p->stride[d] - p->pad[d], step = p->dilation[d];
    int64_t first = base < 0 ? ceil_div(-base, step) : 0;
    int64_t end = base < p->in[d] ? at_most(p->kernel[d], ceil_div(p->in[d] - base, step)) : 0;
    int64_t count = at_least(0, end - first), divisor = count;
    if (p->count_pad) {
        divisor = at_most(base + p->kernel[d], p->in[d] + p->pad_end[d]) - base;
    }
    return (struct taps){base + first * step, step, count, first, at_least(1, divisor)};
}

/* maxpool_separable.c: the largest of each window, without places. False: it gains nothing, and nothing is
 * done. */
bool ISA_NAME(maxpool_separable)(struct culm_cpu *cpu,
                                 const struct culm_maxpool_forward_args *args);

#endif
