/* See golden.h. */
#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Of these there are only ONNX files. */
#define CLASSIFIER(name_, stages_)                                                                 \
    { name_, CULM_ARCH_ONNX, {.image = 32, .dropout = 0.1, .batch = 4}, stages_ }

static const struct family families[] = {
    CLASSIFIER("vit", 3),
    CLASSIFIER("convnext", 3),
    CLASSIFIER("densenet", 3),
    CLASSIFIER("shufflenet", 3),
    CLASSIFIER("inception", 3),
    {"gpt2",
     CULM_ARCH_GPT2,
     {.layers = 2, .width = 32, .heads = 2, .context = 16, .vocab = 64, .dropout = 0.1, .batch = 2},
     2},
    {"bert",
     CULM_ARCH_BERT,
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
     CULM_ARCH_RESNET,
     {.blocks = {2, 1, 1}, .width = 4, .classes = 5, .image = 32, .batch = 4},
     3},
    {"bottleneck",
     CULM_ARCH_RESNET,
     {.blocks = {1, 2}, .bottleneck = true, .width = 4, .classes = 5, .image = 32, .batch = 4},
     3},
    {"vgg",
     CULM_ARCH_VGG,
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
     CULM_ARCH_VGG,
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
     CULM_ARCH_ALEXNET,
     {.width = 4, .hidden = 24, .pool = 2, .classes = 5, .image = 64, .dropout = 0.5, .batch = 4},
     3},
    {"gnmt",
     CULM_ARCH_GNMT,
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

const struct family *family;
struct culm_safetensors *golden;
const struct culm_device_ops *golden_device;

const struct family *family_find(const char *name) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].name, name) == 0) {
            return &families[i];
        }
    }
    return NULL;
}

const struct culm_safetensors_entry *entry_of(const char *prefix, const char *name) {
    char full[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct culm_safetensors_entry *entry = culm_safetensors_find(golden, full);
    if (!entry) {
        fail_msg("no vector '%s'", full);
    }
    return entry;
}

float *vector(const char *prefix, const char *name, int64_t count) {
    const struct culm_safetensors_entry *entry = entry_of(prefix, name);
    if (entry->elements != count) {
        fail_msg("'%s%s' has %lld elements, not %lld", prefix, name, (long long)entry->elements,
                 (long long)count);
    }
    float *copy = malloc(entry->bytes);
    memcpy(copy, entry->data, entry->bytes);
    return copy;
}

void *memory(size_t bytes) {
    void *data = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    assert_non_null(data);
    memset(data, 0xFF, (bytes + 127) & ~(size_t)63); /* NaN: nothing may rely on what is there */
    return data;
}

/* --- samples --- */

struct samples samples_of(const struct culm_graph *graph, int step) {
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

void samples_free(struct samples *samples) {
    for (int f = 0; f < FIELDS_MAX; f++) {
        free(samples->field[f]);
    }
}

/* --- a pipeline of stages in one process --- */

void pipeline_new(struct pipeline *p, struct variant variant) {
    struct culm_error error = {0};
    struct culm_model_options options = family->options;
    options.dropout = variant.dropout ? options.dropout : 0;
    options.batch = variant.built ? variant.built : options.batch;
    options.inference = variant.inference;
    options.evaluate = variant.evaluate;
    options.device = golden_device ? golden_device : culm_device_default();
    const struct culm_stage_options how = {.recompute = variant.recompute,
                                           .forward_only = variant.inference || variant.evaluate};
    *p = (struct pipeline){.stages = variant.stages};
    if (culm_model_build(family->arch, &options, &p->graph, &error) ||
        (variant.bf16 && culm_graph_lower_bf16(p->graph, &error)) ||
        culm_stages_compile(p->graph, p->stages, &how, p->stage, &error) ||
        options.device->create(variant.threads, &p->cpu, &error)) {
        fail_msg("%s", error.text);
    }
    assert_true(p->graph->param_count <= PARAMS_MAX);
    for (int32_t s = 0; s < p->stages; s++) {
        if (variant.run && culm_stage_rows_new(p->stage[s], p->graph, variant.run, &p->rows[s],
                                               &error) != CULM_OK) {
            fail_msg("%s", error.text);
        }
        const struct culm_stage_info *info = culm_stage_info_of(p->stage[s]);
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

void pipeline_free(struct pipeline *p) {
    for (int32_t s = 0; s < p->stages; s++) {
        culm_stage_rows_free(p->rows[s]);
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
    culm_device_free(p->cpu);
    culm_graph_free(p->graph);
}

struct culm_stage_run run_of(struct pipeline *p, int32_t s, const struct samples *samples) {
    bool output = culm_stage_info_of(p->stage[s])->output_bytes > 0;
    return (struct culm_stage_run){
        .seed = 5,
        .iteration = 3,
        .first_sample = 11,
        .params = p->params[s],
        .rows = p->rows[s],
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

void pipeline_forward(struct pipeline *p, const struct samples *samples, const int *stop) {
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
            assert_int_equal(pauses, culm_stage_info_of(p->stage[s])->forward_ops - 1);
        }
        if (culm_stage_info_of(p->stage[s])->loss_count > 0) {
            p->loss += run.loss.loss / (double)family->options.batch;
            p->total = run.loss;
        }
    }
}

void pipeline_step(struct pipeline *p, const struct samples *samples, const int *stop) {
    pipeline_forward(p, samples, stop);
    for (int32_t s = p->stages - 1; s >= 0; s--) {
        struct culm_stage_run run = run_of(p, s, samples);
        assert_int_equal(culm_stage_backward(p->stage[s], p->cpu, &run), CULM_OK);
    }
}

float *gradient(struct pipeline *p, int32_t param) {
    float *sum = NULL;
    for (int32_t u = 0; u < p->graph->use_count; u++) {
        for (int32_t s = 0; s < p->stages; s++) {
            const struct culm_stage_info *info = culm_stage_info_of(p->stage[s]);
            for (int32_t g = 0; g < info->grad_count; g++) {
                const struct culm_grad_info *grad = &info->grads[g];
                if (grad->global_use != u || info->params[grad->param].global_index != param) {
                    continue;
                }
                float *use = memory((size_t)grad->count * sizeof(float));
                memcpy(use, p->grads[s] + grad->offset, (size_t)grad->count * sizeof(float));
                if (sum) {
                    CULM_RUN(p->cpu, add, .y = culm_out_f32(sum), .a = culm_in_f32(sum),
                             .b = culm_in_f32(use), .count = grad->count);
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
