/*
 * Stages: a stretch of a graph compiled once for a device, with everything that running it needs
 * decided beforehand.
 *
 * A compiled stage is a list of kernel calls whose operands are offsets into memory that the caller
 * gives:
 *
 *   activations  what forward leaves for backward, of one micro-batch; one relocatable run of bytes
 *   scratch      temporaries of one forward or one backward
 *   params       the stage's parameters: one flat vector, or each at an address of its own, so that
 *                stages may share some
 *   grads        its gradients, one per use of what is trained, in another flat vector
 *   input        the values that cross the cut before the stage, one after the other, each aligned
 *                to 64 bytes; output: those that cross the cut behind it; the gradients of either
 *                lie at the same offsets
 *   fields       the samples' fields; any stage may read any of them
 *
 * A value that is made before a stage and used behind it crosses both cuts and is copied.
 *
 * With recompute, forward keeps only what crosses a border between blocks, and backward runs the
 * forward operators of each block again before its gradients: the same operators on the same
 * operands, hence the same bits.
 *
 * A stage may run fewer samples than it was compiled for, in the same memory (culm_stage_rows_new).
 *
 * Backward runs only what leads to a gradient of a parameter that is trained, here or in a stage
 * before, so that what is frozen costs nothing; what is trained gets the same bits.
 *
 * Nothing is allocated while running, and a stage does not change after it was compiled, so that
 * several micro-batches may be under way at once, each with activations and scratch of its own. The
 * bits of a result do not depend on the number of stages the graph was cut into: every operator
 * runs with the same shapes and the same kernel wherever it is.
 *
 * Files: stages.c all stages of a graph; stage.c running one; stage_build.c what a stage consists of;
 * stage_backward.c its gradients; stage_place.c where values live; stage_rows.c fewer samples;
 * stage_chain.c what is done as one.
 * Thread: constant after compiling; a run belongs to one thread at a time.
 */
#ifndef CULM_GRAPH_STAGE_H
#define CULM_GRAPH_STAGE_H

#include "graph/ops.h"

struct culm_stage;

struct culm_param_info {
    const char *name; /* lives with the stage */
    int rank;
    int64_t shape[CULM_MAX_RANK]; /* as in files */
    int64_t count;                /* elements */
    int64_t offset;               /* elements into the flat vectors; a multiple of 16 */
    int32_t global_index;         /* in the uncut graph */
    bool decay, statistic;
    double momentum; /* of a statistic */
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
    /* Lengths of the flat vectors; multiples of 16. With frozen parameters, that of gradients ends in a
     * place for what nobody reads. */
    int64_t param_floats, grad_floats;
    int32_t field_count;
    const int32_t *fields;             /* indices of the graph's fields that this stage reads */
    int32_t input_count, output_count; /* values that cross */
    size_t input_bytes, output_bytes; /* of the boundaries; 0 before the first and, unless the graph
                                         has an output, behind the last */
    size_t activation_bytes, scratch_bytes;
    int32_t forward_ops, backward_ops;
    double forward_flops, backward_flops; /* backward: with what is recomputed */
    int32_t loss_count;                   /* loss operators */
};

struct culm_stage_options {
    bool recompute;             /* keep only what crosses a border of blocks */
    bool forward_only;          /* no backward, nothing kept for it */
    const int32_t *first_block; /* [stages] where to cut; NULL: where culm_graph_cut does */
    const bool *frozen; /* [parameters of the graph]: not trained, so they get no gradient, and what
                           only leads to them is not run; NULL: none */
};

struct culm_cut_options {
    const double *block_cost; /* [blocks] measured; NULL: by FLOPs and bytes moved */
    size_t memory_bytes;      /* what a stage may need; 0: any amount */
    int32_t vectors;          /* that a stage has of its parameters: state and gradients */
};

/* Where to cut: fills first_block[stages] so that the most expensive stage, with what crosses its
 * borders, is as cheap as it can be; ties go to fewer blocks in early stages. options NULL: all
 * zero. CULM_ERR_CONFIG when there are more stages than blocks, CULM_ERR_MEMORY when no cut fits. */
