/* From a network's outputs to boxes, classes and points. See boxes.h. */
#include "vision/found.h"

#include "base/finite.h"
#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void culm_answer_release(struct culm_answer *answer) {
    free(answer->box);
    free(answer->classes);
    free(answer->point);
    *answer = (struct culm_answer){0};
}

/* --- suppression --- */

double culm_box_overlap(const struct culm_box *a, const struct culm_box *b) {
    double right = fmin((double)a->x + a->width, (double)b->x + b->width);
    double bottom = fmin((double)a->y + a->height, (double)b->y + b->height);
    double w = right - fmax(a->x, b->x), h = bottom - fmax(a->y, b->y);
    double both = w > 0 && h > 0 ? w * h : 0;
    double all = (double)a->width * a->height + (double)b->width * b->height - both;
    return all > 0 ? both / all : 0;
}

static int worse(const void *a, const void *b) {
    const struct culm_found_box *x = a, *y = b;
    if (x->box.score != y->box.score) {
        return x->box.score < y->box.score ? 1 : -1;
    }
    return (x->at > y->at) - (x->at < y->at);
}

static int box_worse(const void *a, const void *b) {
    const struct culm_box *x = a, *y = b;
    if (x->score != y->score) {
        return x->score < y->score ? 1 : -1;
    }
    if (x->class_index != y->class_index) {
        return x->class_index < y->class_index ? -1 : 1;
    }
    if (x->y != y->y) {
        return x->y < y->y ? -1 : 1;
    }
    return (x->x > y->x) - (x->x < y->x);
}

/* The boxes are sorted already. */
static int32_t suppress(struct culm_box *box, int32_t count, float most) {
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        bool stays = true;
        for (int32_t k = 0; k < kept && stays; k++) {
            stays = box[k].class_index != box[i].class_index ||
                    culm_box_overlap(&box[k], &box[i]) <= (double)most;
        }
        if (stays) {
            box[kept++] = box[i];
        }
    }
    return kept;
}

int32_t culm_box_suppress(struct culm_box *box, int32_t count, float most) {
    if (count > 1) {
        qsort(box, (size_t)count, sizeof *box, box_worse);
    }
    return suppress(box, count, most);
}

/* --- heads --- */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

struct culm_found culm_found_begin(const struct culm_vision_input *input, int32_t frame_width,
                                   int32_t frame_height, float score) {
    const struct culm_vision_place place = culm_vision_place_of(input, frame_width, frame_height);
    struct culm_found found = {.width = frame_width,
                               .height = frame_height,
                               .score = score,
                               .least = culm_box_least(score)};
    if (input->letterbox) {
        found.width *= (double)input->width / place.width;
        found.height *= (double)input->height / place.height;
        found.left = (double)frame_width * place.x / place.width;
        found.top = (double)frame_height * place.y / place.height;
    }
    return found;
}

bool culm_found_add(struct culm_found *found, int32_t class_index, double score, double x, double y,
                    double width, double height) {
    if (found->counts && !found->counts[class_index]) {
        return true;
    }
    x = x * found->width - found->left;
    y = y * found->height - found->top;
    width *= found->width;
    height *= found->height;
    if (!(fabs(x) < 1e6 && fabs(y) < 1e6 && width < 1e6 && height < 1e6)) {
        return true;
    }
    if (!CULM_GROW(found->item, found->capacity, found->count + 1)) {
        return false;
    }
    found->item[found->count] =
        (struct culm_found_box){.box = {class_index, (float)score, (float)(x - width / 2),
                                        (float)(y - height / 2), (float)width, (float)height},
                                .at = found->count};
    found->count++;
    return true;
}

/* By how much an anchor is stretched. */
static double size_of(const struct culm_yolo_head *head, double t) {
    return head->squared ? 4 * sigmoid(t) * sigmoid(t) : exp(t);
}

/* The sum of exponentials of numbers less the largest. */
static double sum_of(const float *t, int32_t count, double *ret_most) {
    double most = -INFINITY, sum = 0;
    for (int32_t c = 0; c < count; c++) {
        most = t[c] > most ? (double)t[c] : most;
    }
    for (int32_t c = 0; c < count; c++) {
        sum += exp(t[c] - most);
    }
    *ret_most = most;
    return sum;
}

