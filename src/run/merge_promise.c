/* The end of a merge: checks the targets on frames that merging has not seen. */
#include "run/merge_internal.h"
#include "vision/agree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *merging_nothing(const struct culm_merge_frames *frames, int64_t wanted) {
    if (!frames->label && !frames->right) {
        return "the original finds nothing";
    }
    return wanted > 0 ? "the original is never right by its labels"
                      : "nothing is to be found by its labels";
}

static enum culm_status measure(struct culm_merging *m, size_t q, struct culm_merging_measured *to,
                                bool originals, struct culm_error *error) {
    const struct culm_merge_frames *held = &m->in.set[m->in.set_of[q]].part[CULM_MERGE_HELD];
    struct culm_merge_model *model = m->models[m->in.model_of[q]];
    enum culm_status status = CULM_OK;
    if (originals) {
        to->wanted[q] = calloc((size_t)held->count + 1, sizeof **to->wanted);
        status = to->wanted[q]
                     ? culm_judge_answer(&m->judge[q], model->original, held, to->wanted[q], error)
                     : merging_no_memory(error);
    }
    return status == CULM_OK
               ? culm_judge_now(&m->judge[q], originals ? model->original : model->value, held,
                                to->wanted[q], originals ? &to->original[q] : &to->merged[q], error)
               : status;
}

static bool is_detector(const struct culm_merging *m, size_t q) {
    return m->models[m->in.model_of[q]]->vision->kind == CULM_ANSWER_BOXES;
}

#define EDGE_OVERLAP 0.5 /* of drift checks, which are over all boxes */

/* What the edge compares with, since it has no labels. */
static enum culm_status measure_agreement(struct culm_merging *m, size_t q,
                                          struct culm_merging_measured *to,
                                          struct culm_error *error) {
    struct culm_merge_frames held = m->in.set[m->in.set_of[q]].part[CULM_MERGE_HELD];
    const struct culm_merge_config *config = &m->workload.merge;
    const bool plain = !is_detector(m, q) ||
                       (config->accuracy == CULM_ACCURACY_BOXES && config->iou == EDGE_OVERLAP);
    to->agreed[q] = to->merged[q];
    if (!held.label && !held.right && plain) {
        return CULM_OK; /* the same as the accuracy */
    }
    held.label = NULL;
    held.right = NULL;
    culm_judge_by(&m->judge[q], CULM_ACCURACY_BOXES, EDGE_OVERLAP);
    enum culm_status status = culm_judge_now(&m->judge[q], m->models[m->in.model_of[q]]->value,
                                             &held, to->wanted[q], &to->agreed[q], error);
    culm_judge_by(&m->judge[q], config->accuracy, config->iou);
    return status;
}

/* What checks for drift would see, frame by frame. */
static enum culm_status measure_samples(struct culm_merging *m, size_t q,
                                        struct culm_merging_measured *to,
                                        struct culm_error *error) {
    const struct culm_merge_frames *held = &m->in.set[m->in.set_of[q]].part[CULM_MERGE_HELD];
    const int64_t count =
        held->count < CULM_PACKAGE_SAMPLES_MAX ? held->count : CULM_PACKAGE_SAMPLES_MAX;
    const struct culm_merge_model *model = m->models[m->in.model_of[q]];
    struct culm_answer *said = calloc((size_t)held->count + 1, sizeof *said);
    to->sample[q] = calloc((size_t)count + 1, sizeof **to->sample);
    enum culm_status status = said && to->sample[q]
                                  ? culm_judge_answer(&m->judge[q], model->value, held, said, error)
                                  : merging_no_memory(error);
    double overlap = 0;
    int64_t found = 0;
    for (int64_t i = 0; i < count && status == CULM_OK; i++) {
        const int64_t at = i * held->count / count;
        const struct culm_agreement of =
            culm_agreement_of(&said[at], &to->wanted[q][at], (float)m->workload.queries[q].score,
                              held->size[at].width);
        to->sample[q][to->counted[q]++] =
            (struct culm_package_sample){of.wanted, of.missed, of.added};
        overlap += of.overlap;
        found += of.wanted - of.missed;
    }
    to->overlap[q] = is_detector(m, q) && found > 0 ? overlap / (double)found : -1;
    for (int64_t i = 0; i < held->count && said; i++) {
        culm_answer_release(&said[i]);
    }
    free(said);
    return status;
}

