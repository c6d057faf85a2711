/*
 * `culm merge`: the models of a workload, merged into a package. See merge_commands.h.
 *
 * Round 0 is the originals. Each share that met all targets on the frames that are checked is a round of
 * its own, at once. At the end every query is measured on the frames that were held out; whose model
 * misses there goes back to its own weights, and the last round says so.
 */
#include "run/merge_commands.h"

#include "base/clock.h"
#include "base/json.h"
#include "merge/package.h"
#include "merge/search.h"
#include "run/merge_inputs.h"
#include "run/merge_kept.h"
#include "run/rundir.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define JUDGE_BATCH 4

struct culm_merging {
    struct culm_merging_options options;
    struct culm_workload workload;
    struct culm_merge_inputs in;
    struct culm_rundir dir;
    bool claimed;
    struct culm_sink *log, *watch;
    bool sink_failed; /* one of them */
    uint64_t began_ns;
    struct culm_device *device;
    struct culm_share share;
    struct culm_merge_model **models;
    struct culm_judge *judge;        /* [queries] */
    struct culm_search_query *query; /* [queries] */
    struct culm_answer **wanted;     /* [queries][frames that are checked] */
    bool *may;                       /* [models] */
    int64_t have;                    /* the round of the package that a resumed run found; -1 */
    bool have_measured;              /* that round is the last one of a run that ended */
    bool other_frames;               /* than those that the package was merged by so far */
    int64_t after;                   /* the round from which on rounds are of these frames */
    int64_t shipped;                 /* the last round */
    volatile sig_atomic_t stopped;
};

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

/* --- events --- */

static void warn(struct culm_merging *m, const char *text);

/* A sink that fails (a full disk, a reader that went away) is told of once; merging goes on. */
static void to_sink(struct culm_merging *m, struct culm_sink *sink, const json_t *all) {
    struct culm_error error = {0};
    if (sink && culm_sink_event(sink, all, &error) != CULM_OK && !m->sink_failed) {
        char text[CULM_ERROR_MAX + 16];
        m->sink_failed = true;
        snprintf(text, sizeof text, "events: %s", error.text);
        warn(m, text);
    }
}

static void event(struct culm_merging *m, const char *name, json_t *take_members) {
    json_t *all = json_pack("{s:s, s:I}", "event", name, "t_ms",
                            (json_int_t)((culm_clock_ns() - m->began_ns) / 1000000));
    if (all && take_members) {
        json_object_update(all, take_members);
        to_sink(m, m->log, all);
        to_sink(m, m->watch, all);
    }
    json_decref(all);
    json_decref(take_members);
}

/* Seconds that processors worked for this process: what a busy machine does not change. */
static double cpu_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static void warn(struct culm_merging *m, const char *text) {
    if (m->options.warning) {
        m->options.warning(m->options.ctx, text);
    }
    event(m, "warning", json_pack("{s:o}", "message", culm_json_text(text)));
}

/* The queries whose models share something. */
static json_t *sharing(const struct culm_merging *m, const struct culm_share *share) {
    json_t *list = json_array();
    for (size_t q = 0; q < m->workload.query_count; q++) {
        if (culm_share_any(share, m->in.model_of[q])) {
            json_array_append_new(list, json_string(m->workload.queries[q].name));
        }
    }
    return list;
}

static void on_attempt(void *ctx, int32_t round, int32_t group, const struct culm_search *search,
                       const char *way) {
    struct culm_merging *m = ctx;
    event(m, "try",
          json_pack("{s:I, s:i, s:o, s:I, s:s}", "round", (json_int_t)(m->after + round), "group",
                    group, "queries", sharing(m, search->share), "bytes",
                    (json_int_t)culm_share_saved(search->share), "way", way));
}

static void on_check(void *ctx, int32_t round, const struct culm_search_query *query, bool ok) {
    struct culm_merging *m = ctx;
    event(m, "check",
          json_pack("{s:I, s:s, s:f, s:b}", "round", (json_int_t)(m->after + round), "query",
                    query->name, "accuracy", query->now, "ok", ok));
}

static void on_step(void *ctx, int64_t step, int64_t steps, double loss) {
    if (step % 10 == 0 || step == steps) {
        event(ctx, "step",
              json_pack("{s:I, s:I, s:f}", "step", (json_int_t)step, "steps", (json_int_t)steps,
                        "loss", loss));
    }
}

