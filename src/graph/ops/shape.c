/*
 * reshape, permute, concat, slice, pad, resize: the same elements elsewhere, and their gradients.
 *
 * reshape is another name for its input's memory, and so is its gradient.
 */
#include "graph/ops/operands.h"

static void nothing(const struct culm_operands *o) { (void)o; }

static enum culm_status refuse(const struct culm_graph *graph, const struct culm_node_desc *node,
                               const char *what, struct culm_error *error) {
    return culm_shape_error(graph, node, 0, 0, what, error);
}

/* One input, one gradient node of the same attributes that reads dy alone. */
static void gradient_of_dy(struct culm_gradients *g, const struct culm_node_desc *node,
                           const struct culm_op *op) {
    int32_t dy = culm_gradient_of(g, node->output[0]), x = node->input[0];
    if (dy >= 0 && typed_wanted(g, node, 0)) {
        typed_give(g, node, 0, culm_gradient_node(g, op, &dy, 1, &x, 1, NULL, 0));
    }
}

/* --- reshape --- */

static enum culm_status reshape_infer(struct culm_graph *graph, struct culm_node_desc *node,
                                      struct culm_error *error) {
    struct culm_shape y = {0};
    const int64_t *dims = node->attributes.dims;
    while (y.rank < CULM_MAX_RANK && dims[y.rank] != 0) {
        y.dim[y.rank] = dims[y.rank];
        y.rank++;
    }
    int64_t count;
    if (culm_shape_count(&y, &count, error) != CULM_OK) {
        return CULM_ERR_CONFIG;
    }
    if (count != culm_elements(culm_input_shape(graph, node, 0))) {
        return refuse(graph, node, "the new shape has another number of elements", error);
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &y);
    if (node->output[0] >= 0) {
        graph->value[node->output[0]].same_as = node->input[0];
    }
    return CULM_OK;
}

static void reshape_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]), x = node->input[0];
    if (dy < 0 || !typed_wanted(g, node, 0)) {
        return;
    }
    int32_t dx = culm_gradient_node(g, &culm_op_reshape_grad, &dy, 1, &x, 1, NULL, 0);
    if (dx >= 0) {
        g->graph->value[dx].same_as = dy;
        g->graph->value[dx].dtype = g->graph->value[dy].dtype;
    }
    typed_give(g, node, 0, dx);
}

const struct culm_op culm_op_reshape = {.name = "reshape",
                                        .precision = CULM_OP_FOLLOWS,
                                        .inputs = 1,
                                        .outputs = 1,
                                        .infer = reshape_infer,
                                        .gradient = reshape_gradient,
                                        .execute = nothing};
const struct culm_op culm_op_reshape_grad = {
    .name = "reshape_grad", .inputs = 1, .outputs = 1, .execute = nothing};

/* --- permute --- */

static enum culm_status permute_infer(struct culm_graph *graph, struct culm_node_desc *node,
                                      struct culm_error *error) {
    const struct culm_shape x = *culm_input_shape(graph, node, 0);
    struct culm_shape y = {.rank = x.rank};
    bool seen[CULM_MAX_RANK] = {false};
    for (int i = 0; i < x.rank; i++) {
        int64_t from = node->attributes.dims[i];
        if (from < 0 || from >= x.rank || seen[from]) {
            return refuse(graph, node, "the order of dimensions is not a permutation", error);
        }
        seen[from] = true;
        y.dim[i] = x.dim[from];
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &y);
    return CULM_OK;
}

static void permute_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    gradient_of_dy(g, node, &culm_op_permute_grad);
}

static void permute(const struct culm_operands *o) {
    CULM_RUN(o->device, permute, .y = typed_output(o, 0), .x = typed_input(o, 0),
             .x_shape = typed_shape(o, o->node->input[0]), .order = o->node->attributes.dims);
}

static void permute_grad(const struct culm_operands *o) {
    const struct culm_shape *dy = typed_shape(o, o->node->input[0]);
    int64_t inverse[CULM_MAX_RANK] = {0};
    for (int i = 0; i < dy->rank; i++) {
        inverse[o->node->attributes.dims[i]] = i;
    }
    CULM_RUN(o->device, permute, .y = typed_output(o, 0), .x = typed_input(o, 0), .x_shape = dy,
             .order = inverse);
}

const struct culm_op culm_op_permute = {.name = "permute",
                                        .precision = CULM_OP_FOLLOWS,
                                        .inputs = 1,
                                        .outputs = 1,
                                        .infer = permute_infer,
                                        .gradient = permute_gradient,
                                        .execute = permute};
