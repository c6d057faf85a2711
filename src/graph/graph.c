/* Building a graph. See graph.h. */
#include "graph/graph.h"

#include "graph/op.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct culm_graph *culm_graph_new(void) {
    struct culm_graph *graph = calloc(1, sizeof *graph);
    if (graph) {
        graph->output = CULM_NO_VALUE;
        graph->unit_count = 1;
    }
    return graph;
}

void culm_graph_free(struct culm_graph *graph) {
    if (!graph)
        return;
    for (int32_t i = 0; i < graph->value_count; i++)
        free(graph->values[i].name);
    free(graph->values);
    free(graph->nodes);
    free(graph->gradients);
    free(graph);
}

void culm_graph_fail(struct culm_graph *graph, enum culm_status status, const char *format, ...) {
    if (graph->status != CULM_OK)
        return;
    va_list args;
    va_start(args, format);
    graph->status = culm_error_setv(&graph->error, status, format, args);
    va_end(args);
}

enum culm_status culm_graph_status(const struct culm_graph *graph, struct culm_error *error) {
    if (graph->status != CULM_OK && error)
        *error = graph->error;
    return graph->status;
}

void culm_graph_unit(struct culm_graph *graph, int32_t unit) {
    assert(unit == graph->unit_count - 1 || unit == graph->unit_count);
    graph->unit_count = unit + 1;
}

/* Room for one more element; false and a failed graph when there is none. */
static bool grow(struct culm_graph *graph, void **array, int32_t count, int32_t *capacity,
                 size_t element_bytes) {
    if (count < *capacity)
        return true;
    int32_t larger = *capacity ? *capacity * 2 : 64;
    void *moved = realloc(*array, (size_t)larger * element_bytes);
    if (!moved) {
        culm_graph_fail(graph, CULM_ERR_MEMORY, "graph: out of memory");
        return false;
    }
    *array = moved;
    *capacity = larger;
    return true;
}

static int32_t add_value(struct culm_graph *graph, struct culm_value value) {
    struct culm_error error;
    if (graph->status != CULM_OK ||
        !grow(graph, (void **)&graph->values, graph->value_count, &graph->value_capacity,
              sizeof *graph->values))
        return CULM_NO_VALUE;
    if (culm_shape_count(&value.type.shape, &value.count, &error) != CULM_OK) {
        culm_graph_fail(graph, CULM_ERR_CONFIG, "%s", error.text);
        return CULM_NO_VALUE;
    }
    graph->values[graph->value_count] = value;
    return graph->value_count++;
}

int32_t culm_graph_input(struct culm_graph *graph, enum culm_role role, enum culm_dtype dtype,
                         int rank, const int64_t *dim) {
    return add_value(graph, (struct culm_value){.kind = CULM_VALUE_INPUT,
                                                .type = {dtype, culm_shape_of(rank, dim)},
                                                .producer = -1,
                                                .role = role});
}

int32_t culm_graph_param(struct culm_graph *graph, const char *name, int rank, const int64_t *dim) {
    for (int32_t i = 0; i < graph->value_count; i++) {
        if (graph->values[i].name && strcmp(graph->values[i].name, name) == 0) {
            culm_graph_fail(graph, CULM_ERR_CONFIG, "two parameters are called '%s'", name);
            return CULM_NO_VALUE;
        }
    }
    char *copy = strdup(name);
    if (!copy) {
        culm_graph_fail(graph, CULM_ERR_MEMORY, "graph: out of memory");
        return CULM_NO_VALUE;
    }
    int32_t value =
        add_value(graph, (struct culm_value){.kind = CULM_VALUE_PARAM,
                                             .type = {CULM_F32, culm_shape_of(rank, dim)},
                                             .name = copy,
                                             .producer = -1,
                                             .param = graph->param_count});
    if (value == CULM_NO_VALUE)
        free(copy);
    else
        graph->param_count++;
    return value;
}

int32_t culm_graph_accumulator(struct culm_graph *graph, int32_t param) {
    if (graph->status != CULM_OK)
        return CULM_NO_VALUE;
    const struct culm_value *of = &graph->values[param];
    assert(of->kind == CULM_VALUE_PARAM);
    return add_value(graph, (struct culm_value){.kind = CULM_VALUE_ACCUMULATOR,
                                                .type = of->type,
                                                .producer = -1,
                                                .param = of->param,
                                                .use = graph->use_count++});
}

