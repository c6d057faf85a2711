/* Losses of one sample, with gradients. See loss.h. */
#include "merge/loss.h"

#include "base/exact.h"
#include "merge/loss_table.h"

#include <math.h>
#include <string.h>

int64_t culm_loss_work(int64_t count) { return 4 * ((count + 15) & ~(int64_t)15); }

/* --- boxes --- */

struct map {
    const struct culm_vision_model *model;
    const struct culm_yolo_head *head;
    int64_t h, w, width; /* width: numbers an anchor */
    const float *t, *sigmoid, *exp;
    float *taken; /* by cell and anchor: 1 if a box is assigned to it */
    double scale;
    float *gradient;
    double loss;
};

static double overlap(double a, double size_a, double b, double size_b) {
    double from = fmax(a - size_a / 2, b - size_b / 2), to = fmin(a + size_a / 2, b + size_b / 2);
    return to > from ? to - from : 0;
}

static double iou(double x, double y, double width, double height,
                  const struct culm_wanted_box *box) {
    double both = overlap(x, width, box->x, box->width) * overlap(y, height, box->y, box->height);
    double all = width * height + (double)box->width * box->height - both;
    return both > 0 && all > 0 ? both / all : 0;
}

/* Cross-entropy of sigmoid(t[at]) against `wanted`, in [0, 1]. */
static void toward(struct map *map, int64_t at, double wanted, double factor) {
    double p = map->sigmoid[at];
    double yes = fmax(p, 1e-30), no = fmax(1 - p, 1e-30);
    map->gradient[at] = (float)(map->scale * factor * (p - wanted));
    map->loss -= wanted > 0 ? factor * wanted * culm_exact_log(yes) : 0;
    map->loss -= wanted < 1 ? factor * (1 - wanted) * culm_exact_log(no) : 0;
}

static void toward_number(struct map *map, int64_t at, double wanted, double factor) {
    double gap = map->t[at] - wanted;
    map->gradient[at] = (float)(map->scale * factor * gap);
    map->loss += factor * gap * gap / 2;
}

/* Cross-entropy of the softmax over the numbers of a head's classes. */
static void toward_one(struct map *map, int64_t at, int32_t label) {
    double most = -INFINITY, sum = 0;
    for (int32_t c = 0; c < map->head->classes; c++) {
        most = map->t[at + c] > most ? (double)map->t[at + c] : most;
    }
    for (int32_t c = 0; c < map->head->classes; c++) {
        sum += culm_exact_exp(map->t[at + c] - most);
    }
    for (int32_t c = 0; c < map->head->classes; c++) {
        const double p = culm_exact_exp(map->t[at + c] - most) / sum;
        map->gradient[at + c] = (float)(map->scale * (p - (c == label)));
    }
    map->loss += culm_exact_log(sum) + most - map->t[at + label];
}

static int64_t numbers_of(const struct map *map, int64_t i, int64_t j, int32_t anchor) {
    return ((i * map->w + j) * map->head->anchors + anchor) * map->width;
}

/* By how much an anchor is stretched. */
static double size_of(const struct map *map, int64_t at) {
    const double p = map->sigmoid[at];
    return map->head->squared ? 4 * p * p : (double)map->exp[at];
}

/* Whether a cell's own estimate overlaps a wanted box well. */
static bool near_some_box(const struct map *map, int64_t i, int64_t j, int32_t anchor,
                          const struct culm_wanted_box *box, int32_t boxes) {
    int64_t at = numbers_of(map, i, j, anchor);
    double s = map->head->scale_xy, spread = (s - 1) / 2;
    double x = (map->sigmoid[at] * s - spread + (double)j) / (double)map->w;
    double y = (map->sigmoid[at + 1] * s - spread + (double)i) / (double)map->h;
    double width = size_of(map, at + 2) * map->head->anchor[anchor][0] / map->model->input.width;
    double height = size_of(map, at + 3) * map->head->anchor[anchor][1] / map->model->input.height;
    for (int32_t b = 0; b < boxes; b++) {
        if (iou(x, y, width, height, &box[b]) > CULM_YOLO_IGNORE) {
            return true;
        }
    }
    return false;
}

