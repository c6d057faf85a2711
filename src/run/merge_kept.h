/*
 * What a search keeps in a package for --resume: DIR/search, which holds a digest over the models
 * and the data, and then the data.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_MERGE_KEPT_H
#define CULM_RUN_MERGE_KEPT_H

#include "run/merge_inputs.h"

/* Replaces what was kept before, as a whole or not at all. */
enum culm_status culm_merge_kept_write(const char *dir, const struct culm_merge_inputs *in,
                                       const void *data, size_t len, struct culm_error *error);
/* *ret_data is the caller's to free. Data that is incomplete or belongs to other models counts as
 * absent: CULM_OK, and *ret_data is left as it was. */
enum culm_status culm_merge_kept_read(const char *dir, const struct culm_merge_inputs *in,
                                      void **ret_data, size_t *ret_len, struct culm_error *error);
enum culm_status culm_merge_kept_forget(const char *dir, struct culm_error *error);

#endif
