/* Blobs and their pool: exact-size free lists under one lock. */
#include "base/blob.h"

#include "base/pages.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#define ALIGN 64
#define BUCKETS 64 /* hash of size classes; a list per bucket, searched for the exact capacity */

struct culm_blob_pool {
    pthread_mutex_t lock;
    size_t limit_bytes;
    struct culm_blob_pool_stats stats;
    struct culm_blob *cached[BUCKETS];
    uint64_t fail_in; /* this request from now fails; 0: none does */
};

static size_t rounded(size_t size) { return culm_pages_size(size); }
static size_t bucket_of(size_t capacity) {
    return (capacity / ALIGN * 0x9E3779B97F4A7C15ull) >> 58;
}

struct culm_blob_pool *culm_blob_pool_new(size_t limit_bytes) {
    struct culm_blob_pool *pool = calloc(1, sizeof *pool);
    if (pool) {
        pool->limit_bytes = limit_bytes;
        pthread_mutex_init(&pool->lock, NULL);
    }
    return pool;
}

static void blob_destroy(struct culm_blob *blob) {
    free(blob->data);
    free(blob);
}

static void drop_cached(struct culm_blob_pool *pool) {
    for (size_t i = 0; i < BUCKETS; i++) {
        while (pool->cached[i]) {
            struct culm_blob *blob = pool->cached[i];
            pool->cached[i] = blob->next;
            pool->stats.cached_bytes -= blob->capacity_bytes;
            blob_destroy(blob);
        }
    }
}

void culm_blob_pool_free(struct culm_blob_pool *pool) {
    if (!pool) {
        return;
    }
    assert(pool->stats.used_bytes == 0 && "a blob outlives its pool");
    drop_cached(pool);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static struct culm_blob *take_cached(struct culm_blob_pool *pool, size_t capacity) {
    for (struct culm_blob **link = &pool->cached[bucket_of(capacity)]; *link;
         link = &(*link)->next) {
        if ((*link)->capacity_bytes == capacity) {
            struct culm_blob *blob = *link;
            *link = blob->next;
            pool->stats.cached_bytes -= capacity;
            return blob;
        }
    }
    return NULL;
}

static struct culm_blob *blob_new(struct culm_blob_pool *pool, size_t capacity) {
    struct culm_blob *blob = calloc(1, sizeof *blob);
    if (!blob) {
        return NULL;
    }
    blob->data = culm_pages_alloc(capacity);
    if (!blob->data) {
        free(blob);
        return NULL;
    }
    blob->pool = pool;
    blob->capacity_bytes = capacity;
    pool->stats.allocations++;
    return blob;
}

static void note_peak(struct culm_blob_pool *pool) {
    size_t held = pool->stats.used_bytes + pool->stats.cached_bytes;
    if (held > pool->stats.peak_bytes) {
        pool->stats.peak_bytes = held;
    }
}

/* Whether the limit allows for `bytes` more in use; what is kept for reuse makes room. */
static bool room_for(struct culm_blob_pool *pool, size_t bytes) {
    size_t limit = pool->limit_bytes, used = pool->stats.used_bytes;
    return limit == 0 || (bytes <= limit && used <= limit - bytes);
}

static void make_room(struct culm_blob_pool *pool, size_t bytes) {
    if (pool->limit_bytes &&
        pool->stats.used_bytes + pool->stats.cached_bytes + bytes > pool->limit_bytes) {
        drop_cached(pool);
    }
}

enum culm_status culm_blob_pool_charge(struct culm_blob_pool *pool, size_t size_bytes) {
    enum culm_status status = CULM_ERR_MEMORY;
    pthread_mutex_lock(&pool->lock);
    if (room_for(pool, size_bytes)) {
        make_room(pool, size_bytes);
        pool->stats.used_bytes += size_bytes;
        note_peak(pool);
        status = CULM_OK;
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

void culm_blob_pool_return(struct culm_blob_pool *pool, size_t size_bytes) {
    pthread_mutex_lock(&pool->lock);
    assert(pool->stats.used_bytes >= size_bytes && "more is returned than was charged");
    pool->stats.used_bytes -= size_bytes;
    pthread_mutex_unlock(&pool->lock);
}

enum culm_status culm_blob_pool_get(struct culm_blob_pool *pool, size_t size_bytes,
                                    struct culm_blob **ret_blob) {
    if (size_bytes > SIZE_MAX / 2) {
        return CULM_ERR_MEMORY;
    }
    size_t capacity = rounded(size_bytes);
    enum culm_status status = CULM_ERR_MEMORY;
    pthread_mutex_lock(&pool->lock);
    bool fails = pool->fail_in && --pool->fail_in == 0;
    pool->stats.refused += fails;
    if (fails) {
        /* as when memory is out */
    } else if (room_for(pool, capacity)) {
        struct culm_blob *blob = take_cached(pool, capacity);
        if (!blob) {
            make_room(pool, capacity);
            blob = blob_new(pool, capacity);
        }
        if (blob) {
            blob->size_bytes = size_bytes;
            blob->next = NULL;
            blob->refs = 1;
            pool->stats.used_bytes += capacity;
            note_peak(pool);
            *ret_blob = blob;
            status = CULM_OK;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

void culm_blob_pool_fail(struct culm_blob_pool *pool, uint64_t after) {
    pthread_mutex_lock(&pool->lock);
    pool->fail_in = after + 1;
    pthread_mutex_unlock(&pool->lock);
}

void culm_blob_pool_stats_of(struct culm_blob_pool *pool, struct culm_blob_pool_stats *ret_stats) {
    pthread_mutex_lock(&pool->lock);
    *ret_stats = pool->stats;
    pthread_mutex_unlock(&pool->lock);
}

struct culm_blob *culm_blob_ref(struct culm_blob *blob) {
    if (blob) {
        __atomic_add_fetch(&blob->refs, 1, __ATOMIC_RELAXED);
    }
    return blob;
}

void culm_blob_unref(struct culm_blob *blob) {
    if (!blob || __atomic_sub_fetch(&blob->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    struct culm_blob_pool *pool = blob->pool;
    pthread_mutex_lock(&pool->lock);
    pool->stats.used_bytes -= blob->capacity_bytes;
    pool->stats.cached_bytes += blob->capacity_bytes;
    struct culm_blob **bucket = &pool->cached[bucket_of(blob->capacity_bytes)];
    blob->next = *bucket;
    *bucket = blob;
    pthread_mutex_unlock(&pool->lock);
}

void culm_blob_clear(struct culm_blob **slot) {
    culm_blob_unref(*slot);
    *slot = NULL;
}
