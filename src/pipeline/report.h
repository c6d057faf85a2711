/*
 * What a node tells a leader that takes over: REPORT at once; then, if it is shown that it is the one to ask (SHOW), its
 * newest view in full, as a VIEW, and the CURVE: the contents of commits since the last checkpoint that it knows of. One that
 * comes later is told the CURVE by the leader, ahead of its first view.
 *
 * Decoders check every bound; a malformed message is CULM_ERR_FORMAT, and *ret is untouched. Thread: none of their own.
 */
#ifndef CULM_PIPELINE_REPORT_H
#define CULM_PIPELINE_REPORT_H

#include "pipeline/message.h"

#define CULM_CURVE_MAX 4096 /* steps that are kept; older ones give way */

struct culm_report {
    uint64_t view;     /* the newest here; 0: none */
    int64_t iteration; /* in progress; 0: none */
    /* Stages at version `iteration - 1`, when what is ordered is done: by the view; as a learner, whole. */
    struct culm_stage_set holds, whole;
    int32_t of_stages;          /* of the run */
    struct culm_content commit; /* the last one */
    int64_t curve_first;        /* of the steps that CURVE would tell; 0: of none */
    struct culm_totals totals;
};

/* A committed step, for people. */
struct culm_curve_step {
    double loss, norm;
};

struct culm_curve {
    int64_t first;
    int32_t count; /* 0 to CULM_CURVE_MAX */
    struct culm_curve_step step[CULM_CURVE_MAX];
};

void culm_report_encode(const struct culm_report *report, struct culm_buf *buf);
/* `of_stages` of *ret_report is the caller's. */
enum culm_status culm_report_decode(const uint8_t *meta, size_t len,
                                    struct culm_report *ret_report);

/* The step after the last, or one that is in it, after which nothing is any more; any other one begins the curve anew. The oldest
 * gives way to it. */
void culm_curve_add(struct culm_curve *curve, int64_t step, double loss, double norm);
/* Forgets steps up to `published`, and those after `last`. */
void culm_curve_cut(struct culm_curve *curve, int64_t published, int64_t last);
void culm_curve_encode(const struct culm_curve *curve, struct culm_buf *buf);
enum culm_status culm_curve_decode(const uint8_t *meta, size_t len, struct culm_curve *ret_curve);

#endif
