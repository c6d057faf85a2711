/* A model has a residual branch that the one whose layers it takes over lacks: what it takes over has to
 * compute what it computes there, so the branch is silent. */
#define MODELS 2
#define WORLD_LAST                                                                                 \
    { 5, 5 }
#define WORLD_PLAIN 0
#define WORLD_SEEDS                                                                                \
    { 57, 31 }
#include "world.h"

static int32_t index_of(const struct world *w, int32_t k, const char *name) {
    int32_t p = 0;
    while (strcmp(w->net[k].name[p], name) != 0) {
        p++;
    }
    return p;
}

/* What has shipped once is looked at. */
static double spent(void *ctx) { return ((const struct world *)ctx)->ships > 0; }

static void test_branch_is_silent(void **state) {
    (void)state;
    struct world w;
    struct culm_search_ops once = ops;
    world_init(&w, CULM_MERGE_CULM, 0.01, 1);
    once.spent = spent;
    w.search.ops = &once;
    w.config.steps = 0;
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_true(w.ships > 0 && w.equal);
    assert_memory_equal(w.model[1].value[index_of(&w, 1, "c2")],
                        w.model[0].original[index_of(&w, 0, "c2")], 5 * 4 * 9 * sizeof(float));
    for (int32_t i = 0; i < 4; i++) {
        assert_true(w.model[1].value[index_of(&w, 1, "n1.0")][i] == 0);
        assert_true(w.model[1].value[index_of(&w, 1, "n1.1")][i] == 0);
    }
    world_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_branch_is_silent)};
    return cmocka_run_group_tests_name("merge/search_residual", tests, NULL, NULL);
}
