/* Charts as SVG; see chart.h. */
#include "report/chart.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { WIDTH = 720, HEIGHT = 240, LEFT = 64, RIGHT = 12, TOP = 12, BOTTOM = 34, TICKS = 5 };
#define COLUMNS (WIDTH - LEFT - RIGHT)
#define ROWS (HEIGHT - TOP - BOTTOM)

struct scale {
    double x0, x1, y0, y1;
};

/* The length in bytes of the character at `text`; 0: it is not UTF-8, or HTML may not hold it. */
static size_t character(const unsigned char *text) {
    if (text[0] < 0x80) {
        return text[0] >= 0x20 || text[0] == '\n' || text[0] == '\t';
    }
    size_t bytes = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : text[0] >= 0xc2 ? 2 : 0;
    if (bytes == 0 || text[0] > 0xf4) {
        return 0;
    }
    uint32_t code = text[0] & (0xffU >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (text[i] & 0x3fU);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    bool surrogate = code >= 0xd800 && code < 0xe000;
    return code >= least[bytes] && code <= 0x10ffff && !surrogate ? bytes : 0;
}

void culm_html_text(struct culm_buf *out, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        size_t bytes = character(at);
        const char *entity = *at == '<'    ? "&lt;"
                             : *at == '>'  ? "&gt;"
                             : *at == '&'  ? "&amp;"
                             : *at == '"'  ? "&quot;"
                             : *at == '\'' ? "&#39;"
                             : bytes == 0  ? "\xef\xbf\xbd"
                                           : NULL;
        if (entity) {
            culm_buf_bytes(out, entity, strlen(entity));
        } else {
            culm_buf_bytes(out, at, bytes);
        }
        at += bytes ? bytes : 1;
    }
}

static bool drawn(const struct culm_chart_point *point) {
    return isfinite(point->x) && isfinite(point->y);
}

static size_t shown(const struct culm_chart *chart) {
    return chart->series_count < CULM_CHART_SERIES ? chart->series_count : CULM_CHART_SERIES;
}

/* Finds the range of the axes. False: there is nothing to draw. */
static bool measure(const struct culm_chart *chart, struct scale *ret) {
    struct scale s = {DBL_MAX, -DBL_MAX, DBL_MAX, -DBL_MAX};
    for (size_t i = 0; i < shown(chart); i++) {
        for (size_t p = 0; p < chart->series[i].count; p++) {
            const struct culm_chart_point *point = &chart->series[i].point[p];
            if (drawn(point)) {
                s.x0 = fmin(s.x0, point->x);
                s.x1 = fmax(s.x1, point->x);
                s.y0 = fmin(s.y0, point->y);
                s.y1 = fmax(s.y1, point->y);
            }
        }
    }
    if (s.x1 < s.x0) {
        return false;
    }
    if (chart->limit > 0) {
        s.y0 = fmin(s.y0, chart->limit);
        s.y1 = fmax(s.y1, chart->limit);
    }
    s.y0 = chart->from_zero ? fmin(s.y0, 0) : s.y0;
    /* A range of 0 is widened. If its ends are so far apart that it overflows, nothing is drawn. */
    s.x1 = fmax(s.x1, s.x0 + (s.x0 != 0 ? fabs(s.x0) * 1e-6 : 1));
    s.y1 = fmax(s.y1, s.y0 + (s.y0 != 0 ? fabs(s.y0) * 1e-6 : 1));
    *ret = s;
    return isfinite(s.x1 - s.x0) && isfinite(s.y1 - s.y0);
}

static double column(const struct scale *s, double x) {
    return LEFT + (x - s->x0) / (s->x1 - s->x0) * COLUMNS;
}

static double row(const struct scale *s, double y) {
    return TOP + ROWS - (y - s->y0) / (s->y1 - s->y0) * ROWS;
}

/* 1, 2 or 5 times a power of ten, so that about TICKS of them fill the span. */
static double tick(double span) {
    double raw = span / TICKS, power = pow(10, floor(log10(raw))), times = raw / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

/* A short form of a number: 1.5 M, 20 k. */
static void label(struct culm_buf *out, double value, double step) {
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e4, " k"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (fabs(value) >= units[i].unit) {
            double unit = units[i].unit == 1e4 ? 1e3 : units[i].unit;
            culm_buf_printf(out, "%.6g%s", value / unit, units[i].name);
            return;
        }
    }
    culm_buf_printf(out, "%.6g", fabs(value) < step * 1e-6 ? 0 : value);
}

