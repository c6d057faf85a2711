/* Models and frames of a workload. See merge_inputs.h. */
#include "run/merge_inputs.h"

#include "base/machine.h"
#include "base/words.h"
#include "data/feed.h"
#include "query/feeds.h"
#include "query/labels.h"
#include "query/open.h"
#include "vision/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOATS_MAX ((int64_t)64 << 20) /* of frames to fit to, a feed */
#define PIECES 10    /* limit on the pieces that the frames which merging may see are cut into */
#define PIECE_MIN 50 /* frames a piece, at least */
#define ASIDE 3      /* one in so many of the frames at the end is set aside */
#define CHECK_MAX 150
#define HELD_MAX 300
#define CLASSES_MAX 4000 /* frames of a small input, of which each gives a single answer */

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

/* --- models --- */

static bool same_model(const struct culm_query_config *a, const struct culm_query_config *b) {
    char one[CULM_QUERY_FILES_TEXT], other[CULM_QUERY_FILES_TEXT];
    char how_a[CULM_QUERY_READING_TEXT], how_b[CULM_QUERY_READING_TEXT];
    culm_query_files(a->model, a->weights, one);
    culm_query_files(b->model, b->weights, other);
    culm_query_reading_text(&a->reading, how_a);
    culm_query_reading_text(&b->reading, how_b);
    return strcmp(one, other) == 0 && a->normalized == b->normalized &&
           memcmp(a->mean, b->mean, sizeof a->mean) == 0 &&
           memcmp(a->deviation, b->deviation, sizeof a->deviation) == 0 &&
           strcmp(how_a, how_b) == 0;
}

/* Identifies a model by its names, shapes and weights, whatever files they come from. */
static enum culm_status identify(const struct culm_merge_model *model,
                                 char ret_hex[CULM_SHA256_HEX], struct culm_error *error) {
    struct culm_sha256 hash;
    enum culm_status status = culm_sha256_init(&hash);
    for (int32_t p = 0; p < model->param_count && status == CULM_OK; p++) {
        const struct culm_param *param = &model->graph->param[p];
        culm_sha256_update(&hash, param->name, strlen(param->name) + 1);
        culm_sha256_update(&hash, &param->shape, sizeof param->shape);
        culm_sha256_update(&hash, model->original[p],
                           4 * (size_t)culm_merge_param_elements(model, p));
    }
    if (status == CULM_OK) {
        status = culm_sha256_final(&hash, ret_hex);
    }
    return status == CULM_OK ? status : culm_error_set(error, status, "SHA-256 failed");
}

/* Merging judges, and learns, what answers are read from. It could ruin any other output unseen. */
static enum culm_status need_judged(const struct culm_merge_model *model,
                                    enum culm_merge_method method, struct culm_error *error) {
    const struct culm_vision_model *vision = model->vision;
    const struct culm_graph *graph = model->graph;
    if (vision->unread[0]) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s' has several outputs, %s, and answers are read from one of "
                              "them, so merging could not judge the others; export the model with "
                              "that one alone",
                              vision->name, vision->unread);
    }
    if (vision->table.rows && (method == CULM_MERGE_GEMEL || method == CULM_MERGE_GEMEL_FIXED)) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "'%s' works out its boxes itself, and method '%s' trains the maps that "
            "boxes are worked out from; use 'method: culm'",
            vision->name, culm_merge_method_names[method]);
    }
    for (int32_t o = 0; o < graph->output_count; o++) {
        bool read = vision->head_count == 0 && o < culm_vision_outputs(vision);
        for (int32_t h = 0; h < vision->head_count; h++) {
            read = read || vision->head[h].output == o;
        }
        if (!read) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "'%s' has %d outputs, and no answer is read from "
                                  "'%s', so merging could not judge it; export the model without "
                                  "that output",
                                  vision->name, (int)graph->output_count, graph->output[o].name);
        }
    }
    return CULM_OK;
}

