/* Who is first where nobody could build without training on the one that comes first by its answers and its size: the model
 * with which the others keep most. */
#define SAMPLES 40
#define MODELS 3
#define WORLD_LAST                                                                                 \
    { 5, 5, 5 }
#define WORLD_SEEDS                                                                                \
    { 57, 31, 74 }
#define WORLD_CHANGE(w, k) make_poor(&(w)->net[k], k)

struct net;
static void make_poor(struct net *net, int k);

#include "world.h"

#define TRIES (MODELS * (MODELS - 1)) /* every model on every other */

/* All first channels of the first model are the same: others find little there to build on. */
static void make_poor(struct net *net, int k) {
    for (int32_t p = 0; p < net->params && k == 0; p++) {
        const int64_t one = !strcmp(net->name[p], "c0") ? 27 : !strncmp(net->name[p], "n0", 2);
        for (int64_t i = one; i < 4 * one; i++) {
            net->original[p][i] = net->original[p][i % one];
        }
    }
}

/* What was tried first, and how well it did. */
static int tries, checks, untrained;  /* attempts before the first step of training */
static bool some;                     /* the last attempt is at sharing some of the layers */
static double each;                   /* share of the time that an attempt takes */
static int32_t pairs[MODELS][MODELS]; /* of what was trained: attempts with both */
static bool shares[TRIES + 1][MODELS];
static double accuracy[TRIES];

static void hear_attempt(void *ctx, int32_t round, int32_t group, const struct culm_search *search,
                         const char *way) {
    on_attempt(ctx, round, group, search, way);
    if ((some = !strcmp(way, "some"))) {
        return; /* what a model that misses its targets shares all the same */
    }
    for (int32_t k = 0; k < MODELS; k++) {
        const bool in = culm_share_any(search->share, k);
        if (tries <= TRIES) {
            shares[tries][k] = in;
        }
        for (int32_t other = 0; other < MODELS && in && tries >= TRIES; other++) {
            pairs[k][other] += culm_share_any(search->share, other);
        }
    }
    tries++;
}

static void hear_check(void *ctx, int32_t round, const struct culm_search_query *query, bool ok) {
    on_check(ctx, round, query, ok);
    if (checks < TRIES && !some) {
        accuracy[checks++] = query->now;
    }
}

static void search(struct world *w, double target, int64_t steps) {
    struct culm_search_ops heard = ops;
    heard.attempt = hear_attempt;
    heard.check = hear_check;
    tries = checks = 0;
    memset(pairs, 0, sizeof pairs);
    world_init(w, CULM_MERGE_CULM, target, 1);
    w->search.ops = &heard;
    w->config.steps = steps;
    assert_int_equal(culm_search_run(&w->search, NULL), CULM_OK);
}

static void hear_step(void *ctx, int64_t step, int64_t steps, double loss) {
    on_step(ctx, step, steps, loss);
    untrained = untrained ? untrained : tries - 1;
}

static double hear_spent(void *ctx) { return on_spent(ctx) + each * tries; }

static bool hear_stop(void *ctx) { return on_stop(ctx) || untrained > 0; }

/* Nobody meets its target. Ends with the first step of training. `checked`: frames of the last model that are. */
static void search_untrained(struct world *w, int64_t checked) {
    struct culm_search_ops heard = ops;
    heard.attempt = hear_attempt;
    heard.check = hear_check;
    heard.step = hear_step;
    heard.spent = hear_spent;
    heard.stop = hear_stop;
    tries = checks = untrained = 0;
    world_init(w, CULM_MERGE_CULM, 1.01, 1);
    w->search.ops = &heard;
    w->config.steps = 40;
    w->query[MODELS - 1].check.count = checked;
    assert_int_equal(culm_search_run(&w->search, NULL), CULM_ERR_STOPPED);
}

static bool keeps(const struct world *w, int32_t k) {
    bool same = true;
    for (int32_t p = 0; p < w->model[k].param_count; p++) {
        same = same && !memcmp(w->model[k].value[p], w->model[k].aligned[p],
                               4 * (size_t)culm_merge_param_elements(&w->model[k], p));
    }
    return same;
}

/* The poor one does as well on top of the second as by itself, and ships so at once. */
static void test_who_is_of_no_use_builds_on_another(void **state) {
    (void)state;
    struct world w;
    search(&w, 0.95, 0);
    assert_true(tries > 2 && accuracy[0] < 0.95 && accuracy[1] < 0.95 && accuracy[2] >= 0.95);
    assert_true(w.ships > 0 && w.equal && w.targets);
    assert_true(culm_share_any(&w.share, 0) && culm_share_any(&w.share, 1));
    assert_true(keeps(&w, 1) && !keeps(&w, 0));
    world_release(&w);
}

/* Nobody meets its target. Each was tried as the first, in turn; what is trained is on top of the best. */
static void test_best_is_first(void **state) {
    (void)state;
    struct world w;
    double sum[MODELS] = {0};
    int32_t best = 0;
    search(&w, 1.01, 40);
    assert_true(tries > TRIES && checks == TRIES && w.ships == 0);
    for (int32_t i = 0; i < TRIES; i++) {
        const int32_t first = i / (MODELS - 1);
        assert_true(shares[i][first]);
        sum[first] += accuracy[i];
    }
    for (int32_t k = 1; k < MODELS; k++) {
        best = sum[k] > sum[best] ? k : best;
    }
    assert_true(best > 0);
    assert_true(shares[TRIES][best]);
    for (int32_t k = 0; k < MODELS; k++) {
        assert_true(pairs[best][k] > 0);
    }
    world_release(&w);
}

/* Where time ends for others while the third is tried, what is trained is on top of the better of the first two. */
static void test_others_have_a_part_of_the_time(void **state) {
    (void)state;
    struct world w;
    each = 0.08;
    search_untrained(&w, SAMPLES);
    assert_int_equal(untrained, 5);
    assert_true(accuracy[2] + accuracy[3] > accuracy[0] + accuracy[1]); /* on top of the second */
    assert_true(shares[untrained][1]);
    world_release(&w);
    each = 0.05; /* enough for all */
    search_untrained(&w, SAMPLES);
    assert_int_equal(untrained, TRIES);
    world_release(&w);
}

/* Checks of few frames do not tell who is best: the first one it is. */
static void test_few_frames(void **state) {
    (void)state;
    struct world w;
    each = 0;
    search_untrained(&w, 29);
    assert_int_equal(untrained, MODELS - 1);
    assert_true(shares[0][0] && shares[1][0] && shares[untrained][0]);
    world_release(&w);
    search_untrained(&w, 30);
    assert_int_equal(untrained, TRIES);
    world_release(&w);
}

static void test_stopped_anywhere(void **state) {
    (void)state;
    assert_in_range(world_stop_anywhere(CULM_MERGE_CULM, 0.95, false, 40), 3, 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_of_no_use_builds_on_another),
        cmocka_unit_test(test_best_is_first),
        cmocka_unit_test(test_others_have_a_part_of_the_time),
        cmocka_unit_test(test_few_frames),
        cmocka_unit_test(test_stopped_anywhere),
    };
    return cmocka_run_group_tests_name("merge/search_first", tests, NULL, NULL);
}
