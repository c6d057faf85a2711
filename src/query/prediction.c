/* Answers as predictions, and predictions as JSON. See prediction.h. */
#include "query/prediction.h"

#include "base/grow.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

void culm_prediction_room_release(struct culm_prediction_room *room) {
    free(room->box);
    free(room->classes);
    free(room->point);
    free(room->text);
    *room = (struct culm_prediction_room){0};
}

enum culm_status culm_prediction_of(const struct culm_vision_model *model,
                                    const struct culm_answer *answer, int32_t top, const char *file,
                                    int64_t frame, struct culm_prediction_room *room,
                                    struct culm_prediction *ret_prediction,
                                    struct culm_error *error) {
    top = answer->class_count < top ? answer->class_count : top;
    int32_t count = answer->kind == CULM_ANSWER_BOXES     ? answer->box_count
                    : answer->kind == CULM_ANSWER_CLASSES ? top
                                                          : answer->point_count;
    struct culm_prediction prediction = {.file = file, .frame = frame, .count = count};
    if (!CULM_GROW(room->box, room->box_capacity, count + 1) ||
        !CULM_GROW(room->classes, room->class_capacity, count + 1) ||
        !CULM_GROW(room->point, room->point_capacity, count + 1) ||
        !CULM_GROW(room->text, room->text_capacity, count + 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an answer");
    }
    for (int32_t i = 0; i < count; i++) {
        if (answer->kind == CULM_ANSWER_BOXES) {
            const struct culm_box *b = &answer->box[i];
            room->box[i] = (struct culm_predicted_box){
                b->class_index, culm_vision_class_name(model, b->class_index, room->text[i]),
                b->score,       b->x,
                b->y,           b->width,
                b->height};
        } else if (answer->kind == CULM_ANSWER_CLASSES) {
            const struct culm_class_score *c = &answer->classes[i];
            room->classes[i] = (struct culm_predicted_class){
                c->class_index, culm_vision_class_name(model, c->class_index, room->text[i]),
                c->score};
        } else {
            room->point[i] = (struct culm_predicted_point){answer->point[i].x, answer->point[i].y};
        }
    }
    prediction.box = answer->kind == CULM_ANSWER_BOXES ? room->box : NULL;
    prediction.classes = answer->kind == CULM_ANSWER_CLASSES ? room->classes : NULL;
    prediction.point = answer->kind == CULM_ANSWER_POINTS ? room->point : NULL;
    *ret_prediction = prediction;
    return CULM_OK;
}

/* Six digits after the point: what is beyond is noise. */
static json_t *number(double value) { return json_real(round(value * 1e6) / 1e6); }

static json_t *box_json(const struct culm_predicted_box *b) {
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "class", b->class_index, "name",
                     culm_json_text(b->name), "score", number(b->score), "x", number(b->x), "y",
                     number(b->y), "width", number(b->width), "height", number(b->height));
}

json_t *culm_prediction_object(const struct culm_prediction *p) {
    json_t *list = json_array();
    for (int32_t i = 0; i < p->count; i++) {
        json_array_append_new(
            list, p->box       ? box_json(&p->box[i])
                  : p->classes ? json_pack("{s:i, s:o, s:o}", "class", p->classes[i].class_index,
                                           "name", culm_json_text(p->classes[i].name), "score",
                                           number(p->classes[i].score))
                               : json_pack("{s:o, s:o}", "x", number(p->point[i].x), "y",
                                           number(p->point[i].y)));
    }
    return json_pack("{s:o, s:I, s:o}", "file", p->file ? culm_json_text(p->file) : json_null(),
                     "frame", (json_int_t)p->frame,
                     p->box       ? "boxes"
                     : p->classes ? "classes"
                                  : "points",
                     list);
}

char *culm_prediction_json(const struct culm_prediction *prediction) {
    json_t *object = culm_prediction_object(prediction);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return text;
}
