/*
 * Drift: merged models that no longer keep the promise made when they were merged.
 *
 * A merged query has its original beside it as a hidden query, which looks at samples. The answers
 * of both to a frame meet in rings, in whichever order they come. Where labels say what is right, a
 * check counts how often the query and the original are right; elsewhere, how often the query says
 * what the original says. A query that falls short of its promise by more than chance
 * [edge/drift.h] goes back to its own weights, and from then on its hidden query has the merged
 * ones, which come back when they do as promised. Once it is watched, frames are kept as
 * DIR/drift/QUERY-ROUND.idx, and merging can resume with these.
 */
#include "live/run.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/json.h"
#include "vision/agree.h"

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
        bool looked_at = query->original_of < 0 && query->shadow >= 0 && !query->gone &&
                         memcmp(query->merged, query->original, bytes) != 0 &&
                         (query->reverted || memcmp(query->source, query->original, bytes) != 0);
        if (looked_at) { /* it runs the one, and its hidden query the other */
            struct live_query *shadow = &run->query[query->shadow];
            shadow->gone = false;
            memcpy(shadow->source, query->reverted ? query->merged : query->original, bytes);
            memcpy(shadow->original, query->original, bytes);
        }
    }
    return status;
}

/* What checks assume of a package that has no record, or one at another score. */
static void tell_assumed(struct culm_live *run) {
    const struct culm_drift_config *drift = &run->catalog[0]->workload.edge.drift;
    int32_t count = 0, first = 0;
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        if (query->assumed && !query->gone && query->original_of < 0 && query->shadow >= 0 &&
            !run->query[query->shadow].gone) {
            first = count++ ? first : q;
        }
    }
    if (count > 0 && !run->told_assumed) {
        const struct culm_edge_drift_null null = culm_edge_drift_measure(NULL, 0, drift->frames, 1);
        char text[400];
        run->told_assumed = true;
        snprintf(text, sizeof text,
                 "%d quer%s of the package ('%s' first) without a record of how answers differ at "
                 "this score; a check of %lld frames counts as %g independent ones; 'culm merge "
                 "--resume' may record it",
                 count, count == 1 ? "y" : "ies", run->query[first].entry->config->name,
                 (long long)drift->frames, null.looks);
        live_warn(run, text);
    }
}

static void tell_retrained(struct culm_live *run, struct live_query *query) {
    char text[2 * CULM_ERROR_MAX];
    query->told_retrained = true;
    snprintf(text, sizeof text,
             "query '%s': the weights of '%.200s' have changed since '%.200s' was made; it runs on "
             "them, and nothing of it is shared until it is merged again",
             query->entry->config->name, query->entry->config->model, run->package);
    live_warn(run, text);
}

static void tell_unmeasured(struct culm_live *run) {
    int32_t count = 0;
    char text[CULM_ERROR_MAX];
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        count += query->unmeasured && !query->gone && query->original_of < 0;
    }
    if (count > 0 && run->told_unmeasured != run->round + 1) {
        run->told_unmeasured = run->round + 1;
        snprintf(text, sizeof text,
                 "round %lld of '%.200s' is not measured yet on frames that merging has not seen: "
                 "%d of its queries run on their own weights until one is (edge.rounds: measured)",
                 (long long)run->round, run->package, count);
        live_warn(run, text);
    }
}

void live_tell_unwatched(struct culm_live *run) {
    tell_unmeasured(run);
    for (int32_t q = 0; q < run->query_count; q++) {
        struct live_query *query = &run->query[q];
        char text[256];
        if (query->retrained && !query->gone && !query->told_retrained) {
            tell_retrained(run, query);
        }
        if (query->unwatched && !query->gone && !query->told_unwatched) {
            query->told_unwatched = true;
            snprintf(text, sizeof text,
                     "query '%s' is not watched for drift: a run has room for %d queries and "
                     "originals",
                     query->entry->config->name, CULM_EDGE_QUERIES_MAX);
            live_warn(run, text);
        }
    }
    tell_assumed(run);
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
    to->each = from->each;
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
    culm_live_scored_add(&query->accuracy, &query->given->answer[at], &original->ring->answer[at],
                         query->given->width[at]);
}

