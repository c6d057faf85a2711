/*
 * Drift: merged models that no longer keep the promise made when they were merged.
 *
 * A merged query has its original beside it as a hidden query, which looks at samples. The answers
 * of both to a frame meet in rings, in whichever order they come. Where labels say what is right, a
 * check counts how often the query and the original are right; elsewhere, how often the query says
 * what the original says. A query that falls short of its promise by more than chance
 * [edge/drift.h] goes back to its own weights. Once it is watched, frames are kept as
 * DIR/drift/QUERY-ROUND.idx, and merging can resume with these.
 */
#include "live/run.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLES 256 /* the most frames that are kept of a query */

/* --- originals --- */

enum culm_status live_shadows(struct culm_live *run, struct culm_error *error) {
    const struct culm_drift_config *drift = &run->catalog[0]->workload.edge.drift;
    enum culm_status status = CULM_OK;
    int32_t count = run->query_count;
    for (int32_t q = 0; q < count && status == CULM_OK; q++) {
        struct live_query *query = &run->query[q];
        size_t bytes = (size_t)query->entry->part_count * sizeof *query->source;
        if (query->original_of >= 0) {
            query->gone = true; /* unless its query still wants it: see below */
            continue;
        }
        bool merged = drift->every_s > 0 && drift->frames > 0 && !query->gone &&
                      memcmp(query->merged, query->original, bytes) != 0;
        query->unwatched = merged && query->shadow < 0 && run->query_count == CULM_EDGE_QUERIES_MAX;
        if (merged && query->shadow < 0 && !query->unwatched) {
            status = live_open(run, query->entry, q, query->feed, &query->shadow, error);
            if (status == CULM_OK) { /* gone for now, likewise */
                run->query[query->shadow].gone = true;
                memcpy(run->query[query->shadow].source, query->original, bytes);
                memcpy(run->query[query->shadow].original, query->original, bytes);
                memcpy(run->query[query->shadow].merged, query->original, bytes);
            }
        }
        for (int i = 0; i < 2 && merged && query->shadow >= 0 && status == CULM_OK; i++) {
            struct live_query *one = i ? &run->query[query->shadow] : query;
            one->ring = one->ring ? one->ring : calloc(1, sizeof *one->ring);
            one->given = one->given ? one->given : calloc(1, sizeof *one->given);
            status = one->ring && one->given
                         ? CULM_OK
                         : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for drift");
        }
    }
    for (int32_t q = 0; q < count && status == CULM_OK; q++) {
        const struct live_query *query = &run->query[q];
        size_t bytes = (size_t)query->entry->part_count * sizeof *query->source;
        bool merged = query->original_of < 0 && query->shadow >= 0 && !query->gone &&
                      memcmp(query->source, query->original, bytes) != 0;
        if (merged) {
            struct live_query *shadow = &run->query[query->shadow];
            shadow->gone = false;
            memcpy(shadow->source, query->original, bytes);
            memcpy(shadow->original, query->original, bytes);
        }
    }
    return status;
}

void live_tell_unwatched(struct culm_live *run) {
    for (int32_t q = 0; q < run->query_count; q++) {
        struct live_query *query = &run->query[q];
        char text[256];
        if (query->unwatched && !query->gone && !query->told_unwatched) {
            query->told_unwatched = true;
            snprintf(text, sizeof text,
                     "query '%s' is not watched for drift: a run has room for %d queries and "
                     "originals",
                     query->entry->config->name, CULM_EDGE_QUERIES_MAX);
            live_publish(
                run, json_pack("{s:s, s:o}", "event", "warning", "message", culm_json_text(text)));
        }
    }
}

static bool copy_answer(struct culm_answer *to, const struct culm_answer *from) {
    if (!CULM_GROW(to->box, to->box_capacity, from->box_count + 1) ||
        !CULM_GROW(to->classes, to->class_capacity, from->class_count + 1) ||
        !CULM_GROW(to->point, to->point_capacity, from->point_count + 1)) {
        return false;
    }
    to->kind = from->kind;
    to->box_count = from->box_count;
    to->class_count = from->class_count;
    to->point_count = from->point_count;
    if (from->box_count) {
        memcpy(to->box, from->box, (size_t)from->box_count * sizeof *to->box);
    }
    if (from->class_count) {
        memcpy(to->classes, from->classes, (size_t)from->class_count * sizeof *to->classes);
    }
    if (from->point_count) {
        memcpy(to->point, from->point, (size_t)from->point_count * sizeof *to->point);
    }
    return true;
}

