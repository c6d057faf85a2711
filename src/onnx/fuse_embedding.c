/*
 * Recognizes tables: rows selected by integers of the samples, and rows of positions added to them.
 *
 * Positions are rows 0 to T-1 of a table, selected by constants, or as a slice of the table, or
 * (after an exporter has folded it) as a table of exactly that many rows. If all indices are zero,
 * as token types are by default, row 0 is added everywhere.
 */
#include "onnx/ops.h"
#include "onnx/pass.h"

static bool lookup(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t table = culm_onnx_input(graph, node, 0), ids = culm_onnx_input(graph, node, 1);
    if (!culm_onnx_is_weight(graph, table) || graph->value[table].rank != 2 || ids < 0 ||
        culm_onnx_int(node, "axis", 0) != 0 || graph->value[ids].data) {
        return true;
    }
    const int32_t inputs[] = {ids, table};
    return culm_onnx_become(graph, index, "lookup", inputs, 2);
}

/* x[b, index[b, k]]: rows that each sample selects. */
static bool rows_of_samples(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t x = culm_onnx_input(graph, node, 0), which = culm_onnx_input(graph, node, 1);
    const struct culm_onnx_node *maker = culm_onnx_maker(graph, which);
    const struct culm_onnx_value *v = which < 0 ? NULL : &graph->value[which];
    if (!v || culm_onnx_int(node, "batch_dims", 0) != 1 || graph->value[x].rank != 3 ||
        graph->value[x].data || v->rank != 3 || v->dim[2] != 1 ||
        !culm_onnx_is_ours(maker, "reshape")) {
        return true;
    }
    const int32_t inputs[] = {x, culm_onnx_input(graph, maker, 0)};
    const struct culm_attributes attributes = {.length = v->dim[1]};
    if (inputs[1] < 0 || graph->value[inputs[1]].rank != 2 ||
        graph->value[inputs[1]].dim[1] != v->dim[1]) {
        return true;
    }
    if (!culm_onnx_become(graph, index, "gather_rows", inputs, 2)) {
        return false;
    }
    graph->node[index].culm = attributes;
    return true;
}

/* Whether the numbers are 0, 1, 2, ... in each row of `length`. */
static bool counts_up(const struct culm_onnx_tensor *data, int64_t length) {
    for (int64_t i = 0; data && data->data && i < data->elements; i++) {
        if (culm_onnx_get_int(data, i) != i % length) {
            return false;
        }
    }
    return data && data->data && data->elements >= length && data->elements % length == 0;
}

/* The table that this value is the first rows of; -1: none. */
static int32_t table_of(const struct culm_onnx_graph *graph, int32_t value, int64_t rows,
                        int64_t width) {
    for (int depth = 0; depth < 4; depth++) {
        const struct culm_onnx_node *node = culm_onnx_maker(graph, value);
        const struct culm_onnx_value *v = &graph->value[value];
        if (culm_onnx_is_weight(graph, value)) {
            bool fits = v->rank >= 2 && v->dim[v->rank - 1] == width &&
                        v->dim[v->rank - 2] >= rows &&
                        v->data->elements == v->dim[v->rank - 2] * width;
            return fits ? value : -1;
        }
        if (culm_onnx_is_ours(node, "reshape")) {
            value = culm_onnx_input(graph, node, 0);
        } else if (culm_onnx_is_ours(node, "slice") && node->culm.start == 0 && v->rank >= 2 &&
                   node->culm.axis == v->rank - 2) {
            value = culm_onnx_input(graph, node, 0);
        } else if (culm_onnx_is(node, "Gather") && culm_onnx_int(node, "axis", 0) == 0 &&
                   culm_onnx_input(graph, node, 1) >= 0 &&
                   counts_up(graph->value[culm_onnx_input(graph, node, 1)].data, rows)) {
            value = culm_onnx_input(graph, node, 0);
        } else {
            return -1;
        }
        if (value < 0) {
            return -1;
        }
    }
    return -1;
}

/* The table whose row 0 is every row of this value; -1: none. */
static int32_t first_row_of(const struct culm_onnx_graph *graph, int32_t value) {
    const struct culm_onnx_node *node = culm_onnx_maker(graph, value);
    int32_t table = -1, ids = -1;
    if (culm_onnx_is(node, "Gather") && culm_onnx_int(node, "axis", 0) == 0) {
        table = culm_onnx_input(graph, node, 0);
        ids = culm_onnx_input(graph, node, 1);
    }
    if (ids < 0 || !culm_onnx_is_weight(graph, table) || graph->value[table].rank != 2) {
        return -1;
    }
    const struct culm_onnx_tensor *data = graph->value[ids].data;
    for (int64_t i = 0; data && data->data && i < data->elements; i++) {
        if (culm_onnx_get_int(data, i) != 0) {
            return -1;
        }
    }
    return data && data->data ? table : -1;
}

static bool positions(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t y = node->output[0];
    if (graph->value[y].rank != 3) {
        return true;
    }
    for (int i = 0; i < 2; i++) {
        int32_t x = culm_onnx_input(graph, node, i), other = culm_onnx_input(graph, node, 1 - i);
        if (!culm_onnx_same_shape(graph, x, y) || culm_onnx_is_weight(graph, x) ||
            graph->value[other].uses != 1) { /* a grid that distances are both subtracted from and
                                              * added to is no table of positions */
            continue;
        }
        int32_t inputs[] = {x,
                            table_of(graph, other, graph->value[y].dim[1], graph->value[y].dim[2])};
        if (inputs[1] >= 0) {
            return culm_onnx_become(graph, index, "positions", inputs, 2);
        }
        inputs[1] = first_row_of(graph, other);
        if (inputs[1] >= 0) {
            return culm_onnx_become(graph, index, "row", inputs, 2);
        }
    }
    return true;
}

/* A weight [1,1,C] repeated for every sample, to be concatenated with what samples have. */
static bool token(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    int32_t table = -1, x = -1;
    for (int32_t i = 0; i < node->inputs && node->inputs == 2; i++) {
        int32_t input = culm_onnx_input(graph, node, i);
        const struct culm_onnx_node *expand = culm_onnx_maker(graph, input);
        if (culm_onnx_is(expand, "Expand")) {
            table = culm_onnx_input(graph, expand, 0);
            x = culm_onnx_input(graph, node, 1 - i);
            const struct culm_onnx_value *w = &graph->value[table], *v = &graph->value[input];
            if (culm_onnx_is_weight(graph, table) && v->rank == 3 && v->dim[1] == 1 &&
                w->data->elements == v->dim[2] && w->dim[w->rank - 1] == v->dim[2] &&
                graph->value[x].rank == 3 && !culm_onnx_is_weight(graph, x)) {
                const int32_t inputs[] = {table, x};
                int64_t dim[3] = {v->dim[0], 1, v->dim[2]};
                int32_t made = culm_onnx_insert(graph, index, "token", inputs, 2, NULL, 3, dim);
                if (made < 0) {
                    return false;
                }
                graph->node[index].input[i] = made;
                return true;
            }
        }
    }
    return true;
}

bool culm_onnx_fuse_embedding(struct culm_onnx_graph *graph) {
    static const struct culm_onnx_rule rules[] = {
        {"Concat", .apply = token},
        {"GatherND", .apply = rows_of_samples},
        {"Gather", .apply = lookup},
        {"Add", .apply = positions},
        {0},
    };
    return culm_onnx_for_each(graph, rules, NULL);
}
