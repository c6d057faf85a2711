/* The leader's links: admits workers, and keeps the address book. See roster.h. */
#include "cluster/roster.h"

#include "base/ids.h"
#include "base/mark.h"
#include "cluster/dial.h"
#include "cluster/link.h"
#include "cluster/origins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_NS 100000000ull
#define UNKNOWN_MAX 1024

#define VISITOR_NS                                                                                 \
    10000000ull /* in which a short message leaves, unless the other side does not read */

#define WAITING_BYTES ((size_t)1 << 20) /* that one says before it is admitted */
#define CALL_NS 10000000ull             /* how often those who are to be called are looked at */

/* CALLED: one that took part under another leader, and has not promised yet. */
enum kind { UNKNOWN = CULM_LINK_UNKNOWN, PREPARING, WORKER, CALLED };

struct place {
    struct culm_link *link;
    struct culm_entry entry;
    struct waiting *waiting; /* it is ready, and waits to be admitted; else NULL */
};

/* What one that waits has said. It does not know that it does. */
struct waiting {
    struct culm_ready ready;
    struct culm_buf said; /* of each message: type, u32; length, u32; bytes */
};

/* One that is to be called, or is. */
struct call {
    int32_t node;
    char address[CULM_ADDRESS_SIZE];
    struct culm_link *link; /* NULL: between two attempts */
    struct culm_dial dial;
};

struct culm_roster {
    struct culm_roster_options o;
    struct culm_link_set links;
    struct culm_ids places; /* of the nodes that have a link */
    struct culm_ids calls;  /* struct call */
    struct culm_origins origins;
    struct culm_refusals refusals;
    bool refused; /* some may have to be told yet that they are, or to be shown out */
};

static void set_alarm(struct culm_roster *roster) {
    uint64_t delay = roster->links.unknown_count || roster->refused ? SWEEP_NS : CULM_NEVER;
    delay = roster->calls.count && delay > CALL_NS ? CALL_NS : delay;
    roster->o.fabric->ops->alarm(roster->o.fabric, delay);
}

static struct culm_link *link_of(const struct culm_roster *roster, int32_t node) {
    const struct place *place = culm_ids_find(&roster->places, node);
    return place ? place->link : NULL;
}

static void waiting_free(struct waiting *waiting) {
    if (waiting) {
        culm_buf_release(&waiting->said);
    }
    free(waiting);
}

static void drop_link(struct culm_roster *roster, struct culm_link *link) {
    if (link->kind == CALLED) {
        ((struct call *)link->own)->link = NULL;
    } else if (link->kind != UNKNOWN) {
        struct place *place = culm_ids_take(&roster->places, link->node);
        if (place) {
            waiting_free(place->waiting);
        }
        free(place);
    }
    culm_link_free(link);
}

/* --- the handshake --- */

static uint64_t now(const struct culm_roster *roster) {
    return roster->o.fabric->ops->now_ns(roster->o.fabric);
}

static void tell_refused(struct culm_link *link, const char *text) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_string(&meta, text);
    culm_buf_u8(&meta, link->ending);
    if (!meta.failed) {
        culm_link_send(link, CULM_WIRE_REFUSED, meta.data, meta.len);
    }
    culm_buf_release(&meta);
    culm_conn_finish(link->conn); /* the other side closes once it has read REFUSED */
}

/* Of those of this machine others speak: who has started them. */
static void say_refused(struct culm_roster *roster, const char *origin, const char *why) {
    int32_t unsaid;
    if (origin && origin[0] && roster->o.ops->refused &&
        culm_refusals_say(&roster->refusals, origin, now(roster), &unsaid)) {
        CULM_MARK(cluster_refusal_is_told);
        roster->o.ops->refused(roster->o.ctx, origin, why, unsaid);
    }
}

