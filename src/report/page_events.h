/* What a page shows of a run's events, collected; for page.c alone. */
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
    struct culm_page_lines lines[CULM_PAGE_CHARTS]; /* of each of the look's charts */
    json_t *done;                                   /* the last; NULL: none */
    json_t *note[CULM_PAGE_NOTES]; /* the last ones, in a ring; t_ms is over resumes */
    size_t notes;                  /* all that there were */
    double limit_bytes;
    double t_ms, before_ms; /* of the last event, and of all before the last resume */
};

/* Adds every event of DIR/events.jsonl. Release it in any case. */
enum culm_status culm_page_events_read(struct culm_page_events *events,
                                       const struct culm_page_look *look, const char *dir,
                                       struct culm_error *error);
void culm_page_events_release(struct culm_page_events *events);

#endif
