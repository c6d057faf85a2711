/* Layers of one model that share, and layers that differ in dilation and padding: numbers that are the same already are
 * found, whatever else there is, and what is counted is what there is. */
#define SAMPLES 40
#define MODELS 2
#define WORLD_LAST                                                                                 \
    { 5, 6 }
#define WORLD_MORE                                                                                 \
    { 3, 0 }
#define WORLD_WIDE 1
#define WORLD_SEEDS                                                                                \
    { 57, 31 }
#define WORLD_CHANGE(w, k) change(w, k)
struct world;
static void change(struct world *w, int k);
#include "merge/search_ties.h"

#include "world.h"

#define KERNEL (4 * 4 * 9)

static float *numbers(struct net *net, const char *name) {
    int32_t p = 0;
    while (strcmp(net->name[p], name) != 0) {
        p++;
    }
    return net->original[p];
}

/* The first model's m2 has the numbers of its m0, and the second one's second convolution those of the first one's,
 * with another dilation. */
static void change(struct world *w, int k) {
    if (k == 0) {
        memcpy(numbers(&w->net[0], "m2"), numbers(&w->net[0], "m0"), KERNEL * sizeof(float));
    } else {
        memcpy(numbers(&w->net[1], "c1"), numbers(&w->net[0], "c1"), KERNEL * sizeof(float));
    }
}

static struct culm_member member(const struct world *w, int32_t k, const char *name) {
    struct culm_member m = {k, 0};
    while (strcmp(w->model[k].graph->param[w->model[k].layers.layer[m.layer].weight].name, name)) {
        m.layer++;
    }
    return m;
}

static bool one_tensor(const struct world *w, struct culm_member a, struct culm_member b) {
    const struct culm_member x = culm_share_holder(&w->share, a);
    const struct culm_member y = culm_share_holder(&w->share, b);
    const float *va = w->model[a.model].value[w->model[a.model].layers.layer[a.layer].weight];
    const float *vb = w->model[b.model].value[w->model[b.model].layers.layer[b.layer].weight];
    const bool one = x.model == y.model && x.layer == y.layer;
    assert_true(!one || !memcmp(va, vb, KERNEL * sizeof(float)));
    return one;
}

/* Nothing is shared before. */
static uint64_t tie(int threads, int64_t steps) {
    struct world w;
    struct search_state shipped = {0};
    world_init(&w, CULM_MERGE_CULM, 1, threads);
    w.config.steps = steps;
    for (int32_t i = 0; i < w.share.match.count; i++) { /* of one stride, padding and dilation */
        assert_true(w.share.match.instance[i].signature.in != 4 ||
                    w.share.match.instance[i].signature.out != 4);
    }
    assert_int_equal(search_save(&w.search, &shipped, NULL), CULM_OK);
    assert_int_equal(search_tie(&w.search, &shipped, NULL), CULM_OK);
    search_restore(&w.search, &shipped);
    assert_true(w.ships > 0 && w.equal && w.targets && w.grows && world_as_shipped(&w));
    assert_true(one_tensor(&w, member(&w, 0, "m0"), member(&w, 0, "m2")));
    assert_true(one_tensor(&w, member(&w, 0, "c1"), member(&w, 1, "c1")));
    assert_true(culm_share_saved(&w.share) >= 2 * KERNEL * (int64_t)sizeof(float));
    const uint64_t digest = w.digest;
    search_state_release(&shipped, MODELS);
    world_release(&w);
    return digest;
}

static void test_what_is_the_same(void **state) {
    (void)state;
    (void)tie(1, 0);
}

static void test_threads(void **state) {
    (void)state;
    assert_true(tie(1, 40) == tie(3, 40));
}

static void test_stopped_anywhere(void **state) {
    (void)state;
    assert_in_range(world_stop_anywhere(CULM_MERGE_CULM, 1, false, 40), 2, 20);
}

/* --- what a share says --- */

/* Which layers have one tensor, the plain way: [models][layers], the least number of all that it has to do with. */
struct plain {
    int32_t of[MODELS][16];
};

static void plain_join(struct plain *p, const struct world *w, int32_t a, int32_t b) {
    for (int32_t k = 0; k < MODELS; k++) {
        for (int32_t l = 0; l < w->model[k].layers.count; l++) {
            p->of[k][l] = p->of[k][l] == a || p->of[k][l] == b ? (a < b ? a : b) : p->of[k][l];
        }
    }
}

static void plain_alone(struct plain *p, const struct world *w, int32_t model) {
    static int32_t next = 1000;
    for (int32_t l = 0; l < w->model[model].layers.count; l++) {
        p->of[model][l] = next++;
    }
}

static int64_t plain_saved(const struct plain *p, const struct world *w) {
    int64_t saved = 0;
    for (int32_t i = 0; i < MODELS * 16; i++) {
        const int32_t k = i / 16, l = i % 16;
        for (int32_t j = 0; j < i && l < w->model[k].layers.count; j++) {
            if (j % 16 < w->model[j / 16].layers.count && p->of[j / 16][j % 16] == p->of[k][l]) {
                saved += w->model[k].layers.layer[l].bytes;
                break;
            }
        }
    }
    return saved;
}

