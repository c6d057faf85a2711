/*
 * Golden vectors of a family, its samples, and a pipeline of stages in one process that trains on
 * them. For golden.c; everything fails the test that calls it.
 */
#ifndef CULM_TESTS_GOLDEN_H
#define CULM_TESTS_GOLDEN_H

#include "device/device.h"
#include "graph/precision.h"
#include "graph/stage.h"
#include "model/model.h"
#include "store/safetensors.h"

#define STEPS 10
#define STAGES_MAX 3
#define FIELDS_MAX 8
#define PARAMS_MAX 128

struct family {
    const char *name;
    enum culm_arch arch;
    struct culm_model_options options;
    int64_t stages; /* most that it can be cut into, up to STAGES_MAX */
};

extern const struct family *family;     /* under test */
extern struct culm_safetensors *golden; /* its vectors */
extern const struct culm_device_ops
    *golden_device; /* what pipelines run on; NULL: as programs do */

const struct family *family_find(const char *name);
const struct culm_safetensors_entry *entry_of(const char *prefix, const char *name);
/* A copy of `count` elements; the caller frees it, and what memory() gives: NaN, aligned. */
float *vector(const char *prefix, const char *name, int64_t count);
void *memory(size_t bytes);

struct samples {
    void *field[FIELDS_MAX];
};

/* The samples of a step; images by the formula in golden.py. */
struct samples samples_of(const struct culm_graph *graph, int step);
void samples_free(struct samples *samples);

struct pipeline {
    int32_t stages;
    struct culm_graph *graph;
    struct culm_stage *stage[STAGES_MAX];
    struct culm_stage_rows *rows[STAGES_MAX];
    float *params[STAGES_MAX], *m[STAGES_MAX], *v[STAGES_MAX], *grads[STAGES_MAX];
    void *activations[STAGES_MAX], *scratch[STAGES_MAX];
    void *boundary[STAGES_MAX], *d_boundary[STAGES_MAX];
    struct culm_device *cpu;
    double loss; /* a mean over samples */
    struct culm_loss_total total;
};

struct variant {
    int32_t stages;
    int threads;
    int64_t built,
        run; /* samples: of the graph, and of a run; 0: the family's batch, all of them */
    bool dropout, recompute, inference, evaluate, pausing, bf16;
};

void pipeline_new(struct pipeline *p, struct variant variant);
void pipeline_free(struct pipeline *p);
struct culm_stage_run run_of(struct pipeline *p, int32_t s, const struct samples *samples);
/* stop NULL: without a pause; else pausing between all operators. */
void pipeline_forward(struct pipeline *p, const struct samples *samples, const int *stop);
void pipeline_step(struct pipeline *p, const struct samples *samples, const int *stop);
/* The gradient of the uncut parameter: all uses in all stages, added in order. */
float *gradient(struct pipeline *p, int32_t param);

#endif
