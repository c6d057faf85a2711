/* Models and frames of a workload. See merge_inputs.h. */
#include "run/merge_inputs.h"
#include "run/merge_fit.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/url.h"
#include "base/words.h"
#include "data/feed.h"
#include "query/feeds.h"
#include "query/labels.h"
#include "query/open.h"
#include "vision/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TELL_NS UINT64_C(1000000000)
#define ENDLESS 1000000 /* an address that gives so many frames may never end */
#define PIECES 10       /* limit on the pieces that the frames which merging may see are cut into */
#define PIECE_MIN 50    /* frames a piece, at least */
#define ASIDE 3         /* one in so many of the frames at the end is set aside */
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
           strcmp(how_a, how_b) == 0 && culm_query_same_classes(&a->reading, &b->reading);
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
    int64_t room = MERGE_FIT_FLOATS / (one > 0 ? one : 1), small = one <= 3 * 64 * 64;
    int64_t seen = (int64_t)((double)all * (1 - config->held_out));
    seen = seen < 2 ? 2 : seen > all - 1 ? all - 1 : seen;
    int64_t piece = (seen + PIECES - 1) / PIECES;
    *d = (struct division){
        .seen = seen,
        .held = seen + (config->method == CULM_MERGE_CULM ? (all - seen) / ASIDE : 0),
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

/* What a set takes of a feed. */
struct share {
    struct culm_merge_set *set;
    const char *query; /* one that has it */
    struct division division;
    struct culm_labels right;
    int32_t *label;                /* of each frame; NULL: no file has them */
    int64_t met[CULM_MERGE_PARTS]; /* frames of each part seen so far */
};

/* A feed that is read for several sets at once. */
struct reading {
    struct culm_merge_inputs *in;
    const struct culm_feed_config *config;
    const atomic_bool *stop;
    struct share *share;
    int32_t shares;
    int64_t all; /* frames that there are, as far as that is known */
    uint64_t told_ns;
};

static bool is_stopped(const void *ctx) { return *(const atomic_bool *)ctx; }

static enum culm_status stopped(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_STOPPED, "stopped; continue with --resume");
}

static enum culm_status next_unless(const atomic_bool *stop, struct culm_feed *feed,
                                    struct culm_feed_frame *frame, struct culm_error *error) {
    return *stop ? stopped(error) : culm_feed_next_whole(feed, frame, error);
}

/* of: 0 while it is not known how many there are. */
static void tell(struct reading *reading, int64_t frames, int64_t of, bool last) {
    const uint64_t now = culm_clock_ns();
    if (reading->in->told && (last || now - reading->told_ns >= TELL_NS)) {
        reading->in->told(reading->in->ctx, reading->config->name, frames, of);
        reading->told_ns = now;
    }
}

static enum culm_status count_all(struct reading *reading, struct culm_feed *feed,
                                  struct culm_error *error) {
    struct culm_feed_frame frame;
    enum culm_status status;
    for (reading->all = 0; !(status = next_unless(reading->stop, feed, &frame, error));
         reading->all++) {
        tell(reading, reading->all, 0, false);
        if (reading->all >= ENDLESS && !culm_file_is_regular(reading->config->file)) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "feed '%s': it has no end within %d frames, and merging needs "
                                  "one; say with feeds.%s.for_s how many seconds to take",
                                  reading->config->name, ENDLESS, reading->config->name);
        }
    }
    return status == CULM_ERR_CLOSED ? CULM_OK : status;
}

/* Labels of frames in files of their own, one for each. */
static enum culm_status read_labels(struct reading *reading, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t s = 0; s < reading->shares && status == CULM_OK; s++) {
        struct share *share = &reading->share[s];
        const struct culm_merge_set *set = share->set;
        int64_t count;
        culm_labels_release(&share->right);
        free(share->label);
        share->label = NULL;
        if (set->right_for) {
            status = culm_labels_read(set->labels, reading->config->name, reading->all,
                                      set->right_for, &share->right, error);
        } else if (set->labels && strcmp(set->labels, "folders") != 0) {
            status = culm_feed_read_labels(reading->config->name, set->labels, reading->all,
                                           &share->label, &count, error);
        }
        status = status ? culm_error_prefix(error, "query '%s'", share->query) : CULM_OK;
    }
    return status;
}

/* The number of frames in a feed. That of a clip is that of its packets, as long as there are as many labels;
 * otherwise it is read through. */
