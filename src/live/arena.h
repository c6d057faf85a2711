/*
 * The arena: one contiguous range of addresses that holds everything the memory limit counts:
 * frames, activations, tensors. An address, once given out, is never moved. Memory is committed
 * only where it has been asked for and returned to the system page by page, so the resident size
 * of the arena, as the kernel reports it, is exactly what is in use.
 *
 * Thread: `place` on one thread; `hold` and `give_back` on any, for ranges that nobody else uses.
 */
#ifndef CULM_LIVE_ARENA_H
#define CULM_LIVE_ARENA_H

#include "base/status.h"

struct culm_live_arena {
    char *base;
    size_t size, placed; /* bytes of address space; how many of them are given out */
    size_t page;
};

/* Reserves as many of `most` bytes of addresses as there are; nothing is resident yet.
 * CULM_ERR_MEMORY: there are not even `least`. */
enum culm_status culm_live_arena_init(struct culm_live_arena *arena, size_t least, size_t most,
                                      struct culm_error *error);
void culm_live_arena_release(struct culm_live_arena *arena); /* fine on a zeroed struct */
/* Gives out addresses for `bytes`, starting at a page. NULL: not enough are left. */
char *culm_live_arena_place(struct culm_live_arena *arena, size_t bytes);
/* Makes a placed range of whole pages resident; pages that were not are zeroed. CULM_ERR_MEMORY. */
enum culm_status culm_live_arena_hold(struct culm_live_arena *arena, char *at, size_t bytes,
                                      struct culm_error *error);
/* Returns the pages to the system; an access to them afterwards is a segmentation fault. */
void culm_live_arena_give_back(struct culm_live_arena *arena, char *at, size_t bytes);

/* Addresses of numbered things. Each is placed when it is first wanted; one that never is takes up
 * no addresses. Zero the struct first. */
struct culm_live_places {
    char **at; /* [count]; NULL: not placed */
    int32_t count, capacity;
};

/* Makes sure that at[number] is placed; a number keeps its address. CULM_ERR_MEMORY. */
enum culm_status culm_live_places_want(struct culm_live_places *places,
                                       struct culm_live_arena *arena, int32_t number, size_t bytes,
                                       struct culm_error *error);
/* Takes back what was given out since arena->placed was `placed`. */
void culm_live_places_forget(struct culm_live_places *places, struct culm_live_arena *arena,
                             size_t placed);
void culm_live_places_release(struct culm_live_places *places);

static inline size_t culm_live_arena_round(const struct culm_live_arena *arena, size_t bytes) {
    return (bytes + arena->page - 1) / arena->page * arena->page;
}

#endif
