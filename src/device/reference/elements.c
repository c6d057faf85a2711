/* The reference device: elements, shapes, images, optimizers, digests. */
#include "device/reference/internal.h"
#include "tensor/reference.h"
#include "tensor/reference_conv.h"
#include "tensor/reference_vision.h"

#include <string.h>

#define KERNEL(name)                                                                               \
    void culm_reference_##name(struct reference *r, const struct culm_##name##_args *a)
#define GET(array, count) culm_reference_get(r, a->array, count)
#define PUT(array, count) culm_reference_put(r, a->array, count)

static int64_t size_of(const struct culm_shape *shape) {
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) {
        count *= shape->dim[i];
    }
    return count;
}

/* --- elements --- */

KERNEL(add) {
    const struct culm_shape shape = {1, {a->count}};
    culm_ref_binary(PUT(y, a->count), GET(a, a->count), GET(b, a->count), &shape, &shape,
                    CULM_FUNCTION_ADD);
}

KERNEL(dropout) {
    const float *x = GET(x, a->count);
    float *y = PUT(y, a->count);
    if (a->dropout && a->dropout->p > 0) {
        culm_ref_dropout(y, x, a->count, a->dropout);
    } else {
        memcpy(y, x, (size_t)a->count * sizeof *y);
    }
}

KERNEL(residual_dropout_forward) {
    const struct culm_dropout none = {.samples = 1};
    culm_ref_residual_dropout_forward(PUT(y, a->count), GET(x, a->count), GET(h, a->count),
                                      a->count, a->dropout ? a->dropout : &none);
}

KERNEL(activation_forward) {
    culm_ref_activation_forward(PUT(y, a->count), GET(x, a->count), a->count, a->function,
                                a->alpha);
}

KERNEL(activation_backward) {
    culm_ref_activation_backward(PUT(dx, a->count), GET(dy, a->count), GET(kept, a->count),
                                 a->count, a->function, a->alpha);
}

KERNEL(affine) {
    culm_ref_affine(PUT(y, a->count), GET(x, a->count), a->count, a->scale, a->shift);
}

KERNEL(accumulate) {
    const float *x = GET(x, a->count);
    for (int64_t i = 0; i < a->count; i++) {
        a->sum[i] += x[i];
    }
}

KERNEL(binary) {
    int64_t count = size_of(a->a_shape);
    culm_ref_binary(PUT(y, count), GET(a, count), GET(b, size_of(a->b_shape)), a->a_shape,
                    a->b_shape, a->function);
}

KERNEL(spread) {
    int64_t count = size_of(a->y_shape);
    float *y = PUT(y, count);
    culm_ref_binary(y, culm_reference_floats(r, count), GET(b, size_of(a->b_shape)), a->y_shape,
                    a->b_shape, CULM_FUNCTION_ADD);
    culm_ref_affine(y, y, count, a->scale, 0);
}

static int64_t reduced(const struct culm_shape *shape, int64_t axes) {
    struct culm_shape y = *shape;
    for (int i = 0; i < shape->rank; i++) {
        y.dim[i] = axes >> i & 1 ? 1 : shape->dim[i];
    }
    return size_of(&y);
}

KERNEL(reduce) {
    int64_t count = size_of(a->x_shape), results = reduced(a->x_shape, a->axes);
    float *x = culm_reference_floats(r, count), *y = PUT(y, results);
    memcpy(x, GET(x, count), (size_t)count * sizeof *x);
    if (a->factor.data) {
        culm_ref_binary(x, x, GET(factor, count), a->x_shape, a->x_shape, CULM_FUNCTION_MUL);
    }
    culm_ref_reduce(y, x, a->x_shape, a->axes, a->function);
    culm_ref_affine(y, y, results, a->scale, 0);
}

KERNEL(reduce_max_backward) {
    int64_t count = size_of(a->x_shape), results = reduced(a->x_shape, a->axes);
    culm_ref_reduce_backward(PUT(dx, count), GET(dy, results), GET(x, count), GET(y, results),
                             a->x_shape, a->axes, CULM_FUNCTION_MAX);
}

/* --- moving elements --- */

KERNEL(permute) {
    int64_t count = size_of(a->x_shape);
    culm_ref_permute(PUT(y, count), GET(x, count), a->x_shape, a->order);
}

static int64_t padded(int64_t n, int64_t h, int64_t w, int64_t c, const int64_t *pad) {
    return n * (h + pad[0] + pad[2]) * (w + pad[1] + pad[3]) * c;
}

KERNEL(pad) {
    culm_ref_pad(PUT(y, padded(a->n, a->h, a->w, a->c, a->pad)), GET(x, a->n * a->h * a->w * a->c),
                 a->n, a->h, a->w, a->c, a->pad, a->value);
}

KERNEL(crop) {
    culm_ref_crop(PUT(y, a->n * a->h * a->w * a->c), GET(x, padded(a->n, a->h, a->w, a->c, a->pad)),
                  a->n, a->h, a->w, a->c, a->pad);
}

KERNEL(place) {
    culm_ref_place(culm_reference_change(r, a->y, a->rows * a->pitch), GET(x, a->rows * a->row),
                   a->rows, a->row, a->pitch, a->offset, a->add);
}

/* --- images --- */

static int64_t conv_in(const struct culm_conv *v) { return v->n * v->h * v->w * v->c; }
static int64_t conv_out(const struct culm_conv *v) { return v->n * v->oh * v->ow * v->o; }

