/*
 * A worker's side of the cluster: joins a leader, opens links to peers, lets in peers that
 * prove who they are, and reports lost peers.
 *
 * A state machine over a fabric, without sockets, clock or processes of its own. For each peer,
 * `lost` is called once, when either of its two links ends or cannot be opened. Everything that the
 * peer sent has been delivered by then; nothing is received from it or sent to it afterwards.
 * `ended` is called at most once, and nothing after it. Functions do not call back, except those
 * that say so. Thread: the loop's.
 *
 * To reach a node, the member *dials* it. If a link cannot be opened for lack of resources, or ends
 * before the other side has sent WELCOME (a crowd may have pushed it out), the member tries again
 * until a time limit, and holds frames for the peer meanwhile. Time during which the process or its
 * machine stands still does not count. If nobody is there, or the other side does not know the
 * token, it does not try again.
 *
 * A link to a peer is opened when something is first sent to it, and carries data in one direction
 * only. The exception is a member without an address (""), which others cannot connect to: they
 * send to it over the links that it has opened, and hold frames until it has. Since it cannot know
 * who has something to send, it connects to every peer as soon as it knows the address.
 *
 * A leader may come to an end, and another one call the member and name its term: the member
 * *promises* it not to hear any of a lower term from then on, and tells those so. Until then it goes
 * on without a leader, if it is to, for orphan_ms since it last heard one.
 */
#ifndef CULM_CLUSTER_MEMBER_H
#define CULM_CLUSTER_MEMBER_H

#include "net/conn.h"
#include "net/fabric.h"
#include "net/world.h"

struct culm_member;

struct culm_member_ops {
    /* It has been let in; leader_pid is what the leader says. Call culm_member_ready
     * once it has prepared. */
    void (*joined)(void *ctx, int64_t leader_pid);
    void (*message)(void *ctx, int32_t from, const struct culm_message *message);
    void (*lost)(void *ctx, int32_t node);
    /* It was refused, or out of time, or the leader is gone (CULM_ERR_CLOSED,
     * CULM_ERR_TIMEOUT), or a message was malformed, or memory is out. */
    void (*ended)(void *ctx, const struct culm_error *why);
    /* An addition to the brief. May be NULL. */
    void (*news)(void *ctx, const void *news, size_t len);
    /* Another one leads from now on, in that term: what is sent to CULM_LEADER goes there. Also when one
     * that leads already has called again, since the link to it had broken. NULL: nobody may take over. */
    /* `address`: where it lets nodes in. */
    void (*led)(void *ctx, uint64_t term, const char *address);
    /* It has heard no leader for a part of orphan_ms, and asks again within for_ms if that goes on: could none have called it?
     * NULL: always. */
    bool (*stranded)(void *ctx, int64_t for_ms);
};

struct culm_member_options {    /* all borrowed until _free */
    struct culm_fabric *fabric; /* its owner calls culm_member_accepted and culm_member_alarm */
    const char *leader;         /* its address */
    const char *address;        /* that peers connect to; "": they cannot, this member does */
    const char *token;
    int32_t node;
    const char *name, *signature; /* NULL: "" */
    struct culm_blob_pool *pool;  /* for received payloads */
    size_t payload_max;
    size_t scratch_bytes;   /* of a connection; 0: a default */
    int64_t hello_limit_ms; /* time in which a connection must prove itself; 0: 10000 */
    int64_t join_limit_ms;  /* 0: 30000 */
    int64_t orphan_ms;      /* ends if the leader is silent for longer; 0: never */
    int64_t stranded_ms;    /* at most; that much of the silence does not count */
    int64_t dial_limit_ms;  /* a peer that cannot be reached in this time is lost; 0: 6000 */
    bool
        outlives; /* once it is known to others, the end of the link to its leader is not its own end */
    const struct culm_member_ops *ops;
    void *ctx;
};

/* NULL: out of memory. */
struct culm_member *culm_member_new(const struct culm_member_options *options);
/* Begins to join; `joined` or `ended` is called. If the first attempt fails for good, `ended` is
 * called before this returns. */
void culm_member_join(struct culm_member *member);
/* In place of culm_member_join and _ready: it has been let in over this stream, and has prepared.
 * False: out of memory. */
bool culm_member_adopt(struct culm_member *member, struct culm_stream *take_stream);
/* Whom it promised not to hear leaders of lower terms; 0: nobody. */
uint64_t culm_member_term(const struct culm_member *member);
/* It has prepared, and can receive messages from now on. */
void culm_member_ready(struct culm_member *member);
/* A stream has come in. */
void culm_member_accepted(struct culm_member *member, struct culm_stream *take_stream);
void culm_member_alarm(struct culm_member *member); /* the fabric's alarm; calls back */
/* The message is dropped if the node is not known, or lost. */
void culm_member_send(struct culm_member *member, int32_t node, const struct culm_message *message);
/* Closes the oldest unknown link; false: there is none. */
bool culm_member_evict(struct culm_member *member);

/* --- for a process that is to die at an exact byte (fault.h) --- */

/* Whether messages to the node would not be dropped. If it has no open link, it is dialed from now
 * on. */
bool culm_member_reaches(struct culm_member *member, int32_t node);
/* The open connection over which messages to the node are sent; NULL: there is none. */
struct culm_conn *culm_member_conn(const struct culm_member *member, int32_t node);
/* The known peer with the lowest id that is not below `node`; -1: there is none. */
int32_t culm_member_next(const struct culm_member *member, int32_t node);
/* Whether the peer is being dialed; *ret_conn: the connection, or NULL between two attempts. False
 * for a peer that cannot be connected to: nothing can be done from here. */
bool culm_member_dialing(const struct culm_member *member, int32_t node,
                         struct culm_conn **ret_conn);
/* Makes the next attempt now, for a peer that is being dialed and has no connection. */
void culm_member_dial_now(struct culm_member *member, int32_t node);
/* Waits until everything queued on open links has been written, at most until deadline_ns. */
void culm_member_flush(struct culm_member *member, uint64_t deadline_ns);

/* Ends the stream to the leader once everything queued is written; `ended` follows when the
 * leader has closed its side. */
void culm_member_finish(struct culm_member *member);
void culm_member_free(struct culm_member *member); /* NULL is fine */

#endif
