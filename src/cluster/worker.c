/*
 * The worker's world: links to the coordinator and to peers.
 *
 * A link is a connection and whose it is. Links are in one list, for flushing and closing; a peer
 * points to its two. A peer that cannot be reached from within send is reported by a timer of no
 * delay, because a world never calls back from an operation.
 */
#include "cluster/worker.h"

#include "cluster/preparing.h"
#include "cluster/real.h"
#include "cluster/wire.h"
#include "net/conn.h"
#include "net/listener.h"
#include "net/socket.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SECOND 1000000000ull
#define HELLO_NS (30 * SECOND)
#define LINGER_NS (1 * SECOND)
#define JOBS_NS (SECOND / 2) /* after the linger: 1.5 s in all */
#define FLUSH_NS (2 * SECOND)
#define SWEEP_MS 100
#define STRANGERS_MAX 256

enum link_kind { COORDINATOR, OUT, IN, STRANGER };

struct link {
    struct culm_worker *worker;
    struct culm_conn *conn;
    struct link *next, **slot;
    enum link_kind kind;
    int32_t node;      /* of OUT and IN */
    uint64_t since_ns; /* of a stranger */
};

struct peer {
    int port; /* 0: not known */
    struct link *out, *in;
    bool lost; /* reported, or about to be */
    bool told;
};

struct culm_worker {
    struct culm_real real; /* first */
    struct culm_worker_options o;
    struct culm_worker_ready ready;
    struct culm_pool *brief_pool;
    struct culm_blob *brief; /* NULL: nothing */
    struct culm_preparing *preparing;
    struct culm_faults faults;
    pthread_t thread;
    int coordinator_fd, listen_fd, port; /* -1: none, or a connection's already */
    struct link *links, *coordinator;
    struct peer *peer; /* [peer_capacity], by node */
    int32_t peer_capacity;
    int32_t strangers;
    struct culm_listener listener;
    uv_timer_t report; /* armed when a peer is lost and not told */
    uv_timer_t sweep;  /* armed while there are strangers */
    bool accepting;
};

static struct culm_worker *self(struct culm_world *world) { return (struct culm_worker *)world; }

static void end(struct culm_worker *worker, enum culm_status status, const char *text) {
    struct culm_error error;
    culm_error_set(&error, status, "%s", text);
    culm_real_fail(&worker->real, &error);
}

/* --- links --- */

static const struct culm_conn_ops link_ops;

/* Takes the socket. NULL: out of memory or descriptors. */
static struct link *link_new(struct culm_worker *worker, enum link_kind kind, int32_t node,
                             int take_fd, bool connecting) {
    struct link *link = calloc(1, sizeof *link);
    if (!link) {
        close(take_fd);
        return NULL;
    }
    bool trusted = kind == COORDINATOR;
    struct culm_conn_options options = {
        .loop = &worker->real.loop,
        .pool = worker->ready.pool,
        .meta_max = trusted ? CULM_FRAME_META_MAX : CULM_WIRE_HELLO_MAX,
        .payload_max = trusted ? worker->ready.payload_max : 0,
        .ops = &link_ops,
        .ctx = link,
    };
    *link = (struct link){.worker = worker, .kind = kind, .node = node};
    if (culm_conn_new(&options, take_fd, connecting, &link->conn, NULL) != CULM_OK) {
        free(link);
        return NULL;
    }
    link->next = worker->links;
    link->slot = &worker->links;
    if (link->next) {
        link->next->slot = &link->next;
    }
    worker->links = link;
    return link;
}

static void link_free(struct link *link) {
    struct culm_worker *worker = link->worker;
    if (link->kind == OUT) {
        worker->peer[link->node].out = NULL;
    } else if (link->kind == IN) {
        worker->peer[link->node].in = NULL;
    } else if (link->kind == COORDINATOR) {
        worker->coordinator = NULL;
    } else {
        worker->strangers--;
    }
    *link->slot = link->next;
    if (link->next) {
        link->next->slot = link->slot;
    }
    culm_conn_close(link->conn);
    free(link);
}

/* --- peers --- */