void culm_graph_output(struct culm_graph *graph, int32_t value) { graph->output = value; }

/* --- nodes --- */

static enum culm_status infer(struct culm_graph *graph, const struct culm_node *node,
                              struct culm_type *ret_types, struct culm_error *error) {
    const struct culm_op *op = node->op;
    struct culm_op_site site = {.attrs = &node->attrs};
    for (int i = 0; i < op->inputs; i++) {
        if (node->in[i] == CULM_NO_VALUE) {
            if (!(op->optional >> i & 1))
                return culm_error_set(error, CULM_ERR_CONFIG, "input %d is missing", i);
            continue;
        }
        site.in[i] = &graph->values[node->in[i]];
        if ((op->params >> i & 1) && site.in[i]->kind != CULM_VALUE_PARAM)
            return culm_error_set(error, CULM_ERR_CONFIG, "input %d is no parameter", i);
    }
    return op->infer(&site, ret_types, error);
}

static void apply(struct culm_graph *graph, struct culm_node node, const int32_t *in,
                  const int32_t *given_out, int32_t *ret_out) {
    const struct culm_op *op = node.op;
    struct culm_type types[CULM_OP_MAX_OUTPUTS];
    struct culm_error error;
    for (int o = 0; o < CULM_OP_MAX_OUTPUTS; o++)
        ret_out[o] = node.out[o] = CULM_NO_VALUE;
    if (graph->status != CULM_OK)
        return;
    for (int i = 0; i < CULM_OP_MAX_INPUTS; i++)
        node.in[i] = i < op->inputs ? in[i] : CULM_NO_VALUE;
    int32_t index = graph->node_count;
    if (infer(graph, &node, types, &error) != CULM_OK) {
        culm_graph_fail(graph, CULM_ERR_CONFIG, "operator %d (%s): %s", index, op->name,
                        error.text);
        return;
    }
    for (int o = 0; o < op->outputs; o++) {
        int32_t given = given_out ? given_out[o] : CULM_NO_VALUE;
        if (given == CULM_NO_VALUE) {
            node.out[o] = add_value(graph, (struct culm_value){.kind = CULM_VALUE_COMPUTED,
                                                               .type = types[o],
                                                               .producer = index});
        } else {
            struct culm_value *value = &graph->values[given];
            assert(value->kind == CULM_VALUE_ACCUMULATOR && value->producer < 0);
            assert(culm_shape_equal(&value->type.shape, &types[o].shape));
            value->producer = index;
            node.out[o] = given;
        }
    }
    if (!grow(graph, (void **)&graph->nodes, index, &graph->node_capacity, sizeof *graph->nodes) ||
        graph->status != CULM_OK)
        return;
    graph->nodes[graph->node_count++] = node;
    memcpy(ret_out, node.out, sizeof node.out);
}

void culm_graph_apply(struct culm_graph *graph, const struct culm_op *op,
                      const struct culm_attrs *attrs, const int32_t *in,
                      int32_t ret_out[CULM_OP_MAX_OUTPUTS]) {
    assert(!graph->differentiated);
    struct culm_node node = {
        .op = op, .attrs = *attrs, .id = graph->node_count, .unit = graph->unit_count - 1};
    apply(graph, node, in, NULL, ret_out);
    graph->forward_count = graph->node_count;
}

void culm_graph_apply_backward(struct culm_graph *graph, const struct culm_op *op,
                               const struct culm_attrs *attrs, int32_t id, int32_t unit,
                               const int32_t *in, const int32_t *given_out,
                               int32_t ret_out[CULM_OP_MAX_OUTPUTS]) {
    struct culm_node node = {
        .op = op, .attrs = *attrs, .id = id, .unit = unit, .backward = true};
    apply(graph, node, in, given_out, ret_out);
}

double culm_graph_flops(const struct culm_graph *graph, int32_t first_unit, int32_t last_unit,
                        bool backward) {
    double sum = 0;
    for (int32_t n = 0; n < graph->node_count; n++) {
        const struct culm_node *node = &graph->nodes[n];
        if (node->backward != backward || node->unit < first_unit || node->unit > last_unit ||
            !node->op->flops)
            continue;
        struct culm_op_site site = {.attrs = &node->attrs};
        for (int i = 0; i < node->op->inputs; i++)
            site.in[i] = node->in[i] == CULM_NO_VALUE ? NULL : &graph->values[node->in[i]];
        sum += node->op->flops(&site);
    }
    return sum;
}
