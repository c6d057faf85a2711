/*
 * The best weights of a run: DIR/best.safetensors.
 *
 * The file says itself what it is (metadata step, loss, accuracy, samples), so whoever finds better
 * weights needs to know nothing else: neither the launcher nor a resumed run keeps a record. It is
 * replaced as a whole. Thread: any; one at a time for a run.
 */
#ifndef CULM_STORE_BEST_H
#define CULM_STORE_BEST_H

#include "store/config.h"
#include "store/weights.h"

struct culm_best_found {
    double loss, accuracy; /* loss NAN: not known */
    int64_t samples;
};

/* Puts weights that were evaluated in the place of those that are there, if they are better by that
 * measure, which must be known: *ret_better. */
enum culm_status culm_best_keep(const char *dir, const struct culm_weights *weights,
                                enum culm_best measure, const struct culm_best_found *found,
                                bool *ret_better, struct culm_error *error);
/* Its path, if there is one. CULM_ERR_CONFIG says how a run gets one. */
enum culm_status culm_best_find(const char *dir, char ret_path[CULM_PATH_MAX],
                                struct culm_error *error);

#endif
