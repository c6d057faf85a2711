/* The builder, and the operators that are ours already. See build.h. */
#include "onnx/rows.h"

#include "base/grow.h"
#include "onnx/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct culm_onnx_value *culm_onnx_value_of(const struct culm_onnx_build *build,
                                                 const struct culm_onnx_node *node, int32_t i) {
    int32_t value = culm_onnx_input(build->file, node, i);
    return value < 0 ? NULL : &build->file->value[value];
}

enum culm_status culm_onnx_unsupported(struct culm_onnx_build *build,
                                       const struct culm_onnx_node *node, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (build->status == CULM_OK) { /* keeps the first error, which causes the others */
        culm_onnx_node_error(build->file, node, CULM_ERR_UNSUPPORTED, build->error, "%s", text);
        build->status = CULM_ERR_UNSUPPORTED;
    }
    return build->status;
}

/* The first error of the graph, attributed to a node. */
static enum culm_status graph_error(struct culm_onnx_build *build,
                                    const struct culm_onnx_node *node) {
    struct culm_error error = {0};
    if (build->status != CULM_OK || culm_graph_check(build->graph, &error) == CULM_OK) {
        return build->status;
    }
    enum culm_status status =
        error.status == CULM_ERR_INTERNAL ? CULM_ERR_UNSUPPORTED : error.status;
    return culm_onnx_node_error(build->file, node, status, build->error, "%s", error.text);
}

bool culm_onnx_shape_here(const struct culm_onnx_build *build, int32_t value,
                          struct culm_shape *ret_shape) {
    const struct culm_onnx_value *v = &build->file->value[value];
    if (v->rank < 0 || v->rank > CULM_MAX_RANK) {
        return false;
    }
    *ret_shape = culm_shape_of(v->rank, v->dim);
    if (build->made[value].batched && build->options->batch != build->file_batch) {
        int64_t *first = &ret_shape->dim[0];
        if (v->rank == 0 || *first % build->file_batch != 0 ||
            __builtin_mul_overflow(*first / build->file_batch, build->options->batch, first)) {
            return false;
        }
    }
    return true;
}

int32_t culm_onnx_reshape_to(struct culm_onnx_build *build, int32_t value,
                             const struct culm_shape *shape) {
    if (value < 0 || build->graph->error.status != CULM_OK) {
        return -1;
    }
    if (culm_shape_equal(&build->graph->value[value].shape, shape)) {
        return value;
    }
    return culm_layer_reshape(build->graph, value, *shape);
}

int32_t culm_onnx_permute(struct culm_onnx_build *build, int32_t value, int64_t a, int64_t b,
                          int64_t c, int64_t d) {
    const struct culm_attributes attributes = {.dims = {a, b, c, d}};
    if (value < 0 || build->graph->error.status != CULM_OK) {
        return -1;
    }
    const struct culm_shape *from = &build->graph->value[value].shape;
    if (from->rank == 4) {
        const int64_t order[4] = {a, b, c, d};
        struct culm_shape to = {.rank = 4};
        int64_t last = -1;
        bool still = true; /* only dimensions of 1 move */
        for (int i = 0; i < 4; i++) {
            to.dim[i] = from->dim[order[i]];
            still &= to.dim[i] == 1 || order[i] > last;
            last = to.dim[i] == 1 ? last : order[i];
        }
        if (still) {
            return culm_onnx_reshape_to(build, value, &to);
        }
    }
    return culm_layer_apply(build->graph, "permute", &value, 1, &attributes);
}

static struct culm_onnx_made *made_of(struct culm_onnx_build *build,
                                      const struct culm_onnx_node *node, int32_t i) {
    int32_t value = culm_onnx_input(build->file, node, i);
    struct culm_onnx_made *made = value < 0 ? NULL : &build->made[value];
    return made && (made->plain >= 0 || made->image >= 0) ? made : NULL;
}

