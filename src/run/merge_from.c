/*
 * What a resumed merge goes on from, if its queries, their models or their frames are others than
 * before: the round that was current then (DIR/after says which, and what has changed since).
 *
 * A model is found again by its weights, whatever its query is called now. It keeps its values and
 * what it shares (merge/search_seed.h). Only `method: culm` can do that; others search anew.
 */
#include "run/merge_internal.h"

#include "base/json.h"
#include "base/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what has changed --- */

/* The query of the workload before that a query was: of its name or, if there is none, one that is
 * gone now and had the same model. -1: none. */
static int32_t was(const struct culm_workload *before, const struct culm_workload *now, size_t q) {
    const struct culm_query_config *query = &now->queries[q];
    const int32_t named = culm_workload_find(before, query->name);
    for (size_t b = 0; b < before->query_count && named < 0; b++) {
        const struct culm_query_config *old = &before->queries[b];
        if (culm_workload_find(now, old->name) < 0 && strcmp(old->model, query->model) == 0 &&
            culm_words_same(old->weights, query->weights)) {
            return (int32_t)b;
        }
    }
    return named;
}

enum culm_status merging_compare(struct culm_merging *m, const struct culm_workload *before,
                                 struct culm_error *error) {
    const struct culm_workload *now = &m->workload;
    m->again = calloc(now->query_count + 1, sizeof *m->again);
    if (!m->again) {
        return merging_no_memory(error);
    }
    m->changed = before->query_count != now->query_count;
    for (size_t q = 0; q < now->query_count; q++) {
        const struct culm_query_config *query = &now->queries[q];
        const int32_t b = was(before, now, q);
        const struct culm_query_config *old = b < 0 ? NULL : &before->queries[b];
        m->again[q] = !old || !culm_workload_same_frames(before, (size_t)b, now, q) ||
                      !culm_query_same_classes(&old->reading, &query->reading) ||
                      old->score != query->score || old->target != query->target;
        m->changed = m->changed || m->again[q] || strcmp(old->name, query->name) != 0;
    }
    return CULM_OK;
}

bool merging_is_of(const struct culm_merging *m, const struct culm_package_round *round, int32_t of,
                   int32_t model) {
    return of >= 0 && strcmp(round->query[of].identity, m->in.identity[model]) == 0 &&
           !culm_vision_structure_differs(round->query[of].structure, m->in.structure[model]);
}

bool merging_has_any(const struct culm_merging *m, const struct culm_package_round *round) {
    for (size_t q = 0; q < m->workload.query_count; q++) {
        if (culm_package_query_find(round, m->workload.queries[q].name) >= 0) {
            return true;
        }
        for (int32_t of = 0; of < round->query_count; of++) {
            if (merging_is_of(m, round, of, m->in.model_of[q])) {
                return true;
            }
        }
    }
    return false;
}

bool merging_has_changed(const struct culm_merging *m, const struct culm_package_round *round) {
    bool changed = (size_t)round->query_count != m->workload.query_count;
    for (size_t q = 0; q < m->workload.query_count && !changed; q++) {
        const int32_t of = culm_package_query_find(round, m->workload.queries[q].name);
        changed = !merging_is_of(m, round, of, m->in.model_of[q]);
    }
    return changed;
}

/* --- DIR/after --- */

#define AGAIN "again" /* and the queries whose frames or targets are others since */

enum culm_status merging_write_after(struct culm_merging *m, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_buf text;
    culm_buf_init(&text, (size_t)1 << 20);
    culm_buf_printf(&text, "%" PRId64 "\n", m->after);
    if (m->goes_on) {
        culm_buf_printf(&text, AGAIN);
        for (size_t q = 0; q < m->workload.query_count; q++) {
            if (m->again[q]) {
                culm_buf_printf(&text, " %s", m->workload.queries[q].name);
            }
        }
        culm_buf_printf(&text, "\n");
    }
    enum culm_status status = culm_path_format(path, error, "%s/after", m->options.dir);
    if (status == CULM_OK) {
        status = text.failed ? merging_no_memory(error)
                             : culm_file_replace(NULL, path, text.data, text.len, error);
    }
    culm_buf_release(&text);
    return status;
}

