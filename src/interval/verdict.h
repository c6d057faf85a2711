/*
 * What the evaluations of a run have come to: which one was best, and whether training has had enough.
 *
 * It belongs to a version of the weights, as the optimizer's values do: it is saved with a checkpoint,
 * and a roll-back or --resume goes on with it. Otherwise the end of a run with `stop` would depend on
 * what was lost on the way.
 *
 * Thread: any; functions without side effects.
 */
#ifndef CULM_INTERVAL_VERDICT_H
#define CULM_INTERVAL_VERDICT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct culm_gnn_verdict { /* zeroed: before the first evaluation */
    bool known;           /* there was one */
    double best;          /* validation accuracy, 0 to 1 */
    double test_at_best;  /* test accuracy of the same evaluation; 0: no vertices for testing */
    int64_t since_best;   /* evaluations after it */
    bool enough;          /* training ends */
};

/* When training ends: at a validation accuracy (0: none), or after so many evaluations without a new
 * best (0: never). */
struct culm_gnn_stop {
    double accuracy;
    int64_t patience;
};

/* Takes in an evaluation. */
void culm_gnn_verdict_judge(struct culm_gnn_verdict *verdict, const struct culm_gnn_stop *stop,
                            double valid, double test);
/* As JSON, the caller's to free with json_decref; NULL: out of memory. */
json_t *culm_gnn_verdict_json(const struct culm_gnn_verdict *verdict);
/* Reads what culm_gnn_verdict_json has written. NULL or anything else is as before the first
 * evaluation, and false. */
bool culm_gnn_verdict_read(const json_t *json, struct culm_gnn_verdict *ret_verdict);

#endif
