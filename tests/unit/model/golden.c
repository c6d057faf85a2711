/*
 * GPT-2 against PyTorch: logits, loss, every gradient, ten training losses and the weights after
 * them (tests/golden/make_gpt2.py made the vectors), and the same bits for every number of stages
 * and threads.
 */
#include "graph/stage.h"
#include "model/model.h"
#include "model/optimizer.h"
#include "store/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LAYERS 2
#define WIDTH 32
#define CONTEXT 16
#define VOCAB 64
#define BATCH 2
#define STEPS 10
#define TOKENS (BATCH * CONTEXT)
#define STAGES_MAX 2

static struct culm_safetensors *golden;

static const float *vector(const char *prefix, const char *name) {
    char full[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct culm_safetensors_entry *entry = culm_safetensors_find(golden, full);
    if (!entry) {
        fail_msg("no vector '%s'", full);
    }
    float *copy = malloc(entry->bytes);
    memcpy(copy, entry->data, entry->bytes);
    return copy;
}

/* --- a pipeline of stages in one process --- */

struct pipeline {
    int32_t stages;
    struct culm_graph *graph;
    struct culm_stage *stage[STAGES_MAX];
    float *params[STAGES_MAX], *m[STAGES_MAX], *v[STAGES_MAX], *grads[STAGES_MAX];
    void *activations[STAGES_MAX], *scratch[STAGES_MAX];
    float *boundary[STAGES_MAX], *d_boundary[STAGES_MAX];
    struct culm_cpu *cpu;
    double loss;
    const void *fields[2][2]; /* of two runs that are under way at once */
    int turn;
};

static void *memory(size_t bytes) {
    void *data = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    assert_non_null(data);
    memset(data, 0xA5, (bytes + 127) & ~(size_t)63); /* nothing may rely on zeros */
    return data;
}

static void pipeline_new(struct pipeline *p, int32_t stages, int threads, double dropout) {
    struct culm_error error = {0};
    const struct culm_model_options options = {.layers = LAYERS,
                                               .width = WIDTH,
                                               .heads = 2,
                                               .context = CONTEXT,
                                               .vocab = VOCAB,
                                               .dropout = dropout,
                                               .batch = BATCH};
    *p = (struct pipeline){.stages = stages};
    if (culm_model_build("gpt2", &options, &p->graph, &error) ||
        culm_stages_compile(p->graph, stages, NULL, p->stage, &error) ||
        culm_cpu_new(threads, &p->cpu, &error)) {
        fail_msg("%s", error.text);
    }
    for (int32_t s = 0; s < stages; s++) {
        const struct culm_stage_info *info = culm_stage_info(p->stage[s]);
        size_t bytes = (size_t)info->param_floats * sizeof(float);
        p->params[s] = memory(bytes);
        p->m[s] = memory(bytes);
        p->v[s] = memory(bytes);
        memset(p->m[s], 0, bytes);
        memset(p->v[s], 0, bytes);
        p->grads[s] = memory((size_t)info->grad_floats * sizeof(float));
        p->activations[s] = memory(info->activation_bytes);
        p->scratch[s] = memory(info->scratch_bytes);
        p->boundary[s] = memory(info->output_bytes);
        p->d_boundary[s] = memory(info->output_bytes);
        for (int32_t i = 0; i < info->param_count; i++) {
            const struct culm_param_info *param = &info->params[i];
            const float *from = vector("weight.", param->name + strlen("transformer."));
            memcpy(p->params[s] + param->offset, from, (size_t)param->count * sizeof(float));
            free((void *)from);
        }
    }
}

static void pipeline_free(struct pipeline *p) {
    for (int32_t s = 0; s < p->stages; s++) {
        culm_stage_free(p->stage[s]);
        free(p->params[s]);
        free(p->m[s]);
        free(p->v[s]);
        free(p->grads[s]);
        free(p->activations[s]);
        free(p->scratch[s]);
        free(p->boundary[s]);
        free(p->d_boundary[s]);
    }
    culm_cpu_free(p->cpu);
    culm_graph_free(p->graph);
}

static struct culm_stage_run run_of(struct pipeline *p, int32_t s, const int32_t *tokens,
                                    const int32_t *targets) {
    const void **fields = p->fields[p->turn ^= 1];
    fields[0] = tokens;
    fields[1] = targets;
    return (struct culm_stage_run){
        .seed = 5,
        .iteration = 3,
        .first_sample = 11,
        .params = p->params[s],
        .fields = fields,
        .input = s > 0 ? p->boundary[s - 1] : NULL,
        .output = s + 1 < p->stages ? p->boundary[s] : NULL,
        .loss_scale = 1.0 / BATCH,
        .activations = p->activations[s],
        .scratch = p->scratch[s],
        .grads = p->grads[s],
        .first = true,
        .d_output = s + 1 < p->stages ? p->d_boundary[s] : NULL,
        .d_input = s > 0 ? p->d_boundary[s - 1] : NULL,
    };
}

static void pipeline_step(struct pipeline *p, const int32_t *tokens, const int32_t *targets,
                          const int *stop) {
    for (int32_t s = 0; s < p->stages; s++) {
        struct culm_stage_run run = run_of(p, s, tokens, targets);
        run.stop = stop;
        enum culm_status status;
        int32_t pauses = 0;
        while ((status = culm_stage_forward(p->stage[s], p->cpu, &run)) == CULM_ERR_AGAIN) {
            pauses++;
        }
        assert_int_equal(status, CULM_OK);
        if (stop && *stop) {
            assert_int_equal(pauses, culm_stage_info(p->stage[s])->forward_ops - 1);
        }
        p->loss = run.loss.loss / BATCH;
    }
    for (int32_t s = p->stages - 1; s >= 0; s--) {
        struct culm_stage_run run = run_of(p, s, tokens, targets);
        assert_int_equal(culm_stage_backward(p->stage[s], p->cpu, &run), CULM_OK);
    }
}

/* The gradient of the uncut parameter: all uses in all stages, added in order. */
static float *gradient(struct pipeline *p, int32_t param, int64_t *ret_count) {
    float *sum = NULL;
    for (int32_t u = 0; u < p->graph->use_count; u++) {
        for (int32_t s = 0; s < p->stages; s++) {
            const struct culm_stage_info *info = culm_stage_info(p->stage[s]);
            for (int32_t g = 0; g < info->grad_count; g++) {
                const struct culm_grad_info *grad = &info->grads[g];
                if (grad->global_use != u || info->params[grad->param].global_index != param) {
                    continue;
                }
                float *use = memory((size_t)grad->count * sizeof(float));
                memcpy(use, p->grads[s] + grad->offset, (size_t)grad->count * sizeof(float));
                if (sum) {
                    culm_cpu_add(p->cpu, sum, sum, use, grad->count);
                    free(use);
                } else {
                    sum = use;
                }
                *ret_count = grad->count;
            }
        }
    }
    assert_non_null(sum);
    return sum;
}

static void batch(int step, int32_t *tokens, int32_t *targets) {
    const float *stream = vector("stream", "");
    for (int b = 0; b < BATCH; b++) {
        const float *row = stream + (step * BATCH + b) * (CONTEXT + 1);
        for (int t = 0; t < CONTEXT; t++) {
            tokens[b * CONTEXT + t] = (int32_t)row[t];
            targets[b * CONTEXT + t] = (int32_t)row[t + 1];
        }
    }
    free((void *)stream);
}

static double relative_error(const float *a, const float *b, int64_t count) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(difference / (size + 1e-30));
}

