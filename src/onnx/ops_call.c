/* What the tables of operators have in common. See ops.h. */
#include "onnx/ops.h"

#include <stdio.h>
#include <string.h>

bool culm_onnx_refuse(struct culm_onnx_call *call, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    culm_onnx_node_error(call->graph, call->node, CULM_ERR_FORMAT, call->error, "%s", text);
    return false;
}

bool culm_onnx_set(struct culm_onnx_call *call, int32_t output, int type, int rank,
                   const int64_t *dim) {
    int64_t count = 1;
    if (output >= call->outputs) {
        return true;
    }
    if (rank > CULM_ONNX_RANK_MAX) {
        return culm_onnx_refuse(call, "more than %d dimensions", CULM_ONNX_RANK_MAX);
    }
    struct culm_onnx_operand *out = &call->out[output];
    out->type = type;
    out->rank = rank;
    for (int i = 0; i < rank; i++) {
        out->dim[i] = dim[i];
        if (dim[i] < 0 || __builtin_mul_overflow(count, dim[i] ? dim[i] : 1, &count) ||
            count > (int64_t)1 << 48) {
            return culm_onnx_refuse(call, "output of an impossible size");
        }
    }
    return true;
}

int64_t culm_onnx_count(const struct culm_onnx_operand *operand) {
    int64_t count = 1;
    for (int i = 0; i < operand->rank; i++) {
        count *= operand->dim[i];
    }
    return count;
}

bool culm_onnx_axis(struct culm_onnx_call *call, int64_t axis, int rank, int *ret_axis) {
    if (axis < -rank || axis >= rank) {
        return culm_onnx_refuse(call, "axis %lld of %d dimensions", (long long)axis, rank);
    }
    *ret_axis = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

bool culm_onnx_ints(struct culm_onnx_call *call, int32_t input, const char *attribute,
                    int64_t ret_ints[CULM_ONNX_RANK_MAX], int *ret_count) {
    const struct culm_onnx_attribute *a = culm_onnx_list(call->node, attribute);
    *ret_count = -1;
    if (input >= 0 && input < call->inputs && call->in[input].there) {
        const struct culm_onnx_tensor *data = call->in[input].data;
        if (!data) {
            return true;
        }
        if (data->elements > CULM_ONNX_RANK_MAX) {
            return culm_onnx_refuse(call, "'%s' has more than %d numbers", attribute,
                                    CULM_ONNX_RANK_MAX);
        }
        for (*ret_count = 0; *ret_count < data->elements; ++*ret_count) {
            ret_ints[*ret_count] = culm_onnx_get_int(data, *ret_count);
        }
    } else if (a) {
        if (a->count > CULM_ONNX_RANK_MAX) {
            return culm_onnx_refuse(call, "'%s' has more than %d numbers", attribute,
                                    CULM_ONNX_RANK_MAX);
        }
        for (*ret_count = 0; *ret_count < a->count; ++*ret_count) {
            ret_ints[*ret_count] = a->ints[*ret_count];
        }
    }
    return true;
}

bool culm_onnx_axes(struct culm_onnx_call *call, int32_t input, const char *attribute, int rank,
                    uint32_t *ret_axes, bool *ret_known) {
    int64_t axes[CULM_ONNX_RANK_MAX];
    int count, axis = 0;
    *ret_axes = 0;
    *ret_known = true;
    if (!culm_onnx_ints(call, input, attribute, axes, &count)) {
        return false;
    }
    if (count < 0 && input >= 0 && input < call->inputs && call->in[input].there) {
        *ret_known = false;
    }
    for (int i = 0; i < count; i++) {
        if (!culm_onnx_axis(call, axes[i], rank, &axis)) {
            return false;
        }
        *ret_axes |= 1u << axis;
    }
    return true;
}

bool culm_onnx_spread(struct culm_onnx_call *call, int *rank, int64_t *dim,
                      const struct culm_onnx_operand *other) {
    int more = other->rank > *rank ? other->rank : *rank;
    int64_t result[CULM_ONNX_RANK_MAX];
    for (int i = 0; i < more; i++) {
        int64_t a = i < *rank ? dim[*rank - 1 - i] : 1;
        int64_t b = i < other->rank ? other->dim[other->rank - 1 - i] : 1;
        if (a != b && a != 1 && b != 1) {
            return culm_onnx_refuse(call, "dimensions %lld and %lld do not go together",
                                    (long long)a, (long long)b);
        }
        result[more - 1 - i] = a == 1 ? b : a;
    }
    memcpy(dim, result, (size_t)more * sizeof *dim);
    *rank = more;
    return true;
}

void culm_onnx_strides(const struct culm_onnx_operand *operand, int rank, int64_t *ret_stride) {
    int64_t stride = 1;
    for (int i = 0; i < rank; i++) {
        int64_t dim = i < operand->rank ? operand->dim[operand->rank - 1 - i] : 1;
        ret_stride[rank - 1 - i] = dim == 1 ? 0 : stride;
        stride *= dim;
    }
}

bool culm_onnx_step(int rank, const int64_t *dim, int64_t *index) {
    for (int i = rank - 1; i >= 0; i--) {
        if (++index[i] < dim[i]) {
            return true;
        }
        index[i] = 0;
    }
    return false;
}
