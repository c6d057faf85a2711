/*
 * Whether a query's model is still the one that a package was made of. Its file may have other numbers
 * by now, under the same name: a package's tensors, and its originals, are then those of an older model.
 */
#include "live/catalog.h"

#include <stdlib.h>
#include <string.h>

enum culm_status culm_live_entry_tensor(const struct culm_live_entry *entry, int32_t part,
                                        float **ret_data, struct culm_package_tensor *ret_tensor,
                                        struct culm_error *error) {
    const struct culm_param *param = &entry->graph->param[part];
    struct culm_package_tensor tensor = {.rank = param->shape.rank,
                                         .count = culm_elements(&param->shape)};
    memcpy(tensor.shape, param->shape.dim, (size_t)tensor.rank * sizeof *tensor.shape);
    float *data = malloc(entry->part[part].bytes + 64);
    enum culm_status status =
        data ? culm_vision_model_weights(entry->model, param, data, error)
             : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a tensor");
    status = status ? status : culm_package_digest(&tensor, data, error);
    if (status != CULM_OK) {
        free(data);
        return status;
    }
    *ret_data = data;
    *ret_tensor = tensor;
    return CULM_OK;
}

enum culm_status culm_live_entry_sum(struct culm_live_entry *entry, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    if (entry->digest || !entry->model || entry->bare) {
        return CULM_OK;
    }
    char(*digest)[CULM_SHA256_HEX] = calloc((size_t)entry->part_count + 1, sizeof *digest);
    if (!digest) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a model");
    }
    for (int32_t p = 0; p < entry->part_count && status == CULM_OK; p++) {
        struct culm_package_tensor tensor;
        float *data = NULL;
        status = culm_live_entry_tensor(entry, p, &data, &tensor, error);
        if (status == CULM_OK) {
            memcpy(digest[p], tensor.digest, sizeof digest[p]);
        }
        free(data);
    }
    if (status != CULM_OK) {
        free(digest);
        return culm_error_prefix(error, "query '%s'", entry->config->name);
    }
    entry->digest = digest;
    return CULM_OK;
}

bool culm_live_entry_is_retrained(const struct culm_live_entry *entry,
                                  const struct culm_package_round *round, int32_t of) {
    const struct culm_package_query *query = &round->query[of];
    for (int32_t p = 0; p < entry->part_count && entry->digest; p++) {
        const int32_t at = culm_package_param_find(query, entry->part[p].name);
        if (at >= 0 &&
            strcmp(round->tensor[query->param[at].original].digest, entry->digest[p]) != 0) {
            return true;
        }
    }
    return false;
}

enum culm_status culm_live_catalog_has_originals(struct culm_live_catalog *catalog,
                                                 const struct culm_package_round *round,
                                                 const char *dir, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (size_t q = 0; q < catalog->workload.query_count && status == CULM_OK; q++) {
        struct culm_live_entry *entry = &catalog->entry[q];
        const int32_t of = culm_package_query_find(round, entry->config->name);
        status = of >= 0 ? culm_live_entry_sum(entry, error) : CULM_OK;
        if (status == CULM_OK && of >= 0 && culm_live_entry_is_retrained(entry, round, of)) {
            status = culm_error_set(error, CULM_ERR_CONFIG,
                                    "query '%s': the weights of '%s' have changed since '%s' was "
                                    "made; put them back, or merge again",
                                    entry->config->name, entry->config->model, dir);
        }
    }
    return status;
}
