/* Writing packages. See package.h. */
#include "query/package.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum culm_status culm_package_make(struct culm_fs *fs, const char *dir, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/tensors", dir);
    if (status == CULM_OK) {
        status = culm_dir_make(fs, path, error);
    }
    if (status == CULM_OK) {
        status = culm_path_format(path, error, "%s/rounds", dir);
    }
    return status == CULM_OK ? culm_dir_make(fs, path, error) : status;
}

/* Whether a file holds exactly these bytes; false if it cannot be read. */
static bool holds(struct culm_fs *fs, const char *path, const void *data, size_t bytes) {
    struct culm_error ignored = {0};
    char *text = NULL;
    size_t len = 0;
    bool same = culm_file_read(fs, path, bytes, &text, &len, &ignored) == CULM_OK && len == bytes &&
                memcmp(text, data, bytes) == 0;
    free(text);
    return same;
}

enum culm_status culm_package_put(struct culm_fs *fs, const char *dir,
                                  const struct culm_package_tensor *tensor, const float *data,
                                  uint64_t *ret_bytes, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    const size_t bytes = 4 * (size_t)tensor->count;
    enum culm_status status = culm_package_tensor_path(dir, tensor->digest, path, error);
    if (status != CULM_OK) {
        return status;
    }
    bool known = holds(fs, path, data, bytes);
    if (ret_bytes) {
        *ret_bytes = known ? 0 : bytes;
    }
    return known ? CULM_OK : culm_file_replace(fs, path, data, bytes, error);
}

static json_t *tensors_json(const struct culm_package_round *round) {
    json_t *tensors = json_object();
    bool ok = tensors != NULL;
    for (int32_t t = 0; t < round->tensor_count && ok; t++) {
        json_t *shape = json_array();
        for (int32_t d = 0; d < round->tensor[t].rank; d++) {
            ok = json_array_append_new(shape, json_integer(round->tensor[t].shape[d])) == 0 && ok;
        }
        ok = json_object_set_new(tensors, round->tensor[t].digest, shape) == 0 && ok;
    }
    if (!ok) {
        json_decref(tensors);
    }
    return ok ? tensors : NULL;
}

static json_t *params_json(const struct culm_package_round *round,
                           const struct culm_package_query *query) {
    json_t *params = json_object();
    bool ok = params != NULL;
    for (int32_t i = 0; i < query->param_count && ok; i++) {
        const struct culm_package_param *param = &query->param[i];
        json_t *item = json_pack("{s:s}", "tensor", round->tensor[param->tensor].digest);
        if (param->original != param->tensor) {
            ok = json_object_set_new(item, "original",
                                     json_string(round->tensor[param->original].digest)) == 0;
        }
        if (param->layer >= 0) {
            ok = json_object_set_new(item, "layer", json_integer(param->layer)) == 0 && ok;
        }
        ok = json_object_set_new(params, param->name, item) == 0 && ok;
    }
    if (!ok) {
        json_decref(params);
    }
    return ok ? params : NULL;
}

/* As a text, since a list would take a line for each number. */
static json_t *samples_json(const struct culm_package_query *query) {
    size_t size = (size_t)query->sample_count * 3 * 12 + 1, used = 0;
    char *text = malloc(size);
    for (int32_t i = 0; i < query->sample_count && text; i++) {
        const struct culm_package_sample *sample = &query->sample[i];
        used += (size_t)snprintf(text + used, size - used, "%s%d/%d/%d", i ? " " : "",
                                 sample->wanted, sample->missed, sample->added);
    }
    json_t *json = text ? json_pack("{s:f, s:f, s:s}", "score", query->sample_score, "step",
                                    query->sample_step, "frames", text)
                        : NULL;
    free(text);
    return json;
}

static json_t *query_json(const struct culm_package_round *round,
                          const struct culm_package_query *query) {
    json_t *params = params_json(round, query);
    json_t *json = params ? json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:O}", "query", query->name,
                                      "model", query->model, "identity", query->identity, "target",
                                      query->target, "original", query->original, "merged",
                                      query->merged, "parameters", params)
                          : NULL;
    if (json && query->weights &&
        json_object_set_new(json, "weights", json_string(query->weights)) != 0) {
        json_decref(json);
        json = NULL;
    }
    if (json && query->names &&
        json_object_set_new(json, "names", json_string(query->names)) != 0) {
        json_decref(json);
        json = NULL;
    }
    if (json && query->structure[0] &&
        json_object_set_new(json, "structure", json_string(query->structure)) != 0) {
        json_decref(json);
        json = NULL;
    }
    if (json && query->agreement >= 0) {
        json_object_set_new(json, "agreement", json_real(query->agreement));
    }
    if (json && query->overlap >= 0) {
        json_object_set_new(json, "overlap", json_real(query->overlap));
    }
    if (json && query->sample_count > 0 &&
        json_object_set_new(json, "samples", samples_json(query)) != 0) {
        json_decref(json);
        json = NULL;
    }
    if (json && query->reading[0] &&
        json_object_set_new(json, "reading", json_string(query->reading)) != 0) {
        json_decref(json);
        json = NULL;
    }
    if (json && query->normalized) {
        const float *m = query->mean, *d = query->deviation;
        json_object_set_new(json, "normalize",
                            json_pack("[f, f, f, f, f, f]", m[0], m[1], m[2], d[0], d[1], d[2]));
    }
    json_decref(params);
    return json;
}

