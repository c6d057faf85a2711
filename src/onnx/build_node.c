/* ONNX's own operators that no pass has replaced: networks of images, arithmetic, reductions. See
 * build.h. */
#include "onnx/build.h"

#include "onnx/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of an attribute, `otherwise` for those not given. False: there are too many. */
static bool list(const struct culm_onnx_node *node, const char *name, int count, int64_t otherwise,
                 int64_t *ret) {
    const struct culm_onnx_attribute *a = culm_onnx_list(node, name);
    for (int i = 0; i < count; i++) {
        ret[i] = otherwise;
    }
    if (a) {
        if (a->count > count) {
            return false;
        }
        for (int32_t i = 0; i < a->count; i++) {
            ret[i] = a->ints[i];
        }
    }
    return true;
}

/* Kernel, stride, dilation and padding of a window over an image. */
static enum culm_status window(struct culm_onnx_build *b, const struct culm_onnx_node *node,
                               const int64_t *kernel, struct culm_attributes *a) {
    const char *automatic = culm_onnx_string(node, "auto_pad", "NOTSET");
    const struct culm_onnx_value *x = culm_onnx_value_of(b, node, 0);
    if (!x || x->rank != 4) {
        return culm_onnx_unsupported(b, node, "an input of %d dimensions; images have 4",
                                     x ? x->rank : 0);
    }
    if (!list(node, "kernel_shape", 2, 1, a->kernel) || !list(node, "strides", 2, 1, a->stride) ||
        !list(node, "dilations", 2, 1, a->dilation) || !list(node, "pads", 4, 0, a->pad)) {
        return culm_onnx_unsupported(b, node, "a window of more than two dimensions");
    }
    if (kernel) {
        memcpy(a->kernel, kernel, sizeof a->kernel);
    }
    if (strncmp(automatic, "SAME", 4) == 0) {
        for (int i = 0; i < 2; i++) {
            int64_t in = x->dim[2 + i], out = (in + a->stride[i] - 1) / a->stride[i];
            int64_t pad = (out - 1) * a->stride[i] + (a->kernel[i] - 1) * a->dilation[i] + 1 - in;
            pad = pad < 0 ? 0 : pad;
            a->pad[i] = strcmp(automatic, "SAME_LOWER") == 0 ? pad - pad / 2 : pad / 2;
            a->pad[2 + i] = pad - a->pad[i];
        }
    }
    return CULM_OK;
}

static enum culm_status conv(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const struct culm_onnx_value *w = culm_onnx_value_of(b, node, 1);
    struct culm_attributes attributes = {.groups = culm_onnx_int(node, "group", 1)};
    enum culm_status status = window(b, node, w->dim + 2, &attributes);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_shape filter = {4, {w->dim[0], w->dim[1], w->dim[2], w->dim[3]}};
    const struct culm_shape bias = {1, {w->dim[0]}};
    const int32_t inputs[] = {
        culm_onnx_image(b, node, 0), culm_onnx_weight(b, node, 1, &filter, false),
        culm_onnx_input(b->file, node, 2) < 0 ? -1 : culm_onnx_weight(b, node, 2, &bias, false)};
    return culm_onnx_put(b, node, true, "conv", inputs, 3, &attributes);
}

/* A Conv whose bias is a constant of zeros, as one exporter writes it, has none. */
static bool zero_bias(const struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const struct culm_onnx_value *v = culm_onnx_value_of(b, node, 2);
    for (int64_t i = 0; v && v->constant && v->data && i < v->data->elements; i++) {
        if (culm_onnx_get_real(v->data, i) != 0) {
            return false;
        }
    }
    return v && v->constant;
}

static enum culm_status conv_maybe_biased(struct culm_onnx_build *b,
                                          const struct culm_onnx_node *node) {
    struct culm_onnx_node bare = *node;
    bare.inputs = zero_bias(b, node) ? 2 : bare.inputs;
    return conv(b, &bare);
}

static enum culm_status pool(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    bool largest = culm_onnx_is(node, "MaxPool");
    struct culm_attributes attributes = {.groups = 1,
                                         .ceil_mode = culm_onnx_int(node, "ceil_mode", 0) != 0,
                                         .count_pad =
                                             culm_onnx_int(node, "count_include_pad", 0) != 0};
    enum culm_status status = window(b, node, NULL, &attributes);
    if (status != CULM_OK) {
        return status;
    }
    int32_t x = culm_onnx_image(b, node, 0);
    return culm_onnx_put(b, node, true, largest ? "maxpool" : "avgpool", &x, 1, &attributes);
}

