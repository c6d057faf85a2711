/*
 * Last words over a stream whose other side reads slowly, stops, or stays: on a clock of its own.
 */
#include "net/conn.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define ROOM ((size_t)50 << 10) /* what it reads at a time */
#define WORDS ((size_t)4 << 20)

struct played {
    struct culm_stream stream;
    uint64_t now_ns, each_ns;  /* between two reads */
    size_t room, taken, stops; /* reads no more than `stops` */
    bool stays;                /* never closes */
    int shut;
};

static struct played *self(struct culm_stream *stream) { return (struct played *)stream; }

static ssize_t play_read(struct culm_stream *stream, const struct iovec *to, int count) {
    (void)to, (void)count;
    return self(stream)->stays ? -EAGAIN : 0;
}

static ssize_t play_write(struct culm_stream *stream, const struct iovec *from, int count) {
    struct played *played = self(stream);
    size_t took = 0;
    for (int i = 0; i < count; i++) {
        took += from[i].iov_len;
    }
    took = took < played->room ? took : played->room;
    played->room -= took;
    played->taken += took;
    return took > 0 ? (ssize_t)took : -EAGAIN;
}

static int play_connected(struct culm_stream *stream) {
    (void)stream;
    return 0;
}

static void play_shutdown(struct culm_stream *stream, bool both) { self(stream)->shut += !both; }

static void play_watch(struct culm_stream *stream, int events) { (void)stream, (void)events; }

static bool play_wait(struct culm_stream *stream, int events, uint64_t deadline_ns) {
    struct played *played = self(stream);
    bool comes = events == CULM_STREAM_READ ? !played->stays : played->taken < played->stops;
    uint64_t next_ns = played->now_ns + played->each_ns;
    comes = comes && next_ns <= deadline_ns;
    played->now_ns = comes ? next_ns : deadline_ns;
    played->room = comes ? ROOM : 0;
    return comes;
}

static uint64_t play_now(struct culm_stream *stream) { return self(stream)->now_ns; }

static void play_close(struct culm_stream *stream, void (*gone)(void *ctx), void *ctx) {
    (void)stream;
    gone(ctx);
}

static const struct culm_stream_ops stream_ops = {
    .size = sizeof stream_ops,
    .read = play_read,
    .write = play_write,
    .connected = play_connected,
    .shutdown = play_shutdown,
    .watch = play_watch,
    .wait = play_wait,
    .now_ns = play_now,
    .close = play_close,
};

static void no_message(void *ctx, struct culm_conn *conn, const struct culm_message *message) {
    (void)ctx, (void)conn, (void)message;
    fail();
}

static void no_end(void *ctx, struct culm_conn *conn, const struct culm_error *why) {
    (void)ctx, (void)conn, (void)why;
    fail();
}

/* Ten seconds in all, one without a byte. */
static void last_words(struct played *played) {
    static const struct culm_conn_ops ops = {no_message, no_end};
    struct culm_blob_pool *pool = culm_blob_pool_new(0);
    struct culm_blob *blob;
    struct culm_conn *conn;
    played->stream.ops = &stream_ops;
    assert_non_null(pool);
    assert_int_equal(culm_blob_pool_get(pool, WORDS, &blob), CULM_OK);
    const struct culm_conn_options options = {
        .pool = pool, .meta_max = 64, .payload_max = WORDS, .ops = &ops};
    assert_int_equal(culm_conn_over(&options, &played->stream, false, &conn, NULL), CULM_OK);
    const struct culm_message message = {.payload = blob, .payload_bytes = WORDS};
    culm_conn_send(conn, &message);
    culm_blob_unref(blob);
    culm_conn_linger(conn, SECOND, 10 * SECOND);
    culm_conn_close(conn);
    culm_blob_pool_free(pool);
}

static void one_that_reads_slowly_hears_all(void **state) {
    (void)state;
    struct played played = {.each_ns = SECOND / 10, .stops = SIZE_MAX};
    last_words(&played);
    assert_true(played.taken > WORDS);
    assert_true(played.now_ns > 8 * SECOND && played.now_ns < 10 * SECOND);
    assert_int_equal(played.shut, 1);
}

static void one_that_reads_too_slowly_does_not(void **state) {
    (void)state;
    struct played played = {.each_ns = SECOND / 2, .stops = SIZE_MAX};
    last_words(&played);
    assert_in_range(played.taken, 1, WORDS);
    assert_int_equal(played.now_ns, 10 * SECOND);
    assert_int_equal(played.shut, 0);
}

static void one_that_stops_is_waited_for_a_second(void **state) {
    (void)state;
    struct played played = {.each_ns = SECOND / 10, .stops = 10 * ROOM};
    last_words(&played);
    assert_int_equal(played.taken, 10 * ROOM);
    assert_in_range(played.now_ns, 2 * SECOND - SECOND / 10, 2 * SECOND);
}

static void and_so_is_one_that_stays(void **state) {
    (void)state;
    struct played played = {.each_ns = SECOND / 1000, .stops = SIZE_MAX, .stays = true};
    last_words(&played);
    assert_true(played.taken > WORDS);
    assert_int_equal(played.shut, 1);
    assert_in_range(played.now_ns, SECOND, 2 * SECOND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_reads_slowly_hears_all),
        cmocka_unit_test(one_that_reads_too_slowly_does_not),
        cmocka_unit_test(one_that_stops_is_waited_for_a_second),
        cmocka_unit_test(and_so_is_one_that_stays),
    };
    return cmocka_run_group_tests_name("net/linger", tests, NULL, NULL);
}
