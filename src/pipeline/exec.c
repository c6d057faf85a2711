/* What all executors share: dispatch, and the fold over the lane tree. */
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

struct folding {
    struct culm_task *task;
    struct culm_blob_pool *pool;
    const struct culm_fold_ops *ops;
    void *self;
};

/* Writes the sum over `node` to out. A node is either given as a slice or is the sum of its two
 * halves; the left half comes first. */
static enum culm_status fold(const struct folding *f, int32_t node, void *out) {
    struct culm_task *task = f->task;
    const struct culm_slice *slice = &task->slice[node];
    if (slice->blob) {
        f->ops->copy(f->self, out, (const char *)slice->blob->data + slice->offset_bytes,
                     task->size_bytes);
        return CULM_OK;
    }
    const struct culm_lane_node *at = &task->tree->node[node];
    if (at->left < 0) {
        return CULM_ERR_INTERNAL;
    }
    enum culm_status status = fold(f, at->left, out);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_slice *right = &task->slice[at->right];
    if (right->blob) {
        f->ops->add(f->self, out, out, (const char *)right->blob->data + right->offset_bytes,
                    task->size_bytes);
        return CULM_OK;
    }
    struct culm_blob *partial = NULL;
    status = culm_blob_pool_get(f->pool, task->size_bytes, &partial);
    if (status != CULM_OK) {
        return culm_error_set(&task->job.error, status, "out of memory for a sum of %zu bytes",
                              task->size_bytes);
    }
    status = fold(f, at->right, partial->data);
    if (status == CULM_OK) {
        f->ops->add(f->self, out, out, partial->data, task->size_bytes);
    }
    culm_blob_unref(partial);
    return status;
}

enum culm_status culm_task_fold(struct culm_task *task, struct culm_blob_pool *pool,
                                const struct culm_fold_ops *ops, void *self) {
    const struct folding f = {task, pool, ops, self};
    return fold(&f, task->root, task->output->data);
}
