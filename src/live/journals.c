/*
 * What a run writes: a line for each answer, and one for each event. A disk that is full costs lines,
 * which are counted, and never the run. Files give way to newer ones as the workload says; events do in
 * any case, since there are some for every frame. Whoever moves a file away finds a new one in its place.
 */
#include "live/run.h"

#include "base/clock.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the workload does not say when files give way; a day of a small run. */
#define EVENTS_ROTATE INT64_C(64000000)
#define EVENTS_KEEP INT64_C(256000000)
#define FOLLOW_NS UINT64_C(1000000000) /* how often files are looked for at their paths */

#define EVENT_FORMAT (JSON_COMPACT | JSON_REAL_PRECISION(17))

void live_limit_files(struct culm_live *run, const struct culm_answers_config *config) {
    run->limits = (struct culm_journal_limits){.rotate_bytes = config->rotate_mb * 1000000,
                                               .keep_bytes = config->keep_mb * 1000000};
}

static struct culm_journal_limits event_limits(const struct culm_live *run) {
    return run->limits.rotate_bytes > 0 ? run->limits
                                        : (struct culm_journal_limits){EVENTS_ROTATE, EVENTS_KEEP};
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
    const struct culm_journal_limits limits = event_limits(run);
    return culm_journal_open(fd, path, &limits, &run->events, error);
}

/* Each file of events begins with what the run is. */
static void keep_start(struct culm_live *run, const json_t *event) {
    json_t *again = json_copy((json_t *)(uintptr_t)event);
    json_object_set_new(again, "repeated", json_true());
    char *text = again ? json_dumps(again, EVENT_FORMAT) : NULL;
    if (text) { /* else there is no memory, and what a file lacks can be told without it */
        (void)culm_journal_begin_with(run->events, text);
    }
    free(text);
    json_decref(again);
}

void live_write_event(struct culm_live *run, const json_t *event, bool last) {
    struct culm_error error;
    const char *kind = json_string_value(json_object_get(event, "event"));
    char *text = json_dumps(event, EVENT_FORMAT);
    const enum culm_journal_news news = culm_journal_add(run->events, text, &error);
    free(text);
    if (kind && strcmp(kind, "start") == 0) {
        keep_start(run, event);
    }
    (void)culm_sink_event(run->o->events, event, NULL);
    if (!last) { /* nothing follows the last one */
        tell(run, "events", run->events, news, &error);
    }
}

static void follow(struct culm_live *run, struct culm_journal *journal,
                   const struct culm_journal_limits *limits) {
    struct culm_error error;
    culm_journal_limit(journal, limits);
    if (!culm_journal_follow(journal, &error)) {
        char text[CULM_ERROR_MAX + 160];
        snprintf(text, sizeof text,
                 "%s; until that can be done, lines go on into the file that was moved away",
                 error.text);
        live_warn(run, text);
    }
}

void live_follow_files(struct culm_live *run, bool now) {
    const struct culm_journal_limits events = event_limits(run);
    const uint64_t at_ns = culm_clock_ns();
    if (!now && at_ns < run->follow_ns) {
        return;
    }
    run->follow_ns = at_ns + FOLLOW_NS;
    follow(run, run->events, &events);
    for (int32_t q = 0; q < run->query_count; q++) {
        if (run->query[q].out && !run->query[q].gone) {
            follow(run, run->query[q].out, &run->limits);
        }
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
