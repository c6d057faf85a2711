/*
 * What the launcher does about the inputs of a run: it holds them against those of the run that is
 * resumed, and finds out the whole digests of large files while the run goes on.
 */
#ifndef CULM_RUN_TRAIN_LAUNCH_INPUTS_H
#define CULM_RUN_TRAIN_LAUNCH_INPUTS_H

#include "train/inputs.h"

#include <pthread.h>

/* Before a run in `run_dir` is resumed at `checkpoint` ("": at its beginning), whose list, else
 * that of plan.json, is compared with `now`. CULM_ERR_CONFIG, naming the file that changed;
 * ret_note[CULM_ERROR_MAX]: a warning, or "". */
enum culm_status culm_train_launch_inputs_compare(const char *run_dir, const char *checkpoint,
                                                  const struct culm_inputs *now, char *ret_note,
                                                  struct culm_error *error);

/* A thread of low priority; `found` is called from it after each digest. */
struct culm_train_launch_inputs_thread {
    struct culm_pins *pins; /* NULL: it does not run */
    void (*found)(void *ctx);
    void *ctx;
    pthread_t thread;
    bool stop; /* atomic */
};
void culm_train_launch_inputs_start(struct culm_train_launch_inputs_thread *thread,
                                    struct culm_pins *pins, void (*found)(void *ctx), void *ctx);
void culm_train_launch_inputs_stop(
    struct culm_train_launch_inputs_thread *thread); /* fine on a zeroed struct */

#endif
