/* Writing our other operators as ONNX: pointwise, tables, products, shapes. See export.h. */
#include "onnx/rows.h"

#include <math.h>
#include <string.h>

/* 0.5 x (1 + inner) */
static const char *gelu_around(struct culm_onnx_exporter *e, const char *x, const char *inner) {
    inner = culm_onnx_emit_2(e, "Add", inner, culm_onnx_real_constant(e, 1));
    inner = culm_onnx_emit_2(e, "Mul", x, inner);
    return culm_onnx_emit_2(e, "Mul", inner, culm_onnx_real_constant(e, 0.5));
}

static const char *gelu_tanh(struct culm_onnx_exporter *e, const char *x) {
    const char *cube = culm_onnx_emit_2(e, "Pow", x, culm_onnx_real_constant(e, 3));
    cube = culm_onnx_emit_2(e, "Mul", cube, culm_onnx_real_constant(e, 0.044715));
    cube = culm_onnx_emit_2(e, "Add", x, cube);
    cube = culm_onnx_emit_2(e, "Mul", cube, culm_onnx_real_constant(e, sqrt(2 / M_PI)));
    return gelu_around(e, x, culm_onnx_emit_1(e, "Tanh", cube));
}

const char *culm_onnx_function(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                               const char *x, enum culm_function function) {
    const struct culm_onnx_given slope = CULM_ONNX_F("alpha", node->attributes.alpha);
    const char *y;
    switch (function) {
    case CULM_FUNCTION_NONE: return x;
    case CULM_FUNCTION_RELU: return culm_onnx_emit_1(e, "Relu", x);
    case CULM_FUNCTION_LEAKY_RELU: return culm_onnx_emit(e, "LeakyRelu", &x, 1, &slope, 1, 1);
    case CULM_FUNCTION_RELU6:
        return culm_onnx_emit_3(e, "Clip", x, culm_onnx_real_constant(e, 0),
                                culm_onnx_real_constant(e, 6));
    case CULM_FUNCTION_GELU_TANH: return gelu_tanh(e, x);
    case CULM_FUNCTION_GELU_ERF:
        y = culm_onnx_emit_2(e, "Mul", x, culm_onnx_real_constant(e, sqrt(0.5)));
        return gelu_around(e, x, culm_onnx_emit_1(e, "Erf", y));
    case CULM_FUNCTION_TANH: return culm_onnx_emit_1(e, "Tanh", x);
    case CULM_FUNCTION_SIGMOID: return culm_onnx_emit_1(e, "Sigmoid", x);
    case CULM_FUNCTION_SILU:
        return culm_onnx_emit_2(e, "Mul", x, culm_onnx_emit_1(e, "Sigmoid", x));
    case CULM_FUNCTION_ELU: return culm_onnx_emit(e, "Elu", &x, 1, &slope, 1, 1);
    case CULM_FUNCTION_EXP: return culm_onnx_emit_1(e, "Exp", x);
    case CULM_FUNCTION_LOG: return culm_onnx_emit_1(e, "Log", x);
    case CULM_FUNCTION_SQRT: return culm_onnx_emit_1(e, "Sqrt", x);
    case CULM_FUNCTION_RECIPROCAL: return culm_onnx_emit_1(e, "Reciprocal", x);
    default: culm_onnx_cannot(e, node, "a function that ONNX has no match for"); return "";
    }
}

static const char *dropped(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                           const char *x) {
    if (!(node->attributes.dropout > 0)) {
        return x;
    }
    return culm_onnx_emit_3(e, "Dropout", x, culm_onnx_real_constant(e, node->attributes.dropout),
                            culm_onnx_true_constant(e));
}

/* Both inputs in the same form: images if both are. */
static bool two(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                const char **ret_inputs) {
    bool first, second;
    culm_onnx_in_either(e, node, 0, &first);
    culm_onnx_in_either(e, node, 1, &second);
    bool image = (first || second) && culm_onnx_shape(e, node, 0)->rank == 4 &&
                 culm_onnx_shape(e, node, 1)->rank == 4;
    for (int32_t i = 0; i < 2; i++) {
        ret_inputs[i] = image ? culm_onnx_in_image(e, node, i) : culm_onnx_in(e, node, i);
    }
    return image;
}

void culm_onnx_write_activation(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    bool image;
    const char *x = culm_onnx_in_either(e, node, 0, &image);
    culm_onnx_out(e, node, image, culm_onnx_function(e, node, x, node->attributes.function));
}

void culm_onnx_write_dropout(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    bool image;
    const char *x = culm_onnx_in_either(e, node, 0, &image);
    culm_onnx_out(e, node, image, dropped(e, node, x));
}

void culm_onnx_write_affine(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    bool image;
    const char *x = culm_onnx_in_either(e, node, 0, &image);
    if (node->attributes.scale != 1) {
        x = culm_onnx_emit_2(e, "Mul", x, culm_onnx_real_constant(e, node->attributes.scale));
    }
    if (node->attributes.shift != 0) {
        x = culm_onnx_emit_2(e, "Add", x, culm_onnx_real_constant(e, node->attributes.shift));
    }
    culm_onnx_out(e, node, image, x);
}

