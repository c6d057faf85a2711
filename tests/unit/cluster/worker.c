/*
 * The world of a worker alone: the test speaks the coordinator's and a peer's side by hand, and the
 * worker's side is a child process whose actor leaves at its start, or does what the coordinator's
 * messages say.
 */
#include "cluster/worker.h"

#include "cluster/handshake.h"
#include "net/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define READABLE 1 /* POLLIN */
#define TOKEN "token"

#define PEER 9             /* whose side the test speaks */
#define DIAL_MS 600        /* how long it is dialed */
#define LIMIT_OF_NOTHING 3 /* standard input and output are open */

enum what {
    SEND = 1, /* to the worker: send a frame to the peer */
    LOWER,    /* to the worker: there are no descriptors left */
    RAISE,    /* to the worker: there are again */
    LOST,     /* from the worker: the peer is lost */
    ALIVE,    /* both ways: is it? */
    DATA,     /* between the worker and the peer */
    HEARD,    /* from the worker: the peer has said DATA */
    FAULT,    /* to the worker: a fault fires, before which all that was sent leaves */
};

struct setting {
    int leave; /* at the start, with this code; 0: stays */
    int64_t orphan_ms;
    size_t pool_bytes; /* 0: no limit */
    int words;         /* where its last words go */
    bool calls_only;
};

struct actor {
    struct culm_world *world;
    const struct setting *setting;
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
    switch (message->type) {
    case DATA: say_to(actor, CULM_LEADER, from == PEER ? HEARD : LOST); break;
    case SEND: say_to(actor, PEER, DATA); break;
    case LOWER: set_descriptors(false); break;
    case RAISE: set_descriptors(true); break;
    case ALIVE: say_to(actor, CULM_LEADER, ALIVE); break;
    case FAULT: self->world->ops->fault(self->world, &fault.point); break;
    default: break;
    }
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
                                                .hello_limit_ms = 300};
    int code = 99;
    if (culm_worker_new(&options, &worker, &error) == CULM_OK) {
        struct actor actor = {culm_worker_world(worker), setting};
        const struct culm_worker_ready ready = {.pool = pool,
                                                .payload_max = 1 << 20,
                                                .dial_limit_ms = DIAL_MS,
                                                .orphan_ms = setting->orphan_ms};
        code = culm_worker_ready(worker, &ready, &error) == CULM_OK
                   ? culm_worker_run(worker, &ops, &actor, &error)
                   : 98;
    }
    (void)!write(setting->words, error.text, strlen(error.text));
    culm_worker_free(worker);
    culm_blob_pool_free(pool);
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
    culm_handshake_listen(&handshake, TOKEN, CULM_LEADER, nonce);
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
    int listen_fd, fd, words;
    struct culm_introduction introduction;
};

