/* What each event of training shows. See terminal.h. */
#include "report/terminal_rows.h"
#include "report/training.h"

#include <stdio.h>
#include <string.h>

#define BAR_WIDTH 24

static void start_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "run ");
    culm_terminal_member(t, event, "run", "?");
    culm_buf_printf(&t->out, " starts; redundancy: ");
    culm_terminal_member(t, event, "redundancy_effective", "?");
}

static void on_plan(struct culm_terminal *t, const json_t *event) {
    size_t i;
    json_t *stage;
    bool samples = !strcmp(culm_event_text(event, "rate_of", ""), "samples");
    snprintf(t->rate_of, sizeof t->rate_of, "%s", samples ? "samples" : "tokens");
    json_array_foreach(json_object_get(event, "stages"), i, stage) {
        culm_terminal_begin(t, event, 0);
        culm_buf_printf(
            &t->out, "stage %zu: blocks %lld to %lld, %.2f M parameters, %.0f MiB a worker", i,
            (long long)culm_event_int(stage, "first", -1),
            (long long)culm_event_int(stage, "last", -1), culm_event_real(stage, "params", 0) / 1e6,
            culm_event_real(stage, "memory_bytes", 0) / 1048576);
        culm_terminal_end(t);
    }
}

static void joined_line(struct culm_terminal *t, const json_t *event) {
    int64_t pipeline = culm_event_int(event, "pipeline", -1);
    culm_buf_printf(&t->out, "node %lld (pid %lld) joined",
                    (long long)culm_event_int(event, "node", -1),
                    (long long)culm_event_int(event, "pid", 0));
    if (pipeline >= 0) {
        culm_buf_printf(&t->out, " for pipeline %lld, stage %lld", (long long)pipeline,
                        (long long)culm_event_int(event, "stage", -1));
    }
}

/* "pipeline 0: stage 0 on node 0 (shadow 2), ..." for each pipeline. */
static void write_map(struct culm_buf *map, const json_t *event) {
    const json_t *entries = json_object_get(event, "map");
    int64_t current = -1;
    size_t i;
    json_t *entry;
    culm_buf_clear(map);
    json_array_foreach(entries, i, entry) {
        int64_t pipeline = culm_event_int(entry, "pipeline", 0);
        if (i == 0 || pipeline != current) {
            culm_buf_printf(map, "%s  pipeline %lld:", i ? "\n" : "", (long long)pipeline);
        }
        int64_t owner = culm_event_int(entry, "owner", -1);
        int64_t shadow = culm_event_int(entry, "shadow", -1);
        culm_buf_printf(map, "%s stage %lld on ", pipeline == current ? "," : "",
                        (long long)culm_event_int(entry, "stage", -1));
        culm_buf_printf(map, owner < 0 ? "nobody" : "node %lld", (long long)owner);
        if (shadow >= 0) {
            culm_buf_printf(map, " (shadow %lld)", (long long)shadow);
        }
        current = pipeline;
    }
    if (json_array_size(entries)) {
        culm_buf_printf(map, "\n");
    }
}

static void on_view(struct culm_terminal *t, const json_t *event) {
    culm_terminal_begin(t, event, 0);
    culm_buf_printf(&t->out, "view %lld: ", (long long)culm_event_int(event, "view", -1));
    culm_terminal_member(t, event, "reason", "no reason given");
    size_t stage;
    json_t *copies;
    json_array_foreach(json_object_get(event, "copies"), stage, copies) {
        if (json_is_integer(copies) && json_integer_value(copies) == 1) {
            culm_buf_printf(&t->out, "; stage %zu has one copy", stage);
        }
    }
    culm_terminal_end(t);
    struct culm_buf map;
    culm_buf_init(&map, CULM_TERMINAL_OUT_MAX);
    write_map(&map, event);
    bool changed =
        map.len != t->map.len || (map.len && memcmp(map.data, t->map.data, map.len) != 0);
    if (changed && !t->options.live) {
        culm_buf_bytes(&t->out, map.data, map.len);
    }
    culm_buf_release(&t->map);
    t->map = map;
}

static void on_step(struct culm_terminal *t, const json_t *event) {
    if (json_is_true(json_object_get(event, "again"))) {
        return; /* another launcher has told of it */
    }
    int64_t step = culm_event_int(event, "step", 0), total = t->options.steps;
    char bar[64] = "", of[32] = "";
    if (total > 0) {
        snprintf(of, sizeof of, "/%lld", (long long)total);
    }
    if (total > 0 && t->options.live) {
        int full = step >= total ? BAR_WIDTH : step > 0 ? (int)(BAR_WIDTH * step / total) : 0;
        snprintf(bar, sizeof bar, " [%.*s%.*s]", full, "########################", BAR_WIDTH - full,
                 "........................");
    }
    snprintf(t->step_line, sizeof t->step_line,
             "step %lld%s%s  loss %.4f  %.0f %s/s  %.0f ms  lr %.2e  grad norm %.3f",
             (long long)step, of, bar, culm_event_real(event, "loss", 0),
             culm_event_real(event, "tokens_per_s", 0), *t->rate_of ? t->rate_of : "tokens",
             culm_event_real(event, "step_ms", 0), culm_event_real(event, "lr", 0),
             culm_event_real(event, "grad_norm", 0));
    culm_terminal_step(t, event, step == total);
}

static const char *const sources[][2] = {
    {"shadow", "on its shadow"},
    {"peer", "from another pipeline's copy"},
    {"checkpoint", "from the last checkpoint"},
    {NULL, NULL},
};

