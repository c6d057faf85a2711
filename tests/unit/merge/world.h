/*
 * Three small models to be merged, for tests of the search: the first two are built alike, the third differs in
 * one layer. Whatever ships is looked at: that targets are met, and that what is shared is equal. Thread: the test's.
 */
#ifndef TESTS_UNIT_MERGE_WORLD_H
#define TESTS_UNIT_MERGE_WORLD_H

#include "merge/search.h"

#include "net.h"

#ifndef MODELS
#define MODELS 3
#define WORLD_LAST                                                                                 \
    { 5, 5, 6 } /* channels of the third convolution of each */
#endif
#ifndef WORLD_TWIN
#define WORLD_TWIN 1 /* of the one before it */
#endif
#ifndef WORLD_PLAIN
#define WORLD_PLAIN (-1) /* which has no residual; -1: none */
#endif
#ifndef WORLD_SEEDS
#define WORLD_SEEDS                                                                                \
    { 1, 2, 3 } /* of their numbers */
#endif

#ifndef WORLD_MORE
#define WORLD_MORE                                                                                 \
    { 0 } /* further residuals of each */
#endif
#ifndef WORLD_WIDE
#define WORLD_WIDE (-1) /* whose second convolution has dilation 2; -1: none */
#endif
#ifndef WORLD_LATE
#define WORLD_LATE (-1) /* whose first further residual has dilation 2; -1: none */
#endif
#ifndef WORLD_CHANGE
#define WORLD_CHANGE(w, k) (void)0 /* numbers that are not drawn */
#endif

struct world {
    struct net net[MODELS];
    struct culm_merge_model model[MODELS], *models[MODELS];
    struct culm_share share;
    struct culm_merge_frames frames[MODELS];
    struct culm_merge_size size[SAMPLES];
    struct culm_judge judge[MODELS];
    struct culm_search_query query[MODELS];
    bool may[MODELS];
    struct culm_merge_config config;
    struct culm_device *device;
    struct culm_search search;
    int attempts, checks, ships, stop_at, asked;
    int32_t round, in_round; /* of the last attempt; attempts of that round */
    int64_t tried[16];       /* bytes that attempts would save */
    int64_t saved;           /* when something shipped last */
    uint64_t digest;         /* of all that was shipped */
    uint64_t last;           /* of what was shipped last */
    void *kept;              /* for another process */
    size_t kept_len;
    int keeps;
    bool equal, targets; /* shared layers were equal, and targets met, whenever something shipped */
    bool grows;          /* nothing shipped that saves less than what shipped before */
};

static inline bool meets(struct world *w, int32_t k) {
    double now;
    assert_int_equal(
        culm_judge_now(&w->judge[k], w->models[k]->value, &w->frames[k], NULL, &now, NULL),
        CULM_OK);
    return now >= w->query[k].target * w->query[k].original;
}

/* What ships was checked as it is. */
static inline void look_at_checks(struct world *w) {
    for (int32_t k = 0; k < MODELS; k++) {
        double now;
        bool shares = false;
        for (int32_t l = 0; l < w->model[k].layers.count; l++) {
            shares |= culm_share_of(&w->share, k, l) >= 0;
        }
        assert_int_equal(culm_judge_now(&w->judge[k], w->models[k]->value, &w->query[k].check,
                                        w->query[k].wanted, &now, NULL),
                         CULM_OK);
        assert_true(!shares || now == w->query[k].now);
    }
}