static enum culm_status global_pool(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const struct culm_onnx_value *v = culm_onnx_value_of(b, node, 0);
    const struct culm_attributes to_one = {.dims = {1, 1}};
    if (!v || v->rank != 4) {
        return culm_onnx_unsupported(b, node, "an input that is not an image");
    }
    int32_t x = culm_onnx_image(b, node, 0);
    return v->dim[2] * v->dim[3] == 1
               ? culm_onnx_keep(b, node, true, x)
               : culm_onnx_put(b, node, true, "adaptive_avgpool", &x, 1, &to_one);
}

/* Sum, mean or maximum over some dimensions. */
static enum culm_status reduce(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const struct culm_onnx_value *x = culm_onnx_value_of(b, node, 0);
    const struct culm_onnx_value *list_value = culm_onnx_value_of(b, node, 1);
    const struct culm_onnx_attribute *a = culm_onnx_list(node, "axes");
    const struct culm_onnx_tensor *t = list_value ? list_value->data : NULL;
    int64_t count = t ? t->elements : a ? a->count : x->rank, axes = 0;
    bool image = false, mean = culm_onnx_is(node, "ReduceMean");
    if (x->rank > CULM_MAX_RANK || x->rank < 1) {
        return culm_onnx_unsupported(b, node, "an input of %d dimensions", x->rank);
    }
    for (int64_t i = 0; i < count; i++) { /* in range, since the shape was inferred */
        int64_t axis = t ? culm_onnx_get_int(t, i) : a ? a->ints[i] : i;
        axes |= (int64_t)1 << (axis < 0 ? axis + x->rank : axis);
    }
    if (axes & 1) {
        return culm_onnx_unsupported(b, node, "goes over the samples of a batch");
    }
    int32_t v = culm_onnx_either(b, node, 0, &image);
    bool spatial = x->rank == 4 && axes == (1 << 2 | 1 << 3);
    if (spatial && mean) {
        const struct culm_attributes to_one = {.dims = {1, 1}};
        v = culm_onnx_image(b, node, 0);
        image = true;
        v = x->dim[2] * x->dim[3] == 1
                ? v
                : culm_layer_apply(b->graph, "adaptive_avgpool", &v, 1, &to_one);
    } else {
        struct culm_attributes attributes = {.function = mean ? CULM_FUNCTION_MEAN
                                                         : culm_onnx_is(node, "ReduceSum")
                                                             ? CULM_FUNCTION_SUM
                                                             : CULM_FUNCTION_MAX};
        for (int i = 0; i < x->rank; i++) {
            attributes.axes |= (axes >> i & 1) << (image ? culm_onnx_image_axis(i) : i);
        }
        v = culm_layer_apply(b->graph, "reduce", &v, 1, &attributes);
    }
    if (b->file->value[node->output[0]].rank == x->rank) {
        return culm_onnx_keep(b, node, image, v);
    }
    struct culm_shape shape;
    if (image && (axes & (1 << 2 | 1 << 3)) != (1 << 2 | 1 << 3) && !(axes >> 1 & 1)) {
        v = culm_onnx_permute(b, v, 0, 3, 1, 2);
    }
    if (!culm_onnx_shape_here(b, node->output[0], &shape) || v < 0) {
        return culm_onnx_unsupported(b, node, "a result of that shape");
    }
    return culm_onnx_keep(b, node, false, culm_onnx_reshape_to(b, v, &shape));
}

static enum culm_status softmax(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    int rank = culm_onnx_value_of(b, node, 0)->rank;
    int64_t axis = culm_onnx_int(node, "axis", b->file->opset < 13 ? 1 : -1);
    bool channels = rank == 4 && axis == 1;
    if (!channels && axis != -1 && axis != rank - 1) {
        return culm_onnx_unsupported(b, node, "over a dimension that is not the last");
    }
    int32_t x = channels ? culm_onnx_image(b, node, 0) : culm_onnx_plain(b, node, 0);
    return culm_onnx_put(b, node, channels, "softmax", &x, 1, NULL);
}