void culm_onnx_write_residual(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const char *in[2];
    bool image = two(e, node, in);
    const char *h = dropped(e, node, in[1]);
    culm_onnx_out(e, node, image, culm_onnx_emit_2(e, "Add", in[0], h));
}

void culm_onnx_write_add(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const char *in[2];
    bool image = two(e, node, in);
    culm_onnx_out(e, node, image, culm_onnx_emit_2(e, "Add", in[0], in[1]));
}

/* The shape that a parameter has in the file. */
static const struct culm_shape *written(const struct culm_onnx_exporter *e,
                                        const struct culm_node_desc *node, int32_t i) {
    const struct culm_value *value = &e->graph->value[node->input[i]];
    return value->kind == CULM_VALUE_PARAM ? &e->graph->param[value->param].written : &value->shape;
}

void culm_onnx_write_binary(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const char *in[2], *op = "Div";
    bool image = two(e, node, in);
    const struct culm_shape *b = written(e, node, 1);
    if (b->rank == 3 && b->dim[1] * b->dim[2] == 1 && culm_onnx_shape(e, node, 1)->rank == 1 &&
        culm_onnx_shape(e, node, 0)->rank == 4) { /* [C,1,1]: over channels */
        in[0] = culm_onnx_in_image(e, node, 0);
        image = true;
    }
    switch (node->attributes.function) {
    case CULM_FUNCTION_ADD: op = "Add"; break;
    case CULM_FUNCTION_SUB: op = "Sub"; break;
    case CULM_FUNCTION_MUL: op = "Mul"; break;
    default: break;
    }
    culm_onnx_out(e, node, image, culm_onnx_emit_2(e, op, in[0], in[1]));
}

void culm_onnx_write_linear(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    static const int64_t flip[2] = {1, 0};
    const char *w = culm_onnx_in(e, node, 1);
    if (node->attributes.transposed) {
        w = culm_onnx_transpose(e, w, flip, 2);
    }
    const char *y = culm_onnx_emit_2(e, "MatMul", culm_onnx_in(e, node, 0), w);
    if (node->input[2] >= 0) {
        y = culm_onnx_emit_2(e, "Add", y, culm_onnx_in(e, node, 2));
    }
    culm_onnx_out(e, node, false, y);
}

/* Input i, a table, cut to the rows that input 0 needs. */
static const char *first_rows(struct culm_onnx_exporter *e, const struct culm_node_desc *node,
                              int32_t i) {
    const struct culm_shape *table = written(e, node, i);
    const int64_t zero = 0, rows = culm_onnx_shape(e, node, 0)->dim[1], axis = table->rank - 2;
    const char *inputs[4] = {culm_onnx_in(e, node, i)};
    if (table->dim[axis] == rows) {
        return inputs[0];
    }
    inputs[1] = culm_onnx_ints_constant(e, &zero, 1);
    inputs[2] = culm_onnx_ints_constant(e, &rows, 1);
    inputs[3] = axis ? culm_onnx_ints_constant(e, &axis, 1) : NULL;
    return culm_onnx_emit(e, "Slice", inputs, axis ? 4 : 3, NULL, 0, 1);
}

void culm_onnx_write_positions(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const char *rows = first_rows(e, node, 1);
    culm_onnx_out(e, node, false, culm_onnx_emit_2(e, "Add", culm_onnx_in(e, node, 0), rows));
}

/* The rows of table 1 that input 0 selects. */
static const char *gathered(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    return culm_onnx_emit_2(e, "Gather", culm_onnx_in(e, node, 1), culm_onnx_in(e, node, 0));
}

void culm_onnx_write_lookup(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    culm_onnx_out(e, node, false, gathered(e, node));
}

void culm_onnx_write_embedding(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const char *y = gathered(e, node);
    const char *rows = first_rows(e, node, 2);
    culm_onnx_out(e, node, false, culm_onnx_emit_2(e, "Add", y, rows));
}

void culm_onnx_write_gather_rows(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const int64_t last = -1;
    const struct culm_onnx_given batch = CULM_ONNX_I("batch_dims", 1);
    const char *inputs[] = {culm_onnx_in(e, node, 0),
                            culm_onnx_emit_2(e, "Unsqueeze", culm_onnx_in(e, node, 1),
                                             culm_onnx_ints_constant(e, &last, 1))};
    culm_onnx_out(e, node, false, culm_onnx_emit(e, "GatherND", inputs, 2, &batch, 1, 1));
}

void culm_onnx_write_layernorm(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const struct culm_onnx_given given[] = {CULM_ONNX_I("axis", -1),
                                            CULM_ONNX_F("epsilon", node->attributes.eps)};
    const char *inputs[] = {culm_onnx_in(e, node, 0), culm_onnx_in(e, node, 1),
                            culm_onnx_in(e, node, 2)};
    culm_onnx_out(e, node, false, culm_onnx_emit(e, "LayerNormalization", inputs, 3, given, 2, 1));
}

