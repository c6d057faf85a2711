/*
 * A world that only counts, for a leader that is measured alone: what it sends is copied, as a real world does it, and
 * kept until it is dropped; events are made and thrown away; nobody starts. The clock is the real one.
 *
 * Files of `culm bench leader` only. Thread: the caller's.
 */
#ifndef CULM_RUN_BENCH_WORLD_H
#define CULM_RUN_BENCH_WORLD_H

#include "base/buf.h"
#include "net/leader.h"
#include "net/world.h"

#define BENCH_TYPES 64 /* of messages: their numbers are below */
#define BENCH_TIMERS 16

struct bench_sent;

struct bench_world {
    struct culm_world world; /* first member */
    struct culm_agent agent;
    const struct culm_actor_ops
        *actor; /* whose world it is, and its table: set by whoever makes it */
    void *leader;
    struct culm_buf said; /* what a node says next */
    int32_t nodes;
    uint32_t *role;                /* [nodes] */
    int64_t *bytes;                /* [nodes] queued for each */
    int64_t sent[BENCH_TYPES];     /* queued of each type */
    struct bench_sent *queue;      /* the last one first */
    uint64_t due_ns[BENCH_TIMERS]; /* CULM_NEVER: not set */
    bool left, no_memory;
    struct culm_error error; /* with which it left */
};

/* No message may have more than `meta_max` bytes. False: out of memory; release it in any case. */
bool bench_world_init(struct bench_world *world, int32_t nodes, size_t meta_max);
void bench_world_release(struct bench_world *world);
/* Drops what is queued, and counts anew. */
void bench_world_drop(struct bench_world *world);
/* Fires each timer that is due now; those that they set wait for another call. */
void bench_world_fire(struct bench_world *world);
/* What lies in `said` comes to the leader, as a message of that node. */
void bench_world_say(struct bench_world *world, int32_t node, uint16_t type);
/* The last message of the type that is queued, NULL: there is none. Good until it is dropped. */
const uint8_t *bench_world_last(const struct bench_world *world, uint16_t type, size_t *ret_bytes);
/* The most that is queued for one node. */
int64_t bench_world_most_bytes(const struct bench_world *world);

#endif