static enum culm_status open_model(struct culm_merge_inputs *in, const struct culm_query_config *q,
                                   bool structure, struct culm_error *error) {
    struct culm_query_normalize normalize;
    memcpy(normalize.mean, q->mean, sizeof normalize.mean);
    memcpy(normalize.deviation, q->deviation, sizeof normalize.deviation);
    const struct culm_query_open_options how = {.weights = q->weights,
                                                .names = structure ? NULL : q->names,
                                                .normalize = q->normalized ? &normalize : NULL,
                                                .reading = &q->reading,
                                                .structure = structure};
    int32_t k = in->models;
    enum culm_status status = culm_query_open(q->model, &how, &in->vision[k], error);
    if (status != CULM_OK) {
        return culm_error_prefix(error, "query '%s'", q->name);
    }
    in->models++;
    status = structure ? culm_merge_model_look(&in->model[k], in->vision[k], error)
                       : culm_merge_model_init(&in->model[k], in->vision[k], error);
    status = status ? status : need_judged(&in->model[k], in->workload->merge.method, error);
    if (status != CULM_OK) {
        return culm_error_prefix(error, "query '%s'", q->name);
    }
    if (status == CULM_OK && !structure) {
        status = identify(&in->model[k], in->identity[k], error);
        status = status ? status : culm_vision_structure(in->vision[k], in->structure[k], error);
    }
    return status;
}

