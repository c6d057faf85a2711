/*
 * What exporters spell out, and what import makes of it; batches; what is refused and how that is
 * said.
 */
#include "writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct culm_onnx_options plain = {.batch = 2, .context = 6};

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* x [2,6,8] -> ... -> y, then a layer of 5 classes a row */
static void start_rows(struct writer *w) {
    writer_start(w);
    writer_input(w, "x", 1, 3, DIMS(2, 6, 8));
    writer_weight(w, "last", 2, DIMS(8, 5));
    writer_output(w, "logits");
}

static void expect(struct writer *w, int opset, const char *ops) {
    struct culm_onnx_model *model = NULL;
    writer_node(w, "MatMul", "y last", "logits", "");
    struct culm_graph *graph = writer_import(w, opset, &plain, &model);
    assert_string_equal(ops_of(graph), ops);
    culm_graph_free(graph);
    culm_onnx_model_free(model);
    writer_release(w);
}

static void test_layernorm(void **state) {
    (void)state;
    struct writer w;
    start_rows(&w);
    writer_weight(&w, "gamma", 1, DIMS(8));
    writer_weight(&w, "beta", 1, DIMS(8));
    writer_float(&w, "two", 2);
    writer_float(&w, "eps", 1e-5f);
    writer_node(&w, "ReduceMean", "x", "mean", "axes=-1,");
    writer_node(&w, "Sub", "x mean", "d", "");
    writer_node(&w, "Pow", "d two", "dd", "");
    writer_node(&w, "ReduceMean", "dd", "var", "axes=-1,");
    writer_node(&w, "Add", "var eps", "sum", "");
    writer_node(&w, "Sqrt", "sum", "root", "");
    writer_node(&w, "Div", "d root", "n", "");
    writer_node(&w, "Mul", "n gamma", "scaled", "");
    writer_node(&w, "Add", "scaled beta", "y", "");
    expect(&w, 14, "layernorm linear cross_entropy");
}

/* Factors in some order; erf and tanh. */
static void test_gelu(void **state) {
    (void)state;
    for (int order = 0; order < 3; order++) {
        struct writer w;
        start_rows(&w);
        writer_float(&w, "half", 0.5f);
        writer_float(&w, "one", 1);
        writer_float(&w, "root2", 1.41421356f);
        writer_node(&w, "Div", "x root2", "a", "");
        writer_node(&w, "Erf", "a", "b", "");
        writer_node(&w, "Add", order == 1 ? "one b" : "b one", "c", "");
        writer_node(&w, "Mul", order == 0 ? "x c" : order == 1 ? "c x" : "x half", "d", "");
        writer_node(&w, "Mul", order == 2 ? "d c" : "d half", "y", "");
        expect(&w, 17, "activation linear cross_entropy");
    }
    struct writer w;
    start_rows(&w);
    writer_float(&w, "half", 0.5f);
    writer_float(&w, "one", 1);
    writer_float(&w, "three", 3);
    writer_float(&w, "k", 0.044715f);
    writer_float(&w, "root", 0.7978845608f);
    writer_node(&w, "Pow", "x three", "a", "");
    writer_node(&w, "Mul", "k a", "b", "");
    writer_node(&w, "Add", "x b", "c", "");
    writer_node(&w, "Mul", "c root", "d", "");
    writer_node(&w, "Tanh", "d", "e", "");
    writer_node(&w, "Add", "one e", "f", "");
    writer_node(&w, "Mul", "x half", "g", "");
    writer_node(&w, "Mul", "f g", "y", "");
    expect(&w, 17, "activation linear cross_entropy");
    start_rows(&w); /* not quite: another number */
    writer_float(&w, "half", 0.5f);
    writer_float(&w, "one", 1);
    writer_float(&w, "root2", 1.5f);
    writer_node(&w, "Div", "x root2", "a", "");
    writer_node(&w, "Tanh", "a", "b", "");
    writer_node(&w, "Add", "b one", "c", "");
    writer_node(&w, "Mul", "x half", "d", "");
    writer_node(&w, "Mul", "d c", "y", "");
    expect(&w, 17, "affine activation affine affine binary linear cross_entropy");
}