static bool has_numbers(const struct culm_merge_model *model, float *const *of) {
    bool same = true;
    for (int32_t p = 0; p < model->param_count && same; p++) {
        same = memcmp(model->value[p], of[p], 4 * (size_t)culm_merge_param_elements(model, p)) == 0;
    }
    return same;
}

/* Whether a model has its original's values, so that others which share them take nothing from it.
 * `reordered`: even if its channels are permuted. */
static bool is_original(const struct culm_merge_model *model, bool reordered) {
    return has_numbers(model, model->original) ||
           (reordered && !model->fixed && has_numbers(model, model->aligned));
}

/* How a query does on the frames that were held out. */
struct stands {
    int64_t wanted; /* how many things are right there */
    bool nothing;   /* its original's accuracy says nothing */
    bool ok;
    double now, of; /* its accuracy, and its original's on the same frames, for a message */
};

static void judge(const struct culm_merging *m, size_t q, const struct culm_merging_measured *to,
                  struct stands *ret) {
    ret->wanted = culm_accuracy_wanted(m->judge[q].accuracy);
    ret->nothing = ret->wanted == 0 || to->original[q] <= 0;
    ret->now = to->merged[q];
    ret->of = to->original[q];
    ret->ok = !ret->nothing && to->merged[q] >= m->workload.queries[q].target * to->original[q];
}

/* A query that meets its target there may miss it on all frames that merging has not seen. */
static enum culm_status judge_all(struct culm_merging *m, size_t q,
                                  const struct culm_merging_measured *to, struct stands *stands,
                                  struct culm_error *error) {
    const int32_t k = m->in.model_of[q];
    if (!stands->ok || m->workload.merge.method != CULM_MERGE_CULM ||
        !culm_share_any(&m->share, k) || is_original(m->models[k], true)) {
        return CULM_OK;
    }
    double now = stands->now, of = stands->of;
    const enum culm_status status =
        merging_unseen(m, q, to->wanted[q], &of, &now, &stands->ok, error);
    stands->now = stands->ok ? stands->now : now;
    stands->of = stands->ok ? stands->of : of;
    return status;
}

#define HALVES 4 /* how often a model may share half as much, at most */

static bool gave_up(const struct culm_merging *m, const bool *gives, size_t q) {
    return gives[m->in.model_of[q]];
}

/* Lets the model of a query that misses its target share fewer layers. *ret_ok: whether all of its
 * queries meet their targets then. */
static enum culm_status share_less(struct culm_merging *m, size_t missed, struct stands *stands,
                                   struct culm_merging_measured *to, bool *ret_ok,
                                   struct culm_error *error) {
    const int32_t k = m->in.model_of[missed];
    const double was = stands[missed].now, of = stands[missed].of;
    enum culm_status status = CULM_OK;
    int64_t most = 0;
    *ret_ok = false;
    /* One that is kept from an earlier search has no weights in its own order to go back to. */
    const int halves = m->models[k]->fixed ? 0 : HALVES;
    for (int i = 0; i < halves && !*ret_ok && status == CULM_OK && culm_share_any(&m->share, k);
         i++) {
        int64_t bytes = 0;
        status = merging_give_up(m, k, most, &bytes, error);
        most = bytes / 2 > 0 ? bytes / 2 : 1;
        *ret_ok = status == CULM_OK && culm_share_any(&m->share, k);
        for (size_t q = 0; q < m->workload.query_count && *ret_ok; q++) {
            if (m->in.model_of[q] != k) {
                continue;
            }
            status = measure(m, q, to, false, error);
            judge(m, q, to, &stands[q]);
            status = status ? status : judge_all(m, q, to, &stands[q], error);
            *ret_ok = status == CULM_OK && stands[q].ok;
        }
    }
    if (*ret_ok) {
        char text[256];
        snprintf(text, sizeof text,
                 "query '%s': %.4f of %.4f on frames that merging has not seen, so it gives up "
                 "some of the layers that it shared; with the others it keeps %.4f",
                 m->workload.queries[missed].name, was, of, to->merged[missed]);
        merging_warn(m, text);
    }
    return status;
}

/* A query that misses its target, and no fewer layers help: its model goes back to its own
 * weights. */
