/*
 * The area under the ROC curve for two classes: of all pairs of a vertex of class 0 and one of
 * class 1, the share in which the latter has the higher score; ties count half. The result is
 * exact. Thread: any.
 */
#ifndef CULM_INTERVAL_ROC_H
#define CULM_INTERVAL_ROC_H

#include <stdint.h>

/* A vertex's score (logit of class 1 minus that of class 0), as it is in payloads. */
struct culm_gnn_scored {
    float score;
    uint32_t what; /* culm_gnn_scored_what; 0: the vertex is in no part */
};

static inline uint32_t culm_gnn_scored_what(uint32_t part, uint32_t label) {
    return 1 + 2 * part + label;
}

/* The area over the vertices of `part`. Reorders `scored`. -1: there are no pairs, or a score is
 * NaN. */
double culm_gnn_roc_area(struct culm_gnn_scored *scored, int64_t count, uint32_t part);

#endif
