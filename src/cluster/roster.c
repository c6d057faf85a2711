/* The coordinator's links: admits workers, and keeps the address book. See roster.h. */
#include "cluster/roster.h"

#include "base/grow.h"
#include "cluster/link.h"

#include <stdlib.h>
#include <string.h>

#define SWEEP_NS 100000000ull
#define UNKNOWN_MAX 1024

enum kind { UNKNOWN = CULM_LINK_UNKNOWN, PREPARING, WORKER };

struct place {
    struct culm_link *link;
    struct culm_entry entry;
};

struct culm_roster {
    struct culm_roster_options o;
    struct culm_link_set links;
    struct place *place; /* [capacity], by node */
    int32_t capacity;
};

static void set_alarm(struct culm_roster *roster) {
    roster->o.network->ops->alarm(roster->o.network,
                                  roster->links.unknown_count ? SWEEP_NS : CULM_NEVER);
}

static struct culm_link *link_of(const struct culm_roster *roster, int32_t node) {
    return node >= 0 && node < roster->capacity ? roster->place[node].link : NULL;
}

static void drop_link(struct culm_roster *roster, struct culm_link *link) {
    if (link->kind != UNKNOWN) {
        roster->place[link->node].link = NULL;
    }
    culm_link_free(link);
}

/* --- the handshake --- */

static void refuse(struct culm_link *link, const char *text) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_string(&meta, text);
    if (!meta.failed) {
        culm_link_send(link, CULM_WIRE_REFUSED, meta.data, meta.len);
    }
    culm_buf_release(&meta);
    culm_conn_finish(link->conn); /* the other side closes once it has read REFUSED */
    link->refused = true;
}

static struct place *place_of(struct culm_roster *roster, int32_t node) {
    int32_t before = roster->capacity;
    if (!CULM_GROW(roster->place, roster->capacity, node + 1)) {
        return NULL;
    }
    memset(roster->place + before, 0, (size_t)(roster->capacity - before) * sizeof *roster->place);
    return &roster->place[node];
}

static void welcome(struct culm_roster *roster, struct culm_link *link, uint32_t role) {
    const struct culm_welcome said = {.pid = roster->o.pid, .node = link->node, .role = role};
    struct culm_blob *brief = NULL;
    struct culm_buf meta;
    if (roster->o.ops->brief && !roster->o.ops->brief(roster->o.ctx, link->node, &brief)) {
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
            culm_entry_encode(&roster->place[other->node].entry, &meta);
        }
    }
    if (!meta.failed) {
        culm_link_send(link, CULM_WIRE_BOOK, meta.data, meta.len);
    }
    culm_buf_clear(&meta);
    culm_entry_encode(&roster->place[link->node].entry, &meta);
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
        culm_error_set(ret_error, CULM_ERR_CONFIG, "this run lets in no newcomers");
        return false;
    }
    return ops->enroll(roster->o.ctx, caller, &caller->node, ret_role, ret_error);
}

static void admit(struct culm_roster *roster, struct culm_link *link,
                  const struct culm_message *message) {
    struct culm_introduction introduction;
    struct culm_error error = {0};
    if (!link->handshake.greeted) {
        if (culm_link_greeted(link, message, &error) != CULM_OK) {
            refuse(link, error.text);
        }
        return;
    }
    if (culm_handshake_proved(&link->handshake, message, &introduction, &error) != CULM_OK) {
        refuse(link, error.text);
        return;
    }
    struct culm_caller caller = {link->handshake.caller, link->pid, &introduction};
    uint32_t role;
    if (link_of(roster, caller.node)) {
        culm_error_set(&error, CULM_ERR_CONFIG, "node %d is not expected", caller.node);
        refuse(link, error.text);
        return;
    }
    if (!identify(roster, &caller, &role, &error)) {
        refuse(link, error.text);
        return;
    }
    struct place *place = place_of(roster, caller.node);
    if (!place) {
        refuse(link, "the coordinator is out of memory");
        return;
    }
    place->link = link;
    place->entry.node = caller.node;
    memcpy(place->entry.address, introduction.address, sizeof place->entry.address);
    culm_link_known(link, PREPARING, caller.node);
    culm_conn_limits(link->conn, CULM_WIRE_HELLO_MAX, 0);
    lives(roster, link);
    welcome(roster, link, role);
}

