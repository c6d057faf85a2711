/* Operators that make, move or select numbers without changing them. */
#include "onnx/ops.h"

#include <stdlib.h>
#include <string.h>

static bool same(struct culm_onnx_call *call) {
    return culm_onnx_set(call, 0, call->in[0].type, call->in[0].rank, call->in[0].dim);
}

static void copy(struct culm_onnx_call *call) {
    for (int64_t i = 0; i < call->out[0].data->elements; i++) {
        culm_onnx_put_from(call->out[0].data, i, call->in[0].data, i);
    }
}

/* Constant, given by one of several attributes. */
static bool constant(struct culm_onnx_call *call) {
    const struct culm_onnx_node *node = call->node;
    const struct culm_onnx_attribute *a = node->attributes == 1 ? node->attribute : NULL;
    int64_t count = a ? a->count : 0;
    if (!a) {
        return culm_onnx_refuse(call, "has no value");
    }
    if (a->kind == CULM_ONNX_ATTRIBUTE_TENSOR) {
        if (!a->t->data) {
            return culm_onnx_refuse(call, "a constant of %s", culm_onnx_type_name(a->t->type));
        }
        return culm_onnx_set(call, 0, a->t->type, a->t->rank, a->t->dim);
    }
    switch (a->kind) {
    case CULM_ONNX_ATTRIBUTE_FLOAT: return culm_onnx_set(call, 0, CULM_ONNX_FLOAT, 0, NULL);
    case CULM_ONNX_ATTRIBUTE_INT: return culm_onnx_set(call, 0, CULM_ONNX_INT64, 0, NULL);
    case CULM_ONNX_ATTRIBUTE_FLOATS: return culm_onnx_set(call, 0, CULM_ONNX_FLOAT, 1, &count);
    case CULM_ONNX_ATTRIBUTE_INTS: return culm_onnx_set(call, 0, CULM_ONNX_INT64, 1, &count);
    default: return culm_onnx_refuse(call, "a constant of a kind that is not read");
    }
}

static void constant_value(struct culm_onnx_call *call) {
    const struct culm_onnx_attribute *a = call->node->attribute;
    const struct culm_onnx_tensor *to = call->out[0].data;
    switch (a->kind) {
    case CULM_ONNX_ATTRIBUTE_TENSOR:
        memcpy((void *)(uintptr_t)to->data, a->t->data, to->bytes);
        break;
    case CULM_ONNX_ATTRIBUTE_FLOAT: culm_onnx_put_real(to, 0, a->f); break;
    case CULM_ONNX_ATTRIBUTE_INT: culm_onnx_put_int(to, 0, a->i); break;
    default:
        for (int32_t i = 0; i < a->count; i++) {
            if (a->kind == CULM_ONNX_ATTRIBUTE_INTS) {
                culm_onnx_put_int(to, i, a->ints[i]);
            } else {
                culm_onnx_put_real(to, i, (double)a->floats[i]);
            }
        }
    }
}

static bool filled(struct culm_onnx_call *call) {
    const struct culm_onnx_attribute *a = culm_onnx_attribute_of(call->node, "value");
    int64_t dim[CULM_ONNX_RANK_MAX];
    int count;
    if (!culm_onnx_ints(call, 0, "shape", dim, &count)) {
        return false;
    }
    if (a && a->t && (!a->t->data || a->t->elements != 1)) {
        return culm_onnx_refuse(call, "a value that is not a number");
    }
    call->out[0].type = a && a->t ? a->t->type : CULM_ONNX_FLOAT;
    return count < 0 || culm_onnx_set(call, 0, call->out[0].type, count, dim);
}

static void filled_value(struct culm_onnx_call *call) {
    const struct culm_onnx_attribute *a = culm_onnx_attribute_of(call->node, "value");
    for (int64_t i = 0; a && a->t && i < call->out[0].data->elements; i++) {
        culm_onnx_put_from(call->out[0].data, i, a->t, 0);
    }
}

/* Shape: [start, end) of the dimensions. */
static void shape_range(struct culm_onnx_call *call, int *start, int *end) {
    int rank = call->in[0].rank;
    int64_t s = culm_onnx_int(call->node, "start", 0), e = culm_onnx_int(call->node, "end", rank);
    s = s < 0 ? s + rank : s;
    e = e < 0 ? e + rank : e;
    *start = (int)(s < 0 ? 0 : s > rank ? rank : s);
    *end = (int)(e < *start ? *start : e > rank ? rank : e);
}

