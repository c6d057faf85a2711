/*
 * Stages: a stretch of a graph compiled once for a device, with everything that running it needs
 * decided beforehand.
 *
 * A compiled stage is a list of kernel calls whose operands are offsets into memory that the caller
 * gives:
 *
 *   activations  what forward leaves for backward, of one micro-batch; one relocatable run of bytes
 *   scratch      temporaries of one forward or one backward
 *   params       the stage's parameters, one flat vector; grads: its gradients, one per use,
 * another
 *
 * Nothing is allocated while running, and a stage does not change after it was compiled, so that
 * several micro-batches may be under way at once, each with activations and scratch of its own. The
 * bits of a result do not depend on the number of stages the graph was cut into: every operator
 * runs with the same shapes and the same kernel wherever it is.
 *
 * Thread: constant after compiling; a run belongs to one thread at a time.
 */
#ifndef CULM_GRAPH_STAGE_H
#define CULM_GRAPH_STAGE_H

#include "graph/ops.h"

struct culm_stage;

struct culm_param_info {
    const char *name; /* lives with the stage */
    int rank;
    int64_t shape[CULM_MAX_RANK];
    int64_t count;        /* elements */
    int64_t offset;       /* elements into the flat vectors; a multiple of 16 */
    int32_t global_index; /* in the uncut graph */
    bool decay;
    enum culm_init_kind init;
    double std;
};

struct culm_grad_info {
    int32_t param;      /* index into the stage's params */
    int32_t global_use; /* in the uncut graph */
    int64_t count, offset;
};

struct culm_stage_info {
    int32_t index, stages;
    int32_t first_block, last_block; /* both included */
    int32_t param_count, grad_count;
    const struct culm_param_info *params;
    const struct culm_grad_info *grads; /* in the order of global_use */
    int64_t param_floats, grad_floats;  /* lengths of the flat vectors; multiples of 16 */
    size_t input_bytes, output_bytes;   /* of the boundary; tokens for the first, 0 for the last */
    size_t activation_bytes, scratch_bytes;
    int32_t forward_ops, backward_ops;
    double forward_flops, backward_flops;
};

/* Where to cut: fills first_block[stages] so that the largest stage, by FLOPs, is as small as it
 * can be; ties go to fewer blocks in early stages. CULM_ERR_CONFIG when there are more stages than
 * blocks. */
enum culm_status culm_graph_cut(const struct culm_graph *graph, int32_t stages,
                                int32_t *ret_first_block, struct culm_error *error);
/* Cuts and compiles: ret_stage[stages] are the caller's to free. Nothing is left behind on failure.
 */
enum culm_status culm_stages_compile(const struct culm_graph *graph, int32_t stages,
                                     struct culm_stage **ret_stage, struct culm_error *error);
void culm_stage_free(struct culm_stage *stage); /* NULL is fine */
const struct culm_stage_info *culm_stage_info(const struct culm_stage *stage);

/* One micro-batch on one stage. All memory is the caller's and 64-byte aligned. */
struct culm_stage_run {
    uint64_t seed, iteration;
    uint64_t first_sample; /* position in the global order of the micro-batch's first sample */
    const float *params;
    const void *input;      /* first stage: i32 tokens [B,T]; else f32 [B,T,C] */
    const int32_t *targets; /* last stage: [B,T] */
    float *output;          /* forward: [B,T,C]; NULL in the last stage */
    double loss;            /* forward, last stage: out, sum over tokens of -log p */
    float loss_scale;       /* 1 / (tokens of the global batch) */
    void *activations, *scratch;
    float *grads; /* backward */
    bool first;   /* backward: store the gradients instead of adding */
    const float *d_output;
    float *d_input;  /* NULL in the first stage */
    int32_t cursor;  /* forward: the next operator; 0 to begin */
    const int *stop; /* forward: atomic; may be NULL */
};

/* CULM_ERR_AGAIN when *stop was seen between two operators: call again with the same run to go on.
 * No other error. */
enum culm_status culm_stage_forward(const struct culm_stage *stage, struct culm_cpu *cpu,
                                    struct culm_stage_run *run);
enum culm_status culm_stage_backward(const struct culm_stage *stage, struct culm_cpu *cpu,
                                     struct culm_stage_run *run);

#endif
