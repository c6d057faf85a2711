/* `culm report DIR [--against DIR]`: the closing summary, from events alone. */
#include "cli/command.h"
#include "cli/options.h"

#include "report/summary.h"

struct values {
    const char *against;
};

static const struct culm_option options[] = {
    CULM_OPTION("against", TEXT, "DIR", struct values, against,
                "another run; exit 1 unless both ended bit-equal"),
};

const struct culm_usage culm_usage_report = {
    .command = "report",
    .arguments = "DIR",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Prints the summary of the run in DIR, and whether another ended bit-equal",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const char *dir = arguments->items[0], *against = ((const struct values *)values)->against;
    const struct culm_summary_job *job, *other_job = NULL;
    struct culm_summary summary, other;
    char difference[256];
    enum culm_status status = culm_summary_job_of(dir, culm_summary_jobs, &job, error);
    if (status == CULM_OK && against) {
        status = culm_summary_job_of(against, culm_summary_jobs, &other_job, error);
    }
    if (status == CULM_OK && against && job != other_job) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s' and '%s' are runs of different jobs; give two of the same",
                                dir, against);
    }
    if (status != CULM_OK) {
        return status;
    }
    culm_summary_init(&summary, job);
    culm_summary_init(&other, job);
    status = culm_summary_read(&summary, dir, error);
    if (status == CULM_OK && against) {
        status = culm_summary_read(&other, against, error);
    }
    if (status == CULM_OK) {
        culm_summary_print(&summary, dir, against ? &other : NULL, stdout);
        *ret_code =
            against && !culm_summary_identical(&summary, &other, difference, sizeof difference);
    }
    culm_summary_release(&other);
    culm_summary_release(&summary);
    return status;
}

int culm_cli_report(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_report, argc, argv, &values, run);
}