static bool shape(struct culm_onnx_call *call) {
    int start, end;
    shape_range(call, &start, &end);
    int64_t count = end - start;
    return culm_onnx_set(call, 0, CULM_ONNX_INT64, 1, &count);
}

static void shape_value(struct culm_onnx_call *call) {
    int start, end;
    shape_range(call, &start, &end);
    for (int i = start; i < end; i++) {
        culm_onnx_put_int(call->out[0].data, i - start, call->in[0].dim[i]);
    }
}

static bool size(struct culm_onnx_call *call) {
    return culm_onnx_set(call, 0, CULM_ONNX_INT64, 0, NULL);
}

static void size_value(struct culm_onnx_call *call) {
    culm_onnx_put_int(call->out[0].data, 0, culm_onnx_count(&call->in[0]));
}

static bool cast(struct culm_onnx_call *call) {
    int64_t to = culm_onnx_int(call->node, "to", 0);
    if (to < 0 || to > 63 || !culm_onnx_type_bytes((int)to)) {
        return culm_onnx_refuse(call, "a cast to %s", culm_onnx_type_name(to < 64 ? (int)to : -1));
    }
    return culm_onnx_set(call, 0, (int)to, call->in[0].rank, call->in[0].dim);
}

static bool cast_like(struct culm_onnx_call *call) {
    return culm_onnx_set(call, 0, call->in[1].type, call->in[0].rank, call->in[0].dim);
}

static bool reshape(struct culm_onnx_call *call) {
    int64_t dim[CULM_ONNX_RANK_MAX], known = 1, count = culm_onnx_count(&call->in[0]);
    int rank, free_dim = -1;
    bool zero_stays = culm_onnx_int(call->node, "allowzero", 0) != 0;
    if (!culm_onnx_ints(call, 1, "shape", dim, &rank)) {
        return false;
    }
    call->out[0].type = call->in[0].type;
    if (rank < 0) {
        return true;
    }
    for (int i = 0; i < rank; i++) {
        if (dim[i] == 0 && !zero_stays) {
            if (i >= call->in[0].rank) {
                return culm_onnx_refuse(call, "keeps dimension %d, which the input lacks", i);
            }
            dim[i] = call->in[0].dim[i];
        }
        if (dim[i] < -1 || (dim[i] == -1 && free_dim >= 0)) {
            return culm_onnx_refuse(call, "an impossible shape");
        }
        free_dim = dim[i] == -1 ? i : free_dim;
        if (dim[i] >= 0 && __builtin_mul_overflow(known, dim[i], &known)) {
            return culm_onnx_refuse(call, "an impossible shape");
        }
    }
    if (free_dim >= 0) {
        dim[free_dim] = known ? count / known : 0;
        known *= dim[free_dim];
    }
    if (known != count) {
        return culm_onnx_refuse(call, "%lld elements do not fill %lld", (long long)count,
                                (long long)known);
    }
    return culm_onnx_set(call, 0, call->in[0].type, rank, dim);
}

static bool flatten(struct culm_onnx_call *call) {
    int64_t dim[2] = {1, 1}, axis = culm_onnx_int(call->node, "axis", 1);
    int rank = call->in[0].rank;
    axis = axis < 0 ? axis + rank : axis;
    if (axis < 0 || axis > rank) {
        return culm_onnx_refuse(call, "axis %lld of %d dimensions", (long long)axis, rank);
    }
    for (int i = 0; i < rank; i++) {
        dim[i >= axis] *= call->in[0].dim[i];
    }
    return culm_onnx_set(call, 0, call->in[0].type, 2, dim);
}

static bool squeeze(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    int64_t dim[CULM_ONNX_RANK_MAX];
    uint32_t axes;
    bool known;
    int rank = 0;
    if (!culm_onnx_axes(call, 1, "axes", x->rank, &axes, &known)) {
        return false;
    }
    call->out[0].type = x->type;
    for (int i = 0; i < x->rank; i++) {
        bool goes = axes ? (axes >> i & 1) : x->dim[i] == 1;
        if (goes && x->dim[i] != 1) {
            return culm_onnx_refuse(call, "dimension %d is %lld, not 1", i, (long long)x->dim[i]);
        }
        if (!goes) {
            dim[rank++] = x->dim[i];
        }
    }
    return !known || culm_onnx_set(call, 0, x->type, rank, dim);
}

