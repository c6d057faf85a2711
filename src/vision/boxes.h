/*
 * What models of pictures answer: boxes, classes or points; and how accurate answers are.
 *
 * Coordinates are in pixels of the frame, from its top left corner, and may lie outside of it.
 *
 * Thread: any; an answer belongs to one thread at a time.
 */
#ifndef CULM_VISION_BOXES_H
#define CULM_VISION_BOXES_H

#include "vision/model.h"

struct culm_box {
    int32_t class_index;
    float score;               /* 0 to 1 */
    float x, y, width, height; /* x, y: top left corner */
};
struct culm_point {
    float x, y;
};
struct culm_class_score {
    int32_t class_index;
    float score; /* 0 to 1 */
};

#define CULM_VISION_SCORE 0.25F   /* default threshold: boxes below it are not reported */
#define CULM_VISION_OVERLAP 0.45F /* boxes that overlap a better one of their class by more go */
#define CULM_VISION_BOXES_MAX 4096
#define CULM_VISION_YES                                                                            \
    0.5F /* the score from which on a class with a sigmoid of its own is there */

/* What a model says about one frame. Its memory is reused from frame to frame. */
struct culm_answer {
    enum culm_answer_kind kind;
    struct culm_box *box; /* BOXES: best first, ties in the order of the heads */
    int32_t box_count, box_capacity;
    struct culm_class_score *classes; /* CLASSES: all of them, best first, ties by class */
    int32_t class_count, class_capacity;
    bool each; /* CLASSES: each is a question of its own, answered by yes from CULM_VISION_YES on */
    struct culm_point *point; /* POINTS */
    int32_t point_count, point_capacity;
    /* "NaN", "infinity": a number that it was read from is that, and the answer says nothing. NULL:
     * none is. */
    const char *other;
};
void culm_answer_release(struct culm_answer *answer); /* fine on a zeroed struct */

/* A t4 (vision/model.h) that every box of that score reaches: of a map, cells and anchors below it
 * are not read any further. It rises with the score. */
float culm_box_least(float score);
/* Turns the outputs of a network for one picture into an answer: output[i] is output i of the
 * model's graph, shape[i] its shape, [h,w,c] or [c]. Drops boxes below `score` and those that
 * overlap a better one; keeps the best CULM_VISION_BOXES_MAX. Numbers that are not finite give no
 * box, and are told by `other`. CULM_ERR_CONFIG: a map does not fit its head; CULM_ERR_MEMORY. */
enum culm_status culm_answer_read(const struct culm_vision_model *model, const float *const *output,
                                  const struct culm_shape *shape, int32_t frame_width,
                                  int32_t frame_height, float score, struct culm_answer *answer,
                                  struct culm_error *error);

/* Intersection over union; 0 if either box is empty. */
double culm_box_overlap(const struct culm_box *a, const struct culm_box *b);
/* Sorts boxes, best first, and drops those that overlap a better one of the same class by more than
 * `most`. Returns how many are left. */
int32_t culm_box_suppress(struct culm_box *box, int32_t count, float most);

/* How far a point may be from its place to be right: 5 % of the size of what the wanted points mark,
 * the root of the area of the box around them; if that is none, as of a single point, of the frame's
 * width. */
double culm_points_near(const struct culm_answer *wanted, int32_t frame_width);

/* --- accuracy --- */

/*
 * Collects answers together with the right ones, frame by frame, and computes the accuracy, 0 to 1.
 *
 * BOXES: average precision at an overlap of 0.5. All boxes of all frames are taken from best to
 * worst; a box is right if it overlaps, by at least 0.5, a wanted box of its class and frame that
 * no better box has taken. The accuracy is the area under the precision-recall curve, with the best
 * precision at that recall or beyond. With `each_class` it is the mean over the classes that are
 * wanted at least once, instead of over all boxes together.
 *
 * CLASSES: the share of frames whose best class is the right one. Where each class is a question of
 * its own (`each` of the wanted answer), agreement at CULM_VISION_YES: for each frame, of the classes
 * to which either answer says yes, the share to which both do; 1 if neither says yes to any. The
 * accuracy is the mean over frames.
 *
 * POINTS: the share of points that are near their place (culm_points_near).
 *
 * Which of the two a detector is judged by, and at which overlap, culm_accuracy_judge_by says.
 *
 * If nothing is wanted the accuracy is 1 if nothing is answered, and 0 otherwise.
 */
struct culm_accuracy;
/* NULL: out of memory. */
struct culm_accuracy *culm_accuracy_new(enum culm_answer_kind kind);
void culm_accuracy_free(struct culm_accuracy *accuracy); /* NULL is fine */
void culm_accuracy_clear(struct culm_accuracy *accuracy);
/* Adds one frame. False: out of memory. */
bool culm_accuracy_add(struct culm_accuracy *accuracy, const struct culm_answer *answer,
                       const struct culm_answer *wanted, int32_t frame_width);
/* The same for a frame whose right class is given as a label: it has to be the best one. */
bool culm_accuracy_add_label(struct culm_accuracy *accuracy, const struct culm_answer *answer,
                             int32_t label);
int64_t culm_accuracy_frames(const struct culm_accuracy *accuracy);
/* How many boxes, classes or points were wanted; with 0 the accuracy means nothing. */
int64_t culm_accuracy_wanted(const struct culm_accuracy *accuracy);
double culm_accuracy_value(const struct culm_accuracy *accuracy, bool each_class);

/* What detectors are judged by. A class is judged if it is wanted CULM_ACCURACY_JUDGED times. */
enum culm_accuracy_by {
    CULM_ACCURACY_LEAST,   /* the smaller of the two */
    CULM_ACCURACY_BOXES,   /* all boxes together, also where no other is said */
    CULM_ACCURACY_CLASSES, /* the mean over the classes that are judged; BOXES if none is */
};
#define CULM_ACCURACY_JUDGED 10
/* To be called before frames are added. `overlap` (0.5 where no other is said): from how much on a
 * box is right. */
void culm_accuracy_judge_by(struct culm_accuracy *accuracy, enum culm_accuracy_by by,
                            double overlap);
/* The accuracy by what it is judged by. */
double culm_accuracy_judged(const struct culm_accuracy *accuracy);

/* Boxes of a class, or (-1) of all. */
struct culm_accuracy_count {
    int64_t wanted, told, right;
};
struct culm_accuracy_count culm_accuracy_count(const struct culm_accuracy *accuracy,
                                               int32_t class_index);
/* No class from here on is wanted or told. */
int32_t culm_accuracy_classes(const struct culm_accuracy *accuracy);

#endif
