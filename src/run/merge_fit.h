/*
 * The frames that models are fitted to: those of all queries of a model that may be seen and are not
 * checked.
 *
 * What a model learns is what its original makes of a frame, so with `culm` few frames become more:
 * frames of other feeds of other files, as many as there are, and variants of the model's own (merge/vary.h). The
 * folder `merge.pictures` adds more. Frames that are checked, set aside or held out are never among
 * them, whatever feed they are of.
 *
 * For merge_inputs.c. Thread: one.
 */
#ifndef CULM_RUN_MERGE_FIT_H
#define CULM_RUN_MERGE_FIT_H

#include "run/merge_inputs.h"

#define MERGE_FIT_FLOATS ((int64_t)64 << 20) /* of frames to fit to, a feed */

/* Gathers them, once all sets have been read. Errors as of culm_merge_inputs_read; CULM_ERR_CONFIG:
 * there is nothing in merge.pictures. */
enum culm_status culm_merge_inputs_fit(struct culm_merge_inputs *in, const atomic_bool *stop,
                                       struct culm_error *error);
void culm_merge_inputs_fit_release(struct culm_merge_inputs *in);

#endif
