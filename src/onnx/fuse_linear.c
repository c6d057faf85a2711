/*
 * Recognizes products with a weight: MatMul or Gemm, with the weight perhaps transposed before, and
 * a bias perhaps added after. A reshape in front that only regroups rows moves behind the product,
 * where it mostly meets its inverse and disappears; so does a transpose that leaves the last
 * dimension in place.
 */
#include "onnx/pass.h"

#include <string.h>

struct linear {
    int32_t x, w, b;
    bool transposed; /* w is [out, in] */
    int64_t out;
};

/* A weight of two dimensions, or the transpose of one. */
static bool weight(const struct culm_onnx_graph *graph, int32_t value, int32_t *ret_weight,
                   bool *ret_transposed) {
    const struct culm_onnx_node *maker = culm_onnx_maker(graph, value);
    int perm[CULM_ONNX_RANK_MAX];
    *ret_transposed = false;
    if (culm_onnx_order(graph, maker, perm)) {
        value = culm_onnx_input(graph, maker, 0);
        *ret_transposed = perm[0] == 1;
    }
    *ret_weight = value;
    return culm_onnx_is_weight(graph, value) && graph->value[value].rank == 2;
}

static bool is_bias(const struct culm_onnx_graph *graph, int32_t value, int64_t out) {
    const struct culm_onnx_value *v = value < 0 ? NULL : &graph->value[value];
    return culm_onnx_is_weight(graph, value) && v->dim[v->rank - 1] == out &&
           v->data->elements == out;
}

/* Turns node `index` into the product. */
static bool put(struct culm_onnx_graph *graph, int32_t index, const struct linear *linear) {
    const struct culm_onnx_node *before = culm_onnx_maker(graph, linear->x);
    const struct culm_onnx_value *x = &graph->value[linear->x];
    int32_t inputs[] = {linear->x, linear->w, linear->b};
    const struct culm_attributes attributes = {.transposed = linear->transposed};
    int32_t inner = culm_onnx_is_ours(before, "reshape") ? culm_onnx_input(graph, before, 0) : -1;
    if (inner >= 0 && !culm_onnx_is_weight(graph, inner) && graph->value[inner].rank >= 2 &&
        graph->value[inner].dim[graph->value[inner].rank - 1] == x->dim[x->rank - 1]) {
        struct culm_onnx_value shape = graph->value[inner];
        shape.dim[shape.rank - 1] = linear->out;
        inputs[0] = inner;
        int32_t made =
            culm_onnx_insert(graph, index, "linear", inputs, 3, &attributes, shape.rank, shape.dim);
        return made >= 0 && culm_onnx_become(graph, index, "reshape", &made, 1);
    }
    int perm[CULM_ONNX_RANK_MAX], last = x->rank - 1;
    if (culm_onnx_order(graph, before, perm) && perm[last] == last) {
        struct culm_onnx_value shape = graph->value[culm_onnx_input(graph, before, 0)];
        shape.dim[last] = linear->out;
        inputs[0] = culm_onnx_input(graph, before, 0);
        int32_t made =
            culm_onnx_insert(graph, index, "linear", inputs, 3, &attributes, shape.rank, shape.dim);
        return made >= 0 && culm_onnx_become_transpose(graph, index, made, shape.rank, perm);
    }
    if (!culm_onnx_become(graph, index, "linear", inputs, 3)) {
        return false;
    }
    graph->node[index].culm = attributes;
    return true;
}

static bool matmul(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    struct linear linear = {.x = culm_onnx_input(graph, node, 0), .b = -1};
    if (culm_onnx_is_weight(graph, linear.x) || graph->value[linear.x].rank < 2 ||
        !weight(graph, culm_onnx_input(graph, node, 1), &linear.w, &linear.transposed)) {
        return true;
    }
    linear.out = graph->value[linear.w].dim[!linear.transposed];
    return put(graph, index, &linear);
}

