/* Training block by block: what shared layers make comes nearer to what the originals made, and nothing else moves. */
#define MODELS 2
#define WORLD_LAST                                                                                 \
    { 5, 5 }
#define WORLD_MORE                                                                                 \
    { 2, 3 }
#define WORLD_SEEDS                                                                                \
    { 57, 31 }
#include "merge/search_blocks.h"
#include "merge/search_walks.h"
#include "merge/stem.h"
#include "merge/steps.h"

#include "world.h"

/* What a model makes at the end of a layer with a batch norm. The caller frees it. */
static float *made(const struct world *w, int32_t k, float *const *value, int32_t node,
                   int64_t *ret_count) {
    struct culm_steps steps;
    assert_int_equal(
        culm_steps_init(&steps, w->models[k], SAMPLES, w->frames[k].image, value, w->device, NULL),
        CULM_OK);
    while (steps.cursor <= node) {
        culm_steps_step(&steps);
    }
    const int32_t out = steps.graph->node[node].output[0];
    *ret_count = culm_elements(&steps.graph->value[out].shape);
    float *numbers = malloc(4 * (size_t)*ret_count);
    assert_non_null(numbers);
    memcpy(numbers, culm_steps_value(&steps, out), 4 * (size_t)*ret_count);
    culm_steps_release(&steps);
    return numbers;
}

static double off(const struct world *w, int32_t k, int32_t node) {
    int64_t count;
    double sum = 0;
    float *now = made(w, k, w->models[k]->value, node, &count);
    float *was = made(w, k, w->models[k]->aligned, node, &count);
    for (int64_t i = 0; i < count; i++) {
        sum += ((double)now[i] - was[i]) * ((double)now[i] - was[i]);
    }
    free(now);
    free(was);
    return sum / (double)count;
}

static int32_t norm_of(const struct world *w, int32_t k, const char *name) {
    int32_t l = 0;
    while (strcmp(w->model[k].graph->param[w->model[k].layers.layer[l].weight].name, name) != 0) {
        l++;
    }
    return w->model[k].layers.layer[l].norm;
}

static const float *numbers(const struct world *w, int32_t k, const char *name) {
    int32_t p = 0;
    while (strcmp(w->model[k].graph->param[p].name, name) != 0) {
        p++;
    }
    return w->model[k].value[p];
}

/* Everything but the last convolution and the heads is shared. */
static void begin(struct world *w, int threads) {
    world_init(w, CULM_MERGE_CULM, 1, threads);
    w->config.steps = 200;
    for (int32_t i = 0; i < w->share.match.count; i++) {
        const struct culm_vision_signature *signature = &w->share.match.instance[i].signature;
        culm_share_set(&w->share, i, !signature->linear && signature->out == 4);
    }
    assert_int_equal(search_fit(&w->search, false, NULL, NULL), CULM_OK);
}

static uint64_t digest(const struct world *w) {
    uint64_t all = 0;
    for (int32_t k = 0; k < MODELS; k++) {
        for (int32_t p = 0; p < w->model[k].param_count; p++) {
            all = culm_rng_mix(all, culm_device_digest(w->device, w->model[k].value[p],
                                                       culm_merge_param_elements(&w->model[k], p)));
        }
    }
    return all;
}

static void test_nearer(void **state) {
    (void)state;
    struct world w;
    begin(&w, 1);
    double before[MODELS];
    float last[5 * 4 * 9], head[CLASSES * 5];
    for (int32_t k = 0; k < MODELS; k++) {
        before[k] = off(&w, k, norm_of(&w, k, "m1"));
    }
    memcpy(last, numbers(&w, 1, "c2"), sizeof last);
    memcpy(head, numbers(&w, 1, "head"), sizeof head);
    assert_int_equal(search_blocks(&w.search, 160, NULL), CULM_OK);
    look_at_share(&w);
    assert_true(w.equal);
    double sum[2] = {0};
    for (int32_t k = 0; k < MODELS; k++) {
        const double now = off(&w, k, norm_of(&w, k, "m1"));
        sum[0] += before[k];
        sum[1] += now;
    }
    if (!(sum[1] < 0.8 * sum[0])) {
        fail_msg("%g away after %g", sum[1], sum[0]);
    }
    assert_memory_equal(last, numbers(&w, 1, "c2"), sizeof last); /* behind all blocks */
    assert_memory_equal(head, numbers(&w, 1, "head"), sizeof head);
    world_release(&w);
}

