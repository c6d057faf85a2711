/* The table of architectures, and initialisation. */
#include "model/model.h"

#include "base/rng.h"

#include <string.h>

const char *const culm_arch_names[CULM_ARCH_COUNT + 1] = {
    [CULM_ARCH_GPT2] = "gpt2", [CULM_ARCH_BERT] = "bert",       [CULM_ARCH_RESNET] = "resnet",
    [CULM_ARCH_VGG] = "vgg",   [CULM_ARCH_ALEXNET] = "alexnet", [CULM_ARCH_GNMT] = "gnmt",
    [CULM_ARCH_ONNX] = "onnx",
};

typedef enum culm_status (*builder)(const struct culm_model_options *options,
                                    struct culm_graph *graph);

static const builder builders[CULM_ARCH_COUNT] = {
    [CULM_ARCH_GPT2] = culm_model_gpt2,       [CULM_ARCH_BERT] = culm_model_bert,
    [CULM_ARCH_RESNET] = culm_model_resnet,   [CULM_ARCH_VGG] = culm_model_vgg,
    [CULM_ARCH_ALEXNET] = culm_model_alexnet, [CULM_ARCH_GNMT] = culm_model_gnmt,
};

enum culm_status culm_model_build(enum culm_arch arch, const struct culm_model_options *options,
                                  struct culm_graph **ret_graph, struct culm_error *error) {
    if (!builders[arch]) {
        return culm_error_set(error, CULM_ERR_CONFIG, "model.arch: '%s' is read from a file",
                              culm_arch_names[arch]);
    }
    struct culm_graph *graph =
        culm_graph_new(options->device ? options->device : culm_device_default());
    if (!graph) {
        return culm_error_set(error, CULM_ERR_MEMORY, "model '%s': out of memory",
                              culm_arch_names[arch]);
    }
    enum culm_status status = builders[arch](options, graph);
    if (status != CULM_OK) {
        culm_graph_check(graph, error);
        culm_error_prefix(error, "model '%s'", culm_arch_names[arch]);
        culm_graph_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}

#define GPT2(name_, layers_, width_, heads_)                                                       \
    {                                                                                              \
        name_, CULM_ARCH_GPT2, {                                                                   \
            .layers = layers_, .width = width_, .heads = heads_, .context = 1024,                  \
            .positions = 1024, .vocab = 50257, .dropout = 0.1                                      \
        }                                                                                          \
    }
#define BERT(name_, layers_, width_, heads_)                                                       \
    {                                                                                              \
        name_, CULM_ARCH_BERT, {                                                                   \
            .layers = layers_, .width = width_, .heads = heads_, .context = 512, .positions = 512, \
            .vocab = 30522, .dropout = 0.1                                                         \
        }                                                                                          \
    }
#define RESNET(name_, layers_)                                                                     \
    {                                                                                              \
        name_, CULM_ARCH_RESNET, {                                                                 \
            .layers = layers_, .width = 64, .image = 224, .channels = 3, .classes = 1000           \
        }                                                                                          \
    }
#define VGG(name_, layers_, batch_norm_)                                                           \
    {                                                                                              \
        name_, CULM_ARCH_VGG, {                                                                    \
            .layers = layers_, .width = 64, .image = 224, .channels = 3, .classes = 1000,          \
            .dropout = 0.5, .batch_norm = batch_norm_                                              \
        }                                                                                          \
    }
#define GNMT(name_, vocab_, share_)                                                                \
    {                                                                                              \
        name_, CULM_ARCH_GNMT, {                                                                   \
            .layers = 8, .width = 1024, .context = 50, .source = 50, .vocab = vocab_,              \
            .dropout = 0.2, .label_smoothing = 0.1, .share_embedding = share_                      \
        }                                                                                          \
    }

static const struct culm_model_preset presets[] = {
    GPT2("gpt2", 12, 768, 12),
    GPT2("gpt2-medium", 24, 1024, 16),
    GPT2("gpt2-large", 36, 1280, 20),
    GPT2("gpt2-xl", 48, 1600, 25),
    BERT("bert-base", 12, 768, 12),
    BERT("bert-large", 24, 1024, 16),
    RESNET("resnet18", 18),
    RESNET("resnet34", 34),
    RESNET("resnet50", 50),
    RESNET("resnet101", 101),
    RESNET("resnet152", 152),
    VGG("vgg11", 11, false),
    VGG("vgg13", 13, false),
    VGG("vgg16", 16, false),
    VGG("vgg19", 19, false),
    VGG("vgg11_bn", 11, true),
    VGG("vgg13_bn", 13, true),
    VGG("vgg16_bn", 16, true),
    VGG("vgg19_bn", 19, true),
    {"alexnet",
     CULM_ARCH_ALEXNET,
     {.width = 64, .image = 224, .channels = 3, .classes = 1000, .dropout = 0.5}},
    GNMT("gnmt", 32317, true),
    GNMT("gnmt-16", 32320, false),
};

const struct culm_model_preset *culm_model_preset_at(size_t index) {
    return index < sizeof presets / sizeof *presets ? &presets[index] : NULL;
}

const struct culm_model_preset *culm_model_preset_find(const char *name) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            return &presets[i];
        }
    }
    return NULL;
}

int64_t culm_model_parameters(const struct culm_graph *graph) {
    int64_t count = 0;
    for (int32_t i = 0; i < graph->param_count; i++) {
        count += graph->param[i].statistic ? 0 : culm_elements(&graph->param[i].shape);
    }
    return count;
}

static uint64_t key_of(const char *name, uint64_t seed) {
    uint64_t key = culm_rng_mix(seed, 0x1217);
    for (const char *c = name; *c; c++) {
        key = culm_rng_mix(key, (uint64_t)(unsigned char)*c);
    }
    return key;
}

void culm_model_init_param(const struct culm_param_info *info, uint64_t seed, float *data) {
    if (info->init != CULM_INIT_NORMAL && info->init != CULM_INIT_UNIFORM) {
        double value = info->init == CULM_INIT_CONSTANT ? info->std : info->init == CULM_INIT_ONES;
        for (int64_t i = 0; i < info->count; i++) {
            data[i] = (float)value;
        }
        return;
    }
    uint64_t key = key_of(info->name, seed);
    for (int64_t i = 0; i < info->count; i += 4) {
        struct culm_rng_block block = culm_rng(key, 0, (uint64_t)(i / 4));
        float four[4];
        for (int j = 0; j < 4 && info->init == CULM_INIT_UNIFORM; j++) {
            four[j] = (float)(info->std * (2 * ((double)block.word[j] + 0.5) * 0x1p-32 - 1));
        }
        if (info->init == CULM_INIT_UNIFORM) {
            memcpy(data + i, four,
                   (size_t)(info->count - i < 4 ? info->count - i : 4) * sizeof *four);
            continue;
        }
        culm_rng_normal(block.word[0], block.word[1], info->std, four);
        culm_rng_normal(block.word[2], block.word[3], info->std, four + 2);
        int64_t left = info->count - i;
        memcpy(data + i, four, (size_t)(left < 4 ? left : 4) * sizeof *four);
    }
}