static void refuse(struct culm_roster *roster, struct culm_link *link, const char *text) {
    bool newcomer = link->handshake.greeted && link->handshake.caller == CULM_NEWCOMER;
    uint64_t pause = newcomer
                         ? culm_origins_pause(&roster->origins, link->origin ? link->origin : "",
                                              now(roster), roster->links.hello_ns / 2)
                         : 0;
    say_refused(roster, link->origin, text);
    link->refused = true;
    link->held = pause ? strdup(text) : NULL;
    link->held_until_ns = now(roster) + (link->held ? pause : 0);
    if (link->held) {
        CULM_MARK(cluster_refusal_is_held_back);
    } else {
        tell_refused(link, text);
    }
    roster->refused = roster->refused || link->held || link->kind != UNKNOWN;
    set_alarm(roster);
}

static void tell_held(struct culm_roster *roster, struct culm_link *link) {
    if (link->held && now(roster) >= link->held_until_ns) {
        tell_refused(link, link->held);
        free(link->held);
        link->held = NULL;
    }
}

/* Whether it was known when it was refused, and is to be shown out if it does not go. Links of
 * those who are unknown are closed as any others (culm_link_sweep). */
static bool stays(const struct culm_link *link) { return link->refused && link->kind != UNKNOWN; }

/* One that was told some time ago that it is refused, and has not gone; NULL: nobody. */
static struct culm_link *overdue(const struct culm_roster *roster) {
    struct culm_link *link = roster->links.first;
    while (link && !(stays(link) && now(roster) > link->held_until_ns + roster->links.hello_ns)) {
        link = link->next;
    }
    return link;
}

static void show_out(struct culm_roster *roster, struct culm_link *link) {
    const int32_t node = link->node;
    struct culm_error error;
    CULM_MARK(cluster_refused_is_shown_out);
    culm_error_set(&error, CULM_ERR_TIMEOUT, "it was refused, and did not go");
    drop_link(roster, link);
    roster->o.ops->eof(roster->o.ctx, node, &error);
}

static void sweep_refused(struct culm_roster *roster) {
    bool any = false;
    if (!roster->refused) {
        return;
    }
    for (struct culm_link *link = overdue(roster); link; link = overdue(roster)) {
        show_out(roster, link); /* others may go with it */
    }
    for (struct culm_link *link = roster->links.first; link; link = link->next) {
        tell_held(roster, link);
        any = any || link->held || stays(link);
    }
    roster->refused = any;
}

/* The entry of the node in the book. */
static const struct culm_entry *entry_of(const struct culm_link *link) {
    return &((const struct place *)link->own)->entry;
}

/* False: out of memory. */
static bool place_link(struct culm_roster *roster, struct culm_link *link, int32_t node,
                       const char *address) {
    struct place *place = calloc(1, sizeof *place);
    if (!place || !culm_ids_put(&roster->places, node, place)) {
        free(place);
        return false;
    }
    place->link = link;
    place->entry.node = node;
    snprintf(place->entry.address, sizeof place->entry.address, "%s", address);
    link->own = place;
    return true;
}

static void welcome(struct culm_roster *roster, struct culm_link *link, uint32_t role) {
    const struct culm_welcome said = {
        .pid = roster->o.pid,
        .node = link->handshake.caller,
        .role = role,
        .plain = roster->o.plain,
    };
    struct culm_blob *brief = NULL;
    struct culm_error error;
    struct culm_buf meta;
    if (roster->o.ops->brief && !roster->o.ops->brief(roster->o.ctx, link->node, &brief, &error)) {
        CULM_MARK(cluster_brief_was_not_made);
        refuse(roster, link, error.text);
        return;
    }
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_welcome_encode(&said, &meta);
    if (!meta.failed) {
        culm_conn_send(link->conn,
                       &(struct culm_message){.type = CULM_WIRE_WELCOME,
                                              .meta = meta.data,
                                              .meta_bytes = (uint32_t)meta.len,
                                              .payload = brief,
                                              .payload_bytes = brief ? brief->size_bytes : 0});
    }
    culm_buf_release(&meta);
    culm_blob_unref(brief);
    if (roster->o.ops->welcomed) {
        roster->o.ops->welcomed(roster->o.ctx, link->node);
    }
}

