/*
 * Models that share some of their tensors, trained together.
 *
 * A model is given with an address for each parameter of its graph; parameters at one address, of one
 * model or of several, are one tensor: it is trained in place, by the sum of all gradients. A step
 * takes a batch of samples of all models, each sample of one of them; each model runs its own,
 * losses are weighted and summed, and every tensor takes one step of the optimizer.
 *
 * What a model is trained towards:
 *   answers   those that are wanted for a sample, by the loss for their kind (loss.h): labels, points, or
 *             the boxes that the original finds. Batch norm uses the statistics of the batch, and its
 *             running ones move, as in any training.
 *   outputs   what the original says, by culm_loss_original. It needs no answers, and batch norm uses
 *             its running statistics, which change by no more than rounding.
 *
 * What the original says of a sample does not change, and where there is room (`answers`) it is asked for
 * once. Weights may be averaged while they are trained: the mean of the last steps is better than any of
 * them.
 *
 * Samples are shuffled by (seed, epoch); sums have a fixed order: models as they were added, then uses
 * as the graph numbers them. So the same calls give the same bits on any number of threads.
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
    int64_t batch;  /* samples of a step, of all models together, as they come */
    double average; /* share of itself that the mean of weights keeps in a step; 0: there is none */
    /* The rate is a share of a tensor's size: its root mean square at the beginning. */
    bool relative;
    uint64_t seed;
};

/* What one model is trained on. */
struct culm_joint_samples {
    void *ctx;
    int64_t count; /* at least 1 */
    /* Fills ret_image[height, width, channels], as the model's input wants it, and, with ANSWERS, what
     * should be answered, which stays valid for `batch` more calls: a whole batch is fetched before any
     * of it is used. */
    enum culm_status (*get)(void *ctx, int64_t sample, float *ret_image,
                            struct culm_wanted *ret_wanted, struct culm_error *error);
};

/* What originals said of samples; zeroed at first, it may be handed on to another joint with the same
 * model and samples. The caller frees `value` and `known`. */
struct culm_joint_answers {
    float *value; /* [samples][numbers of all outputs] */
    bool *known;  /* [samples] */
};

struct culm_joint_part {
    struct culm_vision_model *model; /* borrowed */
    /* By parameter of its graph: the caller's, 64-byte aligned, as long as the parameter. */
    float *const *value;
    const float *const *original; /* likewise, never written; NULL with ANSWERS */
    /* By parameter; NULL: none. A tensor is frozen if any part says so; that part computes no gradient
     * of it. */
    const bool *frozen;
    struct culm_joint_samples samples;
    int64_t each; /* samples of this model in every step, whatever the others; 0: of `batch` */
    int64_t room; /* OUTPUTS: bytes that `answers` may take */
    struct culm_joint_answers *answers; /* NULL: the original runs in every step */
};

/* Compiles the models; everything but `part` itself and its arrays is borrowed until the end.
 * CULM_ERR_CONFIG where one address has two lengths. */
enum culm_status culm_joint_new(const struct culm_joint_config *config,
                                const struct culm_joint_part *part, int32_t parts,
                                struct culm_device *device, struct culm_joint **ret_joint,
                                struct culm_error *error);
void culm_joint_free(struct culm_joint *joint); /* NULL is fine; the tensors stay as they are */

/* How many batches show every sample of every model once. */
int64_t culm_joint_epoch_batches(const struct culm_joint *joint);
/* Factor of a model's loss; 1 at first. */
void culm_joint_weight(struct culm_joint *joint, int32_t part, double weight);
/* From the next step on; the configuration's at first. */
void culm_joint_rate(struct culm_joint *joint, double lr);
/* The next `batches` batches. ret_loss: mean of the weighted loss of a step; what is not a number ends
 * it early, with the tensors spoilt. Errors: those of `get`. */
enum culm_status culm_joint_run(struct culm_joint *joint, int64_t batches, double *ret_loss,
                                struct culm_error *error);
/* Before the first step: goes on where `from` is, with what its optimizer knows of the same parameters of
 * the same models, with their means and sizes, wherever they were: a tensor goes on also when the model at
 * whose address it was has left it. Nothing is known of other models' parameters, and their means are what
 * they are now. */
void culm_joint_go_on(struct culm_joint *joint, const struct culm_joint *from);
/* What the optimizer knows of the tensor at this address is forgotten, and its size is what it is now: its
 * numbers were set anew. Where no tensor is at that address nothing happens. */
void culm_joint_forget(struct culm_joint *joint, const float *value);
/* The tensors and their means change places; before the first step nothing happens. */
void culm_joint_exchange(struct culm_joint *joint);

#endif
