/* The numeric executor: loads the state from initial weights or a checkpoint, saves it, and publishes. */
#include "gnn/numeric_internal.h"

#include "model/model.h"
#include "store/checkpoint_room.h"
#include "store/manifest.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWNER "weights-0"
#define NAME_BYTES 128

/* to[columns,rows] = from[rows,columns] */
static void turn(float *to, const float *from, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            to[c * rows + r] = from[r * columns + c];
        }
    }
}

static void name_of(const struct culm_gnn_param *param, int32_t part, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "%s%s", param->info->name, culm_optimizer_suffix(part));
}

/* --- from files, or the seed --- */

struct files {
    struct culm_weights *init;
    struct culm_checkpoint *checkpoint;
};

static enum culm_status read_file(struct culm_gnn_numeric *x, const struct files *files,
                                  const struct culm_gnn_param *param, int32_t part, float *data,
                                  struct culm_error *error) {
    char name[NAME_BYTES];
    name_of(param, part, name);
    if (files->checkpoint) {
        return culm_checkpoint_tensor(files->checkpoint, name, param->info->rank,
                                      param->info->shape, data, error);
    }
    if (files->init) {
        return culm_weights_read(files->init, name, param->info->rank, param->info->shape, data,
                                 error);
    }
    culm_model_init_param(param->info, x->o.config->seed, data);
    return CULM_OK;
}

/* Reads one vector (part) of a tensor, transposing it if files have it as [out, in]. */
static enum culm_status read_tensor(struct culm_gnn_numeric *x, const struct files *files,
                                    const struct culm_gnn_param *param, int32_t part,
                                    struct culm_error *error) {
    float *data = x->state + part * x->weights + param->at;
    if (!param->turned) {
        return read_file(x, files, param, part, data, error);
    }
    float *as_file = malloc((size_t)param->info->count * sizeof *as_file);
    enum culm_status status = as_file ? read_file(x, files, param, part, as_file, error)
                                      : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    if (status == CULM_OK) {
        turn(data, as_file, param->info->shape[0], param->info->shape[1]);
    }
    free(as_file);
    return status;
}

/* The path of a version's checkpoint. In a run directory it follows from the version, and `said`,
 * which comes from another process, is ignored. */
static enum culm_status checkpoint_path(const struct culm_gnn_numeric *x, int64_t version,
                                        const char *said, char ret_path[CULM_PATH_MAX],
                                        struct culm_error *error) {
    return x->o.run_dir ? culm_checkpoint_path(x->o.run_dir, version, ret_path, error)
                        : culm_path_format(ret_path, error, "%s", said);
}

static enum culm_status find_checkpoint(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                        char ret_path[CULM_PATH_MAX]) {
    struct culm_error *error = &task->job.error;
    char path[CULM_PATH_MAX];
    enum culm_status status = checkpoint_path(x, task->version, task->source_path, path, error);
    return status ? status
                  : culm_depot_find(x->o.depot, x->o.run_dir, task->version, path, ret_path, NULL,
                                    error);
}

enum culm_status culm_gnn_init_open(const struct culm_gnn_config *config,
                                    const struct culm_gnn_model *model, struct culm_pins *pins,
                                    struct culm_weights **ret_weights,
                                    char ret_note[CULM_WEIGHTS_NOTE_SIZE],
                                    struct culm_error *error) {
    const struct culm_weights_rules rules = {
        .what = config->model.init_given ? "weights" : "model.init",
        .all = true,
        .ignore = config->model.init_unused == CULM_INIT_UNUSED_IGNORE,
        .leave = config->model.init_given ? NULL : "set model.init_unused: ignore",
    };
    struct culm_weights *weights = NULL;
    struct culm_weights_need *need = calloc((size_t)model->param_count + 1, sizeof *need);
    if (!need) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int32_t i = 0; i < model->param_count; i++) {
        const struct culm_param_info *info = model->param[i].info;
        need[i] = (struct culm_weights_need){info->name, info->rank, info->shape};
    }
    enum culm_status status = culm_weights_open(config->model.init, pins, &weights, error);
    if (status != CULM_OK) {
        culm_error_prefix(error, "%s", rules.what);
        status = status == CULM_ERR_NOT_FOUND ? CULM_ERR_CONFIG : status;
    } else {
        status = culm_weights_check(weights, need, (size_t)model->param_count, NULL, 0, &rules,
                                    ret_note, error);
    }
    free(need);
    if (status != CULM_OK) {
        culm_weights_close(weights);
        return status;
    }
    *ret_weights = weights;
    return CULM_OK;
}

