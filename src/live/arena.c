/*
 * The arena; see arena.h. Addresses are reserved without access rights, so that they cost nothing
 * even where the system does not let programs overcommit memory.
 */
#include "live/arena.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum culm_status culm_live_arena_init(struct culm_live_arena *arena, size_t least, size_t most,
                                      struct culm_error *error) {
    *arena = (struct culm_live_arena){.page = (size_t)sysconf(_SC_PAGESIZE)};
    void *base = MAP_FAILED;
    for (size_t bytes = most > least ? most : least; base == MAP_FAILED; bytes /= 2) {
        arena->size = culm_live_arena_round(arena, bytes > least ? bytes : least);
        base =
            mmap(NULL, arena->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED && bytes <= least) {
            *arena = (struct culm_live_arena){0};
            return culm_error_set(error, CULM_ERR_MEMORY, "cannot reserve addresses for %zu MB: %s",
                                  least / 1000000, strerror(errno));
        }
    }
    arena->base = base;
    /* A huge page would make more resident than was asked for. */
    (void)madvise(base, arena->size, MADV_NOHUGEPAGE);
    return CULM_OK;
}

void culm_live_arena_release(struct culm_live_arena *arena) {
    if (arena->base) {
        munmap(arena->base, arena->size);
    }
    *arena = (struct culm_live_arena){0};
}

char *culm_live_arena_place(struct culm_live_arena *arena, size_t bytes) {
    size_t rounded = culm_live_arena_round(arena, bytes);
    if (rounded < bytes || rounded > arena->size - arena->placed) {
        return NULL;
    }
    char *at = arena->base + arena->placed;
    arena->placed += rounded;
    return at;
}

enum culm_status culm_live_arena_hold(struct culm_live_arena *arena, char *at, size_t bytes,
                                      struct culm_error *error) {
    if (bytes == 0) {
        return CULM_OK;
    }
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) {
        enum culm_status status = culm_error_errno(error, errno, "get %zu bytes of memory", bytes);
        return status == CULM_ERR_IO ? CULM_ERR_MEMORY : status;
    }
#ifdef MADV_POPULATE_WRITE
    if (madvise(at, bytes, MADV_POPULATE_WRITE) == 0) {
        return CULM_OK;
    }
#endif
    for (size_t i = 0; i < bytes; i += arena->page) {
        volatile char *touched = at + i;
        *touched = *touched; /* makes the page resident without changing it */
    }
    return CULM_OK;
}

void culm_live_arena_give_back(struct culm_live_arena *arena, char *at, size_t bytes) {
    (void)arena;
    if (bytes > 0) {
        (void)madvise(at, bytes, MADV_DONTNEED);
        (void)mprotect(at, bytes, PROT_NONE);
    }
}

enum culm_status culm_live_places_want(struct culm_live_places *places,
                                       struct culm_live_arena *arena, int32_t number, size_t bytes,
                                       struct culm_error *error) {
    if (number >= places->count) {
        if (!CULM_GROW(places->at, places->capacity, number + 1)) {
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for tensors");
        }
        while (places->count <= number) {
            places->at[places->count++] = NULL;
        }
    }
    if (!places->at[number]) {
        places->at[number] = culm_live_arena_place(arena, bytes);
    }
    return places->at[number] ? CULM_OK
                              : culm_error_set(error, CULM_ERR_MEMORY,
                                               "no addresses left for new tensors: start again");
}

void culm_live_places_forget(struct culm_live_places *places, struct culm_live_arena *arena,
                             size_t placed) {
    arena->placed = placed;
    for (int32_t i = 0; i < places->count; i++) {
        if (places->at[i] && places->at[i] >= arena->base + placed) {
            places->at[i] = NULL;
        }
    }
}

void culm_live_places_release(struct culm_live_places *places) {
    free(places->at);
    *places = (struct culm_live_places){0};
}
