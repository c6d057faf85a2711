/* GPT-2's parameters: names, shapes, counts, weight decay, and what they start from; what the other
 * families start from. */
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct culm_model_options bytes6 = {.layers = 6,
                                                 .width = 256,
                                                 .heads = 8,
                                                 .context = 128,
                                                 .vocab = 256,
                                                 .dropout = 0.1,
                                                 .batch = 4};

static struct culm_graph *build(const struct culm_model_options *options) {
    struct culm_graph *graph = NULL;
    struct culm_error error;
    if (culm_model_build(CULM_ARCH_GPT2, options, &graph, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return graph;
}

static void test_counts(void **state) {
    (void)state;
    const struct culm_model_options small = {.layers = 12,
                                             .width = 768,
                                             .heads = 12,
                                             .context = 1024,
                                             .vocab = 50257,
                                             .dropout = 0.1,
                                             .batch = 1};
    struct culm_graph *graph = build(&small);
    assert_int_equal(culm_model_parameters(graph), 124439808); /* as published */
    assert_int_equal(graph->blocks, 12);
    culm_graph_free(graph);
    graph = build(&bytes6);
    assert_int_equal(culm_model_parameters(graph), 4837376);
    culm_graph_free(graph);
}

/* The names of Hugging Face's GPT2LMHeadModel and the shapes of its Conv1D: [in, out]. */
static void test_names_and_shapes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int rank;
        int64_t d0, d1;
    } want[] = {
        {"transformer.wte.weight", 2, 11, 8},
        {"transformer.wpe.weight", 2, 5, 8},
        {"transformer.h.0.ln_1.weight", 1, 8, 0},
        {"transformer.h.0.ln_1.bias", 1, 8, 0},
        {"transformer.h.0.attn.c_attn.weight", 2, 8, 24},
        {"transformer.h.0.attn.c_attn.bias", 1, 24, 0},
        {"transformer.h.0.attn.c_proj.weight", 2, 8, 8},
        {"transformer.h.0.attn.c_proj.bias", 1, 8, 0},
        {"transformer.h.0.ln_2.weight", 1, 8, 0},
        {"transformer.h.0.ln_2.bias", 1, 8, 0},
        {"transformer.h.0.mlp.c_fc.weight", 2, 8, 32},
        {"transformer.h.0.mlp.c_fc.bias", 1, 32, 0},
        {"transformer.h.0.mlp.c_proj.weight", 2, 32, 8},
        {"transformer.h.0.mlp.c_proj.bias", 1, 8, 0},
        {"transformer.ln_f.weight", 1, 8, 0},
        {"transformer.ln_f.bias", 1, 8, 0},
    };
    const struct culm_model_options options = {
        .layers = 1, .width = 8, .heads = 2, .context = 5, .vocab = 11, .batch = 3};
    struct culm_graph *graph = build(&options);
    assert_int_equal(graph->param_count, sizeof want / sizeof *want);
    for (int32_t i = 0; i < graph->param_count; i++) {
        const struct culm_param *param = &graph->param[i];
        assert_string_equal(param->name, want[i].name);
        assert_int_equal(param->shape.rank, want[i].rank);
        assert_int_equal(param->shape.dim[0], want[i].d0);
        assert_true(param->shape.rank == 1 || param->shape.dim[1] == want[i].d1);
        assert_int_equal(param->decay, param->shape.rank == 2);
    }
    assert_int_equal(graph->use_count, graph->param_count + 1); /* the tied table is used twice */
    culm_graph_free(graph);
}

/* --- starting values --- */

/* Mean, deviation and fourth moment of a parameter whose start is normal. */
static void check_normal(const char *name, const float *data, int64_t count, double std) {
    double sum = 0, squares = 0, fourth = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = (double)data[i] / std;
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        largest = fmax(largest, fabs(x));
    }
    double n = (double)count, root = sqrt(n);
    /* Five standard errors of each estimate; 15 is the variance of x^4 less 9, and so on. */
    if (fabs(sum / n) > 5 / root || fabs(squares / n - 1) > 5 * sqrt(2) / root ||
        fabs(fourth / n - 3) > 5 * sqrt(96) / root || largest > 7 || largest < 3) {
        fail_msg("'%s': mean %g, variance %g, fourth moment %g, largest %g", name, sum / n,
                 squares / n, fourth / n, largest);
    }
}

