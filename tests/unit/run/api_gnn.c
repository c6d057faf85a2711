/* culm/gnn.h from a program of its own: wrong arguments, structures of other versions, graphs from arrays,
 * two runs at once, and stops from the handler of a signal. argv[1]: the culm program. */
#include <culm/gnn.h>

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api_place.h"

static const char *program;

static struct culm_config *config_of(const char *epochs) {
    static const char text[] = "graph: {path: graph}\nmodel: {width: 8}\nepochs: 1\nintervals: 4\n"
                               "servers: 2\ncheckpoint: {every: 0}\n";
    struct culm_config *config = NULL;
    assert_int_equal(culm_config_read(text, strlen(text), "gnn", &config, NULL), CULM_OK);
    assert_int_equal(culm_config_set(config, "epochs", epochs, NULL), CULM_OK);
    return config;
}

static void make_graph(void) {
    struct culm_error error;
    const struct culm_gnn_create_options options = {
        .size = sizeof options, .kind = "sbm", .path = "graph", .vertices = 200, .edges = 800};
    assert_int_equal(culm_gnn_graph_create(&options, NULL, &error), CULM_OK);
}

#define REFUSED(call_)                                                                             \
    do {                                                                                           \
        memset(&error, 0, sizeof error);                                                           \
        assert_int_equal(call_, CULM_ERR_ARGUMENT);                                                \
        assert_int_equal(error.status, CULM_ERR_ARGUMENT);                                         \
        assert_true(error.text[0] && !strchr(error.text, '\n'));                                   \
    } while (0)

static void wrong_arguments(void **state) {
    (void)state;
    struct culm_error error;
    struct culm_config *config = config_of("1");
    struct culm_gnn_training *training = NULL;
    struct culm_gnn_prediction *prediction = NULL;
    struct culm_gnn_graph_info graph = {.size = sizeof graph};
    struct culm_gnn_partition_info cut = {.size = sizeof cut};
    struct culm_gnn_show_info shown = {.size = sizeof shown};
    struct culm_gnn_summary_info summary = {.size = sizeof summary};
    struct culm_gnn_evaluate_result result = {.size = sizeof result};
    struct culm_gnn_create_options create = {.size = sizeof create, .path = "new"};
    struct culm_gnn_partition_options options = {.size = sizeof options, .intervals = -1};
    const struct culm_gnn_training_options no_dir = {.size = sizeof no_dir};
    const char *json;
    REFUSED(culm_gnn_graph_show(NULL, 0, &graph, &error));
    REFUSED(culm_gnn_graph_show("graph", -1, &graph, &error));
    REFUSED(culm_gnn_graph_show("graph", 0, NULL, &error));
    REFUSED(culm_gnn_graph_create(NULL, NULL, &error));
    REFUSED(culm_gnn_graph_create(&create, NULL, &error)); /* no kind */
    create.kind = "circle";
    REFUSED(culm_gnn_graph_create(&create, NULL, &error));
    create.kind = "edges";
    create.file_count = 1;
    REFUSED(culm_gnn_graph_create(&create, NULL, &error)); /* no file */
    create = (struct culm_gnn_create_options){
        .size = sizeof create, .kind = "sbm", .path = "new", .vertices = 9, .edges = 9};
    create.directed = true; /* which it has nothing for */
    REFUSED(culm_gnn_graph_create(&create, NULL, &error));
    create.directed = false;
    create.classes = -2;
    REFUSED(culm_gnn_graph_create(&create, NULL, &error));
    create.classes = 0;
    create.path = NULL;
    REFUSED(culm_gnn_graph_create(&create, NULL, &error));
    REFUSED(culm_gnn_partition(NULL, &options, &cut, &error));
    REFUSED(culm_gnn_partition("graph", &options, &cut, &error));
    REFUSED(culm_gnn_show(NULL, NULL, NULL, &shown, &error));
    REFUSED(culm_gnn_show("c", NULL, NULL, NULL, &error));
    REFUSED(culm_gnn_config_text(NULL, NULL, &error));
    REFUSED(culm_gnn_training_new(NULL, &no_dir, &training, &error));
    REFUSED(culm_gnn_training_new(config, NULL, &training, &error));
    REFUSED(culm_gnn_training_new(config, &no_dir, NULL, &error));
    REFUSED(culm_gnn_training_new(config, &no_dir, &training, &error));
    REFUSED(culm_gnn_training_plan(NULL, &json, &error));
    REFUSED(culm_gnn_training_run(NULL, &error));
    REFUSED(culm_gnn_summary("", &summary, &error));
    REFUSED(culm_gnn_summary("run", NULL, &error));
    REFUSED(culm_gnn_evaluate(NULL, NULL, &result, &error));
    REFUSED(culm_gnn_evaluate("run", NULL, NULL, &error));
    REFUSED(culm_gnn_predict(NULL, NULL, &prediction, &error));
    REFUSED(culm_gnn_predict("run", NULL, NULL, &error));
    assert_int_equal(culm_gnn_prediction_vertices(NULL), 0);
    assert_int_equal(culm_gnn_prediction_classes(NULL), 0);
    assert_null(culm_gnn_prediction_logits(NULL));
    culm_gnn_training_stop(NULL);
    culm_gnn_training_abort(NULL);
    culm_gnn_training_free(NULL);
    culm_gnn_prediction_free(NULL);
    culm_config_free(config);
}

