/* The numeric executor: compute tasks. See numeric.h. */
#include "train/numeric_internal.h"

#include "base/control.h"
#include "base/pages.h"
#include "base/rng.h"
#include "model/step.h"
#include "train/spans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double culm_numeric_lr(const struct culm_train_config *config, int64_t step) {
    const struct culm_train_span span = culm_train_span_of(config, step);
    return culm_train_span_lr(&span, step);
}

/* --- forward and backward --- */

static void drop_scratch(struct culm_numeric *x, struct numeric_scratch *scratch) {
    if (scratch->data) {
        culm_blob_pool_return(x->o.pool, culm_pages_size(scratch->size_bytes));
        free(scratch->data);
        scratch->data = NULL;
    }
}

/* It grows when a stage comes that needs more: at the start, and when a neighbour is lost. */
static enum culm_status need_scratch(struct culm_numeric *x, struct numeric_scratch *scratch,
                                     size_t bytes, struct culm_error *error) {
    if (scratch->data && bytes <= scratch->size_bytes) {
        return CULM_OK;
    }
    drop_scratch(x, scratch);
    if (culm_blob_pool_charge(x->o.pool, culm_pages_size(bytes)) == CULM_OK) {
        scratch->data = culm_pages_alloc(bytes);
        scratch->size_bytes = bytes;
        if (!scratch->data) {
            culm_blob_pool_return(x->o.pool, culm_pages_size(bytes));
        }
    }
    return scratch->data ? CULM_OK
                         : culm_error_set(error, CULM_ERR_MEMORY,
                                          "out of memory for %zu bytes of scratch", bytes);
}

static enum culm_status prepare_run(struct culm_numeric *x, struct culm_task *task,
                                    struct culm_stage_run *ret_run) {
    const struct culm_train_config *config = x->o.config;
    const void *const *fields = NULL;
    struct numeric_scratch *scratch = task->frc ? &x->frc_scratch : &x->scratch;
    enum culm_status status = numeric_fields(x, task, &fields, &task->job.error);
    if (status == CULM_OK) {
        status =
            need_scratch(x, scratch, numeric_info(x, task->stage)->scratch_bytes, &task->job.error);
    }
    if (status != CULM_OK) {
        return status;
    }
    *ret_run = (struct culm_stage_run){
        .seed = config->seed,
        .iteration = (uint64_t)task->iteration,
        .first_sample =
            culm_run_shape_first_sample(&x->o.plan->shape, task->iteration, task->micro),
        .params = x->state[task->stage].data,
        .fields = fields,
        .input = task->stage > 0 ? task->input->data : NULL,
        .loss_scale = 1.0 / (double)config->batch.global,
        .activations = task->activations->data,
        .scratch = scratch->data,
    };
    return CULM_OK;
}

static struct culm_loss_total *saved_loss(const struct culm_numeric *x,
                                          const struct culm_task *task) {
    size_t behind = numeric_info(x, task->stage)->activation_bytes;
    return (struct culm_loss_total *)((char *)task->activations->data + behind);
}

/* Which samples forward was given, for backward to tell: behind the loss. */
static uint64_t *saved_ids(const struct culm_numeric *x, const struct culm_task *task) {
    return (uint64_t *)(saved_loss(x, task) + 1);
}

static enum culm_status run_forward(struct culm_numeric *x, struct culm_task *task) {
    struct culm_stage_run run;
    if (task->frc && task->cursor > 0) {
        run = x->frc_run;
    } else {
        enum culm_status status = prepare_run(x, task, &run);
        if (status != CULM_OK) {
            return status;
        }
        run.output = task->output ? task->output->data : NULL;
    }
    run.stop = task->frc ? &task->job.stop : NULL;
    enum culm_status status = culm_stage_forward(x->o.plan->stage[task->stage], x->o.device, &run);
    if (status == CULM_ERR_AGAIN) {
        x->frc_run = run;
        task->cursor = run.cursor;
        return status;
    }
    if (status == CULM_OK && numeric_info(x, task->stage)->loss_count > 0) {
        *saved_loss(x, task) = run.loss;
    }
    if (status == CULM_OK && numeric_info(x, task->stage)->field_count > 0) {
        *saved_ids(x, task) = task->frc ? x->frc_samples.ids : x->samples.ids;
    }
    return status;
}

