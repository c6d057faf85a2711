/*
 * Boxes of models that work them out themselves: a table of candidates, one a row. See model.h.
 *
 * A row that says nothing, such as one that fills a table up, has a score of 0, a label that is no
 * class, or a box without width or height.
 */
#include "vision/found.h"

#include <math.h>
#include <stdlib.h>

static double number(const struct culm_vision_column *column, const float *const *output,
                     int64_t row, int64_t e) {
    return output[column->output][column->from + row * column->row + e * column->each];
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* The sum by which exponentials of a row's scores are divided, and the largest score. */
static double share_of(const struct culm_vision_table *table, const float *const *output,
                       int64_t row, int32_t scores, double *ret_largest) {
    double largest = -INFINITY, sum = 0;
    for (int32_t c = 0; c < scores; c++) {
        largest = fmax(largest, number(&table->score, output, row, c));
    }
    for (int32_t c = 0; c < scores; c++) {
        sum += exp(number(&table->score, output, row, c) - largest);
    }
    *ret_largest = largest;
    return sum;
}

/* The box of a row, as fractions of the input: centre, width, height. */
static void box_of(const struct culm_vision_model *model, const float *const *output, int64_t row,
                   double ret_box[4]) {
    const struct culm_vision_table *table = &model->table;
    const double wide = table->fractions ? 1 : model->input.width;
    const double high = table->fractions ? 1 : model->input.height;
    const int turned = table->corners == CULM_VISION_CORNERS_YX;
    double at[4];
    for (int e = 0; e < 4; e++) {
        at[e ^ turned] = number(&table->box, output, row, e) / ((e ^ turned) % 2 ? high : wide);
    }
    if (table->corners == CULM_VISION_CENTRE) {
        for (int e = 0; e < 4; e++) {
            ret_box[e] = at[e];
        }
        return;
    }
    ret_box[0] = (at[0] + at[2]) / 2;
    ret_box[1] = (at[1] + at[3]) / 2;
    ret_box[2] = at[2] - at[0];
    ret_box[3] = at[3] - at[1];
}

static bool add_row(struct culm_found *found, const struct culm_vision_model *model,
                    const float *const *output, int64_t row, double box[4]) {
    const struct culm_vision_table *table = &model->table;
    const bool logits = table->end == CULM_FUNCTION_SIGMOID;
    const bool softmax = table->end == CULM_FUNCTION_SOFTMAX, labelled = table->label.output >= 0;
    const int32_t scores = labelled ? 1 : model->classes;
    double object = 1, largest = 0, sum = 1;
    if (table->object.output >= 0) {
        object = number(&table->object, output, row, 0);
        object = logits ? sigmoid(object) : object;
        if (!(object >= (double)found->score)) {
            return true;
        }
    }
    if (softmax) {
        sum = share_of(table, output, row, table->before + scores + table->behind, &largest);
    }
    for (int32_t c = 0; c < scores; c++) {
        const double t = number(&table->score, output, row, table->before + c);
        const double p = logits ? sigmoid(t) : softmax ? exp(t - largest) / sum : t;
        const double label = labelled ? number(&table->label, output, row, 0) : c;
        if (!(object * p >= (double)found->score) || !(object * p > 0) ||
            !(label >= 0 && label < model->classes && label == floor(label))) {
            continue;
        }
        if (box[2] < 0) { /* not worked out yet */
            box_of(model, output, row, box);
            if (!(box[2] > 0 && box[3] > 0)) {
                return true;
            }
        }
        if (!culm_found_add(found, (int32_t)label, fmin(object * p, 1), box[0], box[1], box[2],
                            box[3])) {
            return false;
        }
    }
    return true;
}

bool culm_found_table(struct culm_found *found, const struct culm_vision_model *model,
                      const float *const *output) {
    for (int64_t row = 0; row < model->table.rows; row++) {
        double box[4] = {0, 0, -1, -1};
        if (!add_row(found, model, output, row, box)) {
            return false;
        }
    }
    return true;
}
