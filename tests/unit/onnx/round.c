/*
 * There and back: models built here are exported and imported again, for inference and for
 * training, and compute the same: the same operators where it is said so, the same logits and
 * losses.
 */
#include "../folder.h"

#include "writer.h"

#include "base/file.h"
#include "device/device.h"
#include "graph/stage.h"
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *name;
    enum culm_arch arch;
    struct culm_model_options options;
    bool same_ops;
} families[] = {
    {"gpt2",
     CULM_ARCH_GPT2,
     {.layers = 2, .width = 32, .heads = 2, .context = 16, .vocab = 64, .batch = 2},
     false},
    {"bert",
     CULM_ARCH_BERT,
     {.layers = 2,
      .width = 24,
      .heads = 3,
      .context = 12,
      .positions = 16,
      .vocab = 50,
      .masked = 3,
      .batch = 4},
     false},
    {"resnet",
     CULM_ARCH_RESNET,
     {.blocks = {2, 1, 1}, .width = 4, .classes = 5, .image = 32, .batch = 4},
     true},
    {"vgg",
     CULM_ARCH_VGG,
     {.layers = 11,
      .width = 2,
      .hidden = 16,
      .pool = 1,
      .classes = 5,
      .image = 32,
      .batch_norm = true,
      .batch = 4},
     true},
    {"alexnet",
     CULM_ARCH_ALEXNET,
     {.width = 4, .hidden = 24, .pool = 1, .classes = 5, .image = 64, .batch = 4},
     true},
};

/* Numbers that a name and an index give. */
static enum culm_status weight_of(void *arg, const struct culm_param *param, float *ret_data,
                                  struct culm_error *error) {
    (void)arg;
    (void)error;
    uint32_t key = 7;
    for (const char *c = param->name; *c; c++) {
        key = key * 31 + (uint32_t)*c;
    }
    bool variance = strstr(param->name, "running_var") != NULL;
    for (int64_t i = 0; i < culm_elements(&param->shape); i++) {
        uint32_t mixed = ((uint32_t)i + key) * 2654435761u;
        ret_data[i] = (float)(mixed >> 16) / 65536 - 0.5f;
        ret_data[i] = variance ? ret_data[i] + 1 : ret_data[i] * 0.4f;
    }
    return CULM_OK;
}

struct result {
    float *output;
    int64_t count;
    double loss;
};

/* Runs a graph forward on samples made of the fields' names; weights from the file, if given. */
static struct result run(const struct culm_graph *graph, const struct culm_onnx_model *model) {
    const struct culm_stage_options how = {.forward_only = true};
    struct culm_stage *stage = NULL;
    struct culm_device *cpu = NULL;
    struct culm_error error = {0};
    struct result result = {0};
    void *fields[8] = {0};
    if (culm_stages_compile(graph, 1, &how, &stage, &error) || culm_device_new(1, &cpu, &error)) {
        fail_msg("%s", error.text);
    }
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    size_t bytes = (size_t)info->param_floats * sizeof(float);
    float *params = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    void *activations = aligned_alloc(64, (info->activation_bytes + 127) & ~(size_t)63);
    void *scratch = aligned_alloc(64, (info->scratch_bytes + 127) & ~(size_t)63);
    void *output = aligned_alloc(64, (info->output_bytes + 127) & ~(size_t)63);
    for (int32_t i = 0; i < info->param_count; i++) {
        const struct culm_param_info *p = &info->params[i];
        struct culm_param param = {.shape = culm_shape_of(p->rank, p->shape)};
        snprintf(param.name, sizeof param.name, "%s", p->name);
        float *to = params + p->offset;
        enum culm_status status =
            model ? culm_onnx_weights_read(model, p->name, p->rank, p->shape, to, &error)
                  : weight_of(NULL, &param, to, &error);
        if (status != CULM_OK) {
            fail_msg("%s", error.text);
        }
    }
    for (int32_t f = 0; f < graph->field_count; f++) {
        const struct culm_field *field = &graph->field[f];
        int64_t count = culm_elements(&field->shape), period = strlen(field->name) % 3 + 3;
        int32_t *ids = aligned_alloc(64, ((size_t)count * 4 + 127) & ~(size_t)63);
        for (int64_t i = 0; i < count; i++) {
            float number = (float)((i * 37) % 101) / 50 - 1;
            ids[i] = strcmp(field->name, "mask") == 0    ? i % 12 < 9
                     : strcmp(field->name, "types") == 0 ? i % 12 > 5
                     : strcmp(field->name, "nsp") == 0   ? (int32_t)(i % 2)
                                                         : (int32_t)(i % period);
            if (field->dtype == CULM_F32) {
                memcpy(&ids[i], &number, 4);
            }
        }
        fields[f] = ids;
    }
    struct culm_stage_run how_to_run = {.params = params,
                                        .fields = (const void *const *)fields,
                                        .output = info->output_bytes ? output : NULL,
                                        .loss_scale = 1,
                                        .activations = activations,
                                        .scratch = scratch};
    assert_int_equal(culm_stage_forward(stage, cpu, &how_to_run), CULM_OK);
    result.loss = how_to_run.loss.loss;
    if (graph->output_count > 0) {
        result.count = culm_elements(&graph->value[graph->output[0].value].shape);
        result.output = malloc((size_t)result.count * sizeof(float));
        memcpy(result.output, output, (size_t)result.count * sizeof(float));
    }
    for (int f = 0; f < 8; f++) {
        free(fields[f]);
    }
    free(params);
    free(activations);
    free(scratch);
    free(output);
    culm_stage_free(stage);
    culm_device_free(cpu);
    return result;
}

