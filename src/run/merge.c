/*
 * Merges the models of a workload into a package. See culm/merge.h.
 *
 * Round 0 is the originals. Whatever meets all its targets on the frames that are checked becomes a
 * round of its own, at once. At the end every query is measured on the frames that were held out;
 * models that miss a target there give up layers, or get their own weights back, and the last round
 * records it.
 */
#include "run/merge_internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "query/config.h"
#include "run/merge_kept.h"
#include "run/public.h"

#include <stdio.h>
#include <stdlib.h>

#define JUDGE_BATCH 4

static enum culm_status prepare_query(struct culm_merging *m, size_t q, struct culm_error *error) {
    const struct culm_query_config *config = &m->workload.queries[q];
    int32_t k = m->in.model_of[q];
    const struct culm_merge_frames *check = &m->in.set[m->in.set_of[q]].part[CULM_MERGE_CHECK];
    struct culm_search_query *query = &m->query[q];
    int64_t found = 0, bytes = 0;
    *query = (struct culm_search_query){.name = config->name,
                                        .model = k,
                                        .judge = &m->judge[q],
                                        .check = *check,
                                        .target = config->target};
    enum culm_status status = culm_judge_init(&m->judge[q], m->models[k], JUDGE_BATCH,
                                              (float)config->score, m->device, error);
    m->wanted[q] = calloc((size_t)check->count + 1, sizeof **m->wanted);
    query->wanted = m->wanted[q];
    if (status != CULM_OK || !m->wanted[q]) {
        return status == CULM_OK ? merging_no_memory(error) : status;
    }
    culm_judge_by(&m->judge[q], m->workload.merge.accuracy, m->workload.merge.iou);
    if ((status =
             culm_judge_answer(&m->judge[q], m->models[k]->original, check, m->wanted[q], error)) ||
        (status = culm_judge_now(&m->judge[q], m->models[k]->original, check, m->wanted[q],
                                 &query->original, error))) {
        return status;
    }
    found = culm_accuracy_wanted(m->judge[q].accuracy);
    for (int32_t l = 0; l < m->models[k]->layers.count; l++) {
        bytes += m->models[k]->layers.layer[l].bytes;
    }
    merging_event(m, "query",
                  json_pack("{s:s, s:o, s:I, s:f, s:I, s:I}", "query", config->name, "model",
                            culm_json_text(config->model), "bytes", (json_int_t)bytes, "accuracy",
                            query->original, "frames", (json_int_t)check->count, "wanted",
                            (json_int_t)found));
    if (found == 0 || query->original <= 0) {
        char text[256];
        snprintf(text, sizeof text, "query '%s': %s in the frames that are checked, so %s",
                 config->name, merging_nothing(check, found),
                 m->workload.merge.method == CULM_MERGE_MAX ? "its accuracy says nothing"
                                                            : "it stays unmerged");
        merging_warn(m, text);
        m->may[k] = m->workload.merge.method == CULM_MERGE_MAX; /* it ignores accuracy */
    }
    return CULM_OK;
}

/* Pictures in a folder for each class come class by class, and the last ones decide. */
static enum culm_status warn_of_classes(struct culm_merging *m, size_t q,
                                        struct culm_error *error) {
    int32_t classes, unseen;
    char text[256];
    enum culm_status status = culm_merge_inputs_unseen(&m->in, q, &classes, &unseen, error);
    if (status == CULM_OK && unseen > 0) {
        snprintf(text, sizeof text,
                 "query '%s': of %d classes in the held-out frames, %d do not occur in those that "
                 "merging fits to; put the pictures in another order",
                 m->workload.queries[q].name, classes, unseen);
        merging_warn(m, text);
    }
    return status;
}

/* Each feed's once, however many sets are of it. */
static void warn_of_left_out(struct culm_merging *m) {
    for (int32_t s = 0; s < m->in.sets; s++) {
        bool told = false;
        for (int32_t before = 0; before < s; before++) {
            told = told || m->in.set[before].feed == m->in.set[s].feed;
        }
        const struct culm_merge_set *set = &m->in.set[s];
        if (set->note[0] && !told) {
            merging_warn(m, set->note);
        }
        if (set->bad && !told) {
            char text[CULM_ERROR_MAX + 200];
            snprintf(text, sizeof text,
                     "feed '%.100s': %lld picture%s cannot be read, and %s left "
                     "out: %s",
                     m->workload.feeds[set->feed].name, (long long)set->bad,
                     set->bad == 1 ? "" : "s", set->bad == 1 ? "is" : "are", set->first_bad);
            merging_warn(m, text);
        }
    }
}

