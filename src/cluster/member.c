/*
 * A worker's links: to the leader, out to peers, in from peers, and unknown ones. See
 * member.h.
 *
 * If a peer turns out to be unreachable while something is sent to it, this is reported by an alarm
 * without delay, because a world never calls back from within an operation.
 */
#include "cluster/member.h"

#include "base/ids.h"
#include "base/mark.h"
#include "cluster/dial.h"
#include "cluster/link.h"
#include "cluster/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define SWEEP_NS (100 * MS)
#define UNKNOWN_MAX 256
#define DIAL_NS (20 * MS) /* time between two looks at nodes that are being dialed */

/* CLAIMANT: one that leads, or wants to. DEPOSED: one that led. */
enum kind { UNKNOWN = CULM_LINK_UNKNOWN, LEADER, OUT, IN, CLAIMANT, DEPOSED };

/* A frame held until its peer has let us in. */
struct held {
    struct held *next;
    struct culm_message message; /* owns the payload; its meta follows */
};

struct peer {
    int32_t node;
    char *address; /* NULL: not known; "": others cannot connect to it */
    struct culm_link *out, *in;
    /* The link over which frames are sent: `out` once the peer has sent WELCOME, or `in` if nobody
     * can connect to the peer. NULL: not yet. */
    struct culm_link *way;
    bool lost; /* is about to be reported */
    struct culm_dial dial;
    struct held *held, *held_last;
    size_t held_bytes; /* not counting payloads */
};

struct culm_member {
    struct culm_member_options o;
    struct culm_link_set links;
    struct culm_link *leader;
    struct culm_ids peers; /* those that are known, and have not been reported as lost */
    struct culm_ids lost;  /* those that have: they are not heard again */
    int32_t dialing;
    struct culm_dial join;
    uint64_t heard_ns;    /* from the leader */
    uint64_t term;        /* promised; 0: to nobody */
    uint64_t stranded_ns; /* of its silence, that does not count */
    bool joined, ended, unreported;
    bool known; /* the leader has told others of it, and it of them */
};

static uint64_t now(const struct culm_member *member) {
    return member->o.fabric->ops->now_ns(member->o.fabric);
}

static void set_alarm(struct culm_member *member) {
    uint64_t delay = CULM_NEVER;
    if (member->joined && member->o.orphan_ms) {
        delay = (uint64_t)member->o.orphan_ms * MS / 4;
    }
    if (member->links.unknown_count && SWEEP_NS < delay) {
        delay = SWEEP_NS;
    }
    if (member->dialing && DIAL_NS < delay) {
        delay = DIAL_NS;
    }
    if (member->unreported) {
        delay = 0;
    }
    member->o.fabric->ops->alarm(member->o.fabric, delay);
}

static void end(struct culm_member *member, const struct culm_error *why) {
    if (!member->ended) {
        member->ended = true;
        member->o.ops->ended(member->o.ctx, why);
    }
}

static void dial_start(struct culm_member *member, struct culm_dial *dial, int64_t limit_ms) {
    culm_dial_start(dial, now(member), limit_ms);
    if (!member->dialing++) {
        set_alarm(member);
    }
}

static void dial_stop(struct culm_member *member, struct culm_dial *dial) {
    member->dialing -= dial->on;
    dial->on = false;
}

/* Ends because of an error of its own, and reports it to the leader. */
static void fail(struct culm_member *member, const struct culm_error *why) {
    struct culm_ready said = {.status = why->status};
    struct culm_buf meta;
    snprintf(said.text, sizeof said.text, "%s", why->text);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_ready_encode(&said, &meta);
    if (!meta.failed && member->leader && member->joined && !member->ended) {
        CULM_MARK(cluster_last_words_are_said);
        culm_link_send(member->leader, CULM_WIRE_FAILED, meta.data, meta.len);
    }
    culm_buf_release(&meta);
    end(member, why);
}

static void fail_text(struct culm_member *member, enum culm_status status, const char *text) {
    struct culm_error error;
    culm_error_set(&error, status, "%s", text);
    fail(member, &error);
}

/* --- peers --- */

/* Whether nobody can connect to a node with this address; others send over its own connections. */
static bool only_calls(const char *address) { return address && !address[0]; }

