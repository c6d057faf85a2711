/*
 * The terminal as a sink; see terminal.h. An event becomes lines of the log, a change of the block
 * below it, or both; whatever one event causes is written at once.
 *
 * The block is erased by moving the cursor up by as many lines as were drawn. Its lines are cut to
 * the width so that none wraps, and must be ASCII, since bytes are counted as columns. There is no
 * curses, no scrolling back, and no reaction to a change of the width.
 */
#include "report/terminal_rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define STEP_LINES_EVERY_MS 1000

/* --- writing --------------------------------------------------------------------------------- */

void culm_terminal_text(struct culm_terminal *t, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        culm_buf_u8(&t->out, c < 0x20 || c == 0x7F ? '?' : c);
    }
}

void culm_terminal_member(struct culm_terminal *t, const json_t *event, const char *member,
                          const char *otherwise) {
    culm_terminal_text(t, culm_event_text(event, member, otherwise));
}

void culm_terminal_begin(struct culm_terminal *t, const json_t *event, int color) {
    culm_buf_printf(&t->out, "[%7.1f s] ", culm_event_real(event, "t_ms", 0) / 1000);
    if (color && t->options.color) {
        culm_buf_printf(&t->out, "\x1b[%dm", color);
    }
}

void culm_terminal_end(struct culm_terminal *t) {
    culm_buf_printf(&t->out, "%s\n", t->options.color ? "\x1b[0m" : "");
}

void culm_terminal_stored(struct culm_terminal *t, const json_t *event, const char *count) {
    bool ok = json_is_true(json_object_get(event, "ok"));
    culm_terminal_begin(t, event, ok ? 0 : CULM_TERMINAL_YELLOW);
    culm_buf_printf(&t->out, "checkpoint of %s %lld %s ", count,
                    (long long)culm_event_int(event, count, 0), ok ? "is in" : "is not yet in");
    culm_terminal_member(t, event, "to", "?");
    if (json_object_get(event, "message")) {
        culm_buf_printf(&t->out, ": ");
        culm_terminal_member(t, event, "message", "?");
    }
    culm_terminal_end(t);
}

void culm_terminal_checkpoint(struct culm_terminal *t, const json_t *event, const char *count) {
    bool ok = json_is_true(json_object_get(event, "ok"));
    culm_terminal_begin(t, event, ok ? 0 : CULM_TERMINAL_YELLOW);
    culm_buf_printf(&t->out, "checkpoint of %s %lld %s ", count,
                    (long long)culm_event_int(event, count, 0),
                    ok ? "written:" : "given up, the one before stays:");
    culm_terminal_member(t, event, ok ? "path" : "message", "?");
    culm_terminal_end(t);
}

static void block_erase(struct culm_terminal *t) {
    if (t->drawn) {
        culm_buf_printf(&t->out, "\r\x1b[%dA\x1b[J", t->drawn);
    }
    t->drawn = 0;
}

static void block_line(struct culm_terminal *t, const char *line, size_t len) {
    size_t width = t->options.columns > 1 ? (size_t)t->options.columns - 1 : 1;
    culm_buf_bytes(&t->out, line, len < width ? len : width);
    culm_buf_printf(&t->out, "\n");
    t->drawn++;
}

