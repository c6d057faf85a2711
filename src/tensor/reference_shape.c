/* Reference kernels: moving elements, and images at another size. See reference_vision.h. */
#include "tensor/reference_vision.h"

#include <string.h>

void culm_ref_permute(float *y, const float *x, const struct culm_shape *x_shape,
                      const int64_t *order) {
    int64_t stride[CULM_MAX_RANK], dim[CULM_MAX_RANK], count = 1;
    for (int i = x_shape->rank - 1; i >= 0; i--) {
        stride[i] = count;
        count *= x_shape->dim[i];
    }
    for (int i = 0; i < x_shape->rank; i++) {
        dim[i] = x_shape->dim[order[i]];
    }
    for (int64_t j = 0; j < count; j++) {
        int64_t rest = j, from = 0;
        for (int i = x_shape->rank - 1; i >= 0; i--) {
            from += rest % dim[i] * stride[order[i]];
            rest /= dim[i];
        }
        y[j] = x[from];
    }
}

void culm_ref_pad(float *y, const float *x, int64_t n, int64_t h, int64_t w, int64_t c,
                  const int64_t *pad, double value) {
    int64_t high = pad[0] + h + pad[2], wide = pad[1] + w + pad[3];
    for (int64_t i = 0; i < n * high * wide * c; i++) {
        int64_t channel = i % c, at_w = i / c % wide - pad[1], at_h = i / c / wide % high - pad[0];
        int64_t image = i / c / wide / high;
        bool inside = at_h >= 0 && at_h < h && at_w >= 0 && at_w < w;
        y[i] = inside ? x[((image * h + at_h) * w + at_w) * c + channel] : (float)value;
    }
}

void culm_ref_crop(float *y, const float *x, int64_t n, int64_t h, int64_t w, int64_t c,
                   const int64_t *pad) {
    int64_t high = pad[0] + h + pad[2], wide = pad[1] + w + pad[3];
    for (int64_t i = 0; i < n * h * w * c; i++) {
        int64_t at_w = i / c % w + pad[1], at_h = i / c / w % h + pad[0], image = i / c / w / h;
        y[i] = x[((image * high + at_h) * wide + at_w) * c + i % c];
    }
}

void culm_ref_place(float *y, const float *x, int64_t rows, int64_t row, int64_t pitch,
                    int64_t offset, bool add) {
    for (int64_t i = 0; i < rows * row; i++) {
        float *to = &y[i / row * pitch + offset + i % row];
        *to = add ? *to + x[i] : x[i];
    }
}

/* dx NULL: forward into y. */
static void resize(float *y, const float *x, float *dx, const float *dy,
                   const struct culm_resize *how) {
    for (int64_t i = 0; i < how->n * how->out[0] * how->out[1] * how->c; i++) {
        int64_t h[2], w[2], image = i / how->c / how->out[1] / how->out[0];
        double down =
            (double)culm_resize_at(how, 0, i / how->c / how->out[1] % how->out[0], &h[0], &h[1]);
        double right = (double)culm_resize_at(how, 1, i / how->c % how->out[1], &w[0], &w[1]);
        double sum = 0;
        for (int a = 0; a < 2; a++) {
            for (int b = 0; b < 2; b++) {
                double share = (a ? down : 1 - down) * (b ? right : 1 - right);
                int64_t at =
                    ((image * how->in[0] + h[a]) * how->in[1] + w[b]) * how->c + i % how->c;
                if (dx) {
                    dx[at] += (float)(share * (double)dy[i]);
                } else {
                    sum += share * (double)x[at];
                }
            }
        }
        if (!dx) {
            y[i] = (float)sum;
        }
    }
}

void culm_ref_resize_forward(float *y, const float *x, const struct culm_resize *how) {
    resize(y, x, NULL, NULL, how);
}

void culm_ref_resize_backward(float *dx, const float *dy, const struct culm_resize *how) {
    memset(dx, 0, (size_t)(how->n * how->in[0] * how->in[1] * how->c) * sizeof *dx);
    resize(NULL, NULL, dx, dy, how);
}