/* Counts beyond 2^24 do not fit a float; as two they are summed exactly. */
static void put_count(float *pair, int64_t count) {
    pair[0] = (float)(count / 4096);
    pair[1] = (float)(count % 4096);
}

static double get_count(const float *pair) { return 4096.0 * (double)pair[0] + (double)pair[1]; }

/* They travel with the gradients (plan.h). */
static void add_statistics(struct culm_numeric *x, const struct culm_task *task,
                           const struct culm_stage_run *run) {
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    float *sum = run->grads + info->grad_floats;
    float own[CULM_STATISTICS_FLOATS] = {0};
    if (info->loss_count > 0) {
        const struct culm_loss_total *loss = saved_loss(x, task);
        own[CULM_STATISTIC_LOSS] = (float)(loss->loss * run->loss_scale);
        own[CULM_STATISTIC_SAMPLES] = (float)x->o.config->batch.micro;
        put_count(own + CULM_STATISTIC_ROWS, loss->rows);
        put_count(own + CULM_STATISTIC_COUNTED, loss->counted);
    }
    if (info->field_count > 0) {
        /* Forward and backward must have been given the same. */
        uint64_t ids = x->samples.ids, forward = *saved_ids(x, task);
        ids = forward == ids ? ids : culm_rng_mix(ids, forward);
        for (int i = 0; i < CULM_IDS_PARTS; i++) {
            own[CULM_STATISTIC_IDS + i] = (float)culm_order_ids_part(ids, i);
        }
    }
    for (int i = 0; i < CULM_STATISTICS_FLOATS; i++) {
        sum[i] = task->first ? own[i] : sum[i] + own[i];
    }
}

static enum culm_status run_backward(struct culm_numeric *x, struct culm_task *task) {
    struct culm_stage_run run;
    enum culm_status status = prepare_run(x, task, &run);
    if (status != CULM_OK) {
        return status;
    }
    run.grads = task->grads->data;
    run.first = task->first;
    run.d_output = task->d_output ? task->d_output->data : NULL;
    run.d_input = task->d_input ? task->d_input->data : NULL;
    status = culm_stage_backward(x->o.plan->stage[task->stage], x->o.device, &run);
    if (status != CULM_OK || !(numeric_info(x, task->stage)->loss_count > 0 ||
                               x->o.plan->layout.stage[task->stage].reads)) {
        return status;
    }
    add_statistics(x, task, &run);
    return CULM_OK;
}

static enum culm_status check_used(struct culm_numeric *x, struct culm_task *task) {
    const struct culm_stage_set stage = culm_stage_set_of(task->stage);
    return numeric_check_values(x, task, &stage);
}

/* --- sums --- */

static void fold_copy(void *self, void *out, const void *a, size_t bytes) {
    (void)self;
    memcpy(out, a, bytes);
}

static void fold_add(void *self, void *out, const void *a, const void *b, size_t bytes) {
    struct culm_numeric *x = self;
    CULM_RUN(x->o.device, add, .y = culm_out_f32(out), .a = culm_in_f32(a), .b = culm_in_f32(b),
             .count = (int64_t)(bytes / sizeof(float)));
}

/* The gradient of a parameter: its use, or embedding + head, added once. NULL: a use is missing. */
static const float *total(struct culm_numeric *x, const struct culm_task *task, int32_t param,
                          int64_t *ret_count) {
    const struct culm_layout *layout = &x->o.plan->layout;
    const float *sum = NULL;
    int32_t uses = 0;
    for (int32_t g = 0; g < layout->grad_count; g++) {
        if (layout->grad[g].param != param) {
            continue;
        }
        if (!task->grad[g]) {
            return NULL;
        }
        *ret_count = (int64_t)(layout->grad[g].size_bytes / sizeof(float));
        const float *use = task->grad[g] == x->flipped ? x->flip_copy : task->grad[g]->data;
        if (uses++ > 0) {
            CULM_RUN(x->o.device, add, .y = culm_out_f32(x->tied), .a = culm_in_f32(sum),
                     .b = culm_in_f32(use), .count = *ret_count);
            use = x->tied;
        }
        sum = use;
    }
    return sum;
}

