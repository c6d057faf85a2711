/* The keys of a workload, and what is said of each thing that is wrong. */
#include "query/workload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FEED "feeds:\n  hall: {file: hall.mp4}\n"
#define ONE "  - {name: people, model: body.cfg, feed: hall}\n"

static enum culm_status parse(const char *text, struct culm_workload *workload,
                              struct culm_error *error) {
    return culm_workload_parse(text, strlen(text), "w.yaml", NULL, 0, workload, error);
}

static void good(const char *text, struct culm_workload *workload) {
    struct culm_error error = {0};
    if (parse(text, workload, &error)) {
        fail_msg("%s", error.text);
    }
}

static void bad(const char *text, const char *want) {
    struct culm_workload workload;
    struct culm_error error = {0};
    assert_int_equal(parse(text, &workload, &error), CULM_ERR_CONFIG);
    assert_string_equal(error.text, want);
}

static void bad_query(const char *keys, const char *want) {
    char text[512];
    snprintf(text, sizeof text, FEED "queries:\n  - {name: people, model: body.cfg, %s}\n", keys);
    bad(text, want);
}

static void bad_edge(const char *keys, const char *want) {
    char text[512];
    snprintf(text, sizeof text, FEED "queries:\n" ONE "edge: {%s}\n", keys);
    bad(text, want);
}

/* As users are shown it. */
static const char whole[] =
    "feeds:\n"
    "  hall: {file: hall.mp4, fps: 10, loop: true, crop: []}\n"
    "  face: {file: face.gif, crop: [0, 66, 84, 85]}\n"
    "queries:\n"
    "  - {name: people, model: body.cfg, feed: hall, target: 0.95, deadline_ms: 200, score: 0.25, "
    "labels: \"\"}\n"
    "  - {name: smile, model: face.onnx, feed: face, normalize: [0.48, 0.459, 0.409, 1, 1, 1]}\n"
    "  - {name: digits, model: c.yaml, weights: w.safetensors, names: n, normalize: imagenet}\n"
    "merge: {method: gemel-fixed, steps: 2000, minutes: 0, held_out: 0.3, seed: 1}\n"
    "edge: {memory: 50%, load_mb_per_s: 0, batch: [1, 2, 4], threads: 1, order: auto, drift: "
    "{every_s: 10, frames: 16}}\n";

static void test_whole(void **state) {
    (void)state;
    struct culm_workload w;
    good(whole, &w);
    assert_int_equal(w.feed_count, 2);
    assert_string_equal(w.feeds[0].name, "hall");
    assert_true(w.feeds[0].fps == 10 && w.feeds[0].loop && w.feeds[0].crop[2] == 0);
    assert_int_equal(w.feeds[1].crop[0], 0);
    assert_int_equal(w.feeds[1].crop[3], 85);
    assert_int_equal(w.query_count, 3);
    assert_int_equal(w.queries[0].feed_index, 0);
    assert_int_equal(w.queries[1].feed_index, 1);
    assert_int_equal(w.queries[2].feed_index, -1);
    assert_true(w.queries[0].target == 0.95 && w.queries[0].score == 0.25);
    assert_null(w.queries[0].labels);
    assert_false(w.queries[0].normalized);
    assert_true(w.queries[1].normalized && w.queries[1].mean[1] == 0.459f &&
                w.queries[1].deviation[2] == 1);
    assert_true(w.queries[2].mean[0] == 0.485f && w.queries[2].deviation[2] == 0.225f);
    assert_int_equal(w.merge.method, CULM_MERGE_GEMEL_FIXED);
    assert_true(w.edge.memory_share == 0.5 && w.edge.memory_bytes == 0);
    assert_int_equal(w.edge.batch[2], 4);
    assert_int_equal(w.edge.batch[3], 0);
    assert_int_equal(w.edge.drift.frames, 16);
    assert_int_equal(culm_workload_find(&w, "smile"), 1);
    assert_int_equal(culm_workload_find(&w, "frown"), -1);
    struct culm_error error = {0};
    assert_int_equal(culm_workload_need_feeds(&w, "w.yaml", &error), CULM_ERR_CONFIG);
    assert_string_equal(error.text,
                        "w.yaml: queries[2].feed: query 'digits' has no feed; name one of "
                        "'feeds'");
    culm_workload_release(&w);
}

static void test_defaults(void **state) {
    (void)state;
    struct culm_workload w;
    good(FEED "queries:\n" ONE, &w);
    assert_int_equal(w.merge.method, CULM_MERGE_CULM);
    assert_int_equal(w.merge.steps, 2000);
    assert_true(w.merge.accuracy == CULM_ACCURACY_LEAST && w.merge.iou == 0.5);
    assert_true(w.merge.held_out == 0.3 && w.merge.seed == 1);
    assert_true(w.queries[0].target == 0.95 && w.queries[0].deadline_ms == 200);
    assert_true(w.edge.memory_share == 0.5 && w.edge.batch[1] == 2);
    culm_workload_release(&w);
}

static void test_a_dump_reads_back(void **state) {
    (void)state;
    struct culm_workload w, again;
    good(whole, &w);
    char *text = culm_config_dump_text(&culm_workload_table, &w);
    assert_non_null(text);
    good(text, &again);
    struct culm_config_difference d;
    if (culm_config_differ(&culm_workload_table, &w, &again, 0, &d)) {
        fail_msg("%s: %s, then %s", d.key, d.a, d.b);
    }
    assert_int_equal(again.feeds[1].crop[1], 66);
    free(text);
    culm_workload_release(&w);
    culm_workload_release(&again);
}

