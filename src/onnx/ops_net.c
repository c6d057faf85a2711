/* Operators of networks: shapes only. */
#include "onnx/ops.h"

#include <string.h>

static bool alike(struct culm_onnx_call *call) {
    return culm_onnx_set(call, 0, call->in[0].type, call->in[0].rank, call->in[0].dim);
}

/* Dropout. Nothing here uses the mask, even if the file asks for it. */
static bool dropout(struct culm_onnx_call *call) {
    return alike(call) && culm_onnx_set(call, 1, CULM_ONNX_BOOL, call->in[0].rank, call->in[0].dim);
}

static bool batchnorm(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    for (int i = 1; i < 5; i++) {
        if (!call->in[i].there || x->rank < 2 || call->in[i].rank != 1 ||
            call->in[i].dim[0] != x->dim[1]) {
            return culm_onnx_refuse(call, "input %d is not one number a channel", i);
        }
    }
    for (int32_t i = 1; i < call->outputs; i++) {
        culm_onnx_set(call, i, x->type, 1, &x->dim[1]);
    }
    return alike(call);
}

/* A window over dimensions 2.. of an image: kernel, stride, padding, dilation. */
static bool window(struct culm_onnx_call *call, const int64_t *given_kernel, bool ceil_mode,
                   int64_t *dim) {
    const struct culm_onnx_operand *x = &call->in[0];
    const char *auto_pad = culm_onnx_string(call->node, "auto_pad", "NOTSET");
    int64_t kernel[CULM_ONNX_RANK_MAX], stride[CULM_ONNX_RANK_MAX], pad[CULM_ONNX_RANK_MAX],
        dilation[CULM_ONNX_RANK_MAX];
    int kernels, strides, pads, dilations, n = x->rank - 2;
    if (n < 1 || n > CULM_ONNX_RANK_MAX / 2) {
        return culm_onnx_refuse(call, "an input of %d dimensions", x->rank);
    }
    if (!culm_onnx_ints(call, -1, "kernel_shape", kernel, &kernels) ||
        !culm_onnx_ints(call, -1, "strides", stride, &strides) ||
        !culm_onnx_ints(call, -1, "pads", pad, &pads) ||
        !culm_onnx_ints(call, -1, "dilations", dilation, &dilations)) {
        return false;
    }
    if (kernels < 0 && given_kernel) {
        memcpy(kernel, given_kernel, (size_t)n * sizeof *kernel);
        kernels = n;
    }
    if (kernels != n || (strides >= 0 && strides != n) || (pads >= 0 && pads != 2 * n) ||
        (dilations >= 0 && dilations != n)) {
        return culm_onnx_refuse(call, "kernel, strides, pads or dilations of another rank");
    }
    for (int i = 0; i < n; i++) {
        int64_t s = strides >= 0 ? stride[i] : 1, d = dilations >= 0 ? dilation[i] : 1;
        int64_t before = pads >= 0 ? pad[i] : 0, after = pads >= 0 ? pad[n + i] : 0;
        int64_t most = (int64_t)1 << 20, in = x->dim[2 + i];
        if (kernel[i] < 1 || kernel[i] > most || s < 1 || s > most || d < 1 || d > most ||
            before < 0 || before > most || after < 0 || after > most ||
            (given_kernel && kernel[i] != given_kernel[i])) {
            return culm_onnx_refuse(call, "an impossible kernel, stride, pad or dilation");
        }
        if (strncmp(auto_pad, "SAME", 4) == 0) {
            dim[2 + i] = (in + s - 1) / s;
            continue;
        }
        int64_t room = in + before + after - ((kernel[i] - 1) * d + 1);
        if (room < 0) {
            return culm_onnx_refuse(call, "the kernel is larger than the image");
        }
        dim[2 + i] = (room + (ceil_mode ? s - 1 : 0)) / s + 1;
        if (ceil_mode && (dim[2 + i] - 1) * s >= in + before) {
            dim[2 + i]--; /* a window must begin inside */
        }
    }
    return true;
}

