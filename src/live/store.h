/*
 * The tensors of queries, grouped into the units that the scheduler loads and evicts.
 *
 * A *source* is the data of one parameter, or of several parameters that are equal. A *unit* is
 * what is loaded and evicted as a whole: one large source, or all small sources that the same
 * queries use. To the scheduler a unit is one tensor. Sources and units are only ever added, so
 * their numbers stay valid from layout to layout.
 *
 * Thread: the caller's.
 */
#ifndef CULM_LIVE_STORE_H
#define CULM_LIVE_STORE_H

#include "base/sha256.h"
#include "edge/layout.h"

#define CULM_LIVE_UNIT_PAGE 4096

static inline size_t culm_live_round64(size_t bytes) { return (bytes + 63) / 64 * 64; }

struct culm_live_source {
    char key[CULM_SHA256_HEX + 96]; /* together with bytes, identifies the data */
    size_t bytes;
    int32_t place;  /* where it is read from; for the caller to interpret */
    int32_t unit;   /* in the newest layout; -1: none */
    size_t offset;  /* within the unit; 64-byte aligned */
    uint64_t users; /* in the newest layout: a bit for each query */
};

struct culm_live_unit {
    int32_t *source; /* ascending; owned */
    int32_t count;
    size_t bytes; /* whole pages */
};

struct culm_live_store {
    struct culm_live_source *source;
    int32_t source_count, source_capacity;
    struct culm_live_unit *unit;
    int32_t unit_count, unit_capacity;
};

void culm_live_store_release(struct culm_live_store *store); /* fine on a zeroed struct */
/* The number of a source, which is added if it is new; -1: out of memory. */
int32_t culm_live_store_source(struct culm_live_store *store, const char *key, size_t bytes,
                               int32_t place);

/* The source of each parameter of one query. */
struct culm_live_needs {
    const int32_t *source; /* [count] */
    int32_t count;         /* 0: the query needs nothing */
};
/* Forms the units of a layout with `queries` queries. (*ret_bytes)[unit_count]: the size of each
 * unit; ret_list[q][ret_count[q]]: the units of query q, ascending. The caller frees *ret_bytes and
 * every ret_list[q]. CULM_ERR_MEMORY. */
enum culm_status culm_live_store_units(struct culm_live_store *store,
                                       const struct culm_live_needs *needs, int32_t queries,
                                       size_t **ret_bytes, int32_t **ret_list, int32_t *ret_count,
                                       struct culm_error *error);

#endif