void culm_onnx_write_softmax(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const struct culm_onnx_given last = CULM_ONNX_I("axis", -1);
    const char *x = culm_onnx_in(e, node, 0);
    culm_onnx_out(e, node, false, culm_onnx_emit(e, "Softmax", &x, 1, &last, 1, 1));
}

void culm_onnx_write_matmul(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const char *in[2];
    for (int32_t i = 0; i < 2; i++) {
        int rank = culm_onnx_shape(e, node, i)->rank;
        int64_t perm[4] = {0, 1, 2, 3};
        in[i] = culm_onnx_in(e, node, i);
        if (rank >= 2 && (i == 0 ? node->attributes.trans_a : node->attributes.trans_b)) {
            perm[rank - 1] = rank - 2;
            perm[rank - 2] = rank - 1;
            in[i] = culm_onnx_transpose(e, in[i], perm, rank);
        }
    }
    const char *y = culm_onnx_emit_2(e, "MatMul", in[0], in[1]);
    double scale = node->attributes.scale;
    if (scale != 0 && scale != 1) {
        y = culm_onnx_emit_2(e, "Mul", y, culm_onnx_real_constant(e, scale));
    }
    culm_onnx_out(e, node, false, y);
}

void culm_onnx_write_reduce(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    bool sums = node->attributes.function == CULM_FUNCTION_SUM;
    bool means = node->attributes.function == CULM_FUNCTION_MEAN;
    int64_t axes[4];
    int32_t count = 0;
    for (int64_t i = 0; i < 4; i++) {
        if (node->attributes.axes >> i & 1) {
            axes[count++] = i;
        }
    }
    const struct culm_onnx_given given = CULM_ONNX_INTS("axes", axes, count);
    const char *inputs[] = {culm_onnx_in(e, node, 0), NULL};
    if (sums) { /* the opset from which axes are an input */
        inputs[1] = culm_onnx_ints_constant(e, axes, count);
    }
    culm_onnx_out(
        e, node, false,
        sums ? culm_onnx_emit(e, "ReduceSum", inputs, 2, NULL, 0, 1)
             : culm_onnx_emit(e, means ? "ReduceMean" : "ReduceMax", inputs, 1, &given, 1, 1));
}

/* Leaves the first dimension open: kept, or inferred. */
void culm_onnx_write_reshape(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const struct culm_shape *x = culm_onnx_shape(e, node, 0);
    const struct culm_shape *y = &e->graph->value[node->output[0]].shape;
    int64_t dim[CULM_MAX_RANK];
    for (int i = 0; i < y->rank; i++) {
        dim[i] = i == 0 ? (x->rank > 0 && x->dim[0] == y->dim[0] ? 0 : -1) : y->dim[i];
    }
    const char *in = culm_onnx_in(e, node, 0);
    culm_onnx_out(e, node, false,
                  culm_onnx_emit_2(e, "Reshape", in, culm_onnx_ints_constant(e, dim, y->rank)));
}

void culm_onnx_write_permute(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const int64_t *dims = node->attributes.dims;
    bool image, to_first = dims[1] == 3 && dims[2] == 1 && dims[3] == 2;
    int rank = culm_onnx_shape(e, node, 0)->rank;
    const char *x = culm_onnx_in_either(e, node, 0, &image);
    if (rank == 4 && image && to_first && dims[0] == 0) { /* the plain form is already there */
        culm_onnx_out(e, node, false, x);
        return;
    }
    x = culm_onnx_in(e, node, 0);
    culm_onnx_out(e, node, false, culm_onnx_transpose(e, x, dims, rank));
}

/* Where dimension i of [N,H,W,C] is in [N,C,H,W]. */
static int64_t image_axis(bool image, int64_t axis) {
    static const int64_t to[4] = {0, 2, 3, 1};
    return image && axis >= 0 && axis < 4 ? to[axis] : axis;
}

void culm_onnx_write_concat(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const char *inputs[CULM_NODE_INPUTS_MAX];
    int32_t count = 0;
    bool image = true;
    for (int32_t i = 0; i < CULM_NODE_INPUTS_MAX && node->input[i] >= 0; i++) {
        bool one;
        culm_onnx_in_either(e, node, i, &one);
        image &= one;
        count++;
    }
    for (int32_t i = 0; i < count; i++) {
        inputs[i] = image ? culm_onnx_in_image(e, node, i) : culm_onnx_in(e, node, i);
    }
    const struct culm_onnx_given axis =
        CULM_ONNX_I("axis", image_axis(image, node->attributes.axis));
    culm_onnx_out(e, node, image, culm_onnx_emit(e, "Concat", inputs, count, &axis, 1, 1));
}

void culm_onnx_write_slice(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const struct culm_attributes *a = &node->attributes;
    bool image;
    const char *x = culm_onnx_in_either(e, node, 0, &image);
    const int64_t axis = image_axis(image, a->axis), end = a->start + a->length;
    const char *inputs[] = {x, culm_onnx_ints_constant(e, &a->start, 1),
                            culm_onnx_ints_constant(e, &end, 1),
                            culm_onnx_ints_constant(e, &axis, 1)};
    culm_onnx_out(e, node, image, culm_onnx_emit(e, "Slice", inputs, 4, NULL, 0, 1));
}
