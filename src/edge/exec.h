/*
 * What the scheduler has others do for it: load and evict tensors, run models on frames, deliver
 * answers. One implementation does this for real; in virtual time there is nothing to do, or only
 * something to count.
 *
 * Thread: `load` runs on the I/O thread, `infer` on the compute thread, everything else on the
 * loop's.
 */
#ifndef CULM_EDGE_EXEC_H
#define CULM_EDGE_EXEC_H

#include "edge/layout.h"
#include "net/world.h"

struct culm_edge_exec {
    const struct culm_edge_exec_ops *ops;
};

/* A frame as one query sees it. */
struct culm_edge_look {
    int64_t frame;          /* its number in the feed */
    uint64_t at_ns, due_ns; /* when it arrived; when its answer is due */
    struct culm_blob *blob; /* NULL in virtual time */
};

/* A job that loads one tensor. */
struct culm_edge_load {
    struct culm_job job; /* first */
    struct culm_edge_exec *exec;
    int32_t tensor, query; /* query: the one it is loaded for */
    uint64_t begin_ns;     /* when the scheduler took it up, before it made room for it */
};

/* A job that runs one batch. */
struct culm_edge_batch {
    struct culm_job job; /* first */
    struct culm_edge_exec *exec;
    int32_t query;
    int32_t count; /* frames, oldest first */
    struct culm_edge_look look[CULM_EDGE_VISIT_MAX];
    /* The prefix, as an index of the query's list, that the batch before this one computed on the
     * same frames for another query; -1: none. */
    int32_t shared_prefix;
    uint64_t expected_ns; /* how long it should take */
    uint64_t begin_ns;    /* when the scheduler took it up */
};

struct culm_edge_exec_ops {
    size_t size;
    enum culm_status (*load)(struct culm_job *job);
    enum culm_status (*infer)(struct culm_job *job);
    /* The job succeeded. `ns` is counted from begin_ns, so it includes evicting to make room and
     * handing over between threads. */
    void (*loaded)(struct culm_edge_exec *exec, const struct culm_edge_load *load, uint64_t ns);
    void (*ran)(struct culm_edge_exec *exec, const struct culm_edge_batch *batch, uint64_t ns);
    /* Gives the tensor's memory back. No job uses it. */
    void (*evict)(struct culm_edge_exec *exec, int32_t tensor);
    /* Activations may take this much memory from now on. No batch is running. */
    void (*activations)(struct culm_edge_exec *exec, size_t bytes);
    /* How many bytes frames hold now. Once a new layout is in force, that may still be more than it
     * says, until what is in use of the one before has been given back. It does not grow
     * meanwhile. */
    size_t (*frames)(struct culm_edge_exec *exec);
    /* The query's frame is settled: answered in time by `batch`, or dropped (batch NULL), in which
     * case the query's latest answer stands in for it. */
    void (*settled)(struct culm_edge_exec *exec, int32_t query, const struct culm_edge_look *look,
                    const struct culm_edge_batch *batch);
    /* The new layout is in force from now on; nothing of the old one is used any more. */
    void (*relaid)(struct culm_edge_exec *exec);
};

#endif
