/* Layers. See layers.h. */
#include "model/layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BATCHNORM_EPS 1e-5
#define BATCHNORM_MOMENTUM 0.1

struct culm_start culm_start_torch(int64_t fan_in) {
    return (struct culm_start){CULM_INIT_UNIFORM, 1 / sqrt((double)fan_in)};
}

struct culm_shape culm_layer_shape(const struct culm_graph *graph, int32_t value) {
    if (value < 0 || graph->error.status != CULM_OK) {
        return (struct culm_shape){4, {1, 1, 1, 1}};
    }
    return graph->value[value].shape;
}

int32_t culm_layer_param(struct culm_graph *graph, const char *layer, const char *what,
                         struct culm_start start, struct culm_shape shape) {
    char full[96];
    snprintf(full, sizeof full, "%s.%s", layer, what);
    return culm_graph_param(graph, full, &shape, start.kind, start.size, shape.rank > 1);
}

int32_t culm_layer_apply(struct culm_graph *graph, const char *op, const int32_t *inputs,
                         int32_t count, const struct culm_attributes *attributes) {
    int32_t all[CULM_NODE_INPUTS_MAX];
    const struct culm_op *found = culm_op_find(op);
    for (int32_t i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
        all[i] = i < count ? inputs[i] : -1;
    }
    return culm_graph_apply(graph, op, all, found && found->inputs > count ? found->inputs : count,
                            attributes);
}

int32_t culm_layer_linear(struct culm_graph *graph, const char *name, int32_t x, int64_t out,
                          struct culm_start weight, const struct culm_start *bias) {
    struct culm_shape in = culm_layer_shape(graph, x);
    const struct culm_shape matrix = {2, {out, culm_last_dim(&in)}}, vector = {1, {out}};
    const int32_t inputs[] = {x, culm_layer_param(graph, name, "weight", weight, matrix),
                              bias ? culm_layer_param(graph, name, "bias", *bias, vector) : -1};
    const struct culm_attributes attributes = {.transposed = true};
    return culm_layer_apply(graph, "linear", inputs, 3, &attributes);
}

int32_t culm_layer_conv(struct culm_graph *graph, const char *name, int32_t x, int64_t out,
                        int64_t kernel, int64_t stride, int64_t pad, struct culm_start weight,
                        const struct culm_start *bias) {
    struct culm_shape in = culm_layer_shape(graph, x);
    const struct culm_shape filter = {4, {out, culm_last_dim(&in), kernel, kernel}};
    const struct culm_shape vector = {1, {out}};
    const int32_t inputs[] = {x, culm_layer_param(graph, name, "weight", weight, filter),
                              bias ? culm_layer_param(graph, name, "bias", *bias, vector) : -1};
    const struct culm_attributes attributes = {.kernel = {kernel, kernel},
                                               .stride = {stride, stride},
                                               .dilation = {1, 1},
                                               .pad = {pad, pad, pad, pad},
                                               .groups = 1};
    return culm_layer_apply(graph, "conv", inputs, 3, &attributes);
}

static int32_t statistic(struct culm_graph *graph, const char *layer, const char *what, int64_t c,
                         enum culm_init_kind init) {
    char full[96];
    snprintf(full, sizeof full, "%s.%s", layer, what);
    const struct culm_shape shape = {1, {c}};
    return culm_graph_statistic(graph, full, &shape, init);
}

int32_t culm_layer_batchnorm(struct culm_graph *graph, const char *name, int32_t x,
                             int32_t residual, enum culm_function function, bool inference) {
    struct culm_shape in = culm_layer_shape(graph, x);
    const struct culm_shape shape = {1, {culm_last_dim(&in)}};
    const int32_t inputs[] = {
        x,
        culm_layer_param(graph, name, "weight", CULM_START_ONES, shape),
        culm_layer_param(graph, name, "bias", CULM_START_ZEROS, shape),
        statistic(graph, name, "running_mean", shape.dim[0], CULM_INIT_ZEROS),
        statistic(graph, name, "running_var", shape.dim[0], CULM_INIT_ONES),
        residual,
    };
    const struct culm_attributes attributes = {.eps = BATCHNORM_EPS,
                                               .momentum = BATCHNORM_MOMENTUM,
                                               .function = function,
                                               .inference = inference};
    return culm_layer_apply(graph, "batchnorm", inputs, 6, &attributes);
}

int32_t culm_layer_maxpool(struct culm_graph *graph, int32_t x, int64_t kernel, int64_t stride,
                           int64_t pad) {
    const struct culm_attributes attributes = {.kernel = {kernel, kernel},
                                               .stride = {stride, stride},
                                               .dilation = {1, 1},
                                               .pad = {pad, pad, pad, pad}};
    return culm_layer_apply(graph, "maxpool", &x, 1, &attributes);
}

