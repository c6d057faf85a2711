/* The builder: operators that are ours already, since passes have made them. See rows.h. */
#include "onnx/rows.h"

#include <string.h>

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
enum culm_status culm_onnx_build_row(struct culm_onnx_build *b, const struct culm_onnx_node *node) {
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
enum culm_status culm_onnx_build_token(struct culm_onnx_build *b,
                                       const struct culm_onnx_node *node) {
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
enum culm_status culm_onnx_build_drop_sample(struct culm_onnx_build *b,
                                             const struct culm_onnx_node *node) {
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
    struct culm_onnx_made *made = culm_onnx_made_of(b, node, 0);
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
enum culm_status culm_onnx_build_shuffle(struct culm_onnx_build *b,
                                         const struct culm_onnx_node *node) {
    bool image = false;
    int32_t x = culm_onnx_either(b, node, 0, &image);
    int64_t axis = image ? culm_onnx_image_axis(node->culm.axis) : node->culm.axis;
    int64_t groups = node->culm.groups;
    if (x < 0 || culm_onnx_graph_error(b, node) != CULM_OK) {
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
