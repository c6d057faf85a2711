/* See worker_played.h. */
#include "worker_played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT_OF_NOTHING 3 /* standard input and output are open */

struct actor {
    struct culm_world *world;
    const struct setting *setting;
    bool busy; /* with a message */
};

static void say_to(const struct actor *self, int32_t node, enum what what) {
    const struct culm_message message = {.type = (uint16_t)what};
    self->world->ops->send(self->world, node, &message);
}

static void set_descriptors(bool many) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = many ? limit.rlim_max : LIMIT_OF_NOTHING;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void on_start(void *actor) {
    struct actor *self = actor;
    if (self->setting->leave) {
        self->world->ops->leave(self->world, self->setting->leave, NULL);
    }
}

/* One that returns. */
static const struct culm_worker_fault fault = {.point = {7, 1, -1}, .how = CULM_HOW_FLIP};

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct actor *self = actor;
    if (self->busy) {
        say_to(actor, CULM_LEADER, NESTED);
    }
    self->busy = true;
    switch (message->type) {
    case DATA: say_to(actor, CULM_LEADER, from == PEER ? HEARD : LOST); break;
    case SEND: say_to(actor, PEER, DATA); break;
    case LOWER: set_descriptors(false); break;
    case RAISE: set_descriptors(true); break;
    case ALIVE: say_to(actor, CULM_LEADER, ALIVE); break;
    case FAULT: self->world->ops->fault(self->world, &fault.point); break;
    default: break;
    }
    self->busy = false;
}

static void on_lost(void *actor, int32_t node) {
    if (node == PEER) {
        say_to(actor, CULM_LEADER, LOST);
    }
}

static const struct culm_actor_ops ops = {
    .size = sizeof ops, .start = on_start, .message = on_message, .lost = on_lost};

static void flipped(void *flip_ctx, const struct culm_fault_point *point) {
    (void)point;
    (void)!write(*(const int *)flip_ctx, "!", 1);
}

static int64_t limit(int64_t ms) { return ms ? ms : LONG_MS; }

/* The worker's process. */
static void be_worker(const char *address, const struct setting *setting) {
    struct culm_blob_pool *pool = culm_blob_pool_new(setting->pool_bytes);
    struct culm_worker *worker = NULL;
    struct culm_error error = {0};
    const struct culm_worker_options options = {.address = address,
                                                .token = TOKEN,
                                                .calls_only = setting->calls_only,
                                                .fault_fd = -1,
                                                .faults = &fault,
                                                .fault_count = 1,
                                                .flip = flipped,
                                                .flip_ctx = (void *)&setting->words,
                                                .hello_limit_ms = limit(setting->hello_ms)};
    int code = 99;
    if (culm_worker_new(&options, &worker, &error) == CULM_OK) {
        struct actor actor = {.world = culm_worker_world(worker), .setting = setting};
        const struct culm_worker_ready ready = {.pool = pool,
                                                .payload_max = 1 << 20,
                                                .dial_limit_ms = limit(setting->dial_ms),
                                                .orphan_ms = limit(setting->orphan_ms)};
        code = culm_worker_report_ready(worker, &ready, &error) == CULM_OK
                   ? culm_worker_run(worker, &ops, &actor, &error)
                   : 98;
    } else if (error.status == CULM_ERR_NOT_FOUND && strstr(error.text, "refused: ")) {
        code = NOT_THERE;
    }
    (void)!write(setting->words, error.text, strlen(error.text));
    culm_worker_free(worker);
    culm_blob_pool_free(pool);
    _exit(code);
}

int accept_one(int listen_fd) {
    int fd = -1;
    assert_true(culm_socket_wait(listen_fd, READABLE, culm_clock_ns() + PATIENCE));
    assert_int_equal(culm_socket_accept(listen_fd, &fd, NULL), CULM_OK);
    return fd;
}

