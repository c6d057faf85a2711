/*
 * The largest element of each window, without its place, where windows overlap: first along rows, then along
 * columns. A window of 13 x 13 takes 26 comparisons instead of 169.
 *
 * Bits: those of pool2d.c. Of equal elements, such as zeros of both signs, the first is taken, which is the
 * first in its row and lies in the first row that has one. NaN is passed over, unless the first tap is NaN.
 */
#include "device/cpu/pool2d.h"

#include <math.h>

#define SIDE_MIN 3 /* of a window, from which on it gains */

struct separable {
    struct culm_cpu *cpu;
    struct culm_window window;
    const float *x;
    float *y;
    int64_t strip, strips; /* channels of a task; tasks of an image */
};

/* The largest of `count` vectors, each `step` floats after the one before it, but for NaN. */
SIMD vec largest(const float *from, int64_t count, int64_t step, int64_t n) {
    vec best = vset(-INFINITY);
    for (int64_t i = 0; i < count; i++, from += step) {
        vec v = load_part(from, n);
        best = vselect(vless(best, v), v, best);
    }
    return best;
}

/* A strip of channels of an image. */
static void some_channels(void *context, int64_t task, int thread) {
    const struct separable *s = context;
    const struct culm_window *p = &s->window;
    int64_t first = task % s->strips * s->strip, image = task / s->strips;
    int64_t end = at_most(p->c, first + s->strip), line = p->out[1] * LANES;
    const float *x = s->x + image * p->in[0] * p->in[1] * p->c;
    float *y = s->y + image * p->out[0] * p->out[1] * p->c;
    float *row = cpu_private(s->cpu, thread);
    for (int64_t c = first; c < end; c += LANES) {
        const int64_t n = end - c;
        for (int64_t i = 0; i < p->in[0]; i++) {
            for (int64_t o = 0; o < p->out[1]; o++) {
                struct taps w = taps_of(p, 1, o);
                vstore(row + i * line + o * LANES,
                       largest(x + (i * p->in[1] + w.start) * p->c + c, w.count, w.step * p->c, n));
            }
        }
        for (int64_t i = 0; i < p->out[0]; i++) {
            struct taps h = taps_of(p, 0, i);
            for (int64_t o = 0; o < p->out[1]; o++) {
                struct taps w = taps_of(p, 1, o);
                vec best = largest(row + h.start * line + o * LANES, h.count, h.step * line, LANES);
                if (h.count > 0 && w.count > 0) {
                    vec tap = load_part(x + (h.start * p->in[1] + w.start) * p->c + c, n);
                    best = vselect(vless(tap, best), best, tap);
                }
                store_part(y + (i * p->out[1] + o) * p->c + c, best, n);
            }
        }
    }
}

bool ISA_NAME(maxpool_separable)(struct culm_cpu *cpu,
                                 const struct culm_maxpool_forward_args *args) {
    const struct culm_window *p = args->window;
    if (args->x.dtype != CULM_F32 || args->y.dtype != CULM_F32 || p->stride[0] != 1 ||
        p->stride[1] != 1 || p->kernel[0] < SIDE_MIN || p->kernel[1] < SIDE_MIN ||
        p->in[0] * p->out[1] * LANES > PRIVATE_FLOATS) {
        return false;
    }
    struct separable s = {.cpu = cpu, .window = *p, .x = args->x.data, .y = args->y.data};
    s.strip = round_up(at_least(1, ceil_div(p->c, 4 * cpu->threads)), LANES);
    s.strips = ceil_div(p->c, s.strip);
    culm_cpu_run(cpu, p->n * s.strips, some_channels, &s);
    return true;
}
