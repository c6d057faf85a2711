/*
 * What the protocol knows of a model and a run: counts and sizes, no names and no numbers.
 *
 *   grad    One gradient per *use* of a tensor (a tied tensor has two), numbered over the uncut
 *           model; the grads of a stage follow each other. The last grad of the last stage, and of
 *           each stage that reads samples, carries statistics (loss, samples; which samples were
 *           read) and has no parameter.
 *   param   One tensor with its optimizer state, numbered over the uncut model; a tied one lives in
 *           several stages.
 *   lane    A fixed run of micro-batches: a part of every sum, whose order is that of the tree over
 *           lanes (ledger/fold.h), whatever machines computed its parts.
 *
 * Thread: constant after construction.
 */
#ifndef CULM_PIPELINE_LAYOUT_H
#define CULM_PIPELINE_LAYOUT_H

#include "base/status.h"
#include "pipeline/settings.h"
#include "pipeline/stages.h"

#define CULM_MAX_NODES 4096 /* alive at once */

struct culm_grad_desc {
    int32_t stage, param;            /* param -1: statistics */
    size_t offset_bytes, size_bytes; /* inside its stage's gradient blob */
};

struct culm_param_desc {
    struct culm_stage_set stages; /* that hold a copy */
    size_t state_bytes;
    /* It is copied in slices, runs of its elements with what the optimizer keeps of them: all but the last are of
     * slice_bytes. 0 slices: one, of all. */
    int32_t slices;
    size_t slice_bytes;
};
static inline int32_t culm_param_slices(const struct culm_param_desc *param) {
    return param->slices > 1 ? param->slices : 1;
}
static inline size_t culm_param_slice_bytes(const struct culm_param_desc *param, int32_t slice) {
    const int32_t last = culm_param_slices(param) - 1;
    return slice < last ? param->slice_bytes
                        : param->state_bytes - (size_t)last * param->slice_bytes;
}

struct culm_stage_desc {
    size_t input_bytes, output_bytes; /* boundary activations; 0 for the first, the last */
    size_t activation_bytes, grad_bytes, state_bytes;
    size_t scratch_bytes, sample_bytes; /* of one task; of the samples its tasks read */
    int32_t first_grad, grad_count;
    bool reads; /* samples: its last grad tells which */
    int32_t param_count;
    const int32_t *params; /* [param_count] global indices */
};

struct culm_layout {
    int32_t stages, grad_count, param_count;
    struct culm_stage_desc *stage;
    struct culm_grad_desc *grad;
    struct culm_param_desc *param;
};

/* Frees what it points to and zeroes it; fine on a zeroed one. */
void culm_layout_release(struct culm_layout *layout);

/*
 * How many of `pipelines` whole ones share the sums of a stage. All of them, where sums are large: then no link carries more
 * than another. Each that takes part is connected with the stage's owners and shadows in all pipelines, so small sums go to
 * fewer, CULM_REDUCERS_MIN or as many as leave each with some CULM_REDUCER_BYTES an iteration.
 */
#define CULM_REDUCERS_MIN 4
#define CULM_REDUCER_BYTES ((size_t)1 << 20)
int32_t culm_layout_reducers(const struct culm_layout *layout, int32_t stage, int32_t pipelines);

/* The run's constants. */
struct culm_run_shape {
    int32_t pipelines, stages, lanes;
    int32_t micros;          /* M, of the global batch */
    int32_t micros_per_lane; /* micro-batch m belongs to lane m / micros_per_lane */
    int64_t global_samples, micro_samples;
    int64_t steps;
    enum culm_redundancy redundancy;
    double clip_norm;
};

/* Global position in the stream of samples of the first sample of micro-batch m in iteration k (k
 * counts from 1). */
uint64_t culm_run_shape_first_sample(const struct culm_run_shape *shape, int64_t iteration,
                                     int32_t micro);

#endif
