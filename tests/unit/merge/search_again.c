/* What the first model of a group has is of no use to the others: they share among themselves. */
#define SAMPLES 40
#define MODELS 3
#define WORLD_LAST                                                                                 \
    { 5, 5, 5 }
#define WORLD_SEEDS                                                                                \
    { 57, 31, 73 }
#define WORLD_TWIN 2
#include "world.h"

static int with_first; /* attempts at sharing with the first model */
static bool jointly;   /* something else was tried before anything shipped */

static void hear(void *ctx, int32_t round, int32_t group, const struct culm_search *search,
                 const char *way) {
    on_attempt(ctx, round, group, search, way);
    bool first = false;
    for (int32_t l = 0; l < search->models[0]->layers.count; l++) {
        first |= culm_share_of(search->share, 0, l) >= 0;
    }
    with_first += first;
    jointly |= strcmp(way, "adopt") != 0 && ((struct world *)ctx)->ships == 0;
}

/* The second and the third are one network with its channels in another order. */
static void test_others_share(void **state) {
    (void)state;
    struct world w;
    struct culm_search_ops heard = ops;
    world_make(&w, CULM_MERGE_CULM, 1, 1, true);
    heard.attempt = hear;
    w.search.ops = &heard;
    w.config.steps = 0;
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_true(with_first > 0);
    assert_false(jointly);
    assert_true(w.ships > 0 && w.equal && w.targets);
    for (int32_t l = 0; l + 1 < w.model[1].layers.count; l++) { /* all but what gives the answers */
        assert_true(culm_share_of(&w.share, 1, l) >= 0);
        assert_int_equal(culm_share_of(&w.share, 1, l), culm_share_of(&w.share, 2, l));
        assert_int_equal(culm_share_of(&w.share, 0, l), -1);
    }
    world_release(&w);
}

static void test_stopped_anywhere(void **state) {
    (void)state;
    assert_in_range(world_stop_anywhere(CULM_MERGE_CULM, 1, true, 0), 3, 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_share),
        cmocka_unit_test(test_stopped_anywhere),
    };
    return cmocka_run_group_tests_name("merge/search_again", tests, NULL, NULL);
}
