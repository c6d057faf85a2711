/*
 * Convolutions for inference, 1x1, of which some channels come from a coarser map: what they add to an
 * output is the same for all pixels of a coarse one, and is computed once.
 *
 * Bits: as in conv_infer.c. Coarse channels come first, so that all pixels of a coarse one have the beginning
 * of their chains in common; each chain goes on from there.
 */
#include "device/cpu/conv_infer.h"

#include <assert.h>

/* The beginnings of chains, [count,h,w,O], of images from `first` on. */
static void begin(struct culm_cpu *cpu, const struct culm_conv_infer_args *a, int64_t first,
                  int64_t count, float *scratch, float *ret_sum) {
    const struct culm_coarse *coarse = &a->coarse;
    const struct culm_conv v = {.n = count,
                                .h = coarse->h,
                                .w = coarse->w,
                                .c = coarse->c,
                                .o = a->conv->o,
                                .kh = 1,
                                .kw = 1,
                                .oh = coarse->h,
                                .ow = coarse->w,
                                .stride = {1, 1},
                                .dilation = {1, 1},
                                .groups = 1};
    const struct culm_conv_infer_args args = {.conv = &v,
                                              .y = ret_sum,
                                              .x = coarse->x +
                                                   first * coarse->h * coarse->w * coarse->c,
                                              .w = a->w};
    struct infer s;
    ISA_NAME(conv_infer_set_up)(cpu, &args, scratch, &s);
    for (int64_t o = 0; o < v.o; o++) { /* what is behind the chain leaves -0 as it is too */
        s.offset[o] = s.shift[o] = -0.0f;
    }
    ISA_NAME(conv_infer_direct)(cpu, &s);
}

void ISA_NAME(conv_infer_coarse)(struct culm_cpu *cpu, const struct culm_conv_infer_args *args,
                                 float *shared, int64_t floats) {
    const struct culm_coarse *coarse = &args->coarse;
    const int64_t image = coarse->h * coarse->w * args->conv->o;
    const int64_t coefficients =
        3 * round_up(args->conv->o, LANES) + round_up(at_least(coarse->c, args->conv->c), LANES);
    const int64_t together = (floats - coefficients) / image; /* images */
    assert(culm_coarse_possible(args->conv, coarse) && together > 0);
    for (int64_t n = 0; n < args->conv->n; n += together) {
        struct culm_conv v = *args->conv;
        struct culm_conv_infer_args a = *args;
        struct infer s;
        const int64_t out = n * v.h * v.w * v.o;
        v.n = at_most(together, v.n - n);
        begin(cpu, args, n, v.n, shared, shared + coefficients);
        a.conv = &v;
        a.x += n * v.h * v.w * v.c;
        a.y += out;
        a.w += coarse->c * v.o;
        a.residual = a.residual ? a.residual + out : NULL;
        ISA_NAME(conv_infer_set_up)(cpu, &a, shared, &s);
        s.coarse = shared + coefficients;
        ISA_NAME(conv_infer_direct)(cpu, &s);
    }
}
