/* Runs all tasks in one process. See solo.h. */
#include "gnn/solo.h"

#include <stdlib.h>
#include <string.h>

/* The blobs of a gather, by interval: the rows it reads, and its results. */
struct rows {
    struct culm_blob **made, **gathered;
};

struct culm_gnn_solo {
    const struct culm_gnn_setup *setup;
    struct culm_blob_pool *pool;
    struct culm_device *device;
    struct culm_gnn_exec *exec;
    struct culm_fold_tree tree;
    struct culm_slice *slice; /* [stages][tree.count] */
    struct rows rows[CULM_GNN_STEPS_MAX];
    bool keeps; /* rows that were made are read again later, by their own interval */
    struct culm_blob *made[CULM_GNN_STEPS_MAX], *gathered[CULM_GNN_STEPS_MAX]; /* of one interval */
    struct culm_gnn_source *source;                                            /* [intervals] */
    struct culm_blob *weights, *whole[CULM_GNN_STAGES_MAX];
};

static enum culm_status run(struct culm_gnn_solo *s, struct culm_gnn_task *task,
                            struct culm_error *error) {
    task->exec = s->exec;
    enum culm_status status = culm_gnn_task_execute(&task->job);
    if (status != CULM_OK && error) {
        *error = task->job.error;
    }
    return status;
}

static struct culm_blob *at(struct culm_blob **of, int32_t interval) { return of[interval]; }

/* --- steps --- */

static struct culm_slice *slices(struct culm_gnn_solo *s, int32_t stage) {
    return s->slice + (int64_t)stage * s->tree.count;
}

static enum culm_status apply(struct culm_gnn_solo *s, int32_t index, int64_t epoch, int32_t i,
                              struct culm_gnn_totals *totals, struct culm_blob **ret_output,
                              struct culm_error *error) {
    const struct culm_gnn_step *step = &s->setup->layout.step[index];
    struct culm_gnn_task task = {
        .kind = CULM_GNN_TASK_APPLY,
        .interval = i,
        .step = index,
        .epoch = epoch,
        .weights = s->weights,
        .rows = step->rows >= 0 ? at(s->rows[step->rows].gathered, i) : NULL,
        .d_rows = step->d_rows >= 0 ? at(s->rows[step->d_rows].gathered, i) : NULL,
    };
    enum culm_status status = run(s, &task, error);
    if (status == CULM_OK && task.gradient) {
        culm_fold_add(&s->tree, slices(s, step->stage), s->tree.leaf[i], task.gradient, 0);
    }
    totals->loss += task.totals.loss;
    for (int p = 0; p < CULM_GNN_SPLITS; p++) {
        totals->correct[p] += task.totals.correct[p];
    }
    culm_blob_unref(task.gradient);
    *ret_output = task.output;
    return status;
}

static enum culm_status gather(struct culm_gnn_solo *s, int32_t index, int64_t epoch, int32_t i,
                               struct culm_error *error) {
    const struct culm_gnn_layout *layout = &s->setup->layout;
    const struct culm_set *reads = &layout->reads[layout->gather[index].transposed][i];
    struct culm_gnn_task task = {.kind = CULM_GNN_TASK_GATHER,
                                 .interval = i,
                                 .gather = index,
                                 .epoch = epoch,
                                 .source = s->source,
                                 .made = s->made,
                                 .gathered = s->gathered};
    for (int32_t g = 0; g < layout->gathers; g++) {
        s->made[g] = s->rows[g].made[i];
        s->gathered[g] = s->rows[g].gathered[i];
    }
    for (int32_t j = culm_set_next(reads, 0); j >= 0; j = culm_set_next(reads, j + 1)) {
        s->source[task.source_count++] =
            (struct culm_gnn_source){.interval = j, .blob = s->rows[index].made[j]};
    }
    enum culm_status status = run(s, &task, error);
    s->rows[index].gathered[i] = task.output;
    return status;
}

static void clear(struct culm_gnn_solo *s) {
    const struct culm_gnn_layout *layout = &s->setup->layout;
    for (int32_t g = 0; g < layout->gathers; g++) {
        for (int32_t i = 0; i < layout->intervals && s->rows[g].made; i++) {
            culm_blob_clear(&s->rows[g].made[i]);
            culm_blob_clear(&s->rows[g].gathered[i]);
        }
    }
    for (int32_t stage = 0; stage < layout->stages && s->slice; stage++) {
        culm_fold_clear(&s->tree, slices(s, stage));
    }
}

