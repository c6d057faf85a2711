/*
 * What epochs have come to, and the run with them: what a COMMIT and a view carry for people and for a leader that takes over.
 * Nobody compares it.
 *
 * Thread: none of their own.
 */
#ifndef CULM_INTERVAL_OUTCOME_H
#define CULM_INTERVAL_OUTCOME_H

#include "base/buf.h"
#include "interval/exec.h"
#include "interval/verdict.h"

/* Of one epoch, as its event tells it. */
struct culm_gnn_outcome {
    int64_t epoch; /* 0: none */
    float loss;
    bool evaluated; /* false: the rest is zero */
    int64_t correct[CULM_GNN_SPLITS];
    double area[CULM_GNN_SPLITS]; /* under the ROC curve; -1: not known */
};

/* Of the run, at the version that was committed last. */
struct culm_gnn_balance {
    int64_t losses, rollbacks;
    int64_t published; /* the newest checkpoint */
    struct culm_gnn_verdict verdict;
    double usd, seconds; /* of the bill */
};

#define CULM_GNN_CURVE_MAX 1024 /* epochs that are kept; older ones give way */

/* Of the epochs since the last checkpoint that somebody knows of. */
struct culm_gnn_curve {
    int32_t count; /* of epochs that follow each other */
    struct culm_gnn_outcome outcome[CULM_GNN_CURVE_MAX];
};

/* The epoch after the last one; one that is there is not added again, and one that leaves a gap begins the curve anew. The oldest
 * gives way to it. */
void culm_gnn_curve_add(struct culm_gnn_curve *curve, const struct culm_gnn_outcome *outcome);
/* Forgets epochs up to `published`, and those after `last`. */
void culm_gnn_curve_cut(struct culm_gnn_curve *curve, int64_t published, int64_t last);
/* The first epoch; 0: there is none. */
int64_t culm_gnn_curve_first(const struct culm_gnn_curve *curve);

void culm_gnn_outcome_write(const struct culm_gnn_outcome *outcome, struct culm_buf *buf);
/* What is out of bounds fails the reader. */
struct culm_gnn_outcome culm_gnn_outcome_read(struct culm_reader *in);
void culm_gnn_balance_write(const struct culm_gnn_balance *balance, struct culm_buf *buf);
struct culm_gnn_balance culm_gnn_balance_read(struct culm_reader *in);
void culm_gnn_curve_encode(const struct culm_gnn_curve *curve, struct culm_buf *buf);
/* CULM_ERR_FORMAT; *ret_curve is then in an undefined state. */
enum culm_status culm_gnn_curve_decode(const uint8_t *meta, size_t len,
                                       struct culm_gnn_curve *ret_curve);

#endif
