/* Edges whose frames the test posts: a workload with a detector that is made here, and its answers. */
#ifndef CULM_TESTS_API_EDGE_H
#define CULM_TESTS_API_EDGE_H

#include <culm/edge.h>

#include "api_call.h"
#include "api_detector.h"
#include "api_place.h"

/* Two queries of one feed, which the program posts; deadlines that no machine misses. */
#define QUERY(name_, more_)                                                                        \
    "  - {name: " name_ ", model: two.cfg, names: colours, feed: hall, deadline_ms: 3600000" more_ \
    "}\n"
#define WORKLOAD                                                                                   \
    "feeds:\n  hall: {file: nowhere}\nqueries:\n" QUERY("one", "")                                 \
        QUERY("two", ", score: 0.5") "edge: {memory: all, batch: [1]}\n"

static const char *const posted[] = {"hall"};

static inline struct culm_edge_options usual(const char *dir) {
    return (struct culm_edge_options){
        .size = sizeof(struct culm_edge_options), .dir = dir, .posted = posted, .posted_count = 1};
}

static inline struct culm_config *workload_of(const char *text) {
    struct culm_config *workload = NULL;
    MUST(culm_config_read(text, strlen(text), "workload", &workload, &error));
    return workload;
}

static inline struct culm_edge *open_edge(const char *text,
                                          const struct culm_edge_options *options) {
    struct culm_config *workload = workload_of(text);
    struct culm_edge *edge = NULL;
    MUST(culm_edge_open(workload, options, &edge, &error));
    culm_config_free(workload);
    return edge;
}

static inline struct culm_edge *start_edge(const char *text,
                                           const struct culm_edge_options *options) {
    struct culm_edge *edge = open_edge(text, options);
    MUST(culm_edge_start(edge, &error));
    return edge;
}

static inline int64_t post(struct culm_edge *edge, int64_t number) {
    uint8_t pixels[SIDE * SIDE * 3];
    int64_t frame = -7;
    const struct culm_picture picture = {
        .size = sizeof picture, .pixels = pixels, .width = SIDE, .height = SIDE, .channels = 3};
    paint_square(pixels, number);
    MUST(culm_edge_post(edge, "hall", &picture, &frame, &error));
    memset(pixels, 0, sizeof pixels); /* they were copied */
    return frame;
}

/* The answer to a picture of a red square. */
static inline void check_square(const struct culm_prediction *p, int64_t number) {
    assert_non_null(p->box);
    assert_int_equal(p->count, 1);
    assert_string_equal(p->box[0].name, "red");
    assert_true(p->box[0].x > -1 + 4 * (double)(number % 2) &&
                p->box[0].x < 1 + 4 * (double)(number % 2));
    assert_true(p->box[0].y > -1 + 4 * (double)(number / 2 % 2) &&
                p->box[0].y < 1 + 4 * (double)(number / 2 % 2));
}

#endif
