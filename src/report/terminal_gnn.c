/* What each event of training on a graph shows. See gnn.h. */
#include "report/gnn.h"
#include "report/terminal_rows.h"

#include <stdio.h>
#include <string.h>

static void start_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "run ");
    culm_terminal_member(t, event, "run", "?");
    culm_buf_printf(&t->out, " starts");
}

static void plan_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out,
                    "graph of %lld vertices and %lld edges; %lld edges run between servers",
                    (long long)culm_event_int(event, "vertices", 0),
                    (long long)culm_event_int(event, "edges", 0),
                    (long long)culm_event_int(event, "cut_edges", 0));
}

static void joined_line(struct culm_terminal *t, const json_t *event) {
    culm_terminal_member(t, event, "role", "node");
    culm_buf_printf(&t->out, ": node %lld", (long long)culm_event_int(event, "node", -1));
    if (json_object_get(event, "pid")) {
        culm_buf_printf(&t->out, " (pid %lld)", (long long)culm_event_int(event, "pid", 0));
    }
    culm_buf_printf(&t->out, " joined");
}

static void lost_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "lost ");
    culm_terminal_member(t, event, "role", "node");
    culm_buf_printf(&t->out, ", node %lld: ", (long long)culm_event_int(event, "node", -1));
    culm_terminal_member(t, event, "message",
                         culm_terminal_cause(culm_event_text(event, "cause", "no cause given")));
}

static void recovered_line(struct culm_terminal *t, const json_t *event) {
    bool peer = strcmp(culm_event_text(event, "source", ""), "peer") == 0;
    int64_t redone = culm_event_int(event, "redone_tasks", 0);
    culm_buf_printf(&t->out, "other nodes took over the work of node %lld after %.0f ms, from %s",
                    (long long)culm_event_int(event, "node", -1),
                    culm_event_real(event, "pause_ms", 0),
                    peer ? "what they had kept" : "a checkpoint");
    if (redone > 0) {
        culm_buf_printf(&t->out, "; %lld task%s repeated", (long long)redone,
                        redone == 1 ? "" : "s");
    }
}

static void waiting_line(struct culm_terminal *t, const json_t *event) {
    bool parameter = strcmp(culm_event_text(event, "role", ""), "parameter") == 0;
    culm_buf_printf(&t->out, "waiting for %sservers: %lld of %lld %s there",
                    parameter ? "parameter " : "", (long long)culm_event_int(event, "have", 0),
                    (long long)culm_event_int(event, "need", 0),
                    culm_event_int(event, "need", 0) == 1 ? "is" : "are");
}

static void add_accuracy(char *text, size_t size, const json_t *event, const char *key) {
    size_t at = strlen(text);
    if (json_object_get(event, key)) {
        snprintf(text + at, size - at, "  %s %.2f %%", key, 100 * culm_event_real(event, key, 0));
    }
}

static void on_epoch(struct culm_terminal *t, const json_t *event) {
    int64_t epoch = culm_event_int(event, "epoch", 0), total = t->options.steps;
    snprintf(t->step_line, sizeof t->step_line, "epoch %lld/%lld  loss %.4f  %.1f ms",
             (long long)epoch, (long long)total, culm_event_real(event, "loss", 0),
             culm_event_real(event, "epoch_ms", 0));
    add_accuracy(t->step_line, sizeof t->step_line, event, "valid");
    add_accuracy(t->step_line, sizeof t->step_line, event, "test");
    culm_terminal_step(t, event, epoch == total);
}

static void on_checkpoint(struct culm_terminal *t, const json_t *event) {
    culm_terminal_checkpoint(t, event, "epoch");
}

static void on_stored(struct culm_terminal *t, const json_t *event) {
    culm_terminal_stored(t, event, "epoch");
}

static void fault_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "fault injected into node %lld, phase ",
                    (long long)culm_event_int(event, "node", -1));
    culm_terminal_member(t, event, "phase", "?");
}

static void differs_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "damage: the copies of the weights differ after epoch %lld",
                    (long long)culm_event_int(event, "epoch", 0));
}

static void rollback_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "rolled back to epoch %lld: no copy of the weights is left",
                    (long long)culm_event_int(event, "to_epoch", 0));
}

static void tune_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "%lld workers: ", (long long)culm_event_int(event, "workers", 0));
    culm_terminal_member(t, event, "why", "?");
}

static void released_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "released ");
    culm_terminal_member(t, event, "role", "node");
    culm_buf_printf(&t->out, ", node %lld", (long long)culm_event_int(event, "node", -1));
}

static void cost_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "cost $%.6f until now; value %.4g", culm_event_real(event, "usd", 0),
                    culm_event_real(event, "value", 0));
}

static void on_done(struct culm_terminal *t, const json_t *event) {
    culm_terminal_steps_end(t, event);
    culm_terminal_begin(t, event, CULM_TERMINAL_GREEN);
    int64_t epochs = culm_event_int(event, "epochs", 0);
    culm_buf_printf(&t->out, "done: %lld epoch%s", (long long)epochs, epochs == 1 ? "" : "s");
    if (json_object_get(event, "loss")) { /* no epoch was left to do otherwise */
        culm_buf_printf(&t->out, ", loss %.4f", culm_event_real(event, "loss", 0));
    }
    culm_terminal_end(t);
}

static const struct culm_terminal_row rows[] = {
    {"epoch", .lines = on_epoch},
    {"start", CULM_TERMINAL_PLAIN, .line = start_line},
    {"plan", CULM_TERMINAL_PLAIN, .line = plan_line},
    {"joined", CULM_TERMINAL_PLAIN, .line = joined_line},
    {"lost", CULM_TERMINAL_RED, .line = lost_line},
    {"recovered", CULM_TERMINAL_GREEN, .line = recovered_line},
    {"waiting", CULM_TERMINAL_YELLOW, .line = waiting_line},
    {"checkpoint", .lines = on_checkpoint},
    {"stored", .lines = on_stored},
    {"fault", CULM_TERMINAL_YELLOW, .line = fault_line},
    {"differs", CULM_TERMINAL_RED, .line = differs_line},
    {"rollback", CULM_TERMINAL_RED, .line = rollback_line},
    {"tune", CULM_TERMINAL_PLAIN, .line = tune_line},
    {"released", CULM_TERMINAL_PLAIN, .line = released_line},
    {"cost", CULM_TERMINAL_PLAIN, .line = cost_line},
    {"done", .lines = on_done},
    {0},
};
const struct culm_terminal_row *const culm_terminal_gnn = rows;
