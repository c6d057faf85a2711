/*
 * Every family against PyTorch: logits, loss, all gradients, ten losses with SGD and with AdamW,
 * running statistics (tests/golden/golden.py says what the vectors are); and the same bits for
 * every number of stages and threads, with and without recomputation.
 *
 *     CULM_GOLDEN=tests/golden unit_model_golden FAMILY
 */
#include "device/cpu/kernels.h"
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

#define STEPS 10
#define STAGES_MAX 3
#define FIELDS_MAX 8
#define PARAMS_MAX 128

struct family {
    const char *name, *arch;
    struct culm_model_options options;
    int64_t stages; /* most that it can be cut into, up to STAGES_MAX */
};

static const struct family families[] = {
    {"gpt2",
     "gpt2",
     {.layers = 2, .width = 32, .heads = 2, .context = 16, .vocab = 64, .dropout = 0.1, .batch = 2},
     2},
    {"bert",
     "bert",
     {.layers = 2,
      .width = 24,
      .heads = 3,
      .context = 12,
      .positions = 16,
      .vocab = 50,
      .masked = 3,
      .dropout = 0.1,
      .batch = 4},
     2},
    {"resnet",
     "resnet",
     {.blocks = {2, 1, 1}, .width = 4, .classes = 5, .image = 32, .batch = 4},
     3},
    {"bottleneck",
     "resnet",
     {.blocks = {1, 2}, .bottleneck = true, .width = 4, .classes = 5, .image = 32, .batch = 4},
     3},
    {"vgg",
     "vgg",
     {.layers = 11,
      .width = 2,
      .hidden = 16,
      .pool = 2,
      .classes = 5,
      .image = 32,
      .dropout = 0.5,
      .batch = 4},
     3},
    {"vgg_bn",
     "vgg",
     {.layers = 11,
      .width = 2,
      .hidden = 16,
      .pool = 2,
      .classes = 5,
      .image = 32,
      .dropout = 0.5,
      .batch_norm = true,
      .batch = 4},
     3},
    {"alexnet",
     "alexnet",
     {.width = 4, .hidden = 24, .pool = 2, .classes = 5, .image = 64, .dropout = 0.5, .batch = 4},
     3},
    {"gnmt",
     "gnmt",
     {.layers = 3,
      .width = 10,
      .context = 6,
      .source = 7,
      .vocab = 30,
      .dropout = 0.2,
      .label_smoothing = 0.1,
      .share_embedding = true,
      .batch = 3},
     3},
};

static const struct family *family;
static struct culm_safetensors *golden;

