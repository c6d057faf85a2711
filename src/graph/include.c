/* One graph inside another. See graph.h. */
#include "graph/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct include {
    struct culm_graph *to;
    const struct culm_graph *from;
    culm_rename_fn *rename;
    void *ctx;
    int32_t *value; /* [value_count of from]: the value in `to` */
    int32_t params; /* that `to` had before: those may be shared */
};

/* False after an error: a name that was cut could be another one's. */
static bool name_of(const struct include *in, const char *name, char *ret_name, size_t size) {
    if (in->rename) {
        in->rename(in->ctx, name, ret_name, size);
    } else {
        snprintf(ret_name, size, "%s", name);
    }
    if (strlen(ret_name) + 1 < size) {
        return true;
    }
    culm_error_set(&in->to->error, CULM_ERR_UNSUPPORTED,
                   "the name '%s' is too long; names have fewer than %zu bytes", ret_name,
                   size - 1);
    return false;
}

/* The parameter's value: the one that has its new name, or a new one. */
static int32_t include_param(struct include *in, const struct culm_param *param) {
    struct culm_param own = *param;
    if (!name_of(in, param->name, own.name, sizeof own.name)) {
        return -1;
    }
    for (int32_t i = 0; i < in->to->param_count; i++) {
        const struct culm_param *there = &in->to->param[i];
        if (strcmp(there->name, own.name) != 0) {
            continue;
        }
        if (i >= in->params) {
            culm_error_set(&in->to->error, CULM_ERR_CONFIG,
                           "two parameters of one model would be called '%s'", own.name);
            return -1;
        }
        if (!culm_shape_equal(&there->shape, &own.shape) ||
            !culm_shape_equal(&there->written, &own.written) || there->statistic != own.statistic ||
            there->decay != own.decay) {
            char left[96], right[96];
            culm_error_set(&in->to->error, CULM_ERR_CONFIG,
                           "parameter '%s' cannot be shared: it is %s and %s%s%s", own.name,
                           culm_shape_format(&there->written, left, sizeof left),
                           culm_shape_format(&own.written, right, sizeof right),
                           there->statistic != own.statistic ? ", trained and a statistic" : "",
                           there->decay != own.decay ? ", with weight decay and without" : "");
            return -1;
        }
        return there->value;
    }
    int32_t value = culm_graph_param(in->to, own.name, &own.shape, own.init, own.std, own.decay);
    if (value >= 0) {
        own.value = value;
        in->to->param[in->to->value[value].param] = own;
    }
    return value;
}

static int32_t include_value(struct include *in, int32_t id) {
    const struct culm_value *from = &in->from->value[id];
    if (from->kind == CULM_VALUE_PARAM) {
        return include_param(in, &in->from->param[from->param]);
    }
    if (from->kind == CULM_VALUE_FIELD) {
        const struct culm_field *field = &in->from->field[from->field];
        char name[sizeof field->name];
        return !name_of(in, field->name, name, sizeof name)
                   ? -1
                   : culm_graph_field(in->to, name, field->dtype, &field->shape);
    }
    int32_t value = culm_graph_value(in->to, from->kind, from->dtype, &from->shape);
    if (value >= 0) {
        /* Both are values of before. */
        in->to->value[value].same_as = from->same_as >= 0 ? in->value[from->same_as] : -1;
        in->to->value[value].like = from->like >= 0 ? in->value[from->like] : -1;
    }
    return value;
}

static bool include_node(struct include *in, const struct culm_node_desc *from, int32_t block) {
    struct culm_node_desc node = *from;
    for (int32_t i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
        node.input[i] = from->input[i] >= 0 ? in->value[from->input[i]] : -1;
    }
    for (int32_t i = 0; i < CULM_NODE_OUTPUTS_MAX; i++) {
        node.output[i] = from->output[i] >= 0 ? in->value[from->output[i]] : -1;
    }
    node.operator_id = in->to->node_count;
    node.block = block + from->block;
    culm_graph_number_uses(in->to, &node);
    return culm_graph_append(in->to, &node);
}

enum culm_status culm_graph_include(struct culm_graph *graph, const struct culm_graph *other,
                                    culm_rename_fn *rename, void *ctx, int32_t *ret_value,
                                    struct culm_error *error) {
    struct include in = {
        .to = graph,
        .from = other,
        .rename = rename,
        .ctx = ctx,
        .params = graph->param_count,
        .value = malloc(((size_t)other->value_count + 1) * sizeof *in.value),
    };
    if (!in.value) {
        return culm_error_set(error, CULM_ERR_MEMORY, "graph: out of memory");
    }
    if (graph->device != other->device) {
        culm_error_set(&graph->error, CULM_ERR_CONFIG, "the graphs are for different devices");
    } else if (other->error.status != CULM_OK) {
        graph->error = other->error;
    }
    for (int32_t v = 0; v < other->value_count && graph->error.status == CULM_OK; v++) {
        in.value[v] = include_value(&in, v);
    }
    int32_t block = graph->blocks;
    for (int32_t i = 0; i < other->node_count && graph->error.status == CULM_OK; i++) {
        include_node(&in, &other->node[i], block);
    }
    for (int32_t i = 0; i < other->output_count && graph->error.status == CULM_OK; i++) {
        char name[sizeof other->output[i].name];
        if (name_of(&in, other->output[i].name, name, sizeof name)) {
            culm_graph_output(graph, name, in.value[other->output[i].value]);
            culm_graph_output_end(graph, other->output[i].end);
        }
    }
    enum culm_status status = culm_graph_check(graph, error);
    if (status == CULM_OK) {
        graph->blocks = block + other->blocks;
        graph->block = graph->blocks;
        if (ret_value) {
            memcpy(ret_value, in.value, (size_t)other->value_count * sizeof *ret_value);
        }
    }
    free(in.value);
    return status;
}
