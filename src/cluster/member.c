/*
 * A worker's links: to the coordinator, out to peers, in from peers, and strangers. See member.h.
 *
 * A peer that cannot be reached from within send is told of by an alarm of no delay, because a
 * world never calls back from an operation.
 */
#include "cluster/member.h"

#include "cluster/link.h"
#include "cluster/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define SWEEP_NS (100 * MS)
#define STRANGERS_MAX 256

enum kind { STRANGER = CULM_LINK_STRANGER, COORDINATOR, OUT, IN };

struct peer {
    int port; /* 0: not known */
    struct culm_link *out, *in;
    bool lost; /* told, or about to be */
    bool told;
};

struct culm_member {
    struct culm_member_options o;
    struct culm_link_set links;
    struct culm_link *coordinator;
    struct peer *peer; /* [peer_capacity], by node */
    int32_t peer_capacity;
    uint64_t join_by_ns; /* CULM_NEVER: joined, or not begun */
    bool joined, ended, unreported;
};

static uint64_t now(const struct culm_member *member) {
    return member->o.network->ops->now_ns(member->o.network);
}

static void set_alarm(struct culm_member *member) {
    uint64_t at = member->join_by_ns, time = now(member);
    if (member->links.strangers && time + SWEEP_NS < at) {
        at = time + SWEEP_NS;
    }
    at = member->unreported ? time : at;
    member->o.network->ops->alarm(member->o.network, at == CULM_NEVER ? CULM_NEVER
                                                     : at > time      ? at - time
                                                                      : 0);
}

static void end(struct culm_member *member, const struct culm_error *why) {
    if (!member->ended) {
        member->ended = true;
        member->join_by_ns = CULM_NEVER;
        member->o.ops->ended(member->o.ctx, why);
    }
}

static void end_text(struct culm_member *member, enum culm_status status, const char *text) {
    struct culm_error error;
    culm_error_set(&error, status, "%s", text);
    end(member, &error);
}

/* --- peers --- */

/* NULL: out of memory, or an impossible id. */
static struct peer *peer_of(struct culm_member *member, int32_t node) {
    if (node < 0 || node >= CULM_WIRE_NODES_MAX) {
        return NULL;
    }
    if (node >= member->peer_capacity) {
        int32_t capacity = member->peer_capacity ? member->peer_capacity : 16;
        while (capacity <= node) {
            capacity *= 2;
        }
        struct peer *peer = realloc(member->peer, (size_t)capacity * sizeof *peer);
        if (!peer) {
            return NULL;
        }
        memset(peer + member->peer_capacity, 0,
               (size_t)(capacity - member->peer_capacity) * sizeof *peer);
        member->peer = peer;
        member->peer_capacity = capacity;
    }
    return &member->peer[node];
}

static void drop_link(struct culm_member *member, struct culm_link *link) {
    if (link->kind == OUT) {
        member->peer[link->node].out = NULL;
    } else if (link->kind == IN) {
        member->peer[link->node].in = NULL;
    } else if (link->kind == COORDINATOR) {
        member->coordinator = NULL;
    }
    culm_link_free(link);
}

static void peer_tell(struct culm_member *member, int32_t node) {
    struct peer *peer = &member->peer[node];
    /* What it sent before its end is older than its end. */
    if (peer->in) {
        culm_conn_pump(peer->in->conn); /* may free the link */
        peer = &member->peer[node];
    }
    if (peer->told) {
        return;
    }
    peer->lost = peer->told = true;
    if (peer->in) {
        drop_link(member, peer->in);
    }
    if (peer->out) {
        drop_link(member, peer->out);
    }
    if (!member->ended) {
        member->o.ops->lost(member->o.ctx, node);
    }
}

static void hello_to(struct culm_member *member, struct culm_link *link, uint16_t type) {
    struct culm_hello hello = {
        .node = member->o.node, .port = member->o.listen_port, .pid = member->o.pid};
    const char *name = type == CULM_WIRE_HELLO && member->o.name ? member->o.name : "";
    snprintf(hello.token, sizeof hello.token, "%s", member->o.token);
    snprintf(hello.name, sizeof hello.name, "%s", name);
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_hello_encode(&hello, &meta);
    if (!meta.failed) {
        culm_link_send(link, type, meta.data, meta.len);
    }
    culm_buf_release(&meta);
}