/* NULL: out of memory, or an impossible id. */
static struct peer *peer_of(struct culm_worker *worker, int32_t node) {
    if (node < 0 || node >= CULM_WIRE_NODES_MAX) {
        return NULL;
    }
    if (node >= worker->peer_capacity) {
        int32_t capacity = worker->peer_capacity ? worker->peer_capacity : 16;
        while (capacity <= node) {
            capacity *= 2;
        }
        struct peer *peer = realloc(worker->peer, (size_t)capacity * sizeof *peer);
        if (!peer) {
            return NULL;
        }
        memset(peer + worker->peer_capacity, 0,
               (size_t)(capacity - worker->peer_capacity) * sizeof *peer);
        worker->peer = peer;
        worker->peer_capacity = capacity;
    }
    return &worker->peer[node];
}

static void peer_tell(struct culm_worker *worker, int32_t node) {
    static const struct culm_peer_info info = {.name = "", .signature = ""};
    struct peer *peer = &worker->peer[node];
    /* What it sent before its end is older than its end. */
    if (peer->in) {
        culm_conn_pump(peer->in->conn); /* may free the link */
        peer = &worker->peer[node];
    }
    if (peer->told) {
        return;
    }
    peer->lost = peer->told = true;
    if (peer->in) {
        link_free(peer->in);
    }
    if (peer->out) {
        link_free(peer->out);
    }
    if (culm_real_listens(&worker->real)) {
        worker->real.actor_ops->peer(worker->real.actor, node, CULM_PEER_EOF, &info);
    }
}

static void on_report(uv_timer_t *timer) {
    struct culm_worker *worker = timer->data;
    for (int32_t node = 0; node < worker->peer_capacity; node++) {
        if (worker->peer[node].lost && !worker->peer[node].told) {
            peer_tell(worker, node);
        }
    }
}

static void hello_to(struct culm_worker *worker, struct culm_conn *conn, uint16_t type) {
    struct culm_hello hello = {
        .node = worker->o.node, .port = worker->port, .pid = (int64_t)getpid()};
    snprintf(hello.token, sizeof hello.token, "%s", worker->o.token);
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_hello_encode(&hello, &meta);
    if (!meta.failed) {
        const struct culm_message message = {
            .type = type, .meta = meta.data, .meta_bytes = (uint32_t)meta.len};
        culm_conn_send(conn, &message);
    }
    culm_buf_release(&meta);
}

static void peer_open(struct culm_worker *worker, int32_t node) {
    struct peer *peer = &worker->peer[node];
    int fd;
    if (culm_socket_connect("127.0.0.1", peer->port, &fd, NULL) == CULM_OK) {
        peer->out = link_new(worker, OUT, node, fd, true);
    }
    if (peer->out) {
        hello_to(worker, peer->out->conn, CULM_WIRE_PEER_HELLO);
    } else {
        peer->lost = true;
        uv_timer_start(&worker->report, on_report, 0, 0);
    }
}

/* --- what is received --- */

static void read_book(struct culm_worker *worker, const struct culm_message *message) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    struct culm_address address;
    while (culm_address_decode(&reader, &address)) {
        struct peer *peer = peer_of(worker, address.node);
        if (!peer) {
            end(worker, CULM_ERR_MEMORY, "out of memory for an address book");
            return;
        }
        peer->port = address.port;
    }
    if (reader.failed) {
        end(worker, CULM_ERR_FORMAT, "the coordinator sent an address book that cannot be read");
    }
}

static void read_refusal(struct culm_worker *worker, const struct culm_message *message) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    char text[CULM_WIRE_TEXT_MAX];
    struct culm_error error;
    culm_read_string(&reader, text, sizeof text);
    culm_error_set(&error, CULM_ERR_CLOSED, "refused: %s", text);
    culm_real_fail(&worker->real, &error);
}

/* False: not one of ours; the link is to be closed. */
static bool admit(struct link *link, const struct culm_message *message) {
    struct culm_worker *worker = link->worker;
    struct culm_hello hello;
    if (message->type != CULM_WIRE_PEER_HELLO || !culm_hello_decode(message, &hello) ||
        !culm_token_equal(hello.token, worker->o.token)) {
        return false;
    }
    struct peer *peer = peer_of(worker, hello.node);
    if (!peer || peer->in || peer->lost) {
        return false;
    }
    peer->in = link;
    peer->port = hello.port; /* the book's entry may still be on its way */
    link->kind = IN;
    worker->strangers--;
    link->node = hello.node;
    culm_conn_limits(link->conn, CULM_FRAME_META_MAX, worker->ready.payload_max);
    return true;
}

