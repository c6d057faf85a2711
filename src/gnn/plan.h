/*
 * The plan of a run: what follows from the configuration and from the counts of the graph. It is
 * sent to processes that never see the graph, so that all build the same model.
 *
 * Order of work: a layer may multiply rows by its weights before it gathers them or afterwards;
 * mathematically the result is the same. `order: auto` gathers whichever rows are narrower. A first
 * layer of dense features gathers once, before the first epoch (`aggregated`): the constant input
 * of an interval is then its rows of ÂX (gcn), or of the means of neighbours and of X (sage);
 * otherwise its rows of X. Sparse features are multiplied first, because ÂX has about mean-degree
 * times as many entries as X, and multiplying those in every epoch would cost more than two gathers
 * of narrow rows.
 *
 * Attention always multiplies first: its scores are computed from the product, and gathering first
 * would mean a sum for each head.
 *
 * `order: published` is Dorylus's order, for comparison: every layer gathers first, X is gathered
 * in every epoch, and features are stored dense. In both orders the first layer's dropout is applied
 * to dense features once they are gathered. So rows of X are the same in every epoch, and servers
 * exchange them only once, as in Dorylus.
 *
 * Thread: constant once made.
 */
#ifndef CULM_GNN_PLAN_H
#define CULM_GNN_PLAN_H

#include "data/graph_data.h"
#include "gnn/config.h"
#include "interval/layout.h"

#include <jansson.h>

struct culm_gnn_plan {
    int64_t vertices, edges; /* as stored: an undirected edge counts once */
    int64_t columns, classes;
    int64_t train;    /* training vertices */
    int64_t rows_max; /* vertices of the largest interval */
    bool directed;
    bool sparse; /* the constant input is sparse */
    int32_t layers;
    bool multiply_first[CULM_GNN_STAGES_MAX]; /* [layers] */
    bool aggregated;                          /* the constant input is gathered */
};

/* The plan for training. Of the graph's arrays only the splits are read. CULM_ERR_CONFIG if the
 * graph cannot be trained on: it lacks features, classes, the configured split, or training
 * vertices in it. */
enum culm_status culm_gnn_plan_make(const struct culm_gnn_config *config,
                                    const struct culm_graph_data *graph, int64_t rows_max,
                                    struct culm_gnn_plan *ret_plan, struct culm_error *error);
/* The plan for predicting `classes` classes on a graph, which needs features only. CULM_ERR_CONFIG
 * if it has none. rows_max is left at 1; the caller sets it. */
enum culm_status culm_gnn_plan_predict(const struct culm_gnn_config *config,
                                       const struct culm_graph_data *graph, int64_t classes,
                                       struct culm_gnn_plan *ret_plan, struct culm_error *error);
/* Whether activations of a forward step may be kept for the backward step. In Dorylus's order they
 * never are. */
bool culm_gnn_plan_keeps(const struct culm_gnn_plan *plan);
/* Whether the constant input has the vertices' own features beside what is gathered. */
bool culm_gnn_plan_own(const struct culm_gnn_plan *plan, const struct culm_gnn_config *config);
/* The numbers of features that a layer takes in and puts out, over all heads. */
int64_t culm_gnn_plan_in(const struct culm_gnn_plan *plan, const struct culm_gnn_config *config,
                         int32_t layer);
int64_t culm_gnn_plan_out(const struct culm_gnn_plan *plan, const struct culm_gnn_config *config,
                          int32_t layer);

/* The plan as JSON, the caller's to free with json_decref; NULL: out of memory. */
json_t *culm_gnn_plan_json(const struct culm_gnn_plan *plan);
/* Reads back what culm_gnn_plan_json has written. CULM_ERR_FORMAT. */
enum culm_status culm_gnn_plan_read(const json_t *json, struct culm_gnn_plan *ret_plan,
                                    struct culm_error *error);

#endif
