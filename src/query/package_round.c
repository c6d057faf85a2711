/* Rounds in memory, their sizes, and the digests of tensors: what readers and writers of packages
 * use. See package.h. */
#include "query/package.h"

#include "base/grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "package: out of memory");
}

/* --- in memory --- */

void culm_package_round_release(struct culm_package_round *round) {
    for (int32_t q = 0; q < round->query_count; q++) {
        free(round->query[q].model);
        free(round->query[q].weights);
        free(round->query[q].names);
        free(round->query[q].sample);
        free(round->query[q].param);
    }
    free(round->query);
    free(round->tensor);
    *round = (struct culm_package_round){0};
}

int32_t culm_package_query_find(const struct culm_package_round *round, const char *name) {
    for (int32_t q = 0; q < round->query_count; q++) {
        if (strcmp(round->query[q].name, name) == 0) {
            return q;
        }
    }
    return -1;
}

int32_t culm_package_param_find(const struct culm_package_query *query, const char *name) {
    for (int32_t i = 0; i < query->param_count; i++) {
        if (strcmp(query->param[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

struct culm_package_query *culm_package_add_query(struct culm_package_round *round,
                                                  const char *name, const char *model,
                                                  const char *weights, const char *identity) {
    if (!CULM_GROW(round->query, round->query_capacity, round->query_count + 1)) {
        return NULL;
    }
    struct culm_package_query *query = &round->query[round->query_count];
    *query = (struct culm_package_query){.model = strdup(model),
                                         .weights = weights ? strdup(weights) : NULL,
                                         .target = 1,
                                         .original = -1,
                                         .merged = -1,
                                         .agreement = -1,
                                         .overlap = -1};
    if (!query->model || (weights && !query->weights)) {
        free(query->model);
        free(query->weights);
        return NULL;
    }
    snprintf(query->name, sizeof query->name, "%s", name);
    snprintf(query->identity, sizeof query->identity, "%s", identity);
    round->query_count++;
    return query;
}

int32_t culm_package_add_tensor(struct culm_package_round *round,
                                const struct culm_package_tensor *tensor) {
    for (int32_t t = 0; t < round->tensor_count; t++) {
        if (strcmp(round->tensor[t].digest, tensor->digest) == 0) {
            return t;
        }
    }
    if (!CULM_GROW(round->tensor, round->tensor_capacity, round->tensor_count + 1)) {
        return -1;
    }
    round->tensor[round->tensor_count] = *tensor;
    return round->tensor_count++;
}

enum culm_status culm_package_add_param(struct culm_package_query *query, const char *name,
                                        int32_t tensor, int32_t original, int32_t layer,
                                        struct culm_error *error) {
    if (strlen(name) >= CULM_PACKAGE_NAME_SIZE) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "parameter '%s': its name is too long",
                              name);
    }
    if (!CULM_GROW(query->param, query->param_capacity, query->param_count + 1)) {
        return no_memory(error);
    }
    struct culm_package_param *param = &query->param[query->param_count++];
    *param = (struct culm_package_param){.tensor = tensor, .original = original, .layer = layer};
    snprintf(param->name, sizeof param->name, "%s", name);
    return CULM_OK;
}

/* --- counting --- */

static bool is_first(const struct culm_package_round *round, int32_t query) {
    for (int32_t q = 0; q < query; q++) {
        if (strcmp(round->query[q].identity, round->query[query].identity) == 0) {
            return false;
        }
    }
    return true;
}

enum culm_status culm_package_sum(const struct culm_package_round *round,
                                  struct culm_package_sums *ret_sums, struct culm_error *error) {
    *ret_sums = (struct culm_package_sums){0};
    enum { SEEN = 1, SEEN_IN_LAYER = 2 };
    unsigned char *seen = calloc((size_t)round->tensor_count + 1, 1);
    if (!seen) {
        return no_memory(error);
    }
    for (int32_t q = 0; q < round->query_count; q++) {
        const struct culm_package_query *query = &round->query[q];
        bool first = is_first(round, q);
        for (int32_t i = 0; i < query->param_count; i++) {
            const struct culm_package_param *param = &query->param[i];
            int64_t bytes = 4 * round->tensor[param->tensor].count;
            unsigned char *mark = &seen[param->tensor];
            bool layer = param->layer >= 0;
            ret_sums->tensor_bytes += first ? bytes : 0;
            ret_sums->total_bytes += first && layer ? bytes : 0;
            ret_sums->tensor_distinct += *mark & SEEN ? 0 : bytes;
            ret_sums->distinct_bytes += layer && !(*mark & SEEN_IN_LAYER) ? bytes : 0;
            *mark |= layer ? SEEN | SEEN_IN_LAYER : SEEN;
        }
    }
    free(seen);
    return CULM_OK;
}

int64_t culm_package_shared_bytes(const struct culm_package_round *round, int32_t query) {
    const struct culm_package_query *own = &round->query[query];
    bool *used = calloc((size_t)round->tensor_count + 1, sizeof *used);
    int64_t bytes = 0;
    for (int32_t q = 0; q < round->query_count && used; q++) {
        const struct culm_package_query *other = &round->query[q];
        for (int32_t i = 0; strcmp(other->identity, own->identity) != 0 && i < other->param_count;
             i++) {
            used[other->param[i].tensor] = true;
        }
    }
    for (int32_t i = 0; i < own->param_count && used; i++) {
        bool counts = own->param[i].layer >= 0 && used[own->param[i].tensor];
        bytes += counts ? 4 * round->tensor[own->param[i].tensor].count : 0;
    }
    free(used);
    return bytes;
}

/* --- tensors --- */

enum culm_status culm_package_digest_begin(const struct culm_package_tensor *tensor,
                                           struct culm_sha256 *ret_hash) {
    char line[CULM_PACKAGE_RANK_MAX * 24 + 16];
    size_t used = (size_t)snprintf(line, sizeof line, "f32 [");
    for (int32_t d = 0; d < tensor->rank; d++) {
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%" PRId64, d ? ", " : "",
                                 tensor->shape[d]);
    }
    used += (size_t)snprintf(line + used, sizeof line - used, "]\n");
    enum culm_status status = culm_sha256_init(ret_hash);
    if (status == CULM_OK) {
        culm_sha256_update(ret_hash, line, used);
    }
    return status;
}

enum culm_status culm_package_digest(struct culm_package_tensor *tensor, const float *data,
                                     struct culm_error *error) {
    struct culm_sha256 hash;
    enum culm_status status = culm_package_digest_begin(tensor, &hash);
    if (status == CULM_OK) {
        culm_sha256_update(&hash, data, 4 * (size_t)tensor->count);
        status = culm_sha256_final(&hash, tensor->digest);
    }
    return status == CULM_OK ? status : culm_error_set(error, status, "SHA-256 failed");
}

enum culm_status culm_package_tensor_path(const char *dir, const char *digest,
                                          char ret_path[CULM_PATH_MAX], struct culm_error *error) {
    return culm_path_format(ret_path, error, "%s/tensors/%s", dir, digest);
}