static enum culm_status open_files(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                   struct files *files) {
    struct culm_error *error = &task->job.error;
    if (task->source_path && task->source_path[0]) {
        char path[CULM_PATH_MAX];
        enum culm_status status = find_checkpoint(x, task, path);
        if (status == CULM_OK) {
            status = culm_checkpoint_open(path, true, &files->checkpoint, error);
        }
        if (status == CULM_OK &&
            culm_checkpoint_info_of(files->checkpoint)->step != task->version) {
            status = culm_error_set(error, CULM_ERR_FORMAT, "'%s' is of epoch %lld, not %lld", path,
                                    (long long)culm_checkpoint_info_of(files->checkpoint)->step,
                                    (long long)task->version);
        }
        return status;
    }
    char note[CULM_WEIGHTS_NOTE_SIZE];
    return x->o.config->model.init
               ? culm_gnn_init_open(x->o.config, x->o.model, x->o.pins, &files->init, note, error)
               : CULM_OK;
}

enum culm_status gnn_load(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    struct files files = {0};
    enum culm_status status = gnn_state(x, &task->job.error);
    if (status == CULM_OK) {
        memset(x->state, 0, (size_t)x->parts * (size_t)x->weights * sizeof *x->state);
        status = open_files(x, task, &files);
    }
    int32_t parts = files.checkpoint ? x->parts : 1;
    for (int32_t i = 0; i < x->o.model->param_count; i++) {
        for (int32_t part = 0; part < parts && status == CULM_OK; part++) {
            status = read_tensor(x, &files, &x->o.model->param[i], part, &task->job.error);
            if (status != CULM_OK && files.init) {
                culm_error_prefix(&task->job.error,
                                  x->o.config->model.init_given ? "weights" : "model.init");
            }
        }
    }
    culm_weights_close(files.init);
    culm_checkpoint_close(files.checkpoint);
    if (x->o.depot && files.checkpoint) { /* a copy is of no more use, and takes room */
        (void)culm_checkpoint_remove(NULL, x->o.run_dir, task->version, NULL);
    }
    if (status == CULM_OK) {
        x->version = task->version;
        task->digest = gnn_state_digest(x, x->state, x->version);
    }
    return status;
}

/* --- to files --- */

struct tensors {
    struct culm_tensor_ref *ref;
    char (*name)[NAME_BYTES];
    float **turned; /* transposed copies, as in files; owned */
    size_t count;
};

static void release(struct tensors *t) {
    for (size_t i = 0; i < t->count && t->turned; i++) {
        free(t->turned[i]);
    }
    free(t->ref);
    free(t->name);
    free(t->turned);
}

static bool add(struct tensors *t, const struct culm_gnn_param *param, int32_t part,
                const float *data) {
    size_t at = t->count++;
    if (param->turned) {
        t->turned[at] = malloc((size_t)param->info->count * sizeof(float));
        if (!t->turned[at]) {
            return false;
        }
        turn(t->turned[at], data, param->info->shape[1], param->info->shape[0]);
        data = t->turned[at];
    }
    name_of(param, part, t->name[at]);
    t->ref[at] =
        (struct culm_tensor_ref){.name = t->name[at], .rank = param->info->rank, .data = data};
    memcpy(t->ref[at].shape, param->info->shape, sizeof t->ref[at].shape);
    return true;
}

/* The tensors of an exported state; of `parts` of it, the first of which has the weights. */
static enum culm_status tensors_of(const struct culm_gnn_numeric *x, const float *state,
                                   int32_t parts, struct tensors *t, struct culm_error *error) {
    size_t most = (size_t)x->o.model->param_count * (size_t)x->parts + 1;
    t->ref = calloc(most, sizeof *t->ref);
    t->name = calloc(most, sizeof *t->name);
    t->turned = calloc(most, sizeof *t->turned);
    bool ok = t->ref && t->name && t->turned;
    for (int32_t i = 0; i < x->o.model->param_count; i++) {
        const struct culm_gnn_param *param = &x->o.model->param[i];
        for (int32_t part = 0; part < parts && ok; part++) {
            ok = add(t, param, part, state + part * x->weights + param->at);
        }
    }
    return ok ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct culm_tensor_ref *)a)->name,
                  ((const struct culm_tensor_ref *)b)->name);
}

