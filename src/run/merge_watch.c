/* Merging that goes on by itself. See merge_watch.h. */
#include "run/merge_watch.h"

#include "base/clock.h"
#include "base/json.h"
#include "edge/plan.h"
#include "launch/rundir.h"
#include "query/config.h"
#include "query/feeds.h"
#include "query/package.h"
#include "run/launches.h"
#include "run/merge_inputs.h"
#include "run/merge_mix.h"
#include "run/merge_watch_run.h"
#include "run/merge_watch_workload.h"

#include <culm/merge.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 500
#define REST_LEAST_NS (UINT64_C(10) * 1000000000) /* between two merges */
#define REST_MOST_NS (UINT64_C(3600) * 1000000000)
#define FRAMES_ENOUGH 64 /* of drift, to merge with */
#define FRAMES_LEAST 16  /* if no more come */
#define FRAMES_WAIT_NS (UINT64_C(60) * 1000000000)

struct culm_merge_watch {
    char package[CULM_PATH_MAX], folder[CULM_PATH_MAX]; /* folder: PACKAGE/watch */
    struct culm_rundir lock;
    bool locked;
    struct merge_watched run;
    struct culm_sink *sink;
    void (*warning)(void *context, const char *text);
    void *context;
    atomic_bool stopped;
    _Atomic(struct culm_merging *) merging; /* for who stops it */
    bool due;                               /* the workload is to be looked at */
    uint64_t rest_until_ns, rest_ns;
    uint64_t began_ns;
};

/* --- what it says --- */

static void warn(const struct culm_merge_watch *w, const char *text) {
    w->warning(w->context, text);
}

static void tell(struct culm_merge_watch *w, const char *name, json_t *take_members) {
    json_t *event = json_pack("{s:s, s:I}", "event", name, "t_ms",
                              (json_int_t)((culm_clock_ns() - w->began_ns) / 1000000));
    struct culm_error ignored;
    if (event && take_members) {
        json_object_update(event, take_members);
        (void)culm_sink_event(w->sink, event, &ignored); /* who reads it may have gone */
    }
    json_decref(event);
    json_decref(take_members);
}

/* --- beginning --- */

static enum culm_status lock(struct culm_merge_watch *w, struct culm_error *error) {
    enum culm_status status = culm_path_format(w->folder, error, "%s/watch", w->package);
    status = status ? status : culm_dir_make(NULL, w->folder, error);
    status = status ? status : culm_rundir_claim_held(w->folder, &w->lock, error);
    if (status == CULM_ERR_EXISTS) {
        return culm_error_set(error, status,
                              "package '%s': another 'culm merge --watch' (pid %lld) is at work on "
                              "it; end that one first",
                              w->package, (long long)culm_rundir_pid(w->folder));
    }
    w->locked = status == CULM_OK;
    return status;
}

static enum culm_status check_package(const char *package, struct culm_error *error) {
    struct culm_package_round round;
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_package_open(package, &round, error);
    if (status == CULM_ERR_NOT_FOUND) {
        return culm_error_set(
            error, status, "'%s' is no package: there is no '%s/current'; 'culm merge' makes one",
            package, package);
    }
    culm_package_round_release(&round);
    status = status ? status : culm_path_format(path, error, "%s/config.yaml", package);
    if (status == CULM_OK && !culm_file_is_regular(path)) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "package '%s' has no config.yaml, so it is a copy; watch the one "
                                "that 'culm merge' has written",
                                package);
    }
    return status;
}

enum culm_status culm_merge_watch_new(const char *package, const char *run,
                                      void (*warning)(void *context, const char *text),
                                      void *context, struct culm_merge_watch **ret_watch,
                                      struct culm_error *error) {
    struct culm_merge_watch *w = calloc(1, sizeof *w);
    if (!w) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for watching");
    }
    w->run.log = -1;
    w->warning = warning;
    w->context = context;
    w->began_ns = culm_clock_ns();
    enum culm_status status = culm_path_format(w->package, error, "%s", package);
    status = status ? status : check_package(package, error);
    status = status ? status : merge_watched_open(run, &w->run, error);
    status = status ? status : lock(w, error);
    if (status != CULM_OK) {
        culm_merge_watch_free(w);
        return status;
    }
    *ret_watch = w;
    return CULM_OK;
}

void culm_merge_watch_free(struct culm_merge_watch *w) {
    if (w) {
        merge_watched_release(&w->run);
        if (w->locked) {
            culm_rundir_release(&w->lock);
        }
        free(w);
    }
}

void culm_merge_watch_stop(struct culm_merge_watch *w) {
    if (w) {
        w->stopped = true;
        culm_merging_stop(w->merging);
    }
}

static bool is_stopped(const void *ctx) { return ((const struct culm_merge_watch *)ctx)->stopped; }

/* --- after a merge --- */