static void on_message(void *ctx, struct culm_conn *conn, const struct culm_message *message) {
    struct link *link = ctx;
    struct culm_worker *worker = link->worker;
    (void)conn;
    if (!culm_real_listens(&worker->real)) {
        return;
    }
    if (link->kind == STRANGER) {
        if (!admit(link, message)) {
            link_free(link);
        }
    } else if (message->type < CULM_WIRE_FIRST) {
        int32_t from = link->kind == COORDINATOR ? CULM_COORDINATOR : link->node;
        worker->real.actor_ops->message(worker->real.actor, from, message);
    } else if (link->kind == COORDINATOR && message->type == CULM_WIRE_BOOK) {
        read_book(worker, message);
    } else if (link->kind == COORDINATOR && message->type == CULM_WIRE_REFUSED) {
        read_refusal(worker, message);
    }
}

static void on_closed(void *ctx, struct culm_conn *conn, const struct culm_error *why) {
    struct link *link = ctx;
    struct culm_worker *worker = link->worker;
    enum link_kind kind = link->kind;
    int32_t node = link->node;
    (void)conn;
    link_free(link);
    if (why->status == CULM_ERR_MEMORY) {
        culm_real_fail(&worker->real, why);
    } else if (kind == COORDINATOR) {
        struct culm_error error = *why;
        error.status = CULM_ERR_CLOSED;
        culm_error_prefix(&error, "the coordinator is gone");
        culm_real_fail(&worker->real, &error);
    } else if (kind != STRANGER) {
        peer_tell(worker, node);
    }
}

static const struct culm_conn_ops link_ops = {on_message, on_closed};

static void on_sweep(uv_timer_t *timer) {
    struct culm_worker *worker = timer->data;
    uint64_t now = culm_clock_ns(), limit = CULM_WIRE_HELLO_NS(worker->o.hello_limit_ms);
    for (struct link *link = worker->links, *next; link; link = next) {
        next = link->next;
        if (link->kind == STRANGER && now > link->since_ns + limit) {
            link_free(link);
        }
    }
    if (!worker->strangers) {
        uv_timer_stop(timer);
    }
}

