/* What all executors share: dispatch, and sums. */
#include "pipeline/exec.h"

/* The fault point that a task passes when it begins; -1: none, or inside it. */
static int phase_of(const struct culm_task *task) {
    switch (task->kind) {
    case CULM_TASK_LOAD: return CULM_PHASE_LOAD;
    case CULM_TASK_FORWARD: return task->frc ? CULM_PHASE_FRC : CULM_PHASE_FORWARD;
    case CULM_TASK_BACKWARD: return CULM_PHASE_BACKWARD;
    case CULM_TASK_EXPORT:
    case CULM_TASK_IMPORT: return CULM_PHASE_TRANSFER;
    default: return -1;
    }
}

enum culm_status culm_task_execute(struct culm_job *job) {
    struct culm_task *task = (struct culm_task *)job;
    int phase = phase_of(task);
    if (phase >= 0 && task->exec->world) {
        const struct culm_fault_point point = {
            (uint32_t)phase, task->iteration,
            culm_phase_has_part((enum culm_phase)phase) ? task->micro : -1};
        task->exec->world->ops->fault(task->exec->world, &point);
    }
    return task->exec->ops->execute(task->exec, task);
}

void culm_task_release(struct culm_task *task) {
    culm_blob_clear(&task->input);
    culm_blob_clear(&task->output);
    culm_blob_clear(&task->activations);
    culm_blob_clear(&task->grads);
    culm_blob_clear(&task->d_output);
    culm_blob_clear(&task->d_input);
}

enum culm_status culm_task_fold(struct culm_task *task, struct culm_blob_pool *pool,
                                const struct culm_fold_ops *ops, void *self) {
    const struct culm_fold fold = {
        task->tree, task->slice, task->size_bytes, pool, ops, self,
    };
    return culm_fold_sum(&fold, task->root, task->output->data, &task->job.error);
}
