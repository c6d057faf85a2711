/* The rows of `checkpoint`. */
#include "store/config.h"

#define C struct culm_checkpoint_config
static const struct culm_config_row checkpoint_rows[] = {
    CULM_CONFIG_INT("every", C, every, "20", 0, 1000000000, CULM_CONFIG_RESUMABLE,
                    "steps between checkpoints; 0: only one, at the end"),
    CULM_CONFIG_INT("keep", C, keep, "2", 1, 1000000, CULM_CONFIG_RESUMABLE,
                    "number of checkpoints to keep; older ones are removed"),
};
const struct culm_config_table culm_checkpoint_config_table = {
    CULM_CONFIG_ROWS(checkpoint_rows, C)};
