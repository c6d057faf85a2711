/*
 * The arena: one run of addresses in which everything that the limit counts lies: frames,
 * activations, tensors. Addresses are given out once and for all; memory is there where it has been
 * asked for, and is given back page by page, so what the kernel says is resident in the arena is
 * what was asked for.
 *
 * Thread: `place` on one; `hold` and `give_back` on any, for ranges that nobody else uses.
 */
#ifndef CULM_EDGE_ARENA_H
#define CULM_EDGE_ARENA_H

#include "base/status.h"

struct culm_edge_arena {
    char *base;
    size_t size, placed; /* bytes of addresses; given out */
    size_t page;
};

/* Addresses for `bytes`; nothing is resident. CULM_ERR_MEMORY. */
enum culm_status culm_edge_arena_init(struct culm_edge_arena *arena, size_t bytes,
                                      struct culm_error *error);
void culm_edge_arena_release(struct culm_edge_arena *arena); /* fine on a zeroed struct */
/* Addresses for so many bytes, from a page on. NULL: there are none left. */
char *culm_edge_arena_place(struct culm_edge_arena *arena, size_t bytes);
/* Whole pages of what was placed. Makes them resident, zeroed where they were not: CULM_ERR_MEMORY.
 */
enum culm_status culm_edge_arena_hold(struct culm_edge_arena *arena, char *at, size_t bytes,
                                      struct culm_error *error);
/* Gives their memory back to the system; to touch them after that is a segmentation fault. */
void culm_edge_arena_give_back(struct culm_edge_arena *arena, char *at, size_t bytes);

/* Where numbered things lie. Each is placed when it is first wanted; one that never is takes no
 * addresses. Zero the struct first. */
struct culm_edge_places {
    char **at;               /* [count]; NULL: not placed */
    int32_t count, capacity; /* numbers */
};

/* Always the same addresses for the same number. CULM_ERR_MEMORY. */
enum culm_status culm_edge_places_want(struct culm_edge_places *places,
                                       struct culm_edge_arena *arena, int32_t number, size_t bytes,
                                       struct culm_error *error);
/* Addresses that have been given out since the arena had so many are free again. */
void culm_edge_places_forget(struct culm_edge_places *places, struct culm_edge_arena *arena,
                             size_t placed);
void culm_edge_places_release(struct culm_edge_places *places);

static inline size_t culm_edge_arena_round(const struct culm_edge_arena *arena, size_t bytes) {
    return (bytes + arena->page - 1) / arena->page * arena->page;
}

#endif
