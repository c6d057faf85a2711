/*
 * The world of a worker alone: the test speaks the coordinator's side by hand, and the worker's
 * side is a child process whose actor leaves at its start, or only listens.
 */
#include "cluster/worker.h"

#include "cluster/handshake.h"
#include "net/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define READABLE 1 /* POLLIN */
#define TOKEN "token"

struct actor {
    struct culm_world *world;
    int leave; /* at the start, with this code; 0: stays */
};

static void on_start(void *actor) {
    struct actor *self = actor;
    if (self->leave) {
        self->world->ops->leave(self->world, self->leave, NULL);
    }
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    (void)actor;
    (void)from;
    (void)message;
}

static const struct culm_actor_ops ops = {
    .size = sizeof ops, .start = on_start, .message = on_message};

/* The worker's process. */
static void be_worker(const char *address, int leave) {
    struct culm_pool *pool = culm_pool_new(0);
    struct culm_worker *worker = NULL;
    struct culm_error error = {0};
    const struct culm_worker_options options = {
        .address = address, .token = TOKEN, .fault_fd = -1, .hello_limit_ms = 300};
    int code = 99;
    if (culm_worker_new(&options, &worker, &error) == CULM_OK) {
        struct actor actor = {culm_worker_world(worker), leave};
        const struct culm_worker_ready ready = {.pool = pool};
        code = culm_worker_ready(worker, &ready, &error) == CULM_OK
                   ? culm_worker_run(worker, &ops, &actor, &error)
                   : 98;
    }
    culm_worker_free(worker);
    culm_pool_free(pool);
    _exit(code);
}

static int accept_one(int listen_fd) {
    int fd = -1;
    assert_true(culm_socket_wait(listen_fd, READABLE, culm_clock_ns() + 30 * SECOND));
    assert_int_equal(culm_socket_accept(listen_fd, &fd, NULL), CULM_OK);
    return fd;
}

struct frame {
    struct culm_message message;
    uint8_t bytes[CULM_FRAME_HEADER_BYTES + CULM_WIRE_HELLO_MAX];
};

/* False: the other side closed. */
static bool hear(int fd, struct frame *ret_frame) {
    uint64_t deadline = culm_clock_ns() + 30 * SECOND;
    struct culm_message message = {0};
    uint8_t *bytes = ret_frame->bytes;
    enum culm_status status = culm_socket_read(fd, bytes, CULM_FRAME_HEADER_BYTES, deadline, NULL);
    if (status == CULM_ERR_CLOSED) {
        return false;
    }
    assert_int_equal(status, CULM_OK);
    memcpy(&message.type, bytes + 4, 2);
    memcpy(&message.meta_bytes, bytes + 8, 4);
    assert_true(message.meta_bytes <= CULM_WIRE_HELLO_MAX);
    assert_int_equal(culm_socket_read(fd, bytes, message.meta_bytes, deadline, NULL), CULM_OK);
    message.meta = bytes;
    ret_frame->message = message;
    return true;
}

static void say(int fd, uint16_t type, struct culm_buf *meta) {
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    uint64_t deadline = culm_clock_ns() + 30 * SECOND;
    assert_false(meta->failed);
    culm_frame_header_encode(
        &(struct culm_message){.type = type, .meta_bytes = (uint32_t)meta->len, .meta = meta->data},
        header);
    assert_int_equal(culm_socket_write(fd, header, sizeof header, deadline, NULL), CULM_OK);
    assert_int_equal(culm_socket_write(fd, meta->data, meta->len, deadline, NULL), CULM_OK);
    culm_buf_release(meta);
}

static const uint8_t nonce[CULM_NONCE_BYTES] = {42};

/* The coordinator's side of the handshake, up to the proof. */
static void prove(int fd, struct culm_introduction *ret_introduction) {
    struct culm_handshake handshake;
    struct culm_buf meta;
    struct frame frame;
    culm_handshake_listen(&handshake, TOKEN, CULM_COORDINATOR, nonce);
    assert_true(hear(fd, &frame));
    assert_int_equal(culm_handshake_greeted(&handshake, &frame.message, NULL), CULM_OK);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_challenge(&handshake, &meta);
    say(fd, CULM_WIRE_CHALLENGE, &meta);
    assert_true(hear(fd, &frame));
    assert_int_equal(culm_handshake_proved(&handshake, &frame.message, ret_introduction, NULL),
                     CULM_OK);
}

