/* Collects what a page shows of events; see page_events.h. */
#include "report/page_events.h"
#include "report/segments.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

enum { SERIES_MAX = 64, STRETCHES = 60 };

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "report: out of memory");
}

/* The time of an event since the run began, over resumes, at each of which t_ms begins anew. */
static double now_ms(struct culm_page_events *e, const json_t *event) {
    double t_ms = culm_event_real(event, "t_ms", e->t_ms);
    if (t_ms < e->t_ms && strcmp(culm_event_text(event, "event", ""), "start") == 0) {
        e->before_ms += e->t_ms;
    }
    e->t_ms = t_ms;
    return e->before_ms + t_ms;
}

/* --- charts --- */

/* The series of that name, added if it is new. NULL: out of memory or, with *ret_full set, too many
 * series. */
static struct culm_chart_series *series_of(struct culm_page_lines *lines, const char *name,
                                           bool *ret_full) {
    for (size_t i = 0; i < lines->count; i++) {
        if (strcmp(lines->series[i].name, name) == 0) {
            return &lines->series[i];
        }
    }
    *ret_full = lines->count >= SERIES_MAX;
    if (*ret_full || !CULM_GROW(lines->series, lines->capacity, lines->count + 1)) {
        return NULL;
    }
    struct culm_chart_series *series = &lines->series[lines->count];
    *series = (struct culm_chart_series){.name = strdup(name)};
    lines->count += series->name != NULL;
    return series->name ? series : NULL;
}

static enum culm_status add_point(struct culm_page_lines *lines, const char *name, bool undoes,
                                  double x, double y, struct culm_error *error) {
    bool full = false;
    struct culm_chart_series *series = series_of(lines, name, &full);
    if (full) {
        return CULM_OK;
    }
    if (!series || !CULM_GROW(series->point, series->capacity, series->count + 1)) {
        return no_memory(error);
    }
    while (undoes && series->count && series->point[series->count - 1].x >= x) {
        series->count--; /* undone by a roll-back or a resume */
    }
    series->point[series->count++] = (struct culm_chart_point){x, y};
    return CULM_OK;
}

static enum culm_status add_to_chart(struct culm_page_lines *lines,
                                     const struct culm_page_chart *chart, const json_t *event,
                                     double at_ms, struct culm_error *error) {
    const char *kind = culm_event_text(event, "event", "");
    enum culm_status status = CULM_OK;
    for (const struct culm_page_line *line = chart->line; line->event && status == CULM_OK;
         line++) {
        const json_t *value = json_object_get(event, line->key);
        if (strcmp(line->event, kind) != 0 || (!chart->share && !json_is_number(value))) {
            continue;
        }
        double x = chart->x_of ? culm_event_real(event, chart->x_of, 0) : at_ms / 1e3;
        double y = chart->share ? (value ? 100 : 0) : json_number_value(value) * line->scale;
        const char *name = line->name_of ? culm_event_text(event, line->name_of, "") : line->name;
        status = add_point(lines, name, chart->x_of != NULL, x, y, error);
    }
    return status;
}

/* Replaces points of 0 and 100 by their means over stretches of `stretch` seconds. */
static void gather(struct culm_chart_series *series, double stretch) {
    size_t kept = 0;
    for (size_t p = 0; p < series->count;) {
        double begin = stretch * (double)(int64_t)(series->point[p].x / stretch), sum = 0;
        size_t of = 0;
        do {
            sum += series->point[p++].y;
            of++;
        } while (p < series->count && series->point[p].x < begin + stretch);
        series->point[kept++] = (struct culm_chart_point){begin, sum / (double)of};
    }
    series->count = kept;
}

/* --- what happened --- */

static enum culm_status add_note(struct culm_page_events *e, const json_t *event, double at_ms,
                                 struct culm_error *error) {
    json_t *copy = json_deep_copy(event);
    if (!copy || json_object_set_new(copy, "t_ms", json_real(at_ms))) {
        json_decref(copy);
        return no_memory(error);
    }
    json_t **at = &e->note[e->notes++ % CULM_PAGE_NOTES];
    json_decref(*at);
    *at = copy;
    return CULM_OK;
}

static bool is_noted(const struct culm_page_look *look, const char *kind) {
    const char *const *note = look->notes;
    while (*note && strcmp(*note, kind) != 0) {
        note++;
    }
    return *note != NULL;
}

/* --- reading --- */

static enum culm_status each(void *context, const json_t *event, struct culm_error *error) {
    struct culm_page_events *e = context;
    const char *kind = culm_event_text(event, "event", "");
    double at_ms = now_ms(e, event);
    enum culm_status status = CULM_OK;
    e->limit_bytes = culm_event_real(event, "limit_bytes", e->limit_bytes);
    for (size_t c = 0; e->look->charts[c].title && status == CULM_OK; c++) {
        status = add_to_chart(&e->lines[c], &e->look->charts[c], event, at_ms, error);
    }
    if (status == CULM_OK && is_noted(e->look, kind)) {
        status = add_note(e, event, at_ms, error);
    }
    if (status == CULM_OK && strcmp(kind, "done") == 0) {
        json_decref(e->done);
        e->done = json_deep_copy(event);
        status = e->done ? CULM_OK : no_memory(error);
    }
    return status;
}

/* Lets a series begin with 0 at the start, and hold its last value until the end. */
static enum culm_status hold(struct culm_chart_series *series, double end,
                             struct culm_error *error) {
    if (!CULM_GROW(series->point, series->capacity, series->count + 2)) {
        return no_memory(error);
    }
    if (series->point[0].x > 0) {
        memmove(series->point + 1, series->point, series->count++ * sizeof *series->point);
        series->point[0] = (struct culm_chart_point){0, 0};
    }
    const struct culm_chart_point last = series->point[series->count - 1];
    if (last.x < end) {
        series->point[series->count++] = (struct culm_chart_point){end, last.y};
    }
    return CULM_OK;
}

enum culm_status culm_page_events_read(struct culm_page_events *e,
                                       const struct culm_page_look *look, const char *dir,
                                       struct culm_error *error) {
    *e = (struct culm_page_events){.look = look};
    enum culm_status status = culm_events_read_run(dir, each, e, error);
    double end = (e->before_ms + e->t_ms) / 1e3, stretch = end / STRETCHES;
    for (size_t c = 0; look->charts[c].title; c++) {
        for (size_t i = 0; i < e->lines[c].count && look->charts[c].share && stretch > 0; i++) {
            gather(&e->lines[c].series[i], stretch);
        }
        for (size_t i = 0; i < e->lines[c].count && look->charts[c].holds && !status; i++) {
            status = hold(&e->lines[c].series[i], end, error);
        }
    }
    return status;
}

void culm_page_events_release(struct culm_page_events *e) {
    for (size_t c = 0; c < CULM_PAGE_CHARTS; c++) {
        for (size_t i = 0; i < e->lines[c].count; i++) {
            free(e->lines[c].series[i].name);
            free(e->lines[c].series[i].point);
        }
        free(e->lines[c].series);
    }
    for (size_t i = 0; i < CULM_PAGE_NOTES; i++) {
        json_decref(e->note[i]);
    }
    json_decref(e->done);
    *e = (struct culm_page_events){0};
}
