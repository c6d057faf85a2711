/* Evaluates a graph network: accuracy on the parts of a split, and logits of every vertex. See
 * culm/gnn.h. */
#include "base/file.h"
#include "base/json.h"
#include "data/npy.h"
#include "gnn/solo.h"
#include "interval/roc.h"
#include "run/gnn_output.h"
#include "run/gnn_own.h"
#include "run/public.h"
#include "store/best.h"
#include "store/weights.h"

#include <culm/gnn.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct opened {
    const char *dir;         /* of the run; NULL: a configuration was named */
    bool other;              /* weights that are not those which the run ended with */
    char run[CULM_PATH_MAX]; /* of a checkpoint that was named in its place */
    struct culm_gnn_own own;
    struct culm_gnn_config config;
    bool configured;
    struct culm_gnn_setup *setup;
    struct culm_gnn_solo *solo;
    float *logits; /* [V,classes] */
};

static void release(struct opened *o) {
    culm_gnn_solo_free(o->solo);
    culm_gnn_setup_close(o->setup);
    culm_gnn_own_release(&o->own);
    if (o->configured) {
        culm_gnn_config_release(&o->config);
    }
    free(o->logits);
}

static enum culm_status use(struct opened *o, const char *path, struct culm_error *error) {
    free(o->config.model.init);
    o->config.model.init = strdup(path);
    o->config.model.init_given = true;
    return o->config.model.init ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* Makes the configuration start from the run's final model. */
static enum culm_status start_from(struct opened *o, const char *dir, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_weights_place place;
    enum culm_status status = culm_path_format(path, error, "%s/model.safetensors", dir);
    if (status != CULM_OK) {
        return status;
    }
    if (access(path, R_OK) == 0) {
        return use(o, path, error);
    }
    status = culm_weights_locate(dir, NULL, &place, NULL);
    return status == CULM_OK && place.kind == CULM_WEIGHTS_CHECKPOINT
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.100s' has no model yet; a run writes model.safetensors when it "
                                "ends: finish it with 'culm gnn train %.80s/config.yaml --resume "
                                "--out %.80s', or name its newest checkpoint, '%.140s', in its "
                                "place",
                                dir, dir, dir, place.path)
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.100s' has no model yet; a run writes model.safetensors when it "
                                "ends: finish it with 'culm gnn train %.80s/config.yaml --resume "
                                "--out %.80s'",
                                dir, dir, dir);
}

static enum culm_status load(struct opened *o, const char *path, const char *weights,
                             struct culm_error *error) {
    char file[CULM_PATH_MAX];
    bool checkpoint = culm_weights_is_checkpoint(path), is_dir = culm_file_is_directory(path);
    enum culm_status status = culm_path_format(o->run, error, checkpoint ? "%s/../.." : "%s", path);
    if (status == CULM_OK && checkpoint && weights) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.200s' is a checkpoint, which has weights of its own; name the "
                                "run, to give it others",
                                path);
    }
    if (status == CULM_OK) {
        status = culm_path_format(file, error, is_dir ? "%s/config.yaml" : "%s", o->run);
    }
    if (status == CULM_OK) {
        status = culm_gnn_config_load(file, NULL, 0, &o->config, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    o->configured = true;
    o->dir = is_dir ? o->run : NULL;
    o->other = checkpoint || weights;
    weights = checkpoint ? path : weights;
    if (is_dir && weights && strcmp(weights, "best") == 0) {
        status = culm_best_find(o->run, file, error);
        return status == CULM_OK ? use(o, file, error) : status;
    }
    return weights ? use(o, weights, error) : is_dir ? start_from(o, path, error) : CULM_OK;
}

/* The run's model must still be the one that it ended with. */
static enum culm_status check_weights(const struct opened *o, struct culm_error *error) {
    char sha256[65];
    enum culm_status status = culm_gnn_solo_hash(o->solo, sha256, error);
    return status == CULM_OK ? culm_gnn_own_check_weights(o->dir, sha256, error) : status;
}

/* Numbers that say nothing are no answer. */
static enum culm_status check_finite(const struct opened *o, struct culm_error *error) {
    const struct culm_gnn_plan *plan = &o->setup->model->plan;
    for (int64_t i = 0; i < plan->vertices * plan->classes; i++) {
        if (!isfinite(o->logits[i])) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "the logits of vertex %lld are not finite; the features of '%s' "
                                  "or the weights are too large",
                                  (long long)(i / plan->classes), o->config.graph.path);
        }
    }
    return CULM_OK;
}