/* What is found late leaves nothing behind; an error need not be asked for. */
static void objects_that_come_to_nothing(void **state) {
    (void)state;
    static const struct culm_gnn_training_options wrong[] = {
        {.dir = "run", .resume = true},
        {.dir = "run", .accept_inputs = true},
        {.dir = "run", .partition = "x", .plan = "y"},
        {.dir = "run", .listen = "0.0.0.0:7"},
        {.dir = "run", .listen = "nowhere"},
        {.dir = "run", .advertise = "127.0.0.1:7"},
        {.dir = "run", .program = "no-such-program"},
    };
    struct culm_config *config = config_of("1");
    struct culm_gnn_training *training = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct culm_gnn_training_options options = wrong[i];
        options.size = sizeof options;
        options.program = options.program ? options.program : program;
        assert_int_not_equal(culm_gnn_training_new(config, &options, &training, NULL), CULM_OK);
        assert_null(training);
    }
    culm_config_free(config);
}

/* A caller of a later version has more at the end: fine while it is zero. An earlier one has less. */
static void structures_of_other_versions(void **state) {
    (void)state;
    struct later {
        struct culm_gnn_training_options options;
        int64_t more;
    } later = {.options = {.size = sizeof later, .dir = "run", .program = program}};
    struct culm_gnn_graph_info shorter = {.size = offsetof(struct culm_gnn_graph_info, entries)};
    struct culm_gnn_training_options older = {.size =
                                                  offsetof(struct culm_gnn_training_options, event),
                                              .dir = "run",
                                              .program = program};
    struct culm_error error;
    struct culm_gnn_training *training = NULL;
    struct culm_config *config = config_of("1");
    make_graph();
    shorter.entries = 77;
    assert_int_equal(culm_gnn_graph_show("graph", 0, &shorter, &error), CULM_OK);
    assert_int_equal(shorter.features, 16);
    assert_int_equal(shorter.entries, 77); /* beyond what it said it has */
    assert_int_equal(culm_gnn_training_new(config, &later.options, &training, &error), CULM_OK);
    culm_gnn_training_free(training);
    training = NULL;
    later.more = 1;
    assert_int_equal(culm_gnn_training_new(config, &later.options, &training, &error),
                     CULM_ERR_UNSUPPORTED);
    assert_null(training);
    older.event = (void (*)(void *, const char *))(uintptr_t)1; /* nobody calls it */
    assert_int_equal(culm_gnn_training_new(config, &older, &training, &error), CULM_OK);
    assert_int_equal(culm_gnn_training_run(training, &error), CULM_OK);
    culm_gnn_training_free(training);
    culm_config_free(config);
}

