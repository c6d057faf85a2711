/*
 * Whether a model still does what was promised, from a few frames now and then.
 *
 * A check looks at some frames in a row. Sixteen of them at a promise of 95 % are below it by
 * chance half of the time, so what counts is how likely so many misses are if the promise is just
 * kept: the upper tail of a binomial distribution. Less than CULM_EDGE_DRIFT_WATCHED: it is
 * watched, and checks are pooled from then on. Less than CULM_EDGE_DRIFT_REVERTED over all of
 * these, at least two: it goes back. Once what is pooled is likely again it is no longer watched.
 *
 * Where misses are independent, a model that just keeps its promise is taken back by mistake in
 * less than one check of 800 (16 frames, fixed promises of 80 % to 99 %; a test draws 400,000
 * checks). Frames of a clip are like one another, so there it is more often, and what does better
 * than was promised hardly ever.
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_DRIFT_H
#define CULM_EDGE_DRIFT_H

#include <stdint.h>

#define CULM_EDGE_DRIFT_WATCHED 0.05
#define CULM_EDGE_DRIFT_REVERTED 0.001

enum culm_edge_drift_action { CULM_EDGE_DRIFT_NONE, CULM_EDGE_DRIFT_WATCH, CULM_EDGE_DRIFT_REVERT };

struct culm_edge_drift { /* zeroed at first */
    int32_t checks;      /* pooled; 0: it is not watched */
    int64_t frames;
    double misses, allowed; /* of these frames; as promised */
};

/* One check: the share `right` of so many frames was right, where `promised` should be. Of boxes
 * and points it may be a share of anything: no other distribution spreads as much as the binomial
 * one. ret_chance (may be NULL): how likely so many misses are, of all that is pooled, if the promise
 * is just kept. */
enum culm_edge_drift_action culm_edge_drift_check(struct culm_edge_drift *drift, int64_t frames,
                                                  double right, double promised,
                                                  double *ret_chance);

/* How likely at least so many of `count` are missed if each is with probability `each`. Between
 * whole numbers it is interpolated. */
double culm_edge_drift_chance(int64_t count, double misses, double each);

/* What may be promised of the share of the original's answers that a merged model gives: as it was
 * measured, `agreed`, less what accuracy on labels had to spare, `merged` of `target` * `original`.
 * Negative: not measured; then it is the target. */
double culm_edge_drift_promise(double target, double original, double merged, double agreed);

#endif
