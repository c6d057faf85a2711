/* The events of a merge. */
#include "run/merge_internal.h"

#include "base/clock.h"
#include "base/json.h"

#include <stdio.h>
#include <time.h>

/* A sink that fails (a full disk, a reader that has gone) is reported once; merging goes on. */
static void to_sink(struct culm_merging *m, struct culm_sink *sink, const json_t *all) {
    struct culm_error error = {0};
    if (sink && culm_sink_event(sink, all, &error) != CULM_OK && !m->sink_failed) {
        char text[CULM_ERROR_MAX + 16];
        m->sink_failed = true;
        snprintf(text, sizeof text, "events: %s", error.text);
        merging_warn(m, text);
    }
}

void merging_event(struct culm_merging *m, const char *name, json_t *take_members) {
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

double merging_cpu_s(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

void merging_warn(struct culm_merging *m, const char *text) {
    if (m->options.warning) {
        m->options.warning(m->options.context, text);
    }
    merging_event(m, "warning", json_pack("{s:o}", "message", culm_json_text(text)));
}

json_t *merging_sharing(const struct culm_merging *m, const struct culm_share *share) {
    json_t *list = json_array();
    for (size_t q = 0; q < m->workload.query_count; q++) {
        if (culm_share_any(share, m->in.model_of[q])) {
            json_array_append_new(list, json_string(m->workload.queries[q].name));
        }
    }
    return list;
}

void merging_tell_attempt(void *ctx, int32_t round, int32_t group, const struct culm_search *search,
                          const char *way) {
    struct culm_merging *m = ctx;
    merging_event(m, "try",
                  json_pack("{s:I, s:i, s:o, s:I, s:s}", "round",
                            (json_int_t)merging_number(m, round), "group", group, "queries",
                            merging_sharing(m, search->share), "bytes",
                            (json_int_t)culm_share_saved(search->share), "way", way));
}

void merging_tell_check(void *ctx, int32_t round, const struct culm_search_query *query, bool ok) {
    struct culm_merging *m = ctx;
    merging_event(m, "check",
                  json_pack("{s:I, s:s, s:f, s:b}", "round", (json_int_t)merging_number(m, round),
                            "query", query->name, "accuracy", query->now, "ok", ok));
}

void merging_tell_step(void *ctx, int64_t step, int64_t steps, double loss) {
    if (step % 10 == 0 || step == steps) {
        merging_event(ctx, "step",
                      json_pack("{s:I, s:I, s:f}", "step", (json_int_t)step, "steps",
                                (json_int_t)steps, "loss", loss));
    }
}