static void on_accepted(void *ctx, int take_fd) {
    struct culm_worker *worker = ctx;
    struct link *link = NULL;
    if (worker->strangers < STRANGERS_MAX) {
        link = link_new(worker, STRANGER, -1, take_fd, false);
    } else {
        close(take_fd);
    }
    if (link) {
        link->since_ns = culm_clock_ns();
        if (!worker->strangers++) {
            uv_timer_start(&worker->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
        }
    }
}

/* --- the table --- */

static void flush_all(struct culm_worker *worker) {
    uint64_t deadline = culm_clock_ns() + FLUSH_NS;
    for (struct link *link = worker->links; link; link = link->next) {
        (void)culm_conn_flush(link->conn, 0, deadline);
    }
}

/* Everything before this frame, and half of it, leaves; then the blow. One that only froze goes on
 * with the other half. */
static void send_half(struct culm_worker *worker, struct culm_conn *conn,
                      const struct culm_message *message, const struct culm_worker_fault *fault) {
    flush_all(worker);
    culm_conn_cork(conn, true);
    culm_conn_send(conn, message);
    (void)culm_conn_flush(conn, culm_conn_queued(conn) / 2, culm_clock_ns() + FLUSH_NS);
    culm_conn_cork(conn, false);
    culm_faults_fire(&worker->faults, fault);
}

static void worker_send(struct culm_world *world, int32_t node,
                        const struct culm_message *message) {
    struct culm_worker *worker = self(world);
    struct link *link = worker->coordinator;
    assert(message->type < CULM_WIRE_FIRST);
    if (node != CULM_COORDINATOR) {
        struct peer *peer = peer_of(worker, node);
        if (peer && peer->port && !peer->lost && !peer->out && worker->accepting) {
            peer_open(worker, node);
        }
        link = peer ? peer->out : NULL;
    }
    if (!link || worker->real.left) {
        return;
    }
    const struct culm_worker_fault *fault =
        message->payload && message->payload_bytes ? culm_faults_claim_send(&worker->faults) : NULL;
    if (fault) {
        send_half(worker, link->conn, message, fault);
    } else {
        culm_conn_send(link->conn, message);
    }
}

static void worker_fault(struct culm_world *world, const struct culm_fault_point *point) {
    struct culm_worker *worker = self(world);
    const struct culm_worker_fault *fault = culm_faults_claim(&worker->faults, point);
    if (fault) {
        if (pthread_equal(pthread_self(), worker->thread)) {
            flush_all(worker);
        }
        culm_faults_fire(&worker->faults, fault);
    }
}

static void worker_publish(struct culm_world *world, json_t *take_event) {
    (void)world;
    json_decref(take_event);
}

static void worker_spawn(struct culm_world *world) { (void)world; }

static void worker_kill(struct culm_world *world, int32_t node) {
    (void)world;
    (void)node;
}

static const struct culm_world_ops worker_ops = {
    .size = sizeof worker_ops,
    .now_ns = culm_real_now_ns,
    .send = worker_send,
    .timer = culm_real_timer,
    .run = culm_real_run,
    .io = culm_real_io,
    .fault = worker_fault,
    .publish = worker_publish,
    .spawn = worker_spawn,
    .kill = worker_kill,
    .leave = culm_real_leave,
};

/* --- joining --- */

/* Before the loop runs. */
static enum culm_status say(struct culm_worker *worker, uint16_t type, const struct culm_buf *meta,
                            uint64_t deadline_ns, struct culm_error *error) {
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    if (meta->failed) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a message");
    }
    culm_frame_header_encode(
        &(struct culm_message){.type = type, .meta_bytes = (uint32_t)meta->len, .meta = meta->data},
        header);
    enum culm_status status =
        culm_socket_write(worker->coordinator_fd, header, sizeof header, deadline_ns, error);
    return status == CULM_OK ? culm_socket_write(worker->coordinator_fd, meta->data, meta->len,
                                                 deadline_ns, error)
                             : status;
}

static enum culm_status say_hello(struct culm_worker *worker, uint64_t deadline_ns,
                                  struct culm_error *error) {
    struct culm_hello hello = {
        .node = worker->o.node, .port = worker->port, .pid = (int64_t)getpid()};
    snprintf(hello.token, sizeof hello.token, "%s", worker->o.token);
    snprintf(hello.name, sizeof hello.name, "%s", worker->o.name ? worker->o.name : "");
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_hello_encode(&hello, &meta);
    enum culm_status status = say(worker, CULM_WIRE_HELLO, &meta, deadline_ns, error);
    culm_buf_release(&meta);
    return status;
}

/* Reads the rest of a frame of which the header was read: it ends where the next begins. */
static enum culm_status hear_rest(struct culm_worker *worker, struct culm_frame_reader *reader,
                                  uint64_t deadline_ns, const struct culm_message **ret_answer,
                                  struct culm_error *error) {
    uint8_t bytes[CULM_WIRE_HELLO_MAX], *at;
    size_t rest = reader->message.meta_bytes, used;
    enum culm_status status = CULM_OK;
    if (rest) {
        status = culm_socket_read(worker->coordinator_fd, bytes, rest, deadline_ns, error);
    }
    if (status == CULM_OK && rest) {
        status = culm_frame_reader_feed(reader, bytes, rest, &used, ret_answer, error);
    }
    while (status == CULM_OK && (rest = culm_frame_reader_space(reader, &at)) > 0) {
        status = culm_socket_read(worker->coordinator_fd, at, rest, deadline_ns, error);
        if (status == CULM_OK) {
            status = culm_frame_reader_wrote(reader, rest, ret_answer, error);
        }
    }
    return status;
}