/* The node has given a sign of life. */
static void lives(struct culm_roster *roster, const struct culm_link *link) {
    if (roster->o.ops->preparing) {
        roster->o.ops->preparing(roster->o.ctx, link->node);
    }
}

static void tell_addresses(struct culm_roster *roster, struct culm_link *link) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_FRAME_META_MAX);
    for (struct culm_link *other = roster->links.first; other; other = other->next) {
        if (other->kind == WORKER && other != link) {
            culm_entry_encode(entry_of(other), &meta);
        }
    }
    if (!meta.failed) {
        culm_link_send(link, CULM_WIRE_BOOK, meta.data, meta.len);
    }
    culm_buf_clear(&meta);
    culm_entry_encode(entry_of(link), &meta);
    for (struct culm_link *other = roster->links.first; other; other = other->next) {
        if (other->kind == WORKER && other != link) {
            culm_link_send(other, CULM_WIRE_BOOK, meta.data, meta.len);
        }
    }
    culm_buf_release(&meta);
}

/* Decides whether the caller may come in; a newcomer gets its id. False: *ret_error says why
 * not. */
static bool identify(struct culm_roster *roster, struct culm_caller *caller, uint32_t *ret_role,
                     struct culm_error *ret_error) {
    const struct culm_roster_ops *ops = roster->o.ops;
    *ret_role = 0;
    if (caller->node != CULM_NEWCOMER) {
        return ops->check(roster->o.ctx, caller, ret_error);
    }
    if (!ops->enroll) {
        CULM_MARK(cluster_no_newcomers);
        culm_error_set(ret_error, CULM_ERR_CONFIG, "this run lets in no newcomers");
        return false;
    }
    return ops->enroll(roster->o.ctx, caller, &caller->node, ret_role, ret_error);
}

/* It says nothing until it is welcomed, so that nothing of what it says is lost here. */
static void receive_visitor(struct culm_roster *roster, struct culm_link *link) {
    const struct culm_welcome said = {
        .pid = roster->o.pid, .node = CULM_VISITOR, .plain = roster->o.plain};
    struct culm_channel channel;
    struct culm_buf meta;
    if (!roster->o.ops->visit) {
        CULM_MARK(cluster_no_visitors);
        refuse(roster, link, "this run has nothing for visitors");
        return;
    }
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_welcome_encode(&said, &meta);
    if (!meta.failed) {
        culm_link_send(link, CULM_WIRE_WELCOME, meta.data, meta.len);
    }
    culm_buf_release(&meta);
    if (culm_link_release(link, now(roster) + VISITOR_NS, &channel)) {
        CULM_MARK(cluster_visitor_is_welcome);
        roster->o.ops->visit(roster->o.ctx, &channel);
    }
}

static void admit(struct culm_roster *roster, struct culm_link *link,
                  const struct culm_message *message) {
    struct culm_introduction introduction;
    struct culm_error error = {0};
    if (!link->handshake.greeted) {
        if (culm_link_greeted(link, message, &error) != CULM_OK) {
            CULM_MARK(cluster_greeting_is_refused);
            refuse(roster, link, error.text);
        }
        return;
    }
    if (culm_handshake_proved(&link->handshake, message, &introduction, &error) != CULM_OK) {
        CULM_MARK(cluster_proof_is_refused);
        refuse(roster, link, error.text);
        return;
    }
    if (link->handshake.caller == CULM_VISITOR) {
        receive_visitor(roster, link);
        return;
    }
    struct culm_caller caller = {link->handshake.caller, link->pid, &introduction,
                                 link->origin ? link->origin : ""};
    uint32_t role;
    if (link_of(roster, caller.node)) {
        CULM_MARK(cluster_node_is_there_already);
        culm_error_set(&error, CULM_ERR_CONFIG, "node %d is not expected", caller.node);
        refuse(roster, link, error.text);
        return;
    }
    if (!identify(roster, &caller, &role, &error)) {
        CULM_MARK(cluster_worker_is_not_let_in);
        link->ending = error.status == CULM_ERR_CLOSED;
        refuse(roster, link, error.text);
        return;
    }
    if (!place_link(roster, link, caller.node, introduction.address)) {
        refuse(roster, link, "the leader is out of memory");
        return;
    }
    culm_link_known(link, PREPARING, caller.node);
    culm_conn_limits(link->conn, CULM_WIRE_HELLO_MAX, 0);
    lives(roster, link);
    welcome(roster, link, role);
}

