/* What the one model has beyond the other is silent once that one's layers are taken over: its layers are given the
 * numbers of others, and no answer changes in any bit. */
#define MODELS 2
#define WORLD_LAST                                                                                 \
    { 5, 5 }
#define WORLD_SEEDS                                                                                \
    { 57, 31 }
#define WORLD_MORE                                                                                 \
    { 1, 3 }
#include "merge/idle.h"
#include "merge/steps.h"

#include "world.h"

#define KERNEL ((int64_t)(4 * 4 * 9 * sizeof(float)))

static uint64_t answers[8]; /* of the second model, when a round shipped */
static int rounds, ties;

static uint64_t answers_of(struct world *w) {
    struct culm_steps steps;
    assert_int_equal(culm_steps_init(&steps, w->models[1], SAMPLES, w->frames[1].image,
                                     w->models[1]->value, w->device, NULL),
                     CULM_OK);
    while (steps.cursor < steps.count) {
        culm_steps_step(&steps);
    }
    const int32_t value = steps.graph->output[0].value;
    const uint64_t digest = culm_device_digest(w->device, culm_steps_value(&steps, value),
                                               culm_elements(&steps.graph->value[value].shape));
    culm_steps_release(&steps);
    return digest;
}

static enum culm_status ship(void *ctx, int32_t round, struct culm_error *error) {
    assert_true(rounds < 8);
    answers[rounds++] = answers_of(ctx);
    return on_ship(ctx, round, error);
}

static void attempt(void *ctx, int32_t round, int32_t group, const struct culm_search *search,
                    const char *way) {
    on_attempt(ctx, round, group, search, way);
    ties += strcmp(way, "idle") == 0;
}

/* What has shipped once is looked at. */
static double spent(void *ctx) { return ((const struct world *)ctx)->ships > 0; }

static int32_t layer_of(const struct world *w, int32_t k, const char *name) {
    int32_t l = 0;
    while (strcmp(w->model[k].graph->param[w->model[k].layers.layer[l].weight].name, name) != 0) {
        l++;
    }
    return l;
}

static const float *weights_of(const struct world *w, int32_t k, const char *name) {
    return w->model[k].value[w->model[k].layers.layer[layer_of(w, k, name)].weight];
}

static void test_given_away(void **state) {
    (void)state;
    struct world w;
    struct culm_search_ops once = ops;
    rounds = ties = 0;
    world_init(&w, CULM_MERGE_CULM, 0.01, 1);
    once.spent = spent;
    once.ship = ship;
    once.attempt = attempt;
    w.search.ops = &once;
    w.config.steps = 0;
    assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
    assert_int_equal(rounds, 2); /* what was taken over, and what is left of it */
    assert_int_equal(ties, 1);
    assert_true(answers[0] == answers[1] && world_as_shipped(&w));
    int64_t taken = 0;
    for (int32_t i = 0; i < w.share.match.count; i++) {
        taken += culm_share_count(&w.share, i) > 1 ? w.share.match.instance[i].bytes : 0;
    }
    assert_int_equal(culm_share_saved(&w.share), taken + 2 * KERNEL);
    for (int i = 1; i < 3; i++) {
        const char *name = i == 1 ? "m1" : "m2";
        const struct culm_member own = {1, layer_of(&w, 1, name)};
        const struct culm_member holder = culm_share_holder(&w.share, own);
        assert_int_equal(holder.model, 0);
        assert_true(culm_share_with(&w.share, own));
        assert_memory_equal(weights_of(&w, 1, name), weights_of(&w, 0, "c1"), KERNEL);
    }
    world_release(&w);
}

static void test_which_are(void **state) {
    (void)state;
    struct world w;
    bool idle[16];
    world_init(&w, CULM_MERGE_CULM, 1, 1);
    struct culm_merge_model *model = w.models[1];
    assert_int_equal(culm_merge_idle(model, idle, NULL), CULM_OK);
    for (int32_t l = 0; l < model->layers.count; l++) {
        assert_false(idle[l]);
    }
    float *scale = model->value[culm_merge_norm_param(
        model->graph, model->layers.layer[layer_of(&w, 1, "m1")].norm, 0)];
    memset(scale, 0, 4 * sizeof *scale);
    assert_int_equal(culm_merge_idle(model, idle, NULL), CULM_OK);
    for (int32_t l = 0; l < model->layers.count; l++) {
        assert_int_equal(idle[l], l == layer_of(&w, 1, "m1"));
    }
    scale[3] = 1e-30F; /* one channel is enough to be needed */
    assert_int_equal(culm_merge_idle(model, idle, NULL), CULM_OK);
    assert_false(idle[layer_of(&w, 1, "m1")]);
    /* With the first batch norm nothing goes in, and still what comes out is needed. */
    scale = model->value[culm_merge_norm_param(model->graph, model->layers.layer[0].norm, 0)];
    memset(scale, 0, 4 * sizeof *scale);
    assert_int_equal(culm_merge_idle(model, idle, NULL), CULM_OK);
    for (int32_t l = 0; l < model->layers.count; l++) {
        assert_int_equal(idle[l], l == 0);
    }
    world_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_given_away),
                                       cmocka_unit_test(test_which_are)};
    return cmocka_run_group_tests_name("merge/idle", tests, NULL, NULL);
}