int32_t culm_layer_layernorm(struct culm_graph *graph, const char *name, int32_t x, double eps) {
    struct culm_shape in = culm_layer_shape(graph, x);
    const struct culm_shape shape = {1, {culm_last_dim(&in)}};
    const int32_t inputs[] = {x, culm_layer_param(graph, name, "weight", CULM_START_ONES, shape),
                              culm_layer_param(graph, name, "bias", CULM_START_ZEROS, shape)};
    const struct culm_attributes attributes = {.eps = eps};
    return culm_layer_apply(graph, "layernorm", inputs, 3, &attributes);
}

int32_t culm_layer_activation(struct culm_graph *graph, int32_t x, enum culm_function function) {
    const struct culm_attributes attributes = {.function = function};
    return culm_layer_apply(graph, "activation", &x, 1, &attributes);
}

int32_t culm_layer_dropout(struct culm_graph *graph, int32_t x, double dropout) {
    const struct culm_attributes attributes = {.dropout = dropout};
    return dropout > 0 ? culm_layer_apply(graph, "dropout", &x, 1, &attributes) : x;
}

int32_t culm_layer_reshape(struct culm_graph *graph, int32_t x, struct culm_shape shape) {
    struct culm_attributes attributes = {0};
    for (int i = 0; i < shape.rank; i++) {
        attributes.dims[i] = shape.dim[i];
    }
    return culm_layer_apply(graph, "reshape", &x, 1, &attributes);
}

int32_t culm_layer_pool(struct culm_graph *graph, int32_t x, int64_t pool) {
    struct culm_shape in = culm_layer_shape(graph, x);
    const struct culm_attributes attributes = {.dims = {pool, pool}};
    return in.dim[1] == pool && in.dim[2] == pool
               ? x
               : culm_layer_apply(graph, "adaptive_avgpool", &x, 1, &attributes);
}

/* The mean over one pixel is that pixel. */
int32_t culm_layer_every(struct culm_graph *graph, int32_t x, int64_t step_height,
                         int64_t step_width) {
    const struct culm_attributes attributes = {
        .kernel = {1, 1}, .stride = {step_height, step_width}, .dilation = {1, 1}};
    return step_height == 1 && step_width == 1
               ? x
               : culm_layer_apply(graph, "avgpool", &x, 1, &attributes);
}

/* As an image of pixels x channels, whose border pad knows; that costs no copy. */
int32_t culm_layer_widen(struct culm_graph *graph, int32_t x, int64_t before, int64_t behind,
                         double value) {
    struct culm_shape in = culm_layer_shape(graph, x);
    const int64_t *d = in.dim;
    const struct culm_attributes around = {.pad = {0, before, 0, behind}, .value = value};
    const struct culm_shape flat = {4, {d[0], d[1] * d[2], d[3], 1}};
    const struct culm_shape wide = {4, {d[0], d[1], d[2], d[3] + before + behind}};
    x = culm_layer_reshape(graph, x, flat);
    x = culm_layer_apply(graph, "pad", &x, 1, &around);
    return culm_layer_reshape(graph, x, wide);
}

int32_t culm_layer_flatten(struct culm_graph *graph, int32_t x) {
    struct culm_shape in = culm_layer_shape(graph, x);
    if (in.rank == 4 && in.dim[1] * in.dim[2] > 1) {
        const struct culm_attributes attributes = {.dims = {0, 3, 1, 2}};
        x = culm_layer_apply(graph, "permute", &x, 1, &attributes);
    }
    return culm_layer_reshape(graph, x,
                              (struct culm_shape){2, {in.dim[0], culm_elements(&in) / in.dim[0]}});
}

/* x - log(sum(exp(x))), with the largest subtracted first. */
static int32_t log_softmax(struct culm_graph *graph, int32_t x) {
    const struct culm_shape shape = culm_layer_shape(graph, x);
    struct culm_attributes reduce = {.function = CULM_FUNCTION_MAX,
                                     .axes = (int64_t)1 << (shape.rank - 1)};
    const struct culm_attributes minus = {.function = CULM_FUNCTION_SUB};
    const int32_t from_largest[] = {x, culm_layer_apply(graph, "reduce", &x, 1, &reduce)};
    x = culm_layer_apply(graph, "binary", from_largest, 2, &minus);
    reduce.function = CULM_FUNCTION_SUM;
    int32_t sum = culm_layer_activation(graph, x, CULM_FUNCTION_EXP);
    sum = culm_layer_apply(graph, "reduce", &sum, 1, &reduce);
    const int32_t from_sum[] = {x, culm_layer_activation(graph, sum, CULM_FUNCTION_LOG)};
    return culm_layer_apply(graph, "binary", from_sum, 2, &minus);
}