static bool unsqueeze(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    int64_t axes[CULM_ONNX_RANK_MAX], dim[CULM_ONNX_RANK_MAX];
    uint32_t bits = 0;
    int count, axis = 0;
    call->out[0].type = x->type;
    if (!culm_onnx_ints(call, 1, "axes", axes, &count) || count < 0) {
        return count < 0;
    }
    int rank = x->rank + count;
    if (rank > CULM_ONNX_RANK_MAX) {
        return culm_onnx_refuse(call, "more than %d dimensions", CULM_ONNX_RANK_MAX);
    }
    for (int i = 0; i < count; i++) {
        if (!culm_onnx_axis(call, axes[i], rank, &axis)) {
            return false;
        }
        if (bits >> axis & 1) {
            return culm_onnx_refuse(call, "axis %d appears twice", axis);
        }
        bits |= 1u << axis;
    }
    for (int i = 0, k = 0; i < rank; i++) {
        dim[i] = bits >> i & 1 ? 1 : x->dim[k++];
    }
    return culm_onnx_set(call, 0, x->type, rank, dim);
}

static bool order(struct culm_onnx_call *call, int *perm) {
    const struct culm_onnx_attribute *a = culm_onnx_attribute_of(call->node, "perm");
    int rank = call->in[0].rank;
    uint32_t seen = 0;
    if (a && (a->kind != CULM_ONNX_ATTRIBUTE_INTS || a->count != rank)) {
        return culm_onnx_refuse(call, "an order of %d for %d dimensions", a->count, rank);
    }
    for (int i = 0; i < rank; i++) {
        perm[i] = rank - 1 - i;
        if (a && !culm_onnx_axis(call, a->ints[i], rank, &perm[i])) {
            return false;
        }
        seen |= 1u << perm[i];
    }
    return seen == (1u << rank) - 1 || culm_onnx_refuse(call, "an order with a dimension twice");
}

static bool transpose(struct culm_onnx_call *call) {
    int perm[CULM_ONNX_RANK_MAX];
    int64_t dim[CULM_ONNX_RANK_MAX];
    if (!order(call, perm)) {
        return false;
    }
    for (int i = 0; i < call->in[0].rank; i++) {
        dim[i] = call->in[0].dim[perm[i]];
    }
    return culm_onnx_set(call, 0, call->in[0].type, call->in[0].rank, dim);
}

/* out[i...] = in[start + i . stride] */
static void gather_strided(struct culm_onnx_call *call, int64_t start, const int64_t *stride) {
    const struct culm_onnx_operand *out = &call->out[0];
    int64_t index[CULM_ONNX_RANK_MAX] = {0};
    for (int64_t i = 0; i < out->data->elements; i++) {
        int64_t at = start;
        for (int d = 0; d < out->rank; d++) {
            at += index[d] * stride[d];
        }
        culm_onnx_put_from(out->data, i, call->in[0].data, at);
        culm_onnx_step(out->rank, out->dim, index);
    }
}

static void natural_strides(const struct culm_onnx_operand *x, int64_t *stride) {
    int64_t step = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x->dim[i];
    }
}

static void transpose_value(struct culm_onnx_call *call) {
    int perm[CULM_ONNX_RANK_MAX];
    int64_t from[CULM_ONNX_RANK_MAX], stride[CULM_ONNX_RANK_MAX];
    natural_strides(&call->in[0], from);
    if (order(call, perm)) {
        for (int i = 0; i < call->in[0].rank; i++) {
            stride[i] = from[perm[i]];
        }
        gather_strided(call, 0, stride);
    }
}

static bool concat(struct culm_onnx_call *call) {
    struct culm_onnx_operand out = call->in[0];
    int axis = 0;
    if (!culm_onnx_axis(call, culm_onnx_int(call->node, "axis", 0), out.rank, &axis)) {
        return false;
    }
    for (int32_t k = 1; k < call->inputs; k++) {
        const struct culm_onnx_operand *x = &call->in[k];
        bool fits = x->there && x->rank == out.rank;
        for (int i = 0; fits && i < out.rank; i++) {
            fits = i == axis || x->dim[i] == out.dim[i];
        }
        if (!fits || __builtin_add_overflow(out.dim[axis], x->dim[axis], &out.dim[axis])) {
            return culm_onnx_refuse(call, "input %d has another shape", k);
        }
    }
    return culm_onnx_set(call, 0, out.type, out.rank, out.dim);
}

