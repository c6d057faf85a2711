/* What an epoch of a configuration costs. See culm/gnn.h. */
#include "base/file.h"
#include "gnn/setup.h"
#include "run/gnn_own.h"
#include "run/public.h"

#include <culm/gnn.h>

/* Bytes of a vertex's rows that are sent to a worker and back in an epoch. */
static int64_t worker_bytes(const struct culm_gnn_setup *setup, const struct culm_gnn_step *step) {
    const struct culm_gnn_border *border = setup->model->border;
    const struct culm_gnn_layout *layout = &setup->layout;
    int64_t floats = 0;
    if (step->rows >= 0) {
        floats += border[step->stage - 1].width + border[step->stage - 1].extra;
    }
    if (step->d_rows >= 0) {
        floats += border[step->stage].width;
    }
    int64_t out = step->makes >= 0 ? (int64_t)layout->gather[step->makes].row_bytes : 0;
    return floats * (int64_t)culm_dtype_bytes(setup->model->rows) + out;
}

static void count_rows(const struct culm_gnn_config *config, const struct culm_gnn_setup *setup,
                       struct culm_gnn_show_info *about) {
    const struct culm_gnn_layout *layout = &setup->layout;
    const struct culm_gnn_plan *plan = &setup->model->plan;
    for (int32_t i = 0; i < layout->train_steps; i++) {
        const struct culm_gnn_step *step = &layout->step[i];
        if (step->makes >= 0) {
            const struct culm_gnn_gather *gather = &layout->gather[step->makes];
            about->floats_per_edge += gather->sent_floats;
            about->ghost_floats_per_vertex += gather->constant ? 0 : gather->sent_floats;
        }
        about->bytes_per_vertex += step->remote ? worker_bytes(setup, step) : 0;
    }
    about->parameters = culm_gnn_model_parameters(setup->model);
    about->layers = plan->layers;
    for (int32_t l = 0; l < plan->layers; l++) {
        about->multiply_first[l] = plan->multiply_first[l];
    }
    about->aggregated = plan->aggregated;
    about->memory_bytes = culm_gnn_setup_memory(setup);
    about->intervals = config->intervals;
    about->servers = config->servers;
}

static enum culm_status show(const char *what, struct culm_gnn_graph_info *graph,
                             struct culm_gnn_show_info *info, char *ret_note,
                             struct culm_error *error) {
    struct culm_gnn_config config;
    struct culm_gnn_setup *setup = NULL;
    struct culm_gnn_own own = {0};
    char path[CULM_PATH_MAX];
    bool run = culm_file_is_directory(what);
    enum culm_status status = culm_path_format(path, error, run ? "%s/config.yaml" : "%s", what);
    if (status != CULM_OK ||
        (status = culm_gnn_config_load(path, NULL, 0, &config, error)) != CULM_OK) {
        return status;
    }
    status = culm_gnn_graph_show(config.graph.path, config.graph.split, graph, error);
    if (status == CULM_OK && run) {
        status = culm_gnn_own_find(what, &own, error);
        own.advice = "put it back; what is there now is shown by config.yaml of the run";
    }
    if (status == CULM_OK) {
        status = culm_gnn_setup_open_cut(&config, own.pins, &own.cut, &setup, error);
        status = culm_gnn_own_check(&own, status, setup, ret_note, error);
    }
    if (status == CULM_OK) {
        count_rows(&config, setup, info);
        info->cut_edges = setup->counts.cut_edges;
        info->ghosts = setup->counts.ghosts;
    }
    culm_gnn_setup_close(setup);
    culm_gnn_own_release(&own);
    culm_gnn_config_release(&config);
    return status;
}

enum culm_status culm_gnn_show(const char *what, const struct culm_gnn_show_options *options,
                               struct culm_gnn_graph_info *ret_graph,
                               struct culm_gnn_show_info *ret_info, struct culm_error *error) {
    struct culm_gnn_show_options own = {.size = sizeof own};
    struct culm_gnn_graph_info graph = {.size = sizeof graph};
    struct culm_gnn_show_info info = {.size = sizeof info};
    char note[CULM_ERROR_MAX];
    enum culm_status status = culm_public_check_path(what, "culm_gnn_show", error);
    if (status == CULM_OK && options) {
        status = culm_public_take(&own, sizeof own, options, "culm_gnn_show_options", error);
    }
    if (status == CULM_OK && ret_graph) {
        status = culm_public_room(ret_graph, "culm_gnn_graph_info", error);
    }
    if (status == CULM_OK) {
        status = culm_public_room(ret_info, "culm_gnn_show_info", error);
    }
    if (status == CULM_OK) {
        status = show(what, &graph, &info, note, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (note[0] && own.warning) {
        own.warning(own.context, note);
    }
    if (ret_graph) {
        (void)culm_public_fill(ret_graph, &graph, sizeof graph, "culm_gnn_graph_info", error);
    }
    return culm_public_fill(ret_info, &info, sizeof info, "culm_gnn_show_info", error);
}
