/* Steps are a stack: a step that is not above the top undoes what it repeats. */
#include "report/summary.h"

#include "base/file.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

void culm_summary_init(struct culm_summary *summary) {
    *summary = (struct culm_summary){.samples_lost = -1, .samples_repeated = -1};
}

void culm_summary_release(struct culm_summary *summary) {
    free(summary->steps);
    free(summary->pauses_ms);
    culm_summary_init(summary);
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "summary: out of memory");
}

static void undo_steps_after(struct culm_summary *s, int64_t step) {
    while (s->step_count && s->steps[s->step_count - 1].step > step) {
        s->step_count--;
        s->steps_redone++;
    }
}

static enum culm_status add_step(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    int64_t step = culm_event_int(event, "step", 0);
    undo_steps_after(s, step > INT64_MIN ? step - 1 : step);
    enum culm_status status =
        CULM_GROW(s->steps, s->step_capacity, s->step_count + 1) ? CULM_OK : no_memory(error);
    if (status == CULM_OK) {
        struct culm_summary_step *at = &s->steps[s->step_count++];
        *at = (struct culm_summary_step){
            .step = step,
            .loss = culm_event_real(event, "loss", 0),
            .tokens_per_s = culm_event_real(event, "tokens_per_s", 0),
            .step_ms = culm_event_real(event, "step_ms", 0),
        };
        snprintf(at->loss_bits, sizeof at->loss_bits, "%s",
                 culm_event_text(event, "loss_bits", ""));
    }
    return status;
}

static enum culm_status add_plan(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    (void)error;
    s->rate_of_samples = strcmp(culm_event_text(event, "rate_of", ""), "samples") == 0;
    return CULM_OK;
}

static enum culm_status add_pause(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    if (!CULM_GROW(s->pauses_ms, s->pause_capacity, s->pause_count + 1)) {
        return no_memory(error);
    }
    s->pauses_ms[s->pause_count++] = culm_event_real(event, "pause_ms", 0);
    return CULM_OK;
}

static enum culm_status add_start(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    (void)error;
    s->done = false;
    *s->last_error = '\0';
    snprintf(s->redundancy, sizeof s->redundancy, "%s",
             culm_event_text(event, "redundancy_effective", ""));
    return CULM_OK;
}

static enum culm_status add_done(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    (void)error;
    s->done = true;
    s->samples_lost = culm_event_int(event, "samples_lost", -1);
    s->samples_repeated = culm_event_int(event, "samples_repeated", -1);
    snprintf(s->weights_sha256, sizeof s->weights_sha256, "%s",
             culm_event_text(event, "weights_sha256", ""));
    snprintf(s->state_sha256, sizeof s->state_sha256, "%s",
             culm_event_text(event, "state_sha256", ""));
    return CULM_OK;
}

static enum culm_status add_rollback(struct culm_summary *s, const json_t *event,
                                     struct culm_error *error) {
    (void)error;
    undo_steps_after(s, culm_event_int(event, "to_step", INT64_MAX));
    s->rollbacks++;
    return CULM_OK;
}

static enum culm_status add_error(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    (void)error;
    snprintf(s->last_error, sizeof s->last_error, "%s", culm_event_text(event, "message", ""));
    return CULM_OK;
}

static enum culm_status add_checkpoint(struct culm_summary *s, const json_t *event,
                                       struct culm_error *error) {
    (void)error;
    s->checkpoints += json_is_true(json_object_get(event, "ok"));
    return CULM_OK;
}

/* What each event adds: by a function, or one to a count. */
static const struct {
    const char *event;
    enum culm_status (*add)(struct culm_summary *s, const json_t *event, struct culm_error *error);
    size_t count; /* offset of an int64_t */
} rows[] = {
    {"step", .add = add_step},
    {"plan", .add = add_plan},
    {"recovered", .add = add_pause},
    {"start", .add = add_start},
    {"done", .add = add_done},
    {"rollback", .add = add_rollback},
    {"error", .add = add_error},
    {"checkpoint", .add = add_checkpoint},
    {"lost", .count = offsetof(struct culm_summary, losses)},
    {"fenced", .count = offsetof(struct culm_summary, fenced)},
    {"fault", .count = offsetof(struct culm_summary, faults)},
    {"view", .count = offsetof(struct culm_summary, views)},
};

