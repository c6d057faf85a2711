/*
 * How far a model's outputs are from what is wanted, and the gradient of that.
 *
 * Each function takes one sample. Gradients are stored, not added. Sums are in float64 and in a fixed
 * order, so the bits are the same everywhere, except for culm_loss_original, whose bits depend on libm.
 * Thread: the device's.
 */
#ifndef CULM_MERGE_LOSS_H
#define CULM_MERGE_LOSS_H

#include "vision/model.h"

/* A box that should be found: middle and size as shares of the picture. */
struct culm_wanted_box {
    float x, y, width, height;
    int32_t class_index;
};

/* What a sample should be answered with, by the kind of the model. */
struct culm_wanted {
    int32_t label;       /* CLASSES */
    const float *points; /* POINTS: [2 points], as shares of the input's width and height */
    const struct culm_wanted_box *box;
    int32_t box_count; /* BOXES */
};

/* A cell's own estimate that overlaps a wanted box by more than this is no false alarm, even where
 * another cell is to find that box. */
#define CULM_YOLO_IGNORE 0.7

/* The loss of map `head` of a detector, t[h,w,anchors (5 + classes)], as darknet has it for YOLOv3:
 * each box is to be found in the cell that holds its middle, by the anchor, among those of all heads,
 * whose shape is nearest to its own. There, with k = 2 - width height of the box: k times the
 * cross-entropy of the place in the cell, k / 2 times the squared error of t2 and t3, the cross-entropy
 * of being an object, and those of all classes, each yes or no. Everywhere else the cross-entropy of
 * being none, but for CULM_YOLO_IGNORE. ret_gradient, like t, is `scale` times the gradient; returned
 * is the loss without scale. Of two boxes for one anchor of a cell the first counts. */
double culm_loss_boxes(struct culm_device *device, const struct culm_vision_model *model,
                       int32_t head, int64_t h, int64_t w, const struct culm_wanted_box *box,
                       int32_t boxes, const float *t, double scale, float *work,
                       float *ret_gradient);
/* Cross-entropy of logits[classes]; a negative label is no loss. */
double culm_loss_label(struct culm_device *device, int32_t classes, int32_t label,
                       const float *logits, double scale, float *work, float *ret_gradient);
/* Squared error, summed over numbers[count]. */
double culm_loss_points(int64_t count, const float *wanted, const float *numbers, double scale,
                        float *ret_gradient);
/* How far output `output` of a model, got[count] of one sample, is from saying what the original says in
 * want[count]. Detectors: in each place the cross-entropy with the original's probability of an object;
 * and, weighted by that probability, the cross-entropies of the place within the cell and of the
 * classes, and the squared error of the size. Classes: cross-entropy with the original's probabilities.
 * Points: 100 times squared error. From each the least that it can be is taken off, so that it is 0
 * where nothing differs. */
double culm_loss_original(const struct culm_vision_model *model, int32_t output, int64_t count,
                          const float *want, const float *got, double scale, float *work,
                          float *ret_gradient);
/* Floats of `work`, 64-byte aligned, for an output of `count` numbers a sample. */
int64_t culm_loss_work(int64_t count);

#endif
