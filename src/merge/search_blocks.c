/* Training block by block. See search_blocks.h. */
#include "merge/search_blocks.h"

#include "merge/joint.h"
#include "merge/search_course.h"
#include "merge/search_samples.h"
#include "merge/stem.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS 8 /* at most */

struct blocks {
    struct culm_search *s;
    int32_t *instance; /* [instances]: those that are shared, in order */
    int32_t instances;
    /* [models]: the nodes of the block, from begin + 1 (-1 + 1: the model's first) to end; none if
     * they are equal. */
    int32_t *begin;
    int32_t *end;
    struct search_samples *samples; /* [models] */
    struct culm_stem *stem;         /* [models] */
    float ***value;                 /* [models][parameters] */
    bool **frozen;                  /* [models][parameters] */
};

static void end_block(const struct blocks *b) {
    for (int32_t k = 0; k < b->s->count && b->value && b->frozen; k++) {
        free(b->value[k]);
        free(b->frozen[k]);
        b->value[k] = NULL;
        b->frozen[k] = NULL;
    }
}

static void release(const struct blocks *b) {
    end_block(b);
    free(b->instance);
    free(b->begin);
    free(b->end);
    free(b->samples);
    free(b->stem);
    free(b->value);
    free(b->frozen);
}

static enum culm_status prepare(struct blocks *b, struct culm_error *error) {
    const struct culm_search *s = b->s;
    const size_t count = (size_t)s->count + 1;
    b->instance = calloc((size_t)s->share->match.count + 1, sizeof *b->instance);
    b->begin = calloc(count, sizeof *b->begin);
    b->end = calloc(count, sizeof *b->end);
    b->samples = calloc(count, sizeof *b->samples);
    b->stem = calloc(count, sizeof *b->stem);
    b->value = calloc(count, sizeof *b->value);
    b->frozen = calloc(count, sizeof *b->frozen);
    if (!b->instance || !b->begin || !b->end || !b->samples || !b->stem || !b->value ||
        !b->frozen) {
        return search_no_memory(error);
    }
    for (int32_t i = 0; i < s->share->match.count; i++) {
        if (culm_share_count(s->share, i) > 1) {
            b->instance[b->instances++] = i;
        }
    }
    for (int32_t k = 0; k < s->count; k++) {
        b->begin[k] = b->end[k] = -1;
        b->samples[k] = search_samples_of(s, k);
    }
    return CULM_OK;
}

/* The last node of a layer: its batch norm, if it has one. */
static int32_t node_behind(const struct culm_vision_layer *layer) {
    return layer->norm > layer->node ? layer->norm : layer->node;
}

/* The last node of a model's layers in instances [from, until); the end of its last block if none
 * is behind that. */
static int32_t end_of(const struct blocks *b, int32_t k, int32_t from, int32_t until) {
    int32_t end = b->end[k];
    for (int32_t l = 0; l < b->s->models[k]->layers.count; l++) {
        const int32_t own = culm_share_of(b->s->share, k, l);
        bool in = false;
        for (int32_t i = from; i < until; i++) {
            in |= own == b->instance[i];
        }
        const int32_t node = node_behind(&b->s->models[k]->layers.layer[l]);
        end = in && node > end ? node : end;
    }
    return end;
}

/* Whether all layers that share the layer's tensor are inside their models' blocks. */
static bool all_train(const struct blocks *b, struct culm_member layer) {
    const struct culm_search *s = b->s;
    const int32_t i = culm_share_of(s->share, layer.model, layer.layer);
    bool all = true;
    for (int32_t m = 0; i >= 0 && m < s->share->match.instance[i].count; m++) {
        const struct culm_member own = s->share->match.instance[i].member[m];
        const int32_t node = s->models[own.model]->layers.layer[own.layer].node;
        all = all &&
              (!s->share->in[i][m] || (node > b->begin[own.model] && node <= b->end[own.model]));
    }
    return all;
}

/* Freezes what is outside of the block, and what is outside of another model's block. */
static void freeze(const struct blocks *b, int32_t k, bool *frozen) {
    const struct culm_merge_model *model = b->s->models[k];
    memset(frozen, 1, (size_t)model->param_count);
    for (int32_t i = b->begin[k] + 1; i <= b->end[k]; i++) {
        const struct culm_node_desc *node = &model->graph->node[i];
        for (int32_t in = 0; in < node->op->inputs; in++) {
            const int32_t value = node->input[in];
            if (value >= 0 && model->graph->value[value].kind == CULM_VALUE_PARAM) {
                frozen[model->graph->value[value].param] = false;
            }
        }
    }
    for (int32_t l = 0; l < model->layers.count; l++) {
        const struct culm_vision_layer *layer = &model->layers.layer[l];
        if (!all_train(b, (struct culm_member){k, l})) {
            frozen[layer->weight] = true;
            if (layer->bias >= 0) {
                frozen[layer->bias] = true;
            }
        }
    }
}

