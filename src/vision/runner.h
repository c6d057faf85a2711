/*
 * A model of pictures that runs in one process: its graph compiled as one stage, its numbers, and the
 * memory that running takes. Thread: one at a time, the device's.
 */
#ifndef CULM_VISION_RUNNER_H
#define CULM_VISION_RUNNER_H

#include "graph/stage.h"
#include "vision/model.h"

struct culm_vision_runner {
    struct culm_device *device; /* borrowed */
    struct culm_graph *graph;   /* fused; its parameters have the indices of the model's graph */
    struct culm_stage *stage;
    float *image;  /* [batch,h,w,channels], for the caller to fill */
    float *params; /* flat, as culm_stage_info says; as culm_graph_turn makes them */
    void *output, *activations, *scratch;
    int64_t batch;
    int64_t memory_bytes; /* of all these */
};

/* Release it also after a failure. The model is only read here. */
enum culm_status culm_vision_runner_init(struct culm_vision_runner *runner,
                                         struct culm_vision_model *model, int64_t batch,
                                         struct culm_device *device, struct culm_error *error);
void culm_vision_runner_release(struct culm_vision_runner *runner); /* fine on a zeroed struct */
/* All of the batch. */
void culm_vision_runner_run(struct culm_vision_runner *runner);
/* The same, operator by operator, which takes longer where some could be run together; ret_ns[operators + 1]:
 * when each began, and when the last ended, from the beginning on. */
void culm_vision_runner_clock(struct culm_vision_runner *runner, uint64_t *ret_ns);
/* Output `index` of picture `sample` after a run, and its shape, [h,w,c] or [classes], if that is not
 * NULL. */
const float *culm_vision_runner_output(const struct culm_vision_runner *runner, int32_t index,
                                       int64_t sample, struct culm_shape *ret_shape);

#endif