static void lost_line(struct culm_terminal *t, const json_t *event) {
    size_t i;
    json_t *stage;
    culm_buf_printf(&t->out,
                    "lost node %lld at step %lld: ", (long long)culm_event_int(event, "node", -1),
                    (long long)culm_event_int(event, "step", 0));
    culm_terminal_text(t, culm_terminal_cause(culm_event_text(event, "cause", "no cause given")));
    json_array_foreach(json_object_get(event, "stages"), i, stage) {
        culm_buf_printf(&t->out, "%s", i ? ", " : "; it held ");
        if (json_is_integer(stage)) {
            culm_buf_printf(&t->out, "stage %lld", (long long)json_integer_value(stage));
        } else {
            culm_buf_printf(&t->out, "stage %lld of pipeline %lld",
                            (long long)culm_event_int(stage, "stage", -1),
                            (long long)culm_event_int(stage, "pipeline", -1));
        }
    }
}

static void recovered_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "node %lld's work continues ",
                    (long long)culm_event_int(event, "node", -1));
    culm_terminal_text(t, culm_terminal_meaning(sources, culm_event_text(event, "source", "?")));
    const int64_t redone = culm_event_int(event, "redone_tasks", 0);
    culm_buf_printf(&t->out, " after %.0f ms, %lld task%s repeated",
                    culm_event_real(event, "pause_ms", 0), (long long)redone,
                    redone == 1 ? "" : "s");
}

static void on_checkpoint(struct culm_terminal *t, const json_t *event) {
    culm_terminal_checkpoint(t, event, "step");
}

static void on_stored(struct culm_terminal *t, const json_t *event) {
    culm_terminal_stored(t, event, "step");
}

static void on_eval(struct culm_terminal *t, const json_t *event) {
    bool ok = json_is_true(json_object_get(event, "ok"));
    culm_terminal_begin(t, event, ok ? 0 : CULM_TERMINAL_YELLOW);
    culm_buf_printf(&t->out, "evaluation of step %lld ",
                    (long long)culm_event_int(event, "step", 0));
    if (ok) {
        culm_buf_printf(&t->out, "on %lld samples: loss %.4f, accuracy %.2f %%",
                        (long long)culm_event_int(event, "samples", 0),
                        culm_event_real(event, "loss", 0),
                        100 * culm_event_real(event, "accuracy", 0));
    } else {
        culm_buf_printf(&t->out, "failed: ");
        culm_terminal_member(t, event, "message", "'culm eval' says why");
    }
    culm_terminal_end(t);
}

/* --- one line each --- */

static void fault_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "fault injected into node %lld at step %lld, phase ",
                    (long long)culm_event_int(event, "node", -1),
                    (long long)culm_event_int(event, "step", 0));
    culm_terminal_member(t, event, "phase", "?");
}

static void differs_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "damage: ");
    culm_terminal_member(t, event, "message", "?");
}

static void stalled_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "nothing has moved at step %lld for %lld ms; workers were asked why",
                    (long long)culm_event_int(event, "step", 0),
                    (long long)culm_event_int(event, "for_ms", 0));
}

static void waiting_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "waiting for workers: %lld of %lld are there",
                    (long long)culm_event_int(event, "have", 0),
                    (long long)culm_event_int(event, "need", 0));
    if (culm_event_text(event, "message", "")[0]) {
        culm_buf_printf(&t->out, ": ");
        culm_terminal_member(t, event, "message", "");
    }
}

static void rollback_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "rolled back from step %lld to step %lld: ",
                    (long long)culm_event_int(event, "from_step", 0),
                    (long long)culm_event_int(event, "to_step", 0));
    culm_terminal_member(t, event, "reason", "no reason given");
}

static void leader_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "leads in term %lld: ", (long long)culm_event_int(event, "term", 0));
    culm_terminal_member(t, event, "reason", "no reason given");
}

static void on_done(struct culm_terminal *t, const json_t *event) {
    culm_terminal_steps_end(t, event);
    culm_terminal_begin(t, event, CULM_TERMINAL_GREEN);
    const double loss = culm_event_real(event, "loss", 0);
    culm_buf_printf(&t->out, "done: %lld steps", (long long)culm_event_int(event, "steps", 0));
    if (*t->step_line || loss != 0) { /* no step was left to do otherwise */
        culm_buf_printf(&t->out, ", loss %.4f", loss);
    }
    culm_terminal_end(t);
}

static const struct culm_terminal_row rows[] = {
    {"step", .lines = on_step},
    {"start", CULM_TERMINAL_PLAIN, .line = start_line},
    {"plan", .lines = on_plan},
    {"joined", CULM_TERMINAL_PLAIN, .line = joined_line},
    {"view", .lines = on_view},
    {"lost", CULM_TERMINAL_RED, .line = lost_line},
    {"recovered", CULM_TERMINAL_GREEN, .line = recovered_line},
    {"checkpoint", .lines = on_checkpoint},
    {"stored", .lines = on_stored},
    {"eval", .lines = on_eval},
    {"fault", CULM_TERMINAL_YELLOW, .line = fault_line},
    {"differs", CULM_TERMINAL_RED, .line = differs_line},
    {"stalled", CULM_TERMINAL_YELLOW, .line = stalled_line},
    {"waiting", CULM_TERMINAL_YELLOW, .line = waiting_line},
    {"rollback", CULM_TERMINAL_RED, .line = rollback_line},
    {"leader", CULM_TERMINAL_YELLOW, .line = leader_line},
    {"done", .lines = on_done},
    {0},
};
const struct culm_terminal_row *const culm_terminal_training = rows;