/* Does one step of every interval, and the gather that follows it. */
static enum culm_status take_step(struct culm_gnn_solo *s, int32_t index, int64_t epoch,
                                  struct culm_gnn_totals *totals, float *logits,
                                  struct culm_error *error) {
    const struct culm_gnn_setup *setup = s->setup;
    int32_t makes = setup->layout.step[index].makes, intervals = setup->layout.intervals;
    int64_t classes = setup->model->plan.classes;
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < intervals && status == CULM_OK; i++) {
        struct culm_blob *output = NULL;
        status = apply(s, index, epoch, i, totals, &output, error);
        for (int64_t v = setup->structure->first[i];
             v < setup->structure->first[i + 1] && logits && makes < 0 && status == CULM_OK; v++) {
            memcpy(logits + setup->structure->old_of_new[v] * classes,
                   (const float *)output->data + (v - setup->structure->first[i]) * classes,
                   (size_t)classes * sizeof *logits);
        }
        if (makes >= 0) {
            s->rows[makes].made[i] = output;
        } else {
            culm_blob_unref(output);
        }
    }
    for (int32_t i = 0; i < intervals && status == CULM_OK && makes >= 0; i++) {
        status = gather(s, makes, epoch, i, error);
    }
    for (int32_t i = 0; i < intervals && makes >= 0 && !s->keeps; i++) {
        culm_blob_clear(&s->rows[makes].made[i]);
    }
    return status;
}

/* --- the weights --- */

static enum culm_status take_weights(struct culm_gnn_solo *s, struct culm_error *error) {
    struct culm_gnn_task task = {.kind = CULM_GNN_TASK_WEIGHTS};
    culm_blob_clear(&s->weights);
    enum culm_status status = run(s, &task, error);
    s->weights = task.output;
    return status;
}

static enum culm_status step(struct culm_gnn_solo *s, int64_t epoch, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t stage = 0; stage < s->setup->layout.stages && status == CULM_OK; stage++) {
        struct culm_gnn_task fold = {.kind = CULM_GNN_TASK_FOLD,
                                     .stage = stage,
                                     .tree = &s->tree,
                                     .slice = slices(s, stage)};
        culm_blob_clear(&s->whole[stage]);
        if (s->setup->layout.gradient_bytes[stage] > 0) {
            status = run(s, &fold, error);
            s->whole[stage] = fold.output;
        }
    }
    struct culm_gnn_task task = {.kind = CULM_GNN_TASK_STEP, .epoch = epoch, .whole = s->whole};
    if (status == CULM_OK) {
        status = run(s, &task, error);
    }
    if (status == CULM_OK && task.diverged) {
        return culm_error_set(error, CULM_ERR_CONFIG, "epoch %lld: a gradient is not finite",
                              (long long)epoch);
    }
    return status == CULM_OK ? take_weights(s, error) : status;
}

/* --- calls --- */

enum culm_status culm_gnn_solo_train(struct culm_gnn_solo *s, int64_t epoch, bool evaluate,
                                     struct culm_gnn_solo_epoch *ret_epoch,
                                     struct culm_error *error) {
    const struct culm_gnn_setup *setup = s->setup;
    struct culm_gnn_totals totals = {0};
    struct culm_gnn_solo_epoch made = {0};
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < setup->layout.train_steps && status == CULM_OK; i++) {
        const struct culm_gnn_step *at = &setup->layout.step[i];
        status = take_step(s, i, epoch, &totals, NULL, error);
        if (at->makes >= 0) {
            const struct culm_gnn_gather *gather = &setup->layout.gather[at->makes];
            const struct culm_adjacency *along =
                culm_gnn_structure_along(setup->structure, gather->transposed);
            made.gathered_floats +=
                (int64_t)along->start[setup->structure->vertices] * gather->sent_floats;
        }
    }
    if (status == CULM_OK) {
        status = step(s, epoch, error);
    }
    clear(s);
    made.loss = totals.loss / (double)setup->model->plan.train;
    if (status == CULM_OK && evaluate) {
        status = culm_gnn_solo_evaluate(s, made.correct, NULL, error);
    }
    if (status == CULM_OK) {
        *ret_epoch = made;
    }
    return status;
}

