/* Frames for walks, and fitting without training. See search_walks.h. */
#include "merge/search_walks.h"

#include "merge/align.h"
#include "merge/search_parts.h"

#include <stdlib.h>
#include <string.h>

#define FIT_FRAMES 32    /* of 320 x 320, kept in memory for a walk through all models */
#define ALONE 2          /* times as many if only one model is walked */
#define FIT_MOST 256     /* however small they are */
#define FIT_SAMPLES 8192 /* output positions to solve a layer with */
#define RIDGE 0.3
#define PRIVATE_RIDGE 0.05 /* private layers have to make up for the others */

/* At most `most` frames, evenly spaced. The caller frees the image unless it is the frames' own. */
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

/* Queries with labels of their own have the same pictures at another address. */
static bool same_frames(const struct culm_search *s, int32_t a, int32_t b) {
    const struct culm_merge_frames *x = &s->frames[a], *y = &s->frames[b];
    const struct culm_shape *shape[] = {&s->models[a]->graph->field[0].shape,
                                        &s->models[b]->graph->field[0].shape};
    return x->image == y->image ||
           (x->count == y->count && culm_elements(shape[0]) == culm_elements(shape[1]) &&
            memcmp(shape[0]->dim, shape[1]->dim, 4 * sizeof shape[0]->dim[0]) == 0 &&
            memcmp(x->image, y->image, 4 * (size_t)(x->count * culm_elements(shape[0]))) == 0);
}

enum culm_status search_walks_take(const struct culm_search *s, struct search_walks *w,
                                   struct culm_error *error) {
    *w = (struct search_walks){.frames = calloc((size_t)s->count + 1, sizeof *w->frames),
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

void search_walks_release(const struct culm_search *s, struct search_walks *w) {
    for (int32_t k = 0; k < s->count && w->own; k++) {
        free(w->own[k] ? (void *)(uintptr_t)w->frames[k].image : NULL);
    }
    free(w->frames);
    free(w->own);
}

enum culm_status search_align(const struct culm_search *s, struct culm_error *error) {
    struct search_walks walks;
    enum culm_status status = search_walks_take(s, &walks, error);
    if (status == CULM_OK) {
        status = culm_align(s->models, s->count, s->share, walks.frames, s->device, NULL, error);
    }
    search_walks_release(s, &walks);
    return status;
}

static struct culm_fit_options options_of(bool copy) {
    return (struct culm_fit_options){
        .solve = {FIT_SAMPLES, RIDGE}, .private_ridge = PRIVATE_RIDGE, .copy = copy};
}

enum culm_status search_fit(const struct culm_search *s, bool copy, double *ret_harm,
                            struct culm_error *error) {
    const struct culm_fit_options options = options_of(copy);
    struct search_walks walks;
    enum culm_status status = search_walks_take(s, &walks, error);
    if (status == CULM_OK) {
        status = culm_fit(s->models, s->count, s->share, walks.frames, &options, s->device,
                          ret_harm, error);
    }
    search_revert_alone(s); /* these have nothing to make up for */
    search_walks_release(s, &walks);
    return status;
}

enum culm_status search_fit_alone(const struct culm_search *s, int32_t model, const bool *held,
                                  struct culm_error *error) {
    return search_fit_as(s, model, s->models[model], held, error);
}

enum culm_status search_fit_as(const struct culm_search *s, int32_t model,
                               struct culm_merge_model *as, const bool *held,
                               struct culm_error *error) {
    const struct culm_fit_options options = options_of(false);
    struct culm_fit_frames frames;
    enum culm_status status =
        some_frames(s->models[model], &s->frames[model], ALONE * frames_that_fit(s->models[model]),
                    &frames, error);
    if (status == CULM_OK) {
        status = culm_fit_alone(as, &frames, held, &options, s->device, error);
        free(frames.image != s->frames[model].image ? (void *)(uintptr_t)frames.image : NULL);
    }
    return status;
}

enum culm_status search_try_layers(const struct culm_search *s, int32_t model,
                                   struct culm_fit_trial *trials, int32_t count,
                                   struct culm_error *error) {
    struct culm_fit_frames frames;
    enum culm_status status =
        some_frames(s->models[model], &s->frames[model], frames_that_fit(s->models[model]) / 2 + 1,
                    &frames, error);
    if (status == CULM_OK) {
        status = culm_fit_try(s->models[model], &frames, trials, count, s->device, error);
        free(frames.image != s->frames[model].image ? (void *)(uintptr_t)frames.image : NULL);
    }
    return status;
}
