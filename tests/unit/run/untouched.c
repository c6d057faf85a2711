/*
 * culm.h: what `ret_` arguments point to is as it was unless a function succeeds. Each function that has
 * some is made to fail, early and late; tests/embed/installed looks that none is left out. argv[1]: the
 * culm program.
 */
#include <culm.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api_place.h"

static const char *program;
static struct culm_error error;

/* Nothing that a function would write. */
static void paint(void *object, size_t size) { memset(object, 0x5a, size); }

/* The call ends with this status, and `ret` has the bytes that it had. */
#define FAILS(status_, ret_, call_)                                                                \
    do {                                                                                           \
        unsigned char before_[sizeof(ret_)];                                                       \
        memcpy(before_, &(ret_), sizeof before_);                                                  \
        memset(&error, 0, sizeof error);                                                           \
        enum culm_status got_ = call_;                                                             \
        if (got_ != (status_) || got_ != error.status) {                                           \
            fail_msg("%s and %s: %s", culm_status_name(got_), culm_status_name(error.status),      \
                     error.text);                                                                  \
        }                                                                                          \
        assert_true(error.text[0] && !strchr(error.text, '\n'));                                   \
        assert_memory_equal(&(ret_), before_, sizeof before_);                                     \
    } while (0)

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

#define FLOATS 65536

