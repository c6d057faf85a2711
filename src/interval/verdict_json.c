/* Verdicts as JSON, for checkpoints. See verdict.h. */
#include "interval/verdict.h"

json_t *culm_gnn_verdict_json(const struct culm_gnn_verdict *verdict) {
    return json_pack("{s:b, s:f, s:f, s:I, s:b}", "evaluated", verdict->known, "best_valid",
                     verdict->best, "test_at_best_valid", verdict->test_at_best, "since_best",
                     (json_int_t)verdict->since_best, "enough", verdict->enough);
}

bool culm_gnn_verdict_read(const json_t *json, struct culm_gnn_verdict *ret_verdict) {
    struct culm_gnn_verdict verdict;
    json_int_t since;
    int known, enough;
    *ret_verdict = (struct culm_gnn_verdict){0};
    if (!json ||
        json_unpack((json_t *)json, "{s:b, s:F, s:F, s:I, s:b}", "evaluated", &known, "best_valid",
                    &verdict.best, "test_at_best_valid", &verdict.test_at_best, "since_best",
                    &since, "enough", &enough) != 0 ||
        !(verdict.best >= 0 && verdict.best <= 1) ||
        !(verdict.test_at_best >= 0 && verdict.test_at_best <= 1) || since < 0) {
        return false;
    }
    verdict.known = known;
    verdict.since_best = since;
    verdict.enough = enough;
    *ret_verdict = verdict;
    return true;
}