enum culm_status culm_merge_inputs_open(const struct culm_workload *workload, bool structure,
                                        struct culm_merge_inputs *in, struct culm_error *error) {
    size_t count = workload->query_count + 1;
    *in = (struct culm_merge_inputs){
        .workload = workload,
        .vision = calloc(count, sizeof *in->vision),
        .model = calloc(count, sizeof *in->model),
        .identity = calloc(count, sizeof *in->identity),
        .structure = calloc(count, sizeof *in->structure),
        .model_of = calloc(count, sizeof *in->model_of),
        .set_of = calloc(count, sizeof *in->set_of),
        .set = calloc(count, sizeof *in->set),
        .fit = calloc(count, sizeof *in->fit),
        .fit_is_own = calloc(count, sizeof *in->fit_is_own),
    };
    if (!in->vision || !in->model || !in->identity || !in->structure || !in->model_of ||
        !in->set_of || !in->set || !in->fit || !in->fit_is_own) {
        return no_memory(error);
    }
    for (size_t q = 0; q < workload->query_count; q++) {
        size_t first = 0;
        while (!same_model(&workload->queries[first], &workload->queries[q])) {
            first++;
        }
        if (first < q) {
            in->model_of[q] = in->model_of[first];
            continue;
        }
        in->model_of[q] = in->models;
        enum culm_status status = open_model(in, &workload->queries[q], structure, error);
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

/* --- frames --- */

/* How a feed is divided (see merge_inputs.h). Of each part's `total` frames `count` are taken,
 * evenly spaced. */
struct division {
    int64_t seen, held,
        piece; /* frames from `seen` on are never seen; from `held` on, they decide */
    int64_t total[CULM_MERGE_PARTS], count[CULM_MERGE_PARTS];
};

static int part_of(const struct division *d, int64_t frame) {
    const int64_t at = frame % d->piece, end = frame - at + d->piece;
    const int64_t fit = (end < d->seen ? d->piece : d->seen - (frame - at)) * 7 / 10;
    return frame >= d->held           ? CULM_MERGE_HELD
           : frame >= d->seen         ? CULM_MERGE_ASIDE
           : at < (fit < 1 ? 1 : fit) ? CULM_MERGE_FIT
                                      : CULM_MERGE_CHECK;
}

static void divide(const struct culm_merge_config *config, const struct culm_vision_input *input,
                   int64_t all, struct division *d) {
    int64_t one = (int64_t)input->width * input->height * input->channels;
    int64_t room = FLOATS_MAX / (one > 0 ? one : 1), small = one <= 3 * 64 * 64;
    int64_t seen = (int64_t)((double)all * (1 - config->held_out));
    seen = seen < 2 ? 2 : seen > all - 1 ? all - 1 : seen;
    int64_t piece = (seen + PIECES - 1) / PIECES;
    *d = (struct division){
        .seen = seen,
        .held = seen + (all - seen) / ASIDE,
        .piece = piece > PIECE_MIN ? piece : PIECE_MIN,
        .count = {config->frames > 0 && config->frames < room ? config->frames : room,
                  small ? CLASSES_MAX : CHECK_MAX, small ? CLASSES_MAX : CHECK_MAX,
                  small ? CLASSES_MAX : HELD_MAX}};
    for (int64_t i = 0; i < all; i++) {
        d->total[part_of(d, i)]++;
    }
    for (int part = 0; part < CULM_MERGE_PARTS; part++) {
        d->count[part] = d->count[part] < d->total[part] ? d->count[part] : d->total[part];
    }
}

static enum culm_status open_feed(const struct culm_merge_inputs *in,
                                  const struct culm_merge_set *set, struct culm_feed **ret_feed,
                                  struct culm_error *error) {
    const struct culm_feed_config *config = &in->workload->feeds[set->feed];
    const struct culm_feed_options options =
        culm_feed_options_of(config, set->right_for ? NULL : set->labels);
    return culm_feed_open(&options, ret_feed, error);
}

static enum culm_status next_unless(const atomic_bool *stop, struct culm_feed *feed,
                                    struct culm_feed_frame *frame, struct culm_error *error) {
    return *stop ? culm_error_set(error, CULM_ERR_STOPPED, "stopped; continue with --resume")
                 : culm_feed_next_whole(feed, frame, error);
}

/* The number of frames in a feed; reads it through if it does not know. */
static enum culm_status count_frames(const struct culm_merge_inputs *in, struct culm_merge_set *set,
                                     const atomic_bool *stop, int64_t *ret_count,
                                     struct culm_error *error) {
    const struct culm_feed_config *config = &in->workload->feeds[set->feed];
    struct culm_feed *feed = NULL;
    struct culm_feed_frame frame;
    *ret_count = 0;
    if (culm_feed_comes_once(config->file)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "feed '%s': '%s' is not a regular file; merging reads every frame "
                              "more than once; record some of it, and name that",
                              config->name, config->file);
    }
    enum culm_status status = open_feed(in, set, &feed, error);
    if (status == CULM_OK) {
        *ret_count = culm_feed_count(feed);
        snprintf(set->note, sizeof set->note, "%s", culm_feed_note(feed));
    }
    if (status == CULM_OK && *ret_count < 0) {
        for (*ret_count = 0; !(status = next_unless(stop, feed, &frame, error)); ++*ret_count) {
        }
        status = status == CULM_ERR_CLOSED ? CULM_OK : status;
        if (status == CULM_OK && culm_feed_labels(feed) >= 0 &&
            culm_feed_labels(feed) != *ret_count) {
            status = culm_error_set(
                error, CULM_ERR_CONFIG,
                "feed '%s': labels '%s' has %lld labels for %lld frames; give one for each",
                config->name, set->labels, (long long)culm_feed_labels(feed),
                (long long)*ret_count);
        }
    }
    culm_feed_close(feed);
    if (status == CULM_OK && *ret_count < 3) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "feed '%s': %lld frames; merging needs at least 3", config->name,
                                (long long)*ret_count);
    }
    return status;
}

