/* What the passes have in common. See rewrite.h. */
#include "onnx/rewrite.h"

#include "base/grow.h"
#include "onnx/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void culm_onnx_note(struct culm_onnx_notes *notes, const char *format, ...) {
    va_list args;
    if (notes->count == CULM_ONNX_NOTES_MAX) {
        return;
    }
    va_start(args, format);
    vsnprintf(notes->text[notes->count++], CULM_ONNX_NOTE_MAX, format, args);
    va_end(args);
}

bool culm_onnx_is(const struct culm_onnx_node *node, const char *op) {
    return node && !node->domain[0] && strcmp(node->op, op) == 0;
}

bool culm_onnx_is_ours(const struct culm_onnx_node *node, const char *op) {
    return node && strcmp(node->domain, CULM_ONNX_OURS) == 0 && strcmp(node->op, op) == 0;
}

int32_t culm_onnx_index(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node) {
    return (int32_t)(node - graph->node);
}

bool culm_onnx_scalar(const struct culm_onnx_graph *graph, int32_t value, double *ret_number) {
    const struct culm_onnx_tensor *data = value < 0 ? NULL : graph->value[value].data;
    if (!data || !data->data || data->elements != 1) {
        return false;
    }
    *ret_number = culm_onnx_get_real(data, 0);
    return true;
}

bool culm_onnx_scalar_is(const struct culm_onnx_graph *graph, int32_t value, double number) {
    double has;
    return culm_onnx_scalar(graph, value, &has) && fabs(has - number) <= 1e-5 * fabs(number);
}

bool culm_onnx_is_weight(const struct culm_onnx_graph *graph, int32_t value) {
    const struct culm_onnx_value *v = value < 0 ? NULL : &graph->value[value];
    return v && v->data && v->data->data && v->rank > 0 && culm_onnx_is_real(v->type);
}

bool culm_onnx_same_shape(const struct culm_onnx_graph *graph, int32_t a, int32_t b) {
    if (a < 0 || b < 0) {
        return false;
    }
    const struct culm_onnx_value *x = &graph->value[a], *y = &graph->value[b];
    return x->rank >= 0 && x->rank == y->rank &&
           memcmp(x->dim, y->dim, (size_t)x->rank * sizeof *x->dim) == 0;
}

bool culm_onnx_shaped(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node) {
    for (int32_t k = 0; k < node->inputs; k++) {
        int32_t input = culm_onnx_input(graph, node, k);
        if (input >= 0 && graph->value[input].rank < 0) {
            return false;
        }
    }
    return node->inputs == 0 || culm_onnx_input(graph, node, 0) >= 0;
}

bool culm_onnx_order(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node,
                     int ret_perm[CULM_ONNX_RANK_MAX]) {
    if (!culm_onnx_is(node, "Transpose") || !culm_onnx_shaped(graph, node)) {
        return false;
    }
    const struct culm_onnx_attribute *a = culm_onnx_list(node, "perm");
    int rank = graph->value[culm_onnx_input(graph, node, 0)].rank;
    for (int i = 0; i < rank; i++) { /* perm is valid, since the shape was inferred */
        ret_perm[i] = a ? (int)(a->ints[i] < 0 ? a->ints[i] + rank : a->ints[i]) : rank - 1 - i;
    }
    return true;
}

void culm_onnx_alias(struct culm_onnx_graph *graph, int32_t value, int32_t by) {
    by = culm_onnx_at(graph, by);
    if (value != by) {
        graph->value[value].same_as = by;
    }
}

static bool set_inputs(struct culm_onnx_graph *graph, struct culm_onnx_node *node,
                       const int32_t *inputs, int32_t count) {
    int32_t *copy = culm_onnx_alloc(&graph->arena, (uint64_t)count, sizeof *copy);
    if (!copy) {
        return false;
    }
    memcpy(copy, inputs, (size_t)count * sizeof *copy);
    node->input = copy;
    node->inputs = count;
    return true;
}

bool culm_onnx_become(struct culm_onnx_graph *graph, int32_t index, const char *op,
                      const int32_t *inputs, int32_t count) {
    struct culm_onnx_node *node = &graph->node[index];
    node->domain = CULM_ONNX_OURS;
    node->op = op;
    memset(&node->culm, 0, sizeof node->culm);
    return set_inputs(graph, node, inputs, count);
}

