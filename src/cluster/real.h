/*
 * The common part of the real worlds (worker.h, host.h, alone.h): a loop, sixteen timers, two job
 * threads, and the rule that an actor that has left is not called any more. Internal to the room.
 *
 * `struct culm_real` is the first member of each; the last functions below go into their world
 * tables. Thread: the loop's, except culm_real_now_ns.
 */
#ifndef CULM_CLUSTER_REAL_H
#define CULM_CLUSTER_REAL_H

#include "cluster/jobs.h"

#include <uv.h>

#define CULM_REAL_TIMERS 16

struct culm_real_timer {
    uv_timer_t timer;
    uint64_t due_ns;
};

struct culm_real {
    struct culm_world world; /* first */
    uv_loop_t loop;
    struct culm_real_timer timer[CULM_REAL_TIMERS];
    struct culm_jobs *compute, *io;
    const struct culm_actor_ops *actor_ops; /* set by run */
    void *actor;
    /* Told why the world fails, before it leaves; NULL: nobody is. */
    void (*failing)(struct culm_real *real, const struct culm_error *error);
    bool left;
    int exit_code;
    struct culm_error error; /* text "": none */
};

enum culm_status culm_real_init(struct culm_real *real, const struct culm_world_ops *ops,
                                struct culm_error *error);
/* Closes the handles of _init and runs the loop until all handles are closed, then closes the loop.
 * The caller must have closed its own handles and stopped the jobs. */
void culm_real_release(struct culm_real *real);
/* Whether the actor may be called: it runs, and has not left. */
bool culm_real_listens(const struct culm_real *real);
/* Like leave, for failures of the world itself. */
void culm_real_fail(struct culm_real *real, const struct culm_error *error);

uint64_t culm_real_now_ns(struct culm_world *world);
void culm_real_set_timer(struct culm_world *world, uint32_t timer, uint64_t delay_ns);
void culm_real_run(struct culm_world *world, struct culm_job *job);
void culm_real_io(struct culm_world *world, struct culm_job *job);
void culm_real_leave(struct culm_world *world, int exit_code, const struct culm_error *error);

#endif
