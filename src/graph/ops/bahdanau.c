/*
 * bahdanau: (query [B,T,A], key [B,S,A], value [B,S,C], length? i32 [B,1], v [A], scale [1],
 * bias [A]) -> context [B,T,C], probabilities [B,T,S]: additive attention, normalised. Keys past a
 * sample's length have probability zero.
 */
#include "graph/ops/operands.h"

enum { QUERY, KEY, VALUE, LENGTH, V, SCALE, BIAS, INPUTS };

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    for (int32_t i = QUERY; i <= VALUE; i++) {
        if (!input_is(graph, node, i, CULM_F32, 3)) {
            return input_error(node, "needs query [B,T,A], key [B,S,A] and value [B,S,C]", error);
        }
    }
    const struct culm_shape *query = culm_input_shape(graph, node, QUERY);
    const struct culm_shape *key = culm_input_shape(graph, node, KEY);
    const struct culm_shape *value = culm_input_shape(graph, node, VALUE);
    if (query->dim[0] != key->dim[0] || query->dim[2] != key->dim[2]) {
        return culm_shape_error(graph, node, QUERY, KEY, "samples or widths differ", error);
    }
    if (value->dim[0] != key->dim[0] || value->dim[1] != key->dim[1]) {
        return culm_shape_error(graph, node, KEY, VALUE, "not one value a key", error);
    }
    int64_t b = query->dim[0], a = query->dim[2];
    if (node->input[LENGTH] >= 0 && (graph->value[node->input[LENGTH]].dtype != CULM_I32 ||
                                     culm_elements(culm_input_shape(graph, node, LENGTH)) != b)) {
        return culm_shape_error(graph, node, KEY, LENGTH, "one i32 length a sample is needed",
                                error);
    }
    const int64_t width[] = {[V] = a, [SCALE] = 1, [BIAS] = a};
    for (int32_t i = V; i <= BIAS; i++) {
        if (!input_is_param(graph, node, i) ||
            !input_has_shape(graph, node, i, (struct culm_shape){1, {width[i]}})) {
            return input_error(node, "v, scale and bias must be parameters [A], [1] and [A]",
                               error);
        }
    }
    const struct culm_device_limits *most = &graph->device->limits;
    if (key->dim[1] > most->bahdanau_keys || a > most->width) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "operator 'bahdanau': %lld keys of width %lld; at most %lld and %lld are possible",
            (long long)key->dim[1], (long long)a, (long long)most->bahdanau_keys,
            (long long)most->width);
    }
    const struct culm_shape context = {3, {b, query->dim[1], value->dim[2]}};
    const struct culm_shape probabilities = {3, {b, query->dim[1], key->dim[1]}};
    culm_output_set(graph, node, 0, typed_dtype(graph, node, VALUE), &context);
    culm_output_set(graph, node, 1, CULM_F32, &probabilities);
    return CULM_OK;
}

static struct culm_bahdanau how_of(const struct culm_value *values, const int32_t *input) {
    const struct culm_shape *query = &values[input[QUERY]].shape;
    const struct culm_shape *value = &values[input[VALUE]].shape;
    return (struct culm_bahdanau){.b = query->dim[0],
                                  .t = query->dim[1],
                                  .s = value->dim[1],
                                  .a = query->dim[2],
                                  .c = value->dim[2]};
}

/* (the inputs, dcontext, probabilities) -> dquery, dkey, dvalue, work */
enum { DCONTEXT = INPUTS, PROBABILITIES, GRAD_INPUTS };

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dcontext = culm_gradient_of(g, node->output[0]);
    if (dcontext < 0) {
        return;
    }
    struct culm_bahdanau how = how_of(g->graph->value, node->input);
    const struct culm_shape floats = {1, {g->graph->device->bahdanau_backward_floats(&how)}};
    int32_t work = culm_graph_value(g->graph, CULM_VALUE_TEMPORARY, CULM_F32, &floats);
    int32_t inputs[GRAD_INPUTS];
    for (int32_t i = 0; i < INPUTS; i++) {
        inputs[i] = node->input[i];
    }
    inputs[DCONTEXT] = dcontext;
    inputs[PROBABILITIES] = node->output[1];
    const int32_t like[] = {node->input[QUERY], node->input[KEY], node->input[VALUE], work};
    if (work < 0) {
        return;
    }
    int32_t first = culm_gradient_node(g, &culm_op_bahdanau_grad, inputs, GRAD_INPUTS, like, 4,
                                       &node->param_use[V], 3);
    for (int32_t i = QUERY; i <= VALUE && first >= 0; i++) {
        if (typed_wanted(g, node, i)) {
            typed_give(g, node, i, first + i);
        }
    }
}

static struct culm_bahdanau_inputs inputs_of(const struct culm_operands *o) {
    return (struct culm_bahdanau_inputs){.query = typed_input(o, QUERY),
                                         .key = typed_input(o, KEY),
                                         .value = typed_input(o, VALUE),
                                         .v = o->input[V],
                                         .scale = o->input[SCALE],
                                         .bias = o->input[BIAS]};
}

static void execute(const struct culm_operands *o) {
    struct culm_bahdanau how = how_of(o->value, o->node->input);
    struct culm_bahdanau_inputs in = inputs_of(o);
    how.length = o->input[LENGTH];
    CULM_RUN(o->device, bahdanau_forward, .context = typed_output(o, 0),
             .probabilities = o->output[1], .in = &in, .how = &how);
}

/* A tanh counts as much as the 16 operations that it takes. */
static double work_of(const struct culm_graph *graph, const struct culm_node_desc *node) {
    struct culm_bahdanau how = how_of(graph->value, node->input);
    return (double)how.b * (double)how.t * (double)how.s *
           (16.0 * (double)how.a + 2.0 * (double)how.c);
}

const struct culm_op culm_op_bahdanau = {.name = "bahdanau",
                                         .inputs = INPUTS,
                                         .outputs = 2,
                                         .infer = infer,
                                         .gradient = gradient,
                                         .execute = execute,
                                         .flops = work_of};

static void execute_grad(const struct culm_operands *o) {
    struct culm_bahdanau how = how_of(o->value, o->node->input);
    struct culm_bahdanau_inputs in = inputs_of(o);
    const struct culm_bahdanau_grads grads = {.dquery = typed_output(o, 0),
                                              .dkey = typed_output(o, 1),
                                              .dvalue = typed_output(o, 2),
                                              .dv = o->use[0],
                                              .dscale = o->use[1],
                                              .dbias = o->use[2]};
    how.length = o->input[LENGTH];
    CULM_RUN(o->device, bahdanau_backward, .grads = &grads, .work = o->output[3],
             .dcontext = typed_input(o, DCONTEXT), .probabilities = o->input[PROBABILITIES],
             .in = &in, .how = &how, .first = o->first);
}

static double work_of_grad(const struct culm_graph *graph, const struct culm_node_desc *node) {
    return 2 * work_of(graph, node);
}

const struct culm_op culm_op_bahdanau_grad = {.name = "bahdanau_grad",
                                              .inputs = GRAD_INPUTS,
                                              .outputs = 4,
                                              .execute = execute_grad,
                                              .flops = work_of_grad};