static void axes(struct culm_buf *out, const struct culm_chart *chart, const struct scale *s) {
    double every = tick(s->y1 - s->y0), y0 = ceil(s->y0 / every) * every;
    for (int i = 0; y0 + i * every <= s->y1 + every * 1e-9; i++) {
        double y = y0 + i * every, at = row(s, y);
        culm_buf_printf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                        LEFT, WIDTH - RIGHT, at, at);
        culm_buf_printf(out, "<text class=\"y\" x=\"%d\" y=\"%.1f\">", LEFT - 6, at + 4);
        label(out, y, every);
        culm_buf_printf(out, "</text>");
    }
    every = tick(s->x1 - s->x0);
    double x0 = ceil(s->x0 / every) * every;
    for (int i = 0; x0 + i * every <= s->x1 + every * 1e-9; i++) {
        double x = x0 + i * every;
        culm_buf_printf(out, "<text class=\"x\" x=\"%.1f\" y=\"%d\">", column(s, x),
                        HEIGHT - BOTTOM + 14);
        label(out, x, every);
        culm_buf_printf(out, "</text>");
    }
    culm_buf_printf(out, "<text class=\"x\" x=\"%d\" y=\"%d\">", LEFT + COLUMNS / 2, HEIGHT - 4);
    culm_html_text(out, chart->x_label);
    culm_buf_printf(out, "</text>");
    if (chart->limit > 0) {
        double at = row(s, chart->limit);
        culm_buf_printf(out, "<line class=\"limit\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                        LEFT, WIDTH - RIGHT, at, at);
    }
}

static void to(struct culm_buf *out, bool *first, bool steps, double x, double y) {
    if (steps && !*first) {
        culm_buf_printf(out, "H%.1f", x);
    }
    culm_buf_printf(out, "%s%.1f %.1f", *first ? "M" : "L", x, y);
    *first = false;
}

/* Draws a series. Of the points in one column of pixels it draws the first, the smallest, the
 * largest and the last. */
static void path(struct culm_buf *out, const struct culm_chart *chart,
                 const struct culm_chart_series *series, const struct scale *s) {
    bool first = true;
    for (size_t p = 0; p < series->count;) {
        const struct culm_chart_point *point = &series->point[p];
        if (!drawn(point)) {
            p++;
            continue;
        }
        double x = column(s, point->x), least = point->y, most = point->y, last = point->y;
        size_t of = 0;
        for (; p < series->count && column(s, series->point[p].x) < x + 1; p++) {
            if (drawn(&series->point[p])) {
                last = series->point[p].y;
                least = fmin(least, last);
                most = fmax(most, last);
                of++;
            }
        }
        to(out, &first, chart->steps, x, row(s, point->y));
        if (of > 2) {
            to(out, &first, false, x, row(s, most));
            to(out, &first, false, x, row(s, least));
        }
        if (of > 1) {
            to(out, &first, false, x, row(s, last));
        }
    }
}

static void legend(struct culm_buf *out, const struct culm_chart *chart) {
    culm_buf_printf(out, "<p class=\"legend\">");
    for (size_t i = 0; i < shown(chart) && chart->series_count > 1; i++) {
        culm_buf_printf(out, "<span class=\"key s%zu\"></span>", i);
        culm_html_text(out, chart->series[i].name);
        culm_buf_printf(out, " ");
    }
    if (chart->limit > 0) {
        culm_buf_printf(out, "<span class=\"key limit\"></span>");
        culm_html_text(out, chart->limit_name);
    }
    if (chart->series_count > shown(chart)) {
        culm_buf_printf(out, "and %zu more, not drawn", chart->series_count - shown(chart));
    }
    culm_buf_printf(out, "</p>");
}

void culm_chart_write(struct culm_buf *out, const struct culm_chart *chart) {
    struct scale s;
    if (!measure(chart, &s)) {
        return;
    }
    culm_buf_printf(out, "<figure><figcaption>");
    culm_html_text(out, chart->title);
    culm_buf_printf(out, " <span class=\"unit\">");
    culm_html_text(out, chart->y_label);
    culm_buf_printf(out, "</span></figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\">", WIDTH,
                    HEIGHT);
    axes(out, chart, &s);
    for (size_t i = 0; i < shown(chart); i++) {
        culm_buf_printf(out, "<path class=\"s%zu\" d=\"", i);
        path(out, chart, &chart->series[i], &s);
        culm_buf_printf(out, "\"/>");
    }
    culm_buf_printf(out, "</svg>");
    legend(out, chart);
    culm_buf_printf(out, "</figure>\n");
}
