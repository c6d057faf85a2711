/*
 * GEMEL on small models: what ships meets its targets and is shared in fact, partial results ship at once,
 * and the same seed gives the same package, however often it is begun again and on any number of threads.
 * And of the other searches what needs such models.
 */
#include "merge/search_gemel.h"

#include "net.h"

#define MODELS 3

struct world {
    struct net net[MODELS];
    struct culm_merge_model model[MODELS], *models[MODELS];
    struct culm_share share;
    struct culm_merge_frames frames[MODELS];
    struct culm_judge judge[MODELS];
    struct culm_search_query query[MODELS];
    bool may[MODELS];
    struct culm_merge_config config;
    struct culm_device *device;
    struct culm_search search;
    int attempts, checks, ships, stop_at, asked;
    int64_t tried[16];   /* bytes that attempts would save */
    int64_t saved;       /* when something shipped last */
    uint64_t digest;     /* of all that was shipped */
    bool equal, targets; /* shared layers were equal, and targets met, whenever something shipped */
};

static bool meets(struct world *w, int32_t k) {
    double now;
    assert_int_equal(
        culm_judge_now(&w->judge[k], w->models[k]->value, &w->frames[k], NULL, &now, NULL),
        CULM_OK);
    return now >= w->query[k].target * w->query[k].original;
}

static void look_at_share(struct world *w) {
    for (int32_t i = 0; i < w->share.match.count; i++) {
        const struct culm_instance *instance = &w->share.match.instance[i];
        for (int32_t m = 0; m < instance->count && culm_share_count(&w->share, i) > 1; m++) {
            const struct culm_member *first = culm_share_first(&w->share, i);
            const struct culm_member *own = &instance->member[m];
            if (!w->share.in[i][m]) {
                continue;
            }
            int32_t a = w->model[first->model].layers.layer[first->layer].weight;
            int32_t b = w->model[own->model].layers.layer[own->layer].weight;
            size_t bytes =
                sizeof(float) * (size_t)culm_merge_param_elements(&w->model[own->model], b);
            w->equal = w->equal && !memcmp(w->model[first->model].value[a],
                                           w->model[own->model].value[b], bytes);
        }
    }
}

static void on_attempt(void *ctx, int32_t round, int32_t group, const struct culm_search *search,
                       const char *way) {
    struct world *w = ctx;
    (void)round, (void)group, (void)way;
    assert_true(culm_share_saved(search->share) > 0);
    w->tried[w->attempts++ % 16] = culm_share_saved(search->share);
}
static void on_check(void *ctx, int32_t round, const struct culm_search_query *query, bool ok) {
    struct world *w = ctx;
    (void)round, (void)query, (void)ok;
    w->checks++;
}
static enum culm_status on_ship(void *ctx, int32_t round, struct culm_error *error) {
    struct world *w = ctx;
    (void)error;
    w->ships++;
    assert_int_equal(round, w->ships);
    assert_true(culm_share_saved(&w->share) > 0);
    look_at_share(w);
    w->saved = culm_share_saved(&w->share);
    for (int32_t k = 0; k < MODELS; k++) {
        w->targets = w->targets && meets(w, k);
        for (int32_t p = 0; p < w->model[k].param_count; p++) {
            int64_t count = culm_merge_param_elements(&w->model[k], p);
            w->digest =
                culm_rng_mix(w->digest, culm_device_digest(w->device, w->model[k].value[p], count));
        }
    }
    return CULM_OK;
}
static void on_step(void *ctx, int64_t step, int64_t steps, double loss) {
    (void)ctx, (void)loss;
    assert_true(step >= 1 && step <= steps);
}
static bool on_stop(void *ctx) {
    struct world *w = ctx;
    return ++w->asked == w->stop_at;
}
static bool on_late(void *ctx) {
    (void)ctx;
    return false;
}
static const struct culm_search_ops ops = {on_attempt, on_check, on_ship,
                                           on_step,    on_stop,  on_late};