/* Reads exactly one frame, so that what follows it is left for the loop. */
static enum culm_status hear_answer(struct culm_worker *worker, uint64_t deadline_ns,
                                    int64_t *ret_pid, struct culm_error *error) {
    uint8_t bytes[CULM_FRAME_HEADER_BYTES];
    struct culm_frame_reader reader;
    const struct culm_message *answer = NULL;
    size_t used;
    culm_frame_reader_init(&reader, worker->brief_pool, CULM_WIRE_HELLO_MAX, CULM_WIRE_BRIEF_MAX);
    enum culm_status status = culm_socket_read(worker->coordinator_fd, bytes,
                                               CULM_FRAME_HEADER_BYTES, deadline_ns, error);
    if (status == CULM_OK) {
        status =
            culm_frame_reader_feed(&reader, bytes, CULM_FRAME_HEADER_BYTES, &used, &answer, error);
    }
    if (status == CULM_OK && !answer) {
        status = hear_rest(worker, &reader, deadline_ns, &answer, error);
    }
    if (status == CULM_OK) {
        struct culm_reader meta = culm_reader_of(answer->meta, answer->meta_bytes);
        char text[CULM_WIRE_TEXT_MAX];
        if (answer->type == CULM_WIRE_WELCOME) {
            *ret_pid = (int64_t)culm_read_u64(&meta);
            worker->brief = culm_blob_ref(answer->payload);
        } else if (answer->type == CULM_WIRE_REFUSED) {
            culm_read_string(&meta, text, sizeof text);
            status = culm_error_set(error, CULM_ERR_CLOSED, "refused: %s", text);
        } else {
            status =
                culm_error_set(error, CULM_ERR_FORMAT, "answer of unknown type %04x", answer->type);
        }
    }
    culm_frame_reader_release(&reader);
    return status;
}

/* The coordinator was alive when it answered; if it is our parent still, the kernel tells us of its
 * end from here on, and otherwise its connection does. */
static enum culm_status die_with_parent(int64_t coordinator_pid, struct culm_error *error) {
    if (getppid() != (pid_t)coordinator_pid) {
        return CULM_OK;
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != (pid_t)coordinator_pid) {
        return culm_error_set(error, CULM_ERR_CLOSED, "the coordinator is gone");
    }
    return CULM_OK;
}

static enum culm_status join(struct culm_worker *worker, struct culm_error *error) {
    uint64_t deadline = culm_clock_ns() + HELLO_NS;
    int64_t pid = 0;
    enum culm_status status =
        culm_socket_listen("127.0.0.1", &worker->listen_fd, &worker->port, error);
    if (status == CULM_OK) {
        status =
            culm_socket_connect(worker->o.host, worker->o.port, &worker->coordinator_fd, error);
    }
    if (status == CULM_OK) {
        status = say_hello(worker, deadline, error);
    }
    if (status == CULM_OK) {
        status = hear_answer(worker, deadline, &pid, error);
    }
    if (status == CULM_OK) {
        status = die_with_parent(pid, error);
    }
    if (status == CULM_OK) {
        status = culm_preparing_start(worker->coordinator_fd, &worker->preparing, error);
    }
    if (status != CULM_OK && error) {
        culm_error_prefix(error, "join the coordinator at %s, port %d", worker->o.host,
                          worker->o.port);
    }
    return status;
}

/* --- life --- */

enum culm_status culm_worker_new(const struct culm_worker_options *options,
                                 struct culm_worker **ret_worker, struct culm_error *error) {
    struct culm_worker *worker = calloc(1, sizeof *worker);
    if (!worker) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a worker");
    }
    worker->o = *options;
    worker->thread = pthread_self();
    worker->coordinator_fd = worker->listen_fd = -1;
    worker->brief_pool = culm_pool_new(2 * CULM_WIRE_BRIEF_MAX);
    if (!worker->brief_pool) {
        free(worker);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a worker");
    }
    signal(SIGINT, SIG_IGN);
    enum culm_status status = culm_faults_init(&worker->faults, options->faults,
                                               options->fault_count, options->fault_fd, error);
    if (status != CULM_OK) {
        culm_pool_free(worker->brief_pool);
        free(worker);
        return status;
    }
    status = culm_real_init(&worker->real, &worker_ops, error);
    if (status != CULM_OK) {
        culm_faults_release(&worker->faults);
        culm_pool_free(worker->brief_pool);
        free(worker);
        return status;
    }
    uv_timer_init(&worker->real.loop, &worker->report);
    uv_timer_init(&worker->real.loop, &worker->sweep);
    worker->report.data = worker->sweep.data = worker;
    status = join(worker, error);
    if (status != CULM_OK) {
        culm_worker_free(worker);
        return status;
    }
    *ret_worker = worker;
    return CULM_OK;
}

