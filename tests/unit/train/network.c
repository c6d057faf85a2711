/*
 * The network of a configuration: weights under the names that published files give them.
 */
#include "../folder.h"

#include "train/network.h"

#include "base/file.h"
#include "onnx/graph.h"
#include "onnx/onnx.h"
#include "store/safetensors.h"
#include "train/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char bert[] =
    "model: {arch: bert, layers: 1, width: 8, heads: 2, context: 8, vocab: 264}\n"
    "data: {kind: masked, path: none}\n";
static const char gpt2[] =
    "model: {arch: gpt2, layers: 1, width: 8, heads: 2, context: 8, vocab: 256}\n"
    "data: {kind: text, path: none}\n";
static const char rest[] =
    "batch: {global: 1, micro: 1, lanes: 1}\npipelines: 1\nstages: 1\nsteps: 1\n";

static void config_of(struct culm_train_config *config, const char *model, const char *init) {
    char text[1024], set[256];
    const char *sets[] = {set};
    struct culm_error error = {0};
    snprintf(text, sizeof text, "%s%s", model, rest);
    snprintf(set, sizeof set, "model.init=%s", init);
    if (culm_train_config_parse(text, strlen(text), "c.yaml", sets, init != NULL, config, &error)) {
        fail_msg("%s", error.text);
    }
}

static struct culm_network *network_of(struct culm_train_config *config) {
    struct culm_network *network = NULL;
    struct culm_error error = {0};
    if (culm_network_open(config, &network, &error)) {
        fail_msg("%s", error.text);
    }
    return network;
}

static struct culm_graph *graph_for(struct culm_network *network, enum culm_purpose purpose) {
    struct culm_graph *graph = NULL;
    struct culm_error error = {0};
    if (culm_network_graph(network, 1, purpose, &graph, &error)) {
        fail_msg("%s", error.text);
    }
    return graph;
}

static struct culm_graph *graph_of(struct culm_train_config *config) {
    struct culm_network *network = network_of(config);
    struct culm_graph *graph = graph_for(network, CULM_FOR_TRAINING);
    culm_network_close(network);
    return graph;
}

/* The name of a parameter in a file that cuts `cut` off its front, puts `front` there, and calls
 * layer norm's two gamma and beta. */
static void rename_param(const char *name, const char *cut, const char *front, bool old,
                         char text[160]) {
    static const char *const spelled[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                             {"LayerNorm.bias", "LayerNorm.beta"}};
    size_t skip = strncmp(name, cut, strlen(cut)) == 0 ? strlen(cut) : 0;
    snprintf(text, 160, "%s%s", front, name + skip);
    for (size_t i = 0; i < 2 && old; i++) {
        char *at = strstr(text, spelled[i][0]);
        if (at) {
            strcpy(at, spelled[i][1]); /* shorter */
        }
    }
}

/* Writes parameter p as all p + 1; without parameter `missing`. */
static void write_file(const struct culm_graph *graph, const char *path, const char *cut,
                       const char *front, bool old, int32_t missing) {
    struct culm_tensor_ref *tensors = calloc((size_t)graph->param_count, sizeof *tensors);
    char(*name)[160] = calloc((size_t)graph->param_count, sizeof *name);
    float **data = calloc((size_t)graph->param_count, sizeof *data);
    struct culm_error error = {0};
    struct culm_written written;
    size_t count = 0;
    for (int32_t p = 0; p < graph->param_count; p++) {
        const struct culm_param *param = &graph->param[p];
        if (p == missing) {
            continue;
        }
        int64_t elements = culm_elements(&param->shape);
        data[p] = malloc((size_t)elements * sizeof(float));
        for (int64_t i = 0; i < elements; i++) {
            data[p][i] = (float)(p + 1);
        }
        rename_param(param->name, cut, front, old, name[p]);
        tensors[count] =
            (struct culm_tensor_ref){.name = name[p], .rank = param->shape.rank, .data = data[p]};
        memcpy(tensors[count].shape, param->shape.dim, sizeof tensors[count].shape);
        count++;
    }
    if (culm_safetensors_write(NULL, path, tensors, count, NULL, 0, NULL, &written, &error)) {
        fail_msg("%s", error.text);
    }
    for (int32_t p = 0; p < graph->param_count; p++) {
        free(data[p]);
    }
    free(data);
    free(name);
    free(tensors);
}

