/* The numeric executor: versions from the seed or a checkpoint, and checkpoints from versions. */
#include "train/numeric_internal.h"

#include "model/step.h"
#include "store/apart.h"
#include "store/checkpoint_room.h"
#include "store/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A sign of progress: a large stage takes minutes to read. */
static void moved(void *ctx, size_t bytes) {
    struct culm_task *task = ctx;
    __atomic_fetch_add(&task->moved, bytes, __ATOMIC_RELAXED);
}

/* One tensor, of a piece that is what it was when it was written. */
static enum culm_status load_tensor(struct culm_checkpoint *checkpoint, const char *name,
                                    const struct culm_param_info *param, float *data,
                                    struct culm_task *task) {
    const struct culm_read_hook hook = {moved, task};
    struct culm_error *error = &task->job.error;
    enum culm_status status = culm_checkpoint_verify(checkpoint, name, &hook, error);
    if (status == CULM_OK) {
        status = culm_checkpoint_tensor(checkpoint, name, param->rank, param->shape, data, error);
        moved(task, 1);
    }
    return status;
}

enum culm_status numeric_load(struct culm_numeric *x, struct culm_task *task) {
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    struct culm_error *error = &task->job.error;
    enum culm_status status = numeric_state_make(x, task->stage, error);
    if (status != CULM_OK) {
        return status;
    }
    float *data = x->state[task->stage].data;
    memset(data, 0, x->o.plan->layout.stage[task->stage].state_bytes);
    if (!task->source[0]) {
        for (int32_t i = 0; i < info->param_count && status == CULM_OK; i++) {
            status = culm_network_weights(x->o.network, &info->params[i],
                                          data + info->params[i].offset, error);
            moved(task, 1);
        }
        return status;
    }
    struct culm_checkpoint *checkpoint = NULL;
    const struct culm_read_hook hook = {moved, task};
    char path[CULM_PATH_MAX];
    culm_network_let_go(x->o.network);
    status =
        culm_depot_find(x->o.depot, x->o.run_dir, task->version, task->source, path, &hook, error);
    if (status == CULM_OK) {
        status = culm_checkpoint_open(path, false, &checkpoint, error);
    }
    for (int32_t i = 0; i < info->param_count && status == CULM_OK; i++) {
        const struct culm_param_info *param = &info->params[i];
        for (int64_t part = 0; part < x->o.plan->state_parts && status == CULM_OK; part++) {
            char name[256];
            if (param->statistic && part > 0) {
                continue; /* it has no optimizer state */
            }
            snprintf(name, sizeof name, "%s%s", param->name, culm_optimizer_suffix((int32_t)part));
            status = load_tensor(checkpoint, name, param,
                                 data + part * info->param_floats + param->offset, task);
        }
    }
    culm_checkpoint_close(checkpoint);
    return status;
}

/* A tied tensor is stored by the first stage that has it. */
static bool stores(const struct culm_numeric *x, int32_t stage, int32_t param) {
    return culm_stage_set_next(&x->o.plan->layout.param[param].stages, 0) >= stage;
}

static void half_written(void *arg) {
    struct culm_task *task = arg;
    struct culm_world *world = task->exec->world;
    if (world) {
        const struct culm_fault_point point = {CULM_PHASE_CHECKPOINT, task->iteration, -1};
        world->ops->fault(world, &point);
        numeric_flip_saved((struct culm_numeric *)task->exec, task);
    }
}

enum culm_status numeric_save(struct culm_numeric *x, struct culm_task *task) {
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    size_t most = (size_t)info->param_count * 3, count = 0;
    struct culm_tensor_ref *tensors = calloc(most, sizeof *tensors);
    char(*names)[256] = calloc(most, sizeof *names);
    enum culm_status status = CULM_ERR_MEMORY;
    if (!tensors || !names) {
        culm_error_set(&task->job.error, status, "out of memory");
        goto out;
    }
    for (int32_t i = 0; i < info->param_count; i++) {
        const struct culm_param_info *param = &info->params[i];
        for (int64_t part = 0; part < (task->weights_only ? 1 : x->o.plan->state_parts) &&
                               stores(x, task->stage, param->global_index);
             part++) {
            if (param->statistic && part > 0) {
                continue;
            }
            snprintf(names[count], sizeof names[count], "%s%s", param->name,
                     culm_optimizer_suffix((int32_t)part));
            tensors[count] = (struct culm_tensor_ref){
                .name = names[count],
                .rank = param->rank,
                .data =
                    (const float *)task->input->data + part * info->param_floats + param->offset,
            };
            memcpy(tensors[count].shape, param->shape, sizeof param->shape);
            count++;
        }
    }
    const struct culm_write_hook hook = {half_written, task};
    struct culm_piece piece;
    char owner[CULM_OWNER_SIZE];
    snprintf(owner, sizeof owner, "stage-%d", task->stage);
    const struct culm_read_hook sent = {moved, task};
    status = culm_checkpoint_write_piece(
        NULL, culm_depot_folder(x->o.depot, x->o.run_dir, task->text), task->version, owner,
        task->node, tensors, count, &hook, &piece, &task->job.error);
    if (status == CULM_OK) { /* what was written is what the step made, or it is not told of */
        status = numeric_check_saved(x, task);
    }
    status = culm_depot_hand_over(x->o.depot, x->o.run_dir, task->version, status, &piece,
                                  task->text, &sent, &task->job.error);
    if (status == CULM_OK) {
        snprintf(task->text, sizeof task->text, "%s %d %s %llu %s %llu", piece.owner, piece.node,
                 piece.file, (unsigned long long)piece.bytes, piece.sha256,
                 (unsigned long long)piece.tensors);
    }
out:
    free(tensors);
    free(names);
    return status;
}

