/*
 * The terminal: what a person watches while training runs.
 *
 * What happens (workers join and go, recoveries, checkpoints) scrolls by as lines, one sentence each.
 * To a terminal, the current step and a map of who does what stay below them and are
 * redrawn in place; to anything else (a file, a pipe), they are plain lines: a step line at most
 * once a second, the map whenever it changes. Thread: one at a time.
 */
#ifndef CULM_REPORT_TERMINAL_H
#define CULM_REPORT_TERMINAL_H

#include "report/sink.h"

/* What each event of a job shows (terminal_rows.h): a table of the job's own (training.h). */
struct culm_terminal_row;

struct culm_terminal_options {
    const struct culm_terminal_row *rows; /* borrowed */
    int fd;                               /* not closed */
    bool live;                            /* redraw in place with ANSI sequences */
    bool color;                           /* only with live */
    int columns;                          /* lines that are redrawn are cut to this width */
    int64_t steps;                        /* of the whole run; 0: not known */
};

/* What suits `fd`: live and with its width when it is a terminal; NO_COLOR and TERM=dumb count. */
struct culm_terminal_options
culm_terminal_options_of(int fd, const struct culm_terminal_row *borrow_rows, int64_t steps);
/* NULL: out of memory. */
struct culm_sink *culm_sink_terminal_new(const struct culm_terminal_options *options);

#endif
