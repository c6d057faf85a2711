/*
 * The executor runs tasks. The protocol decides which task runs when and on which rows, and knows
 * only counts and sizes; an executor does the arithmetic.
 *
 * There are two executors: `numeric` (a real model on a real graph) and `symbolic` (rows are
 * digests; for testing the protocol in the simulator). A task is a job of the world: `run` for
 * computing, `io` for files. The protocol fills in the request, keeps every blob named in it alive,
 * and reads the result in job_done. The result is a pure function of the request, bit for bit,
 * whoever computes it, so a task that was lost can be run again by any node.
 *
 * An executor keeps data that is constant (the graph, the input of an interval) and, on a holder,
 * the state: the weights and the optimizer's values, at one version. Version v is the state after v
 * epochs. It may also cache what one task has computed for another, which must not change results.
 *
 * Thread: `execute` runs off the loop thread. Tasks of a node never overlap, except that an `io`
 * task may run beside another one.
 */
#ifndef CULM_INTERVAL_EXEC_H
#define CULM_INTERVAL_EXEC_H

#include "base/blob.h"
#include "base/room.h"
#include "interval/layout.h"
#include "interval/past.h"
#include "interval/verdict.h"
#include "ledger/fold.h"
#include "net/world.h"

/* Kinds of tasks, each with the fields of the request -> the fields of the result. */
enum culm_gnn_task_kind {
    /* Servers. */
    CULM_GNN_TASK_OWN,    /* interval: prepares it for all tasks, from the graph's files */
    CULM_GNN_TASK_GATHER, /* interval, gather, epoch, source, made, gathered -> output: rows */
    CULM_GNN_TASK_SLICE,  /* interval, gather, input (the rows it made), readers -> output: those of
                           * its rows that the intervals `readers` read */
    CULM_GNN_TASK_FOLD,   /* stage, tree, slice, root -> output: the sum below node `root` */
    CULM_GNN_TASK_PACK,   /* interval -> output: its constant input, for a worker */
    /* Servers and workers: interval, step, epoch, weights, rows, d_rows, block -> output, gradient,
     * totals. SCORE has an output only as layout->scores says. A step that streams may be run block
     * by block: a task then computes one block, and the request has the output, gradient and totals
     * of the block before, to which it adds. */
    CULM_GNN_TASK_APPLY,
    /* Workers. Servers use DROP too. */
    CULM_GNN_TASK_TAKE, /* interval, input (from PACK): prepares it for all of its steps */
    CULM_GNN_TASK_DROP, /* interval: forgets what OWN or TAKE has prepared */
    /* Holders. Tasks that read the state are given the digest that it should have, and may compare
     * it. */
    CULM_GNN_TASK_LOAD,    /* version, source_path -> digest; the state is that of the file */
    CULM_GNN_TASK_STEP,    /* epoch, whole, digest -> digest, diverged; the state becomes version
                         * `epoch`, with the numbers of the one before if it diverged */
    CULM_GNN_TASK_WEIGHTS, /* version, digest -> output: the weights */
    CULM_GNN_TASK_EXPORT,  /* version, digest -> output: the whole state; digest */
    CULM_GNN_TASK_IMPORT,  /* version, input (from EXPORT), digest; the state becomes a copy of
                            * `input`. CULM_ERR_FORMAT if the digest differs */
    CULM_GNN_TASK_SAVE,    /* I/O: version, node, input (from EXPORT), weights_only, text (the
                            * folder; "": the run's) -> text: one piece, a file of a checkpoint */
    /* The leader; all are I/O. */
    CULM_GNN_TASK_FINISH, /* version, text (path of a checkpoint) -> weights_sha256, state_sha256;
                            * writes the final model */
    CULM_GNN_TASK_PUBLISH, /* version, branch, past, piece, verdict, text and weights_only as of SAVE ->
                            * text: the path. The checkpoint exists, or does not; older ones give way, and one of
                            * the same version that `past` does not name */
    CULM_GNN_TASK_DISCARD, /* version, text as of SAVE: forgets an unpublished checkpoint */
    CULM_GNN_TASK_ROOM,    /* version, held -> room, text: the folder to save to; note. A save has
                            * just failed; older checkpoints give way */
    CULM_GNN_TASK_FIND, /* version, past, anew -> version, text (path), verdict of the newest whole checkpoint,
                            * all bytes read, of that version or before, that `past` names; 0 and "" if there is none.
                            * Where they are kept apart, of any version; and, if `anew`, what the run has cost up to it */
};

