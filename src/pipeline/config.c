/* The rows of `batch`. */
#include "pipeline/config.h"

#define B struct culm_batch_config
static const struct culm_config_row batch_rows[] = {
    CULM_CONFIG_INT("global", B, global, "32", 1, 1048576, 0,
                    "samples in a step, over all pipelines; a multiple of `batch.micro`"),
    CULM_CONFIG_INT("micro", B, micro, "4", 1, 1048576, 0, "samples in a micro-batch"),
    CULM_CONFIG_INT("lanes", B, lanes, "4", 1, CULM_PIPELINE_MAX_MICROS, 0,
                    "fixed parts of the global batch, distributed over the pipelines; must divide "
                    "`batch.global` / `batch.micro`"),
};

static enum culm_status finish_batch(void *object, const struct culm_config_place *place,
                                     struct culm_error *error) {
    const struct culm_batch_config *b = object;
    if (b->global % b->micro) {
        return culm_config_refuse(
            place, CULM_CONFIG_KEYS("micro", "global"), error,
            "global %lld is not a multiple of micro %lld; allowed: micro that "
            "divides global",
            (long long)b->global, (long long)b->micro);
    }
    int64_t micros = b->global / b->micro;
    if (micros % b->lanes) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("lanes", "micro", "global"), error,
                                  "%lld micro-batches (global / micro) do not share out over %lld "
                                  "lanes; allowed: lanes that divide %lld",
                                  (long long)micros, (long long)b->lanes, (long long)micros);
    }
    if (micros > CULM_PIPELINE_MAX_MICROS) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("micro", "global"), error,
                                  "%lld micro-batches (global / micro); allowed: up to %d",
                                  (long long)micros, CULM_PIPELINE_MAX_MICROS);
    }
    return CULM_OK;
}

const struct culm_config_table culm_batch_config_table = {CULM_CONFIG_ROWS(batch_rows, B),
                                                          .finish = finish_batch};
