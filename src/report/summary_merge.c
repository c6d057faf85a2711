/* What each event of `culm merge` and `culm edge run` adds to a summary, and the lines of that. See
 * merge.h. */
#include "report/merge.h"
#include "report/page.h"

#include <string.h>

/* --- merge --- */

enum { QUERIES, MERGED, ROUNDS, BYTES, DISTINCT };
enum { SAVED };

static enum culm_status add_merge_done(struct culm_summary *s, const json_t *event,
                                       struct culm_error *error) {
    const json_t *queries = json_object_get(event, "queries"), *query;
    size_t i;
    s->own_counts[QUERIES] = (int64_t)json_array_size(queries);
    s->own_counts[MERGED] = 0;
    json_array_foreach(queries, i, query) {
        s->own_counts[MERGED] += json_is_number(json_object_get(query, "merged"));
    }
    s->own_counts[BYTES] = culm_event_int(event, "bytes", 0);
    s->own_counts[DISTINCT] = culm_event_int(event, "distinct_bytes", 0);
    s->own_figures[SAVED] = culm_event_real(event, "saved", 0);
    return culm_summary_add_done(s, event, error);
}

static const struct culm_summary_row merge_rows[] = {
    {"start", .add = culm_summary_add_start},
    {"done", .add = add_merge_done},
    {"error", .add = culm_summary_add_error},
    {"merged", .count = offsetof(struct culm_summary, own_counts) + ROUNDS * sizeof(int64_t)},
    {0},
};

static bool saved(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%.1f %% of what %lld queries take: %.2f MB in place of %.2f MB",
             100 * s->own_figures[SAVED], (long long)s->own_counts[QUERIES],
             (double)s->own_counts[DISTINCT] / 1e6, (double)s->own_counts[BYTES] / 1e6);
    return s->done;
}

static bool rounds(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%lld", (long long)s->own_counts[ROUNDS]);
    return true;
}

static const struct culm_summary_line merge_lines[] = {
    {"saved", saved},
    {"rounds shipped", rounds},
    {0},
};

static const struct culm_page_chart merge_charts[] = {
    {.title = "Saved",
     .y_label = "MB",
     .steps = true,
     .from_zero = true,
     .holds = true,
     .line = {{"merged", "saved_bytes", "saved", NULL, 1e-6}}},
    {.title = "Accuracy when it was checked",
     .y_label = "%",
     .line = {{"check", "accuracy", NULL, "query", 100}}},
    {0},
};
static const struct culm_page_column merge_columns[] = {
    {"query", "query", 0, ""},
    {"original", "original", 100, " %"},
    {"merged", "merged", 100, " %"},
    {"target", "target", 100, " % of it"},
    {0},
};
static const char *const merge_notes[] = {"held", "warning", "error", "stopped", NULL};
static const struct culm_page_look merge_page = {merge_charts, merge_columns, merge_notes, true};

const struct culm_summary_job culm_summary_merge = {
    "round", merge_rows, merge_lines, "merge", &merge_page, culm_goodput_rounds, NULL, NULL};

/* --- edge --- */

enum {
    FRAMES,
    PROCESSED,
    RESIDENT,
    LIMIT,
    LOADED,
    EVICTED,
    CHECKS,
    WATCHED,
    REVERTED,
    RETURNED,
    ROUND,
    PACKED,
    PACKED_ONCE
};
enum { LOAD_SHARE, SAVED_IN_FORCE };

/* Notes what the package saves with the round in force from now on. */
static enum culm_status add_round(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    const json_t *package = json_object_get(event, "package");
    (void)error;
    if (json_is_object(package)) {
        s->own_counts[ROUND] = culm_event_int(event, "round", 0);
        s->own_counts[PACKED] = culm_event_int(package, "bytes", 0);
        s->own_counts[PACKED_ONCE] = culm_event_int(package, "distinct_bytes", 0);
    }
    return CULM_OK;
}

static enum culm_status add_edge_start(struct culm_summary *s, const json_t *event,
                                       struct culm_error *error) {
    enum culm_status status = add_round(s, event, error);
    return status ? status : culm_summary_add_start(s, event, error);
}

static enum culm_status add_edge_done(struct culm_summary *s, const json_t *event,
                                      struct culm_error *error) {
    const json_t *query;
    size_t i;
    s->own_counts[FRAMES] = s->own_counts[PROCESSED] = 0;
    json_array_foreach(json_object_get(event, "queries"), i, query) {
        s->own_counts[FRAMES] += culm_event_int(query, "frames", 0);
        s->own_counts[PROCESSED] += culm_event_int(query, "processed", 0);
    }
    s->own_counts[RESIDENT] = culm_event_int(event, "resident_max_bytes", 0);
    s->own_counts[LIMIT] = culm_event_int(event, "limit_bytes", 0);
    s->own_figures[LOAD_SHARE] = culm_event_real(event, "load_share", 0);
    s->own_figures[SAVED_IN_FORCE] = culm_event_real(event, "saved", -1);
    return culm_summary_add_done(s, event, error);
}

