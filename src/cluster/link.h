/*
 * Links: connections and whose they are, as the coordinator and a worker both keep them.
 *
 * A link that has come in is a *stranger* until it has said who it is: its frames are short, it may
 * last hello_ns, and there are at most strangers_max of them. Internal to the room. Thread: the
 * loop's.
 */
#ifndef CULM_CLUSTER_LINK_H
#define CULM_CLUSTER_LINK_H

#include "net/conn.h"
#include "net/network.h"

struct culm_link_set;

struct culm_link {
    struct culm_link_set *set;
    struct culm_conn *conn;
    struct culm_link *next, **slot;
    int kind;          /* the owner's; CULM_LINK_STRANGER */
    int32_t node;      /* of one that is known */
    uint64_t since_ns; /* of a stranger */
    bool refused;      /* told so; it is to go */
};

#define CULM_LINK_STRANGER 0

struct culm_link_set {
    struct culm_network *network; /* borrowed, like the pool */
    struct culm_pool *pool;
    size_t payload_max, scratch_bytes;
    int32_t strangers_max, strangers;
    uint64_t hello_ns;
    const struct culm_conn_ops *ops; /* their ctx is the link */
    void *owner;
    struct culm_link *first;
};

/* Takes the stream. Of any kind but a stranger large frames are taken at once. NULL: no memory. */
struct culm_link *culm_link_new(struct culm_link_set *set, int kind, int32_t node,
                                struct culm_stream *take_stream, bool connecting);
/* One that came in. NULL: too many strangers, or no memory; it is closed. */
struct culm_link *culm_link_accepted(struct culm_link_set *set, struct culm_stream *take_stream);
/* The stranger has said who it is. */
void culm_link_known(struct culm_link *link, int kind, int32_t node);
void culm_link_free(struct culm_link *link);
/* Closes strangers that said nothing in time. */
void culm_link_sweep(struct culm_link_set *set);
void culm_link_send(struct culm_link *link, uint16_t type, const void *meta, size_t meta_bytes);

#endif