static void welcome(int fd) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_u64(&meta, 0); /* of a coordinator that is not its parent */
    say(fd, CULM_WIRE_WELCOME, &meta);
    struct culm_ready ready;
    struct frame frame;
    do {
        assert_true(hear(fd, &frame));
    } while (frame.message.type == CULM_WIRE_PREPARING);
    assert_int_equal(frame.message.type, CULM_WIRE_READY);
    assert_true(culm_ready_decode(&frame.message, &ready));
    assert_int_equal(ready.status, CULM_OK);
}

struct joined {
    pid_t pid;
    int listen_fd, fd;
    struct culm_introduction introduction;
};

static struct joined start(int leave) {
    struct joined w = {.fd = -1};
    char address[CULM_ADDRESS_SIZE];
    assert_int_equal(culm_socket_listen("unix:", &w.listen_fd, address, NULL), CULM_OK);
    w.pid = fork();
    assert_true(w.pid >= 0);
    if (w.pid == 0) {
        close(w.listen_fd);
        be_worker(address, leave);
    }
    return w;
}

static struct joined join(int leave) {
    struct joined w = start(leave);
    w.fd = accept_one(w.listen_fd);
    prove(w.fd, &w.introduction);
    welcome(w.fd);
    return w;
}

/* Ends the coordinator's side; the exit code. */
static int part(struct joined *w) {
    int status;
    close(w->fd);
    close(w->listen_fd);
    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void one_that_leaves_at_its_start(void **state) {
    (void)state;
    struct joined w = join(7);
    assert_int_equal(part(&w), 7);
}

static void a_silent_stranger_is_shown_out(void **state) {
    (void)state;
    struct joined w = join(0);
    int fd;
    char byte;
    uint64_t since = culm_clock_ns();
    assert_int_equal(culm_socket_connect(w.introduction.address, &fd, NULL), CULM_OK);
    assert_int_equal(culm_socket_read(fd, &byte, 1, since + 10 * SECOND, NULL), CULM_ERR_CLOSED);
    assert_true(culm_clock_ns() - since > 3 * SECOND / 10);
    close(fd);
    assert_int_equal(part(&w), 1);
}

/* --- the coordinator that is none --- */

/* It took the address over, and does not know the token. */
static void a_coordinator_without_the_token_learns_nothing(void **state) {
    (void)state;
    struct joined w = start(0);
    struct culm_handshake handshake;
    struct culm_buf meta;
    struct frame frame;
    w.fd = accept_one(w.listen_fd);
    culm_handshake_listen(&handshake, "another", CULM_COORDINATOR, nonce);
    assert_true(hear(w.fd, &frame));
    assert_null(memmem(frame.message.meta, frame.message.meta_bytes, TOKEN, strlen(TOKEN)));
    assert_int_equal(culm_handshake_greeted(&handshake, &frame.message, NULL), CULM_OK);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_challenge(&handshake, &meta);
    say(w.fd, CULM_WIRE_CHALLENGE, &meta);
    assert_false(hear(w.fd, &frame)); /* no proof comes */
    assert_int_equal(part(&w), 99);
}

/* One whose connection was ended before it was answered calls again; one that was refused does not.
 */
static void a_worker_calls_until_it_is_answered(void **state) {
    (void)state;
    struct joined w = start(0);
    for (int i = 0; i < 3; i++) {
        close(accept_one(w.listen_fd));
    }
    w.fd = accept_one(w.listen_fd);
    prove(w.fd, &w.introduction);
    close(w.fd); /* still not answered */
    w.fd = accept_one(w.listen_fd);
    prove(w.fd, &w.introduction);
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_string(&meta, "not today");
    say(w.fd, CULM_WIRE_REFUSED, &meta);
    assert_int_equal(part(&w), 99);
}

static void a_coordinator_that_is_gone_is_not_waited_for(void **state) {
    (void)state;
    uint64_t since = culm_clock_ns();
    struct joined w = start(0);
    close(w.listen_fd);
    w.listen_fd = w.fd = -1;
    assert_int_equal(part(&w), 99);
    assert_true(culm_clock_ns() - since < 5 * SECOND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_leaves_at_its_start),
        cmocka_unit_test(a_silent_stranger_is_shown_out),
        cmocka_unit_test(a_coordinator_without_the_token_learns_nothing),
        cmocka_unit_test(a_worker_calls_until_it_is_answered),
        cmocka_unit_test(a_coordinator_that_is_gone_is_not_waited_for),
    };
    return cmocka_run_group_tests_name("cluster/worker", tests, NULL, NULL);
}
