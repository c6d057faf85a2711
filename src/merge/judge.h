/*
 * How good a model is on some frames: by what the original answers there, or by labels.
 * Thread: the device's.
 */
#ifndef CULM_MERGE_JUDGE_H
#define CULM_MERGE_JUDGE_H

#include "merge/model.h"
#include "vision/boxes.h"
#include "vision/runner.h"

struct culm_merge_frames {
    float *image; /* [count,h,w,c], as the model reads it */
    int64_t count;
    int32_t width, height; /* of the frames before they were stretched */
    /* What is right, [count] each: classes; boxes or points. Where both are NULL, that is what the
     * original answers. */
    const int32_t *label;
    const struct culm_answer *right;
};

struct culm_judge {
    struct culm_merge_model *model; /* borrowed */
    struct culm_vision_runner runner;
    struct culm_accuracy *accuracy;
    struct culm_answer answer;
    float score;
};

/* `batch` frames at a time. Release it also after a failure. */
enum culm_status culm_judge_init(struct culm_judge *judge, struct culm_merge_model *model,
                                 int64_t batch, float score, struct culm_device *device,
                                 struct culm_error *error);
void culm_judge_release(struct culm_judge *judge); /* fine on a zeroed struct */

/* What the model answers with these numbers, given by parameter of its graph. Fills in
 * ret_answer[frames->count], which are zeroed or hold earlier answers. */
enum culm_status culm_judge_answer(struct culm_judge *judge, float *const *value,
                                   const struct culm_merge_frames *frames,
                                   struct culm_answer *ret_answer, struct culm_error *error);
/* The accuracy of the model with these numbers; `wanted` is what the original answers. Where the frames
 * have labels or right answers, those count instead. */
enum culm_status culm_judge_now(struct culm_judge *judge, float *const *value,
                                const struct culm_merge_frames *frames,
                                const struct culm_answer *wanted, double *ret_accuracy,
                                struct culm_error *error);
/* The accuracy that a detector would have on the frames, and the number of boxes that it would tell of on all
 * of them, if by[i] were added to the objectness of all boxes, for each of by[count]. */
enum culm_status culm_judge_surer(struct culm_judge *judge, float *const *value,
                                  const struct culm_merge_frames *frames,
                                  const struct culm_answer *wanted, const float *by, int32_t count,
                                  double *ret_accuracy, int64_t *ret_told,
                                  struct culm_error *error);

#endif
