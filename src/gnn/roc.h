/*
 * The area under the ROC curve of two classes: the share of pairs of one vertex of either class whose
 * scores are in order; a pair with equal scores counts half. Exact, ties included. Thread: any.
 */
#ifndef CULM_GNN_ROC_H
#define CULM_GNN_ROC_H

#include <stdint.h>

/* A vertex with its score for class 1, as it is in payloads. */
struct culm_gnn_scored {
    float score;
    uint32_t what; /* culm_gnn_scored_what; 0: it is of no part */
};

static inline uint32_t culm_gnn_scored_what(uint32_t part, uint32_t label) {
    return 1 + 2 * part + label;
}

/* Of the vertices of `part` among `scored`, which is left in another order. -1: there are no pairs, or
 * a score is no number. */
double culm_gnn_roc_area(struct culm_gnn_scored *scored, int64_t count, uint32_t part);

#endif
