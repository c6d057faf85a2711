/*
 * conv_infer: (x, w turned, bias, gamma, beta, mean, variance, residual, coarse) -> y. Made by culm_graph_fuse
 * alone, so that it has no shape rule, and no gradient.
 */
#include "device/infer.h"
#include "graph/ops/conv.h"
#include "graph/ops/operands.h"

#include <math.h>

/* Which input. */
#define RESIDUAL 7
#define COARSE 8

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

static struct culm_gate gate_of(const struct culm_operands *o) {
    const struct culm_attributes *a = &o->node->attributes;
    return o->least && *o->least > -INFINITY
               ? (struct culm_gate){(int32_t)a->heads, (int32_t)a->start, *o->least}
               : (struct culm_gate){0};
}

static struct culm_coarse coarse_of(const struct culm_operands *o) {
    if (o->node->input[COARSE] < 0) {
        return (struct culm_coarse){0};
    }
    const int64_t *d = operand_shape(o, COARSE)->dim;
    return (struct culm_coarse){o->input[COARSE], d[1], d[2], d[3]};
}

static struct culm_conv_infer_args args_of(const struct culm_operands *o,
                                           struct culm_conv *ret_conv) {
    const struct culm_attributes *a = &o->node->attributes;
    *ret_conv =
        geometry(operand_shape(o, 0), operand_shape(o, 1), typed_shape(o, o->node->output[0]), a);
    return (struct culm_conv_infer_args){.conv = ret_conv,
                                         .y = o->output[0],
                                         .x = o->input[0],
                                         .w = o->input[1],
                                         .b = given(o, 2),
                                         .coarse = coarse_of(o),
                                         .gamma = given(o, 3),
                                         .beta = given(o, 4),
                                         .mean = given(o, 5),
                                         .variance = given(o, 6),
                                         .residual = given(o, RESIDUAL),
                                         .eps = a->eps,
                                         .alpha = a->alpha,
                                         .function = a->function,
                                         .gate = gate_of(o),
                                         .ahead = o->ahead,
                                         .ahead_floats = o->ahead_floats};
}

static void execute(const struct culm_operands *o) { culm_conv_infer_chain(o, 1); }

void culm_conv_infer_chain(const struct culm_operands *o, int32_t count) {
    struct culm_conv conv[CULM_CONV_CHAIN_MAX];
    struct culm_conv_infer_args args[CULM_CONV_CHAIN_MAX];
    for (int32_t i = 0; i < count; i++) {
        args[i] = args_of(&o[i], &conv[i]);
    }
    culm_device_conv_infer_chain(o->device, args, count);
}

bool culm_conv_infer_reads_much(const struct culm_node_desc *node) {
    return node->op == &culm_op_conv_infer && node->attributes.groups <= 1;
}

bool culm_conv_infer_follows(const struct culm_node_desc *node,
                             const struct culm_node_desc *before) {
    return node->op == &culm_op_conv_infer && before->op == &culm_op_conv_infer &&
           node->input[0] == before->output[0] && before->input[RESIDUAL] < 0 &&
           node->attributes.heads == 0 && node->input[COARSE] < 0 && before->input[COARSE] < 0;
}

bool culm_conv_infer_gate_possible(const struct culm_graph *graph,
                                   const struct culm_node_desc *node) {
    struct culm_conv v =
        geometry(culm_input_shape(graph, node, 0), culm_input_shape(graph, node, 1),
                 &graph->value[node->output[0]].shape, &node->attributes);
    return node->input[3] < 0 && node->input[RESIDUAL] < 0 && node->input[COARSE] < 0 &&
           culm_gate_possible(&v, node->attributes.function);
}

static double flops(const struct culm_graph *graph, const struct culm_node_desc *node) {
    struct culm_conv v =
        geometry(culm_input_shape(graph, node, 0), culm_input_shape(graph, node, 1),
                 &graph->value[node->output[0]].shape, &node->attributes);
    v.c = node->input[COARSE] >= 0 ? culm_input_shape(graph, node, 1)->dim[2] : v.c;
    return culm_conv_flops(&v);
}

const struct culm_op culm_op_conv_infer = {
    .name = "conv_infer", .inputs = 9, .outputs = 1, .execute = execute, .flops = flops};