/* False: nobody can listen there on this machine. */
static bool start_at(const char *where, struct setting setting, struct joined *ret_joined) {
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

static struct joined start_as(struct setting setting) {
    struct joined w;
    assert_true(start_at("unix:", setting, &w));
    return w;
}

static struct joined start(int leave) { return start_as((struct setting){.leave = leave}); }

static struct joined join_as(struct setting setting) {
    struct joined w = start_as(setting);
    w.fd = accept_one(w.listen_fd);
    prove(w.fd, &w.introduction);
    welcome(w.fd);
    return w;
}

static struct joined join(int leave) { return join_as((struct setting){.leave = leave}); }

/* The exit code, and what it said last. */
static int end_of(struct joined *w, char *ret_words, size_t size) {
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

/* Ends the coordinator's side; the exit code. */
static int part(struct joined *w) {
    char words[CULM_ERROR_MAX];
    close(w->fd);
    close(w->listen_fd);
    w->fd = w->listen_fd = -1;
    return end_of(w, words, sizeof words);
}

static void order(const struct joined *w, enum what what) {
    struct culm_buf none;
    culm_buf_init(&none, 1);
    say(w->fd, (uint16_t)what, &none);
}

/* Waits for the next message of the worker's actor. */
static enum what answer(const struct joined *w) {
    struct frame frame;
    assert_true(hear(w->fd, &frame));
    return (enum what)frame.message.type;
}

static void one_that_leaves_at_its_start(void **state) {
    (void)state;
    struct joined w = join(7);
    assert_int_equal(part(&w), 7);
}

static void a_silent_connection_is_shown_out(void **state) {
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
    culm_handshake_listen(&handshake, "another", CULM_LEADER, nonce);
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

/* --- a coordinator that says nothing --- */

static void one_that_hears_nothing_ends_itself(void **state) {
    (void)state;
    uint64_t since = culm_clock_ns();
    struct joined w = join_as((struct setting){.orphan_ms = 400});
    char words[CULM_ERROR_MAX];
    assert_int_equal(end_of(&w, words, sizeof words), 1);
    assert_true(culm_clock_ns() - since >= 4 * SECOND / 10);
    assert_true(culm_clock_ns() - since < 10 * SECOND);
    assert_non_null(strstr(words, "the coordinator has said nothing for 400 ms"));
}

/* Any word will do, and what came while the worker was frozen counts. */
static void a_word_now_and_then_is_enough(void **state) {
    (void)state;
    struct joined w = join_as((struct setting){.orphan_ms = 1000});
    struct culm_buf none;
    culm_buf_init(&none, 1);
    for (int i = 0; i < 4; i++) {
        assert_false(culm_socket_wait(w.fd, READABLE, culm_clock_ns() + 3 * SECOND / 10));
        say(w.fd, CULM_WIRE_ALIVE, &none);
    }
    kill(w.pid, SIGSTOP);
    assert_false(culm_socket_wait(w.fd, READABLE, culm_clock_ns() + 3 * SECOND / 2));
    order(&w, ALIVE);
    kill(w.pid, SIGCONT);
    assert_int_equal(answer(&w), ALIVE);
    assert_int_equal(part(&w), 1);
}

/* --- peers --- */

/* The test's side of peer 9, as one who calls, and may be called at `address`. */
static bool call_from(const char *address, const char *token, int fd) {
    struct culm_handshake handshake;
    struct culm_introduction introduction = {"", ""};
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

static bool call(const char *token, int fd) { return call_from("unix:nowhere", token, fd); }

static int connect_to(const struct joined *w) {
    int fd;
    assert_int_equal(culm_socket_connect(w->introduction.address, &fd, NULL), CULM_OK);
    return fd;
}

static void only_who_knows_the_token_is_a_peer(void **state) {
    (void)state;
    struct joined w = join(0);
    int wrong = connect_to(&w), right = connect_to(&w), again = connect_to(&w);
    assert_false(call("another", wrong));
    assert_true(call(TOKEN, right));
    assert_false(call(TOKEN, again)); /* it is there already */
    close(wrong);
    close(right);
    close(again);
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

#define CROWD 300 /* more than a worker keeps */

static void a_peer_gets_in_through_a_crowd(void **state) {
    (void)state;
    struct joined w = join(0);
    int idle[CROWD];
    for (int i = 0; i < CROWD; i++) {
        idle[i] = connect_to(&w);
    }
    int fd = connect_to(&w);
    assert_true(call(TOKEN, fd));
    close(fd);
    for (int i = 0; i < CROWD; i++) {
        close(idle[i]);
    }
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

static void tell_entry(const struct joined *w, const struct culm_entry *entry) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_entry_encode(entry, &meta);
    say(w->fd, CULM_WIRE_BOOK, &meta);
}

/* Tells the worker where the peer is: at a socket of the test's. */
static int listen_as_peer(const struct joined *w) {
    struct culm_entry entry = {.node = PEER};
    int fd;
    assert_int_equal(culm_socket_listen("unix:", &fd, entry.address, NULL), CULM_OK);
    tell_entry(w, &entry);
    return fd;
}

/* Tells the worker that the peer only calls. */
static void caller_as_peer(const struct joined *w) {
    tell_entry(w, &(struct culm_entry){.node = PEER});
}

/* The test's side of peer 9, as one who is called: lets it in and hears its frame. */
static void let_in(int fd) {
    struct culm_handshake handshake;
    struct culm_introduction introduction;
    struct culm_buf meta;
    struct frame frame;
    culm_handshake_listen(&handshake, TOKEN, PEER, nonce);
    assert_true(hear(fd, &frame));
    assert_int_equal(culm_handshake_greeted(&handshake, &frame.message, NULL), CULM_OK);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_challenge(&handshake, &meta);
    say(fd, CULM_WIRE_CHALLENGE, &meta);
    assert_true(hear(fd, &frame));
    assert_int_equal(culm_handshake_proved(&handshake, &frame.message, &introduction, NULL),
                     CULM_OK);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    say(fd, CULM_WIRE_WELCOME, &meta);
    assert_true(hear(fd, &frame));
    assert_int_equal(frame.message.type, DATA);
}

/* Its listener accepts no more, for lack of room or of time, and the call is made again. */
static void a_full_queue_costs_a_retry(void **state) {
    (void)state;
    struct joined w = join(0);
    int listener = listen_as_peer(&w), fill[8], count = 0;
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    for (;; count++) {
        assert_true(count < 8);
        fill[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(fill[count], (struct sockaddr *)&at, len)) {
            assert_int_equal(errno, EAGAIN);
            break;
        }
    }
    order(&w, SEND);
    order(&w, ALIVE); /* answered when the first call has failed */
    assert_int_equal(answer(&w), ALIVE);
    for (int i = 0; i < count; i++) {
        close(accept_one(listener));
    }
    int fd = accept_one(listener);
    let_in(fd);
    order(&w, ALIVE);
    assert_int_equal(answer(&w), ALIVE); /* and not LOST */
    for (int i = 0; i <= count; i++) {
        close(fill[i]);
    }
    close(listener);
    close(fd);
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

static void no_descriptors_cost_a_retry(void **state) {
    (void)state;
    struct joined w = join(0);
    int listener = listen_as_peer(&w);
    order(&w, LOWER);
    order(&w, SEND);
    order(&w, ALIVE);
    assert_int_equal(answer(&w), ALIVE);
    order(&w, RAISE);
    int fd = accept_one(listener);
    let_in(fd);
    close(fd);
    close(listener);
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

/* In a crowd its place was taken by the next, before it was let in. */
static void one_that_was_shown_out_calls_again(void **state) {
    (void)state;
    struct joined w = join(0);
    int listener = listen_as_peer(&w);
    order(&w, SEND);
    for (int i = 0; i < 3; i++) {
        close(accept_one(listener));
    }
    int fd = accept_one(listener);
    let_in(fd);
    close(fd);
    close(listener);
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

/* It is there, and nobody answers. */
static void a_black_hole_is_given_up(void **state) {
    (void)state;
    struct joined w = join(0);
    int listener = listen_as_peer(&w);
    uint64_t since = culm_clock_ns();
    order(&w, SEND);
    assert_int_equal(answer(&w), LOST);
    assert_true(culm_clock_ns() - since >= DIAL_MS * SECOND / 1000);
    assert_true(culm_clock_ns() - since < 10 * SECOND);
    close(listener);
    assert_int_equal(part(&w), 1);
}

/* One who took a dead peer's place hears nothing of what was meant for it. */
static void a_listener_without_the_token_gets_nothing(void **state) {
    (void)state;
    struct joined w = join(0);
    int listener = listen_as_peer(&w);
    struct culm_handshake handshake;
    struct culm_buf meta;
    struct frame frame;
    uint64_t since = culm_clock_ns();
    order(&w, SEND);
    int fd = accept_one(listener);
    culm_handshake_listen(&handshake, "another", PEER, nonce);
    assert_true(hear(fd, &frame));
    assert_int_equal(culm_handshake_greeted(&handshake, &frame.message, NULL), CULM_OK);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_challenge(&handshake, &meta);
    say(fd, CULM_WIRE_CHALLENGE, &meta);
    assert_false(hear(fd, &frame));
    assert_int_equal(answer(&w), LOST);
    assert_true(culm_clock_ns() - since < 10 * SECOND);
    close(fd);
    close(listener);
    assert_int_equal(part(&w), 1);
}

/* No memory for what a peer sends: the coordinator hears of it, and so does who reads the log. */
static void one_without_memory_says_so(void **state) {
    (void)state;
    struct joined w = join_as((struct setting){.pool_bytes = 4096});
    static uint8_t bytes[100000];
    struct culm_blob blob = {.data = bytes, .size_bytes = sizeof bytes};
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    char words[CULM_ERROR_MAX];
    struct culm_ready why;
    struct frame frame;
    int fd = connect_to(&w);
    assert_true(call(TOKEN, fd));
    culm_frame_header_encode(
        &(struct culm_message){.type = DATA, .payload = &blob, .payload_bytes = sizeof bytes},
        header);
    assert_int_equal(
        culm_socket_write(fd, header, sizeof header, culm_clock_ns() + 30 * SECOND, NULL), CULM_OK);
    assert_true(hear(w.fd, &frame));
    assert_int_equal(frame.message.type, CULM_WIRE_FAILED);
    assert_true(culm_ready_decode(&frame.message, &why));
    assert_int_equal(why.status, CULM_ERR_MEMORY);
    assert_non_null(strstr(why.text, "receive from node 9: no room for a payload of 100000 bytes"));
    close(w.fd);
    w.fd = -1;
    assert_int_equal(end_of(&w, words, sizeof words), 4);
    assert_string_equal(words, why.text);
    close(fd);
}

/* --- those that only call --- */

static void say_nothing(int fd, enum what what) {
    struct culm_buf none;
    culm_buf_init(&none, 1);
    say(fd, (uint16_t)what, &none);
}

static void one_that_only_calls_is_answered_where_it_called(void **state) {
    (void)state;
    struct joined w = join_as((struct setting){.calls_only = true});
    assert_string_equal(w.introduction.address, "");
    int listener = listen_as_peer(&w);
    int fd = accept_one(listener); /* at once: the peer may have something to say to it */
    order(&w, SEND);
    let_in(fd);
    say_nothing(fd, DATA);
    assert_int_equal(answer(&w), HEARD);
    say_nothing(fd, DATA);
    close(fd); /* and what it said before its end comes before that */
    assert_int_equal(answer(&w), HEARD);
    assert_int_equal(answer(&w), LOST);
    close(listener);
    assert_int_equal(part(&w), 1);
}

static void who_cannot_be_called_is_answered_where_it_called(void **state) {
    (void)state;
    struct joined w = join(0);
    struct frame frame;
    caller_as_peer(&w);
    order(&w, SEND); /* waits for its call */
    order(&w, ALIVE);
    assert_int_equal(answer(&w), ALIVE);
    int fd = connect_to(&w);
    assert_true(call_from("", TOKEN, fd));
    assert_true(hear(fd, &frame));
    assert_int_equal(frame.message.type, DATA);
    say_nothing(fd, DATA);
    assert_int_equal(answer(&w), HEARD);
    order(&w, SEND);
    assert_true(hear(fd, &frame));
    assert_int_equal(frame.message.type, DATA);
    close(fd);
    assert_int_equal(answer(&w), LOST);
    order(&w, SEND); /* it is lost, and nothing is held for it */
    order(&w, ALIVE);
    assert_int_equal(answer(&w), ALIVE);
    assert_int_equal(part(&w), 1);
}

/* Its call is accepted by the loop, which does not run meanwhile. */
static void a_fault_does_not_wait_for_a_call(void **state) {
    (void)state;
    struct joined w = join(0);
    struct frame frame;
    char fired;
    caller_as_peer(&w);
    order(&w, SEND);
    uint64_t since = culm_clock_ns();
    order(&w, FAULT);
    assert_int_equal(read(w.words, &fired, 1), 1);
    assert_int_equal(fired, '!');
    assert_true(culm_clock_ns() - since < 3 * SECOND / 2);
    int fd = connect_to(&w);
    assert_true(call_from("", TOKEN, fd));
    assert_true(hear(fd, &frame)); /* what waited for it still does */
    assert_int_equal(frame.message.type, DATA);
    close(fd);
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

static void one_whose_call_never_comes_is_given_up(void **state) {
    (void)state;
    struct joined w = join(0);
    uint64_t since = culm_clock_ns();
    caller_as_peer(&w);
    order(&w, SEND);
    assert_int_equal(answer(&w), LOST);
    assert_true(culm_clock_ns() - since >= DIAL_MS * SECOND / 1000);
    assert_true(culm_clock_ns() - since < 10 * SECOND);
    assert_int_equal(part(&w), 1);
}

static void two_that_only_call_never_meet(void **state) {
    (void)state;
    struct joined w = join_as((struct setting){.calls_only = true});
    caller_as_peer(&w);
    order(&w, SEND);
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

/* --- over the network --- */

/* Peers find a worker where its connection to the coordinator begins. */
static void a_worker_listens_where_it_calls_from(void **state) {
    (void)state;
    static const char *const kinds[] = {"tcp:127.0.0.1:0", "tcp:127.0.0.2:0", "tcp:[::1]:0"};
    static const char *const begins[] = {"tcp:127.0.0.1:", "tcp:127.0.0.1:", "tcp:[::1]:"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct joined w = {.fd = -1};
        if (!start_at(kinds[i], (struct setting){0}, &w)) {
            continue; /* no IPv6 here */
        }
        w.fd = accept_one(w.listen_fd);
        prove(w.fd, &w.introduction);
        assert_memory_equal(w.introduction.address, begins[i], strlen(begins[i]));
        welcome(w.fd);
        int fd = connect_to(&w);
        assert_true(culm_socket_wait(fd, 4 /* POLLOUT */, culm_clock_ns() + 5 * SECOND));
        assert_true(call(TOKEN, fd));
        close(fd);
        assert_int_equal(answer(&w), LOST);
        assert_int_equal(part(&w), 1);
    }
}

/* The next attempt may lead there from another address, where a listener of its own belongs. */
static void an_attempt_that_failed_leaves_no_listener(void **state) {
    (void)state;
    struct joined w = start(0);
    struct culm_introduction first;
    int fd;
    w.fd = accept_one(w.listen_fd);
    prove(w.fd, &first);
    assert_int_equal(culm_socket_connect(first.address, &fd, NULL), CULM_OK);
    close(fd);
    close(w.fd);
    w.fd = accept_one(w.listen_fd);
    prove(w.fd, &w.introduction);
    assert_int_equal(culm_socket_connect(first.address, &fd, NULL), CULM_ERR_NOT_FOUND);
    welcome(w.fd);
    fd = connect_to(&w);
    assert_true(call(TOKEN, fd));
    close(fd);
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

int main(void) {
    culm_socket_raise_limit();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_leaves_at_its_start),
        cmocka_unit_test(a_silent_connection_is_shown_out),
        cmocka_unit_test(a_coordinator_without_the_token_learns_nothing),
        cmocka_unit_test(a_worker_calls_until_it_is_answered),
        cmocka_unit_test(a_coordinator_that_is_gone_is_not_waited_for),
        cmocka_unit_test(one_that_hears_nothing_ends_itself),
        cmocka_unit_test(a_word_now_and_then_is_enough),
        cmocka_unit_test(only_who_knows_the_token_is_a_peer),
        cmocka_unit_test(a_peer_gets_in_through_a_crowd),
        cmocka_unit_test(a_full_queue_costs_a_retry),
        cmocka_unit_test(no_descriptors_cost_a_retry),
        cmocka_unit_test(one_that_was_shown_out_calls_again),
        cmocka_unit_test(a_black_hole_is_given_up),
        cmocka_unit_test(a_listener_without_the_token_gets_nothing),
        cmocka_unit_test(one_without_memory_says_so),
        cmocka_unit_test(one_that_only_calls_is_answered_where_it_called),
        cmocka_unit_test(who_cannot_be_called_is_answered_where_it_called),
        cmocka_unit_test(a_fault_does_not_wait_for_a_call),
        cmocka_unit_test(one_whose_call_never_comes_is_given_up),
        cmocka_unit_test(two_that_only_call_never_meet),
        cmocka_unit_test(a_worker_listens_where_it_calls_from),
        cmocka_unit_test(an_attempt_that_failed_leaves_no_listener),
    };
    return cmocka_run_group_tests_name("cluster/worker", tests, NULL, NULL);
}