static int32_t missing(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                       int32_t i) {
    const struct culm_onnx_value *v = culm_onnx_value_of(build, node, i);
    culm_onnx_unsupported(build, node, "input %d%s%s%s is %s", i, v ? " ('" : "", v ? v->name : "",
                          v ? "')" : "",
                          !v             ? "missing"
                          : v->data      ? "a constant, which is not possible there"
                          : v->node >= 0 ? "not of activations"
                                         : "whole numbers, which are not possible there");
    return -1;
}

int32_t culm_onnx_plain(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                        int32_t i) {
    struct culm_onnx_made *made = made_of(build, node, i);
    if (!made) {
        return missing(build, node, i);
    }
    if (made->plain < 0) {
        made->plain = culm_onnx_permute(build, made->image, 0, 3, 1, 2);
    }
    return made->plain;
}

int32_t culm_onnx_image(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                        int32_t i) {
    struct culm_onnx_made *made = made_of(build, node, i);
    if (!made) {
        return missing(build, node, i);
    }
    if (made->image < 0 && culm_onnx_value_of(build, node, i)->rank != 4) {
        culm_onnx_unsupported(build, node, "an input of %d dimensions, four are needed",
                              culm_onnx_value_of(build, node, i)->rank);
        return -1;
    }
    if (made->image < 0) {
        made->image = culm_onnx_permute(build, made->plain, 0, 2, 3, 1);
    }
    return made->image;
}

int32_t culm_onnx_either(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                         int32_t i, bool *ret_image) {
    struct culm_onnx_made *made = made_of(build, node, i);
    if (!made) {
        return missing(build, node, i);
    }
    *ret_image = made->image >= 0;
    return *ret_image ? made->image : made->plain;
}

int64_t culm_onnx_image_axis(int64_t axis) {
    static const int64_t to[4] = {0, 3, 1, 2};
    return axis >= 0 && axis < 4 ? to[axis] : axis;
}

/* Whether all numbers are equal: exporters merge such tensors, whatever they belong to. */
static bool is_uniform(const struct culm_onnx_tensor *data) {
    size_t size = culm_onnx_type_bytes(data->type);
    const uint8_t *bytes = data->data;
    return data->bytes <= size || memcmp(bytes, bytes + size, data->bytes - size) == 0;
}

static bool add_name(struct culm_onnx_build *build, const char *name, int32_t value) {
    if (!CULM_GROW(build->name, build->name_capacity, build->name_count + 1)) {
        return false;
    }
    struct culm_onnx_name *added = &build->name[build->name_count++];
    snprintf(added->name, sizeof added->name, "%s", name);
    added->value = value;
    return true;
}

int32_t culm_onnx_weight(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                         int32_t i, const struct culm_shape *shape, bool statistic) {
    int32_t value = culm_onnx_input(build->file, node, i);
    if (!culm_onnx_is_weight(build->file, value)) {
        return missing(build, node, i);
    }
    const struct culm_onnx_value *v = &build->file->value[value];
    int32_t *param = &build->param[value];
    char name[96];
    bool shared = *param >= 0;
    if (shared && v->rank == 1 && build->merged && is_uniform(v->data)) {
        build->untied++;
        shared = false;
    }
    if (shared) {
        const struct culm_value *before = &build->graph->value[*param];
        bool was = build->graph->param[before->param].statistic;
        if (!culm_shape_equal(&before->shape, shape) || was != statistic) {
            culm_onnx_unsupported(build, node, "'%s' is used in two ways", v->name);
            return -1;
        }
        return *param;
    }
    int64_t count = 0;
    if (v->rank > CULM_MAX_RANK) {
        culm_onnx_unsupported(build, node, "'%s' has %d dimensions, 4 are possible", v->name,
                              v->rank);
        return -1;
    }
    if (culm_shape_count(shape, &count, NULL) != CULM_OK || count != v->data->elements) {
        culm_onnx_unsupported(build, node, "'%s' has %lld elements", v->name,
                              (long long)v->data->elements);
        return -1;
    }
    int length = *param < 0 ? snprintf(name, sizeof name, "%s", v->name)
                            : snprintf(name, sizeof name, "%s.%d", v->name, build->untied + 1);
    if (length < 0 || length >= (int)sizeof name || !add_name(build, name, value)) {
        culm_onnx_unsupported(build, node, "the name '%.40s...' is longer than %zu", v->name,
                              sizeof name - 1);
        return -1;
    }
    *param = statistic
                 ? culm_graph_statistic(build->graph, name, shape, CULM_INIT_ZEROS)
                 : culm_graph_param(build->graph, name, shape, CULM_INIT_ZEROS, 0, v->rank > 1);
    const struct culm_shape written = culm_shape_of(v->rank, v->dim);
    culm_graph_param_written(build->graph, *param, &written);
    return *param;
}

