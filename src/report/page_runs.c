/* The runs of a package at the edge. See page_runs.h. */
#include "report/page_runs.h"

#include "base/file.h"
#include "base/sha256.h"
#include "report/chart.h"
#include "report/merge.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 50 };
#define ROUND_BYTES_MAX ((size_t)256 << 20)

/* What a run's events say. */
struct edge_run {
    const char *dir; /* of the package */
    int64_t round;   /* of it, that the run had last; -1: it had none of its rounds */
    json_t *done;    /* NULL: it has not ended */
};

/* Whether the package's round has that digest. */
static bool is_round(const char *dir, int64_t round, const char *digest) {
    char path[CULM_PATH_MAX], own[CULM_SHA256_HEX], *text = NULL;
    size_t len;
    bool same = culm_path_format(path, NULL, "%s/rounds/%" PRId64 ".json", dir, round) == CULM_OK &&
                culm_file_read(NULL, path, ROUND_BYTES_MAX, &text, &len, NULL) == CULM_OK &&
                culm_sha256_of(text, len, own) == CULM_OK && strcmp(own, digest) == 0;
    free(text);
    return same;
}

static enum culm_status each(void *context, const json_t *event, struct culm_error *error) {
    struct edge_run *run = context;
    const char *kind = culm_event_text(event, "event", "");
    const json_t *package = json_object_get(event, "package");
    const char *digest = culm_event_text(package, "digest", "");
    const int64_t round = culm_event_int(event, "round", -1);
    (void)error;
    if (json_is_object(package) && round >= 0 && is_round(run->dir, round, digest)) {
        run->round = round;
    }
    if (strcmp(kind, "start") == 0 || strcmp(kind, "done") == 0) {
        json_decref(run->done);
        run->done = *kind == 'd' ? json_deep_copy(event) : NULL;
    }
    return CULM_OK;
}

static void cell(struct culm_buf *out, const char *text) {
    culm_buf_printf(out, "<td>");
    culm_html_text(out, text);
    culm_buf_printf(out, "</td>");
}

static void write_run(struct culm_buf *out, const char *name, const struct edge_run *run) {
    int64_t frames = 0, processed = 0, measured = 0;
    double accuracy = 0;
    const json_t *query;
    size_t i;
    json_array_foreach(json_object_get(run->done, "queries"), i, query) {
        const json_t *own = json_object_get(query, "accuracy");
        frames += culm_event_int(query, "frames", 0);
        processed += culm_event_int(query, "processed", 0);
        accuracy += json_number_value(own);
        measured += json_is_number(own);
    }
    culm_buf_printf(out, "<tr>");
    cell(out, name);
    culm_buf_printf(out, "<td class=\"n\">%" PRId64 "</td>", run->round);
    if (!run->done) {
        culm_buf_printf(out, "<td colspan=\"4\">not finished</td></tr>\n");
        return;
    }
    culm_buf_printf(out, "<td class=\"n\">%" PRId64 "</td><td class=\"n\">", frames);
    culm_buf_printf(out, frames > 0 ? "%.1f %%</td><td class=\"n\">" : "-</td><td class=\"n\">",
                    100 * (double)processed / (double)(frames > 0 ? frames : 1));
    culm_buf_printf(out, measured > 0 ? "%.1f %%</td>" : "-</td>",
                    100 * accuracy / (double)(measured > 0 ? measured : 1));
    culm_buf_printf(out, "<td class=\"n\">%.2f of %.2f MB</td></tr>\n",
                    culm_event_real(run->done, "resident_max_bytes", 0) / 1e6,
                    culm_event_real(run->done, "limit_bytes", 0) / 1e6);
}

/* Those of other jobs are known by their first events. */
static bool is_edge(const char *dir) {
    const struct culm_summary_job *const jobs[] = {&culm_summary_edge, NULL};
    const struct culm_summary_job *job;
    return culm_summary_job_of(dir, jobs, &job, NULL) == CULM_OK;
}

static bool look(struct culm_buf *out, const char *dir, const char *path, const char *name,
                 bool first) {
    char log[CULM_PATH_MAX];
    struct edge_run run = {.dir = dir, .round = -1};
    bool shown = culm_path_format(log, NULL, "%s/events.jsonl", path) == CULM_OK &&
                 culm_file_is_regular(log) && is_edge(path) &&
                 culm_events_read(log, each, &run, NULL) == CULM_OK && run.round >= 0;
    if (shown) {
        culm_buf_printf(out, "%s",
                        first ? "<h2>Runs at the edge</h2>\n<table>\n<tr><th>run</th><th "
                                "class=\"n\">round</th><th class=\"n\">frames</th><th "
                                "class=\"n\">in time</th><th class=\"n\">accuracy</th><th "
                                "class=\"n\">memory</th></tr>\n"
                              : "");
        write_run(out, name, &run);
    }
    json_decref(run.done);
    return shown;
}

void culm_page_runs_write(struct culm_buf *out, const char *dir) {
    char own[PATH_MAX], path[CULM_PATH_MAX];
    struct culm_names names = {0};
    int shown = 0;
    char *slash = realpath(dir, own) ? strrchr(own, '/') : NULL;
    if (!slash || slash == own) {
        return;
    }
    *slash = '\0';
    if (culm_dir_list(own, &names, NULL) != CULM_OK) {
        return;
    }
    for (size_t i = 0; i < names.count && shown < RUNS_MAX; i++) {
        if (culm_path_format(path, NULL, "%s/%s", own, names.name[i]) == CULM_OK &&
            culm_file_is_directory(path)) {
            shown += look(out, dir, path, names.name[i], shown == 0);
        }
    }
    culm_buf_printf(out, "%s", shown ? "</table>\n" : "");
    culm_names_release(&names);
}
