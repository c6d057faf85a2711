/*
 * Pictures of programs, and frames with what a model saw in them as PNG files. Thread: any.
 */
#ifndef CULM_QUERY_PICTURE_H
#define CULM_QUERY_PICTURE_H

#include "data/feed.h"
#include "vision/picture.h"

#include <culm/prediction.h>

/* A program's picture as a frame, which borrows its pixels. CULM_ERR_ARGUMENT: it cannot be one. */
enum culm_status culm_picture_frame_of(const struct culm_picture *picture,
                                       struct culm_frame *ret_frame, struct culm_error *error);

/* Writes the frame in colour, with the answer's boxes or points drawn into it. */
enum culm_status culm_picture_write(const char *path, const struct culm_feed_frame *frame,
                                    const struct culm_vision_model *model,
                                    const struct culm_answer *answer, struct culm_error *error);

#endif
