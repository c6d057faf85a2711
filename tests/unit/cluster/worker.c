/*
 * The world of a worker alone: the test speaks the coordinator's side by hand, and the worker's
 * side is a child process whose actor leaves at its start, or only listens.
 */
#include "cluster/worker.h"

#include "cluster/wire.h"
#include "net/frame.h"
#include "net/socket.h"

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
static void be_worker(int port, int leave) {
    struct culm_pool *pool = culm_pool_new(0);
    struct culm_worker *worker = NULL;
    struct culm_error error = {0};
    const struct culm_worker_options options = {
        .host = "127.0.0.1", .port = port, .token = "token", .fault_fd = -1, .hello_limit_ms = 300};
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

/* A frame without payload. */
static struct culm_message hear(int fd, uint8_t bytes[CULM_WIRE_HELLO_MAX]) {
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    uint64_t deadline = culm_clock_ns() + 30 * SECOND;
    struct culm_message message = {.meta = bytes};
    assert_int_equal(culm_socket_read(fd, header, sizeof header, deadline, NULL), CULM_OK);
    memcpy(&message.type, header + 4, 2);
    memcpy(&message.meta_bytes, header + 8, 4);
    assert_true(message.meta_bytes <= CULM_WIRE_HELLO_MAX);
    assert_int_equal(culm_socket_read(fd, bytes, message.meta_bytes, deadline, NULL), CULM_OK);
    return message;
}

/* Reads the hello, says welcome, and hears that the worker is ready; the port it listens on. */
static int welcome(int fd) {
    uint8_t bytes[CULM_WIRE_HELLO_MAX];
    uint64_t deadline = culm_clock_ns() + 30 * SECOND;
    struct culm_message message = hear(fd, bytes);
    struct culm_hello hello;
    struct culm_ready ready;
    assert_true(culm_hello_decode(&message, &hello));
    assert_string_equal(hello.token, "token");
    uint8_t answer[CULM_FRAME_HEADER_BYTES + 8] = {0}; /* of a coordinator that is not its parent */
    culm_frame_header_encode(&(struct culm_message){.type = CULM_WIRE_WELCOME,
                                                    .meta_bytes = 8,
                                                    .meta = answer + CULM_FRAME_HEADER_BYTES},
                             answer);
    assert_int_equal(culm_socket_write(fd, answer, sizeof answer, deadline, NULL), CULM_OK);
    do {
        message = hear(fd, bytes);
    } while (message.type == CULM_WIRE_PREPARING);
    assert_int_equal(message.type, CULM_WIRE_READY);
    assert_true(culm_ready_decode(&message, &ready));
    assert_int_equal(ready.status, CULM_OK);
    return hello.port;
}

struct joined {
    pid_t pid;
    int listen_fd, fd, port;
};

static struct joined join(int leave) {
    struct joined w;
    int port;
    assert_int_equal(culm_socket_listen("127.0.0.1", &w.listen_fd, &port, NULL), CULM_OK);
    w.pid = fork();
    assert_true(w.pid >= 0);
    if (w.pid == 0) {
        close(w.listen_fd);
        be_worker(port, leave);
    }
    w.fd = accept_one(w.listen_fd);
    w.port = welcome(w.fd);
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
    assert_int_equal(culm_socket_connect("127.0.0.1", w.port, &fd, NULL), CULM_OK);
    assert_int_equal(culm_socket_read(fd, &byte, 1, since + 10 * SECOND, NULL), CULM_ERR_CLOSED);
    assert_true(culm_clock_ns() - since > 3 * SECOND / 10);
    close(fd);
    assert_int_equal(part(&w), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_leaves_at_its_start),
        cmocka_unit_test(a_silent_stranger_is_shown_out),
    };
    return cmocka_run_group_tests_name("cluster/worker", tests, NULL, NULL);
}
