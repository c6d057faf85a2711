/*
 * The coordinator's side of the cluster: it lets in workers that are awaited and prove it, and
 * newcomers that are given an id; tells each where the others listen; and knows whose link is whose.
 *
 * A state machine over a network: no sockets, clock or processes of its own; who is awaited is
 * asked of `check`. Of one worker come `up`, then messages, then `eof`: all that it sent is told
 * before its end. No function calls back before it returns but those marked. Thread: the loop's.
 */
#ifndef CULM_CLUSTER_ROSTER_H
#define CULM_CLUSTER_ROSTER_H

#include "cluster/handshake.h"
#include "net/network.h"

struct culm_roster;

/* One that has proved that it knows the token. */
struct culm_caller {
    int32_t node; /* CULM_NEWCOMER: it has no id yet */
    int64_t pid;  /* 0: not known */
    const struct culm_introduction *introduction;
};

struct culm_roster_ops {
    /* May it come in? If not, says why in *ret_error, whose text it is told. */
    bool (*check)(void *ctx, const struct culm_caller *caller, struct culm_error *ret_error);
    /* A newcomer asks to come in: gives it an id that no other node has had, and a role. If it may
     * not, says why in *ret_error, whose text it is told. NULL: none may. */
    bool (*enroll)(void *ctx, const struct culm_caller *caller, int32_t *ret_node,
                   uint32_t *ret_role, struct culm_error *ret_error);
    /* What it is told with the welcome: a blob that is taken, or untouched for nothing. False: it
     * cannot be said, and the caller is left without an answer. NULL: nothing. */
    bool (*brief)(void *ctx, int32_t node, struct culm_blob **ret_brief);
    void (*preparing)(void *ctx, int32_t node); /* it was let in, or lives; NULL: never mind */
    /* It has prepared, or declines (its status says so; then it ends). If it may not take part,
     * says why in *ret_error, whose text it is told. NULL: it may. */
    bool (*ready)(void *ctx, int32_t node, const struct culm_ready *ready,
                  struct culm_error *ret_error);
    void (*up)(void *ctx, int32_t node, const struct culm_ready *ready); /* and may */
    void (*message)(void *ctx, int32_t node, const struct culm_message *message);
    /* It ends by itself, and says why; NULL: never mind. */
    void (*failed)(void *ctx, int32_t node, const struct culm_ready *why);
    void (*eof)(void *ctx, int32_t node, const struct culm_error *why); /* up or not */
};

struct culm_roster_options { /* all borrowed until _free */
    struct culm_network *network;
    const char *token;
    int64_t pid; /* told to those that come in */
    struct culm_blob_pool *pool;
    size_t payload_max;
    size_t scratch_bytes;   /* of a connection; 0: as many as are good */
    int64_t hello_limit_ms; /* 0: 10000 */
    const struct culm_roster_ops *ops;
    void *ctx;
};

/* NULL: out of memory. */
struct culm_roster *culm_roster_new(const struct culm_roster_options *options);
/* A stream that came in, from process `pid` (0: not known). */
void culm_roster_accepted(struct culm_roster *roster, struct culm_stream *take_stream, int64_t pid);
/* No descriptor is left: makes room by closing one that has proved nothing. False: there is none.
 */
bool culm_roster_evict(struct culm_roster *roster);
/* Something to every worker that has nothing else to hear. */
void culm_roster_say_alive(struct culm_roster *roster);
/* Something that the brief has not said: to one worker that is up, or to all. */
void culm_roster_news(struct culm_roster *roster, int32_t node, const void *news, size_t len);
void culm_roster_news_all(struct culm_roster *roster, const void *news, size_t len);
void culm_roster_alarm(struct culm_roster *roster); /* it rang */
void culm_roster_send(struct culm_roster *roster, int32_t node, const struct culm_message *message);
/* Its process has ended: what it sent is handled, then its end; calls back. False: its end was
 * known already. */
bool culm_roster_end(struct culm_roster *roster, int32_t node);
/* Once what is queued is written, tells everyone that nothing more comes. */
void culm_roster_finish(struct culm_roster *roster);
void culm_roster_free(struct culm_roster *roster); /* NULL is fine */

#endif
