/*
 * The model of a run: a network on one vertex, cut into stages where rows are gathered.
 *
 * It is one compute graph whose samples are vertices. A border between two blocks stands for a
 * gather: rows go in at one end and come out as sums over neighbours at the other, forward and backward
 * alike; of neighbours the compute graph knows nothing. Two graphs are made: for training, with dropout
 * and loss, and for evaluation, which gives logits.
 *
 * gcn (Kipf and Welling 2017): Â dropout(x) W + b, Â = D^-1/2 (A + I) D^-1/2, where D^-1/2 is
 * multiplied into rows before and behind a gather. sage (Hamilton et al. 2017): the mean of the
 * neighbours times W_l, plus x W_r + b. gat (Veličković et al. 2018): softmax over neighbours of
 * LeakyReLU_0.2(a_dst T_i + a_src T_j), T = x W, heads side by side, of the last layer their mean.
 * Weights have the names, shapes and first values of PyTorch Geometric's: convs.N.lin.weight, lin_l,
 * lin_r, att_src, att_dst, bias.
 *
 * *Weights* of a run are one vector: the parameters of every stage, one stage after the other. Those
 * of one stage are also what its gradient consists of.
 *
 * With `precision: bf16` rows are stored and sent as bf16, rounded where a stage or a gather has made
 * them; stages and sums compute in f32.
 *
 * Thread: constant once made.
 */
#ifndef CULM_GNN_MODEL_H
#define CULM_GNN_MODEL_H

#include "gnn/plan.h"
#include "graph/stage.h"

enum { CULM_GNN_FOR_TRAINING, CULM_GNN_FOR_EVALUATION };

/* Fields of the compute graphs. */
enum {
    CULM_GNN_FIELD_FEATURES, /* f32[B,columns], or sparse */
    CULM_GNN_FIELD_LABEL,    /* i32[B,1]; negative: does not train. Not for evaluation */
    CULM_GNN_FIELDS
};

/* What lies between two stages. A row that a stage makes begins with what neighbours read of it; the
 * rest passes by the gather: a vertex keeps it for itself. Behind the gather it is as wide again.
 *
 * Attention, of H heads of F features, H F = C: T, a_src T, and a_dst T as the rest. Behind it: the
 * sums, and zeros. Beside the rows a gather then keeps, for backward, in [n,extra]: the sums of T
 * weighted also by the slope of LeakyReLU [C], the sums of these weights [H], the logarithm of the
 * sum of exponentials [H], a_dst T [H]. Backward reads dO [C], a_dst T, that logarithm, and
 * <dO, O> [H]; d(a_dst T) [H] is the rest. */
struct culm_gnn_border {
    int64_t width, sent;     /* floats: of a row, and of those what neighbours read */
    int64_t d_width, d_sent; /* of a row of gradients */
    int64_t extra;
    int64_t heads; /* attention; 0: none */
};

struct culm_gnn_param {
    const struct culm_param_info *info;
    int32_t stage;
    int64_t at;  /* floats into the weights */
    bool turned; /* here it is [in, out]; in files [out, in], as info->shape says */
    bool decays;
};

struct culm_gnn_model {
    struct culm_gnn_plan plan;
    enum culm_dtype rows; /* of rows that are made, gathered and sent; all else is f32 */
    int32_t stages;
    struct culm_graph *graph[2];       /* of all rows of an interval */
    struct culm_graph *piece_graph[2]; /* of fewer rows; NULL: intervals are no larger */
    struct culm_stage *stage[2][CULM_GNN_STAGES_MAX];
    /* Rows that a stage takes at once: those of an interval, or fewer of one that is large. How many
     * changes no bit. */
    int64_t stage_rows[2][CULM_GNN_STAGES_MAX];
    struct culm_gnn_border border[CULM_GNN_STAGES_MAX]; /* behind each stage; of the last: logits */
    int64_t weights_at[CULM_GNN_STAGES_MAX + 1];        /* floats; the last: all of them */
    int32_t param_count;
    struct culm_gnn_param *param; /* by stage, then as in it */
};

/* The configuration is read during the call. CULM_ERR_CONFIG for what no kernel takes. */
enum culm_status culm_gnn_model_new(const struct culm_gnn_config *config,
                                    const struct culm_gnn_plan *plan,
                                    struct culm_gnn_model **ret_model, struct culm_error *error);
void culm_gnn_model_free(struct culm_gnn_model *model); /* NULL is fine */

/* What a stage was compiled from. */
static inline const struct culm_graph *culm_gnn_model_graph(const struct culm_gnn_model *model,
                                                            int purpose, int32_t stage) {
    bool all = model->stage_rows[purpose][stage] == model->plan.rows_max;
    return all ? model->graph[purpose] : model->piece_graph[purpose];
}

/* Fills the steps of the layout, and which of them workers may do. */
void culm_gnn_model_layout(const struct culm_gnn_model *model, struct culm_gnn_layout *layout);

/* Elements of all parameters. */
int64_t culm_gnn_model_parameters(const struct culm_gnn_model *model);

#endif
