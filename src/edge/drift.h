/*
 * Whether a merged model still keeps its promise of accuracy, judged by a few frames now and then.
 *
 * A check looks at some frames in a row. With 16 frames and a promise of 95 %, chance alone leaves
 * a model that just keeps its promise below it half of the time. What counts is therefore how
 * likely so many misses are if the promise is just kept: the upper tail of a binomial distribution.
 * Below CULM_EDGE_DRIFT_WATCHED the model is watched, and checks are pooled from then on. Below
 * CULM_EDGE_DRIFT_REVERTED over at least two pooled checks, it goes back to its own weights. Once
 * the pooled misses are likely again, it is no longer watched.
 *
 * Where misses are independent, a model that just keeps its promise is reverted by mistake in less
 * than one check of 800 (16 frames, fixed promises of 80 % to 99 %; a test draws 400,000 checks).
 * Successive frames of a clip resemble one another, so there it happens more often; to a model that
 * does better than promised it hardly ever happens.
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_DRIFT_H
#define CULM_EDGE_DRIFT_H

#include <stdint.h>

#define CULM_EDGE_DRIFT_WATCHED 0.05
#define CULM_EDGE_DRIFT_REVERTED 0.001

enum culm_edge_drift_action { CULM_EDGE_DRIFT_NONE, CULM_EDGE_DRIFT_WATCH, CULM_EDGE_DRIFT_REVERT };

struct culm_edge_drift { /* zero it first */
    int32_t checks;      /* pooled so far; 0: the model is not watched */
    int64_t frames;
    double misses, allowed; /* among these frames; how many the promise allows */
};

/* Takes in one check: of `frames` frames the share `right` was right, and `promised` should be.
 * With boxes and points a frame may be right in part. Such scores vary no more than hits and misses
 * with the same mean do, so the binomial test still holds. ret_chance, which may be NULL: how
 * likely the misses of all pooled checks are if the promise is just kept. */
enum culm_edge_drift_action culm_edge_drift_check(struct culm_edge_drift *drift, int64_t frames,
                                                  double right, double promised,
                                                  double *ret_chance);

/* The probability of at least `misses` misses among `count` if each has the probability `each`;
 * interpolated between whole numbers of misses. */
double culm_edge_drift_chance(int64_t count, double misses, double each);

/* How often a merged model must give the same answer as its original where there are no labels: as
 * often as was measured (`agreed`), less the margin by which its accuracy on labels (`merged`)
 * exceeded what was asked for (`target` * `original`). Where one of the three is negative, which
 * means not measured, it is the target. */
double culm_edge_drift_promise(double target, double original, double merged, double agreed);

#endif
