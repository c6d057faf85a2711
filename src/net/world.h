/*
 * The world table: the only way in which protocol code reaches the outside, but for the agent that
 * starts and ends processes for the one that leads (leader.h).
 *
 * A protocol is an *actor*: a state machine that is told of messages, timers, finished jobs and
 * lost peers, and acts through the operations of its *world*. Two worlds implement this table: the
 * real one (libuv, sockets, threads, processes) and the simulated one (virtual clock and fabric,
 * one thread, one seed). The same actor object files run in both. One actor of a run *leads*: what
 * only that one is told and may do is in leader.h.
 *
 * Delivery promised by a world:
 *   - frames between two actors arrive in the order sent, but that those that yield may be overtaken
 *     by others; each at most once, whole or not at all; a death may lose a suffix;
 *   - an actor's callbacks never overlap and never nest: an operation of the table never calls back
 *     into the actor;
 *   - `run` jobs execute one after another, in order, off the loop; so do `io` jobs, on a thread of
 *     their own;
 *   - the address of a peer is known to a world before its actor can have heard of that peer.
 *
 * Thread: every call and callback is on the actor's loop thread, except `fault` and the job
 * functions.
 */
#ifndef CULM_NET_WORLD_H
#define CULM_NET_WORLD_H

#include "base/blob.h"
#include "base/status.h"

#include <jansson.h>

/* Whoever leads, as an address: what is sent to it goes there, and what comes from it is its word.
 * Nodes are 0, 1, 2, ...; no number is used again. */
#define CULM_LEADER (-1)
#define CULM_NODE_IDS INT32_MAX /* ids of nodes are 0 or more, and below */
/* The id of a newcomer until it has one: a process that nobody here started, and that asks to come in
 * (leader.h). Nothing is ever sent to it, or comes from it, under this number. */
#define CULM_NEWCOMER (-2)

#define CULM_NEVER UINT64_MAX

/* A message. When sent, `meta` is copied and `payload` is referenced until written. When received,
 * both are valid for the length of the call; an actor that keeps the payload takes a reference. */
struct culm_message {
    uint16_t type;
    uint32_t meta_bytes;
    const uint8_t *meta;
    struct culm_blob *payload; /* NULL: none */
    size_t payload_offset;     /* of the part that is meant; 0 when received */
    size_t payload_bytes;      /* of that part */
    bool yields; /* when sent: it may wait for what is sent after it and does not yield */
};

/* Work off the loop thread. Embed it in a struct of your own; it must live until job_done. */
struct culm_job {
    enum culm_status (*execute)(struct culm_job *job); /* on the compute or the I/O thread */
    enum culm_status status;                           /* what execute returned */
    struct culm_error error;                           /* filled by execute when it fails */
    int stop;         /* atomic; set by the loop to ask a job that may be interrupted to return
                       * CULM_ERR_AGAIN as soon as it can */
    uint64_t cost_ns; /* how long a simulated world lets it take; 0: the world's default */
    void *owner;      /* the actor's own */
};

/* A point of an actor's work at which a test may put a fault. The numbers are the actor's own: a
 * world compares them and knows no more. */
struct culm_fault_point {
    uint32_t phase; /* what it does */
    int64_t step;   /* how far it is; from 1 */
    int64_t part;   /* of the step; -1 where there are no parts */
};

struct culm_world {
    const struct culm_world_ops *ops;
};

struct culm_world_ops {
    size_t size; /* sizeof(struct culm_world_ops), for versioning */

    uint64_t (*now_ns)(struct culm_world *world); /* monotonic */
    /* Never fails visibly: to an unknown or dead destination the message is dropped. */
    void (*send)(struct culm_world *world, int32_t node, const struct culm_message *message);
    /* (Re-)arms timer number `timer` (0..15) to fire once after delay_ns; CULM_NEVER disarms it. */
    void (*timer)(struct culm_world *world, uint32_t timer, uint64_t delay_ns);
    void (*run)(struct culm_world *world, struct culm_job *job); /* on the compute thread */
    void (*io)(struct culm_world *world, struct culm_job *job);  /* on the I/O thread */
    /* May not return (a worker that is to die here) or return late (one that is frozen). Any
     * thread. */
    void (*fault)(struct culm_world *world, const struct culm_fault_point *point);
    /* Takes the event over. Object with "event" first; the world adds "t_ms". What one that does
     * not lead publishes goes nowhere. */
    void (*publish)(struct culm_world *world, json_t *take_event);
    /* Ends this actor: no callback follows. `exit_code` as in cli/command.h; `error` may be
     * NULL. */
    void (*leave)(struct culm_world *world, int exit_code, const struct culm_error *error);
};

struct culm_leader_ops; /* leader.h */

struct culm_actor_ops {
    size_t size;
    void (*start)(void *actor);
    void (*message)(void *actor, int32_t from, const struct culm_message *message);
    /* The connection to a node has ended; or, for one that does not lead, cannot be had. */
    void (*lost)(void *actor, int32_t node);
    void (*timer)(void *actor, uint32_t timer);
    void (*job_done)(void *actor, struct culm_job *job);
    const struct culm_leader_ops *leads; /* NULL: it does not */
    /* Another one leads from now on, in that *term*, a number that only rises: nothing comes from
     * CULM_LEADER any more of what one of a lower term has said, and what is sent there goes to the new
     * one. Also when the same one has called again, since the connection had broken; what was under
     * way then, either way, is lost. NULL: only one ever leads. */
    void (*led)(void *actor, uint64_t term);
    /* It is to end, and will be ended after so many milliseconds: it asks whoever leads to do without it first, and leaves
     * when it may. Once or more. NULL: it is ended as it is. */
    void (*leave)(void *actor, int64_t within_ms);
};

#endif
