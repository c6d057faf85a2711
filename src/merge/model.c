/* Models being merged, and the record of what they share. See model.h. */
#include "merge/model.h"

#include <stdlib.h>
#include <string.h>

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

/* Aligned and padded as kernels expect. */
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

/* Flags for every member of every instance, all false. NULL: out of memory. */
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

/* Fills in `of`: the instance of each layer. */
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
        .tie = calloc((size_t)count + 1, sizeof *share->tie),
        .bytes = calloc((size_t)count + 1, sizeof *share->bytes),
    };
    if (!share->in || !share->of || !share->layers || !share->tie || !share->bytes) {
        return no_memory(error);
    }
    for (int32_t k = 0; k < count; k++) {
        const struct culm_vision_layers *layers = &models[k]->layers;
        const size_t room = (size_t)layers->count + 1;
        share->models = k + 1;
        share->layers[k] = layers->count;
        share->of[k] = malloc(room * sizeof **share->of);
        share->tie[k] = calloc(room, sizeof **share->tie);
        share->bytes[k] = calloc(room, sizeof **share->bytes);
        if (!share->of[k] || !share->tie[k] || !share->bytes[k]) {
            return no_memory(error);
        }
        for (int32_t l = 0; l < layers->count; l++) {
            share->of[k][l] = -1;
            share->bytes[k][l] = layers->layer[l].bytes;
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
    culm_share_untie(share);
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
        free(share->tie ? share->tie[m] : NULL);
        free(share->bytes ? share->bytes[m] : NULL);
    }
    free_members(share->in, share->match.count);
    free(share->of);
    free(share->tie);
    free(share->bytes);
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
    memset(share->tie[model], 0, (size_t)share->layers[model] * sizeof **share->tie);
}

/* --- ties --- */

/* Gives a new number to a layer and to everything it is tied with. */
static void renumber(struct culm_share *share, struct culm_member layer, int32_t number) {
    const int32_t was = share->tie[layer.model][layer.layer];
    share->tie[layer.model][layer.layer] = number;
    for (int32_t k = 0; k < share->models && was > 0; k++) {
        for (int32_t l = 0; l < share->layers[k]; l++) {
            share->tie[k][l] = share->tie[k][l] == was ? number : share->tie[k][l];
        }
    }
}

/* The same for the layer and all that share its instance. */
static void set_tie(struct culm_share *share, struct culm_member layer, int32_t number) {
    const int32_t i = culm_share_of(share, layer.model, layer.layer);
    renumber(share, layer, number);
    for (int32_t m = 0; i >= 0 && m < share->match.instance[i].count; m++) {
        if (share->in[i][m]) {
            renumber(share, share->match.instance[i].member[m], number);
        }
    }
}

static int32_t last_tie(const struct culm_share *share) {
    int32_t last = 0;
    for (int32_t k = 0; k < share->models; k++) {
        for (int32_t l = 0; l < share->layers[k]; l++) {
            last = share->tie[k][l] > last ? share->tie[k][l] : last;
        }
    }
    return last;
}

void culm_share_tie(struct culm_share *share, struct culm_member layer, struct culm_member other) {
    const int32_t number = last_tie(share) + 1;
    set_tie(share, layer, number);
    set_tie(share, other, number);
}

static void set_in(struct culm_share *share, struct culm_member layer, bool in) {
    const int32_t i = share->of[layer.model][layer.layer];
    for (int32_t m = 0; i >= 0 && m < share->match.instance[i].count; m++) {
        const struct culm_member *member = &share->match.instance[i].member[m];
        if (member->model == layer.model && member->layer == layer.layer) {
            share->in[i][m] = in;
        }
    }
}

void culm_share_enter(struct culm_share *share, struct culm_member layer) {
    const int32_t i = share->of[layer.model][layer.layer];
    set_in(share, layer, true);
    for (int32_t m = 0; i >= 0 && m < share->match.instance[i].count; m++) {
        const struct culm_member *other = &share->match.instance[i].member[m];
        if (share->in[i][m] && share->tie[other->model][other->layer] > 0) {
            culm_share_tie(share, layer, *other);
        }
    }
}

void culm_share_exit(struct culm_share *share, struct culm_member layer) {
    set_in(share, layer, false);
    share->tie[layer.model][layer.layer] = 0;
}

void culm_share_untie(struct culm_share *share) {
    for (int32_t k = 0; k < share->models; k++) {
        memset(share->tie[k], 0, (size_t)share->layers[k] * sizeof **share->tie);
    }
}

static bool is_tied(const struct culm_share *share, struct culm_member layer) {
    const int32_t number = share->tie[layer.model][layer.layer];
    int32_t count = 0;
    for (int32_t k = 0; k < share->models && number > 0; k++) {
        for (int32_t l = 0; l < share->layers[k]; l++) {
            count += share->tie[k][l] == number;
        }
    }
    return count > 1;
}

struct culm_member culm_share_holder(const struct culm_share *share, struct culm_member layer) {
    const int32_t number = share->tie[layer.model][layer.layer];
    for (int32_t k = 0; k < share->models && number > 0; k++) {
        for (int32_t l = 0; l < share->layers[k]; l++) {
            if (share->tie[k][l] == number) {
                return (struct culm_member){k, l};
            }
        }
    }
    const int32_t i = culm_share_of(share, layer.model, layer.layer);
    return i >= 0 ? *culm_share_first(share, i) : layer;
}

