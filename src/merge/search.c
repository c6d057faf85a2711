/* The order of attempts. See search.h. */
#include "merge/search.h"

#include "merge/align.h"
#include "merge/joint.h"
#include "merge/search_gemel.h"

#include <stdlib.h>
#include <string.h>

#define FIT_FRAMES 32    /* that a walk through all models keeps in memory */
#define FIT_SAMPLES 8192 /* places of an output that a layer is solved with */
#define RIDGE 0.3
#define BATCH 4
#define LEARNING_RATE 2e-4
#define WARM_UP 10 /* steps */
#define PROBES 6   /* attempts at the largest share that needs no training */
#define CHECKS 20  /* of an attempt at training, at least */
#define LEAVE 2    /* checks that were missed before layers leave */

struct state {
    float **saved; /* [models] */
    char *share;
};

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

static void release_state(struct state *state, int32_t count) {
    for (int32_t k = 0; k < count && state->saved; k++) {
        free(state->saved[k]);
    }
    free(state->saved);
    free(state->share);
    *state = (struct state){0};
}

static enum culm_status save_state(const struct culm_search *s, struct state *state,
                                   struct culm_error *error) {
    release_state(state, s->count);
    state->saved = calloc((size_t)s->count + 1, sizeof *state->saved);
    state->share = culm_share_text(s->share);
    bool ok = state->saved && state->share;
    for (int32_t k = 0; k < s->count && ok; k++) {
        state->saved[k] = culm_merge_model_save(s->models[k]);
        ok = state->saved[k] != NULL;
    }
    return ok ? CULM_OK : no_memory(error);
}

static void restore_state(const struct culm_search *s, const struct state *state) {
    for (int32_t k = 0; k < s->count; k++) {
        culm_merge_model_restore(s->models[k], state->saved[k]);
    }
    culm_share_put(s->share, state->share);
}

static void revert(const struct culm_search *s) {
    for (int32_t k = 0; k < s->count; k++) {
        culm_merge_model_revert(s->models[k]);
    }
}

static void share_nothing(const struct culm_search *s) {
    for (int32_t i = 0; i < s->share->match.count; i++) {
        culm_share_set(s->share, i, false);
    }
}

/* But for models that may not be merged. */
static void share_first(const struct culm_search *s, const int32_t *order, int32_t count) {
    share_nothing(s);
    for (int32_t i = 0; i < count; i++) {
        culm_share_set(s->share, order ? order[i] : i, true);
    }
    for (int32_t k = 0; k < s->count; k++) {
        if (!s->may[k]) {
            culm_share_leave(s->share, k);
        }
    }
}

static bool shares(const struct culm_search *s, int32_t model) {
    for (int32_t l = 0; l < s->models[model]->layers.count; l++) {
        if (culm_share_of(s->share, model, l) >= 0) {
            return true;
        }
    }
    return false;
}

static bool stopped(const struct culm_search *s) { return s->ops->stop(s->ctx); }

static enum culm_status stop(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_STOPPED, "stopped; --resume goes on");
}

/* Checks every query whose model shares something. */
static enum culm_status check(struct culm_search *s, bool *ret_ok, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    *ret_ok = true;
    for (int32_t q = 0; q < s->query_count && status == CULM_OK; q++) {
        struct culm_search_query *query = &s->query[q];
        if (!shares(s, query->model)) {
            continue;
        }
        if (stopped(s)) {
            return stop(error);
        }
        status = culm_judge_now(query->judge, s->models[query->model]->value, &query->check,
                                query->wanted, &query->now, error);
        bool ok = query->now >= query->target * query->original;
        *ret_ok = *ret_ok && ok;
        if (status == CULM_OK) {
            s->ops->check(s->ctx, s->round + 1, query, ok);
        }
    }
    return status;
}

static enum culm_status ship(struct culm_search *s, struct state *shipped,
                             struct culm_error *error) {
    enum culm_status status = save_state(s, shipped, error);
    return status == CULM_OK ? s->ops->ship(s->ctx, ++s->round, error) : status;
}

/* --- without training --- */

/* Evenly spaced frames, as many as a walk keeps. The caller frees the image unless it is the frames'
 * own. */
