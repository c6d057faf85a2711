/*
 * Whatever a path leads to, seen as tensors sorted by name: what is behind culm_tensors_* of culm/infer.h,
 * and what the commands say of them. Thread: constant after it is opened.
 */
#ifndef CULM_RUN_TENSORS_H
#define CULM_RUN_TENSORS_H

#include "run/ckpt.h"
#include "store/checkpoint.h"

struct culm_tensors {
    char path[CULM_PATH_MAX];           /* of the checkpoint or the file itself */
    struct culm_checkpoint *checkpoint; /* or NULL */
    struct culm_safetensors *file;      /* or NULL */
    const struct culm_safetensors_entry **entry;
    size_t count;
    bool has_state;
    char warning[CULM_ERROR_MAX]; /* why a newer checkpoint of the run was passed over; "" */
};

#endif