/* Reshapes around products, transposed weights, biases on either side. */
static void test_linear(void **state) {
    (void)state;
    struct writer w;
    start_rows(&w);
    writer_weight(&w, "w", 2, DIMS(8, 8));
    writer_weight(&w, "v", 2, DIMS(8, 8));
    writer_weight(&w, "b", 1, DIMS(8));
    writer_ints(&w, "rows", 2, DIMS(-1, 8));
    writer_ints(&w, "back", 3, DIMS(2, 6, 8));
    writer_node(&w, "Reshape", "x rows", "a", "");
    writer_node(&w, "Gemm", "a w b", "c", "transB=1");
    writer_node(&w, "Reshape", "c back", "d", "");
    writer_node(&w, "Transpose", "v", "vt", "perm=1,0");
    writer_node(&w, "MatMul", "d vt", "e", "");
    writer_node(&w, "Add", "b e", "y", "");
    expect(&w, 17, "linear linear linear cross_entropy");
}

/* Transposes that undo each other by way of reshapes. */
static void test_layouts(void **state) {
    (void)state;
    struct writer w;
    start_rows(&w);
    writer_ints(&w, "heads", 4, DIMS(2, 6, 2, 4));
    writer_ints(&w, "flat", 3, DIMS(4, 6, 4));
    writer_ints(&w, "four", 4, DIMS(2, 2, 6, 4));
    writer_ints(&w, "three", 3, DIMS(2, 6, 8));
    writer_node(&w, "Reshape", "x heads", "a", "");
    writer_node(&w, "Transpose", "a", "b", "perm=0,2,1,3");
    writer_node(&w, "Reshape", "b flat", "c", "");
    writer_node(&w, "Transpose", "c", "d", "perm=0,2,1");
    writer_node(&w, "Transpose", "d", "e", "perm=0,2,1");
    writer_node(&w, "Reshape", "e four", "f", "");
    writer_node(&w, "Transpose", "f", "g", "perm=0,2,1,3");
    writer_node(&w, "Reshape", "g three", "y", "");
    expect(&w, 17, "linear cross_entropy");
}

/* softmax(q k^T / 2 + mask) v of two heads; the mask in several ways. */
static void attention(struct writer *w, const char *kind) {
    writer_start(w);
    writer_input(w, "ids", 7, 2, DIMS(2, 6));
    writer_weight(w, "table", 2, DIMS(11, 24));
    writer_weight(w, "last", 2, DIMS(8, 5));
    writer_ints(w, "heads", 4, DIMS(2, 6, 2, 4));
    writer_ints(w, "three", 3, DIMS(2, 6, 8));
    writer_ints(w, "parts", 3, DIMS(8, 8, 8));
    writer_float(w, "half", 0.5f);
    writer_float(w, "zero", 0);
    writer_float(w, "least", -1e9f);
    writer_node(w, "Gather", "table ids", "qkv", "axis=0");
    writer_node(w, "Split", "qkv parts", "q0 k0 v0", "axis=2");
    writer_node(w, "Reshape", "q0 heads", "q1", "");
    writer_node(w, "Reshape", "k0 heads", "k1", "");
    writer_node(w, "Reshape", "v0 heads", "v1", "");
    writer_node(w, "Transpose", "q1", "q", "perm=0,2,1,3");
    writer_node(w, "Transpose", "k1", "k", "perm=0,2,3,1");
    writer_node(w, "Transpose", "v1", "v", "perm=0,2,1,3");
    writer_node(w, "MatMul", "q k", "s0", "");
    writer_node(w, "Mul", "s0 half", "s1", "");
    if (strcmp(kind, "causal") == 0) { /* Trilu of ones */
        writer_ints(w, "square", 2, DIMS(6, 6));
        writer_node(w, "ConstantOfShape", "square", "zeros", "");
        writer_node(w, "Equal", "zeros zeros", "yes", "");
        writer_node(w, "Trilu", "yes", "triangle", "upper=0");
        writer_node(w, "Where", "triangle s1 least", "s", "");
    } else if (strcmp(kind, "keys") == 0) { /* (1 - mask) * -1e9, of whole numbers */
        writer_input(w, "mask", 7, 2, DIMS(2, 6));
        writer_ints(w, "axes", 2, DIMS(1, 2));
        writer_float(w, "one", 1);
        writer_node(w, "Unsqueeze", "mask axes", "m0", "");
        writer_node(w, "Cast", "m0", "m1", "to=1");
        writer_node(w, "Sub", "one m1", "m2", "");
        writer_node(w, "Mul", "m2 least", "m3", "");
        writer_node(w, "Add", "m3 s1", "s", "");
    } else { /* shifted by one: no mask that we know */
        writer_ints(w, "square", 2, DIMS(6, 6));
        writer_ints(w, "k1c", 1, DIMS(1));
        writer_node(w, "ConstantOfShape", "square", "zeros", "");
        writer_node(w, "Equal", "zeros zeros", "yes", "");
        writer_node(w, "Trilu", "yes k1c", "triangle", "upper=0");
        writer_node(w, "Where", "triangle s1 least", "s", "");
    }
    writer_node(w, "Softmax", "s", "p", "axis=-1");
    writer_node(w, "MatMul", "p v", "o0", "");
    writer_node(w, "Transpose", "o0", "o1", "perm=0,2,1,3");
    writer_node(w, "Reshape", "o1 three", "y", "");
    writer_output(w, "logits");
}

