/*
 * One event becomes lines for the log, a change of the block below it, or both; everything one
 * event causes leaves in one write.
 *
 * The block is erased by moving the cursor up as many lines as were drawn; its lines are cut to the
 * width, so that none wraps. It holds ASCII only. What it does not do: curses, scrolling back,
 * following a change of the width.
 */
#include "report/terminal.h"

#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define STEP_LINES_EVERY_MS 1000
#define BAR_WIDTH 24
#define OUT_BYTES_MAX ((size_t)1 << 20)

enum { RED = 31, GREEN = 32, YELLOW = 33 };

struct terminal {
    struct culm_sink sink;
    struct culm_terminal_options options;
    struct culm_buf out;  /* what this event writes */
    struct culm_buf map;  /* lines of the block below the step */
    bool samples;         /* rates are of samples, not of tokens */
    char step_line[160];  /* "" before the first step */
    bool step_shown;      /* plain: step_line is in the log */
    double step_shown_ms; /* t_ms of the last step line in the log */
    int drawn;            /* lines of the block on the screen */
};

/* --- writing --------------------------------------------------------------------------------- */

/* Text from outside: kept on its line, whatever is in it. */
static void put_text(struct culm_buf *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        culm_buf_u8(out, c < 0x20 || c == 0x7F ? '?' : c);
    }
}

static void log_begin(struct terminal *t, const json_t *event, int color) {
    culm_buf_printf(&t->out, "[%7.1f s] ", culm_event_real(event, "t_ms", 0) / 1000);
    if (color && t->options.color) {
        culm_buf_printf(&t->out, "\x1b[%dm", color);
    }
}

static void log_end(struct terminal *t) {
    culm_buf_printf(&t->out, "%s\n", t->options.color ? "\x1b[0m" : "");
}

static void block_erase(struct terminal *t) {
    if (t->drawn) {
        culm_buf_printf(&t->out, "\r\x1b[%dA\x1b[J", t->drawn);
    }
    t->drawn = 0;
}

static void block_line(struct terminal *t, const char *line, size_t len) {
    size_t width = t->options.columns > 1 ? (size_t)t->options.columns - 1 : 1;
    culm_buf_bytes(&t->out, line, len < width ? len : width);
    culm_buf_printf(&t->out, "\n");
    t->drawn++;
}

static void block_draw(struct terminal *t) {
    const char *at = (const char *)t->map.data, *end = at + t->map.len;
    while (t->map.len && at < end) {
        size_t len = (size_t)((const char *)memchr(at, '\n', (size_t)(end - at)) - at);
        block_line(t, at, len);
        at += len + 1;
    }
    if (*t->step_line) {
        block_line(t, t->step_line, strlen(t->step_line));
    }
}

static enum culm_status flush(struct terminal *t, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    const uint8_t *at = t->out.data;
    size_t left = t->out.failed ? 0 : t->out.len;
    while (left && status == CULM_OK) {
        ssize_t written = write(t->options.fd, at, left);
        if (written < 0 && errno != EINTR) {
            status = culm_error_errno(error, errno, "write to the terminal");
        } else if (written > 0) {
            at += written;
            left -= (size_t)written;
        }
    }
    culm_buf_clear(&t->out);
    return status;
}

/* --- events ---------------------------------------------------------------------------------- */

static void on_start(struct terminal *t, const json_t *event) {
    log_begin(t, event, 0);
    culm_buf_printf(&t->out, "run ");
    put_text(&t->out, culm_event_text(event, "run", "?"));
    culm_buf_printf(&t->out, " starts; redundancy: ");
    put_text(&t->out, culm_event_text(event, "redundancy_effective", "?"));
    log_end(t);
}

static void on_plan(struct terminal *t, const json_t *event) {
    size_t i;
    json_t *stage;
    t->samples = !strcmp(culm_event_text(event, "rate_of", ""), "samples");
    const char *message = culm_event_text(event, "message", "");
    if (*message) {
        culm_buf_printf(&t->out, ": ");
        put_text(&t->out, message);
    }
    json_array_foreach(json_object_get(event, "stages"), i, stage) {
        log_begin(t, event, 0);
        culm_buf_printf(
            &t->out, "stage %zu: layers %lld to %lld, %.2f M parameters, %.0f MiB a worker", i,
            (long long)culm_event_int(stage, "first", -1),
            (long long)culm_event_int(stage, "last", -1), culm_event_real(stage, "params", 0) / 1e6,
            culm_event_real(stage, "memory_bytes", 0) / 1048576);
        log_end(t);
    }
}

