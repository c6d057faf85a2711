/* Keeps the best weights of a run. See best.h. */
#include "run/best.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
                                enum culm_best measure, struct culm_evaluation *evaluation,
                                struct culm_error *error) {
    char path[CULM_PATH_MAX], loss[32], accuracy[32], samples[24], step[24];
    bool by_loss = measure == CULM_BEST_LOSS;
    const struct culm_checkpoint_info *info = culm_weights_info(weights);
    enum culm_status status = culm_path_format(path, error, "%s/best.safetensors", dir);
    if (status != CULM_OK) {
        return status;
    }
    double before = best_so_far(path, culm_best_names[measure]);
    bool better = by_loss ? !(evaluation->loss >= before) : !(evaluation->accuracy <= before);
    if (!better) {
        return CULM_OK;
    }
    snprintf(loss, sizeof loss, "%.17g", evaluation->loss);
    snprintf(accuracy, sizeof accuracy, "%.17g", evaluation->accuracy);
    snprintf(samples, sizeof samples, "%" PRId64, evaluation->samples);
    snprintf(step, sizeof step, "%" PRId64, info ? info->step : -1);
    const struct culm_metadata metadata[] = {{"format", "pt"},
                                             {"loss", loss},
                                             {"accuracy", accuracy},
                                             {"samples", samples},
                                             {"step", step}};
    size_t count = sizeof metadata / sizeof *metadata - (info ? 0 : 1);
    status = culm_weights_export(NULL, weights, path, metadata, count, error);
    evaluation->best = status == CULM_OK;
    return status;
}