static void test_start(void **state) {
    (void)state;
    struct culm_graph *graph = build(&bytes6);
    struct culm_stage *stage;
    int normal = 0, residual = 0;
    assert_int_equal(culm_stages_compile(graph, 1, NULL, &stage, NULL), CULM_OK);
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    for (int32_t i = 0; i < info->param_count; i++) {
        const struct culm_param_info *param = &info->params[i];
        float *data = malloc((size_t)param->count * sizeof *data);
        culm_model_init_param(param, 42, data);
        if (param->rank == 1) {
            bool one = strstr(param->name, "ln_") && strstr(param->name, ".weight");
            for (int64_t k = 0; k < param->count; k++) {
                assert_true(data[k] == (one ? 1.0f : 0.0f));
            }
        } else {
            bool narrow = strstr(param->name, "c_proj");
            check_normal(param->name, data, param->count, narrow ? 0.02 / sqrt(12) : 0.02);
            residual += narrow;
            normal++;
        }
        free(data);
    }
    assert_int_equal(normal, 2 + 6 * 4);
    assert_int_equal(residual, 6 * 2);
    culm_stage_free(stage);
    culm_graph_free(graph);
}

static void first_values(const struct culm_param_info *info, uint64_t seed, float ret_data[64]) {
    struct culm_param_info few = *info;
    few.count = few.count < 64 ? few.count : 64;
    memset(ret_data, 0, 64 * sizeof *ret_data);
    culm_model_init_param(&few, seed, ret_data);
}

/* A pure function of seed and name: in whatever stage, beside whatever else, and nothing twice. */
static void test_start_depends_on_seed_and_name(void **state) {
    (void)state;
    struct culm_graph *graph = build(&bytes6);
    struct culm_stage *one, *stage[6];
    assert_int_equal(culm_stages_compile(graph, 1, NULL, &one, NULL), CULM_OK);
    assert_int_equal(culm_stages_compile(graph, 6, NULL, stage, NULL), CULM_OK);
    const struct culm_stage_info *whole = culm_stage_info_of(one);
    int32_t compared = 0;
    for (int32_t s = 0; s < 6; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(stage[s]);
        for (int32_t i = 0; i < info->param_count; i++) {
            float here[64], there[64];
            first_values(&info->params[i], 42, here);
            first_values(&whole->params[info->params[i].global_index], 42, there);
            assert_memory_equal(here, there, sizeof here);
            compared++;
        }
    }
    assert_int_equal(compared, whole->param_count + 1);
    for (int32_t i = 0; i < whole->param_count; i++) {
        if (whole->params[i].rank == 1) {
            continue;
        }
        float a[64], b[64];
        first_values(&whole->params[i], 42, a);
        first_values(&whole->params[i], 43, b);
        assert_memory_not_equal(a, b, sizeof a);
        for (int k = 0; k < 64; k++) {
            for (int l = 0; l < k; l++) {
                assert_true(a[k] != a[l]);
            }
        }
        for (int32_t j = 0; j < i; j++) {
            if (whole->params[j].rank == 2) {
                first_values(&whole->params[j], 42, b);
                assert_true(a[0] / whole->params[i].std != b[0] / whole->params[j].std);
            }
        }
    }
    for (int32_t s = 0; s < 6; s++) {
        culm_stage_free(stage[s]);
    }
    culm_stage_free(one);
    culm_graph_free(graph);
}

/* A count that is no multiple of a block of random numbers writes nothing behind it. */
static void test_start_of_odd_length(void **state) {
    (void)state;
    for (int64_t count = 1; count <= 9; count++) {
        float data[16], longer[16];
        const struct culm_param_info info = {
            .name = "odd", .rank = 1, .count = count, .init = CULM_INIT_NORMAL, .std = 1};
        struct culm_param_info more = info;
        more.count = 16;
        for (int i = 0; i < 16; i++) {
            data[i] = -77;
        }
        culm_model_init_param(&info, 1, data);
        culm_model_init_param(&more, 1, longer);
        for (int64_t i = 0; i < 16; i++) {
            assert_true(data[i] == (i < count ? longer[i] : -77));
        }
    }
}

/* As torchvision, transformers and NVIDIA's modules start them. The first that begins with `name`
 * is looked at. */
