/*
 * The executor: what tasks do to numbers. The protocol decides which task runs when; an executor
 * runs it.
 *
 * Two executors exist: `numeric` (the compiled stages of a real model on a device) and `symbolic`
 * (tensors are digests; for proving the protocol). A task is a job of the world: `run` for compute,
 * `io` for files. The protocol fills in the request, keeps every blob named in it alive, and reads
 * the result in job_done. One compute task runs at a time.
 *
 * Sums are formed by CULM_TASK_FOLD alone, so their order is the protocol's and the same in both
 * executors. Thread: `execute` runs off the loop; tasks of one node never overlap, except I/O tasks
 * with compute tasks.
 */
#ifndef CULM_PIPELINE_EXEC_H
#define CULM_PIPELINE_EXEC_H

#include "base/blob.h"
#include "base/room.h"
#include "ledger/fold.h"
#include "net/world.h"
#include "pipeline/layout.h"
#include "pipeline/phase.h"

/* Each with what the request names -> what the result names; the fields are those of culm_task. */
enum culm_task_kind {
    CULM_TASK_LOAD,     /* stage, version, source: state := that version, of a checkpoint or seed */
    CULM_TASK_DROP,     /* stage: forget its state */
    CULM_TASK_FORWARD,  /* stage, micro, iteration, input -> output, activations */
    CULM_TASK_BACKWARD, /* ... activations, d_output -> d_input; grads = (first) or += its share */
    CULM_TASK_FOLD,     /* output := the sum over the lane tree of `slice`, of `size_bytes` */
    CULM_TASK_NORM,     /* stages, grad[] -> norm[] of every parameter those stages hold; loss,
                         * samples, weight, ids */
    CULM_TASK_STEP,     /* stage, iteration, grad[], clip: state := version `iteration` */
    CULM_TASK_EXPORT, /* stage, index (of the stage's params), from_slice -> output: its state; digest */
    CULM_TASK_IMPORT, /* stage, index, from_slice, input, digest: state of that slice := that; CULM_ERR_FORMAT
                         * when the digest differs */
    CULM_TASK_ADVANCE, /* stage, index, from_slice, to_slice, iteration, grad[], clip: state of these slices, which
                         * have been imported := version `iteration` */
    CULM_TASK_COMPLETE, /* stage, all of whose slices have been imported, and are at one version: it is
                         * a state like any other */
    CULM_TASK_SNAPSHOT, /* stage -> output: the whole state of the stage, opaque */
    CULM_TASK_SAVE,     /* I/O: stage, version, input (a snapshot), node, text (the folder; "": the
                         * run's), weights_only -> text: one piece, a file of a checkpoint */
    /* I/O, of the leader: */
    CULM_TASK_PUBLISH, /* version, pieces, text and weights_only as of SAVE -> text: path; note. The
                        * checkpoint exists, or does not */
    CULM_TASK_DISCARD, /* version, text as of SAVE: forget an unpublished checkpoint */
    CULM_TASK_FINISH,  /* text: path -> weights, state: final model written and hashed */
    CULM_TASK_ROOM,    /* version, failed, held -> room, text: the folder to save to; note. Older
                        * checkpoints give way */
    CULM_TASK_FIND,    /* version -> version, text: path of the newest whole checkpoint, all bytes
                        * read, of that version or before; 0 and "" (the seed) if there is none */
};

#define CULM_PIECE_TEXT_MAX 1024 /* description of a written piece: opaque to the protocol */

struct culm_task {
    struct culm_job job; /* first member */
    struct culm_exec *exec;
    enum culm_task_kind kind;
    int32_t stage, index, micro, node;
    int32_t from_slice, to_slice; /* EXPORT, IMPORT, ADVANCE: culm_param_desc; from, up to */
    int32_t attempt; /* SAVE, PUBLISH, DISCARD: of a checkpoint; no two of a run have the same */
    int64_t iteration, version;
    int64_t resets;               /* the protocol's own: of the cells, when it was made */
    struct culm_stage_set stages; /* NORM */
    bool frc;                     /* FORWARD: redundant; sliced, with scratch of its own */
    bool first;                   /* BACKWARD: first micro-batch of its lane */
    bool late;      /* FORWARD, BACKWARD: no NORM follows that would look at what it uses of the
                        state, so it looks itself, afterwards */
    int32_t cursor; /* FORWARD: where a stopped one goes on; 0 to begin */
    uint64_t moved; /* atomic; LOAD: grows while it reads, as a sign that it is not stuck */

    struct culm_blob *input, *output, *activations, *grads, *d_output, *d_input;
    const struct culm_fold_tree *tree; /* FOLD */
    struct culm_slice *slice;          /* FOLD: [tree->count] */
    int32_t root;                      /* FOLD: which node of the tree */
    size_t size_bytes;                 /* FOLD: of the output */
    struct culm_blob *const *grad;     /* NORM, STEP, ADVANCE: [grad_count], reduced */
    double *norm;                      /* NORM: [param_count] squared norms, float64 */
    double loss;     /* NORM: mean over tokens; valid when the last stage is in `stages` */
    int64_t samples; /* NORM: counted, as above */
    double weight;   /* NORM: share of the rows that count, as above; 1 unless some are padding */
    uint64_t *ids;   /* NORM: [stages] which samples were read for those in `stages`; 0: none */
    double clip;     /* STEP, ADVANCE */
    uint64_t digest; /* EXPORT, IMPORT */
    uint64_t
        *state_digest; /* LOAD, STEP, COMPLETE: [of the stage's params] what its state now is */
    bool damaged;      /* of a task that failed: by memory here that is not what was put there */
    bool
        weights_only; /* SAVE, PUBLISH: without the rest of the state; what is published so is nothing to go on from */
    bool failed;             /* ROOM: a save has just failed, whatever room there seems to be */
    bool held;               /* ROOM: the version is kept until it is saved; else it is given up */
    enum culm_room_for room; /* ROOM */
    char
        note[CULM_ERROR_MAX]; /* PUBLISH, ROOM: what the user is to know of the room; "": nothing */
    const char *source;       /* LOAD: checkpoint directory; "": the seed */
    const char *const *pieces; /* PUBLISH */
    int32_t piece_count;
    char text[CULM_PIECE_TEXT_MAX]; /* SAVE: piece; PUBLISH, FIND: path; FINISH: path in */
    char weights[65], state[65];    /* FINISH: SHA-256, hexadecimal */
};

struct culm_exec_ops {
    size_t size;
    enum culm_status (*execute)(struct culm_exec *exec,
                                struct culm_task *task); /* fills task->job.error */
};

struct culm_exec {
    const struct culm_exec_ops *ops;
    /* Told of fault points inside tasks (half of the tensors stepped, half of a file written). May
     * be NULL. Any thread. */
    struct culm_world *world;
};

/* Lets go of the blobs that a request and its result are; not of slices and gradients, which are
 * borrowed. Only of a task that does not run. */
void culm_task_release(struct culm_task *task);
/* job.execute of every task. */
enum culm_status culm_task_execute(struct culm_job *job);
/* FOLD, with what a sum of an executor's own slices is. */
enum culm_status culm_task_fold(struct culm_task *task, struct culm_blob_pool *pool,
                                const struct culm_fold_ops *ops, void *self);

#endif
