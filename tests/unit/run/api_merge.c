/* culm/merge.h from a program of its own: wrong arguments, structures of other versions, two merges at
 * once, and a stop from the handler of a signal. The models are two small ones with first weights. */
#include <culm/merge.h>

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

#define COUNT 48
#define SIDE 8

/* Pictures of noise as an IDX file, and the configurations of two models. */
static void make_inputs(void) {
    static const unsigned char head[] = {0, 0,    8, 4, 0, 0,    0, COUNT, 0, 0,
                                         0, SIDE, 0, 0, 0, SIDE, 0, 0,     0, 3};
    uint32_t draw = 1;
    FILE *file = fopen("images", "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(head, sizeof head, 1, file), 1);
    for (int i = 0; i < COUNT * SIDE * SIDE * 3; i++) {
        draw = draw * 1664525 + 1013904223;
        fputc((int)(draw >> 24), file);
    }
    assert_int_equal(fclose(file), 0);
    for (int seed = 1; seed <= 2; seed++) {
        file = fopen(seed == 1 ? "a.yaml" : "b.yaml", "w");
        assert_non_null(file);
        fprintf(file,
                "model: {arch: resnet, blocks: [1, 1], width: 4, small_stem: true, image: 8, "
                "channels: 3, classes: 4}\ndata: {kind: images, path: none}\nsteps: 1\nseed: %d\n",
                seed);
        assert_int_equal(fclose(file), 0);
    }
}

static struct culm_config *workload_of(const char *steps) {
    static const char text[] = "feeds: {f: {file: images}}\nqueries:\n"
                               "  - {name: a, model: a.yaml, feed: f}\n"
                               "  - {name: b, model: b.yaml, feed: f}\n";
    struct culm_config *workload = NULL;
    assert_int_equal(culm_config_read(text, strlen(text), "w", &workload, NULL), CULM_OK);
    assert_int_equal(culm_config_set(workload, "merge.steps", steps, NULL), CULM_OK);
    return workload;
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
    struct culm_config *workload = workload_of("1");
    struct culm_merging *merging = NULL;
    const struct culm_merging_options no_dir = {.size = sizeof no_dir};
    char *text = NULL;
    REFUSED(culm_merge_config_text(NULL, &text, &error));
    REFUSED(culm_merge_show_workload(NULL, &text, &error));
    REFUSED(culm_merge_show_workload(workload, NULL, &error));
    REFUSED(culm_merge_show_package(NULL, false, &text, &error));
    REFUSED(culm_merge_show_package("package", false, NULL, &error));
    REFUSED(culm_merging_new(NULL, &no_dir, &merging, &error));
    REFUSED(culm_merging_new(workload, NULL, &merging, &error));
    REFUSED(culm_merging_new(workload, &no_dir, NULL, &error));
    REFUSED(culm_merging_new(workload, &no_dir, &merging, &error));
    REFUSED(culm_merging_run(NULL, &error));
    culm_merging_stop(NULL);
    culm_merging_free(NULL);
    culm_text_free(NULL);
    assert_int_equal(culm_merge_config_text(workload, NULL, &error), CULM_OK);
    assert_int_equal(culm_merge_config_text(workload, &text, &error), CULM_OK);
    assert_non_null(strstr(text, "steps: 1\n"));
    culm_text_free(text);
    culm_config_free(workload);
}

static void structures_of_other_versions(void **state) {
    (void)state;
    struct later {
        struct culm_merging_options options;
        int64_t more;
    } later = {.options = {.size = sizeof later, .dir = "package"}};
    struct culm_error error;
    struct culm_config *workload = workload_of("1");
    struct culm_merging *merging = NULL;
    make_inputs();
    assert_int_equal(culm_merging_new(workload, &later.options, &merging, &error), CULM_OK);
    culm_merging_free(merging); /* that nobody has run */
    merging = NULL;
    later.more = 1;
    assert_int_equal(culm_merging_new(workload, &later.options, &merging, &error),
                     CULM_ERR_UNSUPPORTED);
    /* found late: the second model is not there */
    assert_int_equal(unlink("b.yaml"), 0);
    later.more = 0;
    assert_int_not_equal(culm_merging_new(workload, &later.options, &merging, NULL), CULM_OK);
    assert_null(merging);
    culm_config_free(workload);
}

struct run {
    const char *dir;
    pthread_t thread;
    int events, warnings;
    enum culm_status status;
    struct culm_error error;
};

static void count(void *context, const char *json) {
    assert_true(json[0] == '{' && !strchr(json, '\n'));
    ((struct run *)context)->events++;
}

static void warned(void *context, const char *text) {
    assert_true(text[0] && !strchr(text, '\n'));
    ((struct run *)context)->warnings++;
}

static void *merge(void *argument) {
    struct run *run = argument;
    struct culm_config *workload = workload_of("10");
    struct culm_merging *merging = NULL;
    const struct culm_merging_options options = {
        .size = sizeof options, .dir = run->dir, .event = count, .warning = warned, .context = run};
    run->status = culm_merging_new(workload, &options, &merging, &run->error);
    culm_config_free(workload);
    if (run->status == CULM_OK) {
        run->status = culm_merging_run(merging, &run->error);
    }
    if (run->status == CULM_OK && culm_merging_run(merging, &run->error) != CULM_ERR_ARGUMENT) {
        run->status = CULM_ERR_INTERNAL; /* once */
    }
    culm_merging_free(merging);
    return NULL;
}

static void two_merges_at_once(void **state) {
    (void)state;
    struct run run[2] = {{.dir = "p"}, {.dir = "q"}};
    char *shown[2] = {NULL, NULL}, *could = NULL;
    struct culm_error error;
    struct culm_config *workload = workload_of("10");
    make_inputs();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&run[i].thread, NULL, merge, &run[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(run[i].thread, NULL);
        if (run[i].status != CULM_OK) {
            fail_msg("%s: %s", run[i].dir, run[i].error.text);
        }
        assert_true(run[i].events > 4);
        assert_int_equal(culm_merge_show_package(run[i].dir, true, &shown[i], &error), CULM_OK);
    }
    assert_int_equal(run[0].warnings, run[1].warnings);
    assert_string_equal(shown[0], shown[1]);
    assert_non_null(strstr(shown[0], "\"query\":\"b\""));
    assert_int_equal(culm_merge_show_workload(workload, &could, &error), CULM_OK);
    assert_non_null(strstr(could, "\"models\":2,"));
    culm_text_free(could);
    culm_text_free(shown[0]);
    culm_text_free(shown[1]);
    assert_int_equal(culm_merge_show_package(".", false, &could, &error), CULM_ERR_NOT_FOUND);
    culm_config_free(workload);
}

static struct culm_merging *stopped;

static void on_signal(int number) {
    (void)number;
    culm_merging_stop(stopped);
}

static void raise_at_a_try(void *context, const char *json) {
    if (strstr(json, "\"event\":\"try\"")) {
        ++*(int *)context;
        raise(SIGUSR1);
    }
}

static enum culm_status merge_to(const char *dir, bool resume, int *asked) {
    struct culm_error error = {0};
    struct culm_config *workload = workload_of("10");
    const struct culm_merging_options options = {.size = sizeof options,
                                                 .dir = dir,
                                                 .resume = resume,
                                                 .event = asked ? raise_at_a_try : NULL,
                                                 .context = asked};
    enum culm_status status = culm_merging_new(workload, &options, &stopped, &error);
    culm_config_free(workload);
    assert_int_equal(status, CULM_OK);
    status = culm_merging_run(stopped, &error);
    assert_int_equal(status, error.status);
    culm_merging_free(stopped);
    stopped = NULL;
    return status;
}

static void a_stop_by_a_signal_is_resumed(void **state) {
    (void)state;
    int asked = 0;
    char *plain = NULL, *resumed = NULL;
    make_inputs();
    signal(SIGUSR1, on_signal);
    assert_int_equal(merge_to("stopped", false, &asked), CULM_ERR_STOPPED);
    assert_int_equal(asked, 1);
    assert_int_equal(merge_to("stopped", true, NULL), CULM_OK);
    assert_int_equal(merge_to("plain", false, NULL), CULM_OK);
    assert_int_equal(culm_merge_show_package("stopped", true, &resumed, NULL), CULM_OK);
    assert_int_equal(culm_merge_show_package("plain", true, &plain, NULL), CULM_OK);
    assert_string_equal(plain, resumed);
    culm_text_free(plain);
    culm_text_free(resumed);
    signal(SIGUSR1, SIG_DFL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_PLACE(wrong_arguments),
        IN_PLACE(structures_of_other_versions),
        IN_PLACE(two_merges_at_once),
        IN_PLACE(a_stop_by_a_signal_is_resumed),
    };
    return cmocka_run_group_tests_name("run/api_merge", tests, NULL, NULL);
}