static void test_attention(void **state) {
    (void)state;
    struct writer w;
    attention(&w, "causal");
    expect(&w, 17, "lookup attention linear cross_entropy");
    attention(&w, "keys");
    writer_node(&w, "MatMul", "y last", "logits", "");
    struct culm_onnx_model *model = NULL;
    struct culm_graph *graph = writer_import(&w, 17, &plain, &model);
    assert_string_equal(ops_of(graph), "lookup attention gather_rows linear cross_entropy");
    assert_false(graph->node[1].attributes.causal);
    assert_int_equal(graph->value[graph->node[1].input[3]].kind, CULM_VALUE_FIELD);
    assert_string_equal(graph->field[graph->value[graph->node[1].input[3]].field].name, "mask");
    culm_graph_free(graph);
    culm_onnx_model_free(model);
    writer_release(&w);
    attention(&w, "shifted");
    writer_node(&w, "MatMul", "y last", "logits", "");
    assert_non_null(strstr(writer_refused(&w, 17, &plain), "operator 'Where', opset 17: "));
    writer_release(&w);
}

/* Another batch than the file's: constants that say 2 are understood. */
static void test_batch(void **state) {
    (void)state;
    struct writer w;
    const struct culm_onnx_options five = {.batch = 5};
    struct culm_onnx_model *model = NULL;
    attention(&w, "causal");
    writer_node(&w, "MatMul", "y last", "logits", "");
    struct culm_graph *graph = writer_import(&w, 17, &five, &model);
    assert_int_equal(graph->value[graph->node[1].output[0]].shape.dim[0], 5);
    assert_int_equal(graph->field[0].shape.dim[0], 5);
    culm_graph_free(graph);
    culm_onnx_model_free(model);
    writer_release(&w);
}