/* Compares what a frame was answered with to what the original says of it, if both are known. */
static void count_given(struct live_query *query, const struct live_query *original,
                        int64_t frame) {
    size_t at = (size_t)(frame % CULM_LIVE_RING);
    if (query->given->frame[at] != frame + 1 || original->ring->frame[at] != frame + 1) {
        return;
    }
    query->accuracy =
        query->accuracy ? query->accuracy : culm_accuracy_new(query->given->answer[at].kind);
    if (query->accuracy) {
        (void)culm_accuracy_add(query->accuracy, &query->given->answer[at],
                                &original->ring->answer[at], query->given->width[at]);
    }
}

void live_given(struct culm_live *run, int32_t number, int64_t frame, int32_t width,
                const struct culm_answer *answer) {
    struct live_query *query = &run->query[number];
    size_t at = (size_t)(frame % CULM_LIVE_RING);
    if (query->shadow < 0 || !query->given || !run->query[query->shadow].ring ||
        !copy_answer(&query->given->answer[at], answer)) {
        return;
    }
    query->given->frame[at] = frame + 1;
    query->given->width[at] = width;
    count_given(query, &run->query[query->shadow], frame);
}

/* --- frames with which merging may resume --- */

static enum culm_status samples_path(const struct culm_live *run, const struct live_query *query,
                                     char path[CULM_PATH_MAX], struct culm_error *error) {
    return culm_path_format(path, error, "%s/drift/%s-%lld.idx", run->out,
                            query->entry->config->name, (long long)run->round);
}

/* Closes the file of samples. removed: also removes it. */
static void end_samples(struct culm_live *run, struct live_query *query, bool removed) {
    char path[CULM_PATH_MAX];
    if (query->samples) {
        close(query->samples - 1);
        query->samples = 0;
        if (removed && samples_path(run, query, path, NULL) == CULM_OK) {
            (void)unlink(path);
        }
    }
}

static void begin_samples(struct culm_live *run, struct live_query *query) {
    char path[CULM_PATH_MAX];
    struct culm_error error;
    end_samples(run, query, false);
    query->sampled = 0;
    query->sample_ns = 0;
    enum culm_status status = culm_path_format(path, &error, "%s/drift", run->out);
    status = status ? status : culm_dir_make(NULL, path, &error);
    status = status ? status : samples_path(run, query, path, &error);
    if (status == CULM_OK) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        status = fd < 0 ? culm_error_errno(&error, errno, "write '%s'", path) : CULM_OK;
        query->samples = fd + 1;
    }
    if (status != CULM_OK) {
        live_publish(run, json_pack("{s:s, s:o}", "event", "warning", "message",
                                    culm_json_text(error.text)));
    }
}

/* Appends a frame to the IDX file. The header, which counts frames, is written after the pixels, so
 * that it never counts one that is not there. */
static bool append(const struct live_query *query, const struct culm_frame *pixels) {
    uint8_t head[20] = {0, 0, 8, pixels->channels == 1 ? 3 : 4};
    uint32_t dim[] = {(uint32_t)query->sampled + 1, (uint32_t)pixels->height,
                      (uint32_t)pixels->width, (uint32_t)pixels->channels};
    size_t bytes = pixels->stride * (size_t)pixels->height, head_bytes = 4 + 4 * (size_t)head[3];
    for (size_t i = 0; i < 16; i++) {
        head[4 + i] = (uint8_t)(dim[i / 4] >> (24 - 8 * (i % 4)));
    }
    off_t at = (off_t)(head_bytes + (size_t)query->sampled * bytes);
    int fd = query->samples - 1;
    return pwrite(fd, pixels->data, bytes, at) == (ssize_t)bytes &&
           pwrite(fd, head, head_bytes, 0) == (ssize_t)head_bytes;
}

void live_sample(struct culm_live *run, int32_t number, const struct live_frame *frame) {
    const struct culm_drift_config *drift = &run->catalog[0]->workload.edge.drift;
    const struct live_query *one = &run->query[number];
    struct live_query *query =
        one->original_of >= 0 ? &run->query[one->original_of] : &run->query[number];
    /* Until the query is reverted, the frames that the original looks at; then as many of its own.
     */
    bool wanted = query->reverted ? one == query : one != query && query->checks.checks > 0;
    uint64_t now = culm_clock_ns();
    if (!query->samples || !wanted || query->sampled == SAMPLES || now < query->sample_ns) {
        return;
    }
    if (query->reverted) {
        query->sample_ns = now + (uint64_t)(drift->every_s * 1e9 / (double)drift->frames);
    }
    const struct culm_frame pixels = live_pixels(run, query, frame);
    if (!append(query, &pixels)) {
        end_samples(run, query, false); /* a full disk, say: those that were written must do */
        return;
    }
    query->sampled++;
}