static void test_threads(void **state) {
    (void)state;
    uint64_t found[2];
    for (int i = 0; i < 2; i++) {
        struct world w;
        begin(&w, 1 + 2 * i);
        assert_int_equal(search_blocks(&w.search, 40, NULL), CULM_OK);
        found[i] = digest(&w);
        world_release(&w);
    }
    assert_true(found[0] == found[1]);
}

static float first[4 * 3 * 9],
    second[4 * 4 * 9]; /* convolutions, when training of the second had begun */

static void on_second_block(void *ctx, int64_t step, int64_t steps, double loss) {
    const struct world *w = ctx;
    (void)loss;
    assert_int_equal(steps, 4 * 40);
    if (step == 40 + 1) {
        memcpy(first, numbers(w, 0, "c0"), sizeof first);
        memcpy(second, numbers(w, 0, "c1"), sizeof second);
    }
}

/* What comes before a block stays as it is, and the block does not. */
static void test_one_after_the_other(void **state) {
    (void)state;
    struct world w;
    struct culm_search_ops heard = ops;
    begin(&w, 1);
    heard.step = on_second_block;
    w.search.ops = &heard;
    assert_int_equal(search_blocks(&w.search, 160, NULL), CULM_OK);
    assert_memory_equal(first, numbers(&w, 0, "c0"), sizeof first);
    assert_true(memcmp(second, numbers(&w, 0, "c1"), sizeof second) != 0);
    world_release(&w);
}

static int64_t steps_heard;

static void on_one_step(void *ctx, int64_t step, int64_t steps, double loss) {
    (void)ctx;
    (void)loss;
    assert_int_equal(step, ++steps_heard);
    assert_int_equal(steps, 3);
}

/* Fewer steps than there could be blocks: there are as many blocks. */
static void test_few_steps(void **state) {
    (void)state;
    struct world w;
    struct culm_search_ops heard = ops;
    begin(&w, 1);
    heard.step = on_one_step;
    w.search.ops = &heard;
    const uint64_t before = digest(&w);
    assert_int_equal(search_blocks(&w.search, 3, NULL), CULM_OK);
    assert_int_equal(steps_heard, 3);
    assert_true(digest(&w) != before);
    world_release(&w);
}

static void test_stopped(void **state) {
    (void)state;
    struct world w;
    begin(&w, 1);
    w.stop_at = 30;
    assert_int_equal(search_blocks(&w.search, 160, NULL), CULM_ERR_STOPPED);
    world_release(&w);
}

static void test_stem(void **state) {
    (void)state;
    struct world w;
    struct culm_stem stem;
    struct culm_merge_model beginning;
    world_init(&w, CULM_MERGE_CULM, 1, 1);
    const int32_t node = norm_of(&w, 1, "m0");
    culm_stem_init(&stem, w.models[1]->vision, node);
    assert_int_equal(culm_merge_model_init(&beginning, &stem.vision, NULL), CULM_OK);
    assert_int_equal(beginning.graph->output_count, 1);
    assert_int_equal(beginning.param_count, w.models[1]->param_count);
    for (int32_t p = 0; p < beginning.param_count; p++) {
        assert_memory_equal(beginning.original[p], w.models[1]->original[p],
                            4 * (size_t)culm_merge_param_elements(&beginning, p));
    }
    struct culm_steps steps;
    int64_t count;
    float *whole = made(&w, 1, w.models[1]->original, node, &count);
    assert_int_equal(culm_steps_init(&steps, &beginning, SAMPLES, w.frames[1].image,
                                     beginning.original, w.device, NULL),
                     CULM_OK);
    while (steps.cursor < steps.count) {
        culm_steps_step(&steps);
    }
    const int32_t value = steps.graph->output[0].value;
    assert_int_equal(count, culm_elements(&steps.graph->value[value].shape));
    assert_memory_equal(whole, culm_steps_value(&steps, value), 4 * (size_t)count);
    culm_steps_release(&steps);
    free(whole);
    culm_merge_model_release(&beginning);
    world_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearer),  cmocka_unit_test(test_one_after_the_other),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_few_steps),
        cmocka_unit_test(test_stopped), cmocka_unit_test(test_stem),
    };
    return cmocka_run_group_tests_name("merge/blocks", tests, NULL, NULL);
}
