/* culm.h from a program of its own: wrong arguments everywhere, structures of other versions, two runs
 * at once in a process that has threads and handlers. argv[1]: the culm program. */
#include <culm.h>

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

static struct culm_config *tiny(const char *steps) {
    static const char text[] =
        "model: {arch: gpt2, layers: 2, width: 32, heads: 2, context: 16, vocab: 256}\n"
        "data: {kind: text, path: text}\nbatch: {global: 8, micro: 2, lanes: 2}\n"
        "pipelines: 2\nstages: 2\nsteps: 1\n";
    struct culm_config *config = NULL;
    assert_int_equal(culm_config_read(text, strlen(text), "tiny", &config, NULL), CULM_OK);
    assert_int_equal(culm_config_set(config, "steps", steps, NULL), CULM_OK);
    return config;
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
    struct culm_config *config = tiny("1");
    struct culm_training *training = NULL;
    struct culm_model *model = NULL;
    struct culm_tensors *tensors = NULL;
    struct culm_array_info info = {.size = sizeof info};
    struct culm_summary_info summary = {0};
    struct culm_evaluate_result result = {0};
    struct culm_training_options options = {.size = sizeof options};
    const char *text;
    size_t index;
    bool same;
    REFUSED(culm_config_open(NULL, &config, &error));
    REFUSED(culm_config_open("text", NULL, &error));
    REFUSED(culm_config_read(NULL, 0, "x", &config, &error));
    REFUSED(culm_config_set(NULL, "steps", "1", &error));
    REFUSED(culm_config_set(config, "", "1", &error));
    REFUSED(culm_config_set(config, "steps", NULL, &error));
    REFUSED(culm_config_check(NULL, &error));
    REFUSED(culm_config_text(config, NULL, &error));
    REFUSED(culm_training_new(NULL, &options, &training, &error));
    REFUSED(culm_training_new(config, NULL, &training, &error));
    REFUSED(culm_training_new(config, &options, &training, &error)); /* no dir */
    REFUSED(
        culm_training_new(config, &(struct culm_training_options){.dir = "x"}, &training, &error));
    REFUSED(culm_training_plan(NULL, &text, &error));
    REFUSED(culm_training_run(NULL, &error));
    REFUSED(culm_run_summary(NULL, &summary, &error));
    REFUSED(culm_evaluate_model(NULL, NULL, &result, &error));
    REFUSED(culm_run_evaluate(NULL, NULL, &result, &error));
    REFUSED(culm_model_open(NULL, NULL, &model, &error));
    REFUSED(culm_model_input(NULL, 0, &info, &error));
    REFUSED(culm_model_output(NULL, 0, &info, &error));
    REFUSED(culm_model_run(NULL, NULL, NULL, &error));
    REFUSED(culm_model_set_batch(NULL, 1, &error));
    REFUSED(culm_tensors_open(NULL, false, &tensors, &error));
    REFUSED(culm_tensors_info(NULL, 0, &info, &error));
    REFUSED(culm_tensors_find(NULL, "x", &index, &error));
    REFUSED(culm_tensors_read(NULL, 0, NULL, 0, &error));
    REFUSED(culm_tensors_compare(NULL, NULL, &same, NULL, 0, &error));
    assert_int_equal(culm_model_input_count(NULL), 0);
    assert_int_equal(culm_tensors_step(NULL), -1);
    assert_int_equal(culm_worker_main(0, NULL), 2);
    REFUSED(culm_evaluate(NULL, NULL, &result, &error));
    REFUSED(culm_generate(NULL, NULL, &error));
    REFUSED(culm_generate("run", NULL, &error));
    REFUSED(culm_generate("run",
                          &(struct culm_generate_options){
                              .size = sizeof(struct culm_generate_options), .prompt = "a"},
                          &error)); /* nowhere to say it */
    culm_training_stop(NULL);
    culm_training_abort(NULL);
    culm_training_free(NULL);
    culm_model_free(NULL);
    culm_tensors_free(NULL);
    culm_config_free(NULL);
    assert_int_equal(culm_config_set(config, "stepps", "1", &error), CULM_OK);
    assert_int_equal(culm_config_check(config, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "stepps"));
    culm_config_free(config);
}

