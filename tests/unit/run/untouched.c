/*
 * culm.h: what `ret_` arguments point to is as it was unless a function succeeds. Each function that has
 * some is made to fail, early and late; tests/embed/installed looks that none is left out. argv[1]: the
 * culm program.
 */
#include <culm.h>

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api_detector.h"
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

/* --- without memory for JSON --- */

static int64_t allocations_left;

static void *allocate_scarce(size_t size) { return allocations_left-- > 0 ? malloc(size) : NULL; }

/* A plan is there, or is said to be missing, whichever allocation fails. */
#define PLANS(plan_, object_)                                                                      \
    do {                                                                                           \
        int64_t count_ = -1;                                                                       \
        do {                                                                                       \
            const char *json_, *untouched_;                                                        \
            paint(&untouched_, sizeof untouched_);                                                 \
            json_ = untouched_;                                                                    \
            allocations_left = ++count_;                                                           \
            json_set_alloc_funcs(allocate_scarce, free);                                           \
            enum culm_status status_ = plan_(object_, &json_, &error);                             \
            json_set_alloc_funcs(malloc, free);                                                    \
            if (status_ == CULM_OK) {                                                              \
                assert_ptr_not_equal(json_, untouched_);                                           \
                assert_int_equal(json_[0], '{');                                                   \
            } else {                                                                               \
                assert_ptr_equal(json_, untouched_);                                               \
            }                                                                                      \
        } while (allocations_left < 0);                                                            \
        assert_true(count_ > 10);                                                                  \
    } while (0)

static struct culm_config *gnn_config(const char *graph);
static void write_graph(const char *path);

