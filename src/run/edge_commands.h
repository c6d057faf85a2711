/*
 * What `culm edge` needs of src/run. Results are JSON objects, one after the other, which the
 * command prints as they are or in words. As commands.h: nothing here prints.
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
    const char *profile; /* NULL: what is not known is measured */
    double for_s;        /* 0: not given */
    const char *out;     /* NULL: none */
    int64_t frames;      /* of the grid, a stream; 0: not given */
    int64_t answers;     /* of the grid: frames of each feed that models answer; 0: not given */
    /* Takes the object over. Called on the thread of the command. */
    void (*tell)(void *ctx, json_t *take_object);
    void *ctx;
};

/* Runs it until its time is over, a signal comes or all feeds have ended: the events. CULM_OK after
 * a signal too. */
enum culm_status culm_edge_run(const struct culm_edge_command *command, struct culm_error *error);
/* What would come of running it, in virtual time: one object. */
enum culm_status culm_edge_plan_run(const struct culm_edge_command *command,
                                    struct culm_error *error);
/* The grid: one object for each cell, mode x memory x deadline x frames a second. */
enum culm_status culm_edge_grid(const struct culm_edge_command *command, struct culm_error *error);

#endif
