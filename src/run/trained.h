/*
 * The run that wrote a checkpoint: its configuration, and what it read, so that an evaluation is of
 * that run whatever has become of the files since. Thread: the caller's.
 */
#ifndef CULM_RUN_TRAINED_H
#define CULM_RUN_TRAINED_H

#include "base/file.h"
#include "train/config.h"
#include "train/inputs.h"

struct culm_trained {
    struct culm_train_config config;
    struct culm_inputs inputs;     /* without pins where the checkpoint has no list */
    char plan_path[CULM_PATH_MAX]; /* where digests are looked for */
};

/* `checkpoint` is one of a run in `run_dir`; `sets` as in culm_train_config_load. The
 * configuration's pins are those of the inputs if `pinned`. The struct must stay where it is. */
enum culm_status culm_trained_open(const char *run_dir, const char *checkpoint,
                                   const char *const *sets, size_t set_count, bool pinned,
                                   struct culm_trained *ret_trained, struct culm_error *error);
void culm_trained_release(struct culm_trained *trained);

#endif