void culm_layer_ends(struct culm_graph *graph) {
    for (int32_t i = 0; i < graph->output_count; i++) {
        const struct culm_output was = graph->output[i];
        int32_t y = was.value;
        if (was.end == CULM_FUNCTION_NONE) {
            continue;
        }
        y = was.end == CULM_FUNCTION_SOFTMAX       ? culm_layer_apply(graph, "softmax", &y, 1, NULL)
            : was.end == CULM_FUNCTION_LOG_SOFTMAX ? log_softmax(graph, y)
                                                   : culm_layer_activation(graph, y, was.end);
        if (y < 0) {
            return; /* the graph has the error */
        }
        struct culm_output *output = &graph->output[i];
        *output = (struct culm_output){.value = y};
        snprintf(output->name, sizeof output->name, "%s%.6s", culm_end_output(was.end),
                 strncmp(was.name, "logits", 6) == 0 ? was.name + 6 : "");
    }
}

void culm_layer_loss(struct culm_graph *graph, const struct culm_model_options *options,
                     int32_t logits, int32_t targets) {
    if (options->inference) {
        culm_graph_output(graph, "logits", logits);
        return;
    }
    const int32_t inputs[] = {logits, targets};
    const struct culm_attributes attributes = {.smoothing =
                                                   options->evaluate ? 0 : options->label_smoothing,
                                               .loss_only = options->evaluate};
    culm_layer_apply(graph, "cross_entropy", inputs, 2, &attributes);
}

int32_t culm_layer_image(struct culm_graph *graph, const struct culm_model_options *options) {
    int64_t channels = options->channels ? options->channels : 3;
    const struct culm_shape shape = {4, {options->batch, options->image, options->image, channels}};
    return culm_graph_field(graph, "image", CULM_F32, &shape);
}

void culm_layer_classify(struct culm_graph *graph, const struct culm_model_options *options,
                         int32_t logits) {
    const struct culm_shape shape = {2, {options->batch, 1}};
    int32_t label = options->inference ? -1 : culm_graph_field(graph, "label", CULM_I32, &shape);
    culm_layer_loss(graph, options, logits, label);
}

enum culm_status culm_layer_image_sizes(struct culm_graph *graph,
                                        const struct culm_model_options *o, int64_t factor,
                                        int64_t pool, struct culm_image_sizes *ret_sizes) {
    const int64_t most = graph->device->limits.width;
    struct culm_image_sizes sizes = {.width = o->width ? o->width : 64,
                                     .classes = o->classes ? o->classes : 1000,
                                     .pool = o->pool ? o->pool : pool};
    bool possible = o->batch >= 1 && o->image >= 1 && o->image <= CULM_LAYER_IMAGE_MAX &&
                    o->channels >= 0 && o->channels <= most && sizes.width >= 1 &&
                    sizes.width <= most && sizes.pool >= 1 && sizes.pool <= CULM_LAYER_IMAGE_MAX &&
                    sizes.classes >= 2 && sizes.classes <= most;
    sizes.hidden = o->hidden || !possible ? o->hidden : 64 * sizes.width;
    if (possible && factor * sizes.width * sizes.pool * sizes.pool <= most && sizes.hidden >= 1 &&
        sizes.hidden <= most) {
        *ret_sizes = sizes;
        return CULM_OK;
    }
    return culm_error_set(&graph->error, CULM_ERR_CONFIG,
                          "image %lld, width %lld, pool %lld, hidden %lld, %lld classes are not "
                          "possible; image up to %d, width * pool * pool up to %lld, 2 classes or "
                          "more",
                          (long long)o->image, (long long)sizes.width, (long long)sizes.pool,
                          (long long)sizes.hidden, (long long)sizes.classes, CULM_LAYER_IMAGE_MAX,
                          (long long)(most / factor));
}

enum culm_status culm_layer_check_text(struct culm_graph *graph, const struct culm_model_options *o,
                                       int64_t hidden) {
    const struct culm_device_limits *most = &graph->device->limits;
    if (o->width >= 1 && o->heads >= 1 && o->layers >= 1 && o->context >= 1 && o->vocab >= 2 &&
        o->batch >= 1 && o->width % o->heads == 0 && o->width / o->heads <= most->head &&
        (o->positions == 0 || (o->positions >= o->context && o->positions <= 1 << 24)) &&
        hidden >= 1 && hidden <= most->width && 3 * o->width <= most->width &&
        o->context <= most->context && o->batch <= most->rows / o->context) {
        return CULM_OK;
    }
    return culm_error_set(&graph->error, CULM_ERR_CONFIG,
                          "%lld layers, width %lld, %lld heads, context %lld, positions %lld, "
                          "batch %lld are not possible; heads of up to %lld, width up to %lld, "
                          "context up to %lld and the positions, batch * context up to %lld",
                          (long long)o->layers, (long long)o->width, (long long)o->heads,
                          (long long)o->context, (long long)o->positions, (long long)o->batch,
                          (long long)most->head, (long long)(most->width / 4),
                          (long long)most->context, (long long)most->rows);
}