/* Each is told apart from what a run, a model or a file is wrong about. */
static void numbers_and_names_that_cannot_be(void **state) {
    (void)state;
    static const int64_t numbers[] = {-1, INT64_MIN, 257, ((int64_t)1 << 32) + 1, INT64_MAX};
    struct culm_error error;
    struct culm_model *model = NULL;
    struct culm_config *config = tiny("1");
    struct culm_training *training = NULL;
    struct culm_evaluate_result result = {.size = sizeof result};
    struct culm_summary_info summary = {.size = sizeof summary};
    struct culm_training_options options = {.size = sizeof options, .dir = "d", .program = "text"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct culm_evaluate_arguments arguments = {.size = sizeof arguments,
                                                          .threads = numbers[i]};
        const struct culm_model_open_options how = {.size = sizeof how, .threads = numbers[i]};
        REFUSED(culm_evaluate_model(config, &arguments, &result, &error));
        REFUSED(culm_model_open("resnet18", &how, &model, &error));
    }
    REFUSED(culm_evaluate_model(config,
                                &(struct culm_evaluate_arguments){
                                    .size = sizeof(struct culm_evaluate_arguments), .samples = -1},
                                &result, &error));
    static const int64_t batches[] = {-1, 1048577, (int64_t)1 << 61, INT64_MAX};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const struct culm_model_open_options how = {.size = sizeof how, .batch = batches[i]};
        REFUSED(culm_model_open("gpt2", &how, &model, &error));
    }
    REFUSED(culm_run_summary("", &summary, &error)); /* not that in / */
    REFUSED(culm_run_evaluate("", NULL, &result, &error));
    assert_int_equal(culm_training_new(config, &options, &training, &error), CULM_ERR_NOT_FOUND);
    assert_string_equal(error.text, "'text' is not a program in PATH"); /* but a file here */
    assert_int_equal(culm_config_read("steps: 1", SIZE_MAX, "x", &config, &error), CULM_ERR_CONFIG);
    assert_int_equal(rename("text", "w.safetensors"), 0);
    assert_int_equal(culm_model_open("w.safetensors", NULL, &model, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "has weights but no model"));
    assert_int_equal(rename("w.safetensors", "text"), 0);
    assert_null(model);
    culm_config_free(config);
}

static void the_last_value_of_a_key_wins(void **state) {
    (void)state;
    struct culm_config *config = tiny("1");
    struct culm_error error;
    const char *text;
    assert_int_equal(culm_config_set(config, "steps", "many", &error), CULM_OK);
    assert_int_equal(culm_config_check(config, &error), CULM_ERR_CONFIG);
    assert_int_equal(culm_config_set(config, "steps", "7", &error), CULM_OK);
    assert_int_equal(culm_config_text(config, &text, &error), CULM_OK);
    assert_non_null(strstr(text, "steps: 7\n"));
    culm_config_free(config);
}

/* A caller of a later version has more at the end: fine while it is zero. */
static void structures_of_other_versions(void **state) {
    (void)state;
    struct later {
        struct culm_model_open_options options;
        int64_t more;
    } later = {.options = {.size = sizeof later}};
    struct {
        struct culm_array_info info;
        char guard[16];
    } shorter = {.info = {.size = offsetof(struct culm_array_info, rank)}};
    struct culm_error error;
    struct culm_model *model = NULL;
    memset(shorter.guard, 7, sizeof shorter.guard);
    shorter.info.rank = 77;
    assert_int_equal(culm_model_open("resnet18", &later.options, &model, &error), CULM_OK);
    assert_int_equal(culm_model_parameter_count(model), 11689512);
    assert_int_equal(culm_model_input(model, 0, &shorter.info, &error), CULM_OK);
    assert_int_equal(shorter.info.dtype, CULM_ARRAY_F32);
    assert_int_equal(shorter.info.rank, 77); /* beyond what it said it has */
    culm_model_free(model);
    later.more = 1;
    model = NULL;
    assert_int_equal(culm_model_open("resnet18", &later.options, &model, &error),
                     CULM_ERR_UNSUPPORTED);
}