/* The anchor closest in shape to the box, over all heads; -1: it belongs to another head. */
static int32_t anchor_of(const struct map *map, const struct culm_wanted_box *box) {
    const struct culm_wanted_box centred = {0, 0, box->width, box->height, 0};
    const struct culm_vision_input *input = &map->model->input;
    int32_t best = -1;
    double most = -1;
    for (int32_t h = 0; h < map->model->head_count; h++) {
        const struct culm_yolo_head *head = &map->model->head[h];
        for (int32_t a = 0; a < head->anchors; a++) {
            double near = iou(0, 0, (double)head->anchor[a][0] / input->width,
                              (double)head->anchor[a][1] / input->height, &centred);
            if (near > most) {
                most = near;
                best = head == map->head ? a : -1;
            }
        }
    }
    return best;
}

static double clamped(double x, double from, double to) {
    return x < from ? from : x > to ? to : x;
}

/* The sigmoid that puts a centre at this place in its cell: inverts the head's scale_xy. */
static double place(double in_cell, double s) { return clamped((in_cell + (s - 1) / 2) / s, 0, 1); }

static void find_box(struct map *map, const struct culm_wanted_box *box) {
    if (!(isfinite(box->x) && isfinite(box->y) && isfinite(box->width) && box->width > 0 &&
          isfinite(box->height) && box->height > 0 && box->class_index >= 0 &&
          box->class_index < map->head->classes)) {
        return;
    }
    int32_t anchor = anchor_of(map, box);
    if (anchor < 0) {
        return;
    }
    double x = clamped(box->x, 0, 1) * (double)map->w, y = clamped(box->y, 0, 1) * (double)map->h;
    int64_t j = x < (double)map->w ? (int64_t)x : map->w - 1;
    int64_t i = y < (double)map->h ? (int64_t)y : map->h - 1;
    int64_t at = numbers_of(map, i, j, anchor);
    float *taken = &map->taken[(i * map->w + j) * map->head->anchors + anchor];
    if (*taken != 0) {
        return;
    }
    *taken = 1;
    const double s = map->head->scale_xy, k = 2 - (double)box->width * box->height;
    const struct culm_vision_input *input = &map->model->input;
    const double wide = (double)box->width * input->width / map->head->anchor[anchor][0];
    const double high = (double)box->height * input->height / map->head->anchor[anchor][1];
    toward(map, at, place(x - (double)j, s), k);
    toward(map, at + 1, place(y - (double)i, s), k);
    if (map->head->squared) {
        toward(map, at + 2, clamped(sqrt(wide) / 2, 0, 1), k);
        toward(map, at + 3, clamped(sqrt(high) / 2, 0, 1), k);
    } else {
        toward_number(map, at + 2, culm_exact_log(wide), k);
        toward_number(map, at + 3, culm_exact_log(high), k);
    }
    toward(map, at + 4, 1, 1);
    if (map->head->one) {
        toward_one(map, at + 5, box->class_index);
        return;
    }
    for (int32_t c = 0; c < map->head->classes; c++) {
        toward(map, at + 5 + c, c == box->class_index, 1);
    }
}

