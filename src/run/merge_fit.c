/* See merge_fit.h. */
#include "run/merge_fit.h"

#include "base/rng.h"
#include "data/feed.h"
#include "merge/vary.h"
#include "query/feeds.h"
#include "vision/picture.h"

#include <stdlib.h>
#include <string.h>

#define ENOUGH 96   /* frames of a model's own that need no more beside them */
#define OTHERS 0.25 /* share of these that are of other feeds, at most */
#define PICTURES 64 /* of merge.pictures, evenly taken */

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

static int64_t floats_of(const struct culm_vision_input *input) {
    return (int64_t)input->width * input->height * input->channels;
}

/* --- more pictures --- */

static enum culm_status open_pictures(const struct culm_merge_inputs *in,
                                      struct culm_feed **ret_feed, struct culm_error *error) {
    const struct culm_feed_options options = {.name = "merge.pictures",
                                              .file = in->workload->merge.pictures};
    if (culm_feed_comes_once(options.file)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "merge.pictures: '%s' is not a folder or a regular file",
                              options.file);
    }
    return culm_feed_open(&options, ret_feed, error);
}

static enum culm_status next(struct culm_feed *feed, const atomic_bool *stop,
                             struct culm_feed_frame *ret_frame, struct culm_error *error) {
    enum culm_status status;
    do { /* a bad picture costs itself alone */
        if (*stop) {
            return culm_error_set(error, CULM_ERR_STOPPED, "stopped; continue with --resume");
        }
        status = culm_feed_next_whole(feed, ret_frame, error);
    } while (status == CULM_ERR_FORMAT && culm_feed_kind_of(feed) == CULM_FEED_PICTURES);
    return status;
}

static enum culm_status count_pictures(const struct culm_merge_inputs *in, const atomic_bool *stop,
                                       int64_t *ret_count, struct culm_error *error) {
    struct culm_feed *feed = NULL;
    struct culm_feed_frame frame;
    enum culm_status status = open_pictures(in, &feed, error);
    for (*ret_count = 0; status == CULM_OK;) {
        status = next(feed, stop, &frame, error);
        *ret_count += status == CULM_OK;
    }
    culm_feed_close(feed);
    if (status == CULM_ERR_CLOSED) {
        status = *ret_count > 0 ? CULM_OK
                                : culm_error_set(error, CULM_ERR_CONFIG,
                                                 "merge.pictures: no picture in '%s' can be read",
                                                 in->workload->merge.pictures);
    }
    return status;
}

/* Reads them as one kind of input needs them. */
static enum culm_status read_pictures(const struct culm_merge_inputs *in,
                                      const struct culm_vision_input *input, int64_t all,
                                      const atomic_bool *stop, struct culm_merge_frames *ret,
                                      struct culm_error *error) {
    const int64_t one = floats_of(input), most = all < PICTURES ? all : PICTURES;
    struct culm_feed *feed = NULL;
    struct culm_feed_frame frame;
    *ret = (struct culm_merge_frames){
        .image = aligned_alloc(64, (4 * (size_t)one * (size_t)most + 127) / 64 * 64),
        .size = calloc((size_t)most + 1, sizeof *ret->size)};
    enum culm_status status =
        ret->image && ret->size ? open_pictures(in, &feed, error) : no_memory(error);
    for (int64_t i = 0; i < all && status == CULM_OK; i++) {
        status = next(feed, stop, &frame, error);
        if (status == CULM_OK && ret->count < most && i >= ret->count * all / most) {
            const struct culm_frame picture = {frame.data, frame.stride, frame.width, frame.height,
                                               frame.channels};
            culm_vision_fill(input, &picture, ret->image + ret->count * one);
            ret->size[ret->count++] = (struct culm_merge_size){frame.width, frame.height};
        }
    }
    culm_feed_close(feed);
    return status == CULM_ERR_CLOSED ? culm_error_set(error, CULM_ERR_CHANGED,
                                                      "merge.pictures: there are fewer meanwhile")
                                     : status;
}

/* --- a model's frames --- */

/* Whether a query is the first of its model with these frames. */
static bool brings_frames(const struct culm_merge_inputs *in, size_t q, int32_t model) {
    bool first = in->model_of[q] == model;
    for (size_t before = 0; before < q && first; before++) {
        first = in->model_of[before] != model || in->set_of[before] != in->set_of[q];
    }
    return first;
}

static bool has_set(const struct culm_merge_inputs *in, int32_t model, int32_t set) {
    bool has = false;
    for (size_t q = 0; q < in->workload->query_count; q++) {
        has = has || (in->model_of[q] == model && in->set_of[q] == set);
    }
    return has;
}

/* Whether the sets of two models are the same. */
static bool same_sets(const struct culm_merge_inputs *in, int32_t a, int32_t b) {
    bool same = culm_vision_same_input(&in->vision[a]->input, &in->vision[b]->input);
    for (int32_t s = 0; s < in->sets && same; s++) {
        same = has_set(in, a, s) == has_set(in, b, s);
    }
    return same;
}

static void add(struct culm_merge_frames *to, const struct culm_merge_frames *from, int64_t frame,
                int64_t one) {
    memcpy(to->image + to->count * one, from->image + frame * one, 4 * (size_t)one);
    to->size[to->count++] = from->size[frame];
}

/* Whether a set has frames of another feed, and they are not of the same file: what is checked, or held out, of one
 * feed may be what another one fits to. */