static void leave(struct culm_merging *m, size_t q, const struct stands *stands, double was,
                  double original) {
    const bool own = is_original(m->models[m->in.model_of[q]], stands->nothing);
    const char *then = own ? "it ships with its own weights" : "it ships unmerged";
    const char *name = m->workload.queries[q].name;
    char text[256];
    if (stands->nothing) {
        snprintf(text, sizeof text, "query '%s': %s in the frames that merging has not seen, so %s",
                 name,
                 merging_nothing(&m->in.set[m->in.set_of[q]].part[CULM_MERGE_HELD], stands->wanted),
                 then);
    } else {
        snprintf(text, sizeof text,
                 "query '%s': %.4f of %.4f on frames that merging has not seen, so %s", name, was,
                 original, then);
    }
    merging_warn(m, text);
    if (!own) {
        culm_share_leave(&m->share, m->in.model_of[q]);
    }
}

/* Lets models that miss a target on held-out frames give up layers, or all of them, except with
 * `max`. gives[models], false at first: those that have tried to. */
static enum culm_status settle(struct culm_merging *m, struct stands *stands, bool *gives,
                               struct culm_merging_measured *to, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (size_t q = 0; q < m->workload.query_count && status == CULM_OK; q++) {
        const int32_t k = m->in.model_of[q];
        const double was = stands[q].now, of = stands[q].of;
        const bool shares = culm_share_any(&m->share, k);
        bool ok = stands[q].ok || (stands[q].nothing && !shares);
        if (!ok && !stands[q].nothing && shares && !gave_up(m, gives, q) &&
            m->workload.merge.method == CULM_MERGE_CULM && !is_original(m->models[k], true)) {
            gives[k] = true;
            status = share_less(m, q, stands, to, &ok, error);
        }
        if (!ok && status == CULM_OK && m->workload.merge.method != CULM_MERGE_MAX) {
            leave(m, q, &stands[q], was, of);
        }
    }
    return status;
}

/* Every query ends with an accuracy that it has been measured to have. */
static enum culm_status keep_promise(struct culm_merging *m, struct culm_merging_measured *to,
                                     struct culm_error *error) {
    struct stands *stands = calloc(m->workload.query_count + 1, sizeof *stands);
    bool *gives = calloc((size_t)m->in.models + 1, sizeof *gives);
    enum culm_status status = stands && gives ? CULM_OK : merging_no_memory(error);
    for (size_t q = 0; q < m->workload.query_count && status == CULM_OK; q++) {
        status = measure(m, q, to, true, error);
        if (status == CULM_OK && is_detector(m, q)) {
            status = merging_tally_take(&m->judge[q], &to->was[q], error);
        }
        status = status ? status : measure(m, q, to, false, error);
        if (status == CULM_OK) {
            judge(m, q, to, &stands[q]);
            status = judge_all(m, q, to, &stands[q], error);
        }
    }
    status = status ? status : settle(m, stands, gives, to, error);
    free(stands);
    free(gives);
    for (int32_t k = 0; k < m->in.models && status == CULM_OK; k++) {
        if (!culm_share_any(&m->share, k)) {
            culm_merge_model_revert(m->models[k]);
        }
    }
    for (size_t q = 0; q < m->workload.query_count && status == CULM_OK; q++) {
        status = measure(m, q, to, false, error);
        if (status == CULM_OK && is_detector(m, q)) {
            status = merging_tally_take(&m->judge[q], &to->is[q], error);
        }
        status = status ? status : measure_agreement(m, q, to, error);
        status = status ? status : measure_samples(m, q, to, error);
    }
    return status;
}

/* The round that a resumed run found saves as much or more: keeps it, and reports it instead. */
static enum culm_status stay(struct culm_merging *m, struct culm_merging_measured *to,
                             struct culm_package_sums *sums, struct culm_error *error) {
    struct culm_package_round round;
    char text[256];
    enum culm_status status = culm_package_open_round(m->options.dir, m->have, &round, error);
    if (status != CULM_OK) {
        return status;
    }
    snprintf(text, sizeof text,
             "round %" PRId64 " stays: it saves %" PRId64
             " bytes, and this time no more was found: %" PRId64,
             m->have, m->have_saves, sums->total_bytes - sums->distinct_bytes);
    merging_warn(m, text);
    for (size_t q = 0; q < m->workload.query_count; q++) {
        const int32_t there = culm_package_query_find(&round, m->workload.queries[q].name);
        to->original[q] = round.query[there].original;
        to->merged[q] = round.query[there].merged;
        to->agreed[q] = round.query[there].agreement;
        to->overlap[q] = round.query[there].overlap;
        free(to->is[q].of); /* of this time's, which does not ship */
        to->is[q] = (struct merging_tally){0};
    }
    status = culm_package_sum(&round, sums, error);
    culm_package_round_release(&round);
    return status;
}

