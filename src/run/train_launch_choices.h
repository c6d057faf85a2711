/*
 * Where the choices of a run come from: --plan, the run that is resumed, or a trial.
 *
 * Which algorithms its convolutions use belongs to a run as its weights do: every checkpoint has
 * them, and a resume goes on with those. plan.json, which is a file for people too, may be gone,
 * broken or another one: that is said, and changes no bit. Cuts may change.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_TRAIN_LAUNCH_CHOICES_H
#define CULM_RUN_TRAIN_LAUNCH_CHOICES_H

#include "run/train_launch.h"
#include "train/choices.h"

/* CULM_ERR_CONFIG when --plan is not what the checkpoint was made with, or when neither checkpoint
 * nor plan.json has what `kernels: trial` once chose. The choices are the caller's to release. */
enum culm_status culm_train_launch_choices(const struct culm_train_launch_options *options,
                                           struct culm_launcher *launcher,
                                           struct culm_choices *ret_choices,
                                           struct culm_error *error);

/* Of the checkpoint at `path`. CULM_ERR_NOT_FOUND, without a text, when it did not record any. */
enum culm_status culm_train_launch_choices_recorded(const char *path,
                                                    struct culm_choices *ret_choices,
                                                    struct culm_error *error);

#endif