static void hear_preparing(struct culm_roster *roster, struct culm_link *link,
                           const struct culm_message *message) {
    struct culm_ready ready;
    struct culm_error error;
    lives(roster, link);
    if (message->type == CULM_WIRE_PREPARING) {
        return;
    }
    if (message->type != CULM_WIRE_READY || !culm_ready_decode(message, &ready)) {
        refuse(link, "this worker neither prepares nor is ready; is it of the same version?");
    } else if (roster->o.ops->ready &&
               !roster->o.ops->ready(roster->o.ctx, link->node, &ready, &error)) {
        refuse(link, error.text);
    } else if (ready.status == CULM_OK) {
        link->kind = WORKER;
        culm_conn_limits(link->conn, CULM_FRAME_META_MAX, roster->o.payload_max);
        tell_addresses(roster, link);
        roster->o.ops->up(roster->o.ctx, link->node, &ready);
    }
}

/* --- what is received --- */

static void hear_last_words(struct culm_roster *roster, const struct culm_link *link,
                            const struct culm_message *message) {
    struct culm_ready why;
    if (culm_ready_decode(message, &why) && why.status != CULM_OK && roster->o.ops->failed) {
        roster->o.ops->failed(roster->o.ctx, link->node, &why);
    }
}

static void on_message(void *ctx, struct culm_conn *conn, const struct culm_message *message) {
    struct culm_link *link = ctx;
    struct culm_roster *roster = link->set->owner;
    (void)conn;
    if (link->refused) {
        return;
    }
    if (link->kind == UNKNOWN) {
        admit(roster, link, message);
    } else if (link->kind == PREPARING) {
        hear_preparing(roster, link, message);
    } else if (message->type < CULM_WIRE_FIRST) {
        roster->o.ops->message(roster->o.ctx, link->node, message);
    } else if (message->type == CULM_WIRE_FAILED) {
        hear_last_words(roster, link, message);
    }
}

static void on_closed(void *ctx, struct culm_conn *conn, const struct culm_error *why) {
    struct culm_link *link = ctx;
    struct culm_roster *roster = link->set->owner;
    bool unknown = link->kind == UNKNOWN;
    int32_t node = link->node;
    struct culm_error error = *why;
    (void)conn;
    drop_link(roster, link);
    if (!unknown) {
        roster->o.ops->eof(roster->o.ctx, node, &error);
    }
}

static const struct culm_conn_ops link_ops = {on_message, on_closed};

/* --- from outside --- */

void culm_roster_accepted(struct culm_roster *roster, struct culm_stream *take_stream,
                          int64_t pid) {
    bool first = roster->links.unknown_count == 0;
    if (culm_link_accepted(&roster->links, take_stream, pid) && first) {
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

void culm_roster_news(struct culm_roster *roster, int32_t node, const void *news, size_t len) {
    struct culm_link *link = link_of(roster, node);
    if (link && link->kind == WORKER) {
        culm_link_send(link, CULM_WIRE_NEWS, news, len);
    }
}

void culm_roster_news_all(struct culm_roster *roster, const void *news, size_t len) {
    for (struct culm_link *link = roster->links.first; link; link = link->next) {
        if (link->kind == WORKER) {
            culm_link_send(link, CULM_WIRE_NEWS, news, len);
        }
    }
}

void culm_roster_alarm(struct culm_roster *roster) {
    culm_link_sweep(&roster->links);
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
            .network = options->network,
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
    free(roster->place);
    free(roster);
}
