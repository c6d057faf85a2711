/*
 * Which tensors are in memory, and which go when there must be room.
 *
 * The queries are visited in a fixed order, over and over, so it is known when each tensor will be
 * needed: the one whose next use is furthest away goes first (Belady). The next use is that of
 * whichever of its users comes first. A tensor that nobody uses goes at once. With tensors of many
 * sizes that is not always best, so there are three rules, and a plan takes the one that loads least.
 *
 * Thread: its owner's.
 */
#ifndef CULM_EDGE_RESIDENCY_H
#define CULM_EDGE_RESIDENCY_H

#include "edge/layout.h"

enum culm_edge_eviction {
    CULM_EDGE_BELADY, /* next used last; of these the smallest that is enough, else the largest */
    CULM_EDGE_BELADY_SMALL, /* next used last; of these the smallest first */
    CULM_EDGE_LEAST_RECENT, /* what has not been used for the longest */
    CULM_EDGE_EVICTIONS
};

enum culm_edge_tensor_state {
    CULM_EDGE_ABSENT,
    CULM_EDGE_LOADING, /* has its memory already */
    CULM_EDGE_RESIDENT
};

struct culm_edge_residency {
    const struct culm_edge_layout *layout; /* borrowed */
    uint8_t *state;                        /* [tensor_count] enum culm_edge_tensor_state */
    uint64_t *users;                       /* [tensor_count] bit: query */
    int32_t *by_size;                      /* [tensor_count] the largest first */
    int32_t *bucket, *bucket_next;         /* of a choice under way */
    size_t bytes;                          /* resident or being loaded */
};

/* Nothing is resident. CULM_ERR_MEMORY */
enum culm_status culm_edge_residency_init(struct culm_edge_residency *residency,
                                          const struct culm_edge_layout *layout);
void culm_edge_residency_release(struct culm_edge_residency *residency); /* fine on a zeroed one */
/* Goes on with the layout of `fresh`, where nothing is yet: it has at least as many tensors, and
 * the same bytes of each. `fresh` is released. */
void culm_edge_residency_go_on(struct culm_edge_residency *residency,
                               struct culm_edge_residency *fresh);

static inline void culm_edge_residency_set(struct culm_edge_residency *residency, int32_t tensor,
                                           enum culm_edge_tensor_state state) {
    bool had = residency->state[tensor] != CULM_EDGE_ABSENT, has = state != CULM_EDGE_ABSENT;
    residency->bytes += has && !had ? residency->layout->tensor_bytes[tensor] : 0;
    residency->bytes -= had && !has ? residency->layout->tensor_bytes[tensor] : 0;
    residency->state[tensor] = (uint8_t)state;
}

/* Bytes of a query's tensors that are neither there nor on their way. */
size_t culm_edge_residency_missing(const struct culm_edge_residency *residency, int32_t query);

/* Chooses what goes so that at most `most_bytes` stay. `turn[q]`: how many visits until query q's
 * next, 0 the soonest. Tensors of the queries in `pinned` stay, and those that are being loaded.
 * What is needed before turn `before` stays too. Writes the tensors to ret_tensor[tensor_count];
 * they are still resident. Returns how many, or -1: it cannot be done, and ret_tensor is not valid.
 */
int32_t culm_edge_residency_victims(struct culm_edge_residency *residency, size_t most_bytes,
                                    const int32_t *turn, uint64_t pinned, int32_t before,
                                    enum culm_edge_eviction eviction, int32_t *ret_tensor);

/* What each visit of the order must load, once the order has been gone through often enough;
 * returns the sum, of several rounds on average. activation_bytes[q]: what must be free beside the
 * tensors while q runs. frames_bytes: always taken. ret_missing may be NULL. -1: out of memory. */
int64_t culm_edge_cycle_bytes(const struct culm_edge_layout *layout, const int32_t *order,
                              int32_t count, const size_t *activation_bytes, size_t frames_bytes,
                              enum culm_edge_eviction eviction, size_t *ret_missing);
/* How many tensors are looked at for that: some 2 ns each. */
int64_t culm_edge_cycle_work(const struct culm_edge_layout *layout, int32_t count);

#endif