/* Whatever is tied, in whatever order, and whoever leaves: the same layers share as by the plain way. */
static void test_counts(void **state) {
    (void)state;
    struct world w;
    uint64_t random = 11;
    world_init(&w, CULM_MERGE_CULM, 1, 1);
    for (int run = 0; run < 200; run++) {
        struct plain p;
        int32_t number = 0;
        for (int32_t i = 0; i < w.share.match.count; i++) {
            culm_share_set(&w.share, i, false);
        }
        culm_share_untie(&w.share);
        for (int32_t k = 0; k < MODELS; k++) {
            for (int32_t l = 0; l < 16; l++) {
                p.of[k][l] = number++;
            }
        }
        for (int32_t i = 0; i < w.share.match.count; i++) {
            const struct culm_instance *instance = &w.share.match.instance[i];
            if (culm_rng_below(&random, 2)) {
                culm_share_set(&w.share, i, true);
                plain_join(&p, &w, p.of[0][instance->member[0].layer],
                           p.of[1][instance->member[1].layer]);
            }
        }
        for (int step = 0; step < 12; step++) {
            struct culm_member m[2];
            for (int i = 0; i < 2; i++) {
                m[i].model = (int32_t)culm_rng_below(&random, MODELS);
                m[i].layer =
                    (int32_t)culm_rng_below(&random, (uint64_t)w.model[m[i].model].layers.count);
            }
            const uint64_t what = culm_rng_below(&random, 8);
            const int32_t instance = w.share.of[m[0].model][m[0].layer];
            if (what == 0) {
                culm_share_leave(&w.share, m[0].model);
                plain_alone(&p, &w, m[0].model);
            } else if (what == 1) {
                culm_share_exit(&w.share, m[0]);
                p.of[m[0].model][m[0].layer] = -1 - step;
            } else if (what < 4 && instance >= 0) {
                culm_share_enter(&w.share, m[0]);
                const struct culm_instance *with = &w.share.match.instance[instance];
                if (culm_share_count(&w.share, instance) == 2) {
                    plain_join(&p, &w, p.of[0][with->member[0].layer],
                               p.of[1][with->member[1].layer]);
                }
            } else {
                culm_share_tie(&w.share, m[0], m[1]);
                plain_join(&p, &w, p.of[m[0].model][m[0].layer], p.of[m[1].model][m[1].layer]);
            }
            if (culm_rng_below(&random, 3) ==
                0) { /* as text and back, of the one model and the other */
                char *text = culm_share_text(&w.share);
                assert_non_null(text);
                culm_share_untie(&w.share);
                culm_share_put(&w.share, text);
                free(text);
            }
            for (int32_t k = 0; k < MODELS; k++) {
                bool any = false;
                for (int32_t l = 0; l < w.model[k].layers.count; l++) {
                    bool with = false;
                    for (int32_t j = 0; j < MODELS * 16; j++) {
                        with |= j % 16 < w.model[j / 16].layers.count &&
                                (j / 16 != k || j % 16 != l) && p.of[j / 16][j % 16] == p.of[k][l];
                    }
                    any |= with;
                    assert_int_equal(culm_share_with(&w.share, (struct culm_member){k, l}), with);
                }
                assert_int_equal(culm_share_any(&w.share, k), any);
            }
            assert_int_equal(culm_share_saved(&w.share), plain_saved(&p, &w));
        }
    }
    world_release(&w);
}

/* What groups tied for themselves stays two things when it is put side by side. */
static void test_side_by_side(void **state) {
    (void)state;
    struct world w;
    const bool second[MODELS] = {false, true};
    world_init(&w, CULM_MERGE_CULM, 1, 1);
    culm_share_tie(&w.share, member(&w, 0, "m0"), member(&w, 0, "m1"));
    char *text = culm_share_text(&w.share);
    culm_share_untie(&w.share);
    culm_share_tie(&w.share, member(&w, 1, "c0"), member(&w, 1, "c1")); /* whatever that would be */
    culm_share_put_others(&w.share, second, text);
    free(text);
    const struct culm_member a = culm_share_holder(&w.share, member(&w, 0, "m1"));
    const struct culm_member b = culm_share_holder(&w.share, member(&w, 1, "c1"));
    assert_int_equal(a.model, 0);
    assert_int_equal(a.layer, member(&w, 0, "m0").layer);
    assert_int_equal(b.model, 1);
    assert_int_equal(b.layer, member(&w, 1, "c0").layer);
    world_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_the_same), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_stopped_anywhere), cmocka_unit_test(test_counts),
        cmocka_unit_test(test_side_by_side),
    };
    return cmocka_run_group_tests_name("merge/ties", tests, NULL, NULL);
}
