/*
 * Blobs: reference-counted, 64-byte aligned runs of bytes, and the pool that recycles them.
 *
 * Everything that travels or is retained (activations, gradients, tensor states, frames received)
 * is a blob, so one allocation serves as the kernel's output, the frame's payload and the copy kept
 * until the iteration commits.
 *
 *     pool ──get──▶ blob (refs = 1) ──ref──▶ refs = 2 ──unref──▶ refs = 1 ──unref──▶ pool
 *
 * A pool keeps freed blobs by exact size, so that a training loop, whose sizes repeat, allocates
 * nothing after its first iterations. The bytes in use never exceed the limit given at creation;
 * passing it is CULM_ERR_MEMORY, not a crash. What must not be a blob may be charged to a pool, so
 * that one limit holds for all.
 *
 * Thread: ref and unref are safe from any thread; a pool is internally locked. The bytes belong to
 * whoever writes first and are constant afterwards.
 */
#ifndef CULM_BASE_BLOB_H
#define CULM_BASE_BLOB_H

#include "base/status.h"

struct culm_blob_pool;

struct culm_blob {
    void *data;                  /* 64-byte aligned; contents undefined after culm_blob_pool_get */
    size_t size_bytes;           /* as asked for */
    struct culm_blob_pool *pool; /* where it returns to */
    struct culm_blob *next;      /* pool's own */
    size_t capacity_bytes;       /* pool's own */
    int refs;                    /* atomic */
};

struct culm_blob_pool_stats {
    size_t used_bytes;   /* out now, or charged */
    size_t cached_bytes; /* kept for reuse */
    size_t peak_bytes;   /* highest used + cached */
    size_t allocations;  /* calls that reached the system allocator */
    size_t refused;      /* by culm_blob_pool_fail */
};

/* limit_bytes 0: no limit. The pool must outlive its blobs. */
struct culm_blob_pool *culm_blob_pool_new(size_t limit_bytes);
void culm_blob_pool_free(struct culm_blob_pool *pool); /* NULL is fine */
/* Counts bytes that its owner keeps elsewhere, until they are returned: CULM_ERR_MEMORY when they
 * pass the limit. */
enum culm_status culm_blob_pool_charge(struct culm_blob_pool *pool, size_t size_bytes);
void culm_blob_pool_return(struct culm_blob_pool *pool, size_t size_bytes);
enum culm_status culm_blob_pool_get(struct culm_blob_pool *pool, size_t size_bytes,
                                    struct culm_blob **ret_blob);
/* For tests: the request after the next `after` ones fails, once, as if memory were out. */
void culm_blob_pool_fail(struct culm_blob_pool *pool, uint64_t after);
void culm_blob_pool_stats_of(struct culm_blob_pool *pool, struct culm_blob_pool_stats *ret_stats);

struct culm_blob *culm_blob_ref(struct culm_blob *blob); /* NULL gives NULL */
void culm_blob_unref(struct culm_blob *blob);            /* NULL is fine */
/* Unrefs *slot and sets it to NULL. */
void culm_blob_clear(struct culm_blob **slot);

#endif
