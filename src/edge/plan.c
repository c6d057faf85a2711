/* What plans say, and how long visits take. See plan.h. */
#include "edge/plan.h"

#include <string.h>

int32_t culm_edge_batch_for(const struct culm_edge_query *query, int32_t frames) {
    int32_t b = 0;
    while (b < query->batches - 1 && query->batch[b] < frames) {
        b++;
    }
    return b;
}

uint64_t culm_edge_visit_ns(const struct culm_edge_query *query, int32_t frames, int32_t largest) {
    uint64_t ns = 0;
    while (frames > 0) {
        int32_t b = largest;
        while (b > 0 && query->batch[b] > frames) {
            b--;
        }
        ns += query->run_ns[b];
        frames -= query->batch[b];
    }
    return ns;
}

bool culm_edge_plan_same(const struct culm_edge_plan *one, const struct culm_edge_plan *other) {
    bool same = one->count == other->count && one->slots == other->slots &&
                one->eviction == other->eviction && one->patient == other->patient &&
                one->passes == other->passes;
    for (int32_t i = 0; i < one->count && same; i++) {
        same = one->order[i] == other->order[i] &&
               one->visit[one->order[i]] == other->visit[one->order[i]];
    }
    return same;
}
