/*
 * Merging without training: all models are walked at once, layer by layer.
 *
 * Each model runs twice on the same frames, operator by operator: as the original, which gives the
 * target, and as the model it is becoming. Once every model of a shared instance has reached its
 * layer, one set of weights is solved for all of them (solve.h). A private layer is solved for
 * alone and so compensates for what changed before it. A private batch norm then takes the mean and
 * variance of what it now reads, and, channel by channel, the scale and shift that best reproduce
 * the original's output.
 *
 * Thread: the device's.
 */
#ifndef CULM_MERGE_FIT_H
#define CULM_MERGE_FIT_H

#include "merge/solve.h"

struct culm_fit_options {
    struct culm_solve_options solve;
    double private_ridge; /* for layers that are not shared; negative: leave them as they are */
    bool copy;            /* do not solve: copy the first model's weights, and its batch norms
                             behind them, to the other models */
};

struct culm_fit_frames {
    const float *image; /* [count,h,w,c], as the model reads it */
    int64_t count;
};

/* Starts from the aligned originals and sets the current values of every model that shares
 * something. frames[count]: one entry a model.
 *
 * Models that have their shared layers in different orders could wait for each other forever; then
 * those that have reached a layer are solved for without the others.
 *
 * ret_harm[instances] (may be NULL): for each active instance, the share of the variance of the
 * original layer's output that is lost, 0 to 1, in the model that loses most. CULM_ERR_MEMORY. */
enum culm_status culm_fit(struct culm_merge_model *const *models, int32_t count,
                          const struct culm_share *share, const struct culm_fit_frames *frames,
                          const struct culm_fit_options *options, struct culm_device *device,
                          double *ret_harm, struct culm_error *error);

/* The same for a single model that shares with no other. held[parameters]: those that keep their
 * current values. */
enum culm_status culm_fit_alone(struct culm_merge_model *model,
                                const struct culm_fit_frames *frames, const bool *held,
                                const struct culm_fit_options *options, struct culm_device *device,
                                struct culm_error *error);

/* A trial: one layer with the weights of another layer of the same shape. */
struct culm_fit_trial {
    int32_t layer;
    const float *weight, *bias; /* NULL: none */
    double harm;                /* output: as ret_harm of culm_fit */
};
/* Measures what each trial, on its own, would do to the layer's output in the model as it is now.
 * The model's values are left unchanged. */
enum culm_status culm_fit_try(struct culm_merge_model *model, const struct culm_fit_frames *frames,
                              struct culm_fit_trial *trials, int32_t count,
                              struct culm_device *device, struct culm_error *error);

#endif
