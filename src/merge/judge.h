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
    int32_t width, height;           /* of the frames before they were stretched */
    const int32_t *label;            /* [count]; NULL: the original's answers are what is wanted, */
    const struct culm_answer *right; /* [count] but where these are there: boxes, points */
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

/* What these numbers (by parameter of the model's graph) answer: fills in ret_answer[frames->count],
 * each zeroed or used before. */
enum culm_status culm_judge_answer(struct culm_judge *judge, float *const *value,
                                   const struct culm_merge_frames *frames,
                                   struct culm_answer *ret_answer, struct culm_error *error);
/* The accuracy of the model as it is now; `wanted` is what the original answers. Where frames have
 * labels or right answers they count instead. */
enum culm_status culm_judge_now(struct culm_judge *judge, float *const *value,
                                const struct culm_merge_frames *frames,
                                const struct culm_answer *wanted, double *ret_accuracy,
                                struct culm_error *error);
/* A detector's accuracy on frames for each of by[count]: if that were added to the
 * objectness of all boxes. */
enum culm_status culm_judge_surer(struct culm_judge *judge, float *const *value,
                                  const struct culm_merge_frames *frames,
                                  const struct culm_answer *wanted, const float *by, int32_t count,
                                  double *ret_accuracy, struct culm_error *error);

#endif