/* Whether only this machine can connect to an address. */
static bool is_near(const char *address) {
    struct culm_address parsed;
    return address && address[0] && culm_address_parse(address, &parsed, NULL) == CULM_OK &&
           culm_address_is_loopback(&parsed);
}

/* Whether one that is somewhere else can reach an address that it is told: else it is as one that only calls. */
static bool reaches(const char *from, const char *address) {
    return only_calls(from) || is_near(from) || !is_near(address);
}

/* Whether the peer cannot call us, so that we call it, and it sends over that link. */
static bool waits_for_us(const struct culm_member *member, const struct peer *peer) {
    return only_calls(member->o.address) ||
           (!only_calls(peer->address) && !reaches(peer->address, member->o.address));
}

/* NULL: it is not known, or was reported as lost. */
static struct peer *peer_of(const struct culm_member *member, int32_t node) {
    return culm_ids_find(&member->peers, node);
}

/* The same, known from now on, unless it was reported as lost. NULL: out of memory. */
static struct peer *peer_known(struct culm_member *member, int32_t node) {
    struct peer *peer = peer_of(member, node);
    if (peer) {
        return peer;
    }
    peer = calloc(1, sizeof *peer);
    if (!peer || !culm_ids_put(&member->peers, node, peer)) {
        free(peer);
        return NULL;
    }
    peer->node = node;
    return peer;
}

/* The first whose id is not below `node`; NULL: there is none. */
static struct peer *peer_from(const struct culm_member *member, int32_t node) {
    int32_t at = culm_ids_from(&member->peers, node);
    return at < member->peers.count ? member->peers.thing[at] : NULL;
}

static bool was_lost(const struct culm_member *member, int32_t node) {
    return culm_ids_has(&member->lost, node);
}

/* False: out of memory. */
static bool peer_at(const struct culm_member *member, struct peer *peer, const char *address) {
    if (!reaches(member->o.address, address)) {
        CULM_MARK(cluster_peer_is_near_somebody_else);
        address = "";
    }
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
    peer->held_bytes -= sizeof *held + held->message.meta_bytes;
    culm_blob_unref(held->message.payload);
    free(held);
}

static void peer_stop(struct culm_member *member, struct peer *peer) {
    dial_stop(member, &peer->dial);
    while (peer->held) {
        CULM_MARK(cluster_held_frames_are_dropped);
        held_drop(peer);
    }
}

static void drop_link(struct culm_member *member, struct culm_link *link) {
    if (link->kind == OUT || link->kind == IN) {
        struct peer *peer = link->own;
        peer->way = peer->way == link ? NULL : peer->way;
        *(link->kind == OUT ? &peer->out : &peer->in) = NULL;
    } else if (link == member->leader) {
        member->leader = NULL;
    }
    culm_link_free(link);
}

static void peer_free(struct culm_member *member, struct peer *peer) {
    peer_stop(member, peer);
    free(peer->address);
    free(peer);
}

static void peer_tell(struct culm_member *member, int32_t node) {
    struct peer *peer = peer_of(member, node);
    /* Deliver what the peer has sent before reporting its end. */
    if (peer->in) {
        culm_conn_pump(peer->in->conn); /* may free the link, and report the peer */
        peer = peer_of(member, node);
    }
    if (peer && peer->out && waits_for_us(member, peer)) {
        culm_conn_pump(peer->out->conn);
        peer = peer_of(member, node);
    }
    if (!peer) {
        CULM_MARK(cluster_lost_one_hung_up_meanwhile);
        return;
    }
    if (!culm_ids_put(&member->lost, node, NULL)) {
        fail_text(member, CULM_ERR_MEMORY, "out of memory for a lost peer");
        return;
    }
    if (peer->in) {
        drop_link(member, peer->in);
    }
    if (peer->out) {
        drop_link(member, peer->out);
    }
    (void)culm_ids_take(&member->peers, node);
    peer_free(member, peer);
    if (!member->ended) {
        member->o.ops->lost(member->o.ctx, node);
    }
}

/* --- dialing --- */

static void peer_give_up(struct culm_member *member, struct peer *peer) {
    peer->lost = member->unreported = true;
    peer_stop(member, peer);
    set_alarm(member);
}