/* In a folder that was named while the run held its last steps. */
static enum culm_status publish_there(const struct culm_numeric *x, const char *to,
                                      const struct culm_checkpoint_info *info,
                                      const struct culm_piece *pieces, size_t count,
                                      struct culm_task *task) {
    struct culm_error *error = &task->job.error;
    enum culm_status status = culm_checkpoint_publish(NULL, to, info, pieces, count, error);
    if (status == CULM_OK) {
        status = culm_rescue_link(NULL, x->o.run_dir, to, info->step, error);
    }
    return status;
}

/* One that the next leader would not find is none. */
static enum culm_status keep_apart(const struct culm_numeric *x, int64_t step, const char *path,
                                   struct culm_error *error) {
    const enum culm_status status = x->o.apart->ops->keep(x->o.apart, step, path, error);
    if (status != CULM_OK) {
        (void)culm_checkpoint_remove(NULL, x->o.run_dir, step, NULL);
    }
    return status;
}

/* The newest, which may be newer than this process knows of. */
static enum culm_status find_apart(const struct culm_numeric *x, int64_t *ret_step, char *ret_path,
                                   struct culm_error *error) {
    enum culm_status status = x->o.apart->ops->find(x->o.apart, INT64_MAX, ret_step, error);
    return status ? status : culm_checkpoint_path(x->o.run_dir, *ret_step, ret_path, error);
}

enum culm_status numeric_publish(struct culm_numeric *x, struct culm_task *task) {
    struct culm_piece *pieces = calloc((size_t)task->piece_count, sizeof *pieces);
    struct culm_error *error = &task->job.error;
    if (!pieces) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < task->piece_count && status == CULM_OK; i++) {
        unsigned long long bytes = 0, tensors = 0;
        if (sscanf(task->pieces[i], "%31s %d %63s %llu %64s %llu", pieces[i].owner, &pieces[i].node,
                   pieces[i].file, &bytes, pieces[i].sha256, &tensors) != 6) {
            status =
                culm_error_set(error, CULM_ERR_INTERNAL, "bad piece '%.100s'", task->pieces[i]);
        }
        pieces[i].bytes = bytes;
        pieces[i].tensors = tensors;
    }
    json_t *progress = NULL;
    if (status == CULM_OK && x->o.lineage) {
        status = culm_lineage_progress(x->o.lineage, &progress, error);
    }
    const struct culm_checkpoint_info info = {
        .step = task->version,
        .samples = (uint64_t)task->version * (uint64_t)x->o.config->batch.global,
        .seed = x->o.config->seed,
        .signature = x->o.signature,
        .config = x->o.config_text,
        .choices = culm_choices_json(&x->o.plan->choices),
        .inputs = x->o.inputs ? culm_inputs_json(x->o.inputs) : NULL,
        .progress = progress,
    };
    if (status == CULM_OK && (!info.choices || (x->o.inputs && !info.inputs))) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    const size_t count = (size_t)task->piece_count;
    const bool apart = x->o.apart && !task->weights_only;
    char to[sizeof task->text];
    memcpy(to, task->text, sizeof to);
    if (status == CULM_OK) {
        status = task->weights_only ? culm_checkpoint_publish_weights(NULL, x->o.run_dir, &info,
                                                                      pieces, count, error)
                 : to[0]            ? publish_there(x, to, &info, pieces, count, task)
                         : culm_checkpoint_publish(NULL, x->o.run_dir, &info, pieces, count, error);
    }
    json_decref(info.choices);
    json_decref(info.inputs);
    json_decref(progress);
    char path[CULM_PATH_MAX];
    if (status == CULM_OK) {
        status = task->weights_only
                     ? culm_checkpoint_weights_path(x->o.run_dir, task->version, path, error)
                     : culm_checkpoint_path(x->o.run_dir, task->version, path, error);
    }
    if (status == CULM_OK && apart) {
        status = keep_apart(x, task->version, path, error);
    }
    if (status == CULM_OK) {
        snprintf(task->text, sizeof task->text, "%.*s", (int)sizeof task->text - 1, path);
    }
    if (status == CULM_OK && !task->weights_only) {
        /* What cannot be removed does not make the new one less whole. */
        (void)culm_checkpoint_prune(NULL, x->o.run_dir, task->version, x->o.config->checkpoint.keep,
                                    NULL);
        numeric_look_ahead(x, task);
    }
    free(pieces);
    return status;
}

enum culm_status numeric_discard(struct culm_numeric *x, struct culm_task *task) {
    return culm_checkpoint_discard(NULL, culm_depot_folder(x->o.depot, x->o.run_dir, task->text),
                                   task->version, &task->job.error);
}

enum culm_status numeric_finish(struct culm_numeric *x, struct culm_task *task) {
    return culm_rescue_conclude(task->text, x->o.run_dir, task->version, task->weights, task->state,
                                &task->job.error);
}

enum culm_status numeric_find(struct culm_numeric *x, struct culm_task *task) {
    char path[CULM_PATH_MAX];
    int64_t step = 0;
    enum culm_status status = x->o.apart ? find_apart(x, &step, path, &task->job.error)
                                         : culm_checkpoint_latest_to(x->o.run_dir, task->version,
                                                                     &step, path, &task->job.error);
    if (status == CULM_ERR_NOT_FOUND || status == CULM_ERR_FORMAT) {
        step = 0; /* which can be made again from the seed */
        path[0] = '\0';
        culm_error_clear(&task->job.error);
        status = CULM_OK;
    }
    if (status == CULM_OK) {
        task->version = step;
        snprintf(task->text, sizeof task->text, "%.*s", (int)sizeof task->text - 1, path);
    }
    return status;
}
