/*
 * One model in one process, without protocol: for evaluation, generation and benchmarks.
 *
 * The graph of a configuration, compiled as one stage, with all memory that running it takes.
 * Thread: the caller's.
 */
#ifndef CULM_RUN_RUNNER_H
#define CULM_RUN_RUNNER_H

#include "train/network.h"

struct culm_runner {
    struct culm_graph *graph;
    struct culm_stage *stage;
    struct culm_device *device;
    int64_t batch;
    float *params;
    void **field; /* by field of the graph */
    void *output; /* CULM_FOR_OUTPUT: the logits */
    void *activations, *scratch;
    float *grads; /* CULM_FOR_TRAINING */
};

/* `recompute`: as in the configuration, for training. Release it also after a failure. */
enum culm_status culm_runner_init(struct culm_runner *runner,
                                  const struct culm_train_config *config, int64_t batch,
                                  enum culm_purpose purpose, int threads, struct culm_error *error);
void culm_runner_release(struct culm_runner *runner);

/* Weights from a safetensors file or a checkpoint that must have them all; or from where the
 * configuration starts: then ret_note is one line for the user when model.init lacks some of them,
 * else "". */
enum culm_status culm_runner_load(struct culm_runner *runner, const char *path,
                                  struct culm_error *error);
enum culm_status culm_runner_begin(struct culm_runner *runner,
                                   const struct culm_train_config *config,
                                   char ret_note[CULM_INITIAL_NOTE_SIZE], struct culm_error *error);

/* A run with all pointers set; the caller adds keys and scale. */
struct culm_stage_run culm_runner_run(const struct culm_runner *runner);

#endif
