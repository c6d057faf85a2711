/* A graph for another number of samples. See graph.h. */
#include "graph/ops.h"

#include <string.h>

/* The dimensions of a reshape, whose first may count samples. */
static void resize_dims(const struct culm_graph *graph, struct culm_node_desc *node,
                        int64_t samples, int64_t built) {
    int64_t *dims = node->attributes.dims;
    if (node->op != &culm_op_reshape || dims[0] % built != 0) {
        return;
    }
    int64_t elements = dims[0] / built * samples;
    for (int d = 1; d < CULM_MAX_RANK && dims[d] != 0; d++) {
        elements *= dims[d];
    }
    if (elements == culm_elements(culm_input_shape(graph, node, 0))) {
        dims[0] = dims[0] / built * samples;
    }
}

/* Adds the node, with its outputs in the shapes that follow from its inputs. */
static void resize_node(struct culm_graph *own, const struct culm_node_desc *from, int64_t samples,
                        int64_t built) {
    struct culm_node_desc node = *from;
    memset(node.output, -1, sizeof node.output);
    resize_dims(own, &node, samples, built);
    if (node.op->infer(own, &node, &own->error) != CULM_OK) {
        return;
    }
    for (int32_t i = 0; i < CULM_NODE_OUTPUTS_MAX; i++) {
        if (node.output[i] != from->output[i]) {
            culm_error_set(&own->error, CULM_ERR_INTERNAL,
                           "operator '%s' makes values in another order", node.op->name);
            return;
        }
    }
    culm_graph_number_uses(own, &node);
    culm_graph_append(own, &node);
}

static enum culm_status built_for(const struct culm_graph *graph, int64_t *ret_samples,
                                  struct culm_error *error) {
    *ret_samples = graph->field_count ? graph->field[0].shape.dim[0] : 0;
    for (int32_t f = 0; f < graph->field_count; f++) {
        if (graph->field[f].shape.dim[0] != *ret_samples) {
            *ret_samples = 0;
        }
    }
    return *ret_samples > 0 ? CULM_OK
                            : culm_error_set(error, CULM_ERR_UNSUPPORTED,
                                             "the graph's inputs do not count the same samples");
}

/* Adds value `v` if it is of the graph's outside, else the node that makes it and those that its
 * node makes beside it. */
static void resize_value(struct culm_graph *own, const struct culm_graph *graph, int32_t v,
                         int32_t *next_node, int64_t samples, int64_t built) {
    const struct culm_value *from = &graph->value[v];
    if (from->kind == CULM_VALUE_PARAM) {
        const struct culm_param *param = &graph->param[from->param];
        if (culm_graph_param(own, param->name, &param->shape, param->init, param->std,
                             param->decay) >= 0) {
            own->param[from->param] = *param;
        }
    } else if (from->kind == CULM_VALUE_FIELD) {
        const struct culm_field *field = &graph->field[from->field];
        struct culm_shape shape = field->shape;
        shape.dim[0] = samples;
        culm_graph_field(own, field->name, field->dtype, &shape);
    } else {
        resize_node(own, &graph->node[(*next_node)++], samples, built);
    }
}

static void resize(struct culm_graph *own, const struct culm_graph *graph, int64_t samples,
                   int64_t built) {
    int32_t next_node = 0;
    while (own->value_count < graph->value_count && own->error.status == CULM_OK) {
        int32_t before = own->value_count;
        if (graph->value[before].kind == CULM_VALUE_TEMPORARY && next_node == graph->node_count) {
            break;
        }
        resize_value(own, graph, before, &next_node, samples, built);
    }
    if (own->error.status != CULM_OK) {
        return;
    }
    if (own->value_count != graph->value_count || own->node_count != graph->node_count) {
        culm_error_set(&own->error, CULM_ERR_INTERNAL, "the graph has values that nothing makes");
        return;
    }
    for (int32_t v = 0; v < graph->value_count; v++) {
        own->value[v].dtype = graph->value[v].dtype; /* precision.h may have changed it */
        own->value[v].same_as = graph->value[v].same_as;
    }
    for (int32_t i = 0; i < graph->output_count; i++) {
        culm_graph_output(own, graph->output[i].name, graph->output[i].value);
        culm_graph_output_end(own, graph->output[i].end);
    }
    own->block = graph->block;
    own->blocks = graph->blocks;
}

enum culm_status culm_graph_for_samples(const struct culm_graph *graph, int64_t samples,
                                        struct culm_graph **ret_graph, struct culm_error *error) {
    int64_t built;
    enum culm_status status = built_for(graph, &built, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_graph *own = culm_graph_new(graph->device);
    if (!own) {
        return culm_error_set(error, CULM_ERR_MEMORY, "graph: out of memory");
    }
    resize(own, graph, samples, built);
    if (own->error.status != CULM_OK) {
        status = own->error.status == CULM_ERR_MEMORY ? CULM_ERR_MEMORY : CULM_ERR_UNSUPPORTED;
        culm_error_set(error, status, "the model was built for %lld samples, not for %lld: %s",
                       (long long)built, (long long)samples, own->error.text);
        culm_graph_free(own);
        return status;
    }
    *ret_graph = own;
    return CULM_OK;
}
