/*
 * What a search keeps in a package while it goes on, so that --resume goes on with it: DIR/search, the
 * digest of the models that it is about and of the rest, and the rest. Thread: the caller's.
 */
#ifndef CULM_RUN_MERGE_KEPT_H
#define CULM_RUN_MERGE_KEPT_H

#include "run/merge_inputs.h"

/* In place of what was kept before: whole or not at all. */
enum culm_status culm_merge_kept_write(const char *dir, const struct culm_merge_inputs *in,
                                       const void *data, size_t len, struct culm_error *error);
/* The caller's to free. What is not whole, or of other models, is as if it were not there: *ret_data stays
 * as it is. */
enum culm_status culm_merge_kept_read(const char *dir, const struct culm_merge_inputs *in,
                                      void **ret_data, size_t *ret_len, struct culm_error *error);
enum culm_status culm_merge_kept_forget(const char *dir, struct culm_error *error);

#endif
