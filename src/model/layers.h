/*
 * What the architectures share: named parameters, and layers made of one or two operators.
 *
 * `name` is a layer's full name; its parameters are name.weight, name.bias, as others call them.
 * Every function returns a value, -1 after an error, which the graph keeps.
 *
 * Thread: as the graph.
 */
#ifndef CULM_MODEL_LAYERS_H
#define CULM_MODEL_LAYERS_H

#include "model/model.h"

#define CULM_LAYER_IMAGE_MAX 4096

/* How a parameter starts. */
struct culm_start {
    enum culm_init_kind kind;
    double size; /* NORMAL: deviation; UNIFORM: in [-size, size) */
};
#define CULM_START_ZEROS ((struct culm_start){CULM_INIT_ZEROS, 0})
#define CULM_START_ONES ((struct culm_start){CULM_INIT_ONES, 0})
/* torch's default for a layer whose outputs see `fan_in` inputs, of weights and biases alike. */
struct culm_start culm_start_torch(int64_t fan_in);

/* `rank` dimensions follow. Weight decay acts on it when rank > 1. */
int32_t culm_layer_param(struct culm_graph *graph, const char *layer, const char *what,
                         struct culm_start start, struct culm_shape shape);
/* Applies an operator; inputs that it allows and that are not given are absent. */
int32_t culm_layer_apply(struct culm_graph *graph, const char *op, const int32_t *inputs,
                         int32_t count, const struct culm_attributes *attributes);

/* x[..,in] -> [..,out], weight [out,in] as torch keeps it. bias NULL: none. */
int32_t culm_layer_linear(struct culm_graph *graph, const char *name, int32_t x, int64_t out,
                          struct culm_start weight, const struct culm_start *bias);
/* x[N,H,W,C], square kernel, equal stride and padding on all sides. bias NULL: none. */
int32_t culm_layer_conv(struct culm_graph *graph, const char *name, int32_t x, int64_t out,
                        int64_t kernel, int64_t stride, int64_t pad, struct culm_start weight,
                        const struct culm_start *bias);
/* function(norm(x) [+ residual]); residual -1: none. eps 1e-5, momentum 0.1. */
int32_t culm_layer_batchnorm(struct culm_graph *graph, const char *name, int32_t x,
                             int32_t residual, enum culm_function function, bool inference);
int32_t culm_layer_maxpool(struct culm_graph *graph, int32_t x, int64_t kernel, int64_t stride,
                           int64_t pad);
int32_t culm_layer_layernorm(struct culm_graph *graph, const char *name, int32_t x, double eps);
int32_t culm_layer_activation(struct culm_graph *graph, int32_t x, enum culm_function function);
int32_t culm_layer_dropout(struct culm_graph *graph, int32_t x, double dropout); /* 0: x itself */
int32_t culm_layer_reshape(struct culm_graph *graph, int32_t x, struct culm_shape shape);

/* Adaptive average to pool x pool; x itself when it has that size. */
int32_t culm_layer_pool(struct culm_graph *graph, int32_t x, int64_t pool);
/* Every `step`th pixel, from the first on. */
int32_t culm_layer_every(struct culm_graph *graph, int32_t x, int64_t step_height,
                         int64_t step_width);
/* [N,H,W,C] with so many channels of `value` before and behind its own. */
int32_t culm_layer_widen(struct culm_graph *graph, int32_t x, int64_t before, int64_t behind,
                         double value);
/* [N,H,W,C] -> [N,features] in the order of torch's flatten of [N,C,H,W]. */
int32_t culm_layer_flatten(struct culm_graph *graph, int32_t x);
/* Applies what the outputs end in (struct culm_output), which then have the names of that. */
void culm_layer_ends(struct culm_graph *graph);
/* Cross-entropy; with `inference` the logits are the graph's output instead. */
void culm_layer_loss(struct culm_graph *graph, const struct culm_model_options *options,
                     int32_t logits, int32_t targets);

/* image[B,H,W,C], and the loss of logits[B,classes] against label[B,1]. */
int32_t culm_layer_image(struct culm_graph *graph, const struct culm_model_options *options);
void culm_layer_classify(struct culm_graph *graph, const struct culm_model_options *options,
                         int32_t logits);

/* The sizes of a model of images, defaults filled in; or refuses options that make none. The
 * classifier of VGG and AlexNet sees pool x pool x factor width features. */
struct culm_image_sizes {
    int64_t width, hidden, classes, pool;
};
enum culm_status culm_layer_image_sizes(struct culm_graph *graph,
                                        const struct culm_model_options *options, int64_t factor,
                                        int64_t pool, struct culm_image_sizes *ret_sizes);
/* Refuses options that make no transformer. */
enum culm_status culm_layer_check_text(struct culm_graph *graph,
                                       const struct culm_model_options *options, int64_t hidden);

/* [N,..,C] of a value; a shape of ones after an error. */
struct culm_shape culm_layer_shape(const struct culm_graph *graph, int32_t value);
static inline bool culm_layer_frozen(const struct culm_model_options *options) {
    return options->inference || options->evaluate;
}

#endif