static void test_start_of_families(void **state) {
    (void)state;
    static const struct {
        const char *preset, *name;
        enum culm_init_kind init;
        double size;
        bool statistic;
    } want[] = {
        {"resnet18", "conv1.weight", CULM_INIT_NORMAL, 0.025253813613805267,
         false}, /* sqrt(2 / 3136) */
        {"resnet18", "bn1.weight", CULM_INIT_ONES, 0, false},
        {"resnet18", "bn1.bias", CULM_INIT_ZEROS, 0, false},
        {"resnet18", "bn1.running_mean", CULM_INIT_ZEROS, 0, true},
        {"resnet18", "bn1.running_var", CULM_INIT_ONES, 0, true},
        {"resnet18", "layer2.0.downsample.0.weight", CULM_INIT_NORMAL, 0.125, false},
        {"resnet18", "fc.weight", CULM_INIT_UNIFORM, 0.04419417382415922,
         false}, /* 1 / sqrt(512) */
        {"resnet18", "fc.bias", CULM_INIT_UNIFORM, 0.04419417382415922, false},
        {"vgg11", "features.0.weight", CULM_INIT_NORMAL, 0.058925565098878960, false},
        {"vgg11", "features.0.bias", CULM_INIT_ZEROS, 0, false},
        {"vgg11", "classifier.6.weight", CULM_INIT_NORMAL, 0.01, false},
        {"vgg11", "classifier.6.bias", CULM_INIT_ZEROS, 0, false},
        {"alexnet", "features.0.weight", CULM_INIT_UNIFORM, 0.052486388108147795, false}, /* 363 */
        {"alexnet", "features.0.bias", CULM_INIT_UNIFORM, 0.052486388108147795, false},
        {"alexnet", "classifier.4.weight", CULM_INIT_UNIFORM, 0.015625, false},
        {"bert-base", "bert.embeddings.word_embeddings.weight", CULM_INIT_NORMAL, 0.02, false},
        {"bert-base", "bert.pooler.dense.weight", CULM_INIT_NORMAL, 0.02, false},
        {"bert-base", "cls.predictions.bias", CULM_INIT_ZEROS, 0, false},
        {"gnmt", "encoder.embedder.weight", CULM_INIT_UNIFORM, 0.1, false},
        {"gnmt", "encoder.rnn_layers.0.weight_ih_l0_reverse", CULM_INIT_UNIFORM, 0.1, false},
        {"gnmt", "decoder.rnn_layers.6.bias_ih_l0", CULM_INIT_UNIFORM, 0.1, false},
        {"gnmt", "decoder.rnn_layers.6.bias_hh_l0", CULM_INIT_ZEROS, 0, false},
        {"gnmt", "decoder.att_rnn.attn.normalize_scalar", CULM_INIT_CONSTANT, 0.03125, false},
        {"gnmt", "decoder.classifier.classifier.bias", CULM_INIT_UNIFORM, 0.1, false},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct culm_model_preset *preset = culm_model_preset_find(want[i].preset);
        struct culm_model_options options = preset->options;
        struct culm_graph *graph;
        struct culm_error error;
        options.batch = 1;
        if (culm_model_build(preset->arch, &options, &graph, &error) != CULM_OK) {
            fail_msg("%s", error.text);
        }
        int found = 0;
        for (int32_t k = 0; k < graph->param_count; k++) {
            const struct culm_param *param = &graph->param[k];
            if (strcmp(param->name, want[i].name) != 0) {
                continue;
            }
            found++;
            if (param->init != want[i].init || !(fabs(param->std - want[i].size) < 1e-15) ||
                param->statistic != want[i].statistic) {
                fail_msg("%s of %s starts from kind %d, %.17g", param->name, preset->name,
                         param->init, param->std);
            }
        }
        assert_int_equal(found, 1);
        culm_graph_free(graph);
    }
}

/* The kinds themselves. */
static void test_uniform_and_constant(void **state) {
    (void)state;
    enum { COUNT = 40000 };
    float *data = malloc(COUNT * sizeof *data);
    struct culm_param_info info = {
        .name = "u", .rank = 1, .count = COUNT, .init = CULM_INIT_UNIFORM, .std = 0.5};
    culm_model_init_param(&info, 1, data);
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_true(data[i] >= -0.5f && data[i] <= 0.5f);
        sum += (double)data[i];
        squares += (double)data[i] * (double)data[i];
    }
    /* Five standard errors of a mean of variance 1/12, and of squares of variance 1/180. */
    assert_true(fabs(sum / COUNT) < 5 * sqrt(1.0 / 12 / COUNT));
    assert_true(fabs(squares / COUNT - 1.0 / 12) < 5 * sqrt(1.0 / 180 / COUNT));
    info.init = CULM_INIT_CONSTANT;
    info.count = 3;
    culm_model_init_param(&info, 1, data);
    assert_true(data[0] == 0.5f && data[1] == 0.5f && data[2] == 0.5f && data[3] != 0.5f);
    free(data);
}

/* --- what makes no model --- */

static void test_refused(void **state) {
    (void)state;
    struct culm_graph *graph = NULL;
    struct culm_error error = {0};
    assert_int_equal(culm_model_build(CULM_ARCH_ONNX, &bytes6, &graph, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "'onnx'"));
    struct culm_model_options odd = bytes6;
    odd.heads = 7;
    assert_int_equal(culm_model_build(CULM_ARCH_GPT2, &odd, &graph, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "model 'gpt2'"));
    assert_non_null(strstr(error.text, "heads"));
    assert_null(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_names_and_shapes),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_start_depends_on_seed_and_name),
        cmocka_unit_test(test_start_of_odd_length),
        cmocka_unit_test(test_start_of_families),
        cmocka_unit_test(test_uniform_and_constant),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("model/init", tests, NULL, NULL);
}
