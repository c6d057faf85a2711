/* Connections of the coordinator: guests, the proof that makes one a worker's, the address book. */
#include "cluster/coordinator_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GUESTS_MAX 1024

static const struct culm_conn_ops link_ops;

bool culm_host_guest_evict(void *ctx) {
    struct culm_coordinator_host *host = ctx;
    if (host->guests.oldest) {
        culm_host_link_free((struct link *)host->guests.oldest);
        return true;
    }
    return false;
}

void culm_host_accepted(void *ctx, int take_fd) {
    struct culm_coordinator_host *host = ctx;
    uint8_t nonce[CULM_NONCE_BYTES];
    if (host->guests.count >= GUESTS_MAX) {
        (void)culm_host_guest_evict(host);
    }
    struct link *link = calloc(1, sizeof *link);
    if (!link || culm_secret_random(nonce, sizeof nonce, NULL) != CULM_OK) {
        close(take_fd);
        free(link);
        return;
    }
    const struct culm_conn_options options = {
        .loop = &host->real.loop,
        .pool = host->o.pool,
        .meta_max = CULM_WIRE_HELLO_MAX,
        .payload_max = 0,
        .ops = &link_ops,
        .ctx = link,
    };
    link->pid = culm_socket_peer_pid(take_fd);
    if (culm_conn_new(&options, take_fd, false, &link->conn, NULL) != CULM_OK) {
        free(link);
        return;
    }
    culm_handshake_listen(&link->handshake, host->o.token, CULM_COORDINATOR, nonce);
    link->host = host;
    link->next = host->links;
    link->slot = &host->links;
    if (link->next) {
        link->next->slot = &link->next;
    }
    host->links = link;
    culm_guests_add(&host->guests, &link->guest, culm_clock_ns());
}

void culm_host_link_free(struct link *link) {
    if (link->child) {
        link->child->link = NULL;
    } else {
        culm_guests_remove(&link->host->guests, &link->guest);
    }
    *link->slot = link->next;
    if (link->next) {
        link->next->slot = link->slot;
    }
    culm_conn_close(link->conn);
    free(link);
}

void culm_host_guests_sweep(struct culm_coordinator_host *host, uint64_t now_ns) {
    uint64_t limit_ns = CULM_WIRE_HELLO_NS(host->o.hello_limit_ms);
    while (host->guests.oldest && now_ns > host->guests.oldest->since_ns + limit_ns) {
        (void)culm_host_guest_evict(host);
    }
}

/* --- the handshake --- */

static void send_wire(struct culm_conn *conn, uint16_t type, const struct culm_buf *meta) {
    if (!meta->failed) {
        const struct culm_message message = {
            .type = type, .meta = meta->data, .meta_bytes = (uint32_t)meta->len};
        culm_conn_send(conn, &message);
    }
}

static void refuse(struct link *link, const char *text) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_string(&meta, text);
    send_wire(link->conn, CULM_WIRE_REFUSED, &meta);
    culm_buf_release(&meta);
    culm_conn_finish(link->conn); /* it closes when it has read that */
    link->refused = true;
}

/* NULL: refused. */
static struct child *check_proof(struct link *link) {
    struct culm_coordinator_host *host = link->host;
    struct culm_error error;
    int32_t node = link->handshake.caller;
    struct child *child = node < host->child_count ? host->child[node] : NULL;
    if (!child || child->exited || child->link || child->up) {
        culm_error_set(&error, CULM_ERR_CONFIG, "node %d is not awaited", node);
        refuse(link, error.text);
        return NULL;
    }
    if (link->pid && link->pid != child->pid) { /* it knows the token, but is not the one started */
        culm_error_set(&error, CULM_ERR_CONFIG, "node %d is process %lld, not %lld", node,
                       (long long)child->pid, (long long)link->pid);
        culm_host_complain(host, &error);
        refuse(link, error.text);
        return NULL;
    }
    return child;
}

/* The brief as a blob, so that the queue need not copy it. */
static struct culm_blob *make_brief(struct culm_coordinator_host *host, bool *ret_failed) {
    struct culm_blob *blob = NULL;
    struct culm_buf brief;
    culm_buf_init(&brief, CULM_WIRE_BRIEF_MAX);
    *ret_failed = host->o.brief && (!host->o.brief(host->o.ctx, &brief) || brief.failed ||
                                    (brief.len && culm_pool_get(host->o.pool, brief.len, &blob)));
    if (blob) {
        memcpy(blob->data, brief.data, brief.len);
    }
    culm_buf_release(&brief);
    return blob;
}

static void put_address(const struct child *child, struct culm_buf *meta) {
    struct culm_address address = {.node = child->node};
    memcpy(address.text, child->address, sizeof address.text);
    culm_address_encode(&address, meta);
}

static void welcome(struct culm_coordinator_host *host, struct child *child) {
    bool failed;
    struct culm_buf meta;
    struct culm_blob *brief = make_brief(host, &failed);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_u64(&meta, (uint64_t)getpid());
    if (failed || meta.failed) {
        struct culm_error error;
        culm_error_set(&error, CULM_ERR_MEMORY,
                       "out of memory, or over %zu MB, for what workers "
                       "are told",
                       CULM_WIRE_BRIEF_MAX >> 20);
        culm_real_fail(&host->real, &error);
    } else {
        culm_conn_send(child->link->conn,
                       &(struct culm_message){.type = CULM_WIRE_WELCOME,
                                              .meta = meta.data,
                                              .meta_bytes = (uint32_t)meta.len,
                                              .payload = brief,
                                              .payload_bytes = brief ? brief->size_bytes : 0});
    }
    culm_buf_release(&meta);
    culm_blob_unref(brief);
}

