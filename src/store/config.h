/* What a configuration says of checkpoints: the section `checkpoint`. Thread: constant after loading. */
#ifndef CULM_STORE_CONFIG_H
#define CULM_STORE_CONFIG_H

#include "base/config.h"

/* By what the best checkpoint is chosen, of those that are evaluated. */
enum culm_best { CULM_BEST_NONE, CULM_BEST_LOSS, CULM_BEST_ACCURACY };
extern const char *const culm_best_names[]; /* "none", "loss", "accuracy", NULL */

struct culm_checkpoint_config {
    int64_t every, keep; /* every 0: only at the end */
    enum culm_best best; /* NONE where jobs do not evaluate checkpoints */
};
extern const struct culm_config_table culm_checkpoint_config_table;

#endif
