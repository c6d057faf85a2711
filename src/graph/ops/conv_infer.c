/*
 * conv_infer: (x, w turned, bias, gamma, beta, mean, variance, residual) -> y. Made by culm_graph_fuse
 * alone, so that it has no shape rule, and no gradient.
 */
#include "device/infer.h"
#include "graph/ops/operands.h"

static struct culm_conv geometry(const struct culm_shape *x, const struct culm_shape *w,
                                 const struct culm_shape *y, const struct culm_attributes *a) {
    struct culm_conv v = {.n = x->dim[0],
                          .h = x->dim[1],
                          .w = x->dim[2],
                          .c = x->dim[3],
                          .o = y->dim[3],
                          .kh = w->dim[0],
                          .kw = w->dim[1],
                          .oh = y->dim[1],
                          .ow = y->dim[2],
                          .groups = a->groups > 0 ? a->groups : 1};
    for (int i = 0; i < 2; i++) {
        v.stride[i] = a->stride[i] > 0 ? a->stride[i] : 1;
        v.dilation[i] = a->dilation[i] > 0 ? a->dilation[i] : 1;
    }
    for (int i = 0; i < 4; i++) {
        v.pad[i] = a->pad[i];
    }
    return v;
}

static const float *given(const struct culm_operands *o, int32_t i) {
    return o->node->input[i] >= 0 ? o->input[i] : NULL;
}

static void execute(const struct culm_operands *o) {
    const struct culm_attributes *a = &o->node->attributes;
    struct culm_conv v =
        geometry(operand_shape(o, 0), operand_shape(o, 1), typed_shape(o, o->node->output[0]), a);
    const struct culm_conv_infer_args args = {.conv = &v,
                                              .y = o->output[0],
                                              .x = o->input[0],
                                              .w = o->input[1],
                                              .b = given(o, 2),
                                              .gamma = given(o, 3),
                                              .beta = given(o, 4),
                                              .mean = given(o, 5),
                                              .variance = given(o, 6),
                                              .residual = given(o, 7),
                                              .eps = a->eps,
                                              .alpha = a->alpha,
                                              .function = a->function};
    culm_device_conv_infer(o->device, &args);
}

static double flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    struct culm_conv v =
        geometry(culm_input_shape(graph, node, 0), culm_input_shape(graph, node, 1),
                 &graph->value[node->output[0]].shape, &node->attributes);
    return culm_conv_flops(&v);
}

const struct culm_op culm_op_conv_infer = {
    .name = "conv_infer", .inputs = 8, .outputs = 1, .execute = execute, .flops = flops};
