/* The accuracy of answers. See boxes.h. */
#include "vision/boxes.h"

#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OVERLAP 0.5

/* A box that was answered. Whether it is right is decided when its frame is added: only boxes of
 * the same frame compete for a wanted box. */
struct hit {
    float score;
    int32_t class_index;
    bool right;
    int64_t at; /* in the order of arrival */
};

struct culm_accuracy {
    enum culm_answer_kind kind;
    enum culm_accuracy_by by;
    double overlap;
    int64_t frames, wanted, right; /* right: of CLASSES and POINTS */
    double agreed; /* of frames whose classes are questions of their own, the shares agreed upon */
    struct hit *hit;
    size_t hits, hit_capacity;
    int64_t *wanted_of; /* by class */
    int32_t classes, class_capacity;
    bool *taken; /* flags for the wanted boxes of the current frame */
    size_t taken_capacity;
};

struct culm_accuracy *culm_accuracy_new(enum culm_answer_kind kind) {
    struct culm_accuracy *accuracy = calloc(1, sizeof *accuracy);
    if (accuracy) {
        accuracy->kind = kind;
        culm_accuracy_judge_by(accuracy, CULM_ACCURACY_BOXES, OVERLAP);
    }
    return accuracy;
}

void culm_accuracy_judge_by(struct culm_accuracy *accuracy, enum culm_accuracy_by by,
                            double overlap) {
    accuracy->by = by;
    accuracy->overlap = overlap;
}

void culm_accuracy_free(struct culm_accuracy *accuracy) {
    if (accuracy) {
        free(accuracy->hit);
        free(accuracy->wanted_of);
        free(accuracy->taken);
        free(accuracy);
    }
}

void culm_accuracy_clear(struct culm_accuracy *accuracy) {
    accuracy->frames = accuracy->wanted = accuracy->right = 0;
    accuracy->agreed = 0;
    accuracy->hits = 0;
    accuracy->classes = 0;
}

/* --- one frame --- */

/* Makes room for a class. */
static bool know_class(struct culm_accuracy *a, int32_t index) {
    if (index < a->classes) {
        return true;
    }
    if (!CULM_GROW(a->wanted_of, a->class_capacity, index + 1)) {
        return false;
    }
    while (a->classes <= index) {
        a->wanted_of[a->classes++] = 0;
    }
    return true;
}

/* The free wanted box of its class that the box overlaps most; -1: none by enough. */
static int32_t match(const struct culm_accuracy *a, const struct culm_box *box,
                     const struct culm_answer *wanted) {
    double best = a->overlap;
    int32_t found = -1;
    for (int32_t w = 0; w < wanted->box_count; w++) {
        double overlap = wanted->box[w].class_index == box->class_index && !a->taken[w]
                             ? culm_box_overlap(box, &wanted->box[w])
                             : 0;
        if (overlap >= best && (found < 0 || overlap > best)) {
            best = overlap;
            found = w;
        }
    }
    return found;
}

static bool add_boxes(struct culm_accuracy *a, const struct culm_answer *answer,
                      const struct culm_answer *wanted) {
    size_t needed = (size_t)wanted->box_count + 1;
    if (!CULM_GROW(a->taken, a->taken_capacity, needed) ||
        !CULM_GROW(a->hit, a->hit_capacity, a->hits + (size_t)answer->box_count + 1)) {
        return false;
    }
    memset(a->taken, 0, needed * sizeof *a->taken);
    for (int32_t w = 0; w < wanted->box_count; w++) {
        if (!know_class(a, wanted->box[w].class_index)) {
            return false;
        }
        a->wanted_of[wanted->box[w].class_index]++;
    }
    a->wanted += wanted->box_count;
    for (int32_t i = 0; i < answer->box_count; i++) {
        const struct culm_box *box = &answer->box[i];
        int32_t found = match(a, box, wanted);
        if (found >= 0) {
            a->taken[found] = true;
        }
        a->hit[a->hits] = (struct hit){box->score, box->class_index, found >= 0, (int64_t)a->hits};
        a->hits++;
    }
    return true;
}

static void add_points(struct culm_accuracy *a, const struct culm_answer *answer,
                       const struct culm_answer *wanted, int32_t width) {
    double most = culm_points_near(wanted, width);
    a->wanted += wanted->point_count;
    for (int32_t i = 0; i < wanted->point_count && i < answer->point_count; i++) {
        double x = (double)answer->point[i].x - wanted->point[i].x;
        double y = (double)answer->point[i].y - wanted->point[i].y;
        a->right += x * x + y * y <= most * most;
    }
}

bool culm_accuracy_add_label(struct culm_accuracy *a, const struct culm_answer *answer,
                             int32_t label) {
    a->frames++;
    a->wanted++;
    a->right += answer->class_count > 0 && answer->classes[0].class_index == label;
    return true;
}

/* Whether an answer, which is sorted by scores, says yes to a class. */
static bool says_yes(const struct culm_answer *answer, int32_t class_index) {
    for (int32_t i = 0; i < answer->class_count; i++) {
        if (answer->classes[i].score < CULM_VISION_YES) {
            return false;
        }
        if (answer->classes[i].class_index == class_index) {
            return true;
        }
    }
    return false;
}

