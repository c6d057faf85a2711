/* Frames of a feed are counted, by a program of our own in ffmpeg's place: one that stalls, and one that never ends. */
#include "query/feeds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../folder.h"

#define FRAME "printf 'P6\\n2 1\\n255\\nabcdef'; "

static struct culm_feed *open_feed(const char *program, int stall_ms) {
    static char path[4096], real_path[2048];
    char text[1024];
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    if (!real_path[0]) {
        snprintf(real_path, sizeof real_path, "%s", getenv("PATH"));
    }
    snprintf(path, sizeof path, "%s/ffmpeg", folder);
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", program);
    assert_int_equal(culm_file_replace(NULL, path, text, strlen(text), &error), CULM_OK);
    assert_int_equal(chmod(path, 0755), 0);
    snprintf(path, sizeof path, "%s:%s", folder, real_path);
    setenv("PATH", path, 1);
    snprintf(path, sizeof path, "%s/clip.mp4", folder);
    assert_int_equal(culm_file_replace(NULL, path, "clip", 4, &error), CULM_OK);
    const struct culm_feed_options options = {.name = "hall", .file = path, .stall_ms = stall_ms};
    if (culm_feed_open(&options, &feed, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return feed;
}

static bool after(const void *ctx) {
    int *times = *(int *const *)ctx;
    return --*times < 0;
}

static void test_stalled(void **state) {
    (void)state;
    struct culm_error error;
    int64_t count = -1;
    int times = 100000; /* it gets on before it has been asked so often */
    int *ctx = &times;
    const struct culm_stop stop = {.asked = after, .ctx = &ctx};
    struct culm_feed *feed = open_feed(FRAME FRAME "sleep 1; " FRAME, 100);
    assert_int_equal(culm_feed_count_whole(feed, &stop, &count, &error), CULM_OK);
    assert_int_equal(count, 3);
    culm_feed_close(feed);
    feed = open_feed(FRAME "exec sleep 100", 100);
    assert_int_equal(culm_feed_count_whole(feed, NULL, &count, &error), CULM_ERR_TIMEOUT);
    culm_feed_close(feed);
}

static void test_stopped(void **state) {
    (void)state;
    struct culm_error error;
    int64_t count;
    int times = 5;
    int *ctx = &times;
    const struct culm_stop stop = {.asked = after, .ctx = &ctx};
    struct culm_feed *feed = open_feed("while " FRAME "do :; done", 60000);
    assert_int_equal(culm_feed_count_whole(feed, &stop, &count, &error), CULM_ERR_AGAIN);
    culm_feed_close(feed);
    times = 2;
    feed = open_feed(FRAME "exec sleep 100", 60000);
    assert_int_equal(culm_feed_count_whole(feed, &stop, &count, &error), CULM_ERR_AGAIN);
    culm_feed_close(feed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stalled),
                                       cmocka_unit_test(test_stopped)};
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