const struct culm_op culm_op_permute_grad = {
    .name = "permute_grad", .inputs = 1, .outputs = 1, .execute = permute_grad};

/* --- pieces along one axis: [before, axis, inner] --- */

static int64_t count_before(const struct culm_shape *shape, int64_t axis) {
    int64_t count = 1;
    for (int64_t i = 0; i < axis; i++) {
        count *= shape->dim[i];
    }
    return count;
}
static int64_t count_after(const struct culm_shape *shape, int64_t axis) {
    int64_t count = 1;
    for (int64_t i = axis + 1; i < shape->rank; i++) {
        count *= shape->dim[i];
    }
    return count;
}

/* y = the part of x that begins at `start` on the axis; and the other way, with zeros around. */
static void take(const struct culm_operands *o, const struct culm_shape *x,
                 const struct culm_shape *y, int64_t axis, int64_t start) {
    const int64_t pad[4] = {start, 0, x->dim[axis] - start - y->dim[axis], 0};
    CULM_RUN(o->device, crop, .y = typed_output(o, 0), .x = typed_input(o, 0),
             .n = count_before(y, axis), .h = y->dim[axis], .w = 1, .c = count_after(y, axis),
             .pad = pad);
}
static void put_back(const struct culm_operands *o, const struct culm_shape *dx,
                     const struct culm_shape *dy, int64_t axis, int64_t start) {
    const int64_t pad[4] = {start, 0, dx->dim[axis] - start - dy->dim[axis], 0};
    CULM_RUN(o->device, pad, .y = typed_output(o, 0), .x = typed_input(o, 0),
             .n = count_before(dy, axis), .h = dy->dim[axis], .w = 1, .c = count_after(dy, axis),
             .pad = pad, .value = 0);
}

/* --- slice --- */

static enum culm_status slice_infer(struct culm_graph *graph, struct culm_node_desc *node,
                                    struct culm_error *error) {
    const struct culm_attributes *a = &node->attributes;
    struct culm_shape y = *culm_input_shape(graph, node, 0);
    if (a->axis < 0 || a->axis >= y.rank) {
        return refuse(graph, node, "there is no such axis", error);
    }
    if (a->start < 0 || a->length < 1 || a->start > y.dim[a->axis] - a->length) {
        return refuse(graph, node, "the slice is not inside", error);
    }
    y.dim[a->axis] = a->length;
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &y);
    return CULM_OK;
}

/* Whether `gradient` is what a slice of `x` in `block` gave: then nobody else has seen it, for x
 * alone has it until the node that made x is reached. */
static bool of_slice(const struct culm_graph *graph, int32_t gradient, int32_t x, int32_t block) {
    int32_t made = graph->node_count - 1, taken = 0;
    while (made >= 0 && graph->node[made].output[0] != gradient) {
        made--;
    }
    if (made < 0 || graph->node[made].op != &culm_op_slice_grad ||
        graph->node[made].block != block) {
        return false;
    }
    while (graph->node[taken].op != &culm_op_slice ||
           graph->node[taken].operator_id != graph->node[made].operator_id) {
        taken++;
    }
    return graph->node[taken].input[0] == x;
}

/* The gradients of several slices of one value in a block are gathered in the memory of the first.
 * Not over blocks: a cut between them would add instead, which differs in the sign of a zero. */
static void slice_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]), x = node->input[0];
    if (dy < 0 || !typed_wanted(g, node, 0)) {
        return;
    }
    int32_t past = culm_gradient_of(g, x);
    if (past >= 0 && !of_slice(g->graph, past, x, node->block)) {
        past = -1;
    }
    const int32_t inputs[] = {dy, past};
    int32_t dx = culm_gradient_node(g, &culm_op_slice_grad, inputs, 2, &x, 1, NULL, 0);
    if (past >= 0 && dx >= 0) {
        g->graph->value[dx].same_as = past;
        culm_gradient_take(g, x);
    }
    typed_give(g, node, 0, dx);
}

static void slice(const struct culm_operands *o) {
    take(o, typed_shape(o, o->node->input[0]), typed_shape(o, o->node->output[0]),
         o->node->attributes.axis, o->node->attributes.start);
}

