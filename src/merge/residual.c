/* Recognizing residual branches. See residual.h. */
#include "merge/residual.h"

#include "graph/ops.h"

#include <stdlib.h>

/* What becomes of a value if a batch norm puts out zeros. */
enum being { AS_EVER, ZERO, OTHER };

static bool keeps_zero(const struct culm_node_desc *node) {
    switch (node->attributes.function) {
    case CULM_FUNCTION_NONE:
    case CULM_FUNCTION_RELU:
    case CULM_FUNCTION_RELU6:
    case CULM_FUNCTION_LEAKY_RELU:
    case CULM_FUNCTION_SILU:
    case CULM_FUNCTION_TANH: return true;
    default: return false;
    }
}

/* What a node that reads `zeros` zero inputs puts out. *ret_known: whether it is an operator that
 * activations are spelled out with. */
static enum being made_by(const struct culm_node_desc *node, int32_t zeros, bool *ret_known) {
    *ret_known = true;
    if (node->op == &culm_op_activation) {
        return zeros > 0 && keeps_zero(node) ? ZERO : OTHER;
    }
    if (node->op == &culm_op_affine) {
        return zeros > 0 && node->attributes.shift == 0 ? ZERO : OTHER;
    }
    *ret_known = node->op == &culm_op_binary && node->attributes.function == CULM_FUNCTION_MUL;
    return zeros > 0 ? ZERO : OTHER;
}

/* The other summand, if the zeros go through activations only and are then added to something; -1:
 * they do not. */
static int32_t went_past(const struct culm_graph *graph, int32_t norm, enum being *being) {
    int32_t past = -1;
    being[graph->node[norm].output[0]] = ZERO;
    for (int32_t i = norm + 1; i < graph->node_count; i++) {
        const struct culm_node_desc *node = &graph->node[i];
        int32_t zeros = 0, others = 0, unchanged = -1;
        for (int32_t k = 0; k < node->op->inputs; k++) {
            const int32_t value = node->input[k];
            zeros += value >= 0 && being[value] == ZERO;
            others += value >= 0 && being[value] == OTHER;
            unchanged = value >= 0 && being[value] == AS_EVER ? value : unchanged;
        }
        if (zeros + others == 0) {
            continue;
        }
        if (node->op == &culm_op_add) {
            if (past >= 0 || zeros != 1 || unchanged < 0) {
                return -1;
            }
            past = unchanged;
            continue;
        }
        bool known;
        being[node->output[0]] = made_by(node, zeros, &known);
        if (!known) {
            return -1;
        }
    }
    for (int32_t o = 0; o < graph->output_count; o++) {
        past = being[graph->output[o].value] == AS_EVER ? past : -1;
    }
    return past;
}

/* Whether a node depends on a value, directly or not. needed[values] has to be all false. */
static bool comes_from(const struct culm_graph *graph, int32_t node, int32_t value, bool *needed) {
    needed[graph->node[node].output[0]] = true;
    for (int32_t i = node; i >= 0; i--) {
        const struct culm_node_desc *from = &graph->node[i];
        bool wanted = false;
        for (int32_t k = 0; k < from->op->outputs; k++) {
            wanted |= from->output[k] >= 0 && needed[from->output[k]];
        }
        for (int32_t k = 0; k < from->op->inputs && wanted; k++) {
            if (from->input[k] >= 0) {
                needed[from->input[k]] = true;
            }
        }
    }
    return needed[value];
}

bool culm_merge_residual(const struct culm_graph *graph, int32_t norm) {
    if (graph->node[norm].input[5] >= 0) {
        return true;
    }
    enum being *being = calloc((size_t)graph->value_count + 1, sizeof *being);
    bool *needed = calloc((size_t)graph->value_count + 1, sizeof *needed);
    const int32_t past = being && needed ? went_past(graph, norm, being) : -1;
    const bool is = past >= 0 && comes_from(graph, norm, past, needed);
    free(being);
    free(needed);
    return is;
}
