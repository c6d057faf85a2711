/*
 * What `culm edge` needs of src/run. Results are a sequence of JSON objects, which the command
 * prints as they are or in words. As with commands.h, nothing here prints.
 */
#ifndef CULM_RUN_EDGE_COMMANDS_H
#define CULM_RUN_EDGE_COMMANDS_H

#include "base/status.h"

#include <jansson.h>

struct culm_edge_command {
    const char *workload;
    const char *const *sets;
    size_t set_count;
    const char *const *packages; /* folders; for the grid also NAME=FOLDER and NAME=SHARE% */
    size_t package_count;
    const char *profile; /* NULL: measure what is not known */
    double for_s;        /* 0: not given */
    const char *out;     /* NULL: the default */
    int64_t frames;      /* the grid: frames of each stream; 0: not given */
    int64_t answers;     /* the grid: frames of each feed for models to answer; 0: not given */
    /* Takes over the object. Called on the command's thread. */
    void (*tell)(void *ctx, json_t *take_object);
    void *ctx;
};

/* Runs the workload until its time is up, a signal comes or all feeds have ended; tells the events
 * of the run. A signal is not an error. */
enum culm_status culm_edge_run(const struct culm_edge_command *command, struct culm_error *error);
/* Works out in virtual time what would come of a run; tells one object. */
enum culm_status culm_edge_plan_run(const struct culm_edge_command *command,
                                    struct culm_error *error);
/* Does so for a grid of settings; tells one object for each mode x memory x deadline x frame rate.
 */
enum culm_status culm_edge_grid(const struct culm_edge_command *command, struct culm_error *error);

#endif