/* --- tests --- */

static void test_logits_loss_and_gradients(void **state) {
    (void)state;
    struct pipeline p;
    int32_t tokens[TOKENS], targets[TOKENS];
    pipeline_new(&p, 1, 1, 0);
    batch(0, tokens, targets);
    pipeline_step(&p, tokens, targets, NULL);
    const float *losses = vector("losses", "");
    assert_true(fabs(p.loss - losses[0]) < 1e-5);
    for (int32_t i = 0; i < p.graph->param_count; i++) {
        const char *name = p.graph->param[i].name + strlen("transformer.");
        const float *want = vector("grad.", name);
        int64_t count = 0;
        float *have = gradient(&p, i, &count);
        double off = relative_error(have, want, count);
        if (!(off < 1e-4)) {
            fail_msg("gradient of %s is off by %g", name, off);
        }
        free(have);
        free((void *)want);
    }
    free((void *)losses);
    pipeline_free(&p);
}

/* The logits, seen through the head's gradient: (softmax - onehot) / tokens, which backward of the
 * head starts from. */
static void test_logits(void **state) {
    (void)state;
    struct pipeline p;
    int32_t tokens[TOKENS], targets[TOKENS];
    pipeline_new(&p, 1, 1, 0);
    batch(0, tokens, targets);
    struct culm_stage_run run = run_of(&p, 0, tokens, targets);
    assert_int_equal(culm_stage_forward(p.stage[0], p.cpu, &run), CULM_OK);
    const float *logits = vector("logits", "");
    const float *kept = NULL;
    const char *bytes = p.activations[0];
    size_t size = culm_stage_info(p.stage[0])->activation_bytes;
    float want[VOCAB];
    double sum = 0;
    for (int v = 0; v < VOCAB; v++) {
        sum += exp((double)logits[v]);
    }
    for (int v = 0; v < VOCAB; v++) {
        want[v] = (float)((exp((double)logits[v]) / sum - (v == targets[0])) / TOKENS);
    }
    for (size_t at = 0; at + TOKENS * VOCAB * sizeof(float) <= size && !kept; at += 64) {
        const float *here = (const float *)(bytes + at);
        kept = relative_error(here, want, VOCAB) < 1e-5 ? here : NULL;
    }
    assert_non_null(kept);
    for (int row = 0; row < TOKENS; row++) {
        double row_sum = 0;
        for (int v = 0; v < VOCAB; v++) {
            row_sum += exp((double)logits[row * VOCAB + v]);
        }
        for (int v = 0; v < VOCAB; v++) {
            double value =
                (exp((double)logits[row * VOCAB + v]) / row_sum - (v == targets[row])) / TOKENS;
            assert_true(fabs(value - (double)kept[row * VOCAB + v]) < 1e-7);
        }
    }
    free((void *)logits);
    pipeline_free(&p);
}

