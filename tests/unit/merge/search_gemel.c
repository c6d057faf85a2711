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
        assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
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
            assert_int_equal(culm_search_run(&w.search, NULL), CULM_ERR_STOPPED);
            world_release(&w);
            world_init(&w, CULM_MERGE_GEMEL_FIXED, 0.7, turn + 1);
        }
        assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
        digest[turn] = w.digest;
        world_release(&w);
    }
    assert_true(digest[0] == digest[1]);
    assert_true(digest[0] != digest[2]);
}

/* Stopped anywhere and begun in another process, it goes on behind the last whole attempt, and comes to the
 * same. What was kept of it and is cut or altered is not used: then it begins anew. */
static void test_goes_on(void **state) {
    (void)state;
    for (int fixed = 0; fixed < 2; fixed++) {
        const enum culm_merge_method method = fixed ? CULM_MERGE_GEMEL_FIXED : CULM_MERGE_GEMEL;
        struct world whole, w;
        int continued = 0;
        world_init(&whole, method, 0.7, 1);
        assert_int_equal(culm_search_run(&whole.search, NULL), CULM_OK);
        assert_int_equal(whole.keeps, whole.attempts);
        for (int at = 1; at < whole.asked; at += 1 + whole.asked / 12) {
            world_init(&w, method, 0.7, 1);
            w.stop_at = at;
            assert_int_equal(culm_search_run(&w.search, NULL), CULM_ERR_STOPPED);
            const int done = w.keeps;
            const size_t len = w.kept_len;
            void *kept = w.kept;
            w.kept = NULL;
            world_release(&w);
            world_init(&w, method, 0.7, 1);
            w.kept = kept;
            w.kept_len = len;
            assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
            assert_int_equal(w.attempts, whole.attempts - done);
            assert_int_equal(w.search.round, whole.search.round);
            assert_int_equal(culm_share_saved(&w.share), culm_share_saved(&whole.share));
            assert_true(w.ships == 0 || w.last == whole.last);
            for (int32_t k = 0; k < MODELS; k++) {
                float *mine = culm_merge_model_save(&w.model[k]);
                float *its = culm_merge_model_save(&whole.model[k]);
                assert_true(mine && its);
                int64_t floats = 0;
                for (int32_t p = 0; p < w.model[k].param_count; p++) {
                    floats += culm_merge_param_elements(&w.model[k], p);
                }
                assert_memory_equal(mine, its, (size_t)floats * sizeof *mine);
                free(mine);
                free(its);
            }
            continued += done > 0 && w.attempts > 0;
            world_release(&w);
        }
        assert_true(continued > 0);
        for (size_t cut = 1; cut < whole.kept_len; cut += 1 + whole.kept_len / 5) {
            world_init(&w, method, 0.7, 1);
            w.kept = malloc(cut);
            assert_non_null(w.kept);
            memcpy(w.kept, whole.kept, cut);
            w.kept_len = cut;
            assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
            assert_int_equal(w.attempts, whole.attempts);
            assert_true(w.last == whole.last);
            world_release(&w);
        }
        world_release(&whole);
    }
}

/* Nothing can be trained: what needs no training ships, nothing else. */
static void test_limits(void **state) {
    (void)state;
    struct world w;
    world_init(&w, CULM_MERGE_GEMEL_FIXED, 1, 1);
    w.config.lr = 0;
    w.config.steps = 0;
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_true(w.targets);
    world_release(&w);
    world_init(&w, CULM_MERGE_GEMEL, 0.7, 1);
    w.may[0] = w.may[1] = false; /* one model alone shares with nobody */
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_int_equal(w.attempts, 0);
    world_release(&w);
    world_init(&w, CULM_MERGE_GEMEL, 0.7, 1);
    w.search.count = 65; /* sets of models are masks */
    struct culm_error error;
    assert_int_equal(culm_search_gemel(&w.search, &error), CULM_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "at most 64"));
    w.search.count = MODELS;
    w.config.lr = 1e30; /* every loss ends as no number */
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_true(w.equal);
    world_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ships_what_it_promises),
        cmocka_unit_test(test_same_seed_same_package),
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("merge/search_gemel", tests, NULL, NULL);
}