static void take_id(struct culm_roster *roster, struct culm_link *link, int32_t node) {
    struct place *place = link->own;
    if (link->handshake.caller == CULM_NEWCOMER) {
        culm_ids_renumber(&roster->places, link->node, node);
        link->node = place->entry.node = node;
    }
}

/* A newcomer learns who it is. */
static void tell_id(struct culm_link *link) {
    struct culm_buf meta;
    if (link->handshake.caller != CULM_NEWCOMER) {
        return;
    }
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_i32(&meta, link->node);
    if (!meta.failed) {
        culm_link_send(link, CULM_WIRE_ADMITTED, meta.data, meta.len);
    }
    culm_buf_release(&meta);
}

static void take_part(struct culm_roster *roster, struct culm_link *link,
                      const struct culm_ready *ready) {
    tell_id(link);
    link->kind = WORKER;
    culm_conn_limits(link->conn, CULM_FRAME_META_MAX, roster->o.payload_max);
    tell_addresses(roster, link);
    roster->o.ops->up(roster->o.ctx, link->node, ready);
}

/* It is ready, and that it takes part is to be written down somewhere before anyone is told. */
static void let_wait(struct culm_roster *roster, struct culm_link *link, int32_t id,
                     const struct culm_ready *ready) {
    struct place *place = link->own;
    place->waiting = malloc(sizeof *place->waiting);
    if (place->waiting) {
        CULM_MARK(cluster_admission_takes_a_while);
        place->waiting->ready = *ready;
        culm_buf_init(&place->waiting->said, WAITING_BYTES);
        take_id(roster, link, id);
    } else {
        refuse(roster, link, "the leader is out of memory");
    }
}

static struct waiting *waiting_of(const struct culm_link *link) {
    return ((const struct place *)link->own)->waiting;
}

static void keep_said(struct culm_roster *roster, struct culm_link *link,
                      const struct culm_message *message) {
    struct culm_buf *said = &waiting_of(link)->said;
    culm_buf_u32(said, message->type);
    culm_buf_u32(said, message->meta_bytes);
    culm_buf_bytes(said, message->meta, message->meta_bytes);
    if (said->failed) {
        CULM_MARK(cluster_says_too_much_before_it_is_admitted);
        refuse(roster, link, "it says too much before it takes part");
    }
}

/* As if it had said it now. */
static void tell_said(struct culm_roster *roster, int32_t node, const struct culm_buf *said) {
    for (size_t at = 0; at < said->len && link_of(roster, node);) {
        uint32_t type, len;
        memcpy(&type, said->data + at, sizeof type);
        memcpy(&len, said->data + at + sizeof type, sizeof len);
        at += sizeof type + sizeof len;
        const struct culm_message message = {
            .type = (uint16_t)type, .meta = said->data + at, .meta_bytes = len};
        roster->o.ops->message(roster->o.ctx, node, &message);
        at += len;
    }
}

void culm_roster_admit(struct culm_roster *roster, int32_t node) {
    struct place *place = culm_ids_find(&roster->places, node);
    if (place && place->waiting && !place->link->refused) {
        struct waiting *waiting = place->waiting;
        place->waiting = NULL;
        take_part(roster, place->link, &waiting->ready);
        tell_said(roster, node, &waiting->said);
        waiting_free(waiting);
    }
}

static void hear_last_words(struct culm_roster *roster, const struct culm_link *link,
                            const struct culm_message *message) {
    struct culm_ready why;
    if (culm_ready_decode(message, &why) && why.status != CULM_OK && roster->o.ops->failed) {
        CULM_MARK(cluster_last_words_are_heard);
        roster->o.ops->failed(roster->o.ctx, link->node, &why);
    }
}

