/*
 * The symbolic executor: a tensor is a digest of everything that went into it.
 *
 * Every element is a 64-bit digest, a count, and which samples were read (ledger/order.h). Sums mix
 * digests in an order that matters and add counts, so that a wrong order, a stale version, a double
 * count or a missing micro-batch always shows in the weights, in PREPARED or as an error of the
 * task. Backward checks that the activations it gets are those of this very forward. Like the
 * numeric one it looks at its state and at the gradients before they have an effect
 * (task->damaged); a bit can be flipped. Costs almost nothing, so that thousands of failure
 * histories run in seconds.
 *
 * All executors of a run share one `struct culm_symbolic_store`: the disk of checkpoints. Thread:
 * one.
 */
#ifndef CULM_SIM_SYMBOLIC_H
#define CULM_SIM_SYMBOLIC_H

#include "pipeline/exec.h"

#define CULM_SYMBOLIC_PARAMS_MAX 512
#define CULM_SYMBOLIC_SAMPLES 1000 /* of the data that it pretends to read */

/* A layout for `shape->stages` stages with a few parameters each, the first and last of which share
 * one (tied). */
enum culm_status culm_symbolic_layout_new(const struct culm_run_shape *shape,
                                          int32_t params_per_stage, struct culm_layout *ret_layout);

struct culm_symbolic_checkpoint {
    int64_t version; /* -1: free */
    bool published;
    uint64_t
        damaged[CULM_SYMBOLIC_PARAMS_MAX / 64]; /* params, as is found out when they are read */
    uint64_t param[CULM_SYMBOLIC_PARAMS_MAX];
    uint64_t have[CULM_SYMBOLIC_PARAMS_MAX / 64]; /* params written */
};

/* A piece written and not yet published. */
struct culm_symbolic_piece {
    int64_t version;
    int32_t stage, node, attempt;
};

struct culm_symbolic_store {
    struct culm_symbolic_piece piece[512];
    int32_t piece_count;
    struct culm_symbolic_checkpoint checkpoint[64];
    uint64_t random;       /* state; for failures */
    uint32_t fail_percent; /* of SAVE and PUBLISH tasks */
    int64_t weights;       /* the version whose weights alone were saved last; 0: none */
    int64_t keep;          /* how many published ones stay; 0: all */
    /* Each task is asked about before it runs: what this returns but CULM_OK is what it fails with.
     * NULL: none fails so. */
    enum culm_status (*refuse)(void *context, const struct culm_task *task);
    void *refuse_context;
    /* Who is asked before older checkpoints are removed; NULL: all may. As a store would know who leads. */
    bool (*may_prune)(void *context, const struct culm_exec *exec);
    void *prune_context;
};

void culm_symbolic_store_init(struct culm_symbolic_store *store, uint64_t seed,
                              uint32_t fail_percent);

/* The newest version published that is not damaged, or -1. */
int64_t culm_symbolic_store_newest(const struct culm_symbolic_store *store);

/* A bit of the newest one published changes, where `param` is. False: there is none. */
bool culm_symbolic_store_damage(struct culm_symbolic_store *store, int32_t param);

/* NULL: out of memory. Borrows all; `world` may be NULL (the leader's). */
struct culm_exec *culm_symbolic_new(const struct culm_layout *layout,
                                    const struct culm_run_shape *shape, struct culm_blob_pool *pool,
                                    struct culm_symbolic_store *store, struct culm_world *world,
                                    uint64_t seed);
void culm_symbolic_free(struct culm_exec *exec);

enum culm_flip {
    CULM_FLIP_STATE,    /* of a tensor here, at once */
    CULM_FLIP_GRADIENT, /* reduced, here, before the next norm is taken of it */
    CULM_FLIP_APPLIED,  /* reduced, here, after the norm and before the next step */
    CULM_FLIP_RESULT, /* of the next step, by a processor that errs: the digest is of the result */
    CULM_FLIP_READER, /* from now on it reads the samples of the step before, or after the first */
    CULM_FLIP_COUNT,
};
/* Flips a bit in this node's memory. False: it holds no state to flip. */
bool culm_symbolic_flip(struct culm_exec *exec, enum culm_flip what, uint64_t random);
/* Is some state here not what it was made? */
bool culm_symbolic_damaged(const struct culm_exec *exec);
/* How many flips have come to pass. */
int64_t culm_symbolic_flips(const struct culm_exec *exec);

#endif
