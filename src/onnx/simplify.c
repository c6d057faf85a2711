/*
 * Removes what does nothing, and gives a single form to what can be written in several: Reshape,
 * Flatten, Squeeze and Unsqueeze become reshapes; Split, Slice and Gather of one index become
 * slices; Dropout becomes ours or disappears.
 */
#include "onnx/ops.h"
#include "onnx/pass.h"
#include "onnx/view.h"

#include <math.h>
#include <string.h>

static bool is_reshape(const struct culm_onnx_node *node) {
    return culm_onnx_is(node, "Reshape") || culm_onnx_is(node, "Flatten") ||
           culm_onnx_is(node, "Squeeze") || culm_onnx_is(node, "Unsqueeze") ||
           culm_onnx_is_ours(node, "reshape");
}

/* The same elements in another shape; reshapes in a row become one. */
static bool reshape(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t x = culm_onnx_input(graph, node, 0), y = node->output[0];
    const struct culm_onnx_node *maker = culm_onnx_maker(graph, x);
    if (is_reshape(maker) && culm_onnx_input(graph, maker, 0) >= 0) {
        x = culm_onnx_input(graph, maker, 0);
    }
    if (culm_onnx_same_shape(graph, x, y)) {
        culm_onnx_alias(graph, y, x);
        return true;
    }
    return culm_onnx_become(graph, index, "reshape", &x, 1);
}

/* Transposes in a row become one; one that only moves dimensions of 1 becomes a reshape. */
static bool transpose(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t x = culm_onnx_input(graph, node, 0), y = node->output[0];
    const struct culm_onnx_node *maker = culm_onnx_maker(graph, x);
    int perm[CULM_ONNX_RANK_MAX], inner[CULM_ONNX_RANK_MAX];
    if (!culm_onnx_order(graph, node, perm)) {
        return true;
    }
    int rank = graph->value[x].rank;
    if (culm_onnx_order(graph, maker, inner)) {
        for (int i = 0; i < rank; i++) {
            perm[i] = inner[perm[i]];
        }
        x = culm_onnx_input(graph, maker, 0);
        if (!culm_onnx_become_transpose(graph, index, x, rank, perm)) {
            return false;
        }
    }
    int last = -1;
    bool still = true, same = true;
    for (int i = 0; i < rank; i++) {
        same &= perm[i] == i;
        if (graph->value[x].dim[perm[i]] != 1) {
            still &= perm[i] > last;
            last = perm[i];
        }
    }
    if (same) {
        culm_onnx_alias(graph, y, x);
        return true;
    }
    return !still || culm_onnx_become(graph, index, "reshape", &x, 1);
}

/* The atoms of a view, in the order in which they are in the source. False: too many. */
static bool lay_out(const struct culm_onnx_view *view, struct culm_onnx_atom *ret_all,
                    struct culm_onnx_atom *ret_sorted, int *ret_count) {
    int count = 0;
    for (int i = 0; i < view->rank; i++) {
        for (int k = 0; k < view->dim[i].count; k++) {
            if (count == CULM_ONNX_RANK_MAX) {
                return false;
            }
            ret_all[count++] = view->dim[i].atom[k];
        }
    }
    for (int i = 0; i < count; i++) { /* insertion sort */
        int at = i;
        for (; at > 0 && (ret_sorted[at - 1].source_dim > ret_all[i].source_dim ||
                          (ret_sorted[at - 1].source_dim == ret_all[i].source_dim &&
                           ret_sorted[at - 1].stride < ret_all[i].stride));
             at--) {
            ret_sorted[at] = ret_sorted[at - 1];
        }
        ret_sorted[at] = ret_all[i];
    }
    *ret_count = count;
    return true;
}

/* Replaces node `index` by up to three: a reshape to `apart` (NULL: none), a transpose, and a
 * reshape from `ordered` (NULL: none) to the node's shape. */
static bool turn(struct culm_onnx_graph *graph, int32_t index, int32_t x, int count,
                 const int64_t *apart, const int *perm, const int64_t *ordered) {
    if (apart) {
        x = culm_onnx_insert(graph, index, "reshape", &x, 1, NULL, count, apart);
    }
    if (!ordered) {
        return x >= 0 && culm_onnx_become_transpose(graph, index, x, count, perm);
    }
    if (x < 0) {
        return false;
    }
    int32_t turned = culm_onnx_insert(graph, index, "reshape", &x, 1, NULL, count, ordered);
    return turned >= 0 &&
           culm_onnx_become_transpose(graph, graph->value[turned].node, x, count, perm) &&
           culm_onnx_become(graph, index, "reshape", &turned, 1);
}