static enum culm_status transpose(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    int perm[CULM_ONNX_RANK_MAX], rank = culm_onnx_value_of(b, node, 0)->rank;
    int32_t value = culm_onnx_input(b->file, node, 0);
    struct culm_attributes attributes = {0};
    culm_onnx_order(b->file, node, perm);
    if (rank > CULM_MAX_RANK || perm[0] != 0) {
        return culm_onnx_unsupported(b, node,
                                     rank > CULM_MAX_RANK ? "more than 4 dimensions"
                                                          : "samples are no longer the first "
                                                            "dimension; export with batch_first");
    }
    const struct culm_onnx_made *made = &b->made[value];
    bool to_last = rank == 4 && perm[1] == 2 && perm[2] == 3 && perm[3] == 1;
    bool to_first = rank == 4 && perm[1] == 3 && perm[2] == 1 && perm[3] == 2;
    if (to_last && made->image >= 0) {
        return culm_onnx_keep(b, node, false, made->image);
    }
    if (to_first && made->plain >= 0) {
        return culm_onnx_keep(b, node, true, made->plain);
    }
    for (int i = 0; i < rank; i++) {
        attributes.dims[i] = perm[i];
    }
    int32_t x = culm_onnx_plain(b, node, 0);
    return culm_onnx_put(b, node, false, "permute", &x, 1, &attributes);
}

/* Concatenates up to 8 at a time until one is left; overwrites `parts`. */
static int32_t join(struct culm_onnx_build *b, int32_t *parts, int32_t count,
                    const struct culm_attributes *attributes) {
    while (count > 1) {
        int32_t joined = 0;
        for (int32_t i = 0; i < count; i += 8) {
            int32_t n = count - i < 8 ? count - i : 8;
            parts[joined++] =
                n == 1 ? parts[i] : culm_layer_apply(b->graph, "concat", parts + i, n, attributes);
        }
        count = joined;
    }
    return parts[0];
}

static enum culm_status concat(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    int rank = b->file->value[node->output[0]].rank;
    int64_t axis = culm_onnx_int(node, "axis", 0);
    bool image = false;
    axis = axis < 0 ? axis + rank : axis;
    if (axis == 0) {
        return culm_onnx_unsupported(b, node, "joins samples of a batch");
    }
    int32_t *inputs = calloc((size_t)node->inputs + 1, sizeof *inputs);
    if (!inputs) {
        return culm_onnx_node_error(b->file, node, CULM_ERR_MEMORY, b->error, "out of memory");
    }
    for (int32_t i = 0; i < node->inputs; i++) {
        bool is_image = false;
        culm_onnx_either(b, node, i, &is_image);
        image |= is_image;
    }
    for (int32_t i = 0; i < node->inputs; i++) {
        inputs[i] = image ? culm_onnx_image(b, node, i) : culm_onnx_plain(b, node, i);
    }
    const struct culm_attributes attributes = {.axis = image ? culm_onnx_image_axis(axis) : axis};
    int32_t joined = b->status == CULM_OK ? join(b, inputs, node->inputs, &attributes) : -1;
    free(inputs);
    return culm_onnx_keep(b, node, image, joined);
}

/* A product of two activations. */
static enum culm_status matmul(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const int32_t inputs[] = {culm_onnx_plain(b, node, 0), culm_onnx_plain(b, node, 1)};
    const struct culm_attributes attributes = {.scale = 1};
    return culm_onnx_put(b, node, false, "matmul", inputs, 2, &attributes);
}

static enum culm_status affine(struct culm_onnx_build *b, const struct culm_onnx_node *node,
                               int32_t i, double scale, double shift) {
    const struct culm_attributes attributes = {.scale = scale, .shift = shift};
    bool image = false;
    int32_t x = culm_onnx_either(b, node, i, &image);
    return culm_onnx_put(b, node, image, "affine", &x, 1, &attributes);
}

/* number op x, or x op number */
static enum culm_status with_number(struct culm_onnx_build *b, const struct culm_onnx_node *node,
                                    int32_t i, double number) {
    if (culm_onnx_is(node, "Add")) {
        return affine(b, node, i, 1, number);
    }
    if (culm_onnx_is(node, "Mul")) {
        return affine(b, node, i, number, 0);
    }
    if (culm_onnx_is(node, "Sub")) {
        return i == 0 ? affine(b, node, i, 1, -number) : affine(b, node, i, -1, number);
    }
    if (i == 0) {
        return affine(b, node, i, 1 / number, 0);
    }
    const struct culm_attributes inverse = {.function = CULM_FUNCTION_RECIPROCAL};
    const struct culm_attributes times = {.scale = number};
    bool image = false;
    int32_t x = culm_onnx_either(b, node, i, &image);
    x = culm_layer_apply(b->graph, "activation", &x, 1, &inverse);
    return number == 1 ? culm_onnx_keep(b, node, image, x)
                       : culm_onnx_put(b, node, image, "affine", &x, 1, &times);
}

