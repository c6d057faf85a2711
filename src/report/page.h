/*
 * The report of a run as a single HTML file: the lines of its summary, tables, charts of its
 * events, the pictures in DIR/pictures, and a list of what happened. The file needs no script and
 * fetches nothing; the same events give the same bytes. Text from events and file names is escaped,
 * so it cannot act as markup.
 *
 * What the page of a job shows is in a table of that job (struct culm_page_look), beside those of
 * its summary.
 *
 * Thread: one at a time.
 */
#ifndef CULM_REPORT_PAGE_H
#define CULM_REPORT_PAGE_H

#include "base/buf.h"
#include "report/summary.h"

/* A line of a chart: each event of this kind that has a number `key` is a point. */
struct culm_page_line {
    const char *event; /* NULL: past the last line */
    const char *key;
    const char *name;    /* how the legend calls the line */
    const char *name_of; /* NULL, or the member that names the line: one line for each text of it */
    double scale;        /* the number is multiplied by this */
};

#define CULM_PAGE_LINES 4

struct culm_page_chart {
    const char *title; /* NULL: past the last chart */
    const char *x_of;  /* the member that is x, which increases; NULL: x is seconds of the run */
    const char *y_label;
    bool steps;      /* draw steps: a value holds until the next one */
    bool from_zero;  /* the y axis includes 0 */
    bool with_limit; /* draw a line at the run's limit_bytes, in MB */
    bool holds;      /* lines begin at 0, and their last value holds until the run ends */
    bool share;      /* show the share of events, per stretch of time, that have `key`, in % */
    struct culm_page_line line[CULM_PAGE_LINES + 1];
};

/* A column of the table made of "queries" in the event `done`. */
struct culm_page_column {
    const char *key; /* NULL: past the last column */
    const char *title;
    double scale;     /* multiplies a number, shown with one decimal; 0: a whole number */
    const char *unit; /* written after the number */
};

struct culm_page_look {
    const struct culm_page_chart *charts;
    const struct culm_page_column *columns; /* NULL: no table */
    const char *const *notes;               /* kinds of events listed one by one, ended by NULL */
    bool package; /* the directory is a package: list the edge runs of it that lie beside it */
};

#define CULM_PAGE_HEAD "<!DOCTYPE html>" /* what every page begins with */
#define CULM_PAGE_BYTES_MAX ((size_t)256 << 20)

/* Appends the page of the run in `dir`. Errors: those of culm_summary_job_of and culm_summary_read;
 * CULM_ERR_MEMORY, also if the page would exceed out->max_bytes. */
enum culm_status culm_page_write(const char *dir, struct culm_buf *out, struct culm_error *error);

#endif