/* Reshapes and transposes in a row, by as few as possible: split the source's dimensions, reorder,
 * join. */
static bool shorten(struct culm_onnx_graph *graph, int32_t index) {
    struct culm_onnx_view view;
    int32_t y = graph->node[index].output[0];
    int steps = culm_onnx_view_of(graph, y, 0, &view), count = 0;
    struct culm_onnx_atom all[CULM_ONNX_RANK_MAX], sorted[CULM_ONNX_RANK_MAX];
    const struct culm_onnx_value source = graph->value[view.source];
    if (steps < 2 || !lay_out(&view, all, sorted, &count)) {
        return true;
    }
    int perm[CULM_ONNX_RANK_MAX];
    int64_t apart[CULM_ONNX_RANK_MAX], ordered[CULM_ONNX_RANK_MAX];
    bool same = true;
    for (int i = 0; i < count; i++) {
        apart[i] = sorted[i].size;
        ordered[i] = all[i].size;
        for (int k = 0; k < count; k++) {
            if (sorted[k].source_dim == all[i].source_dim && sorted[k].stride == all[i].stride) {
                perm[i] = k;
            }
        }
        same &= perm[i] == i;
    }
    int32_t x = view.source;
    if (same) {
        if (culm_onnx_same_shape(graph, x, y)) {
            culm_onnx_alias(graph, y, x);
            return true;
        }
        return culm_onnx_become(graph, index, "reshape", &x, 1);
    }
    bool take_apart =
        source.rank != count || memcmp(source.dim, apart, (size_t)count * sizeof *apart) != 0;
    const struct culm_onnx_value *target = &graph->value[y];
    bool join =
        target->rank != count || memcmp(target->dim, ordered, (size_t)count * sizeof *ordered) != 0;
    /* from [N,C,H,W] to rows of channels or back: as a transpose, which images do without */
    bool rows = count == 4 && perm[0] == 0 &&
                ((perm[1] == 2 && perm[2] == 3 && !take_apart) || (perm[1] == 3 && !join));
    const struct culm_onnx_node *node = &graph->node[index];
    bool settled = culm_onnx_is_ours(node, "reshape") == join; /* the result has the right shape */
    if (1 + take_apart + join > steps || (1 + take_apart + join == steps && (!rows || settled))) {
        return true;
    }
    return turn(graph, index, x, count, take_apart ? apart : NULL, perm, join ? ordered : NULL);
}

/* Drops in training unless the file says otherwise. For attention's dropout PyTorch's exporters
 * omit the training mode, and ONNX takes its absence for no. */
static bool dropout(struct culm_onnx_graph *graph, int32_t index, bool inference) {
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t x = culm_onnx_input(graph, node, 0), y = node->output[0];
    double ratio = culm_onnx_float(node, "ratio", 0.5), training = 1;
    if (node->outputs > 1 && node->output[1] >= 0 && graph->value[node->output[1]].uses > 0) {
        return true; /* the mask is used: build.c will refuse it */
    }
    culm_onnx_scalar(graph, culm_onnx_input(graph, node, 1), &ratio);
    culm_onnx_scalar(graph, culm_onnx_input(graph, node, 2), &training);
    if (inference || training == 0 || ratio <= 0) {
        culm_onnx_alias(graph, y, x);
        return true;
    }
    if (!(ratio < 1)) {
        return true;
    }
    if (!culm_onnx_become(graph, index, "dropout", &x, 1)) {
        return false;
    }
    graph->node[index].culm.dropout = ratio;
    return true;
}

/* x[start : start + length] along one axis; x itself if that is everything. */
static bool slice_to(struct culm_onnx_graph *graph, int32_t index, int32_t x, int axis,
                     int64_t start) {
    int32_t y = graph->node[index].output[0];
    int64_t length = graph->value[y].dim[axis];
    if (length == graph->value[x].dim[axis]) {
        culm_onnx_alias(graph, y, x);
        return true;
    }
    if (!culm_onnx_become(graph, index, "slice", &x, 1)) {
        return false;
    }
    graph->node[index].culm.axis = axis;
    graph->node[index].culm.start = start;
    graph->node[index].culm.length = length;
    return true;
}

static const struct culm_onnx_tensor *numbers(const struct culm_onnx_graph *graph,
                                              const struct culm_onnx_node *node, int32_t i) {
    int32_t value = culm_onnx_input(graph, node, i);
    return value < 0 || !graph->value[value].data || !graph->value[value].data->data
               ? NULL
               : graph->value[value].data;
}