static enum culm_status missing(struct culm_task *task, int32_t param) {
    return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                          "step %lld: the gradient of parameter %d is missing",
                          (long long)task->iteration, param);
}

/* A statistic that counts something, of at most `most`; what is no such number came damaged, and is
 * 0. */
static int64_t counted_of(float value, float most) {
    return value >= 0 && value <= most ? (int64_t)value : 0;
}

/* Which samples were read for a stage, of all micro-batches. */
static uint64_t ids_of(const struct culm_layout *layout, const struct culm_task *task,
                       int32_t stage) {
    const struct culm_stage_desc *desc = &layout->stage[stage];
    if (!desc->reads) {
        return 0;
    }
    const float *statistics = task->grad[desc->first_grad + desc->grad_count - 1]->data;
    uint32_t sum[CULM_IDS_PARTS];
    for (int i = 0; i < CULM_IDS_PARTS; i++) {
        sum[i] = (uint32_t)counted_of(statistics[CULM_STATISTIC_IDS + i], 0x1p32f - 256);
    }
    return culm_order_ids_told(sum);
}

static enum culm_status run_norm(struct culm_numeric *x, struct culm_task *task) {
    const struct culm_layout *layout = &x->o.plan->layout;
    enum culm_status status = numeric_check_values(x, task, &task->stages);
    if (status != CULM_OK) {
        return status;
    }
    for (int32_t p = 0; p < layout->param_count; p++) {
        int64_t count = 0;
        if (!culm_stage_set_meets(&layout->param[p].stages, &task->stages)) {
            continue;
        }
        const float *grad = total(x, task, p, &count);
        if (!grad) {
            return missing(task, p);
        }
        double squares = culm_device_sum_squares_digest(x->o.device, grad, count, &x->normed[p]);
        /* What is not a gradient has no part in the norm, but must be finite all the same. */
        bool apart = x->o.plan->graph->param[p].statistic && isfinite(squares);
        task->norm[p] = apart ? 0 : squares;
    }
    for (int32_t s = 0; s < layout->stages && task->ids; s++) {
        task->ids[s] = culm_stage_set_has(&task->stages, s) ? ids_of(layout, task, s) : 0;
    }
    if (culm_stage_set_has(&task->stages, layout->stages - 1)) {
        const float *statistics = task->grad[layout->grad_count - 1]->data;
        double rows = get_count(statistics + CULM_STATISTIC_ROWS);
        double counted = get_count(statistics + CULM_STATISTIC_COUNTED);
        task->loss = (double)statistics[CULM_STATISTIC_LOSS];
        task->samples = counted_of(statistics[CULM_STATISTIC_SAMPLES], 0x1p52f);
        task->weight = counted > 0 ? counted / rows : 1;
    }
    return CULM_OK;
}

/* Where the vectors of a tensor are in its stage's state. */
static struct culm_optimizer_tensor tensor_of(const struct culm_numeric *x, int32_t stage,
                                              int32_t index) {
    const struct culm_stage_info *info = numeric_info(x, stage);
    const struct culm_param_info *param = &info->params[index];
    struct culm_optimizer_tensor tensor = {.count = param->count,
                                           .decay = param->decay,
                                           .statistic = param->statistic,
                                           .momentum = param->momentum};
    for (int64_t part = 0; part < x->o.plan->state_parts; part++) {
        tensor.part[part] = x->state[stage].data + part * info->param_floats + param->offset;
    }
    return tensor;
}

