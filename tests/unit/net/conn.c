/*
 * Connections over real sockets of both kinds, and over TLS: order and bytes from 1 B to 64 MB, ends, garbage, a
 * queue finished by hand, a frame cut in half, one that does not read and one that never stops, and
 * how many messages a second pass.
 */
#include "net/conn.h"

#include "net/socket.h"
#include "net/tls.h"

#include <errno.h>
#include <linux/sockios.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "hold_port.h"

#define SECOND 1000000000ull
#define PATIENCE (600 * SECOND) /* only a fault meets it */
#define UNIX "unix:"
#define TCP "tcp:127.0.0.1:0"
#define MB ((size_t)1 << 20)

static const char *transport = UNIX;
static bool secure; /* with TLS over it */

struct side {
    struct culm_conn *conn;
    size_t messages, bad, expected;
    enum culm_status closed;
    char why[CULM_ERROR_MAX];
    size_t (*size_of)(size_t index);
    int echo_fd; /* 0: none; gets a frame for each that comes, until `echoes` are sent */
    size_t echoes;
};

struct fixture {
    uv_loop_t loop;
    struct culm_blob_pool *pool;
    struct side a, b;
    size_t turn_bytes;
    int fd[2];
    struct culm_tls *tls[2]; /* secure; each until it is in a connection */
};

static void fill(uint8_t *data, size_t len, size_t seed) {
    uint32_t x = (uint32_t)seed * 2654435761u + 1;
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (uint8_t)(x >> 24);
    }
}

static bool is_filled(const uint8_t *data, size_t len, size_t seed) {
    uint32_t x = (uint32_t)seed * 2654435761u + 1;
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525u + 1013904223u;
        if (data[i] != (uint8_t)(x >> 24)) {
            return false;
        }
    }
    return true;
}

#define ECHO_BYTES ((size_t)30000)

/* Another numbered frame, past any connection object. */
static void echo(int fd, uint64_t index) {
    static uint8_t frame[CULM_FRAME_HEADER_BYTES + 8 + ECHO_BYTES];
    struct culm_blob blob = {.data = frame + CULM_FRAME_HEADER_BYTES + 8, .size_bytes = ECHO_BYTES};
    const struct culm_message message = {.type = (uint16_t)(index & 0xfff),
                                         .meta_bytes = 8,
                                         .meta = (const uint8_t *)&index,
                                         .payload = &blob,
                                         .payload_bytes = ECHO_BYTES};
    memcpy(frame + CULM_FRAME_HEADER_BYTES, &index, 8);
    fill(frame + CULM_FRAME_HEADER_BYTES + 8, ECHO_BYTES, index);
    culm_frame_header_encode(&message, frame);
    assert_int_equal(send(fd, frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
}

static void on_message(void *ctx, struct culm_conn *conn, const struct culm_message *message) {
    struct side *side = ctx;
    (void)conn;
    uint64_t index = side->messages++;
    size_t size = side->size_of ? side->size_of(index) : message->payload_bytes;
    bool right = message->type == (uint16_t)(index & 0xfff) && message->meta_bytes == 8 &&
                 !memcmp(message->meta, &index, 8) && message->payload_bytes == size &&
                 (!size || is_filled(message->payload->data, size, index));
    side->bad += !right;
    if (side->echo_fd && side->echoes) {
        side->echoes--;
        echo(side->echo_fd, index + 1);
    }
}

static void on_closed(void *ctx, struct culm_conn *conn, const struct culm_error *why) {
    struct side *side = ctx;
    side->closed = why->status;
    snprintf(side->why, sizeof side->why, "%s", why->text);
    culm_conn_close(conn);
    side->conn = NULL;
}

static const struct culm_conn_ops ops = {on_message, on_closed};

static void open_pair(struct fixture *f) {
    int listen_fd;
    char address[CULM_ADDRESS_SIZE];
    struct culm_error error;
    assert_int_equal(culm_socket_listen(transport, &listen_fd, address, &error), CULM_OK);
    assert_int_equal(culm_socket_connect(address, &f->fd[0], &error), CULM_OK);
    assert_true(culm_socket_wait(listen_fd, 1 /* POLLIN */, culm_clock_ns() + PATIENCE));
    assert_int_equal(culm_socket_accept(listen_fd, &f->fd[1], &error), CULM_OK);
    close(listen_fd);
}

static struct culm_conn *conn_of(struct fixture *f, struct side *side, int fd, bool connecting) {
    struct culm_conn_options options = {
        .loop = &f->loop,
        .pool = f->pool,
        .meta_max = 64,
        .payload_max = 65 * MB,
        .turn_bytes = f->turn_bytes,
        .ops = &ops,
        .ctx = side,
    };
    struct culm_conn *conn = NULL;
    if (secure) {
        struct culm_tls **tls = &f->tls[fd == f->fd[1]];
        struct culm_stream *stream = NULL;
        assert_int_equal(culm_stream_socket_new(&f->loop, fd, *tls, &stream, NULL), CULM_OK);
        assert_int_equal(culm_conn_over(&options, stream, connecting, &conn, NULL), CULM_OK);
        *tls = NULL;
    } else {
        assert_int_equal(culm_conn_new(&options, fd, connecting, &conn, NULL), CULM_OK);
    }
    return conn;
}

/* Both sides know each other, so that one of them can be waited for alone. */
static void shake_hands(struct fixture *f) {
    uint8_t byte;
    const struct iovec to = {&byte, 1};
    assert_true(culm_socket_wait(f->fd[0], 4 /* POLLOUT */, culm_clock_ns() + PATIENCE));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(culm_tls_new(f->fd[i], "token", i == 0, &f->tls[i], NULL), CULM_OK);
    }
    for (int turn = 0; turn < 4; turn++) {
        assert_int_equal(culm_tls_read(f->tls[turn % 2], &to, 1), -EAGAIN);
        if (turn < 3) {
            assert_true(
                culm_socket_wait(f->fd[!(turn % 2)], 1 /* POLLIN */, culm_clock_ns() + PATIENCE));
        }
    }
}

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    uv_loop_init(&f->loop);
    f->pool = culm_blob_pool_new(0);
    open_pair(f);
    if (secure) {
        shake_hands(f);
    }
    f->a.conn = conn_of(f, &f->a, f->fd[0], true);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    culm_conn_close(f->a.conn);
    culm_conn_close(f->b.conn);
    culm_tls_free(f->tls[1]);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    culm_blob_pool_free(f->pool);
    free(f);
    return 0;
}