/* Rows of one interval, as input of a gather. */
struct culm_gnn_source {
    int32_t interval;
    int64_t epoch;                  /* in which the rows were made */
    struct culm_blob *blob;         /* borrowed */
    const struct culm_set *readers; /* `blob` is the slice for these; NULL: it is all rows */
};

enum { CULM_GNN_TRAIN, CULM_GNN_VALID, CULM_GNN_TEST, CULM_GNN_SPLITS };

/* What one interval contributes to the totals of an epoch. */
struct culm_gnn_totals {
    double loss;                      /* LOSS: summed over training vertices; else 0 */
    int64_t correct[CULM_GNN_SPLITS]; /* SCORE: correct predictions by part; else 0 */
};

struct culm_gnn_task {
    struct culm_job job; /* first member */
    struct culm_gnn_exec *exec;
    enum culm_gnn_task_kind kind;
    int32_t interval, step, gather, stage;
    int64_t epoch, version;
    uint32_t
        attempt; /* of servers, workers and holders: what it makes counts there alone; no result depends on it */
    /* GATHER: the rows it reads, ordered by interval. */
    const struct culm_gnn_source *source;
    int32_t source_count;
    /* GATHER: [gathers] what this interval has made and gathered in this epoch; NULL: not yet. */
    struct culm_blob *const *made, *const *gathered;
    struct culm_set readers; /* SLICE; the caller's to release */
    struct culm_blob *input;
    int32_t block; /* APPLY: 0: the whole interval; b: only block b - 1, and only its rows */
    struct culm_blob *weights, *rows, *d_rows; /* APPLY; rows NULL: the constant input */
    struct culm_blob *output;                  /* the caller's to unref */
    struct culm_blob *gradient; /* likewise; APPLY: layout->gradient_bytes of the step's stage */
    struct culm_blob *const *whole; /* STEP: [stages] summed gradients; NULL if without weights */
    struct culm_gnn_totals totals;
    const struct culm_fold_tree *tree; /* FOLD */
    struct culm_slice *slice;          /* FOLD: [tree->count] */
    int32_t root;                      /* FOLD */
    uint64_t digest;                   /* of the whole state */
    bool diverged;                     /* STEP: the gradient has a value that is not finite */
    int32_t node;                      /* SAVE: whose piece it is */
    const char *piece;                 /* PUBLISH */
    struct culm_gnn_verdict verdict;   /* PUBLISH: goes into the checkpoint; FIND: is in it */
    uint32_t branch;                   /* PUBLISH: of which it is (past.h); 0: of the only one */
    struct culm_gnn_past past;         /* FIND, PUBLISH; without branches: any is named */
    bool weights_only; /* SAVE, PUBLISH: without the rest of the state; nothing to go on from */
    bool held;         /* ROOM: nothing comes after this version, which is kept until it is saved */
    enum culm_room_for room;   /* ROOM */
    char note[CULM_ERROR_MAX]; /* ROOM: what is missing, and what to do; "": nothing */
    const char *source_path;   /* LOAD: a checkpoint; "": initial weights */
    bool anew;                 /* FIND: nobody is left who knows what the run has cost */
    double usd, seconds;       /* FIND: that, of the bill; 0: it is not known */
    char text[512];
    char weights_sha256[65], state_sha256[65];
    void *mine; /* for the protocol's own use */
};

struct culm_gnn_exec_ops {
    size_t size;
    enum culm_status (*execute)(struct culm_gnn_exec *exec,
                                struct culm_gnn_task *task); /* fills task->job.error */
};

struct culm_gnn_exec {
    const struct culm_gnn_exec_ops *ops;
};

/* The job.execute of every task: passes it on to its executor. */
enum culm_status culm_gnn_task_execute(struct culm_job *job);

#endif
