/*
 * What would come of running a workload, in virtual time: for `culm edge plan` and `culm edge bench`.
 * Results are a sequence of JSON objects, which the command prints as they are or in words. Nothing here
 * prints. Thread: the caller's.
 */
#ifndef CULM_RUN_EDGE_PLAN_H
#define CULM_RUN_EDGE_PLAN_H

#include "base/status.h"

#include <jansson.h>

struct culm_edge_planning {
    const char *workload;
    const char *const *sets;
    size_t set_count;
    const char *const *packages; /* folders; for the grid also NAME=FOLDER and NAME=SHARE% */
    size_t package_count;
    const char *profile; /* NULL: measure what is not known */
    double for_s;        /* 0: not given */
    int64_t frames;      /* the grid: frames of each stream; 0: not given */
    int64_t answers;     /* the grid: frames of each feed for models to answer; 0: not given */
    /* Takes over the object. */
    void (*tell)(void *ctx, json_t *take_object);
    void *ctx;
};

/* Works out what would come of a run; tells one object. */
enum culm_status culm_edge_plan_run(const struct culm_edge_planning *planning,
                                    struct culm_error *error);
/* Does so for a grid of settings; tells one object for each mode x memory x deadline x frame rate.
 */
enum culm_status culm_edge_grid(const struct culm_edge_planning *planning,
                                struct culm_error *error);

#endif
