/*
 * A thread that executes jobs one at a time, in the order of submission, and notifies the loop when
 * each has ended. Thread: the loop's, except for the jobs themselves.
 */
#ifndef CULM_CLUSTER_JOBS_H
#define CULM_CLUSTER_JOBS_H

#include "net/world.h"

#include <uv.h>

struct culm_jobs;

/* `done` is called on the loop thread, in the order of execution. */
enum culm_status culm_jobs_new(uv_loop_t *loop, void (*done)(void *ctx, struct culm_job *job),
                               void *ctx, struct culm_jobs **ret_jobs, struct culm_error *error);
/* CULM_ERR_MEMORY: the job was not accepted. */
enum culm_status culm_jobs_submit(struct culm_jobs *jobs, struct culm_job *job);
/* Drops waiting jobs, asks the running one to stop, and waits for it. `done` is not called any
 * more. False: the job still runs at deadline_ns (CLOCK_MONOTONIC), so nothing that it uses may be
 * freed. */
bool culm_jobs_stop(struct culm_jobs *jobs, uint64_t deadline_ns);
/* culm_jobs_stop must have returned true. The memory is freed when the loop has run once more. NULL
 * is fine. */
void culm_jobs_free(struct culm_jobs *jobs);

#endif
