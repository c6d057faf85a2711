/* The summary of a run; see summary.h. Steps are kept as a stack: a step that is not later than the
 * top undoes the steps that it repeats. */
#include "report/summary.h"
#include "report/segments.h"

#include "base/file.h"
#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void culm_summary_init(struct culm_summary *summary, const struct culm_summary_job *job) {
    *summary = (struct culm_summary){.job = job, .samples_lost = -1, .samples_repeated = -1};
}

void culm_summary_release(struct culm_summary *summary) {
    free(summary->steps);
    free(summary->pauses_ms);
    culm_goodput_release(&summary->goodput);
    culm_summary_init(summary, summary->job);
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "summary: out of memory");
}

/* --- adding events --- */

void culm_summary_undo(struct culm_summary *s, int64_t step) {
    while (s->step_count && s->steps[s->step_count - 1].step > step) {
        const struct culm_summary_step *undone = &s->steps[--s->step_count];
        culm_goodput_move(&s->goodput, undone->launch, undone->useful_us, CULM_GOODPUT_USEFUL,
                          CULM_GOODPUT_REDONE);
        s->steps_redone++;
    }
}

enum culm_status culm_summary_add_step(struct culm_summary *s, const struct culm_summary_step *step,
                                       const json_t *event, struct culm_error *error) {
    culm_summary_undo(s, step->step > INT64_MIN ? step->step - 1 : step->step);
    if (!CULM_GROW(s->steps, s->step_capacity, s->step_count + 1)) {
        return no_memory(error);
    }
    struct culm_summary_step *at = &s->steps[s->step_count++];
    *at = *step;
    snprintf(at->loss_bits, sizeof at->loss_bits, "%s", culm_event_text(event, "loss_bits", ""));
    at->useful_us = culm_goodput_close(&s->goodput, CULM_GOODPUT_USEFUL);
    at->launch = s->goodput.launches - 1;
    s->goodput.held_us = 0;
    return CULM_OK;
}

enum culm_status culm_summary_add_pause(struct culm_summary *s, double pause_ms,
                                        struct culm_error *error) {
    if (!CULM_GROW(s->pauses_ms, s->pause_capacity, s->pause_count + 1)) {
        return no_memory(error);
    }
    s->pauses_ms[s->pause_count++] = pause_ms;
    return CULM_OK;
}

enum culm_status culm_summary_add_start(struct culm_summary *s, const json_t *event,
                                        struct culm_error *error) {
    (void)event;
    (void)error;
    s->done = false;
    s->inexact[0] = '\0';
    *s->last_error = '\0';
    return CULM_OK;
}

/* The words of `inexact`, as people say them. */
static void take_inexact(struct culm_summary *s, const json_t *event) {
    static const char *const said[][2] = {{"inputs", "changed inputs"},
                                          {"steps", "another number of steps"},
                                          {"optimizer", "another optimizer"},
                                          {"schedule", "another schedule"},
                                          {"build", "another build or machine"}};
    const json_t *words = json_object_get(event, "inexact");
    size_t len = 0;
    s->inexact[0] = '\0';
    s->says_exact = json_is_boolean(json_object_get(event, "exact"));
    if (!json_is_false(json_object_get(event, "exact"))) {
        return;
    }
    for (size_t i = 0; i < json_array_size(words) && len < sizeof s->inexact; i++) {
        const char *word = json_string_value(json_array_get(words, i));
        for (size_t k = 0; word && k < sizeof said / sizeof *said; k++) {
            word = strcmp(word, said[k][0]) == 0 ? said[k][1] : word;
        }
        int added = snprintf(s->inexact + len, sizeof s->inexact - len, "%s%s", i ? ", " : "",
                             word ? word : "");
        len += added > 0 ? (size_t)added : 0;
    }
    if (!s->inexact[0]) {
        snprintf(s->inexact, sizeof s->inexact, "a change");
    }
}

enum culm_status culm_summary_add_done(struct culm_summary *s, const json_t *event,
                                       struct culm_error *error) {
    (void)error;
    s->done = true;
    snprintf(s->weights_sha256, sizeof s->weights_sha256, "%s",
             culm_event_text(event, "weights_sha256", ""));
    snprintf(s->state_sha256, sizeof s->state_sha256, "%s",
             culm_event_text(event, "state_sha256", ""));
    take_inexact(s, event);
    return CULM_OK;
}

