/*
 * Memory: what a node takes for the part it plays in a view, and the promise that it takes no more.
 *
 * A promise is given per worker (`memory_mb`), or to all workers of a machine together. The plan
 * refuses a run whose undisturbed parts break it; after a loss a part that would break it is not
 * given: the stage then waits for a node with room, and its lanes go to pipelines that have room or
 * wait too. What a part takes is counted from the layout alone, in bytes:
 *
 *   a process without a part      base
 *   a stage held                  state, and its reduced gradients
 *   a stage owned                 boundaries and sums until COMMIT, slices of others as reducer,
 *                                 activations between forward and backward, and a copy of the
 *                                 state while it is saved
 *   a stage run ahead (FRC)       activations and outputs of every micro-batch until COMMIT
 *
 * Protocol code: no I/O. Thread: none of its own; pure functions.
 */
#ifndef CULM_PIPELINE_MEMORY_H
#define CULM_PIPELINE_MEMORY_H

#include "pipeline/view.h"

struct culm_memory {
    const struct culm_layout *layout; /* borrowed */
    size_t base_bytes;                /* of a process without a part */
    size_t start_bytes;               /* what it takes at most before it has one; 0: no more */
    size_t node_bytes;                /* what each worker may take; 0: any amount */
    size_t total_bytes;               /* what all workers may take together; 0: any amount */
};

struct culm_memory_load {
    struct culm_stage_set held;  /* stages: their state */
    struct culm_stage_set owned; /* runs their tasks; held too */
    struct culm_stage_set ahead; /* runs their forwards ahead of a loss; held too */
    int32_t micros;              /* micro-batches that its pipeline runs */
};

/* What a node with this load takes at most. */
size_t culm_memory_of(const struct culm_memory *memory, const struct culm_run_shape *shape,
                      const struct culm_memory_load *load);
/* The load of each slot (stage) when nothing is lost. */
struct culm_memory_load culm_memory_undisturbed(const struct culm_run_shape *shape, int32_t stage);

/* Of the stages that `id` should hold in `view` by its slots, those that fit: its own first, then
 * what it shadows, then others. */
struct culm_stage_set culm_memory_desired(const struct culm_memory *memory,
                                          const struct culm_run_shape *shape,
                                          const struct culm_view *view, int32_t id);
/* Takes from nodes of an assigned view what would break the promise: first the forwards run ahead,
 * then stages that are not of their slot, then lanes beyond an undisturbed share. Lanes that no
 * whole pipeline has room for are -1: they wait. */
void culm_memory_fit(const struct culm_memory *memory, const struct culm_run_shape *shape,
                     struct culm_view *view, const struct culm_view *before);

#endif
