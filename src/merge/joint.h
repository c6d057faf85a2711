/*
 * Trains models together that share some of their tensors.
 *
 * Each model comes with an address for every parameter of its graph. Parameters at the same
 * address, of one model or of several, are one tensor, which is trained in place with the sum of
 * all its gradients. A step takes one batch. Each sample in it belongs to one model; each model
 * runs its own samples, the losses are weighted and added up, and every tensor takes one optimizer
 * step.
 *
 * What a model is trained towards:
 *   answers   the right answers of the samples: labels, points, or the boxes that the original
 *             finds, with the usual loss of their kind (loss.h). Batch norm uses the statistics of
 *             the batch and moves its running ones, as in any training.
 *   outputs   what the original puts out (culm_loss_original). Needs no answers. Batch norm uses
 *             its running statistics, which change by no more than rounding.
 *
 * The original's outputs for a sample never change, so with `answers` they are computed once and
 * kept. Weights can be averaged over the last steps, which gives better weights than any single
 * step.
 *
 * Samples are shuffled by (seed, epoch). Sums have a fixed order: models as they were added, then
 * uses as the graph numbers them. So the same calls give the same bits on any number of threads.
 *
 * Thread: one, the device's.
 */
#ifndef CULM_MERGE_JOINT_H
#define CULM_MERGE_JOINT_H

#include "merge/loss.h"
#include "model/config.h"
#include "vision/model.h"

struct culm_joint;

enum culm_joint_aim { CULM_JOINT_ANSWERS, CULM_JOINT_OUTPUTS };

struct culm_joint_config {
    struct culm_optimizer_config optimizer;
    enum culm_joint_aim aim;
    int64_t batch;  /* samples a step draws from all models together, in shuffled order */
    double average; /* decay of the running mean of the weights, a step; 0: no mean is kept */
    /* Each tensor's learning rate is `lr` times its root mean square at the beginning. */
    bool relative;
    uint64_t seed;
};

/* What one model is trained on. */
struct culm_joint_samples {
    void *ctx;
    int64_t count; /* at least 1 */
    /* Fills ret_image[height, width, channels] as the model's input expects it and, with
     * CULM_JOINT_ANSWERS, the right answer. The answer has to stay valid for `batch` more calls: a
     * batch is fetched as a whole before any of it is used. */
    enum culm_status (*get)(void *ctx, int64_t sample, float *ret_image,
                            struct culm_wanted *ret_wanted, struct culm_error *error);
};

/* The original's outputs for samples. Zeroed at first; may be passed on to another joint with the
 * same model and samples. The caller frees `value` and `known`. */
struct culm_joint_answers {
    float *value; /* [samples][elements of all outputs] */
    bool *known;  /* [samples] */
};

struct culm_joint_part {
    struct culm_vision_model *model; /* borrowed */
    /* By parameter of the model's graph: memory of the caller's, 64-byte aligned, as long as the
     * parameter. */
    float *const *value;
    const float *const *original; /* likewise, never written; NULL with CULM_JOINT_ANSWERS */
    /* By parameter; NULL: none. A tensor is frozen if any part freezes it. A part computes no
     * gradient for the parameters it freezes. */
    const bool *frozen;
    struct culm_joint_samples samples;
    int64_t each; /* this model's samples in every step; 0: its share of `batch` */
    int64_t room; /* CULM_JOINT_OUTPUTS: bytes that `answers` may grow to */
    struct culm_joint_answers *answers; /* NULL: the original runs in every step */
};

/* Compiles the models. `part`, and the arrays that it points to, are borrowed for the call only;
 * everything else until culm_joint_free: the models, values, originals and the samples' ctx.
 * CULM_ERR_CONFIG: parameters of different lengths at one address. */
enum culm_status culm_joint_new(const struct culm_joint_config *config,
                                const struct culm_joint_part *part, int32_t parts,
                                struct culm_device *device, struct culm_joint **ret_joint,
                                struct culm_error *error);
void culm_joint_free(struct culm_joint *joint); /* NULL is fine; the tensors are left as they are */

/* The number of batches after which every sample of every model has been seen once. */
int64_t culm_joint_epoch_batches(const struct culm_joint *joint);
/* The factor of a model's loss; 1 at first. */
void culm_joint_weight(struct culm_joint *joint, int32_t part, double weight);
/* Sets the learning rate from the next step on; at first that of the configuration. */
void culm_joint_rate(struct culm_joint *joint, double lr);
/* Trains for `batches` batches. *ret_loss: the mean of the weighted loss over the steps. A loss
 * that is not finite ends it early and leaves the tensors ruined. Errors: those of `get`. */
enum culm_status culm_joint_run(struct culm_joint *joint, int64_t batches, double *ret_loss,
                                struct culm_error *error);
/* Takes over the state of an earlier joint; call it before the first step. For each model that is
 * in both, its parameters keep their optimizer state, mean and size, even where they were at
 * another address before because a model has stopped sharing. Parameters of other models start
 * afresh. */
void culm_joint_go_on(struct culm_joint *joint, const struct culm_joint *from);
/* Resets the optimizer state of the tensor at this address, and takes its mean and its size from
 * its present values. For weights that were set from outside. No effect if no tensor has this
 * address. */
void culm_joint_forget(struct culm_joint *joint, const float *value);
/* Swaps the tensors with their means; swap again to go on training. No effect before the first
 * step. */
void culm_joint_exchange(struct culm_joint *joint);

#endif
