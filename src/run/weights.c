/* Weights as one file. See ckpt.h. */
#include "store/weights.h"

#include "launch/rundir.h"
#include "run/ckpt.h"

#include <stdio.h>
#include <string.h>

static enum culm_status check_out(const char *out, struct culm_error *error) {
    enum culm_status status = culm_file_may_write(out, error);
    return status == CULM_OK && culm_rundir_owns(out)
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "--out '%.300s' is a file of a run; name another", out)
               : status;
}

enum culm_status culm_weights_to_file(const char *path, const char *out,
                                      struct culm_weights_exported *ret_exported,
                                      struct culm_error *error) {
    static const struct culm_metadata metadata = {"format", "pt"};
    struct culm_weights *weights = NULL;
    enum culm_status status;
    if ((status = check_out(out, error)) ||
        (status = culm_weights_open(path, NULL, &weights, error)) ||
        (status = culm_weights_check_finite(weights, error)) ||
        (status = culm_weights_export(NULL, weights, out, &metadata, 1, error))) {
        culm_weights_close(weights);
        return status;
    }
    const struct culm_weights_place *where = culm_weights_where(weights);
    struct culm_weights_exported exported = {.tensors = culm_weights_count(weights)};
    for (size_t i = 0; i < exported.tensors; i++) {
        exported.parameters += culm_weights_at(weights, i)->elements;
    }
    snprintf(exported.path, sizeof exported.path, "%.511s", where->path);
    memcpy(exported.warning, where->warning, sizeof exported.warning);
    culm_weights_close(weights);
    *ret_exported = exported;
    return CULM_OK;
}
