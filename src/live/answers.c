/* What a workload's models answer on frames of its feeds. See answers.h. */
#include "live/answers.h"

#include "base/file.h"
#include "base/url.h"
#include "data/feed.h"
#include "query/feeds.h"
#include "query/open.h"
#include "vision/picture.h"
#include "vision/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDED 0.1 /* of a frame's time: by less than that, times in files are rounded */

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for answers");
}

/* --- frames --- */

/* taken NULL: from the feed's beginning on. */
static enum culm_status open_feed(const struct culm_live_catalog *catalog, int32_t f,
                                  const struct culm_live_taken *taken, const char *labels,
                                  struct culm_feed **ret_feed, struct culm_error *error) {
    const struct culm_feed_config *config = &catalog->workload.feeds[f];
    struct culm_feed_options options = culm_feed_options_of(config, labels);
    options.from_s = taken && taken->from_s > 0 ? taken->from_s : options.from_s;
    return culm_feed_open(&options, ret_feed, error);
}

/* Whether some query has labels for the frames of a feed, so that their numbers have to be known. */
static bool has_labels(const struct culm_live_catalog *catalog, int32_t f) {
    bool has = false;
    for (size_t q = 0; q < catalog->workload.query_count; q++) {
        const struct culm_query_config *query = catalog->entry[q].config;
        has |= query->feed_index == f && query->labels;
    }
    return has;
}

/* Finds the held-out part of a clip by time, without decoding what comes before it. False: it has to be
 * counted. */
static bool take_by_time(const struct culm_live_catalog *catalog, int32_t f, int64_t most,
                         struct culm_live_taken *taken) {
    const struct culm_feed_config *config = &catalog->workload.feeds[f];
    const struct culm_feed_options part = culm_feed_options_of(config, NULL);
    struct culm_feed_options whole = part;
    struct culm_feed_length length;
    whole.from_s = whole.to_s = 0;
    whole.every = 1;
    if (has_labels(catalog, f) || culm_feed_measure(&whole, NULL, &length, NULL) != CULM_OK ||
        length.frames < 2 || length.seconds <= 0) {
        return false;
    }
    const double to = part.to_s > 0 && part.to_s < length.seconds ? part.to_s : length.seconds;
    /* Some files say when their last frame begins, others when it ends: this is at least a frame's time, so that nothing is
     * taken that merging has seen. */
    const double frame_s = length.seconds / (double)(length.frames - 1) * (double)part.every;
    const int64_t frames = (int64_t)((to - part.from_s) / frame_s + 0.5);
    const int64_t held = (int64_t)((double)frames * catalog->workload.merge.held_out);
    if (held < 1) {
        return false;
    }
    taken->from_s = part.from_s + ((double)(frames - held) - ROUNDED) * frame_s;
    taken->first = 0;
    taken->count = held < most ? held : most;
    taken->frames = -1; /* of which only labels have to know */
    return true;
}

/* Finds it by reading the feed. */
static enum culm_status take_by_number(const struct culm_live_catalog *catalog, int64_t most,
                                       struct culm_feed *feed, struct culm_live_taken *taken,
                                       struct culm_error *error) {
    int64_t count = 0;
    enum culm_status status = culm_feed_count_whole(feed, NULL, &count, error);
    const bool endless = culm_feed_is_live(feed) && count == CULM_FEED_COUNTED_MAX;
    int64_t held = (int64_t)((double)count * catalog->workload.merge.held_out);
    held = held < 1 || endless ? count : held;
    taken->first = count - held;
    taken->count = held < most ? held : most;
    taken->frames = endless ? -1 : count;
    return status;
}