enum culm_status culm_graph_cut(const struct culm_graph *graph, int32_t stages,
                                const struct culm_cut_options *options, int32_t *ret_first_block,
                                struct culm_error *error);
/* Cuts and compiles: ret_stage[stages] are the caller's to free. options NULL: all false. Nothing
 * is left behind on failure. */
enum culm_status culm_stages_compile(const struct culm_graph *graph, int32_t stages,
                                     const struct culm_stage_options *options,
                                     struct culm_stage **ret_stage, struct culm_error *error);
void culm_stage_free(struct culm_stage *stage); /* NULL is fine */
const struct culm_stage_info *culm_stage_info_of(const struct culm_stage *stage);
/* The stage's program, forward then backward, and its values: for reports and benchmarks. */
const struct culm_graph *culm_stage_program(const struct culm_stage *stage);
/* Where the graph's output `index` begins in what the last stage writes, in bytes. */
size_t culm_stage_output_offset(const struct culm_stage *stage, int32_t index);

/* The shapes that a stage's values have with fewer samples; constant, for any number of runs. */
struct culm_stage_rows;
/* `graph` is the uncut one that `stage` was compiled from, `samples` at most what it was built for.
 * The caller's. CULM_ERR_UNSUPPORTED when the graph was made for one number of samples alone. */
enum culm_status culm_stage_rows_new(const struct culm_stage *stage, const struct culm_graph *graph,
                                     int64_t samples, struct culm_stage_rows **ret_rows,
                                     struct culm_error *error);
void culm_stage_rows_free(struct culm_stage_rows *rows); /* NULL is fine */

/* One micro-batch on one stage. All memory is the caller's and 64-byte aligned. */
struct culm_stage_run {
    uint64_t seed, iteration;
    uint64_t first_sample;     /* position in the global order of the micro-batch's first sample */
    const uint32_t *sample_id; /* [samples] of each, in place of positions, where dropout is keyed;
                                  NULL: first_sample, first_sample + 1, ... */
    const float *params;       /* the flat vector; NULL: `param` is given */
    const float *const *param; /* [param_count] each at its own address; NULL: `params` */
    const struct culm_stage_rows *rows; /* fewer samples; NULL: those of the graph */
    const void *const *fields; /* [fields of the graph]; those that the stage reads are given */
    const void *input;         /* NULL in the first stage */
    void *output;              /* forward; NULL in the last stage */
    /* Forward, where losses are: set at the first operator, added to. */
    struct culm_loss_total loss;    /* of all */
    struct culm_loss_total *losses; /* [loss_count] of each, in their order; NULL: not wanted */
    double loss_scale;              /* 1 / (samples of the global batch) */
    void *activations, *scratch;
    float *grads;         /* backward */
    bool first;           /* backward: store the gradients instead of adding */
    const void *d_output; /* where gradients come back: behind a cut, or, of a graph that has no
                             loss, of its outputs */
    void *d_input;        /* NULL in the first stage */
    int32_t cursor;       /* forward: the next operator; 0 to begin */
    const int *stop;      /* forward: atomic; may be NULL */
    const float
        *least; /* forward: below it gates are closed (culm_graph_gate); NULL: all are open */
};

/* CULM_ERR_AGAIN when *stop was seen between two operators: call again with the same run to go on.
 * No other error. */
enum culm_status culm_stage_forward(const struct culm_stage *stage, struct culm_device *device,
                                    struct culm_stage_run *run);
enum culm_status culm_stage_backward(const struct culm_stage *stage, struct culm_device *device,
                                     struct culm_stage_run *run);
/* One operator of the program, for benchmarks; `index` in [0, forward_ops + backward_ops). */
void culm_stage_execute(const struct culm_stage *stage, struct culm_device *device,
                        struct culm_stage_run *run, int32_t index);
/* Where a value of the program lies in a run: for those who look at what operators read before they
 * are executed, and at what they have made. Others may be given its memory later. NULL: nowhere. */
const void *culm_stage_value(const struct culm_stage *stage, const struct culm_stage_run *run,
                             int32_t value);

#endif
