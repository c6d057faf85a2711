/*
 * Two pairs of models that have less in common with each other than within: each pair is searched for itself.
 */
#define SAMPLES 40
#define MODELS 4
#define WORLD_LAST                                                                                 \
    { 5, 5, 6, 6 }
#define WORLD_SEEDS                                                                                \
    { 57, 31, 73, 39 }
#include "world.h"

/* Bytes that a pair could share: all but its batch norms. */
static int64_t of_pair(int64_t last) {
    return 4 * (3 * 4 * 9 + 4 * 4 * 9 + 4 * last * 9 + CLASSES * last);
}

static bool shares_any(const struct world *w, int32_t model) {
    bool any = false;
    for (int32_t l = 0; l < w->model[model].layers.count; l++) {
        any |= culm_share_of(&w->share, model, l) >= 0;
    }
    return any;
}

static bool as_before(const struct world *w, int32_t model) {
    bool same = true;
    for (int32_t p = 0; p < w->model[model].param_count; p++) {
        same = same && !memcmp(w->model[model].value[p], w->model[model].original[p],
                               4 * (size_t)culm_merge_param_elements(&w->model[model], p));
    }
    return same;
}

/* What instances save, without ties. */
static int64_t by_instances(const struct world *w) {
    int64_t saved = 0;
    for (int32_t i = 0; i < w->share.match.count; i++) {
        const int32_t count = culm_share_count(&w->share, i);
        saved += count > 1 ? w->share.match.instance[i].bytes * (count - 1) : 0;
    }
    return saved;
}

/* The first two are one network with its channels in another order, the others two networks that nobody could merge:
 * those share everything without training, as if these were not there, and of these nothing changes. */
static void test_one_group_cannot_be_merged(void **state) {
    (void)state;
    struct world w;
    world_make(&w, CULM_MERGE_CULM, 1, 1, true);
    w.config.steps = 20;
    w.query[2].target = w.query[3].target = 1.5;
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_int_equal(by_instances(&w), of_pair(5));
    assert_true(culm_share_saved(&w.share) >= of_pair(5));
    assert_true(w.equal && meets(&w, 0) && meets(&w, 1));
    assert_true(as_before(&w, 2) && as_before(&w, 3));
    world_release(&w);
}

/* What one ships stays when the other ships. */
static void test_both_ship(void **state) {
    (void)state;
    struct world w;
    world_make(&w, CULM_MERGE_CULM, 0.9, 1, true);
    w.config.steps = 200;
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_true(w.equal && w.targets && w.grows);
    for (int32_t k = 0; k < MODELS; k++) {
        assert_true(shares_any(&w, k) && meets(&w, k));
    }
    for (int32_t i = 0; i < w.share.match.count; i++) {
        const struct culm_instance *instance = &w.share.match.instance[i];
        assert_int_equal(instance->count, 2);
        assert_int_equal(instance->member[0].model / 2, instance->member[1].model / 2);
    }
    world_release(&w);
}

static void test_stopped_anywhere(void **state) {
    (void)state;
    assert_in_range(world_stop_anywhere(CULM_MERGE_CULM, 0.9, true, 60), 3, 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_group_cannot_be_merged),
        cmocka_unit_test(test_both_ship),
        cmocka_unit_test(test_stopped_anywhere),
    };
    return cmocka_run_group_tests_name("merge/search_groups", tests, NULL, NULL);
}