static bool on_stop(void *ctx) { return ((struct culm_merging *)ctx)->stopped != 0; }

static double on_spent(void *ctx) {
    const struct culm_merging *m = ctx;
    const struct culm_merge_config *config = &m->workload.merge;
    const double minutes = (double)(culm_clock_ns() - m->began_ns) / 60e9;
    const double wall = config->minutes > 0 ? minutes / config->minutes : 0;
    const double cpu = config->cpu_minutes > 0 ? cpu_seconds() / 60 / config->cpu_minutes : 0;
    return wall > cpu ? wall : cpu;
}

/* --- rounds --- */

static struct culm_package_tensor tensor_of(const struct culm_merge_model *model, int32_t param) {
    const struct culm_shape *shape = &model->graph->param[param].shape;
    struct culm_package_tensor tensor = {.rank = shape->rank,
                                         .count = culm_merge_param_elements(model, param)};
    for (int32_t d = 0; d < shape->rank; d++) {
        tensor.shape[d] = shape->dim[d];
    }
    return tensor;
}

static int32_t layer_of(const struct culm_merge_model *model, int32_t param) {
    for (int32_t l = 0; l < model->layers.count; l++) {
        if (model->layers.layer[l].weight == param || model->layers.layer[l].bias == param) {
            return l;
        }
    }
    return -1;
}

static enum culm_status put_param(struct culm_merging *m, struct culm_package_round *round,
                                  struct culm_package_query *query, int32_t k, int32_t param,
                                  uint64_t *written, struct culm_error *error) {
    const struct culm_merge_model *model = m->models[k];
    struct culm_package_tensor now = tensor_of(model, param), was = now;
    uint64_t bytes[2];
    enum culm_status status;
    if ((status = culm_package_digest(&now, model->value[param], error)) ||
        (status = culm_package_digest(&was, model->original[param], error)) ||
        (status = culm_package_put(NULL, m->options.dir, &was, model->original[param], &bytes[0],
                                   error)) ||
        (status =
             culm_package_put(NULL, m->options.dir, &now, model->value[param], &bytes[1], error))) {
        return status;
    }
    *written += bytes[0] + bytes[1];
    int32_t tensor = culm_package_add_tensor(round, &now);
    int32_t original = tensor < 0 ? -1 : culm_package_add_tensor(round, &was);
    return original < 0 ? no_memory(error)
                        : culm_package_add_param(query, model->graph->param[param].name, tensor,
                                                 original, layer_of(model, param), error);
}

/* On frames that were held out. */
struct measured {
    double *original, *merged;   /* [queries] accuracies */
    double *agreed;              /* [queries] of the merged one, by what the original answers */
    struct culm_answer **wanted; /* [queries][held out] that */
};

/* Everything as it is now. `measured`: with what was measured at the end; NULL: not yet. A resumed run
 * leaves rounds alone that it finds. */
static enum culm_status publish(struct culm_merging *m, int64_t number,
                                const struct measured *measured, uint64_t *ret_written,
                                struct culm_error *error) {
    struct culm_package_round round = {.number = number};
    enum culm_status status = CULM_OK;
    *ret_written = 0;
    for (size_t q = 0; q < m->workload.query_count && status == CULM_OK; q++) {
        const struct culm_query_config *config = &m->workload.queries[q];
        int32_t k = m->in.model_of[q];
        struct culm_package_query *query = culm_package_add_query(
            &round, config->name, config->model, config->weights, m->in.identity[k]);
        if (!query) {
            status = no_memory(error);
            break;
        }
        query->target = config->target;
        query->names = config->names ? strdup(config->names) : NULL;
        query->normalized = config->normalized;
        memcpy(query->mean, config->mean, sizeof query->mean);
        memcpy(query->deviation, config->deviation, sizeof query->deviation);
        query->original = measured ? measured->original[q] : -1;
        query->merged = measured ? measured->merged[q] : -1;
        query->agreement = measured ? measured->agreed[q] : -1;
        for (int32_t p = 0; p < m->models[k]->param_count && status == CULM_OK; p++) {
            status = put_param(m, &round, query, k, p, ret_written, error);
        }
    }
    if (status == CULM_OK && number > m->have) {
        status = culm_package_publish(NULL, m->options.dir, &round, error);
    }
    m->shipped = number;
    culm_package_round_release(&round);
    return status;
}