int32_t culm_onnx_zeros(struct culm_onnx_build *build, const struct culm_onnx_node *node, int32_t i,
                        const struct culm_shape *shape) {
    const struct culm_onnx_value *beside = culm_onnx_value_of(build, node, i);
    char name[96];
    int length = snprintf(name, sizeof name, "%s.zeros%d", beside->name, build->name_count);
    if (length < 0 || length >= (int)sizeof name || !add_name(build, name, -1)) {
        culm_onnx_unsupported(build, node, "the name '%.40s...' is too long", beside->name);
        return -1;
    }
    return culm_graph_statistic(build->graph, name, shape, CULM_INIT_ZEROS);
}

bool culm_onnx_is_fixed(const struct culm_onnx_build *build, const struct culm_onnx_node *node,
                        int32_t i) {
    const struct culm_onnx_value *v = culm_onnx_value_of(build, node, i);
    return v && v->data && v->constant;
}

/* The result of an operator must have the shape that the file says. */
static enum culm_status check_shape(struct culm_onnx_build *build,
                                    const struct culm_onnx_node *node, bool image, int32_t value) {
    struct culm_shape wanted;
    char has[96], says[96];
    int32_t y = node->output[0];
    if (!culm_onnx_shape_here(build, y, &wanted)) {
        return culm_onnx_unsupported(
            build, node, "shape %s is not possible for a batch of %lld",
            culm_onnx_shape_text(&build->file->value[y], says, sizeof says),
            (long long)build->options->batch);
    }
    if (image) {
        wanted =
            (struct culm_shape){4, {wanted.dim[0], wanted.dim[2], wanted.dim[3], wanted.dim[1]}};
    }
    const struct culm_shape *is = &build->graph->value[value].shape;
    if (build->made[y].other_rows && wanted.rank == is->rank && wanted.rank >= 2) {
        wanted.dim[1] = is->dim[1];
    }
    if (!culm_shape_equal(is, &wanted)) {
        return culm_onnx_unsupported(build, node, "the result is %s, in the file it is %s",
                                     culm_shape_format(is, has, sizeof has),
                                     culm_shape_format(&wanted, says, sizeof says));
    }
    return CULM_OK;
}

enum culm_status culm_onnx_keep(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                                bool image, int32_t value) {
    enum culm_status status = graph_error(build, node);
    if (status != CULM_OK || value < 0) {
        return status != CULM_OK ? status : culm_onnx_unsupported(build, node, "is not possible");
    }
    struct culm_onnx_made *made = &build->made[node->output[0]];
    *(image ? &made->image : &made->plain) = value;
    return check_shape(build, node, image, value);
}

enum culm_status culm_onnx_put(struct culm_onnx_build *build, const struct culm_onnx_node *node,
                               bool image, const char *op, const int32_t *inputs, int32_t count,
                               const struct culm_attributes *attributes) {
    enum culm_status status = graph_error(build, node);
    if (status != CULM_OK) {
        return status;
    }
    return culm_onnx_keep(build, node, image,
                          culm_layer_apply(build->graph, op, inputs, count, attributes));
}

