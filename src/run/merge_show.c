/* What models could share, and what those of a package do share. See culm/merge.h. */
#include "base/json.h"
#include "merge/match.h"
#include "query/config.h"
#include "query/package.h"
#include "run/merge_inputs.h"
#include "run/merge_internal.h"
#include "run/public.h"

#include <culm/merge.h>
#include <stdlib.h>
#include <string.h>

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merge show: out of memory");
}

/* --- a workload --- */

/* A layer is named after its weights, without ".weight". */
static json_t *layer_name(const char *weight) {
    char name[128];
    size_t len = strlen(weight), end = strlen(".weight");
    snprintf(name, sizeof name, "%s", weight);
    if (len > end && len < sizeof name && strcmp(weight + len - end, ".weight") == 0) {
        name[len - end] = '\0';
    }
    return culm_json_text(name);
}

/* The first query that uses a model. */
static const char *query_of(const struct culm_merge_inputs *in, int32_t model) {
    size_t q = 0;
    while (in->model_of[q] != model) {
        q++;
    }
    return in->workload->queries[q].name;
}

static json_t *instance_json(const struct culm_merge_inputs *in,
                             const struct culm_instance *instance) {
    json_t *queries = json_array(), *layers = json_array();
    for (int32_t m = 0; m < instance->count; m++) {
        const struct culm_merge_model *model = &in->model[instance->member[m].model];
        const struct culm_vision_layer *layer = &model->layers.layer[instance->member[m].layer];
        json_array_append_new(queries, json_string(query_of(in, instance->member[m].model)));
        json_array_append_new(layers, layer_name(model->graph->param[layer->weight].name));
    }
    return json_pack("{s:I, s:o, s:o}", "bytes", (json_int_t)instance->bytes, "queries", queries,
                     "layers", layers);
}

static enum culm_status show_inputs(const struct culm_merge_inputs *in, json_t **ret_json,
                                    struct culm_error *error) {
    const struct culm_vision_layers **layers = calloc((size_t)in->models + 1, sizeof *layers);
    struct culm_match match[3] = {0};
    int64_t prefix = 0;
    enum culm_status status = layers ? CULM_OK : no_memory(error);
    for (int32_t k = 0; k < in->models && layers; k++) {
        layers[k] = &in->model[k].layers;
    }
    for (int rule = 0; rule < 3 && status == CULM_OK; rule++) {
        status =
            culm_match_find(layers, in->models, (enum culm_match_rule)rule, &match[rule], error);
    }
    if (status == CULM_OK) {
        json_t *instances = json_array();
        culm_match_prefix(layers, in->models, &prefix);
        for (int32_t i = 0; i < match[0].count; i++) {
            json_array_append_new(instances, instance_json(in, &match[0].instance[i]));
        }
        *ret_json = json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "models", (json_int_t)in->models,
            "total_bytes", (json_int_t)match[0].total_bytes, "distinct_bytes",
            (json_int_t)(match[0].total_bytes - match[0].saved_bytes), "saved_bytes",
            (json_int_t)match[0].saved_bytes, "saved_loose_bytes", (json_int_t)match[1].saved_bytes,
            "saved_loose_and_inside_bytes", (json_int_t)match[2].saved_bytes, "prefix_bytes",
            (json_int_t)(prefix * (in->models - 1)), "instances", instances);
        status = *ret_json ? CULM_OK : no_memory(error);
    }
    for (int rule = 0; rule < 3; rule++) {
        culm_match_release(&match[rule]);
    }
    free(layers);
    return status;
}

/* The caller's, as a line. */
static enum culm_status as_text(json_t *take_json, char **ret_text, struct culm_error *error) {
    char *text = json_dumps(take_json, JSON_COMPACT);
    json_decref(take_json);
    if (!text) {
        return no_memory(error);
    }
    *ret_text = text;
    return CULM_OK;
}

enum culm_status merging_load(const struct culm_config *config, struct culm_workload *ret_workload,
                              struct culm_error *error) {
    return culm_workload_parse(config->text, config->len, config->name,
                               (const char *const *)config->set, config->set_count, ret_workload,
                               error);
}

enum culm_status culm_merge_config_text(const struct culm_config *workload, char **ret_text,
                                        struct culm_error *error) {
    struct culm_workload parsed;
    if (!workload) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_merge_config_text: workload is NULL");
    }
    enum culm_status status = merging_load(workload, &parsed, error);
    if (status != CULM_OK) {
        return status;
    }
    char *text = ret_text ? culm_config_dump_text(&culm_workload_table, &parsed) : NULL;
    culm_workload_release(&parsed);
    if (ret_text && !text) {
        return no_memory(error);
    }
    if (ret_text) {
        *ret_text = text;
    }
    return CULM_OK;
}

