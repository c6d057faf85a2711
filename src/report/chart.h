/*
 * Line charts as SVG: what a report of one file shows of a run. No script, no font of its own, and the
 * same text for the same numbers.
 *
 * A chart shows at most CULM_CHART_SERIES series. Of a series with more points than there are columns of
 * pixels, the least and the greatest of each column are drawn, so that no peak is lost. Points that are
 * not finite are left out. Thread: none of its own.
 */
#ifndef CULM_REPORT_CHART_H
#define CULM_REPORT_CHART_H

#include "base/buf.h"

#define CULM_CHART_SERIES 8

struct culm_chart_point {
    double x, y; /* x does not fall */
};

struct culm_chart_series {
    char *name; /* owned by whoever made it */
    struct culm_chart_point *point;
    size_t count, capacity;
};

struct culm_chart {
    const char *title, *x_label, *y_label;
    const struct culm_chart_series *series;
    size_t series_count; /* those past CULM_CHART_SERIES are not drawn, and the chart says so */
    bool steps;          /* a value holds until the next */
    bool from_zero;      /* the scale begins at 0 */
    double limit;        /* a line across; 0: none */
    const char *limit_name;
};

/* Appends <figure>..</figure>; nothing when there is no point at all. */
void culm_chart_write(struct culm_buf *out, const struct culm_chart *chart);

/* Text for HTML: < > & " ' are written as entities, and what is no UTF-8 or no character as U+FFFD. */
void culm_html_text(struct culm_buf *out, const char *text);

#endif
