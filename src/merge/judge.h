/*
 * The accuracy of a model on some frames, by labels or by what its original answers.
 *
 * Thread: the device's.
 */
#ifndef CULM_MERGE_JUDGE_H
#define CULM_MERGE_JUDGE_H

#include "merge/model.h"
#include "vision/boxes.h"
#include "vision/runner.h"

/* The size of a frame before it was resized, in pixels. */
struct culm_merge_size {
    int32_t width, height;
};

struct culm_merge_frames {
    float *image; /* [count,h,w,c], as the model's input expects it */
    int64_t count;
    struct culm_merge_size *size; /* [count]; answers are in pixels of their own frame */
    /* The right answers, [count] each: classes, or boxes or points. Both NULL: the original's
     * answers are right. */
    const int32_t *label;
    const struct culm_answer *right;
};

struct culm_judge {
    struct culm_merge_model *model; /* borrowed */
    struct culm_vision_runner runner;
    struct culm_accuracy *accuracy;
    struct culm_answer answer;
    float score;
    enum culm_accuracy_by by; /* of detectors */
    double overlap;
};

/* Runs `batch` frames at a time. Release the judge even after a failure. */
enum culm_status culm_judge_init(struct culm_judge *judge, struct culm_merge_model *model,
                                 int64_t batch, float score, struct culm_device *device,
                                 struct culm_error *error);
/* Judges a detector in this way from now on, not by all its boxes at an overlap of 0.5. */
void culm_judge_by(struct culm_judge *judge, enum culm_accuracy_by by, double overlap);
void culm_judge_release(struct culm_judge *judge); /* fine on a zeroed struct */

/* The model's answers with the values value[parameters of its graph]. ret_answer[frames->count] has
 * to be zeroed or hold earlier answers, whose memory is reused. */
enum culm_status culm_judge_answer(struct culm_judge *judge, float *const *value,
                                   const struct culm_merge_frames *frames,
                                   struct culm_answer *ret_answer, struct culm_error *error);
/* The accuracy of the model with these values, against the frames' labels or right answers if there
 * are any, else against `wanted`, the original's answers. */
enum culm_status culm_judge_now(struct culm_judge *judge, float *const *value,
                                const struct culm_merge_frames *frames,
                                const struct culm_answer *wanted, double *ret_accuracy,
                                struct culm_error *error);
/* For a detector: what the accuracy would be, and how many boxes it would report over all frames,
 * if by[i] were added to the objectness of every box, for each of by[count]. The rest is as in
 * culm_judge_now. */
enum culm_status culm_judge_surer(struct culm_judge *judge, float *const *value,
                                  const struct culm_merge_frames *frames,
                                  const struct culm_answer *wanted, const float *by, int32_t count,
                                  double *ret_accuracy, int64_t *ret_told,
                                  struct culm_error *error);

#endif