/* (dy, gradient so far or nothing) -> dx */
static void slice_grad(const struct culm_operands *o) {
    const struct culm_shape *dx = typed_shape(o, o->node->output[0]);
    const struct culm_shape *dy = typed_shape(o, o->node->input[0]);
    int64_t axis = o->node->attributes.axis, inner = count_after(dx, axis);
    if (o->node->input[1] < 0) {
        put_back(o, dx, dy, axis, o->node->attributes.start);
    } else {
        CULM_RUN(o->device, place, .y = typed_output(o, 0), .x = typed_input(o, 0),
                 .rows = count_before(dx, axis), .row = dy->dim[axis] * inner,
                 .pitch = dx->dim[axis] * inner, .offset = o->node->attributes.start * inner,
                 .add = true);
    }
}

const struct culm_op culm_op_slice = {.name = "slice",
                                      .precision = CULM_OP_FOLLOWS,
                                      .inputs = 1,
                                      .outputs = 1,
                                      .infer = slice_infer,
                                      .gradient = slice_gradient,
                                      .execute = slice};
const struct culm_op culm_op_slice_grad = {
    .name = "slice_grad", .inputs = 2, .outputs = 1, .execute = slice_grad};

/* --- concat --- */

#define PARTS 8

static enum culm_status concat_infer(struct culm_graph *graph, struct culm_node_desc *node,
                                     struct culm_error *error) {
    int64_t axis = node->attributes.axis;
    struct culm_shape y = *culm_input_shape(graph, node, 0);
    if (axis < 0 || axis >= y.rank) {
        return refuse(graph, node, "there is no such axis", error);
    }
    if (node->input[1] < 0) {
        return refuse(graph, node, "two inputs are needed at least", error);
    }
    for (int32_t i = 1; i < PARTS && node->input[i] >= 0; i++) {
        struct culm_shape part = *culm_input_shape(graph, node, i), same = y;
        same.dim[axis] = axis < part.rank ? part.dim[axis] : 0;
        if (!culm_shape_equal(&same, &part)) {
            return culm_shape_error(graph, node, 0, i, "only the axis may differ", error);
        }
        if (typed_dtype(graph, node, i) != typed_dtype(graph, node, 0)) {
            return culm_shape_error(graph, node, 0, i, "the types differ", error);
        }
        y.dim[axis] += part.dim[axis];
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &y);
    return CULM_OK;
}

/* One node a part; `start` says which. */
static void concat_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]);
    int64_t axis = node->attributes.axis, start = 0;
    for (int32_t i = 0; i < PARTS && node->input[i] >= 0 && dy >= 0; i++) {
        int32_t x = node->input[i];
        int64_t length = g->graph->value[x].shape.dim[axis];
        if (typed_wanted(g, node, i)) {
            int32_t dx = culm_gradient_node(g, &culm_op_concat_grad, &dy, 1, &x, 1, NULL, 0);
            if (dx < 0) {
                return;
            }
            g->graph->node[g->graph->node_count - 1].attributes.start = start;
            typed_give(g, node, i, dx);
        }
        start += length;
    }
}

static void concat(const struct culm_operands *o) {
    const struct culm_shape *y = typed_shape(o, o->node->output[0]);
    int64_t axis = o->node->attributes.axis, inner = count_after(y, axis), offset = 0;
    for (int32_t i = 0; i < PARTS && o->node->input[i] >= 0; i++) {
        int64_t row = typed_shape(o, o->node->input[i])->dim[axis] * inner;
        CULM_RUN(o->device, place, .y = typed_output(o, 0), .x = typed_input(o, i),
                 .rows = count_before(y, axis), .row = row, .pitch = y->dim[axis] * inner,
                 .offset = offset);
        offset += row;
    }
}

static void concat_grad(const struct culm_operands *o) {
    take(o, typed_shape(o, o->node->input[0]), typed_shape(o, o->node->output[0]),
         o->node->attributes.axis, o->node->attributes.start);
}

const struct culm_op culm_op_concat = {.name = "concat",
                                       .precision = CULM_OP_FOLLOWS,
                                       .inputs = PARTS,
                                       .outputs = 1,
                                       .infer = concat_infer,
                                       .gradient = concat_gradient,
                                       .execute = concat};
const struct culm_op culm_op_concat_grad = {
    .name = "concat_grad", .inputs = 1, .outputs = 1, .execute = concat_grad};

/* --- pad --- */