static void optimize(struct pipeline *p, int64_t step, double *ret_norm) {
    const struct culm_schedule schedule = {true, 1e-3, 1e-4, 3, STEPS};
    double squares = 0;
    float *grads[64];
    for (int32_t i = 0; i < p->graph->param_count; i++) {
        int64_t count = 0;
        grads[i] = gradient(p, i, &count);
        squares += culm_cpu_sum_squares(p->cpu, grads[i], count);
    }
    *ret_norm = sqrt(squares);
    struct culm_adamw hyper = culm_adamw_at(step, 0.9, 0.95);
    hyper.lr = culm_schedule_lr(&schedule, step);
    hyper.eps = 1e-8;
    hyper.grad_scale = *ret_norm + 1e-6 > 1 ? 1 / (*ret_norm + 1e-6) : 1;
    for (int32_t s = 0; s < p->stages; s++) {
        const struct culm_stage_info *info = culm_stage_info(p->stage[s]);
        for (int32_t i = 0; i < info->param_count; i++) {
            const struct culm_param_info *param = &info->params[i];
            hyper.weight_decay = param->decay ? 0.1 : 0;
            culm_cpu_adamw(p->cpu, p->params[s] + param->offset, p->m[s] + param->offset,
                           p->v[s] + param->offset, grads[param->global_index], param->count,
                           &hyper);
        }
    }
    for (int32_t i = 0; i < p->graph->param_count; i++) {
        free(grads[i]);
    }
}

static void test_ten_losses(void **state) {
    (void)state;
    struct pipeline p;
    pipeline_new(&p, 2, 2, 0);
    const float *losses = vector("losses", ""), *norms = vector("norms", "");
    for (int step = 0; step < STEPS; step++) {
        int32_t tokens[TOKENS], targets[TOKENS];
        double norm;
        batch(step, tokens, targets);
        pipeline_step(&p, tokens, targets, NULL);
        if (!(fabs(p.loss - losses[step]) < 1e-4)) {
            fail_msg("loss of step %d is %.7f, not %.7f", step + 1, p.loss, losses[step]);
        }
        optimize(&p, step + 1, &norm);
        assert_true(fabs(norm / norms[step] - 1) < 1e-4);
    }
    for (int32_t s = 0; s < p.stages; s++) {
        const struct culm_stage_info *info = culm_stage_info(p.stage[s]);
        for (int32_t i = 0; i < info->param_count; i++) {
            const struct culm_param_info *param = &info->params[i];
            if (strstr(param->name, "attn.c_attn.bias")) {
                /* The gradient of the keys' bias is 0 but for rounding, which Adam makes large. */
                continue;
            }
            const float *want = vector("final.", param->name + strlen("transformer."));
            assert_true(relative_error(p.params[s] + param->offset, want, param->count) < 2e-3);
            free((void *)want);
        }
    }
    free((void *)losses);
    free((void *)norms);
    pipeline_free(&p);
}