static enum culm_status run(struct opened *o, int64_t correct[CULM_GNN_SPLITS],
                            struct culm_error *error) {
    const struct culm_gnn_plan *plan = &o->setup->model->plan;
    o->logits = malloc((size_t)(plan->vertices * plan->classes) * sizeof *o->logits);
    if (!o->logits) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status =
        culm_gnn_solo_new(o->setup, (int)o->config.threads, NULL, &o->solo, error);
    if (status == CULM_OK && o->dir && !o->other) {
        status = check_weights(o, error);
    }
    if (status == CULM_OK) {
        status = culm_gnn_solo_evaluate(o->solo, correct, o->logits, error);
    }
    return status == CULM_OK ? check_finite(o, error) : status;
}

/* The error has the status that is returned: weights that are not there are CULM_ERR_CONFIG. */
static enum culm_status agree(enum culm_status status, struct culm_error *error) {
    if (error) {
        error->status = status;
    }
    return status;
}

/* --- eval --- */

static enum culm_status areas(const struct opened *o, struct culm_gnn_evaluate_result *evaluation,
                              struct culm_error *error) {
    const struct culm_graph_data *graph = o->setup->graph;
    const uint8_t *use = graph->split + o->config.graph.split * graph->vertices;
    struct culm_gnn_scored *scored = malloc((size_t)graph->vertices * sizeof *scored);
    if (!scored) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int64_t v = 0; v < graph->vertices; v++) {
        bool used = use[v] != CULM_GRAPH_UNUSED;
        scored[v] = (struct culm_gnn_scored){
            .score = o->logits[2 * v + 1] - o->logits[2 * v],
            .what =
                used ? culm_gnn_scored_what(use[v] - CULM_GRAPH_TRAIN, graph->label[v] == 1) : 0};
    }
    for (uint32_t part = 0; part < 3; part++) {
        evaluation->auc[part] = culm_gnn_roc_area(scored, graph->vertices, part);
    }
    free(scored);
    return CULM_OK;
}

/* Keeps what was evaluated, if it is better; it was opened before, since a run that goes on removes
 * checkpoints. */
static enum culm_status keep_best(const struct opened *o, const struct culm_weights *weights,
                                  struct culm_gnn_evaluate_result *evaluation,
                                  struct culm_error *error) {
    if (evaluation->count[1] == 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "there are no validation vertices, so nothing tells which weights "
                              "are best; leave --best out");
    }
    const struct culm_best_found found = {.loss = NAN,
                                          .accuracy = (double)evaluation->correct[1] /
                                                      (double)evaluation->count[1],
                                          .samples = evaluation->count[1]};
    bool better = false;
    enum culm_status status =
        culm_best_keep(o->dir, weights, CULM_BEST_ACCURACY, &found, &better, error);
    evaluation->best = better;
    return status;
}