static const struct culm_safetensors_entry *entry_of(const char *prefix, const char *name) {
    char full[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct culm_safetensors_entry *entry = culm_safetensors_find(golden, full);
    if (!entry) {
        fail_msg("no vector '%s'", full);
    }
    return entry;
}

/* The caller frees it. */
static float *vector(const char *prefix, const char *name, int64_t count) {
    const struct culm_safetensors_entry *entry = entry_of(prefix, name);
    if (entry->elements != count) {
        fail_msg("'%s%s' has %lld elements, not %lld", prefix, name, (long long)entry->elements,
                 (long long)count);
    }
    float *copy = malloc(entry->bytes);
    memcpy(copy, entry->data, entry->bytes);
    return copy;
}

static void *memory(size_t bytes) {
    void *data = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    assert_non_null(data);
    memset(data, 0xFF, (bytes + 127) & ~(size_t)63); /* NaN: nothing may rely on what is there */
    return data;
}

/* --- samples --- */

struct samples {
    void *field[FIELDS_MAX];
};

/* The samples of a step; images by the formula in golden.py. */
static struct samples samples_of(const struct culm_graph *graph, int step) {
    struct samples samples = {0};
    assert_true(graph->field_count <= FIELDS_MAX);
    for (int32_t f = 0; f < graph->field_count; f++) {
        const struct culm_field *field = &graph->field[f];
        int64_t count = culm_elements(&field->shape);
        samples.field[f] = memory((size_t)count * sizeof(float));
        if (field->dtype == CULM_F32) {
            float *out = samples.field[f];
            for (int64_t i = 0; i < count; i++) {
                uint32_t mixed = (uint32_t)(step * count + i) * 2654435761u;
                out[i] = (float)(mixed >> 24) / 128 - 1;
            }
            continue;
        }
        float *all = vector("field.", field->name, STEPS * count);
        int32_t *out = samples.field[f];
        for (int64_t i = 0; i < count; i++) {
            out[i] = (int32_t)all[step * count + i];
        }
        free(all);
    }
    return samples;
}

static void samples_free(struct samples *samples) {
    for (int f = 0; f < FIELDS_MAX; f++) {
        free(samples->field[f]);
    }
}

/* --- a pipeline of stages in one process --- */

struct pipeline {
    int32_t stages;
    struct culm_graph *graph;
    struct culm_stage *stage[STAGES_MAX];
    float *params[STAGES_MAX], *m[STAGES_MAX], *v[STAGES_MAX], *grads[STAGES_MAX];
    void *activations[STAGES_MAX], *scratch[STAGES_MAX];
    void *boundary[STAGES_MAX], *d_boundary[STAGES_MAX];
    struct culm_cpu *cpu;
    double loss;
};

struct variant {
    int32_t stages;
    int threads;
    bool dropout, recompute, inference, pausing;
};

static void pipeline_new(struct pipeline *p, struct variant variant) {
    struct culm_error error = {0};
    struct culm_model_options options = family->options;
    options.dropout = variant.dropout ? options.dropout : 0;
    options.inference = variant.inference;
    const struct culm_stage_options how = {.recompute = variant.recompute,
                                           .forward_only = variant.inference};
    *p = (struct pipeline){.stages = variant.stages};
    if (culm_model_build(family->arch, &options, &p->graph, &error) ||
        culm_stages_compile(p->graph, p->stages, &how, p->stage, &error) ||
        culm_cpu_new(variant.threads, &p->cpu, &error)) {
        fail_msg("%s", error.text);
    }
    assert_true(p->graph->param_count <= PARAMS_MAX);
    for (int32_t s = 0; s < p->stages; s++) {
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
            float *from = vector("weight.", param->name, param->count);
            memcpy(p->params[s] + param->offset, from, (size_t)param->count * sizeof(float));
            free(from);
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

static struct culm_stage_run run_of(struct pipeline *p, int32_t s, const struct samples *samples) {
    bool output = culm_stage_info(p->stage[s])->output_bytes > 0;
    return (struct culm_stage_run){
        .seed = 5,
        .iteration = 3,
        .first_sample = 11,
        .params = p->params[s],
        .fields = (const void *const *)samples->field,
        .input = s > 0 ? p->boundary[s - 1] : NULL,
        .output = output ? p->boundary[s] : NULL,
        .loss_scale = 1.0 / (double)family->options.batch,
        .activations = p->activations[s],
        .scratch = p->scratch[s],
        .grads = p->grads[s],
        .first = true,
        .d_output = output ? p->d_boundary[s] : NULL,
        .d_input = s > 0 ? p->d_boundary[s - 1] : NULL,
    };
}

static void pipeline_forward(struct pipeline *p, const struct samples *samples, const int *stop) {
    p->loss = 0;
    for (int32_t s = 0; s < p->stages; s++) {
        struct culm_stage_run run = run_of(p, s, samples);
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
        if (culm_stage_info(p->stage[s])->has_loss) {
            p->loss += run.loss.loss / (double)family->options.batch;
        }
    }
}

static void pipeline_step(struct pipeline *p, const struct samples *samples, const int *stop) {
    pipeline_forward(p, samples, stop);
    for (int32_t s = p->stages - 1; s >= 0; s--) {
        struct culm_stage_run run = run_of(p, s, samples);
        assert_int_equal(culm_stage_backward(p->stage[s], p->cpu, &run), CULM_OK);
    }
}

/* The gradient of the uncut parameter: all uses in all stages, added in order. */
static float *gradient(struct pipeline *p, int32_t param) {
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
            }
        }
    }
    assert_non_null(sum);
    return sum;
}