static void a_graph_from_arrays(void **state) {
    (void)state;
    int64_t edge[] = {1, 0, 0, 1, 2, 2, 2, 1, 3, 4};
    float features[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    int32_t labels[] = {0, 1, 2, -1, 0};
    uint8_t splits[] = {1, 2, 3, 0, 1, 1, 1, 1, 0, 3};
    struct culm_gnn_graph_arrays arrays = {.size = sizeof arrays,
                                           .vertices = 5,
                                           .edges = 5,
                                           .edge = edge,
                                           .features = features,
                                           .columns = 2,
                                           .labels = labels,
                                           .classes = 3,
                                           .splits = splits,
                                           .split_count = 2};
    struct culm_gnn_graph_info info = {.size = sizeof info}, read = {.size = sizeof read};
    struct culm_error error;
    assert_int_equal(culm_gnn_graph_write(&arrays, "new", &info, &error), CULM_OK);
    assert_int_equal(culm_gnn_graph_show("new", 0, &read, &error), CULM_OK);
    assert_memory_equal(&info, &read, sizeof info);
    assert_string_equal(info.name, "new");
    assert_int_equal(info.edges, 3); /* neither the loop, nor one edge twice */
    assert_int_equal(info.features, 2);
    assert_int_equal(info.entries, -1);
    assert_int_equal(info.splits, 2);
    assert_int_equal(info.count[0], 2);
    assert_int_equal(info.count[2], 1);
    assert_int_equal(info.isolated, 0);
    assert_int_equal(info.degree_max, 2);
    arrays.directed = true;
    assert_int_equal(culm_gnn_graph_write(&arrays, "directed", &info, &error), CULM_OK);
    assert_int_equal(info.edges, 4);
    assert_int_equal(info.directed, 1);
#define WRONG(member_, value_, text_)                                                              \
    do {                                                                                           \
        const __typeof__(member_) before_ = member_;                                               \
        (member_) = value_;                                                                        \
        assert_int_equal(culm_gnn_graph_write(&arrays, "wrong", NULL, &error), CULM_ERR_CONFIG);   \
        assert_non_null(strstr(error.text, text_));                                                \
        (member_) = before_;                                                                       \
    } while (0)
    WRONG(edge[7], 5, "edge [3, 1]");
    WRONG(edge[0], -1, "edge [0, 0]");
    WRONG(features[5], INFINITY, "features [2, 1]");
    WRONG(labels[3], 3, "labels [3, 0]");
    WRONG(splits[3], 1, "splits [0, 3]: the vertex has no label");
    WRONG(splits[9], 4, "splits [1, 4]");
#undef WRONG
    REFUSED((arrays.columns = 0, culm_gnn_graph_write(&arrays, "wrong", NULL, &error)));
    arrays.columns = 2;
    REFUSED((arrays.labels = NULL, culm_gnn_graph_write(&arrays, "wrong", NULL, &error)));
    REFUSED((arrays.vertices = 0, culm_gnn_graph_write(&arrays, "wrong", NULL, &error)));
    assert_int_not_equal(access("wrong", F_OK), 0);
    /* alone: vertices */
    const struct culm_gnn_graph_arrays bare = {.size = sizeof bare, .vertices = 3};
    assert_int_equal(culm_gnn_graph_write(&bare, "bare", &info, &error), CULM_OK);
    assert_int_equal(info.isolated, 3);
}

static void a_cut(void **state) {
    (void)state;
    struct culm_error error;
    struct culm_gnn_partition_options options = {
        .size = sizeof options, .intervals = 4, .servers = 2, .out = "cut"};
    struct culm_gnn_partition_info info = {.size = sizeof info}, again = {.size = sizeof again};
    make_graph();
    assert_int_equal(culm_gnn_partition("graph", &options, &info, &error), CULM_OK);
    assert_string_equal(info.method, "metis");
    assert_true(info.cut_edges > 0 && info.cut_edges <= info.interval_cut_edges);
    options.method = "cut";
    options.out = NULL;
    assert_int_equal(culm_gnn_partition("graph", &options, &again, &error), CULM_OK);
    assert_string_equal(again.method, "file");
    assert_int_equal(again.cut_edges, info.cut_edges);
    assert_true(again.balance == info.balance);
}

struct run {
    const char *dir;
    pthread_t thread;
    int events;
    enum culm_status status;
    struct culm_error error;
};

static void count(void *context, const char *json) {
    assert_true(json[0] == '{' && !strchr(json, '\n'));
    ((struct run *)context)->events++;
}

static void *train(void *argument) {
    struct run *run = argument;
    struct culm_config *config = config_of("6");
    struct culm_gnn_training *training = NULL;
    const struct culm_gnn_training_options options = {.size = sizeof options,
                                                      .dir = run->dir,
                                                      .program = program,
                                                      .event = count,
                                                      .context = run};
    run->status = culm_gnn_training_new(config, &options, &training, &run->error);
    culm_config_free(config);
    if (run->status == CULM_OK) {
        run->status = culm_gnn_training_run(training, &run->error);
    }
    if (run->status == CULM_OK &&
        culm_gnn_training_run(training, &run->error) != CULM_ERR_ARGUMENT) { /* once */
        run->status = CULM_ERR_INTERNAL;
    }
    culm_gnn_training_free(training);
    return NULL;
}

static void nothing(int number) { (void)number; }

/* What is predicted is what was evaluated: the vertices that train are right as often. */
static void compare_with_predicted(const char *dir, const struct culm_gnn_evaluate_result *result) {
    struct culm_error error;
    struct culm_gnn_prediction *prediction = NULL;
    const struct culm_gnn_predict_options options = {.size = sizeof options, .out = "logits.npy"};
    assert_int_equal(culm_gnn_predict(dir, &options, &prediction, &error), CULM_OK);
    const int64_t vertices = culm_gnn_prediction_vertices(prediction),
                  classes = culm_gnn_prediction_classes(prediction);
    const float *logits = culm_gnn_prediction_logits(prediction);
    assert_int_equal(vertices, result->vertices);
    assert_int_equal(classes, 4);
    FILE *file = fopen("logits.npy", "rb");
    float *written = malloc((size_t)(vertices * classes) * sizeof *written);
    assert_non_null(written);
    assert_true(file && !fseek(file, -(long)(vertices * classes * 4), SEEK_END));
    assert_int_equal(fread(written, (size_t)(classes * 4), (size_t)vertices, file), vertices);
    assert_memory_equal(written, logits, (size_t)(vertices * classes) * sizeof *written);
    free(written);
    fclose(file);
    culm_gnn_prediction_free(prediction);
}

static void two_runs_at_once(void **state) {
    (void)state;
    struct run run[2] = {{.dir = "a"}, {.dir = "b"}};
    struct culm_gnn_summary_info summary[2] = {{.size = sizeof *summary},
                                               {.size = sizeof *summary}};
    struct culm_gnn_evaluate_result result = {.size = sizeof result};
    const struct sigaction own = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    static const int signals[] = {SIGCHLD, SIGTERM, SIGABRT, SIGINT};
    struct sigaction after;
    struct culm_error error;
    make_graph();
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaction(signals[i], &own, NULL);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&run[i].thread, NULL, train, &run[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(run[i].thread, NULL);
        if (run[i].status != CULM_OK) {
            fail_msg("%s: %s", run[i].dir, run[i].error.text);
        }
        assert_true(run[i].events > 10);
        assert_int_equal(culm_gnn_summary(run[i].dir, &summary[i], &error), CULM_OK);
        assert_int_equal(summary[i].done, 1);
        assert_int_equal(summary[i].epochs, 6);
        assert_true(summary[i].valid > 0 && summary[i].goodput > 0 && summary[i].rate_per_s > 0);
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaction(signals[i], NULL, &after);
        assert_ptr_equal(after.sa_handler, nothing);
        signal(signals[i], SIG_DFL);
    }
    assert_string_equal(summary[0].weights_sha256, summary[1].weights_sha256);
    assert_int_equal(strlen(summary[0].state_sha256), 64);
    assert_int_equal(culm_gnn_evaluate("a", NULL, &result, &error), CULM_OK);
    assert_true(result.count[1] > 0 && fabs((double)result.correct[1] / (double)result.count[1] -
                                            summary[0].valid) < 1e-9);
    compare_with_predicted("a", &result);
}

/* --- stopping --- */

static struct culm_gnn_training *stopped;
static void (*ask)(struct culm_gnn_training *training);

static void on_signal(int number) {
    (void)number;
    ask(stopped);
}

static void raise_at_epoch_two(void *context, const char *json) {
    if (strstr(json, "\"event\":\"epoch\"") && strstr(json, "\"epoch\":2,")) {
        ++*(int *)context;
        raise(SIGUSR1);
        raise(SIGUSR1);
    }
}

static enum culm_status run_to(const char *dir, const char *epochs, bool resume, int *asked) {
    struct culm_error error = {0};
    struct culm_config *config = config_of(epochs);
    const struct culm_gnn_training_options options = {.size = sizeof options,
                                                      .dir = dir,
                                                      .resume = resume,
                                                      .program = program,
                                                      .event = asked ? raise_at_epoch_two : NULL,
                                                      .context = asked};
    enum culm_status status = culm_gnn_training_new(config, &options, &stopped, &error);
    culm_config_free(config);
    assert_int_equal(status, CULM_OK);
    status = culm_gnn_training_run(stopped, &error);
    assert_int_equal(status, error.status);
    culm_gnn_training_free(stopped);
    stopped = NULL;
    return status;
}

static void a_stop_by_a_signal_is_resumed(void **state) {
    (void)state;
    struct culm_gnn_summary_info plain = {.size = sizeof plain}, resumed = {.size = sizeof resumed};
    int asked = 0;
    make_graph();
    signal(SIGUSR1, on_signal);
    ask = culm_gnn_training_stop;
    assert_int_equal(run_to("stopped", "40", false, &asked), CULM_ERR_STOPPED);
    assert_int_equal(asked, 1);
    assert_int_equal(culm_gnn_summary("stopped", &resumed, NULL), CULM_OK);
    assert_int_equal(resumed.done, 0);
    assert_true(resumed.epochs >= 2 && resumed.epochs < 40 && isnan(resumed.valid));
    assert_int_equal(run_to("stopped", "40", true, NULL), CULM_OK);
    assert_int_equal(run_to("plain", "40", false, NULL), CULM_OK);
    assert_int_equal(culm_gnn_summary("stopped", &resumed, NULL), CULM_OK);
    assert_int_equal(culm_gnn_summary("plain", &plain, NULL), CULM_OK);
    assert_string_equal(plain.weights_sha256, resumed.weights_sha256);
    assert_true(resumed.redone_ms == 0);
    signal(SIGUSR1, SIG_DFL);
}

static void an_end_at_once_has_to_be_done_again(void **state) {
    (void)state;
    int asked = 0;
    make_graph();
    signal(SIGUSR1, on_signal);
    ask = culm_gnn_training_abort;
    assert_int_equal(run_to("ended", "100000", false, &asked), CULM_ERR_AGAIN);
    assert_int_equal(asked, 1);
    signal(SIGUSR1, SIG_DFL);
}

static void a_stop_before_the_run_counts(void **state) {
    (void)state;
    struct culm_error error;
    struct culm_config *config = config_of("100000");
    const struct culm_gnn_training_options options = {
        .size = sizeof options, .dir = "early", .program = program};
    struct culm_gnn_training *training = NULL;
    make_graph();
    assert_int_equal(culm_gnn_training_new(config, &options, &training, &error), CULM_OK);
    culm_gnn_training_stop(training);
    assert_int_equal(culm_gnn_training_run(training, &error), CULM_ERR_STOPPED);
    culm_gnn_training_stop(training);
    culm_gnn_training_free(training);
    culm_config_free(config);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        IN_PLACE(wrong_arguments),
        IN_PLACE(objects_that_come_to_nothing),
        IN_PLACE(structures_of_other_versions),
        IN_PLACE(a_graph_from_arrays),
        IN_PLACE(a_cut),
        IN_PLACE(two_runs_at_once),
        IN_PLACE(a_stop_by_a_signal_is_resumed),
        IN_PLACE(an_end_at_once_has_to_be_done_again),
        IN_PLACE(a_stop_before_the_run_counts),
    };
    program = argc > 1 ? realpath(argv[1], NULL) : NULL;
    return cmocka_run_group_tests_name("run/api_gnn", tests, NULL, NULL);
}
