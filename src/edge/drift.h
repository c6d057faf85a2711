/*
 * Whether a merged model still keeps its promise, judged by a few frames now and then.
 *
 * A check takes some frames, spread over an interval. What counts of a frame is how much of what was
 * wanted or said in it is wrong: missed answers and added ones, of all that were wanted or added. So
 * boxes that are invented in an empty scene count, and a frame in which nothing is to be said and
 * nothing is said is right.
 *
 * Frames of a check are not independent: one person who is missed is missed in all of them. Nor are
 * they worth nothing. How much a check varies is measured: where merging has recorded how answers
 * differ on frames that it had not seen, checks are played over these, and from their variance
 * follows how many independent looks such a check is worth (struct culm_edge_drift_null). The
 * evidence against a promise is then how likely so much is wrong among so many looks.
 *
 * Below CULM_EDGE_DRIFT_POOLED checks are pooled, so that a shortfall which is small but lasts adds
 * up. Once that is below CULM_EDGE_DRIFT_WATCHED the model is watched. Below CULM_EDGE_DRIFT_REVERTED
 * at a later check, it goes back to its own weights, unless that check by itself is as promised. Once
 * what is wrong is likely again, all that is forgotten. After it has gone back, its merged weights are
 * still looked at, rarely; once enough checks in which there was something to see are together as
 * promised, they come back. That takes longer each time.
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_DRIFT_H
#define CULM_EDGE_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

#define CULM_EDGE_DRIFT_POOLED 0.5
#define CULM_EDGE_DRIFT_WATCHED 0.05
#define CULM_EDGE_DRIFT_REVERTED 0.001
#define CULM_EDGE_DRIFT_RARELY 6 /* intervals from one check to the next once it has gone back */
#define CULM_EDGE_DRIFT_BACK 3   /* checks until it comes back: twice as many after each revert, */
#define CULM_EDGE_DRIFT_BACK_MAX 96 /* and at most so many */

enum culm_edge_drift_action {
    CULM_EDGE_DRIFT_NONE,
    CULM_EDGE_DRIFT_WATCH,
    CULM_EDGE_DRIFT_REVERT,
    CULM_EDGE_DRIFT_RETURN,
};

/* What is wrong in a frame, 0 to 1: missed and added answers among those wanted or added. */
double culm_edge_drift_wrong(int32_t wanted, int32_t missed, int32_t added);

/* What is to be expected of checks. */
struct culm_edge_drift_null {
    double wrong; /* the mean; negative: not measured */
    double looks; /* independent looks that a check is worth */
};

/* Plays checks of `frames` frames, `stride` of the recorded ones apart, over wrong[count]: at every
 * place, round the end to the beginning. Half as many looks count as would explain the variance,
 * since it is known from little; never fewer than two, nor more than half of the frames. Where the
 * record is shorter than two checks, checks are played closer together, which makes them worth less.
 * count 0, or no frame of them is right, or none wrong: a check is worth a quarter of its frames. */
struct culm_edge_drift_null culm_edge_drift_measure(const double *wrong, int64_t count,
                                                    int64_t frames, double stride);

struct culm_edge_drift { /* zero it first */
    int32_t checks;      /* pooled so far */
    bool watched;
    double looks, misses, allowed; /* in them; how many the promise allows */
    bool away;                     /* it has gone back to its own weights */
    int32_t reverts;               /* how often */
};

struct culm_edge_drift_seen {
    double right;    /* share of the check, 0 to 1 */
    bool anything;   /* something was wanted in it */
    double promised; /* share that should be right */
    double looks;    /* of the null */
};

/* Takes in one check. ret_chance, which may be NULL: how likely it is that so much is wrong in all
 * pooled checks if the promise is just kept. */
enum culm_edge_drift_action culm_edge_drift_check(struct culm_edge_drift *drift,
                                                  const struct culm_edge_drift_seen *seen,
                                                  double *ret_chance);
/* Discards what is pooled, but not that it is away, nor how often it went. */
void culm_edge_drift_forget(struct culm_edge_drift *drift);

/* The probability of at least `misses` misses among `count` if each has the probability `each`;
 * interpolated between whole numbers of both. */
double culm_edge_drift_chance(double count, double misses, double each);

/* How often a merged model must give the same answer as its original where there are no labels: as
 * often as was measured (`agreed`), less the margin by which its accuracy on labels (`merged`)
 * exceeded what was asked for (`target` * `original`). Where one of the three is negative, which
 * means not measured, it is the target. */
double culm_edge_drift_promise(double target, double original, double merged, double agreed);

#endif
