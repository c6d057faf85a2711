/*
 * Activations, written out or not.
 *
 *     GELU      x * 0.5 * (1 + erf(x / sqrt 2))       in any order of the factors
 *               x * 0.5 * (1 + tanh(0.79788 (x + 0.044715 x^3)))
 *     SiLU      x * sigmoid(x)
 *     ReLU6     clip(x, 0, 6)
 *
 * and x + dropout(h), the sum at the end of a residual branch, and dropout written out with random
 * numbers.
 */
#include "onnx/pass.h"

#include <math.h>
#include <string.h>

#define FACTORS_MAX 8

/* A product taken apart into numbers and values. */
struct product {
    double number;
    int32_t factor[FACTORS_MAX];
    int32_t count;
};

static bool take_apart(const struct culm_onnx_graph *graph, int32_t value, int depth,
                       struct product *product) {
    const struct culm_onnx_node *node = culm_onnx_maker(graph, value);
    bool mul = culm_onnx_is(node, "Mul"), div = culm_onnx_is(node, "Div");
    double number;
    value = culm_onnx_at(graph, value);
    if (culm_onnx_scalar(graph, value, &number)) {
        product->number *= number;
        return true;
    }
    if (div && culm_onnx_scalar(graph, culm_onnx_input(graph, node, 1), &number) && number != 0) {
        product->number /= number;
        return take_apart(graph, culm_onnx_input(graph, node, 0), depth, product);
    }
    if (mul && depth < FACTORS_MAX && node->inputs == 2) {
        return take_apart(graph, culm_onnx_input(graph, node, 0), depth + 1, product) &&
               take_apart(graph, culm_onnx_input(graph, node, 1), depth + 1, product);
    }
    if (value < 0 || product->count == FACTORS_MAX) {
        return false;
    }
    product->factor[product->count++] = value;
    return true;
}

static struct product product_of(const struct culm_onnx_graph *graph, int32_t value) {
    struct product product = {.number = 1};
    if (!take_apart(graph, value, 0, &product)) {
        product.count = 0;
    }
    return product;
}

static bool near(double a, double b) { return fabs(a - b) <= 2e-4 * fabs(b); }

/* a + b with one of them this number: returns the other; -1: it is not that. */
static int32_t plus_number(const struct culm_onnx_graph *graph, int32_t value, double number) {
    const struct culm_onnx_node *node = culm_onnx_maker(graph, value);
    for (int i = 0; i < 2 && culm_onnx_is(node, "Add"); i++) {
        if (culm_onnx_scalar_is(graph, culm_onnx_input(graph, node, i), number)) {
            return culm_onnx_input(graph, node, 1 - i);
        }
    }
    return -1;
}

static int32_t argument_of(const struct culm_onnx_graph *graph, int32_t value, const char *op) {
    const struct culm_onnx_node *node = culm_onnx_maker(graph, value);
    return culm_onnx_is(node, op) ? culm_onnx_input(graph, node, 0) : -1;
}

/* x + 0.044715 x^3 */
static bool is_cubic(const struct culm_onnx_graph *graph, int32_t value, int32_t x) {
    const struct culm_onnx_node *sum = culm_onnx_maker(graph, value);
    for (int i = 0; i < 2 && culm_onnx_is(sum, "Add"); i++) {
        struct product cube = product_of(graph, culm_onnx_input(graph, sum, 1 - i));
        if (culm_onnx_input(graph, sum, i) != x || !near(cube.number, 0.044715)) {
            continue;
        }
        int power = 0;
        for (int32_t k = 0; k < cube.count; k++) {
            const struct culm_onnx_node *pow = culm_onnx_maker(graph, cube.factor[k]);
            double exponent = 1;
            int32_t base = cube.factor[k];
            if (culm_onnx_is(pow, "Pow") &&
                culm_onnx_scalar(graph, culm_onnx_input(graph, pow, 1), &exponent)) {
                base = culm_onnx_input(graph, pow, 0);
            }
            power += base == x ? (int)exponent : 100;
        }
        return power == 3;
    }
    return false;
}

