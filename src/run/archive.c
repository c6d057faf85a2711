/* See archive.h. */
#include "run/archive.h"

#include "cloud/s3.h"
#include "launch/bring.h"

#include <stdio.h>
#include <string.h>

#define FIRST_MS 6000 /* a wrong address should not take long to be told */

enum culm_status culm_archive_open(const char *to, const char *endpoint, const char *region,
                                   struct culm_storage **ret_storage, struct culm_error *error) {
    const struct culm_s3_options options = {
        .place = to,
        .endpoint = endpoint,
        .region = region,
    };
    if (culm_s3_is_place(to)) {
        return culm_s3_open(&options, ret_storage, error);
    }
    return strstr(to, "://")
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "checkpoint.to: '%.80s' is neither a folder nor in S3; allowed: "
                                "DIR, s3://BUCKET/PREFIX",
                                to)
               : culm_storage_open_folder(to, ret_storage, error);
}

static void warn(const struct culm_launcher_options *run, const char *text) {
    if (run->warn) {
        run->warn(run->ctx, text);
    }
}

static enum culm_status bring(struct culm_launcher_options *run, struct culm_error *error) {
    struct culm_brought brought;
    char text[2 * CULM_ERROR_MAX];
    enum culm_status status = culm_bring(run->storage, run->dir, &brought, error);
    if (status != CULM_OK) {
        return status;
    }
    run->stored = brought.stored;
    if (brought.warning[0]) {
        snprintf(text, sizeof text, "%s; it is passed over", brought.warning);
        warn(run, text);
    }
    if (brought.step >= 0) {
        snprintf(text, sizeof text, "the run goes on in '%.300s' with checkpoint %lld of '%.300s'",
                 run->dir, (long long)brought.step, run->storage->place);
        warn(run, text);
    }
    return CULM_OK;
}

enum culm_status culm_archive_begin(const struct culm_checkpoint_config *config,
                                    struct culm_launcher_options *run, struct culm_error *error) {
    if (!config->to) {
        return CULM_OK;
    }
    enum culm_status status =
        culm_archive_open(config->to, config->endpoint, config->region, &run->storage, error);
    if (status != CULM_OK) {
        return status;
    }
    run->storage->patience_ms = FIRST_MS;
    run->stored = -1;
    run->stored_keep = config->keep;
    if (run->resume && run->stand) {
        return CULM_OK; /* whoever leads looks what counts */
    }
    return run->resume ? bring(run, error) : culm_bring_check_new(run->storage, error);
}