static struct culm_link *open_link(struct culm_member *member, enum kind kind, int32_t node,
                                   int port, struct culm_error *error) {
    struct culm_network *network = member->o.network;
    struct culm_stream *stream = NULL;
    if (network->ops->connect(network, member->o.host, port, &stream, error) != CULM_OK) {
        return NULL;
    }
    struct culm_link *link = culm_link_new(&member->links, (int)kind, node, stream, true);
    if (!link) {
        culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a connection");
    }
    return link;
}

static void peer_open(struct culm_member *member, int32_t node) {
    struct peer *peer = &member->peer[node];
    peer->out = open_link(member, OUT, node, peer->port, NULL);
    if (peer->out) {
        hello_to(member, peer->out, CULM_WIRE_PEER_HELLO);
    } else {
        peer->lost = member->unreported = true;
        set_alarm(member);
    }
}

/* --- what is received --- */

static void read_book(struct culm_member *member, const struct culm_message *message) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    struct culm_address address;
    while (culm_address_decode(&reader, &address)) {
        struct peer *peer = peer_of(member, address.node);
        if (!peer) {
            end_text(member, CULM_ERR_MEMORY, "out of memory for an address book");
            return;
        }
        peer->port = address.port;
    }
    if (reader.failed) {
        end_text(member, CULM_ERR_FORMAT,
                 "the coordinator sent an address book that cannot be read");
    }
}

static void read_refusal(const struct culm_message *message, struct culm_error *ret_error) {
    struct culm_reader meta = culm_reader_of(message->meta, message->meta_bytes);
    char text[CULM_WIRE_TEXT_MAX];
    culm_read_string(&meta, text, sizeof text);
    culm_error_set(ret_error, CULM_ERR_CLOSED, "refused: %s", text);
}

/* The first thing that the coordinator says. */
static void hear_answer(struct culm_member *member, const struct culm_message *message) {
    struct culm_reader meta = culm_reader_of(message->meta, message->meta_bytes);
    struct culm_error error;
    if (message->type == CULM_WIRE_WELCOME) {
        member->joined = true;
        member->join_by_ns = CULM_NEVER;
        set_alarm(member);
        member->o.ops->joined(member->o.ctx, (int64_t)culm_read_u64(&meta));
        return;
    }
    if (message->type == CULM_WIRE_REFUSED) {
        read_refusal(message, &error);
    } else {
        culm_error_set(&error, CULM_ERR_FORMAT, "answer of unknown type %04x", message->type);
    }
    end(member, &error);
}

/* False: not one of ours; the link is to be closed. */
static bool admit(struct culm_member *member, struct culm_link *link,
                  const struct culm_message *message) {
    struct culm_hello hello;
    if (message->type != CULM_WIRE_PEER_HELLO || !culm_hello_decode(message, &hello) ||
        !culm_token_equal(hello.token, member->o.token)) {
        return false;
    }
    struct peer *peer = peer_of(member, hello.node);
    if (!peer || peer->in || peer->lost) {
        return false;
    }
    peer->in = link;
    peer->port = hello.port; /* the book's entry may still be on its way */
    culm_link_known(link, IN, hello.node);
    return true;
}

static void on_message(void *ctx, struct culm_conn *conn, const struct culm_message *message) {
    struct culm_link *link = ctx;
    struct culm_member *member = link->set->owner;
    (void)conn;
    if (member->ended) {
        return;
    }
    if (link->kind == STRANGER) {
        if (!admit(member, link, message)) {
            culm_link_free(link);
        }
    } else if (link->kind == COORDINATOR && !member->joined) {
        hear_answer(member, message);
    } else if (message->type < CULM_WIRE_FIRST) {
        int32_t from = link->kind == COORDINATOR ? CULM_COORDINATOR : link->node;
        member->o.ops->message(member->o.ctx, from, message);
    } else if (link->kind == COORDINATOR && message->type == CULM_WIRE_BOOK) {
        read_book(member, message);
    } else if (link->kind == COORDINATOR && message->type == CULM_WIRE_REFUSED) {
        struct culm_error error;
        read_refusal(message, &error);
        end(member, &error);
    }
}

