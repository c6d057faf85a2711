/* The accuracy of a run's answers. See scored.h. */
#include "live/scored.h"

static void end_stretch(struct culm_live_scored *scored) {
    double wanted = (double)culm_accuracy_wanted(scored->now);
    if (wanted > 0) {
        scored->right += wanted * culm_accuracy_value(scored->now, false);
        scored->wanted += wanted;
    }
    culm_accuracy_clear(scored->now);
}

static bool begin(struct culm_live_scored *scored, enum culm_answer_kind kind) {
    scored->now = scored->now ? scored->now : culm_accuracy_new(kind);
    if (scored->now && culm_accuracy_frames(scored->now) >= CULM_LIVE_SCORED) {
        end_stretch(scored);
    }
    return scored->now != NULL;
}

void culm_live_scored_add(struct culm_live_scored *scored, const struct culm_answer *answer,
                          const struct culm_answer *wanted, int32_t width) {
    if (begin(scored, wanted->kind)) {
        (void)culm_accuracy_add(scored->now, answer, wanted, width);
    }
}

void culm_live_scored_add_label(struct culm_live_scored *scored, const struct culm_answer *answer,
                                int32_t label) {
    if (begin(scored, CULM_ANSWER_CLASSES)) {
        (void)culm_accuracy_add_label(scored->now, answer, label);
    }
}

double culm_live_scored_value(const struct culm_live_scored *scored) {
    if (!scored->now) {
        return -1;
    }
    double wanted = (double)culm_accuracy_wanted(scored->now);
    double value = culm_accuracy_value(scored->now, false);
    return scored->wanted > 0 ? (scored->right + wanted * value) / (scored->wanted + wanted)
                              : value;
}

void culm_live_scored_release(struct culm_live_scored *scored) {
    culm_accuracy_free(scored->now);
    *scored = (struct culm_live_scored){0};
}