static char *round_text(const struct culm_package_round *round, struct culm_error *error) {
    struct culm_package_sums sums;
    if (culm_package_sum(round, &sums, error) != CULM_OK) {
        return NULL;
    }
    json_t *tensors = tensors_json(round), *queries = json_array();
    bool ok = tensors && queries;
    for (int32_t q = 0; q < round->query_count && ok; q++) {
        ok = json_array_append_new(queries, query_json(round, &round->query[q])) == 0;
    }
    json_t *root =
        ok ? json_pack("{s:s, s:I, s:I, s:I, s:O, s:O}", "format", CULM_PACKAGE_FORMAT, "round",
                       (json_int_t)round->number, "total_bytes", (json_int_t)sums.total_bytes,
                       "distinct_bytes", (json_int_t)sums.distinct_bytes, "queries", queries,
                       "tensors", tensors)
           : NULL;
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    json_decref(tensors);
    json_decref(queries);
    if (!text) {
        culm_error_set(error, CULM_ERR_ARGUMENT, "package: a name is not UTF-8, or out of memory");
    }
    return text;
}

bool culm_package_holds(struct culm_fs *fs, const char *dir,
                        const struct culm_package_round *round) {
    struct culm_error ignored = {0};
    char path[CULM_PATH_MAX], *text = round_text(round, &ignored);
    const bool there = text &&
                       culm_path_format(path, &ignored, "%s/rounds/%" PRId64 ".json", dir,
                                        round->number) == CULM_OK &&
                       holds(fs, path, text, strlen(text));
    free(text);
    return there;
}

/* Reads `current`; "" if it is not there. */
static enum culm_status now_current(struct culm_fs *fs, const char *path, char ret_line[256],
                                    struct culm_error *error) {
    char *text = NULL;
    size_t len;
    enum culm_status status = culm_file_read(fs, path, 255, &text, &len, error);
    snprintf(ret_line, 256, "%s", status == CULM_OK ? text : "");
    free(text);
    return status == CULM_ERR_NOT_FOUND ? CULM_OK : status;
}

/* Syncs the folder: a tensor found in it may be from a writer that died before that. */
static enum culm_status sync_tensors(struct culm_fs *fs, const char *dir,
                                     struct culm_error *error) {
    char tensors[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(tensors, error, "%s/tensors", dir);
    return status == CULM_OK ? culm_file_sync(fs, tensors, error) : status;
}

enum culm_status culm_package_publish(struct culm_fs *fs, const char *dir,
                                      const struct culm_package_round *round,
                                      struct culm_error *error) {
    char path[CULM_PATH_MAX], current[CULM_PATH_MAX], digest[CULM_SHA256_HEX];
    char line[CULM_SHA256_HEX + 32], now[256], *text = round_text(round, error);
    if (!text) {
        return CULM_ERR_ARGUMENT;
    }
    enum culm_status status = culm_path_format(current, error, "%s/current", dir);
    if (status == CULM_OK) {
        status = culm_path_format(path, error, "%s/rounds/%" PRId64 ".json", dir, round->number);
    }
    if (status != CULM_OK) {
        goto out;
    }
    status = culm_sha256_of(text, strlen(text), digest);
    if (status != CULM_OK) {
        culm_error_set(error, status, "SHA-256 failed");
        goto out;
    }
    status = now_current(fs, current, now, error);
    if (status != CULM_OK) {
        goto out;
    }
    snprintf(line, sizeof line, "%" PRId64 " %s\n", round->number, digest);
    if (strcmp(now, line) == 0) { /* it has been published */
        goto out;
    }
    if (strncmp(now, line, strcspn(line, " ") + 1) == 0) {
        status =
            culm_error_set(error, CULM_ERR_ARGUMENT,
                           "package '%s': round %" PRId64 " counts already, and holds something "
                           "else",
                           dir, round->number);
        goto out;
    }
    status = sync_tensors(fs, dir, error);
    if (status == CULM_OK) {
        status = culm_file_replace(fs, path, text, strlen(text), error);
    }
    if (status == CULM_OK) {
        status = culm_file_replace(fs, current, line, strlen(line), error);
    }
out:
    free(text);
    return status;
}