struct culm_world *culm_worker_world(struct culm_worker *worker) {
    return &worker->real.world;
}

const void *culm_worker_brief(const struct culm_worker *worker, size_t *ret_len) {
    *ret_len = worker->brief ? worker->brief->size_bytes : 0;
    return worker->brief ? worker->brief->data : NULL;
}

static enum culm_status say_ready(struct culm_worker *worker, const struct culm_ready *ready,
                                  struct culm_error *error) {
    culm_preparing_stop(worker->preparing);
    worker->preparing = NULL;
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_ready_encode(ready, &meta);
    enum culm_status status =
        say(worker, CULM_WIRE_READY, &meta, culm_clock_ns() + HELLO_NS, error);
    culm_buf_release(&meta);
    return status;
}

enum culm_status culm_worker_ready(struct culm_worker *worker,
                                   const struct culm_worker_ready *ready,
                                   struct culm_error *error) {
    struct culm_ready said = {.status = CULM_OK};
    worker->ready = *ready;
    snprintf(said.signature, sizeof said.signature, "%s", ready->signature ? ready->signature : "");
    enum culm_status status = say_ready(worker, &said, error);
    if (status != CULM_OK && error) {
        culm_error_prefix(error, "tell the coordinator that this worker is ready");
    }
    return status;
}

void culm_worker_decline(struct culm_worker *worker, const struct culm_error *why) {
    struct culm_ready said = {.status = why->status ? why->status : CULM_ERR_INTERNAL};
    snprintf(said.text, sizeof said.text, "%s", why->text);
    (void)say_ready(worker, &said, NULL);
}

static void open_links(struct culm_worker *worker) {
    int fd = worker->coordinator_fd;
    worker->coordinator_fd = -1;
    worker->coordinator = link_new(worker, COORDINATOR, -1, fd, false);
    worker->accepting = culm_listener_init(&worker->listener, &worker->real.loop, worker->listen_fd,
                                           on_accepted, worker, NULL) == CULM_OK;
    if (!worker->coordinator || !worker->accepting) {
        end(worker, CULM_ERR_MEMORY, "out of memory or descriptors for connections");
        return;
    }
    culm_listener_start(&worker->listener);
}

static void stop_jobs(struct culm_worker *worker) {
    uint64_t deadline = culm_clock_ns() + JOBS_NS;
    (void)culm_jobs_stop(worker->real.compute, 0); /* both are asked before one is waited for */
    bool io = culm_jobs_stop(worker->real.io, deadline);
    if (!culm_jobs_stop(worker->real.compute, deadline) || !io) {
        _exit(worker->real.exit_code);
    }
}

int culm_worker_run(struct culm_worker *worker, const struct culm_actor_ops *ops, void *actor,
                    struct culm_error *ret_error) {
    struct culm_real *real = &worker->real;
    real->actor_ops = ops;
    real->actor = actor;
    open_links(worker);
    if (!real->left) {
        ops->start(actor);
    }
    while (!real->left) {
        uv_run(&real->loop, UV_RUN_DEFAULT);
    }
    if (worker->coordinator) {
        culm_conn_linger(worker->coordinator->conn, culm_clock_ns() + LINGER_NS);
    }
    stop_jobs(worker);
    if (ret_error) {
        *ret_error = real->error;
    }
    return real->exit_code;
}

void culm_worker_free(struct culm_worker *worker) {
    if (!worker) {
        return;
    }
    culm_preparing_stop(worker->preparing);
    (void)culm_jobs_stop(worker->real.compute, CULM_NEVER);
    (void)culm_jobs_stop(worker->real.io, CULM_NEVER);
    while (worker->links) {
        link_free(worker->links);
    }
    if (worker->accepting) {
        culm_listener_close(&worker->listener);
    }
    uv_close((uv_handle_t *)&worker->report, NULL);
    uv_close((uv_handle_t *)&worker->sweep, NULL);
    culm_real_release(&worker->real);
    if (worker->coordinator_fd >= 0) {
        close(worker->coordinator_fd);
    }
    if (worker->listen_fd >= 0) {
        close(worker->listen_fd);
    }
    culm_faults_release(&worker->faults);
    culm_blob_unref(worker->brief);
    culm_pool_free(worker->brief_pool);
    free(worker->peer);
    free(worker);
}
