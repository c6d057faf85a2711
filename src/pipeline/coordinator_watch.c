/* The coordinator: who lives and does not get on. See patience.h. */
#include "pipeline/coordinator_internal.h"

#include <stdio.h>

#define MS 1000000ull

void culm_coordinator_heartbeat(struct worker *worker, const struct culm_message *message) {
    struct culm_heartbeat heartbeat;
    if (culm_heartbeat_decode(message->meta, message->meta_bytes, &heartbeat) != CULM_OK) {
        return;
    }
    int64_t ms = heartbeat.task_ms;
    worker->progress = heartbeat.progress;
    worker->task_ms = ms;
    worker->task_kind = heartbeat.kind;
    worker->task_stage = heartbeat.stage;
    worker->task_began_ns = worker->seen_ns - (uint64_t)(ms > 0 ? ms : 0) * MS;
}

void culm_coordinator_took(struct culm_coordinator *c, const struct culm_message *message) {
    struct culm_took took;
    if (culm_took_decode(message->meta, message->meta_bytes, &took) == CULM_OK) {
        culm_patience_took(&c->patience, took.kind, took.stage, took.task_ms);
    }
}

void culm_coordinator_check_task(struct culm_coordinator *c, struct worker *worker) {
    int32_t kind = worker->task_kind, stage = worker->task_stage;
    int64_t limit = culm_patience_limit_ms(&c->patience, kind, stage, worker->task_began_ns);
    if (worker->task_ms <= limit) {
        return;
    }
    char task[64], why[160];
    culm_patience_name(kind, stage, task, sizeof task);
    snprintf(why, sizeof why, "%s has gone on for %lld ms and the limit was %lld", task,
             (long long)worker->task_ms, (long long)limit);
    const struct culm_patience_row *row = culm_patience_lost(
        &c->patience, kind, stage, worker->task_ms, worker->task_began_ns, culm_coordinator_now(c));
    culm_coordinator_lose(c, worker, CULM_CAUSE_STUCK, why);
    if (row && row->tries >= CULM_PATIENCE_TRIES) {
        culm_coordinator_fail(c, CULM_ERR_TIMEOUT,
                              "no worker finishes %s: %d limits from %lld ms to %lld ms were too "
                              "short; if it takes longer, raise cluster.stuck_ms, or make it "
                              "smaller with batch.micro or stages",
                              task, row->tries, (long long)row->first_ms, (long long)limit);
    }
}