static inline void look_at_share(struct world *w) {
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

static inline void on_attempt(void *ctx, int32_t round, int32_t group,
                              const struct culm_search *search, const char *way) {
    struct world *w = ctx;
    (void)way;
    w->in_round = w->attempts > 0 && round == w->round ? w->in_round + 1 : 0;
    w->round = round;
    assert_true(w->config.method == CULM_MERGE_GEMEL ||
                w->config.method == CULM_MERGE_GEMEL_FIXED || group == w->in_round);
    assert_true(culm_share_saved(search->share) > 0);
    w->tried[w->attempts++ % 16] = culm_share_saved(search->share);
}
static inline void on_check(void *ctx, int32_t round, const struct culm_search_query *query,
                            bool ok) {
    struct world *w = ctx;
    (void)round, (void)query, (void)ok;
    w->checks++;
}
static inline enum culm_status on_ship(void *ctx, int32_t round, struct culm_error *error) {
    struct world *w = ctx;
    (void)error;
    w->ships = w->ships || !w->kept ? w->ships + 1 : round; /* or what another process shipped */
    assert_int_equal(round, w->ships);
    w->last = 0;
    assert_true(culm_share_saved(&w->share) > 0);
    look_at_share(w);
    if (w->config.method == CULM_MERGE_CULM) {
        look_at_checks(w);
    }
    w->grows = w->grows && culm_share_saved(&w->share) >= w->saved;
    w->saved = culm_share_saved(&w->share);
    for (int32_t k = 0; k < MODELS; k++) {
        w->targets = w->targets && meets(w, k);
        for (int32_t p = 0; p < w->model[k].param_count; p++) {
            int64_t count = culm_merge_param_elements(&w->model[k], p);
            uint64_t now = culm_device_digest(w->device, w->model[k].value[p], count);
            w->digest = culm_rng_mix(w->digest, now);
            w->last = culm_rng_mix(w->last, now);
        }
    }
    return CULM_OK;
}
static inline void on_step(void *ctx, int64_t step, int64_t steps, double loss) {
    (void)ctx, (void)loss;
    assert_true(step >= 1 && step <= steps);
}
static inline bool on_stop(void *ctx) {
    struct world *w = ctx;
    return ++w->asked == w->stop_at;
}
static inline double on_spent(void *ctx) {
    (void)ctx;
    return 0;
}
static inline enum culm_status on_keep(void *ctx, const void *data, size_t len,
                                       struct culm_error *error) {
    struct world *w = ctx;
    (void)error;
    free(w->kept);
    w->kept = malloc(len);
    assert_non_null(w->kept);
    memcpy(w->kept, data, len);
    w->kept_len = len;
    w->keeps++;
    return CULM_OK;
}
static inline enum culm_status on_recall(void *ctx, void **ret_data, size_t *ret_len,
                                         struct culm_error *error) {
    const struct world *w = ctx;
    (void)error;
    *ret_data = w->kept ? malloc(w->kept_len) : NULL;
    *ret_len = w->kept_len;
    if (*ret_data) {
        memcpy(*ret_data, w->kept, w->kept_len);
    }
    return CULM_OK;
}
static const struct culm_search_ops ops = {.attempt = on_attempt,
                                           .check = on_check,
                                           .ship = on_ship,
                                           .step = on_step,
                                           .stop = on_stop,
                                           .spent = on_spent,
                                           .keep = on_keep,
                                           .recall = on_recall};

/* The second network is the first with its channels in another order, and has the same pictures at a place
 * of its own. */
static inline void make_twin(const struct net *from, struct net *to) {
    static const int32_t order[] = {2, 0, 3, 1}; /* channel i is the first's order[i] */
    for (int32_t p = 0; p < from->params; p++) {
        const char *name = from->name[p];
        const bool norm = name[0] == 'n', c0 = !strcmp(name, "c0"), c1 = !strcmp(name, "c1");
        const bool c2 = !strcmp(name, "c2");
        const int64_t out = norm || c0 || c1 ? 4 : c2 ? from->last : CLASSES;
        const int64_t in = c0         ? 3
                           : c1 || c2 ? 4
                           : norm     ? 1
                                      : from->last,
                      k = c0 || c1 || c2 ? 9 : 1;
        for (int64_t o = 0; o < out; o++) {
            for (int64_t i = 0; i < in; i++) {
                int64_t a = norm || c0 || c1 ? order[o] : o, b = c1 || c2 ? order[i] : i;
                memcpy(&to->original[p][(o * in + i) * k], &from->original[p][(a * in + b) * k],
                       (size_t)k * sizeof(float));
            }
        }
    }
    memcpy(to->image, from->image, sizeof(float) * SAMPLES * SIZE * SIZE * 3);
}

static inline void world_make(struct world *w, enum culm_merge_method method, double target,
                              int threads, bool twin) {
    static const int64_t last[MODELS] = WORLD_LAST;
    static const uint64_t seed[MODELS] = WORLD_SEEDS;
    const struct culm_vision_layers *layers[MODELS];
    struct culm_match match;
    *w = (struct world){.equal = true, .targets = true, .grows = true};
    w->config = (struct culm_merge_config){.method = method, .steps = 1, .lr = 3e-3, .seed = 4};
    assert_int_equal(culm_device_new(threads, &w->device, NULL), CULM_OK);
    for (int32_t s = 0; s < SAMPLES; s++) {
        w->size[s] = (struct culm_merge_size){SIZE, SIZE};
    }
    for (int32_t k = 0; k < MODELS; k++) {
        static const int32_t more[MODELS] = WORLD_MORE;
        net_init_more(&w->net[k], seed[k], last[k], k == WORLD_PLAIN, more[k], k == WORLD_WIDE,
                      k == WORLD_LATE);
        WORLD_CHANGE(w, k);
        /* The third is another network whose second convolution is nearly the first's. */
        for (int32_t p = 0; p < w->net[k].params && k == 2; p++) {
            int64_t count = !strcmp(w->net[k].name[p], "c1") ? 144 : 0;
            memcpy(w->net[k].original[p], w->net[0].original[p], (size_t)count * sizeof(float));
        }
        if (k == WORLD_TWIN && twin) {
            make_twin(&w->net[k - 1], &w->net[k]);
        }
        assert_int_equal(culm_merge_model_init(&w->model[k], &w->net[k].model, NULL), CULM_OK);
        w->models[k] = &w->model[k];
        layers[k] = &w->model[k].layers;
        w->frames[k] =
            (struct culm_merge_frames){.image = w->net[k].image, .count = SAMPLES, .size = w->size};
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
    assert_int_equal(culm_match_find(layers, MODELS, CULM_MATCH_EQUAL, &match, NULL), CULM_OK);
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

static inline void world_init(struct world *w, enum culm_merge_method method, double target,
                              int threads) {
    world_make(w, method, target, threads, false);
}

static inline void world_release(struct world *w) {
    culm_share_release(&w->share);
    for (int32_t k = 0; k < MODELS; k++) {
        culm_judge_release(&w->judge[k]);
        culm_merge_model_release(&w->model[k]);
        net_release(&w->net[k]);
    }
    culm_device_free(w->device);
    free(w->kept);
}

/* Whether models are what shipped last, or their originals if nothing did. */
static inline bool world_as_shipped(const struct world *w) {
    uint64_t now = 0;
    bool original = true;
    for (int32_t k = 0; k < MODELS; k++) {
        for (int32_t p = 0; p < w->model[k].param_count; p++) {
            const int64_t count = culm_merge_param_elements(&w->model[k], p);
            const float *value = w->model[k].value[p];
            now = culm_rng_mix(now, culm_device_digest(w->device, value, count));
            original =
                original && !memcmp(value, w->model[k].original[p], (size_t)count * sizeof *value);
        }
    }
    return w->ships > 0 ? now == w->last : original;
}

/* Stops a search when it asks for the first time, the third, the ninth and so on, and searches again, with
 * the same models: what ships is what ships at once. Returns how often it was stopped. */
static inline int world_stop_anywhere(enum culm_merge_method method, double target, bool twin,
                                      int64_t steps) {
    uint64_t wanted = 0;
    int stops = 0;
    bool all = false;
    for (int stop_at = 0; !all; stop_at = stop_at ? 3 * stop_at : 1) {
        struct world w;
        world_make(&w, method, target, 1, twin);
        w.config.steps = steps;
        w.stop_at = stop_at;
        enum culm_status status = culm_search_run(&w.search, NULL);
        assert_true(world_as_shipped(&w));
        all = stop_at > 0 && status == CULM_OK;
        if (status != CULM_OK) {
            assert_int_equal(status, CULM_ERR_STOPPED);
            stops++;
            w.stop_at = w.ships = w.search.round = w.round = 0;
            w.digest = 0;
            w.saved = 0;
            assert_int_equal(culm_search_run(&w.search, NULL), CULM_OK);
            assert_true(world_as_shipped(&w));
        }
        wanted = stop_at ? wanted : w.digest;
        assert_true(w.ships > 0 && w.digest == wanted);
        world_release(&w);
    }
    return stops;
}

#endif
