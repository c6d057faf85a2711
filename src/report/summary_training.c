/* What each event of training adds to a summary, and its lines. See training.h. */
#include "report/page.h"
#include "report/training.h"

#include <string.h>

/* --- events --- */

static enum culm_status add_step(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    const struct culm_summary_step step = {
        .step = culm_event_int(event, "step", 0),
        .loss = culm_event_real(event, "loss", 0),
        .rate = culm_event_real(event, "tokens_per_s", 0),
        .step_ms = culm_event_real(event, "step_ms", 0),
    };
    const bool again = json_is_true(json_object_get(event, "again"));
    if (again && s->step_count && s->steps[s->step_count - 1].step >= step.step) {
        return CULM_OK; /* the launcher before has told of it, and it was not done once more */
    }
    return culm_summary_add_step(s, &step, event, error);
}

static enum culm_status add_plan(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    bool samples = strcmp(culm_event_text(event, "rate_of", ""), "samples") == 0;
    (void)error;
    snprintf(s->rate_of, sizeof s->rate_of, "%s", samples ? "samples" : "tokens");
    return CULM_OK;
}

static enum culm_status add_recovered(struct culm_summary *s, const json_t *event,
                                      struct culm_error *error) {
    return culm_summary_add_pause(s, culm_event_real(event, "pause_ms", 0), error);
}

static enum culm_status add_start(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    snprintf(s->redundancy, sizeof s->redundancy, "%s",
             culm_event_text(event, "redundancy_effective", ""));
    return culm_summary_add_start(s, event, error);
}

static enum culm_status add_done(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    s->samples_lost = culm_event_int(event, "samples_lost", -1);
    s->samples_repeated = culm_event_int(event, "samples_repeated", -1);
    return culm_summary_add_done(s, event, error);
}

static enum culm_status add_rollback(struct culm_summary *s, const json_t *event,
                                     struct culm_error *error) {
    (void)error;
    culm_summary_undo(s, culm_event_int(event, "to_step", INT64_MAX));
    s->rollbacks++;
    return CULM_OK;
}

/* Who left as it was told to is no loss. */
static enum culm_status add_lost(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    (void)error;
    s->losses += strcmp(culm_event_text(event, "cause", ""), "left") != 0;
    return CULM_OK;
}

static const struct culm_summary_row rows[] = {
    {"step", .add = add_step},
    {"plan", .add = add_plan},
    {"recovered", .add = add_recovered},
    {"start", .add = add_start},
    {"done", .add = add_done},
    {"rollback", .add = add_rollback},
    {"error", .add = culm_summary_add_error},
    {"checkpoint", .add = culm_summary_add_checkpoint},
    {"lost", .add = add_lost},
    {"fenced", .count = offsetof(struct culm_summary, fenced)},
    {"fault", .count = offsetof(struct culm_summary, faults)},
    {"view", .count = offsetof(struct culm_summary, views)},
    {0},
};

/* --- lines --- */

static bool loss(const struct culm_summary *s, char *ret_text, size_t size) {
    if (!s->step_count) {
        snprintf(ret_text, size, "no step was done");
        return true;
    }
    const struct culm_summary_step *first = &s->steps[0], *last = &s->steps[s->step_count - 1];
    snprintf(ret_text, size, "%.4f (step %lld) -> %.4f (step %lld)", first->loss,
             (long long)first->step, last->loss, (long long)last->step);
    return true;
}

static bool speed(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%.0f %s/s (median over %zu steps)", culm_summary_rate(s),
             *s->rate_of ? s->rate_of : "tokens", s->step_count);
    return s->step_count > 0;
}

static bool redundancy(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%s", *s->redundancy ? s->redundancy : "not recorded");
    return true;
}

static bool workers_lost(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%lld%s", (long long)s->losses,
             s->losses && s->done ? ", all survived" : "");
    return true;
}

static bool pause_per_loss(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "median %.0f ms, longest %.0f ms", culm_summary_pause_median_ms(s),
             culm_summary_pause_max_ms(s));
    return s->pause_count > 0;
}

static bool samples(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%lld lost, %lld repeated", (long long)s->samples_lost,
             (long long)s->samples_repeated);
    return s->done && s->samples_lost >= 0 && s->samples_repeated >= 0;
}

static bool rollbacks(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%lld", (long long)s->rollbacks);
    return true;
}

static const struct culm_summary_line lines[] = {
    {"loss", loss},
    {"speed", speed},
    {"redundancy", redundancy},
    {"workers lost", workers_lost},
    {"pause per loss", pause_per_loss},
    {"samples", samples},
    {"roll-backs", rollbacks},
    {0},
};

/* --- page --- */

static const struct culm_page_chart charts[] = {
    {.title = "Loss", .x_of = "step", .y_label = "", .line = {{"step", "loss", "loss", NULL, 1}}},
    {.title = "Time of a step",
     .x_of = "step",
     .y_label = "ms",
     .from_zero = true,
     .line = {{"step", "step_ms", "step", NULL, 1}}},
    {.title = "Pauses after losses",
     .y_label = "ms",
     .from_zero = true,
     .line = {{"recovered", "pause_ms", "pause", NULL, 1}}},
    {0},
};
static const char *const notes[] = {"leader",  "lost",    "fenced",  "rollback",
                                    "fault",   "misread", "held",    "weights",
                                    "warning", "error",   "stopped", NULL};
static const struct culm_page_look page = {charts, NULL, notes, false};

const struct culm_summary_job culm_summary_training = {
    "step", rows, lines, NULL, &page, culm_goodput_steps, "lanes", "stages"};