static double norm_of(const float *a, const float *minus, int64_t count) {
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = (double)a[i] - (minus ? (double)minus[i] : 0);
        squares += x * x;
    }
    return sqrt(squares);
}

/* --- what PyTorch says --- */

static void test_logits(void **state) {
    (void)state;
    struct pipeline p;
    for (int32_t stages = 1; stages <= 2; stages++) {
        pipeline_new(&p, (struct variant){.stages = stages, .threads = 1, .inference = true});
        struct samples samples = samples_of(p.graph, 0);
        pipeline_forward(&p, &samples, NULL);
        int64_t count = culm_elements(&p.graph->value[p.graph->output].shape);
        float *want = vector("logits", "", count);
        const float *have = p.boundary[stages - 1];
        int64_t classes = culm_last_dim(&p.graph->value[p.graph->output].shape);
        for (int64_t i = 0; i < count; i++) {
            bool padding = true; /* rows that have no target are zeros there */
            for (int64_t c = 0; c < classes; c++) {
                padding &= want[i - i % classes + c] == 0;
            }
            if (!padding && !(fabsf(have[i] - want[i]) < 1e-5f * (1 + fabsf(want[i])))) {
                fail_msg("logit %lld is %g, not %g", (long long)i, (double)have[i],
                         (double)want[i]);
            }
        }
        free(want);
        samples_free(&samples);
        pipeline_free(&p);
    }
}

static void test_loss_and_gradients(void **state) {
    (void)state;
    struct pipeline p;
    pipeline_new(&p, (struct variant){.stages = 1, .threads = 1});
    struct samples samples = samples_of(p.graph, 0);
    pipeline_step(&p, &samples, NULL);
    float *losses = vector("losses.sgd", "", STEPS);
    if (!(fabs(p.loss - (double)losses[0]) < 1e-5)) {
        fail_msg("the loss is %.7f, not %.7f", p.loss, (double)losses[0]);
    }
    float *norms = vector("norms.adamw", "", STEPS);
    for (int32_t i = 0; i < p.graph->param_count; i++) {
        const struct culm_param *param = &p.graph->param[i];
        if (param->statistic) {
            continue;
        }
        int64_t count = culm_elements(&param->shape);
        float *want = vector("grad.", param->name, count), *have = gradient(&p, i);
        double size = norm_of(want, NULL, count), off = norm_of(have, want, count);
        /* Some are zero but for rounding: a bias before batch norm, the bias of keys. */
        double allowed = size < 1e-7 * (double)norms[0] ? 1e-5 * (double)norms[0] : 1e-4 * size;
        if (!(off < allowed)) {
            fail_msg("gradient of %s is off by %g of %g", param->name, off, size);
        }
        free(have);
        free(want);
    }
    free(losses);
    free(norms);
    samples_free(&samples);
    pipeline_free(&p);
}

/* p = (1 - momentum) p + momentum * what the batch says, of running statistics. */
static void move_statistic(float *data, const float *of_batch, int64_t count, double momentum) {
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)((1 - momentum) * (double)data[i] + momentum * (double)of_batch[i]);
    }
}

/* PyTorch's SGD with momentum 0.9. */
static void sgd_step(float *data, float *buffer, const float *grad, int64_t count, double lr,
                     double decay) {
    for (int64_t i = 0; i < count; i++) {
        buffer[i] = (float)(0.9 * (double)buffer[i] + (double)grad[i] + decay * (double)data[i]);
        data[i] -= (float)(lr * (double)buffer[i]);
    }
}

