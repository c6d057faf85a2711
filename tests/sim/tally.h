/*
 * What programs that play seeds count for whoever plays very many of them (soak.py): printed as one line, to be added up.
 */
#ifndef CULM_TESTS_SIM_TALLY_H
#define CULM_TESTS_SIM_TALLY_H

#include <stdint.h>
#include <stdio.h>

#define TALLY_NODES 256

struct tally {
    int64_t histories, failed;
    int64_t takeovers, outages,
        rollbacks; /* leaders that took over; times that the store was away */
    int64_t
        nodes[TALLY_NODES + 1]; /* histories by the nodes that they began with; the last: or more */
};

static inline void tally_add(struct tally *tally, int32_t nodes, int failed) {
    tally->histories++;
    tally->failed += failed != 0;
    tally->nodes[nodes < TALLY_NODES ? nodes : TALLY_NODES]++;
}

static inline void tally_print(const struct tally *tally) {
    printf("tally: histories %lld failed %lld takeovers %lld outages %lld rollbacks %lld nodes",
           (long long)tally->histories, (long long)tally->failed, (long long)tally->takeovers,
           (long long)tally->outages, (long long)tally->rollbacks);
    for (int nodes = 0; nodes <= TALLY_NODES; nodes++) {
        if (tally->nodes[nodes] > 0) {
            printf(" %d:%lld", nodes, (long long)tally->nodes[nodes]);
        }
    }
    printf("\n");
}

#endif
