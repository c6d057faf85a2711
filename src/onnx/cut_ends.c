/*
 * What an output means: cuts off the softmax, log-softmax or sigmoid that a file ends in, and keeps
 * which it was, in the `end` of the value that enters it. Losses and answers are worked out from
 * that value, so nothing is applied twice; export and culm_layer_ends apply the end again.
 *
 * Only the outputs that are used are cut, and the others are left out, with what they alone need. An
 * end may be spelled out, as a quotient of exponentials or as the logarithm of a softmax, and may be
 * reshaped behind it, as [N,C,1,1] is to [N,C].
 */
#include "onnx/build.h"

#include "onnx/ops.h"

static bool is_activation(const struct culm_onnx_node *node, enum culm_function function) {
    return culm_onnx_is_ours(node, "activation") && node->culm.function == function;
}

/* Of how many numbers it makes a row; 0: of numbers that are not in a row. */
static int64_t row_of(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node) {
    const struct culm_onnx_value *x = &graph->value[culm_onnx_input(graph, node, 0)];
    bool flat = graph->opset < 13; /* everything from the axis on is one row */
    int64_t axis = culm_onnx_int(node, "axis", flat ? 1 : -1), row = 1;
    axis = axis < 0 ? axis + x->rank : axis;
    if (axis < 0 || axis >= x->rank) {
        return 0;
    }
    for (int i = (int)axis; i < x->rank; i++) {
        if (!flat && i > axis && x->dim[i] != 1) {
            return 0;
        }
        row *= x->dim[i];
    }
    return row;
}

/* e^x / sum(e^x) over the last dimension. */
static bool is_quotient(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node) {
    int32_t e = culm_onnx_input(graph, node, 0);
    const struct culm_onnx_node *sum = culm_onnx_maker(graph, culm_onnx_input(graph, node, 1));
    if (!culm_onnx_is(node, "Div") ||
        !is_activation(culm_onnx_maker(graph, e), CULM_FUNCTION_EXP) ||
        !culm_onnx_is(sum, "ReduceSum") || culm_onnx_input(graph, sum, 0) != e) {
        return false;
    }
    const struct culm_onnx_value *x = &graph->value[e], *y = &graph->value[sum->output[0]];
    bool last = x->rank > 1 && y->rank == x->rank && y->dim[x->rank - 1] == 1;
    for (int i = 0; i + 1 < x->rank; i++) {
        last &= x->dim[i] == y->dim[i];
    }
    return last;
}

/* What a node makes of its input, *ret_from; *ret_row: in rows of so many numbers, 0 if of each by
 * itself. NONE: it is no end. */
static enum culm_function end_of(const struct culm_onnx_graph *graph,
                                 const struct culm_onnx_node *node, int32_t *ret_from,
                                 int64_t *ret_row) {
    if (!node || culm_onnx_input(graph, node, 0) < 0 || !culm_onnx_shaped(graph, node)) {
        return CULM_FUNCTION_NONE;
    }
    int32_t x = culm_onnx_input(graph, node, 0);
    const struct culm_onnx_node *before = culm_onnx_maker(graph, x);
    if (culm_onnx_is(node, "Softmax") || culm_onnx_is(node, "LogSoftmax")) {
        *ret_from = x;
        *ret_row = row_of(graph, node);
        return !*ret_row                       ? CULM_FUNCTION_NONE
               : culm_onnx_is(node, "Softmax") ? CULM_FUNCTION_SOFTMAX
                                               : CULM_FUNCTION_LOG_SOFTMAX;
    }
    if (is_activation(node, CULM_FUNCTION_SIGMOID)) {
        *ret_from = x;
        *ret_row = 0;
        return CULM_FUNCTION_SIGMOID;
    }
    if (is_quotient(graph, node)) {
        *ret_from = culm_onnx_input(graph, before, 0);
        *ret_row = graph->value[x].dim[graph->value[x].rank - 1];
        return CULM_FUNCTION_SOFTMAX;
    }
    bool log = is_activation(node, CULM_FUNCTION_LOG), e = is_activation(node, CULM_FUNCTION_EXP);
    if ((log && (culm_onnx_is(before, "Softmax") || is_quotient(graph, before))) ||
        (e && culm_onnx_is(before, "LogSoftmax"))) {
        enum culm_function inner = end_of(graph, before, ret_from, ret_row);
        return inner == CULM_FUNCTION_NONE ? inner
               : log                       ? CULM_FUNCTION_LOG_SOFTMAX
                                           : CULM_FUNCTION_SOFTMAX;
    }
    return CULM_FUNCTION_NONE;
}

/* Cuts output k. A reshape behind the end is made again, of what entered the end. False: out of
 * memory. */
static bool cut(struct culm_onnx_graph *graph, int32_t k, struct culm_onnx_notes *notes) {
    const char *name = graph->value[graph->output[k]].name;
    int32_t value = culm_onnx_at(graph, graph->output[k]), from = -1;
    const struct culm_onnx_value v = graph->value[value];
    const struct culm_onnx_node *maker = culm_onnx_maker(graph, value);
    int32_t reshape = culm_onnx_is_ours(maker, "reshape") ? culm_onnx_index(graph, maker) : -1;
    int64_t row = 0;
    if (reshape >= 0) {
        maker = culm_onnx_maker(graph, culm_onnx_input(graph, maker, 0));
    }
    enum culm_function end = end_of(graph, maker, &from, &row);
    if (end == CULM_FUNCTION_NONE || (row && row != v.dim[v.rank - 1]) ||
        !culm_onnx_maker(graph, from)) {
        return true;
    }
    if (reshape >= 0) {
        from = culm_onnx_insert(graph, reshape, "reshape", &from, 1, NULL, v.rank, v.dim);
        if (from < 0) {
            return false;
        }
    }
    graph->output[k] = from;
    graph->value[from].output = true;
    graph->value[from].end = end;
    bool each = end == CULM_FUNCTION_SIGMOID;
    culm_onnx_note(notes,
                   each ? "output '%.60s' ends in a %s: predictions are the probability of each "
                          "class by itself; it cannot be trained or evaluated, since there is no "
                          "loss for that"
                        : "output '%.60s' ends in a %s: losses and predictions are worked out from "
                          "what enters it, and export writes it again",
                   name, culm_end_name(end));
    return true;
}

bool culm_onnx_cut_ends(struct culm_onnx_graph *file, struct culm_onnx_notes *notes) {
    int32_t kept = 0, used[2] = {culm_onnx_output_of(file, 3), culm_onnx_output_of(file, 2)};
    for (int i = 0; i < 2; i++) {
        if (used[i] >= 0 && !cut(file, used[i], notes)) {
            return false;
        }
    }
    for (int32_t k = 0; k < file->output_count && (used[0] >= 0 || used[1] >= 0); k++) {
        if (k == used[0] || k == used[1]) {
            file->output[kept++] = file->output[k];
        }
    }
    file->output_count = kept ? kept : file->output_count;
    return culm_onnx_sort(file);
}