/* Steps one tensor; what it reads has to be what was put there. */
static enum culm_status step_tensor(struct culm_numeric *x, struct culm_task *task,
                                    const struct culm_optimizer_step *step, int32_t index) {
    const struct culm_param_info *param = &numeric_info(x, task->stage)->params[index];
    const struct culm_optimizer_tensor tensor = tensor_of(x, task->stage, index);
    struct numeric_record *record = &x->state[task->stage].record[index];
    struct culm_step_digest digest;
    int64_t count = 0;
    const float *grad = total(x, task, param->global_index, &count);
    if (!grad) {
        return missing(task, param->global_index);
    }
    bool rest = culm_optimizer_keeps(step, &tensor);
    culm_optimizer_apply(step, x->o.device, &tensor, grad, &digest);
    if (digest.before[0] != record->value ||
        (rest && culm_rng_mix(digest.before[1], digest.before[2]) != record->rest)) {
        return numeric_damaged(task, task->stage, "the state", param->name);
    }
    if (digest.grad != x->normed[param->global_index]) {
        return numeric_damaged(task, task->stage, "the gradient", param->name);
    }
    record->value = digest.after[0];
    record->rest = rest ? culm_rng_mix(digest.after[1], digest.after[2]) : record->rest;
    return CULM_OK;
}

static struct culm_optimizer_step step_of(const struct culm_numeric *x,
                                          const struct culm_task *task) {
    const struct culm_train_span span = culm_train_span_of(x->o.config, task->iteration);
    return culm_optimizer_step_at(&span.optimizer, task->iteration,
                                  culm_train_span_lr(&span, task->iteration), task->clip,
                                  x->o.plan->shape.micros);
}

/* Steps a part of a tensor that is being copied. What it has to be is looked at when the copy is whole. */
static enum culm_status run_advance(struct culm_numeric *x, struct culm_task *task) {
    const struct culm_param_info *param = &numeric_info(x, task->stage)->params[task->index];
    const struct culm_optimizer_step step = step_of(x, task);
    struct culm_step_digest digest;
    int64_t first, count, all = 0;
    const float *grad = total(x, task, param->global_index, &all);
    if (!grad) {
        return missing(task, param->global_index);
    }
    enum culm_status status = numeric_state_range(x, task, &first, &count);
    if (status != CULM_OK) {
        return culm_error_set(&task->job.error, status, "'%s': no part of it has come",
                              param->name);
    }
    struct culm_optimizer_tensor tensor = tensor_of(x, task->stage, task->index);
    tensor.count = count;
    for (int64_t part = 0; part < x->o.plan->state_parts; part++) {
        tensor.part[part] += first;
    }
    culm_optimizer_apply(&step, x->o.device, &tensor, grad + first, &digest);
    return CULM_OK;
}

static enum culm_status run_step(struct culm_numeric *x, struct culm_task *task) {
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    const struct culm_optimizer_step step = step_of(x, task);
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < info->param_count && status == CULM_OK; i++) {
        if (i == info->param_count / 2 && x->exec.world) {
            const struct culm_fault_point point = {CULM_PHASE_STEP, task->iteration, -1};
            x->exec.world->ops->fault(x->exec.world, &point);
            numeric_flip_now(x, task);
        }
        status = step_tensor(x, task, &step, i);
    }
    if (status == CULM_OK) {
        numeric_tell(x, task);
    }
    return status;
}

/* --- dispatch, life --- */

