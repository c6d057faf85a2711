/* The numeric executor: sums, the state of a holder, dispatch of tasks. See numeric.h. */
#include "gnn/numeric_internal.h"

#include "base/control.h"
#include "base/pages.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- for all files --- */

enum culm_status gnn_room(struct culm_gnn_numeric *x, struct gnn_room *room, size_t bytes,
                          struct culm_error *error) {
    if (room->data && bytes <= room->size_bytes) {
        return CULM_OK;
    }
    if (room->data) {
        culm_blob_pool_return(x->o.pool, culm_pages_size(room->size_bytes));
        free(room->data);
        room->data = NULL;
    }
    if (culm_blob_pool_charge(x->o.pool, culm_pages_size(bytes)) == CULM_OK) {
        room->data = culm_pages_alloc(bytes);
        room->size_bytes = bytes;
        if (!room->data) {
            culm_blob_pool_return(x->o.pool, culm_pages_size(bytes));
        }
    }
    return room->data
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for %zu bytes", bytes);
}

void gnn_room_drop(struct culm_gnn_numeric *x, struct gnn_room *room) {
    if (room->data) {
        culm_blob_pool_return(x->o.pool, culm_pages_size(room->size_bytes));
        free(room->data);
        room->data = NULL;
    }
}

enum culm_status gnn_blob(struct culm_gnn_numeric *x, size_t bytes, struct culm_blob **ret_blob,
                          struct culm_error *error) {
    enum culm_status status = culm_blob_pool_get(x->o.pool, bytes, ret_blob);
    return status == CULM_OK ? CULM_OK
                             : culm_error_set(error, status, "out of memory for %zu bytes", bytes);
}

enum culm_status gnn_input(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                           struct gnn_input **ret_input) {
    *ret_input = &x->input[task->interval];
    return (*ret_input)->n > 0
               ? CULM_OK
               : culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                                "interval %d was requested, but is not here", task->interval);
}

enum culm_status gnn_wrong_rows(struct culm_gnn_task *task, const char *what, size_t have,
                                size_t want) {
    return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                          "interval %d, epoch %lld: %s of %zu bytes, %zu are needed",
                          task->interval, (long long)task->epoch, what, have, want);
}

/* --- rows in f32 or bf16 --- */

enum culm_status gnn_make(struct culm_gnn_numeric *x, struct gnn_room *room, void *rows,
                          int64_t count, float **ret_rows, struct culm_error *error) {
    if (x->o.model->rows == CULM_F32) {
        *ret_rows = rows;
        return CULM_OK;
    }
    enum culm_status status = gnn_room(x, room, (size_t)(count + 16) * sizeof(float), error);
    *ret_rows = room->data;
    return status;
}

enum culm_status gnn_widen(struct culm_gnn_numeric *x, struct gnn_room *room, const void *rows,
                           int64_t count, const float **ret_rows, struct culm_error *error) {
    float *wide;
    enum culm_status status = gnn_make(x, room, (void *)rows, count, &wide, error);
    if (status == CULM_OK && wide != rows) {
        CULM_RUN(x->o.device, affine, .y = culm_out_f32(wide), .x = gnn_in(x, rows), .count = count,
                 .scale = 1);
    }
    *ret_rows = wide;
    return status;
}

void gnn_narrow(struct culm_gnn_numeric *x, void *rows, const float *made, int64_t count) {
    if (made != rows) {
        CULM_RUN(x->o.device, affine, .y = gnn_out(x, rows), .x = culm_in_f32(made), .count = count,
                 .scale = 1);
    }
}

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

/* --- the state of a holder --- */

static size_t state_bytes(const struct culm_gnn_numeric *x) {
    return (size_t)x->parts * (size_t)x->weights * sizeof(float);
}

static uint64_t digest_of(struct culm_gnn_numeric *x, const float *state, int64_t version) {
    uint64_t digest = culm_device_digest(x->o.device, state, (int64_t)x->parts * x->weights);
    return culm_rng_mix(digest, (uint64_t)version);
}

enum culm_status gnn_state(struct culm_gnn_numeric *x, struct culm_error *error) {
    if (!x->state && culm_blob_pool_charge(x->o.pool, culm_pages_size(state_bytes(x))) == CULM_OK) {
        x->state = culm_pages_zeroed(state_bytes(x));
        if (!x->state) {
            culm_blob_pool_return(x->o.pool, culm_pages_size(state_bytes(x)));
        }
    }
    return x->state ? CULM_OK
                    : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for %zu bytes of state",
                                     state_bytes(x));
}

/* Checks that there is a state, and that it has this version; -1: any. */
static enum culm_status holds(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                              int64_t version) {
    if (x->state && (version < 0 || x->version == version)) {
        return CULM_OK;
    }
    return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                          "version %lld of the weights was requested, but version %lld is here",
                          (long long)version, (long long)(x->state ? x->version : -1));
}

