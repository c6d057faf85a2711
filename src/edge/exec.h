/*
 * What the scheduler has done for it: tensors brought in and let go, a model run on frames, answers
 * given. One implementation does it for real; in virtual time there is nothing to do, or only to
 * count.
 *
 * Thread: `load` on the I/O thread, `infer` on the compute thread, everything else on the loop's.
 */
#ifndef CULM_EDGE_EXEC_H
#define CULM_EDGE_EXEC_H

#include "edge/layout.h"
#include "net/world.h"

struct culm_edge_exec {
    const struct culm_edge_exec_ops *ops;
};

/* A frame, for one query. */
struct culm_edge_look {
    int64_t frame;          /* its number in the feed */
    uint64_t at_ns, due_ns; /* when it came; when its answer must be there */
    struct culm_blob *blob; /* NULL in virtual time */
};

/* One tensor is brought in. */
struct culm_edge_load {
    struct culm_job job; /* first */
    struct culm_edge_exec *exec;
    int32_t tensor, query; /* for whom */
    uint64_t begin_ns;     /* when the scheduler turned to it: room was still to be made */
};

/* One batch is run. */
struct culm_edge_batch {
    struct culm_job job; /* first */
    struct culm_edge_exec *exec;
    int32_t query;
    int32_t count; /* frames, oldest first */
    struct culm_edge_look look[CULM_EDGE_VISIT_MAX];
    /* The prefix (of the query's list) that the batch before this one has computed on the same
     * frames, for another query; -1: none. */
    int32_t shared_prefix;
    uint64_t expected_ns; /* how long it should take */
    uint64_t begin_ns;    /* when the scheduler turned to it */
};

struct culm_edge_exec_ops {
    size_t size;
    enum culm_status (*load)(struct culm_job *job);
    enum culm_status (*infer)(struct culm_job *job);
    /* It went well, and took so long from the moment at which the scheduler turned to it: what goes
     * for it, and the ways from thread to thread, are part of it. */
    void (*loaded)(struct culm_edge_exec *exec, const struct culm_edge_load *load, uint64_t ns);
    void (*ran)(struct culm_edge_exec *exec, const struct culm_edge_batch *batch, uint64_t ns);
    /* Its memory is given back. It is in no job. */
    void (*evict)(struct culm_edge_exec *exec, int32_t tensor);
    /* Memory for activations is to be so large from now on. No batch runs. */
    void (*activations)(struct culm_edge_exec *exec, size_t bytes);
    /* The query's frame is settled: answered in time by `batch`, or dropped (batch NULL), and then
     * what it answered last holds on. */
    void (*settled)(struct culm_edge_exec *exec, int32_t query, const struct culm_edge_look *look,
                    const struct culm_edge_batch *batch);
    /* The new layout counts from now on; nothing of the old one is used any more. */
    void (*relaid)(struct culm_edge_exec *exec);
};

#endif
