/* What each event of merging shows. See merge.h. */
#include "report/merge.h"
#include "report/terminal_rows.h"

#include <stdio.h>

static double megabytes(const json_t *event, const char *key) {
    return (double)culm_event_int(event, key, 0) / 1e6;
}

static void start_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "merging into ");
    culm_terminal_member(t, event, "run", "?");
    culm_buf_printf(&t->out, ", method ");
    culm_terminal_member(t, event, "method", "?");
}

static void query_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "query ");
    culm_terminal_member(t, event, "query", "?");
    culm_buf_printf(&t->out, ": ");
    culm_terminal_member(t, event, "model", "?");
    culm_buf_printf(&t->out, ", %.2f MB of layers, accuracy %.4f", megabytes(event, "bytes"),
                    culm_event_real(event, "accuracy", 0));
}

/* The words, and the names of a list; nothing if there are none. */
static void names(struct culm_terminal *t, const json_t *event, const char *key,
                  const char *words) {
    json_t *list = json_object_get(event, key), *name;
    size_t index;
    json_array_foreach(list, index, name) {
        culm_buf_printf(&t->out, "%s%s", index ? ", " : words, json_string_value(name));
    }
}

static void goes_on_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "goes on from round %lld",
                    (long long)culm_event_int(event, "round", 0));
    names(t, event, "kept", "; keep what they share: ");
    names(t, event, "alone", "; share nothing, and stay so: ");
    names(t, event, "again", "; searched again: ");
    names(t, event, "added", "; new: ");
    names(t, event, "changed", "; with other weights: ");
    names(t, event, "renamed", "; under a new name: ");
    names(t, event, "gone", "; gone: ");
}

static void watching_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "watching ");
    culm_terminal_member(t, event, "package", "?");
    culm_buf_printf(&t->out, " and its run ");
    culm_terminal_member(t, event, "run", "?");
}

static void remerge_line(struct culm_terminal *t, const json_t *event) {
    if (!json_object_get(event, "query")) {
        culm_buf_printf(&t->out, "merging on: the queries are others");
        return;
    }
    culm_buf_printf(&t->out, "merging on: drift has taken back ");
    culm_terminal_member(t, event, "query", "?");
    culm_buf_printf(&t->out, "; with %lld old and %lld new frames",
                    (long long)culm_event_int(event, "old_frames", 0),
                    (long long)culm_event_int(event, "new_frames", 0));
}

static void pruned_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "%lld rounds that nobody uses are removed, %.2f MB",
                    (long long)culm_event_int(event, "rounds", 0), megabytes(event, "bytes"));
}

static void try_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "round %lld: trying to save %.2f MB among %zu queries, by ",
                    (long long)culm_event_int(event, "round", 0), megabytes(event, "bytes"),
                    json_array_size(json_object_get(event, "queries")));
    culm_terminal_member(t, event, "way", "?");
}

static void check_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "  ");
    culm_terminal_member(t, event, "query", "?");
    culm_buf_printf(&t->out, ": accuracy %.4f%s", culm_event_real(event, "accuracy", 0),
                    json_is_true(json_object_get(event, "ok")) ? ""
                                                               : ", not enough to be accepted");
}

static void classes_line(struct culm_terminal *t, const json_t *event) {
    culm_terminal_member(t, event, "query", "?");
    culm_buf_printf(&t->out,
                    ": of %lld boxes that are wanted it finds %lld, its original %lld; it tells of "
                    "%lld, its original of %lld",
                    (long long)culm_event_int(event, "wanted", 0),
                    (long long)culm_event_int(event, "right", 0),
                    (long long)culm_event_int(event, "original_right", 0),
                    (long long)culm_event_int(event, "told", 0),
                    (long long)culm_event_int(event, "original_told", 0));
}

static void on_step(struct culm_terminal *t, const json_t *event) {
    int64_t step = culm_event_int(event, "step", 0), steps = culm_event_int(event, "steps", 0);
    snprintf(t->step_line, sizeof t->step_line, "step %lld/%lld  loss %.4f", (long long)step,
             (long long)steps, culm_event_real(event, "loss", 0));
    culm_terminal_step(t, event, step == steps);
}

static void merged_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "round %lld: merged, %.2f MB saved; %.2f MB are new in the package",
                    (long long)culm_event_int(event, "round", 0), megabytes(event, "saved_bytes"),
                    megabytes(event, "changed_bytes"));
}

static void on_done(struct culm_terminal *t, const json_t *event) {
    json_t *queries = json_object_get(event, "queries"), *query;
    size_t index;
    culm_terminal_steps_end(t, event);
    json_array_foreach(queries, index, query) {
        culm_terminal_begin(t, event, CULM_TERMINAL_PLAIN);
        culm_terminal_member(t, query, "query", "?");
        culm_buf_printf(&t->out, ": %.4f of %.4f on frames that merging has not seen",
                        culm_event_real(query, "merged", 0), culm_event_real(query, "original", 0));
        if (json_is_number(json_object_get(query, "overlap"))) {
            culm_buf_printf(&t->out, "; its boxes overlap the original's by %.3f",
                            culm_event_real(query, "overlap", 0));
        }
        culm_terminal_end(t);
    }
    culm_terminal_begin(t, event, CULM_TERMINAL_GREEN);
    culm_buf_printf(&t->out, "done: %.2f MB of layers instead of %.2f, %.1f %% saved",
                    megabytes(event, "distinct_bytes"), megabytes(event, "bytes"),
                    100 * culm_event_real(event, "saved", 0));
    culm_terminal_end(t);
}

static const struct culm_terminal_row rows[] = {
    {"step", .lines = on_step},
    {"start", CULM_TERMINAL_PLAIN, .line = start_line},
    {"query", CULM_TERMINAL_PLAIN, .line = query_line},
    {"watching", CULM_TERMINAL_PLAIN, .line = watching_line},
    {"remerge", CULM_TERMINAL_PLAIN, .line = remerge_line},
    {"pruned", CULM_TERMINAL_PLAIN, .line = pruned_line},
    {"goes_on", CULM_TERMINAL_PLAIN, .line = goes_on_line},
    {"try", CULM_TERMINAL_PLAIN, .line = try_line},
    {"check", CULM_TERMINAL_PLAIN, .line = check_line},
    {"merged", CULM_TERMINAL_GREEN, .line = merged_line},
    {"classes", CULM_TERMINAL_PLAIN, .line = classes_line},
    {"done", .lines = on_done},
    {0},
};
const struct culm_terminal_row *const culm_terminal_merge = rows;