static void test_images(void **state) {
    (void)state;
    struct writer w;
    struct culm_onnx_model *model = NULL;
    writer_start(&w);
    writer_input(&w, "x", 1, 4, DIMS(-1, 3, 8, 8));
    writer_weight(&w, "c.weight", 4, DIMS(4, 3, 3, 3));
    writer_weight(&w, "n.weight", 1, DIMS(4));
    writer_weight(&w, "n.bias", 1, DIMS(4));
    writer_weight(&w, "n.mean", 1, DIMS(4));
    writer_weight(&w, "n.var", 1, DIMS(4));
    writer_weight(&w, "f.weight", 2, DIMS(5, 256));
    writer_node(&w, "Conv", "x c.weight", "a", "pads=1,1,1,1 kernel_shape=3,3");
    writer_node(&w, "BatchNormalization", "a n.weight n.bias n.mean n.var", "b",
                "epsilon=0.001 momentum=0.9");
    writer_node(&w, "Conv", "x c.weight", "r", "pads=1,1,1,1 kernel_shape=3,3");
    writer_node(&w, "Add", "b r", "c", "");
    writer_node(&w, "Relu", "c", "d", "");
    writer_node(&w, "Flatten", "d", "e", "axis=1");
    writer_node(&w, "Gemm", "e f.weight", "logits", "transB=1");
    writer_output(&w, "logits");
    struct culm_graph *graph = writer_import(&w, 17, &plain, &model);
    assert_string_equal(ops_of(graph), "conv conv batchnorm permute reshape linear cross_entropy");
    assert_int_equal(graph->field[0].shape.dim[3], 3);
    const struct culm_node_desc *norm = &graph->node[2];
    assert_int_equal(norm->attributes.function, CULM_FUNCTION_RELU);
    assert_false(norm->attributes.inference);
    assert_true(norm->input[5] == graph->node[1].output[0]);
    assert_true(graph->param[graph->value[norm->input[3]].param].statistic);
    assert_float_equal(norm->attributes.momentum, 0.1, 1e-6);
    assert_true(graph->blocks >= 2);
    float weight[108];
    assert_int_equal(culm_onnx_weights_read(model, "c.weight", 4, DIMS(4, 3, 3, 3), weight, NULL),
                     CULM_OK);
    assert_int_equal(culm_onnx_weights_read(model, "c.weight", 1, DIMS(107), weight, NULL),
                     CULM_ERR_ARGUMENT);
    assert_int_equal(culm_onnx_weights_read(model, "no", 1, DIMS(1), weight, NULL),
                     CULM_ERR_NOT_FOUND);
    culm_graph_free(graph);
    culm_onnx_model_free(model);
    writer_release(&w);
}

/* Random numbers in the file's own words; with inference they are gone. */
static void test_dropout(void **state) {
    (void)state;
    for (int evaluate = 0; evaluate < 2; evaluate++) {
        struct writer w;
        struct culm_onnx_options options = plain;
        struct culm_onnx_model *model = NULL;
        options.evaluate = evaluate;
        start_rows(&w);
        writer_float(&w, "keep", 0.75f);
        writer_node(&w, "RandomUniformLike", "x", "r", "");
        writer_node(&w, "Less", "r keep", "less", "");
        writer_node(&w, "Cast", "less", "kept", "to=1");
        writer_node(&w, "Div", "kept keep", "factor", "");
        writer_node(&w, "Mul", "x factor", "h", "");
        writer_node(&w, "Add", "x h", "y", "");
        writer_node(&w, "MatMul", "y last", "logits", "");
        struct culm_graph *graph = writer_import(&w, 17, &options, &model);
        assert_string_equal(ops_of(graph), evaluate ? "add linear cross_entropy"
                                                    : "residual linear cross_entropy");
        if (!evaluate) {
            assert_float_equal(graph->node[0].attributes.dropout, 0.25, 1e-6);
        }
        culm_graph_free(graph);
        culm_onnx_model_free(model);
        writer_release(&w);
    }
}

/* ... -> y, an image -> logits; takes the file with it. */
static void expect_image(struct writer *w, const char *ops) {
    struct culm_onnx_model *model = NULL;
    writer_node(w, "GlobalAveragePool", "y", "pooled", "");
    writer_node(w, "Flatten", "pooled", "logits", "axis=1");
    struct culm_graph *graph = writer_import(w, 17, &plain, &model);
    assert_string_equal(ops_of(graph), ops);
    culm_graph_free(graph);
    culm_onnx_model_free(model);
    writer_release(w);
}