static struct culm_shape vector(int64_t length) { return (struct culm_shape){1, {length}}; }

enum culm_status culm_onnx_build_linear(struct culm_onnx_build *b,
                                        const struct culm_onnx_node *node) {
    const struct culm_onnx_value *w = culm_onnx_value_of(b, node, 1);
    const struct culm_shape matrix = {2, {w->dim[0], w->dim[1]}};
    const struct culm_shape bias = vector(w->dim[!node->culm.transposed]);
    const int32_t inputs[] = {
        culm_onnx_plain(b, node, 0), culm_onnx_weight(b, node, 1, &matrix, false),
        culm_onnx_input(b->file, node, 2) < 0 ? -1 : culm_onnx_weight(b, node, 2, &bias, false)};
    return culm_onnx_put(b, node, false, "linear", inputs, 3, &node->culm);
}

enum culm_status culm_onnx_build_lookup(struct culm_onnx_build *b,
                                        const struct culm_onnx_node *node) {
    const struct culm_onnx_value *w = culm_onnx_value_of(b, node, 1);
    const struct culm_shape table = {2, {w->dim[0], w->dim[1]}};
    const int32_t inputs[] = {culm_onnx_plain(b, node, 0),
                              culm_onnx_weight(b, node, 1, &table, false)};
    return culm_onnx_put(b, node, false, "lookup", inputs, 2, NULL);
}

/* x + row 0 of a table in every row: positions, with samples of one row each. */
static enum culm_status row(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const struct culm_onnx_value *w = culm_onnx_value_of(b, node, 1);
    const struct culm_shape table = {2, {w->dim[0], w->dim[1]}};
    int32_t inputs[] = {culm_onnx_plain(b, node, 0), culm_onnx_weight(b, node, 1, &table, false)};
    struct culm_shape shape;
    if (inputs[0] < 0 || !culm_onnx_shape_here(b, node->output[0], &shape) || shape.rank != 3) {
        return culm_onnx_unsupported(b, node, "rows of one table index");
    }
    const struct culm_shape apart = {3, {shape.dim[0] * shape.dim[1], 1, shape.dim[2]}};
    inputs[0] = culm_onnx_reshape_to(b, inputs[0], &apart);
    int32_t y = culm_layer_apply(b->graph, "positions", inputs, 2, NULL);
    return culm_onnx_keep(b, node, false, culm_onnx_reshape_to(b, y, &shape));
}

/* Row 0 of a table for every sample: looks up position 0, with a zero that is made from x. */
static enum culm_status token(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const struct culm_onnx_value *w = culm_onnx_value_of(b, node, 0);
    const struct culm_shape table = {2, {1, w->dim[w->rank - 1]}};
    const struct culm_attributes first = {.axis = 1, .length = 1}, zero = {0};
    int32_t x = culm_onnx_plain(b, node, 1);
    x = culm_layer_apply(b->graph, "slice", &x, 1, &first);
    x = culm_layer_apply(b->graph, "affine", &x, 1, &zero);
    const int32_t inputs[] = {x, culm_onnx_weight(b, node, 0, &table, false)};
    return culm_onnx_put(b, node, false, "positions", inputs, 2, NULL);
}

/* x times one number a sample: what dropout makes of ones. */
static enum culm_status drop_sample(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    const struct culm_attributes times = {.function = CULM_FUNCTION_MUL}, one = {.shift = 1};
    struct culm_attributes mean = {.function = CULM_FUNCTION_MEAN};
    bool image = false;
    int32_t inputs[] = {culm_onnx_either(b, node, 0, &image), -1};
    mean.axes = ((int64_t)1 << culm_onnx_value_of(b, node, 0)->rank) - 2;
    inputs[1] = culm_layer_apply(b->graph, "reduce", inputs, 1, &mean);
    inputs[1] = culm_layer_apply(b->graph, "affine", &inputs[1], 1, &one);
    inputs[1] = culm_layer_apply(b->graph, "dropout", &inputs[1], 1, &node->culm);
    return culm_onnx_put(b, node, image, "binary", inputs, 2, &times);
}