/* Logits of `count` pictures; the caller frees them. */
static float *classify(struct culm_model *model, const float *pictures, int64_t count) {
    struct culm_array_info in = {.size = sizeof in}, out = {.size = sizeof out};
    struct culm_error error;
    assert_int_equal(culm_model_input(model, 0, &in, &error), CULM_OK);
    assert_int_equal(culm_model_output(model, 0, &out, &error), CULM_OK);
    assert_int_equal(in.shape[0], count);
    assert_int_equal(out.shape[0], count);
    assert_int_equal(out.bytes, (uint64_t)count * 1000 * sizeof(float));
    float *logits = malloc(out.bytes);
    assert_non_null(logits);
    const void *inputs[] = {pictures};
    void *outputs[] = {logits};
    assert_int_equal(culm_model_run(model, inputs, outputs, &error), CULM_OK);
    return logits;
}

static void batches_of_any_size(void **state) {
    (void)state;
    const struct culm_model_open_options options = {.size = sizeof options, .batch = 3};
    const size_t floats = 3 * 224 * 224 * 3;
    struct culm_model *model = NULL;
    struct culm_error error;
    assert_int_equal(culm_model_open("resnet18", &options, &model, &error), CULM_OK);
    assert_int_equal(culm_model_input_count(model), 1); /* no labels */
    float *pictures = malloc(floats * sizeof *pictures);
    assert_non_null(pictures);
    for (size_t i = 0; i < floats; i++) {
        pictures[i] = (float)(i * 37 % 255) / 128 - 1;
    }
    float *all = classify(model, pictures, 3);
    struct culm_array_info named = {.size = sizeof named};
    for (int64_t batch = 2; batch > 0; batch--) {
        assert_int_equal(culm_model_set_batch(model, batch, &error), CULM_OK);
        assert_int_equal(culm_model_input(model, 0, &named, &error), CULM_OK);
        float *some = classify(model, pictures, batch);
        assert_memory_equal(some, all, (size_t)batch * 1000 * sizeof *some);
        free(some);
    }
    assert_int_equal(culm_model_set_batch(model, 4, &error), CULM_ERR_ARGUMENT);
    assert_int_equal(culm_model_set_batch(model, 0, &error), CULM_ERR_ARGUMENT);
    assert_int_equal(culm_model_set_batch(model, 3, &error), CULM_OK);
    assert_string_equal(named.name, "image"); /* it was asked of a smaller batch */
    float *again = classify(model, pictures, 3);
    assert_memory_equal(again, all, 3000 * sizeof *again);
    free(again);
    free(all);
    free(pictures);
    culm_model_free(model);
}

/* A file that ends in a softmax answers with probabilities, also to fewer samples. */
static void an_end_is_applied(void **state) {
    (void)state;
    const struct culm_model_open_options two = {.size = sizeof two, .batch = 2};
    struct culm_model *model = NULL;
    struct culm_array_info info = {.size = sizeof info};
    struct culm_error error;
    const float x[2][3] = {{1, 0, 0}, {0, 1, -1}}; /* logits 1, 2 and -2, -2 */
    float y[2][2] = {{0}};
    const void *const inputs[] = {x};
    void *const outputs[] = {y};
    char command[512];
    snprintf(command, sizeof command, "cp '%s/good-softmax' end.onnx", TEST_CORPUS);
    assert_int_equal(system(command), 0);
    assert_int_equal(culm_model_open("end.onnx", &two, &model, &error), CULM_OK);
    assert_int_equal(culm_model_output(model, 0, &info, &error), CULM_OK);
    assert_string_equal(info.name, "probabilities");
    for (int64_t batch = 2; batch > 0; batch--) {
        memset(y, 0, sizeof y);
        assert_int_equal(culm_model_set_batch(model, batch, &error), CULM_OK);
        assert_int_equal(culm_model_run(model, inputs, outputs, &error), CULM_OK);
        assert_true(fabsf(y[0][1] - 0.7310586f) < 1e-6f && fabsf(y[0][0] - 0.2689414f) < 1e-6f);
        assert_true(batch < 2 ? y[1][0] == 0 : fabsf(y[1][0] - 0.5f) < 1e-6f);
    }
    culm_model_free(model);
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
    struct culm_config *config = tiny("12");
    struct culm_training *training = NULL;
    const struct culm_training_options options = {.size = sizeof options,
                                                  .dir = run->dir,
                                                  .program = program,
                                                  .event = count,
                                                  .context = run};
    run->status = culm_training_new(config, &options, &training, &run->error);
    culm_config_free(config);
    if (run->status == CULM_OK) {
        run->status = culm_training_run(training, &run->error);
    }
    culm_training_free(training);
    return NULL;
}

