/*
 * Runs a model operator by operator on a fixed set of frames, so that parameters can be changed
 * between two operators.
 *
 * Thread: one at a time, the device's.
 */
#ifndef CULM_MERGE_STEPS_H
#define CULM_MERGE_STEPS_H

#include "graph/stage.h"
#include "merge/model.h"

struct culm_steps {
    struct culm_device *device; /* borrowed */
    struct culm_graph *graph;   /* for all frames; nodes and values numbered as in the model's */
    struct culm_stage *stage;
    const float **param; /* [parameters of the stage] */
    const void *field[1];
    void *output, *activations, *scratch;
    struct culm_stage_run run;
    int32_t cursor, count; /* cursor: the next operator */
};

/* image, [frames,h,w,c] as the model's input expects it, and value, by parameter of the model's
 * graph, are borrowed. Release it even after a failure. */
enum culm_status culm_steps_init(struct culm_steps *steps, const struct culm_merge_model *model,
                                 int64_t frames, const float *image, float *const *value,
                                 struct culm_device *device, struct culm_error *error);
void culm_steps_release(struct culm_steps *steps); /* fine on a zeroed struct */
void culm_steps_step(struct culm_steps *steps);
/* The contents of value number `value`; it has to be an input of the next operator or an output of
 * a recent one, since memory is reused. */
const float *culm_steps_value(const struct culm_steps *steps, int32_t value);

#endif
