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
    int64_t strip, strips; /* channels of a task; parts of these in an image */
    int64_t band, bands;   /* lines of a task; parts of these */
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

/* A strip of channels of a band of lines of an image. */
static void some_channels(void *context, int64_t task, int thread) {
    const struct separable *s = context;
    const struct culm_window *p = &s->window;
    int64_t part = task / s->strips, first = task % s->strips * s->strip;
    int64_t image = part / s->bands, top = part % s->bands * s->band;
    int64_t bottom = at_most(p->out[0], top + s->band);
    int64_t read = at_least(0, top - p->pad[0]); /* lines of x */
    int64_t read_end = bottom - p->pad[0] + (p->kernel[0] - 1) * p->dilation[0];
    int64_t end = at_most(p->c, first + s->strip), line = p->out[1] * LANES;
    const float *x = s->x + image * p->in[0] * p->in[1] * p->c;
    float *y = s->y + image * p->out[0] * p->out[1] * p->c;
    float *row = cpu_private(s->cpu, thread);
    for (int64_t c = first; c < end; c += LANES) {
        const int64_t n = end - c;
        for (int64_t i = read; i < at_most(p->in[0], read_end); i++) {
            for (int64_t o = 0; o < p->out[1]; o++) {
                struct taps w = taps_of(p, 1, o);
                vstore(row + (i - read) * line + o * LANES,
                       largest(x + (i * p->in[1] + w.start) * p->c + c, w.count, w.step * p->c, n));
            }
        }
        for (int64_t i = top; i < bottom; i++) {
            struct taps h = taps_of(p, 0, i);
            for (int64_t o = 0; o < p->out[1]; o++) {
                struct taps w = taps_of(p, 1, o);
                vec best = largest(row + (h.start - read) * line + o * LANES, h.count,
                                   h.step * line, LANES);
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
    s.band = p->out[0];
    if (p->n * s.strips < cpu->threads) { /* rows at the sides of bands are done twice */
        int64_t bands = ceil_div(cpu->threads, p->n * s.strips);
        s.band = at_most(p->out[0], at_least(ceil_div(p->out[0], bands), 2 * p->kernel[0]));
    }
    s.bands = ceil_div(p->out[0], s.band);
    culm_cpu_run(cpu, p->n * s.bands * s.strips, some_channels, &s);
    return true;
}
ALIKE(maxpool_separable);