/* Slice with steps of 1: one axis after the other. */
static bool slice(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t x = culm_onnx_input(graph, node, 0), y = node->output[0];
    const struct culm_onnx_tensor *starts = numbers(graph, node, 1),
                                  *axes = numbers(graph, node, 3), *steps = numbers(graph, node, 4);
    const struct culm_onnx_attribute *old = culm_onnx_list(node, "starts"),
                                     *old_axes = culm_onnx_list(node, "axes");
    int32_t count = starts ? (int32_t)starts->elements : old ? old->count : 0;
    int rank = graph->value[y].rank;
    if (culm_onnx_same_shape(graph, x, y)) {
        culm_onnx_alias(graph, y, x);
        return true;
    }
    for (int32_t i = 0; steps && i < steps->elements; i++) {
        if (culm_onnx_get_int(steps, i) != 1) {
            return true;
        }
    }
    int changed = 0;
    for (int i = 0; i < rank; i++) {
        changed += graph->value[x].dim[i] != graph->value[y].dim[i];
    }
    for (int32_t i = 0; i < count; i++) {
        int64_t start = starts ? culm_onnx_get_int(starts, i) : old->ints[i];
        int64_t axis = axes ? culm_onnx_get_int(axes, i) : old_axes ? old_axes->ints[i] : i;
        axis = axis < 0 ? axis + rank : axis;
        int64_t dim = graph->value[x].dim[axis], length = graph->value[y].dim[axis];
        if (dim == length) {
            continue;
        }
        start = start < 0 ? start + dim : start;
        start = start < 0 ? 0 : start;
        if (start + length > dim) { /* nothing would be left */
            return true;
        }
        if (--changed == 0) {
            return slice_to(graph, index, x, (int)axis, start);
        }
        struct culm_attributes part = {.axis = axis, .start = start, .length = length};
        int64_t shape[CULM_ONNX_RANK_MAX];
        memcpy(shape, graph->value[x].dim, sizeof shape);
        shape[axis] = length;
        x = culm_onnx_insert(graph, index, "slice", &x, 1, &part, rank, shape);
        if (x < 0) {
            return false;
        }
    }
    return true;
}

static bool split(struct culm_onnx_graph *graph, int32_t index) {
    int32_t x = culm_onnx_input(graph, &graph->node[index], 0);
    int rank = graph->value[x].rank;
    int64_t axis = culm_onnx_int(&graph->node[index], "axis", 0), start = 0;
    axis = axis < 0 ? axis + rank : axis;
    for (int32_t k = 0; k < graph->node[index].outputs; k++) {
        int32_t y = graph->node[index].output[k];
        if (y < 0 || graph->value[y].rank != rank) {
            return true; /* unknown or unused, so the parts behind it are at unknown offsets */
        }
        int64_t length = graph->value[y].dim[axis];
        struct culm_attributes part = {.axis = axis, .start = start, .length = length};
        start += length;
        if (graph->value[y].uses > 0) {
            int64_t shape[CULM_ONNX_RANK_MAX];
            memcpy(shape, graph->value[y].dim, sizeof shape);
            int32_t made = culm_onnx_insert(graph, index, "slice", &x, 1, &part, rank, shape);
            if (made < 0) {
                return false;
            }
            culm_onnx_alias(graph, y, made);
        }
    }
    graph->node[index].dead = true;
    return true;
}

static bool counts_up(const struct culm_onnx_tensor *numbers) {
    for (int64_t i = 0; i < numbers->elements; i++) {
        if (culm_onnx_get_int(numbers, i) != i) {
            return false;
        }
    }
    return true;
}

/* Gather of one known index is a slice without its dimension; of all, in order, a reshape. */
static bool gather(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t x = culm_onnx_input(graph, node, 0), y = node->output[0];
    const struct culm_onnx_tensor *which = numbers(graph, node, 1);
    int64_t axis = culm_onnx_int(node, "axis", 0);
    struct culm_onnx_value v = graph->value[x];
    if (which && v.rank == 1 && v.dim[0] > 1 && which->elements == v.dim[0] && !v.data &&
        counts_up(which)) {
        return culm_onnx_become(graph, index, "reshape", &x, 1);
    }
    if (!which || which->elements != 1 || graph->value[x].data || v.rank < 1) {
        return true;
    }
    axis = axis < 0 ? axis + v.rank : axis;
    int64_t at = culm_onnx_get_int(which, 0);
    at = at < 0 ? at + v.dim[axis] : at;
    if (at < 0 || at >= v.dim[axis] || graph->value[y].rank < 1) {
        return true;
    }
    struct culm_attributes part = {.axis = axis, .start = at, .length = 1};
    if (v.dim[axis] != 1) {
        v.dim[axis] = 1;
        x = culm_onnx_insert(graph, index, "slice", &x, 1, &part, v.rank, v.dim);
    }
    return x >= 0 && culm_onnx_become(graph, index, "reshape", &x, 1);
}

