/*
 * Whatever a path leads to, seen as tensors sorted by name: what is behind culm_tensors_* of culm.h,
 * and more than it says. Thread: constant after it is opened.
 */
#ifndef CULM_RUN_TENSORS_H
#define CULM_RUN_TENSORS_H

#include "store/checkpoint.h"

#include <culm.h>

struct culm_tensors {
    char path[CULM_PATH_MAX];           /* of the checkpoint or the file itself */
    struct culm_checkpoint *checkpoint; /* or NULL */
    struct culm_safetensors *file;      /* or NULL */
    const struct culm_safetensors_entry **entry;
    size_t count;
    bool has_state;
    char warning[CULM_ERROR_MAX]; /* why a newer checkpoint of the run was passed over; "" */
};

struct culm_tensors_difference {
    bool differ;
    char text[512];        /* which tensor differs first, and where; one line */
    size_t weights, state; /* tensors that are equal, up to there */
};

/* Compares weights, and optimizer state where both have it; steps it does not look at. */
enum culm_status culm_tensors_differ(const struct culm_tensors *a, const struct culm_tensors *b,
                                     struct culm_tensors_difference *ret_difference,
                                     struct culm_error *error);

#endif
