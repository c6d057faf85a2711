/* Training block by block where two models have the same layers in different orders: what one of them has in a block
 * and the other has not moves under neither. */
#define MODELS 2
#define WORLD_LAST                                                                                 \
    { 5, 5 }
#define WORLD_MORE                                                                                 \
    { 2, 2 }
#define WORLD_LATE 0 /* its m0 is as the other one's c1, */
#define WORLD_WIDE 1 /* and its m0 as the other one's c1 */
#define WORLD_SEEDS                                                                                \
    { 57, 31 }
#include "merge/search_blocks.h"
#include "merge/search_walks.h"

#include "world.h"

#define KERNEL (4 * 4 * 9)

static struct culm_member member(const struct world *w, int32_t k, const char *name) {
    struct culm_member m = {k, 0};
    while (strcmp(w->model[k].graph->param[w->model[k].layers.layer[m.layer].weight].name, name)) {
        m.layer++;
    }
    return m;
}

static const float *numbers(const struct world *w, int32_t k, const char *name) {
    return w->model[k].value[w->model[k].layers.layer[member(w, k, name).layer].weight];
}

static void test_order(void **state) {
    (void)state;
    struct world w;
    float first[KERNEL], second[KERNEL], third[KERNEL];
    world_init(&w, CULM_MERGE_CULM, 1, 1);
    for (int32_t i = 0; i < w.share.match.count; i++) {
        const struct culm_vision_signature *signature = &w.share.match.instance[i].signature;
        culm_share_set(&w.share, i, !signature->linear && signature->out == 4);
    }
    const int32_t own = culm_share_of(&w.share, 0, member(&w, 0, "m0").layer);
    assert_true(own >= 0 && own == culm_share_of(&w.share, 1, member(&w, 1, "c1").layer));
    assert_int_equal(culm_share_of(&w.share, 0, member(&w, 0, "c1").layer),
                     culm_share_of(&w.share, 1, member(&w, 1, "m0").layer));
    assert_int_equal(search_fit(&w.search, false, NULL, NULL), CULM_OK);
    memcpy(first, numbers(&w, 0, "c1"), sizeof first);
    memcpy(second, numbers(&w, 0, "m0"), sizeof second);
    memcpy(third, numbers(&w, 0, "m1"), sizeof third);
    assert_int_equal(search_blocks(&w.search, 160, NULL), CULM_OK);
    look_at_share(&w);
    assert_true(w.equal);
    assert_true(memcmp(first, numbers(&w, 0, "c1"), sizeof first) != 0);
    assert_memory_equal(second, numbers(&w, 0, "m0"), sizeof second);
    assert_true(memcmp(third, numbers(&w, 0, "m1"), sizeof third) != 0); /* and it goes on */
    world_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};
    return cmocka_run_group_tests_name("merge/blocks_order", tests, NULL, NULL);
}
