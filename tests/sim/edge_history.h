/*
 * Histories of the edge scheduler in virtual time, with faults, judged by an oracle.
 *
 * A history is made from its seed alone: queries, feeds, tensors that queries share, memory, and the
 * faults: loads that fail or are slow, batches that take longer, feeds that end, stall or burst, new
 * rounds of tensors, queries that go and come. The oracle keeps books of its own. It asks that
 *   - tensors, activations and frames, added up from scratch, are what the scheduler says, and never more
 *     than the limit, loads under way included;
 *   - a batch finds all its tensors there, and takes frames that have come and are not yet settled, in
 *     order, of which each can still be in time;
 *   - a batch goes on from a prefix only if the batch before made it, on the same frames, in the same place, and
 *     nothing has been there since;
 *   - nothing is in time that ended after it was due; without slow batches nothing is late;
 *   - every frame is settled once for every query that was there when it came and has not gone;
 *   - no query starves: one whose frames could be answered in time, however badly it met the others, is
 *     answered within a bounded time, as long as its loads do not fail;
 *   - the run ends; a second one from the same seed settles the same frames in the same order.
 *
 * Thread: one a history.
 */
#ifndef CULM_TESTS_SIM_EDGE_HISTORY_H
#define CULM_TESTS_SIM_EDGE_HISTORY_H

#include "edge/virtual.h"

enum culm_edge_fault {
    CULM_EDGE_FAULT_LOAD_FAILS,
    CULM_EDGE_FAULT_LOAD_SLOW,
    CULM_EDGE_FAULT_RUN_SLOW,
    CULM_EDGE_FAULT_RUN_FAILS,
    CULM_EDGE_FAULT_FEED_ENDS,
    CULM_EDGE_FAULT_FEED_STALLS,
    CULM_EDGE_FAULT_FEED_BURSTS,
    CULM_EDGE_FAULT_ROUND,
    CULM_EDGE_FAULT_QUERY_GOES,
    CULM_EDGE_FAULT_QUERY_COMES,
    CULM_EDGE_FAULT_COUNT
};
extern const char *const culm_edge_fault_name[CULM_EDGE_FAULT_COUNT];

#define CULM_EDGE_HISTORY_TENSORS 256

/* A made-up workload; everything that its layout points to is in it. */
struct culm_edge_workload {
    struct culm_edge_layout layout;
    struct culm_edge_query query[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_feed feed[CULM_EDGE_FEEDS_MAX];
    size_t tensor_bytes[CULM_EDGE_HISTORY_TENSORS];
    int32_t tensors[CULM_EDGE_QUERIES_MAX][CULM_EDGE_HISTORY_TENSORS];
};
/* `queries`: 0: as the seed says. The struct must stay where it is. */
void culm_edge_workload_from_seed(uint64_t seed, int32_t queries,
                                  struct culm_edge_workload *workload);

struct culm_edge_history_result {
    bool ok;
    char why[256];
    int64_t frames, processed, late, loads, evictions, rounds, shared;
    int64_t fired[CULM_EDGE_FAULT_COUNT];
    uint32_t planned; /* the faults that were drawn, of those that were asked for */
    uint64_t digest;  /* of what was settled, in order */
};
#define CULM_EDGE_HISTORY_FAULTS 6 /* at most */

/* `faults`: of those that the seed draws, a bit each; 0: none. `log`: what happens, on standard output. */
void culm_edge_history_run(uint64_t seed, uint32_t faults, bool log,
                           struct culm_edge_history_result *ret_result);

#endif
