/*
 * Right answers to the frames of a feed: labels of detectors and of landmarks.
 *
 * A file with a line of JSON for each frame, in their order, as `culm predict --json` and `culm edge run` write them:
 * {"boxes": [{"class", "x", "y", "width", "height"}, ...]} or {"points": [{"x", "y"}, ...]}, in pixels of the frame. "frame", if it is
 * there, is the number of the frame, or 0 in each line as for pictures; what else is there is not looked at.
 *
 * Thread: constant once it is read.
 */
#ifndef CULM_QUERY_LABELS_H
#define CULM_QUERY_LABELS_H

#include "vision/boxes.h"

struct culm_labels {
    struct culm_answer *answer; /* [count]; NULL: none */
    int64_t count;
};

/* Whether what the model answers is told from right answers; classes are told from numbers
 * [data/feed.h]. */
bool culm_labels_suit(const struct culm_vision_model *model);
/* For a model whose classes or points they are, and a feed `name` with so many frames (-1: it is not known).
 * CULM_ERR_CONFIG for what is no such file, or of other frames or for another model; CULM_ERR_IO when
 * reading it fails; CULM_ERR_MEMORY. Whatever is in it, no more than a line of it is held beside what
 * was read. */
enum culm_status culm_labels_read(const char *path, const char *name, int64_t frames,
                                  const struct culm_vision_model *model,
                                  struct culm_labels *ret_labels, struct culm_error *error);
void culm_labels_release(struct culm_labels *labels); /* fine on a zeroed struct */

#endif
