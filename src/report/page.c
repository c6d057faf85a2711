/* Writes the HTML of a page; see page.h. page_events.c collects what it shows. */
#include "report/page.h"

#include "base/file.h"
#include "report/page_events.h"
#include "report/page_runs.h"

#include <stdlib.h>
#include <string.h>

enum { PICTURES_MAX = 24 };
#define PICTURE_BYTES_MAX ((size_t)8 << 20)

static const char style[] =
    "<style>"
    ":root{color-scheme:light dark;--line:#8886;--soft:#888;--c0:#2a6fbb;--c1:#c2571a;--c2:#2c8a4b;"
    "--c3:#8a4fb0;--c4:#b8860b;--c5:#c23a6b;--c6:#3a8f96;--c7:#6b6b6b}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}"
    "table{border-collapse:collapse}td,th{padding:.15em .9em .15em 0;text-align:left;"
    "border-bottom:1px solid var(--line)}td.n,th.n{text-align:right}"
    "figure{margin:1.5em 0}figcaption{font-weight:600}.unit{font-weight:400;color:var(--soft)}"
    "svg{width:100%;height:auto;overflow:visible}"
    "svg text{font-size:11px;fill:currentColor}text.y{text-anchor:end}text.x{text-anchor:middle}"
    "svg path{fill:none;stroke-width:1.5}.grid{stroke:var(--line)}"
    "line.limit{stroke:#c33;stroke-dasharray:5 4}"
    ".legend{margin:.2em 0;font-size:.9em}.key{display:inline-block;width:1em;height:.25em;"
    "vertical-align:middle;margin:0 .4em 0 1em}.key.limit{background:#c33}"
    "path.s0{stroke:var(--c0)}path.s1{stroke:var(--c1)}path.s2{stroke:var(--c2)}"
    "path.s3{stroke:var(--c3)}path.s4{stroke:var(--c4)}path.s5{stroke:var(--c5)}"
    "path.s6{stroke:var(--c6)}path.s7{stroke:var(--c7)}"
    ".s0.key{background:var(--c0)}.s1.key{background:var(--c1)}.s2.key{background:var(--c2)}"
    ".s3.key{background:var(--c3)}.s4.key{background:var(--c4)}.s5.key{background:var(--c5)}"
    ".s6.key{background:var(--c6)}.s7.key{background:var(--c7)}"
    ".pictures img{max-width:100%}code{font-size:.9em}"
    "</style>";

static void cell(struct culm_buf *out, const char *tag, bool number, const char *text) {
    culm_buf_printf(out, "<%s%s>", tag, number ? " class=\"n\"" : "");
    culm_html_text(out, text);
    culm_buf_printf(out, "</%s>", tag);
}

/* --- the summary --- */

static void write_lines(struct culm_buf *out, const struct culm_summary *summary) {
    culm_buf_printf(out, "<table>\n");
    for (const struct culm_summary_line *line = summary->job->lines; line->name; line++) {
        char text[256];
        if (line->value(summary, text, sizeof text)) {
            culm_buf_printf(out, "<tr>");
            cell(out, "th", false, line->name);
            cell(out, "td", false, text);
            culm_buf_printf(out, "</tr>\n");
        }
    }
    for (size_t i = 0; i < culm_goodput_lines(&summary->goodput); i++) {
        char name[20], text[256];
        culm_goodput_line(&summary->goodput, i, name, text, sizeof text);
        culm_buf_printf(out, "<tr>");
        cell(out, "th", false, name);
        cell(out, "td", false, text);
        culm_buf_printf(out, "</tr>\n");
    }
    if (!summary->done) {
        culm_buf_printf(out, "<tr><th>not finished</th>");
        cell(out, "td", false, *summary->last_error ? summary->last_error : "no end was recorded");
        culm_buf_printf(out, "</tr>\n");
    }
    culm_buf_printf(out, "</table>\n");
}

/* --- charts --- */

