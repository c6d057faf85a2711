/* Blobs: alignment, recycling, the limit, and threads that take, share and give back at once. */
#include "base/blob.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void freed_blobs_serve_again(void **state) {
    (void)state;
    struct culm_blob_pool *pool = culm_blob_pool_new(0);
    struct culm_blob_pool_stats stats;
    for (int i = 0; i < 100; i++) {
        struct culm_blob *a, *b;
        assert_int_equal(culm_blob_pool_get(pool, 1000, &a), CULM_OK);
        assert_int_equal(culm_blob_pool_get(pool, 3, &b), CULM_OK);
        assert_int_equal((uintptr_t)a->data % 64, 0);
        assert_int_equal((uintptr_t)b->data % 64, 0);
        assert_int_equal(a->size_bytes, 1000);
        memset(a->data, 1, 1000);
        culm_blob_unref(culm_blob_ref(a));
        culm_blob_clear(&a);
        assert_null(a);
        culm_blob_unref(b);
    }
    culm_blob_pool_stats_of(pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    assert_in_range(stats.allocations, 1, 4);
    culm_blob_pool_free(pool);
}

static void the_limit_is_a_status(void **state) {
    (void)state;
    struct culm_blob_pool *pool = culm_blob_pool_new(4096);
    struct culm_blob *a, *b = NULL;
    assert_int_equal(culm_blob_pool_get(pool, 3000, &a), CULM_OK);
    assert_int_equal(culm_blob_pool_get(pool, 3000, &b), CULM_ERR_MEMORY);
    assert_null(b);
    culm_blob_unref(a);
    assert_int_equal(culm_blob_pool_get(pool, 2000, &b), CULM_OK); /* what is kept makes room */
    culm_blob_unref(b);
    culm_blob_pool_free(pool);
}

#define THREADS 4
#define ROUNDS 3000

/* What is kept elsewhere counts as well, and makes what is kept for reuse go. */
static void charges_count(void **state) {
    (void)state;
    struct culm_blob_pool *pool = culm_blob_pool_new(1024);
    struct culm_blob_pool_stats stats;
    struct culm_blob *blob;
    assert_int_equal(culm_blob_pool_get(pool, 512, &blob), CULM_OK);
    assert_int_equal(culm_blob_pool_charge(pool, 513), CULM_ERR_MEMORY);
    assert_int_equal(culm_blob_pool_charge(pool, 512), CULM_OK);
    culm_blob_pool_return(pool, 256);
    culm_blob_unref(blob);
    assert_int_equal(culm_blob_pool_charge(pool, 768), CULM_OK); /* the freed blob goes */
    culm_blob_pool_stats_of(pool, &stats);
    assert_int_equal(stats.used_bytes, 1024);
    assert_int_equal(stats.cached_bytes, 0);
    assert_int_equal(stats.peak_bytes, 1024);
    assert_int_equal(culm_blob_pool_get(pool, 64, &blob), CULM_ERR_MEMORY);
    assert_int_equal(culm_blob_pool_charge(pool, SIZE_MAX), CULM_ERR_MEMORY);
    culm_blob_pool_return(pool, 1024);
    culm_blob_pool_free(pool);
}

struct player {
    struct culm_blob_pool *pool;
    struct culm_blob *shared;
    uint8_t number;
    int bad;
};

static void *play(void *arg) {
    struct player *player = arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct culm_blob *blob, *shared = culm_blob_ref(player->shared);
        size_t size = (size_t)64 << (i % 5);
        if (culm_blob_pool_get(player->pool, size, &blob) != CULM_OK) {
            player->bad++;
            break;
        }
        memset(blob->data, player->number, size);
        const uint8_t *bytes = blob->data;
        player->bad += bytes[0] != player->number || bytes[size - 1] != player->number;
        player->bad += *(const uint8_t *)shared->data != 77;
        culm_blob_unref(blob);
        culm_blob_unref(shared);
    }
    culm_blob_unref(player->shared);
    return NULL;
}

static void threads_share_a_pool(void **state) {
    (void)state;
    struct culm_blob_pool *pool = culm_blob_pool_new(0);
    struct culm_blob_pool_stats stats;
    struct culm_blob *shared;
    struct player player[THREADS];
    pthread_t thread[THREADS];
    assert_int_equal(culm_blob_pool_get(pool, 10, &shared), CULM_OK);
    memset(shared->data, 77, 10);
    for (int i = 0; i < THREADS; i++) {
        player[i] = (struct player){pool, culm_blob_ref(shared), (uint8_t)i, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, play, &player[i]), 0);
    }
    culm_blob_unref(shared); /* the last of the others gives it back */
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(player[i].bad, 0);
    }
    culm_blob_pool_stats_of(pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    culm_blob_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(freed_blobs_serve_again),
        cmocka_unit_test(the_limit_is_a_status),
        cmocka_unit_test(charges_count),
        cmocka_unit_test(threads_share_a_pool),
    };
    return cmocka_run_group_tests_name("base/blob", tests, NULL, NULL);
}