static bool add(struct culm_found *found, const struct culm_vision_input *input,
                const struct culm_yolo_head *head, const float *t, int32_t anchor, int64_t i,
                int64_t j, int64_t h, int64_t w) {
    double s = head->scale_xy, shift = (s - 1) / 2, object = sigmoid(t[4]);
    double x = (sigmoid(t[0]) * s - shift + (double)j) / (double)w;
    double y = (sigmoid(t[1]) * s - shift + (double)i) / (double)h;
    double bw = size_of(head, t[2]) * head->anchor[anchor][0] / input->width;
    double bh = size_of(head, t[3]) * head->anchor[anchor][1] / input->height;
    double most = 0, sum = head->one ? sum_of(t + 5, head->classes, &most) : 0;
    for (int32_t c = 0; c < head->classes; c++) {
        if (!head->one && !(t[5 + c] >= found->least)) {
            continue;
        }
        double score = object * (head->one ? exp(t[5 + c] - most) / sum : sigmoid(t[5 + c]));
        if (score >= (double)found->score && !culm_found_add(found, c, score, x, y, bw, bh)) {
            return false;
        }
    }
    return true;
}

static bool read_head(struct culm_found *found, const struct culm_vision_input *input,
                      const struct culm_yolo_head *head, const float *map,
                      const struct culm_shape *shape) {
    int64_t h = shape->dim[0], w = shape->dim[1], step = 5 + head->classes;
    for (int64_t cell = 0; cell < h * w; cell++) {
        for (int32_t a = 0; a < head->anchors; a++) {
            const float *t = map + (cell * head->anchors + a) * step;
            if (t[4] >= found->least && !add(found, input, head, t, a, cell / w, cell % w, h, w)) {
                return false;
            }
        }
    }
    return true;
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an answer");
}

static enum culm_status read_boxes(const struct culm_vision_model *model,
                                   const float *const *output, const struct culm_shape *shape,
                                   struct culm_found *found, struct culm_answer *answer,
                                   struct culm_error *error) {
    bool made = true;
    for (int32_t i = 0; i < model->head_count && made; i++) {
        const struct culm_yolo_head *head = &model->head[i];
        const struct culm_shape *map = &shape[head->output];
        if (map->rank != 3 || map->dim[2] != (int64_t)head->anchors * (5 + head->classes)) {
            return culm_error_set(
                error, CULM_ERR_CONFIG, "'%s': output %d is not a map of %d anchors and %d classes",
                model->name, (int)head->output, (int)head->anchors, (int)head->classes);
        }
        made = read_head(found, &model->input, head, output[head->output], map);
    }
    if (model->table.rows) {
        made = culm_found_table(found, model, output);
    }
    int32_t count = found->count < CULM_VISION_BOXES_MAX ? found->count : CULM_VISION_BOXES_MAX;
    if (!made || !CULM_GROW(answer->box, answer->box_capacity, count + 1)) {
        return no_memory(error);
    }
    if (found->count > 1) {
        qsort(found->item, (size_t)found->count, sizeof *found->item, worse);
    }
    for (int32_t i = 0; i < count; i++) {
        answer->box[i] = found->item[i].box;
    }
    answer->box_count =
        model->table.chosen ? count : suppress(answer->box, count, CULM_VISION_OVERLAP);
    return CULM_OK;
}

/* --- classes and points --- */

static int less_likely(const void *a, const void *b) {
    const struct culm_class_score *x = a, *y = b;
    if (x->score != y->score) {
        return x->score < y->score ? 1 : -1;
    }
    return (x->class_index > y->class_index) - (x->class_index < y->class_index);
}

/* Sigmoids, of each class or of the second of two. Sorted as by read_classes. */
static enum culm_status read_each(const float *logits, int64_t count, struct culm_answer *answer,
                                  struct culm_error *error) {
    if (!CULM_GROW(answer->classes, answer->class_capacity, count + 1)) {
        return no_memory(error);
    }
    answer->class_count = count == 1 ? 2 : (int32_t)count;
    answer->each = count > 1; /* of no and yes, one is the answer */
    for (int32_t i = 0; i < answer->class_count; i++) {
        float logit = count > 1 ? logits[i] : i ? logits[0] : -logits[0];
        answer->classes[i] = (struct culm_class_score){i, isnan(logit) ? -INFINITY : logit};
    }
    qsort(answer->classes, (size_t)answer->class_count, sizeof *answer->classes, less_likely);
    for (int32_t i = 0; i < answer->class_count; i++) {
        answer->classes[i].score = (float)sigmoid(answer->classes[i].score);
    }
    return CULM_OK;
}

