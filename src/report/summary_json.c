/* The summary of a run as JSON; see summary.h. What a run does not have is null. */
#include "report/summary.h"

#include "base/json.h"

static json_t *known(int64_t count) { return count < 0 ? json_null() : json_integer(count); }

static json_t *text_or_null(const char *text) { return *text ? culm_json_text(text) : json_null(); }

json_t *culm_summary_json(const struct culm_summary *s, const char *dir,
                          const struct culm_summary *against) {
    const struct culm_summary_step *last = s->step_count ? &s->steps[s->step_count - 1] : NULL;
    json_t *object = json_pack(
        "{s:o, s:s, s:b, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:f, s:f, s:f, s:o, s:o, s:o, s:o, "
        "s:o}",
        "run", culm_json_text(dir), "job", s->job->name ? s->job->name : "train", "done", s->done,
        s->job->step, last ? json_integer(last->step) : json_null(), "loss",
        last ? json_real(last->loss) : json_null(), "losses", (json_int_t)s->losses, "rollbacks",
        (json_int_t)s->rollbacks, "steps_redone", (json_int_t)s->steps_redone, "samples_lost",
        known(s->samples_lost), "samples_repeated", known(s->samples_repeated), "pause_ms_median",
        culm_summary_pause_median_ms(s), "pause_ms_max", culm_summary_pause_max_ms(s), "rate_per_s",
        culm_summary_rate(s), "weights_sha256", text_or_null(s->weights_sha256), "state_sha256",
        text_or_null(s->state_sha256), "exact",
        s->done && s->says_exact ? json_boolean(!*s->inexact) : json_null(), "error",
        text_or_null(s->last_error), "goodput",
        s->job->goodput ? culm_goodput_json(&s->goodput) : json_null());
    if (object && against) {
        char difference[256];
        bool same = culm_summary_identical(s, against, difference, sizeof difference);
        json_object_set_new(object, "identical", json_boolean(same));
        json_object_set_new(object, "difference", same ? json_null() : text_or_null(difference));
    }
    return object;
}
