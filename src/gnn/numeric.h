/*
 * The numeric executor: runs the tasks of exec.h on a real graph and a real model, on a CPU, with
 * checkpoints in the run directory, or in a depot.
 *
 * What it can do depends on what it is given. With a graph, it can do all tasks of servers; without
 * one, it computes intervals from packed inputs, and holds weights. Every number is a pure function
 * of the configuration, the graph, its cut, and the task.
 *
 * The state of a holder is two or three vectors as long as the weights (model.h): weights, exp_avg
 * and, unless the optimizer is SGD, exp_avg_sq. EXPORT puts out these vectors, one after the other.
 * Constant inputs are kept until DROP, the state until the executor is freed.
 *
 * With graph.memory_mb, dense inputs of the intervals of a server are kept in an anonymous file,
 * and in memory as far as there is room (numeric_spill.c).
 *
 * Files, from above: numeric.c: sums and dispatch; numeric_store.c: checkpoints; numeric_state.c:
 * the state of a holder; numeric_apply.c: steps; numeric_gather.c: gathers and slices;
 * numeric_attention.c: gathers of attention; numeric_input.c: inputs of intervals; numeric_spill.c:
 * those in a file; numeric_kept.c: activations kept from forward to backward steps;
 * numeric_packed.c: packed inputs; numeric_room.c: what all of them use.
 *
 * Thread: see exec.h; I/O tasks may run beside others.
 */
#ifndef CULM_GNN_NUMERIC_H
#define CULM_GNN_NUMERIC_H

#include "device/device.h"
#include "gnn/model.h"
#include "gnn/structure.h"
#include "interval/exec.h"
#include "store/apart.h"
#include "store/depot.h"
#include "store/inputs.h"
#include "store/lineage.h"
#include "store/weights.h"

#define CULM_GNN_KEPT_MOST ((size_t)64 << 20)

struct culm_gnn_numeric_options {
    const struct culm_gnn_config *config; /* borrowed, like all pointers here */
    const char *config_text;              /* recorded in checkpoints */
    const char *signature;                /* of the kernels; recorded in checkpoints */
    /* NULL: none; SAVE and the leader's tasks need one. With a depot: a folder of this node's own. */
    const char *run_dir;
    struct culm_depot *depot; /* where the run's checkpoints are; NULL: in run_dir */
    struct culm_apart
        *apart; /* of a leader that is not the last one: where they count; NULL: in run_dir */
    /* With that one: what the run has cost by the events.jsonl in that folder; sets nothing if it cannot be read. */
    void (*spent)(void *ctx, const char *dir, double *ret_usd, double *ret_seconds);
    void *spent_ctx;
    const struct culm_gnn_model *model;
    const struct culm_gnn_layout *layout; /* with steps filled in */
    /* Both or neither. NULL: it cannot own intervals. Labels, splits and features must be open. */
    const struct culm_gnn_structure *structure;
    const struct culm_graph_data *graph;
    struct culm_blob_pool *pool;
    struct culm_device *device;         /* NULL: only the leader's tasks will be run */
    const struct culm_lineage *lineage; /* recorded in checkpoints; NULL: no change */
    /* PUBLISH: recorded in checkpoints; NULL: none. */
    const struct culm_inputs *inputs; /* pinned files */
    const char *cut_sha256;           /* of the graph's cut */
    struct culm_pins *pins;           /* model.init must match these; NULL: it is not checked */
    size_t kept_most;                 /* bytes of activations to keep; 0: CULM_GNN_KEPT_MOST */
};

/* Opens model.init, which the configuration must have. CULM_ERR_CONFIG: there is no such file, or it
 * is not of this model, which must find all its parameters there; CULM_ERR_CHANGED: it is not the
 * pinned one; otherwise as culm_weights_open. ret_note: as culm_weights_check. */
enum culm_status culm_gnn_init_open(const struct culm_gnn_config *config,
                                    const struct culm_gnn_model *model, struct culm_pins *pins,
                                    struct culm_weights **ret_weights,
                                    char ret_note[CULM_WEIGHTS_NOTE_SIZE],
                                    struct culm_error *error);

/* CULM_ERR_MEMORY. */
enum culm_status culm_gnn_numeric_new(const struct culm_gnn_numeric_options *options,
                                      struct culm_gnn_exec **ret_exec, struct culm_error *error);
void culm_gnn_numeric_free(struct culm_gnn_exec *exec); /* NULL is fine */

/* What a checkpoint takes on a disk, a little more rather than less; the weights alone. */
uint64_t culm_gnn_numeric_checkpoint_bytes(const struct culm_gnn_exec *exec, bool weights_only);
/* The bytes of features that a server must hold at once: the constant input of the largest interval,
 * with a few columns of the rows that it is gathered from; or, if features are sparse, all of them
 * with all that is made of them. */
size_t culm_gnn_numeric_needs(const struct culm_gnn_config *config,
                              const struct culm_gnn_model *model,
                              const struct culm_gnn_structure *structure,
                              const struct culm_graph_data *graph);
/* CULM_ERR_CONFIG if graph.memory_mb is given and too little for that. */
enum culm_status culm_gnn_numeric_fits(const struct culm_gnn_config *config,
                                       const struct culm_gnn_model *model,
                                       const struct culm_gnn_structure *structure,
                                       const struct culm_graph_data *graph,
                                       struct culm_error *error);

/* The value of options.kept_most for a node; `works`: it is a worker. For a function of AWS Lambda,
 * at most an eighth of lambda.memory_mb if that is given (half of it is for constant inputs). */
size_t culm_gnn_kept_most(const struct culm_gnn_config *config, bool works);

/* Statistics of kept activations (numeric_kept.c). */
struct culm_gnn_kept_counts {
    int64_t read; /* pieces that backward steps have found, since the executor was made */
    size_t bytes; /* kept now; rows that an owner has anyway are not counted */
};
struct culm_gnn_kept_counts culm_gnn_numeric_kept(const struct culm_gnn_exec *exec);

/* Makes SCORE put out the logits, in place of scores. */
void culm_gnn_numeric_give_logits(struct culm_gnn_exec *exec, bool give);
/* SHA-256 of the weights, as in checkpoints (store/checkpoint.h). Must not be called while a task
 * runs. CULM_ERR_INTERNAL if there are no weights. */
enum culm_status culm_gnn_numeric_hash(struct culm_gnn_exec *exec, char ret_weights[65],
                                       struct culm_error *error);

/* The largest payload of the run, for layout->payload_max: rows, a packed input, or a state. */
size_t culm_gnn_numeric_payload_max(const struct culm_gnn_model *model,
                                    const struct culm_gnn_layout *layout,
                                    const struct culm_gnn_structure *structure,
                                    const struct culm_graph_data *graph);

#endif
