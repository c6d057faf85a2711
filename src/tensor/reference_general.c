/* Reference kernels: two operands, reductions, softmax, products. See reference_vision.h. */
#include "tensor/reference_vision.h"

#include <math.h>
#include <string.h>

static int64_t count_of(const struct culm_shape *shape) {
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) {
        count *= shape->dim[i];
    }
    return count;
}

/* Which element of `small` belongs to element i of `large`: the same place, 0 along dimensions of
 * size 1. Shapes are aligned to the right. */
static int64_t spread(const struct culm_shape *large, const struct culm_shape *small, int64_t i) {
    int64_t at = 0, stride = 1;
    for (int d = 0; d < small->rank; d++) {
        int64_t dim = small->dim[small->rank - 1 - d], place = i % large->dim[large->rank - 1 - d];
        i /= large->dim[large->rank - 1 - d];
        at += dim == 1 ? 0 : place * stride;
        stride *= dim;
    }
    return at;
}

void culm_ref_binary(float *y, const float *a, const float *b, const struct culm_shape *a_shape,
                     const struct culm_shape *b_shape, enum culm_function function) {
    for (int64_t i = 0; i < count_of(a_shape); i++) {
        double v = (double)a[i], w = (double)b[spread(a_shape, b_shape, i)];
        y[i] = (float)(function == CULM_FUNCTION_ADD   ? v + w
                       : function == CULM_FUNCTION_SUB ? v - w
                       : function == CULM_FUNCTION_MUL ? v * w
                                                       : v / w);
    }
}

void culm_ref_binary_backward(float *da, float *db, const float *dy, const float *a, const float *b,
                              const struct culm_shape *a_shape, const struct culm_shape *b_shape,
                              enum culm_function function) {
    for (int64_t j = 0; j < count_of(b_shape); j++) {
        double sum = 0;
        for (int64_t i = 0; i < count_of(a_shape); i++) {
            if (spread(a_shape, b_shape, i) != j) {
                continue;
            }
            double d = (double)dy[i], v = (double)a[i], w = (double)b[j];
            da[i] = (float)(function == CULM_FUNCTION_MUL   ? d * w
                            : function == CULM_FUNCTION_DIV ? d / w
                                                            : d);
            sum += function == CULM_FUNCTION_ADD   ? d
                   : function == CULM_FUNCTION_SUB ? -d
                   : function == CULM_FUNCTION_MUL ? d * v
                                                   : -d * v / (w * w);
        }
        db[j] = (float)sum;
    }
}

static struct culm_shape reduced(const struct culm_shape *x, int64_t axes) {
    struct culm_shape y = *x;
    for (int i = 0; i < x->rank; i++) {
        y.dim[i] = axes >> i & 1 ? 1 : x->dim[i];
    }
    return y;
}

void culm_ref_reduce(float *y, const float *x, const struct culm_shape *x_shape, int64_t axes,
                     enum culm_function function) {
    struct culm_shape y_shape = reduced(x_shape, axes);
    double share = (double)count_of(&y_shape) / (double)count_of(x_shape);
    for (int64_t j = 0; j < count_of(&y_shape); j++) {
        double sum = 0, top = -INFINITY;
        for (int64_t i = 0; i < count_of(x_shape); i++) {
            if (spread(x_shape, &y_shape, i) == j) {
                sum += (double)x[i];
                top = fmax(top, (double)x[i]);
            }
        }
        y[j] = (float)(function == CULM_FUNCTION_MAX    ? top
                       : function == CULM_FUNCTION_MEAN ? sum * share
                                                        : sum);
    }
}

void culm_ref_reduce_backward(float *dx, const float *dy, const float *x, const float *y,
                              const struct culm_shape *x_shape, int64_t axes,
                              enum culm_function function) {
    struct culm_shape y_shape = reduced(x_shape, axes);
    double share = (double)count_of(&y_shape) / (double)count_of(x_shape);
    for (int64_t j = 0; j < count_of(&y_shape); j++) {
        double equal = 0;
        for (int64_t i = 0; function == CULM_FUNCTION_MAX && i < count_of(x_shape); i++) {
            equal += spread(x_shape, &y_shape, i) == j && x[i] == y[j];
        }
        for (int64_t i = 0; i < count_of(x_shape); i++) {
            if (spread(x_shape, &y_shape, i) != j) {
                continue;
            }
            double d = (double)dy[j];
            dx[i] = (float)(function == CULM_FUNCTION_MEAN  ? d * share
                            : function == CULM_FUNCTION_SUM ? d
                            : x[i] == y[j]                  ? d / equal
                                                            : 0);
        }
    }
}

void culm_ref_softmax_forward(float *y, const float *x, int64_t n, int64_t c) {
    for (int64_t i = 0; i < n; i++) {
        double top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < c; j++) {
            top = fmax(top, (double)x[i * c + j]);
        }
        for (int64_t j = 0; j < c; j++) {
            sum += exp((double)x[i * c + j] - top);
        }
        for (int64_t j = 0; j < c; j++) {
            y[i * c + j] = (float)(exp((double)x[i * c + j] - top) / sum);
        }
    }
}

void culm_ref_softmax_backward(float *dx, const float *dy, const float *y, int64_t n, int64_t c) {
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < c; j++) {
            sum += (double)dy[i * c + j] * (double)y[i * c + j];
        }
        for (int64_t j = 0; j < c; j++) {
            dx[i * c + j] = (float)(((double)dy[i * c + j] - sum) * (double)y[i * c + j]);
        }
    }
}

void culm_ref_matmul(float *c, const float *a, const float *b, const struct culm_matmul *how) {
    int64_t m = how->m, n = how->n, k = how->k;
    for (int64_t at = 0; at < how->batch * m * n; at++) {
        int64_t i = at / n % m, j = at % n, item = at / n / m;
        double sum = 0;
        for (int64_t l = 0; l < k; l++) {
            sum += (double)a[item * m * k + (how->trans_a ? l * m + i : i * k + l)] *
                   (double)b[item * k * n + (how->trans_b ? j * k + l : l * n + j)];
        }
        c[at] = (float)(sum * how->scale);
    }
}