static void peer_failed(struct culm_member *member, struct peer *peer, enum culm_status why) {
    if (!culm_dial_again(&peer->dial, now(member), why)) {
        CULM_MARK(cluster_peer_is_not_there);
        peer_give_up(member, peer);
    }
}

static void peer_call(struct culm_member *member, struct peer *peer) {
    if (only_calls(peer->address)) {
        CULM_MARK(cluster_peer_has_to_call);
        return; /* it has to connect to us */
    }
    enum culm_status status =
        culm_link_call(&member->links, OUT, peer->node, peer->address, &peer->out, NULL);
    if (status == CULM_OK) {
        peer->out->own = peer;
    } else {
        peer_failed(member, peer, status);
    }
}

static void peer_look(struct culm_member *member, struct peer *peer) {
    if (peer->dial.on && culm_dial_is_over(&peer->dial, now(member))) {
        CULM_MARK(cluster_peer_was_dialed_for_too_long);
        peer_give_up(member, peer);
    } else if (peer->dial.on && !peer->out && now(member) >= peer->dial.again_ns) {
        CULM_MARK(cluster_peer_is_dialed_again);
        peer_call(member, peer);
    }
}

static void join_failed(struct culm_member *member, struct culm_error *why) {
    if (!culm_dial_again(&member->join, now(member), why->status)) {
        CULM_MARK(cluster_join_failed_for_good);
        dial_stop(member, &member->join);
        if (why->status == CULM_ERR_CONFIG || why->status == CULM_ERR_NOT_FOUND) {
            why->status = CULM_ERR_CLOSED;
        }
        end(member, why);
    }
}

static void join_call(struct culm_member *member) {
    struct culm_error error = {0};
    enum culm_status status = culm_link_call(&member->links, LEADER, CULM_LEADER, member->o.leader,
                                             &member->leader, &error);
    if (status != CULM_OK) {
        join_failed(member, &error);
    }
}

static void join_look(struct culm_member *member) {
    if (member->join.on && culm_dial_is_over(&member->join, now(member))) {
        CULM_MARK(cluster_leader_does_not_answer);
        dial_stop(member, &member->join);
        fail_text(member, CULM_ERR_TIMEOUT, "the leader does not answer");
    } else if (member->join.on && !member->leader && now(member) >= member->join.again_ns) {
        CULM_MARK(cluster_leader_is_called_again);
        join_call(member);
    }
}

/* --- silence of the leader --- */

/* How much of the silence does not count: all until now, if no leader could have called. */
static void stranded_look(struct culm_member *member) {
    const uint64_t most = (uint64_t)member->o.stranded_ms * MS, t = now(member);
    const uint64_t silent = t > member->heard_ns ? t - member->heard_ns : 0;
    if (silent < member->stranded_ns) { /* it has heard one since */
        member->stranded_ns = 0;
    }
    if (silent > (uint64_t)member->o.orphan_ms * MS / 5 && !member->ended &&
        member->o.ops->stranded &&
        member->o.ops->stranded(member->o.ctx, member->o.orphan_ms / 2)) {
        CULM_MARK(cluster_silence_does_not_count);
        member->stranded_ns = silent < most ? silent : most;
    }
}

/* Ends if the leader has been silent for too long. Reads pending frames first, because this
 * process may have been frozen. */
static void orphan_look(struct culm_member *member) {
    uint64_t limit = (uint64_t)member->o.orphan_ms * MS;
    if (limit && member->joined) {
        stranded_look(member);
        limit += member->stranded_ns;
    }
    if (!limit || !member->joined || member->ended || now(member) <= member->heard_ns + limit) {
        return;
    }
    if (member->leader) {
        culm_conn_pump(member->leader->conn);
    }
    if (!member->ended && now(member) > member->heard_ns + limit) {
        CULM_MARK(cluster_orphaned);
        struct culm_error error;
        culm_error_set(&error, CULM_ERR_CLOSED,
                       "the leader has said nothing for %lld ms; this worker ends (the limit "
                       "is cluster.orphan_ms)",
                       (long long)member->o.orphan_ms);
        end(member, &error);
    } else if (!member->ended) {
        CULM_MARK(cluster_slept_while_the_leader_spoke);
    }
}