static void on_closed(void *ctx, struct culm_conn *conn, const struct culm_error *why) {
    struct culm_link *link = ctx;
    struct culm_member *member = link->set->owner;
    enum kind kind = (enum kind)link->kind;
    int32_t node = link->node;
    struct culm_error error = *why;
    (void)conn;
    drop_link(member, link);
    if (error.status == CULM_ERR_MEMORY) {
        end(member, &error);
    } else if (kind == COORDINATOR) {
        error.status = CULM_ERR_CLOSED;
        culm_error_prefix(&error, "the coordinator is gone");
        end(member, &error);
    } else if (kind != STRANGER) {
        peer_tell(member, node);
    }
}

static const struct culm_conn_ops link_ops = {on_message, on_closed};

/* --- from outside --- */

void culm_member_accepted(struct culm_member *member, struct culm_stream *take_stream) {
    bool first = member->links.strangers == 0;
    if (culm_link_accepted(&member->links, take_stream) && first) {
        set_alarm(member);
    }
}

void culm_member_alarm(struct culm_member *member) {
    member->unreported = false;
    for (int32_t node = 0; node < member->peer_capacity; node++) {
        if (member->peer[node].lost && !member->peer[node].told) {
            peer_tell(member, node);
        }
    }
    culm_link_sweep(&member->links);
    if (member->join_by_ns <= now(member)) {
        end_text(member, CULM_ERR_TIMEOUT, "the coordinator does not answer");
    }
    set_alarm(member);
}

void culm_member_send(struct culm_member *member, int32_t node,
                      const struct culm_message *message) {
    struct culm_link *link = member->coordinator;
    if (member->ended) {
        return;
    }
    if (node != CULM_COORDINATOR) {
        struct peer *peer = peer_of(member, node);
        if (peer && peer->port && !peer->lost && !peer->out) {
            peer_open(member, node);
        }
        link = peer ? peer->out : NULL;
    }
    if (link) {
        culm_conn_send(link->conn, message);
    }
}

/* --- life --- */

struct culm_member *culm_member_new(const struct culm_member_options *options) {
    struct culm_member *member = calloc(1, sizeof *member);
    if (member) {
        member->o = *options;
        member->join_by_ns = CULM_NEVER;
        member->links = (struct culm_link_set){
            .network = options->network,
            .pool = options->pool,
            .payload_max = options->payload_max,
            .scratch_bytes = options->scratch_bytes,
            .strangers_max = STRANGERS_MAX,
            .hello_ns = CULM_WIRE_HELLO_NS(options->hello_limit_ms),
            .ops = &link_ops,
            .owner = member,
        };
    }
    return member;
}

void culm_member_join(struct culm_member *member) {
    struct culm_error error;
    int64_t limit_ms = member->o.join_limit_ms ? member->o.join_limit_ms : 30000;
    member->join_by_ns = now(member) + (uint64_t)limit_ms * MS;
    member->coordinator = open_link(member, COORDINATOR, -1, member->o.port, &error);
    if (member->coordinator) {
        hello_to(member, member->coordinator, CULM_WIRE_HELLO);
        set_alarm(member);
    } else {
        end(member, &error);
    }
}

void culm_member_ready(struct culm_member *member) {
    struct culm_ready ready = {.status = CULM_OK};
    struct culm_buf meta;
    snprintf(ready.signature, sizeof ready.signature, "%s",
             member->o.signature ? member->o.signature : "");
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_ready_encode(&ready, &meta);
    if (!meta.failed && member->coordinator) {
        culm_link_send(member->coordinator, CULM_WIRE_READY, meta.data, meta.len);
    }
    culm_buf_release(&meta);
}

void culm_member_finish(struct culm_member *member) {
    if (member->coordinator) {
        culm_conn_finish(member->coordinator->conn);
    }
}

void culm_member_free(struct culm_member *member) {
    if (!member) {
        return;
    }
    while (member->links.first) {
        drop_link(member, member->links.first);
    }
    free(member->peer);
    free(member);
}
