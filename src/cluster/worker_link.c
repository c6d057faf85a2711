/*
 * Links of a worker: to the coordinator, to and from peers, and strangers.
 *
 * A link is a connection and whose it is. Links are in one list, for flushing and closing; a peer
 * points to its two. One that is to be sent to is *dialed* until it has let us in; frames for it
 * are held meanwhile. A peer that cannot be reached is reported by a timer of no delay, because a
 * world never calls back from an operation.
 */
#include "cluster/worker_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_NS (2 * SECOND)
#define SWEEP_MS 100
#define STRANGERS_MAX 256
#define DIAL_MS 20
#define DIAL_LIMIT_MS 6000
#define PAUSE_NS (SECOND / 100)
#define PAUSE_MAX_NS (SECOND / 2)

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
        worker->peer[link->node].open = false;
    } else if (link->kind == IN) {
        worker->peer[link->node].in = NULL;
    } else if (link->kind == COORDINATOR) {
        worker->coordinator = NULL;
    } else {
        culm_guests_remove(&worker->strangers, &link->guest);
    }
    *link->slot = link->next;
    if (link->next) {
        link->next->slot = link->slot;
    }
    culm_conn_close(link->conn);
    free(link);
}

static void say(struct link *link, uint16_t type, struct culm_buf *meta) {
    if (!meta->failed) {
        const struct culm_message message = {
            .type = type, .meta = meta->data, .meta_bytes = (uint32_t)meta->len};
        culm_conn_send(link->conn, &message);
    }
    culm_buf_release(meta);
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

/* False: out of memory. */
static bool peer_at(struct peer *peer, const char *address) {
    if (peer->address && !strcmp(peer->address, address)) {
        return true;
    }
    free(peer->address);
    peer->address = strdup(address);
    return peer->address != NULL;
}

static void held_drop(struct peer *peer) {
    struct held *held = peer->held;
    peer->held = held->next;
    peer->held_last = peer->held ? peer->held_last : NULL;
    peer->held_bytes -= sizeof *held + held->message.meta_bytes;
    culm_blob_unref(held->message.payload);
    free(held);
}

static void dial_stop(struct culm_worker *worker, struct peer *peer) {
    if (peer->dialing) {
        peer->dialing = false;
        if (!--worker->dialing) {
            uv_timer_stop(&worker->dial);
        }
    }
    while (peer->held) {
        held_drop(peer);
    }
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
    dial_stop(worker, peer);
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

/* --- dialing --- */

static void give_up(struct culm_worker *worker, struct peer *peer) {
    peer->lost = true;
    dial_stop(worker, peer);
    uv_timer_start(&worker->report, on_report, 0, 0);
}

static void dial_failed(struct culm_worker *worker, int32_t node, enum culm_status why) {
    struct peer *peer = &worker->peer[node];
    if (why == CULM_ERR_AGAIN || why == CULM_ERR_CLOSED || why == CULM_ERR_MEMORY) {
        peer->again_ns = culm_clock_ns() + peer->pause_ns;
        peer->pause_ns = 2 * peer->pause_ns < PAUSE_MAX_NS ? 2 * peer->pause_ns : PAUSE_MAX_NS;
    } else {
        give_up(worker, peer);
    }
}

static void dial(struct culm_worker *worker, int32_t node) {
    struct peer *peer = &worker->peer[node];
    uint8_t nonce[CULM_NONCE_BYTES];
    int fd;
    enum culm_status status = culm_secret_random(nonce, sizeof nonce, NULL);
    if (status == CULM_OK) {
        status = culm_socket_connect(peer->address, &fd, NULL);
    }
    if (status == CULM_OK) {
        peer->out = link_new(worker, OUT, node, fd, true);
        status = peer->out ? CULM_OK : CULM_ERR_MEMORY;
    }
    if (status != CULM_OK) {
        dial_failed(worker, node, status);
        return;
    }
    struct culm_buf meta;
    culm_handshake_call(&peer->out->handshake, worker->o.token, worker->o.node, node, nonce);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_hello(&peer->out->handshake, &meta);
    say(peer->out, CULM_WIRE_HELLO, &meta);
}

static void on_dial(uv_timer_t *timer) {
    struct culm_worker *worker = timer->data;
    uint64_t now = culm_clock_ns();
    for (int32_t node = 0; node < worker->peer_capacity; node++) {
        struct peer *peer = &worker->peer[node];
        if (peer->dialing && now > peer->give_up_ns) {
            give_up(worker, peer);
        } else if (peer->dialing && !peer->out && now >= peer->again_ns) {
            dial(worker, node);
        }
    }
}

bool culm_worker_peer_dial(struct culm_worker *worker, int32_t node) {
    struct peer *peer = peer_of(worker, node);
    if (!peer || !peer->address || peer->lost || !worker->accepting) {
        return false;
    }
    if (!peer->open && !peer->dialing) {
        int64_t limit_ms =
            worker->ready.dial_limit_ms ? worker->ready.dial_limit_ms : DIAL_LIMIT_MS;
        peer->dialing = true;
        peer->give_up_ns = culm_clock_ns() + (uint64_t)limit_ms * 1000000;
        peer->pause_ns = PAUSE_NS;
        if (!worker->dialing++) {
            uv_timer_start(&worker->dial, on_dial, DIAL_MS, DIAL_MS);
        }
        dial(worker, node);
    }
    return !worker->peer[node].lost;
}

struct culm_conn *culm_worker_peer_conn(struct culm_worker *worker, int32_t node) {
    const struct peer *peer = &worker->peer[node];
    return peer->open ? peer->out->conn : NULL;
}

void culm_worker_peer_hold(struct culm_worker *worker, int32_t node,
                           const struct culm_message *message) {
    struct peer *peer = &worker->peer[node];
    size_t bytes = sizeof(struct held) + message->meta_bytes;
    struct held *held =
        peer->held_bytes + bytes <= CULM_CONN_HEADS_MAX && !peer->lost ? malloc(bytes) : NULL;
    if (!held) {
        if (!peer->lost) {
            give_up(worker, peer);
        }
        return;
    }
    *held = (struct held){.message = *message};
    held->message.meta = (const uint8_t *)(held + 1);
    if (message->meta_bytes) {
        memcpy(held + 1, message->meta, message->meta_bytes);
    }
    if (message->payload) {
        culm_blob_ref(message->payload);
    }
    *(peer->held ? &peer->held_last->next : &peer->held) = held;
    peer->held_last = held;
    peer->held_bytes += bytes;
}

static void opened(struct culm_worker *worker, struct peer *peer) {
    peer->open = true;
    while (peer->held) {
        culm_conn_send(peer->out->conn, &peer->held->message);
        held_drop(peer);
    }
    dial_stop(worker, peer);
}

/* What a peer says to the one who dials it. */
static void answered(struct link *link, const struct culm_message *message) {
    struct culm_worker *worker = link->worker;
    int32_t node = link->node;
    if (worker->peer[node].open) {
        return;
    }
    if (link->handshake.greeted) {
        if (message->type == CULM_WIRE_WELCOME) {
            opened(worker, &worker->peer[node]);
        }
        return;
    }
    enum culm_status status = culm_handshake_challenged(&link->handshake, message, NULL);
    if (status != CULM_OK) {
        link_free(link);
        dial_failed(worker, node, status);
        return;
    }
    struct culm_introduction introduction = {0};
    struct culm_buf meta;
    memcpy(introduction.address, worker->address, sizeof introduction.address);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_proof(&link->handshake, &introduction, &meta);
    say(link, CULM_WIRE_PROOF, &meta);
}

void culm_worker_peer_await(struct culm_worker *worker, int32_t node, uint64_t deadline_ns) {
    const struct peer *peer = &worker->peer[node];
    while (peer->dialing && culm_clock_ns() < deadline_ns) {
        if (peer->out) {
            if (!culm_conn_hear(peer->out->conn, deadline_ns)) {
                return;
            }
        } else {
            const struct timespec rest = {.tv_nsec = PAUSE_NS};
            (void)nanosleep(&rest, NULL);
            dial(worker, node);
        }
        peer = &worker->peer[node];
    }
}

void culm_worker_flush_all(struct culm_worker *worker) {
    uint64_t deadline = culm_clock_ns() + FLUSH_NS;
    for (int32_t node = 0; node < worker->peer_capacity; node++) {
        culm_worker_peer_await(worker, node, deadline);
    }
    for (struct link *link = worker->links; link; link = link->next) {
        (void)culm_conn_flush(link->conn, 0, deadline);
    }
}

/* --- what is received --- */

static void read_book(struct culm_worker *worker, const struct culm_message *message) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    struct culm_address address;
    while (culm_address_decode(&reader, &address)) {
        struct peer *peer = peer_of(worker, address.node);
        if (!peer || !peer_at(peer, address.text)) {
            culm_worker_end(worker, CULM_ERR_MEMORY, "out of memory for an address book");
            return;
        }
    }
    if (reader.failed) {
        culm_worker_end(worker, CULM_ERR_FORMAT,
                        "the coordinator sent an address book that cannot be read");
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

static void challenge(struct link *link) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_challenge(&link->handshake, &meta);
    say(link, CULM_WIRE_CHALLENGE, &meta);
}

/* False: not one of ours; the link is to be closed. */
static bool admit(struct link *link, const struct culm_message *message) {
    struct culm_worker *worker = link->worker;
    struct culm_introduction introduction;
    struct culm_buf meta;
    if (!link->handshake.greeted) {
        if (culm_handshake_greeted(&link->handshake, message, NULL) != CULM_OK) {
            return false;
        }
        challenge(link);
        return true;
    }
    if (culm_handshake_proved(&link->handshake, message, &introduction, NULL) != CULM_OK) {
        return false;
    }
    int32_t node = link->handshake.caller;
    struct peer *peer = node == worker->o.node ? NULL : peer_of(worker, node);
    if (!peer || peer->in || peer->lost ||
        !peer_at(peer, introduction.address)) { /* the book's entry may still be on its way */
        return false;
    }
    culm_guests_remove(&worker->strangers, &link->guest);
    peer->in = link;
    link->kind = IN;
    link->node = node;
    culm_conn_limits(link->conn, CULM_FRAME_META_MAX, worker->ready.payload_max);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    say(link, CULM_WIRE_WELCOME, &meta);
    return true;
}

static void on_message(void *ctx, struct culm_conn *conn, const struct culm_message *message) {
    struct link *link = ctx;
    struct culm_worker *worker = link->worker;
    (void)conn;
    if (link->kind == COORDINATOR) {
        worker->heard_ns = culm_clock_ns();
    }
    if (!culm_real_listens(&worker->real)) {
        return;
    }
    if (link->kind == STRANGER) {
        if (!admit(link, message)) {
            link_free(link);
        }
    } else if (link->kind == OUT) {
        answered(link, message);
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
    bool open = kind != OUT || worker->peer[node].open;
    struct culm_error error = *why;
    (void)conn;
    link_free(link);
    if (kind == STRANGER) {
        return;
    }
    if (!open) {
        dial_failed(worker, node, why->status);
    } else if (why->status == CULM_ERR_MEMORY) {
        if (kind == COORDINATOR) {
            culm_error_prefix(&error, "receive from the coordinator");
        } else {
            culm_error_prefix(&error, "receive from node %d", node);
        }
        culm_worker_fail(worker, &error);
    } else if (kind == COORDINATOR) {
        error.status = CULM_ERR_CLOSED;
        culm_error_prefix(&error, "the coordinator is gone");
        culm_real_fail(&worker->real, &error);
    } else {
        peer_tell(worker, node);
    }
}

static const struct culm_conn_ops link_ops = {on_message, on_closed};

/* --- strangers --- */

static bool stranger_evict(void *ctx) {
    struct culm_worker *worker = ctx;
    if (worker->strangers.oldest) {
        link_free((struct link *)worker->strangers.oldest);
        return true;
    }
    return false;
}

static void on_sweep(uv_timer_t *timer) {
    struct culm_worker *worker = timer->data;
    uint64_t now = culm_clock_ns(), limit = CULM_WIRE_HELLO_NS(worker->o.hello_limit_ms);
    while (worker->strangers.oldest && now > worker->strangers.oldest->since_ns + limit) {
        (void)stranger_evict(worker);
    }
    if (!worker->strangers.count) {
        uv_timer_stop(timer);
    }
}

static void on_accepted(void *ctx, int take_fd) {
    struct culm_worker *worker = ctx;
    uint8_t nonce[CULM_NONCE_BYTES];
    if (worker->strangers.count >= STRANGERS_MAX) {
        (void)stranger_evict(worker);
    }
    if (culm_secret_random(nonce, sizeof nonce, NULL) != CULM_OK) {
        close(take_fd);
        return;
    }
    struct link *link = link_new(worker, STRANGER, -1, take_fd, false);
    if (link) {
        culm_handshake_listen(&link->handshake, worker->o.token, worker->o.node, nonce);
        culm_guests_add(&worker->strangers, &link->guest, culm_clock_ns());
        if (worker->strangers.count == 1) {
            uv_timer_start(&worker->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
        }
    }
}

/* --- life --- */

void culm_worker_links_open(struct culm_worker *worker) {
    int fd = worker->coordinator_fd;
    worker->coordinator_fd = -1;
    worker->coordinator = link_new(worker, COORDINATOR, -1, fd, false);
    worker->accepting = culm_listener_init(&worker->listener, &worker->real.loop, worker->listen_fd,
                                           on_accepted, stranger_evict, worker, NULL) == CULM_OK;
    if (!worker->coordinator || !worker->accepting) {
        culm_worker_end(worker, CULM_ERR_MEMORY, "out of memory or descriptors for connections");
        return;
    }
    culm_listener_start(&worker->listener);
}

void culm_worker_links_close(struct culm_worker *worker) {
    while (worker->links) {
        link_free(worker->links);
    }
    if (worker->accepting) {
        culm_listener_close(&worker->listener);
    }
    for (int32_t node = 0; node < worker->peer_capacity; node++) {
        dial_stop(worker, &worker->peer[node]);
        free(worker->peer[node].address);
    }
    free(worker->peer);
}