static enum culm_status make_room(struct culm_merge_inputs *in, struct culm_merge_set *set,
                                  const struct division *division, struct culm_error *error) {
    size_t one =
        4 * (size_t)set->input.width * (size_t)set->input.height * (size_t)set->input.channels;
    for (int part = 0; part < CULM_MERGE_PARTS; part++) {
        in->frame_bytes += (size_t)division->count[part] * one;
    }
    if (in->frame_bytes > culm_machine_memory()) {
        return culm_error_set(error, CULM_ERR_MACHINE,
                              "feed '%s': with it, the frames that merging keeps take %.1f GB, and "
                              "there are %.1f GB of memory; lower merge.frames, or merge fewer "
                              "feeds at a time",
                              in->workload->feeds[set->feed].name, (double)in->frame_bytes / 1e9,
                              (double)culm_machine_memory() / 1e9);
    }
    for (int part = 0; part < CULM_MERGE_PARTS; part++) {
        size_t count = (size_t)division->count[part];
        set->part[part].image = aligned_alloc(64, (count * one + 127) / 64 * 64);
        set->part[part].size = calloc(count + 1, sizeof *set->part[part].size);
        set->label[part] = calloc(count + 1, sizeof *set->label[part]);
        if (!set->part[part].image || !set->part[part].size || !set->label[part]) {
            return no_memory(error);
        }
        set->step[part] = count ? (double)division->total[part] / (double)count : 1;
        set->part[part].label = set->labels && !set->right_for ? set->label[part] : NULL;
        if (set->right_for && part != CULM_MERGE_FIT) {
            set->right[part] = calloc(count + 1, sizeof *set->right[part]);
            set->part[part].right = set->right[part];
            if (!set->right[part]) {
                return no_memory(error);
            }
        }
    }
    return CULM_OK;
}

static enum culm_status take_frame(struct culm_merge_set *set, const struct culm_feed_frame *frame,
                                   int part, const char *feed, struct culm_error *error) {
    struct culm_merge_frames *frames = &set->part[part];
    const struct culm_frame picture = {frame->data, frame->stride, frame->width, frame->height,
                                       frame->channels};
    int64_t one = (int64_t)set->input.width * set->input.height * set->input.channels;
    if (set->labels && !set->right_for && frame->label < 0) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "feed '%s': frame %lld has no label; 'labels: folders' needs a folder "
            "with a folder of pictures for each class",
            feed, (long long)frame->number);
    }
    set->label[part][frames->count] = frame->label;
    culm_vision_fill(&set->input, &picture, frames->image + frames->count * one);
    frames->size[frames->count] = (struct culm_merge_size){frame->width, frame->height};
    frames->count++;
    return CULM_OK;
}

/* A bad picture costs itself alone. */
static void pass_bad(struct culm_merge_set *set, const struct culm_error *why) {
    if (!set->bad++) {
        snprintf(set->first_bad, sizeof set->first_bad, "%s", why->text);
    }
}

static enum culm_status read_set(struct culm_merge_inputs *in, struct culm_merge_set *set,
                                 const atomic_bool *stop, struct culm_error *error) {
    struct division d;
    int64_t met[CULM_MERGE_PARTS] = {0}; /* frames of each part seen so far */
    struct culm_feed *feed = NULL;
    struct culm_feed_frame frame;
    struct culm_labels right = {0};
    int64_t all;
    enum culm_status status = count_frames(in, set, stop, &all, error);
    if (status == CULM_OK && set->right_for) {
        status = culm_labels_read(set->labels, in->workload->feeds[set->feed].name, all,
                                  set->right_for, &right, error);
    }
    if (status == CULM_OK) {
        divide(&in->workload->merge, &set->input, all, &d);
        status = make_room(in, set, &d, error);
    }
    if (status == CULM_OK) {
        status = open_feed(in, set, &feed, error);
    }
    for (int64_t i = 0; i < all && status == CULM_OK; i++) {
        const int part = part_of(&d, i);
        const int64_t taken = set->part[part].count;
        struct culm_error why;
        status = next_unless(stop, feed, &frame, &why);
        if (status == CULM_ERR_FORMAT && culm_feed_kind_of(feed) == CULM_FEED_PICTURES) {
            pass_bad(set, &why);
            status = CULM_OK;
            met[part]++;
            continue;
        }
        if (status != CULM_OK) {
            status = culm_error_set(error, status, "%s", why.text);
            break;
        }
        /* After a bad one the next is taken in its place. */
        if (taken < d.count[part] && met[part] >= taken * d.total[part] / d.count[part]) {
            status = take_frame(set, &frame, part, in->workload->feeds[set->feed].name, error);
            if (status == CULM_OK && set->right[part]) { /* moved to the set */
                set->right[part][taken] = right.answer[i];
                right.answer[i] = (struct culm_answer){0};
            }
        }
        met[part]++;
    }
    for (int part = 0; part < CULM_MERGE_PARTS && status == CULM_OK; part++) {
        if (set->bad && d.count[part] && !set->part[part].count) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "feed '%s': %lld pictures cannot be read, and too few are "
                                    "left: %s",
                                    in->workload->feeds[set->feed].name, (long long)set->bad,
                                    set->first_bad);
        }
    }
    culm_labels_release(&right);
    culm_feed_close(feed);
    return status == CULM_ERR_CLOSED
               ? culm_error_set(error, CULM_ERR_CHANGED, "feed '%s': it got shorter meanwhile",
                                in->workload->feeds[set->feed].name)
               : status;
}