static void write_charts(struct culm_buf *out, const struct culm_page_events *events) {
    for (size_t c = 0; events->look->charts[c].title; c++) {
        const struct culm_page_chart *of = &events->look->charts[c];
        const struct culm_chart chart = {
            .title = of->title,
            .x_label = of->x_of ? of->x_of : "seconds",
            .y_label = of->y_label,
            .series = events->lines[c].series,
            .series_count = events->lines[c].count,
            .steps = of->steps,
            .from_zero = of->from_zero,
            .limit = of->with_limit ? events->limit_bytes / 1e6 : 0,
            .limit_name = "limit",
        };
        culm_chart_write(out, &chart);
    }
}

/* --- queries --- */

static void write_value(struct culm_buf *out, const struct culm_page_column *column,
                        const json_t *value) {
    char text[64] = "-";
    if (json_is_string(value)) {
        cell(out, "td", false, json_string_value(value));
        return;
    }
    if (json_is_number(value) && column->scale > 0) {
        snprintf(text, sizeof text, "%.1f%s", json_number_value(value) * column->scale,
                 column->unit);
    } else if (json_is_number(value)) {
        snprintf(text, sizeof text, "%.0f%s", json_number_value(value), column->unit);
    }
    cell(out, "td", true, text);
}

static bool some_have(const json_t *queries, const char *key) {
    const json_t *query;
    size_t i;
    json_array_foreach(queries, i, query) {
        if (json_object_get(query, key)) {
            return true;
        }
    }
    return false;
}

static void write_queries(struct culm_buf *out, const struct culm_page_column *columns,
                          const json_t *queries) {
    const struct culm_page_column *column;
    const json_t *query;
    size_t i;
    if (!columns || json_array_size(queries) == 0) {
        return;
    }
    culm_buf_printf(out, "<h2>Queries</h2>\n<table>\n<tr>");
    for (column = columns; column->key; column++) {
        if (some_have(queries, column->key)) {
            cell(out, "th", column > columns, column->title);
        }
    }
    culm_buf_printf(out, "</tr>\n");
    json_array_foreach(queries, i, query) {
        culm_buf_printf(out, "<tr>");
        for (column = columns; column->key; column++) {
            if (some_have(queries, column->key)) {
                write_value(out, column, json_object_get(query, column->key));
            }
        }
        culm_buf_printf(out, "</tr>\n");
    }
    culm_buf_printf(out, "</table>\n");
}

/* --- what happened --- */

static void write_note(struct culm_buf *out, json_t *event) {
    const char *key;
    json_t *value;
    culm_buf_printf(out, "<tr><td class=\"n\">%.1f s</td>",
                    culm_event_real(event, "t_ms", 0) / 1e3);
    cell(out, "td", false, culm_event_text(event, "event", ""));
    culm_buf_printf(out, "<td>");
    json_object_foreach(event, key, value) {
        if (strcmp(key, "event") == 0 || strcmp(key, "t_ms") == 0) {
            continue;
        }
        char *text =
            json_is_string(value)
                ? strdup(json_string_value(value))
                : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(4));
        culm_html_text(out, key);
        culm_buf_printf(out, " ");
        culm_html_text(out, text ? text : "");
        culm_buf_printf(out, "; ");
        free(text);
    }
    culm_buf_printf(out, "</td></tr>\n");
}

static void write_notes(struct culm_buf *out, const struct culm_page_events *events) {
    size_t kept = events->notes < CULM_PAGE_NOTES ? events->notes : CULM_PAGE_NOTES;
    if (kept == 0) {
        return;
    }
    culm_buf_printf(out, "<h2>What happened</h2>\n");
    if (kept < events->notes) {
        culm_buf_printf(out, "<p>The last %zu of %zu:</p>\n", kept, events->notes);
    }
    culm_buf_printf(out, "<table>\n");
    for (size_t i = events->notes - kept; i < events->notes; i++) {
        write_note(out, events->note[i % CULM_PAGE_NOTES]);
    }
    culm_buf_printf(out, "</table>\n");
}

/* --- pictures --- */

