/*
 * Repeated attempts to reach a node: when the next one is, and when they are given up. Time during which this process or its machine
 * stands still is not counted, since nobody can be reached then. Thread: the owner's. Internal to the room.
 */
#ifndef CULM_CLUSTER_DIAL_H
#define CULM_CLUSTER_DIAL_H

#include "base/status.h"

#include <stdint.h>

struct culm_dial {
    bool on;                     /* the owner's */
    uint64_t left_ns, looked_ns; /* time left until it is given up; when that was computed */
    uint64_t again_ns, pause_ns; /* time of the next attempt; pause after a failed one */
};

/* limit_ms: for attempts in all. */
void culm_dial_start(struct culm_dial *dial, uint64_t now_ns, int64_t limit_ms);
/* Whether the time limit is over. */
bool culm_dial_is_over(struct culm_dial *dial, uint64_t now_ns);
/* Schedules the next attempt, after one that failed so. False: it would be of no use. */
bool culm_dial_again(struct culm_dial *dial, uint64_t now_ns, enum culm_status why);

#endif
