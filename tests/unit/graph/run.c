/* See run.h. */
#include "run.h"

#include "base/rng.h"
#include "graph/autodiff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FENCE 64

void *fence_new(size_t bytes) {
    size_t rounded = (bytes + 63) & ~(size_t)63;
    char *base = aligned_alloc(64, 64 + rounded + FENCE);
    assert_non_null(base);
    memcpy(base, &bytes, sizeof bytes);
    memset(base + 64, 0xFF, rounded + FENCE);
    return base + 64;
}

void fence_free(void *data) {
    if (!data) {
        return;
    }
    unsigned char *bytes = data;
    size_t size;
    memcpy(&size, bytes - 64, sizeof size);
    for (size_t i = 0; i < FENCE; i++) {
        if (bytes[size + i] != 0xFF) {
            fail_msg("byte %zu behind a run of %zu was written", i, size);
        }
    }
    free(bytes - 64);
}

static struct culm_device *cpu;

static void free_cpu(void) { culm_device_free(cpu); }

struct culm_device *run_cpu(void) {
    struct culm_error error;
    if (!cpu) {
        assert_int_equal(culm_device_new(1, &cpu, &error), CULM_OK);
        atexit(free_cpu);
    }
    return cpu;
}

void result_release(struct result *result) {
    for (int32_t u = 0; u < result->uses; u++) {
        free(result->grad[u]);
    }
    result->uses = 0;
}

static int64_t use_count(const struct culm_graph *graph, int32_t use) {
    return culm_elements(&graph->param[graph->use[use].param].shape);
}

void result_expect_equal(const struct result *a, const struct result *b,
                         const struct culm_graph *graph, const char *what) {
    result_expect_frozen(a, b, graph, NULL, what);
}

void result_expect_frozen(const struct result *a, const struct result *b,
                          const struct culm_graph *graph, const bool *frozen, const char *what) {
    if (memcmp(&a->loss, &b->loss, sizeof a->loss) != 0) {
        fail_msg("%s: loss %.17g and %.17g", what, a->loss, b->loss);
    }
    for (int32_t u = 0; u < graph->use_count; u++) {
        const char *name = graph->param[graph->use[u].param].name;
        if (frozen && frozen[graph->use[u].param]) {
            if (b->grad[u]) {
                fail_msg("%s: a gradient of '%s', which is frozen", what, name);
            }
        } else if (!b->grad[u]) {
            fail_msg("%s: no gradient of '%s' (use %d)", what, name, u);
        } else if (memcmp(a->grad[u], b->grad[u], (size_t)use_count(graph, u) * sizeof(float)) !=
                   0) {
            fail_msg("%s: other bits in the gradient of '%s' (use %d)", what, name, u);
        }
    }
}

static void result_take(struct result *result, const struct culm_graph *graph, int32_t use,
                        const float *grad) {
    size_t bytes = (size_t)use_count(graph, use) * sizeof(float);
    assert_null(result->grad[use]);
    result->grad[use] = malloc(bytes);
    memcpy(result->grad[use], grad, bytes);
}

static void result_begin(struct result *result, const struct culm_graph *graph) {
    assert_in_range(graph->use_count, 0, 64);
    *result = (struct result){.uses = graph->use_count};
}

static float *stage_params(const struct culm_stage_info *info, const struct batch *batch) {
    float *params = fence_new((size_t)info->param_floats * sizeof(float));
    for (int32_t i = 0; i < info->param_count; i++) {
        memcpy(params + info->params[i].offset, batch->params[info->params[i].global_index],
               (size_t)info->params[i].count * sizeof(float));
    }
    return params;
}

static struct culm_stage_run run_of(const struct batch *batch) {
    return (struct culm_stage_run){.seed = batch->seed,
                                   .iteration = batch->iteration,
                                   .first_sample = batch->first_sample,
                                   .sample_id = batch->sample_id,
                                   .fields = batch->fields,
                                   .loss_scale = 1,
                                   .first = true};
}

