/* Missed and added answers of a frame. See agree.h. */
#include "vision/agree.h"

#define OVERLAP 0.5

/* Boxes are best first, so those that reach the score are the first ones. */
static int32_t reach(const struct culm_answer *answer, float score) {
    int32_t count = 0;
    while (count < answer->box_count && answer->box[count].score >= score) {
        count++;
    }
    return count;
}

static struct culm_agreement of_boxes(const struct culm_answer *said,
                                      const struct culm_answer *wanted, float score) {
    bool taken[CULM_VISION_BOXES_MAX] = {0};
    struct culm_agreement agreement = {.wanted = reach(wanted, score)};
    int32_t count = reach(said, score), right = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t found = -1;
        double best = OVERLAP;
        for (int32_t w = 0; w < agreement.wanted && w < CULM_VISION_BOXES_MAX; w++) {
            double overlap = !taken[w] && wanted->box[w].class_index == said->box[i].class_index
                                 ? culm_box_overlap(&said->box[i], &wanted->box[w])
                                 : 0;
            if (overlap >= best && (found < 0 || overlap > best)) {
                best = overlap;
                found = w;
            }
        }
        if (found >= 0) {
            taken[found] = true;
            agreement.overlap += best;
            right++;
        }
    }
    agreement.missed = agreement.wanted - right;
    agreement.added = count - right;
    return agreement;
}

static struct culm_agreement of_points(const struct culm_answer *said,
                                       const struct culm_answer *wanted, int32_t width) {
    struct culm_agreement agreement = {.wanted = wanted->point_count};
    double most = culm_points_near(wanted, width);
    for (int32_t i = 0; i < wanted->point_count; i++) {
        bool there = i < said->point_count;
        double x = there ? (double)said->point[i].x - wanted->point[i].x : 0;
        double y = there ? (double)said->point[i].y - wanted->point[i].y : 0;
        agreement.missed += !there || !(x * x + y * y <= most * most);
    }
    return agreement;
}

struct culm_agreement culm_agreement_with_label(const struct culm_answer *said, int32_t label) {
    bool right = said->class_count > 0 && said->classes[0].class_index == label;
    return (struct culm_agreement){.wanted = 1, .missed = !right};
}

struct culm_agreement culm_agreement_of(const struct culm_answer *said,
                                        const struct culm_answer *wanted, float score,
                                        int32_t width) {
    switch (wanted->kind) {
    case CULM_ANSWER_BOXES: return of_boxes(said, wanted, score);
    case CULM_ANSWER_POINTS: return of_points(said, wanted, width);
    case CULM_ANSWER_CLASSES: break;
    }
    return wanted->class_count > 0 ? culm_agreement_with_label(said, wanted->classes[0].class_index)
                                   : (struct culm_agreement){0};
}
