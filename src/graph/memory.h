/*
 * Static memory: offsets for values that live at known times.
 *
 * Values are intervals of program steps; two that overlap in time must not overlap in space.
 * Largest first, each takes the lowest gap that fits: simple, deterministic, and near the lower
 * bound for programs that are mostly chains.
 *
 * Thread: none of its own.
 */
#ifndef CULM_GRAPH_MEMORY_H
#define CULM_GRAPH_MEMORY_H

#include "base/status.h"

struct culm_interval {
    int32_t first, last; /* steps, both included */
    size_t size_bytes;
    size_t offset_bytes; /* out; a multiple of 64 */
};

/* Fills the offsets; *ret_total_bytes is what they need. CULM_ERR_MEMORY only when out of memory
 * itself. */
enum culm_status culm_memory_place(struct culm_interval *intervals, int32_t count,
                                   size_t *ret_total_bytes);

#endif
