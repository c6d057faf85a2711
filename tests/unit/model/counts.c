/*
 * Published sizes: every preset has the parameter count of its reference implementation to the unit
 * (torchvision, transformers), can be cut as its file says, and exists at an eighth of its width.
 */
#include "model/config.h"
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *name;
    int64_t parameters;
    int32_t blocks;
} presets[] = {
    {"gpt2", 124439808, 12},
    {"gpt2-medium", 354823168, 24},
    {"gpt2-large", 774030080, 36},
    {"gpt2-xl", 1557611200, 48},
    {"bert-base", 110106428, 12},
    {"bert-large", 336226108, 24}, /* 335,141,888 without the heads */
    {"resnet18", 11689512, 9},
    {"resnet34", 21797672, 17},
    {"resnet50", 25557032, 17},
    {"resnet101", 44549160, 34},
    {"resnet152", 60192808, 51},
    {"vgg11", 132863336, 11},
    {"vgg13", 133047848, 13},
    {"vgg16", 138357544, 16},
    {"vgg19", 143667240, 19},
    {"vgg11_bn", 132868840, 11},
    {"vgg13_bn", 133053736, 13},
    {"vgg16_bn", 138365992, 16},
    {"vgg19_bn", 143678248, 19},
    {"alexnet", 61100840, 8},
    {"gnmt", 244616766, 17},
    {"gnmt-16", 277718593, 17},
};

static struct culm_graph *build(const struct culm_model_preset *preset,
                                const struct culm_model_options *options) {
    struct culm_graph *graph = NULL;
    struct culm_error error;
    if (culm_model_build(preset->arch, options, &graph, &error) != CULM_OK) {
        fail_msg("%s: %s", preset->name, error.text);
    }
    return graph;
}

static void test_published_sizes(void **state) {
    (void)state;
    size_t count = sizeof presets / sizeof *presets;
    assert_null(culm_model_preset_at(count));
    for (size_t i = 0; i < count; i++) {
        const struct culm_model_preset *preset = culm_model_preset_find(presets[i].name);
        assert_non_null(preset);
        assert_ptr_equal(preset, culm_model_preset_at(i));
        struct culm_model_options options = preset->options;
        options.batch = 1;
        struct culm_graph *graph = build(preset, &options);
        if (culm_model_parameters(graph) != presets[i].parameters ||
            graph->blocks != presets[i].blocks) {
            fail_msg("%s: %lld parameters in %d blocks", preset->name,
                     (long long)culm_model_parameters(graph), graph->blocks);
        }
        culm_graph_free(graph);
    }
}

/* Names are keys of files: each once, none cut off. */
static void test_names(void **state) {
    (void)state;
    const struct culm_model_preset *preset;
    for (size_t i = 0; (preset = culm_model_preset_at(i)); i++) {
        struct culm_model_options options = preset->options;
        options.batch = 1;
        struct culm_graph *graph = build(preset, &options);
        for (int32_t a = 0; a < graph->param_count; a++) {
            assert_true(strlen(graph->param[a].name) + 1 < sizeof graph->param[a].name);
            assert_int_equal(graph->param[a].decay, graph->param[a].shape.rank > 1);
            for (int32_t b = 0; b < a; b++) {
                assert_string_not_equal(graph->param[a].name, graph->param[b].name);
            }
        }
        culm_graph_free(graph);
    }
}

static void test_an_eighth(void **state) {
    (void)state;
    const struct culm_model_preset *preset;
    for (size_t i = 0; (preset = culm_model_preset_at(i)); i++) {
        struct culm_model_options options = preset->options;
        options.batch = 1;
        options.width /= 8;
        options.heads = options.heads % 4 ? 1 : options.heads / 4;
        struct culm_graph *graph = build(preset, &options);
        assert_true(culm_model_parameters(graph) > 0);
        culm_graph_free(graph);
    }
}

/* Each ends with one line that names the model and what is possible. */
static void test_refused(void **state) {
    (void)state;
    static const struct {
        enum culm_arch arch;
        const char *says;
        struct culm_model_options options;
    } bad[] = {
        {CULM_ARCH_RESNET, "17 layers", {.layers = 17, .image = 224, .batch = 1}},
        {CULM_ARCH_RESNET, "blocks", {.blocks = {2, -1}, .image = 224, .batch = 1}},
        {CULM_ARCH_RESNET, "image", {.layers = 18, .batch = 1}},
        {CULM_ARCH_RESNET, "image", {.layers = 18, .image = 1 << 20, .batch = 1}},
        {CULM_ARCH_RESNET, "width", {.layers = 18, .image = 224, .batch = 1, .width = 1ll << 40}},
        {CULM_ARCH_RESNET, "width", {.layers = 18, .image = 224, .batch = 1, .width = -8}},
        {CULM_ARCH_VGG, "12 layers", {.layers = 12, .image = 224, .batch = 1}},
        {CULM_ARCH_VGG, "classes", {.layers = 11, .image = 224, .batch = 1, .classes = 1}},
        {CULM_ARCH_ALEXNET, "hidden", {.image = 224, .batch = 1, .hidden = -1}},
        {CULM_ARCH_ALEXNET, "operator", {.image = 20, .batch = 1}}, /* nothing is left to pool */
        /* batch * context is 2^64, which is 0 to those who multiply */
        {CULM_ARCH_GPT2,
         "not possible",
         {.layers = 1, .width = 8, .heads = 2, .context = 8, .vocab = 9, .batch = 1ll << 61}},
        {CULM_ARCH_GNMT,
         "not possible",
         {.layers = 2, .width = 8, .context = 8, .vocab = 9, .batch = 1ll << 61}},
        {CULM_ARCH_BERT,
         "heads",
         {.layers = 1, .width = 10, .heads = 3, .context = 8, .vocab = 9, .batch = 1}},
        {CULM_ARCH_BERT,
         "masked",
         {.layers = 1, .width = 9, .heads = 3, .context = 8, .vocab = 9, .batch = 1, .masked = 9}},
        {CULM_ARCH_BERT,
         "positions",
         {.layers = 1,
          .width = 9,
          .heads = 3,
          .context = 8,
          .vocab = 9,
          .batch = 1,
          .positions = 7}},
        {CULM_ARCH_GNMT,
         "1 layers",
         {.layers = 1, .width = 8, .context = 8, .vocab = 9, .batch = 1}},
        {CULM_ARCH_GNMT,
         "source",
         {.layers = 2, .width = 8, .context = 8, .source = -3, .vocab = 9, .batch = 1}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct culm_graph *graph = NULL;
        struct culm_error error = {0};
        char name[64];
        snprintf(name, sizeof name, "model '%s': ", culm_arch_names[bad[i].arch]);
        assert_int_equal(culm_model_build(bad[i].arch, &bad[i].options, &graph, &error),
                         CULM_ERR_CONFIG);
        assert_null(graph);
        if (!strstr(error.text, name) || !strstr(error.text, bad[i].says)) {
            fail_msg("case %zu: '%s' does not say '%s'", i, error.text, bad[i].says);
        }
    }
}

/* What a configuration may ask for, the device can. */
static void test_limits(void **state) {
    (void)state;
    const struct culm_device_limits *most = &culm_device_default()->limits;
    assert_true(4 * CULM_MODEL_MAX_WIDTH <= most->width);
    assert_true(CULM_MODEL_MAX_HEAD <= most->head);
    assert_true(CULM_MODEL_MAX_CONTEXT <= most->context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_sizes), cmocka_unit_test(test_names),
        cmocka_unit_test(test_an_eighth),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("model/counts", tests, NULL, NULL);
}