/* All parameters come from such a file, none from the seed. */
static void loads(const char *model, const char *cut, const char *front, bool old) {
    char path[CULM_PATH_MAX], note[CULM_NETWORK_NOTE_SIZE] = "?";
    struct culm_train_config config, plain;
    struct culm_network *network = NULL;
    struct culm_error error = {0};
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    config_of(&plain, model, NULL);
    struct culm_graph *graph = graph_of(&plain);
    write_file(graph, path, cut, front, old, -1);
    config_of(&config, model, path);
    if (culm_network_open(&config, &network, &error) ||
        culm_network_check_weights(network, graph, note, &error)) {
        fail_msg("'%s' '%s' %d: %s", cut, front, old, error.text);
    }
    /* What was done to the names is told, and nothing else. */
    char wanted[CULM_NETWORK_NOTE_SIZE] = "";
    if (strcmp(cut, front) != 0) {
        snprintf(wanted, sizeof wanted, "model.init '%.100s': puts '%s' in front of the names",
                 path, cut);
    }
    assert_string_equal(note, wanted);
    for (int32_t p = 0; p < graph->param_count; p++) {
        const struct culm_param *param = &graph->param[p];
        struct culm_param_info info = {.name = param->name,
                                       .rank = param->shape.rank,
                                       .count = culm_elements(&param->shape),
                                       .init = CULM_INIT_ZEROS};
        memcpy(info.shape, param->shape.dim, sizeof info.shape);
        float *data = calloc((size_t)info.count, sizeof *data);
        assert_int_equal(culm_network_weights(network, &info, data, &error), CULM_OK);
        if (data[0] != (float)(p + 1) || data[info.count - 1] != (float)(p + 1)) {
            fail_msg("'%s' '%s' %d: %s is %g", cut, front, old, param->name, (double)data[0]);
        }
        free(data);
    }
    culm_network_close(network);
    culm_graph_free(graph);
    culm_train_config_release(&config);
    culm_train_config_release(&plain);
}

static void test_names(void **state) {
    (void)state;
    for (int old = 0; old < 2; old++) {
        loads(bert, "", "", old);
        loads(bert, "bert.", "", old);
    }
    loads(gpt2, "", "", false);
    loads(gpt2, "transformer.", "", false);
    loads(gpt2, "transformer.", "transformer.", false);
}

/* A parameter that the model has without a first part, such as that of an ONNX file. */
static void test_longer_names(void **state) {
    (void)state;
    static const char *const front[] = {"bert.", "transformer.", ""};
    for (int i = 0; i < 6; i++) {
        char path[CULM_PATH_MAX], note[CULM_NETWORK_NOTE_SIZE] = "?";
        struct culm_train_config config;
        struct culm_network *network = NULL;
        struct culm_error error = {0};
        struct culm_graph *graph = culm_graph_new(culm_device_default());
        const struct culm_shape shape = {1, {3}};
        culm_graph_param(graph, "embeddings.LayerNorm.weight", &shape, CULM_INIT_ZEROS, 0, false);
        culm_graph_param(graph, "embeddings.LayerNorm.bias", &shape, CULM_INIT_ZEROS, 0, false);
        snprintf(path, sizeof path, "%s/longer.safetensors", folder);
        write_file(graph, path, "", front[i / 2], i % 2, -1);
        config_of(&config, bert, path);
        if (culm_network_open(&config, &network, &error) ||
            culm_network_check_weights(network, graph, note, &error)) {
            fail_msg("'%s': %s", front[i / 2], error.text);
        }
        char wanted[CULM_NETWORK_NOTE_SIZE] = "";
        if (front[i / 2][0]) {
            snprintf(wanted, sizeof wanted, "model.init '%.100s': takes '%s' off the names", path,
                     front[i / 2]);
        }
        assert_string_equal(note, i % 2 ? note : wanted); /* a gamma tells nothing of the names */
        culm_network_close(network);
        culm_graph_free(graph);
        culm_train_config_release(&config);
    }
}

