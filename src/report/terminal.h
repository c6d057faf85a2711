/*
 * The terminal: what a person watches while a job runs.
 *
 * What happens (workers that join and leave, recoveries, checkpoints) scrolls by, one line each. On
 * a terminal, the current step and a map of who does what stay below these lines and are redrawn
 * in place. To anything else (a file, a pipe) they are written as ordinary lines: the step at most
 * once a second, the map whenever it changes.
 *
 * Thread: one at a time.
 */
#ifndef CULM_REPORT_TERMINAL_H
#define CULM_REPORT_TERMINAL_H

#include "report/sink.h"

/* What each kind of event shows (terminal_rows.h). Every job has its own table (training.h). */
struct culm_terminal_row;

struct culm_terminal_options {
    const struct culm_terminal_row *rows; /* borrowed */
    int fd;                               /* not closed */
    bool live;                            /* redraw in place, with ANSI sequences */
    bool color;                           /* only with live */
    int columns;                          /* the width to which redrawn lines are cut */
    int64_t steps;                        /* of the whole run; 0: not known */
};

/* The options that suit `fd`: live and with its width if it is a terminal. Heeds NO_COLOR and
 * TERM=dumb. */
struct culm_terminal_options
culm_terminal_options_of(int fd, const struct culm_terminal_row *borrow_rows, int64_t steps);
/* NULL: out of memory. */
struct culm_sink *culm_sink_terminal_new(const struct culm_terminal_options *options);

#endif
