/*
 * Depthwise convolution: every channel has a filter of its own, so there is nothing to multiply
 * matrices of; memory sets the speed. Channels are the lanes.
 *
 * Bits: an element of y or dx is a chain of fused multiply-adds over the taps in the order ky, kx
 * (from the bias, or from zero). A weight's gradient is a chain over the pixels of each line of an
 * image, added in order of images and lines.
 */
#include "device/cpu/conv.h"
#include "device/cpu/variant.h"

/* The weights [C][taps], read as [taps][16] for one block of channels. */
static void turn_filter(float *to, const float *w, int64_t taps, int64_t channels) {
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t c = 0; c < LANES; c++)
            to[tap * LANES + c] = c < channels ? w[c * taps + tap] : 0.0f;
}

struct depthwise {
    const struct culm_conv *v;
    struct culm_cpu *cpu;
    struct culm_out to;
    struct culm_in from, dy;
    const float *w, *b;
    float *dw;
    bool first;
};

/* One line of y. */
static void forward_line(void *context, int64_t line, int thread) {
    const struct depthwise *d = context;
    const struct culm_conv *v = d->v;
    float *filter = cpu_private(d->cpu, thread);
    int64_t n = line / v->oh, oy = line % v->oh, taps = v->kh * v->kw;
    for (int64_t c = 0; c < v->c; c += LANES) {
        int64_t left = at_most(LANES, v->c - c);
        turn_filter(filter, d->w + c * taps, taps, left);
        vec bias = d->b ? load_part(d->b + c, left) : vzero();
        for (int64_t ox = 0; ox < v->ow; ox++) {
            vec sum = bias;
            for (int64_t ky = 0; ky < v->kh; ky++) {
                int64_t iy = oy * v->stride[0] + ky * v->dilation[0] - v->pad[0];
                for (int64_t kx = 0; iy >= 0 && iy < v->h && kx < v->kw; kx++) {
                    int64_t ix = ox * v->stride[1] + kx * v->dilation[1] - v->pad[1];
                    if (ix < 0 || ix >= v->w)
                        continue;
                    vec x = tload_part(d->from, ((n * v->h + iy) * v->w + ix) * v->c + c, left);
                    sum = vfma(x, vload(filter + (ky * v->kw + kx) * LANES), sum);
                }
            }
            tstore_part(d->to, (line * v->ow + ox) * v->c + c, sum, left);
        }
    }
}

/* One line of dx. */
static void data_line(void *context, int64_t line, int thread) {
    const struct depthwise *d = context;
    const struct culm_conv *v = d->v;
    float *filter = cpu_private(d->cpu, thread);
    int64_t n = line / v->h, iy = line % v->h, taps = v->kh * v->kw;
    for (int64_t c = 0; c < v->c; c += LANES) {
        int64_t left = at_most(LANES, v->c - c);
        turn_filter(filter, d->w + c * taps, taps, left);
        for (int64_t ix = 0; ix < v->w; ix++) {
            vec sum = vzero();
            for (int64_t ky = 0; ky < v->kh; ky++) {
                int64_t y = iy + v->pad[0] - ky * v->dilation[0], oy = y / v->stride[0];
                if (y < 0 || y % v->stride[0] || oy >= v->oh)
                    continue;
                for (int64_t kx = 0; kx < v->kw; kx++) {
                    int64_t x = ix + v->pad[1] - kx * v->dilation[1], ox = x / v->stride[1];
                    if (x < 0 || x % v->stride[1] || ox >= v->ow)
                        continue;
                    vec dy = tload_part(d->dy, ((n * v->oh + oy) * v->ow + ox) * v->c + c, left);
                    sum = vfma(dy, vload(filter + (ky * v->kw + kx) * LANES), sum);
                }
            }
            tstore_part(d->to, (line * v->w + ix) * v->c + c, sum, left);
        }
    }
}

/* All taps of one block of channels. */
static void weight_block(void *context, int64_t block, int thread) {
    const struct depthwise *d = context;
    const struct culm_conv *v = d->v;
    int64_t c = block * LANES, left = at_most(LANES, v->c - c), taps = v->kh * v->kw;
    float *total = cpu_private(d->cpu, thread);
    memset(total, 0, (size_t)(taps * LANES) * sizeof *total);
    for (int64_t line = 0; line < v->n * v->oh; line++)
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t n = line / v->oh, ky = tap / v->kw, kx = tap % v->kw;
            int64_t iy = line % v->oh * v->stride[0] + ky * v->dilation[0] - v->pad[0];
            if (iy < 0 || iy >= v->h)
                continue;
            vec sum = vzero();
            for (int64_t ox = 0; ox < v->ow; ox++) {
                int64_t ix = ox * v->stride[1] + kx * v->dilation[1] - v->pad[1];
                if (ix < 0 || ix >= v->w)
                    continue;
                vec x = tload_part(d->from, ((n * v->h + iy) * v->w + ix) * v->c + c, left);
                vec dy = tload_part(d->dy, (line * v->ow + ox) * v->c + c, left);
                sum = vfma(x, dy, sum);
            }
            vstore(total + tap * LANES, vadd(vload(total + tap * LANES), sum));
        }
    for (int64_t i = 0; i < left; i++)
        for (int64_t tap = 0; tap < taps; tap++) {
            float *to = d->dw + (c + i) * taps + tap;
            *to = d->first ? total[tap * LANES + i] : *to + total[tap * LANES + i];
        }
}

void ISA_NAME(conv_depthwise_forward)(struct culm_cpu *cpu, const struct culm_conv *v,
                                      struct culm_out y, struct culm_in x, const float *w,
                                      const float *b) {
    struct depthwise d = {.v = v, .cpu = cpu, .to = y, .from = x, .w = w, .b = b};
    culm_cpu_run(cpu, v->n * v->oh, forward_line, &d);
}

void ISA_NAME(conv_depthwise_backward_data)(struct culm_cpu *cpu, const struct culm_conv *v,
                                            struct culm_out dx, struct culm_in dy, const float *w) {
    struct depthwise d = {.v = v, .cpu = cpu, .to = dx, .dy = dy, .w = w};
    culm_cpu_run(cpu, v->n * v->h, data_line, &d);
}

void ISA_NAME(conv_depthwise_backward_weight)(struct culm_cpu *cpu, const struct culm_conv *v,
                                              float *dw, struct culm_in x, struct culm_in dy,
                                              bool first) {
    struct depthwise d = {.v = v, .cpu = cpu, .from = x, .dy = dy, .dw = dw, .first = first};
    culm_cpu_run(cpu, ceil_div(v->c, LANES), weight_block, &d);
}
