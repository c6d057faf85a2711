/*
 * Micro-batches of samples, which a thread decodes ahead of their use, and which are kept for a
 * while afterwards.
 *
 * A micro-batch consists of `batch` consecutive samples, and is named by the turn of the first
 * one (ledger/order.h). The caller plans what it will ask for, and in which order; the thread
 * fills up to `ahead` micro-batches that have not been asked for yet. A micro-batch is handed out
 * in place, and pinned until it is put back. If it is not there, or lacks a field, the thread that
 * asks for it fills it at once. So a wrong plan costs time but never changes results, and an error
 * in a file is reported when a sample of that file is asked for. There are ahead + keep
 * micro-batches in all; the least recently used one makes room.
 *
 *     plan: 40 44 48 52 ..    thread ──fill──▶ [44] [48]       ahead 2
 *                             get(40) ───────▶ [40] [36] [32]  keep 3: backward asks again
 *
 * Memory is allocated when a micro-batch is first filled, and then reused. Thread: any for get and
 * put; other functions by one at a time.
 */
#ifndef CULM_DATA_PREFETCH_H
#define CULM_DATA_PREFETCH_H

#include "data/source.h"
#include "ledger/order.h"

struct culm_prefetch;

struct culm_prefetch_options {
    const struct culm_source
        *source;             /* borrowed for good, as the order's list of what is left out */
    struct culm_order order; /* turn -> sample */
    int64_t batch;           /* samples in a micro-batch */
    int32_t ahead;           /* 0: no thread, a cache alone */
    int32_t keep;            /* at least as many as are pinned at once, 1 or more */
};

struct culm_prefetch_want {
    uint64_t first;  /* turn of the first sample */
    uint32_t fields; /* bit i: field i of the source */
};

struct culm_prefetch_batch {
    uint64_t first;
    uint64_t ids;                              /* which samples it was filled with (order.h) */
    const void *field[CULM_SOURCE_FIELDS_MAX]; /* [batch, ...]; NULL where it was not asked for */
    int32_t slot;                              /* internal */
};

struct culm_prefetch_stats {
    uint64_t ready, waited, filled; /* gets that found it, that waited for the thread, that did the
                                       work */
};

enum culm_status culm_prefetch_new(const struct culm_prefetch_options *options,
                                   struct culm_prefetch **ret_prefetch, struct culm_error *error);
/* Waits until the thread has finished its current sample. Nothing may be pinned. NULL is fine. */
void culm_prefetch_free(struct culm_prefetch *prefetch);

/* Replaces the plan: what will be asked for, in this order. Fails only for lack of memory; there is
 * no plan then. */
enum culm_status culm_prefetch_plan(struct culm_prefetch *prefetch,
                                    const struct culm_prefetch_want *wants, size_t count,
                                    struct culm_error *error);
/* Pins a micro-batch with these fields. Errors as of culm_source_fill; CULM_ERR_INTERNAL if all
 * micro-batches are pinned. */
enum culm_status culm_prefetch_get(struct culm_prefetch *prefetch, struct culm_prefetch_want want,
                                   struct culm_prefetch_batch *ret_batch, struct culm_error *error);
void culm_prefetch_put(struct culm_prefetch *prefetch, const struct culm_prefetch_batch *batch);

/* Waits until the thread has nothing to do. */
void culm_prefetch_settle(struct culm_prefetch *prefetch);
struct culm_prefetch_stats culm_prefetch_stats_of(struct culm_prefetch *prefetch);

#endif
