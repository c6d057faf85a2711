/*
 * What a run writes: a line for each answer, and one for each event. A disk that is full costs lines,
 * which are counted, and never the run.
 */
#include "live/run.h"

#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_FORMAT (JSON_COMPACT | JSON_REAL_PRECISION(17))

struct culm_journal_limits live_limits(const struct culm_live *run) {
    const struct culm_answers_config *config = &run->catalog[run->catalogs - 1]->workload.answers;
    return (struct culm_journal_limits){.rotate_bytes = config->rotate_mb * 1000000,
                                        .keep_bytes = config->keep_mb * 1000000};
}

void live_warn(struct culm_live *run, const char *text) {
    live_publish(run, json_pack("{s:s, s:o}", "event", "warning", "message", culm_json_text(text)));
}

/* Once when lines begin to be lost, and once when they are written again. */
static void tell(struct culm_live *run, const char *what, const struct culm_journal *journal,
                 enum culm_journal_news news, const struct culm_error *error) {
    char text[2 * CULM_ERROR_MAX + 160];
    if (news == CULM_JOURNAL_LOST) {
        snprintf(
            text, sizeof text,
            "%s: the run goes on, and %s that cannot be written are lost; free some space there",
            error->text, what);
        live_warn(run, text);
    } else if (news == CULM_JOURNAL_WRITTEN) {
        snprintf(text, sizeof text, "%s are written again; %lld of this run have been lost", what,
                 (long long)culm_journal_lost(journal));
        live_warn(run, text);
    }
}

void live_write_answer(struct culm_live *run, struct live_query *query, const char *text_or_null) {
    struct culm_error error;
    char what[CULM_ERROR_MAX];
    snprintf(what, sizeof what, "answers of query '%.100s'", query->entry->config->name);
    tell(run, what, query->out, culm_journal_add(query->out, text_or_null, &error), &error);
}

enum culm_status live_open_events(struct culm_live *run, const char *path,
                                  struct culm_error *error) {
    const int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
        return culm_error_errno(error, errno, "open '%s'", path);
    }
    const struct culm_journal_limits all = {0};
    return culm_journal_open(fd, path, &all, &run->events, error);
}

void live_write_event(struct culm_live *run, const json_t *event, bool last) {
    struct culm_error error;
    char *text = json_dumps(event, EVENT_FORMAT);
    const enum culm_journal_news news = culm_journal_add(run->events, text, &error);
    free(text);
    (void)culm_sink_event(run->o->events, event, NULL);
    if (!last) { /* nothing follows the last one */
        tell(run, "events", run->events, news, &error);
    }
}

void live_fill_lost(const struct culm_live *run, json_t *done) {
    json_t *item;
    size_t i;
    json_object_set_new(done, "events_lost",
                        json_integer(run->events ? culm_journal_lost(run->events) : 0));
    json_array_foreach(json_object_get(done, "queries"), i, item) {
        const char *name = json_string_value(json_object_get(item, "query"));
        int64_t lost = 0;
        for (int32_t q = 0; q < run->query_count && name; q++) {
            const struct live_query *query = &run->query[q];
            lost += query->out && strcmp(query->entry->config->name, name) == 0
                        ? culm_journal_lost(query->out)
                        : 0;
        }
        json_object_set_new(item, "answers_lost", json_integer(lost));
    }
}
