/* What a configuration says of checkpoints: the section `checkpoint`. Thread: constant after loading. */
#ifndef CULM_STORE_CONFIG_H
#define CULM_STORE_CONFIG_H

#include "base/config.h"

struct culm_checkpoint_config {
    int64_t every, keep; /* every 0: only at the end */
};
extern const struct culm_config_table culm_checkpoint_config_table;

#endif