/* Softmax. Sorted by logits, since rounded scores can be equal. */
static enum culm_status read_classes(const float *logits, int64_t count, struct culm_answer *answer,
                                     struct culm_error *error) {
    double largest = -INFINITY, sum = 0;
    if (!CULM_GROW(answer->classes, answer->class_capacity, count + 1)) {
        return no_memory(error);
    }
    for (int64_t i = 0; i < count; i++) {
        float logit = isnan(logits[i]) ? -INFINITY : logits[i];
        answer->classes[i] = (struct culm_class_score){(int32_t)i, logit};
        largest = logit > largest ? (double)logit : largest;
    }
    answer->class_count = (int32_t)count;
    qsort(answer->classes, (size_t)count, sizeof *answer->classes, less_likely);
    for (int64_t i = 0; i < count; i++) {
        sum += exp((double)logits[i] - largest);
    }
    for (int64_t i = 0; i < count; i++) {
        double share = exp((double)answer->classes[i].score - largest) / sum;
        answer->classes[i].score = isfinite(share) ? (float)share : 0;
    }
    return CULM_OK;
}

static enum culm_status read_points(const float *numbers, int64_t count,
                                    const struct culm_found *where, struct culm_answer *answer,
                                    struct culm_error *error) {
    if (!CULM_GROW(answer->point, answer->point_capacity, count / 2 + 1)) {
        return no_memory(error);
    }
    answer->point_count = (int32_t)(count / 2);
    for (int32_t i = 0; i < answer->point_count; i++) {
        double x = numbers[(size_t)2 * (size_t)i] * where->width - where->left;
        double y = numbers[(size_t)2 * (size_t)i + 1] * where->height - where->top;
        answer->point[i] =
            (struct culm_point){isfinite(x) ? (float)x : 0, isfinite(y) ? (float)y : 0};
    }
    return CULM_OK;
}

#define NEAR 0.05

double culm_points_near(const struct culm_answer *wanted, int32_t frame_width) {
    double left = INFINITY, right = -INFINITY, top = INFINITY, bottom = -INFINITY;
    for (int32_t i = 0; i < wanted->point_count; i++) {
        const struct culm_point *point = &wanted->point[i];
        left = fmin(left, point->x);
        right = fmax(right, point->x);
        top = fmin(top, point->y);
        bottom = fmax(bottom, point->y);
    }
    const double area = right > left && bottom > top ? (right - left) * (bottom - top) : 0;
    return NEAR * (area > 0 ? sqrt(area) : frame_width);
}

float culm_box_least(float score) {
    if (score >= 1) {
        return 17; /* which is above that of the number before 1, and below that of a box of 1 */
    }
    return score > 0 ? (float)(-log(1 / (double)score - 1) - 1e-4) : -INFINITY;
}

/* The first number of a map that is not finite: where an object may be. Elsewhere nobody has filled
 * the map but for what says that there is none. */
static int64_t find_other_in_map(const struct culm_yolo_head *head, const float *map, int64_t count,
                                 float least) {
    const int64_t size = 5 + head->classes;
    for (int64_t at = 0; at + size <= count; at += size) {
        bool open = !(map[at + 4] < least); /* NaN too */
        int64_t other = culm_finite_find_other(map + at + (open ? 0 : 4), open ? size : 1);
        if (other >= 0) {
            return at + (open ? 0 : 4) + other;
        }
    }
    return -1;
}

/* NULL: all numbers are finite that the answer is read from. */
static const char *other_of(const struct culm_vision_model *model, const float *const *output,
                            const struct culm_shape *shape, float least) {
    for (int32_t i = 0; i < culm_vision_outputs(model); i++) {
        const struct culm_yolo_head *head = model->head_count ? &model->head[i] : NULL;
        const int32_t from = head ? head->output : i;
        const int64_t count = culm_elements(&shape[from]);
        const int64_t at = head ? find_other_in_map(head, output[from], count, least)
                                : culm_finite_find_other(output[from], count);
        if (at >= 0) {
            return culm_finite_other_name(output[from][at]);
        }
    }
    return NULL;
}

enum culm_status culm_answer_read(const struct culm_vision_model *model, const float *const *output,
                                  const struct culm_shape *shape, int32_t frame_width,
                                  int32_t frame_height, float score, struct culm_answer *answer,
                                  struct culm_error *error) {
    answer->kind = model->kind;
    answer->box_count = answer->class_count = answer->point_count = 0;
    answer->each = false;
    answer->other = other_of(model, output, shape, culm_box_least(score));
    if (model->kind == CULM_ANSWER_CLASSES) {
        return (model->end == CULM_FUNCTION_SIGMOID ? read_each : read_classes)(
            output[0], culm_elements(&shape[0]), answer, error);
    }
    if (model->kind == CULM_ANSWER_POINTS) {
        const struct culm_found where =
            culm_found_begin(&model->input, frame_width, frame_height, score);
        return read_points(output[0], culm_elements(&shape[0]), &where, answer, error);
    }
    struct culm_found found = culm_found_begin(&model->input, frame_width, frame_height, score);
    found.counts = model->counts;
    enum culm_status status = read_boxes(model, output, shape, &found, answer, error);
    free(found.item);
    return status;
}
