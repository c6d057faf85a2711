/* The numeric executor: sums, dispatch of tasks, its life. See numeric.h. */
#include "gnn/numeric_internal.h"

#include "base/control.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- sums --- */

static void fold_copy(void *self, void *out, const void *a, size_t bytes) {
    (void)self;
    memcpy(out, a, bytes);
}

static void fold_add(void *self, void *out, const void *a, const void *b, size_t bytes) {
    struct culm_gnn_numeric *x = self;
    CULM_RUN(x->o.device, add, .y = culm_out_f32(out), .a = culm_in_f32(a), .b = culm_in_f32(b),
             .count = (int64_t)(bytes / sizeof(float)));
}

static enum culm_status run_fold(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    static const struct culm_fold_ops ops = {fold_copy, fold_add};
    const struct culm_fold fold = {
        .tree = task->tree,
        .slice = task->slice,
        .size_bytes = x->o.layout->gradient_bytes[task->stage],
        .pool = x->o.pool,
        .ops = &ops,
        .self = x,
    };
    enum culm_status status = gnn_blob(x, fold.size_bytes, &task->output, &task->job.error);
    return status == CULM_OK
               ? culm_fold_sum(&fold, task->root, task->output->data, &task->job.error)
               : status;
}

/* --- dispatch, life --- */

static enum culm_status run_pack(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    struct gnn_input *input;
    enum culm_status status = gnn_find_input(x, task, &input);
    if (status == CULM_OK) {
        status = gnn_spill_load(x, task, input);
    }
    if (status == CULM_OK) {
        task->output = culm_blob_ref(input->packed);
    }
    return status;
}

static enum culm_status execute(struct culm_gnn_exec *exec, struct culm_gnn_task *task) {
    struct culm_gnn_numeric *x = (struct culm_gnn_numeric *)exec;
    culm_control_reset();
    switch (task->kind) {
    case CULM_GNN_TASK_OWN: return gnn_own(x, task);
    case CULM_GNN_TASK_GATHER: return gnn_gather(x, task);
    case CULM_GNN_TASK_SLICE: return gnn_make_slice(x, task);
    case CULM_GNN_TASK_FOLD: return run_fold(x, task);
    case CULM_GNN_TASK_PACK: return run_pack(x, task);
    case CULM_GNN_TASK_APPLY: return gnn_apply(x, task);
    case CULM_GNN_TASK_TAKE: return gnn_take(x, task);
    case CULM_GNN_TASK_DROP: gnn_drop(x, task->interval); return CULM_OK;
    case CULM_GNN_TASK_LOAD: return gnn_load(x, task);
    case CULM_GNN_TASK_STEP: return gnn_step(x, task);
    case CULM_GNN_TASK_WEIGHTS: return gnn_copy_weights(x, task);
    case CULM_GNN_TASK_EXPORT: return gnn_export(x, task);
    case CULM_GNN_TASK_IMPORT: return gnn_import(x, task);
    case CULM_GNN_TASK_SAVE: return gnn_save(x, task);
    case CULM_GNN_TASK_FINISH: return gnn_finish(x, task);
    case CULM_GNN_TASK_PUBLISH: return gnn_publish(x, task);
    case CULM_GNN_TASK_DISCARD: return gnn_discard(x, task);
    case CULM_GNN_TASK_ROOM: return gnn_find_room(x, task);
    case CULM_GNN_TASK_FIND: return gnn_find(x, task);
    }
    return CULM_ERR_INTERNAL;
}

void culm_gnn_numeric_give_logits(struct culm_gnn_exec *exec, bool give) {
    ((struct culm_gnn_numeric *)exec)->give_logits = give;
}

static const struct culm_gnn_exec_ops numeric_ops = {sizeof numeric_ops, execute};

enum culm_status culm_gnn_numeric_new(const struct culm_gnn_numeric_options *options,
                                      struct culm_gnn_exec **ret_exec, struct culm_error *error) {
    struct culm_gnn_numeric *x = calloc(1, sizeof *x);
    if (!x) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    x->exec.ops = &numeric_ops;
    x->spill = -1;
    x->o = *options;
    x->o.kept_most = options->kept_most > 0 ? options->kept_most : CULM_GNN_KEPT_MOST;
    x->weights = options->model->weights_at[options->model->stages];
    static const struct culm_lineage unchanged = {0};
    enum culm_status status = culm_gnn_spans_read(options->lineage ? options->lineage : &unchanged,
                                                  options->config, &x->spans, error);
    if (status != CULM_OK) {
        free(x);
        return status;
    }
    for (int32_t i = 0; i < options->layout->steps; i++) {
        const struct culm_gnn_step *step = &options->layout->step[i];
        bool back = step->kind == CULM_GNN_LOSS || step->kind == CULM_GNN_BACKWARD;
        if (step->makes >= 0) {
            x->flow[step->makes] =
                (struct gnn_flow){step->stage - back, back, step->kind == CULM_GNN_EVALUATE};
        }
    }
    x->parts = culm_optimizer_parts(&x->spans.span[0].optimizer);
    x->input = calloc((size_t)options->layout->intervals, sizeof *x->input);
    if (!x->input) {
        culm_gnn_spans_release(&x->spans);
        free(x);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    *ret_exec = &x->exec;
    return CULM_OK;
}

void culm_gnn_numeric_free(struct culm_gnn_exec *exec) {
    struct culm_gnn_numeric *x = (struct culm_gnn_numeric *)exec;
    if (!x) {
        return;
    }
    for (int32_t i = 0; i < x->o.layout->intervals; i++) {
        gnn_drop(x, i);
    }
    gnn_state_drop(x);
    struct gnn_room *rooms[] = {&x->table,   &x->activations, &x->scratch,  &x->made,
                                &x->index,   &x->score[0],    &x->score[1], &x->wide[0],
                                &x->wide[1], &x->wide[2]};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        gnn_room_drop(x, rooms[i]);
    }
    if (x->spill >= 0) {
        close(x->spill);
    }
    free(x->input);
    culm_gnn_spans_release(&x->spans);
    free(x);
}
