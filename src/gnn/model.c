/* Graph convolutions as stages of one compute graph. See model.h. */
#include "gnn/model.h"

#include "model/layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct builder {
    const struct culm_gnn_config *config;
    const struct culm_gnn_plan *plan;
    struct culm_graph *graph;
    bool training;
    int64_t *made; /* of the stage that ends, in floats */
};

/* --- one layer --- */

static int32_t param(struct builder *b, int32_t layer, const char *what, int64_t rows,
                     int64_t columns, struct culm_start start) {
    char name[96];
    bool decays = b->config->optimizer.decay_layers == CULM_GNN_DECAY_ALL || layer == 0;
    const struct culm_shape vector = {1, {rows}}, matrix = {2, {rows, columns}};
    snprintf(name, sizeof name, "convs.%d.%s", layer, what);
    return culm_graph_param(b->graph, name, columns ? &matrix : &vector, start.kind, start.size,
                            decays);
}

static int32_t bias_of(struct builder *b, int32_t layer) {
    return param(b, layer, "bias", culm_gnn_plan_out(b->plan, b->config, layer), 0,
                 CULM_START_ZEROS);
}

/* x W, and the bias if it is not for later. The dropout of sparse rows is their product's own
 * business, as their zeros are not there. */
static int32_t multiply(struct builder *b, int32_t layer, int32_t x, bool bias) {
    int64_t in = culm_gnn_plan_in(b->plan, b->config, layer);
    int64_t out = culm_gnn_plan_out(b->plan, b->config, layer);
    const struct culm_start glorot = {CULM_INIT_UNIFORM, sqrt(6.0 / (double)(in + out))};
    if (layer == 0 && b->plan->sparse) {
        /* W as [in,out]: the product reads whole rows of it */
        int32_t w = param(b, layer, "lin.weight", in, out, glorot);
        const int32_t inputs[] = {x, w};
        const struct culm_attributes attributes = {.dropout =
                                                       b->training ? b->config->model.dropout : 0};
        if (w >= 0) {
            culm_graph_param_written(b->graph, w, &(struct culm_shape){2, {out, in}});
        }
        return culm_layer_apply(b->graph, "sparse_linear", inputs, 2, &attributes);
    }
    /* parameters in the order of their uses */
    int32_t w = param(b, layer, "lin.weight", out, in, glorot);
    const int32_t inputs[] = {x, w, bias ? bias_of(b, layer) : -1};
    const struct culm_attributes attributes = {.transposed = true};
    return culm_layer_apply(b->graph, "linear", inputs, 3, &attributes);
}

/* The rows of `x` are gathered: what follows is the next stage. A stage makes what leaves it, if only
 * as a copy of a field. */
static int32_t gather(struct builder *b, int32_t x) {
    struct culm_shape shape = culm_layer_shape(b->graph, x);
    if (x >= 0 && b->graph->value[x].kind == CULM_VALUE_FIELD) {
        const struct culm_attributes same = {.scale = 1};
        x = culm_layer_apply(b->graph, "affine", &x, 1, &same);
    }
    b->made[b->graph->block++] = culm_last_dim(&shape);
    return x;
}

static int32_t activate(struct builder *b, int32_t x) {
    static const enum culm_function of[] = {
        [CULM_GNN_RELU] = CULM_FUNCTION_RELU,
        [CULM_GNN_TANH] = CULM_FUNCTION_TANH,
        [CULM_GNN_ELU] = CULM_FUNCTION_ELU,
    };
    const struct culm_attributes attributes = {.function = of[b->config->model.activation],
                                               .alpha = 1};
    return culm_layer_apply(b->graph, "activation", &x, 1, &attributes);
}

