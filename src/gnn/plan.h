/*
 * The plan of a run: what follows from the configuration and the counts of a graph, so that every
 * process builds the same model, also those that never see the graph.
 *
 * Order: a layer's product may come before its gather or behind it; the sums are those of the same
 * matrices. Rows are gathered where they are narrower. A first layer that gathers dense features
 * does so once, and never again (`aggregated`): then the constant input of an interval is its rows
 * of ÂX, otherwise its rows of X. Sparse features are multiplied first: ÂX has more entries than X
 * by about the mean degree, which costs more in every epoch than two gathers of narrow rows.
 *
 * GraphSAGE and attention multiply first: a vertex has a part of its own there, or scores.
 *
 * Dorylus's own order, to compare with, gathers first in every layer, X in every epoch; features are
 * dense then. Dropout of the first layer falls on what was gathered in either order: rows of X are the
 * same in every epoch, and servers send them to others once, as Dorylus does.
 *
 * Thread: constant once made.
 */
#ifndef CULM_GNN_PLAN_H
#define CULM_GNN_PLAN_H

#include "data/graph_data.h"
#include "gnn/config.h"
#include "gnn/layout.h"

#include <jansson.h>

struct culm_gnn_plan {
    int64_t vertices, edges; /* as stored */
    int64_t columns, classes;
    int64_t train;    /* vertices that train */
    int64_t rows_max; /* of an interval */
    bool directed;
    bool sparse; /* the constant input is */
    int32_t layers;
    bool multiply_first[CULM_GNN_STAGES_MAX]; /* [layers] */
    bool aggregated;                          /* the constant input is ÂX */
};

/* The graph's splits, and no other arrays, are read. CULM_ERR_CONFIG when the graph cannot train:
 * without features, labels, training vertices, or that split. */
enum culm_status culm_gnn_plan_make(const struct culm_gnn_config *config,
                                    const struct culm_graph_data *graph, int64_t rows_max,
                                    struct culm_gnn_plan *ret_plan, struct culm_error *error);
/* The same of a graph that nothing is learned on, with so many classes: it needs features alone. */
enum culm_status culm_gnn_plan_predict(const struct culm_gnn_config *config,
                                       const struct culm_graph_data *graph, int64_t classes,
                                       struct culm_gnn_plan *ret_plan, struct culm_error *error);
/* Whoever computes something that it needs again may keep it. In Dorylus's own order nobody does. */
bool culm_gnn_plan_keeps(const struct culm_gnn_plan *plan);
/* Features that layer `layer` takes, and makes: of all heads. */
int64_t culm_gnn_plan_in(const struct culm_gnn_plan *plan, const struct culm_gnn_config *config,
                         int32_t layer);
int64_t culm_gnn_plan_out(const struct culm_gnn_plan *plan, const struct culm_gnn_config *config,
                          int32_t layer);

/* NULL: out of memory. */
json_t *culm_gnn_plan_json(const struct culm_gnn_plan *plan);
/* CULM_ERR_FORMAT. */
enum culm_status culm_gnn_plan_read(const json_t *json, struct culm_gnn_plan *ret_plan,
                                    struct culm_error *error);

#endif
