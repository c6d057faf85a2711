/*
 * `culm` on small models: what can be shared is, nothing ships that misses a target, what meets its target does
 * not wait for what does not, and the same package comes of any number of threads and any restart.
 * And what the baselines try.
 */
/* So many, and of networks that do not always answer the same: something has to be trained. */
#define SAMPLES 40
#define WORLD_SEEDS                                                                                \
    { 57, 31, 73 }
#include "world.h"

#include <math.h>

#define HEAD ((int64_t)sizeof(float) * CLASSES * 5) /* bytes of what gives the answers */

/* Three models of first weights, of which nothing but one layer is alike: training gets them all to
 * share all that they can, but for what gives the answers, which is not worth another attempt. */
static void test_all_is_shared_that_can_be(void **state) {
    (void)state;
    struct world w;
    world_init(&w, CULM_MERGE_CULM, 0.95, 1);
    w.config.steps = 0;
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    int64_t untrained = culm_share_saved(&w.share);
    world_release(&w);
    world_init(&w, CULM_MERGE_CULM, 0.95, 1);
    w.config.steps = 400;
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_true(untrained < culm_share_saved(&w.share)); /* else there was nothing to learn */
    assert_int_equal(culm_share_saved(&w.share), w.share.match.saved_bytes - HEAD);
    assert_true(w.targets && w.equal && w.ships > 0);
    look_at_share(&w);
    assert_true(w.equal);
    for (int32_t k = 0; k < MODELS; k++) {
        assert_true(meets(&w, k));
    }
    world_release(&w);
}

/* A target above 1 is never met: the others share what they can all the same, and the one that
 * misses keeps its own weights. */
static void test_one_misses(void **state) {
    (void)state;
    struct world w;
    world_init(&w, CULM_MERGE_CULM, 0.95, 1);
    w.config.steps = 200;
    w.query[1].target = 1.01;
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_true(w.ships > 0 && w.equal && meets(&w, 0) && meets(&w, 2));
    int64_t others = 0; /* what the first and the third have in common */
    int64_t shared = 0; /* without ties */
    for (int32_t i = 0; i < w.share.match.count; i++) {
        const struct culm_instance *instance = &w.share.match.instance[i];
        int32_t members = 0;
        for (int32_t m = 0; m < instance->count; m++) {
            members += instance->member[m].model != 1;
            assert_false(instance->member[m].model == 1 && w.share.in[i][m]);
        }
        others += members > 1 ? instance->bytes * (members - 1) : 0;
        members = culm_share_count(&w.share, i);
        shared += members > 1 ? instance->bytes * (members - 1) : 0;
    }
    assert_int_equal(shared, others);
    assert_true(culm_share_saved(&w.share) >= others);
    for (int32_t p = 0; p < w.model[1].param_count; p++) {
        assert_memory_equal(w.model[1].value[p], w.model[1].original[p],
                            4 * (size_t)culm_merge_param_elements(&w.model[1], p));
    }
    world_release(&w);
}

/* Rounds save more and more, and at the end there is what shipped last. */
static void test_nothing_is_lost_again(void **state) {
    (void)state;
    for (int64_t steps = 0; steps <= 60; steps += 20) {
        struct world w;
        world_init(&w, CULM_MERGE_CULM, 0.9, 1);
        w.config.steps = steps;
        assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
        assert_true(w.targets && w.equal && w.grows);
        assert_int_equal(culm_share_saved(&w.share), w.saved);
        world_release(&w);
    }
}

static void test_same_seed_same_package(void **state) {
    (void)state;
    uint64_t digest[3];
    for (int turn = 0; turn < 3; turn++) {
        struct world w;
        world_init(&w, CULM_MERGE_CULM, 0.95, turn + 1);
        w.config.steps = 400;
        w.config.seed += turn == 2;
        assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
        assert_true(w.ships > 0);
        digest[turn] = w.digest;
        world_release(&w);
    }
    assert_true(digest[0] == digest[1]);
    assert_true(digest[0] != digest[2]);
}

static void test_stopped_anywhere(void **state) {
    (void)state;
    assert_in_range(world_stop_anywhere(CULM_MERGE_CULM, 0.95, false, 60), 4, 20);
}

/* One network twice, its channels in another order and its pictures at another place, as those of a query
 * with labels of its own are: channels are matched, and nothing has to be trained. */
