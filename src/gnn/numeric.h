/*
 * The numeric executor: the tasks of exec.h on a real graph and a real model, on a CPU, with
 * checkpoints in the run directory.
 *
 * What a process can do follows from what it is given: with a graph, all that servers do; without
 * one, it computes intervals that were packed for it, and holds weights. Every number is a pure
 * function of the configuration, the graph, its cut, and the task.
 *
 * A state is up to three vectors as long as the weights (model.h): weights, exp_avg, exp_avg_sq; SGD
 * has no last one. What EXPORT makes is these vectors. Constant input, and the state, are kept until
 * DROP, or until the executor is freed.
 *
 * With graph.memory_mb the dense input of an interval that a server owns lies in a file that nobody else
 * sees (numeric_spill.c), and is in memory as long as there is room.
 *
 * Files: numeric.c state, sums and the rest; numeric_input.c what is kept of an interval;
 * numeric_kept.c what forward leaves for backward; numeric_gather.c gathers and slices;
 * numeric_attention.c those of attention; numeric_apply.c stages; numeric_store.c checkpoints.
 *
 * Thread: see exec.h; the tasks for files (SAVE, FINISH) may run beside others.
 */
#ifndef CULM_GNN_NUMERIC_H
#define CULM_GNN_NUMERIC_H

#include "device/device.h"
#include "gnn/exec.h"
#include "gnn/model.h"
#include "gnn/structure.h"

#define CULM_GNN_KEPT_MOST ((size_t)64 << 20)

struct culm_gnn_numeric_options {
    const struct culm_gnn_config *config; /* borrowed, like everything here */
    const char *config_text;              /* as checkpoints record it */
    const char *signature;
    const char *run_dir; /* NULL: no files */
    const struct culm_gnn_model *model;
    const struct culm_gnn_layout *layout;       /* with its steps */
    const struct culm_gnn_structure *structure; /* NULL: it owns no intervals; nor a graph */
    const struct culm_graph_data *graph;        /* labels, splits and features were read */
    struct culm_blob_pool *pool;
    struct culm_device *device; /* NULL: for FINISH alone */
    struct json_t *inputs;      /* as checkpoints record them; NULL: not */
    struct culm_pins *pins;     /* model.init is what was pinned; NULL: whatever it is */
    size_t kept_most; /* bytes of what stages forward leave for backward; 0: CULM_GNN_KEPT_MOST */
};

/* model.init of a configuration that has one. CULM_ERR_CONFIG: it is not there; CULM_ERR_CHANGED; as
 * culm_safetensors_open. */
struct culm_safetensors;
enum culm_status culm_gnn_init_open(const struct culm_gnn_config *config, struct culm_pins *pins,
                                    struct culm_safetensors **ret_file, struct culm_error *error);

/* CULM_ERR_MEMORY. */
enum culm_status culm_gnn_numeric_new(const struct culm_gnn_numeric_options *options,
                                      struct culm_gnn_exec **ret_exec, struct culm_error *error);
void culm_gnn_numeric_free(struct culm_gnn_exec *exec); /* NULL is fine */

/* CULM_ERR_CONFIG when graph.memory_mb is too little for what a server has to hold at once: the constant
 * input of its largest interval, and a part of the rows that this is made of; or all sparse features, with all
 * that is made of them. */
enum culm_status culm_gnn_numeric_fits(const struct culm_gnn_config *config,
                                       const struct culm_gnn_model *model,
                                       const struct culm_gnn_structure *structure,
                                       const struct culm_graph_data *graph,
                                       struct culm_error *error);

/* options.kept_most for a node; `works`: for a worker. A worker that is a function of AWS Lambda has at most an
 * eighth of lambda.memory_mb, where that is given; half of it is for constant input. */
size_t culm_gnn_kept_most(const struct culm_gnn_config *config, bool works);

/* Of what stages forward leave for backward (numeric_kept.c). */
struct culm_gnn_kept_counts {
    int64_t read; /* pieces that backward has found, since the executor was made */
    size_t bytes; /* that are kept now; owners' rows do not count */
};
struct culm_gnn_kept_counts culm_gnn_numeric_kept(const struct culm_gnn_exec *exec);

/* SCORE gives the logits as its output too. */
void culm_gnn_numeric_give_logits(struct culm_gnn_exec *exec, bool give);
/* SHA-256 of the weights that it holds, as checkpoints have it (store/checkpoint.h). Not while a
 * task runs. CULM_ERR_INTERNAL when it holds none. */
enum culm_status culm_gnn_numeric_hash(struct culm_gnn_exec *exec, char ret_weights[65],
                                       struct culm_error *error);

/* The largest message of the run, for layout->payload_max: rows, packed inputs, a whole state. */
size_t culm_gnn_numeric_payload_max(const struct culm_gnn_model *model,
                                    const struct culm_gnn_layout *layout,
                                    const struct culm_gnn_structure *structure,
                                    const struct culm_graph_data *graph);

#endif
