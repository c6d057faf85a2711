/* The coordinator: who lives and does not get on. See ledger/patience.h. */
#include "pipeline/coordinator_internal.h"

#include <stdio.h>

#define MS 1000000ull

/* "the backward task of stage 2". */
static void name_task(int32_t kind, int32_t stage, char *ret_text, size_t size) {
    static const char *const what[CULM_TASK_SAVE + 1] = {
        [CULM_TASK_LOAD] = "loading",
        [CULM_TASK_DROP] = "the release",
        [CULM_TASK_FORWARD] = "a forward task",
        [CULM_TASK_BACKWARD] = "a backward task",
        [CULM_TASK_FOLD] = "a sum",
        [CULM_TASK_NORM] = "taking the norms",
        [CULM_TASK_STEP] = "the optimizer step",
        [CULM_TASK_EXPORT] = "sending a tensor",
        [CULM_TASK_IMPORT] = "receiving a tensor",
        [CULM_TASK_SNAPSHOT] = "a snapshot",
        [CULM_TASK_SAVE] = "writing a checkpoint",
    };
    if (kind < 0 || kind > CULM_TASK_SAVE || stage < 0 || stage >= CULM_MAX_STAGES) {
        snprintf(ret_text, size, "a task");
    } else if (kind == CULM_TASK_NORM) {
        snprintf(ret_text, size, "%s", what[kind]); /* of all its stages at once */
    } else {
        snprintf(ret_text, size, "%s of stage %d", what[kind], stage);
    }
}

void culm_coordinator_heartbeat(struct worker *worker, const struct culm_message *message) {
    struct culm_heartbeat heartbeat;
    if (culm_heartbeat_decode(message->meta, message->meta_bytes, &heartbeat) != CULM_OK) {
        return;
    }
    int64_t ms = heartbeat.task_ms;
    worker->progress = heartbeat.progress;
    worker->task_ms = ms;
    worker->task_kind = heartbeat.kind;
    worker->task_stage = heartbeat.part;
    worker->task_began_ns = worker->seen_ns - (uint64_t)(ms > 0 ? ms : 0) * MS;
}

void culm_coordinator_took(struct culm_coordinator *c, const struct culm_message *message) {
    struct culm_took took;
    if (culm_took_decode(message->meta, message->meta_bytes, &took) == CULM_OK) {
        culm_patience_took(&c->patience, took.kind, took.part, took.task_ms);
    }
}

void culm_coordinator_check_task(struct culm_coordinator *c, struct worker *worker) {
    int32_t kind = worker->task_kind, stage = worker->task_stage;
    int64_t limit = culm_patience_limit_ms(&c->patience, kind, stage, worker->task_began_ns);
    if (worker->task_ms <= limit) {
        return;
    }
    char task[64], why[160];
    name_task(kind, stage, task, sizeof task);
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
