/* Reference kernels: pooling. See reference_vision.h. */
#include "tensor/reference_vision.h"

#include <math.h>
#include <string.h>

/* Tap t of window o in dimension d; -1: not in the image. Adaptive windows have as many taps as the
 * image is long, most of them outside. */
static int64_t place(const struct culm_window *p, int d, int64_t o, int64_t t) {
    if (p->adaptive) {
        int64_t from = o * p->in[d] / p->out[d];
        int64_t to = ((o + 1) * p->in[d] + p->out[d] - 1) / p->out[d];
        return from + t < to ? from + t : -1;
    }
    int64_t i = o * p->stride[d] - p->pad[d] + t * p->dilation[d];
    return i >= 0 && i < p->in[d] ? i : -1;
}

static int64_t taps(const struct culm_window *p, int d) {
    return p->adaptive ? p->in[d] : p->kernel[d];
}

/* Taps that count in a mean: those in the image, or in the image with its padding. */
static int64_t divisor(const struct culm_window *p, int d, int64_t o) {
    int64_t count = 0;
    for (int64_t t = 0; t < taps(p, d); t++) {
        int64_t i = o * p->stride[d] - p->pad[d] + t;
        if (place(p, d, o, t) >= 0 ||
            (p->count_pad && !p->adaptive && i < p->in[d] + p->pad_end[d])) {
            count++;
        }
    }
    return count ? count : 1;
}

static int64_t x_at(const struct culm_window *p, int64_t n, int64_t h, int64_t w, int64_t c) {
    return ((n * p->in[0] + h) * p->in[1] + w) * p->c + c;
}

/* One call of `visit` for every tap of every window that lies in the image. */
typedef void visitor(void *context, int64_t y, int64_t x, int64_t tap, double divisor);

static void walk(const struct culm_window *p, visitor *visit, void *context) {
    for (int64_t n = 0; n < p->n; n++) {
        for (int64_t oh = 0; oh < p->out[0]; oh++) {
            for (int64_t ow = 0; ow < p->out[1]; ow++) {
                for (int64_t th = 0; th < taps(p, 0); th++) {
                    for (int64_t tw = 0; tw < taps(p, 1); tw++) {
                        int64_t h = place(p, 0, oh, th), w = place(p, 1, ow, tw);
                        double by = (double)(divisor(p, 0, oh) * divisor(p, 1, ow));
                        for (int64_t c = 0; c < p->c && h >= 0 && w >= 0; c++) {
                            visit(context, ((n * p->out[0] + oh) * p->out[1] + ow) * p->c + c,
                                  x_at(p, n, h, w, c), th * taps(p, 1) + tw, by);
                        }
                    }
                }
            }
        }
    }
}

struct arrays {
    float *to, *index;
    const float *from, *places;
};

static void largest(void *context, int64_t y, int64_t x, int64_t tap, double by) {
    struct arrays *s = context;
    (void)by;
    if (s->index[y] < 0 || s->from[x] > s->to[y]) {
        s->to[y] = s->from[x];
        s->index[y] = (float)tap;
    }
}

static void largest_back(void *context, int64_t y, int64_t x, int64_t tap, double by) {
    struct arrays *s = context;
    (void)by;
    if (s->places[y] == (float)tap) {
        s->to[x] += s->from[y];
    }
}

static void mean(void *context, int64_t y, int64_t x, int64_t tap, double by) {
    struct arrays *s = context;
    (void)tap;
    s->to[y] += (float)((double)s->from[x] / by);
}

static void mean_back(void *context, int64_t y, int64_t x, int64_t tap, double by) {
    struct arrays *s = context;
    (void)tap;
    s->to[x] += (float)((double)s->from[y] / by);
}

static size_t out_count(const struct culm_window *p) {
    return (size_t)(p->n * p->out[0] * p->out[1] * p->c);
}
static size_t in_bytes(const struct culm_window *p) {
    return (size_t)(p->n * p->in[0] * p->in[1] * p->c) * sizeof(float);
}

void culm_ref_maxpool_forward(float *y, float *index, const float *x,
                              const struct culm_window *window) {
    for (size_t i = 0; i < out_count(window); i++) {
        y[i] = -INFINITY;
        index[i] = -1;
    }
    walk(window, largest, &(struct arrays){.to = y, .index = index, .from = x});
}

void culm_ref_maxpool_backward(float *dx, const float *dy, const float *index,
                               const struct culm_window *window) {
    memset(dx, 0, in_bytes(window));
    walk(window, largest_back, &(struct arrays){.to = dx, .from = dy, .places = index});
}

void culm_ref_avgpool_forward(float *y, const float *x, const struct culm_window *window) {
    memset(y, 0, out_count(window) * sizeof *y);
    walk(window, mean, &(struct arrays){.to = y, .from = x});
}

void culm_ref_avgpool_backward(float *dx, const float *dy, const struct culm_window *window) {
    memset(dx, 0, in_bytes(window));
    walk(window, mean_back, &(struct arrays){.to = dx, .from = dy});
}