static void start_image(struct writer *w, int64_t channels) {
    writer_start(w);
    writer_input(w, "x", 1, 4, DIMS(2, channels, 8, 8));
    writer_output(w, "logits");
}

/* Whatever exporters call it, relu6 is part of the batch norm before it. */
static void test_relu6(void **state) {
    (void)state;
    struct writer w;
    start_image(&w, 4);
    writer_weight(&w, "n.weight", 1, DIMS(4));
    writer_weight(&w, "n.bias", 1, DIMS(4));
    writer_weight(&w, "n.mean", 1, DIMS(4));
    writer_weight(&w, "n.var", 1, DIMS(4));
    writer_float(&w, "low", 0);
    writer_float(&w, "high", 6);
    writer_node(&w, "BatchNormalization", "x n.weight n.bias n.mean n.var", "a", "");
    writer_node(&w, "Clip", "a low high", "y", "");
    expect_image(&w, "batchnorm adaptive_avgpool reshape cross_entropy");
}

/* What is joined again and again is joined once; any number of inputs in steps of eight. */
static void test_joins(void **state) {
    (void)state;
    struct writer w;
    char names[256] = "";
    /* three joins, each of what the one before joins and one more */
    start_image(&w, 2);
    writer_node(&w, "Sigmoid", "x", "a", "");
    writer_node(&w, "Concat", "x a", "xa", "axis=1");
    writer_weight(&w, "b.weight", 4, DIMS(2, 4, 1, 1));
    writer_node(&w, "Conv", "xa b.weight", "b", "kernel_shape=1,1");
    writer_node(&w, "Concat", "x a b", "xab", "axis=-3");
    writer_weight(&w, "c.weight", 4, DIMS(2, 6, 1, 1));
    writer_node(&w, "Conv", "xab c.weight", "c", "kernel_shape=1,1");
    writer_node(&w, "Concat", "x a b c", "y", "axis=1");
    expect_image(&w, "activation concat conv concat conv concat adaptive_avgpool reshape "
                     "cross_entropy");
    /* other beginnings and axes are no reason */
    start_image(&w, 2);
    writer_node(&w, "Sigmoid", "x", "a", "");
    writer_node(&w, "Concat", "x a", "high", "axis=2");
    writer_node(&w, "Concat", "a x", "other", "axis=1");
    writer_weight(&w, "h.weight", 4, DIMS(2, 2, 9, 1));
    writer_weight(&w, "o.weight", 4, DIMS(2, 4, 1, 1));
    writer_node(&w, "Conv", "high h.weight", "h", "kernel_shape=9,1");
    writer_node(&w, "Conv", "other o.weight", "o", "kernel_shape=1,1");
    writer_node(&w, "Concat", "x a h o", "y", "axis=1");
    expect_image(&w, "activation concat concat conv conv concat adaptive_avgpool reshape "
                     "cross_entropy");
    /* seventeen at once */
    start_image(&w, 2);
    for (int i = 0; i < 17; i++) {
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", i % 2 ? "x" : "a");
    }
    writer_node(&w, "Sigmoid", "x", "a", "");
    writer_node(&w, "Concat", names, "y", "axis=1");
    expect_image(&w, "activation concat concat concat adaptive_avgpool reshape cross_entropy");
}

