/* Compiles a network into stages, and lays out their weights. See model.h. */
#include "gnn/model.h"

#include "gnn/network.h"

#include <stdlib.h>
#include <string.h>

/* --- the model --- */

/* A piece has so few rows that a stage's values for them stay in the caches. Kernels sum over rows
 * in runs of RUN_ROWS, one run after the other (PROTOCOL 1), so computing in pieces of whole runs
 * gives the same bits. */
#define RUN_ROWS 256
#define PIECE_ROWS (8 * RUN_ROWS)
#define BLOCK_ROWS 512 /* smaller blocks cost more in calls than they save in waiting for rows */
#define BLOCK_UNIT 16  /* so that blocks begin on a cache line, whatever the width of a row */

static enum culm_status compile(struct culm_gnn_model *m, const struct culm_gnn_config *config,
                                int64_t rows, int purpose, struct culm_graph **ret_graph,
                                struct culm_stage **ret_stage, struct culm_error *error) {
    static const int32_t first_block[CULM_GNN_STAGES_MAX] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                             8, 9, 10, 11, 12, 13, 14, 15};
    const struct culm_stage_options options = {.forward_only = purpose == CULM_GNN_FOR_EVALUATION,
                                               .first_block = first_block};
    struct culm_gnn_plan plan = m->plan;
    plan.rows_max = rows;
    *ret_graph = culm_graph_new(culm_device_default());
    if (!*ret_graph) {
        return culm_error_set(error, CULM_ERR_MEMORY, "model: out of memory");
    }
    enum culm_status status = culm_gnn_network_build(
        config, &plan, purpose == CULM_GNN_FOR_TRAINING, *ret_graph, m->border, error);
    if (status == CULM_OK) {
        m->stages = (*ret_graph)->blocks;
        status = culm_stages_compile(*ret_graph, m->stages, &options, ret_stage, error);
    }
    return status;
}

/* Whether a stage may be computed in pieces with the same bits. Rows are computed independently of
 * each other, except in the gradients of weights, which are sums over rows; only linear layers form
 * these sums in runs. The last stage computes the loss and the scores, over all rows at once. */
static bool in_pieces(const struct culm_gnn_model *m, int purpose, int32_t s) {
    const struct culm_graph *program = culm_stage_program(m->stage[purpose][s]);
    if (s + 1 == m->stages || m->border[s].heads > 0 || (s == 0 && m->plan.sparse)) {
        return false;
    }
    for (int32_t i = 0; i < program->node_count; i++) {
        const struct culm_node_desc *node = &program->node[i];
        if (node->use[0] >= 0 && strcmp(node->op->name, "linear_grad_weight") != 0) {
            return false;
        }
    }
    return true;
}

/* Training stages are compiled for no more runs than a block has, because the activations kept for
 * the backward pass take up the room that a stage was compiled for. */
static int64_t piece_rows(const struct culm_gnn_model *m, int purpose) {
    const struct culm_gnn_layout layout = {.block_least = BLOCK_ROWS, .block_unit = BLOCK_UNIT};
    int64_t first;
    int64_t block =
        culm_gnn_layout_block(&layout, m->plan.rows_max, CULM_GNN_BLOCKS_MAX, 0, &first);
    int64_t runs = (block + RUN_ROWS - 1) / RUN_ROWS * RUN_ROWS;
    return purpose == CULM_GNN_FOR_TRAINING && runs < PIECE_ROWS ? runs : PIECE_ROWS;
}

/* Compiles the stages for all rows of an interval, or for pieces where intervals are large and the
 * stage allows it. */
static enum culm_status compile_for(struct culm_gnn_model *m, const struct culm_gnn_config *config,
                                    int purpose, struct culm_error *error) {
    struct culm_stage *piece[CULM_GNN_STAGES_MAX] = {NULL};
    enum culm_status status =
        compile(m, config, m->plan.rows_max, purpose, &m->graph[purpose], m->stage[purpose], error);
    int64_t rows = piece_rows(m, purpose);
    bool large = m->plan.rows_max > rows;
    if (status == CULM_OK && large) {
        status = compile(m, config, rows, purpose, &m->piece_graph[purpose], piece, error);
    }
    for (int32_t s = 0; s < m->stages && status == CULM_OK; s++) {
        struct culm_stage *all = m->stage[purpose][s];
        bool pieces = large && in_pieces(m, purpose, s);
        m->stage_rows[purpose][s] = pieces ? rows : m->plan.rows_max;
        m->stage[purpose][s] = pieces ? piece[s] : all;
        culm_stage_free(pieces ? all : piece[s]);
    }
    return status;
}