double culm_loss_boxes(struct culm_device *device, const struct culm_vision_model *model,
                       int32_t head, int64_t h, int64_t w, const struct culm_wanted_box *box,
                       int32_t boxes, const float *t, double scale, float *work,
                       float *ret_gradient) {
    const struct culm_yolo_head *how = &model->head[head];
    const int64_t width = 5 + how->classes, cells = h * w * how->anchors, count = cells * width,
                  part = culm_loss_work(count) / 4;
    struct map map = {.model = model,
                      .head = how,
                      .h = h,
                      .w = w,
                      .width = width,
                      .t = t,
                      .sigmoid = work + part,
                      .exp = work + 2 * part,
                      .taken = work + 3 * part,
                      .scale = scale,
                      .gradient = ret_gradient};
    memcpy(work, t, (size_t)count * sizeof *t);
    CULM_RUN(device, activation_forward, .y = culm_out_f32(work + part), .x = culm_in_f32(work),
             .count = count, .function = CULM_FUNCTION_SIGMOID);
    CULM_RUN(device, activation_forward, .y = culm_out_f32(work + 2 * part), .x = culm_in_f32(work),
             .count = count, .function = CULM_FUNCTION_EXP);
    memset(map.taken, 0, (size_t)cells * sizeof *map.taken);
    memset(ret_gradient, 0, (size_t)count * sizeof *ret_gradient);
    for (int32_t b = 0; b < boxes; b++) {
        find_box(&map, &box[b]);
    }
    for (int64_t i = 0; i < h; i++) {
        for (int64_t j = 0; j < w; j++) {
            for (int32_t a = 0; a < how->anchors; a++) {
                bool taken = map.taken[(i * w + j) * how->anchors + a] != 0;
                if (!taken && !near_some_box(&map, i, j, a, box, boxes)) {
                    toward(&map, numbers_of(&map, i, j, a) + 4, 0, 1);
                }
            }
        }
    }
    return map.loss;
}

/* --- labels and points --- */

/* Copies to `work` since kernels expect aligned memory, and a sample can lie anywhere in an
 * output. */
double culm_loss_label(struct culm_device *device, int32_t classes, int32_t label,
                       const float *logits, double scale, float *work, float *ret_gradient) {
    struct culm_loss loss;
    memcpy(work, logits, (size_t)classes * sizeof *logits);
    CULM_RUN(device, cross_entropy, .logits = culm_out_f32(work), .targets = &label, .n = 1,
             .v = classes, .scale = scale, .want_gradient = true, .ret_loss = &loss);
    memcpy(ret_gradient, work, (size_t)classes * sizeof *work);
    return loss.loss;
}

/* max(x, 0) - x wanted + log(1 + e^-|x|) */
double culm_loss_each(int64_t count, int32_t label, const float *logits, double scale,
                      float *ret_gradient) {
    double loss = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = logits[i], wanted = count == 1 ? label : i == label;
        double e = culm_exact_exp(-fabs(x)), p = x < 0 ? e / (1 + e) : 1 / (1 + e);
        ret_gradient[i] = label < 0 ? 0 : (float)(scale * (p - wanted));
        loss += label < 0 ? 0 : fmax(x, 0) - x * wanted + culm_exact_log(1 + e);
    }
    return loss;
}

double culm_loss_points(int64_t count, const float *wanted, const float *numbers, double scale,
                        float *ret_gradient) {
    double loss = 0;
    for (int64_t i = 0; i < count; i++) {
        double gap = (double)numbers[i] - wanted[i];
        ret_gradient[i] = (float)(2 * scale * gap);
        loss += gap * gap;
    }
    return loss;
}

/* --- what the original says --- */

static double probability(double x) { return 1 / (1 + exp(-x)); }

/* -(p log q + (1 - p) log(1 - q)) for two logits, minus its minimum (q = p). */
static double cross(float got, float want, double weight, double scale, float *gradient) {
    double p = probability(want), q = probability(got);
    *gradient = (float)(scale * weight * (q - p));
    return weight * (p * (log(p + 1e-12) - log(q + 1e-12)) +
                     (1 - p) * (log(1 - p + 1e-12) - log(1 - q + 1e-12)));
}

static double square(float got, float want, double weight, double scale, float *gradient) {
    double off = (double)got - want;
    *gradient = (float)(scale * 2 * weight * off);
    return weight * off * off;
}