static void concat_value(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *out = &call->out[0];
    int axis = 0;
    if (!culm_onnx_axis(call, culm_onnx_int(call->node, "axis", 0), out->rank, &axis)) {
        return;
    }
    int64_t inner = 1, outer = 1, at = 0;
    for (int i = 0; i < out->rank; i++) {
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : out->dim[i];
    }
    for (int64_t o = 0; o < outer; o++) {
        for (int32_t k = 0; k < call->inputs; k++) {
            int64_t run = call->in[k].dim[axis] * inner;
            for (int64_t i = 0; i < run; i++) {
                culm_onnx_put_from(out->data, at++, call->in[k].data, o * run + i);
            }
        }
    }
}

struct slice {
    int64_t start[CULM_ONNX_RANK_MAX], step[CULM_ONNX_RANK_MAX];
    int64_t dim[CULM_ONNX_RANK_MAX];
};

/* False after a refusal. *ret_known false: it depends on unknown numbers. */
static bool slice_of(struct culm_onnx_call *call, struct slice *slice, bool *ret_known) {
    const struct culm_onnx_operand *x = &call->in[0];
    int64_t starts[CULM_ONNX_RANK_MAX], ends[CULM_ONNX_RANK_MAX], axes[CULM_ONNX_RANK_MAX],
        steps[CULM_ONNX_RANK_MAX];
    int start_count, end_count, axis_count, step_count, axis = 0;
    if (!culm_onnx_ints(call, 1, "starts", starts, &start_count) ||
        !culm_onnx_ints(call, 2, "ends", ends, &end_count) ||
        !culm_onnx_ints(call, 3, "axes", axes, &axis_count) ||
        !culm_onnx_ints(call, 4, "steps", steps, &step_count)) {
        return false;
    }
    bool axes_missing = call->inputs > 3 && call->in[3].there && axis_count < 0;
    bool steps_missing = call->inputs > 4 && call->in[4].there && step_count < 0;
    *ret_known = start_count >= 0 && end_count >= 0 && !axes_missing && !steps_missing;
    if (!*ret_known) {
        return true;
    }
    if (end_count != start_count || (axis_count >= 0 && axis_count != start_count) ||
        (step_count >= 0 && step_count != start_count)) {
        return culm_onnx_refuse(call, "starts, ends, axes and steps are not as many");
    }
    memset(slice->start, 0, sizeof slice->start);
    memcpy(slice->dim, x->dim, sizeof slice->dim);
    for (int i = 0; i < CULM_ONNX_RANK_MAX; i++) {
        slice->step[i] = 1;
    }
    for (int i = 0; i < start_count; i++) {
        if (!culm_onnx_axis(call, axis_count >= 0 ? axes[i] : i, x->rank, &axis)) {
            return false;
        }
        int64_t dim = x->dim[axis], step = step_count >= 0 ? steps[i] : 1;
        if (step == 0 || step < -((int64_t)1 << 40) || step > (int64_t)1 << 40) {
            return culm_onnx_refuse(call, "a step of %lld", (long long)step);
        }
        int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
        int64_t s = starts[i] < 0 ? (starts[i] < -dim ? -1 : starts[i] + dim) : starts[i];
        int64_t e = ends[i] < 0 ? (ends[i] < -dim ? -1 : ends[i] + dim) : ends[i];
        s = s < low ? low : s > high ? high : s;
        s = s < 0 && step > 0 ? 0 : s;
        e = e < low ? low : e > high + (step < 0) ? high + (step < 0) : e;
        int64_t length = step > 0 ? (e - s + step - 1) / step : (s - e - step - 1) / -step;
        slice->start[axis] = s;
        slice->step[axis] = step;
        slice->dim[axis] = length < 0 ? 0 : length;
    }
    return true;
}

static bool slice(struct culm_onnx_call *call) {
    struct slice s;
    bool known;
    call->out[0].type = call->in[0].type;
    return slice_of(call, &s, &known) &&
           (!known || culm_onnx_set(call, 0, call->in[0].type, call->in[0].rank, s.dim));
}

static void slice_value(struct culm_onnx_call *call) {
    struct slice s;
    bool known;
    int64_t stride[CULM_ONNX_RANK_MAX], start = 0;
    if (slice_of(call, &s, &known) && known) {
        natural_strides(&call->in[0], stride);
        for (int i = 0; i < call->in[0].rank; i++) {
            start += s.start[i] * stride[i];
            stride[i] *= s.step[i];
        }
        gather_strided(call, start, stride);
    }
}