static void test_sets(void **state) {
    (void)state;
    struct culm_workload w;
    struct culm_error error = {0};
    const char *sets[] = {"edge.memory=1.5", "queries[0].target=0.5", "feeds.hall.fps=3",
                          "merge.method=max"};
    assert_int_equal(culm_workload_parse(whole, strlen(whole), "w", sets, 4, &w, &error), CULM_OK);
    assert_int_equal(w.edge.memory_bytes, 3 << 19);
    assert_true(w.queries[0].target == 0.5 && w.feeds[0].fps == 3);
    assert_int_equal(w.merge.method, CULM_MERGE_MAX);
    culm_workload_release(&w);
    const char *wrong[] = {"queries[1].feed=cellar"};
    assert_int_equal(culm_workload_parse(whole, strlen(whole), "w", wrong, 1, &w, &error),
                     CULM_ERR_CONFIG);
    assert_string_equal(error.text,
                        "--set: queries[1].feed: 'feeds' has no 'cellar'; name one of those "
                        "that it has");
}

static void test_what_is_wrong(void **state) {
    (void)state;
    bad("feeds: {}\n", "w.yaml:1: queries: is missing; required: a list of sections");
    bad(FEED "queries:\n" ONE ONE,
        "w.yaml:5: queries[1].name: another query is called 'people' too; "
        "give each its own name");
    bad_query("feed: hal",
              "w.yaml:4: queries[0].feed: 'feeds' has no 'hal'; name one of those that "
              "it has");
    bad_query("target: 0",
              "w.yaml:4: queries[0].target: 0 is out of range; allowed: above 0 and at "
              "most 1");
    bad_query("decode: yolo",
              "w.yaml:4: queries[0].decode: 'yolo' is not known; allowed: auto, darknet, yolov5, "
              "yolov8, ssd, detr, boxes, classes, points");
    bad_query("size: 640x",
              "w.yaml:4: queries[0].size: '640x' is not a size; allowed: WIDTHxHEIGHT, "
              "or one number for both, each 1 to 16384");
    bad_query("normalize: [1, 2]",
              "w.yaml:4: queries[0].normalize: not a normalization; allowed: "
              "none, imagenet, bytes, or six numbers: three means, three deviations "
              "above 0");
    bad_query("normalize: [0, 0, 0, 1, 0, 1]",
              "w.yaml:4: queries[0].normalize: not a normalization; allowed: none, imagenet, "
              "bytes, or six "
              "numbers: three means, three deviations above 0");
    bad("queries:\n  - {name: a/b, model: x}\n", "w.yaml:2: queries[0].name: 'a/b' is not a name; "
                                                 "allowed: up to 64 letters, digits, '_' and "
                                                 "'-'");
    bad("feeds:\n  h: {file: f, from: 9, to: 8.5}\nqueries:\n  - {name: a, model: x}\n",
        "w.yaml:2: feeds.h.to: 8.5 is not after feeds.X.from, 9; allowed: 0 (until the end), or "
        "more "
        "seconds than that");
    bad("feeds:\n  h: {file: f, options: [-threads, 2, -report]}\nqueries:\n  - {name: a, model: "
        "x}\n",
        "w.yaml:2: feeds.h.options: '-report' is not allowed: it writes a file");
    bad("feeds:\n  h: {file: f, options: [-threads, 2, out.mkv]}\nqueries:\n  - {name: a, model: "
        "x}\n",
        "w.yaml:2: feeds.h.options: 'out.mkv' is no option; write options of ffmpeg and their "
        "values, "
        "such as [-rtsp_transport, tcp]");
    bad("feeds:\n  h: {file: f, options: [-copyts, out.mkv]}\nqueries:\n  - {name: a, model: x}\n",
        "w.yaml:2: feeds.h.options: '-copyts' is not allowed: it is about what is written");
    bad("feeds:\n  h: {file: f, options: ['-map:v', '0']}\nqueries:\n  - {name: a, model: x}\n",
        "w.yaml:2: feeds.h.options: '-map:v' is not allowed: it changes what comes out");
    bad("feeds:\n  h: {file: f, options: [-threads]}\nqueries:\n  - {name: a, model: x}\n",
        "w.yaml:2: feeds.h.options: '-threads' has no value; write options of ffmpeg and their "
        "values, "
        "such as [-rtsp_transport, tcp]");
    bad("feeds:\n  h: {file: f, options: [-noaccurate_see, f]}\nqueries:\n  - {name: a, model: "
        "x}\n",
        "w.yaml:2: feeds.h.options: '-noaccurate_see' has no value; write options of ffmpeg and "
        "their "
        "values, such as [-rtsp_transport, tcp]");
    bad("feeds:\n  h: {file: f, every: 0}\nqueries:\n  - {name: a, model: x}\n",
        "w.yaml:2: feeds.h.every: 0 is out of range; allowed: 1 to 1000000");
    bad("feeds:\n  h: {file: f, crop: [4, 4]}\nqueries:\n  - {name: a, model: x}\n",
        "w.yaml:2: feeds.h.crop: width and height are at least 1; write [x, y, width, height]");
    bad_edge("memory: 120%",
             "w.yaml:5: edge.memory: '120%' is not a limit; allowed: min, all, a share "
             "of the way between (50%), or megabytes");
    bad_edge("memory: 0",
             "w.yaml:5: edge.memory: '0' is not a limit; allowed: min, all, a share of "
             "the way between (50%), or megabytes");
    bad_edge("batch: [2, 2]", "w.yaml:5: edge.batch: 2 after 2; allowed: rising numbers");
    bad_edge("bath: [2]", "w.yaml:5: edge.bath: unknown key; did you mean 'edge.batch'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_a_dump_reads_back),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