/* What the product of x, `other` and a number is. */
static enum culm_function gelu_of(const struct culm_onnx_graph *graph, int32_t x, int32_t other,
                                  double number) {
    int32_t inner = plus_number(graph, other, 1);
    int32_t erf = argument_of(graph, inner, "Erf"), tanh = argument_of(graph, inner, "Tanh");
    struct product argument = product_of(graph, erf >= 0 ? erf : tanh);
    if (near(number, 1) && argument_of(graph, other, "Sigmoid") == x) {
        return CULM_FUNCTION_SILU;
    }
    if (!near(number, 0.5) || argument.count != 1) {
        return CULM_FUNCTION_NONE;
    }
    if (erf >= 0 && argument.factor[0] == x && near(argument.number, 0.70710678118654752)) {
        return CULM_FUNCTION_GELU_ERF;
    }
    if (erf < 0 && near(argument.number, 0.79788456080286536) &&
        is_cubic(graph, argument.factor[0], x)) {
        return CULM_FUNCTION_GELU_TANH;
    }
    return CULM_FUNCTION_NONE;
}

static bool activate(struct culm_onnx_graph *graph, int32_t index, int32_t x,
                     enum culm_function function, double alpha) {
    if (!culm_onnx_become(graph, index, "activation", &x, 1)) {
        return false;
    }
    graph->node[index].culm.function = function;
    graph->node[index].culm.alpha = alpha;
    return true;
}

static bool fuse_product(struct culm_onnx_graph *graph, int32_t index) {
    int32_t y = graph->node[index].output[0];
    struct product product = product_of(graph, y);
    for (int i = 0; i < 2 && product.count == 2; i++) {
        enum culm_function function =
            gelu_of(graph, product.factor[i], product.factor[1 - i], product.number);
        if (function != CULM_FUNCTION_NONE && culm_onnx_same_shape(graph, product.factor[i], y)) {
            return activate(graph, index, product.factor[i], function, 0);
        }
    }
    return true;
}

static bool fuse_clip(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    double low = culm_onnx_float(node, "min", -INFINITY);
    double high = culm_onnx_float(node, "max", INFINITY);
    culm_onnx_scalar(graph, culm_onnx_input(graph, node, 1), &low);
    culm_onnx_scalar(graph, culm_onnx_input(graph, node, 2), &high);
    if (low != 0 || (high != 6 && high < 1e30)) {
        return true;
    }
    return activate(graph, index, culm_onnx_input(graph, node, 0),
                    high == 6 ? CULM_FUNCTION_RELU6 : CULM_FUNCTION_RELU, 0);
}

/* x + dropout(h) */
static bool fuse_residual(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    for (int i = 1; i >= 0; i--) {
        int32_t h = culm_onnx_input(graph, node, i), x = culm_onnx_input(graph, node, 1 - i);
        const struct culm_onnx_node *drop = culm_onnx_maker(graph, h);
        if (culm_onnx_is_ours(drop, "dropout") && graph->value[h].uses == 1 &&
            culm_onnx_same_shape(graph, x, h)) {
            const int32_t inputs[] = {x, culm_onnx_input(graph, drop, 0)};
            double ratio = drop->culm.dropout;
            if (!culm_onnx_become(graph, index, "residual", inputs, 2)) {
                return false;
            }
            graph->node[index].culm.dropout = ratio;
            return true;
        }
    }
    return true;
}

