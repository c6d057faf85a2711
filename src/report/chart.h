/*
 * Line charts as SVG, for the one-file report of a run. They need no script and no font, and the
 * same numbers give the same bytes.
 *
 * A chart shows at most CULM_CHART_SERIES series. Where a series has several points in one column
 * of pixels, the smallest and the largest of them are drawn, so that no peak is lost. Points that
 * are not finite are left out.
 *
 * Thread: any.
 */
#ifndef CULM_REPORT_CHART_H
#define CULM_REPORT_CHART_H

#include "base/buf.h"

#define CULM_CHART_SERIES 8

struct culm_chart_point {
    double x, y; /* x does not decrease from point to point */
};

struct culm_chart_series {
    char *name; /* owned by whoever made the series */
    struct culm_chart_point *point;
    size_t count, capacity;
};

struct culm_chart {
    const char *title, *x_label, *y_label;
    const struct culm_chart_series *series;
    size_t series_count; /* those past CULM_CHART_SERIES are not drawn, which the legend says */
    bool steps;          /* draw steps: a value holds until the next one */
    bool from_zero;      /* the y axis includes 0 */
    double limit;        /* a horizontal line at this value; 0: none */
    const char *limit_name;
};

/* Appends <figure>..</figure>, or nothing if no point can be drawn. */
void culm_chart_write(struct culm_buf *out, const struct culm_chart *chart);

/* Appends text escaped for HTML: < > & " ' as entities; U+FFFD for bytes that are not UTF-8 and for
 * characters that HTML may not hold. */
void culm_html_text(struct culm_buf *out, const char *text);

#endif