static bool moves(const struct culm_merge_model *model, const bool *frozen) {
    bool any = false;
    for (int32_t p = 0; p < model->param_count; p++) {
        any |= !frozen[p];
    }
    return any;
}

static int64_t features(const struct culm_merge_model *model, int32_t node) {
    return culm_elements(&model->graph->value[model->graph->node[node].output[0]].shape);
}

/* Sets up the block of instances [from, until): for each model that has a part in it, the model up
 * to the block's end. ret_model[parts]. */
static enum culm_status join(struct blocks *b, int32_t from, int32_t until,
                             struct culm_joint_part *part, int32_t *ret_model, int32_t *ret_parts,
                             struct culm_error *error) {
    struct culm_search *s = b->s;
    *ret_parts = 0;
    for (int32_t k = 0; k < s->count; k++) { /* all models first: freeze() looks at every one */
        const int32_t end = end_of(b, k, from, until);
        b->begin[k] = b->end[k];
        b->end[k] = end;
    }
    for (int32_t k = 0; k < s->count; k++) {
        const struct culm_merge_model *model = s->models[k];
        if (b->end[k] == b->begin[k]) {
            continue;
        }
        culm_stem_init(&b->stem[k], model->vision, b->end[k]);
        b->value[k] = culm_share_addresses(s->share, s->models, k);
        b->frozen[k] = calloc((size_t)model->param_count + 1, sizeof **b->frozen);
        if (!b->value[k] || !b->frozen[k]) {
            return search_no_memory(error);
        }
        freeze(b, k, b->frozen[k]);
        if (!moves(model, b->frozen[k])) {
            continue;
        }
        part[*ret_parts] =
            (struct culm_joint_part){.model = &b->stem[k].vision,
                                     .value = b->value[k],
                                     .original = (const float *const *)model->aligned,
                                     .frozen = b->frozen[k],
                                     .samples = search_samples_give(&b->samples[k]),
                                     .each = search_samples_each(&b->samples[k])};
        ret_model[(*ret_parts)++] = k;
    }
    return CULM_OK;
}

static enum culm_status learn(const struct blocks *b, struct culm_joint *joint, double rate,
                              int64_t done, int64_t steps, int64_t all, struct culm_error *error) {
    struct culm_search *s = b->s;
    enum culm_status status = CULM_OK;
    for (int64_t i = 0; i < steps && status == CULM_OK; i++) {
        double loss;
        if (search_stopped(s)) {
            return search_stop(error);
        }
        culm_joint_rate(joint, search_course_rate(rate, i, (double)i / (double)steps));
        status = culm_joint_run(joint, 1, &loss, error);
        s->ops->step(s->ctx, done + i + 1, all, loss);
    }
    return status;
}

static enum culm_status train_block(struct blocks *b, int32_t from, int32_t until, int64_t done,
                                    int64_t steps, int64_t all, struct culm_error *error) {
    struct culm_search *s = b->s;
    struct culm_joint_part *part = calloc((size_t)s->count + 1, sizeof *part);
    int32_t *model = calloc((size_t)s->count + 1, sizeof *model), parts = 0;
    struct culm_joint *joint = NULL;
    int64_t least = SEARCH_SAMPLES_FULL;
    enum culm_status status =
        part && model ? join(b, from, until, part, model, &parts, error) : search_no_memory(error);
    for (int32_t i = 0; i < parts && status == CULM_OK; i++) {
        least = part[i].each < least ? part[i].each : least;
    }
    if (status == CULM_OK && parts > 0) {
        const struct culm_joint_config config =
            search_samples_config(least, s->config->seed + (uint64_t)from);
        status = culm_joint_new(&config, part, parts, s->device, &joint, error);
        for (int32_t i = 0; i < parts && status == CULM_OK; i++) {
            culm_joint_weight(joint, i,
                              1 / (double)features(s->models[model[i]], b->stem[model[i]].node));
        }
        status = status == CULM_OK ? learn(b, joint, config.optimizer.lr, done, steps, all, error)
                                   : status;
    }
    if (joint) {
        culm_joint_exchange(joint);
        culm_share_spread(s->share, s->models);
    }
    culm_joint_free(joint);
    end_block(b);
    free(part);
    free(model);
    return status;
}

enum culm_status search_blocks(struct culm_search *s, int64_t steps, struct culm_error *error) {
    struct blocks b = {.s = s};
    enum culm_status status = prepare(&b, error);
    const int32_t most = b.instances < BLOCKS ? b.instances : BLOCKS;
    const int32_t blocks = steps < most ? (int32_t)steps : most;
    for (int32_t i = 0; i < blocks && status == CULM_OK && !search_late(s); i++) {
        const int64_t each = steps / blocks;
        status = train_block(&b, i * b.instances / blocks, (i + 1) * b.instances / blocks, i * each,
                             each, blocks * each, error);
    }
    release(&b);
    return status;
}