static void add_each(struct culm_accuracy *a, const struct culm_answer *answer,
                     const struct culm_answer *wanted) {
    int32_t both = 0, either = 0;
    for (int32_t i = 0; i < answer->class_count; i++) {
        either += answer->classes[i].score >= CULM_VISION_YES;
    }
    for (int32_t i = 0; i < wanted->class_count; i++) {
        if (wanted->classes[i].score >= CULM_VISION_YES) {
            const bool also = says_yes(answer, wanted->classes[i].class_index);
            both += also;
            either += !also;
        }
    }
    a->frames++;
    a->wanted++;
    a->agreed += either > 0 ? (double)both / either : 1;
}

bool culm_accuracy_add(struct culm_accuracy *a, const struct culm_answer *answer,
                       const struct culm_answer *wanted, int32_t frame_width) {
    if (a->kind == CULM_ANSWER_CLASSES && wanted->each) {
        add_each(a, answer, wanted);
        return true;
    }
    if (a->kind == CULM_ANSWER_CLASSES) {
        return wanted->class_count == 0 ||
               culm_accuracy_add_label(a, answer, wanted->classes[0].class_index);
    }
    a->frames++;
    if (a->kind == CULM_ANSWER_POINTS) {
        add_points(a, answer, wanted, frame_width);
        return true;
    }
    return add_boxes(a, answer, wanted);
}

int64_t culm_accuracy_frames(const struct culm_accuracy *accuracy) { return accuracy->frames; }

int64_t culm_accuracy_wanted(const struct culm_accuracy *accuracy) { return accuracy->wanted; }

/* --- average precision --- */

static int worse(const void *a, const void *b) {
    const struct hit *x = a, *y = b;
    if (x->score != y->score) {
        return x->score < y->score ? 1 : -1;
    }
    return (x->at > y->at) - (x->at < y->at);
}

/* Of the hits of a class, or of all (-1), which are sorted. From the worst to the best, so that the
 * best precision at a recall or beyond is known. */
static double area(const struct culm_accuracy *a, const struct hit *hit, int32_t class_index,
                   int64_t wanted) {
    int64_t seen = 0, right = 0;
    for (size_t i = 0; i < a->hits; i++) {
        bool counts = class_index < 0 || hit[i].class_index == class_index;
        seen += counts;
        right += counts && hit[i].right;
    }
    double best = 0, sum = 0;
    for (size_t i = a->hits; i-- > 0;) {
        if (class_index >= 0 && hit[i].class_index != class_index) {
            continue;
        }
        double precision = (double)right / (double)seen;
        best = precision > best ? precision : best;
        sum += hit[i].right ? best : 0;
        right -= hit[i].right;
        seen--;
    }
    return sum / (double)wanted;
}

/* Over all boxes or, with `least`, the mean over the classes that are wanted so often. */
static double precision(const struct culm_accuracy *a, int64_t least) {
    struct hit *hit = malloc((a->hits + 1) * sizeof *hit);
    double sum = 0;
    int32_t classes = 0;
    if (!hit) {
        return 0;
    }
    if (a->hits) {
        memcpy(hit, a->hit, a->hits * sizeof *hit);
        qsort(hit, a->hits, sizeof *hit, worse);
    }
    for (int32_t c = 0; c < a->classes && least > 0; c++) {
        if (a->wanted_of[c] >= least) {
            sum += area(a, hit, c, a->wanted_of[c]);
            classes++;
        }
    }
    double value = classes > 0 ? sum / classes : area(a, hit, -1, a->wanted);
    free(hit);
    return value;
}

double culm_accuracy_value(const struct culm_accuracy *a, bool each_class) {
    if (a->wanted == 0) {
        return a->hits == 0 ? 1 : 0;
    }
    return a->kind == CULM_ANSWER_BOXES ? precision(a, each_class ? 1 : 0)
                                        : ((double)a->right + a->agreed) / (double)a->wanted;
}

double culm_accuracy_judged(const struct culm_accuracy *a) {
    if (a->kind != CULM_ANSWER_BOXES || a->by == CULM_ACCURACY_BOXES || a->wanted == 0) {
        return culm_accuracy_value(a, false);
    }
    const double classes = precision(a, CULM_ACCURACY_JUDGED);
    const double boxes = a->by == CULM_ACCURACY_LEAST ? precision(a, 0) : classes;
    return boxes < classes ? boxes : classes;
}

struct culm_accuracy_count culm_accuracy_count(const struct culm_accuracy *a, int32_t class_index) {
    struct culm_accuracy_count count = {.wanted = class_index < 0 ? a->wanted
                                                  : class_index < a->classes
                                                      ? a->wanted_of[class_index]
                                                      : 0};
    for (size_t i = 0; i < a->hits; i++) {
        const bool counts = class_index < 0 || a->hit[i].class_index == class_index;
        count.told += counts;
        count.right += counts && a->hit[i].right;
    }
    return count;
}

int32_t culm_accuracy_classes(const struct culm_accuracy *a) {
    int32_t classes = a->classes;
    for (size_t i = 0; i < a->hits; i++) {
        classes = a->hit[i].class_index < classes ? classes : a->hit[i].class_index + 1;
    }
    return classes;
}
