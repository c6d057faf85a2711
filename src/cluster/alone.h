/*
 * The real world of an actor without peers: a process with a loop and two job threads. Other
 * threads of the process, called *sources*, post messages, which reach the actor like messages of
 * nodes.
 *
 * It leaves signals alone; a handler may wake the loop.
 *
 * Thread: one, the loop's, except for culm_alone_post, _lost, _count_waiting and _wake.
 */
#ifndef CULM_CLUSTER_ALONE_H
#define CULM_CLUSTER_ALONE_H

#include "net/world.h"

#define CULM_ALONE_META_MAX 32

struct culm_alone;

struct culm_alone_options { /* functions are called on the loop's thread, and may be NULL */
    void (*publish)(void *ctx, json_t *event); /* borrows the event; "t_ms" follows "event" */
    void (*woken)(void *ctx);                  /* after culm_alone_wake, once for several */
    void (*tick)(void *ctx);                   /* every tick_ms */
    void (*stop)(void *ctx);                   /* for_ms is over */
    void *ctx;
    uint64_t tick_ms; /* 0: never */
    uint64_t for_ms;  /* 0: without end */
};

enum culm_status culm_alone_new(const struct culm_alone_options *options,
                                struct culm_alone **ret_alone, struct culm_error *error);
struct culm_world *culm_alone_world(struct culm_alone *alone);
/* Posts a message as if from node `from`; messages arrive in the order of the calls. meta, of at
 * most CULM_ALONE_META_MAX bytes, is copied; the payload is referenced. False: out of memory. Any
 * thread. */
bool culm_alone_post(struct culm_alone *alone, int32_t from, const struct culm_message *message);
/* Reports node `from` as lost, after the messages posted so far. Any thread. */
bool culm_alone_lost(struct culm_alone *alone, int32_t from);
/* How many of these the loop has not yet taken up. Any thread. */
size_t culm_alone_count_waiting(struct culm_alone *alone);
/* Has `woken` called soon; before the loop runs, as soon as it does. Any thread, and a signal
 * handler. */
void culm_alone_wake(struct culm_alone *alone);
/* Runs until the actor leaves, and returns its exit code. May be called once. */
int culm_alone_run(struct culm_alone *alone, const struct culm_actor_ops *ops, void *actor,
                   struct culm_error *ret_error);
/* Sources must have ended. NULL is fine. */
void culm_alone_free(struct culm_alone *alone);

#endif