/* Whether frames can be sent to the node. If it has no open link, it is dialed from now on. */
static bool peer_dial(struct culm_member *member, int32_t node) {
    struct peer *peer = peer_of(member, node);
    if (!peer || !peer->address || peer->lost) {
        CULM_MARK(cluster_frame_for_a_lost_or_unknown_one);
        return false;
    }
    if (only_calls(peer->address) && only_calls(member->o.address)) {
        CULM_MARK(cluster_neither_can_call);
        peer_give_up(member, peer); /* neither can call the other */
    } else if (!peer->way && !peer->dial.on) {
        dial_start(member, &peer->dial, member->o.dial_limit_ms ? member->o.dial_limit_ms : 6000);
        peer_call(member, peer);
    }
    return !peer->lost;
}

static void peer_hold(struct culm_member *member, struct peer *peer,
                      const struct culm_message *message) {
    size_t bytes = sizeof(struct held) + message->meta_bytes;
    struct held *held = peer->held_bytes + bytes <= CULM_CONN_HEADS_MAX ? malloc(bytes) : NULL;
    if (!held) {
        CULM_MARK(cluster_too_much_is_held);
        peer_give_up(member, peer);
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

static void peer_opened(struct culm_member *member, struct peer *peer, struct culm_link *way) {
    peer->way = way;
    while (peer->held) {
        CULM_MARK(cluster_held_frames_are_sent);
        culm_conn_send(way->conn, &peer->held->message);
        held_drop(peer);
    }
    peer_stop(member, peer);
}

static enum culm_status prove(struct culm_member *member, struct culm_link *link,
                              const struct culm_message *challenge, struct culm_error *error) {
    struct culm_introduction introduction = {0};
    const char *name = member->o.name && link->kind == LEADER ? member->o.name : "";
    snprintf(introduction.address, sizeof introduction.address, "%s", member->o.address);
    snprintf(introduction.name, sizeof introduction.name, "%s", name);
    return culm_link_challenged(link, challenge, &introduction, error);
}

/* --- what is received --- */

static void read_book(struct culm_member *member, const struct culm_message *message) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    struct culm_entry entry;
    while (culm_entry_decode(&reader, &entry)) {
        if (was_lost(member, entry.node)) {
            CULM_MARK(cluster_book_has_one_that_was_lost);
            continue;
        }
        struct peer *peer = peer_known(member, entry.node);
        if (!peer || !peer_at(member, peer, entry.address)) {
            fail_text(member, CULM_ERR_MEMORY, "out of memory for an address book");
            return;
        }
        if (waits_for_us(member, peer) && !only_calls(peer->address)) {
            CULM_MARK(cluster_calls_everyone);
            (void)peer_dial(member, entry.node); /* it may have something to send */
        }
    }
    if (reader.failed) {
        CULM_MARK(cluster_book_is_malformed);
        fail_text(member, CULM_ERR_FORMAT, "the leader sent an address book that cannot be read");
    }
}

/* --- those who lead --- */

static void send_term(struct culm_link *link, uint16_t type, uint64_t term) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_u64(&meta, term);
    if (!meta.failed) {
        culm_link_send(link, type, meta.data, meta.len);
    }
    culm_buf_release(&meta);
}

/* It is heard no more, and closes its side when it has read why. */
static void depose(struct culm_member *member, struct culm_link *link) {
    CULM_MARK(cluster_leader_is_deposed);
    send_term(link, CULM_WIRE_DEPOSED, member->term);
    culm_conn_finish(link->conn);
    link->kind = DEPOSED;
    member->leader = link == member->leader ? NULL : member->leader;
}

static void say_ready(struct culm_member *member, uint16_t type) {
    struct culm_ready ready = {.status = CULM_OK};
    struct culm_buf meta;
    snprintf(ready.signature, sizeof ready.signature, "%s",
             member->o.signature ? member->o.signature : "");
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_ready_encode(&ready, &meta);
    if (!meta.failed && member->leader) {
        culm_link_send(member->leader, type, meta.data, meta.len);
    }
    culm_buf_release(&meta);
}