enum culm_status culm_summary_add_checkpoint(struct culm_summary *summary, const json_t *event,
                                             struct culm_error *error) {
    (void)error;
    summary->checkpoints += json_is_true(json_object_get(event, "ok"));
    return CULM_OK;
}

enum culm_status culm_summary_add_error(struct culm_summary *s, const json_t *event,
                                        struct culm_error *error) {
    (void)error;
    snprintf(s->last_error, sizeof s->last_error, "%s", culm_event_text(event, "message", ""));
    return CULM_OK;
}

static enum culm_status count_time(struct culm_summary *s, const json_t *event, const char *name,
                                   struct culm_error *error) {
    const struct culm_goodput_row *row = s->job->goodput;
    if (row && strcmp(name, "start") != 0) { /* which begins a time of its own */
        culm_goodput_advance(&s->goodput, event);
    }
    while (row && row->event && strcmp(name, row->event) != 0) {
        row++;
    }
    return row && row->event ? row->move(s, event, error) : CULM_OK;
}

enum culm_status culm_summary_add(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    const char *name = culm_event_text(event, "event", "");
    enum culm_status status = count_time(s, event, name, error);
    if (status != CULM_OK) {
        return status;
    }
    for (const struct culm_summary_row *row = s->job->rows; row->event; row++) {
        if (strcmp(name, row->event) != 0) {
            continue;
        }
        if (row->add) {
            return row->add(s, event, error);
        }
        ++*(int64_t *)(void *)((char *)s + row->count);
    }
    return CULM_OK;
}

static enum culm_status add_to(void *context, const json_t *event, struct culm_error *error) {
    return culm_summary_add(context, event, error);
}

enum culm_status culm_summary_read(struct culm_summary *summary, const char *dir,
                                   struct culm_error *error) {
    return culm_events_read_run(dir, add_to, summary, error);
}

/* --- which job --- */

struct search {
    char name[CULM_SUMMARY_JOB_NAME];
    bool found;
};

static enum culm_status look_at(void *context, const json_t *event, struct culm_error *error) {
    struct search *search = context;
    (void)error;
    search->found = strcmp(culm_event_text(event, "event", ""), "start") == 0;
    snprintf(search->name, sizeof search->name, "%s", culm_event_text(event, "job", ""));
    return search->found ? CULM_ERR_CLOSED : CULM_OK; /* CLOSED: to stop reading */
}

enum culm_status culm_summary_job_name(const char *dir, char ret_name[CULM_SUMMARY_JOB_NAME],
                                       struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct stat info;
    struct search search = {0};
    enum culm_status status = culm_path_format(path, error, "%s/events.jsonl", dir);
    if (status == CULM_OK) {
        status = culm_events_read(path, look_at, &search, error);
    }
    if (status == CULM_OK || search.found) {
        memcpy(ret_name, search.name, sizeof search.name);
        return CULM_OK;
    }
    if (lstat(path, &info) < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return culm_error_set(error, status, "'%s' is not a run: it has no events.jsonl", dir);
    }
    return status;
}

enum culm_status culm_summary_job_of(const char *dir, const struct culm_summary_job *const *jobs,
                                     const struct culm_summary_job **ret_job,
                                     struct culm_error *error) {
    char name[CULM_SUMMARY_JOB_NAME];
    enum culm_status status = culm_summary_job_name(dir, name, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!*name) {
        *ret_job = jobs[0];
        return CULM_OK;
    }
    for (; *jobs; jobs++) {
        if ((*jobs)->name && strcmp((*jobs)->name, name) == 0) {
            *ret_job = *jobs;
            return CULM_OK;
        }
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "'%s' is a run of the job '%s', which this version does not know", dir,
                          name);
}

struct summary_sink {
    struct culm_sink sink;
    struct culm_summary *summary;
};

static enum culm_status sink_event(struct culm_sink *sink, const json_t *event,
                                   struct culm_error *error) {
    return culm_summary_add(((struct summary_sink *)sink)->summary, event, error);
}

static void sink_free(struct culm_sink *sink) { free(sink); }

struct culm_sink *culm_sink_summary_new(struct culm_summary *summary) {
    static const struct culm_sink_ops ops = {sizeof ops, sink_event, sink_free};
    struct summary_sink *made = calloc(1, sizeof *made);
    if (!made) {
        return NULL;
    }
    made->sink.ops = &ops;
    made->summary = summary;
    return &made->sink;
}

