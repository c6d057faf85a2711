/* Samples ahead of their use: the same bytes as without, whatever the plan says and whoever asks;
 * errors come when asked for; nothing hangs. */
#include "place.h"

#include "base/rng.h"
#include "data/prefetch.h"

#include <pthread.h>
#include <sched.h>

#define BATCH 4
#define CONTEXT 16

static struct culm_source *text_source(const struct place *place, size_t bytes) {
    char *text = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) {
        text[i] = (char)(i * 2654435761u >> 11);
    }
    char *path = put(place, "text", text, bytes);
    const struct culm_source_options options = {.kind = CULM_SOURCE_TEXT,
                                                .paths = (const char *const *)&path,
                                                .path_count = 1,
                                                .context = CONTEXT,
                                                .vocab = 256};
    struct culm_source *source = open_source(&options);
    free(text);
    free(path);
    return source;
}

static struct culm_prefetch *prefetch_of(const struct culm_source *source, int32_t ahead,
                                         int32_t keep) {
    struct culm_prefetch_options options = {
        .source = source, .batch = BATCH, .ahead = ahead, .keep = keep};
    struct culm_prefetch *prefetch = NULL;
    culm_order_init(&options.order, 11, culm_source_samples(source));
    assert_int_equal(culm_prefetch_new(&options, &prefetch, NULL), CULM_OK);
    return prefetch;
}

static void expect_batch(const struct culm_source *source, const struct culm_prefetch_batch *batch,
                         uint32_t fields) {
    struct culm_order order;
    culm_order_init(&order, 11, culm_source_samples(source));
    for (uint64_t i = 0; i < BATCH; i++) {
        int32_t want[2][CONTEXT];
        uint64_t position = batch->first + i;
        fill(source, culm_order_sample(&order, position), position, (void *[]){want[0], want[1]});
        for (int f = 0; f < 2; f++) {
            const char *have = batch->field[f];
            assert_int_equal(have != NULL, fields >> f & 1);
            assert_true(!have || !memcmp(have + i * sizeof want[f], want[f], sizeof want[f]));
        }
    }
}

