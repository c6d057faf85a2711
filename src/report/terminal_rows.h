/* For the tables of jobs: a row for each kind of event that is shown, and what rows write with. */
#ifndef CULM_REPORT_TERMINAL_ROWS_H
#define CULM_REPORT_TERMINAL_ROWS_H

#include "report/terminal.h"

#include "base/buf.h"

#define CULM_TERMINAL_OUT_MAX ((size_t)1 << 20)

struct culm_terminal {
    struct culm_sink sink;
    struct culm_terminal_options options;
    struct culm_buf out;  /* what this event writes */
    struct culm_buf map;  /* lines of the block below the step */
    char rate_of[16];     /* what rates count, per second; the job's own */
    char step_line[160];  /* "" before the first step */
    bool step_shown;      /* plain: step_line is in the log */
    double step_shown_ms; /* t_ms of the last step line in the log */
    int drawn;            /* lines of the block on the screen */
};

enum {
    CULM_TERMINAL_PLAIN = 0,
    CULM_TERMINAL_RED = 31,
    CULM_TERMINAL_GREEN = 32,
    CULM_TERMINAL_YELLOW = 33
};

/* What one kind of event shows: a line in a colour, whose text `line` writes to t->out; or whatever
 * `lines` makes of it. Every job has rows for "warning" and "error" without writing them down. */
struct culm_terminal_row {
    const char *event; /* NULL: past the last row */
    int color;
    void (*line)(struct culm_terminal *t, const json_t *event);
    void (*lines)(struct culm_terminal *t, const json_t *event);
};

/* One line of the log: its time and colour, then what the caller writes to t->out, then its end. */
void culm_terminal_begin(struct culm_terminal *t, const json_t *event, int color);
void culm_terminal_end(struct culm_terminal *t);
/* Writes text from outside: kept on its line, whatever is in it. */
void culm_terminal_text(struct culm_terminal *t, const char *text);
/* The same of a member of the event; `otherwise` when it has none. */
void culm_terminal_member(struct culm_terminal *t, const json_t *event, const char *member,
                          const char *otherwise);
/* What a word of an event means, by rows that {NULL, NULL} ends; the word itself when it is in none. */
const char *culm_terminal_meaning(const char *const (*rows)[2], const char *word);
/* The same of the cause of a loss, whatever the job. */
const char *culm_terminal_cause(const char *cause);
/* The row has written t->step_line: below all lines, or, on what is no terminal, into the log: the
 * first one, the last one, and at most one a second between. */
void culm_terminal_step(struct culm_terminal *t, const json_t *event, bool last);
/* No more come: the last one is in the log. */
void culm_terminal_steps_end(struct culm_terminal *t, const json_t *event);

#endif