/* --- checks --- */

void live_forget_checks(struct live_query *query) {
    query->checks = (struct culm_edge_drift){0};
    if (query->drift) {
        culm_accuracy_clear(query->drift);
    }
    if (query->own) {
        culm_accuracy_clear(query->own);
    }
}

/* There are as many samples as a check takes: judges them. */
static void check_drift(struct culm_live *run, struct live_query *query, int64_t frame) {
    static const char *const action_name[] = {"none", "watched", "reverted"};
    int64_t frames = culm_accuracy_frames(query->drift);
    bool labels = query->own && culm_accuracy_frames(query->own) > 0;
    if (culm_accuracy_wanted(query->drift) == 0) {
        culm_accuracy_clear(query->drift); /* nothing was to be seen, so nothing can be said */
        if (query->own) {
            culm_accuracy_clear(query->own);
        }
        return;
    }
    char path[CULM_PATH_MAX];
    double accuracy = culm_accuracy_value(query->drift, false), chance;
    double promised =
        labels ? query->target * culm_accuracy_value(query->own, false) : query->promised;
    bool watched = query->checks.checks > 0;
    enum culm_edge_drift_action action =
        culm_edge_drift_check(&query->checks, frames, accuracy, promised, &chance);
    bool back = action == CULM_EDGE_DRIFT_REVERT;
    json_t *event = json_pack("{s:s, s:o, s:f, s:f, s:s, s:f, s:s, s:I}", "event", "drift", "query",
                              culm_json_text(query->entry->config->name), "accuracy", accuracy,
                              "promised", promised, "by", labels ? "labels" : "original", "chance",
                              chance, "action", action_name[action], "frame", (json_int_t)frame);
    if (back && query->samples && samples_path(run, query, path, NULL) == CULM_OK) {
        json_object_set_new(event, "frames", culm_json_text(path));
    }
    live_publish(run, event);
    culm_accuracy_clear(query->drift);
    if (query->own) {
        culm_accuracy_clear(query->own);
    }
    if (back) {
        query->reverted = true;
        run->changed = true;
    } else if (action == CULM_EDGE_DRIFT_WATCH && !watched) {
        begin_samples(run, query);
    } else if (action == CULM_EDGE_DRIFT_NONE && watched) {
        end_samples(run, query, true);
    }
}

/* Counts what both have said of a frame. False: out of memory, or the frame has no label although
 * the query has labels. */
static bool add_sample(struct live_query *query, const struct culm_answer *said,
                       const struct culm_answer *original, const struct live_frame *frame) {
    bool labels = query->label || query->by_folder || query->right.answer;
    query->drift = query->drift ? query->drift : culm_accuracy_new(said->kind);
    query->own = query->own || !labels ? query->own : culm_accuracy_new(said->kind);
    if (!query->drift || (labels && !query->own)) {
        return false;
    }
    if (!labels) {
        return culm_accuracy_add(query->drift, said, original, frame->width);
    }
    if (query->right.answer) {
        const struct culm_answer *right = live_right(query, frame);
        return right && culm_accuracy_add(query->drift, said, right, frame->width) &&
               culm_accuracy_add(query->own, original, right, frame->width);
    }
    int32_t label = live_label(query, frame);
    return label >= 0 && culm_accuracy_add_label(query->drift, said, label) &&
           culm_accuracy_add_label(query->own, original, label);
}

void live_compare(struct culm_live *run, int32_t number, int64_t frame, const struct live_frame *of,
                  const struct culm_answer *answer) {
    struct live_query *one = &run->query[number];
    struct live_query *query = one->original_of >= 0 ? &run->query[one->original_of] : one;
    struct live_query *original = query->shadow >= 0 ? &run->query[query->shadow] : NULL;
    size_t at = (size_t)(frame % CULM_LIVE_RING);
    if (!original || original->gone || query->gone || query->reverted || !one->ring ||
        !copy_answer(&one->ring->answer[at], answer)) {
        return;
    }
    one->ring->frame[at] = frame + 1;
    one->ring->width[at] = of->width;
    if (one == original && query->given) {
        count_given(query, original, frame);
    }
    if (!query->ring || !original->ring || query->ring->frame[at] != frame + 1 ||
        original->ring->frame[at] != frame + 1) {
        return; /* the other has not answered it, or not yet */
    }
    if (add_sample(query, &query->ring->answer[at], &original->ring->answer[at], of) &&
        culm_accuracy_frames(query->drift) >= run->catalog[0]->workload.edge.drift.frames) {
        check_drift(run, query, frame);
    }
}