static enum culm_status count_frames(struct reading *reading, struct culm_error *error) {
    const struct culm_feed_config *config = reading->config;
    const struct culm_feed_options options = culm_feed_options_of(config, NULL);
    const struct culm_stop stop = {.asked = is_stopped, .ctx = reading->stop};
    struct culm_feed_length length = {.frames = -1};
    struct culm_feed *feed = NULL;
    if (culm_feed_comes_once(config->file)) {
        char shown[CULM_PATH_MAX];
        culm_url_show(config->file, shown, sizeof shown);
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "feed '%s': '%s' is not a regular file; merging reads every frame "
                              "more than once; record some of it, and name that",
                              config->name, shown);
    }
    enum culm_status status = culm_feed_open(&options, &feed, error);
    for (int32_t s = 0; s < reading->shares && status == CULM_OK; s++) {
        struct culm_merge_set *set = reading->share[s].set;
        snprintf(set->note, sizeof set->note, "%s", culm_feed_note(feed));
    }
    reading->all = status == CULM_OK ? culm_feed_count(feed) : 0;
    if (status == CULM_OK && reading->all < 0) {
        status = culm_feed_measure(&options, &stop, &length, error);
        status = status == CULM_ERR_AGAIN ? stopped(error) : status;
        reading->all = length.frames;
        if (status == CULM_OK && (length.frames < 0 || read_labels(reading, NULL) != CULM_OK)) {
            status = count_all(reading, feed, error);
        }
    }
    culm_feed_close(feed);
    return status;
}

static enum culm_status need_some(const struct reading *reading, struct culm_error *error) {
    return reading->all >= 3 ? CULM_OK
                             : culm_error_set(error, CULM_ERR_CONFIG,
                                              "feed '%s': %lld frames; merging needs at least 3",
                                              reading->config->name, (long long)reading->all);
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
                                   int32_t label, int part, const char *feed,
                                   struct culm_error *error) {
    struct culm_merge_frames *frames = &set->part[part];
    const struct culm_frame picture = {frame->data, frame->stride, frame->width, frame->height,
                                       frame->channels};
    int64_t one = (int64_t)set->input.width * set->input.height * set->input.channels;
    if (set->labels && !set->right_for && label < 0) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "feed '%s': frame %lld has no label; 'labels: folders' needs a folder "
            "with a folder of pictures for each class",
            feed, (long long)frame->number);
    }
    set->label[part][frames->count] = label;
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

/* What a set takes of frame i, if it is its turn: evenly spaced, and after a bad one the next in its place. frame NULL: it
 * is bad. */
static enum culm_status give(struct share *share, const char *feed, int64_t i,
                             const struct culm_feed_frame *frame, struct culm_error *error) {
    struct culm_merge_set *set = share->set;
    const struct division *d = &share->division;
    const int part = part_of(d, i);
    const int64_t taken = set->part[part].count, met = share->met[part]++;
    if (!frame || taken >= d->count[part] || met < taken * d->total[part] / d->count[part]) {
        return CULM_OK;
    }
    const int32_t label = share->label ? share->label[i] : frame->label;
    enum culm_status status = take_frame(set, frame, label, part, feed, error);
    if (status == CULM_OK && set->right[part]) { /* moved to the set */
        set->right[part][taken] = share->right.answer[i];
        share->right.answer[i] = (struct culm_answer){0};
    }
    return status;
}

static enum culm_status give_all(struct reading *reading, int64_t i,
                                 const struct culm_feed_frame *frame, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t s = 0; s < reading->shares && status == CULM_OK; s++) {
        status = give(&reading->share[s], reading->config->name, i, frame, error);
    }
    return status;
}

/* Reads the feed from its beginning. *ret_read: how many frames there were, if that was the end. */
static enum culm_status read_frames(struct reading *reading, int64_t *ret_read,
                                    struct culm_error *error) {
    const struct culm_feed_options options = culm_feed_options_of(reading->config, NULL);
    struct culm_feed *feed = NULL;
    struct culm_feed_frame frame;
    struct culm_error why;
    enum culm_status status = culm_feed_open(&options, &feed, error);
    for (*ret_read = 0; *ret_read < reading->all && status == CULM_OK; ++*ret_read) {
        status = next_unless(reading->stop, feed, &frame, &why);
        if (status == CULM_ERR_FORMAT && culm_feed_kind_of(feed) == CULM_FEED_PICTURES) {
            for (int32_t s = 0; s < reading->shares; s++) {
                pass_bad(reading->share[s].set, &why);
            }
            status = give_all(reading, *ret_read, NULL, error);
            continue;
        }
        if (status != CULM_OK) {
            status = culm_error_set(error, status, "%s", why.text);
            break;
        }
        status = give_all(reading, *ret_read, &frame, error);
        tell(reading, *ret_read + 1, reading->all, *ret_read + 1 == reading->all);
    }
    culm_feed_close(feed);
    return status;
}

