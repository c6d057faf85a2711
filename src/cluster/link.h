/*
 * Links: connections and whose they are, as the coordinator and a worker both keep them.
 *
 * A link that has come in is *unknown* until it has proved who it is (handshake.h): its frames are
 * short, it may last hello_ns, and there are at most unknown_max of them. The next one takes the
 * place of the oldest, so that no crowd of silent ones keeps out who has something to say: a
 * handshake takes less than a millisecond, and one whose place was taken calls again. Internal to
 * the room. Thread: the loop's.
 */
#ifndef CULM_CLUSTER_LINK_H
#define CULM_CLUSTER_LINK_H

#include "cluster/handshake.h"
#include "net/conn.h"
#include "net/network.h"

struct culm_link_set;

struct culm_link {
    struct culm_link_set *set;
    struct culm_conn *conn;
    struct culm_link *next, **slot;
    struct culm_link *older, *newer; /* of one that is unknown, with since_ns */
    uint64_t since_ns;
    int kind;     /* the owner's; CULM_LINK_UNKNOWN */
    int32_t node; /* of one that is known */
    struct culm_handshake handshake;
    int64_t pid;  /* of one that came in; 0: not known */
    bool refused; /* told so; it is to go */
};

#define CULM_LINK_UNKNOWN 0

struct culm_link_set {
    struct culm_network *network; /* borrowed, like the pool */
    struct culm_blob_pool *pool;
    size_t payload_max, scratch_bytes;
    const char *token; /* borrowed */
    int32_t self;      /* who we are: a node, or CULM_LEADER */
    int32_t unknown_max, unknown_count;
    struct culm_link *oldest, *newest; /* of those that are unknown */
    uint64_t hello_ns;
    const struct culm_conn_ops *ops; /* their ctx is the link */
    void *owner;
    struct culm_link *first;
};

/* Takes the stream. Of any kind but an unknown one large frames are taken at once. NULL: no memory. */
struct culm_link *culm_link_new(struct culm_link_set *set, int kind, int32_t node,
                                struct culm_stream *take_stream, bool connecting);
/* One that came in, of process `pid` (0: not known). NULL: no memory; it is closed. */
struct culm_link *culm_link_accepted(struct culm_link_set *set, struct culm_stream *take_stream,
                                     int64_t pid);
/* Opens a link and says hello. CULM_ERR_MEMORY, or as culm_socket_connect. */
enum culm_status culm_link_call(struct culm_link_set *set, int kind, int32_t node,
                                const char *address, struct culm_link **ret_link,
                                struct culm_error *error);
/* The hello of an unknown one: answers with a challenge. */
enum culm_status culm_link_greeted(struct culm_link *link, const struct culm_message *hello,
                                   struct culm_error *error);
/* The answer to our hello: answers with a proof. */
enum culm_status culm_link_challenged(struct culm_link *link, const struct culm_message *challenge,
                                      const struct culm_introduction *introduction,
                                      struct culm_error *error);
/* The unknown one has proved who it is. */
void culm_link_known(struct culm_link *link, int kind, int32_t node);
/* Closes it; nothing comes of it any more. */
void culm_link_free(struct culm_link *link);
/* Closes the oldest unknown one; false: there is none. */
bool culm_link_evict(struct culm_link_set *set);
/* Closes unknown ones that proved nothing in time. */
void culm_link_sweep(struct culm_link_set *set);
/* A message of the worlds (wire.h), without a payload. */
void culm_link_send(struct culm_link *link, uint16_t type, const void *meta, size_t meta_bytes);

#endif