/* A weight as second operand: leading ones dropped; over channels in either form. */
static int32_t spread_weight(struct culm_onnx_build *b, const struct culm_onnx_node *node,
                             int32_t i, int rank, bool *ret_image) {
    const struct culm_onnx_value *v = culm_onnx_value_of(b, node, i);
    struct culm_shape shape = {0};
    int first = 0, wide = 0;
    while (first < v->rank && v->dim[first] == 1) {
        first++;
    }
    for (int k = first; k < v->rank; k++) {
        wide += v->dim[k] != 1;
    }
    bool of_channels = rank == 4 && wide == 1 && v->rank - first == 3;
    *ret_image = *ret_image && (of_channels || wide == 0);
    if (of_channels || wide == 0) { /* [C,1,1] is [C] of an image */
        *ret_image = *ret_image || of_channels;
        shape = (struct culm_shape){1, {wide ? v->dim[first] : 1}};
    } else if (v->rank - first <= CULM_MAX_RANK) {
        shape = culm_shape_of(v->rank - first, v->dim + first);
    }
    /* of a table of candidates, such numbers are places and sizes of a grid, which nobody trains */
    return culm_onnx_weight(b, node, i, &shape,
                            b->options->tables || culm_onnx_is_fixed(b, node, i));
}

/* a op b, with b broadcast to a; swaps them if it is the other way round. */
static enum culm_status binary(struct culm_onnx_build *b, const struct culm_onnx_node *node,
                               enum culm_function function) {
    double number;
    int32_t y = node->output[0];
    int rank = b->file->value[y].rank;
    for (int32_t i = 0; i < 2; i++) {
        int32_t other = culm_onnx_input(b->file, node, i);
        if (culm_onnx_scalar(b->file, other, &number) && b->file->value[other].constant) {
            return with_number(b, node, 1 - i, number);
        }
    }
    int32_t values[2] = {culm_onnx_input(b->file, node, 0), culm_onnx_input(b->file, node, 1)};
    bool turned =
        !culm_onnx_same_shape(b->file, values[0], y) || culm_onnx_is_weight(b->file, values[0]);
    int32_t first = turned ? 1 : 0, second = 1 - first;
    if (!culm_onnx_same_shape(b->file, values[first], y)) {
        return culm_onnx_unsupported(b, node, "neither input has the shape of the result");
    }
    bool image = false, other = false;
    int32_t inputs[2] = {culm_onnx_either(b, node, first, &image), -1};
    if (culm_onnx_is_weight(b->file, values[second])) {
        inputs[1] = spread_weight(b, node, second, rank, &image);
    } else {
        bool whole = b->file->value[values[second]].rank == 4;
        culm_onnx_either(b, node, second, &other);
        image = (image || other) && whole && rank == 4;
        inputs[1] = image ? culm_onnx_image(b, node, second) : culm_onnx_plain(b, node, second);
    }
    inputs[0] = image ? culm_onnx_image(b, node, first) : culm_onnx_plain(b, node, first);
    bool equal = culm_onnx_same_shape(b->file, values[0], values[1]) &&
                 !culm_onnx_is_weight(b->file, values[second]);
    if (function == CULM_FUNCTION_ADD && equal) {
        return culm_onnx_put(b, node, image, "add", inputs, 2, NULL);
    }
    struct culm_attributes attributes = {.function = function};
    if (turned && function == CULM_FUNCTION_SUB) { /* a - b = (b - a) * -1 */
        const struct culm_attributes negative = {.scale = -1};
        int32_t v = culm_layer_apply(b->graph, "binary", inputs, 2, &attributes);
        return culm_onnx_put(b, node, image, "affine", &v, 1, &negative);
    }
    if (turned && function == CULM_FUNCTION_DIV) { /* a / b = (1 / b) * a */
        const struct culm_attributes inverse = {.function = CULM_FUNCTION_RECIPROCAL};
        inputs[0] = culm_layer_apply(b->graph, "activation", inputs, 1, &inverse);
        attributes.function = CULM_FUNCTION_MUL;
    }
    return culm_onnx_put(b, node, image, "binary", inputs, 2, &attributes);
}

