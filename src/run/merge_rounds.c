/* The rounds of a package, as a merge ships them, and what a resumed one goes on with. */
#include "run/merge_internal.h"

#include "run/merge_kept.h"

#include <string.h>

static struct culm_package_tensor tensor_of(const struct culm_merge_model *model, int32_t param) {
    const struct culm_shape *shape = &model->graph->param[param].shape;
    struct culm_package_tensor tensor = {.rank = shape->rank,
                                         .count = culm_merge_param_elements(model, param)};
    for (int32_t d = 0; d < shape->rank; d++) {
        tensor.shape[d] = shape->dim[d];
    }
    return tensor;
}

static int32_t layer_of(const struct culm_merge_model *model, int32_t param) {
    for (int32_t l = 0; l < model->layers.count; l++) {
        if (model->layers.layer[l].weight == param || model->layers.layer[l].bias == param) {
            return l;
        }
    }
    return -1;
}

static enum culm_status put_param(struct culm_merging *m, struct culm_package_round *round,
                                  struct culm_package_query *query, int32_t k, int32_t param,
                                  uint64_t *written, struct culm_error *error) {
    const struct culm_merge_model *model = m->models[k];
    struct culm_package_tensor now = tensor_of(model, param), was = now;
    uint64_t bytes[2];
    enum culm_status status;
    if ((status = culm_package_digest(&now, model->value[param], error)) ||
        (status = culm_package_digest(&was, model->original[param], error)) ||
        (status = culm_package_put(NULL, m->options.dir, &was, model->original[param], &bytes[0],
                                   error)) ||
        (status =
             culm_package_put(NULL, m->options.dir, &now, model->value[param], &bytes[1], error))) {
        return status;
    }
    *written += bytes[0] + bytes[1];
    int32_t tensor = culm_package_add_tensor(round, &now);
    int32_t original = tensor < 0 ? -1 : culm_package_add_tensor(round, &was);
    return original < 0 ? culm_merging_no_memory(error)
                        : culm_package_add_param(query, model->graph->param[param].name, tensor,
                                                 original, layer_of(model, param), error);
}

enum culm_status culm_merging_publish(struct culm_merging *m, int64_t number,
                                      const struct culm_merging_measured *measured,
                                      struct culm_merging_published *ret_published,
                                      struct culm_error *error) {
    struct culm_package_round round = {.number = number};
    enum culm_status status = CULM_OK;
    *ret_published = (struct culm_merging_published){0};
    for (size_t q = 0; q < m->workload.query_count && status == CULM_OK; q++) {
        const struct culm_query_config *config = &m->workload.queries[q];
        int32_t k = m->in.model_of[q];
        struct culm_package_query *query = culm_package_add_query(
            &round, config->name, config->model, config->weights, m->in.identity[k]);
        if (!query) {
            status = culm_merging_no_memory(error);
            break;
        }
        query->target = config->target;
        query->names = config->names ? strdup(config->names) : NULL;
        query->normalized = config->normalized;
        memcpy(query->mean, config->mean, sizeof query->mean);
        memcpy(query->deviation, config->deviation, sizeof query->deviation);
        query->original = measured ? measured->original[q] : -1;
        query->merged = measured ? measured->merged[q] : -1;
        query->agreement = measured ? measured->agreed[q] : -1;
        for (int32_t p = 0; p < m->models[k]->param_count && status == CULM_OK; p++) {
            status = put_param(m, &round, query, k, p, &ret_published->written, error);
        }
    }
    if (status == CULM_OK && number > m->have) {
        status = culm_package_publish(NULL, m->options.dir, &round, error);
    }
    if (status == CULM_OK) {
        status = culm_package_sum(&round, &ret_published->sums, error);
    }
    m->shipped = number;
    culm_package_round_release(&round);
    return status;
}

enum culm_status culm_merging_ship(void *ctx, int32_t round, struct culm_error *error) {
    struct culm_merging *m = ctx;
    struct culm_merging_published made;
    enum culm_status status = culm_merging_publish(m, m->after + round, NULL, &made, error);
    if (status == CULM_OK) {
        culm_merging_event(
            m, "merged",
            json_pack("{s:I, s:o, s:I, s:I, s:f}", "round", (json_int_t)(m->after + round),
                      "queries", culm_merging_sharing(m, &m->share), "saved_bytes",
                      (json_int_t)(made.sums.total_bytes - made.sums.distinct_bytes),
                      "changed_bytes", (json_int_t)made.written, "cpu_s", culm_merging_cpu_s()));
    }
    return status;
}

/* --- what a resumed run goes on with --- */

enum culm_status culm_merging_keep(void *ctx, const void *data, size_t len,
                                   struct culm_error *error) {
    const struct culm_merging *m = ctx;
    return culm_merge_kept_write(m->options.dir, &m->in, data, len, error);
}

enum culm_status culm_merging_recall(void *ctx, void **ret_data, size_t *ret_len,
                                     struct culm_error *error) {
    const struct culm_merging *m = ctx;
    *ret_data = NULL;
    *ret_len = 0;
    return m->options.resume
               ? culm_merge_kept_read(m->options.dir, &m->in, ret_data, ret_len, error)
               : CULM_OK;
}
