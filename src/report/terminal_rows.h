/* For the tables of jobs: a row for each kind of event that is shown, and the means to write it. */
#ifndef CULM_REPORT_TERMINAL_ROWS_H
#define CULM_REPORT_TERMINAL_ROWS_H

#include "report/terminal.h"

#include "base/buf.h"

#define CULM_TERMINAL_OUT_MAX ((size_t)1 << 20)

struct culm_terminal {
    struct culm_sink sink;
    struct culm_terminal_options options;
    struct culm_buf out;  /* what the current event writes */
    struct culm_buf map;  /* the lines of the block but the last, which is step_line */
    char rate_of[16];     /* what rates count, per second; for the job to use */
    char step_line[160];  /* "" before the first step */
    bool step_shown;      /* not live: step_line is already in the log */
    double step_shown_ms; /* t_ms of the last step line in the log */
    int drawn;            /* how many lines of the block are on the screen */
};

enum {
    CULM_TERMINAL_PLAIN = 0,
    CULM_TERMINAL_RED = 31,
    CULM_TERMINAL_GREEN = 32,
    CULM_TERMINAL_YELLOW = 33
};

/* What one kind of event shows: a line in a colour, whose text `line` writes to t->out, or whatever
 * `lines` does. Rows for "warning" and "error" are built in. */
struct culm_terminal_row {
    const char *event; /* NULL: past the last row */
    int color;
    void (*line)(struct culm_terminal *t, const json_t *event);
    void (*lines)(struct culm_terminal *t, const json_t *event);
};

/* A line of the log: begin writes the time and sets the colour, the caller writes the text to
 * t->out, and end ends the line. */
void culm_terminal_begin(struct culm_terminal *t, const json_t *event, int color);
void culm_terminal_end(struct culm_terminal *t);
/* Writes text that is not our own; control characters in it become '?'. */
void culm_terminal_text(struct culm_terminal *t, const char *text);
/* Writes a member of the event that way, or `otherwise` if the event lacks it. */
void culm_terminal_member(struct culm_terminal *t, const json_t *event, const char *member,
                          const char *otherwise);
/* The line of an event `checkpoint`; `count` names the member that counts, `step` or `epoch`. */
void culm_terminal_checkpoint(struct culm_terminal *t, const json_t *event, const char *count);
void culm_terminal_stored(struct culm_terminal *t, const json_t *event, const char *count);
/* Looks a word of an event up in rows ended by {NULL, NULL}; returns the word itself if none has
 * it. */
const char *culm_terminal_meaning(const char *const (*rows)[2], const char *word);
/* The same for the cause of a loss; these are common to all jobs. */
const char *culm_terminal_cause(const char *cause);
/* To be called when a row has written t->step_line. If not live, it writes the line to the log: the
 * first, the last, and at most one a second in between. */
void culm_terminal_step(struct culm_terminal *t, const json_t *event, bool last);
/* No more steps follow: makes sure that the last one is in the log. */
void culm_terminal_steps_end(struct culm_terminal *t, const json_t *event);

#endif