/* One tensor "w", f32 [FLOATS]. */
static void write_tensors(const char *path) {
    char head[256] = {0};
    uint64_t len = (uint64_t)snprintf(head, sizeof head,
                                      "{\"w\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":"
                                      "[0,%d]}}",
                                      FLOATS, FLOATS * 4);
    for (; len % 8; len++) {
        head[len] = ' ';
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&len, sizeof len, 1, file), 1);
    assert_int_equal(fwrite(head, 1, len, file), len);
    for (int i = 0; i < FLOATS; i++) {
        float number = (float)(i % 7);
        assert_int_equal(fwrite(&number, sizeof number, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
}

static struct culm_config *tiny(void) {
    static const char text[] =
        "model: {arch: gpt2, layers: 1, width: 16, heads: 2, context: 16, vocab: 256}\n"
        "data: {kind: text, path: text}\nbatch: {global: 4, micro: 2, lanes: 2}\nstages: "
        "1\npipelines: 1\nsteps: 1\n";
    struct culm_config *config = NULL;
    assert_int_equal(culm_config_read(text, strlen(text), "tiny", &config, NULL), CULM_OK);
    return config;
}

static void set(struct culm_config *config, const char *key, const char *value) {
    assert_int_equal(culm_config_set(config, key, value, NULL), CULM_OK);
}

static void configurations(void **state) {
    (void)state;
    struct culm_config *made, *config = tiny();
    const char *text;
    paint(&made, sizeof made);
    paint(&text, sizeof text);
    FAILS(CULM_ERR_ARGUMENT, made, culm_config_open(NULL, &made, &error));
    FAILS(CULM_ERR_NOT_FOUND, made, culm_config_open("nowhere.yaml", &made, &error));
    FAILS(CULM_ERR_ARGUMENT, made, culm_config_read(NULL, 0, "x", &made, &error));
    FAILS(CULM_ERR_CONFIG, made, culm_config_read("steps: 1", SIZE_MAX, "x", &made, &error));
    FAILS(CULM_ERR_ARGUMENT, text, culm_config_text(NULL, &text, &error));
    set(config, "stepps", "1");
    FAILS(CULM_ERR_CONFIG, text, culm_config_text(config, &text, &error));
    culm_config_free(config);
}

static void trainings(void **state) {
    (void)state;
    struct culm_config *config = tiny();
    struct culm_training *made, *training = NULL;
    const char *json;
    const struct culm_training_options options = {
        .size = sizeof options, .dir = "run", .program = program};
    struct culm_training_options other = options;
    paint(&made, sizeof made);
    paint(&json, sizeof json);
    FAILS(CULM_ERR_ARGUMENT, made, culm_training_new(config, NULL, &made, &error));
    other.program = "no-such-program";
    FAILS(CULM_ERR_NOT_FOUND, made, culm_training_new(config, &other, &made, &error));
    set(config, "stages", "9");
    FAILS(CULM_ERR_CONFIG, made, culm_training_new(config, &options, &made, &error));
    set(config, "stages", "1");
    set(config, "data.path", "nowhere");
    assert_int_equal(culm_training_new(config, &options, &training, &error), CULM_OK);
    FAILS(CULM_ERR_ARGUMENT, json, culm_training_plan(NULL, &json, &error));
    FAILS(CULM_ERR_CONFIG, json, culm_training_plan(training, &json, &error));
    culm_training_free(training);
    /* the exception: the plan says what it would need */
    set(config, "data.path", "text");
    set(config, "memory_mb", "1");
    assert_int_equal(culm_training_new(config, &options, &training, &error), CULM_OK);
    assert_int_equal(culm_training_plan(training, &json, &error), CULM_ERR_MEMORY);
    assert_non_null(strstr(json, "\"memory_bytes\""));
    culm_training_free(training);
    /* a run that is there */
    set(config, "memory_mb", "0");
    assert_int_equal(culm_training_new(config, &options, &training, &error), CULM_OK);
    assert_int_equal(culm_training_run(training, &error), CULM_OK);
    culm_training_free(training);
    FAILS(CULM_ERR_EXISTS, made, culm_training_new(config, &options, &made, &error));
    culm_config_free(config);
}

static void summaries(void **state) {
    (void)state;
    struct culm_summary_info summary;
    paint(&summary, sizeof summary);
    summary.size = sizeof summary;
    FAILS(CULM_ERR_ARGUMENT, summary, culm_run_summary("", &summary, &error));
    FAILS(CULM_ERR_NOT_FOUND, summary, culm_run_summary("nowhere", &summary, &error));
}

static void evaluations(void **state) {
    (void)state;
    struct culm_config *config = tiny();
    struct culm_evaluate_result result;
    struct culm_evaluate_arguments arguments = {.size = sizeof arguments};
    const char *const paths[] = {"nowhere"};
    paint(&result, sizeof result);
    result.size = sizeof result;
    FAILS(CULM_ERR_ARGUMENT, result, culm_evaluate_model(NULL, NULL, &result, &error));
    FAILS(CULM_ERR_CONFIG, result, culm_evaluate_model(config, NULL, &result, &error));
    arguments.threads = 1000;
    FAILS(CULM_ERR_ARGUMENT, result, culm_evaluate_model(config, &arguments, &result, &error));
    arguments.threads = 1;
    arguments.path_count = 1;
    FAILS(CULM_ERR_ARGUMENT, result, culm_evaluate_model(config, &arguments, &result, &error));
    arguments.paths = paths;
    FAILS(CULM_ERR_CONFIG, result, culm_evaluate_model(config, &arguments, &result, &error));
    FAILS(CULM_ERR_NOT_FOUND, result, culm_run_evaluate("nowhere", NULL, &result, &error));
    FAILS(CULM_ERR_ARGUMENT, result, culm_run_evaluate("", NULL, &result, &error));
    paint(&result, sizeof result); /* with a size that cannot be */
    FAILS(CULM_ERR_ARGUMENT, result, culm_evaluate_model(config, NULL, &result, &error));
    culm_config_free(config);
}

static void models(void **state) {
    (void)state;
    struct culm_model *made, *model = NULL;
    struct culm_array_info info;
    const struct culm_model_open_options other = {.size = sizeof other, .weights = "nowhere"},
                                         many = {.size = sizeof many, .batch = -1};
    write_text("m.yaml", "model: {arch: gpt2, layers: 1, width: 16, heads: 2, context: 16, vocab: "
                         "256}\ndata: {kind: text, path: text}\nstages: 1\nsteps: 1\n");
    paint(&made, sizeof made);
    paint(&info, sizeof info);
    info.size = sizeof info;
    FAILS(CULM_ERR_ARGUMENT, made, culm_model_open(NULL, NULL, &made, &error));
    FAILS(CULM_ERR_ARGUMENT, made, culm_model_open("m.yaml", &many, &made, &error));
    FAILS(CULM_ERR_CONFIG, made, culm_model_open("nowhere", NULL, &made, &error));
    FAILS(CULM_ERR_NOT_FOUND, made, culm_model_open("m.yaml", &other, &made, &error));
    assert_int_equal(culm_model_open("m.yaml", NULL, &model, &error), CULM_OK);
    FAILS(CULM_ERR_ARGUMENT, info, culm_model_input(model, -1, &info, &error));
    FAILS(CULM_ERR_ARGUMENT, info, culm_model_input(model, 1, &info, &error));
    FAILS(CULM_ERR_ARGUMENT, info, culm_model_output(model, 1, &info, &error));
    int32_t tokens[16] = {256}; /* beyond the table */
    static float logits[16 * 256];
    const void *const inputs[] = {tokens};
    void *const outputs[] = {logits};
    paint(logits, sizeof logits);
    FAILS(CULM_ERR_CONFIG, logits, culm_model_run(model, inputs, outputs, &error));
    paint(&info, sizeof info);
    FAILS(CULM_ERR_ARGUMENT, info, culm_model_input(model, 0, &info, &error));
    FAILS(CULM_ERR_ARGUMENT, info, culm_model_output(model, 0, &info, &error));
    culm_model_free(model);
}

static void tensors(void **state) {
    (void)state;
    struct culm_tensors *made, *a = NULL, *b = NULL;
    struct culm_array_info info;
    size_t index;
    bool same;
    static float data[FLOATS];
    char difference[64];
    paint(&made, sizeof made);
    paint(&info, sizeof info);
    info.size = sizeof info;
    paint(&index, sizeof index);
    paint(&same, sizeof same);
    paint(data, sizeof data);
    paint(difference, sizeof difference);
    FAILS(CULM_ERR_ARGUMENT, made, culm_tensors_open(NULL, false, &made, &error));
    FAILS(CULM_ERR_NOT_FOUND, made, culm_tensors_open("nowhere", false, &made, &error));
    FAILS(CULM_ERR_FORMAT, made, culm_tensors_open("text", false, &made, &error));
    write_tensors("a.safetensors");
    write_tensors("b.safetensors");
    assert_int_equal(culm_tensors_open("a.safetensors", false, &a, &error), CULM_OK);
    assert_int_equal(culm_tensors_open("b.safetensors", false, &b, &error), CULM_OK);
    FAILS(CULM_ERR_ARGUMENT, info, culm_tensors_info(a, 1, &info, &error));
    FAILS(CULM_ERR_ARGUMENT, index, culm_tensors_find(NULL, "w", &index, &error));
    FAILS(CULM_ERR_NOT_FOUND, index, culm_tensors_find(a, "v", &index, &error));
    FAILS(CULM_ERR_ARGUMENT, data, culm_tensors_read(a, 1, data, sizeof data, &error));
    FAILS(CULM_ERR_ARGUMENT, data, culm_tensors_read(a, 0, data, sizeof data - 4, &error));
    FAILS(CULM_ERR_ARGUMENT, same,
          culm_tensors_compare(a, NULL, &same, difference, sizeof difference, &error));
    /* the file becomes shorter while it is open: its first half could be read */
    assert_int_equal(truncate("a.safetensors", FLOATS * 2), 0);
    FAILS(CULM_ERR_IO, data, culm_tensors_read(a, 0, data, sizeof data, &error));
    FAILS(CULM_ERR_IO, same,
          culm_tensors_compare(b, a, &same, difference, sizeof difference, &error));
    FAILS(CULM_ERR_IO, difference,
          culm_tensors_compare(a, b, &same, difference, sizeof difference, &error));
    paint(&info, sizeof info);
    FAILS(CULM_ERR_ARGUMENT, info, culm_tensors_info(b, 0, &info, &error));
    assert_int_equal(culm_tensors_read(b, 0, data, sizeof data, &error), CULM_OK);
    assert_true(data[0] == 0 && data[FLOATS - 1] == (float)((FLOATS - 1) % 7));
    culm_tensors_free(a);
    culm_tensors_free(b);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        IN_PLACE(configurations), IN_PLACE(trainings), IN_PLACE(summaries),
        IN_PLACE(evaluations),    IN_PLACE(models),    IN_PLACE(tensors),
    };
    program = argc > 1 ? realpath(argv[1], NULL) : NULL;
    return cmocka_run_group_tests_name("run/untouched", tests, NULL, NULL);
}
