/*
 * The leader: checkpoints that cannot be loaded.
 *
 * One that a worker cannot load is looked at here: if it is broken, the run goes back to the one before; if it
 * is whole, the trouble is that worker's, which is lost like any that fails (crew/failures.h).
 */
#include "pipeline/leader_internal.h"

#include "base/mark.h"

#include <stdio.h>
#include <string.h>

void leader_unloaded(struct culm_pipeline_leader *leader, struct worker *worker,
                     const struct culm_message *message) {
    struct culm_unloaded unloaded;
    if (culm_unloaded_decode(message->meta, message->meta_bytes, &unloaded) != CULM_OK ||
        leader->phase != LOADING || unloaded.view != leader->view->number) {
        return;
    }
    CULM_MARK(pipeline_unloaded);
    worker->unloaded_view = unloaded.view;
    worker->unloaded_status = unloaded.status;
    snprintf(worker->unloaded, sizeof worker->unloaded, "%.*s", (int)sizeof worker->unloaded - 1,
             unloaded.why);
    leader->find_due = true;
    leader_find_if_due(leader);
}

void leader_find_if_due(struct culm_pipeline_leader *leader) {
    if (leader->find_due && !leader->io_busy) {
        leader->find_due = false;
        leader_io_start(leader, CULM_TASK_FIND, leader->checkpoint_version);
    }
}

static void lose_unloaded(struct culm_pipeline_leader *leader) {
    for (int32_t i = 0; i < leader->crew.mates.count && leader->phase == LOADING; i++) {
        struct worker *worker = worker_at(leader, i);
        if (worker->mate.alive && worker->unloaded_view == leader->view->number) {
            CULM_MARK(pipeline_unloaded_is_its_own_trouble);
            struct culm_failed failed = {.status = worker->unloaded_status};
            snprintf(failed.why, sizeof failed.why, "%s", worker->unloaded);
            culm_crew_failed(&leader->crew, &worker->mate, &failed);
            return; /* a new view: the others try once more */
        }
    }
}

void leader_found(struct culm_pipeline_leader *leader) {
    if (leader->phase != LOADING && leader->phase != WAITING) {
        return;
    }
    int64_t version = leader->io.version;
    if (leader->io.job.status != CULM_OK || version == leader->checkpoint_version) {
        lose_unloaded(leader);
        return;
    }
    CULM_MARK(pipeline_checkpoint_is_damaged);
    char reason[CULM_REASON_MAX], path[CULM_SOURCE_MAX];
    snprintf(path, sizeof path, "%s", leader->checkpoint_path);
    snprintf(reason, sizeof reason,
             version > leader->checkpoint_version
                 ? "the checkpoint of step %lld is gone, and there is a newer one"
                 : "the checkpoint of step %lld is damaged",
             (long long)leader->checkpoint_version);
    leader_checkpoint_event(leader, leader->checkpoint_version, path, false, false, reason);
    leader->checkpoint_version = version;
    snprintf(leader->checkpoint_path, sizeof leader->checkpoint_path, "%.*s", CULM_SOURCE_MAX - 1,
             leader->io.text);
    leader_rollback(leader, reason);
}
