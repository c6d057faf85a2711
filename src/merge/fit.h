/*
 * Merging without training: one walk through all models at once, layer by layer.
 *
 * Each model runs twice on the same frames, operator by operator: as the original, which says what is
 * wanted, and as it is becoming. Where the layers of a shared instance have been reached in all of its
 * models, their weights are solved for together (solve.h); a private layer is solved for alone, so it
 * makes up for what changed before it. Then each private batch norm is fitted, channel by channel: it
 * takes the mean and variance that it now meets, and the scale and shift that come nearest to what the
 * original's made. Thread: the device's.
 */
#ifndef CULM_MERGE_FIT_H
#define CULM_MERGE_FIT_H

#include "merge/solve.h"

struct culm_fit_options {
    struct culm_solve_options solve;
    double private_ridge; /* of layers that are not shared; below 0: they stay as they are */
    bool copy;            /* shared layers, and the batch norms behind them, take the first model's
                             numbers instead */
};

struct culm_fit_frames {
    const float *image; /* [count,h,w,c], as the model reads it */
    int64_t count;
};

/* Begins with the aligned originals and changes the numbers of all models; frames[count], of each. Where
 * models would wait for one another for ever, those that have reached a layer are solved for without the
 * others. ret_harm[instances] (may be NULL): for the active ones, what share of what the original's layer
 * made is lost, 0 to 1, in the model that lost most. CULM_ERR_MEMORY. */
enum culm_status culm_fit(struct culm_merge_model *const *models, int32_t count,
                          const struct culm_share *share, const struct culm_fit_frames *frames,
                          const struct culm_fit_options *options, struct culm_device *device,
                          double *ret_harm, struct culm_error *error);

/* The same of one model that shares with none, whose held[parameters] keep the numbers that they have now. */
enum culm_status culm_fit_alone(struct culm_merge_model *model,
                                const struct culm_fit_frames *frames, const bool *held,
                                const struct culm_fit_options *options, struct culm_device *device,
                                struct culm_error *error);

/* A layer of a model with the numbers of another one, of its shape. */
struct culm_fit_trial {
    int32_t layer;
    const float *weight, *bias; /* NULL: none */
    double harm;                /* set: as ret_harm of culm_fit */
};
/* What each trial alone would do to what the model makes now. Its numbers stay as they are. */
enum culm_status culm_fit_try(struct culm_merge_model *model, const struct culm_fit_frames *frames,
                              struct culm_fit_trial *trials, int32_t count,
                              struct culm_device *device, struct culm_error *error);

#endif
