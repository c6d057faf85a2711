/*
 * The samples of micro-batches, filled when a task needs them and kept for a while: backward reads
 * what forward has read, and decoding an image twice would cost more than the memory.
 *
 * A micro-batch has one buffer per field of the graph. Which stage asks decides which fields are
 * filled; a later task of another stage may add some. The least recently used micro-batch makes
 * room. Thread: that of the executor.
 */
#include "train/numeric_internal.h"

#include "base/pages.h"

#include <stdlib.h>
#include <string.h>

static void release(struct numeric_batch *batch, int32_t fields) {
    for (int32_t f = 0; batch->data && f < fields; f++) {
        free(batch->data[f]);
    }
    free(batch->data);
}

enum culm_status culm_numeric_fields_init(struct culm_numeric *x, struct culm_error *error) {
    const struct culm_graph *graph = x->o.plan->graph;
    x->batch_count = x->o.plan->shape.stages + 2;
    x->batch = calloc((size_t)x->batch_count + 1, sizeof *x->batch);
    x->source_field = calloc((size_t)graph->field_count + 1, sizeof *x->source_field);
    if (!x->batch || !x->source_field) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int32_t b = 0; b <= x->batch_count; b++) {
        x->batch[b].data = calloc((size_t)graph->field_count + 1, sizeof *x->batch[b].data);
        x->batch[b].iteration = -1;
        if (!x->batch[b].data) {
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
        }
    }
    for (int32_t f = 0; f < graph->field_count; f++) {
        x->source_field[f] = culm_source_find(x->o.source, graph->field[f].name);
    }
    return CULM_OK;
}

void culm_numeric_fields_release(struct culm_numeric *x) {
    int32_t fields = x->o.plan->graph->field_count;
    for (int32_t b = 0; x->batch && b <= x->batch_count; b++) {
        release(&x->batch[b], fields);
    }
    free(x->batch);
    free(x->source_field);
}

/* The batch of this micro-batch, or the one that has not been used for longest. Redundant forwards
 * have one of their own behind the others: they may be suspended while others come and go. */
static struct numeric_batch *batch_of(struct culm_numeric *x, const struct culm_task *task) {
    struct numeric_batch *found = task->frc ? &x->batch[x->batch_count] : &x->batch[0];
    for (int32_t b = 0; b < x->batch_count && !task->frc; b++) {
        struct numeric_batch *batch = &x->batch[b];
        if (batch->iteration == task->iteration && batch->micro == task->micro) {
            found = batch;
            break;
        }
        found = batch->used < found->used ? batch : found;
    }
    if (found->iteration != task->iteration || found->micro != task->micro) {
        found->iteration = task->iteration;
        found->micro = task->micro;
        found->filled = 0;
    }
    found->used = ++x->batch_clock;
    return found;
}

static enum culm_status fill(struct culm_numeric *x, const struct culm_task *task,
                             struct numeric_batch *batch, uint64_t missing,
                             struct culm_error *error) {
    const struct culm_graph *graph = x->o.plan->graph;
    const struct culm_source_field *fields = culm_source_fields(x->o.source);
    uint64_t first = culm_run_shape_first_sample(&x->o.plan->shape, task->iteration, task->micro);
    for (int64_t i = 0; i < x->o.config->batch.micro; i++) {
        void *to[CULM_SOURCE_FIELDS_MAX] = {NULL};
        for (int32_t f = 0; f < graph->field_count; f++) {
            if (missing >> f & 1) {
                int32_t s = x->source_field[f];
                to[s] = (char *)batch->data[f] + (size_t)i * fields[s].size_bytes;
            }
        }
        uint64_t position = first + (uint64_t)i;
        const struct culm_source_item item = {culm_order_sample(&x->order, position), position};
        enum culm_status status = culm_source_fill(x->o.source, item, to, error);
        if (status != CULM_OK) {
            return status;
        }
    }
    batch->filled |= missing;
    return CULM_OK;
}

enum culm_status culm_numeric_fields(struct culm_numeric *x, const struct culm_task *task,
                                     const void *const **ret_fields, struct culm_error *error) {
    const struct culm_graph *graph = x->o.plan->graph;
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    struct numeric_batch *batch = batch_of(x, task);
    uint64_t missing = 0;
    for (int32_t i = 0; i < info->field_count; i++) {
        int32_t f = info->fields[i];
        size_t bytes =
            (size_t)culm_elements(&graph->field[f].shape) * culm_dtype_bytes(graph->field[f].dtype);
        if (!batch->data[f] && !(batch->data[f] = culm_pages_alloc(bytes))) {
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for %zu bytes of samples",
                                  bytes);
        }
        missing |= 1ull << f;
    }
    missing &= ~batch->filled;
    if (missing) {
        enum culm_status status = fill(x, task, batch, missing, error);
        if (status != CULM_OK) {
            batch->iteration = -1;
            return status;
        }
    }
    *ret_fields = (const void *const *)batch->data;
    return CULM_OK;
}