/* Every gradient and the loss: equal bits for 1 and 2 stages, 1 to 3 threads, and when paused
 * between all operators. */
static void test_same_bits(void **state) {
    (void)state;
    int32_t tokens[TOKENS], targets[TOKENS];
    const int always = 1;
    batch(0, tokens, targets);
    struct pipeline reference;
    pipeline_new(&reference, 1, 1, 0.1);
    pipeline_step(&reference, tokens, targets, NULL);
    for (int variant = 0; variant < 5; variant++) {
        struct pipeline p;
        pipeline_new(&p, 1 + variant % 2, 1 + variant / 2, 0.1);
        pipeline_step(&p, tokens, targets, variant == 1 ? &always : NULL);
        assert_memory_equal(&p.loss, &reference.loss, sizeof p.loss);
        for (int32_t i = 0; i < p.graph->param_count; i++) {
            int64_t count = 0;
            float *a = gradient(&p, i, &count), *b = gradient(&reference, i, &count);
            if (memcmp(a, b, (size_t)count * sizeof(float)) != 0) {
                fail_msg("variant %d: other bits in the gradient of %s", variant,
                         p.graph->param[i].name);
            }
            free(a);
            free(b);
        }
        pipeline_free(&p);
    }
    pipeline_free(&reference);
}

/* A micro-batch suspended in the middle is not disturbed by another one run meanwhile. */
static void test_suspended_forward(void **state) {
    (void)state;
    int32_t tokens[TOKENS], targets[TOKENS], other_tokens[TOKENS], other_targets[TOKENS];
    batch(0, tokens, targets);
    batch(1, other_tokens, other_targets);
    struct pipeline p;
    pipeline_new(&p, 1, 1, 0.1);
    struct culm_stage_run plain = run_of(&p, 0, tokens, targets);
    assert_int_equal(culm_stage_forward(p.stage[0], p.cpu, &plain), CULM_OK);
    const struct culm_stage_info *info = culm_stage_info(p.stage[0]);
    void *scratch = memory(info->scratch_bytes), *activations = memory(info->activation_bytes);
    const int stop = 1;
    p.turn = 1;
    struct culm_stage_run slow = run_of(&p, 0, tokens, targets);
    slow.scratch = scratch;
    slow.activations = activations;
    slow.stop = &stop;
    while (culm_stage_forward(p.stage[0], p.cpu, &slow) == CULM_ERR_AGAIN) {
        p.turn = 0; /* not the fields of `slow` */
        struct culm_stage_run other = run_of(&p, 0, other_tokens, other_targets);
        assert_int_equal(culm_stage_forward(p.stage[0], p.cpu, &other), CULM_OK);
    }
    assert_memory_equal(&plain.loss, &slow.loss, sizeof plain.loss);
    free(scratch);
    free(activations);
    pipeline_free(&p);
}

static int open_golden(void **state) {
    (void)state;
    struct culm_error error;
    const char *path = getenv("CULM_GOLDEN");
    if (!path || culm_safetensors_open(path, &golden, &error) != CULM_OK) {
        fprintf(stderr, "CULM_GOLDEN: %s\n", path ? error.text : "not set");
        return 1;
    }
    return 0;
}

static int close_golden(void **state) {
    (void)state;
    culm_safetensors_close(golden);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_logits_loss_and_gradients),
        cmocka_unit_test(test_ten_losses),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_suspended_forward),
    };
    return cmocka_run_group_tests_name("model/golden", tests, open_golden, close_golden);
}