void live_given(struct culm_live *run, int32_t number, int64_t frame, int32_t width,
                const struct culm_answer *answer) {
    struct live_query *query = &run->query[number];
    size_t at = (size_t)(frame % CULM_LIVE_RING);
    if (query->shadow < 0 || !query->given || query->swapped || !run->query[query->shadow].ring ||
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
        live_warn(run, error.text);
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
    bool wanted = query->reverted ? one == query : one != query && query->checks.watched;
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
    query->check = (struct live_check){0};
}

void live_swap(struct culm_live *run, struct live_query *query, bool swapped) {
    if (query->shadow < 0 || query->swapped == swapped) {
        return;
    }
    query->swapped = swapped;
    query->check = (struct live_check){0};
    struct live_ring *ring[] = {query->ring, query->given, run->query[query->shadow].ring};
    for (size_t i = 0; i < sizeof ring / sizeof *ring; i++) {
        if (ring[i]) { /* what is in it was said with the other weights */
            memset(ring[i]->frame, 0, sizeof ring[i]->frame);
        }
    }
}

/* What is to be expected of a check, which depends on how far apart its frames are. */
static const struct culm_edge_drift_null *expected(const struct culm_live *run,
                                                   struct live_query *query) {
    const struct culm_drift_config *drift = &run->catalog[0]->workload.edge.drift;
    uint64_t period = run->feed[query->feed].period_ns;
    if (query->null_period_ns != period) {
        double stride = query->record.count ? drift->every_s * 1e9 / (double)drift->frames /
                                                  (double)period / query->record.step
                                            : 1;
        query->null = culm_edge_drift_measure(query->record.wrong, query->record.count,
                                              drift->frames, stride);
        query->null_period_ns = period;
    }
    return &query->null;
}

static double promise_of(const struct live_query *query,
                         const struct culm_edge_drift_null *expected) {
    double right = 1 - expected->wrong;
    if (query->check.labels) {
        return query->target * (1 - query->check.own / (double)query->check.frames);
    }
    return expected->wrong >= 0 && right < query->promised ? right : query->promised;
}

/* Its samples are as many as a check takes: judges them. */
static void check_drift(struct culm_live *run, struct live_query *query, int64_t frame) {
    static const char *const action_name[] = {"none", "watched", "reverted", "returned"};
    const struct live_check check = query->check;
    const struct culm_edge_drift_null *null = expected(run, query);
    const struct culm_edge_drift_seen seen = {.right = 1 - check.wrong / (double)check.frames,
                                              .anything = check.wanted > 0,
                                              .promised = promise_of(query, null),
                                              .looks = null->looks};
    char path[CULM_PATH_MAX];
    double chance;
    bool watched = query->checks.watched;
    enum culm_edge_drift_action action = culm_edge_drift_check(&query->checks, &seen, &chance);
    json_t *event =
        json_pack("{s:s, s:o, s:f, s:f, s:s, s:f, s:I, s:I, s:I, s:s, s:b, s:I}", "event", "drift",
                  "query", culm_json_text(query->entry->config->name), "accuracy", seen.right,
                  "promised", seen.promised, "by", check.labels ? "labels" : "original", "chance",
                  chance, "wanted", (json_int_t)check.wanted, "missed", (json_int_t)check.missed,
                  "added", (json_int_t)check.added, "action", action_name[action], "reverted",
                  (int)query->checks.away, "frame", (json_int_t)frame);
    query->check = (struct live_check){0};
    if (action == CULM_EDGE_DRIFT_REVERT && query->samples &&
        samples_path(run, query, path, NULL) == CULM_OK) {
        json_object_set_new(event, "frames", culm_json_text(path));
    }
    live_publish(run, event);
    if (action == CULM_EDGE_DRIFT_REVERT || action == CULM_EDGE_DRIFT_RETURN) {
        query->reverted = query->checks.away;
        run->changed = true;
    }
    if (action == CULM_EDGE_DRIFT_RETURN) {
        end_samples(run, query, false);
    } else if (action == CULM_EDGE_DRIFT_WATCH && !watched) {
        begin_samples(run, query);
    } else if (action == CULM_EDGE_DRIFT_NONE && watched) {
        end_samples(run, query, true);
    }
}

/* Counts what both have said of a frame. False: the frame has no label although the query has
 * labels. */
static bool add_sample(struct live_query *query, const struct culm_answer *said,
                       const struct culm_answer *original, const struct live_frame *frame) {
    struct culm_agreement of, own = {0};
    bool labels = query->label || query->by_folder || query->right.answer;
    if (!labels) {
        of = culm_agreement_of(said, original, query->score_now, frame->width);
    } else if (query->right.answer) {
        const struct culm_answer *right = live_right(query, frame);
        if (!right) {
            return false;
        }
        of = culm_agreement_of(said, right, query->score_now, frame->width);
        own = culm_agreement_of(original, right, query->score_now, frame->width);
    } else {
        int32_t label = live_label(query, frame);
        if (label < 0) {
            return false;
        }
        of = culm_agreement_with_label(said, label);
        own = culm_agreement_with_label(original, label);
    }
    struct live_check *check = &query->check;
    check->frames++;
    check->labels = labels;
    check->wrong += culm_edge_drift_wrong(of.wanted, of.missed, of.added);
    check->own += culm_edge_drift_wrong(own.wanted, own.missed, own.added);
    check->wanted += of.wanted;
    check->missed += of.missed;
    check->added += of.added;
    return true;
}

void live_compare(struct culm_live *run, int32_t number, int64_t frame, const struct live_frame *of,
                  const struct culm_answer *answer) {
    struct live_query *one = &run->query[number];
    struct live_query *query = one->original_of >= 0 ? &run->query[one->original_of] : one;
    struct live_query *hidden = query->shadow >= 0 ? &run->query[query->shadow] : NULL;
    size_t at = (size_t)(frame % CULM_LIVE_RING);
    if (!hidden || hidden->gone || query->gone || query->reverted != query->swapped || !one->ring ||
        !copy_answer(&one->ring->answer[at], answer)) {
        return; /* nothing counts until the layout with its other weights is in force */
    }
    one->ring->frame[at] = frame + 1;
    one->ring->width[at] = of->width;
    if (one == hidden && query->given && !query->swapped) {
        count_given(query, hidden, frame);
    }
    if (!query->ring || !hidden->ring || query->ring->frame[at] != frame + 1 ||
        hidden->ring->frame[at] != frame + 1) {
        return; /* the other has not answered it, or not yet */
    }
    const struct culm_answer *said = &query->ring->answer[at], *other = &hidden->ring->answer[at];
    if (add_sample(query, query->swapped ? other : said, query->swapped ? said : other, of) &&
        query->check.frames >= run->catalog[0]->workload.edge.drift.frames) {
        check_drift(run, query, frame);
    }
}
