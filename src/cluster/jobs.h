/*
 * A thread that executes jobs one after another, in the order submitted, and tells the loop of each
 * when it has ended. Thread: the loop's, except the jobs themselves.
 */
#ifndef CULM_CLUSTER_JOBS_H
#define CULM_CLUSTER_JOBS_H

#include "net/world.h"

#include <uv.h>

struct culm_jobs;

/* `done` is called on the loop thread, in the order of execution. */
enum culm_status culm_jobs_new(uv_loop_t *loop, void (*done)(void *ctx, struct culm_job *job),
                               void *ctx, struct culm_jobs **ret_jobs, struct culm_error *error);
/* CULM_ERR_MEMORY: the job was not taken. */
enum culm_status culm_jobs_submit(struct culm_jobs *jobs, struct culm_job *job);
/* Forgets the jobs that wait, asks the one that runs to stop, and waits for it. False: it still
 * runs at deadline_ns (CLOCK_MONOTONIC); nothing that it uses may be freed. `done` is not called
 * any more. */
bool culm_jobs_stop(struct culm_jobs *jobs, uint64_t deadline_ns);
/* After a stop that was true. The memory goes when the loop has run once more. NULL is fine. */
void culm_jobs_free(struct culm_jobs *jobs);

#endif
