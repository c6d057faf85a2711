/*
 * What a model is trained on when answers are wanted: frames, and for each what its original answers, or
 * its label. Thread: one.
 */
#ifndef CULM_MERGE_LESSON_H
#define CULM_MERGE_LESSON_H

#include "merge/judge.h"
#include "merge/loss.h"

struct culm_lesson_slot { /* what is wanted of one sample */
    struct culm_wanted_box *box;
    int32_t box_capacity;
    float *points;
};

struct culm_lesson {
    int64_t elements;                       /* floats of a frame */
    const struct culm_merge_frames *frames; /* borrowed */
    struct culm_answer *answer;             /* [frames]: owned */
    struct culm_lesson_slot *slot;          /* [slots] */
    int32_t slots, turn;                    /* whose slot the next sample takes */
};

/* For batches of up to `slots` samples of a model whose answers have up to `points` points. The answers
 * are empty: fill in lesson->answer[frames->count] with those of the original. Release it also after a
 * failure. */
enum culm_status culm_lesson_init(struct culm_lesson *lesson,
                                  const struct culm_merge_frames *frames, int64_t elements,
                                  int32_t points, int32_t slots, struct culm_error *error);
void culm_lesson_release(struct culm_lesson *lesson); /* fine on a zeroed struct */
/* As `get` of culm_joint_samples (joint.h) with ctx a lesson: what is wanted stays valid until `slots`
 * more calls. */
enum culm_status culm_lesson_get(void *ctx, int64_t sample, float *ret_image,
                                 struct culm_wanted *ret_wanted, struct culm_error *error);

#endif