enum culm_status culm_merge_show_workload(const struct culm_config *workload, char **ret_json,
                                          struct culm_error *error) {
    struct culm_workload parsed;
    struct culm_merge_inputs inputs = {0};
    json_t *shown = NULL;
    if (!workload || !ret_json) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_merge_show_workload: an argument is NULL");
    }
    enum culm_status status = merging_load(workload, &parsed, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_merge_inputs_open(&parsed, true, &inputs, error);
    if (status == CULM_OK) {
        status = show_inputs(&inputs, &shown, error);
    }
    culm_merge_inputs_release(&inputs);
    culm_workload_release(&parsed);
    return status == CULM_OK ? as_text(shown, ret_json, error) : status;
}

/* --- a package --- */

/* A layer's weights that several queries share, with its bias if that is shared, too. */
static json_t *shared_json(const struct culm_package_round *round, int32_t tensor) {
    json_t *queries = json_array(), *layers = json_array();
    int64_t bytes = 4 * round->tensor[tensor].count;
    int32_t bias = -1;
    for (int32_t q = 0; q < round->query_count; q++) {
        const struct culm_package_query *query = &round->query[q];
        bool first = true;
        for (int32_t before = 0; before < q; before++) {
            first = first && strcmp(round->query[before].identity, query->identity) != 0;
        }
        for (int32_t i = 0; i < query->param_count && first; i++) {
            const struct culm_package_param *param = &query->param[i];
            if (param->tensor != tensor || param->layer < 0) {
                continue;
            }
            json_array_append_new(queries, json_string(query->name));
            json_array_append_new(layers, layer_name(param->name));
            for (int32_t k = 0; k < query->param_count; k++) {
                if (k != i && query->param[k].layer == param->layer) {
                    bias = bias < 0 ? query->param[k].tensor : bias;
                }
            }
        }
    }
    bytes += bias >= 0 ? 4 * round->tensor[bias].count : 0;
    if (json_array_size(queries) < 2 || round->tensor[tensor].rank < 2) {
        json_decref(queries);
        json_decref(layers);
        return NULL;
    }
    return json_pack("{s:I, s:o, s:o}", "bytes", (json_int_t)bytes, "queries", queries, "layers",
                     layers);
}

static json_t *accuracy_json(double value) { return value < 0 ? json_null() : json_real(value); }

static enum culm_status show_package(const char *dir, bool check, json_t **ret_json,
                                     struct culm_error *error) {
    struct culm_package_round round;
    struct culm_package_sums sums;
    enum culm_status status = culm_package_open(dir, &round, error);
    if (status != CULM_OK) {
        return status;
    }
    if ((!check || !(status = culm_package_check(dir, &round, error))) &&
        !(status = culm_package_sum(&round, &sums, error))) {
        json_t *instances = json_array(), *queries = json_array();
        for (int32_t t = 0; t < round.tensor_count; t++) {
            json_t *shared = shared_json(&round, t);
            if (shared) {
                json_array_append_new(instances, shared);
            }
        }
        for (int32_t q = 0; q < round.query_count; q++) {
            const struct culm_package_query *query = &round.query[q];
            json_array_append_new(
                queries,
                json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:f, s:I}", "query", query->name, "model",
                          culm_json_text(query->model), "original", accuracy_json(query->original),
                          "merged", accuracy_json(query->merged), "agreement",
                          accuracy_json(query->agreement), "overlap", accuracy_json(query->overlap),
                          "target", query->target, "shared_bytes",
                          (json_int_t)culm_package_shared_bytes(&round, q)));
        }
        *ret_json = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "round",
                              (json_int_t)round.number, "total_bytes", (json_int_t)sums.total_bytes,
                              "distinct_bytes", (json_int_t)sums.distinct_bytes, "saved_bytes",
                              (json_int_t)(sums.total_bytes - sums.distinct_bytes), "tensor_bytes",
                              (json_int_t)sums.tensor_bytes, "distinct_tensor_bytes",
                              (json_int_t)sums.tensor_distinct, "checked", check, "queries",
                              queries, "instances", instances);
        status = *ret_json ? CULM_OK : no_memory(error);
    }
    culm_package_round_release(&round);
    return status;
}

enum culm_status culm_merge_show_package(const char *dir, bool check, char **ret_json,
                                         struct culm_error *error) {
    json_t *shown = NULL;
    enum culm_status status = culm_public_check_dir(dir, "culm_merge_show_package", error);
    if (status == CULM_OK && !ret_json) {
        status =
            culm_error_set(error, CULM_ERR_ARGUMENT, "culm_merge_show_package: ret_json is NULL");
    }
    if (status == CULM_OK) {
        status = show_package(dir, check, &shown, error);
    }
    return status == CULM_OK ? as_text(shown, ret_json, error) : status;
}