static enum culm_status on_ship(void *ctx, int32_t round, struct culm_error *error) {
    struct culm_merging *m = ctx;
    uint64_t written;
    enum culm_status status = publish(m, m->after + round, NULL, &written, error);
    if (status == CULM_OK) {
        event(m, "merged",
              json_pack("{s:I, s:o, s:I, s:I, s:f}", "round", (json_int_t)(m->after + round),
                        "queries", sharing(m, &m->share), "saved_bytes",
                        (json_int_t)culm_share_saved(&m->share), "changed_bytes",
                        (json_int_t)written, "cpu_s", cpu_seconds()));
    }
    return status;
}

/* --- what a resumed run goes on with --- */

static enum culm_status on_keep(void *ctx, const void *data, size_t len, struct culm_error *error) {
    const struct culm_merging *m = ctx;
    return culm_merge_kept_write(m->options.dir, &m->in, data, len, error);
}

static enum culm_status on_recall(void *ctx, void **ret_data, size_t *ret_len,
                                  struct culm_error *error) {
    const struct culm_merging *m = ctx;
    *ret_data = NULL;
    *ret_len = 0;
    return m->options.resume
               ? culm_merge_kept_read(m->options.dir, &m->in, ret_data, ret_len, error)
               : CULM_OK;
}

/* --- beginning --- */

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
        return status == CULM_OK ? no_memory(error) : status;
    }
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
    event(m, "query",
          json_pack("{s:s, s:o, s:I, s:f, s:I, s:I}", "query", config->name, "model",
                    culm_json_text(config->model), "bytes", (json_int_t)bytes, "accuracy",
                    query->original, "frames", (json_int_t)check->count, "wanted",
                    (json_int_t)found));
    if (found == 0 || query->original <= 0) {
        char text[256];
        snprintf(text, sizeof text,
                 "query '%s': the original finds nothing in the frames that are checked, so %s",
                 config->name,
                 m->workload.merge.method == CULM_MERGE_MAX ? "its accuracy says nothing"
                                                            : "it stays unmerged");
        warn(m, text);
        m->may[k] = false;
    }
    return CULM_OK;
}

