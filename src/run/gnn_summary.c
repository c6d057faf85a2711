/* What a run on a graph has come to. See culm/gnn.h. */
#include "report/gnn.h"
#include "run/public.h"

#include <culm/gnn.h>
#include <math.h>
#include <stdio.h>

static struct culm_gnn_summary_info info_of(const struct culm_summary *summary) {
    const struct culm_summary_step *last =
        summary->step_count ? &summary->steps[summary->step_count - 1] : NULL;
    const struct culm_goodput_times times = culm_goodput_times_of(&summary->goodput, SIZE_MAX);
    const struct culm_gnn_figures figures = culm_gnn_figures_of(summary);
    struct culm_gnn_summary_info info = {
        .done = summary->done,
        .epochs = last ? last->step : 0,
        .loss = last ? last->loss : (double)NAN,
        .valid = figures.valid,
        .test = figures.test,
        .test_at_best_valid = figures.test_at_best_valid,
        .usd = figures.usd,
        .lost_servers = figures.lost_servers,
        .lost_parameter_servers = figures.lost_parameter_servers,
        .lost_workers = figures.lost_workers,
        .rollbacks = summary->rollbacks,
        .epochs_redone = summary->steps_redone,
        .pause_ms_median = culm_summary_pause_median_ms(summary),
        .pause_ms_max = culm_summary_pause_max_ms(summary),
        .rate_per_s = culm_summary_rate(summary),
        .goodput = culm_goodput_share(&times),
        .useful_ms = times.ms[CULM_GOODPUT_USEFUL],
        .redone_ms = times.ms[CULM_GOODPUT_REDONE],
        .paused_ms = times.ms[CULM_GOODPUT_PAUSED],
        .waiting_ms = times.ms[CULM_GOODPUT_WAITING],
        .saving_ms = times.ms[CULM_GOODPUT_SAVING],
    };
    snprintf(info.weights_sha256, sizeof info.weights_sha256, "%.64s", summary->weights_sha256);
    snprintf(info.state_sha256, sizeof info.state_sha256, "%.64s", summary->state_sha256);
    return info;
}

enum culm_status culm_gnn_summary(const char *dir, struct culm_gnn_summary_info *ret_summary,
                                  struct culm_error *error) {
    const struct culm_summary_job *job;
    struct culm_summary summary;
    enum culm_status status = culm_public_check_dir(dir, "culm_gnn_summary", error);
    if (status == CULM_OK) {
        status = culm_public_room(ret_summary, "culm_gnn_summary_info", error);
    }
    if (status == CULM_OK) {
        status = culm_summary_job_of(dir, culm_summary_jobs, &job, error);
    }
    if (status == CULM_OK && job != &culm_summary_gnn) {
        status =
            culm_error_set(error, CULM_ERR_CONFIG, "'%.300s' is not a run of culm gnn train", dir);
    }
    if (status != CULM_OK) {
        return status;
    }
    culm_summary_init(&summary, job);
    status = culm_summary_read(&summary, dir, error);
    if (status == CULM_OK) {
        const struct culm_gnn_summary_info info = info_of(&summary);
        status = culm_public_fill(ret_summary, &info, sizeof info, "culm_gnn_summary_info", error);
    }
    culm_summary_release(&summary);
    return status;
}