static void get_and_put(const struct culm_source *source, struct culm_prefetch *prefetch,
                        uint64_t first, uint32_t fields) {
    struct culm_prefetch_batch batch;
    struct culm_error error = {0};
    const struct culm_prefetch_want want = {first, fields};
    if (culm_prefetch_get(prefetch, want, &batch, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    expect_batch(source, &batch, fields);
    culm_prefetch_put(prefetch, &batch);
}

static void test_what_is_planned_is_ready(void **state) {
    struct culm_source *source = text_source(*state, 4000);
    struct culm_prefetch *prefetch = prefetch_of(source, 3, 2);
    struct culm_prefetch_want plan[10];
    for (uint64_t i = 0; i < 10; i++) {
        plan[i] = (struct culm_prefetch_want){100 + i * BATCH, 3};
    }
    assert_int_equal(culm_prefetch_plan(prefetch, plan, 10, NULL), CULM_OK);
    for (uint64_t i = 0; i < 10; i++) {
        culm_prefetch_settle(prefetch); /* three are there now, or what is left */
        get_and_put(source, prefetch, plan[i].first, 3);
        get_and_put(source, prefetch, plan[i].first, 1); /* again, of the kept */
    }
    assert_int_equal(culm_prefetch_stats_of(prefetch).ready, 20);
    assert_int_equal(culm_prefetch_stats_of(prefetch).filled, 0);
    get_and_put(source, prefetch, plan[0].first, 3); /* long gone */
    assert_int_equal(culm_prefetch_stats_of(prefetch).filled, 1);
    culm_prefetch_free(prefetch);
    culm_source_free(source);
}

static void test_a_missing_field_is_added(void **state) {
    struct culm_source *source = text_source(*state, 4000);
    struct culm_prefetch *prefetch = prefetch_of(source, 2, 2);
    const struct culm_prefetch_want plan[] = {{8, 1}, {12, 2}};
    assert_int_equal(culm_prefetch_plan(prefetch, plan, 2, NULL), CULM_OK);
    culm_prefetch_settle(prefetch);
    get_and_put(source, prefetch, 8, 3);
    get_and_put(source, prefetch, 12, 2);
    assert_int_equal(culm_prefetch_stats_of(prefetch).filled, 1);
    assert_int_equal(culm_prefetch_stats_of(prefetch).ready, 1);
    culm_prefetch_free(prefetch);
    culm_source_free(source);
}

/* Plans that are followed, left, repeated and replaced: never other bytes. */
static void test_any_order(void **state) {
    struct culm_source *source = text_source(*state, 40000);
    const char *given = getenv("CULM_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20250607;
    print_message("seed %llu (CULM_TEST_SEED)\n", (unsigned long long)seed);
    for (int trial = 0; trial < 40; trial++) {
        int32_t ahead = (int32_t)culm_rng_below(&seed, 5);
        struct culm_prefetch *prefetch =
            prefetch_of(source, ahead, 1 + (int32_t)culm_rng_below(&seed, 4));
        for (int round = 0; round < 20; round++) {
            struct culm_prefetch_want plan[12];
            size_t count = (size_t)culm_rng_below(&seed, 13);
            uint64_t base = culm_rng_below(&seed, 40) * BATCH;
            for (size_t i = 0; i < count; i++) {
                plan[i] = (struct culm_prefetch_want){base + culm_rng_below(&seed, 10) * BATCH,
                                                      1 + (uint32_t)culm_rng_below(&seed, 3)};
            }
            assert_int_equal(culm_prefetch_plan(prefetch, plan, count, NULL), CULM_OK);
            for (size_t i = 0; i < count; i++) {
                bool follow = culm_rng_below(&seed, 4) > 0;
                uint64_t other = base + culm_rng_below(&seed, 12) * BATCH;
                get_and_put(source, prefetch, follow ? plan[i].first : other,
                            1 + (uint32_t)culm_rng_below(&seed, 3));
            }
        }
        culm_prefetch_free(prefetch); /* wherever the thread is */
    }
    culm_source_free(source);
}

static void test_all_pinned_is_said(void **state) {
    struct culm_source *source = text_source(*state, 4000);
    struct culm_prefetch *prefetch = prefetch_of(source, 1, 2);
    struct culm_prefetch_batch batch[4];
    struct culm_error error = {0};
    for (uint64_t i = 0; i < 3; i++) {
        const struct culm_prefetch_want want = {i * BATCH, 3};
        assert_int_equal(culm_prefetch_get(prefetch, want, &batch[i], &error), CULM_OK);
    }
    const struct culm_prefetch_want want = {12, 3}, again = {4, 3};
    assert_int_equal(culm_prefetch_get(prefetch, want, &batch[3], &error), CULM_ERR_INTERNAL);
    expect_message(&error, "all 3 micro-batches");
    assert_int_equal(culm_prefetch_get(prefetch, again, &batch[3], &error), CULM_OK);
    for (int i = 0; i < 4; i++) {
        expect_batch(source, &batch[i], 3); /* nobody wrote over them */
        culm_prefetch_put(prefetch, &batch[i]);
    }
    get_and_put(source, prefetch, 12, 3);
    culm_prefetch_free(prefetch);
    culm_source_free(source);
}

static void test_errors_come_when_asked_for(void **state) {
    struct place *place = *state;
    struct culm_source *source = text_source(place, 4000);
    struct culm_prefetch *prefetch = prefetch_of(source, 4, 2);
    struct culm_prefetch_batch batch;
    struct culm_error error = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/text", place->dir);
    assert_int_equal(truncate(path, 0), 0);
    const struct culm_prefetch_want plan[] = {{0, 3}, {4, 3}, {8, 3}};
    assert_int_equal(culm_prefetch_plan(prefetch, plan, 3, &error), CULM_OK);
    culm_prefetch_settle(prefetch);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(culm_prefetch_get(prefetch, plan[i % 3], &batch, &error), CULM_ERR_IO);
        expect_message(&error, "had 4000 when opened");
    }
    culm_source_free(text_source(place, 4000)); /* the file is back */
    get_and_put(source, prefetch, 4, 3);
    culm_prefetch_free(prefetch);
    culm_source_free(source);
}

struct user {
    const struct culm_source *source;
    struct culm_prefetch *prefetch;
    uint64_t seed;
    int wrong;
};

static void *use(void *argument) {
    struct user *user = argument;
    for (int i = 0; i < 300; i++) {
        struct culm_prefetch_batch batch;
        const struct culm_prefetch_want want = {culm_rng_below(&user->seed, 12) * BATCH,
                                                1 + (uint32_t)culm_rng_below(&user->seed, 3)};
        if (culm_prefetch_get(user->prefetch, want, &batch, NULL) != CULM_OK) {
            user->wrong++;
            continue;
        }
        struct culm_order order;
        int32_t expected[2][CONTEXT];
        void *const to[] = {expected[0], expected[1]};
        culm_order_init(&order, 11, culm_source_samples(user->source));
        const struct culm_source_item item = {culm_order_sample(&order, want.first), want.first};
        user->wrong += culm_source_fill(user->source, item, to, NULL) != CULM_OK;
        for (int f = 0; f < 2; f++) {
            user->wrong += batch.field[f] && memcmp(batch.field[f], expected[f], CONTEXT * 4) != 0;
        }
        culm_prefetch_put(user->prefetch, &batch);
    }
    return NULL;
}

/* Who comes while the thread fills it waits for it. When that is, nobody can say: each try comes a little later than the one before. */
static void test_who_comes_meanwhile_waits(void **state) {
    enum { MANY = 20000, TRIES = 500 };
    struct culm_source *source = text_source(*state, 40000);
    struct culm_prefetch_options options = {.source = source, .batch = MANY, .ahead = 1, .keep = 1};
    struct culm_prefetch *prefetch = NULL;
    culm_order_init(&options.order, 11, culm_source_samples(source));
    assert_int_equal(culm_prefetch_new(&options, &prefetch, NULL), CULM_OK);
    for (uint64_t i = 0; i < TRIES && culm_prefetch_stats_of(prefetch).waited == 0; i++) {
        const struct culm_prefetch_want want = {i * MANY, 3};
        struct culm_prefetch_batch batch;
        assert_int_equal(culm_prefetch_plan(prefetch, &want, 1, NULL), CULM_OK);
        for (uint64_t pause = 0; pause < 64 * i; pause++) {
            sched_yield();
        }
        assert_int_equal(culm_prefetch_get(prefetch, want, &batch, NULL), CULM_OK);
        expect_batch(source, &batch, 3);
        culm_prefetch_put(prefetch, &batch);
    }
    assert_true(culm_prefetch_stats_of(prefetch).waited > 0);
    culm_prefetch_free(prefetch);
    culm_source_free(source);
}

static void test_several_users(void **state) {
    enum { USERS = 4 };
    struct culm_source *source = text_source(*state, 4000);
    struct culm_prefetch *prefetch = prefetch_of(source, 3, USERS);
    struct culm_prefetch_want plan[12];
    pthread_t thread[USERS];
    struct user user[USERS];
    for (uint64_t i = 0; i < 12; i++) {
        plan[i] = (struct culm_prefetch_want){i * BATCH, 3};
    }
    for (uint64_t i = 0; i < USERS; i++) {
        user[i] = (struct user){.source = source, .prefetch = prefetch, .seed = i};
        assert_int_equal(pthread_create(&thread[i], NULL, use, &user[i]), 0);
    }
    for (int round = 0; round < 20; round++) {
        assert_int_equal(culm_prefetch_plan(prefetch, plan, 12, NULL), CULM_OK);
        culm_prefetch_settle(prefetch);
    }
    for (int i = 0; i < USERS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(user[i].wrong, 0);
    }
    culm_prefetch_free(prefetch);
    culm_source_free(source);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_planned_is_ready, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_a_missing_field_is_added, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_any_order, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_all_pinned_is_said, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_errors_come_when_asked_for, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_who_comes_meanwhile_waits, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_several_users, make_place, drop_place),
    };
    return cmocka_run_group_tests_name("data/prefetch", tests, NULL, NULL);
}
