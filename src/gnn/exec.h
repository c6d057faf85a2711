/*
 * The executor: what tasks do to numbers. The protocol decides which task runs when, on which rows;
 * an executor runs it.
 *
 * Two executors exist: `numeric` (a real model on a real graph) and `symbolic` (rows are digests; for
 * proving the protocol). A task is a job of the world: `run` for compute, `io` for files. The
 * protocol fills in the request, keeps every blob named in it alive, and reads the result in
 * job_done. Results are pure functions of the request, bit for bit, whoever computes them: a task
 * that was lost is run again, by anyone.
 *
 * What an executor keeps is constant (the graph, an interval's input) or the state of a holder:
 * weights and what the optimizer keeps of them, at one version. Version v is what v epochs made. It may
 * also keep what one task has computed and another would compute again, which changes no result.
 *
 * Thread: `execute` runs off the loop; tasks of one node never overlap, except those for files with
 * others.
 */
#ifndef CULM_GNN_EXEC_H
#define CULM_GNN_EXEC_H

#include "base/blob.h"
#include "gnn/layout.h"
#include "ledger/fold.h"
#include "net/world.h"

/* Each with what the request names -> what the result names; the fields are those of the task. */
enum culm_gnn_task_kind {
    /* servers */
    CULM_GNN_TASK_OWN,    /* interval: get ready for its tasks, here, from the graph's files */
    CULM_GNN_TASK_GATHER, /* interval, gather, source[], made[], gathered[] -> output: rows */
    CULM_GNN_TASK_SLICE,  /* interval, gather, input (the rows it made), readers -> output: those of
                           * its rows that the intervals `readers` read */
    CULM_GNN_TASK_FOLD,   /* stage, output := the sum over the tree of `slice`, from `root` */
    CULM_GNN_TASK_PACK,   /* interval -> output: its constant input, for a worker */
    /* servers and workers */
    /* interval, step, epoch, weights, rows, d_rows -> output, gradient, totals. The output of SCORE is
     * what layout->scores says. A step that streams may be run block by block: then a task does `block`
     * alone, and adds to what the task before it has left in the result. */
    CULM_GNN_TASK_APPLY,
    /* workers */
    CULM_GNN_TASK_TAKE, /* interval, input (what PACK made): get ready for all of its steps */
    CULM_GNN_TASK_DROP, /* interval: forget what OWN or TAKE kept */
    /* holders */
    /* Those that read the state are given the digest that it should have, which they may compare. */
    CULM_GNN_TASK_LOAD, /* version, source_path: state := that of a checkpoint, or the seed -> digest */
    CULM_GNN_TASK_STEP, /* epoch, whole (the gradient), digest: state := version `epoch` -> digest,
                         * diverged; if so, the new version has the numbers of the one before */
    CULM_GNN_TASK_WEIGHTS, /* version, digest -> output: the weights */
    CULM_GNN_TASK_EXPORT,  /* version, digest -> output: the whole state; digest */
    CULM_GNN_TASK_IMPORT,  /* version, input, digest: state := that; CULM_ERR_FORMAT when the digest
                            * differs */
    CULM_GNN_TASK_SAVE,    /* I/O: version, input (what EXPORT made) -> text: path of a checkpoint
                            * that is there as a whole */
    /* the leader */
    CULM_GNN_TASK_FINISH, /* I/O: text: path of a checkpoint -> weights_sha256, state_sha256: the
                           * final model written and hashed */
};

/* Rows of an interval that a gather reads. */
struct culm_gnn_source {
    int32_t interval;
    int64_t epoch;                      /* in which they were made */
    struct culm_blob *blob;             /* borrowed */
    const struct culm_gnn_set *readers; /* it is the slice for these; NULL: all rows */
};

enum { CULM_GNN_TRAIN, CULM_GNN_VALID, CULM_GNN_TEST, CULM_GNN_SPLITS };

/* What one interval adds to an epoch; zero where a step has no part in it. */
struct culm_gnn_totals {
    double loss;                      /* LOSS: the sum over the rows that train */
    int64_t correct[CULM_GNN_SPLITS]; /* SCORE: rows of each part that are right */
};

struct culm_gnn_task {
    struct culm_job job; /* first member */
    struct culm_gnn_exec *exec;
    enum culm_gnn_task_kind kind;
    int32_t interval, step, gather, stage;
    int64_t epoch, version;
    /* GATHER: all that it reads, by rising interval. */
    const struct culm_gnn_source *source;
    int32_t source_count;
    /* GATHER: what this interval itself has made and gathered in this epoch; NULL where it has not.
     * [gathers] */
    struct culm_blob *const *made, *const *gathered;
    struct culm_gnn_set readers; /* SLICE */
    struct culm_blob *input;
    int32_t block; /* APPLY: 0: the whole interval; else block - 1 of it, with its rows alone */
    struct culm_blob *weights, *rows, *d_rows; /* APPLY; rows NULL: the constant input */
    struct culm_blob *output;                  /* the caller's to let go of */
    struct culm_blob
        *gradient; /* the same: of the step's stage, of layout->gradient_bytes[stage] */
    struct culm_blob *const
        *whole; /* STEP: [stages] gradients, summed; NULL of one without weights */
    struct culm_gnn_totals totals;
    const struct culm_fold_tree *tree; /* FOLD */
    struct culm_slice *slice;          /* FOLD: [tree->count] */
    int32_t root;                      /* FOLD */
    uint64_t digest;                   /* of the whole state */
    bool diverged;                     /* STEP: a number of the gradient is not finite */
    const char *source_path;           /* LOAD: a checkpoint; "": the seed */
    char text[512];
    char weights_sha256[65], state_sha256[65];
    void *mine; /* the protocol's own */
};

struct culm_gnn_exec_ops {
    size_t size;
    enum culm_status (*execute)(struct culm_gnn_exec *exec,
                                struct culm_gnn_task *task); /* fills task->job.error */
};

struct culm_gnn_exec {
    const struct culm_gnn_exec_ops *ops;
};

/* job.execute of every task. */
enum culm_status culm_gnn_task_execute(struct culm_job *job);

#endif