/* --- figures --------------------------------------------------------------------------------- */

double culm_summary_pause_median_ms(const struct culm_summary *summary) {
    double *copy = malloc(summary->pause_count * sizeof *copy + 1);
    if (!copy) {
        return 0;
    }
    for (size_t i = 0; i < summary->pause_count; i++) {
        copy[i] = summary->pauses_ms[i];
    }
    double result = culm_median(copy, summary->pause_count);
    free(copy);
    return result;
}

double culm_summary_pause_max_ms(const struct culm_summary *summary) {
    double most = 0;
    for (size_t i = 0; i < summary->pause_count; i++) {
        most = summary->pauses_ms[i] > most ? summary->pauses_ms[i] : most;
    }
    return most;
}

double culm_summary_rate(const struct culm_summary *summary) {
    double *copy = malloc(summary->step_count * sizeof *copy + 1);
    if (!copy) {
        return 0;
    }
    for (size_t i = 0; i < summary->step_count; i++) {
        copy[i] = summary->steps[i].rate;
    }
    double result = culm_median(copy, summary->step_count);
    free(copy);
    return result;
}

/* Some jobs, such as the edge, compute nothing that could be compared. */
static bool has_hashes(const struct culm_summary *s) {
    return *s->weights_sha256 && *s->state_sha256;
}

enum verdict { DIFFERENT, IDENTICAL, UNKNOWN };

static enum verdict compare(const struct culm_summary *a, const struct culm_summary *b,
                            char *ret_difference, size_t size) {
    if (!a->done || !b->done) {
        snprintf(ret_difference, size, "%s run did not finish", a->done ? "the other" : "this");
        return DIFFERENT;
    }
    for (size_t i = 0, j = 0; i < a->step_count && j < b->step_count;) {
        const struct culm_summary_step *x = &a->steps[i], *y = &b->steps[j];
        if (x->step == y->step && strcmp(x->loss_bits, y->loss_bits)) {
            snprintf(ret_difference, size, "first at the loss of %s %lld: %.9g and %.9g",
                     a->job->step, (long long)x->step, x->loss, y->loss);
            return DIFFERENT;
        }
        i += x->step <= y->step;
        j += y->step <= x->step;
    }
    if (!has_hashes(a) || !has_hashes(b)) {
        snprintf(ret_difference, size, "%s recorded no hashes",
                 has_hashes(a)   ? "the other run"
                 : has_hashes(b) ? "this run"
                                 : "the runs");
        return UNKNOWN;
    }
    const char *what = strcmp(a->weights_sha256, b->weights_sha256) ? "the weights differ"
                       : strcmp(a->state_sha256, b->state_sha256)   ? "the optimizer state differs"
                                                                    : NULL;
    if (what) {
        snprintf(ret_difference, size, "%s", what);
    }
    return what ? DIFFERENT : IDENTICAL;
}

bool culm_summary_identical(const struct culm_summary *a, const struct culm_summary *b,
                            char *ret_difference, size_t size) {
    return compare(a, b, ret_difference, size) == IDENTICAL;
}

void culm_summary_print(const struct culm_summary *s, const char *dir,
                        const struct culm_summary *against, FILE *out) {
    char text[512];
    for (const struct culm_summary_line *line = s->job->lines; line->name; line++) {
        if (line->value(s, text, sizeof text)) {
            fprintf(out, "  %-18s %s\n", line->name, text);
        }
    }
    for (size_t i = 0; i < culm_goodput_lines(&s->goodput); i++) {
        char name[20];
        culm_goodput_line(&s->goodput, i, name, text, sizeof text);
        fprintf(out, "  %-18s %s\n", name, text);
    }
    if (!s->done) {
        fprintf(out, "  %-18s no%s%s\n", "finished", *s->last_error ? ": " : "", s->last_error);
    }
    if (s->done && *s->inexact) {
        fprintf(out, "  %-18s no: resumed with %s\n", "exact", s->inexact);
    }
    if (against) {
        char difference[256];
        enum verdict verdict = compare(s, against, difference, sizeof difference);
        fprintf(out, "  %-18s %s: %s\n", "identical",
                verdict == IDENTICAL ? "yes"
                : verdict == UNKNOWN ? "unknown"
                                     : "no",
                verdict == IDENTICAL ? "weights, optimizer state and every loss" : difference);
    }
    fprintf(out, "  %-18s %s\n", "files", dir);
}
