/*
 * The report of a run as one HTML file: its closing lines, tables, charts of its events, pictures of
 * DIR/pictures, and what happened, all in the file itself. No script, nothing fetched from elsewhere;
 * the same events give the same bytes. Whatever text is in events or names of files is shown as text.
 *
 * What a job shows is a table of its own (struct culm_page_look), beside those of its summary.
 * Thread: one at a time.
 */
#ifndef CULM_REPORT_PAGE_H
#define CULM_REPORT_PAGE_H

#include "base/buf.h"
#include "report/summary.h"

/* Each event of this kind that has the number `key` is a point. */
struct culm_page_line {
    const char *event; /* NULL: past the last line */
    const char *key;
    const char *name;    /* of the line */
    const char *name_of; /* NULL, or the member whose text is the name: a line for each */
    double scale;        /* what is shown is the number times this */
};

#define CULM_PAGE_LINES 4

struct culm_page_chart {
    const char *title; /* NULL: past the last chart */
    const char *x_of;  /* the member that x is, rising; NULL: seconds of the run */
    const char *y_label;
    bool steps;      /* a value holds until the next */
    bool from_zero;  /* the scale begins at 0 */
    bool with_limit; /* a line at the limit_bytes that the run had, in MB */
    bool holds;      /* it is 0 before the first, and the last holds to the end of the run */
    bool share;      /* of events, in stretches of time: those that have `key`, in % */
    struct culm_page_line line[CULM_PAGE_LINES + 1];
};

/* Of the table of "queries" in the event done. */
struct culm_page_column {
    const char *key; /* NULL: past the last column */
    const char *title;
    double scale;     /* of a number shown with one decimal; 0: a whole number */
    const char *unit; /* behind it */
};

struct culm_page_look {
    const struct culm_page_chart *charts;
    const struct culm_page_column *columns; /* NULL: no table */
    const char *const *notes;               /* events that are told one by one, ended by NULL */
    bool package; /* it is one: runs of it at the edge are listed, if they lie beside it */
};

#define CULM_PAGE_HEAD "<!DOCTYPE html>" /* that it begins with */
#define CULM_PAGE_BYTES_MAX ((size_t)256 << 20)

/* Appends the page of the run in `dir`. The errors of culm_summary_job_of and culm_summary_read;
 * CULM_ERR_MEMORY when it would pass out->max_bytes. */
enum culm_status culm_page_write(const char *dir, struct culm_buf *out, struct culm_error *error);

#endif