static void test_missing(void **state) {
    (void)state;
    char path[CULM_PATH_MAX], note[CULM_NETWORK_NOTE_SIZE] = "?", wanted[CULM_NETWORK_NOTE_SIZE];
    struct culm_train_config config, plain;
    struct culm_network *network = NULL;
    struct culm_error error = {0};
    snprintf(path, sizeof path, "%s/missing.safetensors", folder);
    config_of(&plain, bert, NULL);
    struct culm_graph *graph = graph_of(&plain);
    write_file(graph, path, "bert.", "", true, 5);
    config_of(&config, bert, path);
    assert_int_equal(culm_network_open(&config, &network, &error), CULM_OK);
    assert_int_equal(culm_network_check_weights(network, graph, note, &error), CULM_OK);
    snprintf(wanted, sizeof wanted,
             "model.init has %d of %d parameters; the other 1 starts from the seed: '%s'; puts "
             "'bert.' in front of the names",
             graph->param_count - 1, graph->param_count, graph->param[5].name);
    assert_string_equal(note, wanted);
    culm_network_close(network);
    culm_graph_free(graph);
    culm_train_config_release(&config);
    culm_train_config_release(&plain);
}

/* --- an ONNX file --- */

static enum culm_status number_of(void *arg, const struct culm_param *param, float *ret_data,
                                  struct culm_error *error) {
    (void)arg;
    (void)error;
    for (int64_t i = 0; i < culm_elements(&param->shape); i++) {
        ret_data[i] = (float)(param->value + 1) / 64 + (float)(i % 7);
    }
    return CULM_OK;
}

/* A gpt2 as an ONNX file that ends so, and a configuration that names it. */
static void onnx_config(enum culm_function end, struct culm_train_config *ret_config) {
    char path[CULM_PATH_MAX], model[CULM_PATH_MAX + 128];
    struct culm_train_config config;
    struct culm_error error = {0};
    config_of(&config, gpt2, NULL);
    struct culm_network *network = network_of(&config);
    struct culm_graph *graph = graph_for(network, CULM_FOR_OUTPUT);
    culm_graph_output_end(graph, end);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (culm_onnx_export(graph, number_of, NULL, NULL, path, &error)) {
        fail_msg("%s", error.text);
    }
    snprintf(model, sizeof model, "model: {file: %s}\ndata: {kind: text, path: none}\n", path);
    config_of(ret_config, model, NULL);
    culm_graph_free(graph);
    culm_network_close(network);
    culm_train_config_release(&config);
}

/* Of a file that ends in a softmax: the logits, or what it answers with. */
static void test_ends(void **state) {
    (void)state;
    struct culm_train_config config;
    onnx_config(CULM_FUNCTION_SOFTMAX, &config);
    struct culm_network *network = network_of(&config);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        config.precision = bf16 ? CULM_PRECISION_BF16 : CULM_PRECISION_F32;
        struct culm_graph *logits = graph_for(network, CULM_FOR_OUTPUT);
        struct culm_graph *answer = graph_for(network, CULM_FOR_ANSWER);
        struct culm_graph *graph = graph_for(network, CULM_FOR_LOSS);
        assert_int_equal(logits->output[0].end, CULM_FUNCTION_SOFTMAX);
        assert_string_equal(logits->output[0].name, "logits");
        assert_string_equal(answer->output[0].name, "probabilities");
        assert_int_equal(answer->output[0].end, CULM_FUNCTION_NONE);
        bool ends = false;
        for (int32_t i = 0; i < answer->node_count; i++) {
            ends |= answer->node[i].output[0] == answer->output[0].value &&
                    answer->node[i].op == &culm_op_softmax;
        }
        assert_true(ends);
        assert_int_equal(culm_network_end(graph), CULM_FUNCTION_SOFTMAX);
        culm_graph_free(logits);
        culm_graph_free(answer);
        culm_graph_free(graph);
    }
    culm_network_close(network);
    culm_train_config_release(&config);
}

static void same_graphs(const struct culm_graph *a, const struct culm_graph *b) {
    assert_int_equal(a->node_count, b->node_count);
    assert_int_equal(a->value_count, b->value_count);
    assert_int_equal(a->param_count, b->param_count);
    for (int32_t i = 0; i < a->node_count; i++) {
        assert_ptr_equal(a->node[i].op, b->node[i].op);
        assert_int_equal(a->node[i].block, b->node[i].block);
        assert_memory_equal(a->node[i].input, b->node[i].input, sizeof a->node[i].input);
    }
    for (int32_t i = 0; i < a->value_count; i++) {
        const struct culm_shape *x = &a->value[i].shape, *y = &b->value[i].shape;
        assert_int_equal(x->rank, y->rank);
        assert_memory_equal(x->dim, y->dim, (size_t)x->rank * sizeof *x->dim);
    }
    for (int32_t i = 0; i < a->param_count; i++) {
        assert_string_equal(a->param[i].name, b->param[i].name);
    }
}