/* x + 0, x * 1 and the like; and a guard of exporters, Where(IsNaN(p), 0, p). */
static void neutral(struct culm_onnx_graph *graph, const struct culm_onnx_node *node) {
    int32_t a = culm_onnx_input(graph, node, 0), b = culm_onnx_input(graph, node, 1);
    int32_t y = node->output[0];
    double number;
    bool add = culm_onnx_is(node, "Add"), mul = culm_onnx_is(node, "Mul");
    bool sub = culm_onnx_is(node, "Sub"), div = culm_onnx_is(node, "Div");
    if (culm_onnx_is(node, "Where") && node->inputs == 3) {
        const struct culm_onnx_node *test = culm_onnx_maker(graph, a);
        int32_t p = culm_onnx_input(graph, node, 2);
        if (culm_onnx_is(test, "IsNaN") && culm_onnx_input(graph, test, 0) == p &&
            culm_onnx_scalar(graph, b, &number) && number == 0) {
            culm_onnx_alias(graph, y, p);
        }
        return;
    }
    double nothing = mul || div ? 1 : 0;
    if ((add || sub || mul || div) && culm_onnx_scalar(graph, b, &number) && number == nothing &&
        graph->value[b].constant && culm_onnx_same_shape(graph, a, y)) {
        culm_onnx_alias(graph, y, a);
    } else if ((add || mul) && culm_onnx_scalar(graph, a, &number) && number == nothing &&
               graph->value[a].constant && culm_onnx_same_shape(graph, b, y)) {
        culm_onnx_alias(graph, y, b);
    }
}

/* The sum of one is that one, and of two an Add. */
static bool sum(struct culm_onnx_graph *graph, int32_t index) {
    struct culm_onnx_node *node = &graph->node[index];
    if (node->inputs == 1) {
        culm_onnx_alias(graph, node->output[0], culm_onnx_input(graph, node, 0));
    } else if (node->inputs == 2) {
        node->op = "Add";
    }
    return true;
}

static bool one(struct culm_onnx_graph *graph, int32_t index, bool inference) {
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t x = culm_onnx_input(graph, node, 0), y = node->output[0];
    if (x < 0 || y < 0 || !culm_onnx_shaped(graph, node) || graph->value[y].rank < 0) {
        return true;
    }
    bool both_real =
        culm_onnx_is_real(graph->value[x].type) && culm_onnx_is_real(graph->value[y].type);
    if (culm_onnx_is(node, "Identity") ||
        ((culm_onnx_is(node, "Cast") || culm_onnx_is(node, "CastLike")) &&
         (both_real || graph->value[x].type == graph->value[y].type)) ||
        (culm_onnx_is(node, "Expand") && culm_onnx_same_shape(graph, x, y))) {
        culm_onnx_alias(graph, y, x);
        return true;
    }
    if (is_reshape(node) || culm_onnx_is(node, "Transpose")) {
        bool fine = is_reshape(node) ? reshape(graph, index) : transpose(graph, index);
        return fine && (graph->value[y].same_as >= 0 || shorten(graph, index));
    }
    if (culm_onnx_is(node, "Dropout")) {
        return dropout(graph, index, inference);
    }
    if (culm_onnx_is(node, "Sum")) {
        return sum(graph, index);
    }
    if (culm_onnx_is(node, "Slice")) {
        return slice(graph, index);
    }
    if (culm_onnx_is(node, "Split")) {
        return split(graph, index);
    }
    if (culm_onnx_is(node, "Gather")) {
        return gather(graph, index);
    }
    neutral(graph, node);
    return true;
}

bool culm_onnx_simplify(struct culm_onnx_graph *graph, bool inference) {
    int32_t count = graph->node_count; /* inserted nodes need no further look */
    for (int32_t i = 0; i < count; i++) {
        graph->node[i].order = (int64_t)i * 2;
    }
    for (int32_t i = 0; i < count; i++) {
        if (!graph->node[i].dead && !one(graph, i, inference)) {
            return false;
        }
    }
    return culm_onnx_sort(graph);
}