static enum culm_status power(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    double exponent = 0;
    bool image = false;
    const struct culm_attributes root = {.function = CULM_FUNCTION_SQRT};
    const struct culm_attributes times = {.function = CULM_FUNCTION_MUL};
    culm_onnx_scalar(b->file, culm_onnx_input(b->file, node, 1), &exponent);
    int32_t x = culm_onnx_either(b, node, 0, &image), twice[] = {x, x};
    if (exponent == 0.5) {
        return culm_onnx_put(b, node, image, "activation", &x, 1, &root);
    }
    if (exponent != 2 && exponent != 3) {
        return culm_onnx_unsupported(b, node, "a power other than 0.5, 2 and 3");
    }
    if (exponent == 3) {
        twice[0] = culm_layer_apply(b->graph, "binary", twice, 2, &times);
    }
    return culm_onnx_put(b, node, image, "binary", twice, 2, &times);
}

/* relu6(x * 6 alpha + 6 beta) / 6 clips at 0 and 1; for HardSwish it multiplies x. */
static enum culm_status hard(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    bool swish = culm_onnx_is(node, "HardSwish"), image = false;
    double alpha = swish ? 1.0 / 6 : culm_onnx_float(node, "alpha", 0.2);
    double beta = swish ? 0.5 : culm_onnx_float(node, "beta", 0.5);
    const struct culm_attributes into = {.scale = 6 * alpha, .shift = 6 * beta};
    const struct culm_attributes clip = {.function = CULM_FUNCTION_RELU6};
    const struct culm_attributes back = {.scale = 1.0 / 6};
    const struct culm_attributes times = {.function = CULM_FUNCTION_MUL};
    int32_t inputs[2] = {culm_onnx_either(b, node, 0, &image), -1};
    inputs[1] = culm_layer_apply(b->graph, "affine", inputs, 1, &into);
    inputs[1] = culm_layer_apply(b->graph, "activation", &inputs[1], 1, &clip);
    if (!swish) {
        return culm_onnx_put(b, node, image, "affine", &inputs[1], 1, &back);
    }
    inputs[1] = culm_layer_apply(b->graph, "affine", &inputs[1], 1, &back);
    return culm_onnx_put(b, node, image, "binary", inputs, 2, &times);
}

static enum culm_status pad(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const struct culm_onnx_value *x = culm_onnx_value_of(b, node, 0);
    const struct culm_onnx_value *amounts = culm_onnx_value_of(b, node, 1);
    const struct culm_onnx_attribute *old = culm_onnx_list(node, "pads");
    double fill = culm_onnx_float(node, "value", 0);
    int64_t pads[8] = {0};
    culm_onnx_scalar(b->file, culm_onnx_input(b->file, node, 2), &fill);
    if (x->rank != 4 || strcmp(culm_onnx_string(node, "mode", "constant"), "constant") != 0 ||
        culm_onnx_input(b->file, node, 3) >= 0) {
        return culm_onnx_unsupported(b, node, "not a constant around an image");
    }
    for (int i = 0; i < 8; i++) { /* eight, since the shape was inferred */
        pads[i] = amounts && amounts->data ? culm_onnx_get_int(amounts->data, i) : old->ints[i];
    }
    if (pads[0] || pads[4] || pads[1] < 0 || pads[5] < 0) {
        return culm_onnx_unsupported(b, node, "around samples, or less than nothing");
    }
    const struct culm_attributes attributes = {.pad = {pads[2], pads[3], pads[6], pads[7]},
                                               .value = fill};
    int32_t v = culm_onnx_image(b, node, 0);
    if (!pads[1] && !pads[5]) {
        return culm_onnx_put(b, node, true, "pad", &v, 1, &attributes);
    }
    if (pads[2] || pads[3] || pads[6] || pads[7]) {
        v = culm_layer_apply(b->graph, "pad", &v, 1, &attributes);
    }
    return culm_onnx_keep(b, node, true, culm_layer_widen(b->graph, v, pads[1], pads[5], fill));
}

/* The numbers of an input or, in older files, of an attribute; `otherwise` if there are neither. */
static int64_t number_of(const struct culm_onnx_build *b, const struct culm_onnx_node *node,
                         int32_t input, const char *name, int64_t i, int64_t otherwise) {
    const struct culm_onnx_value *v = culm_onnx_value_of(b, node, input);
    const struct culm_onnx_attribute *old = culm_onnx_list(node, name);
    return v && v->data            ? culm_onnx_get_int(v->data, i)
           : old && i < old->count ? old->ints[i]
                                   : otherwise;
}