static bool conv(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0], *w = &call->in[1];
    int64_t dim[CULM_ONNX_RANK_MAX], groups = culm_onnx_int(call->node, "group", 1);
    if (x->rank < 3 || w->rank != x->rank || groups < 1 || groups > x->dim[1] ||
        x->dim[1] % groups || w->dim[1] != x->dim[1] / groups || w->dim[0] % groups) {
        return culm_onnx_refuse(call, "image and weight do not go together");
    }
    dim[0] = x->dim[0];
    dim[1] = w->dim[0];
    return window(call, w->dim + 2, false, dim) && culm_onnx_set(call, 0, x->type, x->rank, dim);
}

static bool pool(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    int64_t dim[CULM_ONNX_RANK_MAX] = {x->dim[0], x->dim[1]};
    return window(call, NULL, culm_onnx_int(call->node, "ceil_mode", 0) != 0, dim) &&
           culm_onnx_set(call, 1, CULM_ONNX_INT64, x->rank, dim) &&
           culm_onnx_set(call, 0, x->type, x->rank, dim);
}

static bool global_pool(struct culm_onnx_call *call) {
    struct culm_onnx_operand x = call->in[0];
    for (int i = 2; i < x.rank; i++) {
        x.dim[i] = 1;
    }
    return culm_onnx_set(call, 0, x.type, x.rank, x.dim);
}

static bool matmul(struct culm_onnx_call *call) {
    struct culm_onnx_operand a = call->in[0], b = call->in[1];
    int64_t dim[CULM_ONNX_RANK_MAX];
    if (a.rank < 1 || b.rank < 1 || a.dim[a.rank - 1] != b.dim[b.rank > 1 ? b.rank - 2 : 0]) {
        return culm_onnx_refuse(call, "the inner dimensions differ");
    }
    int64_t rows = a.rank > 1 ? a.dim[a.rank - 2] : 0, columns = b.rank > 1 ? b.dim[b.rank - 1] : 0;
    bool has_rows = a.rank > 1, has_columns = b.rank > 1;
    int rank = has_rows ? a.rank - 2 : 0;
    b.rank = has_columns ? b.rank - 2 : 0;
    memcpy(dim, a.dim, sizeof dim);
    if (!culm_onnx_spread(call, &rank, dim, &b) || rank > CULM_ONNX_RANK_MAX - 2) {
        return false;
    }
    if (has_rows) {
        dim[rank++] = rows;
    }
    if (has_columns) {
        dim[rank++] = columns;
    }
    return culm_onnx_set(call, 0, call->in[0].type, rank, dim);
}

static bool gemm(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *a = &call->in[0], *b = &call->in[1];
    bool ta = culm_onnx_int(call->node, "transA", 0) != 0;
    bool tb = culm_onnx_int(call->node, "transB", 0) != 0;
    if (a->rank != 2 || b->rank != 2 || a->dim[!ta] != b->dim[tb]) {
        return culm_onnx_refuse(call, "the inner dimensions differ");
    }
    int64_t dim[2] = {a->dim[ta], b->dim[!tb]};
    return culm_onnx_set(call, 0, a->type, 2, dim);
}

static bool softmax(struct culm_onnx_call *call) {
    int axis = 0;
    int64_t wanted = culm_onnx_int(call->node, "axis", call->graph->opset < 13 ? 1 : -1);
    return culm_onnx_axis(call, wanted, call->in[0].rank, &axis) && alike(call);
}

static bool layernorm(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    int64_t dim[CULM_ONNX_RANK_MAX];
    int axis = 0;
    if (!culm_onnx_axis(call, culm_onnx_int(call->node, "axis", -1), x->rank, &axis)) {
        return false;
    }
    for (int i = 0; i < x->rank; i++) {
        dim[i] = i < axis ? x->dim[i] : 1;
    }
    return culm_onnx_set(call, 1, CULM_ONNX_FLOAT, x->rank, dim) &&
           culm_onnx_set(call, 2, CULM_ONNX_FLOAT, x->rank, dim) && alike(call);
}

