/* The learning rate, and giving up layers. See search_course.h. */
#include "merge/search_course.h"

#include "merge/search_parts.h"

#define WARM_UP 20 /* steps until the full rate */
#define FALLS 0.95 /* share of the rate that is gone at the end */

double search_course_rate(double first, int64_t taken, double done) {
    const double warm = taken < WARM_UP ? (double)(taken + 1) / WARM_UP : 1;
    return first * warm * (1 - FALLS * done);
}

/* The layer to give up next; -1: the model shares none. */
static int32_t first_to_leave(const struct culm_search *s, int32_t model,
                              const struct search_leaving *leaving) {
    int32_t first = -1;
    for (int32_t l = 0; l < s->models[model]->layers.count; l++) {
        if (culm_share_of(s->share, model, l) >= 0 &&
            (first < 0 || leaving->before(leaving->ctx, l, first))) {
            first = l;
        }
    }
    return first;
}

bool search_course_let_go(const struct culm_search *s, int32_t model, double bytes,
                          const struct search_leaving *leaving) {
    int64_t gone = 0;
    while ((double)gone < bytes) {
        const int32_t layer = first_to_leave(s, model, leaving);
        if (layer < 0) {
            return false;
        }
        culm_share_exit(s->share, (struct culm_member){model, layer});
        gone += s->models[model]->layers.layer[layer].bytes;
        leaving->left(leaving->ctx, layer);
    }
    return true;
}