/* To the new one the addresses of all, to all that of the new one. */
static void tell_addresses(struct culm_coordinator_host *host, struct child *child) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_FRAME_META_MAX);
    for (struct link *link = host->links; link; link = link->next) {
        if (link->child && link->child->up) {
            put_address(link->child, &meta);
        }
    }
    send_wire(child->link->conn, CULM_WIRE_BOOK, &meta);
    culm_buf_clear(&meta);
    put_address(child, &meta);
    for (struct link *link = host->links; link; link = link->next) {
        if (link->child && link->child->up) {
            send_wire(link->conn, CULM_WIRE_BOOK, &meta);
        }
    }
    culm_buf_release(&meta);
}

static void challenge(struct link *link) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_challenge(&link->handshake, &meta);
    send_wire(link->conn, CULM_WIRE_CHALLENGE, &meta);
    culm_buf_release(&meta);
}

static void admit(struct link *link, const struct culm_message *message) {
    struct culm_coordinator_host *host = link->host;
    struct culm_introduction introduction;
    struct culm_error error;
    if (!link->handshake.greeted) {
        if (culm_handshake_greeted(&link->handshake, message, &error) == CULM_OK) {
            challenge(link);
        } else {
            refuse(link, error.text);
        }
        return;
    }
    if (culm_handshake_proved(&link->handshake, message, &introduction, &error) != CULM_OK) {
        refuse(link, error.text);
        return;
    }
    struct child *child = check_proof(link);
    if (!child) {
        return;
    }
    memcpy(child->address, introduction.address, sizeof child->address);
    culm_guests_remove(&host->guests, &link->guest);
    child->link = link;
    link->child = child;
    child->heard_ns = culm_clock_ns();
    welcome(host, child);
}

/* Of a worker that prepares. */
static void hear_preparing(struct link *link, const struct culm_message *message) {
    struct culm_coordinator_host *host = link->host;
    struct child *child = link->child;
    struct culm_ready ready;
    child->heard_ns = culm_clock_ns();
    if (message->type == CULM_WIRE_PREPARING) {
        return;
    }
    if (message->type != CULM_WIRE_READY || !culm_ready_decode(message, &ready)) {
        refuse(link, "neither preparing nor ready; is this worker of the same version?");
        return;
    }
    if (ready.status != CULM_OK) {
        culm_error_set(&child->why, ready.status, "%s", ready.text);
        struct culm_error error = child->why;
        culm_host_start_error(child, &error);
        child->ended = true; /* its exit says nothing more */
        return;
    }
    if (host->o.signature && strcmp(ready.signature, host->o.signature)) {
        struct culm_error error;
        culm_error_set(
            &error, CULM_ERR_CONFIG,
            "node %d has the signature '%.120s', not '%.120s'; start workers of the same build",
            child->node, ready.signature, host->o.signature);
        culm_host_complain(host, &error);
        child->ended = true;
        refuse(link, error.text);
        return;
    }
    snprintf(child->signature, sizeof child->signature, "%s", ready.signature);
    culm_conn_limits(link->conn, CULM_FRAME_META_MAX, host->o.payload_max);
    tell_addresses(host, child);
    child->up = true;
    culm_host_tell(child, CULM_PEER_UP);
}

void culm_host_say_alive(struct culm_coordinator_host *host) {
    struct culm_buf none;
    culm_buf_init(&none, 1);
    for (struct link *link = host->links; link; link = link->next) {
        if (link->child && link->child->up && !culm_conn_queued(link->conn)) {
            send_wire(link->conn, CULM_WIRE_ALIVE, &none);
        }
    }
    culm_buf_release(&none);
}

/* --- what comes --- */

static void hear_last_words(const struct link *link, const struct culm_message *message) {
    struct culm_ready why;
    if (culm_ready_decode(message, &why) && why.status != CULM_OK) {
        struct culm_error error;
        culm_error_set(&error, why.status, "node %d: %s", link->child->node, why.text);
        culm_host_complain(link->host, &error);
    }
}

static void on_message(void *ctx, struct culm_conn *conn, const struct culm_message *message) {
    struct link *link = ctx;
    struct culm_coordinator_host *host = link->host;
    (void)conn;
    if (!culm_real_listens(&host->real) || link->refused) {
        return;
    }
    if (!link->child) {
        admit(link, message);
    } else if (!link->child->up) {
        hear_preparing(link, message);
    } else if (message->type < CULM_WIRE_FIRST) {
        host->real.actor_ops->message(host->real.actor, link->child->node, message);
    } else if (message->type == CULM_WIRE_FAILED) {
        hear_last_words(link, message);
    }
}

static void on_closed(void *ctx, struct culm_conn *conn, const struct culm_error *why) {
    struct link *link = ctx;
    struct culm_coordinator_host *host = link->host;
    struct child *child = link->child;
    (void)conn;
    culm_host_link_free(link);
    if (!child) {
        return;
    }
    culm_host_records_read(host); /* why it ended comes before that it did */
    if (why->status != CULM_ERR_CLOSED) {
        struct culm_error error = *why;
        culm_error_prefix(&error, "node %d", child->node);
        culm_host_complain(host, &error);
    }
    culm_host_tell(child, CULM_PEER_EOF);
}

static const struct culm_conn_ops link_ops = {on_message, on_closed};

void culm_host_link_end(struct child *child) {
    if (child->link) {
        culm_conn_pump(child->link->conn);
    }
    if (child->link) { /* its socket lives on in a process of its own making */
        culm_host_link_free(child->link);
        culm_host_tell(child, CULM_PEER_EOF);
    }
}