static int32_t layer(struct builder *b, int32_t l, int32_t x) {
    const struct culm_gnn_model_config *model = &b->config->model;
    bool first = b->plan->multiply_first[l];
    if (b->training && !(l == 0 && b->plan->sparse)) {
        x = culm_layer_dropout(b->graph, x, model->dropout);
    }
    if (!first && (l > 0 || !b->plan->aggregated)) {
        x = gather(b, x);
    }
    if (!first) {
        x = multiply(b, l, x, model->bias);
    } else {
        x = gather(b, multiply(b, l, x, false));
    }
    if (first && model->bias) {
        const int32_t inputs[] = {x, bias_of(b, l)};
        const struct culm_attributes attributes = {.function = CULM_FUNCTION_ADD};
        x = culm_layer_apply(b->graph, "binary", inputs, 2, &attributes);
    }
    return l + 1 < b->plan->layers ? activate(b, x) : x;
}

static enum culm_status build(struct builder *b, struct culm_error *error) {
    const struct culm_gnn_plan *plan = b->plan;
    const struct culm_shape features = {2, {plan->rows_max, plan->columns}};
    const struct culm_shape labels = {2, {plan->rows_max, 1}};
    int32_t x =
        culm_graph_field(b->graph, "features", plan->sparse ? CULM_SPARSE : CULM_F32, &features);
    int32_t label = b->training ? culm_graph_field(b->graph, "label", CULM_I32, &labels) : -1;
    for (int32_t l = 0; l < plan->layers; l++) {
        x = layer(b, l, x);
    }
    if (b->training) {
        const int32_t inputs[] = {x, label};
        culm_layer_apply(b->graph, "cross_entropy", inputs, 2, NULL);
    } else if (x >= 0) {
        culm_graph_output(b->graph, "logits", x);
    }
    b->made[b->graph->block] = plan->classes;
    enum culm_status status = culm_graph_check(b->graph, error);
    if (status != CULM_OK) {
        culm_error_prefix(error, "model");
    }
    return status;
}

/* --- the model --- */

static enum culm_status compile(struct culm_gnn_model *m, const struct culm_gnn_config *config,
                                int purpose, struct culm_error *error) {
    static const int32_t first_block[CULM_GNN_STAGES_MAX] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                             8, 9, 10, 11, 12, 13, 14, 15};
    const struct culm_stage_options options = {.forward_only = purpose == CULM_GNN_FOR_EVALUATION,
                                               .first_block = first_block};
    m->graph[purpose] = culm_graph_new(culm_device_default());
    if (!m->graph[purpose]) {
        return culm_error_set(error, CULM_ERR_MEMORY, "model: out of memory");
    }
    struct builder b = {config, &m->plan, m->graph[purpose], purpose == CULM_GNN_FOR_TRAINING,
                        m->made};
    enum culm_status status = build(&b, error);
    if (status == CULM_OK) {
        m->stages = m->graph[purpose]->blocks;
        status =
            culm_stages_compile(m->graph[purpose], m->stages, &options, m->stage[purpose], error);
    }
    return status;
}

/* Both graphs have the same parameters in the same places. */
static enum culm_status place_params(struct culm_gnn_model *m, struct culm_error *error) {
    m->param = calloc((size_t)m->graph[0]->param_count + 1, sizeof *m->param);
    if (!m->param) {
        return culm_error_set(error, CULM_ERR_MEMORY, "model: out of memory");
    }
    for (int32_t s = 0; s < m->stages; s++) {
        const struct culm_stage_info *info = culm_stage_info(m->stage[0][s]);
        const struct culm_stage_info *other = culm_stage_info(m->stage[1][s]);
        bool alike =
            info->param_count == other->param_count && info->param_floats == other->param_floats &&
            info->grad_count == info->param_count && info->grad_floats == info->param_floats;
        for (int32_t i = 0; i < info->param_count && alike; i++) {
            const struct culm_param_info *p = &info->params[i];
            alike =
                strcmp(p->name, other->params[i].name) == 0 && p->offset == other->params[i].offset;
            for (int32_t g = 0; g < info->grad_count; g++) {
                alike = alike && (info->grads[g].param != i || info->grads[g].offset == p->offset);
            }
            m->param[m->param_count++] = (struct culm_gnn_param){
                .info = p,
                .stage = s,
                .at = m->weights_at[s] + p->offset,
                .turned = m->plan.sparse && strcmp(p->name, "convs.0.lin.weight") == 0,
                .decays = p->decay,
            };
        }
        if (!alike) {
            return culm_error_set(error, CULM_ERR_INTERNAL,
                                  "model: training and evaluation differ in their weights");
        }
        m->weights_at[s + 1] = m->weights_at[s] + info->param_floats;
    }
    return CULM_OK;
}