static void on_joined(struct terminal *t, const json_t *event) {
    int64_t pipeline = culm_event_int(event, "pipeline", -1);
    log_begin(t, event, 0);
    culm_buf_printf(&t->out, "node %lld (pid %lld) joined",
                    (long long)culm_event_int(event, "node", -1),
                    (long long)culm_event_int(event, "pid", 0));
    if (pipeline >= 0) {
        culm_buf_printf(&t->out, " for pipeline %lld, stage %lld", (long long)pipeline,
                        (long long)culm_event_int(event, "stage", -1));
    }
    log_end(t);
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

static void on_view(struct terminal *t, const json_t *event) {
    log_begin(t, event, 0);
    culm_buf_printf(&t->out, "view %lld: ", (long long)culm_event_int(event, "view", -1));
    put_text(&t->out, culm_event_text(event, "reason", "no reason given"));
    size_t stage;
    json_t *copies;
    json_array_foreach(json_object_get(event, "copies"), stage, copies) {
        if (json_is_integer(copies) && json_integer_value(copies) == 1) {
            culm_buf_printf(&t->out, "; stage %zu has one copy", stage);
        }
    }
    log_end(t);
    struct culm_buf map;
    culm_buf_init(&map, OUT_BYTES_MAX);
    write_map(&map, event);
    bool changed =
        map.len != t->map.len || (map.len && memcmp(map.data, t->map.data, map.len) != 0);
    if (changed && !t->options.live) {
        culm_buf_bytes(&t->out, map.data, map.len);
    }
    culm_buf_release(&t->map);
    t->map = map;
}

static void log_step(struct terminal *t, const json_t *event) {
    log_begin(t, event, 0);
    culm_buf_printf(&t->out, "%s", t->step_line);
    log_end(t);
    t->step_shown = true;
    t->step_shown_ms = culm_event_real(event, "t_ms", 0);
}

static void on_step(struct terminal *t, const json_t *event) {
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
             culm_event_real(event, "tokens_per_s", 0), t->samples ? "samples" : "tokens",
             culm_event_real(event, "step_ms", 0), culm_event_real(event, "lr", 0),
             culm_event_real(event, "grad_norm", 0));
    double since = culm_event_real(event, "t_ms", 0) - t->step_shown_ms;
    bool first = !t->step_shown && t->step_shown_ms <= 0;
    t->step_shown = false;
    if (!t->options.live && (first || since >= STEP_LINES_EVERY_MS || step == total)) {
        log_step(t, event);
    }
}

static const char *cause_sentence(const char *cause) {
    static const char *const causes[][2] = {
        {"eof", "its connection closed"},
        {"heartbeat", "it gave no sign of life"},
        {"exit", "its process ended"},
        {"removed", "it was taken away"},
        {"stuck", "it lives but does not work"},
        {"failed", "it failed"},
        {"stalled", "nothing moved and it is at an end of what is broken"},
        {"differs", "its copy is wrong"},
    };
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        if (!strcmp(cause, causes[i][0])) {
            return causes[i][1];
        }
    }
    return cause;
}

static void on_lost(struct terminal *t, const json_t *event) {
    size_t i;
    json_t *stage;
    log_begin(t, event, RED);
    culm_buf_printf(&t->out,
                    "lost node %lld at step %lld: ", (long long)culm_event_int(event, "node", -1),
                    (long long)culm_event_int(event, "step", 0));
    put_text(&t->out, cause_sentence(culm_event_text(event, "cause", "no cause given")));
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
    log_end(t);
}

static void on_recovered(struct terminal *t, const json_t *event) {
    const char *source = culm_event_text(event, "source", "?");
    log_begin(t, event, GREEN);
    culm_buf_printf(&t->out, "the work of node %lld goes on from ",
                    (long long)culm_event_int(event, "node", -1));
    put_text(&t->out, !strcmp(source, "shadow")       ? "the shadow's copy"
                      : !strcmp(source, "peer")       ? "another pipeline's copy"
                      : !strcmp(source, "checkpoint") ? "the last checkpoint"
                                                      : source);
    culm_buf_printf(&t->out, " after %.0f ms, %lld tasks done again",
                    culm_event_real(event, "pause_ms", 0),
                    (long long)culm_event_int(event, "redone_tasks", 0));
    log_end(t);
}

static void on_checkpoint(struct terminal *t, const json_t *event) {
    bool ok = json_is_true(json_object_get(event, "ok"));
    log_begin(t, event, ok ? 0 : YELLOW);
    culm_buf_printf(&t->out, "checkpoint of step %lld %s ",
                    (long long)culm_event_int(event, "step", 0),
                    ok ? "written:" : "given up, the one before stays:");
    put_text(&t->out, culm_event_text(event, ok ? "path" : "message", "?"));
    log_end(t);
}

static void on_eval(struct terminal *t, const json_t *event) {
    bool ok = json_is_true(json_object_get(event, "ok"));
    log_begin(t, event, ok ? 0 : YELLOW);
    culm_buf_printf(&t->out, "evaluation of step %lld ",
                    (long long)culm_event_int(event, "step", 0));
    if (ok) {
        culm_buf_printf(&t->out, "on %lld samples: loss %.4f, accuracy %.2f %%",
                        (long long)culm_event_int(event, "samples", 0),
                        culm_event_real(event, "loss", 0),
                        100 * culm_event_real(event, "accuracy", 0));
    } else {
        culm_buf_printf(&t->out, "failed; 'culm eval' says why");
    }
    log_end(t);
}

