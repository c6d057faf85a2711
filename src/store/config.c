/* The rows of `checkpoint`. */
#include "store/config.h"

const char *const culm_best_names[] = {
    [CULM_BEST_NONE] = "none", [CULM_BEST_LOSS] = "loss", [CULM_BEST_ACCURACY] = "accuracy", NULL};

#define C struct culm_checkpoint_config
static const struct culm_config_row checkpoint_rows[] = {
    CULM_CONFIG_INT("every", C, every, "20", 0, 1000000000, CULM_CONFIG_RESUMABLE,
                    "steps between checkpoints; 0: only one, at the end"),
    CULM_CONFIG_INT("keep", C, keep, "2", 1, 1000000, CULM_CONFIG_RESUMABLE,
                    "number of checkpoints to keep; older ones are removed"),
    CULM_CONFIG_ENUM("best", C, best, "none", culm_best_names, CULM_CONFIG_RESUMABLE,
                     "keep the weights of the best checkpoint among those that `eval.every` "
                     "evaluates, as best.safetensors: by the lowest `loss` or the highest "
                     "`accuracy`"),
    CULM_CHECKPOINT_STORAGE_ROWS(C),
};
const struct culm_config_table culm_checkpoint_config_table = {
    CULM_CONFIG_ROWS(checkpoint_rows, C)};