static enum culm_status take(const struct culm_live_catalog *catalog, int32_t f, int64_t most,
                             struct culm_live_taken *taken, struct culm_error *error) {
    const struct culm_feed_config *config = &catalog->workload.feeds[f];
    struct culm_feed *feed = NULL;
    if (culm_feed_comes_once(config->file)) {
        char shown[CULM_PATH_MAX];
        culm_url_show(config->file, shown, sizeof shown);
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "feed '%s': '%s' is not a regular file, and its frames are needed "
                              "more than once; record some of it, and name that",
                              config->name, shown);
    }
    enum culm_status status = open_feed(catalog, f, NULL, NULL, &feed, error);
    const bool clip = status == CULM_OK && culm_feed_kind_of(feed) == CULM_FEED_FFMPEG;
    if (clip) {
        taken->rate = config->fps > 0 ? config->fps : CULM_LIVE_OWN_FPS;
    }
    if (status == CULM_OK && !(clip && take_by_time(catalog, f, most, taken))) {
        status = take_by_number(catalog, most, feed, taken, error);
    }
    culm_feed_close(feed);
    return status;
}

/* --- models --- */

struct asked {
    struct culm_vision_model *model; /* borrowed */
    struct culm_vision_runner runner;
    int32_t query;
};

static enum culm_status answer(const struct culm_live_catalog *catalog, struct asked *asked,
                               const struct culm_feed_frame *f, struct culm_answer *ret_answer,
                               struct culm_error *error) {
    const struct culm_frame frame = {f->data, f->stride, f->width, f->height, f->channels};
    double score = catalog->entry[asked->query].config->score;
    culm_vision_fill(&asked->model->input, &frame, asked->runner.image);
    culm_vision_runner_run(&asked->runner);
    return culm_vision_runner_answer(&asked->runner, asked->model, 0, f->width, f->height,
                                     (float)score, ret_answer, error);
}

/* Runs every model asked on each of the taken frames of a feed. */
static enum culm_status ask(const struct culm_live_catalog *catalog, int32_t f, struct asked *asked,
                            int32_t count, struct culm_live_answers *answers,
                            struct culm_error *error) {
    struct culm_live_taken *taken = &answers->taken[f];
    struct culm_feed *feed = NULL;
    struct culm_feed_frame frame;
    answers->width[f] = calloc((size_t)taken->count + 1, sizeof *answers->width[f]);
    enum culm_status status =
        answers->width[f] ? open_feed(catalog, f, taken, NULL, &feed, error) : no_memory(error);
    for (int64_t i = 0; i < taken->first + taken->count && status == CULM_OK; i++) {
        status = culm_feed_next_whole(feed, &frame, error);
        if (status == CULM_ERR_CLOSED && taken->from_s > 0 && i > 0) {
            taken->count = i; /* a packet is not quite a frame */
            status = CULM_OK;
            break;
        }
        if (status == CULM_OK && i >= taken->first) {
            answers->width[f][i - taken->first] = frame.width;
        }
        for (int32_t a = 0; a < count && i >= taken->first && status == CULM_OK; a++) {
            struct culm_answer *at = &answers->answer[asked[a].query][i - taken->first];
            status = answer(catalog, &asked[a], &frame, at, error);
        }
    }
    culm_feed_close(feed);
    return status == CULM_ERR_CLOSED ? culm_error_set(error, CULM_ERR_CHANGED,
                                                      "feed '%s': it has become shorter meanwhile",
                                                      catalog->workload.feeds[f].name)
                                     : status;
}

/* Runs model[query] on the taken frames, for every query that has one. */
static enum culm_status ask_all(const struct culm_live_catalog *catalog,
                                struct culm_vision_model *const *model,
                                struct culm_live_answers *answers, struct culm_error *error) {
    struct culm_device *device = NULL;
    struct asked *asked = calloc(CULM_EDGE_QUERIES_MAX, sizeof *asked);
    enum culm_status status =
        asked ? culm_device_new((int)catalog->workload.edge.threads, &device, error)
              : no_memory(error);
    for (int32_t f = 0; f < (int32_t)catalog->workload.feed_count && status == CULM_OK; f++) {
        int32_t count = 0;
        for (int32_t q = 0; q < (int32_t)catalog->workload.query_count && status == CULM_OK; q++) {
            if (catalog->entry[q].config->feed_index != f || !model[q] ||
                !answers->taken[f].count) {
                continue;
            }
            answers->answer[q] =
                calloc((size_t)answers->taken[f].count, sizeof(struct culm_answer));
            asked[count] = (struct asked){.model = model[q], .query = q};
            status =
                answers->answer[q]
                    ? culm_vision_runner_init(&asked[count].runner, model[q], 1,
                                              (float)catalog->entry[q].config->score, device, error)
                    : no_memory(error);
            count++;
        }
        if (status == CULM_OK && count > 0) {
            status = ask(catalog, f, asked, count, answers, error);
        }
        for (int32_t a = 0; a < count; a++) {
            culm_vision_runner_release(&asked[a].runner);
        }
    }
    culm_device_free(device);
    free(asked);
    return status;
}

