/* Models that are being merged, and what they share. */
#include "merge/model.h"

#include <stdlib.h>
#include <string.h>

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

/* As kernels want it. */
static float *floats(int64_t count) {
    size_t bytes = (4 * (size_t)count + 63) / 64 * 64;
    return aligned_alloc(64, bytes ? bytes : 64);
}

int64_t culm_merge_param_elements(const struct culm_merge_model *model, int32_t param) {
    return culm_elements(&model->graph->param[param].shape);
}

enum culm_status culm_merge_model_look(struct culm_merge_model *model,
                                       struct culm_vision_model *vision, struct culm_error *error) {
    *model = (struct culm_merge_model){.vision = vision};
    enum culm_status status =
        culm_vision_model_graph(vision, 1, CULM_VISION_INFER, &model->graph, error);
    return status == CULM_OK ? culm_vision_layers_of(model->graph, &model->layers, error) : status;
}

enum culm_status culm_merge_model_init(struct culm_merge_model *model,
                                       struct culm_vision_model *vision, struct culm_error *error) {
    enum culm_status status = culm_merge_model_look(model, vision, error);
    if (status != CULM_OK) {
        return status;
    }
    int32_t count = model->graph->param_count;
    model->original = calloc((size_t)count + 1, sizeof *model->original);
    model->value = calloc((size_t)count + 1, sizeof *model->value);
    model->aligned = calloc((size_t)count + 1, sizeof *model->aligned);
    if (!model->original || !model->value || !model->aligned) {
        return no_memory(error);
    }
    model->param_count = count;
    for (int32_t p = 0; p < count && status == CULM_OK; p++) {
        model->original[p] = floats(culm_merge_param_elements(model, p));
        model->value[p] = floats(culm_merge_param_elements(model, p));
        model->aligned[p] = floats(culm_merge_param_elements(model, p));
        if (!model->original[p] || !model->value[p] || !model->aligned[p]) {
            return no_memory(error);
        }
        status =
            culm_vision_model_weights(vision, &model->graph->param[p], model->original[p], error);
        if (status == CULM_OK) {
            memcpy(model->aligned[p], model->original[p],
                   4 * (size_t)culm_merge_param_elements(model, p));
        }
    }
    if (status == CULM_OK) {
        culm_merge_model_revert(model);
    }
    return status;
}

void culm_merge_model_release(struct culm_merge_model *model) {
    for (int32_t p = 0; p < model->param_count; p++) {
        free(model->original[p]);
        free(model->value[p]);
        free(model->aligned[p]);
    }
    free(model->aligned);
    free(model->original);
    free(model->value);
    culm_vision_layers_release(&model->layers);
    culm_graph_free(model->graph);
    *model = (struct culm_merge_model){0};
}

int32_t culm_merge_norm_param(const struct culm_graph *graph, int32_t norm, int32_t which) {
    return graph->value[graph->node[norm].input[1 + which]].param;
}

void culm_merge_model_revert(struct culm_merge_model *model) {
    for (int32_t p = 0; p < model->param_count; p++) {
        memcpy(model->value[p], model->original[p],
               4 * (size_t)culm_merge_param_elements(model, p));
    }
}

float *culm_merge_model_save(const struct culm_merge_model *model) {
    int64_t all = 0, at = 0;
    for (int32_t p = 0; p < model->param_count; p++) {
        all += culm_merge_param_elements(model, p);
    }
    float *saved = malloc(4 * (size_t)all + 4);
    for (int32_t p = 0; p < model->param_count && saved; p++) {
        int64_t elements = culm_merge_param_elements(model, p);
        memcpy(saved + at, model->value[p], 4 * (size_t)elements);
        at += elements;
    }
    return saved;
}

void culm_merge_model_restore(struct culm_merge_model *model, const float *saved) {
    for (int32_t p = 0; p < model->param_count; p++) {
        int64_t elements = culm_merge_param_elements(model, p);
        memcpy(model->value[p], saved, 4 * (size_t)elements);
        saved += elements;
    }
}

