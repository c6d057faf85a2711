/*
 * One event becomes lines for the log, a change of the block below it, or both; everything one
 * event causes leaves in one write.
 *
 * The block is erased by moving the cursor up as many lines as were drawn; its lines are cut to the
 * width, so that none wraps. It holds ASCII only. What it does not do: curses, scrolling back,
 * following a change of the width.
 */
#include "report/terminal_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* --- writing --------------------------------------------------------------------------------- */

void culm_terminal_text(struct terminal *t, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        culm_buf_u8(&t->out, c < 0x20 || c == 0x7F ? '?' : c);
    }
}

void culm_terminal_member(struct terminal *t, const json_t *event, const char *member,
                          const char *otherwise) {
    culm_terminal_text(t, culm_event_text(event, member, otherwise));
}

void culm_terminal_begin(struct terminal *t, const json_t *event, int color) {
    culm_buf_printf(&t->out, "[%7.1f s] ", culm_event_real(event, "t_ms", 0) / 1000);
    if (color && t->options.color) {
        culm_buf_printf(&t->out, "\x1b[%dm", color);
    }
}

void culm_terminal_end(struct terminal *t) {
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

static enum culm_status terminal_event(struct culm_sink *sink, const json_t *event,
                                       struct culm_error *error) {
    struct terminal *t = (struct terminal *)sink;
    const char *name = culm_event_text(event, "event", "");
    const struct culm_terminal_row *row = t->options.rows;
    block_erase(t);
    while (row->event && strcmp(name, row->event) != 0) {
        row++;
    }
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
    t->options.rows = options->rows ? options->rows : culm_terminal_training;
    culm_buf_init(&t->out, CULM_TERMINAL_OUT_MAX);
    culm_buf_init(&t->map, CULM_TERMINAL_OUT_MAX);
    return &t->sink;
}