/* Which rounds are kept: the current one, the one that this merge went on from, and the run's. Frames that
 * the package's workload does not name are removed, too. */
static enum culm_status prune(struct culm_merge_watch *w, struct culm_error *error) {
    char path[CULM_PATH_MAX], *text = NULL;
    struct culm_rundir held;
    struct culm_package_pruned pruned = {0};
    size_t len;
    bool changed = false;
    enum culm_status status =
        merge_watched_look(&w->run, &changed, error); /* it may use another one by now */
    w->due |= changed;
    int64_t keep[] = {w->run.round, -1};
    status = status ? status : culm_rundir_claim_held(w->package, &held, error);
    if (status != CULM_OK) {
        return status;
    }
    if (culm_path_format(path, NULL, "%s/after", w->package) == CULM_OK &&
        culm_file_read(NULL, path, (size_t)1 << 20, &text, &len, NULL) == CULM_OK) {
        keep[1] = strtoll(text, NULL, 10);
        free(text);
    }
    status = culm_package_prune(NULL, w->package, keep, sizeof keep / sizeof *keep, &pruned, error);
    status = status ? status : merge_watch_prune_frames(w->package, w->folder, error);
    culm_rundir_release(&held);
    if (status == CULM_OK && pruned.rounds + pruned.tensors > 0) {
        tell(w, "pruned",
             json_pack("{s:I, s:I, s:I}", "rounds", (json_int_t)pruned.rounds, "tensors",
                       (json_int_t)pruned.tensors, "bytes", (json_int_t)pruned.bytes));
    }
    return status;
}

/* --- merging --- */

/* Whether there are frames enough of a query to merge with. */
static bool is_ready(const struct merge_drifted *drifted, uint64_t now) {
    const int64_t count = culm_merge_mix_count(drifted->frames);
    return count >= FRAMES_ENOUGH ||
           (count >= FRAMES_LEAST && now - drifted->since_ns > FRAMES_WAIT_NS);
}

/* Whether a query sees what another one that has drifted sees: the same frames so far, at the same
 * size, and no labels, which new frames do not have. */
static bool sees_as(const struct culm_workload *workload, const struct culm_merge_inputs *in,
                    int32_t drifted, int32_t q) {
    const struct culm_query_config *a = &workload->queries[drifted], *b = &workload->queries[q];
    const struct culm_vision_input *x = &in->vision[in->model_of[drifted]]->input;
    const struct culm_vision_input *y = &in->vision[in->model_of[q]]->input;
    return q == drifted ||
           (a->feed_index == b->feed_index && !b->labels && culm_vision_same_bytes(x, y));
}

/* Mixes frames for a query that has drifted, and for those that see the same. */
static enum culm_status mix_one(struct culm_merge_watch *w, struct culm_workload *workload,
                                const struct culm_merge_inputs *in,
                                const struct merge_drifted *drifted, struct culm_error *error) {
    const struct culm_stop stop = {is_stopped, w};
    const int32_t number = culm_workload_find(workload, drifted->query);
    bool sees[CULM_EDGE_QUERIES_MAX] = {0};
    char path[CULM_PATH_MAX];
    struct culm_merge_mixed mixed;
    if (number < 0) { /* it is gone meanwhile */
        return CULM_OK;
    }
    const struct culm_feed_config *old = &workload->feeds[workload->queries[number].feed_index];
    enum culm_status status =
        merge_watch_frames_path(w->folder, drifted->query, old->file, path, error);
    status = status ? status
                    : culm_merge_mix(old, drifted->frames, &in->vision[in->model_of[number]]->input,
                                     path, &stop, &mixed, error);
    json_t *others = json_array();
    for (size_t q = 0; q < workload->query_count && q < CULM_EDGE_QUERIES_MAX; q++) {
        sees[q] = status == CULM_OK && sees_as(workload, in, number, (int32_t)q);
    }
    for (size_t q = 0; q < workload->query_count && q < CULM_EDGE_QUERIES_MAX; q++) {
        if (sees[q] && status == CULM_OK) {
            status = merge_watch_set_feed(workload, q, path, error);
            json_array_append_new(others, json_string(workload->queries[q].name));
        }
    }
    if (status == CULM_OK) {
        tell(w, "remerge",
             json_pack("{s:s, s:s, s:O, s:I, s:I}", "why", "drift", "query", drifted->query,
                       "queries", others, "old_frames", (json_int_t)mixed.old_frames, "new_frames",
                       (json_int_t)mixed.new_frames));
    }
    json_decref(others);
    return status;
}