static void drop_part(struct culm_merge_set *set, int part) {
    for (int64_t i = 0; i < set->part[part].count && set->right[part]; i++) {
        culm_answer_release(&set->right[part][i]);
    }
    free(set->part[part].image);
    free(set->part[part].size);
    free(set->label[part]);
    free(set->right[part]);
    set->part[part] = (struct culm_merge_frames){0};
    set->label[part] = NULL;
    set->right[part] = NULL;
}

/* Divides the frames, as many as are thought to be there, and reads them. */
static enum culm_status fill(struct reading *reading, int64_t *ret_read, struct culm_error *error) {
    const size_t before = reading->in->frame_bytes;
    enum culm_status status = need_some(reading, error);
    status = status ? status : read_labels(reading, error);
    for (int32_t s = 0; s < reading->shares && status == CULM_OK; s++) {
        struct share *share = &reading->share[s];
        memset(share->met, 0, sizeof share->met);
        divide(&reading->in->workload->merge, &share->set->input, reading->all, &share->division);
        status = make_room(reading->in, share->set, &share->division, error);
    }
    status = status ? status : read_frames(reading, ret_read, error);
    for (int32_t s = 0; s < reading->shares && status == CULM_ERR_CLOSED; s++) {
        for (int part = 0; part < CULM_MERGE_PARTS; part++) {
            drop_part(reading->share[s].set, part);
        }
        reading->in->frame_bytes = before;
    }
    return status;
}

static enum culm_status need_frames(const struct reading *reading, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t s = 0; s < reading->shares; s++) {
        const struct culm_merge_set *set = reading->share[s].set;
        for (int part = 0; part < CULM_MERGE_PARTS && status == CULM_OK; part++) {
            if (set->bad && part != CULM_MERGE_ASIDE && reading->share[s].division.count[part] &&
                !set->part[part].count) {
                status = culm_error_set(error, CULM_ERR_FORMAT,
                                        "feed '%s': %lld pictures cannot be read, and too few are "
                                        "left: %s",
                                        reading->config->name, (long long)set->bad, set->first_bad);
            }
        }
    }
    return status;
}

/* Reads a feed once for all its sets; once more if it has fewer frames than packets. */
static enum culm_status read_feed(struct reading *reading, struct culm_error *error) {
    int64_t were = 0;
    enum culm_status status = count_frames(reading, error);
    status = status ? status : fill(reading, &were, error);
    if (status == CULM_ERR_CLOSED && culm_file_is_regular(reading->config->file)) {
        reading->all = were;
        status = fill(reading, &were, error);
    }
    return status == CULM_ERR_CLOSED
               ? culm_error_set(error, CULM_ERR_CHANGED, "feed '%s': it got shorter meanwhile",
                                reading->config->name)
           : status ? status
                    : need_frames(reading, error);
}

/* Reads a feed, if a query has it. */
static enum culm_status read_for_all(struct culm_merge_inputs *in, int32_t feed,
                                     const atomic_bool *stop, struct culm_error *error) {
    struct reading reading = {.in = in,
                              .config = &in->workload->feeds[feed],
                              .stop = stop,
                              .share = calloc((size_t)in->sets + 1, sizeof(struct share)),
                              .told_ns = culm_clock_ns()};
    if (!reading.share) {
        return no_memory(error);
    }
    for (int32_t s = 0; s < in->sets; s++) {
        if (in->set[s].feed == feed) {
            struct share *share = &reading.share[reading.shares++];
            share->set = &in->set[s];
            for (size_t q = in->workload->query_count; q-- > 0;) {
                share->query = in->set_of[q] == s ? in->workload->queries[q].name : share->query;
            }
        }
    }
    enum culm_status status = reading.shares ? read_feed(&reading, error) : CULM_OK;
    for (int32_t s = 0; s < reading.shares; s++) {
        culm_labels_release(&reading.share[s].right);
        free(reading.share[s].label);
    }
    free(reading.share);
    return status;
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
        }
    }
    for (size_t f = 0; f < in->workload->feed_count && status == CULM_OK; f++) {
        status = read_for_all(in, (int32_t)f, stop, error);
    }
    for (size_t q = 0; q < in->workload->query_count && status == CULM_OK; q++) {
        status = check_labels(in, q, error);
    }
    return status ? status : culm_merge_inputs_fit(in, stop, error);
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
    }
    for (int32_t s = 0; s < in->sets; s++) {
        for (int part = 0; part < CULM_MERGE_PARTS; part++) {
            drop_part(&in->set[s], part);
        }
    }
    free(in->vision);
    free(in->model);
    free(in->identity);
    free(in->structure);
    free(in->model_of);
    free(in->set_of);
    free(in->set);
    culm_merge_inputs_fit_release(in);
    free(in->fit);
    free(in->fit_is_own);
    *in = (struct culm_merge_inputs){0};
}
