/*
 * A worker's side of the cluster: it joins a coordinator, opens links to peers when it first sends
 * to them (one that only calls: when it is told of them), lets in those that prove who they are, and
 * tells who is lost.
 *
 * A state machine over a network: no sockets, clock or processes of its own. Of each peer `lost`
 * comes once, when either of its two links ends or cannot be opened, after all that it sent;
 * nothing comes from it, or goes to it, afterwards. `ended` comes at most once, and nothing after
 * it. No function calls back before it returns but those marked. Thread: the loop's.
 *
 * Who is to be reached is *dialed*: a link that cannot be opened for lack of something, or ends
 * before the other side said welcome (in a crowd its place was taken by the next), is opened again
 * for as long as a limit says, and frames for a peer are held meanwhile. A pause of the process or of
 * its machine does not count. One that is not there, or does not know the token, is not dialed again.
 *
 * Data goes one way over a link, out over the one that was opened here; but a member that cannot be
 * called, since its address is "", is answered over the links that it opens, and what is sent to it
 * before it has called waits like what is sent to one that is dialed. It does not know who has
 * something to say to it, and so calls everyone who can be called as soon as it knows the address.
 */
#ifndef CULM_CLUSTER_MEMBER_H
#define CULM_CLUSTER_MEMBER_H

#include "net/conn.h"
#include "net/network.h"
#include "net/world.h"

struct culm_member;

struct culm_member_ops {
    /* Let in; coordinator_pid is what it says of itself. culm_member_ready is next, when it is. */
    void (*joined)(void *ctx, int64_t coordinator_pid);
    void (*message)(void *ctx, int32_t from, const struct culm_message *message);
    void (*lost)(void *ctx, int32_t node);
    /* Refused, too late, the coordinator gone (CULM_ERR_CLOSED, CULM_ERR_TIMEOUT), or out of
     * memory. */
    void (*ended)(void *ctx, const struct culm_error *why);
    /* What the coordinator would say in the brief by now; NULL: never mind. */
    void (*news)(void *ctx, const void *news, size_t len);
};

struct culm_member_options {      /* all borrowed until _free */
    struct culm_network *network; /* its owner passes on `accepted` and the alarm */
    const char *coordinator;      /* its address */
    const char *address;          /* where peers find us; "": nowhere, we call them */
    const char *token;
    int32_t node;
    const char *name, *signature; /* NULL: "" */
    struct culm_blob_pool *pool;  /* for received payloads */
    size_t payload_max;
    size_t scratch_bytes;   /* of a connection; 0: as many as are good */
    int64_t hello_limit_ms; /* one that proves nothing is closed then; 0: 10000 */
    int64_t join_limit_ms;  /* 0: 30000 */
    int64_t orphan_ms;      /* ends when the coordinator says nothing for so long; 0: never */
    int64_t dial_limit_ms;  /* a peer that cannot be reached for so long is lost; 0: 6000 */
    const struct culm_member_ops *ops;
    void *ctx;
};

/* NULL: out of memory. */
struct culm_member *culm_member_new(const struct culm_member_options *options);
/* Calls joined, or ended, later. */
void culm_member_join(struct culm_member *member);
/* Instead: it was let in over this stream, and has prepared. False: no memory. */
bool culm_member_adopt(struct culm_member *member, struct culm_stream *take_stream);
/* Has prepared: what others send may come. */
void culm_member_ready(struct culm_member *member);
/* A stream that came in. */
void culm_member_accepted(struct culm_member *member, struct culm_stream *take_stream);
void culm_member_alarm(struct culm_member *member); /* it rang; calls back */
/* Dropped when the node is not known or is lost. */
void culm_member_send(struct culm_member *member, int32_t node, const struct culm_message *message);
/* Closes the oldest unknown link; false: there is none. */
bool culm_member_evict(struct culm_member *member);

/* --- for a process that is to end at an exact byte --- */

/* False: what is sent to it is dropped. Else it is open, or dialed from now on. */
bool culm_member_reaches(struct culm_member *member, int32_t node);
/* NULL: not open. */
struct culm_conn *culm_member_conn(const struct culm_member *member, int32_t node);
int32_t culm_member_nodes(const struct culm_member *member); /* ids are below */
/* Is the peer being dialed? *ret_conn: over which connection; NULL: over none right now. False of one
 * that only calls: nothing can be done here so that it does. */
bool culm_member_dialing(const struct culm_member *member, int32_t node,
                         struct culm_conn **ret_conn);
void culm_member_dial_now(struct culm_member *member, int32_t node); /* one that is */
/* Waits until all that was sent over open links has left, at most until deadline_ns. */
void culm_member_flush(struct culm_member *member, uint64_t deadline_ns);

/* Once what is queued is written, tells the coordinator that nothing more comes; `ended` follows
 * when it has closed its side. */
void culm_member_finish(struct culm_member *member);
void culm_member_free(struct culm_member *member); /* NULL is fine */

#endif
