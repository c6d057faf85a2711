/*
 * The best weights of a run: DIR/best.safetensors.
 *
 * The file says itself what it is (metadata step, loss, accuracy, samples), so whoever finds better
 * weights needs to know nothing else: neither the launcher nor a resumed run keeps a record. It is
 * replaced as a whole. Thread: any; one at a time for a run.
 */
#ifndef CULM_RUN_BEST_H
#define CULM_RUN_BEST_H

#include "run/commands.h"
#include "store/config.h"
#include "store/weights.h"

/* Puts weights that were evaluated in the place of those that are there, if they are better by that
 * measure, and says so in evaluation->best. */
enum culm_status culm_best_keep(const char *dir, const struct culm_weights *weights,
                                enum culm_best measure, struct culm_evaluation *evaluation,
                                struct culm_error *error);

#endif