/* --- what is shared --- */

static void free_members(bool **in, int32_t count) {
    for (int32_t i = 0; i < count && in; i++) {
        free(in[i]);
    }
    free(in);
}

/* Of each instance nobody is in. NULL: out of memory. */
static bool **nobody_in(const struct culm_match *match) {
    bool **in = calloc((size_t)match->count + 1, sizeof *in);
    for (int32_t i = 0; i < match->count && in; i++) {
        in[i] = calloc((size_t)match->instance[i].count, sizeof **in);
        if (!in[i]) {
            free_members(in, i);
            return NULL;
        }
    }
    return in;
}

/* Whose instance which layer is. */
static void number_instances(struct culm_share *share) {
    for (int32_t i = 0; i < share->match.count; i++) {
        const struct culm_instance *instance = &share->match.instance[i];
        for (int32_t m = 0; m < instance->count; m++) {
            share->of[instance->member[m].model][instance->member[m].layer] = i;
        }
    }
}

enum culm_status culm_share_init(struct culm_share *share, const struct culm_match *take_match,
                                 struct culm_merge_model *const *models, int32_t count,
                                 struct culm_error *error) {
    *share = (struct culm_share){
        .match = *take_match,
        .in = nobody_in(take_match),
        .of = calloc((size_t)count + 1, sizeof *share->of),
        .layers = calloc((size_t)count + 1, sizeof *share->layers),
    };
    if (!share->in || !share->of || !share->layers) {
        return no_memory(error);
    }
    for (; share->models < count; share->models++) {
        int32_t layers = models[share->models]->layers.count;
        int32_t *of = malloc(((size_t)layers + 1) * sizeof *of);
        share->of[share->models] = of;
        share->layers[share->models] = layers;
        if (!of) {
            return no_memory(error);
        }
        for (int32_t l = 0; l < layers; l++) {
            of[l] = -1;
        }
    }
    number_instances(share);
    return CULM_OK;
}

enum culm_status culm_share_divide(struct culm_share *share, const int32_t *group,
                                   struct culm_error *error) {
    struct culm_match divided = share->match;
    enum culm_status status = culm_match_divide(&divided, group, share->models, error);
    if (status != CULM_OK) {
        return status;
    }
    bool **in = nobody_in(&divided);
    if (!in) {
        culm_match_release(&divided);
        return no_memory(error);
    }
    free_members(share->in, share->match.count);
    share->in = in;
    culm_match_release(&share->match);
    share->match = divided;
    for (int32_t m = 0; m < share->models; m++) {
        for (int32_t l = 0; l < share->layers[m]; l++) {
            share->of[m][l] = -1;
        }
    }
    number_instances(share);
    return CULM_OK;
}

void culm_share_release(struct culm_share *share) {
    for (int32_t m = 0; m < share->models; m++) {
        free(share->of[m]);
    }
    free_members(share->in, share->match.count);
    free(share->of);
    free(share->layers);
    culm_match_release(&share->match);
    *share = (struct culm_share){0};
}

void culm_share_set(struct culm_share *share, int32_t instance, bool shared) {
    for (int32_t m = 0; m < share->match.instance[instance].count; m++) {
        share->in[instance][m] = shared;
    }
}

void culm_share_leave(struct culm_share *share, int32_t model) {
    for (int32_t i = 0; i < share->match.count; i++) {
        for (int32_t m = 0; m < share->match.instance[i].count; m++) {
            if (share->match.instance[i].member[m].model == model) {
                share->in[i][m] = false;
            }
        }
    }
}

