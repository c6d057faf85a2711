/* What the evaluations of a run have come to. See verdict.h. */
#include "interval/verdict.h"

void culm_gnn_verdict_judge(struct culm_gnn_verdict *verdict, const struct culm_gnn_stop *stop,
                            double valid, double test) {
    verdict->since_best++;
    if (!verdict->known || valid > verdict->best) {
        verdict->known = true;
        verdict->best = valid;
        verdict->test_at_best = test;
        verdict->since_best = 0;
    }
    verdict->enough = verdict->enough || (stop->accuracy > 0 && valid >= stop->accuracy) ||
                      (stop->patience > 0 && verdict->since_best >= stop->patience);
}