static void test_same_pictures_are_known(void **state) {
    (void)state;
    struct world w;
    world_make(&w, CULM_MERGE_CULM, 1, 1, true);
    w.config.steps = 0;
    w.may[2] = false;
    int64_t both = 0;
    for (int32_t i = 0; i < w.share.match.count; i++) {
        const struct culm_instance *instance = &w.share.match.instance[i];
        both +=
            instance->member[0].model == 0 && instance->member[1].model == 1 ? instance->bytes : 0;
    }
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_int_equal(culm_share_saved(&w.share), both);
    assert_true(w.equal && meets(&w, 0) && meets(&w, 1));
    assert_int_equal(w.attempts, 2); /* all but what gives the answers, then that too */
    for (int32_t p = 0; p < w.net[0].params; p++) { /* the one that both are, but for its scale */
        for (int32_t o = 0; o < 4 && !strcmp(w.net[0].name[p], "c0"); o++) {
            const float *a = w.model[0].value[p] + o * 27, *b = w.net[0].original[p] + o * 27;
            double ab = 0, aa = 0, bb = 0;
            for (int i = 0; i < 27; i++) {
                ab += (double)a[i] * b[i];
                aa += (double)a[i] * a[i];
                bb += (double)b[i] * b[i];
            }
            assert_true(ab > 0.999 * sqrt(aa * bb));
        }
    }
    world_release(&w);
}

static int steps_taken;

static void hear_step(void *ctx, int64_t step, int64_t steps, double loss) {
    on_step(ctx, step, steps, loss);
    steps_taken++;
}

/* So few frames are checked that a model is trained in any case, unless it answers all of them as its original does. */
static void test_equal_answers_pass_at_once(void **state) {
    (void)state;
    struct world w;
    struct culm_search_ops heard = ops;
    heard.step = hear_step;
    world_make(&w, CULM_MERGE_CULM, 0.95, 1, true);
    w.config.steps = 40;
    w.may[2] = false;
    w.search.ops = &heard;
    struct culm_answer answer[2][SAMPLES] = {0};
    for (int32_t k = 0; k < 2; k++) {
        w.query[k].check.count = 20;
        assert_int_equal(
            culm_judge_answer(&w.judge[k], w.model[k].original, &w.query[k].check, answer[k], NULL),
            CULM_OK);
        w.query[k].wanted = answer[k];
    }
    steps_taken = 0;
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_true(w.ships > 0 && w.equal && w.targets);
    assert_int_equal(steps_taken, 0);
    for (int32_t i = 0; i < 20; i++) {
        culm_answer_release(&answer[0][i]);
        culm_answer_release(&answer[1][i]);
    }
    world_release(&w);
}

/* Whose layers others take over keeps every number, and they train only what is their own. */
static void test_one_keeps_its_numbers(void **state) {
    (void)state;
    struct world w;
    world_init(&w, CULM_MERGE_CULM, 0.95, 1);
    w.config.steps = 400;
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_true(culm_share_saved(&w.share) > 0);
    for (int32_t p = 0; p < w.model[0].param_count; p++) {
        assert_memory_equal(w.model[0].value[p], w.model[0].original[p],
                            4 * (size_t)culm_merge_param_elements(&w.model[0], p));
    }
    world_release(&w);
}

/* Nobody keeps up with an impossible target, so every stem is tried; each is shorter than the one before. */
static void test_no_stem_twice(void **state) {
    (void)state;
    struct world w;
    world_init(&w, CULM_MERGE_STEM, 1.5, 1);
    w.may[1] = false; /* it alone has more than two layers in common with the first */
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_int_equal(w.ships, 0);
    assert_int_equal(w.attempts, 2);
    assert_true(w.tried[1] < w.tried[0]);
    world_release(&w);
}

/* A stem computes the same in all of its models: its batch norms are the first one's, too. */
static void test_stem_has_one_norm(void **state) {
    (void)state;
    struct world w;
    int compared = 0;
    world_init(&w, CULM_MERGE_STEM, 0.01, 1);
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_true(w.ships > 0 && w.equal);
    for (int32_t k = 0; k < MODELS; k++) {
        for (int32_t p = 0; p < w.net[k].params; p++) {
            if (w.net[k].name[p][0] == 'n') {
                assert_memory_equal(w.model[k].value[p], w.model[0].original[p],
                                    4 * (size_t)culm_merge_param_elements(&w.model[k], p));
                compared++;
            }
        }
    }
    assert_int_equal(compared, MODELS * 2 * 4);
    world_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_shared_that_can_be),
        cmocka_unit_test(test_one_misses),
        cmocka_unit_test(test_one_keeps_its_numbers),
        cmocka_unit_test(test_same_pictures_are_known),
        cmocka_unit_test(test_equal_answers_pass_at_once),
        cmocka_unit_test(test_nothing_is_lost_again),
        cmocka_unit_test(test_same_seed_same_package),
        cmocka_unit_test(test_stopped_anywhere),
        cmocka_unit_test(test_no_stem_twice),
        cmocka_unit_test(test_stem_has_one_norm),
    };
    return cmocka_run_group_tests_name("merge/search", tests, NULL, NULL);
}