/* Ships the last round, with the measurements. A finished package that was resumed may have it
 * already, or a better one. */
static enum culm_status ship_last(struct culm_merging *m, struct culm_merging_measured *to,
                                  struct culm_package_sums *ret_sums, struct culm_error *error) {
    /* What is kept of other queries is a round to begin with, and may be measured, too. */
    const int64_t begun = m->after + (m->goes_on && m->seed.ship);
    const bool finished = m->have_measured && m->counts == m->have && m->have > begun;
    const int64_t next = (m->counts > m->after ? m->counts : m->after) + 1;
    struct culm_package_round made;
    uint64_t bytes;
    enum culm_status status = merging_round(m, finished ? m->have : next, to, &made, error);
    if (status == CULM_OK && !(status = culm_package_sum(&made, ret_sums, error))) {
        if (finished && culm_package_holds(NULL, m->options.dir, &made)) {
            status = merging_put(m, &made, &bytes, error);
        } else if (finished && ret_sums->total_bytes - ret_sums->distinct_bytes <= m->have_saves) {
            status = stay(m, to, ret_sums, error);
        } else {
            made.number = next;
            status = merging_publish(m, &made, &bytes, error);
        }
    }
    culm_package_round_release(&made);
    return status;
}

enum culm_status merging_finish(struct culm_merging *m, struct culm_error *error) {
    size_t count = m->workload.query_count;
    struct culm_merging_measured to = {.original = calloc(count + 1, sizeof *to.original),
                                       .merged = calloc(count + 1, sizeof *to.merged),
                                       .agreed = calloc(count + 1, sizeof *to.agreed),
                                       .wanted = calloc(count + 1, sizeof *to.wanted),
                                       .sample = calloc(count + 1, sizeof *to.sample),
                                       .counted = calloc(count + 1, sizeof *to.counted),
                                       .overlap = calloc(count + 1, sizeof *to.overlap),
                                       .was = calloc(count + 1, sizeof *to.was),
                                       .is = calloc(count + 1, sizeof *to.is)};
    const bool room = to.original && to.merged && to.agreed && to.wanted && to.sample &&
                      to.counted && to.overlap && to.was && to.is;
    enum culm_status status = room ? keep_promise(m, &to, error) : merging_no_memory(error);
    struct culm_package_sums sums;
    if (status == CULM_OK && !(status = ship_last(m, &to, &sums, error))) {
        const int64_t total = sums.total_bytes, saved = total - sums.distinct_bytes;
        json_t *queries = json_array();
        for (size_t q = 0; q < count; q++) {
            if (to.is[q].of) {
                merging_tally_tell(m, q, &to.was[q], &to.is[q]);
            }
            json_array_append_new(
                queries, json_pack("{s:s, s:f, s:f, s:f, s:o, s:f}", "query",
                                   m->workload.queries[q].name, "original", to.original[q],
                                   "merged", to.merged[q], "agreement", to.agreed[q], "overlap",
                                   to.overlap[q] < 0 ? json_null() : json_real(to.overlap[q]),
                                   "target", m->workload.queries[q].target));
        }
        merging_event(m, "done",
                      json_pack("{s:I, s:I, s:f, s:I, s:I, s:f, s:o}", "bytes", (json_int_t)total,
                                "distinct_bytes", (json_int_t)(total - saved), "saved",
                                total > 0 ? (double)saved / (double)total : 0.0, "possible_bytes",
                                (json_int_t)m->share.match.saved_bytes, "round",
                                (json_int_t)m->counts, "cpu_s", merging_cpu_s(), "queries",
                                queries));
    }
    for (size_t q = 0; q < count && to.wanted; q++) {
        const struct culm_merge_frames *held = &m->in.set[m->in.set_of[q]].part[CULM_MERGE_HELD];
        for (int64_t i = 0; i < held->count && to.wanted[q]; i++) {
            culm_answer_release(&to.wanted[q][i]);
        }
        free(to.wanted[q]);
    }
    for (size_t q = 0; q < count && room; q++) {
        free(to.sample[q]);
        free(to.was[q].of);
        free(to.is[q].of);
    }
    free(to.original);
    free(to.merged);
    free(to.agreed);
    free(to.wanted);
    free(to.sample);
    free(to.counted);
    free(to.overlap);
    free(to.was);
    free(to.is);
    return status;
}