static bool pad(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    const struct culm_onnx_tensor *t = call->inputs > 1 ? call->in[1].data : NULL;
    /* as build_node.c takes them: from an input or, in older files, from the attribute */
    const struct culm_onnx_attribute *a =
        call->inputs > 1 && call->in[1].there ? NULL : culm_onnx_list(call->node, "pads");
    int64_t dim[CULM_ONNX_RANK_MAX];
    int64_t count = t ? t->elements : a ? a->count : -1;
    call->out[0].type = x->type;
    if (count < 0) {
        return true;
    }
    if (count != 2 * x->rank) {
        return culm_onnx_refuse(call, "%lld pads for %d dimensions", (long long)count, x->rank);
    }
    for (int i = 0; i < x->rank; i++) {
        int64_t before = t ? culm_onnx_get_int(t, i) : a->ints[i];
        int64_t after = t ? culm_onnx_get_int(t, x->rank + i) : a->ints[x->rank + i];
        int64_t most = (int64_t)1 << 30;
        if (before < -most || before > most || after < -most || after > most) {
            return culm_onnx_refuse(call, "an impossible pad");
        }
        dim[i] = x->dim[i] + before + after;
    }
    return culm_onnx_set(call, 0, x->type, x->rank, dim);
}

/* Resize: by sizes, or by scales. */
static bool resize(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    const struct culm_onnx_tensor *scales = call->inputs > 2 ? call->in[2].data : NULL;
    const struct culm_onnx_tensor *sizes = call->inputs > 3 ? call->in[3].data : NULL;
    int64_t dim[CULM_ONNX_RANK_MAX];
    call->out[0].type = x->type;
    if (sizes && sizes->elements == x->rank) {
        for (int i = 0; i < x->rank; i++) {
            dim[i] = culm_onnx_get_int(sizes, i);
        }
    } else if (scales && scales->elements == x->rank) {
        for (int i = 0; i < x->rank; i++) {
            double size = (double)x->dim[i] * culm_onnx_get_real(scales, i);
            dim[i] = size >= 0 && size < 1e12 ? (int64_t)size : -1;
        }
    } else {
        return true;
    }
    return culm_onnx_set(call, 0, x->type, x->rank, dim);
}

/* Attention of opset 23: q, k, v [B,H,T,D], or [B,T,C] with q_num_heads. */
static bool attention(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *q = &call->in[0], *v = &call->in[2];
    int64_t dim[CULM_ONNX_RANK_MAX];
    if (!v->there || q->rank < 3 || q->rank > 4 || v->rank != q->rank) {
        return culm_onnx_refuse(call, "q, k and v do not go together");
    }
    memcpy(dim, q->dim, sizeof dim);
    dim[q->rank - 1] = v->dim[q->rank - 1];
    return culm_onnx_set(call, 0, q->type, q->rank, dim);
}

const struct culm_onnx_op culm_onnx_ops_net[] = {
    {"Relu", 1, alike, NULL},
    {"LeakyRelu", 1, alike, NULL},
    {"Elu", 1, alike, NULL},
    {"Clip", 1, alike, NULL},
    {"Gelu", 1, alike, NULL},
    {"RandomUniformLike", 1, alike, NULL},
    {"HardSigmoid", 1, alike, NULL},
    {"HardSwish", 1, alike, NULL},
    {"Dropout", 1, dropout, NULL},
    {"BatchNormalization", 5, batchnorm, NULL},
    {"Conv", 2, conv, NULL},
    {"MaxPool", 1, pool, NULL},
    {"AveragePool", 1, pool, NULL},
    {"GlobalAveragePool", 1, global_pool, NULL},
    {"GlobalMaxPool", 1, global_pool, NULL},
    {"MatMul", 2, matmul, NULL},
    {"Gemm", 2, gemm, NULL},
    {"Softmax", 1, softmax, NULL},
    {"LogSoftmax", 1, softmax, NULL},
    {"LayerNormalization", 2, layernorm, NULL},
    {"Pad", 1, pad, NULL},
    {"Resize", 1, resize, NULL},
    {"Attention", 3, attention, NULL},
    {NULL, 0, NULL, NULL},
};
