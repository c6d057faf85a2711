/*
 * The roll of a run: which nodes from elsewhere take part, and how often somebody has led, in a file of the run directory.
 * So a launcher that was killed, or whose machine was started again, can be resumed while they are still at work.
 *
 *     DIR/nodes.jsonl    {"term":1}                        somebody leads, for the first time
 *                        {"node":3,"address":..., ...}     takes part
 *                        {"gone":3}
 *
 * It is removed when the run ends as it should; what a crash cut off is passed over. The lock of the run directory
 * (rundir.h) sees to it that nobody else writes it. Thread: one.
 */
#ifndef CULM_LAUNCH_ROLL_H
#define CULM_LAUNCH_ROLL_H

#include "base/file.h"
#include "cluster/host.h"

#include <jansson.h>

struct culm_roll {
    char path[CULM_PATH_MAX];
    uint64_t term;               /* the last one; 0: nobody has led, as far as is known */
    struct culm_host_node *node; /* [count] who took part and has not gone, by id */
    int32_t count, capacity;
    int32_t next_node; /* ids from here on have not been given */
    int fd;            /* -1: not open */
};

/* One node as JSON, and back: {"node", "role", "address", "name", "host", "zone", "machine"}. NULL: out of memory. False: it
 * is none. */
json_t *culm_roll_node_json(const struct culm_host_node *node);
bool culm_roll_node_read(const json_t *json, struct culm_host_node *ret_node);

/* What is there of an earlier launch. Nothing is written yet. CULM_ERR_MEMORY, CULM_ERR_IO. */
enum culm_status culm_roll_read(const char *dir, struct culm_roll *ret_roll,
                                struct culm_error *error);
/* Another one leads: with those who took part, or without. Writes the file anew. */
enum culm_status culm_roll_begin(struct culm_roll *roll, bool with_them, struct culm_error *error);
/* Written as soon as it is known, without waiting for the disk: it outlives the process, not the machine. Also of one
 * that is not to be found again (address ""), whose id is not given again. */
void culm_roll_came(struct culm_roll *roll, const struct culm_host_node *node);
void culm_roll_went(struct culm_roll *roll, int32_t node);
/* The run has ended: nobody is to be found. */
void culm_roll_end(struct culm_roll *roll);
void culm_roll_release(struct culm_roll *roll); /* fine on a zeroed one */

#endif
