/* What culm/edge.h refuses: pictures, workloads, options, and calls in an order that cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "api_edge.h"

static void pictures_that_cannot_be(void **state) {
    (void)state;
    static const uint8_t pixels[SIDE * SIDE * 3];
    const struct culm_picture good = {
        .size = sizeof good, .pixels = pixels, .width = SIDE, .height = SIDE, .channels = 3};
    struct culm_picture bad[8];
    for (size_t i = 0; i < 8; i++) {
        bad[i] = good;
    }
    bad[0].pixels = NULL;
    bad[1].width = 0;
    bad[2].height = -1;
    bad[3].width = INT64_MAX;
    bad[4].channels = 4;
    bad[5].stride = SIDE * 3 - 1;
    bad[6].stride = -SIDE * 3;
    bad[7].size = 3;
    make_detector();
    const struct culm_edge_options options = usual("run");
    struct culm_edge *edge =
        start_edge("feeds:\n  hall: {file: nowhere, crop: [4, 4, 5, 4]}\nqueries:\n" QUERY(
                       "one", "") "edge: {memory: all}\n",
                   &options);
    int64_t frame = -7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(CULM_ERR_ARGUMENT, culm_edge_post(edge, "hall", &bad[i], &frame, &error));
    }
    FAILS(CULM_ERR_ARGUMENT, culm_edge_post(edge, "yard", &good, &frame, &error));
    FAILS(CULM_ERR_CONFIG, culm_edge_post(edge, "hall", &good, &frame, &error)); /* the crop */
    assert_non_null(strstr(error.text, "8 x 8"));
    assert_int_equal(frame, -7);
    struct culm_picture wide = good; /* of the same pixels */
    wide.width = 9;
    wide.height = 8;
    wide.stride = 1 + SIDE * 3 - 1;
    FAILS(CULM_ERR_ARGUMENT, culm_edge_post(edge, "hall", &wide, &frame, &error));
    wide.height = SIDE;
    wide.channels = 1;
    MUST(culm_edge_post(edge, "hall", &wide, &frame, &error)); /* none of them counts */
    assert_int_equal(frame, 0);
    culm_edge_close(edge);
}

