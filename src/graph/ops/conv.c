/*
 * conv: (x [N,H,W,C], w [O,C/groups,kh,kw], b [O] or nothing) -> y [N,OH,OW,O].
 *
 * Attributes that are zero mean 1 for stride, dilation and groups; kernel is w's own, and must be
 * if given. algorithm[pass] chooses how each pass is computed; 0 leaves it to the geometry.
 */
#include "graph/ops/conv.h"

#include "graph/ops/operands.h"

#define MOST (1 << 20) /* of sizes and attributes of one dimension */

static int64_t or_one(int64_t x) { return x ? x : 1; }

static struct culm_conv geometry(const struct culm_shape *x, const struct culm_shape *w,
                                 const struct culm_attributes *a) {
    struct culm_conv v = {.n = x->dim[0],
                          .h = x->dim[1],
                          .w = x->dim[2],
                          .c = x->dim[3],
                          .o = w->dim[0],
                          .kh = w->dim[2],
                          .kw = w->dim[3],
                          .stride = {or_one(a->stride[0]), or_one(a->stride[1])},
                          .dilation = {or_one(a->dilation[0]), or_one(a->dilation[1])},
                          .pad = {a->pad[0], a->pad[1], a->pad[2], a->pad[3]},
                          .groups = or_one(a->groups)};
    v.oh = culm_conv_output_size(&v, 0);
    v.ow = culm_conv_output_size(&v, 1);
    return v;
}

struct culm_conv culm_conv_of(const struct culm_graph *graph, const struct culm_node_desc *node) {
    return geometry(culm_input_shape(graph, node, 0), culm_input_shape(graph, node, 1),
                    &node->attributes);
}

static bool sizes_fit(const struct culm_shape *x, const struct culm_shape *w,
                      const struct culm_attributes *a) {
    for (int i = 0; i < 4; i++) {
        if (a->pad[i] < 0 || a->pad[i] > MOST || x->dim[i] > MOST || w->dim[i] > MOST) {
            return false;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (a->stride[i] < 0 || a->stride[i] > MOST || a->dilation[i] < 0 ||
            a->dilation[i] > MOST) {
            return false;
        }
    }
    return a->groups >= 0 && a->groups <= MOST;
}

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_attributes *a = &node->attributes;
    if (!input_is(graph, node, 0, CULM_F32, 4) || !input_is(graph, node, 1, CULM_F32, 4) ||
        !input_is_param(graph, node, 1)) {
        return input_error(node, "needs an image [N,H,W,C] and a parameter [O,C/groups,kh,kw]",
                           error);
    }
    if (node->input[2] >= 0 && !input_is_param(graph, node, 2)) {
        return input_error(node, "the bias must be a parameter", error);
    }
    const struct culm_shape *x = culm_input_shape(graph, node, 0);
    const struct culm_shape *w = culm_input_shape(graph, node, 1);
    if (!sizes_fit(x, w, a)) {
        return culm_shape_error(graph, node, 0, 1,
                                "a size, stride, pad, dilation or groups is negative or too large",
                                error);
    }
    struct culm_conv v = geometry(x, w, a);
    if (v.c % v.groups || v.o % v.groups || w->dim[1] != v.c / v.groups) {
        return culm_shape_error(graph, node, 0, 1, "the channels do not fit the groups", error);
    }
    if ((a->kernel[0] && a->kernel[0] != v.kh) || (a->kernel[1] && a->kernel[1] != v.kw)) {
        return culm_shape_error(graph, node, 0, 1, "the kernel is not that of the weights", error);
    }
    const struct culm_device_limits *most = &graph->device->limits;
    if (v.kh * v.kw > most->conv_taps || culm_conv_scattered_terms(&v) > most->conv_terms ||
        v.c > most->width || v.o > most->width) {
        return culm_shape_error(graph, node, 0, 1, "the kernel or the channels are too many",
                                error);
    }
    if (v.oh < 1 || v.ow < 1) {
        return culm_shape_error(graph, node, 0, 1, "the kernel is larger than the padded image",
                                error);
    }
    if (node->input[2] >= 0 && !input_has_shape(graph, node, 2, (struct culm_shape){1, {v.o}})) {
        return culm_shape_error(graph, node, 1, 2, "the bias has another width", error);
    }
    for (int pass = 0; pass < CULM_CONV_PASSES; pass++) {
        int32_t algorithm = a->algorithm[pass];
        if (algorithm < 0 || algorithm >= CULM_CONV_ALGORITHMS ||
            !culm_conv_algorithm_possible(&v, (enum culm_conv_pass)pass,
                                          (enum culm_conv_algorithm)algorithm)) {
            return culm_shape_error(graph, node, 0, 1, "the algorithm cannot do this convolution",
                                    error);
        }
    }
    const struct culm_shape y = {4, {v.n, v.oh, v.ow, v.o}};
    int64_t count;
    enum culm_status status = culm_shape_count(&y, &count, error);
    if (!status) {
        culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &y);
    }
    return status;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t x = node->input[0], w = node->input[1];
    int32_t dy = culm_gradient_of(g, node->output[0]);
    if (dy < 0) {
        return;
    }
    const int32_t for_weight[] = {x, dy, w};
    const int32_t uses[] = {node->param_use[1], node->input[2] >= 0 ? node->param_use[2] : -1};
    culm_gradient_node(g, &culm_op_conv_grad_weight, for_weight, 3, NULL, 0, uses,
                       uses[1] >= 0 ? 2 : 1);
    if (culm_gradient_wanted(g, x)) {
        const int32_t for_data[] = {dy, w};
        int32_t dx = culm_gradient_node(g, &culm_op_conv_grad_data, for_data, 2, &x, 1, NULL, 0);
        culm_gradient_add(g, x, dx);
    }
}

