/*
 * Losses of one sample: how far a model's outputs are from what is wanted, and the gradient.
 *
 * Gradients are stored, not accumulated. Sums are in float64 in a fixed order, so the bits are the
 * same everywhere; only those of culm_loss_original depend on libm.
 *
 * Thread: the device's.
 */
#ifndef CULM_MERGE_LOSS_H
#define CULM_MERGE_LOSS_H

#include "vision/model.h"

/* A box that should be found. x, y: its centre; all four are fractions of the picture's size. */
struct culm_wanted_box {
    float x, y, width, height;
    int32_t class_index;
};

/* The right answer to a sample; which member counts follows from the kind of the model. */
struct culm_wanted {
    int32_t label;       /* CLASSES; negative: unknown */
    const float *points; /* POINTS: [2 points], fractions of the input's width and height */
    const struct culm_wanted_box *box;
    int32_t box_count; /* BOXES */
};

/* A cell whose own estimate overlaps a wanted box by more than this is not punished as a false
 * alarm, even if another cell is responsible for that box. */
#define CULM_YOLO_IGNORE 0.7

/* YOLOv3's loss, as darknet computes it, of map `head` of a detector, t[h,w,anchors (5 + classes)].
 *
 * A box is assigned to the cell that holds its centre and, among the anchors of all heads, to the
 * one whose shape is closest to its own. There the loss is, with k = 2 - width height of the box: k
 * times the cross-entropy of the position in the cell, k / 2 times the squared error of t2 and t3,
 * the cross-entropy of the objectness, and that of every class separately. Everywhere else it is
 * the cross-entropy of the objectness against 0, except as CULM_YOLO_IGNORE says. If two boxes get
 * the same anchor of a cell, the first wins.
 *
 * ret_gradient, shaped like t: `scale` times the gradient. work: see culm_loss_work. Returns the
 * loss, not scaled. */
double culm_loss_boxes(struct culm_device *device, const struct culm_vision_model *model,
                       int32_t head, int64_t h, int64_t w, const struct culm_wanted_box *box,
                       int32_t boxes, const float *t, double scale, float *work,
                       float *ret_gradient);
/* Cross-entropy of logits[classes]; the loss of a negative label is 0. Otherwise as
 * culm_loss_boxes. */
double culm_loss_label(struct culm_device *device, int32_t classes, int32_t label,
                       const float *logits, double scale, float *work, float *ret_gradient);
/* The same where each class is by itself (culm_vision_model, end): the cross-entropies of the sigmoids
 * of logits[count], of one for each class or, with count 1, of the second of two. */
double culm_loss_each(int64_t count, int32_t label, const float *logits, double scale,
                      float *ret_gradient);
/* Sum of squared errors over numbers[count]. */
double culm_loss_points(int64_t count, const float *wanted, const float *numbers, double scale,
                        float *ret_gradient);
/* How far output `output` of a model, got[count] for one sample, is from the original's,
 * want[count].
 *
 * Detectors: the cross-entropy of the objectness against the original's probability of an object;
 * and, weighted by that probability, the cross-entropies of the position in the cell and of the
 * classes, and the squared error of the size. Classifiers: the cross-entropy against the original's
 * probabilities, of each class where these are by themselves. Points: 100 times the squared error. A table of candidates: the
 * cross-entropies of its scores and, weighted by the original's, the squared error of boxes relative to their size. The smallest
 * possible value is subtracted from each, so the loss is 0 where nothing differs. */
double culm_loss_original(const struct culm_vision_model *model, int32_t output, int64_t count,
                          const float *want, const float *got, double scale, float *work,
                          float *ret_gradient);
/* The floats that `work` needs, 64-byte aligned, for an output of `count` elements a sample. */
int64_t culm_loss_work(int64_t count);

#endif