static void on_other(struct terminal *t, const json_t *event, const char *name) {
    long long node = (long long)culm_event_int(event, "node", -1);
    if (!strcmp(name, "fault")) {
        log_begin(t, event, YELLOW);
        culm_buf_printf(&t->out, "fault injected into node %lld at step %lld, phase ", node,
                        (long long)culm_event_int(event, "step", 0));
        put_text(&t->out, culm_event_text(event, "phase", "?"));
    } else if (!strcmp(name, "fenced")) {
        log_begin(t, event, YELLOW);
        culm_buf_printf(&t->out, "node %lld came back, found its place taken and ended", node);
    } else if (!strcmp(name, "differs")) {
        log_begin(t, event, RED);
        culm_buf_printf(&t->out, "damage: ");
        put_text(&t->out, culm_event_text(event, "message", "?"));
    } else if (!strcmp(name, "stalled")) {
        log_begin(t, event, YELLOW);
        culm_buf_printf(&t->out, "nothing moves at step %lld for %lld ms; workers were asked why",
                        (long long)culm_event_int(event, "step", 0),
                        (long long)culm_event_int(event, "for_ms", 0));
    } else if (!strcmp(name, "waiting")) {
        log_begin(t, event, YELLOW);
        culm_buf_printf(&t->out, "waiting for workers: %lld of %lld are there",
                        (long long)culm_event_int(event, "have", 0),
                        (long long)culm_event_int(event, "need", 0));
        if (culm_event_text(event, "message", "")[0]) {
            culm_buf_printf(&t->out, ": ");
            put_text(&t->out, culm_event_text(event, "message", ""));
        }
    } else if (!strcmp(name, "rollback")) {
        log_begin(t, event, RED);
        culm_buf_printf(&t->out, "rolled back from step %lld to step %lld: ",
                        (long long)culm_event_int(event, "from_step", 0),
                        (long long)culm_event_int(event, "to_step", 0));
        put_text(&t->out, culm_event_text(event, "reason", "no reason given"));
    } else if (!strcmp(name, "warning")) {
        log_begin(t, event, YELLOW);
        culm_buf_printf(&t->out, "warning: ");
        put_text(&t->out, culm_event_text(event, "message", "?"));
    } else if (!strcmp(name, "error")) {
        log_begin(t, event, RED);
        culm_buf_printf(&t->out, "error: ");
        put_text(&t->out, culm_event_text(event, "message", "?"));
    } else if (!strcmp(name, "done")) {
        if (!t->options.live && *t->step_line && !t->step_shown) {
            log_step(t, event);
        }
        log_begin(t, event, GREEN);
        culm_buf_printf(&t->out, "done: %lld steps, loss %.4f",
                        (long long)culm_event_int(event, "steps", 0),
                        culm_event_real(event, "loss", 0));
    } else {
        return;
    }
    log_end(t);
}

static enum culm_status terminal_event(struct culm_sink *sink, const json_t *event,
                                       struct culm_error *error) {
    static const struct {
        const char *name;
        void (*show)(struct terminal *t, const json_t *event);
    } rows[] = {
        {"step", on_step},           {"start", on_start},
        {"plan", on_plan},           {"joined", on_joined},
        {"view", on_view},           {"lost", on_lost},
        {"recovered", on_recovered}, {"checkpoint", on_checkpoint},
        {"eval", on_eval},
    };
    struct terminal *t = (struct terminal *)sink;
    const char *name = culm_event_text(event, "event", "");
    block_erase(t);
    size_t i = 0;
    while (i < sizeof rows / sizeof *rows && strcmp(name, rows[i].name)) {
        i++;
    }
    if (i < sizeof rows / sizeof *rows) {
        rows[i].show(t, event);
    } else {
        on_other(t, event, name);
    }
    if (t->options.live) {
        block_draw(t);
    }
    return flush(t, error);
}

static void terminal_free(struct culm_sink *sink) {
    struct terminal *t = (struct terminal *)sink;
    culm_buf_release(&t->out);
    culm_buf_release(&t->map);
    free(t);
}

struct culm_terminal_options culm_terminal_options_of(int fd, int64_t steps) {
    struct culm_terminal_options options = {.fd = fd, .columns = 80, .steps = steps};
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    struct winsize size;
    options.live = isatty(fd) && term && strcmp(term, "dumb") != 0;
    options.color = options.live && !(no_color && *no_color);
    if (options.live && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        options.columns = size.ws_col;
    }
    return options;
}

struct culm_sink *culm_sink_terminal_new(const struct culm_terminal_options *options) {
    static const struct culm_sink_ops ops = {sizeof ops, terminal_event, terminal_free};
    struct terminal *t = calloc(1, sizeof *t);
    if (!t) {
        return NULL;
    }
    t->sink.ops = &ops;
    t->options = *options;
    culm_buf_init(&t->out, OUT_BYTES_MAX);
    culm_buf_init(&t->map, OUT_BYTES_MAX);
    return &t->sink;
}