static enum culm_status evaluate(const char *path, const struct culm_gnn_evaluate_options *options,
                                 struct culm_gnn_evaluate_result *ret_evaluation, char *ret_note,
                                 struct culm_error *error) {
    struct opened o = {0};
    struct culm_gnn_evaluate_result evaluation = {.auc = {-1, -1, -1}};
    int64_t correct[CULM_GNN_SPLITS], count[4];
    const bool is_run = culm_file_is_directory(path), best = options->best != 0;
    struct culm_weights *opened = NULL;
    enum culm_status status = load(&o, path, options->weights, error);
    if (status == CULM_OK && best && (!is_run || culm_weights_is_checkpoint(path))) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.300s' is not the folder of a run, which a best.safetensors is "
                                "kept in; leave --best out",
                                path);
    }
    if (status == CULM_OK && best) {
        status = culm_weights_open_compared(o.config.model.init, &opened, error);
    }
    if (status == CULM_OK && is_run) {
        status = culm_gnn_own_find(o.dir, &o.own, error);
        o.own.advice = "put it back; what is there now is evaluated by config.yaml of the run with "
                       "--weights";
    }
    if (status == CULM_OK) {
        status = culm_gnn_setup_open_cut(&o.config, o.own.pins, &o.own.cut, &o.setup, error);
        status = culm_gnn_own_check(&o.own, status, o.setup, ret_note, error);
    }
    if (status == CULM_OK) {
        status = run(&o, correct, error);
    }
    if (status == CULM_OK) {
        culm_graph_data_count(o.setup->graph, o.config.graph.split, count);
        evaluation.vertices = o.setup->graph->vertices;
        for (int part = 0; part < 3; part++) {
            evaluation.count[part] = count[part + CULM_GRAPH_TRAIN];
            evaluation.correct[part] = correct[part];
        }
        status = o.setup->model->plan.classes == 2 ? areas(&o, &evaluation, error) : CULM_OK;
    }
    if (status == CULM_OK && best) {
        status = keep_best(&o, opened, &evaluation, error);
    }
    culm_weights_close(opened);
    if (status == CULM_OK) {
        *ret_evaluation = evaluation;
    }
    release(&o);
    return status;
}

enum culm_status culm_gnn_evaluate(const char *what,
                                   const struct culm_gnn_evaluate_options *options,
                                   struct culm_gnn_evaluate_result *ret_result,
                                   struct culm_error *error) {
    struct culm_gnn_evaluate_options own = {.size = sizeof own};
    struct culm_gnn_evaluate_result result;
    char note[CULM_ERROR_MAX];
    enum culm_status status = culm_public_check_path(what, "culm_gnn_evaluate", error);
    if (status == CULM_OK && options) {
        status = culm_public_take(&own, sizeof own, options, "culm_gnn_evaluate_options", error);
    }
    if (status == CULM_OK) {
        status = culm_public_room(ret_result, "culm_gnn_evaluate_result", error);
    }
    if (status == CULM_OK) {
        status = evaluate(what, &own, &result, note, error);
    }
    if (status != CULM_OK) {
        return agree(status, error);
    }
    if (note[0] && own.warning) {
        own.warning(own.context, note);
    }
    return culm_public_fill(ret_result, &result, sizeof result, "culm_gnn_evaluate_result", error);
}

/* --- predict --- */

/* The numbers of classes and features of the run's model; another graph may not have the
 * classes. */
static enum culm_status classes_of(const char *dir, int64_t *ret_classes, int64_t *ret_columns,
                                   struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/plan.json", dir);
    if (status != CULM_OK) {
        return status;
    }
    json_t *plan = culm_json_load(path, NULL);
    *ret_classes = json_integer_value(json_object_get(plan, "classes"));
    *ret_columns = json_integer_value(json_object_get(plan, "columns"));
    json_decref(plan);
    return *ret_classes >= 2 && *ret_classes <= INT32_MAX && *ret_columns <= INT32_MAX
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_FORMAT,
                                "'%s' does not say how many classes there are; is '%s' a run of "
                                "culm gnn train?",
                                path, dir);
}

static enum culm_status write_npy(const struct opened *o, const char *out,
                                  struct culm_error *error) {
    const struct culm_gnn_plan *plan = &o->setup->model->plan;
    const uint64_t dim[] = {(uint64_t)plan->vertices, (uint64_t)plan->classes};
    char header[CULM_NPY_WRITE_MAX];
    size_t head = culm_npy_header('f', 4, 2, dim, header);
    size_t body = (size_t)(plan->vertices * plan->classes) * sizeof *o->logits;
    char *data = malloc(head + body);
    if (!data) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    memcpy(data, header, head);
    memcpy(data + head, o->logits, body);
    enum culm_status status = culm_file_replace(NULL, out, data, head + body, error);
    free(data);
    return status;
}

