/* Convolutions for inference. See conv_infer.h. */
#include "tensor/conv_infer.h"

#include <math.h>

bool culm_conv_infer_possible(const struct culm_conv *v) {
    return v->groups == 1 || (v->groups == v->c && v->groups == v->o);
}

#define COARSE_MOST (1 << 20) /* outputs of an image's coarse map: devices keep them */

bool culm_coarse_possible(const struct culm_conv *v, const struct culm_coarse *coarse) {
    return v->kh == 1 && v->kw == 1 && v->groups == 1 && v->oh == v->h && v->ow == v->w &&
           v->stride[0] == 1 && v->stride[1] == 1 && coarse->h > 0 && coarse->w > 0 &&
           v->h % coarse->h == 0 && v->w % coarse->w == 0 &&
           coarse->h * coarse->w <= COARSE_MOST / v->o;
}

#define TURNED 16 /* rows at once: what is written together lies together */

void culm_conv_turn_part(const float *part, int64_t first, int64_t count, int64_t outer,
                         int64_t inner, int64_t taps, float *ret_w) {
    int64_t row = inner * taps;
    while (count > 0) {
        int64_t o = first / row, from = first % row, rows = from ? 0 : count / row;
        rows = rows < TURNED ? rows : TURNED;
        int64_t to = rows || count > row - from ? row : from + count;
        for (int64_t i = from; i < to; i++) {
            float *at = ret_w + (i % taps * inner + i / taps) * outer + o;
            *at = part[i - from];
            for (int64_t k = 1; k < rows; k++) {
                at[k] = part[k * row + i];
            }
        }
        int64_t done = rows ? rows * row : to - from;
        part += done;
        first += done;
        count -= done;
    }
}

void culm_conv_turn(const float *w, int64_t outer, int64_t inner, int64_t taps, float *ret_w) {
    culm_conv_turn_part(w, 0, outer * inner * taps, outer, inner, taps, ret_w);
}

void culm_conv_turn_back(const float *w, int64_t outer, int64_t inner, int64_t taps, float *ret_w) {
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < inner * taps; i++) {
            ret_w[o * inner * taps + i] = w[(i % taps * inner + i / taps) * outer + o];
        }
    }
}

/* What a pixel's coarse channels add to an output; w: their rows alone. */
static double coarse_sum(const struct culm_conv *v, int64_t pixel, int64_t o,
                         const struct culm_coarse *coarse, const float *w) {
    int64_t n = pixel / (v->oh * v->ow), y = pixel / v->ow % v->oh, x = pixel % v->ow;
    int64_t at = (n * coarse->h + y / (v->h / coarse->h)) * coarse->w + x / (v->w / coarse->w);
    double sum = 0;
    for (int64_t c = 0; c < coarse->c; c++) {
        sum += (double)coarse->x[at * coarse->c + c] * (double)w[c * v->o + o];
    }
    return sum;
}

/* The convolution alone, of one output channel at one pixel. */
static double chain(const struct culm_conv *v, int64_t pixel, int64_t o, const float *x,
                    const float *w) {
    int64_t inner = v->c / v->groups;
    int64_t n = pixel / (v->oh * v->ow), oy = pixel / v->ow % v->oh, ox = pixel % v->ow;
    double sum = 0;
    for (int64_t tap = 0; tap < v->kh * v->kw; tap++) {
        int64_t iy = oy * v->stride[0] + tap / v->kw * v->dilation[0] - v->pad[0];
        int64_t ix = ox * v->stride[1] + tap % v->kw * v->dilation[1] - v->pad[1];
        if (iy < 0 || iy >= v->h || ix < 0 || ix >= v->w) {
            continue;
        }
        const float *from = x + ((n * v->h + iy) * v->w + ix) * v->c + (v->groups > 1 ? o : 0);
        for (int64_t c = 0; c < inner; c++) {
            sum += (double)from[c] * (double)w[(tap * inner + c) * v->o + o];
        }
    }
    return sum;
}

void culm_ref_conv_infer(const struct culm_conv *v, float *y, const float *x,
                         const struct culm_coarse *coarse, const float *w, const float *b,
                         const float *gamma, const float *beta, const float *mean,
                         const float *variance, double eps, const float *residual) {
    const float *behind = w + (coarse ? coarse->c * v->o : 0);
    for (int64_t pixel = 0; pixel < v->n * v->oh * v->ow; pixel++) {
        for (int64_t o = 0; o < v->o; o++) {
            double sum = chain(v, pixel, o, x, behind) + (b ? (double)b[o] : 0);
            sum += coarse ? coarse_sum(v, pixel, o, coarse, w) : 0;
            if (gamma) {
                sum = (sum - (double)mean[o]) / sqrt((double)variance[o] + eps) * (double)gamma[o] +
                      (double)beta[o];
            }
            int64_t at = pixel * v->o + o;
            y[at] = (float)(sum + (residual ? (double)residual[at] : 0));
        }
    }
}