static void optimize(struct pipeline *p, int64_t step, bool sgd, const float *lr,
                     double *ret_norm) {
    double top = (double)lr[sgd ? 0 : 1], squares = 0;
    const struct culm_schedule cosine = {CULM_SCHEDULE_COSINE, top, top / 10, 3, STEPS, 0, 0};
    float *grads[PARAMS_MAX];
    for (int32_t i = 0; i < p->graph->param_count; i++) {
        grads[i] = gradient(p, i);
        if (!p->graph->param[i].statistic) {
            squares +=
                culm_cpu_sum_squares(p->cpu, grads[i], culm_elements(&p->graph->param[i].shape));
        }
    }
    *ret_norm = sqrt(squares);
    struct culm_adamw adamw = culm_adamw_at(step, 0.9, 0.95);
    adamw.lr = culm_schedule_lr(&cosine, step);
    adamw.eps = 1e-8;
    adamw.grad_scale = *ret_norm + 1e-6 > 1 ? 1 / (*ret_norm + 1e-6) : 1;
    for (int32_t s = 0; s < p->stages; s++) {
        const struct culm_stage_info *info = culm_stage_info(p->stage[s]);
        for (int32_t i = 0; i < info->param_count; i++) {
            const struct culm_param_info *param = &info->params[i];
            float *data = p->params[s] + param->offset, *m = p->m[s] + param->offset;
            const float *grad = grads[param->global_index];
            adamw.weight_decay = param->decay ? 0.1 : 0;
            if (param->statistic) {
                move_statistic(data, grad, param->count, param->momentum);
            } else if (sgd) {
                sgd_step(data, m, grad, param->count, step > 5 ? top / 10 : top,
                         param->decay ? 0.01 : 0);
            } else {
                culm_cpu_adamw(p->cpu, data, m, p->v[s] + param->offset, grad, param->count,
                               &adamw);
            }
        }
    }
    for (int32_t i = 0; i < p->graph->param_count; i++) {
        free(grads[i]);
    }
}

static void ten_losses(bool sgd) {
    struct pipeline p;
    pipeline_new(&p, (struct variant){.stages = 2, .threads = 2});
    float *losses = vector(sgd ? "losses.sgd" : "losses.adamw", "", STEPS);
    float *norms = vector("norms.adamw", "", STEPS), *lr = vector("lr", "", 2);
    for (int step = 0; step < STEPS; step++) {
        struct samples samples = samples_of(p.graph, step);
        double norm;
        pipeline_step(&p, &samples, NULL);
        if (!(fabs(p.loss - (double)losses[step]) < 1e-4)) {
            fail_msg("loss of step %d is %.7f, not %.7f", step + 1, p.loss, (double)losses[step]);
        }
        optimize(&p, step + 1, sgd, lr, &norm);
        if (!sgd && !(fabs(norm / (double)norms[step] - 1) < 1e-3)) {
            fail_msg("norm of step %d is %.7f, not %.7f", step + 1, norm, (double)norms[step]);
        }
        samples_free(&samples);
    }
    for (int32_t s = 0; sgd && s < p.stages; s++) {
        const struct culm_stage_info *info = culm_stage_info(p.stage[s]);
        for (int32_t i = 0; i < info->param_count; i++) {
            const struct culm_param_info *param = &info->params[i];
            if (!param->statistic) {
                continue;
            }
            float *want = vector("final.", param->name, param->count);
            double size = norm_of(want, NULL, param->count);
            double off = norm_of(p.params[s] + param->offset, want, param->count);
            if (!(off < 1e-4 * size)) {
                fail_msg("%s ends off by %g of %g", param->name, off, size);
            }
            free(want);
        }
    }
    free(losses);
    free(norms);
    free(lr);
    pipeline_free(&p);
}

static void test_ten_losses_of_sgd(void **state) {
    (void)state;
    ten_losses(true);
}

static void test_ten_losses_of_adamw(void **state) {
    (void)state;
    ten_losses(false);
}

/* --- the same bits --- */

