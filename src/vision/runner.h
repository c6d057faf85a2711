/*
 * Runs a model of pictures in one process: the graph compiled as a single stage, the weights, and
 * the memory for a run.
 *
 * Thread: one at a time, the device's.
 */
#ifndef CULM_VISION_RUNNER_H
#define CULM_VISION_RUNNER_H

#include "graph/stage.h"
#include "vision/boxes.h"
#include "vision/model.h"

struct culm_vision_runner {
    struct culm_device *device; /* borrowed */
    struct culm_graph *graph;   /* fused; parameters have the indices of the model's graph */
    struct culm_stage *stage;
    float *image;  /* [batch,h,w,channels]: the caller fills it in */
    float *params; /* flat, by the offsets of culm_stage_info_of; turned (culm_graph_turn) */
    void *output, *activations, *scratch;
    int64_t batch;
    float least;          /* of t4; -INFINITY: maps are computed whole */
    int64_t memory_bytes; /* of all of these */
};

/* score: boxes below it are not asked for (vision/boxes.h), so that maps need not be computed where there
 * are none: culm_answer_read gives the same answer for this score or a higher one, but the rest of a map is
 * undefined. 0: maps are computed whole. Release it even after a failure. The model is not needed
 * afterwards. */
enum culm_status culm_vision_runner_init(struct culm_vision_runner *runner,
                                         struct culm_vision_model *model, int64_t batch,
                                         float score, struct culm_device *device,
                                         struct culm_error *error);
void culm_vision_runner_release(struct culm_vision_runner *runner); /* fine on a zeroed struct */
/* Runs the whole batch in `image`. */
void culm_vision_runner_run(struct culm_vision_runner *runner);
/* The same, operator by operator, with times: slower where operators could be run together.
 * ret_ns[operators + 1]: the start of each operator and the end of the last, since the
 * beginning. */
void culm_vision_runner_clock(struct culm_vision_runner *runner, uint64_t *ret_ns);
/* After a run: output `index` for picture `sample`, valid until the next run. *ret_shape (may be
 * NULL): its shape, [h,w,c] or [classes]. */
const float *culm_vision_runner_output(const struct culm_vision_runner *runner, int32_t index,
                                       int64_t sample, struct culm_shape *ret_shape);
/* After a run: what the model says of picture `sample`, which is a frame of that size: culm_answer_read. */
enum culm_status culm_vision_runner_answer(const struct culm_vision_runner *runner,
                                           const struct culm_vision_model *model, int64_t sample,
                                           int32_t frame_width, int32_t frame_height, float score,
                                           struct culm_answer *answer, struct culm_error *error);

#endif
