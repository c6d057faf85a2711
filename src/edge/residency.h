/*
 * Which tensors are in memory, and which to evict to make room.
 *
 * Queries are visited in a fixed order, over and over, so the next use of every tensor is known: it
 * is that of whichever of its users is visited first. The tensor whose next use is furthest away is
 * evicted first (Belady), and one that nobody uses before any other. With tensors of different
 * sizes that is not always optimal, so there are three rules, and a plan takes the one that loads
 * the least.
 *
 * Thread: its owner's.
 */
#ifndef CULM_EDGE_RESIDENCY_H
#define CULM_EDGE_RESIDENCY_H

#include "edge/layout.h"

enum culm_edge_eviction {
    /* Furthest next use first. Among equals, the smallest that frees enough, else the largest. */
    CULM_EDGE_BELADY,
    CULM_EDGE_BELADY_SMALL, /* furthest next use first; among equals, the smallest first */
    CULM_EDGE_LEAST_RECENT, /* least recently used first */
    CULM_EDGE_EVICTIONS
};

enum culm_edge_tensor_state {
    CULM_EDGE_ABSENT,
    CULM_EDGE_LOADING, /* already counted as taking memory */
    CULM_EDGE_RESIDENT
};

struct culm_edge_residency {
    const struct culm_edge_layout *layout; /* borrowed */
    uint8_t *state;                        /* [tensor_count] enum culm_edge_tensor_state */
    uint64_t *users;                       /* [tensor_count] one bit for each query that uses it */
    int32_t *by_size;                      /* [tensor_count] tensors, the largest first */
    int32_t *bucket, *bucket_next;         /* scratch of culm_edge_residency_victims */
    size_t bytes;                          /* resident or being loaded */
};

/* Begins with nothing resident. CULM_ERR_MEMORY. */
enum culm_status culm_edge_residency_init(struct culm_edge_residency *residency,
                                          const struct culm_edge_layout *layout);
void culm_edge_residency_release(struct culm_edge_residency *residency); /* fine on a zeroed one */
/* Moves on to the layout of `fresh`, in which nothing is resident yet. That layout has all tensors
 * of the old one, with the same sizes, and perhaps more. `fresh` is emptied. */
void culm_edge_residency_go_on(struct culm_edge_residency *residency,
                               struct culm_edge_residency *fresh);

static inline void culm_edge_residency_set(struct culm_edge_residency *residency, int32_t tensor,
                                           enum culm_edge_tensor_state state) {
    bool had = residency->state[tensor] != CULM_EDGE_ABSENT, has = state != CULM_EDGE_ABSENT;
    residency->bytes += has && !had ? residency->layout->tensor_bytes[tensor] : 0;
    residency->bytes -= had && !has ? residency->layout->tensor_bytes[tensor] : 0;
    residency->state[tensor] = (uint8_t)state;
}

/* Bytes of a query's tensors that are neither resident nor being loaded. */
size_t culm_edge_residency_missing(const struct culm_edge_residency *residency, int32_t query);

/* Chooses what to evict so that at most `most_bytes` stay. turn[q]: how many visits come before
 * query q's next one; 0: it is next. Kept in any case are the tensors of queries in `pinned` (a bit
 * each), tensors that are being loaded, and tensors whose next use is before turn `before`. Writes
 * the chosen tensors, which it leaves resident, to ret_tensor[tensor_count]. Returns how many they
 * are, or -1 when that much cannot be freed; ret_tensor is not valid then. */
int32_t culm_edge_residency_victims(struct culm_edge_residency *residency, size_t most_bytes,
                                    const int32_t *turn, uint64_t pinned, int32_t before,
                                    enum culm_edge_eviction eviction, int32_t *ret_tensor);

/* Plays rounds of an order through until memory has filled up, and returns the bytes that a round
 * loads from then on, on average; -1: out of memory. activation_bytes[q]: what query q needs beside
 * its tensors while it runs. frames_bytes: what is never available. ret_missing[count], which may
 * be NULL: what each visit of the last round loads, by its place in the order. */
int64_t culm_edge_cycle_bytes(const struct culm_edge_layout *layout, const int32_t *order,
                              int32_t count, const size_t *activation_bytes, size_t frames_bytes,
                              enum culm_edge_eviction eviction, size_t *ret_missing);
/* How many tensors it has to look at for that, which is the unit of work of a plan: some 2 ns. */
int64_t culm_edge_cycle_work(const struct culm_edge_layout *layout, int32_t count);

#endif
