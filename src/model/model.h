/*
 * Named architectures, built as graphs.
 *
 * A graph is of one micro-batch: all shapes are static. Parameters carry the names under which
 * others keep them (Hugging Face for GPT-2 and BERT, torchvision for images, NVIDIA's modules for
 * GNMT), their layouts, their initialisation and whether weight decay acts on them: it does on
 * matrices and filters, not on biases and norms.
 *
 * What a sample is made of (culm_graph_field), B samples:
 *     gpt2                  tokens targets i32[B,context]
 *     bert                  tokens types mask i32[B,context]; positions mlm_targets i32[B,masked];
 *                           nsp i32[B,1]
 *     resnet vgg alexnet    image f32[B,image,image,channels]; label i32[B,1]
 *     gnmt                  source i32[B,source], length i32[B,1]; tokens targets i32[B,context]
 * A negative target is padding and has no loss.
 *
 * Thread: the table is constant; a graph belongs to its builder.
 */
#ifndef CULM_MODEL_MODEL_H
#define CULM_MODEL_MODEL_H

#include "graph/graph.h"
#include "graph/stage.h"

enum culm_arch {
    CULM_ARCH_GPT2,
    CULM_ARCH_BERT,
    CULM_ARCH_RESNET,
    CULM_ARCH_VGG,
    CULM_ARCH_ALEXNET,
    CULM_ARCH_GNMT,
    CULM_ARCH_ONNX, /* the graph in a file (onnx/onnx.h): nothing is built here */
    CULM_ARCH_COUNT
};
extern const char *const culm_arch_names[]; /* "gpt2", "bert", ..., NULL */

/* What a residual block adds where its size changes: a convolution, or every other pixel with half of
 * the new channels, zeros, on either side (He et al. 2015, option A). */
enum culm_shortcut { CULM_SHORTCUT_CONV, CULM_SHORTCUT_PAD };
extern const char *const culm_shortcut_names[]; /* "conv", "pad", NULL */

/* What a family does not name it does not read; 0 stands for the default in brackets. */
struct culm_model_options {
    int64_t layers; /* gpt2, bert: blocks; resnet: 18, 34, 50, 101, 152 (or see `blocks`); vgg: 11,
                     * 13, 16, 19; gnmt: LSTM layers of the encoder, and as many of the decoder */
    int64_t width; /* gpt2, bert: of the residual stream; gnmt: of every LSTM; resnet, vgg, alexnet:
                    * channels after the first convolution [64], the others in proportion */
    int64_t heads, context, vocab; /* context: tokens in a sample; gnmt: in a target sentence */
    double dropout;
    int64_t batch;  /* samples in a micro-batch */
    bool inference; /* no loss: the last stage's output is the logits */
    bool evaluate;  /* the loss as users measure it: no dropout, running statistics */
    const struct culm_device_ops *device; /* what it will run on; NULL: culm_device_default() */

    int64_t hidden;    /* gpt2, bert: features inside the MLP [4 width]; vgg, alexnet: of the two
                        * hidden classifier layers [64 width] */
    int64_t positions; /* gpt2, bert: rows of the position table [context] */
    int64_t types;     /* bert: segments [2] */
    int64_t masked;    /* bert: predicted positions in a sample [context * 0.15, rounded up] */

    int64_t image, channels, classes; /* image: height and width; channels [3]; classes [1000] */
    int64_t blocks[4]; /* resnet: residual blocks of each stage, instead of `layers`; a 0 ends
                        * them */
    bool bottleneck;   /* resnet with `blocks`: 1x1, 3x3, 1x1 instead of 3x3, 3x3 */
    bool small_stem;   /* resnet: 3x3 of stride 1 and no pooling first, for images of 28 or 32 */
    enum culm_shortcut shortcut; /* resnet */
    bool batch_norm;             /* vgg */
    int64_t pool; /* vgg, alexnet: height and width that the classifier sees [7, 6] */

    int64_t source;         /* gnmt: tokens in a source sentence [context] */
    double label_smoothing; /* all but bert: 0 is none */
    bool share_embedding;   /* gnmt: one table for source and target */
};

/* CULM_ERR_CONFIG for options that make no model, and for CULM_ARCH_ONNX. Free with
 * culm_graph_free. */
enum culm_status culm_model_build(enum culm_arch arch, const struct culm_model_options *options,
                                  struct culm_graph **ret_graph, struct culm_error *error);

/* A model with a name of its own, "gpt2" (124M), "bert-large", "resnet50", "vgg16_bn", ...: the
 * published size. Its options lack batch and inference. */
struct culm_model_preset {
    const char *name;
    enum culm_arch arch;
    struct culm_model_options options;
};
const struct culm_model_preset *culm_model_preset_at(size_t index);       /* NULL: past the last */
const struct culm_model_preset *culm_model_preset_find(const char *name); /* NULL: none */

/* Elements of all trained parameters, a tied one counted once; statistics are not counted. */
int64_t culm_model_parameters(const struct culm_graph *graph);

/* Fills data[info->count]: a pure function of seed and name, the same in every stage. */
void culm_model_init_param(const struct culm_param_info *info, uint64_t seed, float *data);

/* The families; the head of each file says what it follows. For culm_model_build. */
enum culm_status culm_model_gpt2(const struct culm_model_options *options,
                                 struct culm_graph *graph);
enum culm_status culm_model_bert(const struct culm_model_options *options,
                                 struct culm_graph *graph);
enum culm_status culm_model_resnet(const struct culm_model_options *options,
                                   struct culm_graph *graph);
enum culm_status culm_model_vgg(const struct culm_model_options *options, struct culm_graph *graph);
enum culm_status culm_model_alexnet(const struct culm_model_options *options,
                                    struct culm_graph *graph);
enum culm_status culm_model_gnmt(const struct culm_model_options *options,
                                 struct culm_graph *graph);

#endif