static void hear_preparing(struct culm_roster *roster, struct culm_link *link,
                           const struct culm_message *message) {
    struct culm_ready ready;
    struct culm_error error = {0};
    int32_t node = link->node;
    lives(roster, link);
    if (message->type == CULM_WIRE_PREPARING) {
        return;
    }
    if (waiting_of(link) && message->type < CULM_WIRE_FIRST) {
        keep_said(roster, link, message);
    } else if (waiting_of(link) && message->type == CULM_WIRE_FAILED) {
        hear_last_words(roster, link, message);
    } else if (message->type != CULM_WIRE_READY || waiting_of(link) ||
               !culm_ready_decode(message, &ready)) {
        CULM_MARK(cluster_worker_neither_prepares_nor_is_ready);
        refuse(roster, link,
               "this worker neither prepares nor is ready; is it of the same version?");
    } else if (roster->o.ops->ready &&
               !roster->o.ops->ready(roster->o.ctx, &node, &ready, &error)) {
        if (error.status == CULM_ERR_AGAIN && ready.status == CULM_OK) {
            let_wait(roster, link, node, &ready);
            return;
        }
        CULM_MARK(cluster_ready_is_refused);
        link->ending = error.status == CULM_ERR_CLOSED;
        refuse(roster, link, error.text);
    } else if (ready.status == CULM_OK) {
        take_id(roster, link, node);
        take_part(roster, link, &ready);
    } else {
        CULM_MARK(cluster_worker_declines);
    }
}

/* --- calling those who took part --- */

static void call_end(struct culm_roster *roster, struct call *call) {
    if (call->link) {
        drop_link(roster, call->link);
    }
    free(culm_ids_take(&roster->calls, call->node));
}

/* Another attempt will be made, if it can be of any use. */
static void call_failed(struct culm_roster *roster, struct call *call,
                        const struct culm_error *why) {
    const int32_t node = call->node;
    if (culm_dial_again(&call->dial, now(roster), why->status)) {
        CULM_MARK(cluster_node_is_called_again);
        return;
    }
    CULM_MARK(cluster_node_that_is_called_is_not_there);
    call_end(roster, call);
    roster->o.ops->absent(roster->o.ctx, node, why);
}

static void call_now(struct culm_roster *roster, struct call *call) {
    struct culm_error error = {0};
    const enum culm_status status =
        culm_link_call(&roster->links, CALLED, call->node, call->address, &call->link, &error);
    if (status == CULM_OK) {
        call->link->own = call;
    } else {
        error.status = status;
        call_failed(roster, call, &error);
    }
}

static void call_again(struct culm_roster *roster) {
    for (int32_t i = roster->calls.count - 1; i >= 0; i--) {
        if (i < roster->calls.count) { /* some may have gone meanwhile */
            struct call *call = roster->calls.thing[i];
            if (!call->link && now(roster) >= call->dial.again_ns) {
                call_now(roster, call);
            }
        }
    }
}

bool culm_roster_call(struct culm_roster *roster, int32_t node, const char *address) {
    struct call *call = calloc(1, sizeof *call);
    if (!call || !culm_ids_put(&roster->calls, node, call)) {
        free(call);
        return false;
    }
    call->node = node;
    culm_dial_start(&call->dial, now(roster), 0); /* for as long as it may be there */
    snprintf(call->address, sizeof call->address, "%s", address);
    call_now(roster, call);
    set_alarm(roster);
    return true;
}

void culm_roster_uncall(struct culm_roster *roster, int32_t node) {
    struct call *call = culm_ids_find(&roster->calls, node);
    if (call) {
        call_end(roster, call);
    }
}

const char *culm_roster_address(const struct culm_roster *roster, int32_t node) {
    const struct place *place = culm_ids_find(&roster->places, node);
    return place ? place->entry.address : "";
}

