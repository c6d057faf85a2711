/*
 * Who leads is decided at a store of keys (sim.h): what a run needs it for, and what it does not.
 *
 * Four workers, two of which may be lost; candidates that stand. Training, and what makes up for a lost worker, goes on while the store
 * is away; the end waits for it. A leader that dies anywhere is followed by another one, of which a last one hears at the store alone
 * that the run is done.
 */
#include "small.h"

#include <stdio.h>
#include <string.h>

#define STEPS 6

static struct culm_history history_of(int64_t lease_ms, uint64_t seed) {
    struct culm_history history = small_history(2, 2, CULM_REDUNDANCY_LAZY, seed);
    history.shape.steps = STEPS;
    history.outlives = true;
    history.candidates = 2;
    history.lease_ms = lease_ms;
    history.must_fire = true;
    return history;
}

static int failed_as(const struct culm_history_result *result, const char *what, bool as_expected) {
    if (result->ok && as_expected) {
        return 0;
    }
    printf("not ok - %s: %s; %lld leaders after the first, %lld steps while the store was away, "
           "%lld losses, %lld roll-backs\n",
           what, result->why, (long long)result->leaders, (long long)result->away_commits,
           (long long)result->losses, (long long)result->rollbacks);
    return 1;
}

static void add_away(struct culm_history *history, const char *event, uint64_t for_ms) {
    history->fault[history->fault_count++] =
        (struct culm_history_fault){.when = CULM_AFTER_EVENT,
                                    .event = event,
                                    .target = CULM_TARGET_LEADER,
                                    .kind = CULM_FAULT_AWAY,
                                    .freeze_ms = for_ms};
}

/* From the first step on, until long after the last one. */
static int away(int64_t lease_ms, bool with_loss) {
    struct culm_history history = history_of(lease_ms, 1);
    struct culm_history_result result;
    char what[80];
    add_away(&history, "step", 5000);
    if (with_loss) {
        history.fault[history.fault_count++] =
            (struct culm_history_fault){.when = CULM_AT_PHASE,
                                        .phase = CULM_PHASE_FORWARD,
                                        .step = 3,
                                        .micro = -1,
                                        .target = CULM_TARGET_NODE,
                                        .node = 1,
                                        .kind = CULM_FAULT_KILL};
    }
    culm_history_run(&history, &result);
    snprintf(what, sizeof what, "the store is away, leases of %lld ms%s", (long long)lease_ms,
             with_loss ? ", and a worker is lost" : "");
    return failed_as(&result, what,
                     result.away_commits == STEPS - 1 && result.rollbacks == 0 &&
                         result.losses == with_loss && result.virtual_ms >= 5000 &&
                         (result.leaders > 0) == (lease_ms < 5000));
}

/* So many happenings after the last checkpoint, around when the end is written. */
static int dies_at_the_end(int32_t delay, uint64_t seed, int64_t *overs, int64_t *leaders) {
    struct culm_history history = history_of(300, seed);
    struct culm_history_result result;
    char what[80];
    history.must_fire = false; /* it may be over before */
    history.fault[history.fault_count++] = (struct culm_history_fault){.when = CULM_AFTER_EVENT,
                                                                       .event = "checkpoint",
                                                                       .skip = STEPS / 2 - 1,
                                                                       .delay = delay,
                                                                       .target = CULM_TARGET_LEADER,
                                                                       .kind = CULM_FAULT_KILL};
    culm_history_run(&history, &result);
    *overs += result.overs;
    *leaders += result.leaders;
    snprintf(what, sizeof what, "the leader dies %d happenings after the last checkpoint", delay);
    return failed_as(&result, what, result.rollbacks == 0 && result.losses == 0);
}

/* One that cannot reach the store for store_ms commits no more until it can; after orphan_ms more it gives up, everyone ends, and
 * who leads next begins with what was saved. */
static int cut_off(int64_t lease_ms, uint64_t for_ms) {
    struct culm_history history = history_of(lease_ms, 1);
    struct culm_history_result result;
    char what[80];
    history.job_us =
        lease_ms > 5000 ? 60000 : 20000; /* it finds out after a third of a lease at most */
    history.settings.crew.store_ms = 500;
    history.settings.checkpoint_every = 0;
    history.settings.crew.wait_ms = 0;
    add_away(&history, "step", for_ms);
    culm_history_run(&history, &result);
    snprintf(what, sizeof what, "cut off for %llu ms, leases of %lld ms",
             (unsigned long long)for_ms, (long long)lease_ms);
    return failed_as(&result, what,
                     result.away_commits > 0 && result.away_commits < STEPS - 2 &&
                         result.rollbacks == 0 && result.virtual_ms >= for_ms &&
                         (result.leaders > 0) == (lease_ms < (int64_t)for_ms));
}

int main(void) {
    int failed = 0;
    failed += cut_off(9000, 5000) + cut_off(1000, 5000) + cut_off(1000, 200000);
    int64_t overs = 0, leaders = 0;
    for (int with_loss = 0; with_loss < 2; with_loss++) {
        failed += away(8000, with_loss) + away(1000, with_loss);
    }
    for (int32_t delay = 0; delay < 60; delay++) {
        for (uint64_t seed = 1; seed <= 3; seed++) {
            failed += dies_at_the_end(delay, seed, &overs, &leaders);
        }
    }
    if (overs < 2 || leaders < 5) {
        printf("not ok - %lld ends that the store alone knew of, %lld leaders\n", (long long)overs,
               (long long)leaders);
        failed++;
    }
    printf("store: %d failed; %lld ends that the store alone knew of, %lld leaders\n", failed,
           (long long)overs, (long long)leaders);
    return failed ? 1 : 0;
}