struct culm_gnn_prediction {
    int64_t vertices, classes;
    float *logits; /* [vertices, classes] */
};

static enum culm_status predict(const char *dir, const struct culm_gnn_predict_options *options,
                                struct culm_gnn_prediction *prediction, char *ret_note,
                                struct culm_error *error) {
    const char *graph = options->graph, *out = options->out;
    struct opened o = {0};
    int64_t correct[CULM_GNN_SPLITS], classes = 0, columns = 0;
    enum culm_status status = out ? culm_gnn_output_check(out, error) : CULM_OK;
    if (status == CULM_OK) {
        status = load(&o, dir, options->weights, error);
    }
    if (status == CULM_OK && !o.dir) {
        status = culm_error_set(error, CULM_ERR_CONFIG, "'%.300s' is not the folder of a run", dir);
    }
    if (status == CULM_OK) {
        status = classes_of(o.dir, &classes, &columns, error);
    }
    if (status == CULM_OK && !graph) {
        status = culm_gnn_own_find(o.dir, &o.own, error);
        o.own.advice = "put it back; what is there now is read with --graph";
    }
    if (status == CULM_OK && graph) {
        char *path = strdup(graph);
        if (path) {
            free(o.config.graph.path);
            o.config.graph.path = path;
        }
        status = path ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    if (status == CULM_OK) {
        status =
            culm_gnn_setup_predict(&o.config, o.own.pins, classes, &o.own.cut, &o.setup, error);
        status = culm_gnn_own_check(&o.own, status, o.setup, ret_note, error);
    }
    if (status == CULM_OK && graph && columns > 0 && o.setup->model->plan.columns != columns) {
        status =
            culm_error_set(error, CULM_ERR_CONFIG,
                           "--graph '%s' has %lld features; the model of '%s' expects %lld", graph,
                           (long long)o.setup->model->plan.columns, dir, (long long)columns);
    }
    if (status == CULM_OK) {
        status = run(&o, correct, error);
    }
    if (status == CULM_OK && out) {
        status = write_npy(&o, out, error);
    }
    if (status == CULM_OK) {
        *prediction =
            (struct culm_gnn_prediction){o.setup->model->plan.vertices, classes, o.logits};
        o.logits = NULL;
    }
    release(&o);
    return status;
}

enum culm_status culm_gnn_predict(const char *what, const struct culm_gnn_predict_options *options,
                                  struct culm_gnn_prediction **ret_prediction,
                                  struct culm_error *error) {
    struct culm_gnn_predict_options own = {.size = sizeof own};
    char note[CULM_ERROR_MAX];
    enum culm_status status = culm_public_check_path(what, "culm_gnn_predict", error);
    if (status == CULM_OK && !ret_prediction) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT, "culm_gnn_predict: an argument is NULL");
    }
    if (status == CULM_OK && options) {
        status = culm_public_take(&own, sizeof own, options, "culm_gnn_predict_options", error);
    }
    if (status != CULM_OK) {
        return status;
    }
    struct culm_gnn_prediction *prediction = calloc(1, sizeof *prediction);
    if (!prediction) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    status = predict(what, &own, prediction, note, error);
    if (status != CULM_OK) {
        culm_gnn_prediction_free(prediction);
        return agree(status, error);
    }
    if (note[0] && own.warning) {
        own.warning(own.context, note);
    }
    *ret_prediction = prediction;
    return CULM_OK;
}

void culm_gnn_prediction_free(struct culm_gnn_prediction *prediction) {
    if (prediction) {
        free(prediction->logits);
        free(prediction);
    }
}

int64_t culm_gnn_prediction_vertices(const struct culm_gnn_prediction *prediction) {
    return prediction ? prediction->vertices : 0;
}

int64_t culm_gnn_prediction_classes(const struct culm_gnn_prediction *prediction) {
    return prediction ? prediction->classes : 0;
}

const float *culm_gnn_prediction_logits(const struct culm_gnn_prediction *prediction) {
    return prediction ? prediction->logits : NULL;
}