static enum culm_status prepare(struct culm_merging *m, struct culm_error *error) {
    const struct culm_vision_layers **layers = calloc((size_t)m->in.models + 1, sizeof *layers);
    struct culm_match match = {0};
    enum culm_status status = layers ? CULM_OK : no_memory(error);
    for (int32_t k = 0; k < m->in.models && layers; k++) {
        layers[k] = &m->in.model[k].layers;
        m->models[k] = &m->in.model[k];
        m->may[k] = true;
    }
    if (status == CULM_OK) {
        status = culm_match(layers, m->in.models, CULM_MATCH_EQUAL, &match, error);
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
    for (size_t q = 0; q < m->workload.query_count && status == CULM_OK; q++) {
        status = m->stopped ? culm_error_set(error, CULM_ERR_STOPPED, "stopped; --resume goes on")
                            : prepare_query(m, q, error);
    }
    return status;
}

/* --- the end --- */

static enum culm_status measure(struct culm_merging *m, size_t q, struct measured *to,
                                bool originals, struct culm_error *error) {
    const struct culm_merge_frames *held = &m->in.set[m->in.set_of[q]].part[CULM_MERGE_HELD];
    struct culm_merge_model *model = m->models[m->in.model_of[q]];
    enum culm_status status = CULM_OK;
    if (originals) {
        to->wanted[q] = calloc((size_t)held->count + 1, sizeof **to->wanted);
        status = to->wanted[q]
                     ? culm_judge_answer(&m->judge[q], model->original, held, to->wanted[q], error)
                     : no_memory(error);
    }
    return status == CULM_OK
               ? culm_judge_now(&m->judge[q], originals ? model->original : model->value, held,
                                to->wanted[q], originals ? &to->original[q] : &to->merged[q], error)
               : status;
}

/* What the edge compares with where nobody tells it what is right. */
static enum culm_status measure_agreement(struct culm_merging *m, size_t q, struct measured *to,
                                          struct culm_error *error) {
    struct culm_merge_frames held = m->in.set[m->in.set_of[q]].part[CULM_MERGE_HELD];
    to->agreed[q] = to->merged[q];
    if (!held.label && !held.right) {
        return CULM_OK; /* it is the same */
    }
    held.label = NULL;
    held.right = NULL;
    return culm_judge_now(&m->judge[q], m->models[m->in.model_of[q]]->value, &held, to->wanted[q],
                          &to->agreed[q], error);
}

/* Which models miss a target on what was held out go back to their own numbers. */
static enum culm_status keep_promise(struct culm_merging *m, struct measured *to,
                                     struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (size_t q = 0; q < m->workload.query_count && status == CULM_OK; q++) {
        if (!(status = measure(m, q, to, true, error))) {
            status = measure(m, q, to, false, error);
        }
    }
    for (size_t q = 0; q < m->workload.query_count && status == CULM_OK; q++) {
        const struct culm_query_config *config = &m->workload.queries[q];
        const struct culm_accuracy *accuracy = m->judge[q].accuracy;
        bool nothing = culm_accuracy_wanted(accuracy) == 0 || to->original[q] <= 0;
        bool ok = !nothing && to->merged[q] >= config->target * to->original[q];
        if (!ok && (!nothing || culm_share_any(&m->share, m->in.model_of[q])) &&
            m->workload.merge.method != CULM_MERGE_MAX) {
            char text[256];
            if (nothing) {
                snprintf(text, sizeof text,
                         "query '%s': the original finds nothing in the frames that merging has "
                         "not seen, so it ships unmerged",
                         config->name);
            } else {
                snprintf(
                    text, sizeof text,
                    "query '%s': %.4f of %.4f on frames that merging has not seen, so it ships "
                    "unmerged",
                    config->name, to->merged[q], to->original[q]);
            }
            warn(m, text);
            culm_share_leave(&m->share, m->in.model_of[q]);
        }
    }
    for (int32_t k = 0; k < m->in.models && status == CULM_OK; k++) {
        if (!culm_share_any(&m->share, k)) {
            culm_merge_model_revert(m->models[k]);
        }
    }
    for (size_t q = 0; q < m->workload.query_count && status == CULM_OK; q++) {
        status = measure(m, q, to, false, error);
        status = status ? status : measure_agreement(m, q, to, error);
    }
    return status;
}

static enum culm_status finish(struct culm_merging *m, struct culm_error *error) {
    size_t count = m->workload.query_count;
    struct measured to = {.original = calloc(count + 1, sizeof *to.original),
                          .merged = calloc(count + 1, sizeof *to.merged),
                          .agreed = calloc(count + 1, sizeof *to.agreed),
                          .wanted = calloc(count + 1, sizeof *to.wanted)};
    enum culm_status status = to.original && to.merged && to.agreed && to.wanted
                                  ? keep_promise(m, &to, error)
                                  : no_memory(error);
    uint64_t written;
    int64_t number = m->shipped + 1;
    if (number <= m->have && !m->have_measured) { /* fewer rounds than before it was stopped */
        number = m->have + 1;
    }
    if (status == CULM_OK) {
        status = publish(m, number, &to, &written, error);
    }
    if (status == CULM_OK) {
        int64_t total = m->share.match.total_bytes, saved = culm_share_saved(&m->share);
        json_t *queries = json_array();
        for (size_t q = 0; q < count; q++) {
            json_array_append_new(queries,
                                  json_pack("{s:s, s:f, s:f, s:f, s:f}", "query",
                                            m->workload.queries[q].name, "original", to.original[q],
                                            "merged", to.merged[q], "agreement", to.agreed[q],
                                            "target", m->workload.queries[q].target));
        }
        event(m, "done",
              json_pack("{s:I, s:I, s:f, s:I, s:I, s:f, s:o}", "bytes", (json_int_t)total,
                        "distinct_bytes", (json_int_t)(total - saved), "saved",
                        total > 0 ? (double)saved / (double)total : 0.0, "possible_bytes",
                        (json_int_t)m->share.match.saved_bytes, "round", (json_int_t)m->shipped,
                        "cpu_s", cpu_seconds(), "queries", queries));
    }
    for (size_t q = 0; q < count && to.wanted; q++) {
        const struct culm_merge_frames *held = &m->in.set[m->in.set_of[q]].part[CULM_MERGE_HELD];
        for (int64_t i = 0; i < held->count && to.wanted[q]; i++) {
            culm_answer_release(&to.wanted[q][i]);
        }
        free(to.wanted[q]);
    }
    free(to.original);
    free(to.merged);
    free(to.agreed);
    free(to.wanted);
    return status;
}

/* --- the whole --- */

/* A package that is there goes on only with the models and the method that it began with. */
static enum culm_status same_workload(struct culm_merging *m, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_workload before;
    struct culm_config_difference d;
    enum culm_status status = culm_path_format(path, error, "%s/config.yaml", m->options.dir);
    if (status == CULM_OK) {
        status = culm_workload_load(path, NULL, 0, &before, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (culm_config_differ(&culm_workload_table, &before, &m->workload, CULM_CONFIG_RESUMABLE,
                           &d)) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s' was begun with %s: %s, and --resume goes on with the same, "
                                "not with %s",
                                m->options.dir, d.key, d.a, d.b);
    }
    m->other_frames = !culm_workload_same_frames(&before, &m->workload);
    culm_workload_release(&before);
    return status;
}

enum culm_status culm_merging_new(const struct culm_merging_options *options,
                                  struct culm_merging **ret_merging, struct culm_error *error) {
    struct culm_merging *m = calloc(1, sizeof *m);
    enum culm_status status;
    if (!m) {
        return no_memory(error);
    }
    m->options = *options;
    m->have = -1;
    m->began_ns = culm_clock_ns();
    status = culm_workload_load(options->workload, options->sets, options->set_count, &m->workload,
                                error);
    if (status != CULM_OK) {
        free(m);
        return status;
    }
    size_t count = m->workload.query_count + 1;
    m->models = calloc(count, sizeof *m->models);
    m->judge = calloc(count, sizeof *m->judge);
    m->query = calloc(count, sizeof *m->query);
    m->wanted = calloc(count, sizeof *m->wanted);
    m->may = calloc(count, sizeof *m->may);
    if (!m->models || !m->judge || !m->query || !m->wanted || !m->may) {
        status = no_memory(error);
    } else if (!(status = culm_workload_need_feeds(&m->workload, options->workload, error)) &&
               !(status = culm_rundir_check(options->dir, options->resume, error)) &&
               (!options->resume || !(status = same_workload(m, error)))) {
        status = culm_merge_inputs_open(&m->workload, false, &m->in, error);
    }
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

void culm_merging_stop(struct culm_merging *m) { m->stopped = 1; }

/* Where rounds by other frames began: DIR/after, which is not there while there were no others. */
static enum culm_status read_after(struct culm_merging *m, struct culm_error *error) {
    char path[CULM_PATH_MAX], *text = NULL, *end = NULL;
    size_t len;
    enum culm_status status = culm_path_format(path, error, "%s/after", m->options.dir);
    if (status == CULM_OK) {
        status = culm_file_read(NULL, path, 64, &text, &len, error);
    }
    if (status == CULM_OK) {
        m->after = strtoll(text, &end, 10);
        if (end == text || strcmp(end, "\n") != 0 || m->after < 0 || m->after > INT32_MAX / 2) {
            status =
                culm_error_set(error, CULM_ERR_FORMAT,
                               "'%s': not the number of a round; copy the package again", path);
        }
    }
    free(text);
    return status == CULM_ERR_NOT_FOUND ? CULM_OK : status;
}

/* Other frames: rounds go on from the one that counts, and nothing is left of the search by the others. */
static enum culm_status write_after(struct culm_merging *m, struct culm_error *error) {
    char path[CULM_PATH_MAX], text[32];
    int len = snprintf(text, sizeof text, "%" PRId64 "\n", m->after);
    enum culm_status status = culm_path_format(path, error, "%s/after", m->options.dir);
    if (status == CULM_OK) {
        status = culm_file_replace(NULL, path, text, (size_t)len, error);
    }
    return status == CULM_OK ? culm_merge_kept_forget(m->options.dir, error) : status;
}

/* A model whose file has changed since is another one: its numbers are not those of the package. */
static enum culm_status same_models(const struct culm_merging *m,
                                    const struct culm_package_round *round,
                                    struct culm_error *error) {
    for (size_t q = 0; q < m->workload.query_count; q++) {
        const struct culm_query_config *query = &m->workload.queries[q];
        int32_t there = culm_package_query_find(round, query->name);
        if (there < 0 || strcmp(round->query[there].identity, m->in.identity[m->in.model_of[q]])) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "query '%s': '%s' has other weights than when '%s' was begun; "
                                  "put them back, or choose another --out",
                                  query->name, query->model, m->options.dir);
        }
    }
    return CULM_OK;
}