/* Slice with steps, which simplify.c leaves: of pixels only. The numbers are known and consistent,
 * since the shape was inferred. */
static enum culm_status slice(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const struct culm_onnx_value *x = culm_onnx_value_of(b, node, 0), *y;
    const struct culm_onnx_value *starts = culm_onnx_value_of(b, node, 1);
    const struct culm_onnx_attribute *old = culm_onnx_list(node, "starts");
    int64_t count = starts && starts->data ? starts->data->elements : old ? old->count : 0;
    int64_t step[2] = {1, 1};
    y = &b->file->value[node->output[0]];
    if (x->rank != 4) {
        return culm_onnx_unsupported(b, node, "steps along other than the pixels of an image");
    }
    int32_t v = culm_onnx_image(b, node, 0);
    for (int64_t i = 0; i < count && b->status == CULM_OK; i++) {
        int64_t axis = number_of(b, node, 3, "axes", i, i),
                by = number_of(b, node, 4, "steps", i, 1);
        int64_t start = number_of(b, node, 1, "starts", i, 0);
        axis = axis < 0 ? axis + 4 : axis;
        int64_t dim = x->dim[axis];
        start = start < 0 ? (start < -dim ? 0 : start + dim) : start;
        if (by < 1 || (by > 1 && axis < 2) || (axis == 0 && dim != y->dim[0]) || y->dim[axis] < 1) {
            return culm_onnx_unsupported(
                b, node,
                "steps along other than the pixels of an image, or back, or nothing is left");
        }
        const struct culm_attributes part = {.axis = culm_onnx_image_axis(axis),
                                             .start = start,
                                             .length = (y->dim[axis] - 1) * by + 1};
        if (start > 0 || part.length < dim - by + 1) {
            v = culm_layer_apply(b->graph, "slice", &v, 1, &part);
        }
        if (axis >= 2) {
            step[axis - 2] = by;
        }
    }
    return culm_onnx_keep(b, node, true, culm_layer_every(b->graph, v, step[0], step[1]));
}

static enum culm_status resize(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const struct culm_onnx_value *x = culm_onnx_value_of(b, node, 0);
    const struct culm_onnx_value *y = &b->file->value[node->output[0]];
    const char *mode = culm_onnx_string(node, "mode", "nearest");
    const char *where = culm_onnx_string(node, "coordinate_transformation_mode", "half_pixel");
    bool nearest = strcmp(mode, "nearest") == 0, linear = strcmp(mode, "linear") == 0;
    bool corners = strcmp(where, "align_corners") == 0;
    bool known =
        (nearest && strcmp(where, "asymmetric") == 0 &&
         strcmp(culm_onnx_string(node, "nearest_mode", "round_prefer_floor"), "floor") == 0) ||
        (linear &&
         (corners || strcmp(where, "half_pixel") == 0 || strcmp(where, "pytorch_half_pixel") == 0));
    if (x->rank != 4 || y->rank != 4 || x->dim[0] != y->dim[0] || x->dim[1] != y->dim[1] ||
        !known) {
        return culm_onnx_unsupported(b, node, "mode '%s' with coordinates '%s'", mode, where);
    }
    const struct culm_attributes attributes = {.dims = {y->dim[2], y->dim[3]},
                                               .function = nearest ? CULM_FUNCTION_NONE
                                                                   : CULM_FUNCTION_MEAN,
                                               .align_corners = corners};
    int32_t v = culm_onnx_image(b, node, 0);
    return culm_onnx_put(b, node, true, "resize", &v, 1, &attributes);
}