static void test_same_bits(void **state) {
    (void)state;
    const int always = 1;
    struct pipeline reference;
    pipeline_new(&reference, (struct variant){.stages = 1, .threads = 1, .dropout = true});
    struct samples samples = samples_of(reference.graph, 0);
    pipeline_step(&reference, &samples, NULL);
    static const struct variant variants[] = {
        {.stages = 1, .threads = 1, .dropout = true, .pausing = true},
        {.stages = 1, .threads = 3, .dropout = true},
        {.stages = 2, .threads = 1, .dropout = true},
        {.stages = 3, .threads = 2, .dropout = true},
        {.stages = 1, .threads = 2, .dropout = true, .recompute = true},
        {.stages = 2, .threads = 3, .dropout = true, .recompute = true, .pausing = true},
    };
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        struct pipeline p;
        if (variants[v].stages > family->stages) {
            continue;
        }
        pipeline_new(&p, variants[v]);
        pipeline_step(&p, &samples, variants[v].pausing ? &always : NULL);
        if (p.stages == 1) {
            assert_memory_equal(&p.loss, &reference.loss, sizeof p.loss);
        } else { /* losses of several stages are added */
            assert_true(fabs(p.loss - reference.loss) < 1e-12);
        }
        for (int32_t i = 0; i < p.graph->param_count; i++) {
            float *a = gradient(&p, i), *b = gradient(&reference, i);
            size_t bytes = (size_t)culm_elements(&p.graph->param[i].shape) * sizeof(float);
            if (memcmp(a, b, bytes) != 0) {
                fail_msg("variant %zu: other bits in the gradient of %s", v,
                         p.graph->param[i].name);
            }
            free(a);
            free(b);
        }
        pipeline_free(&p);
    }
    samples_free(&samples);
    pipeline_free(&reference);
}

/* A micro-batch suspended in the middle is not disturbed by another one run meanwhile. */
static void test_suspended_forward(void **state) {
    (void)state;
    struct pipeline p;
    pipeline_new(&p, (struct variant){.stages = 1, .threads = 1, .dropout = true});
    struct samples one = samples_of(p.graph, 0), two = samples_of(p.graph, 1);
    struct culm_stage_run plain = run_of(&p, 0, &one);
    assert_int_equal(culm_stage_forward(p.stage[0], p.cpu, &plain), CULM_OK);
    const struct culm_stage_info *info = culm_stage_info(p.stage[0]);
    void *scratch = memory(info->scratch_bytes), *activations = memory(info->activation_bytes);
    const int stop = 1;
    struct culm_stage_run slow = run_of(&p, 0, &one);
    slow.scratch = scratch;
    slow.activations = activations;
    slow.stop = &stop;
    while (culm_stage_forward(p.stage[0], p.cpu, &slow) == CULM_ERR_AGAIN) {
        struct culm_stage_run other = run_of(&p, 0, &two);
        assert_int_equal(culm_stage_forward(p.stage[0], p.cpu, &other), CULM_OK);
    }
    assert_memory_equal(&plain.loss.loss, &slow.loss.loss, sizeof plain.loss.loss);
    free(scratch);
    free(activations);
    samples_free(&one);
    samples_free(&two);
    pipeline_free(&p);
}

int main(int argc, char **argv) {
    struct culm_error error;
    const char *directory = getenv("CULM_GOLDEN");
    char path[1024];
    for (size_t i = 0; argc == 2 && i < sizeof families / sizeof *families; i++) {
        family = strcmp(families[i].name, argv[1]) == 0 ? &families[i] : family;
    }
    if (!family || !directory) {
        fprintf(stderr, "usage: CULM_GOLDEN=DIRECTORY %s FAMILY\n", argv[0]);
        return 2;
    }
    snprintf(path, sizeof path, "%s/%s.safetensors", directory, family->name);
    if (culm_safetensors_open(path, &golden, &error) != CULM_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_loss_and_gradients),
        cmocka_unit_test(test_ten_losses_of_sgd),
        cmocka_unit_test(test_ten_losses_of_adamw),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_suspended_forward),
    };
    int failed = cmocka_run_group_tests_name("model/golden", tests, NULL, NULL);
    culm_safetensors_close(golden);
    return failed;
}