static enum culm_status add_load(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    (void)error;
    s->own_counts[LOADED] += culm_event_int(event, "bytes", 0);
    return CULM_OK;
}

static enum culm_status add_evict(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    (void)error;
    s->own_counts[EVICTED] += culm_event_int(event, "bytes", 0);
    return CULM_OK;
}

static enum culm_status add_drift(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    const char *action = culm_event_text(event, "action", "");
    (void)error;
    s->own_counts[CHECKS]++;
    s->own_counts[WATCHED] += strcmp(action, "watched") == 0;
    s->own_counts[REVERTED] += strcmp(action, "reverted") == 0;
    s->own_counts[RETURNED] += strcmp(action, "returned") == 0;
    return CULM_OK;
}

static const struct culm_summary_row edge_rows[] = {
    {"start", .add = add_edge_start}, {"round", .add = add_round},
    {"done", .add = add_edge_done},   {"error", .add = culm_summary_add_error},
    {"load", .add = add_load},        {"evict", .add = add_evict},
    {"drift", .add = add_drift},      {0},
};

static bool frames(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%lld of %lld answered in time (%.1f %%)",
             (long long)s->own_counts[PROCESSED], (long long)s->own_counts[FRAMES],
             s->own_counts[FRAMES] > 0
                 ? 100.0 * (double)s->own_counts[PROCESSED] / (double)s->own_counts[FRAMES]
                 : 0.0);
    return s->done;
}

static bool memory(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "at most %.2f MB of %.2f MB", (double)s->own_counts[RESIDENT] / 1e6,
             (double)s->own_counts[LIMIT] / 1e6);
    return s->done;
}

static bool packed(const struct culm_summary *s, char *ret_text, size_t size) {
    double bytes = (double)s->own_counts[PACKED], once = (double)s->own_counts[PACKED_ONCE];
    snprintf(ret_text, size,
             "%.1f %% saved of the layers of what was merged: %.2f MB in place of %.2f MB (round "
             "%lld)",
             bytes > 0 ? 100 * (bytes - once) / bytes : 0, once / 1e6, bytes / 1e6,
             (long long)s->own_counts[ROUND]);
    return bytes > 0;
}

/* What the layouts of the run really had, since queries may run on their own weights. */
static bool in_force(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%.1f %% of the weights that queries ran on, on average over the run",
             100 * s->own_figures[SAVED_IN_FORCE]);
    return s->done && s->own_counts[PACKED] > 0 && s->own_figures[SAVED_IN_FORCE] >= 0;
}

static bool loading(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size,
             "%.2f MB loaded, %.2f MB evicted; %.1f %% of the time was spent waiting",
             (double)s->own_counts[LOADED] / 1e6, (double)s->own_counts[EVICTED] / 1e6,
             100 * s->own_figures[LOAD_SHARE]);
    return true;
}

/* What checks found: most find no drift. */
static bool drift(const struct culm_summary *s, char *ret_text, size_t size) {
    const int64_t checks = s->own_counts[CHECKS], watched = s->own_counts[WATCHED];
    const int64_t reverted = s->own_counts[REVERTED], returned = s->own_counts[RETURNED];
    int used =
        snprintf(ret_text, size, "%lld check%s: %lld without drift, %lld watched, %lld reverted",
                 (long long)checks, checks == 1 ? "" : "s",
                 (long long)(checks - watched - reverted - returned), (long long)watched,
                 (long long)reverted);
    if (returned > 0 && used > 0 && (size_t)used < size) {
        snprintf(ret_text + used, size - (size_t)used, ", %lld returned", (long long)returned);
    }
    return checks > 0;
}

static const struct culm_summary_line edge_lines[] = {
    {"frames", frames},
    {"memory", memory},
    {"package", packed},
    {"saved", in_force},
    {"weights", loading},
    {"drift", drift},
    {0},
};

static const struct culm_page_chart edge_charts[] = {
    {.title = "Frames answered in time",
     .y_label = "%",
     .steps = true,
     .from_zero = true,
     .share = true,
     .line = {{"frame", "done_ms", NULL, "query", 1}}},
    {.title = "Weights in memory",
     .y_label = "MB, with activations and frames",
     .steps = true,
     .from_zero = true,
     .with_limit = true,
     .line = {{"load", "resident_bytes", "resident", NULL, 1e-6},
              {"evict", "resident_bytes", "resident", NULL, 1e-6}}},
    {0},
};
static const struct culm_page_column edge_columns[] = {
    {"query", "query", 0, ""},           {"frames", "frames", 0, ""},
    {"processed", "in time", 0, ""},     {"dropped", "dropped", 0, ""},
    {"accuracy", "accuracy", 100, " %"}, {0},
};
static const char *const edge_notes[] = {"drift",   "feed",  "load_failed", "round",
                                         "warning", "error", "stopped",     NULL};
static const struct culm_page_look edge_page = {edge_charts, edge_columns, edge_notes, false};

const struct culm_summary_job culm_summary_edge = {"second",   edge_rows, edge_lines, "edge",
                                                   &edge_page, NULL,      NULL,       NULL};
