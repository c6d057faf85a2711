/*
 * What of a model is not supported, in words of the field: after a build has failed, looks for what
 * is known to be the cause, which lies in front of the node at which it failed.
 */
#include "onnx/build.h"

#include "onnx/ops.h"

#include <stdio.h>
#include <string.h>

/* The maker of an input of a node, behind reshapes. */
static const struct culm_onnx_node *before(const struct culm_onnx_graph *graph,
                                           const struct culm_onnx_node *node, int32_t i) {
    do {
        node = culm_onnx_maker(graph, culm_onnx_input(graph, node, i));
        i = 0;
    } while (culm_onnx_is_ours(node, "reshape") || culm_onnx_is(node, "Unsqueeze"));
    return node;
}

/* x -> [-x2, x1] with the halves of x, or with every other number: queries and keys are turned. */
static bool is_rotary(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node) {
    for (int32_t i = 0; culm_onnx_is(node, "Concat") && i < node->inputs; i++) {
        const struct culm_onnx_node *minus = before(graph, node, i);
        const struct culm_onnx_node *half =
            culm_onnx_is(minus, "Neg") ? before(graph, minus, 0) : NULL;
        if (culm_onnx_is_ours(half, "slice") || culm_onnx_is(half, "Slice")) {
            return true;
        }
    }
    return strcmp(node->op, "RotaryEmbedding") == 0;
}

/* Heads of keys and values that several heads of queries share: [B,H,1,T,D] -> [B,H,n,T,D]. */
static bool is_grouped(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node) {
    int32_t x = node->inputs ? culm_onnx_input(graph, node, 0) : -1, y = node->output[0];
    if (culm_onnx_is(node, "Expand") && x >= 0 && y >= 0) {
        const struct culm_onnx_value *from = &graph->value[x], *to = &graph->value[y];
        return from->rank == 5 && to->rank == 5 && from->dim[2] == 1 && to->dim[2] > 1;
    }
    return strcmp(node->op, "GroupQueryAttention") == 0 ||
           (culm_onnx_is(node, "Attention") &&
            culm_onnx_int(node, "q_num_heads", 0) != culm_onnx_int(node, "kv_num_heads", 0));
}

static bool is_recurrent(const struct culm_onnx_node *node) {
    return culm_onnx_is(node, "LSTM") || culm_onnx_is(node, "GRU") || culm_onnx_is(node, "RNN");
}

/* What a quantiser puts into a file. */
static bool is_quantised(const struct culm_onnx_node *node) {
    return strstr(node->op, "QuantizeLinear") || strncmp(node->op, "QLinear", 7) == 0 ||
           culm_onnx_is(node, "ConvInteger") || culm_onnx_is(node, "MatMulInteger");
}

/* An input that is a mask by its name, and is still read. */
static const struct culm_onnx_value *mask_of(const struct culm_onnx_graph *graph) {
    for (int32_t k = 0; k < graph->input_count; k++) {
        const struct culm_onnx_value *v = &graph->value[graph->input[k]];
        if (v->uses > 0 && v->rank == 2 && strstr(v->name, "mask")) {
            return v;
        }
    }
    return NULL;
}

static bool reads_text(const struct culm_onnx_graph *graph) {
    for (int32_t k = 0; k < graph->input_count; k++) {
        const struct culm_onnx_value *v = &graph->value[graph->input[k]];
        if ((v->type == CULM_ONNX_INT64 || v->type == CULM_ONNX_INT32) && v->rank == 2) {
            return true;
        }
    }
    return false;
}

enum culm_status culm_onnx_say_unsupported(const struct culm_onnx_graph *graph,
                                           enum culm_status status, struct culm_error *error) {
    const char *recurrent = NULL;
    const char *quantised = NULL;
    bool rotary = false, grouped = false;
    const struct culm_onnx_value *mask = mask_of(graph);
    if (status != CULM_ERR_UNSUPPORTED) {
        return status;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_onnx_node *node = &graph->node[i];
        if (!node->dead) {
            quantised = is_quantised(node) && !quantised ? node->op : quantised;
            recurrent = is_recurrent(node) ? node->op : recurrent;
            rotary |= is_rotary(graph, node);
            grouped |= is_grouped(graph, node);
        }
    }
    if (quantised) {
        return culm_error_set(error, status,
                              "onnx '%s': quantised models (operator '%s') are not supported; use "
                              "the file from before they were quantised",
                              graph->path, quantised);
    }
    if (recurrent) {
        return culm_error_set(error, status,
                              "onnx '%s': recurrent layers (%s) are not supported; the recurrent "
                              "network that Culm trains is its own, 'arch: gnmt'",
                              graph->path, recurrent);
    }
    if (rotary || grouped) {
        return culm_error_set(
            error, status,
            "onnx '%s': %s%s%s not supported; what is: positions that are rows of a table, and as "
            "many heads of keys as of queries, as in GPT-2 and BERT",
            graph->path, rotary ? "rotary positions" : "", rotary && grouped ? " and " : "",
            grouped ? (rotary ? "grouped-query attention are" : "grouped-query attention is")
                    : " are");
    }
    if (mask) {
        return culm_error_set(error, status,
                              "onnx '%s': input '%.60s' is a mask that is used otherwise than to "
                              "hide keys, which is not supported; export without it, with the ids "
                              "as the only input",
                              graph->path, mask->name);
    }
    if (reads_text(graph) && error) {
        struct culm_error where = *error;
        return culm_error_set(error, status,
                              "%s; a model of text is read if it is made like GPT-2 or BERT: "
                              "positions that are rows of a table, and attention without biases "
                              "of its own",
                              where.text);
    }
    return status;
}

/* --- masks that hide nothing --- */

static bool all_causal(const struct culm_onnx_graph *graph) {
    bool any = false;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_onnx_node *node = &graph->node[i];
        if (!node->dead && culm_onnx_is_ours(node, "attention")) {
            if (!node->culm.causal) {
                return false;
            }
            any = true;
        }
    }
    return any;
}

void culm_onnx_drop_masks(struct culm_onnx_graph *graph, struct culm_onnx_notes *notes) {
    int32_t told = -1;
    if (culm_onnx_output_of(graph, 3) < 0 || !all_causal(graph)) {
        return;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        struct culm_onnx_node *node = &graph->node[i];
        int32_t mask = node->dead || !culm_onnx_is_ours(node, "attention")
                           ? -1
                           : culm_onnx_input(graph, node, 3);
        if (mask < 0) {
            continue;
        }
        node->input[3] = -1;
        if (mask != told) {
            culm_onnx_note(notes,
                           "input '%.60s' is taken to be all ones, and is not a field of the "
                           "samples: texts are trained without padding",
                           graph->value[mask].name);
            told = mask;
        }
    }
    culm_onnx_count_uses(graph);
}