/* TAKE_OVER, it should be. */
static void hear_claim(struct culm_member *member, struct culm_link *link,
                       const struct culm_message *message) {
    struct culm_claim claim;
    if (message->type != CULM_WIRE_TAKE_OVER || !culm_claim_decode(message, &claim)) {
        CULM_MARK(cluster_claim_is_malformed);
        drop_link(member, link);
        return;
    }
    if (claim.term < member->term) {
        CULM_MARK(cluster_claim_is_of_a_lower_term);
        depose(member, link);
        return;
    }
    member->term = claim.term;
    if (member->leader) {
        depose(member, member->leader);
    }
    link->kind = LEADER;
    member->leader = link;
    member->heard_ns = now(member);
    say_ready(member, CULM_WIRE_PROMISED);
    member->o.ops->led(member->o.ctx, claim.term, claim.address);
}

static void read_refusal(const struct culm_message *message, struct culm_error *ret_error) {
    struct culm_reader meta = culm_reader_of(message->meta, message->meta_bytes);
    char text[CULM_WIRE_TEXT_MAX];
    culm_read_string(&meta, text, sizeof text);
    culm_error_set(ret_error, CULM_ERR_CLOSED, "refused: %s", text);
}

/* An answer of the leader before this member is let in. */
static void hear_answer(struct culm_member *member, struct culm_link *link,
                        const struct culm_message *message) {
    struct culm_welcome welcome;
    struct culm_error error;
    if (message->type == CULM_WIRE_REFUSED) {
        CULM_MARK(cluster_leader_refuses);
        read_refusal(message, &error);
    } else if (!link->handshake.greeted) {
        enum culm_status status = prove(member, link, message, &error);
        if (status != CULM_OK) {
            CULM_MARK(cluster_leader_does_not_know_the_token);
            drop_link(member, link);
            join_failed(member, &error);
        }
        return;
    } else if (message->type == CULM_WIRE_WELCOME && culm_welcome_decode(message, &welcome)) {
        member->joined = true;
        dial_stop(member, &member->join);
        member->heard_ns = now(member);
        set_alarm(member);
        member->o.ops->joined(member->o.ctx, welcome.pid);
        return;
    } else {
        CULM_MARK(cluster_leader_answers_something_else);
        culm_error_set(&error, CULM_ERR_FORMAT,
                       "the leader answered with a message of unknown type %04x", message->type);
    }
    dial_stop(member, &member->join);
    end(member, &error);
}

/* An answer of a peer that is being dialed. */
static void peer_answered(struct culm_member *member, struct culm_link *link,
                          const struct culm_message *message) {
    struct peer *peer = link->own;
    if (!link->handshake.greeted) {
        enum culm_status status = prove(member, link, message, NULL);
        if (status != CULM_OK) {
            CULM_MARK(cluster_peer_does_not_know_the_token);
            drop_link(member, link);
            peer_failed(member, peer, status);
        }
    } else if (message->type == CULM_WIRE_WELCOME) {
        peer_opened(member, peer, link);
    }
}

/* Handles a frame of an unknown link. False: the link is to be closed. */
static bool admit(struct culm_member *member, struct culm_link *link,
                  const struct culm_message *message) {
    struct culm_introduction introduction;
    if (!link->handshake.greeted) {
        return culm_link_greeted(link, message, NULL) == CULM_OK;
    }
    if (culm_handshake_proved(&link->handshake, message, &introduction, NULL) != CULM_OK) {
        CULM_MARK(cluster_caller_does_not_know_the_token);
        return false;
    }
    int32_t node = link->handshake.caller;
    if (node == CULM_LEADER) {
        if (!member->o.ops->led || !member->o.outlives || !member->known) {
            CULM_MARK(cluster_nobody_may_take_over);
            return false;
        }
        culm_link_known(link, CLAIMANT, node);
        culm_link_send(link, CULM_WIRE_WELCOME, NULL, 0);
        return true;
    }
    bool wanted = node != member->o.node && !was_lost(member, node);
    struct peer *peer = wanted ? peer_known(member, node) : NULL;
    if (!peer || peer->in || peer->lost ||
        !peer_at(member, peer, introduction.address)) { /* BOOK may not have arrived yet */
        CULM_MARK(cluster_caller_is_not_wanted);
        return false;
    }
    peer->in = link;
    link->own = peer;
    culm_link_known(link, IN, node);
    culm_link_send(link, CULM_WIRE_WELCOME, NULL, 0);
    if (only_calls(peer->address)) {
        CULM_MARK(cluster_caller_is_answered_over_its_link);
        peer_opened(member, peer, link);
    }
    return true;
}

