/*
 * Running a graph in two ways, for tests: as compiled stages, in memory that is poisoned and
 * fenced, and *plainly*, each value in memory of its own, which no plan can spoil.
 *
 * Failures end the test (cmocka). Thread: the test's.
 */
#ifndef TESTS_UNIT_GRAPH_RUN_H
#define TESTS_UNIT_GRAPH_RUN_H

#include "graph/stage.h"

#define RUN_STAGES_MAX 8

/* What a run leaves: the loss (sum over tokens) and one gradient per use, in order of use. */
struct result {
    double loss;
    int32_t uses;
    float *grad[64];
};

struct batch {
    const float *const *params; /* [param_count], each as long as the parameter */
    const int32_t *tokens, *targets;
    const void *fields[8]; /* the same two, then others that a test adds */
    uint64_t seed, iteration, first_sample;
    const uint32_t *sample_id; /* NULL: none */
};

void result_release(struct result *result);
/* Fails the test, naming `what`, unless loss and gradients are the same bits. */
void result_expect_equal(const struct result *a, const struct result *b,
                         const struct culm_graph *graph, const char *what);

/* The same where these parameters, of which b has no gradient, are frozen; NULL: none. */
void result_expect_frozen(const struct result *a, const struct result *b,
                          const struct culm_graph *graph, const bool *frozen, const char *what);

struct culm_device *run_cpu(void); /* one for the program; freed at exit */
/* Forward and backward of every stage in turn; with recomputation or without. */
void run_stages_with(const struct culm_graph *graph, int32_t stages, bool recompute,
                     const struct batch *batch, struct result *ret_result);
void run_stages_frozen(const struct culm_graph *graph, int32_t stages, bool recompute,
                       const bool *frozen, const struct batch *batch, struct result *ret_result);
void run_stages(const struct culm_graph *graph, int32_t stages, const struct batch *batch,
                struct result *ret_result);
/* Forward only; ret_losses[loss_count], or NULL: a total for each loss. */
struct culm_loss_total run_losses(const struct culm_stage *stage, const struct batch *batch,
                                  struct culm_loss_total *ret_losses);
double run_loss(const struct culm_stage *stage, const struct batch *batch);
void run_plainly(const struct culm_graph *graph, const struct batch *batch,
                 struct result *ret_result);

/* Memory of exactly this many bytes, 64-byte aligned, full of NaN, with a fence behind it that
 * fence_free checks. */
void *fence_new(size_t bytes);
void fence_free(void *data);

#endif