enum culm_status culm_gnn_solo_evaluate(struct culm_gnn_solo *s,
                                        int64_t ret_correct[CULM_GNN_SPLITS], float *ret_logits,
                                        struct culm_error *error) {
    struct culm_gnn_totals totals = {0};
    const struct culm_gnn_layout *layout = &s->setup->layout;
    enum culm_status status = CULM_OK;
    culm_gnn_numeric_give_logits(s->exec, ret_logits != NULL);
    for (int32_t i = layout->train_steps; i < layout->steps && status == CULM_OK; i++) {
        status = take_step(s, i, 0, &totals, ret_logits, error);
    }
    clear(s);
    if (status == CULM_OK) {
        memcpy(ret_correct, totals.correct, sizeof totals.correct);
    }
    return status;
}

enum culm_status culm_gnn_solo_hash(struct culm_gnn_solo *s, char ret_weights[65],
                                    struct culm_error *error) {
    return culm_gnn_numeric_hash(s->exec, ret_weights, error);
}

const float *culm_gnn_solo_gradient(const struct culm_gnn_solo *s, int32_t index) {
    const struct culm_gnn_param *param = &s->setup->model->param[index];
    return (const float *)s->whole[param->stage]->data + param->info->offset;
}

enum culm_status culm_gnn_solo_load(struct culm_gnn_solo *s, const char *checkpoint,
                                    int64_t version, struct culm_error *error) {
    struct culm_gnn_task task = {
        .kind = CULM_GNN_TASK_LOAD, .version = version, .source_path = checkpoint};
    enum culm_status status = run(s, &task, error);
    return status == CULM_OK ? take_weights(s, error) : status;
}

/* --- life --- */

static enum culm_status begin(struct culm_gnn_solo *s, int threads, const char *run_dir,
                              struct culm_error *error) {
    const struct culm_gnn_setup *setup = s->setup;
    size_t intervals = (size_t)setup->layout.intervals;
    s->pool = culm_blob_pool_new(0);
    if (!s->pool || !culm_fold_tree_init(&s->tree, setup->layout.intervals)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    s->slice = calloc((size_t)setup->layout.stages * (size_t)s->tree.count + 1, sizeof *s->slice);
    s->source = calloc(intervals, sizeof *s->source);
    bool ok = s->slice && s->source;
    for (int32_t g = 0; g < setup->layout.gathers; g++) {
        s->rows[g].made = calloc(intervals, sizeof *s->rows[g].made);
        s->rows[g].gathered = calloc(intervals, sizeof *s->rows[g].gathered);
        ok = ok && s->rows[g].made && s->rows[g].gathered;
    }
    if (!ok) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status = culm_device_new(threads, &s->device, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_gnn_numeric_options options = {
        .config = setup->config,
        .config_text = "",
        .signature = s->device->ops->signature(s->device),
        .run_dir = run_dir,
        .model = setup->model,
        .layout = &setup->layout,
        .structure = setup->structure,
        .graph = setup->graph,
        .pool = s->pool,
        .device = s->device,
    };
    status = culm_gnn_numeric_new(&options, &s->exec, error);
    for (int32_t i = 0; i < setup->layout.intervals && status == CULM_OK; i++) {
        struct culm_gnn_task task = {.kind = CULM_GNN_TASK_OWN, .interval = i};
        status = run(s, &task, error);
    }
    return status == CULM_OK ? culm_gnn_solo_load(s, "", 0, error) : status;
}

enum culm_status culm_gnn_solo_new(const struct culm_gnn_setup *setup, int threads,
                                   const char *run_dir, struct culm_gnn_solo **ret_solo,
                                   struct culm_error *error) {
    struct culm_gnn_solo *s = calloc(1, sizeof *s);
    if (!s) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    s->setup = setup;
    s->keeps = setup->config->model.arch != CULM_GNN_GCN;
    enum culm_status status = begin(s, threads, run_dir, error);
    if (status != CULM_OK) {
        culm_gnn_solo_free(s);
        return status;
    }
    *ret_solo = s;
    return CULM_OK;
}

void culm_gnn_solo_free(struct culm_gnn_solo *s) {
    if (!s) {
        return;
    }
    clear(s);
    for (int32_t stage = 0; stage < CULM_GNN_STAGES_MAX; stage++) {
        culm_blob_unref(s->whole[stage]);
    }
    culm_blob_unref(s->weights);
    culm_gnn_numeric_free(s->exec);
    culm_device_free(s->device);
    for (int32_t g = 0; g < CULM_GNN_STEPS_MAX; g++) {
        free(s->rows[g].made);
        free(s->rows[g].gathered);
    }
    free(s->source);
    free(s->slice);
    culm_fold_tree_release(&s->tree);
    culm_blob_pool_free(s->pool);
    free(s);
}