static void on_message(void *ctx, struct culm_conn *conn, const struct culm_message *message) {
    struct culm_link *link = ctx;
    struct culm_member *member = link->set->owner;
    (void)conn;
    if (link->kind == LEADER) {
        member->heard_ns = now(member);
    }
    if (member->ended) {
        return;
    }
    if (link->kind == UNKNOWN) {
        if (!admit(member, link, message)) {
            culm_link_free(link);
        }
    } else if (link->kind == CLAIMANT) {
        hear_claim(member, link, message);
    } else if (link->kind == DEPOSED) {
        CULM_MARK(cluster_deposed_goes_on);
    } else if (link->kind == OUT && !((const struct peer *)link->own)->way) {
        peer_answered(member, link, message);
    } else if (link->kind == OUT && !waits_for_us(member, link->own)) {
        CULM_MARK(cluster_peer_answers_over_our_link);
        return; /* it has to send over a link of its own */
    } else if (link->kind == LEADER && !member->joined) {
        hear_answer(member, link, message);
    } else if (message->type < CULM_WIRE_FIRST) {
        int32_t from = link->kind == LEADER ? CULM_LEADER : link->node;
        member->o.ops->message(member->o.ctx, from, message);
    } else if (link->kind == LEADER && message->type == CULM_WIRE_BOOK) {
        member->known = true;
        read_book(member, message);
    } else if (link->kind == LEADER && message->type == CULM_WIRE_NEWS) {
        if (member->o.ops->news) {
            member->o.ops->news(member->o.ctx, message->meta, message->meta_bytes);
        }
    } else if (link->kind == LEADER && message->type == CULM_WIRE_REFUSED) {
        struct culm_error error;
        CULM_MARK(cluster_leader_refuses_later);
        read_refusal(message, &error);
        end(member, &error);
    }
}

static void on_closed(void *ctx, struct culm_conn *conn, const struct culm_error *why) {
    struct culm_link *link = ctx;
    struct culm_member *member = link->set->owner;
    enum kind kind = (enum kind)link->kind;
    int32_t node = link->node;
    struct peer *peer = link->own;
    bool open = kind != OUT || peer->way;
    struct culm_error error = *why;
    (void)conn;
    drop_link(member, link);
    if (kind == UNKNOWN || kind == CLAIMANT || kind == DEPOSED) {
        return;
    }
    if (kind == LEADER && member->known && member->o.outlives && error.status != CULM_ERR_MEMORY) {
        CULM_MARK(cluster_outlives_its_leader);
        return;
    }
    if (!open) {
        CULM_MARK(cluster_peer_hung_up_before_welcome);
        peer_failed(member, peer, error.status);
    } else if (kind == LEADER && !member->joined && !member->ended) {
        CULM_MARK(cluster_leader_hung_up_before_welcome);
        join_failed(member, &error);
    } else if (error.status == CULM_ERR_MEMORY) {
        CULM_MARK(cluster_no_memory_for_what_came);
        if (kind == LEADER) {
            culm_error_prefix(&error, "receive from the leader");
        } else {
            culm_error_prefix(&error, "receive from node %d", node);
        }
        fail(member, &error);
    } else if (kind == LEADER) {
        error.status = CULM_ERR_CLOSED;
        CULM_MARK(cluster_leader_is_gone);
        culm_error_prefix(&error, "the leader is gone, or has put this node out");
        end(member, &error);
    } else {
        CULM_MARK(cluster_peer_is_gone);
        peer_tell(member, node);
    }
}

static const struct culm_conn_ops link_ops = {on_message, on_closed};

/* --- from outside --- */

void culm_member_accepted(struct culm_member *member, struct culm_stream *take_stream) {
    bool first = member->links.unknown_count == 0;
    if (culm_link_accepted(&member->links, take_stream, 0) && first) {
        set_alarm(member);
    }
}

