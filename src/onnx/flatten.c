/*
 * Five dimensions made four: heads of YOLOv5 hold [batch, anchors, numbers, height, width], where
 * height and width stay side by side all the way. They become one dimension, in all values of five
 * at once, or in none.
 */
#include "onnx/build.h"

#include "onnx/ops.h"

#include <stdlib.h>
#include <string.h>

#define FIVE 5

struct flat {
    struct culm_onnx_graph *graph;
    int8_t *pair; /* by value: where the two begin; 0: it is not of five dimensions, or not seen */
};

static bool is_five(const struct flat *f, int32_t value) {
    return value >= 0 && f->graph->value[value].rank == FIVE;
}

static bool is_unary(const struct culm_onnx_node *node) {
    return culm_onnx_is(node, "Sigmoid") || culm_onnx_is(node, "Exp") ||
           culm_onnx_is(node, "Neg") || culm_onnx_is(node, "Tanh") ||
           culm_onnx_is_ours(node, "activation");
}

static bool is_binary(const struct culm_onnx_node *node) {
    return culm_onnx_is(node, "Add") || culm_onnx_is(node, "Sub") || culm_onnx_is(node, "Mul") ||
           culm_onnx_is(node, "Div") || culm_onnx_is(node, "Pow");
}

static int64_t concat_axis(const struct culm_onnx_node *node) {
    const int64_t axis = culm_onnx_int(node, "axis", 0);
    return axis < 0 ? axis + FIVE : axis;
}

/* Numbers that go along with values of five dimensions whose pair begins at p: the two are there, or
 * both are 1. */
static bool constant_fits(const struct flat *f, int32_t value, int32_t like, int p) {
    const struct culm_onnx_value *v = &f->graph->value[value], *y = &f->graph->value[like];
    if (!v->data || v->rank > FIVE) {
        return false;
    }
    if (v->data->elements == 1 && v->rank < FIVE) {
        return true;
    }
    return v->rank == FIVE && v->uses == 1 &&
           ((v->dim[p] == 1 && v->dim[p + 1] == 1) ||
            (v->dim[p] == y->dim[p] && v->dim[p + 1] == y->dim[p + 1]));
}

/* The pair of a node's output; 0: it cannot be told. */
static int pair_of(const struct flat *f, const struct culm_onnx_node *node) {
    const struct culm_onnx_graph *graph = f->graph;
    const int32_t x = culm_onnx_input(graph, node, 0), y = node->output[0];
    const struct culm_onnx_value *from = x < 0 ? NULL : &graph->value[x], *to = &graph->value[y];
    int perm[CULM_ONNX_RANK_MAX], p = is_five(f, x) ? f->pair[x] : 0;
    if (culm_onnx_is_ours(node, "reshape")) { /* of an image: its pixels */
        return from && from->rank == 4 && from->dim[2] == to->dim[3] && from->dim[3] == to->dim[4]
                   ? 3
                   : 0;
    }
    if (culm_onnx_order(graph, node, perm)) {
        for (int i = 1; i + 1 < FIVE && p; i++) {
            if (perm[i] == p && perm[i + 1] == p + 1) {
                return i;
            }
        }
        return 0;
    }
    if (culm_onnx_is_ours(node, "slice")) {
        return node->culm.axis != p && node->culm.axis != p + 1 ? p : 0;
    }
    if (is_unary(node)) {
        return p;
    }
    if (is_binary(node)) {
        const int32_t second = culm_onnx_input(graph, node, 1);
        const int32_t made = is_five(f, x) && f->pair[x] ? x : second;
        const int32_t other = made == x ? second : x;
        p = is_five(f, made) ? f->pair[made] : 0;
        bool fits = p && other >= 0 && culm_onnx_same_shape(graph, made, y) &&
                    ((is_five(f, other) && f->pair[other] == p) || constant_fits(f, other, y, p));
        return fits ? p : 0;
    }
    if (culm_onnx_is(node, "Concat")) {
        for (int32_t k = 1; k < node->inputs; k++) {
            const int32_t other = culm_onnx_input(graph, node, k);
            p = is_five(f, other) && f->pair[other] == p ? p : 0;
        }
        const int64_t axis = concat_axis(node);
        return p && axis != p && axis != p + 1 ? p : 0;
    }
    return 0;
}

