/*
 * The samples that a task reads, through the cache of data/prefetch.h: backward reads what forward
 * has read, and images are decoded ahead.
 *
 * The next micro-batches of an iteration are probably the next ones of this pipeline, and the first
 * one of the next iteration the first of this one; where that is wrong it costs time, never bits. A
 * redundant forward may be suspended, so it holds its micro-batch until it has ended or another one
 * begins. Thread: that of the executor.
 */
#include "train/numeric_internal.h"

#include <stdlib.h>
#include <string.h>

#define AHEAD 2 /* micro-batches of images */

static int32_t kept(const struct culm_run_shape *shape) { return shape->stages + 3; }

int32_t culm_numeric_samples_kept(const struct culm_run_shape *shape) {
    return kept(shape) + AHEAD;
}

enum culm_status numeric_fields_init(struct culm_numeric *x, struct culm_error *error) {
    const struct culm_graph *graph = x->o.plan->graph;
    bool images = x->o.config->data.kind == CULM_SOURCE_IMAGES;
    size_t fields = (size_t)graph->field_count + 1;
    struct culm_prefetch_options options = {
        .source = x->o.source,
        .batch = x->o.config->batch.micro,
        .ahead = images ? AHEAD : 0,
        .keep = kept(&x->o.plan->shape),
    };
    culm_order_init(&options.order, x->o.config->seed, culm_source_samples(x->o.source));
    options.order.left_out = culm_source_left_out(x->o.source);
    x->source_field = calloc(fields, sizeof *x->source_field);
    x->samples.field = calloc(fields, sizeof *x->samples.field);
    x->frc_samples.field = calloc(fields, sizeof *x->frc_samples.field);
    if (!x->source_field || !x->samples.field || !x->frc_samples.field) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int32_t f = 0; f < graph->field_count; f++) {
        x->source_field[f] = culm_source_find(x->o.source, graph->field[f].name);
    }
    return culm_prefetch_new(&options, &x->prefetch, error);
}

static void put(struct culm_numeric *x, struct numeric_samples *samples) {
    if (samples->held) {
        culm_prefetch_put(x->prefetch, &samples->batch);
        samples->held = false;
    }
}

void numeric_fields_release(struct culm_numeric *x) {
    if (x->prefetch) {
        put(x, &x->samples);
        put(x, &x->frc_samples);
        culm_prefetch_free(x->prefetch);
    }
    free(x->source_field);
    free(x->samples.field);
    free(x->frc_samples.field);
}

/* What is likely to be asked for next. */
static enum culm_status look_ahead(struct culm_numeric *x, const struct culm_task *task,
                                   uint32_t fields, struct culm_error *error) {
    const struct culm_run_shape *shape = &x->o.plan->shape;
    struct culm_prefetch_want want[AHEAD];
    size_t count = 0;
    if (task->iteration != x->ahead_iteration) {
        x->ahead_iteration = task->iteration;
        x->ahead_first = task->micro;
    }
    for (int32_t m = task->micro + 1; m < shape->micros && count < AHEAD; m++) {
        want[count++] = (struct culm_prefetch_want){
            culm_run_shape_first_sample(shape, task->iteration, m), fields};
    }
    for (int32_t m = x->ahead_first; m < shape->micros && count < AHEAD; m++) {
        want[count++] = (struct culm_prefetch_want){
            culm_run_shape_first_sample(shape, task->iteration + 1, m), fields};
    }
    return culm_prefetch_plan(x->prefetch, want, count, error);
}

/* Whoever mends a file has changed an input of the run, which then has to be taken up knowingly. */
static enum culm_status with_a_way_out(enum culm_status status, struct culm_error *error) {
    if ((status == CULM_ERR_FORMAT || status == CULM_ERR_CONFIG) && error) {
        const struct culm_error reason = *error;
        culm_error_set(error, status,
                       "%.400s, or leave it out with data.skip; then go on with --resume "
                       "--accept-inputs",
                       reason.text);
    }
    return status;
}

enum culm_status numeric_fields(struct culm_numeric *x, const struct culm_task *task,
                                const void *const **ret_fields, struct culm_error *error) {
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    struct numeric_samples *samples = task->frc ? &x->frc_samples : &x->samples;
    put(x, samples);
    *ret_fields = samples->field;
    if (info->field_count == 0) {
        return CULM_OK;
    }
    struct culm_prefetch_want want = {
        .first = culm_run_shape_first_sample(&x->o.plan->shape, task->iteration, task->micro)};
    for (int32_t i = 0; i < info->field_count; i++) {
        want.fields |= 1u << x->source_field[info->fields[i]];
    }
    enum culm_status status = culm_prefetch_get(x->prefetch, want, &samples->batch, error);
    if (status != CULM_OK) {
        return with_a_way_out(status, error);
    }
    samples->held = true;
    samples->ids = samples->batch.ids;
    for (int32_t i = 0; i < info->field_count; i++) {
        int32_t f = info->fields[i];
        samples->field[f] = samples->batch.field[x->source_field[f]];
    }
    return task->kind == CULM_TASK_FORWARD && !task->frc ? look_ahead(x, task, want.fields, error)
                                                         : CULM_OK;
}
