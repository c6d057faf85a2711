/* Operators that select numbers by index. An index out of range selects zero. */
#include "onnx/ops.h"

static void natural_strides(const struct culm_onnx_operand *x, int64_t *stride) {
    int64_t step = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x->dim[i];
    }
}

static bool gather(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0], *index = &call->in[1];
    int64_t dim[2 * CULM_ONNX_RANK_MAX];
    int axis = 0, rank = 0;
    if (!culm_onnx_axis(call, culm_onnx_int(call->node, "axis", 0), x->rank, &axis)) {
        return false;
    }
    for (int i = 0; i < x->rank; i++) {
        if (i != axis) {
            dim[rank++] = x->dim[i];
        }
        for (int k = 0; i == axis && k < index->rank; k++) {
            dim[rank++] = index->dim[k];
        }
    }
    return culm_onnx_set(call, 0, x->type, rank, dim);
}

static void gather_value(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0], *index = &call->in[1];
    int axis = 0;
    int64_t inner = 1, outer = 1, at = 0;
    if (!culm_onnx_axis(call, culm_onnx_int(call->node, "axis", 0), x->rank, &axis)) {
        return;
    }
    for (int i = 0; i < x->rank; i++) {
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : x->dim[i];
    }
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t k = 0; k < index->data->elements; k++) {
            int64_t row = culm_onnx_get_int(index->data, k);
            row = row < 0 ? row + x->dim[axis] : row;
            for (int64_t i = 0; i < inner; i++, at++) {
                if (row >= 0 && row < x->dim[axis]) { /* else zeros */
                    culm_onnx_put_from(call->out[0].data, at, x->data,
                                       (o * x->dim[axis] + row) * inner + i);
                }
            }
        }
    }
}

/* GatherND: the indices' last dimension counts dimensions of x, after the batch dimensions. */
static bool gather_nd(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0], *index = &call->in[1];
    int64_t dim[2 * CULM_ONNX_RANK_MAX], batch = culm_onnx_int(call->node, "batch_dims", 0);
    int rank = 0;
    if (index->rank < 1 || batch < 0 || batch >= index->rank || batch > x->rank ||
        index->dim[index->rank - 1] < 1 || index->dim[index->rank - 1] > x->rank - batch) {
        return culm_onnx_refuse(call, "indices that do not fit");
    }
    for (int i = 0; i + 1 < index->rank; i++) {
        if (i < batch && index->dim[i] != x->dim[i]) {
            return culm_onnx_refuse(call, "indices that do not fit");
        }
        dim[rank++] = index->dim[i];
    }
    for (int i = (int)(batch + index->dim[index->rank - 1]); i < x->rank; i++) {
        dim[rank++] = x->dim[i];
    }
    return culm_onnx_set(call, 0, x->type, rank, dim);
}

static void gather_nd_value(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0], *index = &call->in[1];
    int batch = (int)culm_onnx_int(call->node, "batch_dims", 0);
    int64_t depth = index->dim[index->rank - 1], inner = 1, samples = 1, at = 0;
    for (int i = 0; i < x->rank; i++) {
        inner *= i >= batch + depth ? x->dim[i] : 1;
        samples *= i < batch ? x->dim[i] : 1;
    }
    int64_t picks = index->data->elements / depth, each = samples ? picks / samples : 0;
    for (int64_t k = 0; k < picks; k++) {
        int64_t row = each ? k / each : 0;
        bool inside = true;
        for (int64_t d = 0; d < depth; d++) {
            int64_t i = culm_onnx_get_int(index->data, k * depth + d);
            i = i < 0 ? i + x->dim[batch + d] : i;
            inside &= i >= 0 && i < x->dim[batch + d];
            row = inside ? row * x->dim[batch + d] + i : 0;
        }
        for (int64_t i = 0; i < inner; i++, at++) {
            if (inside) {
                culm_onnx_put_from(call->out[0].data, at, x->data, row * inner + i);
            }
        }
    }
}

static bool gather_elements(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0], *index = &call->in[1];
    int axis = 0;
    if (!culm_onnx_axis(call, culm_onnx_int(call->node, "axis", 0), x->rank, &axis)) {
        return false;
    }
    for (int i = 0; i < x->rank; i++) {
        if (index->rank != x->rank || (i != axis && index->dim[i] > x->dim[i])) {
            return culm_onnx_refuse(call, "indices that do not fit");
        }
    }
    return culm_onnx_set(call, 0, x->type, index->rank, index->dim);
}

static void gather_elements_value(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0], *out = &call->out[0];
    int64_t index[CULM_ONNX_RANK_MAX] = {0}, stride[CULM_ONNX_RANK_MAX];
    int axis = 0;
    if (!culm_onnx_axis(call, culm_onnx_int(call->node, "axis", 0), x->rank, &axis)) {
        return;
    }
    natural_strides(x, stride);
    for (int64_t i = 0; i < out->data->elements; i++) {
        int64_t row = culm_onnx_get_int(call->in[1].data, i), at = 0;
        row = row < 0 ? row + x->dim[axis] : row;
        for (int d = 0; d < x->rank; d++) {
            at += (d == axis ? row : index[d]) * stride[d];
        }
        if (row >= 0 && row < x->dim[axis]) { /* else zero */
            culm_onnx_put_from(out->data, i, x->data, at);
        }
        culm_onnx_step(out->rank, out->dim, index);
    }
}

const struct culm_onnx_op culm_onnx_ops_gather[] = {
    {"Gather", 2, gather, gather_value},
    {"GatherND", 2, gather_nd, gather_nd_value},
    {"GatherElements", 2, gather_elements, gather_elements_value},
    {NULL, 0, NULL, NULL},
};