static void say_term(struct culm_roster *roster, struct culm_link *link) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    struct culm_claim claim = {.term = roster->o.term};
    snprintf(claim.address, sizeof claim.address, "%s", roster->o.address ? roster->o.address : "");
    culm_claim_encode(&claim, &meta);
    if (!meta.failed) {
        culm_link_send(link, CULM_WIRE_TAKE_OVER, meta.data, meta.len);
    }
    culm_buf_release(&meta);
}

/* It has promised: it takes part. */
static void take_in(struct culm_roster *roster, struct culm_link *link,
                    const struct culm_ready *ready) {
    struct call *call = link->own;
    int32_t node = call->node;
    struct culm_error error;
    if (roster->o.ops->ready && !roster->o.ops->ready(roster->o.ctx, &node, ready, &error)) {
        CULM_MARK(cluster_promise_is_not_taken);
        error.status = CULM_ERR_CONFIG;
        drop_link(roster, link);
        call_failed(roster, call, &error);
        return;
    }
    if (!place_link(roster, link, node, call->address)) { /* `own` is its place now */
        return; /* it is called again when it has hung up */
    }
    link->kind = WORKER;
    free(culm_ids_take(&roster->calls, node));
    tell_addresses(roster, link);
    roster->o.ops->up(roster->o.ctx, node, ready);
}

static void hear_deposed(struct culm_roster *roster, const struct culm_message *message) {
    uint64_t term;
    if (culm_term_decode(message, &term) && term > roster->o.term && roster->o.ops->deposed) {
        CULM_MARK(cluster_another_one_leads);
        roster->o.ops->deposed(roster->o.ctx, term);
    }
}

static void hear_called(struct culm_roster *roster, struct culm_link *link,
                        const struct culm_message *message) {
    struct culm_ready ready;
    struct culm_error error = {0};
    const struct culm_introduction introduction = {0};
    if (message->type == CULM_WIRE_DEPOSED) {
        hear_deposed(roster, message);
    } else if (!link->handshake.greeted) {
        if (culm_link_challenged(link, message, &introduction, &error) != CULM_OK) {
            struct call *call = link->own;
            drop_link(roster, link);
            call_failed(roster, call, &error);
        }
    } else if (message->type == CULM_WIRE_WELCOME) {
        say_term(roster, link);
    } else if (message->type == CULM_WIRE_PROMISED && culm_ready_decode(message, &ready)) {
        take_in(roster, link, &ready);
    }
}

/* --- what is received --- */

static void on_message(void *ctx, struct culm_conn *conn, const struct culm_message *message) {
    struct culm_link *link = ctx;
    struct culm_roster *roster = link->set->owner;
    (void)conn;
    if (link->refused) {
        CULM_MARK(cluster_refused_goes_on);
        return;
    }
    if (link->kind == UNKNOWN) {
        admit(roster, link, message);
    } else if (link->kind == PREPARING) {
        hear_preparing(roster, link, message);
    } else if (link->kind == CALLED) {
        hear_called(roster, link, message);
    } else if (message->type < CULM_WIRE_FIRST) {
        roster->o.ops->message(roster->o.ctx, link->node, message);
    } else if (message->type == CULM_WIRE_FAILED) {
        hear_last_words(roster, link, message);
    } else if (message->type == CULM_WIRE_DEPOSED) {
        hear_deposed(roster, message);
    }
}

static void on_closed(void *ctx, struct culm_conn *conn, const struct culm_error *why) {
    struct culm_link *link = ctx;
    struct culm_roster *roster = link->set->owner;
    bool unknown = link->kind == UNKNOWN;
    if (unknown && !link->refused && why->status != CULM_ERR_CLOSED) {
        say_refused(roster, link->origin,
                    why->status == CULM_ERR_CONFIG
                        ? "it has another token, or is not a node of Culm"
                        : why->text);
    }
    struct call *call = link->kind == CALLED ? link->own : NULL;
    int32_t node = link->node;
    struct culm_error error = *why;
    (void)conn;
    drop_link(roster, link);
    if (call) {
        call_failed(roster, call, &error);
    } else if (!unknown) {
        CULM_MARK(cluster_worker_is_gone);
        roster->o.ops->eof(roster->o.ctx, node, &error);
    }
}

