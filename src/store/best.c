/* Keeps the best weights of a run. See best.h. */
#include "store/best.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FILE_NAME "best.safetensors"

/* What the file there has; NAN: there is none, or it does not say. */
static double best_so_far(const char *path, const char *key) {
    struct culm_safetensors *file = NULL;
    double value = NAN;
    if (culm_safetensors_open(path, &file, NULL) == CULM_OK) {
        const char *text = culm_safetensors_metadata(file, key);
        char *end = NULL;
        value = text ? strtod(text, &end) : NAN;
        value = text && end != text && !*end ? value : NAN;
        culm_safetensors_close(file);
    }
    return value;
}

enum culm_status culm_best_keep(const char *dir, const struct culm_weights *weights,
                                enum culm_best measure, const struct culm_best_found *found,
                                bool *ret_better, struct culm_error *error) {
    char path[CULM_PATH_MAX], loss[32], accuracy[32], samples[24], step[24];
    const struct culm_checkpoint_info *info = culm_weights_info(weights);
    enum culm_status status = culm_path_format(path, error, "%s/" FILE_NAME, dir);
    if (status != CULM_OK) {
        return status;
    }
    double before = best_so_far(path, culm_best_names[measure]);
    bool better =
        measure == CULM_BEST_LOSS ? !(found->loss >= before) : !(found->accuracy <= before);
    if (!better) {
        *ret_better = false;
        return CULM_OK;
    }
    snprintf(accuracy, sizeof accuracy, "%.17g", found->accuracy);
    snprintf(samples, sizeof samples, "%" PRId64, found->samples);
    struct culm_metadata metadata[5] = {
        {"format", "pt"}, {"accuracy", accuracy}, {"samples", samples}};
    size_t count = 3;
    if (!isnan(found->loss)) {
        snprintf(loss, sizeof loss, "%.17g", found->loss);
        metadata[count++] = (struct culm_metadata){"loss", loss};
    }
    if (info) {
        snprintf(step, sizeof step, "%" PRId64, info->step);
        metadata[count++] = (struct culm_metadata){"step", step};
    }
    status = culm_weights_export(NULL, weights, path, metadata, count, error);
    if (status == CULM_OK) {
        *ret_better = true;
    }
    return status;
}

enum culm_status culm_best_find(const char *dir, char ret_path[CULM_PATH_MAX],
                                struct culm_error *error) {
    enum culm_status status = culm_path_format(ret_path, error, "%s/" FILE_NAME, dir);
    return status != CULM_OK || culm_file_is_regular(ret_path)
               ? status
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.200s' has no " FILE_NAME
                                ": a run keeps one with checkpoint.best and eval.every, from its "
                                "first evaluation on",
                                dir);
}