/* Channels that change places between groups: three dimensions inside, whatever the file says. */
static void test_shuffle(void **state) {
    (void)state;
    struct writer w;
    start_image(&w, 6);
    writer_ints(&w, "apart", 5, DIMS(2, 3, 2, 8, 8));
    writer_ints(&w, "whole", 4, DIMS(2, 6, 8, 8));
    writer_node(&w, "Reshape", "x apart", "a", "");
    writer_node(&w, "Transpose", "a", "t", "perm=0,2,1,3,4");
    writer_node(&w, "Reshape", "t whole", "y", "");
    expect_image(&w, "reshape permute reshape adaptive_avgpool reshape cross_entropy");
    /* pixels that change places need five dimensions */
    start_image(&w, 6);
    writer_ints(&w, "apart", 6, DIMS(2, 6, 4, 2, 4, 2));
    writer_ints(&w, "whole", 4, DIMS(2, 24, 4, 4));
    writer_node(&w, "Reshape", "x apart", "a", "");
    writer_node(&w, "Transpose", "a", "t", "perm=0,1,3,5,2,4");
    writer_node(&w, "Reshape", "t whole", "y", "");
    writer_node(&w, "GlobalAveragePool", "y", "pooled", "");
    writer_node(&w, "Flatten", "pooled", "logits", "axis=1");
    assert_non_null(strstr(writer_refused(&w, 17, &plain), "has more than 4 dimensions"));
    writer_release(&w);
}

/* A strided view that takes all in their order, as one exporter writes it, is a reshape. */
static void test_strided(void **state) {
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        struct writer w;
        int64_t index[12];
        for (int64_t i = 0; i < 12; i++) {
            index[i] = turned ? i % 6 * 2 + i / 6 : i;
        }
        start_image(&w, 6);
        writer_node(&w, "ReduceMean", "x", "m", "axes=2,3 keepdims=1");
        writer_ints(&w, "flat", 1, DIMS(-1));
        writer_ints(&w, "numbers", 12, index);
        writer_ints(&w, "shape", 4, DIMS(2, 6, 1, 1));
        writer_node(&w, "Reshape", "m flat", "row", "");
        writer_node(&w, "Reshape", "numbers shape", "index", "");
        writer_node(&w, "Gather", "row index", "y", "axis=0");
        if (turned) {
            writer_node(&w, "Flatten", "y", "logits", "axis=1");
            assert_non_null(strstr(writer_refused(&w, 17, &plain), "operator 'Gather'"));
            writer_release(&w);
        } else {
            expect_image(&w, "adaptive_avgpool reshape cross_entropy");
        }
    }
}

static void test_refused(void **state) {
    (void)state;
    struct writer w;
    start_rows(&w);
    writer_node(&w, "Unique", "x", "y", "");
    writer_node(&w, "MatMul", "y last", "logits", "");
    assert_string_equal(writer_refused(&w, 17, &plain), "onnx 'test': node 'node0', operator "
                                                        "'Unique', opset 17: is not supported");
    writer_release(&w);

    writer_start(&w);
    writer_input(&w, "x", 1, 2, DIMS(-1, -1));
    writer_node(&w, "Relu", "x", "logits", "");
    writer_output(&w, "logits");
    assert_non_null(strstr(writer_refused(&w, 17, &plain),
                           "input 'x', dimension 1 ('free'): is free and its size is not given"));
    writer_release(&w);

    start_rows(&w);
    writer_node(&w, "NonZero", "x", "i", "");
    writer_node(&w, "Reshape", "x i", "y", "");
    writer_node(&w, "MatMul", "y last", "logits", "");
    assert_non_null(strstr(writer_refused(&w, 17, &plain), "opset 17: "));
    writer_release(&w);

    start_rows(&w);
    writer_weight(&w, "wrong", 2, DIMS(7, 8));
    writer_node(&w, "MatMul", "x wrong", "y", "");
    writer_node(&w, "MatMul", "y last", "logits", "");
    assert_non_null(strstr(writer_refused(&w, 17, &plain), "the inner dimensions differ"));
    writer_release(&w);

    start_rows(&w);
    writer_node(&w, "Relu", "x", "y", "");
    writer_node(&w, "MatMul", "y last", "logits", "");
    const struct culm_onnx_options none = {.batch = 0};
    assert_non_null(strstr(writer_refused(&w, 17, &none), "batch 0"));
    writer_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layernorm), cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_linear),    cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_batch),
        cmocka_unit_test(test_images),    cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_relu6),     cmocka_unit_test(test_joins),
        cmocka_unit_test(test_shuffle),   cmocka_unit_test(test_strided),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("onnx/passes", tests, NULL, NULL);
}
