/*
 * Frames with what a model saw in them, as PNG files. Thread: any.
 */
#ifndef CULM_RUN_PICTURE_H
#define CULM_RUN_PICTURE_H

#include "data/feed.h"
#include "vision/picture.h"

/* Writes the frame in colour, with the answer's boxes or points drawn into it. */
enum culm_status culm_picture_write(const char *path, const struct culm_feed_frame *frame,
                                    const struct culm_vision_model *model,
                                    const struct culm_answer *answer, struct culm_error *error);

#endif
