/*
 * The leader's side of the cluster: lets in awaited workers that prove who they are, and
 * newcomers, which get an id when they are ready; tells workers where the others listen; and knows which link belongs
 * to which node.
 *
 * A newcomer that is refused is told so at once, but those of an origin (a machine) that is refused
 * again and again wait for the answer, longer each time, so that something that starts them anew
 * whenever they end does so seldom. Others from there are let in without delay.
 *
 * A leader that takes over from another one *calls* those who took part (culm_roster_call), and names
 * its term; whoever promises to hear it is up as if it had come by itself.
 *
 * A state machine over a fabric, without sockets, clock or processes of its own; `check` says who
 * is awaited. For each worker, `up` is called first, then `message`, then `eof`; everything that it
 * has sent is delivered before `eof`. Functions do not call back, except those that say so. Thread:
 * the loop's.
 */
#ifndef CULM_CLUSTER_ROSTER_H
#define CULM_CLUSTER_ROSTER_H

#include "cluster/handshake.h"
#include "net/fabric.h"

struct culm_roster;

/* A connection that has proved that it knows the token. */
struct culm_caller {
    int32_t node; /* CULM_NEWCOMER: without an id yet */
    int64_t pid;  /* 0: not known */
    const struct culm_introduction *introduction;
    const char
        *origin; /* the host of the address from which it came; "": this machine, or not known */
};

struct culm_roster_ops {
    /* Whether the node may come in. If not, *ret_error says why, and the node is sent its text. */
    bool (*check)(void *ctx, const struct culm_caller *caller, struct culm_error *ret_error);
    /* A newcomer asks to come in: gives it a role, and a number for the roster's use until it is
     * ready: its id if it has one already, or one below CULM_NEWCOMER. If it may not, *ret_error says
     * why, and the newcomer is sent its text. NULL: no newcomers are let in. */
    bool (*enroll)(void *ctx, const struct culm_caller *caller, int32_t *ret_node,
                   uint32_t *ret_role, struct culm_error *ret_error);
    /* A visitor (handshake.h) has been welcomed: takes its connection. NULL: there are no visits. */
    void (*visit)(void *ctx, struct culm_channel *take_channel);
    /* Makes the brief that is sent with WELCOME: a blob, whose ownership passes to the roster; or
     * leaves *ret_brief alone if there is none. False: there is no room for it; *ret_error says so,
     * and the node is sent its text. NULL: there are no briefs. */
    bool (*brief)(void *ctx, int32_t node, struct culm_blob **ret_brief,
                  struct culm_error *ret_error);
    /* WELCOME has been sent: news may follow. May be NULL. */
    void (*welcomed)(void *ctx, int32_t node);
    /* The node was let in, or has sent a sign of life while it prepares. May be NULL. */
    void (*preparing)(void *ctx, int32_t node);
    /* The node has prepared, or, if ready->status is not CULM_OK, declines and ends. A newcomer that
     * is ready gets its id: *node. False: it may not take part; *ret_error says why, and the node
     * is sent its text; with CULM_ERR_AGAIN, not yet: it has that id from now on, and hears of it by culm_roster_admit, if it may.
     * NULL: all may. One that is called, and has promised, is ready, and never has to wait. */
    bool (*ready)(void *ctx, int32_t *node, const struct culm_ready *ready,
                  struct culm_error *ret_error);
    /* The node takes part from now on. */
    void (*up)(void *ctx, int32_t node, const struct culm_ready *ready);
    void (*message)(void *ctx, int32_t node, const struct culm_message *message);
    /* The node is about to end by itself, and says why. May be NULL. */
    void (*failed)(void *ctx, int32_t node, const struct culm_ready *why);
    /* The node's link has ended, whether it was up or not. */
    void (*eof)(void *ctx, int32_t node, const struct culm_error *why);
    /* One that is called is not there: its machine says so, or whoever answers does not know the token.
     * It is not called again. NULL: none are called. */
    void (*absent)(void *ctx, int32_t node, const struct culm_error *why);
    /* One from another machine is not let in: why, as far as it is known, and how many others there were of which this was not said
     * (origins.h). May be NULL. */
    void (*refused)(void *ctx, const char *origin, const char *why, int32_t unsaid);
    /* A node has promised a leader of a higher term. NULL: nobody ever does. */
    void (*deposed)(void *ctx, uint64_t term);
};

struct culm_roster_options { /* all borrowed until _free */
    struct culm_fabric *fabric;
    const char *token;
    int64_t pid; /* of the leader, for WELCOME, as is */
    bool plain;  /* between machines nothing is encrypted */
    struct culm_blob_pool *pool;
    size_t payload_max;
    size_t scratch_bytes;   /* of a connection; 0: a default */
    int64_t hello_limit_ms; /* 0: 10000 */
    uint64_t term;          /* in which it leads, for those who are called */
    const char *address;    /* where it lets nodes in, for those; NULL: "" */
    const struct culm_roster_ops *ops;
    void *ctx;
};

/* NULL: out of memory. */
struct culm_roster *culm_roster_new(const struct culm_roster_options *options);
/* A stream has come in, from process `pid` (0: not known) of `origin`, the host of its address ("": this
 * machine). */
void culm_roster_accepted(struct culm_roster *roster, struct culm_stream *take_stream, int64_t pid,
                          const char *origin);
/* Calls a node that took part under another leader, where it listens, and again until it is up, or absent,
 * or `culm_roster_uncall`. May call back. False: out of memory. */
bool culm_roster_call(struct culm_roster *roster, int32_t node, const char *address);
void culm_roster_uncall(struct culm_roster *roster, int32_t node);
/* One that is ready, and was to wait, takes part; what it has said meanwhile follows. Calls back. Nothing if it has gone. */
void culm_roster_admit(struct culm_roster *roster, int32_t node);
/* Where a node that is ready listens for its peers; "": nowhere, or it is not. Valid until it is gone. */
const char *culm_roster_address(const struct culm_roster *roster, int32_t node);
/* Frees a descriptor by closing the oldest unknown link. False: there is none. */
bool culm_roster_evict(struct culm_roster *roster);
/* Sends ALIVE to every worker for which nothing is queued. */
void culm_roster_say_alive(struct culm_roster *roster);
/* Sends an addition to the brief to one worker that has been welcomed, or to all of them. */
void culm_roster_news(struct culm_roster *roster, int32_t node, const void *news, size_t len);
void culm_roster_news_all(struct culm_roster *roster, const void *news, size_t len);
void culm_roster_alarm(struct culm_roster *roster); /* the fabric's alarm */
/* The message is dropped if the node is not up. */
void culm_roster_send(struct culm_roster *roster, int32_t node, const struct culm_message *message);
/* The node's process has ended: delivers what it has sent, then its eof; calls back. False: its eof
 * had been delivered before. */
bool culm_roster_end(struct culm_roster *roster, int32_t node);
/* Ends the streams to all workers once everything queued is written. */
void culm_roster_finish(struct culm_roster *roster);
void culm_roster_free(struct culm_roster *roster); /* NULL is fine */

#endif
