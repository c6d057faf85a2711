/*
 * Making every sample that a configuration names, as training would: for `culm data check`. Nothing here
 * prints. Thread: the caller's.
 */
#ifndef CULM_RUN_SAMPLES_H
#define CULM_RUN_SAMPLES_H

#include "base/status.h"

struct culm_bad_sample {
    const char *file;
    int64_t line;  /* of a text, from 1; -1: it is none */
    int64_t index; /* of what the file has, from 0; -1: the file as a whole, or a line */
    const char *why;
};
struct culm_data_check_options {
    const char *const *sets; /* "key=value" */
    size_t set_count;
    const char *out; /* a list for data.skip, with what is in it now; NULL: none */
    int threads;     /* 0: one a processor */
    /* Called by the calling thread, once for each, sorted; then how far it is, now and then. */
    void (*bad)(void *ctx, const struct culm_bad_sample *bad);
    void (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};
struct culm_data_check_result {
    int64_t samples;  /* held out or not; those left out among them */
    int64_t left_out; /* by data.skip */
    int64_t bad;      /* told */
};
/* Makes every sample that a configuration names, as training would. Bad ones are no failure; data
 * that cannot be opened is. */
enum culm_status culm_data_check(const char *config_path,
                                 const struct culm_data_check_options *options,
                                 struct culm_data_check_result *ret_result,
                                 struct culm_error *error);

#endif
