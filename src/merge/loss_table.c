/*
 * How far a detector's table of candidates (vision/model.h) is from the original's. See loss.h.
 *
 * Scores are compared as probabilities, each by itself or, behind a softmax, all of a row. Boxes are
 * compared where the original says that something is there, and relative to its box, so that a
 * pixel is as much for a small box as ten are for a large one.
 */
#include "merge/loss_table.h"

#include <math.h>

#define SURE 1e-4     /* probabilities count as at least this far from 0 and 1 */
#define SMALLEST 0.01 /* sides count as at least this share of the input */
#define UNKNOWN 0.05  /* weight of a box whose score is in another output */

struct pair {
    const struct culm_vision_table *table;
    const float *want, *got;
    double scale;
    float *gradient;
    double loss;
};

static int64_t place(const struct culm_vision_column *column, int64_t row, int64_t e) {
    return column->from + row * column->row + e * column->each;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double probability(const struct pair *p, double x) {
    const double y = p->table->end == CULM_FUNCTION_SIGMOID ? sigmoid(x) : x;
    return fmin(fmax(y, SURE), 1 - SURE); /* NaN: 1 - SURE, which is told elsewhere */
}

/* p log(p / q) + (1 - p) log((1 - p) / (1 - q)); its gradient at what enters a sigmoid is q - p. */
static void add_score(struct pair *pair, int64_t at, double weight) {
    const double p = probability(pair, pair->want[at]), q = probability(pair, pair->got[at]);
    const double slope =
        pair->table->end == CULM_FUNCTION_SIGMOID ? q - p : (q - p) / (q * (1 - q));
    pair->gradient[at] = (float)(pair->scale * weight * slope);
    pair->loss += weight * (p * log(p / q) + (1 - p) * log((1 - p) / (1 - q)));
}

/* Divides a row's exponentials: the largest number, and the sum of the others'. */
static double sum_of(const float *x, const struct culm_vision_column *column, int64_t row,
                     int32_t count, double *ret_most) {
    double most = -INFINITY, sum = 0;
    for (int32_t c = 0; c < count; c++) {
        most = fmax(most, x[place(column, row, c)]);
    }
    for (int32_t c = 0; c < count; c++) {
        sum += exp(x[place(column, row, c)] - most);
    }
    *ret_most = most;
    return sum;
}

static void add_softmax(struct pair *pair, int64_t row, int32_t count) {
    const struct culm_vision_column *column = &pair->table->score;
    double most_p, most_q, sum_p = sum_of(pair->want, column, row, count, &most_p);
    double sum_q = sum_of(pair->got, column, row, count, &most_q);
    for (int32_t c = 0; c < count; c++) {
        const int64_t at = place(column, row, c);
        const double log_p = pair->want[at] - most_p - log(sum_p);
        const double log_q = pair->got[at] - most_q - log(sum_q);
        pair->loss += exp(log_p) * (log_p - log_q);
        pair->gradient[at] = (float)(pair->scale * (exp(log_q) - exp(log_p)));
    }
}

static void add_box(struct pair *pair, const struct culm_vision_model *model, int64_t row,
                    double weight) {
    const struct culm_vision_table *table = pair->table;
    double of[4];
    for (int e = 0; e < 4; e++) {
        of[e] = pair->want[place(&table->box, row, e)];
    }
    const bool centre = table->corners == CULM_VISION_CENTRE;
    const bool turned = table->corners == CULM_VISION_CORNERS_YX;
    for (int e = 0; e < 4; e++) {
        const bool down = (e % 2 == 1) != turned;
        const double all = table->fractions ? 1 : down ? model->input.height : model->input.width;
        const double side =
            fmax(fabs(centre ? of[2 + e % 2] : of[2 + e % 2] - of[e % 2]), SMALLEST * all);
        const int64_t at = place(&table->box, row, e);
        const double off = ((double)pair->got[at] - pair->want[at]) / side;
        pair->loss += weight * off * off;
        pair->gradient[at] = (float)(pair->scale * weight * 2 * off / side);
    }
}

/* How sure the original is of the row; UNKNOWN: its scores are elsewhere. */
static double surest(const struct pair *pair, int32_t output, int64_t row, int32_t scores) {
    const struct culm_vision_table *table = pair->table;
    double most = 0, object = 1;
    if (table->score.output != output || table->end == CULM_FUNCTION_SOFTMAX) {
        return UNKNOWN;
    }
    if (table->object.output == output) {
        object = probability(pair, pair->want[place(&table->object, row, 0)]);
    }
    for (int32_t c = 0; c < scores; c++) {
        most =
            fmax(most, probability(pair, pair->want[place(&table->score, row, table->before + c)]));
    }
    return object * most;
}

double culm_loss_table(const struct culm_vision_model *model, int32_t output, const float *want,
                       const float *got, double scale, float *ret_gradient) {
    const struct culm_vision_table *table = &model->table;
    const int32_t scores = table->label.output >= 0 ? 1 : model->classes;
    struct pair pair = {table, want, got, scale, ret_gradient, 0};
    for (int64_t row = 0; row < table->rows; row++) {
        const double there = surest(&pair, output, row, scores);
        double object = 1;
        if (table->object.output == output) {
            const int64_t at = place(&table->object, row, 0);
            object = probability(&pair, want[at]);
            add_score(&pair, at, 1);
        }
        if (table->score.output == output && table->end == CULM_FUNCTION_SOFTMAX) {
            add_softmax(&pair, row, table->before + scores + table->behind);
        } else if (table->score.output == output) {
            for (int32_t c = 0; c < table->before + scores + table->behind; c++) {
                add_score(&pair, place(&table->score, row, c), object);
            }
        }
        if (table->box.output == output) {
            add_box(&pair, model, row, there);
        }
    }
    return pair.loss;
}
