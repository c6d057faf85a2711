/*
 * What kernels on images and their references share. Plain data; thread: any.
 */
#ifndef CULM_TENSOR_HYPER_VISION_H
#define CULM_TENSOR_HYPER_VISION_H

#include "tensor/hyper.h"

/* Batch norm of rows [N,C]: y = function((x - mean) / sqrt(variance + eps) gamma + beta [+
 * residual]), mean and variance per column. */
struct culm_batchnorm {
    int64_t n, c;
    double eps;
    enum culm_function function; /* NONE, RELU, RELU6 or LEAKY_RELU */
    double alpha;                /* slope of LEAKY_RELU below zero; not negative */
    bool inference;              /* mean and variance are given, not those of the rows */
};

/* Windows over images [N,H,W,C]; pairs are height, width. Tap j of window o lies at o stride - pad
 * + j dilation. `adaptive`: window o is [floor(o in / out), ceil((o + 1) in / out)) instead, and
 * what follows out is not read. */
struct culm_window {
    int64_t n, c, in[2], out[2];
    int64_t kernel[2], stride[2], pad[2], pad_end[2], dilation[2]; /* dilation 1 for averages */
    bool count_pad; /* averages: padding counts as zeros */
    bool adaptive;  /* averages only */
};

/* A maximum's place in its window is kept as a number, height before width: bf16 holds it exactly
 * when the window has at most this many taps, else f32. */
#define CULM_POOL_BF16_TAPS 256

/* Another size of images [N,H,W,C]; pairs are height, width, at most CULM_RESIZE_MAX each. */
struct culm_resize {
    int64_t n, c, in[2], out[2];
    bool bilinear; /* else the nearest */
    bool corners;  /* bilinear: the centres of the corner pixels stay where they are */
};
#define CULM_RESIZE_MAX 65536

/* Where output o lies along a dimension, in PyTorch's float32 arithmetic: between *ret_low and
 * *ret_high, with this share of the latter. */
static inline float culm_resize_at(const struct culm_resize *how, int d, int64_t o,
                                   int64_t *ret_low, int64_t *ret_high) {
    int64_t in = how->in[d], out = how->out[d];
    float scale = (float)in / (float)out, at = (float)o * scale;
    if (how->bilinear && how->corners) {
        scale = out > 1 ? (float)(in - 1) / (float)(out - 1) : 0;
        at = (float)o * scale;
    } else if (how->bilinear) {
        at = scale * ((float)o + 0.5f) - 0.5f;
        at = at < 0 ? 0 : at;
    }
    int64_t low = (int64_t)at;
    low = low < in - 1 ? low : in - 1;
    *ret_low = low;
    *ret_high = how->bilinear && low < in - 1 ? low + 1 : low;
    return how->bilinear ? at - (float)low : 0;
}

/* c[batch,m,n] = scale op(a) op(b); op(a) is [m,k] of a[batch,m,k], or of a[batch,k,m] with
 * trans_a; op(b) [k,n] of b[batch,k,n], or of b[batch,n,k]. */
struct culm_matmul {
    int64_t batch, m, n, k;
    bool trans_a, trans_b;
    double scale;
};

/* The products that give the gradients of a and of b, from dc and the other: of a, (dc, b), or (b,
 * dc) with trans_a; of b, (a, dc), or (dc, a) with trans_b. */
static inline struct culm_matmul culm_matmul_of_a(const struct culm_matmul *p) {
    if (p->trans_a) {
        return (struct culm_matmul){p->batch, p->k, p->m, p->n, p->trans_b, true, p->scale};
    }
    return (struct culm_matmul){p->batch, p->m, p->k, p->n, false, !p->trans_b, p->scale};
}
static inline struct culm_matmul culm_matmul_of_b(const struct culm_matmul *p) {
    if (p->trans_b) {
        return (struct culm_matmul){p->batch, p->n, p->k, p->m, true, p->trans_a, p->scale};
    }
    return (struct culm_matmul){p->batch, p->k, p->n, p->m, !p->trans_a, false, p->scale};
}

#endif
