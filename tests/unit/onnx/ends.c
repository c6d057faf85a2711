/*
 * What an output means: the forms in which files end in a softmax, log-softmax or sigmoid, what is an
 * end and what is not, and that export writes it again.
 */
#include "writer.h"

#include "../folder.h"

#include "model/layers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static const struct culm_onnx_options train = {.batch = 2}, infer = {.batch = 2, .inference = true};

/* x [2,8] -> z [2,5]; a node goes on to y. */
static void start(struct writer *w) {
    writer_start(w);
    writer_input(w, "x", 1, 2, DIMS(2, 8));
    writer_weight(w, "w", 2, DIMS(8, 5));
    writer_output(w, "y");
}

static const char *const ends[][3] = {
    /* the end, a node from z, its attributes */
    {"softmax", "Softmax", "axis=1"},
    {"softmax", "Softmax", "axis=-1"},
    {"log-softmax", "LogSoftmax", "axis=1"},
    {"sigmoid", "Sigmoid", ""},
};

/* The graph of the layer alone, whatever comes behind it; the end is in the loss and in the output. */
static void test_forms(void **state) {
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        for (int inference = 0; inference < 2; inference++) {
            struct writer w;
            struct culm_onnx_model *model = NULL;
            start(&w);
            writer_node(&w, "MatMul", "x w", "z", "");
            writer_node(&w, ends[i][1], "z", "y", ends[i][2]);
            struct culm_graph *graph = writer_import(&w, 17, inference ? &infer : &train, &model);
            assert_string_equal(ops_of(graph), inference ? "linear" : "linear cross_entropy");
            enum culm_function end =
                inference ? graph->output[0].end : graph->node[1].attributes.function;
            assert_string_equal(culm_end_name(end), ends[i][0]);
            assert_non_null(strstr(culm_onnx_model_note(model, 0), ends[i][0]));
            culm_graph_free(graph);
            culm_onnx_model_free(model);
            writer_release(&w);
        }
    }
}

/* A function that is no end, and softmaxes within the network. */
static void test_no_end(void **state) {
    (void)state;
    struct writer w;
    struct culm_onnx_model *model = NULL;
    start(&w);
    writer_weight(&w, "more", 2, DIMS(5, 3));
    writer_node(&w, "MatMul", "x w", "z", "");
    writer_node(&w, "Softmax", "z", "gate", "axis=1");
    writer_node(&w, "MatMul", "gate more", "z2", "");
    writer_node(&w, "Tanh", "z2", "y", "");
    struct culm_graph *graph = writer_import(&w, 17, &infer, &model);
    assert_string_equal(ops_of(graph), "linear softmax linear activation");
    assert_int_equal(graph->output[0].end, CULM_FUNCTION_NONE);
    assert_string_equal(graph->output[0].name, "logits");
    assert_null(culm_onnx_model_note(model, 0));
    culm_graph_free(graph);
    culm_onnx_model_free(model);
    writer_release(&w);
}

/* Of two outputs the first counts: logits stay logits where a softmax of them comes second, and the
 * other way round it is cut. An ArgMax of what is cut is in nobody's way. */
static void test_two_outputs(void **state) {
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct writer w;
        struct culm_onnx_model *model = NULL;
        writer_start(&w);
        writer_input(&w, "x", 1, 2, DIMS(2, 8));
        writer_weight(&w, "w", 2, DIMS(8, 5));
        writer_output(&w, order ? "p" : "z");
        writer_output(&w, order ? "z" : "p");
        writer_output(&w, "best");
        writer_node(&w, "MatMul", "x w", "z", "");
        writer_node(&w, "Softmax", "z", "p", "axis=1");
        writer_node(&w, "ArgMax", "p", "best", "axis=1");
        struct culm_graph *graph = writer_import(&w, 17, &infer, &model);
        enum culm_function wanted = order ? CULM_FUNCTION_SOFTMAX : CULM_FUNCTION_NONE;
        assert_int_equal(graph->output[0].end, wanted);
        assert_int_equal(graph->output[0].value, graph->node[0].output[0]);
        culm_graph_free(graph);
        culm_onnx_model_free(model);
        writer_release(&w);
    }
}

/* Applied again, by operators and in a file. */
static enum culm_status weight_of(void *arg, const struct culm_param *param, float *ret_data,
                                  struct culm_error *error) {
    return culm_onnx_weights_read(arg, param->name, param->shape.rank, param->shape.dim, ret_data,
                                  error);
}

static void test_again(void **state) {
    (void)state;
    static const char *const ops[] = {"linear softmax",
                                      "linear reduce binary activation reduce activation binary",
                                      "linear activation"};
    static const char *const names[] = {"probabilities", "log_probabilities", "probabilities"};
    static const size_t forms[] = {0, 2, 3};
    for (size_t i = 0; i < 3; i++) {
        struct writer w;
        struct culm_onnx_model *model = NULL, *again = NULL;
        struct culm_graph *graph, *back = NULL;
        struct culm_error error = {0};
        char path[CULM_PATH_MAX];
        snprintf(path, sizeof path, "%s/end.onnx", folder);
        start(&w);
        writer_node(&w, "MatMul", "x w", "z", "");
        writer_node(&w, ends[forms[i]][1], "z", "y", ends[forms[i]][2]);
        graph = writer_import(&w, 17, &train, &model); /* as export of a run has it: of the loss */
        if (culm_onnx_export(graph, weight_of, model, NULL, path, &error) ||
            culm_onnx_import(path, &infer, &again, &back, &error)) {
            fail_msg("%s", error.text);
        }
        assert_string_equal(ops_of(back), "linear");
        assert_string_equal(culm_end_name(back->output[0].end), ends[forms[i]][0]);
        culm_layer_ends(back);
        assert_int_equal(culm_graph_check(back, &error), CULM_OK);
        assert_string_equal(ops_of(back), ops[i]);
        assert_string_equal(back->output[0].name, names[i]);
        assert_int_equal(back->output[0].end, CULM_FUNCTION_NONE);
        culm_graph_free(graph);
        culm_graph_free(back);
        culm_onnx_model_free(model);
        culm_onnx_model_free(again);
        writer_release(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_no_end),
        cmocka_unit_test(test_two_outputs),
        cmocka_unit_test(test_again),
    };
    return cmocka_run_group_tests_name("onnx/ends", tests, make_folder, drop_folder);
}
