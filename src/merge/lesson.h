/*
 * Training samples for CULM_JOINT_ANSWERS (joint.h): frames, each with its label or with what the
 * original answers.
 *
 * Thread: one.
 */
#ifndef CULM_MERGE_LESSON_H
#define CULM_MERGE_LESSON_H

#include "merge/judge.h"
#include "merge/loss.h"

struct culm_lesson_slot { /* the answer to one sample */
    struct culm_wanted_box *box;
    int32_t box_capacity;
    float *points;
};

struct culm_lesson {
    int64_t elements;                       /* floats in a frame */
    const struct culm_merge_frames *frames; /* borrowed */
    struct culm_answer *answer;             /* [frames]: owned */
    struct culm_lesson_slot *slot;          /* [slots] */
    int32_t slots, turn;                    /* turn: the slot that the next sample takes */
};

/* For batches of up to `slots` samples, of a model that answers with up to `points` points. The
 * answers are empty at first: the caller fills lesson->answer[frames->count] with the original's.
 * Release the lesson even after a failure. */
enum culm_status culm_lesson_init(struct culm_lesson *lesson,
                                  const struct culm_merge_frames *frames, int64_t elements,
                                  int32_t points, int32_t slots, struct culm_error *error);
void culm_lesson_release(struct culm_lesson *lesson); /* fine on a zeroed struct */
/* Implements `get` of culm_joint_samples (joint.h); ctx is a lesson. The answer stays valid for
 * `slots` more calls. */
enum culm_status culm_lesson_get(void *ctx, int64_t sample, float *ret_image,
                                 struct culm_wanted *ret_wanted, struct culm_error *error);

#endif