static enum culm_status read_labels(const struct culm_live_catalog *catalog, int32_t q,
                                    struct culm_live_answers *answers, struct culm_error *error) {
    const struct culm_query_config *config = catalog->entry[q].config;
    const struct culm_live_taken *taken = &answers->taken[config->feed_index];
    struct culm_feed *feed = NULL;
    struct culm_feed_frame frame;
    if (culm_labels_suit(catalog->entry[q].model)) {
        const char *name = catalog->workload.feeds[config->feed_index].name;
        enum culm_status read =
            culm_labels_read(config->labels, name, taken->frames, catalog->entry[q].model,
                             &answers->right[q], error);
        return read == CULM_OK && answers->right[q].count < taken->first + taken->count
                   ? culm_error_set(error, CULM_ERR_CONFIG,
                                    "feed '%s': labels '%s' has %lld lines, but the feed has more "
                                    "frames; give one line for each",
                                    name, config->labels, (long long)answers->right[q].count)
                   : read;
    }
    const struct culm_feed_config *on = &catalog->workload.feeds[config->feed_index];
    enum culm_status status = strcmp(config->labels, "folders") == 0
                                  ? culm_feed_find_folders(on->name, on->file, error)
                                  : CULM_OK;
    status = status ? status
                    : open_feed(catalog, config->feed_index, NULL, config->labels, &feed, error);
    answers->label[q] = calloc((size_t)taken->count + 1, sizeof *answers->label[q]);
    if (status == CULM_OK && !answers->label[q]) {
        status = no_memory(error);
    }
    for (int64_t i = 0; i < taken->first + taken->count && status == CULM_OK; i++) {
        status = culm_feed_next_whole(feed, &frame, error);
        if (status == CULM_OK && i >= taken->first) {
            answers->label[q][i - taken->first] = frame.label;
        }
    }
    culm_feed_close(feed);
    return status;
}

enum culm_status culm_live_answers_read(const struct culm_live_catalog *catalog, int64_t most,
                                        struct culm_live_answers *answers,
                                        struct culm_error *error) {
    const struct culm_workload *workload = &catalog->workload;
    struct culm_vision_model *model[CULM_EDGE_QUERIES_MAX] = {0};
    enum culm_status status = CULM_OK;
    *answers = (struct culm_live_answers){0};
    for (int32_t q = 0; q < (int32_t)workload->query_count; q++) {
        model[q] = catalog->entry[q].bare ? NULL : catalog->entry[q].model;
    }
    for (int32_t f = 0; f < (int32_t)workload->feed_count && status == CULM_OK; f++) {
        bool wanted = false;
        for (int32_t q = 0; q < (int32_t)workload->query_count; q++) {
            wanted |= model[q] && catalog->entry[q].config->feed_index == f;
        }
        status = wanted ? take(catalog, f, most, &answers->taken[f], error) : CULM_OK;
    }
    status = status ? status : ask_all(catalog, model, answers, error);
    for (int32_t q = 0; q < (int32_t)workload->query_count && status == CULM_OK; q++) {
        if (model[q] && catalog->entry[q].config->labels && answers->answer[q]) {
            status = read_labels(catalog, q, answers, error);
        }
    }
    return status;
}

static bool as_it_was(const struct culm_workload *workload,
                      const struct culm_package_query *query) {
    for (int32_t p = 0; p < query->param_count; p++) {
        if (culm_live_tensor_of(workload, query, &query->param[p]) != query->param[p].original) {
            return false;
        }
    }
    return true;
}

