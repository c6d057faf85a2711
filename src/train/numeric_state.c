/* The numeric executor: the state of a stage, and copies of it. */
#include "train/numeric_internal.h"

#include "base/pages.h"

#include <stdlib.h>
#include <string.h>

enum culm_status numeric_state_make(struct culm_numeric *x, int32_t stage,
                                    struct culm_error *error) {
    size_t bytes = x->o.plan->layout.stage[stage].state_bytes;
    size_t params = (size_t)numeric_info(x, stage)->param_count + 1;
    struct numeric_state *state = &x->state[stage];
    if (!state->record) {
        state->record = calloc(params, sizeof *state->record);
        state->saved = calloc(params, sizeof *state->saved);
    }
    if (!state->record || !state->saved) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    if (!x->state[stage].data &&
        culm_blob_pool_charge(x->o.pool, culm_pages_size(bytes)) == CULM_OK) {
        x->state[stage].data = culm_pages_alloc(bytes);
        if (!x->state[stage].data) {
            culm_blob_pool_return(x->o.pool, culm_pages_size(bytes));
        }
    }
    return x->state[stage].data ? CULM_OK
                                : culm_error_set(error, CULM_ERR_MEMORY,
                                                 "out of memory for %zu bytes of state", bytes);
}

void numeric_state_drop(struct culm_numeric *x, int32_t stage) {
    x->state[stage].whole = false;
    if (x->state[stage].data) {
        culm_blob_pool_return(x->o.pool,
                              culm_pages_size(x->o.plan->layout.stage[stage].state_bytes));
        free(x->state[stage].data);
        x->state[stage].data = NULL;
    }
}

/* A copy has the vectors of its tensor one after the other. */
static struct numeric_record
record_of_copy(struct culm_numeric *x, const struct culm_param_info *param, const float *copy) {
    const struct culm_stage_info as_stage = {
        .param_floats = param->count,
        .params = &(const struct culm_param_info){.count = param->count},
    };
    return numeric_look(x, &as_stage, 0, copy, false);
}

enum culm_status numeric_state_export(struct culm_numeric *x, struct culm_task *task) {
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    const struct culm_param_info *param = &info->params[task->index];
    size_t bytes = (size_t)param->count * sizeof(float);
    for (int64_t part = 0; part < x->o.plan->state_parts; part++) {
        const float *from = x->state[task->stage].data + part * info->param_floats + param->offset;
        memcpy((char *)task->output->data + (size_t)part * bytes, from, bytes);
    }
    /* As numeric_state_import will look at it. */
    struct numeric_record now = record_of_copy(x, param, task->output->data);
    const struct numeric_record *made = &x->state[task->stage].record[task->index];
    if (now.value != made->value || now.rest != made->rest) {
        return numeric_damaged(task, task->stage, "the state", param->name);
    }
    task->digest = numeric_told(now);
    return CULM_OK;
}

enum culm_status numeric_state_import(struct culm_numeric *x, struct culm_task *task) {
    culm_network_let_go(x->o.network); /* the weights come from another worker */
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    const struct culm_param_info *param = &info->params[task->index];
    size_t bytes = (size_t)param->count * sizeof(float);
    struct numeric_record record = record_of_copy(x, param, task->input->data);
    if (numeric_told(record) != task->digest) {
        return culm_error_set(&task->job.error, CULM_ERR_FORMAT,
                              "the copy of '%s' was damaged on its way", param->name);
    }
    enum culm_status status = numeric_state_make(x, task->stage, &task->job.error);
    for (int64_t part = 0; part < x->o.plan->state_parts && status == CULM_OK; part++) {
        memcpy(x->state[task->stage].data + part * info->param_floats + param->offset,
               (const char *)task->input->data + (size_t)part * bytes, bytes);
    }
    if (status == CULM_OK) {
        struct numeric_state *state = &x->state[task->stage];
        state->record[task->index] = record;
        state->whole = task->index == info->param_count - 1;
        if (state->whole) {
            numeric_tell(x, task);
        }
    }
    return status;
}

void numeric_state_snapshot(struct culm_numeric *x, struct culm_task *task) {
    struct numeric_state *state = &x->state[task->stage];
    memcpy(task->output->data, state->data, x->o.plan->layout.stage[task->stage].state_bytes);
    memcpy(state->saved, state->record,
           (size_t)numeric_info(x, task->stage)->param_count * sizeof *state->saved);
}