char *culm_share_text(const struct culm_share *share) {
    size_t length = 0, at = 0;
    for (int32_t i = 0; i < share->match.count; i++) {
        length += (size_t)share->match.instance[i].count;
    }
    char *text = malloc(length + 1);
    for (int32_t i = 0; i < share->match.count && text; i++) {
        for (int32_t m = 0; m < share->match.instance[i].count; m++) {
            text[at++] = share->in[i][m] ? '1' : '0';
        }
    }
    if (text) {
        text[at] = '\0';
    }
    return text;
}

void culm_share_put(struct culm_share *share, const char *text) {
    for (int32_t i = 0; i < share->match.count; i++) {
        for (int32_t m = 0; m < share->match.instance[i].count; m++) {
            share->in[i][m] = *text == '1';
            text += *text != '\0';
        }
    }
}

int32_t culm_share_count(const struct culm_share *share, int32_t instance) {
    int32_t count = 0;
    for (int32_t m = 0; m < share->match.instance[instance].count; m++) {
        count += share->in[instance][m];
    }
    return count;
}

const struct culm_member *culm_share_first(const struct culm_share *share, int32_t instance) {
    int32_t m = 0;
    while (!share->in[instance][m] && m + 1 < share->match.instance[instance].count) {
        m++;
    }
    return &share->match.instance[instance].member[m];
}

int32_t culm_share_of(const struct culm_share *share, int32_t model, int32_t layer) {
    int32_t instance = share->of[model][layer];
    if (instance < 0 || culm_share_count(share, instance) < 2) {
        return -1;
    }
    for (int32_t m = 0; m < share->match.instance[instance].count; m++) {
        const struct culm_member *member = &share->match.instance[instance].member[m];
        if (member->model == model && member->layer == layer) {
            return share->in[instance][m] ? instance : -1;
        }
    }
    return -1;
}

int64_t culm_share_saved(const struct culm_share *share) {
    int64_t saved = 0;
    for (int32_t i = 0; i < share->match.count; i++) {
        int32_t count = culm_share_count(share, i);
        saved += count > 1 ? share->match.instance[i].bytes * (count - 1) : 0;
    }
    return saved;
}

static void copy(struct culm_merge_model *to, int32_t into, const struct culm_merge_model *from,
                 int32_t param) {
    if (into >= 0 && param >= 0 && to->value[into] != from->value[param]) {
        memcpy(to->value[into], from->value[param],
               4 * (size_t)culm_merge_param_elements(to, into));
    }
}

void culm_share_copy(const struct culm_share *share, struct culm_merge_model *const *models,
                     int32_t instance) {
    const struct culm_member *first = culm_share_first(share, instance);
    struct culm_merge_model *from = models[first->model];
    const struct culm_vision_layer *a = &from->layers.layer[first->layer];
    for (int32_t m = 0; m < share->match.instance[instance].count; m++) {
        const struct culm_member *member = &share->match.instance[instance].member[m];
        if (share->in[instance][m]) {
            struct culm_merge_model *to = models[member->model];
            const struct culm_vision_layer *b = &to->layers.layer[member->layer];
            copy(to, b->weight, from, a->weight);
            copy(to, b->bias, from, a->bias);
        }
    }
}

float **culm_share_addresses(const struct culm_share *share, struct culm_merge_model *const *models,
                             int32_t model) {
    const struct culm_merge_model *own = models[model];
    float **value = calloc((size_t)own->param_count + 1, sizeof *value);
    if (!value) {
        return NULL;
    }
    memcpy(value, own->value, (size_t)own->param_count * sizeof *value);
    for (int32_t l = 0; l < own->layers.count; l++) {
        int32_t instance = culm_share_of(share, model, l);
        if (instance < 0) {
            continue;
        }
        const struct culm_member *first = culm_share_first(share, instance);
        const struct culm_vision_layer *a = &models[first->model]->layers.layer[first->layer];
        const struct culm_vision_layer *b = &own->layers.layer[l];
        value[b->weight] = models[first->model]->value[a->weight];
        if (b->bias >= 0) {
            value[b->bias] = models[first->model]->value[a->bias];
        }
    }
    return value;
}
