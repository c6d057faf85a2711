/* Building graphs, and the table of operators. */
#include "graph/ops.h"

#include "base/grow.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(name) &culm_op_##name,
static const struct culm_op *const table[] = {CULM_OPS(ROW) NULL};
#undef ROW

const struct culm_op *const *culm_ops(void) { return table; }

const struct culm_op *culm_op_find(const char *name) {
    for (size_t i = 0; table[i]; i++) {
        if (strcmp(table[i]->name, name) == 0) {
            return table[i];
        }
    }
    return NULL;
}

struct culm_graph *culm_graph_new(const struct culm_device_ops *device) {
    struct culm_graph *graph = calloc(1, sizeof *graph);
    if (graph) {
        graph->device = device;
    }
    return graph;
}

void culm_graph_free(struct culm_graph *graph) {
    if (graph) {
        free(graph->value);
        free(graph->node);
        free(graph->param);
        free(graph->use);
        free(graph->field);
        free(graph->output);
        free(graph);
    }
}

enum culm_status culm_graph_check(const struct culm_graph *graph, struct culm_error *error) {
    if (graph->error.status == CULM_OK) {
        return CULM_OK;
    }
    return culm_error_set(error, graph->error.status, "%s", graph->error.text);
}

/* Makes room for one more element of an array; false after an error. */
#define ROOM(graph_, array_, count_, capacity_)                                                    \
    ((graph_)->error.status == CULM_OK &&                                                          \
     (CULM_GROW(array_, capacity_, (count_) + 1) || no_memory(graph_)))

static bool no_memory(struct culm_graph *graph) {
    culm_error_set(&graph->error, CULM_ERR_MEMORY, "graph: out of memory");
    return false;
}

int32_t culm_graph_value(struct culm_graph *graph, enum culm_value_kind kind, enum culm_dtype dtype,
                         const struct culm_shape *shape) {
    int64_t count;
    if (!ROOM(graph, graph->value, graph->value_count, graph->value_capacity) ||
        culm_shape_count(shape, &count, &graph->error) != CULM_OK) {
        return -1;
    }
    graph->value[graph->value_count] = (struct culm_value){.kind = kind,
                                                           .dtype = dtype,
                                                           .shape = *shape,
                                                           .param = -1,
                                                           .field = -1,
                                                           .same_as = -1,
                                                           .like = -1};
    return graph->value_count++;
}

int32_t culm_graph_param(struct culm_graph *graph, const char *name, const struct culm_shape *shape,
                         enum culm_init_kind init, double std, bool decay) {
    if (!ROOM(graph, graph->param, graph->param_count, graph->param_capacity)) {
        return -1;
    }
    int32_t value = culm_graph_value(graph, CULM_VALUE_PARAM, CULM_F32, shape);
    if (value < 0) {
        return -1;
    }
    struct culm_param *param = &graph->param[graph->param_count];
    *param = (struct culm_param){.shape = *shape,
                                 .written = *shape,
                                 .init = init,
                                 .std = std,
                                 .decay = decay,
                                 .value = value};
    snprintf(param->name, sizeof param->name, "%s", name);
    graph->value[value].param = graph->param_count++;
    return value;
}

void culm_graph_param_written(struct culm_graph *graph, int32_t value,
                              const struct culm_shape *shape) {
    if (value >= 0) {
        struct culm_param *param = &graph->param[graph->value[value].param];
        assert(culm_elements(shape) == culm_elements(&param->shape));
        param->written = *shape;
    }
}

int32_t culm_graph_statistic(struct culm_graph *graph, const char *name,
                             const struct culm_shape *shape, enum culm_init_kind init) {
    int32_t value = culm_graph_param(graph, name, shape, init, 0, false);
    if (value >= 0) {
        graph->param[graph->value[value].param].statistic = true;
    }
    return value;
}

int32_t culm_graph_field(struct culm_graph *graph, const char *name, enum culm_dtype dtype,
                         const struct culm_shape *shape) {
    for (int32_t i = 0; i < graph->field_count; i++) {
        if (strcmp(graph->field[i].name, name) != 0) {
            continue;
        }
        if (graph->field[i].dtype != dtype || !culm_shape_equal(&graph->field[i].shape, shape)) {
            char left[96], right[96];
            culm_error_set(&graph->error, CULM_ERR_CONFIG, "field '%s' is both %s and %s", name,
                           culm_shape_format(&graph->field[i].shape, left, sizeof left),
                           culm_shape_format(shape, right, sizeof right));
            return -1;
        }
        return graph->field[i].value;
    }
    if (!ROOM(graph, graph->field, graph->field_count, graph->field_capacity)) {
        return -1;
    }
    int32_t value = culm_graph_value(graph, CULM_VALUE_FIELD, dtype, shape);
    if (value < 0) {
        return -1;
    }
    struct culm_field *field = &graph->field[graph->field_count];
    *field = (struct culm_field){.dtype = dtype, .shape = *shape, .value = value};
    snprintf(field->name, sizeof field->name, "%s", name);
    graph->value[value].field = graph->field_count++;
    return value;
}

bool culm_graph_has_loss(const struct culm_graph *graph) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (graph->node[i].op->is_loss) {
            return true;
        }
    }
    return false;
}

