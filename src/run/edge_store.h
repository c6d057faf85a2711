/*
 * The tensors of queries as the scheduler counts them.
 *
 * A *source* is one run of numbers: a parameter of some model, or several of them that are the
 * same. A *unit* is what is loaded and evicted at once: a large source alone, or all small ones
 * that have the same users. Sources and units are only ever added, so their numbers hold from
 * layout to layout.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_EDGE_STORE_H
#define CULM_RUN_EDGE_STORE_H

#include "base/sha256.h"
#include "edge/layout.h"

#define CULM_EDGE_UNIT_PAGE 4096

static inline size_t culm_edge_round64(size_t bytes) { return (bytes + 63) / 64 * 64; }

struct culm_edge_source {
    char key[CULM_SHA256_HEX + 96]; /* sources with one key are the same */
    size_t bytes;
    int32_t place;  /* the caller's own: where it is read from */
    int32_t unit;   /* of the newest layout; -1: none */
    size_t offset;  /* in the unit; 64-byte aligned */
    uint64_t users; /* of the newest layout */
};

struct culm_edge_unit {
    int32_t *source; /* ascending; owned */
    int32_t count;
    size_t bytes; /* whole pages */
};

struct culm_edge_store {
    struct culm_edge_source *source;
    int32_t source_count, source_capacity;
    struct culm_edge_unit *unit;
    int32_t unit_count, unit_capacity;
};

void culm_edge_store_release(struct culm_edge_store *store); /* fine on a zeroed struct */
/* Its number, added if the key is new; -1: out of memory. */
int32_t culm_edge_store_source(struct culm_edge_store *store, const char *key, size_t bytes,
                               int32_t place);

/* Of one query: which source each of its parameters is. */
struct culm_edge_needs {
    const int32_t *source; /* [count] */
    int32_t count;         /* 0: it is not there */
};
/* A layout's tensors, of `queries` queries: units, and each query's list. ret_bytes[unit_count] and
 * ret_list[q] are the caller's to free. CULM_ERR_MEMORY. */
enum culm_status culm_edge_store_units(struct culm_edge_store *store,
                                       const struct culm_edge_needs *needs, int32_t queries,
                                       size_t **ret_bytes, int32_t **ret_list, int32_t *ret_count,
                                       struct culm_error *error);

#endif