static enum culm_conv_algorithm algorithm_of(const struct culm_operands *o,
                                             enum culm_conv_pass pass) {
    return (enum culm_conv_algorithm)o->node->attributes.algorithm[pass];
}

static void execute(const struct culm_operands *o) {
    struct culm_conv v = geometry(operand_shape(o, 0), operand_shape(o, 1), &o->node->attributes);
    CULM_RUN(o->device, conv_forward, .conv = &v, .algorithm = algorithm_of(o, CULM_CONV_FORWARD),
             .y = typed_output(o, 0), .x = typed_input(o, 0), .w = o->input[1],
             .b = o->node->input[2] < 0 ? NULL : o->input[2]);
}

static double flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    struct culm_conv v = geometry(culm_input_shape(graph, node, 0),
                                  culm_input_shape(graph, node, 1), &node->attributes);
    return culm_conv_flops(&v);
}

const struct culm_op culm_op_conv = {.name = "conv",
                                     .precision = CULM_OP_PRODUCT,
                                     .inputs = 3,
                                     .outputs = 1,
                                     .infer = infer,
                                     .gradient = gradient,
                                     .execute = execute,
                                     .flops = flops};

/* (dy, w) -> dx, whose shape is the image's */
static void execute_data(const struct culm_operands *o) {
    struct culm_conv v =
        geometry(typed_shape(o, o->node->output[0]), operand_shape(o, 1), &o->node->attributes);
    CULM_RUN(o->device, conv_backward_data, .conv = &v,
             .algorithm = algorithm_of(o, CULM_CONV_BACKWARD_DATA), .dx = typed_output(o, 0),
             .dy = typed_input(o, 0), .w = o->input[1]);
}

static double data_flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    struct culm_conv v = geometry(&graph->value[node->output[0]].shape,
                                  culm_input_shape(graph, node, 1), &node->attributes);
    return culm_conv_flops(&v);
}

const struct culm_op culm_op_conv_grad_data = {.name = "conv_grad_data",
                                               .inputs = 2,
                                               .outputs = 1,
                                               .execute = execute_data,
                                               .flops = data_flops};

/* (x, dy, w for its shape) accumulates into w, and b if there is one */
static void execute_weight(const struct culm_operands *o) {
    struct culm_conv v = geometry(operand_shape(o, 0), operand_shape(o, 2), &o->node->attributes);
    CULM_RUN(o->device, conv_backward_weight, .conv = &v,
             .algorithm = algorithm_of(o, CULM_CONV_BACKWARD_WEIGHT), .dw = o->use[0],
             .db = o->node->use[1] < 0 ? NULL : o->use[1], .x = typed_input(o, 0),
             .dy = typed_input(o, 1), .first = o->first);
}

static double weight_flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    struct culm_conv v = geometry(culm_input_shape(graph, node, 0),
                                  culm_input_shape(graph, node, 2), &node->attributes);
    return culm_conv_flops(&v);
}

const struct culm_op culm_op_conv_grad_weight = {.name = "conv_grad_weight",
                                                 .inputs = 3,
                                                 .outputs = 0,
                                                 .execute = execute_weight,
                                                 .flops = weight_flops};

double culm_node_flops_done(const struct culm_graph *graph, const struct culm_node_desc *node) {
    bool data = node->op == &culm_op_conv_grad_data, weight = node->op == &culm_op_conv_grad_weight;
    if (node->op != &culm_op_conv && !data && !weight) {
        return node->op->flops ? node->op->flops(graph, node) : 0;
    }
    const struct culm_shape *x =
        data ? &graph->value[node->output[0]].shape : culm_input_shape(graph, node, 0);
    struct culm_conv v =
        geometry(x, culm_input_shape(graph, node, weight ? 2 : 1), &node->attributes);
    enum culm_conv_pass pass = data     ? CULM_CONV_BACKWARD_DATA
                               : weight ? CULM_CONV_BACKWARD_WEIGHT
                                        : CULM_CONV_FORWARD;
    return culm_conv_flops_done(&v, pass,
                                (enum culm_conv_algorithm)node->attributes.algorithm[pass]);
}