static void send_so(struct fixture *f, uint64_t index, size_t size, bool yields) {
    struct culm_blob *blob = NULL;
    if (size) {
        assert_int_equal(culm_blob_pool_get(f->pool, size + 5, &blob), CULM_OK);
        fill((uint8_t *)blob->data + 5, size, index);
    }
    const struct culm_message message = {.type = (uint16_t)(index & 0xfff),
                                         .meta = (const uint8_t *)&index,
                                         .meta_bytes = 8,
                                         .payload = blob,
                                         .payload_offset = 5,
                                         .payload_bytes = size,
                                         .yields = yields};
    culm_conn_send(f->a.conn, &message);
    culm_blob_unref(blob);
}

static void send_numbered(struct fixture *f, uint64_t index, size_t size) {
    send_so(f, index, size, false);
}

/* Runs the loop until b has `count` messages or is closed. */
static void run_until(struct fixture *f, size_t count) {
    uint64_t deadline = culm_clock_ns() + PATIENCE;
    while (f->b.messages < count && !f->b.closed && culm_clock_ns() < deadline) {
        /* What TLS holds comes by a timer, after which a loop that runs once would wait. */
        uv_run(&f->loop, secure ? UV_RUN_NOWAIT : UV_RUN_ONCE);
    }
}

static size_t growing(size_t index) { return index < 27 ? (size_t)1 << index : index % 3; }

static void bytes_and_order_survive(void **state) {
    struct fixture *f = *state;
    f->b.size_of = growing;
    f->b.conn = conn_of(f, &f->b, f->fd[1], false);
    for (size_t i = 0; i < 40; i++) {
        send_numbered(f, i, growing(i)); /* up to 64 MB */
    }
    run_until(f, 40);
    assert_int_equal(f->b.messages, 40);
    assert_int_equal(f->b.bad, 0);
    assert_int_equal(culm_conn_queued(f->a.conn), 0);
}

