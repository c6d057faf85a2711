/*
 * The model of a run: the network of a single vertex, cut into stages where rows are gathered.
 *
 * It is a compute graph whose samples are vertices. A border between two blocks stands for a
 * gather: the rows that one stage makes enter the next as sums over neighbours, forward and
 * backward alike. The compute graph itself knows nothing of neighbours. There are two graphs: one
 * for training, with dropout and loss, and one for evaluation, whose output is the logits.
 *
 * gcn (Kipf and Welling 2017): Â dropout(x) W + b with Â = D^-1/2 (A + I) D^-1/2; rows are
 * multiplied by D^-1/2 before and after a gather. sage (Hamilton et al. 2017): the mean of the
 * neighbours times W_l, plus x W_r + b. gat (Veličković et al. 2018): softmax over neighbours of
 * LeakyReLU_0.2(a_dst T_i + a_src T_j) with T = x W; heads are concatenated, except in the last
 * layer, which takes their mean. Weights have the names, shapes and initial distributions of
 * PyTorch Geometric: convs.N.lin.weight, lin_l, lin_r, att_src, att_dst, bias.
 *
 * The *weights* of a run are one vector: the parameters of stage 0, then those of stage 1, and so
 * on. The gradient of a stage has the layout of that stage's part.
 *
 * With `precision: bf16`, rows are stored and sent as bf16; they are rounded once a stage or a
 * gather has computed them. Stages and sums compute in f32.
 *
 * Thread: constant once made.
 */
#ifndef CULM_GNN_MODEL_H
#define CULM_GNN_MODEL_H

#include "gnn/plan.h"
#include "graph/stage.h"

enum { CULM_GNN_FOR_TRAINING, CULM_GNN_FOR_EVALUATION };

/* Fields of the compute graphs, in this order: features f32[B,columns], or sparse; the vertices' own
 * features likewise, if the model has them; for training, labels i32[B,1], negative where a vertex is
 * not one to train on. */
enum { CULM_GNN_FIELDS = 3 };

/* The rows between two stages. A row begins with the part that neighbours read (`sent`); the rest
 * is read by its own vertex only and bypasses the gather. A row that comes out of a gather has
 * `width` floats, forward and backward.
 *
 * Attention with H heads of F features each, C = H F:
 *
 *     row:               T [C], a_src T [H] | the rest: a_dst T [H]
 *     gathered:          the sums O [C], zeros [2 H]
 *     row of gradients:  dO [C], a_dst T [H], lse [H], <dO, O> [H] | the rest: d(a_dst T) [H]
 *
 * where lse is the logarithm of the sum of exponentials. In training, the forward gather appends
 * an array [n,extra] to its result for the backward pass; each row of it has the sums of T weighted
 * by attention times the slope of LeakyReLU [C], the sums of those weights [H], lse [H], a_dst T
 * [H]. */
struct culm_gnn_border {
    int64_t width, sent;     /* floats of a row, and those of them that neighbours read */
    int64_t d_width, d_sent; /* the same of a row of gradients */
    int64_t extra;           /* floats per row of the appended array; 0: there is none */
    int64_t heads;           /* attention heads; 0: no attention */
};

struct culm_gnn_param {
    const struct culm_param_info *info;
    int32_t stage;
    int64_t at;  /* offset into the weights, in floats */
    bool turned; /* stored as [in, out] here, but as [out, in] (info->shape) in files */
    bool decays; /* weight decay applies */
};

struct culm_gnn_model {
    struct culm_gnn_plan plan;
    bool own_features;    /* the constant input has them beside what is gathered */
    enum culm_dtype rows; /* type of rows that are made, gathered and sent; all else is f32 */
    int32_t stages;
    /* Arrays [2] are indexed by CULM_GNN_FOR_TRAINING and CULM_GNN_FOR_EVALUATION. */
    struct culm_graph *graph[2];       /* with plan.rows_max samples */
    struct culm_graph *piece_graph[2]; /* with fewer; NULL: all intervals are small */
    struct culm_stage *stage[2][CULM_GNN_STAGES_MAX];
    /* Rows that a stage is compiled for: plan.rows_max, or fewer if it takes large intervals in
     * pieces. The number does not change a bit of the results. */
    int64_t stage_rows[2][CULM_GNN_STAGES_MAX];
    struct culm_gnn_border border[CULM_GNN_STAGES_MAX]; /* after each stage; the last: logits */
    int64_t weights_at[CULM_GNN_STAGES_MAX + 1]; /* offsets of stages in floats; [stages]: total */
    int32_t param_count;
    struct culm_gnn_param *param; /* by stage, and in the order of the stage */
};

/* `config` is borrowed during the call. CULM_ERR_CONFIG: intervals or rows are larger than kernels
 * can handle. */
enum culm_status culm_gnn_model_new(const struct culm_gnn_config *config,
                                    const struct culm_gnn_plan *plan,
                                    struct culm_gnn_model **ret_model, struct culm_error *error);
void culm_gnn_model_free(struct culm_gnn_model *model); /* NULL is fine */

/* The graph that a stage was compiled from. */
static inline const struct culm_graph *culm_gnn_model_graph(const struct culm_gnn_model *model,
                                                            int purpose, int32_t stage) {
    bool all = model->stage_rows[purpose][stage] == model->plan.rows_max;
    return all ? model->graph[purpose] : model->piece_graph[purpose];
}

/* Fills in the steps and gathers of the layout, including which steps workers may do. */
void culm_gnn_model_layout(const struct culm_gnn_model *model, struct culm_gnn_layout *layout);

/* The number of elements of all parameters together. */
int64_t culm_gnn_model_parameters(const struct culm_gnn_model *model);

#endif