/* Whether all values of five dimensions have a pair, and whoever reads them can do without. */
static bool find_pairs(struct flat *f, bool *ret_any) {
    const struct culm_onnx_graph *graph = f->graph;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_onnx_node *node = &graph->node[i];
        bool reads = false;
        for (int32_t k = 0; k < node->inputs && !node->dead; k++) {
            const int32_t input = culm_onnx_input(graph, node, k);
            reads |= is_five(f, input) && f->pair[input];
        }
        if (node->dead || (!reads && !is_five(f, node->output[0]))) {
            continue;
        }
        if (is_five(f, node->output[0])) {
            const int pair = node->outputs == 1 ? pair_of(f, node) : 0;
            if (!pair || graph->value[node->output[0]].output) {
                return false;
            }
            f->pair[node->output[0]] = (int8_t)pair;
            *ret_any = true;
        } else if (!culm_onnx_is_ours(node, "reshape")) {
            return false;
        }
    }
    return true;
}

static void merge(int *rank, int64_t *dim, int p) {
    dim[p] *= dim[p + 1];
    for (int i = p + 1; i + 1 < FIVE; i++) {
        dim[i] = dim[i + 1];
    }
    *rank = FIVE - 1;
}

/* A constant of five dimensions. Its description may be the file's, which others read. */
static bool merge_constant(struct flat *f, int32_t value, int p) {
    struct culm_onnx_value *v = &f->graph->value[value];
    struct culm_onnx_tensor *tensor = (struct culm_onnx_tensor *)(uintptr_t)v->data;
    if (!v->owned) {
        tensor = culm_onnx_alloc(&f->graph->arena, 1, sizeof *tensor);
        if (!tensor) {
            return false;
        }
        *tensor = *v->data;
    }
    merge(&tensor->rank, tensor->dim, p);
    merge(&v->rank, v->dim, p);
    v->data = tensor;
    return true;
}

static bool rewrite(struct flat *f, int32_t index) {
    struct culm_onnx_graph *graph = f->graph;
    struct culm_onnx_node *node = &graph->node[index];
    const int p = f->pair[node->output[0]];
    int old[CULM_ONNX_RANK_MAX], perm[FIVE - 1], to = 0;
    for (int32_t k = 0; k < node->inputs; k++) {
        const int32_t input = culm_onnx_input(graph, node, k);
        if (is_five(f, input) && graph->value[input].data && !merge_constant(f, input, p)) {
            return false;
        }
    }
    if (culm_onnx_order(graph, node, old)) { /* pairs are where they were in its input */
        const int32_t x = culm_onnx_input(graph, node, 0);
        const int from = f->pair[x];
        for (int i = 0; i < FIVE; i++) {
            if (old[i] != from + 1) {
                perm[to++] = old[i] > from ? old[i] - 1 : old[i];
            }
        }
        return culm_onnx_become_transpose(graph, index, x, FIVE - 1, perm);
    }
    if (culm_onnx_is_ours(node, "slice") && node->culm.axis > p) {
        node->culm.axis--;
    }
    if (culm_onnx_is(node, "Concat") && concat_axis(node) > p) {
        struct culm_onnx_attribute *axis = culm_onnx_alloc(&graph->arena, 1, sizeof *axis);
        if (!axis) {
            return false;
        }
        *axis = (struct culm_onnx_attribute){
            .name = "axis", .kind = CULM_ONNX_ATTRIBUTE_INT, .i = concat_axis(node) - 1};
        node->attribute = axis; /* the one before is the file's, which others read */
        node->attributes = 1;
    }
    return true;
}

bool culm_onnx_flatten(struct culm_onnx_graph *graph) {
    struct flat f = {graph, calloc((size_t)graph->value_count + 1, sizeof *f.pair)};
    const int32_t values = graph->value_count;
    bool any = false, fine = f.pair != NULL;
    if (fine && find_pairs(&f, &any) && any) {
        for (int32_t i = 0; i < graph->node_count && fine; i++) {
            const struct culm_onnx_node *node = &graph->node[i];
            if (!node->dead && node->output[0] >= 0 && node->output[0] < values &&
                f.pair[node->output[0]]) {
                fine = rewrite(&f, i);
            }
        }
        for (int32_t v = 0; v < values; v++) {
            if (f.pair[v]) {
                merge(&graph->value[v].rank, graph->value[v].dim, f.pair[v]);
            }
        }
    }
    free(f.pair);
    return fine;
}