/* False: the other side closed. */
bool hear(int fd, struct frame *ret_frame) {
    uint64_t deadline = culm_clock_ns() + PATIENCE;
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

void say(int fd, uint16_t type, struct culm_buf *meta) {
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    uint64_t deadline = culm_clock_ns() + PATIENCE;
    assert_false(meta->failed);
    culm_frame_header_encode(
        &(struct culm_message){.type = type, .meta_bytes = (uint32_t)meta->len, .meta = meta->data},
        header);
    assert_int_equal(culm_socket_write(fd, header, sizeof header, deadline, NULL), CULM_OK);
    assert_int_equal(culm_socket_write(fd, meta->data, meta->len, deadline, NULL), CULM_OK);
    culm_buf_release(meta);
}

const uint8_t nonce[CULM_NONCE_BYTES] = {42};

/* A listener's side of the handshake, up to the proof. */
static void prove_to(int32_t self, int fd, struct culm_introduction *ret_introduction) {
    struct culm_handshake handshake;
    struct culm_buf meta;
    struct frame frame;
    culm_handshake_listen(&handshake, TOKEN, self, nonce);
    assert_true(hear(fd, &frame));
    assert_int_equal(culm_handshake_greeted(&handshake, &frame.message, NULL), CULM_OK);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_challenge(&handshake, &meta);
    say(fd, CULM_WIRE_CHALLENGE, &meta);
    assert_true(hear(fd, &frame));
    assert_int_equal(culm_handshake_proved(&handshake, &frame.message, ret_introduction, NULL),
                     CULM_OK);
}

void prove(int fd, struct culm_introduction *ret_introduction) {
    prove_to(CULM_LEADER, fd, ret_introduction);
}

void welcome(int fd) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_welcome_encode(&(struct culm_welcome){.pid = 0}, &meta); /* it is not its parent */
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

/* False: nobody can listen there on this machine. */
bool start_at(const char *where, struct setting setting, struct joined *ret_joined) {
    struct joined w = {.fd = -1};
    char address[CULM_ADDRESS_SIZE];
    int words[2];
    if (culm_socket_listen(where, &w.listen_fd, address, NULL) != CULM_OK) {
        print_message("nobody can listen at %s\n", where);
        return false;
    }
    assert_int_equal(pipe(words), 0);
    w.pid = fork();
    assert_true(w.pid >= 0);
    if (w.pid == 0) {
        close(w.listen_fd);
        close(words[0]);
        setting.words = words[1];
        be_worker(address, &setting);
    }
    close(words[1]);
    w.words = words[0];
    *ret_joined = w;
    return true;
}

struct joined start_as(struct setting setting) {
    struct joined w;
    assert_true(start_at("unix:", setting, &w));
    return w;
}

struct joined start(int leave) {
    return start_as((struct setting){.leave = leave});
}

struct joined join_as(struct setting setting) {
    struct joined w = start_as(setting);
    w.fd = accept_one(w.listen_fd);
    prove(w.fd, &w.introduction);
    welcome(w.fd);
    return w;
}

struct joined join(int leave) {
    return join_as((struct setting){.leave = leave});
}

/* The exit code, and what it said last. */
int end_of(struct joined *w, char *ret_words, size_t size) {
    int status;
    ssize_t got = read(w->words, ret_words, size - 1); /* until it has ended */
    ret_words[got > 0 ? got : 0] = '\0';
    close(w->words);
    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    assert_true(WIFEXITED(status));
    close(w->fd);
    close(w->listen_fd);
    return WEXITSTATUS(status);
}

/* Ends the leader's side; the exit code. */
int part(struct joined *w) {
    char words[CULM_ERROR_MAX];
    close(w->fd);
    close(w->listen_fd);
    w->fd = w->listen_fd = -1;
    return end_of(w, words, sizeof words);
}

void order(const struct joined *w, enum what what) {
    struct culm_buf none;
    culm_buf_init(&none, 1);
    say(w->fd, (uint16_t)what, &none);
}

/* Waits for the next message of the worker's actor. */
enum what answer(const struct joined *w) {
    struct frame frame;
    assert_true(hear(w->fd, &frame));
    return (enum what)frame.message.type;
}

/* The test's side of peer 9, as one who calls, and may be called at `address`. */
bool call_from(const char *address, const char *token, int fd) {
    struct culm_handshake handshake;
    struct culm_introduction introduction = {.role = 0};
    struct culm_buf meta;
    struct frame frame;
    snprintf(introduction.address, sizeof introduction.address, "%s", address);
    culm_handshake_call(&handshake, token, PEER, 0, nonce);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_hello(&handshake, &meta);
    say(fd, CULM_WIRE_HELLO, &meta);
    if (!hear(fd, &frame)) {
        return false;
    }
    if (culm_handshake_challenged(&handshake, &frame.message, NULL) != CULM_OK) {
        handshake.greeted = true; /* it goes on all the same */
    }
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_proof(&handshake, &introduction, &meta);
    say(fd, CULM_WIRE_PROOF, &meta);
    return hear(fd, &frame) && frame.message.type == CULM_WIRE_WELCOME;
}

bool call(const char *token, int fd) { return call_from("unix:nowhere", token, fd); }

int connect_to(const struct joined *w) {
    int fd;
    assert_int_equal(culm_socket_connect(w->introduction.address, &fd, NULL), CULM_OK);
    return fd;
}

void tell_entry(const struct joined *w, const struct culm_entry *entry) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_entry_encode(entry, &meta);
    say(w->fd, CULM_WIRE_BOOK, &meta);
}

/* Tells the worker where the peer is: at a socket of the test's. */
int listen_as_peer(const struct joined *w) {
    struct culm_entry entry = {.node = PEER};
    int fd;
    assert_int_equal(culm_socket_listen("unix:", &fd, entry.address, NULL), CULM_OK);
    tell_entry(w, &entry);
    return fd;
}

/* Tells the worker that the peer only calls. */
void caller_as_peer(const struct joined *w) { tell_entry(w, &(struct culm_entry){.node = PEER}); }

/* The test's side of peer 9, as one who is called: lets it in and hears its frame. */
void let_in(int fd) {
    struct culm_introduction introduction;
    struct culm_buf meta;
    struct frame frame;
    prove_to(PEER, fd, &introduction);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    say(fd, CULM_WIRE_WELCOME, &meta);
    assert_true(hear(fd, &frame));
    assert_int_equal(frame.message.type, DATA);
}

void let_in_with_data(int fd) {
    struct culm_introduction introduction;
    uint8_t frames[2 * CULM_FRAME_HEADER_BYTES];
    prove_to(PEER, fd, &introduction);
    culm_frame_header_encode(&(struct culm_message){.type = CULM_WIRE_WELCOME}, frames);
    culm_frame_header_encode(&(struct culm_message){.type = DATA},
                             frames + CULM_FRAME_HEADER_BYTES);
    assert_int_equal(write(fd, frames, sizeof frames), sizeof frames);
}

void say_nothing(int fd, enum what what) {
    struct culm_buf none;
    culm_buf_init(&none, 1);
    say(fd, (uint16_t)what, &none);
}