static bool gemm(struct culm_onnx_graph *graph, int32_t index, void *context) {
    int32_t *without_bias = context; /* products that lack a bias */
    const struct culm_onnx_node *node = &graph->node[index];
    struct linear linear = {.x = culm_onnx_input(graph, node, 0),
                            .b = culm_onnx_input(graph, node, 2)};
    bool flipped = culm_onnx_int(node, "transB", 0) != 0, turned;
    double alpha = culm_onnx_float(node, "alpha", 1), beta = culm_onnx_float(node, "beta", 1);
    if (culm_onnx_int(node, "transA", 0) != 0 || alpha != 1 ||
        culm_onnx_is_weight(graph, linear.x) ||
        !weight(graph, culm_onnx_input(graph, node, 1), &linear.w, &turned)) {
        return true;
    }
    linear.transposed = flipped != turned;
    linear.out = graph->value[linear.w].dim[!linear.transposed];
    if (beta == 0) {
        linear.b = -1;
    }
    if (linear.b >= 0 && (beta != 1 || !is_bias(graph, linear.b, linear.out))) {
        return true;
    }
    *without_bias += linear.b < 0 && culm_onnx_attribute_of(node, "beta") && beta == 1;
    return put(graph, index, &linear);
}

/* A product made earlier, in front of which a reshape has turned up since. */
static bool again(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    struct linear linear = {.x = culm_onnx_input(graph, node, 0),
                            .w = culm_onnx_input(graph, node, 1),
                            .b = culm_onnx_input(graph, node, 2),
                            .transposed = node->culm.transposed};
    const struct culm_onnx_node *before = culm_onnx_maker(graph, linear.x);
    if (!culm_onnx_is_ours(before, "reshape") && !culm_onnx_is(before, "Transpose")) {
        return true;
    }
    linear.out = graph->value[linear.w].dim[!linear.transposed];
    return put(graph, index, &linear);
}

/* linear(x, w) + b, perhaps with a reshape or transpose in between. */
static bool add_bias(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    for (int i = 0; i < 2; i++) {
        int32_t y = culm_onnx_input(graph, node, 1 - i), b = culm_onnx_input(graph, node, i);
        const struct culm_onnx_node *maker = culm_onnx_maker(graph, y);
        const struct culm_onnx_value *v = &graph->value[y];
        if (!maker || v->rank < 1 || v->uses != 1 || !is_bias(graph, b, v->dim[v->rank - 1])) {
            continue;
        }
        int perm[CULM_ONNX_RANK_MAX], last = v->rank - 1;
        bool turned = culm_onnx_order(graph, maker, perm) && perm[last] == last;
        bool behind = turned || culm_onnx_is_ours(maker, "reshape");
        if (behind) {
            y = culm_onnx_input(graph, maker, 0);
            maker = culm_onnx_maker(graph, y);
        }
        const struct culm_onnx_value *product = &graph->value[y];
        if (!culm_onnx_is_ours(maker, "linear") || product->uses != 1 ||
            culm_onnx_input(graph, maker, 2) >= 0 ||
            product->dim[product->rank - 1] != v->dim[v->rank - 1]) {
            continue;
        }
        struct culm_attributes attributes = maker->culm;
        const int32_t inputs[] = {culm_onnx_input(graph, maker, 0),
                                  culm_onnx_input(graph, maker, 1), b};
        if (behind) {
            struct culm_onnx_value shape = *product;
            int32_t made = culm_onnx_insert(graph, index, "linear", inputs, 3, &attributes,
                                            shape.rank, shape.dim);
            return made >= 0 &&
                   (turned ? culm_onnx_become_transpose(graph, index, made, shape.rank, perm)
                           : culm_onnx_become(graph, index, "reshape", &made, 1));
        }
        if (!culm_onnx_become(graph, index, "linear", inputs, 3)) {
            return false;
        }
        graph->node[index].culm = attributes;
        return true;
    }
    return true;
}

bool culm_onnx_fuse_linear(struct culm_onnx_graph *graph, struct culm_onnx_notes *notes) {
    static const struct culm_onnx_rule rules[] = {
        {"MatMul", .apply = matmul},
        {"Gemm", .apply_with = gemm},
        {"Add", .apply = add_bias},
        {"culm.linear", .apply = again},
        {0},
    };
    int32_t without_bias = 0;
    bool fine = culm_onnx_for_each(graph, rules, &without_bias);
    if (without_bias > 0) {
        culm_onnx_note(notes,
                       "%d products have lost their bias: the exporter leaves out what is zero; "
                       "export with optimize=False to train it",
                       without_bias);
    }
    return fine;
}
