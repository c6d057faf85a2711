/*
 * Links: connections together with the node at the other end. The leader and workers both use
 * them.
 *
 * An incoming link is *unknown* until it has proved who it is (handshake.h). Until then its frames
 * must be short, it is closed after hello_ns, and there are at most unknown_max such links. One
 * more closes the oldest, so that a crowd of silent connections cannot keep others out: a handshake
 * takes less than a millisecond, and a node whose link was closed connects again. Internal to the
 * room. Thread: the loop's.
 */
#ifndef CULM_CLUSTER_LINK_H
#define CULM_CLUSTER_LINK_H

#include "cluster/handshake.h"
#include "net/conn.h"
#include "net/fabric.h"

struct culm_link_set;

struct culm_link {
    struct culm_link_set *set;
    struct culm_conn *conn;
    struct culm_link *next, **slot;
    struct culm_link *older, *newer; /* neighbours in the list of unknown links */
    uint64_t since_ns;               /* when it came in */
    int kind;                        /* CULM_LINK_UNKNOWN, or a kind of the owner's */
    int32_t node;                    /* at the other end; not valid for unknown links */
    void *own;                       /* the owner's; NULL at first */
    struct culm_handshake handshake;
    int64_t pid;  /* of the other end, if it came in; 0: not known */
    bool ending;  /* of one that is refused: because the run, or who leads here, is about to end */
    bool refused; /* has been sent REFUSED, or is going to be; it is about to be closed */
    char *held;   /* why it is refused, while it is not told yet; NULL: it is, or is not refused */
    uint64_t held_until_ns;
    char *origin; /* where it came from; NULL: not known */
};

#define CULM_LINK_UNKNOWN 0

struct culm_link_set {
    struct culm_fabric *fabric; /* borrowed, like the pool */
    struct culm_blob_pool *pool;
    size_t payload_max, scratch_bytes;
    const char *token; /* borrowed */
    int32_t self;      /* this end: a node, or CULM_LEADER */
    int32_t unknown_max, unknown_count;
    struct culm_link *oldest, *newest; /* unknown links */
    uint64_t hello_ns;
    const struct culm_conn_ops *ops; /* their ctx is the link */
    void *owner;
    struct culm_link *first; /* all links */
};

/* Takes ownership of the stream. Links of any kind but CULM_LINK_UNKNOWN accept large frames at
 * once. NULL: out of memory. */
struct culm_link *culm_link_new(struct culm_link_set *set, int kind, int32_t node,
                                struct culm_stream *take_stream, bool connecting);
/* An incoming link, unknown yet, of process `pid` (0: not known). NULL: out of memory, or of random
 * numbers; the stream has been closed. */
struct culm_link *culm_link_accepted(struct culm_link_set *set, struct culm_stream *take_stream,
                                     int64_t pid);
/* Opens a link and sends HELLO. CULM_ERR_MEMORY, or as culm_socket_connect. */
enum culm_status culm_link_call(struct culm_link_set *set, int kind, int32_t node,
                                const char *address, struct culm_link **ret_link,
                                struct culm_error *error);
/* Handles the HELLO of an unknown link: answers with a CHALLENGE. */
enum culm_status culm_link_greeted(struct culm_link *link, const struct culm_message *hello,
                                   struct culm_error *error);
/* Handles the answer to our HELLO: answers a CHALLENGE with a PROOF. */
enum culm_status culm_link_challenged(struct culm_link *link, const struct culm_message *challenge,
                                      const struct culm_introduction *introduction,
                                      struct culm_error *error);
/* An unknown link has proved who it is. */
void culm_link_known(struct culm_link *link, int kind, int32_t node);
/* As culm_link_free, but hands over its socket: culm_conn_release. */
bool culm_link_release(struct culm_link *link, uint64_t deadline_ns,
                       struct culm_channel *ret_channel);
/* Closes the link; its callbacks are not called any more. */
void culm_link_free(struct culm_link *link);
/* Closes the oldest unknown link; false: there is none. */
bool culm_link_evict(struct culm_link_set *set);
/* Closes unknown links that have not proved themselves within hello_ns. */
void culm_link_sweep(struct culm_link_set *set);
/* Sends a message of the worlds (wire.h), without a payload. */
void culm_link_send(struct culm_link *link, uint16_t type, const void *meta, size_t meta_bytes);

#endif
