/* Convolution in plain loops: each element of a result gathers its own terms. */
#include "tensor/reference_conv.h"

/* Where in x the pixel is that tap (ky, kx) of output pixel (oy, ox) of image n sees; -1: outside
 * the image. */
static int64_t see(const struct culm_conv *v, int64_t n, int64_t oy, int64_t ox, int64_t ky,
                   int64_t kx) {
    int64_t iy = oy * v->stride[0] + ky * v->dilation[0] - v->pad[0];
    int64_t ix = ox * v->stride[1] + kx * v->dilation[1] - v->pad[1];
    if (iy < 0 || iy >= v->h || ix < 0 || ix >= v->w) {
        return -1;
    }
    return ((n * v->h + iy) * v->w + ix) * v->c;
}

void culm_ref_conv_forward(const struct culm_conv *v, float *y, const float *x, const float *w,
                           const float *b) {
    int64_t inner = v->c / v->groups, outer = v->o / v->groups, taps = v->kh * v->kw;
    for (int64_t row = 0; row < v->n * v->oh * v->ow; row++) {
        int64_t n = row / (v->oh * v->ow), oy = row / v->ow % v->oh, ox = row % v->ow;
        for (int64_t o = 0; o < v->o; o++) {
            double sum = b ? (double)b[o] : 0;
            for (int64_t tap = 0; tap < taps; tap++) {
                int64_t at = see(v, n, oy, ox, tap / v->kw, tap % v->kw);
                for (int64_t c = 0; at >= 0 && c < inner; c++) {
                    sum += (double)x[at + o / outer * inner + c] *
                           (double)w[(o * inner + c) * taps + tap];
                }
            }
            y[row * v->o + o] = (float)sum;
        }
    }
}

void culm_ref_conv_backward_data(const struct culm_conv *v, float *dx, const float *dy,
                                 const float *w) {
    int64_t inner = v->c / v->groups, outer = v->o / v->groups, taps = v->kh * v->kw;
    for (int64_t row = 0; row < v->n * v->h * v->w; row++) {
        int64_t n = row / (v->h * v->w), iy = row / v->w % v->h, ix = row % v->w;
        for (int64_t c = 0; c < v->c; c++) {
            double sum = 0;
            for (int64_t tap = 0; tap < taps; tap++) {
                int64_t y = iy + v->pad[0] - tap / v->kw * v->dilation[0];
                int64_t x = ix + v->pad[1] - tap % v->kw * v->dilation[1];
                int64_t oy = y / v->stride[0], ox = x / v->stride[1];
                if (y < 0 || x < 0 || y % v->stride[0] || x % v->stride[1] || oy >= v->oh ||
                    ox >= v->ow) {
                    continue;
                }
                const float *from = dy + ((n * v->oh + oy) * v->ow + ox) * v->o;
                for (int64_t o = c / inner * outer; o < (c / inner + 1) * outer; o++) {
                    sum += (double)from[o] * (double)w[(o * inner + c % inner) * taps + tap];
                }
            }
            dx[row * v->c + c] = (float)sum;
        }
    }
}

void culm_ref_conv_backward_weight(const struct culm_conv *v, float *dw, float *db, const float *x,
                                   const float *dy, bool first) {
    int64_t inner = v->c / v->groups, outer = v->o / v->groups, taps = v->kh * v->kw;
    int64_t rows = v->n * v->oh * v->ow;
    for (int64_t o = 0; o < v->o; o++) {
        for (int64_t c = 0; c < inner; c++) {
            for (int64_t tap = 0; tap < taps; tap++) {
                float *to = dw + (o * inner + c) * taps + tap;
                double sum = first ? 0 : (double)*to;
                for (int64_t row = 0; row < rows; row++) {
                    int64_t at = see(v, row / (v->oh * v->ow), row / v->ow % v->oh, row % v->ow,
                                     tap / v->kw, tap % v->kw);
                    if (at >= 0) {
                        sum += (double)x[at + o / outer * inner + c] * (double)dy[row * v->o + o];
                    }
                }
                *to = (float)sum;
            }
        }
        double sum = first || !db ? 0 : (double)db[o];
        for (int64_t row = 0; db && row < rows; row++) {
            sum += (double)dy[row * v->o + o];
        }
        if (db) {
            db[o] = (float)sum;
        }
    }
}