/* Finds the round that counts, and from which on rounds are of these frames. */
static enum culm_status find_rounds(struct culm_merging *m, struct culm_error *error) {
    struct culm_package_round round;
    struct culm_error none = {0};
    enum culm_status status = CULM_OK;
    if (!m->options.resume) {
        return CULM_OK;
    }
    if (culm_package_open(m->options.dir, &round, &none) == CULM_OK) {
        m->have = round.number;
        m->have_measured = round.query_count > 0 && round.query[0].merged >= 0;
        status = same_models(m, &round, error);
        culm_package_round_release(&round);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (m->other_frames) {
        m->after = m->have > 0 ? m->have : 0;
        return CULM_OK;
    }
    return read_after(m, error);
}

static enum culm_status write_config(struct culm_merging *m, struct culm_error *error) {
    char *text = culm_config_dump_text(&culm_workload_table, &m->workload);
    enum culm_status status = text ? culm_rundir_begin(&m->dir, text, error) : no_memory(error);
    free(text);
    return status;
}

static enum culm_status claim(struct culm_merging *m, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_rundir_claim(m->options.dir, m->options.resume, &m->dir, error);
    if (status != CULM_OK) {
        return status;
    }
    m->claimed = true;
    if (!(status = find_rounds(m, error)) && !m->options.resume) {
        status = write_config(m, error);
    }
    if (status == CULM_OK && !(status = culm_package_make(NULL, m->options.dir, error)) &&
        !(status = culm_path_format(path, error, "%s/events.jsonl", m->options.dir))) {
        status = culm_sink_jsonl_open(path, &m->log, error);
    }
    return status;
}

/* Feeds can be read. What a resumed run is about is written now: with a feed that is wrong all stays as it
 * was. config.yaml last: till then the frames are other ones. */
static enum culm_status begin(struct culm_merging *m, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    if (m->options.resume && m->other_frames) {
        status = write_after(m, error);
    }
    return status == CULM_OK && m->options.resume ? write_config(m, error) : status;
}

/* A run that was not resumed and has not come as far as a package leaves nothing. */
static void take_back(struct culm_merging *m) {
    static const char *const folders[] = {"tensors", "rounds"};
    char path[CULM_PATH_MAX];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (culm_path_format(path, NULL, "%s/%s", m->options.dir, folders[i]) == CULM_OK) {
            (void)rmdir(path);
        }
    }
    culm_rundir_take_back(&m->dir);
    m->claimed = false;
}

