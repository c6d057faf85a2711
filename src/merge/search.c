/* The order of attempts. See search.h. */
#include "merge/search.h"

#include "merge/align.h"
#include "merge/search_gemel.h"
#include "merge/search_parts.h"

#include <stdlib.h>
#include <string.h>

#define FIT_FRAMES 32    /* of 320 x 320 that a walk through all models keeps in memory */
#define FIT_MOST 256     /* however small they are */
#define FIT_SAMPLES 8192 /* places of an output that a layer is solved with */
#define RIDGE 0.3
#define PRIVATE_RIDGE 0.05 /* of layers that are not shared: they are to make up for the others */
#define PROBES 4           /* attempts at the largest share that needs no training */

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
        return search_no_memory(error);
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
    return count > FIT_MOST ? FIT_MOST : count < 1 ? 1 : count;
}

/* What walks through all models are given: the same frames once. */
struct walks {
    struct culm_fit_frames *frames; /* [models] */
    bool *own;                      /* [models] */
};

/* Queries with labels of their own have the same pictures at another place. */
static bool same_frames(const struct culm_search *s, int32_t a, int32_t b) {
    const struct culm_merge_frames *x = &s->frames[a], *y = &s->frames[b];
    const struct culm_shape *shape[] = {&s->models[a]->graph->field[0].shape,
                                        &s->models[b]->graph->field[0].shape};
    return x->image == y->image ||
           (x->count == y->count && culm_elements(shape[0]) == culm_elements(shape[1]) &&
            memcmp(shape[0]->dim, shape[1]->dim, 4 * sizeof shape[0]->dim[0]) == 0 &&
            memcmp(x->image, y->image, 4 * (size_t)(x->count * culm_elements(shape[0]))) == 0);
}

