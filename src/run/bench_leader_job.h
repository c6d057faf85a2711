/*
 * What bench_leader.c asks of a job whose leader it measures. Files of `culm bench leader` only. Thread: the caller's.
 */
#ifndef CULM_RUN_BENCH_LEADER_JOB_H
#define CULM_RUN_BENCH_LEADER_JOB_H

#include "run/bench_world.h"

struct bench_job {
    int64_t least, most;   /* workers */
    uint16_t view, commit; /* types of messages */
    size_t meta_max;       /* the most bytes of one */
    /* Nodes of all roles with so many workers, which are nodes 0, 1, ... */
    int32_t (*nodes)(int32_t workers);
    /* Makes a leader in this world, and what follows needs; sets role, actor and leader of the world. It has not been
     * started. NULL: out of memory. */
    void *(*open)(struct bench_world *world, int32_t workers);
    void (*close)(void *job); /* NULL is fine */
    /* All nodes have joined, or a round was committed: says what nodes answer to the views that are queued. */
    void (*settle)(void *job);
    /* How many messages a commit waits for; says number `message` of them, from 0. The last one commits. */
    int32_t (*messages)(void *job);
    void (*say)(void *job, int32_t message);
};

extern const struct bench_job bench_gnn, bench_train;

#endif