static enum culm_status run_load(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    enum culm_status status = gnn_load(x, task);
    if (status == CULM_OK) {
        x->version = task->version;
        task->digest = digest_of(x, x->state, x->version);
    }
    return status;
}

/* Whether all values of the gradient are finite. Others would spread to the weights. */
static bool is_finite(const struct culm_gnn_numeric *x, const struct culm_gnn_task *task) {
    bool finite = true;
    for (int32_t s = 0; s < x->o.layout->stages && finite; s++) {
        int64_t count = (int64_t)(x->o.layout->gradient_bytes[s] / sizeof(float));
        finite = count == 0 ||
                 isfinite(culm_device_sum_squares(x->o.device, task->whole[s]->data, count));
    }
    return finite;
}

static enum culm_status run_step(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    enum culm_status status = holds(x, task, task->epoch - 1);
    if (status != CULM_OK) {
        return status;
    }
    status = gnn_room(x, &x->table, (size_t)x->weights * sizeof(float), &task->job.error);
    if (status != CULM_OK) {
        return status;
    }
    for (int32_t s = 0; s < x->o.layout->stages; s++) {
        const struct culm_blob *whole = task->whole[s];
        size_t bytes = x->o.layout->gradient_bytes[s];
        if (bytes > 0 && (!whole || whole->size_bytes != bytes)) {
            return gnn_wrong_rows(task, "a gradient", whole ? whole->size_bytes : 0, bytes);
        }
    }
    task->diverged = !is_finite(x, task);
    const struct culm_optimizer_config *optimizer = culm_gnn_spans_at(&x->spans, task->epoch);
    struct culm_optimizer_step step =
        culm_optimizer_step_at(optimizer, task->epoch, optimizer->lr, 1, 1);
    for (int32_t i = 0; i < x->o.model->param_count && !task->diverged; i++) {
        const struct culm_gnn_param *param = &x->o.model->param[i];
        const struct culm_blob *whole = task->whole[param->stage];
        struct culm_optimizer_tensor tensor = {
            .count = param->info->count, .decay = param->decays, .work = x->table.data};
        struct culm_step_digest digest;
        for (int32_t part = 0; part < x->parts; part++) {
            tensor.part[part] = x->state + part * x->weights + param->at;
        }
        culm_optimizer_apply(&step, x->o.device, &tensor,
                             (const float *)whole->data + param->info->offset, &digest);
    }
    x->version = task->epoch;
    task->version = x->version;
    task->digest = digest_of(x, x->state, x->version);
    return CULM_OK;
}

static enum culm_status run_copy(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                 size_t bytes) {
    enum culm_status status = holds(x, task, -1);
    if (status == CULM_OK) {
        status = gnn_blob(x, bytes, &task->output, &task->job.error);
    }
    if (status == CULM_OK) {
        memcpy(task->output->data, x->state, bytes);
        task->version = x->version;
    }
    return status;
}

static enum culm_status run_export(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    enum culm_status status = run_copy(x, task, state_bytes(x));
    if (status == CULM_OK) {
        task->digest = digest_of(x, task->output->data, x->version);
    }
    return status;
}

static enum culm_status run_import(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    if (task->input->size_bytes != state_bytes(x) ||
        digest_of(x, task->input->data, task->version) != task->digest) {
        return culm_error_set(&task->job.error, CULM_ERR_FORMAT,
                              "the copy of the weights was damaged on its way");
    }
    enum culm_status status = gnn_state(x, &task->job.error);
    if (status == CULM_OK) {
        memcpy(x->state, task->input->data, state_bytes(x));
        x->version = task->version;
    }
    return status;
}

/* --- dispatch, life --- */

static enum culm_status run_pack(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    struct gnn_input *input;
    enum culm_status status = gnn_input(x, task, &input);
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
    case CULM_GNN_TASK_SLICE: return gnn_slice(x, task);
    case CULM_GNN_TASK_FOLD: return run_fold(x, task);
    case CULM_GNN_TASK_PACK: return run_pack(x, task);
    case CULM_GNN_TASK_APPLY: return gnn_apply(x, task);
    case CULM_GNN_TASK_TAKE: return gnn_take(x, task);
    case CULM_GNN_TASK_DROP: gnn_drop(x, task->interval); return CULM_OK;
    case CULM_GNN_TASK_LOAD: return run_load(x, task);
    case CULM_GNN_TASK_STEP: return run_step(x, task);
    case CULM_GNN_TASK_WEIGHTS: return run_copy(x, task, (size_t)x->weights * sizeof(float));
    case CULM_GNN_TASK_EXPORT: return run_export(x, task);
    case CULM_GNN_TASK_IMPORT: return run_import(x, task);
    case CULM_GNN_TASK_SAVE: return gnn_save(x, task);
    case CULM_GNN_TASK_FINISH: return gnn_finish(x, task);
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
    if (x->state) {
        culm_blob_pool_return(x->o.pool, culm_pages_size(state_bytes(x)));
        free(x->state);
    }
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