static volatile sig_atomic_t heard;

static void on_child(int number) {
    (void)number;
    heard++;
}

static void two_runs_at_once(void **state) {
    (void)state;
    struct run run[2] = {{.dir = "a"}, {.dir = "b"}};
    struct culm_tensors *tensors[2] = {NULL, NULL};
    const struct sigaction own = {.sa_handler = on_child, .sa_flags = SA_RESTART};
    struct sigaction after;
    struct culm_error error;
    char difference[256];
    bool same = false;
    sigaction(SIGCHLD, &own, NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&run[i].thread, NULL, train, &run[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(run[i].thread, NULL);
        if (run[i].status != CULM_OK) {
            fail_msg("%s: %s", run[i].dir, run[i].error.text);
        }
        assert_true(run[i].events > 15);
        assert_int_equal(culm_tensors_open(run[i].dir, true, &tensors[i], &error), CULM_OK);
        assert_int_equal(culm_tensors_step(tensors[i]), 12);
    }
    sigaction(SIGCHLD, NULL, &after);
    assert_ptr_equal(after.sa_handler, on_child);
    assert_true(heard > 0);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(
        culm_tensors_compare(tensors[0], tensors[1], &same, difference, sizeof difference, &error),
        CULM_OK);
    assert_true(same);
    culm_tensors_free(tensors[0]);
    culm_tensors_free(tensors[1]);
}

static bool take_text(void *context, const void *bytes, size_t len) {
    struct {
        char text[64];
        size_t len;
        int calls;
    } *taken = context;
    assert_true(taken->len + len < sizeof taken->text);
    memcpy(taken->text + taken->len, bytes, len);
    taken->len += len;
    return ++taken->calls < 5; /* the prompt and four tokens */
}

static void told(void *context, const char *text) {
    assert_true(text[0] && !strchr(text, '\n'));
    ++*(int *)context;
}

static void what_a_run_is_good_for(void **state) {
    (void)state;
    static const char *const settings[] = {"data.held_out=0.5"};
    static const char *const wrong[] = {"data.held_out"};
    static const char *const paths[] = {"text"};
    struct {
        char text[64];
        size_t len;
        int calls;
    } taken[2] = {{.len = 0}, {.len = 0}};
    int notes = 0;
    struct run run = {.dir = "g"};
    struct culm_error error;
    struct culm_evaluate_arguments arguments = {.size = sizeof arguments,
                                                .paths = paths,
                                                .path_count = 1,
                                                .samples = 4,
                                                .warning = told,
                                                .context = &notes};
    struct culm_evaluate_result of_run = {.size = sizeof of_run}, any = {.size = sizeof any};
    assert_null(train(&run));
    assert_int_equal(run.status, CULM_OK);
    assert_int_equal(culm_run_evaluate("g", &arguments, &of_run, &error), CULM_OK);
    assert_int_equal(culm_evaluate("g", &arguments, &any, &error), CULM_OK);
    assert_true(any.loss == of_run.loss && any.samples == 4 && !any.best);
    arguments.best = CULM_EVALUATE_BY_LOSS;
    assert_int_equal(culm_evaluate("g", &arguments, &any, &error), CULM_OK);
    assert_int_equal(any.best, 1);
    assert_int_equal(culm_evaluate("g", &arguments, &any, &error), CULM_OK);
    assert_int_equal(any.best, 0); /* as good as the weights there */
    assert_int_equal(culm_evaluate("g/checkpoints/step-00000012", &arguments, &any, &error),
                     CULM_ERR_CONFIG); /* not a run */
    arguments.best = 0;
    arguments.path_count = 0;
    assert_int_equal(culm_evaluate("g", &arguments, &any, &error),
                     CULM_ERR_CONFIG); /* none held out */
    arguments.settings = settings;
    arguments.setting_count = 1;
    assert_int_equal(culm_evaluate("g", &arguments, &any, &error), CULM_OK);
    arguments.settings = wrong;
    assert_int_equal(culm_evaluate("g", &arguments, &any, &error), CULM_ERR_ARGUMENT);
    assert_int_equal(notes, 0);
    for (int i = 0; i < 2; i++) {
        const struct culm_generate_options options = {.size = sizeof options,
                                                      .prompt = "the ",
                                                      .tokens = 40,
                                                      .seed = 7,
                                                      .text = take_text,
                                                      .context = &taken[i]};
        assert_int_equal(culm_generate("g", &options, &error), CULM_OK);
    }
    assert_int_equal(taken[0].calls, 5);
    assert_int_equal(taken[0].len, 8); /* a byte is a token */
    assert_memory_equal(taken[0].text, "the ", 4);
    assert_memory_equal(taken[0].text, taken[1].text, 8);
}

static struct culm_training *stopped;

static void stop_at_once(void *context, const char *json) {
    if (strstr(json, "\"step\":2")) {
        culm_training_stop(stopped);
        *(bool *)context = true;
    }
}

static void a_stop_is_resumed(void **state) {
    (void)state;
    bool asked = false;
    struct culm_error error;
    struct culm_summary_info summary = {.size = sizeof summary};
    struct culm_config *config = tiny("200");
    close(STDIN_FILENO); /* as of a service: its number is free */
    struct culm_training_options options = {.size = sizeof options,
                                            .dir = "c",
                                            .program = program,
                                            .event = stop_at_once,
                                            .context = &asked};
    assert_int_equal(culm_training_new(config, &options, &stopped, &error), CULM_OK);
    assert_int_equal(culm_training_run(stopped, &error), CULM_ERR_STOPPED);
    assert_true(asked);
    culm_training_free(stopped);
    assert_int_equal(culm_training_new(config, &options, &stopped, &error), CULM_ERR_EXISTS);
    options.resume = true;
    options.event = NULL;
    assert_int_equal(culm_training_new(config, &options, &stopped, &error), CULM_OK);
    assert_int_equal(culm_training_run(stopped, &error), CULM_OK);
    culm_training_free(stopped);
    culm_config_free(config);
    assert_int_equal(culm_run_summary("c", &summary, &error), CULM_OK);
    assert_true(summary.done);
    assert_int_equal(summary.steps, 200);
    assert_true(summary.redone_ms == 0); /* a stop loses nothing */
    assert_true(summary.useful_ms > 0 && summary.waiting_ms > 0 && summary.saving_ms > 0);
    assert_true(summary.goodput > 0 && summary.goodput < 1);
}

/* Told at every event from step 2 on, as by a deadline: the first time counts. */
struct insisting {
    int64_t last; /* step */
    int asked;
    void (*ask)(struct culm_training *training);
};

static void insist(void *context, const char *json) {
    struct insisting *of = context;
    const char *step = strstr(json, "\"event\":\"step\"") ? strstr(json, "\"step\":") : NULL;
    of->last = step ? atoll(step + 7) : of->last;
    if (of->last >= 2) {
        of->ask(stopped);
        of->asked++;
    }
}

static enum culm_status insist_on(const char *dir, struct insisting *of) {
    struct culm_error error;
    struct culm_config *config = tiny("100000");
    const struct culm_training_options options = {
        .size = sizeof options, .dir = dir, .program = program, .event = insist, .context = of};
    assert_int_equal(culm_config_set(config, "checkpoint.every", "0", NULL), CULM_OK);
    assert_int_equal(culm_training_new(config, &options, &stopped, &error), CULM_OK);
    culm_config_free(config);
    enum culm_status status = culm_training_run(stopped, &error);
    culm_training_free(stopped);
    return status;
}

static void a_stop_counts_once(void **state) {
    (void)state;
    struct culm_error error;
    struct culm_tensors *tensors = NULL;
    struct insisting of = {.ask = culm_training_stop};
    assert_int_equal(insist_on("e", &of), CULM_ERR_STOPPED);
    assert_true(of.asked > 1 && of.last >= 2);
    assert_int_equal(culm_tensors_open("e", true, &tensors, &error), CULM_OK);
    assert_int_equal(culm_tensors_step(tensors), of.last); /* nothing has to be done again */
    culm_tensors_free(tensors);
}

static void an_end_at_once_does_not_wait(void **state) {
    (void)state;
    struct culm_error error;
    struct culm_tensors *tensors = NULL;
    struct insisting of = {.ask = culm_training_abort};
    assert_int_not_equal(insist_on("f", &of), CULM_OK);
    assert_true(of.last >= 2);
    assert_int_not_equal(culm_tensors_open("f", false, &tensors, &error), CULM_OK);
    assert_null(tensors);
}

static void write_file(const char *path, const char *mode, const char *text) {
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

/* By the configuration and the inputs of the checkpoint, whatever has become of the files since. */
static void a_run_is_evaluated(void **state) {
    (void)state;
    const char *const other[] = {"other"};
    struct culm_error error;
    struct culm_training *training = NULL;
    struct culm_model *model = NULL;
    struct culm_config *config = tiny("4");
    const struct culm_training_options options = {
        .size = sizeof options, .dir = "d", .program = program};
    struct culm_evaluate_arguments final = {.size = sizeof final, .weights = "d/model.safetensors"};
    struct culm_evaluate_arguments checkpoint = {.size = sizeof checkpoint,
                                                 .weights = "d/checkpoints/step-00000004"};
    struct culm_model_open_options open = {.size = sizeof open, .weights = checkpoint.weights};
    struct culm_evaluate_result of_config = {.size = sizeof of_config}, result = of_config;
    assert_int_equal(culm_run_evaluate("d", NULL, &result, &error), CULM_ERR_NOT_FOUND);
    assert_int_equal(culm_config_set(config, "data.held_out", "0.2", NULL), CULM_OK);
    assert_int_equal(culm_training_new(config, &options, &training, &error), CULM_OK);
    assert_int_equal(culm_training_run(training, &error), CULM_OK);
    culm_training_free(training);
    assert_int_equal(culm_evaluate_model(config, &final, &of_config, &error), CULM_OK);
    assert_true(of_config.loss > 0 && of_config.samples > 0);
    assert_int_equal(culm_run_evaluate("d", NULL, &result, &error), CULM_OK);
    assert_memory_equal(&result, &of_config, sizeof result);
    assert_int_equal(culm_run_evaluate("d", &checkpoint, &result, &error), CULM_OK);
    assert_memory_equal(&result, &of_config, sizeof result);
    write_file("d/config.yaml", "w", "steps: nonsense\n");
    assert_int_equal(culm_run_evaluate("d", &checkpoint, &result, &error), CULM_OK);
    assert_memory_equal(&result, &of_config, sizeof result);
    assert_int_equal(culm_model_open("d", &open, &model, &error), CULM_OK);
    culm_model_free(model);
    write_file("text", "a", "one line more, since the run\n");
    assert_int_equal(culm_run_evaluate("d", &checkpoint, &result, &error), CULM_ERR_CHANGED);
    assert_non_null(strstr(error.text, "text"));
    write_file("other", "w",
               "and now for something that nobody trained on: five and twenty bytes\n");
    checkpoint.paths = other;
    checkpoint.path_count = 1;
    assert_int_equal(culm_run_evaluate("d", &checkpoint, &result, &error), CULM_OK);
    culm_config_free(config);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        IN_PLACE(wrong_arguments),
        IN_PLACE(numbers_and_names_that_cannot_be),
        cmocka_unit_test(the_last_value_of_a_key_wins),
        cmocka_unit_test(structures_of_other_versions),
        cmocka_unit_test(batches_of_any_size),
        IN_PLACE(an_end_is_applied),
        IN_PLACE(two_runs_at_once),
        IN_PLACE(what_a_run_is_good_for),
        IN_PLACE(a_stop_is_resumed),
        IN_PLACE(a_stop_counts_once),
        IN_PLACE(an_end_at_once_does_not_wait),
        IN_PLACE(a_run_is_evaluated),
    };
    /* the tests run elsewhere, and a path may be relative */
    program = argc > 1 ? realpath(argv[1], NULL) : NULL;
    return cmocka_run_group_tests_name("run/api", tests, NULL, NULL);
}
