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

/* The elements of a slice of a tensor. */
struct range {
    int64_t first, count;
};

static struct range range_of(const struct culm_numeric *x, const struct culm_param_info *param,
                             int32_t slice) {
    const struct culm_param_desc *desc = &x->o.plan->layout.param[param->global_index];
    const size_t element = (size_t)x->o.plan->state_parts * sizeof(float);
    return (struct range){(int64_t)((size_t)slice * desc->slice_bytes / element),
                          (int64_t)(culm_param_slice_bytes(desc, slice) / element)};
}

/* A copy has the vectors of its slice one after the other. */
static struct numeric_record record_of_copy(struct culm_numeric *x, int64_t count,
                                            const float *copy) {
    const struct culm_stage_info as_stage = {
        .param_floats = count,
        .params = &(const struct culm_param_info){.count = count},
    };
    return numeric_look(x, &as_stage, 0, copy, false);
}

enum culm_status numeric_state_export(struct culm_numeric *x, struct culm_task *task) {
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    const struct culm_param_info *param = &info->params[task->index];
    const struct range range = range_of(x, param, task->from_slice);
    size_t bytes = (size_t)range.count * sizeof(float);
    for (int64_t part = 0; part < x->o.plan->state_parts; part++) {
        const float *from =
            x->state[task->stage].data + part * info->param_floats + param->offset + range.first;
        memcpy((char *)task->output->data + (size_t)part * bytes, from, bytes);
    }
    /* As numeric_state_import will look at it. What a part of a tensor has to be nobody knows: the next step does. */
    struct numeric_record now = record_of_copy(x, range.count, task->output->data);
    const struct numeric_record *made = &x->state[task->stage].record[task->index];
    if (range.count == param->count && (now.value != made->value || now.rest != made->rest)) {
        return numeric_damaged(task, task->stage, "the state", param->name);
    }
    task->digest = numeric_told(now);
    return CULM_OK;
}

enum culm_status numeric_state_import(struct culm_numeric *x, struct culm_task *task) {
    culm_network_let_go(x->o.network); /* the weights come from another worker */
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    const struct culm_param_info *param = &info->params[task->index];
    const struct range range = range_of(x, param, task->from_slice);
    size_t bytes = (size_t)range.count * sizeof(float);
    if (numeric_told(record_of_copy(x, range.count, task->input->data)) != task->digest) {
        return culm_error_set(&task->job.error, CULM_ERR_FORMAT,
                              "the copy of '%s' was damaged on its way", param->name);
    }
    enum culm_status status = numeric_state_make(x, task->stage, &task->job.error);
    for (int64_t part = 0; part < x->o.plan->state_parts && status == CULM_OK; part++) {
        memcpy(x->state[task->stage].data + part * info->param_floats + param->offset + range.first,
               (const char *)task->input->data + (size_t)part * bytes, bytes);
    }
    if (status == CULM_OK) {
        x->state[task->stage].whole = false; /* until it is complete */
    }
    return status;
}

enum culm_status numeric_state_range(struct culm_numeric *x, const struct culm_task *task,
                                     int64_t *ret_first, int64_t *ret_count) {
    const struct culm_param_info *param = &numeric_info(x, task->stage)->params[task->index];
    const struct range first = range_of(x, param, task->from_slice),
                       last = range_of(x, param, task->to_slice - 1);
    x->state[task->stage].whole = false;
    *ret_first = first.first;
    *ret_count = last.first + last.count - first.first;
    return x->state[task->stage].data ? CULM_OK : CULM_ERR_INTERNAL;
}

void numeric_state_snapshot(struct culm_numeric *x, struct culm_task *task) {
    struct numeric_state *state = &x->state[task->stage];
    memcpy(task->output->data, state->data, x->o.plan->layout.stage[task->stage].state_bytes);
    memcpy(state->saved, state->record,
           (size_t)numeric_info(x, task->stage)->param_count * sizeof *state->saved);
}