enum culm_status culm_onnx_build_positions(struct culm_onnx_build *b,
                                           const struct culm_onnx_node *node) {
    const struct culm_onnx_value *w = culm_onnx_value_of(b, node, 1);
    const struct culm_shape table = {2, {w->dim[w->rank - 2], w->dim[w->rank - 1]}};
    const int32_t inputs[] = {culm_onnx_plain(b, node, 0),
                              culm_onnx_weight(b, node, 1, &table, false)};
    return culm_onnx_put(b, node, false, "positions", inputs, 2, NULL);
}

enum culm_status culm_onnx_build_layernorm(struct culm_onnx_build *b,
                                           const struct culm_onnx_node *node) {
    const struct culm_shape row = vector(culm_onnx_value_of(b, node, 1)->dim[0]);
    /* without a bias it gets zeros; statistics have momentum 0 (the node's) and never move */
    const int32_t inputs[] = {
        culm_onnx_plain(b, node, 0),
        culm_onnx_weight(b, node, 1, &row, culm_onnx_is_fixed(b, node, 1)),
        culm_onnx_input(b->file, node, 2) < 0
            ? culm_onnx_zeros(b, node, 1, &row)
            : culm_onnx_weight(b, node, 2, &row, culm_onnx_is_fixed(b, node, 2))};
    return culm_onnx_put(b, node, false, "layernorm", inputs, 3, &node->culm);
}

enum culm_status culm_onnx_build_attention(struct culm_onnx_build *b,
                                           const struct culm_onnx_node *node) {
    int32_t inputs[4] = {-1, -1, -1, -1};
    for (int32_t i = 0; i < 4; i++) {
        if (culm_onnx_input(b->file, node, i) >= 0) {
            inputs[i] = culm_onnx_plain(b, node, i);
        }
    }
    return culm_onnx_put(b, node, false, "attention", inputs, 4, &node->culm);
}

enum culm_status culm_onnx_build_batchnorm(struct culm_onnx_build *b,
                                           const struct culm_onnx_node *node) {
    const struct culm_shape row = vector(culm_onnx_value_of(b, node, 1)->dim[0]);
    bool image = culm_onnx_value_of(b, node, 0)->rank == 4;
    int32_t inputs[6] = {-1, -1, -1, -1, -1, -1};
    if (!image && culm_onnx_value_of(b, node, 0)->rank != 2) {
        return culm_onnx_unsupported(b, node, "an input of %d dimensions; 2 and 4 are possible",
                                     culm_onnx_value_of(b, node, 0)->rank);
    }
    inputs[0] = image ? culm_onnx_image(b, node, 0) : culm_onnx_plain(b, node, 0);
    for (int32_t i = 1; i < 5; i++) {
        inputs[i] = culm_onnx_weight(b, node, i, &row, i > 2);
    }
    if (culm_onnx_input(b->file, node, 5) >= 0) {
        inputs[5] = image ? culm_onnx_image(b, node, 5) : culm_onnx_plain(b, node, 5);
    }
    return culm_onnx_put(b, node, image, "batchnorm", inputs, 6, &node->culm);
}

/* Element by element: takes the input in either form. */
enum culm_status culm_onnx_build_pointwise(struct culm_onnx_build *b,
                                           const struct culm_onnx_node *node) {
    bool image = false;
    int32_t x = culm_onnx_either(b, node, 0, &image);
    return culm_onnx_put(b, node, image, node->op, &x, 1, &node->culm);
}