static enum culm_status pad_infer(struct culm_graph *graph, struct culm_node_desc *node,
                                  struct culm_error *error) {
    const int64_t *pad = node->attributes.pad;
    struct culm_shape y = *culm_input_shape(graph, node, 0);
    if (y.rank != 4 || typed_dtype(graph, node, 0) == CULM_I32) {
        return refuse(graph, node, "an image [N,H,W,C] is needed", error);
    }
    for (int i = 0; i < 4; i++) {
        if (pad[i] < 0 || pad[i] > (int64_t)1 << 30 || y.dim[1 + i % 2] > (int64_t)1 << 30) {
            return refuse(graph, node, "padding is 0 at least, and not as large", error);
        }
        y.dim[1 + i % 2] += pad[i];
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &y);
    return CULM_OK;
}

static void pad_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    gradient_of_dy(g, node, &culm_op_pad_grad);
}

static void pad(const struct culm_operands *o) {
    const int64_t *d = typed_shape(o, o->node->input[0])->dim;
    CULM_RUN(o->device, pad, .y = typed_output(o, 0), .x = typed_input(o, 0), .n = d[0], .h = d[1],
             .w = d[2], .c = d[3], .pad = o->node->attributes.pad,
             .value = o->node->attributes.value);
}

static void pad_grad(const struct culm_operands *o) {
    const int64_t *d = typed_shape(o, o->node->output[0])->dim;
    CULM_RUN(o->device, crop, .y = typed_output(o, 0), .x = typed_input(o, 0), .n = d[0], .h = d[1],
             .w = d[2], .c = d[3], .pad = o->node->attributes.pad);
}

const struct culm_op culm_op_pad = {.name = "pad",
                                    .precision = CULM_OP_FOLLOWS,
                                    .inputs = 1,
                                    .outputs = 1,
                                    .infer = pad_infer,
                                    .gradient = pad_gradient,
                                    .execute = pad};
const struct culm_op culm_op_pad_grad = {
    .name = "pad_grad", .inputs = 1, .outputs = 1, .execute = pad_grad};

/* --- resize --- */

static struct culm_resize resize_of(const struct culm_shape *x, const struct culm_shape *y,
                                    const struct culm_attributes *a) {
    return (struct culm_resize){.n = x->dim[0],
                                .c = x->dim[3],
                                .in = {x->dim[1], x->dim[2]},
                                .out = {y->dim[1], y->dim[2]},
                                .bilinear = a->function == CULM_FUNCTION_MEAN,
                                .corners = a->align_corners};
}

static enum culm_status resize_infer(struct culm_graph *graph, struct culm_node_desc *node,
                                     struct culm_error *error) {
    const struct culm_attributes *a = &node->attributes;
    struct culm_shape y = *culm_input_shape(graph, node, 0);
    if (y.rank != 4 || typed_dtype(graph, node, 0) == CULM_I32) {
        return refuse(graph, node, "an image [N,H,W,C] is needed", error);
    }
    if (a->function != CULM_FUNCTION_NONE && a->function != CULM_FUNCTION_MEAN) {
        return refuse(graph, node, "the nearest pixel or the mean of neighbours is possible",
                      error);
    }
    for (int d = 0; d < 2; d++) {
        if (a->dims[d] < 1 || a->dims[d] > CULM_RESIZE_MAX || y.dim[1 + d] > CULM_RESIZE_MAX) {
            return refuse(graph, node, "height and width are 1 to 65536", error);
        }
        y.dim[1 + d] = a->dims[d];
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &y);
    return CULM_OK;
}

static void resize_gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    gradient_of_dy(g, node, &culm_op_resize_grad);
}

static void resize(const struct culm_operands *o) {
    const struct culm_resize how =
        resize_of(typed_shape(o, o->node->input[0]), typed_shape(o, o->node->output[0]),
                  &o->node->attributes);
    CULM_RUN(o->device, resize_forward, .y = typed_output(o, 0), .x = typed_input(o, 0),
             .how = &how);
}

static void resize_grad(const struct culm_operands *o) {
    const struct culm_resize how =
        resize_of(typed_shape(o, o->node->output[0]), typed_shape(o, o->node->input[0]),
                  &o->node->attributes);
    CULM_RUN(o->device, resize_backward, .dx = typed_output(o, 0), .dy = typed_input(o, 0),
             .how = &how);
}

const struct culm_op culm_op_resize = {.name = "resize",
                                       .precision = CULM_OP_FOLLOWS,
                                       .inputs = 1,
                                       .outputs = 1,
                                       .infer = resize_infer,
                                       .gradient = resize_gradient,
                                       .execute = resize};
const struct culm_op culm_op_resize_grad = {
    .name = "resize_grad", .inputs = 1, .outputs = 1, .execute = resize_grad};