enum culm_status culm_merging_go(struct culm_merging *m, struct culm_error *error) {
    static const struct culm_search_ops ops = {.attempt = on_attempt,
                                               .check = on_check,
                                               .ship = on_ship,
                                               .step = on_step,
                                               .stop = on_stop,
                                               .spent = on_spent,
                                               .keep = on_keep,
                                               .recall = on_recall};
    uint64_t written;
    enum culm_status status = claim(m, error);
    if (status == CULM_OK) {
        event(m, "start",
              json_pack("{s:s, s:s, s:s, s:b, s:I}", "job", "merge", "run", m->options.dir,
                        "method", culm_merge_method_names[m->workload.merge.method], "resumed",
                        m->options.resume, "after", (json_int_t)m->after));
        status = prepare(m, error);
    }
    bool prepared = status == CULM_OK;
    status = prepared ? begin(m, error) : status;
    m->shipped = m->after;
    if (status == CULM_OK && m->after == 0) {
        status = publish(m, 0, NULL, &written, error);
    }
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
                                     .ctx = m};
        status = culm_search(&search, error);
        m->shipped = m->after + search.round; /* which another process may have shipped */
    }
    if (status == CULM_OK && !(status = finish(m, error))) {
        status = culm_merge_kept_forget(m->options.dir, error);
    }
    if (status == CULM_ERR_STOPPED) {
        event(m, "stopped", json_pack("{s:I}", "round", (json_int_t)m->shipped));
    } else if (status != CULM_OK) {
        event(m, "error", json_pack("{s:o}", "message", culm_json_text(error->text)));
        if (!prepared && m->claimed && !m->options.resume) {
            take_back(m);
        }
    }
    return status;
}