/* What is left of a record when a turn is over is read in the next, although the socket has no more. */
static void bytes_and_order_survive_short_turns(void **state) {
    struct fixture *f = *state;
    f->turn_bytes = 1000;
    f->b.conn = conn_of(f, &f->b, f->fd[1], false);
    for (size_t i = 0; i < 40; i++) {
        send_numbered(f, i, 700);
    }
    run_until(f, 40);
    assert_int_equal(f->b.messages, 40);
    assert_int_equal(f->b.bad, 0);
}

/* Numbered as they arrive: what yields comes last, in the order in which it was sent, but for what may have been begun. */
static void frames_that_yield_are_overtaken(void **state) {
    struct fixture *f = *state;
    f->b.conn = conn_of(f, &f->b, f->fd[1], false);
    culm_conn_cork(f->a.conn, true);
    send_so(f, 0, 3000, true);
    send_numbered(f, 1, 5000);
    send_numbered(f, 2, 200000);
    send_so(f, 6, 70000, true);
    send_so(f, 7, 1000, true);
    for (uint64_t i = 3; i < 6; i++) {
        send_numbered(f, i, 1000 * (size_t)i);
    }
    send_so(f, 8, 10, true);
    culm_conn_cork(f->a.conn, false);
    run_until(f, 9);
    assert_int_equal(f->b.messages, 9);
    assert_int_equal(f->b.bad, 0);
}

static void the_end_of_the_other_side_is_told_after_its_frames(void **state) {
    struct fixture *f = *state;
    send_numbered(f, 0, 1000);
    assert_true(culm_conn_flush(f->a.conn, 0, culm_clock_ns() + PATIENCE));
    culm_conn_close(f->a.conn);
    f->a.conn = NULL;
    f->b.conn = conn_of(f, &f->b, f->fd[1], false);
    run_until(f, 2);
    assert_int_equal(f->b.messages, 1);
    assert_int_equal(f->b.bad, 0);
    assert_int_equal(f->b.closed, CULM_ERR_CLOSED);
}

static void garbage_ends_the_connection(void **state) {
    struct fixture *f = *state;
    assert_true(culm_conn_flush(f->a.conn, 0, culm_clock_ns() + PATIENCE));
    assert_int_equal(send(f->fd[0], "GET / HTTP/1.1\r\n\r\n  ", 20, MSG_NOSIGNAL), 20);
    f->b.conn = conn_of(f, &f->b, f->fd[1], false);
    run_until(f, 1);
    assert_int_equal(f->b.closed, CULM_ERR_FORMAT);
    assert_non_null(strstr(f->b.why, "not a frame"));
}

static void a_cut_frame_is_never_delivered(void **state) {
    struct fixture *f = *state;
    culm_conn_cork(f->a.conn, true);
    send_numbered(f, 0, 100);
    send_numbered(f, 1, 10000);
    assert_true(culm_conn_flush(f->a.conn, 5014, culm_clock_ns() + PATIENCE));
    assert_int_equal(culm_conn_queued(f->a.conn), 5014);
    culm_conn_close(f->a.conn);
    f->a.conn = NULL;
    f->b.conn = conn_of(f, &f->b, f->fd[1], false);
    run_until(f, 2);
    assert_int_equal(f->b.messages, 1);
    assert_int_equal(f->b.bad, 0);
    assert_int_equal(f->b.closed, CULM_ERR_CLOSED);
}

static void flush_waits_no_longer_than_allowed(void **state) {
    struct fixture *f = *state;
    send_numbered(f, 0, 64 * MB); /* nobody reads */
    uint64_t start = culm_clock_ns();
    assert_false(culm_conn_flush(f->a.conn, 0, start + SECOND / 5));
    uint64_t took = culm_clock_ns() - start;
    assert_true(took >= SECOND / 5 && took < PATIENCE);
    assert_true(culm_conn_queued(f->a.conn) > 0);
}

static void a_refused_connect_is_told(void **state) {
    struct fixture *f = *state;
    bool tcp = !strcmp(transport, TCP);
    int held, fd;
    char address[CULM_ADDRESS_SIZE];
    struct culm_error error;
    if (tcp) {
        held = hold_port(address);
    } else {
        assert_int_equal(culm_socket_listen(transport, &held, address, &error), CULM_OK);
        close(held);
    }
    enum culm_status status = culm_socket_connect(address, &fd, &error);
    if (status == CULM_OK) { /* TCP finds out later */
        f->b.conn = conn_of(f, &f->b, fd, true);
        run_until(f, 1);
        status = f->b.closed;
    }
    assert_int_equal(status, CULM_ERR_NOT_FOUND);
    close(f->fd[1]);
    if (tcp) {
        close(held);
    }
}