/* sum(p log(p / q)) of two softmaxes over logits[count]. */
static double cross_one(int64_t count, const float *want, const float *got, double weight,
                        double scale, float *gradient) {
    double most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, loss = 0;
    for (int64_t i = 0; i < count; i++) {
        most[0] = fmax(most[0], want[i]);
        most[1] = fmax(most[1], got[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        sum[0] += exp(want[i] - most[0]);
        sum[1] += exp(got[i] - most[1]);
    }
    for (int64_t i = 0; i < count; i++) {
        const double log_p = want[i] - most[0] - log(sum[0]);
        const double log_q = got[i] - most[1] - log(sum[1]);
        loss += weight * exp(log_p) * (log_p - log_q);
        gradient[i] = (float)(scale * weight * (exp(log_q) - exp(log_p)));
    }
    return loss;
}

static double like_map(const struct culm_yolo_head *head, int64_t count, const float *want,
                       const float *got, double scale, float *gradient) {
    int64_t one = 5 + head->classes;
    double loss = 0;
    for (int64_t at = 0; at + one <= count; at += one) {
        double there = probability(want[at + 4]);
        loss += cross(got[at + 4], want[at + 4], 1, scale, &gradient[at + 4]);
        for (int i = 0; i < 2; i++) {
            loss += cross(got[at + i], want[at + i], there, scale, &gradient[at + i]);
            loss += (head->squared ? cross : square)(got[at + 2 + i], want[at + 2 + i], there,
                                                     scale, &gradient[at + 2 + i]);
        }
        if (head->one) {
            loss += cross_one(head->classes, want + at + 5, got + at + 5, there, scale,
                              gradient + at + 5);
        }
        for (int64_t c = 5; c < one && !head->one; c++) {
            loss += cross(got[at + c], want[at + c], there, scale, &gradient[at + c]);
        }
    }
    return loss;
}

/* The log probabilities of logits[count]. */
static void log_softmax(const float *x, int64_t count, float *ret_log) {
    double most = x[0], sum = 0;
    for (int64_t i = 1; i < count; i++) {
        most = x[i] > most ? x[i] : most;
    }
    for (int64_t i = 0; i < count; i++) {
        sum += exp(x[i] - most);
    }
    for (int64_t i = 0; i < count; i++) {
        ret_log[i] = (float)(x[i] - most - log(sum));
    }
}

static double like_classes(int64_t count, const float *want, const float *got, double scale,
                           float *work, float *gradient) {
    double loss = 0;
    log_softmax(want, count, work);
    log_softmax(got, count, gradient);
    for (int64_t i = 0; i < count; i++) {
        double p = exp(work[i]), q = exp(gradient[i]);
        loss += p * ((double)work[i] - gradient[i]);
        gradient[i] = (float)(scale * (q - p));
    }
    return loss;
}

double culm_loss_original(const struct culm_vision_model *model, int32_t output, int64_t count,
                          const float *want, const float *got, double scale, float *work,
                          float *ret_gradient) {
    double loss = 0;
    for (int32_t h = 0; h < model->head_count; h++) {
        if (model->head[h].output == output) {
            return like_map(&model->head[h], count, want, got, scale, ret_gradient);
        }
    }
    if (model->table.rows) {
        memset(ret_gradient, 0, (size_t)count * sizeof *ret_gradient);
        return culm_loss_table(model, output, want, got, scale, ret_gradient);
    }
    if (model->kind == CULM_ANSWER_CLASSES && model->end == CULM_FUNCTION_SIGMOID) {
        for (int64_t i = 0; i < count; i++) {
            loss += cross(got[i], want[i], 1, scale, &ret_gradient[i]);
        }
        return loss;
    }
    if (model->kind == CULM_ANSWER_CLASSES) {
        return like_classes(count, want, got, scale, work, ret_gradient);
    }
    for (int64_t i = 0; i < count; i++) {
        loss += square(got[i], want[i], 100, scale, &ret_gradient[i]);
    }
    return loss;
}