static enum culm_status add(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    return binary(b, node, CULM_FUNCTION_ADD);
}
/* Of more than two, or it would be an Add (simplify.c): all of one shape. */
static enum culm_status sum(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const int32_t y = node->output[0];
    bool image = false, one = false;
    for (int32_t i = 0; i < node->inputs; i++) {
        if (!culm_onnx_same_shape(b->file, culm_onnx_input(b->file, node, i), y)) {
            return culm_onnx_unsupported(b, node, "the sum of more than two of different shapes");
        }
        culm_onnx_either(b, node, i, &one);
        image |= one && b->file->value[y].rank == 4;
    }
    int32_t all = image ? culm_onnx_image(b, node, 0) : culm_onnx_plain(b, node, 0);
    for (int32_t i = 1; i < node->inputs && b->status == CULM_OK; i++) {
        const int32_t both[] = {all,
                                image ? culm_onnx_image(b, node, i) : culm_onnx_plain(b, node, i)};
        all = culm_layer_apply(b->graph, "add", both, 2, NULL);
    }
    return b->status == CULM_OK ? culm_onnx_keep(b, node, image, all) : b->status;
}
static enum culm_status sub(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    return binary(b, node, CULM_FUNCTION_SUB);
}
static enum culm_status mul(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    return binary(b, node, CULM_FUNCTION_MUL);
}
static enum culm_status divide(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    return binary(b, node, CULM_FUNCTION_DIV);
}
static enum culm_status negate(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    return affine(b, node, 0, -1, 0);
}

static const struct {
    const char *op;
    enum culm_status (*build)(struct culm_onnx_build *build, const struct culm_onnx_node *node);
} rows[] = {
    {"Conv", conv_maybe_biased},
    {"MaxPool", pool},
    {"AveragePool", pool},
    {"GlobalAveragePool", global_pool},
    {"ReduceMean", reduce},
    {"ReduceSum", reduce},
    {"ReduceMax", reduce},
    {"Softmax", softmax},
    {"Transpose", transpose},
    {"Concat", concat},
    {"MatMul", matmul},
    {"Add", add},
    {"Sum", sum},
    {"Sub", sub},
    {"Mul", mul},
    {"Div", divide},
    {"Neg", negate},
    {"Pow", power},
    {"HardSigmoid", hard},
    {"HardSwish", hard},
    {"Pad", pad},
    {"Slice", slice},
    {"Resize", resize},
};

/* False, after failing the build: a table has fewer rows than the constant indices ask for.
 * Positions do if the context is longer than their table. */
static bool rows_exist(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    int32_t table = culm_onnx_is(node, "Gather") ? culm_onnx_input(b->file, node, 0) : -1;
    int32_t index = table < 0 ? -1 : culm_onnx_input(b->file, node, 1);
    const struct culm_onnx_tensor *ids = index < 0 ? NULL : b->file->value[index].data;
    if (!ids || !ids->data || !culm_onnx_is_weight(b->file, table) || b->status != CULM_OK ||
        b->file->value[table].rank != 2 || culm_onnx_int(node, "axis", 0) != 0) {
        return true;
    }
    const struct culm_onnx_value *v = &b->file->value[table];
    for (int64_t i = 0; i < ids->elements; i++) {
        if (culm_onnx_get_int(ids, i) >= v->dim[0]) {
            culm_onnx_node_error(
                b->file, node, CULM_ERR_CONFIG, b->error,
                "asks '%.60s' for row %lld, and it has %lld; is the context (%lld) "
                "too long? Set model.context",
                v->name, (long long)culm_onnx_get_int(ids, i), (long long)v->dim[0],
                (long long)b->options->context);
            b->status = CULM_ERR_CONFIG;
            return false;
        }
    }
    return true;
}

enum culm_status culm_onnx_build_node(struct culm_onnx_build *b,
                                      const struct culm_onnx_node *node) {
    const struct culm_onnx_value *y = &b->file->value[node->output[0]];
    if (node->domain[0]) {
        return culm_onnx_unsupported(b, node,
                                     "operators of domain '%s' are not known; export "
                                     "without custom operators",
                                     node->domain);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].op, node->op) != 0) {
            continue;
        }
        for (int32_t k = 0; k < node->inputs; k++) {
            const struct culm_onnx_value *x = culm_onnx_value_of(b, node, k);
            if (x && x->rank < 0) {
                return culm_onnx_unsupported(b, node, "the shape of input '%s' depends on data",
                                             x->name);
            }
        }
        if (y->rank < 0) {
            return culm_onnx_unsupported(b, node, "the shape of the result depends on data");
        }
        return rows[i].build(b, node);
    }
    for (int32_t k = 0; k < node->attributes; k++) {
        if (node->attribute[k].kind == CULM_ONNX_ATTRIBUTE_GRAPH) {
            return culm_onnx_unsupported(b, node, "control flow is not supported");
        }
    }
    return rows_exist(b, node) ? culm_onnx_unsupported(b, node, "is not supported") : b->status;
}