/* Lays out the parameters, and checks that both graphs have the same ones in the same places. */
static enum culm_status place_params(struct culm_gnn_model *m, struct culm_error *error) {
    m->param = calloc((size_t)m->graph[0]->param_count + 1, sizeof *m->param);
    if (!m->param) {
        return culm_error_set(error, CULM_ERR_MEMORY, "model: out of memory");
    }
    for (int32_t s = 0; s < m->stages; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(m->stage[0][s]);
        const struct culm_stage_info *other = culm_stage_info_of(m->stage[1][s]);
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
                .turned =
                    m->plan.sparse && p->rank == 2 && culm_gnn_network_reads_features(p->name),
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
                              "intervals: the largest has %lld vertices, and at most %lld are "
                              "possible; use more intervals",
                              (long long)plan->rows_max, (long long)most->rows);
    }
    int64_t widest = plan->sparse ? 0 : plan->columns;
    for (int32_t l = 0; l < plan->layers; l++) {
        int64_t out = culm_gnn_plan_out(plan, config, l);
        widest = out > widest ? out : widest;
    }
    /* With attention, a row has up to four more floats per head. */
    int64_t room = config->model.arch == CULM_GNN_GAT ? 4 * CULM_EDGE_HEADS_MAX : 0;
    if (widest > most->width - room) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "a vertex would have %lld features, over all heads; at most %lld are "
                              "possible, except for sparse features of the graph",
                              (long long)widest, (long long)(most->width - room));
    }
    struct culm_gnn_model *m = calloc(1, sizeof *m);
    if (!m) {
        return culm_error_set(error, CULM_ERR_MEMORY, "model: out of memory");
    }
    m->plan = *plan;
    m->own_features = culm_gnn_plan_own(plan, config);
    m->rows = config->precision == CULM_PRECISION_BF16 ? CULM_BF16 : CULM_F32;
    enum culm_status status = compile_for(m, config, CULM_GNN_FOR_TRAINING, error);
    if (status == CULM_OK) {
        status = compile_for(m, config, CULM_GNN_FOR_EVALUATION, error);
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
        culm_graph_free(m->piece_graph[p]);
    }
    free(m->param);
    free(m);
}

#define SCORED_MAX (1 << 20) /* vertices whose scores the leader is sent at each evaluation */

/* Whether a stage has a matrix product. Sending one without to a worker does not pay off. */
static bool multiplies(const struct culm_gnn_model *m, int32_t stage) {
    for (int32_t i = 0; i < m->param_count; i++) {
        if (m->param[i].stage == stage && m->param[i].info->rank > 1) {
            return true;
        }
    }
    return false;
}

static bool has_heads(const struct culm_gnn_model *m) {
    for (int32_t s = 0; s < m->stages; s++) {
        if (m->border[s].heads > 0) {
            return true;
        }
    }
    return false;
}

/* What neighbours read of the rows that a step makes. */
static void set_gathers(const struct culm_gnn_model *m, struct culm_gnn_layout *layout) {
    for (int32_t i = 0; i < layout->steps; i++) {
        const struct culm_gnn_step *step = &layout->step[i];
        if (step->makes >= 0) {
            struct culm_gnn_gather *gather = &layout->gather[step->makes];
            const struct culm_gnn_border *border = &m->border[step->stage - gather->transposed];
            gather->sent_floats = (int32_t)(gather->transposed ? border->d_sent : border->sent);
            gather->sent_bytes = (size_t)gather->sent_floats * culm_dtype_bytes(m->rows);
            gather->edges = m->border[0].heads > 0;
        }
    }
}

void culm_gnn_model_layout(const struct culm_gnn_model *m, struct culm_gnn_layout *layout) {
    size_t row_bytes[CULM_GNN_STAGES_MAX], d_row_bytes[CULM_GNN_STAGES_MAX];
    size_t gradient_bytes[CULM_GNN_STAGES_MAX], element = culm_dtype_bytes(m->rows);
    for (int32_t s = 0; s < m->stages; s++) {
        row_bytes[s] = (size_t)m->border[s].width * element;
        d_row_bytes[s] = (size_t)m->border[s].d_width * element;
        gradient_bytes[s] =
            (size_t)culm_stage_info_of(m->stage[CULM_GNN_FOR_TRAINING][s])->param_floats *
            sizeof(float);
    }
    culm_gnn_layout_steps(layout, m->stages, row_bytes, d_row_bytes, gradient_bytes);
    layout->block_least = BLOCK_ROWS;
    layout->block_unit = BLOCK_UNIT;
    for (int32_t i = 0; i < layout->steps; i++) {
        struct culm_gnn_step *step = &layout->step[i];
        step->remote = multiplies(m, step->stage);
        step->kept =
            step->kind == CULM_GNN_BACKWARD && culm_gnn_plan_keeps(&m->plan) &&
            culm_stage_info_of(m->stage[CULM_GNN_FOR_TRAINING][step->stage])->activation_bytes > 0;
        /* Attention appends an array after all rows, and sparse features are read by columns, so
         * neither can be divided into blocks of rows. */
        bool whole = has_heads(m) || (step->stage == 0 && m->plan.sparse);
        /* A forward step without rows to wait for streams all the same: what it keeps is read by
         * the backward step, which streams. */
        step->streams = !whole && step->kind != CULM_GNN_SCORE &&
                        (step->rows >= 0 || step->d_rows >= 0 || step->kind == CULM_GNN_FORWARD);
    }
    layout->scores = m->plan.classes == 2 && m->plan.vertices <= SCORED_MAX;
    set_gathers(m, layout);
}

int64_t culm_gnn_model_parameters(const struct culm_gnn_model *m) {
    int64_t count = 0;
    for (int32_t i = 0; i < m->param_count; i++) {
        count += m->param[i].info->count;
    }
    return count;
}