void culm_member_alarm(struct culm_member *member) {
    member->unreported = false;
    for (struct peer *peer = peer_from(member, 0); peer;) {
        int32_t node = peer->node;
        if (peer->lost) {
            CULM_MARK(cluster_given_up_is_told_at_the_alarm);
            peer_tell(member, node);
        }
        peer = peer_from(member, node + 1);
    }
    for (int32_t i = 0; i < member->peers.count && member->dialing; i++) {
        peer_look(member, member->peers.thing[i]);
    }
    culm_link_sweep(&member->links);
    join_look(member);
    orphan_look(member);
    set_alarm(member);
}

void culm_member_send(struct culm_member *member, int32_t node,
                      const struct culm_message *message) {
    if (member->ended) {
        return;
    }
    if (node == CULM_LEADER) {
        if (member->leader && member->joined) {
            culm_conn_send(member->leader->conn, message);
        }
    } else if (peer_dial(member, node)) {
        struct peer *peer = peer_of(member, node);
        if (peer->way) {
            culm_conn_send(peer->way->conn, message);
        } else {
            peer_hold(member, peer, message);
        }
    }
}

bool culm_member_evict(struct culm_member *member) { return culm_link_evict(&member->links); }

/* --- for a process that is to die at an exact byte --- */

bool culm_member_reaches(struct culm_member *member, int32_t node) {
    return node == CULM_LEADER ? member->leader && member->joined
                               : !member->ended && peer_dial(member, node);
}

struct culm_conn *culm_member_conn(const struct culm_member *member, int32_t node) {
    if (node == CULM_LEADER) {
        return member->leader ? member->leader->conn : NULL;
    }
    const struct peer *peer = peer_of(member, node);
    return peer && peer->way ? peer->way->conn : NULL;
}

int32_t culm_member_next(const struct culm_member *member, int32_t node) {
    const struct peer *peer = peer_from(member, node);
    return peer ? peer->node : -1;
}

bool culm_member_dialing(const struct culm_member *member, int32_t node,
                         struct culm_conn **ret_conn) {
    const struct peer *peer = peer_of(member, node);
    if (!peer || !peer->dial.on || only_calls(peer->address)) {
        return false;
    }
    *ret_conn = peer->out ? peer->out->conn : NULL;
    return true;
}

void culm_member_dial_now(struct culm_member *member, int32_t node) {
    peer_call(member, peer_of(member, node));
}

void culm_member_flush(struct culm_member *member, uint64_t deadline_ns) {
    for (struct culm_link *link = member->links.first; link; link = link->next) {
        (void)culm_conn_flush(link->conn, 0, deadline_ns);
    }
}

/* --- life --- */

struct culm_member *culm_member_new(const struct culm_member_options *options) {
    struct culm_member *member = calloc(1, sizeof *member);
    if (member) {
        member->o = *options;
        member->links = (struct culm_link_set){
            .fabric = options->fabric,
            .pool = options->pool,
            .payload_max = options->payload_max,
            .scratch_bytes = options->scratch_bytes,
            .token = options->token,
            .self = options->node,
            .unknown_max = UNKNOWN_MAX,
            .hello_ns = CULM_WIRE_HELLO_NS(options->hello_limit_ms),
            .ops = &link_ops,
            .owner = member,
        };
    }
    return member;
}

void culm_member_join(struct culm_member *member) {
    dial_start(member, &member->join, member->o.join_limit_ms ? member->o.join_limit_ms : 30000);
    join_call(member);
}

bool culm_member_adopt(struct culm_member *member, struct culm_stream *take_stream) {
    member->leader = culm_link_new(&member->links, LEADER, CULM_LEADER, take_stream, false);
    member->joined = true;
    member->heard_ns = now(member);
    set_alarm(member);
    return member->leader != NULL;
}

uint64_t culm_member_term(const struct culm_member *member) { return member->term; }

void culm_member_ready(struct culm_member *member) { say_ready(member, CULM_WIRE_READY); }

void culm_member_finish(struct culm_member *member) {
    if (member->leader) {
        culm_conn_finish(member->leader->conn);
    }
}

void culm_member_free(struct culm_member *member) {
    if (!member) {
        return;
    }
    while (member->links.first) {
        drop_link(member, member->links.first);
    }
    for (int32_t i = 0; i < member->peers.count; i++) {
        peer_free(member, member->peers.thing[i]);
    }
    culm_ids_release(&member->peers);
    culm_ids_release(&member->lost);
    free(member);
}