/* " NAME NAME\n" */
static bool read_again(struct culm_merging *m, char *text) {
    char *end = strchr(text, '\n'), *rest = NULL;
    if (!end || end[1]) {
        return false;
    }
    for (char *name = strtok_r(text, " \n", &rest); name; name = strtok_r(NULL, " \n", &rest)) {
        const int32_t q = culm_workload_find(&m->workload, name);
        if (q >= 0) {
            m->again[q] = true;
        }
    }
    return true;
}

enum culm_status merging_read_after(struct culm_merging *m, struct culm_error *error) {
    char path[CULM_PATH_MAX], *text = NULL, *end = NULL;
    size_t len;
    enum culm_status status = culm_path_format(path, error, "%s/after", m->options.dir);
    if (status == CULM_OK) {
        status = culm_file_read(NULL, path, (size_t)1 << 20, &text, &len, error);
    }
    if (status == CULM_OK) {
        m->after = strtoll(text, &end, 10);
        bool right = end != text && *end == '\n' && m->after >= 0 && m->after <= INT32_MAX / 2;
        if (right && end[1]) { /* packages of older versions do not say more */
            m->goes_on = strncmp(end + 1, AGAIN, strlen(AGAIN)) == 0;
            right = m->goes_on && read_again(m, end + 1 + strlen(AGAIN));
        }
        if (!right) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "'%s': not a round number; copy the package again", path);
        }
    }
    free(text);
    return status == CULM_ERR_NOT_FOUND ? CULM_OK : status;
}

/* --- what is kept --- */

/* The query of the round that has a model: one of its own name, else any. -1: none. */
static int32_t query_with(const struct culm_merging *m, int32_t model) {
    for (size_t q = 0; q < m->workload.query_count; q++) {
        const int32_t of = culm_package_query_find(&m->from, m->workload.queries[q].name);
        if (m->in.model_of[q] == model && merging_is_of(m, &m->from, of, model)) {
            return of;
        }
    }
    for (int32_t of = 0; of < m->from.query_count; of++) {
        if (merging_is_of(m, &m->from, of, model)) {
            return of;
        }
    }
    return -1;
}

/* Reads the values that a model had. *ret_value stays NULL, with a warning, if they cannot be
 * read: then it begins again. */
static enum culm_status read_values(struct culm_merging *m, int32_t model, int32_t of,
                                    float **ret_value, struct culm_error *error) {
    const struct culm_merge_model *own = m->models[model];
    const struct culm_package_query *query = &m->from.query[of];
    struct culm_error why;
    enum culm_status status = CULM_OK;
    float *value = culm_merge_model_save(own);
    int64_t at = 0;
    if (!value) {
        return merging_no_memory(error);
    }
    for (int32_t p = 0; p < own->param_count && status == CULM_OK; p++) {
        const int32_t there = culm_package_param_find(query, own->graph->param[p].name);
        const struct culm_package_tensor *tensor =
            there < 0 ? NULL : &m->from.tensor[query->param[there].tensor];
        const int64_t count = culm_merge_param_elements(own, p);
        status = !tensor || tensor->count != count
                     ? culm_error_set(&why, CULM_ERR_FORMAT, "package '%s': it has no '%s' of it",
                                      m->options.dir, own->graph->param[p].name)
                     : culm_package_read(m->options.dir, tensor, value + at, &why);
        at += count;
    }
    if (status == CULM_ERR_MEMORY) {
        free(value);
        return merging_no_memory(error);
    }
    if (status != CULM_OK) {
        char text[CULM_ERROR_MAX + 128];
        snprintf(text, sizeof text, "query '%s' begins again: %s", query->name, why.text);
        merging_warn(m, text);
        free(value);
        return CULM_OK;
    }
    *ret_value = value;
    return CULM_OK;
}

/* The tensor of a parameter in the round; -1: it has none. */
static int32_t tensor_of(const struct culm_merging *m, int32_t model, int32_t of, int32_t param) {
    if (param < 0) {
        return -1;
    }
    const int32_t p =
        culm_package_param_find(&m->from.query[of], m->models[model]->graph->param[param].name);
    return p < 0 ? -1 : m->from.query[of].param[p].tensor;
}