/* x * (random < p) / p: dropout of elements, or of whole samples. */
static bool fuse_bernoulli(struct culm_onnx_graph *graph, int32_t index, bool inference) {
    const struct culm_onnx_node *node = &graph->node[index];
    for (int i = 0; i < 2; i++) {
        int32_t x = culm_onnx_input(graph, node, 1 - i), y = node->output[0];
        const struct culm_onnx_node *maker =
            culm_onnx_maker(graph, culm_onnx_input(graph, node, i));
        double keep, divisor;
        if (!culm_onnx_is(maker, "Div") ||
            !culm_onnx_scalar(graph, culm_onnx_input(graph, maker, 1), &divisor)) {
            continue;
        }
        maker = culm_onnx_maker(graph, culm_onnx_input(graph, maker, 0));
        for (int k = 0; k < 4 && (culm_onnx_is(maker, "Cast") || culm_onnx_is(maker, "CastLike"));
             k++) {
            maker = culm_onnx_maker(graph, culm_onnx_input(graph, maker, 0));
        }
        int32_t random = culm_onnx_is(maker, "Less") ? culm_onnx_input(graph, maker, 0) : -1;
        if (!culm_onnx_is(culm_onnx_maker(graph, random), "RandomUniformLike") ||
            !culm_onnx_scalar(graph, culm_onnx_input(graph, maker, 1), &keep) ||
            !near(divisor, keep) || keep <= 0) {
            continue;
        }
        const struct culm_onnx_value *r = &graph->value[random];
        bool samples =
            r->rank > 1 && r->rank == graph->value[x].rank && r->dim[0] == graph->value[x].dim[0];
        for (int k = 1; k < r->rank; k++) {
            samples &= r->dim[k] == 1;
        }
        if (!culm_onnx_same_shape(graph, x, random) && !samples) {
            continue;
        }
        if (inference || keep >= 1) {
            culm_onnx_alias(graph, y, x);
            return true;
        }
        if (!culm_onnx_become(graph, index, samples ? "drop_sample" : "dropout", &x, 1)) {
            return false;
        }
        graph->node[index].culm.dropout = 1 - keep;
        return true;
    }
    return true;
}

static const struct {
    const char *op;
    enum culm_function function;
} plain[] = {
    {"Relu", CULM_FUNCTION_RELU},
    {"Tanh", CULM_FUNCTION_TANH},
    {"Sigmoid", CULM_FUNCTION_SIGMOID},
    {"Exp", CULM_FUNCTION_EXP},
    {"Log", CULM_FUNCTION_LOG},
    {"Sqrt", CULM_FUNCTION_SQRT},
    {"Reciprocal", CULM_FUNCTION_RECIPROCAL},
};

bool culm_onnx_fuse_pointwise(struct culm_onnx_graph *graph, bool inference) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_onnx_node *node = &graph->node[i];
        int32_t x = node->inputs ? culm_onnx_input(graph, node, 0) : -1;
        bool fine = true;
        if (node->dead || x < 0 || !culm_onnx_shaped(graph, node)) {
            continue;
        }
        if (culm_onnx_is(node, "Mul") || culm_onnx_is(node, "Div")) {
            fine = fuse_product(graph, i) &&
                   (!culm_onnx_is(&graph->node[i], "Mul") || fuse_bernoulli(graph, i, inference));
        } else if (culm_onnx_is(node, "Gelu")) {
            bool tanh = strcmp(culm_onnx_string(node, "approximate", "none"), "tanh") == 0;
            fine =
                activate(graph, i, x, tanh ? CULM_FUNCTION_GELU_TANH : CULM_FUNCTION_GELU_ERF, 0);
        } else if (culm_onnx_is(node, "LeakyRelu")) {
            fine = activate(graph, i, x, CULM_FUNCTION_LEAKY_RELU,
                            culm_onnx_float(node, "alpha", 0.01));
        } else if (culm_onnx_is(node, "Elu") && culm_onnx_float(node, "alpha", 1) >= 0) {
            fine = activate(graph, i, x, CULM_FUNCTION_ELU, culm_onnx_float(node, "alpha", 1));
        } else if (culm_onnx_is(node, "Clip")) {
            fine = fuse_clip(graph, i);
        } else if (culm_onnx_is(node, "Add")) {
            fine = fuse_residual(graph, i);
        }
        if (!fine) {
            return false;
        }
    }
    culm_onnx_count_uses(graph);
    return true;
}

bool culm_onnx_fuse_activations(struct culm_onnx_graph *graph) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        for (size_t k = 0; k < sizeof plain / sizeof *plain; k++) {
            const struct culm_onnx_node *node = &graph->node[i];
            int32_t x = node->inputs ? culm_onnx_input(graph, node, 0) : -1;
            if (!node->dead && x >= 0 && culm_onnx_is(node, plain[k].op) &&
                !activate(graph, i, x, plain[k].function, 0)) {
                return false;
            }
        }
    }
    return true;
}
