/*
 * The real world of an actor that has no peers: a process with a loop, two job threads, and sources,
 * which are threads of whoever made it, and whose messages reach the actor as those of nodes.
 *
 * SIGINT and SIGTERM, and the end of its time, ask it to stop; SIGHUP asks it to look again at what it
 * was made from. Thread: one, the loop's, but for culm_alone_post and culm_alone_lost.
 */
#ifndef CULM_CLUSTER_ALONE_H
#define CULM_CLUSTER_ALONE_H

#include "net/world.h"

#define CULM_ALONE_META_MAX 32

struct culm_alone;

struct culm_alone_options { /* all called on the loop's thread; NULL: nothing is done */
    void (*publish)(void *ctx, json_t *event); /* borrows the event, "t_ms" added behind "event" */
    void (*stop)(void *ctx);
    void (*again)(void *ctx); /* SIGHUP */
    void (*tick)(void *ctx);  /* every tick_ms */
    void *ctx;
    uint64_t tick_ms; /* 0: never */
    uint64_t for_ms;  /* stop is called after so long; 0: never */
};

/* Before all else, in the thread that is to run the loop: the three signals wait, in the threads that it
 * starts too, and are heard when the loop runs. */
void culm_alone_defer_signals(void);
/* Whether one that asks to stop waits. */
bool culm_alone_asked_to_stop(void);

enum culm_status culm_alone_new(const struct culm_alone_options *options,
                                struct culm_alone **ret_alone, struct culm_error *error);
struct culm_world *culm_alone_world(struct culm_alone *alone);
/* From any thread, in the order of the calls. meta is copied (CULM_ALONE_META_MAX bytes at most), the
 * payload referenced. False: out of memory. */
bool culm_alone_post(struct culm_alone *alone, int32_t from, const struct culm_message *message);
/* From any thread: behind what it posted, that node is lost. */
bool culm_alone_lost(struct culm_alone *alone, int32_t from);
/* Until the actor leaves; returns its exit code. Once. */
int culm_alone_run(struct culm_alone *alone, const struct culm_actor_ops *ops, void *actor,
                   struct culm_error *ret_error);
/* Sources have ended. NULL is fine. */
void culm_alone_free(struct culm_alone *alone);

#endif