enum culm_status culm_onnx_build_residual(struct culm_onnx_build *b,
                                          const struct culm_onnx_node *node) {
    bool image = false, other = false;
    culm_onnx_either(b, node, 0, &image);
    culm_onnx_either(b, node, 1, &other);
    image |= other;
    const int32_t inputs[] = {image ? culm_onnx_image(b, node, 0) : culm_onnx_plain(b, node, 0),
                              image ? culm_onnx_image(b, node, 1) : culm_onnx_plain(b, node, 1)};
    return culm_onnx_put(b, node, image, node->op, inputs, 2, &node->culm);
}

enum culm_status culm_onnx_build_reshape(struct culm_onnx_build *b,
                                         const struct culm_onnx_node *node) {
    struct culm_shape shape;
    int32_t y = node->output[0];
    struct culm_onnx_made *made = made_of(b, node, 0);
    char text[96];
    if (!culm_onnx_shape_here(b, y, &shape)) {
        return culm_onnx_unsupported(
            b, node, "shape %s%s", culm_onnx_shape_text(&b->file->value[y], text, sizeof text),
            b->file->value[y].rank > CULM_MAX_RANK ? " has more than 4 dimensions"
                                                   : " mixes samples with other dimensions");
    }
    if (made && made->plain < 0 && made->image >= 0 && b->graph->error.status == CULM_OK) {
        const struct culm_shape *x = &b->graph->value[made->image].shape;
        if (x->dim[1] * x->dim[2] == 1 || x->dim[3] == 1) { /* the order makes no difference */
            return culm_onnx_keep(b, node, false, culm_onnx_reshape_to(b, made->image, &shape));
        }
    }
    int32_t x = culm_onnx_plain(b, node, 0);
    return culm_onnx_keep(b, node, false, culm_onnx_reshape_to(b, x, &shape));
}

/* Exchanges parts of one dimension, in whichever form the image is. */
static enum culm_status shuffle(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
    bool image = false;
    int32_t x = culm_onnx_either(b, node, 0, &image);
    int64_t axis = image ? culm_onnx_image_axis(node->culm.axis) : node->culm.axis;
    int64_t groups = node->culm.groups;
    if (x < 0 || graph_error(b, node) != CULM_OK) {
        return b->status;
    }
    const struct culm_shape shape = b->graph->value[x].shape;
    struct culm_shape apart = {4, {1, groups, shape.dim[axis] / groups, 1}};
    for (int i = 0; i < shape.rank; i++) {
        apart.dim[i < axis ? 0 : 3] *= i == axis ? 1 : shape.dim[i];
    }
    apart.rank = apart.dim[3] > 1 ? 4 : 3;
    const struct culm_attributes exchange = {.dims = {0, 2, 1, 3}};
    x = culm_onnx_reshape_to(b, x, &apart);
    x = culm_layer_apply(b->graph, "permute", &x, 1, &exchange);
    return culm_onnx_keep(b, node, image, culm_onnx_reshape_to(b, x, &shape));
}

enum culm_status culm_onnx_build_gather_rows(struct culm_onnx_build *b,
                                             const struct culm_onnx_node *node) {
    const struct culm_shape shape = {2, {b->options->batch, node->culm.length}};
    bool own = node->inputs < 2; /* positions are a field of import's own, not of the file */
    const int32_t inputs[] = {culm_onnx_plain(b, node, 0),
                              own ? culm_graph_field(b->graph, "positions", CULM_I32, &shape)
                                  : culm_onnx_plain(b, node, 1)};
    const struct culm_value *index = inputs[1] < 0 ? NULL : &b->graph->value[inputs[1]];
    bool masked = index && index->kind == CULM_VALUE_FIELD &&
                  strcmp(b->graph->field[index->field].name, "positions") == 0;
    b->made[node->output[0]].other_rows |= own || masked;
    return culm_onnx_put(b, node, false, "gather_rows", inputs, 2, NULL);
}