static bool split(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    int64_t sizes[CULM_ONNX_RANK_MAX], dim[CULM_ONNX_RANK_MAX], sum = 0;
    int axis = 0, count;
    if (!culm_onnx_axis(call, culm_onnx_int(call->node, "axis", 0), x->rank, &axis) ||
        !culm_onnx_ints(call, 1, "split", sizes, &count)) {
        return false;
    }
    memcpy(dim, x->dim, sizeof dim);
    if (count < 0 && call->inputs > 1 && call->in[1].there) {
        return true;
    }
    if (count >= 0 && count != call->outputs) {
        return culm_onnx_refuse(call, "%d sizes for %d outputs", count, call->outputs);
    }
    int64_t part = (x->dim[axis] + call->outputs - 1) / call->outputs;
    for (int32_t k = 0; k < call->outputs; k++) {
        int64_t left = x->dim[axis] - sum;
        dim[axis] = count >= 0 ? sizes[k] : part < left ? part : left;
        if (dim[axis] < 0 || dim[axis] > left) {
            return culm_onnx_refuse(call, "the parts are larger than the whole");
        }
        sum += dim[axis];
        if (!culm_onnx_set(call, k, x->type, x->rank, dim)) {
            return false;
        }
    }
    return sum == x->dim[axis] || culm_onnx_refuse(call, "the parts are smaller than the whole");
}

static bool expand(struct culm_onnx_call *call) {
    struct culm_onnx_operand target = {.there = true};
    int rank = call->in[0].rank;
    int64_t dim[CULM_ONNX_RANK_MAX];
    call->out[0].type = call->in[0].type;
    memcpy(dim, call->in[0].dim, sizeof dim);
    if (!culm_onnx_ints(call, 1, "shape", target.dim, &target.rank) || target.rank < 0) {
        return target.rank < 0;
    }
    return culm_onnx_spread(call, &rank, dim, &target) &&
           culm_onnx_set(call, 0, call->in[0].type, rank, dim);
}

static void expand_value(struct culm_onnx_call *call) {
    int64_t stride[CULM_ONNX_RANK_MAX];
    culm_onnx_strides(&call->in[0], call->out[0].rank, stride);
    gather_strided(call, 0, stride);
}

static bool tile(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    int64_t times[CULM_ONNX_RANK_MAX], dim[CULM_ONNX_RANK_MAX];
    int count;
    call->out[0].type = x->type;
    if (!culm_onnx_ints(call, 1, "repeats", times, &count) || count < 0) {
        return count < 0;
    }
    if (count != x->rank) {
        return culm_onnx_refuse(call, "%d repeats for %d dimensions", count, x->rank);
    }
    for (int i = 0; i < count; i++) {
        if (times[i] < 0 || __builtin_mul_overflow(x->dim[i], times[i], &dim[i])) {
            return culm_onnx_refuse(call, "repeats that do not fit");
        }
    }
    return culm_onnx_set(call, 0, x->type, x->rank, dim);
}

static void tile_value(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0], *out = &call->out[0];
    int64_t index[CULM_ONNX_RANK_MAX] = {0}, stride[CULM_ONNX_RANK_MAX];
    natural_strides(x, stride);
    for (int64_t i = 0; i < out->data->elements; i++) {
        int64_t at = 0;
        for (int d = 0; d < x->rank; d++) {
            at += index[d] % x->dim[d] * stride[d];
        }
        culm_onnx_put_from(out->data, i, x->data, at);
        culm_onnx_step(out->rank, out->dim, index);
    }
}

const struct culm_onnx_op culm_onnx_ops_shape[] = {
    {"Constant", 0, constant, constant_value},
    {"ConstantOfShape", 1, filled, filled_value},
    {"Shape", 1, shape, shape_value},
    {"Size", 1, size, size_value},
    {"Identity", 1, same, copy},
    {"Cast", 1, cast, copy},
    {"CastLike", 2, cast_like, copy},
    {"Reshape", 1, reshape, copy},
    {"Flatten", 1, flatten, copy},
    {"Squeeze", 1, squeeze, copy},
    {"Unsqueeze", 1, unsqueeze, copy},
    {"Transpose", 1, transpose, transpose_value},
    {"Concat", 1, concat, concat_value},
    {"Slice", 1, slice, slice_value},
    {"Split", 1, split, NULL},
    {"Expand", 1, expand, expand_value},
    {"Tile", 2, tile, tile_value},
    {NULL, 0, NULL, NULL},
};