KERNEL(conv_forward) {
    culm_ref_conv_forward(a->conv, PUT(y, conv_out(a->conv)), GET(x, conv_in(a->conv)), a->w, a->b);
}
KERNEL(conv_backward_data) {
    culm_ref_conv_backward_data(a->conv, PUT(dx, conv_in(a->conv)), GET(dy, conv_out(a->conv)),
                                a->w);
}
KERNEL(conv_backward_weight) {
    culm_ref_conv_backward_weight(a->conv, a->dw, a->db, GET(x, conv_in(a->conv)),
                                  GET(dy, conv_out(a->conv)), a->first);
}

static int64_t window_in(const struct culm_window *w) { return w->n * w->in[0] * w->in[1] * w->c; }
static int64_t window_out(const struct culm_window *w) {
    return w->n * w->out[0] * w->out[1] * w->c;
}

KERNEL(maxpool_forward) {
    int64_t count = window_out(a->window);
    float *index = PUT(index, count);
    culm_ref_maxpool_forward(PUT(y, count), index ? index : culm_reference_floats(r, count),
                             GET(x, window_in(a->window)), a->window);
}
KERNEL(maxpool_backward) {
    int64_t count = window_out(a->window);
    culm_ref_maxpool_backward(PUT(dx, window_in(a->window)), GET(dy, count), GET(index, count),
                              a->window);
}
KERNEL(avgpool_forward) {
    culm_ref_avgpool_forward(PUT(y, window_out(a->window)), GET(x, window_in(a->window)),
                             a->window);
}
KERNEL(avgpool_backward) {
    culm_ref_avgpool_backward(PUT(dx, window_in(a->window)), GET(dy, window_out(a->window)),
                              a->window);
}

static int64_t resize_in(const struct culm_resize *how) {
    return how->n * how->in[0] * how->in[1] * how->c;
}
static int64_t resize_out(const struct culm_resize *how) {
    return how->n * how->out[0] * how->out[1] * how->c;
}

KERNEL(resize_forward) {
    culm_ref_resize_forward(PUT(y, resize_out(a->how)), GET(x, resize_in(a->how)), a->how);
}
KERNEL(resize_backward) {
    culm_ref_resize_backward(PUT(dx, resize_in(a->how)), GET(dy, resize_out(a->how)), a->how);
}

/* --- optimizers and digests --- */

#define RUN_OF 4096 /* elements */
#define LANES 16

/* What device/cpu/digest.h says, element by element. */
static uint64_t digest_of(const float *x, int64_t count) {
    uint64_t all = 0;
    for (int64_t from = 0; from < count; from += RUN_OF) {
        int64_t to = from + RUN_OF < count ? from + RUN_OF : count;
        uint32_t lane[LANES];
        for (int i = 0; i < LANES; i++) {
            lane[i] = 0x9E3779B9u + (uint32_t)i;
        }
        for (int64_t i = from; i < (to + LANES - 1) / LANES * LANES; i++) {
            uint32_t *h = &lane[(i - from) % LANES], bits = 0;
            if (i < to) {
                memcpy(&bits, &x[i], sizeof bits);
            }
            *h = (*h << 7 | *h >> 25) + bits;
        }
        uint64_t sum = ((uint64_t)(from / RUN_OF) + 1) * 0x9E3779B97F4A7C15ull;
        for (int i = 0; i < LANES; i += 2) {
            sum = (sum ^ (lane[i] | (uint64_t)lane[i + 1] << 32)) * 0xD6E8FEB86659FD93ull;
            sum ^= sum >> 32;
        }
        all += sum;
    }
    return all;
}

KERNEL(adamw) {
    struct culm_step_digest *digest = a->hyper->digest;
    float *const vectors[] = {a->p, a->m, a->v};
    for (int i = 0; digest && i < 3; i++) {
        digest->before[i] = digest_of(vectors[i], a->count);
    }
    culm_ref_adamw(a->p, a->m, a->v, a->g, a->count, a->hyper);
    for (int i = 0; digest && i < 3; i++) {
        digest->grad = digest_of(a->g, a->count);
        digest->after[i] = digest_of(vectors[i], a->count);
    }
    (void)r;
}

KERNEL(sgd) {
    struct culm_step_digest *digest = a->hyper->digest;
    float *const vectors[] = {a->p, a->hyper->momentum != 0 ? a->buffer : NULL};
    for (int i = 0; digest && i < 2; i++) {
        digest->before[i] = vectors[i] ? digest_of(vectors[i], a->count) : 0;
    }
    culm_ref_sgd(a->p, a->buffer, a->g, a->count, a->hyper);
    for (int i = 0; digest && i < 2; i++) {
        digest->grad = digest_of(a->g, a->count);
        digest->after[i] = vectors[i] ? digest_of(vectors[i], a->count) : 0;
    }
    (void)r;
}

KERNEL(sum_squares) {
    (void)r;
    *a->ret_sum = culm_ref_sum_squares(a->x, a->count);
    if (a->ret_digest) {
        *a->ret_digest = digest_of(a->x, a->count);
    }
}
KERNEL(digest) {
    (void)r;
    *a->ret_digest = digest_of(a->x, a->count);
}
KERNEL(digest_here) {
    (void)r;
    *a->ret_digest = digest_of(a->x, a->count);
}