static enum culm_status some_frames(const struct culm_merge_model *model,
                                    const struct culm_merge_frames *frames, int64_t most,
                                    struct culm_fit_frames *ret_frames, struct culm_error *error) {
    const struct culm_shape *shape = &model->graph->field[0].shape;
    int64_t one = culm_elements(shape), count = frames->count < most ? frames->count : most;
    *ret_frames = (struct culm_fit_frames){frames->image, frames->count};
    if (count == frames->count) {
        return CULM_OK;
    }
    float *image = aligned_alloc(64, (size_t)((4 * one * count + 63) / 64 * 64));
    if (!image) {
        return no_memory(error);
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t from = i * frames->count / count;
        memcpy(image + i * one, frames->image + from * one, 4 * (size_t)one);
    }
    *ret_frames = (struct culm_fit_frames){image, count};
    return CULM_OK;
}

static int64_t frames_that_fit(const struct culm_merge_model *model) {
    int64_t one = culm_elements(&model->graph->field[0].shape);
    int64_t count = (int64_t)FIT_FRAMES * 320 * 320 * 3 / (one > 0 ? one : 1);
    return count > 2048 ? 2048 : count < 1 ? 1 : count;
}

/* What walks through all models are given: the same frames once. */
struct walks {
    struct culm_fit_frames *frames; /* [models] */
    bool *own;                      /* [models] */
};

static enum culm_status take_walks(const struct culm_search *s, struct walks *w,
                                   struct culm_error *error) {
    *w = (struct walks){.frames = calloc((size_t)s->count + 1, sizeof *w->frames),
                        .own = calloc((size_t)s->count + 1, sizeof *w->own)};
    enum culm_status status = w->frames && w->own ? CULM_OK : no_memory(error);
    for (int32_t k = 0; k < s->count && status == CULM_OK; k++) {
        int32_t same = 0;
        while (s->frames[same].image != s->frames[k].image) {
            same++;
        }
        if (same < k) {
            w->frames[k] = w->frames[same];
            continue;
        }
        status = some_frames(s->models[k], &s->frames[k], frames_that_fit(s->models[k]),
                             &w->frames[k], error);
        w->own[k] = w->frames[k].image != s->frames[k].image;
    }
    return status;
}

static void release_walks(const struct culm_search *s, struct walks *w) {
    for (int32_t k = 0; k < s->count && w->own; k++) {
        free(w->own[k] ? (void *)(uintptr_t)w->frames[k].image : NULL);
    }
    free(w->frames);
    free(w->own);
}

static enum culm_status fit(struct culm_search *s, double *ret_harm, bool copy,
                            struct culm_error *error) {
    const struct culm_fit_options options = {
        .solve = {FIT_SAMPLES, RIDGE}, .private_ridge = RIDGE, .copy = copy};
    struct walks walks;
    enum culm_status status = take_walks(s, &walks, error);
    if (status == CULM_OK) {
        status = culm_fit(s->models, s->count, s->share, walks.frames, &options, s->device,
                          ret_harm, error);
    }
    for (int32_t k = 0; k < s->count; k++) {
        if (!shares(s, k)) { /* nothing has to be made up for */
            culm_merge_model_revert(s->models[k]);
        }
    }
    release_walks(s, &walks);
    return status;
}

static enum culm_status align(struct culm_search *s, struct culm_error *error) {
    struct walks walks;
    enum culm_status status = take_walks(s, &walks, error);
    if (status == CULM_OK) {
        status = culm_align(s->models, s->count, s->share, walks.frames, s->device, NULL, error);
    }
    release_walks(s, &walks);
    return status;
}

/* What an instance saves for what it loses; the latter squared, since little things lost leave answers as
 * they are. */
static double worth(const struct culm_search *s, const double *harm, int32_t i) {
    const struct culm_instance *instance = &s->share->match.instance[i];
    return (double)instance->bytes * (instance->count - 1) / (harm[i] * harm[i] + 1e-6);
}