static enum culm_status take_walks(const struct culm_search *s, struct walks *w,
                                   struct culm_error *error) {
    *w = (struct walks){.frames = calloc((size_t)s->count + 1, sizeof *w->frames),
                        .own = calloc((size_t)s->count + 1, sizeof *w->own)};
    enum culm_status status = w->frames && w->own ? CULM_OK : search_no_memory(error);
    for (int32_t k = 0; k < s->count && status == CULM_OK; k++) {
        int32_t same = 0;
        while (!same_frames(s, same, k)) {
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
        .solve = {FIT_SAMPLES, RIDGE}, .private_ridge = PRIVATE_RIDGE, .copy = copy};
    struct walks walks;
    enum culm_status status = take_walks(s, &walks, error);
    if (status == CULM_OK) {
        status = culm_fit(s->models, s->count, s->share, walks.frames, &options, s->device,
                          ret_harm, error);
    }
    search_revert_alone(s); /* nothing has to be made up for */
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

/* The largest share that meets all targets untrained, of `order`; what does ships at once. *ret_met: how many of
 * `order` they were. */
static enum culm_status probe_shares(struct culm_search *s, const int32_t *order, int32_t group,
                                     struct search_state *shipped, int32_t *ret_met,
                                     struct culm_error *error) {
    int32_t low = 0, high = s->share->match.count; /* high was too many */
    enum culm_status status = CULM_OK;
    for (int32_t probe = 0; probe < PROBES && high - low > 1 && status == CULM_OK; probe++) {
        int32_t middle = (low + high) / 2;
        double least = 0;
        if (s->ops->late(s->ctx)) {
            break;
        }
        share_first(s, order, middle);
        s->ops->attempt(s->ctx, s->round + 1, group + probe, s, "fit");
        if (!(status = fit(s, NULL, false, error)) && !(status = search_check(s, &least, error))) {
            status = search_offer(s, shipped, error);
        }
        low = least >= 1 ? middle : low;
        high = least >= 1 ? high : middle;
    }
    *ret_met = low;
    return status;
}

/* Everything is trained, fitted as it is now. While that gets nowhere near, as many layers less of `order` as
 * leave half of what is between that and `met`, which needs no training. */
static enum culm_status train_shares(struct culm_search *s, const double *harm,
                                     const int32_t *order, int32_t met,
                                     struct search_state *shipped, struct culm_error *error) {
    int64_t left = s->config->steps, taken = 0;
    enum culm_status status = CULM_OK;
    for (int32_t many = s->share->match.count;
         many > met && left > 0 && status == CULM_OK && !s->ops->late(s->ctx);
         many = (many + met) / 2, left -= taken) {
        const int64_t before = shipped->bytes;
        if (many < s->share->match.count) {
            share_first(s, order, many);
            if (culm_share_saved(s->share) <= before) {
                break;
            }
            s->ops->attempt(s->ctx, s->round + 1, 0, s, "fit");
            status = fit(s, NULL, false, error);
        }
        if (status == CULM_OK) {
            s->ops->attempt(s->ctx, s->round + 1, 0, s, "train");
            status = search_train(s, harm, left, shipped, &taken, error);
        }
        if (shipped->bytes > before) {
            break;
        }
    }
    return status;
}

static enum culm_status by_culm(struct culm_search *s, struct search_state *shipped,
                                struct culm_error *error) {
    int32_t count = s->share->match.count, met = 0;
    double *harm = calloc((size_t)count + 1, sizeof *harm), least = 0;
    int32_t *order = calloc((size_t)count + 1, sizeof *order);
    struct search_state all = {0};
    enum culm_status status = harm && order ? CULM_OK : search_no_memory(error);
    if (status == CULM_OK && !(status = align(s, error))) {
        share_first(s, NULL, count);
        s->ops->attempt(s->ctx, s->round + 1, 0, s, "fit");
        status = fit(s, harm, false, error);
    }
    if (status == CULM_OK && !(status = search_check(s, &least, error))) {
        status = search_offer(s, shipped, error);
    }
    if (status == CULM_OK && least < 1 && !(status = search_save(s, &all, error))) {
        sort_by_worth(s, harm, order);
        status = probe_shares(s, order, 1, shipped, &met, error);
    }
    if (status == CULM_OK && least < 1) {
        search_restore(s, &all);
        status = train_shares(s, harm, order, met, shipped, error);
    }
    search_state_release(&all, s->count);
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

static enum culm_status by_max(struct culm_search *s, struct search_state *shipped,
                               struct culm_error *error) {
    double least;
    share_first(s, NULL, s->share->match.count);
    s->ops->attempt(s->ctx, s->round + 1, 0, s, "copy");
    copy_all(s);
    enum culm_status status = search_check(s, &least, error);
    return status == CULM_OK ? search_ship(s, shipped, error) : status;
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

static enum culm_status by_stem(struct culm_search *s, struct search_state *shipped,
                                struct culm_error *error) {
    int32_t depth = 0;
    int64_t tried = 0; /* bytes that the last attempt saved */
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < s->share->match.count; i++) {
        int32_t layer = s->share->match.instance[i].member[0].layer;
        depth = layer + 1 > depth ? layer + 1 : depth;
    }
    for (int32_t group = 0; depth > 0 && status == CULM_OK; depth /= 2, group++) {
        double least;
        share_stem(s, depth);
        if (culm_share_saved(s->share) == tried || s->ops->late(s->ctx)) {
            continue; /* nothing, or the same as before: models end earlier, or differ there */
        }
        tried = culm_share_saved(s->share);
        s->ops->attempt(s->ctx, s->round + 1, group, s, "stem");
        status = fit(s, NULL, true, error);
        if (status == CULM_OK && !(status = search_check(s, &least, error)) && least >= 1) {
            return search_ship(s, shipped, error);
        }
    }
    return status;
}

enum culm_status culm_search(struct culm_search *s, struct culm_error *error) {
    struct search_state shipped = {0};
    revert(s);
    share_nothing(s);
    enum culm_status status = search_save(s, &shipped, error);
    if (status == CULM_OK && s->share->match.count > 0) {
        switch (s->config->method) {
        case CULM_MERGE_CULM: status = by_culm(s, &shipped, error); break;
        case CULM_MERGE_MAX: status = by_max(s, &shipped, error); break;
        case CULM_MERGE_STEM: status = by_stem(s, &shipped, error); break;
        case CULM_MERGE_NONE: break;
        case CULM_MERGE_GEMEL:
        case CULM_MERGE_GEMEL_FIXED:
            search_state_release(&shipped, s->count);
            return culm_search_gemel(s, error);
        }
    }
    if (shipped.saved && shipped.share) {
        search_restore(s, &shipped);
    }
    search_state_release(&shipped, s->count);
    return status;
}
