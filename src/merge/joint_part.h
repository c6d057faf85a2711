/* One model among those that are trained together: compiled, with the memory that a step takes. Inside
 * of joint.h; not for others. */
#ifndef CULM_MERGE_JOINT_PART_H
#define CULM_MERGE_JOINT_PART_H

#include "graph/stage.h"
#include "merge/joint.h"

/* What a part needs only while it runs; parts run one after the other, so all of a joint have the same. */
struct joint_room {
    size_t activation_bytes, scratch_bytes, grad_bytes, work_bytes;
    void *activations, *scratch;
    float *grads, *work;
};

struct joint_part {
    struct culm_vision_model *model;
    struct culm_graph *graph;
    struct culm_stage *stage;
    struct culm_stage_rows **rows;   /* [batch]: of 1 .. batch - 1 samples, at that index */
    const float **param, **original; /* [its parameters]: where they are */
    void *output, *said, *d_output;  /* said: what the original's outputs are; NULL: not asked */
    struct culm_joint_samples samples;
    struct culm_joint_answers *answers; /* NULL: none are kept */
    int64_t answer;                     /* numbers of one */
    int64_t batch;                      /* compiled for */
    float *image;
    struct culm_wanted *wanted; /* [batch] */
    const struct joint_room *room;
    double weight;
};

/* What happens to a gradient: tensor of parameter `param` of the graph, in the order of uses. */
typedef void joint_gradient_fn(void *ctx, int32_t param, const float *gradient);

/* Release it also after a failure. The room becomes as large as this part needs, if it was smaller; its memory
 * is the caller's, and there before the part runs. */
enum culm_status joint_part_init(struct joint_part *part, const struct culm_joint_part *from,
                                 const struct culm_joint_config *config, struct culm_device *device,
                                 struct joint_room *room, struct culm_error *error);
void joint_part_release(struct joint_part *part, struct culm_device *device);
/* Forward and backward of `count` samples, at least 1: the loss is their mean times the part's weight. */
enum culm_status joint_part_run(struct joint_part *part, const struct culm_joint_config *config,
                                struct culm_device *device, const int64_t *sample, int64_t count,
                                joint_gradient_fn *gradient, void *ctx, double *ret_loss,
                                struct culm_error *error);

#endif