static bool is_other(const struct culm_merge_inputs *in, int32_t model, int32_t set) {
    const struct culm_feed_config *feeds = in->workload->feeds;
    bool other = culm_vision_same_input(&in->set[set].input, &in->vision[model]->input);
    for (int32_t s = 0; s < in->sets && other; s++) {
        other = !has_set(in, model, s) ||
                !culm_words_same(feeds[in->set[s].feed].file, feeds[in->set[set].feed].file);
    }
    return other;
}

/* Adds `count` frames of other feeds, evenly taken from each in turn. */
static void add_others(const struct culm_merge_inputs *in, int32_t model, int64_t count,
                       struct culm_merge_frames *fit) {
    const struct culm_vision_input *input = &in->vision[model]->input;
    int64_t left = count;
    int32_t sets = 0;
    for (int32_t s = 0; s < in->sets; s++) {
        sets += is_other(in, model, s);
    }
    for (int32_t s = 0; s < in->sets && sets > 0; s++) {
        const struct culm_merge_frames *part = &in->set[s].part[CULM_MERGE_FIT];
        if (!is_other(in, model, s)) {
            continue;
        }
        const int64_t share = left / sets < part->count ? left / sets : part->count;
        for (int64_t i = 0; i < share; i++) {
            add(fit, part, i * part->count / share, floats_of(input));
        }
        left -= share;
        sets--;
    }
}

/* Its own frames, then what makes them more. `pictures`: of merge.pictures, as it reads them. */
static enum culm_status gather(struct culm_merge_inputs *in, int32_t model,
                               const struct culm_merge_frames *pictures, struct culm_error *error) {
    struct culm_merge_frames *fit = &in->fit[model];
    const struct culm_vision_input *input = &in->vision[model]->input;
    const bool more = in->workload->merge.method == CULM_MERGE_CULM;
    const int64_t one = floats_of(input);
    int64_t own = 0, enough = ENOUGH;
    int32_t sets = 0, last = -1;
    for (size_t q = 0; q < in->workload->query_count; q++) {
        if (brings_frames(in, q, model)) {
            last = in->set_of[q];
            sets++;
            own += in->set[last].part[CULM_MERGE_FIT].count;
        }
    }
    enough = one * enough > MERGE_FIT_FLOATS ? MERGE_FIT_FLOATS / one : enough;
    enough = more && enough > own ? enough : own;
    if (sets == 1 && enough == own && pictures->count == 0) {
        *fit = in->set[last].part[CULM_MERGE_FIT];
        return CULM_OK;
    }
    const size_t most = (size_t)(enough + pictures->count);
    in->frame_bytes += 4 * most * (size_t)one;
    *fit = (struct culm_merge_frames){
        .image = aligned_alloc(64, (4 * (size_t)one * most + 127) / 64 * 64),
        .size = calloc(most + 1, sizeof *fit->size)};
    in->fit_is_own[model] = true;
    if (!fit->image || !fit->size) {
        return no_memory(error);
    }
    for (size_t q = 0; q < in->workload->query_count; q++) {
        const struct culm_merge_frames *part = &in->set[in->set_of[q]].part[CULM_MERGE_FIT];
        for (int64_t i = 0; i < part->count && brings_frames(in, q, model); i++) {
            add(fit, part, i, one);
        }
    }
    add_others(
        in, model,
        enough - own < (int64_t)(OTHERS * ENOUGH) ? enough - own : (int64_t)(OTHERS * ENOUGH), fit);
    for (uint64_t variant = 0; own > 0 && fit->count < enough; variant++) {
        const int64_t of = (int64_t)(variant % (uint64_t)own);
        culm_merge_vary(input, fit->image + of * one, variant / (uint64_t)own + variant,
                        culm_rng_mix(in->workload->merge.seed, (uint64_t)of),
                        fit->image + fit->count * one);
        fit->size[fit->count++] = fit->size[of];
    }
    for (int64_t i = 0; i < pictures->count; i++) {
        add(fit, pictures, i, one);
    }
    return CULM_OK;
}

enum culm_status culm_merge_inputs_fit(struct culm_merge_inputs *in, const atomic_bool *stop,
                                       struct culm_error *error) {
    enum culm_status status = CULM_OK;
    const char *path = in->workload->merge.pictures;
    const bool more = path && path[0] && in->workload->merge.method == CULM_MERGE_CULM;
    int64_t all = 0;
    if (more) {
        status = count_pictures(in, stop, &all, error);
    }
    for (int32_t k = 0; k < in->models && status == CULM_OK; k++) {
        struct culm_merge_frames pictures = {0};
        int32_t same = 0;
        while (!same_sets(in, same, k)) {
            same++;
        }
        if (same < k) {
            in->fit[k] = in->fit[same];
            continue;
        }
        if (more) {
            status = read_pictures(in, &in->vision[k]->input, all, stop, &pictures, error);
        }
        status = status ? status : gather(in, k, &pictures, error);
        free(pictures.image);
        free(pictures.size);
    }
    return status;
}

void culm_merge_inputs_fit_release(struct culm_merge_inputs *in) {
    for (int32_t k = 0; k < in->models; k++) {
        free(in->fit_is_own[k] ? in->fit[k].image : NULL);
        free(in->fit_is_own[k] ? in->fit[k].size : NULL);
    }
}
