/* The numeric executor: the state of a holder. It is stepped, and copied from node to node. */
#include "gnn/numeric_internal.h"

#include "base/pages.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t state_bytes(const struct culm_gnn_numeric *x) {
    return (size_t)x->parts * (size_t)x->weights * sizeof(float);
}

uint64_t gnn_state_digest(struct culm_gnn_numeric *x, const float *state, int64_t version) {
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

void gnn_state_drop(struct culm_gnn_numeric *x) {
    if (x->state) {
        culm_blob_pool_return(x->o.pool, culm_pages_size(state_bytes(x)));
        free(x->state);
        x->state = NULL;
    }
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

enum culm_status gnn_step(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    enum culm_status status = holds(x, task, task->epoch - 1);
    if (status != CULM_OK) {
        return status;
    }
    status = gnn_need_room(x, &x->table, (size_t)x->weights * sizeof(float), &task->job.error);
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
    task->digest = gnn_state_digest(x, x->state, x->version);
    return CULM_OK;
}

static enum culm_status copy(struct culm_gnn_numeric *x, struct culm_gnn_task *task, size_t bytes) {
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

enum culm_status gnn_copy_weights(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    return copy(x, task, (size_t)x->weights * sizeof(float));
}

enum culm_status gnn_export(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    enum culm_status status = copy(x, task, state_bytes(x));
    if (status == CULM_OK) {
        task->digest = gnn_state_digest(x, task->output->data, x->version);
    }
    return status;
}

enum culm_status gnn_import(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    if (task->input->size_bytes != state_bytes(x) ||
        gnn_state_digest(x, task->input->data, task->version) != task->digest) {
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