enum culm_status culm_live_answers_packed(const struct culm_live_catalog *catalog, const char *dir,
                                          const struct culm_live_answers *originals,
                                          struct culm_live_answers *answers,
                                          struct culm_error *error) {
    struct culm_vision_model *model[CULM_EDGE_QUERIES_MAX] = {0};
    struct culm_package_round round = {0};
    int32_t queries = (int32_t)catalog->workload.query_count;
    *answers = (struct culm_live_answers){0};
    memcpy(answers->taken, originals->taken, sizeof answers->taken);
    enum culm_status status = culm_package_open(dir, &round, error);
    for (int32_t q = 0; q < queries && status == CULM_OK; q++) {
        const char *name = catalog->entry[q].config->name;
        int32_t at = culm_package_query_find(&round, name);
        char what[CULM_PATH_MAX];
        if (at >= 0 && originals->answer[q] && !as_it_was(&catalog->workload, &round.query[at])) {
            status = culm_path_format(what, error, "%s:%s", dir, name);
            status = status ? status : culm_query_open(what, NULL, &model[q], error);
        }
    }
    culm_package_round_release(&round);
    status = status ? status : ask_all(catalog, model, answers, error);
    for (int32_t q = 0; q < queries; q++) {
        culm_vision_model_free(model[q]);
    }
    return status;
}

void culm_live_answers_release(const struct culm_live_catalog *catalog,
                               struct culm_live_answers *answers) {
    for (size_t q = 0; q < CULM_EDGE_QUERIES_MAX; q++) {
        int64_t count =
            answers->answer[q] ? answers->taken[catalog->entry[q].config->feed_index].count : 0;
        for (int64_t i = 0; i < count; i++) {
            culm_answer_release(&answers->answer[q][i]);
        }
        free(answers->answer[q]);
        free(answers->label[q]);
        culm_labels_release(&answers->right[q]);
    }
    for (int32_t f = 0; f < CULM_EDGE_FEEDS_MAX; f++) {
        free(answers->width[f]);
    }
    *answers = (struct culm_live_answers){0};
}

/* --- how good it is --- */

enum culm_status culm_live_answers_accuracy(const struct culm_live_catalog *catalog,
                                            const struct culm_live_answers *originals,
                                            const struct culm_live_answers *given, int32_t query,
                                            const uint8_t *answered, int64_t frames, double fps,
                                            double *ret_accuracy, struct culm_error *error) {
    const struct culm_live_entry *entry = &catalog->entry[query];
    const struct culm_live_taken *taken = &originals->taken[entry->config->feed_index];
    const int32_t *width = originals->width[entry->config->feed_index];
    const struct culm_answer *right = originals->answer[query];
    const struct culm_answer *said = given && given->answer[query] ? given->answer[query] : right;
    if (originals->right[query].answer) {
        right = originals->right[query].answer + taken->first;
    }
    if (!right) {
        return CULM_ERR_NOT_FOUND;
    }
    struct culm_accuracy *accuracy = culm_accuracy_new(entry->model->kind);
    const struct culm_answer nothing = {.kind = entry->model->kind}, *latest = &nothing;
    bool ok = accuracy != NULL;
    if (ok) {
        culm_accuracy_judge_by(accuracy, catalog->workload.merge.accuracy,
                               catalog->workload.merge.iou);
    }
    for (int64_t f = 0; f < frames && ok; f++) {
        int64_t at = taken->rate > 0 ? (int64_t)((double)f / fps * taken->rate + 1e-6) : f;
        at %= taken->count;
        latest = answered[f] ? &said[at] : latest;
        ok = originals->label[query]
                 ? culm_accuracy_add_label(accuracy, latest, originals->label[query][at])
                 : culm_accuracy_add(accuracy, latest, &right[at], width[at]);
    }
    enum culm_status status = ok ? CULM_OK : no_memory(error);
    if (ok && culm_accuracy_wanted(accuracy) == 0) {
        status = CULM_ERR_NOT_FOUND;
    }
    *ret_accuracy = ok ? culm_accuracy_judged(accuracy) : 0;
    culm_accuracy_free(accuracy);
    return status;
}
