/*
 * An answer of a model as a prediction, which is what programs get and commands print
 * (culm/prediction.h).
 *
 * Thread: the room's owner's.
 */
#ifndef CULM_QUERY_PREDICTION_H
#define CULM_QUERY_PREDICTION_H

#include "vision/boxes.h"
#include "vision/model.h"

#include <culm/prediction.h>
#include <jansson.h>

/* What a prediction points to; grows, and is used again. */
struct culm_prediction_room {
    struct culm_predicted_box *box;
    struct culm_predicted_class *classes;
    struct culm_predicted_point *point;
    char (*text)[24]; /* names of classes without names */
    int32_t box_capacity, class_capacity, point_capacity, text_capacity;
};
void culm_prediction_room_release(struct culm_prediction_room *room); /* fine on a zeroed struct */

/* Of classes the best `top`. Lives as long as the room, the model and the answer are left alone.
 * CULM_ERR_MEMORY */
enum culm_status culm_prediction_of(const struct culm_vision_model *model,
                                    const struct culm_answer *answer, int32_t top, const char *file,
                                    int64_t frame, struct culm_prediction_room *room,
                                    struct culm_prediction *ret_prediction,
                                    struct culm_error *error);

/* What culm_prediction_json writes; NULL: out of memory. */
json_t *culm_prediction_object(const struct culm_prediction *prediction);

#endif