/* Checks that labels are classes of the model; a set can be shared by models with more classes. */
static enum culm_status check_labels(const struct culm_merge_inputs *in, size_t q,
                                     struct culm_error *error) {
    const struct culm_query_config *query = &in->workload->queries[q];
    const struct culm_vision_model *vision = in->vision[in->model_of[q]];
    const struct culm_merge_set *set = &in->set[in->set_of[q]];
    for (int part = 0; part < CULM_MERGE_PARTS && query->labels && !set->right_for; part++) {
        for (int64_t i = 0; i < set->part[part].count; i++) {
            if (set->label[part][i] >= vision->classes) {
                return culm_error_set(error, CULM_ERR_CONFIG,
                                      "query '%s': labels '%s' name a class %d, but '%s' has %d "
                                      "classes, counted from 0",
                                      query->name, query->labels, set->label[part][i], query->model,
                                      vision->classes);
            }
        }
    }
    return CULM_OK;
}

/* Whether a query is the first of its model with these frames. */
static bool brings_frames(const struct culm_merge_inputs *in, size_t q, int32_t model) {
    bool first = in->model_of[q] == model;
    for (size_t before = 0; before < q && first; before++) {
        first = in->model_of[before] != model || in->set_of[before] != in->set_of[q];
    }
    return first;
}

/* The frames of all queries of a model; not copied if they are a single set. */
static enum culm_status gather_fit(struct culm_merge_inputs *in, int32_t model,
                                   struct culm_error *error) {
    struct culm_merge_frames *fit = &in->fit[model];
    const struct culm_vision_input *input = &in->vision[model]->input;
    size_t one = (size_t)input->width * (size_t)input->height * (size_t)input->channels;
    int64_t count = 0;
    int32_t sets = 0, last = -1;
    for (size_t q = 0; q < in->workload->query_count; q++) {
        if (brings_frames(in, q, model)) {
            last = in->set_of[q];
            sets++;
            count += in->set[last].part[CULM_MERGE_FIT].count;
        }
    }
    if (sets == 1) {
        *fit = in->set[last].part[CULM_MERGE_FIT];
        return CULM_OK;
    }
    *fit = (struct culm_merge_frames){
        .image = aligned_alloc(64, (4 * one * (size_t)count + 127) / 64 * 64),
        .size = calloc((size_t)count + 1, sizeof *fit->size)};
    in->fit_is_own[model] = true;
    bool made = fit->image && fit->size;
    for (size_t q = 0; q < in->workload->query_count && made; q++) {
        if (brings_frames(in, q, model)) {
            const struct culm_merge_frames *part = &in->set[in->set_of[q]].part[CULM_MERGE_FIT];
            memcpy(fit->image + (size_t)fit->count * one, part->image,
                   4 * one * (size_t)part->count);
            memcpy(fit->size + fit->count, part->size, (size_t)part->count * sizeof *part->size);
            fit->count += part->count;
        }
    }
    return made ? CULM_OK : no_memory(error);
}