enum culm_status culm_gnn_numeric_hash(struct culm_gnn_exec *exec,
                                       char ret_weights[CULM_SHA256_HEX],
                                       struct culm_error *error) {
    struct culm_gnn_numeric *x = (struct culm_gnn_numeric *)exec;
    struct tensors tensors = {0};
    struct culm_sha256 hash = {0};
    if (!x->state) {
        return culm_error_set(error, CULM_ERR_INTERNAL, "there are no weights here");
    }
    enum culm_status status = tensors_of(x, x->state, x->parts, &tensors, error);
    if (status == CULM_OK) {
        status = culm_sha256_init(&hash);
    }
    if (status == CULM_OK) {
        qsort(tensors.ref, tensors.count, sizeof *tensors.ref, by_name);
        for (size_t i = 0; i < tensors.count; i++) {
            const struct culm_tensor_ref *t = &tensors.ref[i];
            size_t count = 1;
            for (int d = 0; d < t->rank; d++) {
                count *= (size_t)t->shape[d];
            }
            if (!culm_checkpoint_is_state(t->name)) {
                culm_sha256_update(&hash, t->name, strlen(t->name) + 1);
                culm_sha256_update(&hash, t->data, count * sizeof *t->data);
            }
        }
        status = culm_sha256_final(&hash, ret_weights);
    }
    release(&tensors);
    return status == CULM_OK ? CULM_OK : culm_error_set(error, status, "cannot compute SHA-256");
}

/* The folder that a task names, or the run's; with a depot, this node's own. */
static const char *folder_of(const struct culm_gnn_numeric *x, const struct culm_gnn_task *task) {
    return culm_depot_folder(x->o.depot, x->o.run_dir, task->text);
}

enum culm_status gnn_save(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    struct culm_error *error = &task->job.error;
    struct tensors tensors = {0};
    struct culm_piece piece;
    const size_t want = (size_t)x->parts * (size_t)x->weights * sizeof(float);
    if (task->input->size_bytes != want) {
        return gnn_wrong_rows(task, "a state", task->input->size_bytes, want);
    }
    enum culm_status status =
        tensors_of(x, task->input->data, task->weights_only ? 1 : x->parts, &tensors, error);
    if (status == CULM_OK) {
        status =
            culm_checkpoint_write_piece(NULL, folder_of(x, task), task->version, OWNER, task->node,
                                        tensors.ref, tensors.count, NULL, &piece, error);
    }
    release(&tensors);
    status = culm_depot_hand_over(x->o.depot, x->o.run_dir, task->version, status, &piece,
                                  task->text, NULL, error);
    if (status == CULM_OK) {
        snprintf(task->text, sizeof task->text, "%s %d %s %llu %s %llu", piece.owner, piece.node,
                 piece.file, (unsigned long long)piece.bytes, piece.sha256,
                 (unsigned long long)piece.tensors);
    }
    return status;
}

static enum culm_status read_piece(const char *text, struct culm_piece *ret_piece,
                                   struct culm_error *error) {
    unsigned long long bytes = 0, tensors = 0;
    if (sscanf(text, "%31s %d %63s %llu %64s %llu", ret_piece->owner, &ret_piece->node,
               ret_piece->file, &bytes, ret_piece->sha256, &tensors) != 6) {
        return culm_error_set(error, CULM_ERR_INTERNAL, "bad piece '%.100s'", text);
    }
    ret_piece->bytes = bytes;
    ret_piece->tensors = tensors;
    return CULM_OK;
}

/* In the run's folder; or in another one, which a link in the run's leads to. */
static enum culm_status publish_at(struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
                                   const struct culm_checkpoint_info *info,
                                   const struct culm_piece *piece, struct culm_error *error) {
    if (task->weights_only) {
        return culm_checkpoint_publish_weights(NULL, x->o.run_dir, info, piece, 1, error);
    }
    const char *dir = folder_of(x, task);
    enum culm_status status = culm_checkpoint_publish(NULL, dir, info, piece, 1, error);
    return status == CULM_OK && dir != x->o.run_dir
               ? culm_rescue_link(NULL, x->o.run_dir, dir, task->version, error)
               : status;
}

