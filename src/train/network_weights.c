/* The weights that a network starts from, and whether others are of it. See network.h. */
#include "train/network_internal.h"

#include <stdlib.h>
#include <string.h>

/* Opens what the configuration names and is not open. */
static enum culm_status open_files(struct culm_network *network, struct culm_error *error) {
    const struct culm_train_config *config = network->config;
    if (config->model.init && !network->init) {
        enum culm_status status =
            culm_weights_open(config->model.init, config->pins, &network->init, error);
        if (status != CULM_OK) {
            culm_error_prefix(error, "model.init");
            return status == CULM_ERR_NOT_FOUND ? CULM_ERR_CONFIG : status;
        }
    }
    return network_import(network, error);
}

static bool ignores(const struct culm_network *network) {
    return network->config->model.init_unused == CULM_INIT_UNUSED_IGNORE;
}

/* Whether model.init has a parameter, and in a shape that counts. */
static bool init_has(const struct culm_network *network, const struct culm_param_info *param) {
    const struct culm_safetensors_entry *entry =
        network->init ? culm_weights_find(network->init, param->name) : NULL;
    return entry && (!ignores(network) || culm_safetensors_fits(entry, param->rank, param->shape));
}

enum culm_status culm_network_weights(struct culm_network *network,
                                      const struct culm_param_info *param, float *data,
                                      struct culm_error *error) {
    enum culm_status status = open_files(network, error);
    if (status != CULM_OK) {
        return status;
    }
    if (init_has(network, param)) {
        status =
            culm_weights_read(network->init, param->name, param->rank, param->shape, data, error);
        if (status != CULM_OK) {
            culm_error_prefix(error, "model.init");
        }
        return status;
    }
    status = network->model ? culm_onnx_weights_read(network->model, param->name, param->rank,
                                                     param->shape, data, error)
                            : CULM_ERR_NOT_FOUND;
    if (status != CULM_ERR_NOT_FOUND) {
        return status;
    }
    culm_model_init_param(param, network->config->seed, data);
    return CULM_OK;
}

/* --- what a graph needs --- */

struct needs {
    struct culm_weights_need *need; /* owned; names and shapes are the graph's */
    size_t count;
};

static enum culm_status needs_of(const struct culm_graph *graph, struct needs *ret_needs,
                                 struct culm_error *error) {
    struct needs needs = {.need = calloc((size_t)graph->param_count + 1, sizeof *needs.need),
                          .count = (size_t)graph->param_count};
    if (!needs.need) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the model");
    }
    for (size_t p = 0; p < needs.count; p++) {
        const struct culm_param *param = &graph->param[p];
        needs.need[p] =
            (struct culm_weights_need){param->name, param->written.rank, param->written.dim};
    }
    *ret_needs = needs;
    return CULM_OK;
}

/* A graph for evaluation may do without what training has: that is made only where the weights have
 * something that the graph does not need. */
static enum culm_status check(struct culm_network *network, const struct culm_graph *graph,
                              const struct culm_weights *weights,
                              const struct culm_weights_rules *rules, char *ret_note,
                              struct culm_error *error) {
    struct culm_graph *training = NULL;
    struct needs needs = {0}, places = {0};
    size_t idle = 0;
    enum culm_status status = needs_of(graph, &needs, error);
    if (status == CULM_OK) {
        status = culm_weights_idle(weights, needs.need, needs.count, &idle, error);
    }
    if (status == CULM_OK && idle > 0) {
        status = culm_network_graph(network, 1, CULM_FOR_TRAINING, &training, error);
    }
    if (status == CULM_OK && training) {
        status = needs_of(training, &places, error);
    }
    if (status == CULM_OK) {
        status = culm_weights_check(weights, needs.need, needs.count, places.need, places.count,
                                    rules, ret_note, error);
    }
    free(needs.need);
    free(places.need);
    culm_graph_free(training);
    return status;
}

enum culm_status culm_network_check_weights(struct culm_network *network,
                                            const struct culm_graph *graph,
                                            char ret_note[CULM_NETWORK_NOTE_SIZE],
                                            struct culm_error *error) {
    enum culm_status status = open_files(network, error);
    if (status != CULM_OK || !network->init) {
        ret_note[0] = '\0';
        return status;
    }
    const struct culm_weights_rules rules = {
        .what = "model.init",
        .source = network->model ? "model.file" : "the seed",
        .ignore = ignores(network),
        .leave = "set model.init_unused: ignore",
    };
    return check(network, graph, network->init, &rules, ret_note, error);
}

enum culm_status culm_network_check_file(struct culm_network *network,
                                         const struct culm_graph *graph,
                                         const struct culm_weights *weights, const char *leave,
                                         char ret_note[CULM_NETWORK_NOTE_SIZE],
                                         struct culm_error *error) {
    const struct culm_weights_rules rules = {
        .what = "weights", .all = true, .ignore = ignores(network), .leave = leave};
    return check(network, graph, weights, &rules, ret_note, error);
}

enum culm_status culm_network_try_weights(struct culm_network *network,
                                          const struct culm_graph *graph,
                                          struct culm_error *error) {
    int64_t most = 0;
    for (int32_t p = 0; p < graph->param_count; p++) {
        int64_t count = culm_elements(&graph->param[p].written);
        most = count > most ? count : most;
    }
    float *data = malloc((size_t)most * sizeof *data + 1);
    enum culm_status status =
        data ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the model");
    for (int32_t p = 0; p < graph->param_count && status == CULM_OK; p++) {
        const struct culm_param *param = &graph->param[p];
        struct culm_param_info info = {.name = param->name,
                                       .rank = param->written.rank,
                                       .count = culm_elements(&param->written),
                                       .init = CULM_INIT_ZEROS};
        memcpy(info.shape, param->written.dim, sizeof info.shape);
        status = culm_network_weights(network, &info, data, error);
    }
    free(data);
    return status;
}
