/*
 * Histories: whole runs of the protocol in the simulated world, with faults, judged by an oracle.
 *
 * A history is made from its seed alone: the shape of the run, the timing, and when whom what
 * befalls. The oracle stands outside the protocol. It asks that
 *   - the run ends, within a bounded virtual time after its last fault;
 *   - weights and every step's loss are those of the undisturbed run of the same shape with one
 * pipeline and no redundancy;
 *   - a roll-back happens if and only if no live worker had a copy of some stage;
 *   - no sample is lost or counts twice;
 *   - a fault that the plan says must fire has fired.
 * Thread: one a history; histories are independent.
 */
#ifndef CULM_SIM_HISTORY_H
#define CULM_SIM_HISTORY_H

#include "net/world.h"
#include "train/config.h"
#include "train/layout.h"

#define CULM_HISTORY_FAULTS_MAX 16

enum culm_harm { CULM_HARM_KILL, CULM_HARM_FREEZE };

struct culm_history_fault {
    /* When: at a phase of a node (by_phase), or at a virtual time after the run began. */
    bool by_phase;
    enum culm_phase phase;
    int64_t step, micro; /* micro -1: any */
    uint64_t at_ms;
    int32_t node; /* by_phase: -1: whoever gets there first */
    enum culm_harm harm;
    uint64_t freeze_ms;  /* 0: for good */
    bool with_neighbour; /* the next node of the ring dies too */
    bool fired;
};

struct culm_history {
    uint64_t seed;
    struct culm_run_shape shape;
    struct culm_cluster_config cluster;
    struct culm_checkpoint_config checkpoint;
    int32_t params_per_stage;
    uint32_t save_fail_percent;
    uint64_t latency_us, jitter_us, job_us;
    int32_t fault_count;
    struct culm_history_fault fault[CULM_HISTORY_FAULTS_MAX];
    bool must_fire; /* every fault has to fire */
    bool log;
};

struct culm_history_result {
    bool ok;
    char why[512]; /* when not ok */
    int64_t losses, rollbacks, recovered, views;
    int32_t faults_fired;
    uint64_t virtual_ms;
};

void culm_history_from_seed(uint64_t seed, struct culm_history *ret_history);
void culm_history_run(struct culm_history *history, struct culm_history_result *ret_result);
/* One line that describes it. */
void culm_history_describe(const struct culm_history *history, char *ret_text, size_t size);

#endif
