/* culm/edge.h from a program of its own, with a detector that is made here: frames that are posted and
 * their answers, more of them than can be kept, their times, and a workload that changes. */
#include <culm/vision.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "api_edge.h"

static void frames_are_answered(void **state) {
    (void)state;
    make_detector();
    const struct culm_edge_options options = usual("run");
    struct culm_edge *edge = start_edge(WORKLOAD, &options);
    struct culm_edge_answer answer = {.size = sizeof answer};
    for (int64_t i = 0; i < 6; i++) {
        assert_int_equal(post(edge, i), i);
        bool had[2] = {false};
        for (int q = 0; q < 2; q++) {
            MUST(culm_edge_take_answer(edge, -1, &answer, &error));
            had[strcmp(answer.query, "one") != 0] = true;
            assert_string_equal(answer.feed, "hall");
            assert_int_equal(answer.frame, i);
            assert_int_equal(answer.of, i);
            assert_int_equal(answer.answered, CULM_EDGE_FRESH);
            assert_int_equal(answer.lost, 0);
            assert_int_equal(answer.due_ns, answer.taken_ns + 3600000000000ull);
            assert_string_equal(answer.prediction->file, "nowhere");
            assert_int_equal(answer.prediction->frame, i);
            check_square(answer.prediction, i);
        }
        assert_true(had[0] && had[1]);
    }
    FAILS(CULM_ERR_AGAIN, culm_edge_take_answer(edge, 0, &answer, &error));
    char *status;
    MUST(culm_edge_report(edge, &status, &error));
    assert_non_null(
        strstr(status, "{\"query\":\"one\",\"frames\":6,\"processed\":6,\"dropped\":0,"));
    culm_text_free(status);
    MUST(culm_edge_end(edge, "hall", &error));
    MUST(culm_edge_wait(edge, &error));
    MUST(culm_edge_wait(edge, &error)); /* as often as one likes */
    FAILS(CULM_ERR_CLOSED, culm_edge_take_answer(edge, -1, &answer, &error));
    MUST(culm_edge_report(edge, &status, &error)); /* as it was */
    assert_non_null(strstr(status, "\"frames\":6,\"processed\":6,\"dropped\":0,"));
    culm_text_free(status);
    culm_edge_close(edge);
}

/* The same bits as those of the model alone, at another size of a picture, in grey, and of a part. */
static void answers_are_those_of_the_model(void **state) {
    (void)state;
    static uint8_t pixels[90][128];
    const struct culm_vision_options how = {.size = sizeof how, .names = "colours"};
    struct culm_picture picture = {.size = sizeof picture,
                                   .pixels = pixels[0],
                                   .width = 40,
                                   .height = 90,
                                   .channels = 3,
                                   .stride = 128},
                        part = picture;
    struct culm_edge_answer answer = {.size = sizeof answer};
    struct culm_vision *vision = NULL;
    const struct culm_prediction *seen;
    make_detector();
    for (int i = 0; i < 90 * 128; i++) {
        pixels[i / 128][i % 128] = (uint8_t)(i * 37 % 251);
    }
    MUST(culm_vision_open("two.cfg", &how, &vision, &error));
    const struct culm_edge_options options = usual("run");
    for (int turn = 0; turn < 3; turn++) {
        const bool cropped = turn == 1;
        struct culm_edge *edge =
            start_edge(cropped ? "feeds:\n  hall: {file: nowhere, crop: [3, 5, 20, 30]}\n"
                                 "queries:\n" QUERY("one", "") "edge: {memory: all}\n"
                               : WORKLOAD,
                       &options);
        picture.channels = part.channels = turn == 2 ? 1 : 3;
        part.width = cropped ? 20 : 40;
        part.height = cropped ? 30 : 90;
        part.pixels = cropped ? &pixels[5][9] : pixels[0];
        MUST(culm_edge_post(edge, "hall", &picture, NULL, &error));
        MUST(culm_edge_take_answer(edge, -1, &answer, &error));
        MUST(culm_vision_predict(vision, &part, &seen, &error));
        assert_int_equal(answer.prediction->count, seen->count);
        for (int32_t i = 0; i < seen->count; i++) {
            struct culm_predicted_box box = answer.prediction->box[i];
            assert_string_equal(box.name, seen->box[i].name);
            box.name = seen->box[i].name;
            assert_true(box.class_index == seen->box[i].class_index &&
                        box.score == seen->box[i].score && box.x == seen->box[i].x &&
                        box.y == seen->box[i].y && box.width == seen->box[i].width &&
                        box.height == seen->box[i].height);
        }
        culm_edge_close(edge);
    }
    culm_vision_free(vision);
}

