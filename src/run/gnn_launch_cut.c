/* See gnn_launch_cut.h. */
#include "run/gnn_launch_cut.h"

#include "base/json.h"
#include "run/gnn_node.h"

#include <string.h>

/* Finds the cut of another run, which is beside its plan.json. */
static enum culm_status planned_cut(const char *plan_path, char path[CULM_PATH_MAX],
                                    const char **ret_path, struct culm_error *error) {
    const char *slash = strrchr(plan_path, '/');
    char dir[CULM_PATH_MAX];
    if (culm_file_is_directory(plan_path)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--plan '%s' is a folder; name the plan.json in it", plan_path);
    }
    enum culm_status status = culm_path_format(
        dir, error, "%.*s", slash ? (int)(slash - plan_path) : 1, slash ? plan_path : ".");
    if (status == CULM_OK) {
        status = culm_gnn_cut_path(dir, path, ret_path, error);
    }
    return status == CULM_OK && !*ret_path
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "--plan '%s': the cut of its graph, '%s', is missing beside it; "
                                "name the plan.json in the folder of a run",
                                plan_path, path)
               : status;
}

/* As plan.json says; 0: it does not. */
static int64_t vertices_before(const char *dir) {
    char path[CULM_PATH_MAX];
    json_t *plan = culm_path_format(path, NULL, "%s/plan.json", dir) == CULM_OK
                       ? culm_json_load(path, NULL)
                       : NULL;
    const json_int_t vertices = json_integer_value(json_object_get(plan, "vertices"));
    json_decref(plan);
    return vertices > 0 ? vertices : 0;
}

/* Nothing of the run but its weights has a meaning for a graph of another size. */
static enum culm_status refuse_vertices(const struct culm_gnn_launch_options *o,
                                        struct culm_error *error) {
    const struct culm_error reason = *error;
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "'%.200s': %.200s; put it back, or begin another run with the weights of "
                          "this one: --out NEW --set model.init=%.200s",
                          o->config->graph.path, reason.text, o->run.dir);
}

static bool stop_asked(const void *options) { return culm_launcher_stop_asked(options); }

enum culm_status culm_gnn_launch_open(const struct culm_gnn_launch_options *o,
                                      struct culm_pins *pins, struct culm_gnn_setup **ret_setup,
                                      char ret_sha256[CULM_SHA256_HEX], struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_gnn_setup *setup = NULL;
    const struct culm_stop stop = {stop_asked, &o->run};
    struct culm_gnn_cut made = {.stop = &stop};
    enum culm_status status = CULM_OK;
    if (o->run.resume) {
        status = culm_gnn_cut_path(o->run.dir, path, &made.path, error);
    } else if (o->partition_path) {
        made.path = o->partition_path;
    } else if (o->plan_path) {
        status = planned_cut(o->plan_path, path, &made.path, error);
    }
    if (status == CULM_OK && o->run.resume && !o->run.stand) { /* else its files are compared */
        made.vertices = vertices_before(o->run.dir);
    }
    if (status == CULM_OK) {
        status = culm_gnn_setup_open_cut(o->config, pins, &made, &setup, error);
        status = status == CULM_ERR_CHANGED ? refuse_vertices(o, error) : status;
    }
    if (status == CULM_ERR_STOPPED) {
        return culm_error_set(error, status,
                              "stopped while the graph was cut, before anything was written; "
                              "begin again, without --resume");
    }
    if (status != CULM_OK) {
        return status;
    }
    *ret_setup = setup;
    return culm_gnn_cut_sha256(setup, ret_sha256);
}

enum culm_status culm_gnn_launch_compare_plan(const char *path, const struct culm_gnn_plan *plan,
                                              const char *sha256, struct culm_error *error) {
    json_error_t problem;
    if (!path) {
        return CULM_OK;
    }
    json_t *named = culm_json_load(path, &problem), *own = culm_gnn_plan_json(plan);
    if (!named || !own) {
        json_decref(own);
        json_decref(named);
        return own ? culm_error_set(error, CULM_ERR_CONFIG, "--plan '%s': %s", path, problem.text)
                   : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    json_object_set_new(own, "cut_sha256", json_string(sha256));
    const char *key, *differs = NULL;
    json_t *value;
    json_object_foreach(own, key, value) {
        differs = json_equal(value, json_object_get(named, key)) ? differs : key;
    }
    /* `key` points into `own`. */
    enum culm_status status =
        differs ? culm_error_set(error, CULM_ERR_CONFIG,
                                 "--plan '%s': its %s is not that of this graph and model; name "
                                 "the plan of a run with the same ones, or leave it out",
                                 path, differs)
                : CULM_OK;
    json_decref(own);
    json_decref(named);
    return status;
}

enum culm_status culm_gnn_launch_check_cut(const struct culm_gnn_launch_options *o,
                                           const char *sha256, struct culm_error *error) {
    struct culm_error differs;
    const enum culm_status status = culm_gnn_cut_compare(o->run.dir, sha256, &differs);
    return status ? culm_error_set(error, status,
                                   "graph.path: '%.200s' is cut differently here than where the "
                                   "run was created, though its files are the same; install the "
                                   "same METIS",
                                   o->config->graph.path)
                  : CULM_OK;
}

enum culm_status culm_gnn_launch_write_cut(const struct culm_launcher_options *run,
                                           const struct culm_gnn_setup *setup,
                                           struct culm_error *error) {
    char path[CULM_PATH_MAX];
    const char *there;
    enum culm_status status = culm_gnn_cut_path(run->dir, path, &there, error);
    return status == CULM_OK && !(there && run->resume)
               ? culm_gnn_setup_write_cut(setup, path, error)
               : status;
}