bool culm_onnx_become_transpose(struct culm_onnx_graph *graph, int32_t index, int32_t input,
                                int rank, const int *perm) {
    struct culm_onnx_node *node = &graph->node[index];
    struct culm_onnx_attribute *a = culm_onnx_alloc(&graph->arena, 1, sizeof *a);
    int64_t *ints = culm_onnx_alloc(&graph->arena, CULM_ONNX_RANK_MAX, sizeof *ints);
    if (!a || !ints) {
        return false;
    }
    for (int i = 0; i < rank; i++) {
        ints[i] = perm[i];
    }
    *a = (struct culm_onnx_attribute){
        .name = "perm", .kind = CULM_ONNX_ATTRIBUTE_INTS, .ints = ints, .count = rank};
    node->domain = "";
    node->op = "Transpose";
    node->attribute = a;
    node->attributes = 1;
    return set_inputs(graph, node, &input, 1);
}

int32_t culm_onnx_insert(struct culm_onnx_graph *graph, int32_t before, const char *op,
                         const int32_t *inputs, int32_t count,
                         const struct culm_attributes *attributes, int rank, const int64_t *dim) {
    if (!CULM_GROW(graph->node, graph->node_capacity, graph->node_count + 1)) {
        return -1;
    }
    struct culm_onnx_node *node = &graph->node[graph->node_count];
    const struct culm_onnx_node *root = &graph->node[before];
    char name[64];
    snprintf(name, sizeof name, "culm.%d", graph->value_count);
    const char *text = culm_onnx_copy_text(&graph->arena, name, strlen(name));
    int32_t *output = culm_onnx_alloc(&graph->arena, 1, sizeof *output);
    int32_t value = text && output ? culm_onnx_value_new(graph, text) : -1;
    *node = (struct culm_onnx_node){.op = op,
                                    .name = root->name,
                                    .domain = CULM_ONNX_OURS,
                                    .output = output,
                                    .outputs = 1,
                                    .order = root->order - 1};
    if (attributes) {
        node->culm = *attributes;
    }
    if (value < 0 || rank > CULM_ONNX_RANK_MAX || !set_inputs(graph, node, inputs, count)) {
        return -1;
    }
    output[0] = value;
    struct culm_onnx_value *v = &graph->value[value];
    v->type = CULM_ONNX_FLOAT;
    v->rank = rank;
    memcpy(v->dim, dim, (size_t)rank * sizeof *dim);
    v->node = graph->node_count++;
    v->uses = 1;
    return value;
}

struct place {
    int64_t order;
    int32_t index;
};

static int compare(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->order != y->order) {
        return x->order < y->order ? -1 : 1;
    }
    return (x->index > y->index) - (x->index < y->index);
}

bool culm_onnx_sort(struct culm_onnx_graph *graph) {
    size_t count = (size_t)graph->node_count;
    struct place *place = malloc((count + 1) * sizeof *place);
    struct culm_onnx_node *sorted = malloc((count + 1) * sizeof *sorted);
    if (!place || !sorted) {
        free(place);
        free(sorted);
        return false;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        place[i] = (struct place){graph->node[i].order, i};
    }
    if (count) {
        qsort(place, count, sizeof *place, compare);
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        sorted[i] = graph->node[place[i].index];
        sorted[i].order = (int64_t)i * 2;
        for (int32_t k = 0; k < sorted[i].outputs; k++) {
            if (sorted[i].output[k] >= 0) {
                graph->value[sorted[i].output[k]].node = i;
            }
        }
    }
    memcpy(graph->node, sorted, count * sizeof *sorted);
    free(place);
    free(sorted);
    culm_onnx_count_uses(graph);
    return true;
}

static bool fits(const struct culm_onnx_node *node, const char *op) {
    static const char ours[] = CULM_ONNX_OURS ".";
    size_t len = sizeof ours - 1;
    return strncmp(op, ours, len) == 0 ? culm_onnx_is_ours(node, op + len) : culm_onnx_is(node, op);
}

bool culm_onnx_for_each(struct culm_onnx_graph *graph, const struct culm_onnx_rule *rules,
                        void *context) {
    int32_t count = graph->node_count;
    for (int32_t i = 0; i < count; i++) {
        const struct culm_onnx_node *node = &graph->node[i];
        const struct culm_onnx_rule *rule = rules;
        if (node->dead || !culm_onnx_shaped(graph, node) || node->output[0] < 0 ||
            graph->value[node->output[0]].rank < 0) {
            continue;
        }
        while (rule->op && !fits(node, rule->op)) {
            rule++;
        }
        if (rule->op &&
            !(rule->apply ? rule->apply(graph, i) : rule->apply_with(graph, i, context))) {
            return false;
        }
    }
    return culm_onnx_sort(graph);
}
