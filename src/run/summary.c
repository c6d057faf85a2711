/* What came of a run, and the version, for culm.h. */
#include "report/summary.h"

#include "run/public.h"
#include "run/references.h"
#include "run/version.h"

#include <culm.h>
#include <math.h>
#include <string.h>

const char *culm_version(void) { return CULM_VERSION; }

const char *culm_build_commit(void) { return CULM_GIT; }

enum culm_status culm_run_summary(const char *dir, struct culm_summary_info *ret_summary,
                                  struct culm_error *error) {
    enum culm_status status = culm_public_check_dir(dir, "culm_run_summary", error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_summary summary;
    const struct culm_summary_job *job;
    status = culm_summary_job_of(dir, culm_summary_jobs, &job, error);
    if (status != CULM_OK) {
        return status;
    }
    culm_summary_init(&summary, job);
    status = culm_summary_read(&summary, dir, error);
    if (status == CULM_OK) {
        const struct culm_summary_step *last =
            summary.step_count ? &summary.steps[summary.step_count - 1] : NULL;
        const struct culm_goodput_times times = culm_goodput_times_of(&summary.goodput, SIZE_MAX);
        struct culm_summary_info info = {
            .done = summary.done,
            .steps = last ? last->step : 0,
            .loss = last ? last->loss : (double)NAN,
            .losses = summary.losses,
            .rollbacks = summary.rollbacks,
            .steps_redone = summary.steps_redone,
            .samples_lost = summary.samples_lost,
            .samples_repeated = summary.samples_repeated,
            .pause_ms_median = culm_summary_pause_median_ms(&summary),
            .pause_ms_max = culm_summary_pause_max_ms(&summary),
            .rate_per_s = culm_summary_rate(&summary),
            .goodput = culm_goodput_share(&times),
            .useful_ms = times.ms[CULM_GOODPUT_USEFUL],
            .redone_ms = times.ms[CULM_GOODPUT_REDONE],
            .paused_ms = times.ms[CULM_GOODPUT_PAUSED],
            .waiting_ms = times.ms[CULM_GOODPUT_WAITING],
            .saving_ms = times.ms[CULM_GOODPUT_SAVING],
        };
        snprintf(info.weights_sha256, sizeof info.weights_sha256, "%.64s", summary.weights_sha256);
        snprintf(info.state_sha256, sizeof info.state_sha256, "%.64s", summary.state_sha256);
        status = culm_public_fill(ret_summary, &info, sizeof info, "culm_summary_info", error);
    }
    culm_summary_release(&summary);
    return status;
}
