/* Passes tasks on to their executor. See exec.h. */
#include "interval/exec.h"

enum culm_status culm_gnn_task_execute(struct culm_job *job) {
    struct culm_gnn_task *task = (struct culm_gnn_task *)job;
    return task->exec->ops->execute(task->exec, task);
}