enum culm_status culm_merge_inputs_read(struct culm_merge_inputs *in, const atomic_bool *stop,
                                        struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (size_t q = 0; q < in->workload->query_count && status == CULM_OK; q++) {
        const struct culm_query_config *query = &in->workload->queries[q];
        const struct culm_vision_input *input = &in->vision[in->model_of[q]]->input;
        int32_t s = 0;
        const struct culm_vision_model *right_for =
            query->labels && culm_labels_suit(in->vision[in->model_of[q]])
                ? in->vision[in->model_of[q]]
                : NULL;
        while (s < in->sets &&
               (in->set[s].feed != query->feed_index || in->set[s].right_for != right_for ||
                !culm_words_same(in->set[s].labels, query->labels) ||
                !culm_vision_same_input(&in->set[s].input, input))) {
            s++;
        }
        in->set_of[q] = s;
        if (s == in->sets) {
            in->set[in->sets++] = (struct culm_merge_set){.feed = query->feed_index,
                                                          .labels = query->labels,
                                                          .right_for = right_for,
                                                          .input = *input};
            status = read_set(in, &in->set[s], stop, error);
            status =
                status && right_for ? culm_error_prefix(error, "query '%s'", query->name) : status;
        }
        status = status == CULM_OK ? check_labels(in, q, error) : status;
    }
    for (int32_t k = 0; k < in->models && status == CULM_OK; k++) {
        status = gather_fit(in, k, error);
    }
    return status;
}

enum culm_status culm_merge_inputs_unseen(const struct culm_merge_inputs *in, size_t query,
                                          int32_t *ret_classes, int32_t *ret_unseen,
                                          struct culm_error *error) {
    const struct culm_merge_set *set = &in->set[in->set_of[query]];
    const int32_t classes = in->vision[in->model_of[query]]->classes;
    *ret_classes = *ret_unseen = 0;
    if (!set->part[CULM_MERGE_HELD].label) {
        return CULM_OK;
    }
    bool *seen = calloc((size_t)classes + 1, sizeof *seen);
    bool *told = calloc((size_t)classes + 1, sizeof *told);
    for (int64_t i = 0; i < set->part[CULM_MERGE_FIT].count && seen && told; i++) {
        seen[set->label[CULM_MERGE_FIT][i]] = true; /* check_labels has seen that it is a class */
    }
    for (int part = CULM_MERGE_ASIDE; part <= CULM_MERGE_HELD && seen && told; part++) {
        for (int64_t i = 0; i < set->part[part].count; i++) {
            const int32_t label = set->label[part][i];
            *ret_classes += !told[label];
            *ret_unseen += !told[label] && !seen[label];
            told[label] = true;
        }
    }
    enum culm_status status = seen && told ? CULM_OK : no_memory(error);
    free(seen);
    free(told);
    return status;
}

void culm_merge_inputs_release(struct culm_merge_inputs *in) {
    for (int32_t k = 0; k < in->models; k++) {
        culm_merge_model_release(&in->model[k]);
        culm_vision_model_free(in->vision[k]);
        free(in->fit_is_own[k] ? in->fit[k].image : NULL);
        free(in->fit_is_own[k] ? in->fit[k].size : NULL);
    }
    for (int32_t s = 0; s < in->sets; s++) {
        for (int part = 0; part < CULM_MERGE_PARTS; part++) {
            for (int64_t i = 0; i < in->set[s].part[part].count && in->set[s].right[part]; i++) {
                culm_answer_release(&in->set[s].right[part][i]);
            }
            free(in->set[s].part[part].image);
            free(in->set[s].part[part].size);
            free(in->set[s].label[part]);
            free(in->set[s].right[part]);
        }
    }
    free(in->vision);
    free(in->model);
    free(in->identity);
    free(in->structure);
    free(in->model_of);
    free(in->set_of);
    free(in->set);
    free(in->fit);
    free(in->fit_is_own);
    *in = (struct culm_merge_inputs){0};
}