bool culm_share_with(const struct culm_share *share, struct culm_member layer) {
    return culm_share_of(share, layer.model, layer.layer) >= 0 || is_tied(share, layer);
}

bool culm_share_any(const struct culm_share *share, int32_t model) {
    for (int32_t l = 0; l < share->layers[model]; l++) {
        if (culm_share_with(share, (struct culm_member){model, l})) {
            return true;
        }
    }
    return false;
}

/* --- as text --- */

#define DIGITS 3 /* characters of a tie's number, six bits each */

static int64_t member_count(const struct culm_share *share) {
    int64_t count = 0;
    for (int32_t i = 0; i < share->match.count; i++) {
        count += share->match.instance[i].count;
    }
    return count;
}

static int64_t layer_count(const struct culm_share *share) {
    int64_t count = 0;
    for (int32_t k = 0; k < share->models; k++) {
        count += share->layers[k];
    }
    return count;
}

char *culm_share_text(const struct culm_share *share) {
    size_t at = 0;
    char *text = malloc((size_t)(member_count(share) + DIGITS * layer_count(share)) + 1);
    for (int32_t i = 0; i < share->match.count && text; i++) {
        for (int32_t m = 0; m < share->match.instance[i].count; m++) {
            text[at++] = share->in[i][m] ? '1' : '0';
        }
    }
    for (int32_t k = 0; k < share->models && text; k++) {
        for (int32_t l = 0; l < share->layers[k]; l++) {
            for (int32_t d = 0; d < DIGITS; d++) {
                text[at++] = (char)('0' + (share->tie[k][l] >> 6 * d & 63));
            }
        }
    }
    if (text) {
        text[at] = '\0';
    }
    return text;
}

/* Restores the models that are not in inside[models] (NULL: all); ties are numbered from `first` +
 * 1. */
static void put(struct culm_share *share, const bool *inside, int32_t first, const char *text) {
    for (int32_t i = 0; i < share->match.count; i++) {
        const struct culm_instance *instance = &share->match.instance[i];
        for (int32_t m = 0; m < instance->count; m++, text++) {
            if (!inside || !inside[instance->member[m].model]) {
                share->in[i][m] = *text == '1';
            }
        }
    }
    for (int32_t k = 0; k < share->models; k++) {
        for (int32_t l = 0; l < share->layers[k]; l++, text += DIGITS) {
            int32_t number = 0;
            for (int32_t d = 0; d < DIGITS; d++) {
                number |= (text[d] - '0') << 6 * d;
            }
            if (!inside || !inside[k]) {
                share->tie[k][l] = number > 0 ? first + number : 0;
            }
        }
    }
}

void culm_share_put(struct culm_share *share, const char *text) { put(share, NULL, 0, text); }

void culm_share_put_others(struct culm_share *share, const bool *inside, const char *text) {
    put(share, inside, last_tie(share), text);
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
    for (int32_t k = 0; k < share->models; k++) {
        for (int32_t l = 0; l < share->layers[k]; l++) {
            const struct culm_member holder = culm_share_holder(share, (struct culm_member){k, l});
            saved += holder.model != k || holder.layer != l ? share->bytes[k][l] : 0;
        }
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

static void copy_layer(struct culm_merge_model *const *models, struct culm_member to,
                       struct culm_member from) {
    const struct culm_vision_layer *a = &models[from.model]->layers.layer[from.layer];
    const struct culm_vision_layer *b = &models[to.model]->layers.layer[to.layer];
    copy(models[to.model], b->weight, models[from.model], a->weight);
    copy(models[to.model], b->bias, models[from.model], a->bias);
}

void culm_share_copy(const struct culm_share *share, struct culm_merge_model *const *models,
                     int32_t instance) {
    for (int32_t m = 0; m < share->match.instance[instance].count; m++) {
        if (share->in[instance][m]) {
            copy_layer(models, share->match.instance[instance].member[m],
                       *culm_share_first(share, instance));
        }
    }
}

void culm_share_spread(const struct culm_share *share, struct culm_merge_model *const *models) {
    for (int32_t k = 0; k < share->models; k++) {
        for (int32_t l = 0; l < share->layers[k]; l++) {
            const struct culm_member own = {k, l};
            copy_layer(models, own, culm_share_holder(share, own));
        }
    }
}

void culm_share_give(const struct culm_share *share, struct culm_merge_model *const *models,
                     struct culm_member from) {
    const int32_t number = share->tie[from.model][from.layer];
    for (int32_t k = 0; k < share->models && number > 0; k++) {
        for (int32_t l = 0; l < share->layers[k]; l++) {
            if (share->tie[k][l] == number) {
                copy_layer(models, (struct culm_member){k, l}, from);
            }
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
        const struct culm_member first = culm_share_holder(share, (struct culm_member){model, l});
        const struct culm_vision_layer *a = &models[first.model]->layers.layer[first.layer];
        const struct culm_vision_layer *b = &own->layers.layer[l];
        value[b->weight] = models[first.model]->value[a->weight];
        if (b->bias >= 0) {
            value[b->bias] = models[first.model]->value[a->bias];
        }
    }
    return value;
}
