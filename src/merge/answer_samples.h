/*
 * Training samples for CULM_JOINT_ANSWERS (joint.h): frames, each with its label or with what the
 * original answers.
 *
 * Thread: one.
 */
#ifndef CULM_MERGE_ANSWER_SAMPLES_H
#define CULM_MERGE_ANSWER_SAMPLES_H

#include "merge/judge.h"
#include "merge/loss.h"

struct culm_answer_samples_slot { /* the answer to one sample */
    struct culm_wanted_box *box;
    int32_t box_capacity;
    float *points;
};

struct culm_answer_samples {
    int64_t elements;                       /* floats in a frame */
    const struct culm_vision_input *input;  /* borrowed; NULL: frames are stretched */
    const struct culm_merge_frames *frames; /* borrowed */
    struct culm_answer *answer;             /* [frames]: owned */
    struct culm_answer_samples_slot *slot;  /* [slots] */
    int32_t slots, turn;                    /* turn: the slot that the next sample takes */
};

/* For batches of up to `slots` samples, of a model that answers with up to `points` points. The
 * answers are empty at first: the caller fills samples->answer[frames->count] with the original's.
 * Release the samples even after a failure. */
enum culm_status culm_answer_samples_init(struct culm_answer_samples *samples,
                                          const struct culm_merge_frames *frames, int64_t elements,
                                          int32_t points, int32_t slots, struct culm_error *error);
void culm_answer_samples_release(struct culm_answer_samples *samples); /* fine on a zeroed struct */
/* Implements `get` of culm_joint_samples (joint.h); ctx is a culm_answer_samples. The answer stays
 * valid for `slots` more calls. */
enum culm_status culm_answer_samples_get(void *ctx, int64_t sample, float *ret_image,
                                         struct culm_wanted *ret_wanted, struct culm_error *error);

#endif
