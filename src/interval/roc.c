/* The area under the ROC curve. See roc.h. */
#include "interval/roc.h"

#include <math.h>
#include <stdlib.h>

static int by_score(const void *a, const void *b) {
    float x = ((const struct culm_gnn_scored *)a)->score;
    float y = ((const struct culm_gnn_scored *)b)->score;
    return (x > y) - (x < y);
}

/* Moves the vertices of the part to the front, and returns their number. -1: a score is NaN. */
static int64_t collect(struct culm_gnn_scored *scored, int64_t count, uint32_t part) {
    int64_t there = 0;
    for (int64_t i = 0; i < count; i++) {
        struct culm_gnn_scored one = scored[i];
        if (one.what != culm_gnn_scored_what(part, 0) &&
            one.what != culm_gnn_scored_what(part, 1)) {
            continue;
        }
        if (isnan(one.score)) {
            return -1;
        }
        scored[i] = scored[there];
        scored[there++] = one;
    }
    return there;
}

double culm_gnn_roc_area(struct culm_gnn_scored *scored, int64_t count, uint32_t part) {
    double below = 0, first = 0, second = 0;
    int64_t there = collect(scored, count, part);
    if (there < 0) {
        return -1;
    }
    qsort(scored, (size_t)there, sizeof *scored, by_score);
    for (int64_t from = 0, to; from < there; from = to) {
        int64_t ones = 0;
        for (to = from; to < there && scored[to].score == scored[from].score; to++) {
            ones += scored[to].what == culm_gnn_scored_what(part, 1);
        }
        double zeros = (double)(to - from - ones);
        below += (double)ones * (first + zeros / 2);
        first += zeros;
        second += (double)ones;
    }
    return first > 0 && second > 0 ? below / (first * second) : -1;
}