enum culm_status culm_summary_add(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    const char *name = culm_event_text(event, "event", "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(name, rows[i].event) != 0) {
            continue;
        }
        if (rows[i].add) {
            return rows[i].add(s, event, error);
        }
        ++*(int64_t *)(void *)((char *)s + rows[i].count);
    }
    return CULM_OK;
}

static enum culm_status add_to(void *context, const json_t *event, struct culm_error *error) {
    return culm_summary_add(context, event, error);
}

enum culm_status culm_summary_read(struct culm_summary *summary, const char *dir,
                                   struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/events.jsonl", dir);
    return status ? status : culm_events_read(path, add_to, summary, error);
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

double culm_summary_tokens_per_s(const struct culm_summary *summary) {
    double *copy = malloc(summary->step_count * sizeof *copy + 1);
    if (!copy) {
        return 0;
    }
    for (size_t i = 0; i < summary->step_count; i++) {
        copy[i] = summary->steps[i].tokens_per_s;
    }
    double result = culm_median(copy, summary->step_count);
    free(copy);
    return result;
}

bool culm_summary_identical(const struct culm_summary *a, const struct culm_summary *b,
                            char *ret_difference, size_t size) {
    if (!a->done || !b->done) {
        snprintf(ret_difference, size, "%s run did not finish", a->done ? "the other" : "this");
        return false;
    }
    for (size_t i = 0, j = 0; i < a->step_count && j < b->step_count;) {
        const struct culm_summary_step *x = &a->steps[i], *y = &b->steps[j];
        if (x->step == y->step && strcmp(x->loss_bits, y->loss_bits)) {
            snprintf(ret_difference, size, "first at the loss of step %lld: %.9g and %.9g",
                     (long long)x->step, x->loss, y->loss);
            return false;
        }
        i += x->step <= y->step;
        j += y->step <= x->step;
    }
    const char *what = strcmp(a->weights_sha256, b->weights_sha256) ? "the weights differ"
                       : strcmp(a->state_sha256, b->state_sha256)   ? "the optimizer state differs"
                                                                    : NULL;
    if (what) {
        snprintf(ret_difference, size, "%s", what);
        return false;
    }
    if (!*a->weights_sha256 || !*a->state_sha256) {
        snprintf(ret_difference, size, "the runs recorded no hashes");
        return false;
    }
    return true;
}

void culm_summary_print(const struct culm_summary *s, const char *dir,
                        const struct culm_summary *against, FILE *out) {
    if (s->step_count) {
        const struct culm_summary_step *first = &s->steps[0], *last = &s->steps[s->step_count - 1];
        fprintf(out, "  loss               %.4f (step %lld) -> %.4f (step %lld)\n", first->loss,
                (long long)first->step, last->loss, (long long)last->step);
        fprintf(out, "  speed              %.0f %s/s (median over %zu steps)\n",
                culm_summary_tokens_per_s(s), s->rate_of_samples ? "samples" : "tokens",
                s->step_count);
    } else {
        fprintf(out, "  loss               no step was done\n");
    }
    fprintf(out, "  redundancy         %s\n", *s->redundancy ? s->redundancy : "not recorded");
    fprintf(out, "  workers lost       %lld%s\n", (long long)s->losses,
            s->losses && s->done ? ", all survived" : "");
    if (s->pause_count) {
        fprintf(out, "  pause per loss     median %.0f ms, longest %.0f ms\n",
                culm_summary_pause_median_ms(s), culm_summary_pause_max_ms(s));
    }
    if (s->done && s->samples_lost >= 0 && s->samples_repeated >= 0) {
        fprintf(out, "  samples            %lld lost, %lld repeated\n", (long long)s->samples_lost,
                (long long)s->samples_repeated);
    }
    fprintf(out, "  roll-backs         %lld\n", (long long)s->rollbacks);
    if (!s->done) {
        fprintf(out, "  finished           no%s%s\n", *s->last_error ? ": " : "", s->last_error);
    }
    if (against) {
        char difference[256];
        if (culm_summary_identical(s, against, difference, sizeof difference)) {
            fprintf(out, "  identical          yes: weights, optimizer state and every loss\n");
        } else {
            fprintf(out, "  identical          no: %s\n", difference);
        }
    }
    fprintf(out, "  files              %s\n", dir);
}