static enum culm_status mix(struct culm_merge_watch *w, struct culm_workload *workload,
                            const bool *ready, struct culm_error *error) {
    struct culm_merge_inputs in;
    enum culm_status status = culm_merge_inputs_open(workload, true, &in, error);
    for (size_t i = 0; i < w->run.drifted_count && status == CULM_OK; i++) {
        status = ready[i] ? mix_one(w, workload, &in, &w->run.drifted[i], error) : CULM_OK;
    }
    culm_merge_inputs_release(&in);
    return status;
}

static enum culm_status run_merge(struct culm_merge_watch *w, const struct culm_workload *workload,
                                  bool drifted, bool *ret_merged, struct culm_error *error) {
    struct culm_config *config = NULL;
    struct culm_merging *merging = NULL;
    const struct culm_merging_options how = {.size = sizeof how,
                                             .dir = w->package,
                                             .resume = true,
                                             .warning = w->warning,
                                             .context = w->context};
    char *text = culm_config_dump_text(&culm_workload_table, workload);
    enum culm_status status = text
                                  ? culm_config_read(text, strlen(text), w->package, &config, error)
                                  : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    free(text);
    status = status ? status : culm_merging_new(config, &how, &merging, error);
    if (status == CULM_OK && (drifted || !culm_merging_is_settled(merging))) {
        if (!drifted) {
            tell(w, "remerge", json_pack("{s:s}", "why", "queries"));
        }
        w->merging = merging;
        if (w->stopped) {
            culm_merging_stop(merging);
        }
        culm_merging_watch(merging, w->sink);
        *ret_merged = true;
        status = culm_merging_run(merging, error);
        w->merging = NULL;
        culm_merging_free(merging);
        merging = NULL;
        status = status ? status : prune(w, error);
    }
    culm_merging_free(merging);
    culm_config_free(config);
    return status;
}

/* Merges, if there is anything to merge. */
static enum culm_status merge(struct culm_merge_watch *w, const bool *ready, bool drifted,
                              bool *ret_merged, struct culm_error *error) {
    struct culm_workload workload;
    enum culm_status status =
        merge_watch_workload(w->package, w->run.dir, w->warning, w->context, &workload, error);
    if (status != CULM_OK) {
        return status;
    }
    status = merge_watch_prune_frames(w->package, w->folder, error); /* of what came to nothing */
    status = status || !drifted ? status : mix(w, &workload, ready, error);
    status = status ? status : run_merge(w, &workload, drifted, ret_merged, error);
    culm_workload_release(&workload);
    return status;
}

static void go(struct culm_merge_watch *w, const bool *ready, bool drifted) {
    const uint64_t began = culm_clock_ns();
    struct culm_error error;
    bool merged = false;
    const enum culm_status status = merge(w, ready, drifted, &merged, &error);
    if (w->stopped) {
        return;
    }
    const uint64_t now = culm_clock_ns();
    if (status == CULM_OK) {
        for (size_t i = w->run.drifted_count; i-- > 0;) { /* the last one takes a place */
            if (ready[i]) {
                merge_watched_forget(&w->run, w->run.drifted[i].query);
            }
        }
        w->due = false;
        w->rest_ns = now - began;
    } else {
        char text[CULM_ERROR_MAX + 64];
        w->rest_ns = 2 * (w->rest_ns > REST_LEAST_NS / 2 ? w->rest_ns : REST_LEAST_NS / 2);
        w->rest_ns = w->rest_ns < REST_MOST_NS ? w->rest_ns : REST_MOST_NS;
        snprintf(text, sizeof text, "%s; tried again in %" PRIu64 " s", error.text,
                 w->rest_ns / 1000000000);
        warn(w, text);
    }
    const uint64_t rest = w->rest_ns > REST_LEAST_NS ? w->rest_ns : REST_LEAST_NS;
    w->rest_until_ns = status == CULM_OK && !merged ? 0 : now + rest;
}

enum culm_status culm_merge_watch_run(struct culm_merge_watch *w, struct culm_sink *sink,
                                      struct culm_error *error) {
    static const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    enum culm_status status = CULM_OK;
    w->sink = sink;
    w->due = true;
    tell(w, "watching", json_pack("{s:s, s:s}", "package", w->package, "run", w->run.dir));
    while (status == CULM_OK && !w->stopped) {
        bool changed = false, drifted = false, *ready = NULL;
        status = merge_watched_look(&w->run, &changed, error);
        w->due |= changed;
        const uint64_t now = culm_clock_ns();
        if (status == CULM_OK && now >= w->rest_until_ns &&
            (ready = calloc(w->run.drifted_count + 1, sizeof *ready))) {
            for (size_t i = 0; i < w->run.drifted_count; i++) {
                ready[i] = is_ready(&w->run.drifted[i], now);
                drifted |= ready[i];
            }
            if (drifted || w->due) {
                go(w, ready, drifted);
            }
        }
        free(ready);
        if (status == CULM_OK && !w->stopped) {
            (void)nanosleep(&pause, NULL);
        }
    }
    return status;
}
