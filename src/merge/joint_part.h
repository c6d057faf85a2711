/* One model of a joint (joint.h), compiled, with the memory that a step needs. Private to
 * joint.c. */
#ifndef CULM_MERGE_JOINT_PART_H
#define CULM_MERGE_JOINT_PART_H

#include "graph/stage.h"
#include "merge/joint.h"

/* Memory that a part needs only while it runs. Parts run one after the other, so all parts of a
 * joint share one room, as large as the largest needs. */
struct joint_room {
    size_t activation_bytes, scratch_bytes, grad_bytes, work_bytes;
    void *activations, *scratch;
    float *grads, *work;
};

struct joint_part {
    struct culm_vision_model *model;
    struct culm_graph *graph;
    struct culm_stage *stage;
    struct culm_stage_rows **rows;   /* [batch]: the stage for n samples at index n, from 1 on */
    const float **param, **original; /* [parameters of the stage]: addresses */
    void *output, *said, *d_output;  /* said: the original's outputs; NULL with
                                        CULM_JOINT_ANSWERS */
    struct culm_joint_samples samples;
    struct culm_joint_answers *answers; /* NULL: not kept */
    int64_t answer;                     /* elements of one answer, over all outputs */
    int64_t batch;                      /* samples it is compiled for */
    float *image;
    struct culm_wanted *wanted; /* [batch] */
    const struct joint_room *room;
    double weight;
};

/* Receives the gradient of parameter `param` of the graph, once per use, in a fixed order. */
typedef void joint_gradient_fn(void *ctx, int32_t param, const float *gradient);

/* Release the part even after a failure. Raises the sizes in `room` to what this part needs; the
 * caller allocates the room before the first run. */
enum culm_status joint_part_init(struct joint_part *part, const struct culm_joint_part *from,
                                 const struct culm_joint_config *config, struct culm_device *device,
                                 struct joint_room *room, struct culm_error *error);
void joint_part_release(struct joint_part *part, struct culm_device *device);
/* Forward and backward of `count` samples, at least 1. *ret_loss: their mean loss times the part's
 * weight. */
enum culm_status joint_part_run(struct joint_part *part, const struct culm_joint_config *config,
                                struct culm_device *device, const int64_t *sample, int64_t count,
                                joint_gradient_fn *gradient, void *ctx, double *ret_loss,
                                struct culm_error *error);

#endif