static void tell_read(void *ctx, const char *feed, int64_t frames, int64_t of) {
    merging_event(ctx, "read",
                  json_pack("{s:o, s:I, s:o}", "feed", culm_json_text(feed), "frames",
                            (json_int_t)frames, "of",
                            of > 0 ? json_integer((json_int_t)of) : json_null()));
}

static enum culm_status prepare(struct culm_merging *m, struct culm_error *error) {
    const struct culm_vision_layers **layers = calloc((size_t)m->in.models + 1, sizeof *layers);
    struct culm_match match = {0};
    m->in.told = tell_read;
    m->in.ctx = m;
    enum culm_status status = layers ? CULM_OK : merging_no_memory(error);
    for (int32_t k = 0; k < m->in.models && layers; k++) {
        layers[k] = &m->in.model[k].layers;
        m->models[k] = &m->in.model[k];
        m->may[k] = true;
        if (m->in.vision[k]->note[0]) { /* what was done to its weights */
            merging_warn(m, m->in.vision[k]->note);
        }
    }
    if (status == CULM_OK) {
        status = culm_match_find(layers, m->in.models, CULM_MATCH_EQUAL, &match, error);
    }
    free(layers);
    if (status != CULM_OK) {
        culm_match_release(&match);
        return status;
    }
    if ((status = culm_share_init(&m->share, &match, m->models, m->in.models, error)) ||
        (status = culm_device_new((int)m->workload.merge.threads, &m->device, error)) ||
        (status = culm_merge_inputs_read(&m->in, &m->stopped, error))) {
        return status;
    }
    warn_of_left_out(m);
    for (size_t q = 0; q < m->workload.query_count && status == CULM_OK; q++) {
        status = m->stopped
                     ? culm_error_set(error, CULM_ERR_STOPPED, "stopped; continue with --resume")
                     : prepare_query(m, q, error);
        status = status ? status : warn_of_classes(m, q, error);
    }
    return status;
}

/* With the workload, which is loaded. */
static enum culm_status open_all(struct culm_merging *m, const struct culm_config *workload,
                                 struct culm_error *error) {
    const size_t count = m->workload.query_count + 1;
    enum culm_status status;
    m->models = calloc(count, sizeof *m->models);
    m->judge = calloc(count, sizeof *m->judge);
    m->query = calloc(count, sizeof *m->query);
    m->wanted = calloc(count, sizeof *m->wanted);
    m->may = calloc(count, sizeof *m->may);
    if (!m->models || !m->judge || !m->query || !m->wanted || !m->may) {
        return merging_no_memory(error);
    }
    if ((status = culm_workload_need_feeds(&m->workload, workload->name, error)) ||
        (status = culm_rundir_check(m->path, m->options.resume, error)) ||
        (m->options.resume && (status = merging_same_workload(m, error)))) {
        return status;
    }
    return culm_merge_inputs_open(&m->workload, false, &m->in, error);
}

static enum culm_status make(struct culm_merging *m, const struct culm_config *workload,
                             struct culm_error *error) {
    m->have = m->counts = -1;
    m->began_ns = culm_clock_ns();
    enum culm_status status = culm_path_format(m->path, error, "%s", m->options.dir);
    m->options.dir = m->path;
    culm_function_sink_init(&m->function, m->options.event, m->options.context);
    m->watch = m->options.event ? &m->function.sink : NULL;
    if (status == CULM_OK) {
        status = merging_load(workload, &m->workload, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    return open_all(m, workload, error);
}

enum culm_status culm_merging_new(const struct culm_config *workload,
                                  const struct culm_merging_options *options,
                                  struct culm_merging **ret_merging, struct culm_error *error) {
    struct culm_merging_options own;
    if (!workload || !ret_merging) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_merging_new: an argument is NULL");
    }
    enum culm_status status =
        culm_public_take(&own, sizeof own, options, "culm_merging_options", error);
    if (status != CULM_OK) {
        return status;
    }
    if (!own.dir || !own.dir[0]) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "struct culm_merging_options: dir is not set");
    }
    struct culm_merging *m = calloc(1, sizeof *m);
    if (!m) {
        return merging_no_memory(error);
    }
    m->options = own;
    status = make(m, workload, error);
    if (status != CULM_OK) {
        culm_merging_free(m);
        return status;
    }
    *ret_merging = m;
    return CULM_OK;
}

