/* Collects what a page shows of a run's events. For page.c alone. */
#ifndef CULM_REPORT_PAGE_EVENTS_H
#define CULM_REPORT_PAGE_EVENTS_H

#include "report/chart.h"
#include "report/page.h"

#define CULM_PAGE_CHARTS 8
#define CULM_PAGE_NOTES 200

struct culm_page_lines {
    struct culm_chart_series *series;
    size_t count, capacity;
};

struct culm_page_events {
    const struct culm_page_look *look;
    struct culm_page_lines lines[CULM_PAGE_CHARTS]; /* by the number of the look's chart */
    json_t *done;                                   /* the last event `done`; NULL: none */
    json_t *note[CULM_PAGE_NOTES]; /* a ring of the last ones; their t_ms goes on over resumes */
    size_t notes;                  /* how many there were in all */
    double limit_bytes;
    double t_ms,
        before_ms; /* t_ms of the last event; the time of all runs before the last resume */
};

/* Reads every event of DIR/events.jsonl. Must be released after a failure too. Errors: those of
 * culm_events_read; CULM_ERR_MEMORY. */
enum culm_status culm_page_events_read(struct culm_page_events *events,
                                       const struct culm_page_look *look, const char *dir,
                                       struct culm_error *error);
void culm_page_events_release(struct culm_page_events *events);

#endif