enum culm_status culm_gnn_model_new(const struct culm_gnn_config *config,
                                    const struct culm_gnn_plan *plan,
                                    struct culm_gnn_model **ret_model, struct culm_error *error) {
    const struct culm_device_limits *most = &culm_device_default()->limits;
    if (plan->rows_max > most->rows) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "intervals: the largest has %lld vertices, at most %lld are "
                              "possible; use more intervals",
                              (long long)plan->rows_max, (long long)most->rows);
    }
    if ((!plan->sparse && plan->columns > most->width) || config->model.width > most->width ||
        plan->classes > most->width) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%lld columns of features, width %lld, %lld classes are not "
                              "possible; at most %lld of each, of sparse features any number",
                              (long long)plan->columns, (long long)config->model.width,
                              (long long)plan->classes, (long long)most->width);
    }
    struct culm_gnn_model *m = calloc(1, sizeof *m);
    if (!m) {
        return culm_error_set(error, CULM_ERR_MEMORY, "model: out of memory");
    }
    m->plan = *plan;
    enum culm_status status = compile(m, config, CULM_GNN_FOR_TRAINING, error);
    if (status == CULM_OK) {
        status = compile(m, config, CULM_GNN_FOR_EVALUATION, error);
    }
    if (status == CULM_OK) {
        status = place_params(m, error);
    }
    if (status != CULM_OK) {
        culm_gnn_model_free(m);
        return status;
    }
    *ret_model = m;
    return CULM_OK;
}

void culm_gnn_model_free(struct culm_gnn_model *m) {
    if (!m) {
        return;
    }
    for (int p = 0; p < 2; p++) {
        for (int32_t s = 0; s < CULM_GNN_STAGES_MAX; s++) {
            culm_stage_free(m->stage[p][s]);
        }
        culm_graph_free(m->graph[p]);
    }
    free(m->param);
    free(m);
}

/* A stage without a product is not worth the way to a worker. */
static bool multiplies(const struct culm_gnn_model *m, int32_t stage) {
    for (int32_t i = 0; i < m->param_count; i++) {
        if (m->param[i].stage == stage && m->param[i].info->rank > 1) {
            return true;
        }
    }
    return false;
}

void culm_gnn_model_layout(const struct culm_gnn_model *m, struct culm_gnn_layout *layout) {
    size_t row_bytes[CULM_GNN_STAGES_MAX], gradient_bytes[CULM_GNN_STAGES_MAX];
    for (int32_t s = 0; s < m->stages; s++) {
        row_bytes[s] = (size_t)m->made[s] * sizeof(float);
        gradient_bytes[s] =
            (size_t)culm_stage_info(m->stage[CULM_GNN_FOR_TRAINING][s])->param_floats *
            sizeof(float);
    }
    culm_gnn_layout_steps(layout, m->stages, row_bytes, row_bytes, gradient_bytes);
    for (int32_t i = 0; i < layout->steps; i++) {
        layout->step[i].remote = multiplies(m, layout->step[i].stage);
    }
}

int64_t culm_gnn_model_parameters(const struct culm_gnn_model *m) {
    int64_t count = 0;
    for (int32_t i = 0; i < m->param_count; i++) {
        count += m->param[i].info->count;
    }
    return count;
}