static enum culm_status publish(struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
                                const struct culm_piece *piece, struct culm_error *error) {
    json_t *choices = x->o.cut_sha256 ? json_pack("{s:s}", "cut_sha256", x->o.cut_sha256) : NULL;
    json_t *progress = culm_gnn_verdict_json(&task->verdict);
    json_t *inputs = x->o.inputs ? culm_inputs_json(x->o.inputs) : NULL;
    const struct culm_checkpoint_info info = {
        .step = task->version,
        .samples = (uint64_t)task->version * (uint64_t)x->o.model->plan.train,
        .seed = x->o.config->seed,
        .signature = x->o.signature,
        .config = x->o.config_text,
        .choices = choices,
        .inputs = inputs,
        .progress = progress,
    };
    enum culm_status status = CULM_ERR_MEMORY;
    if (progress && task->branch > 0) {
        json_object_set_new(progress, "branch", json_integer((json_int_t)task->branch));
    }
    if (!progress || (!choices && x->o.cut_sha256) || (!inputs && x->o.inputs) ||
        (x->o.lineage && culm_lineage_progress(x->o.lineage, &progress, error) != CULM_OK)) {
        culm_error_set(error, status, "out of memory for a checkpoint");
    } else {
        status = publish_at(x, task, &info, piece, error);
    }
    json_decref(progress);
    json_decref(inputs);
    json_decref(choices);
    return status;
}

static uint64_t bytes_of(const struct culm_gnn_numeric *x, int32_t parts) {
    return culm_checkpoint_room_of((uint64_t)(x->weights * parts) * sizeof(float),
                                   (size_t)(x->o.model->param_count * parts), 1,
                                   strlen(x->o.config_text));
}

uint64_t culm_gnn_numeric_checkpoint_bytes(const struct culm_gnn_exec *exec, bool weights_only) {
    const struct culm_gnn_numeric *x = (const struct culm_gnn_numeric *)exec;
    return bytes_of(x, weights_only ? 1 : x->parts);
}

/* One that the next leader would not find is none. */
static enum culm_status keep_apart(const struct culm_gnn_numeric *x, int64_t version,
                                   const char *path, struct culm_error *error) {
    const enum culm_status status = x->o.apart->ops->keep(x->o.apart, version, path, error);
    if (status != CULM_OK) {
        (void)culm_checkpoint_remove(NULL, x->o.run_dir, version, NULL);
    }
    return status;
}

/* The newest, which may be newer than this process knows of; it is fetched for what it says of evaluations. */
static enum culm_status find_apart(const struct culm_gnn_numeric *x, int64_t most,
                                   int64_t *ret_step, char *ret_path, struct culm_error *error) {
    enum culm_status status = x->o.apart->ops->find(x->o.apart, most, ret_step, error);
    if (status == CULM_OK) {
        status = x->o.apart->ops->fetch(x->o.apart, x->o.run_dir, *ret_step, error);
    }
    return status ? status : culm_checkpoint_path(x->o.run_dir, *ret_step, ret_path, error);
}

/* What one that led before has published late, of epochs that were done again since, is in the way of what they have come to: what is
 * there is not published again. */
static enum culm_status make_way(const struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
                                 struct culm_error *error) {
    struct culm_checkpoint *there = NULL;
    char path[CULM_PATH_MAX];
    int64_t step = 0;
    enum culm_status status = x->o.apart->ops->find(x->o.apart, task->version, &step, error);
    if (status == CULM_ERR_NOT_FOUND || status == CULM_ERR_FORMAT) {
        culm_error_clear(error);
        return CULM_OK;
    }
    if (status != CULM_OK || step != task->version) {
        return status;
    }
    status = find_apart(x, step, &step, path, error);
    status = status ? status : culm_checkpoint_open(path, false, &there, error);
    if (status != CULM_OK) {
        return status;
    }
    const uint32_t branch = culm_gnn_branch_read(culm_checkpoint_info_of(there)->progress);
    culm_checkpoint_close(there);
    if (culm_gnn_past_names(&task->past, step, branch)) {
        return CULM_OK;
    }
    (void)culm_checkpoint_remove(NULL, x->o.run_dir, step, NULL);
    return x->o.apart->ops->forget(x->o.apart, step, error);
}

