/* The weights that a network starts from. See network.h. */
#include "train/network_internal.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES (sizeof((struct culm_param *)0)->name + 32) /* with a prefix */

/* Opens what the configuration names and is not open. */
static enum culm_status open_files(struct culm_network *network, struct culm_error *error) {
    const struct culm_train_config *config = network->config;
    if (config->model.init && !network->init) {
        enum culm_status status =
            culm_safetensors_open_pinned(config->model.init, config->pins, &network->init, error);
        if (status != CULM_OK) {
            culm_error_prefix(error, "model.init");
            return status == CULM_ERR_NOT_FOUND ? CULM_ERR_CONFIG : status;
        }
    }
    return network_import(network, error);
}

/* `name`, or, for a layer norm of the first BERTs, LayerNorm.weight as LayerNorm.gamma and .bias as
 * .beta. */
static const struct culm_safetensors_entry *find_spelled(const struct culm_safetensors *file,
                                                         const char *name) {
    static const char *const spelled[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                             {"LayerNorm.bias", "LayerNorm.beta"}};
    const struct culm_safetensors_entry *entry = culm_safetensors_find(file, name);
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled && !entry; i++) {
        size_t len = strlen(name), end = strlen(spelled[i][0]);
        if (len >= end && strcmp(name + len - end, spelled[i][0]) == 0) {
            char other[NAME_MAX_BYTES];
            snprintf(other, sizeof other, "%.*s%s", (int)(len - end), name, spelled[i][1]);
            entry = culm_safetensors_find(file, other);
        }
    }
    return entry;
}

/* Published files leave the first part of the names out, or put one in front. */
static const struct culm_safetensors_entry *find(const struct culm_safetensors *file,
                                                 const char *name) {
    static const char prefixes[][16] = {"transformer.", "bert."};
    const struct culm_safetensors_entry *entry = find_spelled(file, name);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !entry; i++) {
        size_t len = strlen(prefixes[i]);
        char longer[NAME_MAX_BYTES];
        snprintf(longer, sizeof longer, "%s%s", prefixes[i], name);
        entry = find_spelled(file, strncmp(name, prefixes[i], len) == 0 ? name + len : longer);
    }
    return entry;
}

enum culm_status culm_network_weights(struct culm_network *network,
                                      const struct culm_param_info *param, float *data,
                                      struct culm_error *error) {
    enum culm_status status = open_files(network, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_safetensors_entry *entry =
        network->init ? find(network->init, param->name) : NULL;
    if (entry) {
        return culm_safetensors_read(network->init, entry->name, param->rank, param->shape, data,
                                     error);
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

/* What is told of a file that does not have all; "" of one that does. */
static void tell(const struct culm_network *network, int32_t found, int32_t all,
                 const char *missing, char ret_note[CULM_NETWORK_NOTE_SIZE]) {
    ret_note[0] = '\0';
    if (found < all) {
        snprintf(ret_note, CULM_NETWORK_NOTE_SIZE,
                 "model.init has %d of %d parameters; the others, of which '%s' is the first, "
                 "start from %s",
                 found, all, missing, network->model ? "model.file" : "the seed");
    }
}

enum culm_status culm_network_check_weights(struct culm_network *network,
                                            const struct culm_graph *graph,
                                            char ret_note[CULM_NETWORK_NOTE_SIZE],
                                            struct culm_error *error) {
    enum culm_status status = open_files(network, error);
    if (status != CULM_OK) {
        return status;
    }
    int32_t found = 0;
    const char *missing = "";
    for (int32_t p = 0; p < graph->param_count && network->init; p++) {
        const struct culm_param *param = &graph->param[p];
        const struct culm_safetensors_entry *entry = find(network->init, param->name);
        if (!entry) {
            missing = missing[0] ? missing : param->name;
            continue;
        }
        char have[CULM_SHAPE_TEXT_MAX], want[CULM_SHAPE_TEXT_MAX];
        culm_shape_text(entry->rank, entry->shape, have);
        culm_shape_text(param->written.rank, param->written.dim, want);
        if (!culm_safetensors_fits(entry, param->written.rank, param->written.dim)) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "model.init: '%s' has '%s' as %s %s, the model needs F32 %s; "
                                  "leave it out of the file, or change the model",
                                  network->config->model.init, entry->name, entry->dtype, have,
                                  want);
        }
        found++;
    }
    if (network->init && found == 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "model.init: '%s' has no parameter of this model (the first is "
                              "'%s'); is it of another architecture?",
                              network->config->model.init, graph->param[0].name);
    }
    tell(network, network->init ? found : graph->param_count, graph->param_count, missing,
         ret_note);
    return CULM_OK;
}