static void round_trip(size_t family, bool inference) {
    struct culm_model_options options = families[family].options;
    struct culm_graph *graph = NULL, *again = NULL;
    struct culm_onnx_model *model = NULL;
    struct culm_error error = {0};
    char path[CULM_PATH_MAX], ops[4096];
    options.inference = inference;
    snprintf(path, sizeof path, "%s/%s.onnx", folder, families[family].name);
    const struct culm_onnx_options how = {.batch = options.batch,
                                          .masked = options.masked,
                                          .inference = inference,
                                          .every_row = true};
    if (culm_model_build(families[family].arch, &options, &graph, &error) ||
        culm_onnx_export(graph, weight_of, NULL, NULL, path, &error) ||
        culm_onnx_import(path, &how, &model, &again, &error)) {
        fail_msg("%s: %s", families[family].name, error.text);
    }
    snprintf(ops, sizeof ops, "%s", ops_of(graph));
    if (families[family].same_ops) {
        assert_string_equal(ops_of(again), ops);
    }
    struct result a = run(graph, NULL), b = run(again, model);
    assert_int_equal(a.count, b.count);
    for (int64_t i = 0; i < a.count; i++) {
        if (!(fabsf(a.output[i] - b.output[i]) < 1e-5f * (1 + fabsf(a.output[i])))) {
            fail_msg("%s: logit %lld is %g, not %g", families[family].name, (long long)i,
                     (double)b.output[i], (double)a.output[i]);
        }
    }
    if (!inference && !(fabs(a.loss - b.loss) < 1e-5 * (1 + fabs(a.loss)))) {
        fail_msg("%s: loss %.8f, not %.8f", families[family].name, b.loss, a.loss);
    }
    free(a.output);
    free(b.output);
    culm_graph_free(graph);
    culm_graph_free(again);
    culm_onnx_model_free(model);
}

static void test_inference(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        round_trip(f, true);
    }
}

/* Of BERT both losses. */
static void test_training(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        round_trip(f, false);
    }
}

static void test_refused(void **state) {
    (void)state;
    struct culm_graph *graph = NULL;
    struct culm_error error = {0};
    const struct culm_model_options gnmt = {.layers = 3,
                                            .width = 10,
                                            .context = 6,
                                            .source = 7,
                                            .vocab = 30,
                                            .share_embedding = true,
                                            .inference = true,
                                            .batch = 3};
    char path[CULM_PATH_MAX];
    snprintf(path, sizeof path, "%s/gnmt.onnx", folder);
    assert_int_equal(culm_model_build(CULM_ARCH_GNMT, &gnmt, &graph, &error), CULM_OK);
    assert_int_equal(culm_onnx_export(graph, weight_of, NULL, NULL, path, &error),
                     CULM_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "operator 'lstm'"));
    assert_non_null(strstr(error.text, "culm does not export it"));
    assert_false(culm_file_is_regular(path));
    culm_graph_free(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("onnx/round", tests, make_folder, drop_folder);
}