/* Beside a feed that the workload reads itself; the run ends when both have. */
static void posted_frames_beside_those_of_a_file(void **state) {
    (void)state;
    uint8_t images[20 + 3 * SIDE * SIDE * 3] = {0, 0,    8, 4, 0, 0,    0, 3, 0, 0,
                                                0, SIDE, 0, 0, 0, SIDE, 0, 0, 0, 3};
    struct culm_edge_answer answer = {.size = sizeof answer};
    int64_t count[2] = {0};
    make_detector();
    for (int i = 0; i < 3; i++) {
        paint_square(images + 20 + i * SIDE * SIDE * 3, i);
    }
    put_file("images", images, sizeof images);
    const struct culm_edge_options options = usual("run");
    struct culm_edge *edge = start_edge(
        "feeds:\n  hall: {file: nowhere}\n  yard: {file: images, fps: 100}\nqueries:\n" QUERY(
            "one", "") "  - {name: two, model: two.cfg, feed: yard, deadline_ms: 3600000}\n"
                       "edge: {memory: all}\n",
        &options);
    for (int64_t i = 0; i < 2; i++) {
        assert_int_equal(post(edge, i), i);
    }
    MUST(culm_edge_end(edge, "hall", &error));
    while (culm_edge_take_answer(edge, -1, &answer, &error) == CULM_OK) {
        const int q = strcmp(answer.query, "one") != 0;
        assert_string_equal(answer.feed, q ? "yard" : "hall");
        assert_string_equal(answer.prediction->file, q ? "images" : "nowhere");
        if (answer.answered == CULM_EDGE_FRESH) {
            assert_true((answer.prediction->box[0].x > 2) == (answer.frame % 2 == 1));
        }
        count[q]++;
    }
    assert_int_equal(error.status, CULM_ERR_CLOSED);
    assert_int_equal(count[0], 2);
    assert_int_equal(count[1], 3);
    MUST(culm_edge_wait(edge, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_edge_end(edge, "yard", &error)); /* it is not the program's */
    culm_edge_close(edge);
}

/* Every frame is answered, or an older answer stands in for it, in order; and counted. */
static void more_frames_than_can_be_kept(void **state) {
    (void)state;
    enum { FRAMES = 300 };
    make_detector();
    const struct culm_edge_options options = usual("run");
    struct culm_edge *edge = start_edge(WORKLOAD, &options);
    struct culm_edge_answer answer = {.size = sizeof answer};
    int64_t next[2] = {0}, count[4] = {0};
    bool seen[2][FRAMES] = {{false}};
    for (int64_t i = 0; i < FRAMES; i++) {
        assert_int_equal(post(edge, i), i);
    }
    MUST(culm_edge_end(edge, "hall", &error));
    MUST(culm_edge_wait(edge, &error));
    while (culm_edge_take_answer(edge, 0, &answer, &error) == CULM_OK) {
        const int q = strcmp(answer.query, "one") != 0;
        assert_true(answer.frame >= 0 && answer.frame < FRAMES && !seen[q][answer.frame]);
        seen[q][answer.frame] = true;
        next[q]++;
        count[answer.answered]++;
        assert_int_equal(answer.of >= 0, answer.answered != CULM_EDGE_NONE);
        assert_int_equal(answer.of == answer.frame, answer.answered == CULM_EDGE_FRESH);
        if (answer.of >= 0) {
            check_square(answer.prediction, answer.of);
        } else {
            assert_int_equal(answer.prediction->count, 0);
        }
    }
    assert_int_equal(error.status, CULM_ERR_CLOSED);
    assert_int_equal(next[0], FRAMES);
    assert_int_equal(next[1], FRAMES);
    assert_true(count[CULM_EDGE_FRESH] > 0);
    char *status, wanted[64];
    MUST(culm_edge_report(edge, &status, &error));
    snprintf(wanted, sizeof wanted, "{\"query\":\"one\",\"frames\":%d,", FRAMES);
    assert_non_null(strstr(status, wanted));
    culm_text_free(status);
    culm_edge_close(edge);
}

/* --- time --- */

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int64_t post_at(struct culm_edge *edge, uint64_t taken_ns) {
    static const uint8_t black[SIDE * SIDE * 3];
    int64_t frame = -7;
    const struct culm_picture picture = {.size = sizeof picture,
                                         .pixels = black,
                                         .width = SIDE,
                                         .height = SIDE,
                                         .channels = 3,
                                         .taken_ns = taken_ns};
    MUST(culm_edge_post(edge, "hall", &picture, &frame, &error));
    return frame;
}

/* When a frame was taken says by when it is to be answered, and whether it is wanted. */
static void frames_have_a_time(void **state) {
    (void)state;
    make_detector();
    const struct culm_edge_options options = usual("run");
    struct culm_edge *edge =
        start_edge("feeds:\n  hall: {file: nowhere, fps: 10}\nqueries:\n" QUERY(
                       "one", "") "edge: {memory: all, batch: [1]}\n",
                   &options);
    struct culm_edge_answer answer = {.size = sizeof answer};
    const uint64_t begin = now_ns() - 10000000000ull;
    const struct {
        uint64_t taken_ns, counts_ns;
        int64_t frame;
    } frame[] = {{begin, begin, 0},
                 {begin + 30000000, 0, -1}, /* after 30 ms, of ten a second */
                 {begin + 100000000, begin + 100000000, 2},
                 {begin + 50000000, 0, -1}, /* before the one before: at the same time */
                 {begin + 400000000, begin + 400000000, 4}};
    for (size_t i = 0; i < sizeof frame / sizeof *frame; i++) {
        assert_int_equal(post_at(edge, frame[i].taken_ns), frame[i].frame);
        if (frame[i].frame >= 0) {
            MUST(culm_edge_take_answer(edge, -1, &answer, &error));
            assert_int_equal(answer.frame, frame[i].frame);
            assert_int_equal(answer.taken_ns, frame[i].counts_ns);
        }
    }
    const uint64_t before = now_ns();
    assert_int_equal(post_at(edge, before + 3600000000000ull), 5); /* to come: now */
    MUST(culm_edge_take_answer(edge, -1, &answer, &error));
    assert_true(answer.taken_ns >= before && answer.taken_ns <= now_ns());
    culm_edge_close(edge);
    /* too old to be answered in time: dropped, with the answer before */
    edge = start_edge("feeds:\n  hall: {file: nowhere}\nqueries:\n  - {name: one, model: two.cfg, "
                      "feed: hall, deadline_ms: 1000}\nedge: {memory: all}\n",
                      &options);
    assert_int_equal(post_at(edge, begin), 0);
    MUST(culm_edge_take_answer(edge, -1, &answer, &error));
    assert_int_equal(answer.answered, CULM_EDGE_NONE);
    assert_int_equal(answer.of, -1);
    culm_edge_close(edge);
}

/* --- events and answers that wait --- */

struct heard {
    pthread_mutex_t lock;
    pthread_cond_t more;
    int frames, done;
    struct culm_edge *stops; /* to be stopped by the event of a frame */
};

static void hear(void *context, const char *json) {
    struct heard *heard = context;
    pthread_mutex_lock(&heard->lock);
    heard->frames += strncmp(json, "{\"event\":\"frame\"", 16) == 0;
    heard->done += strncmp(json, "{\"event\":\"done\"", 15) == 0;
    if (heard->frames && heard->stops) {
        culm_edge_stop(heard->stops);
    }
    pthread_cond_signal(&heard->more);
    pthread_mutex_unlock(&heard->lock);
}

static void wait_for_frames(struct heard *heard, int frames) {
    pthread_mutex_lock(&heard->lock);
    while (heard->frames < frames) {
        pthread_cond_wait(&heard->more, &heard->lock);
    }
    pthread_mutex_unlock(&heard->lock);
}

/* Whoever takes answers too slowly loses the oldest, and is told how many. */
static void answers_that_nobody_takes(void **state) {
    (void)state;
    struct heard heard = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};
    struct culm_edge_options options = usual("run");
    options.answers = 3;
    options.event = hear;
    options.context = &heard;
    make_detector();
    struct culm_edge *edge = start_edge(WORKLOAD, &options);
    struct culm_edge_answer answer = {.size = sizeof answer};
    for (int i = 0; i < 5; i++) { /* each is two answers */
        assert_int_equal(post(edge, i), i);
        wait_for_frames(&heard, 2 * (i + 1));
    }
    for (int i = 0; i < 3; i++) {
        MUST(culm_edge_take_answer(edge, 0, &answer, &error));
        assert_int_equal(answer.frame, i ? 4 : 3);
        assert_int_equal(answer.lost, i ? 0 : 7);
    }
    FAILS(CULM_ERR_AGAIN, culm_edge_take_answer(edge, 1, &answer, &error));
    check_square(answer.prediction, 4); /* still there */
    heard.stops = edge;
    assert_int_equal(post(edge, 5), 5);
    MUST(culm_edge_wait(edge, &error));
    assert_int_equal(heard.done, 1);
    culm_edge_close(edge);
}