void culm_merging_free(struct culm_merging *m) {
    if (!m) {
        return;
    }
    for (size_t q = 0; q < m->workload.query_count; q++) {
        int64_t frames = m->query ? m->query[q].check.count : 0;
        for (int64_t i = 0; i < frames && m->wanted && m->wanted[q]; i++) {
            culm_answer_release(&m->wanted[q][i]);
        }
        free(m->wanted ? m->wanted[q] : NULL);
        if (m->judge) {
            culm_judge_release(&m->judge[q]);
        }
    }
    free(m->models);
    free(m->judge);
    free(m->query);
    free(m->wanted);
    free(m->may);
    merging_from_release(m);
    culm_share_release(&m->share);
    culm_merge_inputs_release(&m->in);
    culm_workload_release(&m->workload);
    culm_device_free(m->device);
    culm_sink_free(m->log);
    if (m->claimed) {
        culm_rundir_release(&m->dir);
    }
    free(m);
}

void culm_merging_watch(struct culm_merging *m, struct culm_sink *sink) { m->watch = sink; }

void culm_merging_stop(struct culm_merging *m) {
    if (m) {
        m->stopped = true;
    }
}

static bool on_stop(void *ctx) { return ((struct culm_merging *)ctx)->stopped; }

static double on_spent(void *ctx) {
    const struct culm_merging *m = ctx;
    const struct culm_merge_config *config = &m->workload.merge;
    const double minutes = (double)(culm_clock_ns() - m->began_ns) / 60e9;
    const double wall = config->minutes > 0 ? minutes / config->minutes : 0;
    const double cpu = config->cpu_minutes > 0 ? merging_cpu_s() / 60 / config->cpu_minutes : 0;
    return wall > cpu ? wall : cpu;
}

static enum culm_status go(struct culm_merging *m, struct culm_error *error) {
    static const struct culm_search_ops ops = {.attempt = merging_tell_attempt,
                                               .check = merging_tell_check,
                                               .ship = merging_ship,
                                               .step = merging_tell_step,
                                               .stop = on_stop,
                                               .spent = on_spent,
                                               .keep = merging_keep,
                                               .recall = merging_recall};
    enum culm_status status = merging_claim(m, error);
    if (status == CULM_OK) {
        merging_event(m, "start",
                      json_pack("{s:s, s:s, s:s, s:b, s:I}", "job", "merge", "run", m->options.dir,
                                "method", culm_merge_method_names[m->workload.merge.method],
                                "resumed", m->options.resume, "after", (json_int_t)m->after));
        status = prepare(m, error);
    }
    bool prepared = status == CULM_OK;
    status = prepared ? merging_begin(m, error) : status;
    struct culm_search_seed *seed = NULL;
    if (status == CULM_OK && m->after == 0 && !m->goes_on) {
        status = merging_begin_rounds(m, error);
    }
    status = status ? status : merging_go_on(m, &seed, error);
    if (status == CULM_OK) {
        struct culm_search search = {.models = m->models,
                                     .count = m->in.models,
                                     .share = &m->share,
                                     .frames = m->in.fit,
                                     .query = m->query,
                                     .query_count = (int32_t)m->workload.query_count,
                                     .may = m->may,
                                     .config = &m->workload.merge,
                                     .device = m->device,
                                     .ops = &ops,
                                     .ctx = m,
                                     .seed = seed};
        status = culm_search_run(&search, error);
    }
    if (status == CULM_OK && !(status = merging_finish(m, error))) {
        status = culm_merge_kept_forget(m->options.dir, error);
    }
    if (status == CULM_ERR_STOPPED) {
        merging_event(m, "stopped",
                      json_pack("{s:I}", "round", (json_int_t)(m->counts > 0 ? m->counts : 0)));
    } else if (status != CULM_OK) {
        merging_event(m, "error", json_pack("{s:o}", "message", culm_json_text(error->text)));
        if (!prepared && m->claimed && !m->options.resume) {
            merging_take_back(m);
        }
    }
    return status;
}

enum culm_status culm_merging_run(struct culm_merging *merging, struct culm_error *error) {
    struct culm_error own = {0}; /* its text is an event, whether anybody asks or not */
    if (!merging || merging->ran) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_merging_run: %s",
                              merging ? "this merge was run before" : "NULL");
    }
    merging->ran = true;
    enum culm_status status = go(merging, &own);
    if (status != CULM_OK && error) {
        *error = own;
    }
    return status;
}