/* Numbers the layers by their tensors, weights and bias together. */
static enum culm_status number_layers(struct culm_merging *m, struct culm_error *error) {
    struct pair {
        int32_t weight, bias;
    } *pair = NULL;
    int32_t layers = 0, pairs = 0;
    for (int32_t k = 0; k < m->in.models; k++) {
        layers += m->models[k]->layers.count;
    }
    if (!(pair = calloc((size_t)layers + 1, sizeof *pair))) {
        return merging_no_memory(error);
    }
    for (int32_t k = 0; k < m->in.models; k++) {
        for (int32_t l = 0; l < m->models[k]->layers.count && m->seed.value[k]; l++) {
            const struct culm_vision_layer *layer = &m->models[k]->layers.layer[l];
            const struct pair own = {tensor_of(m, k, m->of[k], layer->weight),
                                     tensor_of(m, k, m->of[k], layer->bias)};
            int32_t at = 0;
            while (at < pairs && (pair[at].weight != own.weight || pair[at].bias != own.bias)) {
                at++;
            }
            pair[at] = own;
            pairs += at == pairs;
            m->seed.tensor[k][l] = at + 1;
        }
    }
    free(pair);
    return CULM_OK;
}

/* Whether any other layer, of any model, has one of its tensors. */
static bool shares(const struct culm_merging *m, int32_t model) {
    for (int32_t l = 0; l < m->models[model]->layers.count; l++) {
        for (int32_t k = 0; k < m->in.models; k++) {
            for (int32_t i = 0; i < m->models[k]->layers.count && m->seed.value[k]; i++) {
                if ((k != model || i != l) && m->seed.tensor[k][i] == m->seed.tensor[model][l]) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Whether any query of the model is judged by something else than in the round. */
static bool is_changed(const struct culm_merging *m, int32_t model) {
    bool changed = false;
    for (size_t q = 0; q < m->workload.query_count; q++) {
        changed = changed || (m->in.model_of[q] == model && m->again[q]);
    }
    return changed;
}

/* Adds a name to one of the lists of `resumed`. */
static void add(json_t *lists, const char *key, const char *name) {
    json_t *list = json_object_get(lists, key);
    if (!list) {
        json_object_set_new(lists, key, list = json_array());
    }
    json_array_append_new(list, json_string(name));
}

static void tell(struct culm_merging *m) {
    json_t *lists = json_pack("{s:I, s:[]}", "round", (json_int_t)m->after, "kept");
    for (size_t q = 0; q < m->workload.query_count && lists; q++) {
        const char *name = m->workload.queries[q].name;
        const int32_t k = m->in.model_of[q], of = culm_package_query_find(&m->from, name);
        const bool same = merging_is_of(m, &m->from, of, k);
        if (same || (of < 0 && m->of[k] >= 0)) {
            add(lists, m->seed.value[k] ? "kept" : m->seed.tried[k] ? "alone" : "again", name);
        }
        if (!same) {
            add(lists, of >= 0 ? "changed" : m->of[k] >= 0 ? "renamed" : "added", name);
        }
    }
    for (int32_t of = 0; of < m->from.query_count && lists; of++) {
        bool gone = culm_workload_find(&m->workload, m->from.query[of].name) < 0;
        for (int32_t k = 0; k < m->in.models && gone; k++) {
            gone = !merging_is_of(m, &m->from, of, k); /* else its query was renamed */
        }
        if (gone) {
            add(lists, "gone", m->from.query[of].name);
        }
    }
    merging_event(m, "goes_on", lists);
}

/* `keeps`: whether the method can. */
static enum culm_status make_seed(struct culm_merging *m, bool keeps, struct culm_error *error) {
    const size_t models = (size_t)m->in.models + 1;
    m->of = calloc(models, sizeof *m->of);
    m->tried = calloc(models, sizeof *m->tried);
    m->seed = (struct culm_search_seed){.value = calloc(models, sizeof *m->seed.value),
                                        .tensor = calloc(models, sizeof *m->seed.tensor),
                                        .tried = m->tried,
                                        .ship = merging_has_changed(m, &m->from)};
    enum culm_status status =
        m->of && m->tried && m->seed.value && m->seed.tensor ? CULM_OK : merging_no_memory(error);
    for (int32_t k = 0; k < m->in.models && status == CULM_OK; k++) {
        m->of[k] = query_with(m, k);
        m->seed.tensor[k] = calloc((size_t)m->models[k]->layers.count + 1, sizeof(int32_t));
        status = !m->seed.tensor[k]       ? merging_no_memory(error)
                 : m->of[k] >= 0 && keeps ? read_values(m, k, m->of[k], &m->seed.value[k], error)
                                          : CULM_OK;
    }
    status = status ? status : number_layers(m, error);
    for (int32_t k = 0; k < m->in.models && status == CULM_OK; k++) {
        const bool there = m->seed.value[k] != NULL;
        m->tried[k] = there && !shares(m, k) && m->from.query[m->of[k]].merged >= 0 &&
                      culm_package_shared_bytes(&m->from, m->of[k]) == 0 && !is_changed(m, k);
    }
    for (int32_t k = 0; k < m->in.models && status == CULM_OK; k++) {
        if (m->seed.value[k] && !shares(m, k)) {
            free(m->seed.value[k]);
            m->seed.value[k] = NULL;
        }
    }
    return status;
}

enum culm_status merging_go_on(struct culm_merging *m, struct culm_search_seed **ret_seed,
                               struct culm_error *error) {
    const bool keeps = m->workload.merge.method == CULM_MERGE_CULM;
    *ret_seed = NULL;
    if (!m->goes_on) {
        return CULM_OK;
    }
    enum culm_status status = culm_package_open_round(m->options.dir, m->after, &m->from, error);
    if (status == CULM_OK && !(status = make_seed(m, keeps, error))) {
        tell(m);
        *ret_seed = keeps ? &m->seed : NULL;
    }
    return status;
}

/* The query of the round that this one was: of its name, or, if it was renamed, of its model. A query of another
 * name that is still there has frames of its own. */
static int32_t measured_of(const struct culm_merging *m, size_t q) {
    const int32_t model = m->in.model_of[q];
    for (int32_t i = 0; m->of && i < m->from.query_count; i++) {
        if (strcmp(m->from.query[i].name, m->workload.queries[q].name) == 0) {
            return merging_is_of(m, &m->from, i, model) ? i : -1;
        }
    }
    const int32_t of = m->of ? m->of[model] : -1;
    return of >= 0 && culm_workload_find(&m->workload, m->from.query[of].name) >= 0 ? -1 : of;
}

void merging_take_measured(const struct culm_merging *m, size_t q,
                           const struct culm_package_round *round,
                           struct culm_package_query *query) {
    const int32_t of = measured_of(m, q);
    const struct culm_package_query *old = of < 0 ? NULL : &m->from.query[of];
    if (!old || m->again[q] || old->merged < 0 || old->target != query->target) {
        return;
    }
    for (int32_t p = 0; p < query->param_count; p++) {
        const int32_t there = culm_package_param_find(old, query->param[p].name);
        if (there < 0 || strcmp(m->from.tensor[old->param[there].tensor].digest,
                                round->tensor[query->param[p].tensor].digest) != 0) {
            return;
        }
    }
    query->sample =
        old->sample_count ? malloc((size_t)old->sample_count * sizeof *old->sample) : NULL;
    if (old->sample_count && !query->sample) { /* it is measured once more at the end */
        return;
    }
    query->original = old->original;
    query->merged = old->merged;
    query->agreement = old->agreement;
    query->overlap = old->overlap;
    query->sample_score = old->sample_score;
    query->sample_step = old->sample_step;
    query->sample_count = old->sample_count;
    if (query->sample) {
        memcpy(query->sample, old->sample, (size_t)old->sample_count * sizeof *old->sample);
    }
}

void merging_from_release(struct culm_merging *m) {
    for (int32_t k = 0; k < m->in.models; k++) {
        free(m->seed.value ? m->seed.value[k] : NULL);
        free(m->seed.tensor ? m->seed.tensor[k] : NULL);
    }
    free(m->seed.value);
    free(m->seed.tensor);
    free(m->tried);
    free(m->of);
    free(m->again);
    culm_package_round_release(&m->from);
}
