/*
 * Answers of models of pictures: boxes, classes, points; and how far two answers agree.
 *
 * Coordinates are in pixels of the frame, from the top left corner, and may lie outside of it.
 * Thread: any; a list belongs to one thread at a time.
 */
#ifndef CULM_VISION_BOXES_H
#define CULM_VISION_BOXES_H

#include "vision/model.h"

struct culm_box {
    int32_t class_index;
    float score;               /* 0 to 1 */
    float x, y, width, height; /* x, y: the top left corner */
};
struct culm_point {
    float x, y;
};
struct culm_class_score {
    int32_t class_index;
    float score; /* 0 to 1 */
};

#define CULM_VISION_SCORE 0.25F   /* the least of a box that is shown, unless another is said */
#define CULM_VISION_OVERLAP 0.45F /* of boxes of a class above which only the better one stays */
#define CULM_VISION_BOXES_MAX 4096

/* What a model says of one frame. The memory is kept from frame to frame. */
struct culm_answer {
    enum culm_answer_kind kind;
    struct culm_box *box; /* BOXES: best first; of equal scores, in the order of the heads */
    int32_t box_count, box_capacity;
    struct culm_class_score
        *classes; /* CLASSES: all, best first; of equal scores, the lower class */
    int32_t class_count, class_capacity;
    struct culm_point *point; /* POINTS */
    int32_t point_count, point_capacity;
};
void culm_answer_release(struct culm_answer *answer); /* fine on a zeroed struct */

/* Reads what the network gave: output[i] is output i of the model's graph, of one picture; `shape` its
 * shapes, [h,w,c] or [c]. Boxes below `score` are left out and overlapping ones suppressed; of more
 * than CULM_VISION_BOXES_MAX the best stay. Numbers that are not finite give no box. */
enum culm_status culm_answer_read(const struct culm_vision_model *model, const float *const *output,
                                  const struct culm_shape *shape, int32_t frame_width,
                                  int32_t frame_height, float score, struct culm_answer *answer,
                                  struct culm_error *error);

/* What two boxes have in common over what they cover together; 0 where one has no area. */
double culm_box_overlap(const struct culm_box *a, const struct culm_box *b);
/* Sorts the boxes, best first, and drops those that overlap a better one of their class by more than
 * `most`. Returns how many stay. */
int32_t culm_box_suppress(struct culm_box *box, int32_t count, float most);

/* --- how good answers are --- */

/*
 * Collects answers and what they should have been, frame by frame, and tells the accuracy: a share from
 * 0 to 1.
 *
 * BOXES: average precision at an overlap of 0.5. All boxes of all frames are taken from the best to the
 * worst; one is right if it overlaps a wanted box of its class and frame, that no better one has taken,
 * by at least 0.5. The accuracy is the area under precision over recall, where precision is the best at
 * that recall or beyond. `each_class` gives the mean of that over the classes that are wanted at least
 * once, instead of over all boxes at once.
 * CLASSES: the share of frames whose best class is the wanted one.
 * POINTS: the share of points that lie within 5 % of the frame's width of where they should.
 *
 * Nothing wanted and nothing answered is 1; nothing wanted, and something answered, 0.
 */
struct culm_accuracy;
/* NULL: out of memory. */
struct culm_accuracy *culm_accuracy_new(enum culm_answer_kind kind);
void culm_accuracy_free(struct culm_accuracy *accuracy); /* NULL is fine */
void culm_accuracy_clear(struct culm_accuracy *accuracy);
/* One frame. False: out of memory. */
bool culm_accuracy_add(struct culm_accuracy *accuracy, const struct culm_answer *answer,
                       const struct culm_answer *wanted, int32_t frame_width);
/* The same for a class that a label says. */
bool culm_accuracy_add_label(struct culm_accuracy *accuracy, const struct culm_answer *answer,
                             int32_t label);
int64_t culm_accuracy_frames(const struct culm_accuracy *accuracy);
/* How many boxes, classes or points were wanted: 0 means that nothing can be said. */
int64_t culm_accuracy_wanted(const struct culm_accuracy *accuracy);
double culm_accuracy_value(const struct culm_accuracy *accuracy, bool each_class);

#endif