/* The reset of the other side is found although what it had sent takes many turns of the loop. */
static void a_reset_is_told_after_many_turns(void **state) {
    struct fixture *f = *state;
    f->turn_bytes = 1;
    int room = 1 << 20, queued = -1;
    assert_int_equal(setsockopt(f->fd[1], SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    assert_true(culm_conn_flush(f->a.conn, 0, culm_clock_ns() + PATIENCE));
    for (size_t i = 0; i < 30; i++) {
        send_numbered(f, i, 5000);
    }
    assert_true(culm_conn_flush(f->a.conn, 0, culm_clock_ns() + PATIENCE));
    while (queued && !strcmp(transport, TCP)) { /* until the other side's system has all of it */
        assert_int_equal(ioctl(f->fd[0], SIOCOUTQ, &queued), 0);
    }
    assert_int_equal(send(f->fd[1], "unread", 6, MSG_NOSIGNAL), 6); /* makes the end a reset */
    culm_conn_close(f->a.conn);
    f->a.conn = NULL;
    f->b.conn = conn_of(f, &f->b, f->fd[1], false);
    run_until(f, 31);
    assert_int_equal(f->b.messages, 30);
    assert_int_equal(f->b.bad, 0);
    assert_int_equal(f->b.closed, CULM_ERR_CLOSED);
}

/* What was queued comes, and then the end: both are over when the last of it has been written. */
static void a_finished_queue_is_followed_by_the_end(void **state) {
    struct fixture *f = *state;
    f->b.conn = conn_of(f, &f->b, f->fd[1], false);
    send_numbered(f, 0, 8 * MB); /* more than a socket takes at once */
    culm_conn_finish(f->a.conn);
    assert_int_equal(f->b.messages, 0);
    run_until(f, 1);
    assert_int_equal(f->b.messages, 1);
    for (int turn = 0; turn < 1000 && !f->b.closed; turn++) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(f->b.closed, CULM_ERR_CLOSED);
}

static void run_until_a_is_closed(struct fixture *f) {
    uint64_t deadline = culm_clock_ns() + PATIENCE;
    while (!f->a.closed && culm_clock_ns() < deadline) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
}

static void one_that_does_not_read_is_given_up(void **state) {
    struct fixture *f = *state;
    uint8_t *meta = calloc(1, CULM_FRAME_META_MAX);
    const struct culm_message message = {.meta = meta, .meta_bytes = CULM_FRAME_META_MAX};
    size_t most = 0, frames = CULM_CONN_HEADS_MAX / CULM_FRAME_META_MAX + 40;
    for (size_t i = 0; i < frames; i++) {
        culm_conn_send(f->a.conn, &message);
        most = culm_conn_queued(f->a.conn) > most ? culm_conn_queued(f->a.conn) : most;
    }
    free(meta);
    assert_true(most > CULM_CONN_HEADS_MAX / 2 && most <= CULM_CONN_HEADS_MAX);
    assert_int_equal(culm_conn_queued(f->a.conn), 0);
    run_until_a_is_closed(f);
    assert_int_equal(f->a.closed, CULM_ERR_CLOSED);
    assert_non_null(strstr(f->a.why, "does not read"));
    close(f->fd[1]);
}

static void a_message_over_the_limit_is_never_sent(void **state) {
    struct fixture *f = *state;
    uint8_t *meta = calloc(1, CULM_FRAME_META_MAX + 1);
    const struct culm_message message = {.meta = meta, .meta_bytes = CULM_FRAME_META_MAX + 1};
    culm_conn_send(f->a.conn, &message);
    free(meta);
    run_until_a_is_closed(f);
    assert_int_equal(f->a.closed, CULM_ERR_INTERNAL);
    assert_non_null(strstr(f->a.why, "over the limit"));
    close(f->fd[1]);
}

#define ECHOES (80 * MB / ECHO_BYTES)

/* One that sends a frame for each that is handled is never dry. */
static void a_pump_returns_although_more_comes(void **state) {
    struct fixture *f = *state;
    assert_true(culm_conn_flush(f->a.conn, 0, culm_clock_ns() + PATIENCE));
    f->b.conn = conn_of(f, &f->b, f->fd[1], false);
    f->b.echo_fd = f->fd[0];
    f->b.echoes = ECHOES;
    echo(f->fd[0], 0);
    culm_conn_pump(f->b.conn);
    assert_true(f->b.messages > 0 && f->b.echoes > 0);
    assert_int_equal(f->b.bad, 0);
}

/* One frame, however it is cut, and the loop hears the others. */
static void who_waits_for_an_answer_hears_no_more_than_that(void **state) {
    struct fixture *f = *state;
    f->b.conn = conn_of(f, &f->b, f->fd[1], false);
    for (uint64_t i = 0; i < 4; i++) {
        send_numbered(f, i, i % 2 * 5000);
    }
    assert_true(culm_conn_flush(f->a.conn, 0, culm_clock_ns() + PATIENCE));
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(culm_conn_hear(f->b.conn, culm_clock_ns() + PATIENCE));
        assert_int_equal(f->b.messages, i + 1);
    }
    run_until(f, 4);
    assert_int_equal(f->b.messages, 4);
    assert_int_equal(f->b.bad, 0);
    assert_false(culm_conn_hear(f->b.conn, culm_clock_ns() + SECOND / 100));
    culm_conn_cork(f->a.conn, true);
    send_numbered(f, 4, 5000);
    assert_true(culm_conn_flush(f->a.conn, 20, culm_clock_ns() + PATIENCE)); /* not all of it */
    culm_conn_cork(f->a.conn, false);
    assert_true(culm_conn_hear(f->b.conn, culm_clock_ns() + PATIENCE));
    assert_int_equal(f->b.messages, 4);
    assert_true(culm_conn_flush(f->a.conn, 0, culm_clock_ns() + PATIENCE));
    send_numbered(f, 5, 0);
    assert_true(culm_conn_hear(f->b.conn, culm_clock_ns() + PATIENCE));
    assert_int_equal(f->b.messages, 5);
    run_until(f, 6);
    assert_int_equal(f->b.messages, 6);
    assert_int_equal(f->b.bad, 0);
}

static void messages_a_second(void **state) {
    struct fixture *f = *state;
    f->b.conn = conn_of(f, &f->b, f->fd[1], false);
    const size_t rounds = 100, batch = 1000;
    uint64_t start = culm_clock_ns();
    for (size_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < batch; i++) {
            send_numbered(f, r * batch + i, 0);
        }
        run_until(f, (r + 1) * batch);
    }
    double seconds = (double)(culm_clock_ns() - start) / 1e9;
    assert_int_equal(f->b.bad, 0);
    print_message("%.0f messages/s both sides on one thread\n", (double)(rounds * batch) / seconds);
    f->b.messages = 0;
    f->b.size_of = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_and_order_survive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frames_that_yield_are_overtaken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_finished_queue_is_followed_by_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end_of_the_other_side_is_told_after_its_frames, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(garbage_ends_the_connection, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cut_frame_is_never_delivered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flush_waits_no_longer_than_allowed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refused_connect_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reset_is_told_after_many_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_does_not_read_is_given_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_over_the_limit_is_never_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pump_returns_although_more_comes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_for_an_answer_hears_no_more_than_that, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(messages_a_second, set_up, tear_down),
    };
    const struct CMUnitTest over_tls[] = {
        cmocka_unit_test_setup_teardown(bytes_and_order_survive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frames_that_yield_are_overtaken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_and_order_survive_short_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_finished_queue_is_followed_by_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end_of_the_other_side_is_told_after_its_frames, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_cut_frame_is_never_delivered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flush_waits_no_longer_than_allowed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_over_the_limit_is_never_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_for_an_answer_hears_no_more_than_that, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(messages_a_second, set_up, tear_down),
    };
    int failed = cmocka_run_group_tests_name("net/conn, unix", tests, NULL, NULL);
    transport = TCP;
    failed += cmocka_run_group_tests_name("net/conn, tcp", tests, NULL, NULL);
    secure = true;
    return failed + cmocka_run_group_tests_name("net/conn, tls", over_tls, NULL, NULL);
}