static void plans_without_memory(void **state) {
    (void)state;
    struct culm_config *config = tiny();
    struct culm_training *training = NULL;
    struct culm_gnn_training *gnn = NULL;
    const struct culm_training_options options = {
        .size = sizeof options, .dir = "run", .program = program};
    const struct culm_gnn_training_options gnn_options = {
        .size = sizeof gnn_options, .dir = "run", .program = program};
    assert_int_equal(culm_training_new(config, &options, &training, &error), CULM_OK);
    PLANS(culm_training_plan, training);
    culm_training_free(training);
    culm_config_free(config);
    write_graph("graph");
    config = gnn_config("graph");
    assert_int_equal(culm_gnn_training_new(config, &gnn_options, &gnn, &error), CULM_OK);
    PLANS(culm_gnn_training_plan, gnn);
    culm_gnn_training_free(gnn);
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
    FAILS(CULM_ERR_ARGUMENT, result, culm_evaluate(NULL, NULL, &result, &error));
    FAILS(CULM_ERR_NOT_FOUND, result, culm_evaluate("nowhere", NULL, &result, &error));
    arguments = (struct culm_evaluate_arguments){.size = sizeof arguments, .best = 1};
    FAILS(CULM_ERR_CONFIG, result, culm_evaluate("text", &arguments, &result, &error));
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

/* A graph of four vertices in a row. */
static void write_graph(const char *path) {
    static const int64_t edge[] = {0, 1, 1, 2, 2, 3};
    static const float features[] = {1, 0, 0, 1, 1, 1, 0, 0};
    static const int32_t labels[] = {0, 1, 0, 1};
    static const uint8_t splits[] = {1, 1, 2, 3};
    const struct culm_gnn_graph_arrays arrays = {.size = sizeof arrays,
                                                 .vertices = 4,
                                                 .edges = 3,
                                                 .edge = edge,
                                                 .features = features,
                                                 .columns = 2,
                                                 .labels = labels,
                                                 .classes = 2,
                                                 .splits = splits,
                                                 .split_count = 1};
    assert_int_equal(culm_gnn_graph_write(&arrays, path, NULL, &error), CULM_OK);
}

static void graphs(void **state) {
    (void)state;
    struct culm_gnn_graph_info info;
    struct culm_gnn_partition_info cut;
    int64_t edge[] = {0, 4};
    struct culm_gnn_graph_arrays arrays = {
        .size = sizeof arrays, .vertices = 4, .edges = 1, .edge = edge};
    struct culm_gnn_create_options create = {
        .size = sizeof create, .kind = "sbm", .path = "new", .vertices = 10};
    struct culm_gnn_partition_options options = {.size = sizeof options, .intervals = 9};
    paint(&info, sizeof info);
    paint(&cut, sizeof cut);
    info.size = sizeof info;
    cut.size = sizeof cut;
    write_graph("graph");
    FAILS(CULM_ERR_ARGUMENT, info, culm_gnn_graph_show(NULL, 0, &info, &error));
    FAILS(CULM_ERR_CONFIG, info, culm_gnn_graph_show("nowhere", 0, &info, &error));
    FAILS(CULM_ERR_CONFIG, info, culm_gnn_graph_show("graph", 1, &info, &error));
    FAILS(CULM_ERR_ARGUMENT, info, culm_gnn_graph_write(NULL, "new", &info, &error));
    FAILS(CULM_ERR_CONFIG, info, culm_gnn_graph_write(&arrays, "new", &info, &error));
    edge[1] = 1;
    FAILS(CULM_ERR_EXISTS, info, culm_gnn_graph_write(&arrays, "graph", &info, &error));
    FAILS(CULM_ERR_ARGUMENT, info, culm_gnn_graph_create(&create, &info, &error)); /* no edges */
    create.edges = 20;
    create.path = "graph";
    FAILS(CULM_ERR_EXISTS, info, culm_gnn_graph_create(&create, &info, &error));
    FAILS(CULM_ERR_ARGUMENT, cut, culm_gnn_partition("graph", NULL, &cut, &error));
    FAILS(CULM_ERR_CONFIG, cut, culm_gnn_partition("nowhere", &options, &cut, &error));
    FAILS(CULM_ERR_CONFIG, cut, culm_gnn_partition("graph", &options, &cut, &error));
    paint(&info, sizeof info); /* with a size that cannot be */
    FAILS(CULM_ERR_ARGUMENT, info, culm_gnn_graph_show("graph", 0, &info, &error));
    assert_int_not_equal(access("new", F_OK), 0);
}

static struct culm_config *gnn_config(const char *graph) {
    char text[256];
    struct culm_config *config = NULL;
    snprintf(text, sizeof text, "graph: {path: %s}\nepochs: 1\nintervals: 2\n", graph);
    assert_int_equal(culm_config_read(text, strlen(text), "gnn", &config, NULL), CULM_OK);
    write_text("gnn.yaml", text);
    return config;
}

static void runs_on_graphs(void **state) {
    (void)state;
    struct culm_gnn_training *made, *training = NULL;
    struct culm_config *config = gnn_config("nowhere");
    const struct culm_gnn_training_options options = {
        .size = sizeof options, .dir = "run", .program = program};
    struct culm_gnn_training_options other = options;
    char *text;
    const char *json;
    struct culm_gnn_summary_info summary;
    paint(&made, sizeof made);
    paint(&text, sizeof text);
    paint(&json, sizeof json);
    paint(&summary, sizeof summary);
    summary.size = sizeof summary;
    FAILS(CULM_ERR_ARGUMENT, text, culm_gnn_config_text(NULL, &text, &error));
    FAILS(CULM_ERR_ARGUMENT, made, culm_gnn_training_new(config, NULL, &made, &error));
    other.program = "no-such-program";
    FAILS(CULM_ERR_NOT_FOUND, made, culm_gnn_training_new(config, &other, &made, &error));
    set(config, "epochs", "many");
    FAILS(CULM_ERR_CONFIG, text, culm_gnn_config_text(config, &text, &error));
    FAILS(CULM_ERR_CONFIG, made, culm_gnn_training_new(config, &options, &made, &error));
    set(config, "epochs", "1");
    assert_int_equal(culm_gnn_training_new(config, &options, &training, &error), CULM_OK);
    FAILS(CULM_ERR_ARGUMENT, json, culm_gnn_training_plan(NULL, &json, &error));
    FAILS(CULM_ERR_CONFIG, json, culm_gnn_training_plan(training, &json, &error));
    culm_gnn_training_free(training);
    culm_config_free(config);
    FAILS(CULM_ERR_ARGUMENT, summary, culm_gnn_summary(NULL, &summary, &error));
    FAILS(CULM_ERR_NOT_FOUND, summary, culm_gnn_summary("nowhere", &summary, &error));
}

static void what_was_learned(void **state) {
    (void)state;
    struct culm_gnn_show_info info;
    struct culm_gnn_evaluate_result result;
    struct culm_gnn_prediction *prediction;
    const struct culm_gnn_evaluate_options other = {.size = sizeof other, .weights = "nowhere"};
    const struct culm_gnn_predict_options out = {.size = sizeof out, .out = "graph/logits.npy"};
    paint(&info, sizeof info);
    paint(&result, sizeof result);
    paint(&prediction, sizeof prediction);
    info.size = sizeof info;
    result.size = sizeof result;
    write_graph("graph");
    culm_config_free(gnn_config("graph"));
    FAILS(CULM_ERR_ARGUMENT, info, culm_gnn_show(NULL, NULL, NULL, &info, &error));
    FAILS(CULM_ERR_NOT_FOUND, info, culm_gnn_show("nowhere", NULL, NULL, &info, &error));
    FAILS(CULM_ERR_ARGUMENT, result, culm_gnn_evaluate(NULL, NULL, &result, &error));
    FAILS(CULM_ERR_CONFIG, result, culm_gnn_evaluate("gnn.yaml", &other, &result, &error));
    FAILS(CULM_ERR_ARGUMENT, prediction, culm_gnn_predict(NULL, NULL, &prediction, &error));
    FAILS(CULM_ERR_CONFIG, prediction, culm_gnn_predict("gnn.yaml", NULL, &prediction, &error));
    FAILS(CULM_ERR_CONFIG, prediction, culm_gnn_predict("gnn.yaml", &out, &prediction, &error));
}

static void merges(void **state) {
    (void)state;
    static const char workload_text[] = "queries: [{name: a, model: nowhere.yaml}]\n";
    struct culm_config *workload = NULL;
    struct culm_merging *made;
    const struct culm_merging_options options = {.size = sizeof options, .dir = "package"};
    char *text;
    paint(&made, sizeof made);
    paint(&text, sizeof text);
    assert_int_equal(culm_config_read(workload_text, strlen(workload_text), "w", &workload, NULL),
                     CULM_OK);
    FAILS(CULM_ERR_ARGUMENT, text, culm_merge_config_text(NULL, &text, &error));
    FAILS(CULM_ERR_ARGUMENT, text, culm_merge_show_workload(NULL, &text, &error));
    FAILS(CULM_ERR_CONFIG, text, culm_merge_show_workload(workload, &text, &error));
    FAILS(CULM_ERR_ARGUMENT, text, culm_merge_show_package("", false, &text, &error));
    FAILS(CULM_ERR_NOT_FOUND, text, culm_merge_show_package("nowhere", true, &text, &error));
    FAILS(CULM_ERR_ARGUMENT, made, culm_merging_new(workload, NULL, &made, &error));
    FAILS(CULM_ERR_CONFIG, made, culm_merging_new(workload, &options, &made, &error)); /* no feed */
    set(workload, "merge.steps", "many");
    FAILS(CULM_ERR_CONFIG, text, culm_merge_config_text(workload, &text, &error));
    FAILS(CULM_ERR_CONFIG, made, culm_merging_new(workload, &options, &made, &error));
    culm_config_free(workload);
    assert_int_not_equal(access("package", F_OK), 0);
}

static void pictures(void **state) {
    (void)state;
    static const uint8_t black[SIDE * SIDE * 3];
    const struct culm_picture wrong = {.size = sizeof wrong, .pixels = black};
    const struct culm_vision_options none = {.size = sizeof none, .names = "nowhere"};
    const struct culm_prediction *seen;
    struct culm_vision *made, *vision = NULL;
    struct culm_vision_info info;
    make_detector();
    paint(&made, sizeof made);
    paint(&seen, sizeof seen);
    paint(&info, sizeof info); /* with a size that cannot be */
    FAILS(CULM_ERR_ARGUMENT, made, culm_vision_open(NULL, NULL, &made, &error));
    FAILS(CULM_ERR_CONFIG, made, culm_vision_open("two.cfg", &none, &made, &error));
    assert_int_equal(culm_vision_open("two.cfg", NULL, &vision, &error), CULM_OK);
    FAILS(CULM_ERR_ARGUMENT, info, culm_vision_describe(vision, &info, &error));
    FAILS(CULM_ERR_ARGUMENT, seen, culm_vision_predict(vision, NULL, &seen, &error));
    FAILS(CULM_ERR_ARGUMENT, seen, culm_vision_predict(vision, &wrong, &seen, &error));
    culm_vision_free(vision);
}

static void edges(void **state) {
    (void)state;
    static const char text[] =
        "feeds: {hall: {file: x}}\n"
        "queries: [{name: one, model: two.cfg, feed: hall}]\nedge: {memory: all}\n";
    static const char *const posted[] = {"hall"};
    static const uint8_t black[SIDE * SIDE * 3];
    const struct culm_picture picture = {
        .size = sizeof picture, .pixels = black, .width = SIDE, .height = SIDE, .channels = 3};
    struct culm_edge_options options = {
        .size = sizeof options, .dir = "edge", .posted = posted, .posted_count = 1};
    struct culm_config *workload = NULL;
    struct culm_edge *made, *edge = NULL;
    struct culm_edge_answer answer;
    int64_t frame;
    char *json;
    paint(&made, sizeof made);
    paint(&answer, sizeof answer);
    paint(&frame, sizeof frame);
    paint(&json, sizeof json);
    answer.size = sizeof answer;
    assert_int_equal(culm_config_read(text, strlen(text), "w", &workload, NULL), CULM_OK);
    FAILS(CULM_ERR_ARGUMENT, made, culm_edge_open(NULL, &options, &made, &error));
    FAILS(CULM_ERR_CONFIG, made, culm_edge_open(workload, &options, &made, &error)); /* no model */
    make_detector();
    assert_int_equal(culm_edge_open(workload, &options, &edge, &error), CULM_OK);
    FAILS(CULM_ERR_AGAIN, json, culm_edge_report(edge, &json, &error));
    FAILS(CULM_ERR_AGAIN, frame, culm_edge_post(edge, "hall", &picture, &frame, &error));
    FAILS(CULM_ERR_ARGUMENT, answer, culm_edge_take_answer(edge, 0, &answer, &error));
    assert_int_equal(culm_edge_start(edge, &error), CULM_OK);
    FAILS(CULM_ERR_ARGUMENT, frame, culm_edge_post(edge, "yard", &picture, &frame, &error));
    FAILS(CULM_ERR_AGAIN, answer, culm_edge_take_answer(edge, 0, &answer, &error));
    FAILS(CULM_ERR_ARGUMENT, json, culm_edge_report(NULL, &json, &error));
    culm_edge_stop(edge);
    assert_int_equal(culm_edge_wait(edge, &error), CULM_OK);
    FAILS(CULM_ERR_CLOSED, answer, culm_edge_take_answer(edge, -1, &answer, &error));
    FAILS(CULM_ERR_CLOSED, frame, culm_edge_post(edge, "hall", &picture, &frame, &error));
    culm_edge_close(edge);
    culm_config_free(workload);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        IN_PLACE(configurations),
        IN_PLACE(trainings),
        IN_PLACE(plans_without_memory),
        IN_PLACE(summaries),
        IN_PLACE(evaluations),
        IN_PLACE(models),
        IN_PLACE(tensors),
        IN_PLACE(graphs),
        IN_PLACE(runs_on_graphs),
        IN_PLACE(what_was_learned),
        IN_PLACE(merges),
        IN_PLACE(edges),
        IN_PLACE(pictures),
    };
    program = argc > 1 ? realpath(argv[1], NULL) : NULL;
    return cmocka_run_group_tests_name("run/untouched", tests, NULL, NULL);
}