/* Workloads and options with which nothing can be opened or started leave nothing behind. */
static void nothing_that_is_wrong_is_opened(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "queries: [",
        "feeds: {}\nqueries: []\n",
        "feeds: {hall: {file: x}}\nqueries: [{name: one, model: none.cfg, feed: hall}]\n",
        "feeds: {yard: {file: x}}\nqueries: [{name: one, model: two.cfg, feed: yard}]\n",
        "feeds: {hall: {file: x}}\nqueries: [{name: one, model: two.cfg}]\n",
        "feeds: {hall: {file: .}}\nqueries: [{name: one, model: two.yaml, feed: hall, labels: "
        "folders}]\n",
    };
    static const char small[] =
        "model: {arch: resnet, blocks: [1], small_stem: true, width: 8, image: 16, classes: 4}\n"
        "data: {kind: images, path: none}\nsteps: 1\n";
    struct culm_edge_options options = usual("run"), other;
    struct culm_edge *edge = NULL;
    struct stat there;
    make_detector();
    put_file("two.yaml", small, sizeof small - 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct culm_config *workload = workload_of(wrong[i]);
        FAILS(CULM_ERR_CONFIG, culm_edge_open(workload, &options, &edge, &error));
        culm_config_free(workload);
    }
    assert_non_null(strstr(error.text, "posted"));
    struct culm_config *workload = workload_of(WORKLOAD);
    FAILS(CULM_ERR_ARGUMENT, culm_edge_open(NULL, &options, &edge, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_edge_open(workload, NULL, &edge, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_edge_open(workload, &options, NULL, &error));
    other = options;
    other.seconds = -1;
    FAILS(CULM_ERR_ARGUMENT, culm_edge_open(workload, &other, &edge, &error));
    other = options;
    other.answers = 1 << 30;
    FAILS(CULM_ERR_ARGUMENT, culm_edge_open(workload, &other, &edge, &error));
    other = options;
    other.posted = NULL;
    FAILS(CULM_ERR_ARGUMENT, culm_edge_open(workload, &other, &edge, &error));
    other = options;
    other.profile = "nowhere";
    FAILS(CULM_ERR_NOT_FOUND, culm_edge_open(workload, &other, &edge, &error));
    assert_null(edge);
    /* what shows only when it is started */
    MUST(culm_config_set(workload, "edge.memory", "0.001", &error));
    MUST(culm_edge_open(workload, &options, &edge, &error));
    FAILS(CULM_ERR_CONFIG, culm_edge_start(edge, &error));
    assert_true(stat("run", &there) != 0);
    FAILS(CULM_ERR_ARGUMENT, culm_edge_start(edge, &error));
    assert_non_null(strstr(error.text, "before"));
    FAILS(CULM_ERR_CONFIG, culm_edge_wait(edge, &error));
    struct culm_edge_answer answer = {.size = sizeof answer};
    char *status;
    FAILS(CULM_ERR_CLOSED, culm_edge_take_answer(edge, -1, &answer, &error));
    FAILS(CULM_ERR_CLOSED, culm_edge_report(edge, &status, &error));
    FAILS(CULM_ERR_CLOSED, culm_edge_end(edge, "hall", &error));
    culm_edge_close(edge);
    MUST(culm_config_set(workload, "edge.memory", "all", &error));
    other = options;
    other.package = "nowhere";
    MUST(culm_edge_open(workload, &other, &edge, &error));
    FAILS(CULM_ERR_NOT_FOUND, culm_edge_start(edge, &error));
    culm_edge_close(edge);
    culm_config_free(workload);
}

static void calls_in_another_order(void **state) {
    (void)state;
    static const uint8_t black[SIDE * SIDE * 3];
    const struct culm_picture picture = {
        .size = sizeof picture, .pixels = black, .width = SIDE, .height = SIDE, .channels = 3};
    make_detector();
    struct culm_edge_options options = usual("run");
    struct culm_edge *edge = open_edge(WORKLOAD, &options);
    struct culm_edge_answer answer = {.size = sizeof answer}, none = {0};
    char *status;
    FAILS(CULM_ERR_AGAIN, culm_edge_post(edge, "hall", &picture, NULL, &error));
    FAILS(CULM_ERR_AGAIN, culm_edge_end(edge, "hall", &error));
    FAILS(CULM_ERR_AGAIN, culm_edge_report(edge, &status, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_edge_take_answer(edge, 0, &answer, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_edge_wait(edge, &error));
    culm_edge_close(edge); /* which was never started */
    edge = start_edge(WORKLOAD, &options);
    FAILS(CULM_ERR_ARGUMENT, culm_edge_take_answer(edge, 0, &none, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_edge_take_answer(edge, 0, NULL, &error));
    MUST(culm_edge_end(edge, "hall", &error));
    FAILS(CULM_ERR_CLOSED, culm_edge_end(edge, "hall", &error));
    FAILS(CULM_ERR_CLOSED, culm_edge_post(edge, "hall", &picture, NULL, &error));
    culm_edge_close(edge);
    edge = start_edge(WORKLOAD, &options);
    culm_edge_stop(edge);
    culm_edge_stop(edge);
    MUST(culm_edge_wait(edge, &error));
    FAILS(CULM_ERR_CLOSED, culm_edge_post(edge, "hall", &picture, NULL, &error)); /* it has ended */
    culm_edge_stop(edge);
    culm_edge_reload(edge);
    culm_edge_close(edge);
    /* stopped before it is started */
    edge = open_edge(WORKLOAD, &options);
    culm_edge_stop(edge);
    MUST(culm_edge_start(edge, &error));
    MUST(culm_edge_wait(edge, &error));
    culm_edge_close(edge);
    options.answers = -1;
    edge = start_edge(WORKLOAD, &options);
    FAILS(CULM_ERR_ARGUMENT, culm_edge_take_answer(edge, 0, &answer, &error));
    culm_edge_close(edge);
    /* no object */
    FAILS(CULM_ERR_ARGUMENT, culm_edge_start(NULL, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_edge_wait(NULL, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_edge_post(NULL, "hall", &picture, NULL, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_edge_end(NULL, "hall", &error));
    FAILS(CULM_ERR_ARGUMENT, culm_edge_take_answer(NULL, 0, &answer, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_edge_report(NULL, &status, &error));
    culm_edge_stop(NULL);
    culm_edge_reload(NULL);
    culm_edge_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_PLACE(pictures_that_cannot_be),
        IN_PLACE(nothing_that_is_wrong_is_opened),
        IN_PLACE(calls_in_another_order),
    };
    return cmocka_run_group_tests_name("run/api_edge_refused", tests, NULL, NULL);
}
