/*
 * What every process of a run builds from the configuration: the graph, its cut into intervals, the
 * model and the layout. Servers have all of it. Workers and parameter servers, which never see the
 * graph, build the model and the steps of the layout from the plan that they are told.
 *
 * Thread: constant once made.
 */
#ifndef CULM_GNN_SETUP_H
#define CULM_GNN_SETUP_H

#include "gnn/model.h"
#include "gnn/partition.h"
#include "gnn/structure.h"

/* A cut that was made earlier, as a file of culm_gnn_setup_write_cut or as the content of one, so
 * that every process has the same cut whatever its version of METIS and its memory. All zero: there
 * is none. Borrowed during the call. */
struct culm_gnn_cut {
    const char *path;            /* NULL: none */
    const uint32_t *interval_of; /* [vertices]; NULL: none */
    int64_t vertices; /* of interval_of, or of the run's graph; CULM_ERR_CHANGED if the graph has
                       * another number. 0 without interval_of: not known */
    const struct culm_stop *stop; /* as in culm_partition_options, where a cut has to be made */
};

struct culm_gnn_setup {
    const struct culm_gnn_config *config; /* borrowed */
    struct culm_graph_data *graph;        /* without edges; NULL: not opened, or forgotten */
    uint32_t *interval_of;                /* [V] by original number; NULL: not opened */
    int64_t *owned; /* [servers + 1] as from culm_partition_share; zeros unless for training */
    struct culm_partition_counts counts;  /* by servers; zero unless for training */
    struct culm_gnn_structure *structure; /* NULL: not opened, or forgotten */
    struct culm_gnn_model *model;         /* has the plan */
    struct culm_gnn_layout layout;        /* without the graph: only steps and gathers */
};

/* Reads the graph and cuts it. `pins` as in culm_graph_data_open; they are borrowed as long as the
 * setup lives. CULM_ERR_CONFIG if the graph and the configuration do not fit together, or if there
 * are more servers than intervals. */
enum culm_status culm_gnn_setup_open(const struct culm_gnn_config *config, struct culm_pins *pins,
                                     struct culm_gnn_setup **ret_setup, struct culm_error *error);
/* The same with a cut that was made earlier. */
enum culm_status culm_gnn_setup_open_cut(const struct culm_gnn_config *config,
                                         struct culm_pins *pins, const struct culm_gnn_cut *cut,
                                         struct culm_gnn_setup **ret_setup,
                                         struct culm_error *error);
/* Writes the interval of each vertex as an .npy file, completely or not at all. */
enum culm_status culm_gnn_setup_write_cut(const struct culm_gnn_setup *setup, const char *path,
                                          struct culm_error *error);
/* For evaluation only, by a model of `classes` classes. The graph needs features only. If
 * config->intervals is larger than the number of vertices, it is set to that; if there
 * is no cut, it is raised as far as graph.memory_mb requires. */
enum culm_status culm_gnn_setup_predict(struct culm_gnn_config *config, struct culm_pins *pins,
                                        int64_t classes, const struct culm_gnn_cut *cut,
                                        struct culm_gnn_setup **ret_setup,
                                        struct culm_error *error);
/* From a plan, without the graph. */
enum culm_status culm_gnn_setup_plan(const struct culm_gnn_config *config,
                                     const struct culm_gnn_plan *plan,
                                     struct culm_gnn_setup **ret_setup, struct culm_error *error);
/* About the bytes that training takes on all servers together: features (sparse ones by rows and by
 * columns), edges in both directions, rows, weights. Not after culm_gnn_setup_forget_graph. */
int64_t culm_gnn_setup_memory(const struct culm_gnn_setup *setup);
/* Frees `graph` and `structure`, which become NULL, for a process that only needs the cut. */
void culm_gnn_setup_forget_graph(struct culm_gnn_setup *setup);
void culm_gnn_setup_close(struct culm_gnn_setup *setup); /* NULL is fine */

#endif