/* Holds the run at the event of a frame until `done` is set. */
static void hold(void *context, const char *json) {
    struct heard *heard = context;
    pthread_mutex_lock(&heard->lock);
    heard->frames += strncmp(json, "{\"event\":\"frame\"", 16) == 0;
    pthread_cond_broadcast(&heard->more);
    while (heard->frames && !heard->done) {
        pthread_cond_wait(&heard->more, &heard->lock);
    }
    pthread_mutex_unlock(&heard->lock);
}

/* A program that posts without a pause while the run cannot even count is told, and fills no memory. */
static void frames_that_nobody_counts(void **state) {
    (void)state;
    static const uint8_t black[SIDE * SIDE * 3];
    const struct culm_picture picture = {
        .size = sizeof picture, .pixels = black, .width = SIDE, .height = SIDE, .channels = 3};
    struct heard heard = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};
    struct culm_edge_options options = usual("run");
    options.event = hold;
    options.context = &heard;
    make_detector();
    struct culm_edge *edge = start_edge(WORKLOAD, &options);
    struct culm_edge_answer answer = {.size = sizeof answer};
    enum culm_status status;
    int64_t frames = 1, frame;
    assert_int_equal(post(edge, 0), 0);
    wait_for_frames(&heard, 1);
    while ((status = culm_edge_post(edge, "hall", &picture, &frame, &error)) == CULM_OK) {
        assert_int_equal(frame, frames++);
        assert_true(frames < 3000);
    }
    assert_int_equal(status, CULM_ERR_AGAIN);
    assert_true(frames > 1000);
    pthread_mutex_lock(&heard.lock);
    heard.done = 1;
    pthread_cond_broadcast(&heard.more);
    pthread_mutex_unlock(&heard.lock);
    do { /* once it counts again, they count */
        MUST(culm_edge_take_answer(edge, -1, &answer, &error));
    } while (answer.frame < frames - 1);
    assert_int_equal(post(edge, frames), frames);
    culm_edge_close(edge);
}