static const struct culm_conn_ops link_ops = {on_message, on_closed};

/* --- from outside --- */

void culm_roster_accepted(struct culm_roster *roster, struct culm_stream *take_stream, int64_t pid,
                          const char *origin) {
    bool first = roster->links.unknown_count == 0;
    struct culm_link *link = culm_link_accepted(&roster->links, take_stream, pid);
    if (link) {
        link->origin = strdup(origin);
    }
    if (link && first) {
        set_alarm(roster);
    }
}

bool culm_roster_evict(struct culm_roster *roster) { return culm_link_evict(&roster->links); }

void culm_roster_say_alive(struct culm_roster *roster) {
    for (struct culm_link *link = roster->links.first; link; link = link->next) {
        if (link->kind == WORKER && !culm_conn_queued(link->conn)) {
            culm_link_send(link, CULM_WIRE_ALIVE, NULL, 0);
        }
    }
}

static bool hears_news(const struct culm_link *link) {
    return link->kind == WORKER || (link->kind == PREPARING && !link->refused);
}

void culm_roster_news(struct culm_roster *roster, int32_t node, const void *news, size_t len) {
    struct culm_link *link = link_of(roster, node);
    if (link && hears_news(link)) {
        culm_link_send(link, CULM_WIRE_NEWS, news, len);
    }
}

void culm_roster_news_all(struct culm_roster *roster, const void *news, size_t len) {
    for (struct culm_link *link = roster->links.first; link; link = link->next) {
        if (hears_news(link)) {
            culm_link_send(link, CULM_WIRE_NEWS, news, len);
        }
    }
}

void culm_roster_alarm(struct culm_roster *roster) {
    sweep_refused(roster);
    culm_link_sweep(&roster->links);
    call_again(roster);
    set_alarm(roster);
}

void culm_roster_send(struct culm_roster *roster, int32_t node,
                      const struct culm_message *message) {
    struct culm_link *link = link_of(roster, node);
    if (link && link->kind == WORKER) {
        culm_conn_send(link->conn, message);
    }
}

bool culm_roster_end(struct culm_roster *roster, int32_t node) {
    bool news = link_of(roster, node) != NULL;
    if (news) {
        culm_conn_pump(link_of(roster, node)->conn);
    }
    struct culm_link *link = link_of(roster, node);
    if (link) { /* frames still in flight, or a child process that has the socket, come too late */
        struct culm_error error;
        CULM_MARK(cluster_process_ended_but_not_its_link);
        culm_error_set(&error, CULM_ERR_CLOSED, "its process has ended");
        drop_link(roster, link);
        roster->o.ops->eof(roster->o.ctx, node, &error);
    }
    return news;
}

void culm_roster_finish(struct culm_roster *roster) {
    for (struct culm_link *link = roster->links.first; link; link = link->next) {
        if (link->kind == WORKER) {
            culm_conn_finish(link->conn);
        }
    }
}

/* --- life --- */

struct culm_roster *culm_roster_new(const struct culm_roster_options *options) {
    struct culm_roster *roster = calloc(1, sizeof *roster);
    if (roster) {
        roster->o = *options;
        roster->links = (struct culm_link_set){
            .fabric = options->fabric,
            .pool = options->pool,
            .payload_max = options->payload_max,
            .scratch_bytes = options->scratch_bytes,
            .token = options->token,
            .self = CULM_LEADER,
            .unknown_max = UNKNOWN_MAX,
            .hello_ns = CULM_WIRE_HELLO_NS(options->hello_limit_ms),
            .ops = &link_ops,
            .owner = roster,
        };
    }
    return roster;
}

void culm_roster_free(struct culm_roster *roster) {
    if (!roster) {
        return;
    }
    while (roster->links.first) {
        drop_link(roster, roster->links.first);
    }
    for (int32_t i = 0; i < roster->calls.count; i++) {
        free(roster->calls.thing[i]);
    }
    culm_ids_release(&roster->calls);
    culm_ids_release(&roster->places);
    free(roster);
}
