/*
 * GEMEL on small models: what ships meets its targets and is shared in fact, partial results ship at once,
 * and the same seed gives the same package, however often it is begun again and on any number of threads.
 */
#include "merge/search_gemel.h"

#include "world.h"

static void test_ships_what_it_promises(void **state) {
    (void)state;
    for (int fixed = 0; fixed < 2; fixed++) {
        struct world w;
        world_init(&w, fixed ? CULM_MERGE_GEMEL_FIXED : CULM_MERGE_GEMEL, 0.7, 1);
        assert_int_equal(culm_search(&w.search, NULL), CULM_OK);
        assert_true(w.attempts > 1 && w.checks > w.attempts);
        assert_true(w.ships > 0 && w.equal);
        assert_true(w.targets || !fixed);
        look_at_share(&w);
        assert_true(w.equal);
        assert_int_equal(culm_share_saved(&w.share), w.saved);
        for (int32_t k = 0; k < MODELS && fixed; k++) {
            assert_true(meets(&w, k));
        }
        world_release(&w);
    }
}

static void test_same_seed_same_package(void **state) {
    (void)state;
    uint64_t digest[3];
    for (int turn = 0; turn < 3; turn++) {
        struct world w;
        world_init(&w, CULM_MERGE_GEMEL_FIXED, 0.7, turn + 1);
        w.config.seed += turn == 2;
        if (turn == 1) { /* stopped somewhere, begun again */
            w.stop_at = 40;
            assert_int_equal(culm_search(&w.search, NULL), CULM_ERR_STOPPED);
            world_release(&w);
            world_init(&w, CULM_MERGE_GEMEL_FIXED, 0.7, turn + 1);
        }
        assert_int_equal(culm_search(&w.search, NULL), CULM_OK);
        digest[turn] = w.digest;
        world_release(&w);
    }
    assert_true(digest[0] == digest[1]);
    assert_true(digest[0] != digest[2]);
}

/* Nothing can be trained: what needs no training ships, nothing else. */
static void test_limits(void **state) {
    (void)state;
    struct world w;
    world_init(&w, CULM_MERGE_GEMEL_FIXED, 1, 1);
    w.config.lr = 0;
    w.config.steps = 0;
    assert_int_equal(culm_search(&w.search, NULL), CULM_OK);
    assert_true(w.targets);
    world_release(&w);
    world_init(&w, CULM_MERGE_GEMEL, 0.7, 1);
    w.may[0] = w.may[1] = false; /* one model alone shares with nobody */
    assert_int_equal(culm_search(&w.search, NULL), CULM_OK);
    assert_int_equal(w.attempts, 0);
    world_release(&w);
    world_init(&w, CULM_MERGE_GEMEL, 0.7, 1);
    w.search.count = 65; /* sets of models are masks */
    struct culm_error error;
    assert_int_equal(culm_search_gemel(&w.search, &error), CULM_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "at most 64"));
    w.search.count = MODELS;
    w.config.lr = 1e30; /* every loss ends as no number */
    assert_int_equal(culm_search(&w.search, NULL), CULM_OK);
    assert_true(w.equal);
    world_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ships_what_it_promises),
        cmocka_unit_test(test_same_seed_same_package),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("merge/search_gemel", tests, NULL, NULL);
}
