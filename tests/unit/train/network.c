/*
 * The network of a configuration: weights under the names that published files give them.
 */
#include "../folder.h"

#include "train/network.h"

#include "base/file.h"
#include "store/safetensors.h"

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

static struct culm_graph *graph_of(const struct culm_train_config *config) {
    struct culm_graph *graph = NULL;
    struct culm_error error = {0};
    if (culm_network_build(config, 1, CULM_FOR_TRAINING, &graph, &error)) {
        fail_msg("%s", error.text);
    }
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
    char path[CULM_PATH_MAX], note[CULM_INITIAL_NOTE_SIZE] = "?";
    struct culm_train_config config, plain;
    struct culm_initial *initial = NULL;
    struct culm_error error = {0};
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    config_of(&plain, model, NULL);
    struct culm_graph *graph = graph_of(&plain);
    write_file(graph, path, cut, front, old, -1);
    config_of(&config, model, path);
    if (culm_initial_open(&config, &initial, &error) ||
        culm_initial_check(initial, graph, note, &error)) {
        fail_msg("'%s' '%s' %d: %s", cut, front, old, error.text);
    }
    if (note[0]) {
        fail_msg("'%s' '%s' %d: %s", cut, front, old, note);
    }
    for (int32_t p = 0; p < graph->param_count; p++) {
        const struct culm_param *param = &graph->param[p];
        struct culm_param_info info = {.name = param->name,
                                       .rank = param->shape.rank,
                                       .count = culm_elements(&param->shape),
                                       .init = CULM_INIT_ZEROS};
        memcpy(info.shape, param->shape.dim, sizeof info.shape);
        float *data = calloc((size_t)info.count, sizeof *data);
        assert_int_equal(culm_initial_fill(initial, &info, data, &error), CULM_OK);
        if (data[0] != (float)(p + 1) || data[info.count - 1] != (float)(p + 1)) {
            fail_msg("'%s' '%s' %d: %s is %g", cut, front, old, param->name, (double)data[0]);
        }
        free(data);
    }
    culm_initial_close(initial);
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
        char path[CULM_PATH_MAX], note[CULM_INITIAL_NOTE_SIZE] = "?";
        struct culm_train_config config;
        struct culm_initial *initial = NULL;
        struct culm_error error = {0};
        struct culm_graph *graph = culm_graph_new(culm_device_default());
        const struct culm_shape shape = {1, {3}};
        culm_graph_param(graph, "embeddings.LayerNorm.weight", &shape, CULM_INIT_ZEROS, 0, false);
        culm_graph_param(graph, "embeddings.LayerNorm.bias", &shape, CULM_INIT_ZEROS, 0, false);
        snprintf(path, sizeof path, "%s/longer.safetensors", folder);
        write_file(graph, path, "", front[i / 2], i % 2, -1);
        config_of(&config, bert, path);
        if (culm_initial_open(&config, &initial, &error) ||
            culm_initial_check(initial, graph, note, &error)) {
            fail_msg("'%s': %s", front[i / 2], error.text);
        }
        assert_string_equal(note, "");
        culm_initial_close(initial);
        culm_graph_free(graph);
        culm_train_config_release(&config);
    }
}

static void test_missing(void **state) {
    (void)state;
    char path[CULM_PATH_MAX], note[CULM_INITIAL_NOTE_SIZE] = "?", wanted[CULM_INITIAL_NOTE_SIZE];
    struct culm_train_config config, plain;
    struct culm_initial *initial = NULL;
    struct culm_error error = {0};
    snprintf(path, sizeof path, "%s/missing.safetensors", folder);
    config_of(&plain, bert, NULL);
    struct culm_graph *graph = graph_of(&plain);
    write_file(graph, path, "bert.", "", true, 5);
    config_of(&config, bert, path);
    assert_int_equal(culm_initial_open(&config, &initial, &error), CULM_OK);
    assert_int_equal(culm_initial_check(initial, graph, note, &error), CULM_OK);
    snprintf(wanted, sizeof wanted,
             "model.init has %d of %d parameters; those that it lacks, the first is '%s', start "
             "from the seed",
             graph->param_count - 1, graph->param_count, graph->param[5].name);
    assert_string_equal(note, wanted);
    culm_initial_close(initial);
    culm_graph_free(graph);
    culm_train_config_release(&config);
    culm_train_config_release(&plain);
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
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("train/network", tests, make_folder, drop_folder);
}