/* The first weights of all parameters, one after the other. */
static float *weights_of(struct culm_network *network, const struct culm_graph *graph,
                         size_t *ret_bytes) {
    struct culm_stage *stage = NULL;
    struct culm_error error = {0};
    assert_int_equal(culm_stages_compile(graph, 1, NULL, &stage, &error), CULM_OK);
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    *ret_bytes = (size_t)info->param_floats * sizeof(float);
    float *weights = calloc(1, *ret_bytes);
    for (int32_t i = 0; i < info->param_count; i++) {
        if (culm_network_weights(network, &info->params[i], weights + info->params[i].offset,
                                 &error)) {
            fail_msg("%s", error.text);
        }
    }
    culm_stage_free(stage);
    return weights;
}

/* Whatever a run asks of it, in the launcher or in a worker. */
static void test_a_file_is_read_once(void **state) {
    (void)state;
    struct culm_train_config config;
    struct culm_choices choices;
    struct culm_plan *plan = NULL;
    struct culm_error error = {0};
    char note[CULM_NETWORK_NOTE_SIZE];
    size_t bytes = 0;
    onnx_config(CULM_FUNCTION_NONE, &config);
    config.cuts = CULM_CUTS_MEASURED;
    int64_t before = culm_onnx_graph_reads();
    struct culm_network *network = network_of(&config);
    assert_int_equal(config.model.options.context, 8); /* as the file says */
    assert_int_equal(config.model.options.vocab, 256);
    assert_int_equal(culm_choices_measure(network, &choices, &error), CULM_OK);
    assert_int_equal(culm_plan_new(network, &choices, &plan, &error), CULM_OK);
    assert_int_equal(culm_network_check_weights(network, plan->graph, note, &error), CULM_OK);
    float *weights = weights_of(network, plan->graph, &bytes);
    for (int purpose = CULM_FOR_TRAINING; purpose <= CULM_FOR_OUTPUT; purpose++) {
        culm_graph_free(graph_for(network, (enum culm_purpose)purpose));
    }
    assert_int_equal(culm_onnx_graph_reads(), before + 1);
    /* Let go, it is read again, and is the same. */
    culm_network_let_go(network);
    float *again = weights_of(network, plan->graph, &bytes);
    assert_int_equal(culm_onnx_graph_reads(), before + 2);
    assert_memory_equal(weights, again, bytes);
    struct culm_graph *third = graph_for(network, CULM_FOR_TRAINING);
    same_graphs(plan->graph, third);
    assert_int_equal(culm_onnx_graph_reads(), before + 2);
    culm_graph_free(third);
    free(weights);
    free(again);
    culm_plan_free(plan);
    culm_choices_release(&choices);
    culm_network_close(network);
    culm_train_config_release(&config);
}

/* That the first import gives away its graph makes no difference to the next one. */
static void test_graphs_of_a_file_are_alike(void **state) {
    (void)state;
    struct culm_train_config config;
    onnx_config(CULM_FUNCTION_NONE, &config);
    struct culm_network *network = network_of(&config);
    struct culm_graph *graph[3];
    for (int i = 0; i < 3; i++) {
        graph[i] = graph_for(network, CULM_FOR_TRAINING);
        same_graphs(graph[0], graph[i]);
    }
    config.model.options.label_smoothing = 0.1; /* is another request: not the one that was kept */
    struct culm_graph *smooth = graph_for(network, CULM_FOR_TRAINING);
    bool found = false;
    for (int32_t i = 0; i < smooth->node_count; i++) {
        found |= smooth->node[i].attributes.smoothing > 0;
    }
    assert_true(found);
    culm_graph_free(smooth);
    for (int i = 0; i < 3; i++) {
        culm_graph_free(graph[i]);
    }
    culm_network_close(network);
    culm_train_config_release(&config);
}

/* What a configuration may ask for, the device can. */
static void test_limits(void **state) {
    (void)state;
    assert_true(CULM_TRAIN_MAX_ROWS <= culm_device_default()->limits.rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_longer_names),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_a_file_is_read_once),
        cmocka_unit_test(test_graphs_of_a_file_are_alike),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("train/network", tests, make_folder, drop_folder);
}