struct culm_loss_total run_losses(const struct culm_stage *stage, const struct batch *batch,
                                  struct culm_loss_total *ret_losses) {
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    struct culm_stage_run run = run_of(batch);
    float *params = stage_params(info, batch);
    run.params = params;
    run.losses = ret_losses;
    run.activations = fence_new(info->activation_bytes);
    run.scratch = fence_new(info->scratch_bytes);
    assert_int_equal(culm_stage_forward(stage, run_cpu(), &run), CULM_OK);
    fence_free(params);
    fence_free(run.activations);
    fence_free(run.scratch);
    return run.loss;
}

double run_loss(const struct culm_stage *stage, const struct batch *batch) {
    return run_losses(stage, batch, NULL).loss;
}

void run_stages(const struct culm_graph *graph, int32_t stages, const struct batch *batch,
                struct result *ret_result) {
    run_stages_with(graph, stages, false, batch, ret_result);
}

void run_stages_with(const struct culm_graph *graph, int32_t stages, bool recompute,
                     const struct batch *batch, struct result *ret_result) {
    run_stages_frozen(graph, stages, recompute, NULL, batch, ret_result);
}

void run_stages_frozen(const struct culm_graph *graph, int32_t stages, bool recompute,
                       const bool *frozen, const struct batch *batch, struct result *ret_result) {
    struct culm_stage *stage[RUN_STAGES_MAX];
    float *params[RUN_STAGES_MAX], *boundary[RUN_STAGES_MAX], *d_boundary[RUN_STAGES_MAX];
    void *activations[RUN_STAGES_MAX];
    struct culm_error error;
    const struct culm_stage_options options = {.recompute = recompute, .frozen = frozen};
    if (culm_stages_compile(graph, stages, &options, stage, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    result_begin(ret_result, graph);
    for (int32_t s = 0; s < stages; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(stage[s]);
        struct culm_stage_run run = run_of(batch);
        bool last = s == stages - 1;
        params[s] = stage_params(info, batch);
        activations[s] = fence_new(info->activation_bytes);
        boundary[s] = last && !info->output_bytes ? NULL : fence_new(info->output_bytes);
        d_boundary[s] = last ? NULL : fence_new(info->output_bytes);
        run.params = params[s];
        run.input = s > 0 ? boundary[s - 1] : NULL;
        run.output = boundary[s];
        run.activations = activations[s];
        run.scratch = fence_new(info->scratch_bytes);
        assert_int_equal(culm_stage_forward(stage[s], run_cpu(), &run), CULM_OK);
        fence_free(run.scratch);
        ret_result->loss = run.loss.loss;
    }
    for (int32_t s = stages - 1; s >= 0; s--) {
        const struct culm_stage_info *info = culm_stage_info_of(stage[s]);
        struct culm_stage_run run = run_of(batch);
        run.params = params[s];
        run.input = s > 0 ? boundary[s - 1] : NULL;
        run.activations = activations[s];
        run.scratch = fence_new(info->scratch_bytes);
        run.grads = fence_new((size_t)info->grad_floats * sizeof(float));
        run.d_output = d_boundary[s];
        run.d_input = s > 0 ? d_boundary[s - 1] : NULL;
        assert_int_equal(culm_stage_backward(stage[s], run_cpu(), &run), CULM_OK);
        for (int32_t g = 0; g < info->grad_count; g++) {
            result_take(ret_result, graph, info->grads[g].global_use,
                        run.grads + info->grads[g].offset);
        }
        fence_free(run.scratch);
        fence_free(run.grads);
    }
    for (int32_t s = 0; s < stages; s++) {
        fence_free(params[s]);
        fence_free(activations[s]);
        fence_free(boundary[s]);
        fence_free(d_boundary[s]);
        culm_stage_free(stage[s]);
    }
}

/* --- plainly --- */

/* A copy that differentiation may append to. */
static struct culm_graph *copy_of(const struct culm_graph *graph) {
    struct culm_graph *copy = culm_graph_new(graph->device);
    assert_non_null(copy);
    *copy = *graph;
    copy->field = NULL;
    copy->field_count = copy->field_capacity = 0;
    copy->use = NULL; /* autodiff adds none */
    copy->use_count = copy->use_capacity = 0;
    copy->output = NULL;
    copy->output_count = copy->output_capacity = 0;
    copy->value_capacity = graph->value_count;
    copy->node_capacity = graph->node_count;
    copy->value = malloc((size_t)graph->value_count * sizeof *copy->value);
    copy->node = malloc((size_t)graph->node_count * sizeof *copy->node);
    copy->param = malloc((size_t)graph->param_count * sizeof *copy->param);
    memcpy(copy->value, graph->value, (size_t)graph->value_count * sizeof *copy->value);
    memcpy(copy->node, graph->node, (size_t)graph->node_count * sizeof *copy->node);
    memcpy(copy->param, graph->param, (size_t)graph->param_count * sizeof *copy->param);
    return copy;
}

static void *plain_value(const struct culm_graph *graph, int32_t v, void **memory,
                         const struct batch *batch) {
    const struct culm_value *value = &graph->value[v];
    switch (value->kind) {
    case CULM_VALUE_PARAM: return (void *)batch->params[value->param];
    case CULM_VALUE_FIELD: return (void *)batch->fields[value->field];
    default: break;
    }
    if (value->same_as >= 0) {
        return plain_value(graph, value->same_as, memory, batch);
    }
    if (!memory[v]) {
        memory[v] = fence_new((size_t)culm_elements(&value->shape) * sizeof(float));
    }
    return memory[v];
}

void run_plainly(const struct culm_graph *graph, const struct batch *batch,
                 struct result *ret_result) {
    struct culm_graph *copy = copy_of(graph);
    struct culm_error error;
    if (culm_graph_differentiate(copy, 0, graph->node_count, NULL, NULL, 0, NULL, 0, NULL, NULL,
                                 &error)) {
        fail_msg("%s", error.text);
    }
    result_begin(ret_result, graph);
    struct culm_loss_total loss = {0};
    void **memory = calloc((size_t)copy->value_count, sizeof *memory);
    float **grad = calloc((size_t)graph->use_count, sizeof *grad);
    for (int32_t u = 0; u < graph->use_count; u++) {
        grad[u] = fence_new((size_t)use_count(graph, u) * sizeof(float));
    }
    for (int32_t n = 0; n < copy->node_count; n++) {
        const struct culm_node_desc *node = &copy->node[n];
        uint64_t key =
            culm_rng_mix(culm_rng_mix(batch->seed, batch->iteration), (uint64_t)node->operator_id);
        struct culm_operands operands = {.device = run_cpu(),
                                         .node = node,
                                         .value = copy->value,
                                         .first = true,
                                         .loss_scale = 1,
                                         .loss = &loss,
                                         .dropout = {.p = node->attributes.dropout,
                                                     .key = key,
                                                     .first_sample = batch->first_sample,
                                                     .sample_id = batch->sample_id}};
        for (int32_t i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
            if (node->input[i] >= 0) {
                operands.input[i] = plain_value(copy, node->input[i], memory, batch);
            }
        }
        for (int32_t o = 0; o < CULM_NODE_OUTPUTS_MAX; o++) {
            if (node->output[o] >= 0) {
                operands.output[o] = plain_value(copy, node->output[o], memory, batch);
            }
        }
        if (node->output[0] >= 0) {
            operands.dropout.samples = copy->value[node->output[0]].shape.dim[0];
        }
        for (int32_t u = 0; u < CULM_NODE_USES_MAX; u++) {
            operands.use[u] = node->use[u] >= 0 ? grad[node->use[u]] : NULL;
        }
        node->op->execute(&operands);
    }
    ret_result->loss = loss.loss;
    for (int32_t u = 0; u < graph->use_count; u++) {
        result_take(ret_result, graph, u, grad[u]);
        fence_free(grad[u]);
    }
    for (int32_t v = 0; v < copy->value_count; v++) {
        fence_free(memory[v]);
    }
    free(grad);
    free(memory);
    culm_graph_free(copy);
}