enum culm_status gnn_publish(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    struct culm_error *error = &task->job.error;
    char path[CULM_PATH_MAX], note[CULM_ERROR_MAX];
    struct culm_piece piece;
    enum culm_status status = read_piece(task->piece, &piece, error);
    if (status == CULM_OK && x->o.apart && task->past.count > 0 && !task->weights_only) {
        status = make_way(x, task, error);
    }
    if (status == CULM_OK) {
        status = publish(x, task, &piece, error);
    }
    if (status == CULM_OK) {
        status = task->weights_only
                     ? culm_checkpoint_weights_path(x->o.run_dir, task->version, path, error)
                     : culm_checkpoint_path(x->o.run_dir, task->version, path, error);
    }
    if (status == CULM_OK && x->o.apart && !task->weights_only) {
        status = keep_apart(x, task->version, path, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    snprintf(task->text, sizeof task->text, "%.*s", (int)sizeof task->text - 1, path);
    if (!task->weights_only) { /* what cannot be removed does not make the new one less whole */
        int told = 0;
        (void)culm_checkpoint_prune(NULL, x->o.run_dir, task->version, x->o.config->checkpoint.keep,
                                    NULL);
        (void)culm_checkpoint_look_ahead(x->o.run_dir, bytes_of(x, x->parts), false, &told, note);
    }
    return CULM_OK;
}

enum culm_status gnn_discard(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    return culm_checkpoint_discard(NULL, folder_of(x, task), task->version, &task->job.error);
}

enum culm_status gnn_find_room(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    const uint64_t all = bytes_of(x, x->parts);
    char to[CULM_PATH_MAX] = "";
    if (task->held) {
        task->room = culm_rescue_look(x->o.run_dir, "epoch", task->version, all, bytes_of(x, 1),
                                      true, to, task->note);
    } else {
        int told = 0; /* each time: it says why that checkpoint was given up */
        task->room = culm_checkpoint_look_ahead(x->o.run_dir, all, true, &told, task->note)
                         ? CULM_ROOM_ALL
                         : CULM_ROOM_NOTHING;
    }
    _Static_assert(CULM_RESCUE_PATH_MAX <= sizeof task->text, "one carries the other");
    snprintf(task->text, sizeof task->text, "%.*s", CULM_RESCUE_PATH_MAX - 1, to);
    return CULM_OK;
}

enum culm_status gnn_finish(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    struct culm_error *error = &task->job.error;
    char path[CULM_PATH_MAX];
    enum culm_status status = checkpoint_path(x, task->version, task->text, path, error);
    return status == CULM_OK ? culm_rescue_conclude(path, x->o.run_dir, task->version,
                                                    task->weights_sha256, task->state_sha256, error)
                             : status;
}

/* By the events that lie with the newest checkpoint. That nobody knows what was spent keeps no run from going on. */
static void find_spent(const struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    char dir[CULM_PATH_MAX];
    struct culm_error ignored = {0};
    if (x->o.apart && x->o.spent && task->anew &&
        x->o.apart->ops->before(x->o.apart, dir, &ignored) == CULM_OK) {
        x->o.spent(x->o.spent_ctx, dir, &task->usd, &task->seconds);
    }
}

/* The newest one up to `most` that the past names; *ret_path "": there is none. */
static enum culm_status find_named(const struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                   int64_t most, int64_t *ret_step, char *ret_path,
                                   struct culm_error *error) {
    struct culm_checkpoint *checkpoint = NULL;
    bool named = false;
    enum culm_status status = CULM_OK;
    while (status == CULM_OK && !named) {
        status = x->o.apart
                     ? find_apart(x, most, ret_step, ret_path, error)
                     : culm_checkpoint_latest_to(x->o.run_dir, most, ret_step, ret_path, error);
        status = status ? status : culm_checkpoint_open(ret_path, false, &checkpoint, error);
        if (status == CULM_OK) {
            const json_t *progress = culm_checkpoint_info_of(checkpoint)->progress;
            named = culm_gnn_past_names(&task->past, *ret_step, culm_gnn_branch_read(progress));
            (void)culm_gnn_verdict_read(progress, &task->verdict);
            most = *ret_step - 1;
            culm_checkpoint_close(checkpoint);
        }
        if (status == CULM_OK && !named && x->o.apart) { /* it is not the run's any more */
            (void)culm_checkpoint_remove(NULL, x->o.run_dir, *ret_step, NULL);
        }
    }
    return status;
}

enum culm_status gnn_find(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    struct culm_error *error = &task->job.error;
    char path[CULM_PATH_MAX] = "";
    int64_t step = 0;
    task->verdict = (struct culm_gnn_verdict){0};
    enum culm_status status =
        find_named(x, task, x->o.apart ? INT64_MAX - 1 : task->version, &step, path, error);
    if (status == CULM_ERR_NOT_FOUND || status == CULM_ERR_FORMAT) {
        step = 0; /* the initial weights, which are there again */
        path[0] = '\0';
        task->verdict = (struct culm_gnn_verdict){0};
        culm_error_clear(error);
        status = CULM_OK;
    }
    if (status == CULM_OK) {
        task->version = step;
        snprintf(task->text, sizeof task->text, "%.*s", (int)sizeof task->text - 1, path);
        find_spent(x, task);
    }
    return status;
}
