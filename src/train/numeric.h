/*
 * The numeric executor: tasks on the compiled stages of a real model, on a CPU, with checkpoints in
 * the run directory.
 *
 * A worker has one; the leader has one without a device for PUBLISH, DISCARD and FINISH. State
 * of a stage is two or three flat float32 vectors (parameters, exp_avg, exp_avg_sq; SGD has no last
 * one) laid out as the stage says. Every number is a pure function of the configuration, the data
 * and the task's key, whoever computes it.
 *
 * Files, from above: numeric.c: compute tasks and dispatch; numeric_store.c and numeric_room.c:
 * checkpoints; numeric_state.c: the state of a stage, and copies of it; numeric_digest.c: what
 * memory must still hold; numeric_fields.c: samples. Thread: see exec.h.
 */
#ifndef CULM_TRAIN_NUMERIC_H
#define CULM_TRAIN_NUMERIC_H

#include "device/device.h"
#include "pipeline/exec.h"
#include "store/depot.h"
#include "store/inputs.h"
#include "store/lineage.h"
#include "train/network.h"
#include "train/plan.h"

struct culm_numeric_options {
    const struct culm_train_config *config; /* borrowed, like everything here */
    const char *config_text;                /* as checkpoints record it */
    const char *signature;
    const char *run_dir;      /* with a depot: a folder of this node's own */
    struct culm_depot *depot; /* where the run's checkpoints are; NULL: in run_dir */
    struct culm_apart
        *apart; /* of one that publishes: where they are to be kept besides; NULL: nowhere */
    struct culm_network *network; /* for the first weights; NULL: store tasks only */
    const struct culm_plan *plan;
    struct culm_blob_pool *pool;
    struct culm_world *world;           /* for fault points; may be NULL */
    struct culm_device *device;         /* NULL: store tasks only */
    const struct culm_source *source;   /* NULL: store tasks only */
    const struct culm_inputs *inputs;   /* as checkpoints record them; NULL: not */
    const struct culm_lineage *lineage; /* in the same way */
};

enum culm_status culm_numeric_new(const struct culm_numeric_options *options,
                                  struct culm_exec **ret_exec, struct culm_error *error);
void culm_numeric_free(struct culm_exec *exec); /* NULL is fine */

/* Micro-batches of samples that a worker keeps at once. */
int32_t culm_numeric_samples_kept(const struct culm_run_shape *shape);
/* Bits that a test flips; see culm_numeric_flip. */
enum culm_numeric_flip_kind {
    CULM_NUMERIC_FLIP_NONE,
    CULM_NUMERIC_FLIP_STATE,    /* of a parameter: now, if called in a task; else in the next one */
    CULM_NUMERIC_FLIP_GRADIENT, /* reduced, before the next norm is taken of it */
    CULM_NUMERIC_FLIP_APPLIED,  /* reduced, before the next step */
    CULM_NUMERIC_FLIP_SAVED,    /* of a state that is half written: now, if called there */
};
/* Asks for one flipped bit in this worker's memory. Any thread. */
void culm_numeric_flip(struct culm_exec *exec, enum culm_numeric_flip_kind what);

/* Learning rate of a step by the schedule that it is done with; for step events. */
double culm_numeric_lr(const struct culm_train_config *config, int64_t step);

#endif
