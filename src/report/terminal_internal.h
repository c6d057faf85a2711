/* Internal to the terminal: what rows of events write with. */
#ifndef CULM_REPORT_TERMINAL_INTERNAL_H
#define CULM_REPORT_TERMINAL_INTERNAL_H

#include "report/terminal.h"

#include "base/buf.h"

#define CULM_TERMINAL_OUT_MAX ((size_t)1 << 20)

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

enum { TERMINAL_PLAIN = 0, TERMINAL_RED = 31, TERMINAL_GREEN = 32, TERMINAL_YELLOW = 33 };

/* What one kind of event shows: a line in a colour, whose text `line` writes to t->out; or whatever
 * `lines` makes of it. */
struct culm_terminal_row {
    const char *event; /* NULL: past the last row */
    int color;
    void (*line)(struct terminal *t, const json_t *event);
    void (*lines)(struct terminal *t, const json_t *event);
};

/* One line of the log: its time and colour, then what the caller writes to t->out, then its end. */
void culm_terminal_begin(struct terminal *t, const json_t *event, int color);
void culm_terminal_end(struct terminal *t);
/* Writes text from outside: kept on its line, whatever is in it. */
void culm_terminal_text(struct terminal *t, const char *text);
/* The same of a member of the event; `otherwise` when it has none. */
void culm_terminal_member(struct terminal *t, const json_t *event, const char *member,
                          const char *otherwise);

#endif
