/*
 * What every process of a run builds alike from the configuration: the graph, its cut, the model and
 * the layout. Servers have all of it; workers and parameter servers that never see the graph have
 * the plan that they were told, and what follows from it.
 *
 * Thread: constant once made.
 */
#ifndef CULM_GNN_SETUP_H
#define CULM_GNN_SETUP_H

#include "gnn/model.h"
#include "gnn/partition.h"
#include "gnn/structure.h"

/* A cut that was made before, so that whoever opens the graph has the same, whatever its METIS and however
 * much memory it has: a file of culm_gnn_setup_write_cut, or what was in one. Neither: there is none.
 * Borrowed. */
struct culm_gnn_cut {
    const char *path;            /* NULL: none */
    const uint32_t *interval_of; /* [vertices]; NULL: none */
    int64_t vertices;            /* CULM_ERR_CHANGED where the graph has other ones */
};

struct culm_gnn_setup {
    const struct culm_gnn_config *config; /* borrowed */
    struct culm_graph_data *graph; /* NULL: not asked for, or forgotten. Its edges are gone */
    uint32_t *interval_of;         /* [V] by original numbers; NULL likewise */
    int64_t *owned; /* [servers + 1] as of culm_partition_share; of setup_open alone */
    struct culm_partition_counts counts;  /* of what servers own; likewise */
    struct culm_gnn_structure *structure; /* NULL likewise */
    struct culm_gnn_model *model;         /* has the plan */
    struct culm_gnn_layout layout;        /* without the graph: its steps alone */
};

/* Reads the graph and cuts it. `pins` as for culm_graph_data_open; they are borrowed as long as the
 * setup. CULM_ERR_CONFIG also when there are more servers than intervals. */
enum culm_status culm_gnn_setup_open(const struct culm_gnn_config *config, struct culm_pins *pins,
                                     struct culm_gnn_setup **ret_setup, struct culm_error *error);
/* The same with a cut that was made before. */
enum culm_status culm_gnn_setup_open_cut(const struct culm_gnn_config *config,
                                         struct culm_pins *pins, const struct culm_gnn_cut *cut,
                                         struct culm_gnn_setup **ret_setup,
                                         struct culm_error *error);
/* The interval of each vertex as an .npy file, whole or not at all. */
enum culm_status culm_gnn_setup_write_cut(const struct culm_gnn_setup *setup, const char *path,
                                          struct culm_error *error);
/* For evaluation alone, by a model of so many classes: of the graph only features are needed, and
 * config->intervals comes down to the number of vertices. */
enum culm_status culm_gnn_setup_predict(struct culm_gnn_config *config, int64_t classes,
                                        const struct culm_gnn_cut *cut,
                                        struct culm_gnn_setup **ret_setup,
                                        struct culm_error *error);
/* Without the graph. */
enum culm_status culm_gnn_setup_plan(const struct culm_gnn_config *config,
                                     const struct culm_gnn_plan *plan,
                                     struct culm_gnn_setup **ret_setup, struct culm_error *error);
/* Who computes nothing has no use for features and edges once the graph has been cut: `graph` and
 * `structure` are NULL from now on. */
void culm_gnn_setup_forget_graph(struct culm_gnn_setup *setup);
void culm_gnn_setup_close(struct culm_gnn_setup *setup); /* NULL is fine */

#endif