static void block_draw(struct culm_terminal *t) {
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

static void log_step(struct culm_terminal *t, const json_t *event) {
    culm_terminal_begin(t, event, 0);
    culm_buf_printf(&t->out, "%s", t->step_line);
    culm_terminal_end(t);
    t->step_shown = true;
    t->step_shown_ms = culm_event_real(event, "t_ms", 0);
}

const char *culm_terminal_meaning(const char *const (*rows)[2], const char *word) {
    for (; (*rows)[0]; rows++) {
        if (strcmp(word, (*rows)[0]) == 0) {
            return (*rows)[1];
        }
    }
    return word;
}

static const char *const causes[][2] = {
    {"eof", "its connection closed"},
    {"heartbeat", "it gave no sign of life"},
    {"exit", "its process ended"},
    {"removed", "it was preempted"},
    {"stuck", "it is alive but does not work"},
    {"failed", "it failed"},
    {"stalled", "nothing moved, and it is at one end of what is broken"},
    {"differs", "its copy is wrong"},
    {"peer", "other nodes cannot reach it"},
    {"left", "it has left, as it was told to"},
    {NULL, NULL},
};

const char *culm_terminal_cause(const char *cause) { return culm_terminal_meaning(causes, cause); }

void culm_terminal_step(struct culm_terminal *t, const json_t *event, bool last) {
    double since = culm_event_real(event, "t_ms", 0) - t->step_shown_ms;
    bool first = !t->step_shown && t->step_shown_ms <= 0;
    t->step_shown = false;
    if (!t->options.live && (first || since >= STEP_LINES_EVERY_MS || last)) {
        log_step(t, event);
    }
}

void culm_terminal_steps_end(struct culm_terminal *t, const json_t *event) {
    if (!t->options.live && *t->step_line && !t->step_shown) {
        log_step(t, event);
    }
}

static enum culm_status flush(struct culm_terminal *t, struct culm_error *error) {
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

/* --- events of every job --- */

static void held_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out,
                    "what is done is kept in memory for %.0f s, and saving is tried again: ",
                    culm_event_real(event, "for_ms", 0) / 1e3);
    culm_terminal_member(t, event, "message", "?");
}

static void weights_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "the weights alone are saved: ");
    culm_terminal_member(t, event, "path", "?");
}

static void fenced_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "node %lld came back, found its place taken and ended",
                    (long long)culm_event_int(event, "node", -1));
}

static void warning_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "warning: ");
    culm_terminal_member(t, event, "message", "?");
}

static void error_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "error: ");
    culm_terminal_member(t, event, "message", "?");
}

static const struct culm_terminal_row common[] = {
    {"warning", CULM_TERMINAL_YELLOW, .line = warning_line},
    {"held", CULM_TERMINAL_YELLOW, .line = held_line},
    {"weights", CULM_TERMINAL_GREEN, .line = weights_line},
    {"fenced", CULM_TERMINAL_YELLOW, .line = fenced_line},
    {"error", CULM_TERMINAL_RED, .line = error_line},
    {0},
};

static const struct culm_terminal_row *row_of(const struct culm_terminal_row *rows,
                                              const char *event) {
    while (rows->event && strcmp(event, rows->event) != 0) {
        rows++;
    }
    return rows;
}

static enum culm_status terminal_event(struct culm_sink *sink, const json_t *event,
                                       struct culm_error *error) {
    struct culm_terminal *t = (struct culm_terminal *)sink;
    const char *name = culm_event_text(event, "event", "");
    const struct culm_terminal_row *row = row_of(t->options.rows, name);
    row = row->event ? row : row_of(common, name);
    block_erase(t);
    if (row->event && row->lines) {
        row->lines(t, event);
    } else if (row->event) {
        culm_terminal_begin(t, event, row->color);
        row->line(t, event);
        culm_terminal_end(t);
    }
    if (t->options.live) {
        block_draw(t);
    }
    return flush(t, error);
}

static void terminal_free(struct culm_sink *sink) {
    struct culm_terminal *t = (struct culm_terminal *)sink;
    culm_buf_release(&t->out);
    culm_buf_release(&t->map);
    free(t);
}

struct culm_terminal_options
culm_terminal_options_of(int fd, const struct culm_terminal_row *borrow_rows, int64_t steps) {
    struct culm_terminal_options options = {
        .rows = borrow_rows, .fd = fd, .columns = 80, .steps = steps};
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
    struct culm_terminal *t = calloc(1, sizeof *t);
    if (!t) {
        return NULL;
    }
    t->sink.ops = &ops;
    t->options = *options;
    culm_buf_init(&t->out, CULM_TERMINAL_OUT_MAX);
    culm_buf_init(&t->map, CULM_TERMINAL_OUT_MAX);
    return &t->sink;
}
