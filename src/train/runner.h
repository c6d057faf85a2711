/*
 * One model in one process, without protocol: for evaluation, generation, benchmarks and trials.
 *
 * A graph, compiled as one stage, with all memory that running it takes. Thread: the caller's.
 */
#ifndef CULM_TRAIN_RUNNER_H
#define CULM_TRAIN_RUNNER_H

#include "train/network.h"

struct culm_runner {
    struct culm_graph *graph;
    struct culm_stage *stage;
    struct culm_device *device;
    int64_t batch;
    float *params;
    void **field; /* by field of the graph */
    void *output; /* CULM_FOR_OUTPUT, CULM_FOR_ANSWER */
    void *activations, *scratch;
    float *grads; /* CULM_FOR_TRAINING */
};

struct culm_runner_options {
    int64_t batch;
    enum culm_purpose purpose;
    int threads;
    bool recompute; /* activations; culm_runner_init takes what the configuration says */
};

/* Release it also after a failure. */
enum culm_status culm_runner_init(struct culm_runner *runner, struct culm_network *network,
                                  const struct culm_runner_options *options,
                                  struct culm_error *error);
/* The same of a graph that was made for these options; it is the runner's from now on. */
enum culm_status culm_runner_take(struct culm_runner *runner, struct culm_graph *graph,
                                  const struct culm_runner_options *options,
                                  struct culm_error *error);
void culm_runner_release(struct culm_runner *runner);
/* Releases all but the graph, which is the caller's again. */
struct culm_graph *culm_runner_detach(struct culm_runner *runner);

/* Weights that were checked with culm_network_check_file; or from where the network starts, which it
 * checks: ret_note is that of culm_network_check_weights. */
enum culm_status culm_runner_load(struct culm_runner *runner, const struct culm_weights *weights,
                                  struct culm_error *error);
enum culm_status culm_runner_begin(struct culm_runner *runner, struct culm_network *network,
                                   char ret_note[CULM_NETWORK_NOTE_SIZE], struct culm_error *error);
/* Random samples: numbers that the model has rows and classes for, nothing hidden or cut short. */
void culm_runner_fill_random(struct culm_runner *runner, const struct culm_train_config *config);

/* A run with all pointers set; the caller adds keys and scale. */
struct culm_stage_run culm_runner_run(const struct culm_runner *runner);

#endif