static void write_base64(struct culm_buf *out, const uint8_t *data, size_t len) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t bits = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
                        (left > 2 ? data[i + 2] : 0);
        const char four[] = {digit[bits >> 18], digit[bits >> 12 & 63],
                             left > 1 ? digit[bits >> 6 & 63] : '=',
                             left > 2 ? digit[bits & 63] : '='};
        culm_buf_bytes(out, four, sizeof four);
    }
}

static void write_picture(struct culm_buf *out, const char *name, const char *data, size_t len) {
    culm_buf_printf(out, "<figure><img alt=\"");
    culm_html_text(out, name);
    culm_buf_printf(out, "\" src=\"data:image/png;base64,");
    write_base64(out, (const uint8_t *)data, len);
    culm_buf_printf(out, "\"><figcaption>");
    culm_html_text(out, name);
    culm_buf_printf(out, "</figcaption></figure>\n");
}

static bool is_png(const char *name) {
    size_t len = strlen(name);
    return len > 4 && strcmp(name + len - 4, ".png") == 0;
}

/* Pictures are an extra: one that cannot be read is left out. */
static void write_pictures(struct culm_buf *out, const char *dir) {
    char folder[CULM_PATH_MAX], path[CULM_PATH_MAX];
    struct culm_names names = {0};
    size_t shown = 0;
    if (culm_path_format(folder, NULL, "%s/pictures", dir) != CULM_OK ||
        culm_dir_list(folder, &names, NULL) != CULM_OK) {
        return;
    }
    for (size_t i = 0; i < names.count && shown < PICTURES_MAX; i++) {
        char *data;
        size_t len;
        if (is_png(names.name[i]) &&
            culm_path_format(path, NULL, "%s/%s", folder, names.name[i]) == CULM_OK &&
            culm_file_read(NULL, path, PICTURE_BYTES_MAX, &data, &len, NULL) == CULM_OK) {
            culm_buf_printf(out, "%s",
                            shown++ ? "" : "<h2>Frames</h2>\n<div class=\"pictures\">\n");
            write_picture(out, names.name[i], data, len);
            free(data);
        }
    }
    culm_buf_printf(out, "%s", shown ? "</div>\n" : "");
    culm_names_release(&names);
}

/* --- the page --- */

static void write_page(struct culm_buf *out, const char *dir, const struct culm_summary *summary,
                       const struct culm_page_events *events) {
    const char *job = summary->job->name ? summary->job->name : "train";
    culm_buf_printf(out, CULM_PAGE_HEAD
                    "\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                    "<meta name=\"viewport\" content=\"width=device-width\"><title>");
    culm_html_text(out, dir);
    culm_buf_printf(out, "</title>%s</head>\n<body>\n<h1>culm ", style);
    culm_html_text(out, job);
    culm_buf_printf(out, ": <code>");
    culm_html_text(out, dir);
    culm_buf_printf(out, "</code></h1>\n");
    write_lines(out, summary);
    write_queries(out, events->look->columns, json_object_get(events->done, "queries"));
    if (events->look->package) {
        culm_page_runs_write(out, dir);
    }
    write_charts(out, events);
    write_pictures(out, dir);
    write_notes(out, events);
    culm_buf_printf(out, "</body></html>\n");
}

enum culm_status culm_page_write(const char *dir, struct culm_buf *out, struct culm_error *error) {
    const struct culm_summary_job *job;
    enum culm_status status = culm_summary_job_of(dir, culm_summary_jobs, &job, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_summary summary;
    struct culm_page_events events = {0};
    culm_summary_init(&summary, job);
    status = culm_summary_read(&summary, dir, error);
    if (status == CULM_OK) {
        status = culm_page_events_read(&events, job->page, dir, error);
    }
    if (status == CULM_OK) {
        write_page(out, dir, &summary, &events);
        status = out->failed
                     ? culm_error_set(error, CULM_ERR_MEMORY,
                                      "report of '%s': out of memory, or it would be larger than "
                                      "%zu bytes",
                                      dir, out->max_bytes)
                     : CULM_OK;
    }
    culm_page_events_release(&events);
    culm_summary_release(&summary);
    return status;
}