void culm_graph_output(struct culm_graph *graph, const char *name, int32_t value) {
    if (value < 0 || !ROOM(graph, graph->output, graph->output_count, graph->output_capacity)) {
        return;
    }
    if (graph->value[value].kind != CULM_VALUE_TEMPORARY) {
        culm_error_set(&graph->error, CULM_ERR_UNSUPPORTED,
                       "output '%s' is an input of the graph as it is", name);
        return;
    }
    for (int32_t i = 0; i < graph->output_count; i++) {
        if (strcmp(graph->output[i].name, name) == 0) {
            culm_error_set(&graph->error, CULM_ERR_CONFIG, "two outputs are called '%s'", name);
            return;
        }
    }
    struct culm_output *output = &graph->output[graph->output_count++];
    *output = (struct culm_output){.value = value};
    snprintf(output->name, sizeof output->name, "%s", name);
}

void culm_graph_output_end(struct culm_graph *graph, enum culm_function end) {
    if (graph->error.status == CULM_OK && graph->output_count > 0) {
        graph->output[graph->output_count - 1].end = end;
    }
}

const char *culm_end_name(enum culm_function end) {
    return end == CULM_FUNCTION_SOFTMAX       ? "softmax"
           : end == CULM_FUNCTION_LOG_SOFTMAX ? "log-softmax"
           : end == CULM_FUNCTION_SIGMOID     ? "sigmoid"
                                              : NULL;
}

const char *culm_end_output(enum culm_function end) {
    return end == CULM_FUNCTION_LOG_SOFTMAX ? "log_probabilities"
           : culm_end_name(end)             ? "probabilities"
                                            : "logits";
}

void culm_output_set(struct culm_graph *graph, struct culm_node_desc *node, int32_t i,
                     enum culm_dtype dtype, const struct culm_shape *shape) {
    node->output[i] = culm_graph_value(graph, CULM_VALUE_TEMPORARY, dtype, shape);
}

enum culm_status culm_shape_error(const struct culm_graph *graph, const struct culm_node_desc *node,
                                  int32_t a, int32_t b, const char *what,
                                  struct culm_error *error) {
    char left[96], right[96];
    return culm_error_set(error, CULM_ERR_CONFIG, "operator '%s': %s: %s and %s", node->op->name,
                          what,
                          culm_shape_format(culm_input_shape(graph, node, a), left, sizeof left),
                          culm_shape_format(culm_input_shape(graph, node, b), right, sizeof right));
}

void culm_graph_number_uses(struct culm_graph *graph, struct culm_node_desc *node) {
    for (int32_t i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
        node->param_use[i] = -1;
        if (node->input[i] < 0 || graph->value[node->input[i]].kind != CULM_VALUE_PARAM ||
            !ROOM(graph, graph->use, graph->use_count, graph->use_capacity)) {
            continue;
        }
        graph->use[graph->use_count] =
            (struct culm_use){graph->value[node->input[i]].param, graph->node_count};
        node->param_use[i] = graph->use_count++;
    }
}

bool culm_graph_append(struct culm_graph *graph, const struct culm_node_desc *node) {
    if (!ROOM(graph, graph->node, graph->node_count, graph->node_capacity)) {
        return false;
    }
    graph->node[graph->node_count++] = *node;
    return true;
}

/* Elements of a sparse value are not in its memory. */
static bool sparse_fits(struct culm_graph *graph, const struct culm_node_desc *node) {
    for (int32_t i = 0; i < node->op->inputs; i++) {
        bool sparse = node->input[i] >= 0 && graph->value[node->input[i]].dtype == CULM_SPARSE;
        if (sparse != (node->op->takes_sparse && i == 0)) {
            culm_error_set(&graph->error, CULM_ERR_CONFIG, "operator '%s' %s as input %d",
                           node->op->name, sparse ? "takes no sparse rows" : "needs sparse rows",
                           i + 1);
            return false;
        }
    }
    return true;
}

int32_t culm_graph_apply(struct culm_graph *graph, const char *op, const int32_t *inputs,
                         int32_t count, const struct culm_attributes *attributes) {
    if (graph->error.status != CULM_OK) {
        return -1;
    }
    struct culm_node_desc node = {.op = culm_op_find(op),
                                  .operator_id = graph->node_count + graph->passed,
                                  .block = graph->block};
    if (!node.op || node.op->inputs != count || !node.op->infer) {
        culm_error_set(&graph->error, CULM_ERR_INTERNAL, "no operator '%s' with %d inputs", op,
                       count);
        return -1;
    }
    memset(node.output, -1, sizeof node.output);
    memset(node.use, -1, sizeof node.use);
    for (int32_t i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
        node.input[i] = i < count ? inputs[i] : -1;
    }
    if (attributes) {
        node.attributes = *attributes;
    }
    if (!sparse_fits(graph, &node) || node.op->infer(graph, &node, &graph->error) != CULM_OK) {
        return -1;
    }
    culm_graph_number_uses(graph, &node);
    if (!culm_graph_append(graph, &node)) {
        return -1;
    }
    graph->blocks = graph->block + 1;
    return node.output[0];
}