static enum culm_status execute(struct culm_exec *exec, struct culm_task *task) {
    struct culm_numeric *x = (struct culm_numeric *)exec;
    static const struct culm_fold_ops fold = {fold_copy, fold_add};
    if (x->o.device) {
        culm_control_reset();
    }
    if (__atomic_load_n(&x->flip, __ATOMIC_ACQUIRE)) {
        numeric_flip_now(x, task);
    }
    enum culm_status status;
    switch (task->kind) {
    case CULM_TASK_LOAD:
        status = numeric_load(x, task);
        if (status == CULM_OK) {
            numeric_made(x, task);
        }
        return status;
    case CULM_TASK_DROP: numeric_state_drop(x, task->stage); return CULM_OK;
    case CULM_TASK_FORWARD:
        culm_network_let_go(x->o.network); /* all has been loaded: files may be large */
        status = run_forward(x, task);
        return status == CULM_OK && task->late ? check_used(x, task) : status;
    case CULM_TASK_BACKWARD:
        status = run_backward(x, task);
        return status == CULM_OK && task->late ? check_used(x, task) : status;
    case CULM_TASK_FOLD: return culm_task_fold(task, x->o.pool, &fold, x);
    case CULM_TASK_NORM: return run_norm(x, task);
    case CULM_TASK_STEP: return run_step(x, task);
    case CULM_TASK_EXPORT: return numeric_state_export(x, task);
    case CULM_TASK_IMPORT: return numeric_state_import(x, task);
    case CULM_TASK_ADVANCE: return run_advance(x, task);
    case CULM_TASK_COMPLETE:
        status = numeric_state_make(x, task->stage, &task->job.error); /* it may have no tensor */
        if (status == CULM_OK) {
            numeric_made(x, task);
        }
        return status;
    case CULM_TASK_SNAPSHOT: numeric_state_snapshot(x, task); return CULM_OK;
    case CULM_TASK_SAVE: return numeric_save(x, task);
    case CULM_TASK_PUBLISH: return numeric_publish(x, task);
    case CULM_TASK_DISCARD: return numeric_discard(x, task);
    case CULM_TASK_FINISH: return numeric_finish(x, task);
    case CULM_TASK_FIND: return numeric_find(x, task);
    case CULM_TASK_ROOM: return numeric_room(x, task);
    }
    return CULM_ERR_INTERNAL;
}

static const struct culm_exec_ops numeric_ops = {sizeof numeric_ops, execute};

/* Bytes of the largest parameter with several uses. */
static size_t largest_tied(const struct culm_layout *layout) {
    size_t most = 0;
    for (int32_t a = 0; a < layout->grad_count; a++) {
        for (int32_t b = 0; b < a && layout->grad[a].param >= 0; b++) {
            if (layout->grad[a].param == layout->grad[b].param &&
                layout->grad[a].size_bytes > most) {
                most = layout->grad[a].size_bytes;
            }
        }
    }
    return most;
}

enum culm_status culm_numeric_new(const struct culm_numeric_options *options,
                                  struct culm_exec **ret_exec, struct culm_error *error) {
    struct culm_numeric *x = calloc(1, sizeof *x);
    if (!x) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    x->exec = (struct culm_exec){&numeric_ops, options->world};
    x->o = *options;
    x->state = calloc((size_t)options->plan->shape.stages, sizeof *x->state);
    if (!x->state) {
        culm_numeric_free(&x->exec);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    if (options->device) {
        enum culm_status status = numeric_fields_init(x, error);
        if (status == CULM_OK) {
            size_t tied = largest_tied(&options->plan->layout);
            x->tied = culm_pages_alloc(tied);
            x->normed = calloc((size_t)options->plan->layout.param_count + 1, sizeof *x->normed);
            status = x->tied && x->normed ? CULM_OK
                                          : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
        }
        if (status != CULM_OK) {
            culm_numeric_free(&x->exec);
            return status;
        }
    }
    *ret_exec = &x->exec;
    return CULM_OK;
}

void culm_numeric_free(struct culm_exec *exec) {
    struct culm_numeric *x = (struct culm_numeric *)exec;
    if (!x) {
        return;
    }
    for (int32_t s = 0; x->state && s < x->o.plan->shape.stages; s++) {
        numeric_state_drop(x, s);
        free(x->state[s].record);
        free(x->state[s].saved);
    }
    free(x->state);
    culm_blob_clear(&x->flipped);
    free(x->flip_copy);
    free(x->normed);
    drop_scratch(x, &x->scratch);
    drop_scratch(x, &x->frc_scratch);
    numeric_fields_release(x);
    free(x->tied);
    free(x);
}