/* --- changes --- */

/* Posts frames until the query answers one: those that come while it changes may have no answer. */
static int64_t wait_for_query(struct culm_edge *edge, const char *query) {
    struct culm_edge_answer answer = {.size = sizeof answer};
    for (;;) {
        static const uint8_t black[SIDE * SIDE * 3];
        const struct culm_picture picture = {
            .size = sizeof picture, .pixels = black, .width = SIDE, .height = SIDE, .channels = 3};
        int64_t frame;
        MUST(culm_edge_post(edge, "hall", &picture, &frame, &error));
        enum culm_status status;
        while ((status = culm_edge_take_answer(edge, 20, &answer, &error)) == CULM_OK) {
            if (strcmp(answer.query, query) == 0) {
                return answer.frame;
            }
        }
        assert_int_equal(status, CULM_ERR_AGAIN);
    }
}

/* A workload that is read again: queries come, and frames of a feed that is another now go on. */
static void a_workload_that_changes(void **state) {
    (void)state;
    struct culm_config *workload = NULL;
    struct culm_edge *edge = NULL;
    struct culm_edge_options options = usual("run");
    make_detector();
#define TEXT_OF(feed_, queries_)                                                                   \
    "feeds:\n  " feed_ "\nqueries:\n" queries_ "edge: {memory: all, batch: [1]}\n"
    static const char first[] = TEXT_OF("hall: {file: nowhere}", QUERY("one", "")),
                      more[] = TEXT_OF("hall: {file: nowhere}", QUERY("one", "") QUERY("two", "")),
                      other[] = TEXT_OF("hall: {file: nowhere, crop: [0, 0, 4, 4]}",
                                        QUERY("one", "") QUERY("three", ""));
    put_file("w.yaml", first, sizeof first - 1);
    MUST(culm_config_open("w.yaml", &workload, &error));
    MUST(culm_edge_open(workload, &options, &edge, &error));
    culm_config_free(workload);
    MUST(culm_edge_start(edge, &error));
    (void)wait_for_query(edge, "one");
    put_file("w.yaml", more, sizeof more - 1);
    culm_edge_reload(edge);
    const int64_t then = wait_for_query(edge, "two");
    assert_true(then > 0);
    put_file("w.yaml", other, sizeof other - 1);
    culm_edge_reload(edge);
    assert_true(wait_for_query(edge, "three") > then); /* numbers go on */
    culm_edge_close(edge);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_PLACE(frames_are_answered),
        IN_PLACE(posted_frames_beside_those_of_a_file),
        IN_PLACE(answers_are_those_of_the_model),
        IN_PLACE(more_frames_than_can_be_kept),
        IN_PLACE(frames_have_a_time),
        IN_PLACE(answers_that_nobody_takes),
        IN_PLACE(frames_that_nobody_counts),
        IN_PLACE(a_workload_that_changes),
    };
    return cmocka_run_group_tests_name("run/api_edge", tests, NULL, NULL);
}