enum culm_status culm_onnx_build_slice(struct culm_onnx_build *b,
                                       const struct culm_onnx_node *node) {
    bool image = false;
    int32_t x = culm_onnx_either(b, node, 0, &image);
    struct culm_attributes attributes = node->culm;
    if (attributes.axis == 0 && b->made[node->output[0]].batched) {
        return culm_onnx_unsupported(b, node, "takes some samples out of a batch");
    }
    attributes.axis = image ? culm_onnx_image_axis(attributes.axis) : attributes.axis;
    return culm_onnx_put(b, node, image, "slice", &x, 1, &attributes);
}

/* Nodes made by passes that take several operators of ours. */
static const struct {
    const char *op;
    culm_onnx_builder *build;
} several[] = {{"row", row}, {"token", token}, {"drop_sample", drop_sample}, {"shuffle", shuffle}};

static culm_onnx_builder *builder_of(const struct culm_onnx_node *node) {
    if (strcmp(node->domain, CULM_ONNX_OURS) != 0) {
        return culm_onnx_build_node;
    }
    for (size_t i = 0; i < sizeof several / sizeof *several; i++) {
        if (strcmp(node->op, several[i].op) == 0) {
            return several[i].build;
        }
    }
    const struct culm_op *op = culm_op_find(node->op);
    const struct culm_onnx_row *made = op ? culm_onnx_row_of(op) : NULL;
    return made && made->build ? made->build : culm_onnx_build_node;
}

static enum culm_status build_one(struct culm_onnx_build *build,
                                  const struct culm_onnx_node *node) {
    for (int32_t i = 0; i < node->inputs; i++) { /* what depends on samples stays per sample */
        int32_t input = culm_onnx_input(build->file, node, i);
        if (input >= 0 && build->made[input].batched) {
            for (int32_t k = 0; k < node->outputs; k++) {
                if (node->output[k] >= 0) {
                    build->made[node->output[k]].batched = true;
                    build->made[node->output[k]].other_rows |= build->made[input].other_rows;
                }
            }
        }
    }
    return builder_of(node)(build, node);
}

/* Whether a node computes integers: masks and indices, which passes have dealt with. */
static bool is_arithmetic(const struct culm_onnx_build *build, const struct culm_onnx_node *node) {
    int type = node->output[0] < 0 ? 0 : build->file->value[node->output[0]].type;
    return type != CULM_ONNX_UNKNOWN && !culm_onnx_is_real(type);
}

enum culm_status culm_onnx_build(struct culm_onnx_build *build) {
    struct culm_onnx_graph *file = build->file;
    size_t count = (size_t)file->value_count + 1;
    build->made = malloc(count * sizeof *build->made);
    build->param = malloc(count * sizeof *build->param);
    if (!build->made || !build->param) {
        return culm_error_set(build->error, CULM_ERR_MEMORY, "onnx '%s': out of memory",
                              file->path);
    }
    for (int32_t i = 0; i < file->value_count; i++) { /* the optimizer's names for what it folded */
        const struct culm_onnx_value *v = &file->value[i];
        build->merged |= v->kind == CULM_ONNX_INITIALIZER && strncmp(v->name, "val_", 4) == 0;
    }
    for (size_t i = 0; i < count; i++) {
        build->made[i] = (struct culm_onnx_made){.plain = -1, .image = -1};
        build->param[i] = -1;
    }
    enum culm_status status = culm_onnx_build_inputs(build);
    for (int32_t i = 0; i < file->node_count && status == CULM_OK; i++) {
        const struct culm_onnx_node *node = &file->node[i];
        if (!node->dead && !is_arithmetic(build, node)) {
            status = node->output[0] < 0 ? culm_onnx_unsupported(build, node, "has no first output")
                                         : build_one(build, node);
        }
    }
    if (status == CULM_OK) {
        status = culm_onnx_build_losses(build);
    }
    if (status == CULM_OK && build->untied) {
        culm_onnx_note(build->notes,
                       "%d tensors of equal numbers had been merged with others and are parameters "
                       "of their own again; export with optimize=False to keep their names",
                       build->untied);
    }
    return status;
}