static void world_init(struct world *w, enum culm_merge_method method, double target, int threads) {
    static const int64_t last[MODELS] = {5, 5, 6};
    const struct culm_vision_layers *layers[MODELS];
    struct culm_match match;
    *w = (struct world){.equal = true, .targets = true};
    w->config = (struct culm_merge_config){.method = method, .steps = 1, .lr = 3e-3, .seed = 4};
    assert_int_equal(culm_device_new(threads, &w->device, NULL), CULM_OK);
    for (int32_t k = 0; k < MODELS; k++) {
        net_init(&w->net[k], (uint64_t)k + 1, last[k]);
        /* The third is another network whose second convolution is nearly the first's. */
        for (int32_t p = 0; p < w->net[k].params && k == 2; p++) {
            int64_t count = !strcmp(w->net[k].name[p], "c1") ? 144 : 0;
            memcpy(w->net[k].original[p], w->net[0].original[p], (size_t)count * sizeof(float));
        }
        assert_int_equal(culm_merge_model_init(&w->model[k], &w->net[k].model, NULL), CULM_OK);
        w->models[k] = &w->model[k];
        layers[k] = &w->model[k].layers;
        w->frames[k] = (struct culm_merge_frames){
            .image = w->net[k].image, .count = SAMPLES, .width = SIZE, .height = SIZE};
        assert_int_equal(culm_judge_init(&w->judge[k], &w->model[k], 4, 0.25F, w->device, NULL),
                         CULM_OK);
        struct culm_answer answer[SAMPLES] = {0};
        assert_int_equal(
            culm_judge_answer(&w->judge[k], w->model[k].original, &w->frames[k], answer, NULL),
            CULM_OK);
        for (int32_t s = 0; s < SAMPLES; s++) { /* what the original says is right */
            w->net[k].label[s] = answer[s].classes[0].class_index;
            culm_answer_release(&answer[s]);
        }
        w->frames[k].label = w->net[k].label;
        w->query[k] = (struct culm_search_query){.name = "q",
                                                 .model = k,
                                                 .judge = &w->judge[k],
                                                 .check = w->frames[k],
                                                 .original = 1,
                                                 .target = target};
        w->may[k] = true;
    }
    assert_int_equal(culm_match(layers, MODELS, CULM_MATCH_EQUAL, &match, NULL), CULM_OK);
    assert_int_equal(culm_share_init(&w->share, &match, w->models, MODELS, NULL), CULM_OK);
    w->search = (struct culm_search){.models = w->models,
                                     .count = MODELS,
                                     .share = &w->share,
                                     .frames = w->frames,
                                     .query = w->query,
                                     .query_count = MODELS,
                                     .may = w->may,
                                     .config = &w->config,
                                     .device = w->device,
                                     .ops = &ops,
                                     .ctx = w};
}

static void world_release(struct world *w) {
    culm_share_release(&w->share);
    for (int32_t k = 0; k < MODELS; k++) {
        culm_judge_release(&w->judge[k]);
        culm_merge_model_release(&w->model[k]);
        net_release(&w->net[k]);
    }
    culm_device_free(w->device);
}

static void test_ships_what_it_promises(void **state) {
    (void)state;
    for (int fixed = 0; fixed < 2; fixed++) {
        struct world w;
        world_init(&w, fixed ? CULM_MERGE_GEMEL_FIXED : CULM_MERGE_GEMEL, 0.7, 1);
        assert_int_equal(culm_search(&w.search, NULL), CULM_OK);
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
            assert_int_equal(culm_search(&w.search, NULL), CULM_ERR_STOPPED);
            world_release(&w);
            world_init(&w, CULM_MERGE_GEMEL_FIXED, 0.7, turn + 1);
        }
        assert_int_equal(culm_search(&w.search, NULL), CULM_OK);
        digest[turn] = w.digest;
        world_release(&w);
    }
    assert_true(digest[0] == digest[1]);
    assert_true(digest[0] != digest[2]);
}

/* Nothing can be trained: what needs no training ships, nothing else. */
static void test_limits(void **state) {
    (void)state;
    struct world w;
    world_init(&w, CULM_MERGE_GEMEL_FIXED, 1, 1);
    w.config.lr = 0;
    w.config.steps = 0;
    assert_int_equal(culm_search(&w.search, NULL), CULM_OK);
    assert_true(w.targets);
    world_release(&w);
    world_init(&w, CULM_MERGE_GEMEL, 0.7, 1);
    w.may[0] = w.may[1] = false; /* one model alone shares with nobody */
    assert_int_equal(culm_search(&w.search, NULL), CULM_OK);
    assert_int_equal(w.attempts, 0);
    world_release(&w);
    world_init(&w, CULM_MERGE_GEMEL, 0.7, 1);
    w.search.count = 65; /* sets of models are masks */
    struct culm_error error;
    assert_int_equal(culm_search_gemel(&w.search, &error), CULM_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "at most 64"));
    w.search.count = MODELS;
    w.config.lr = 1e30; /* every loss ends as no number */
    assert_int_equal(culm_search(&w.search, NULL), CULM_OK);
    assert_true(w.equal);
    world_release(&w);
}

/* Nobody keeps up with an impossible target, so every stem is tried; each is shorter than the one before. */
static void test_no_stem_twice(void **state) {
    (void)state;
    struct world w;
    world_init(&w, CULM_MERGE_STEM, 1.5, 1);
    w.may[1] = false; /* it alone has more than two layers in common with the first */
    assert_int_equal(culm_search(&w.search, NULL), CULM_OK);
    assert_int_equal(w.ships, 0);
    assert_int_equal(w.attempts, 2);
    assert_true(w.tried[1] < w.tried[0]);
    world_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ships_what_it_promises),
        cmocka_unit_test(test_same_seed_same_package),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_stem_twice),
    };
    return cmocka_run_group_tests_name("merge/search_gemel", tests, NULL, NULL);
}