static void sort_by_worth(const struct culm_search *s, const double *harm, int32_t *order) {
    for (int32_t i = 0; i < s->share->match.count; i++) {
        int32_t at = i;
        for (; at > 0 && worth(s, harm, order[at - 1]) < worth(s, harm, i); at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

/* The largest share that meets all targets untrained, of `order`: *ret_some is how many instances. */
static enum culm_status untrained(struct culm_search *s, const int32_t *order, int32_t group,
                                  struct state *shipped, struct culm_error *error) {
    int32_t low = 0, high = s->share->match.count; /* high was too many */
    enum culm_status status = CULM_OK;
    struct state best = {0};
    for (int32_t probe = 0; probe < PROBES && high - low > 1 && status == CULM_OK; probe++) {
        int32_t middle = (low + high) / 2;
        bool ok = false;
        if (s->ops->late(s->ctx)) {
            break;
        }
        share_first(s, order, middle);
        s->ops->attempt(s->ctx, s->round + 1, group + probe, s, "fit");
        if ((status = fit(s, NULL, false, error)) || (status = check(s, &ok, error))) {
            break;
        }
        if (ok) {
            low = middle;
            status = save_state(s, &best, error);
        } else {
            high = middle;
        }
    }
    if (status == CULM_OK && low > 0) {
        restore_state(s, &best);
        status = ship(s, shipped, error);
    }
    release_state(&best, s->count);
    return status;
}

/* --- training --- */

/* Of the models whose queries miss their targets, the instance that is worth least; -1: none. */
static int32_t least_worth(const struct culm_search *s, const double *harm) {
    int32_t worst = -1;
    for (int32_t i = 0; i < s->share->match.count; i++) {
        const struct culm_instance *instance = &s->share->match.instance[i];
        bool misses = false;
        for (int32_t m = 0; m < instance->count && culm_share_count(s->share, i) > 1; m++) {
            for (int32_t q = 0; q < s->query_count; q++) {
                misses = misses ||
                         (s->share->in[i][m] && s->query[q].model == instance->member[m].model &&
                          s->query[q].now < s->query[q].target * s->query[q].original);
            }
        }
        if (misses && (worst < 0 || worth(s, harm, i) < worth(s, harm, worst))) {
            worst = i;
        }
    }
    return worst;
}

/* Lets instances go until a fiftieth of what could be saved is gone. */
static bool let_go(struct culm_search *s, const double *harm) {
    int64_t before = culm_share_saved(s->share), most = s->share->match.saved_bytes / 50;
    int32_t worst;
    while (before - culm_share_saved(s->share) <= most && (worst = least_worth(s, harm)) >= 0) {
        culm_share_set(s->share, worst, false);
    }
    return culm_share_saved(s->share) > 0 && culm_share_saved(s->share) < before;
}

/* --- models with one address for each shared tensor --- */

struct samples {
    const struct culm_merge_frames *frames;
    int64_t one; /* floats of a frame */
};

static enum culm_status get(void *ctx, int64_t sample, float *ret_image,
                            struct culm_wanted *ret_wanted, struct culm_error *error) {
    const struct samples *from = ctx;
    (void)error;
    memcpy(ret_image, from->frames->image + sample * from->one, 4 * (size_t)from->one);
    *ret_wanted = (struct culm_wanted){.label = -1};
    return CULM_OK;
}

struct joined {
    struct culm_joint *joint;
    struct culm_joint_part *part; /* of the models that share something */
    float ***value;               /* [parts][parameters] */
    struct samples *samples;
    int32_t parts;
    int64_t taken; /* steps: the optimizer is new, so the first are small */
};

static void release_joined(struct joined *j) {
    culm_joint_free(j->joint);
    for (int32_t i = 0; i < j->parts; i++) {
        free(j->value[i]);
    }
    free(j->value);
    free(j->part);
    free(j->samples);
    *j = (struct joined){0};
}

static enum culm_status join(const struct culm_search *s, uint64_t seed, struct joined *j,
                             struct culm_error *error) {
    *j = (struct joined){.part = calloc((size_t)s->count + 1, sizeof *j->part),
                         .value = calloc((size_t)s->count + 1, sizeof *j->value),
                         .samples = calloc((size_t)s->count + 1, sizeof *j->samples)};
    bool ok = j->part && j->value && j->samples;
    for (int32_t k = 0; k < s->count && ok; k++) {
        if (!shares(s, k)) {
            continue;
        }
        int32_t i = j->parts;
        ok = (j->value[i] = culm_share_addresses(s->share, s->models, k)) != NULL;
        j->parts += ok;
        j->samples[i] =
            (struct samples){&s->frames[k], culm_elements(&s->models[k]->graph->field[0].shape)};
        j->part[i] =
            (struct culm_joint_part){.model = s->models[k]->vision,
                                     .value = j->value[i],
                                     .original = (const float *const *)s->models[k]->original,
                                     .samples = {&j->samples[i], s->frames[k].count, get}};
    }
    const struct culm_joint_config config = {.optimizer = {.name = CULM_OPTIMIZER_ADAM,
                                                           .lr = LEARNING_RATE,
                                                           .beta1 = 0.9,
                                                           .beta2 = 0.999,
                                                           .eps = 1e-8},
                                             .aim = CULM_JOINT_OUTPUTS,
                                             .batch = BATCH * j->parts,
                                             .seed = seed};
    return ok ? culm_joint_new(&config, j->part, j->parts, s->device, &j->joint, error)
              : no_memory(error);
}

/* Until the next check. */
static enum culm_status learn(struct culm_search *s, struct joined *j, int64_t step, int64_t count,
                              struct culm_error *error) {
    int64_t steps = s->config->steps;
    enum culm_status status = CULM_OK;
    for (int64_t i = 0; i < count && status == CULM_OK; i++, step++) {
        double loss, part = (double)step / (double)steps;
        if (stopped(s)) {
            return stop(error);
        }
        double warm = j->taken < WARM_UP ? (double)(j->taken + 1) / WARM_UP : 1;
        j->taken++;
        culm_joint_rate(j->joint, LEARNING_RATE * warm * (1 - 0.9 * part));
        status = culm_joint_run(j->joint, 1, &loss, error);
        s->ops->step(s->ctx, step + 1, steps, loss);
    }
    for (int32_t i = 0; i < s->share->match.count; i++) {
        if (culm_share_count(s->share, i) > 1) {
            culm_share_copy(s->share, s->models, i);
        }
    }
    return status;
}

static enum culm_status train(struct culm_search *s, const double *harm, int64_t more_than,
                              struct state *shipped, struct culm_error *error) {
    int64_t steps = s->config->steps, every = steps / CHECKS > 10 ? steps / CHECKS : 10;
    int64_t looks = 0;
    struct joined joined = {0};
    enum culm_status status = join(s, s->config->seed, &joined, error);
    for (int64_t step = 0; step < steps && status == CULM_OK; step += every) {
        int64_t count = steps - step < every ? steps - step : every;
        bool ok = false;
        if ((status = learn(s, &joined, step, count, error)) || (status = check(s, &ok, error))) {
            break;
        }
        if (ok) {
            status = ship(s, shipped, error);
            break;
        }
        /* A quarter of the steps is for everything; then layers leave, now and then. */
        if (step + count >= steps / 4 && ++looks % LEAVE == 0) {
            if (s->ops->late(s->ctx) || !let_go(s, harm) ||
                culm_share_saved(s->share) <= more_than) {
                break;
            }
            for (int32_t k = 0; k < s->count; k++) {
                if (!shares(s, k)) { /* it is no more checked */
                    culm_merge_model_revert(s->models[k]);
                }
            }
            release_joined(&joined);
            status = join(s, s->config->seed + (uint64_t)step + 1, &joined, error);
        }
    }
    release_joined(&joined);
    return status;
}

static enum culm_status by_culm(struct culm_search *s, struct state *shipped,
                                struct culm_error *error) {
    int32_t count = s->share->match.count;
    double *harm = calloc((size_t)count + 1, sizeof *harm);
    int32_t *order = calloc((size_t)count + 1, sizeof *order);
    struct state all = {0};
    bool ok = false;
    enum culm_status status = harm && order ? CULM_OK : no_memory(error);
    if (status == CULM_OK && !(status = align(s, error))) {
        share_first(s, NULL, count);
        s->ops->attempt(s->ctx, s->round + 1, 0, s, "fit");
        status = fit(s, harm, false, error);
    }
    if (status == CULM_OK && !(status = check(s, &ok, error)) && ok) {
        status = ship(s, shipped, error);
    }
    if (status == CULM_OK && !ok && !(status = save_state(s, &all, error))) {
        sort_by_worth(s, harm, order);
        status = untrained(s, order, 1, shipped, error);
    }
    if (status == CULM_OK && !ok && s->config->steps > 0 && !s->ops->late(s->ctx)) {
        int64_t have = s->round > 0 ? culm_share_saved(s->share) : 0;
        restore_state(s, &all);
        s->ops->attempt(s->ctx, s->round + 1, 0, s, "train");
        status = train(s, harm, have, shipped, error);
    }
    release_state(&all, s->count);
    free(harm);
    free(order);
    return status;
}

/* --- bounds and baselines --- */

static void copy_all(struct culm_search *s) {
    revert(s);
    for (int32_t i = 0; i < s->share->match.count; i++) {
        if (culm_share_count(s->share, i) > 1) {
            culm_share_copy(s->share, s->models, i);
        }
    }
}

static enum culm_status by_max(struct culm_search *s, struct state *shipped,
                               struct culm_error *error) {
    bool ok;
    share_first(s, NULL, s->share->match.count);
    s->ops->attempt(s->ctx, s->round + 1, 0, s, "copy");
    copy_all(s);
    enum culm_status status = check(s, &ok, error);
    return status == CULM_OK ? ship(s, shipped, error) : status;
}

/* Shares the first `depth` layers among models that have all of these alike; each instance among the
 * models that are like its first one. */
static void share_stem(struct culm_search *s, int32_t depth) {
    share_nothing(s);
    for (int32_t i = 0; i < s->share->match.count; i++) {
        const struct culm_instance *instance = &s->share->match.instance[i];
        const struct culm_vision_layers *first = &s->models[instance->member[0].model]->layers;
        int32_t layer = instance->member[0].layer;
        for (int32_t m = 0; m < instance->count && layer < depth; m++) {
            const struct culm_vision_layers *pair[] = {
                first, &s->models[instance->member[m].model]->layers};
            int64_t bytes;
            s->share->in[i][m] = s->may[instance->member[m].model] &&
                                 instance->member[m].layer == layer &&
                                 culm_match_prefix(pair, 2, &bytes) > layer;
        }
    }
}

static enum culm_status by_stem(struct culm_search *s, struct state *shipped,
                                struct culm_error *error) {
    int32_t depth = 0;
    int64_t tried = 0; /* bytes that the last attempt saved */
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < s->share->match.count; i++) {
        int32_t layer = s->share->match.instance[i].member[0].layer;
        depth = layer + 1 > depth ? layer + 1 : depth;
    }
    for (int32_t group = 0; depth > 0 && status == CULM_OK; depth /= 2, group++) {
        bool ok = false;
        share_stem(s, depth);
        if (culm_share_saved(s->share) == tried || s->ops->late(s->ctx)) {
            continue; /* nothing, or the same as before: models end earlier, or differ there */
        }
        tried = culm_share_saved(s->share);
        s->ops->attempt(s->ctx, s->round + 1, group, s, "stem");
        status = fit(s, NULL, true, error);
        if (status == CULM_OK && !(status = check(s, &ok, error)) && ok) {
            return ship(s, shipped, error);
        }
    }
    return status;
}

enum culm_status culm_search(struct culm_search *s, struct culm_error *error) {
    struct state shipped = {0};
    revert(s);
    share_nothing(s);
    enum culm_status status = save_state(s, &shipped, error);
    if (status == CULM_OK && s->share->match.count > 0) {
        switch (s->config->method) {
        case CULM_MERGE_CULM: status = by_culm(s, &shipped, error); break;
        case CULM_MERGE_MAX: status = by_max(s, &shipped, error); break;
        case CULM_MERGE_STEM: status = by_stem(s, &shipped, error); break;
        case CULM_MERGE_NONE: break;
        case CULM_MERGE_GEMEL:
        case CULM_MERGE_GEMEL_FIXED:
            release_state(&shipped, s->count);
            return culm_search_gemel(s, error);
        }
    }
    if (shipped.saved && shipped.share) {
        restore_state(s, &shipped);
    }
    release_state(&shipped, s->count);
    return status;
}
