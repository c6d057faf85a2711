/* Writing our operators for images and attention as ONNX. See export.h. */
#include "onnx/rows.h"

#include <float.h>
#include <math.h>

void culm_onnx_write_conv(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const struct culm_attributes *a = &node->attributes;
    const struct culm_shape *w = culm_onnx_shape(e, node, 1);
    const struct culm_onnx_given given[] = {
        CULM_ONNX_INTS("kernel_shape", w->dim + 2, 2), CULM_ONNX_INTS("strides", a->stride, 2),
        CULM_ONNX_INTS("dilations", a->dilation, 2), CULM_ONNX_INTS("pads", a->pad, 4),
        CULM_ONNX_I("group", a->groups ? a->groups : 1)};
    const char *inputs[] = {culm_onnx_in_image(e, node, 0), culm_onnx_in(e, node, 1),
                            node->input[2] < 0 ? NULL : culm_onnx_in(e, node, 2)};
    culm_onnx_out(e, node, true, culm_onnx_emit(e, "Conv", inputs, inputs[2] ? 3 : 2, given, 5, 1));
}

static void pool(struct culm_onnx_exporter *e, const struct culm_node_desc *node, bool largest) {
    const struct culm_attributes *a = &node->attributes;
    struct culm_onnx_given given[5] = {
        CULM_ONNX_INTS("kernel_shape", a->kernel, 2), CULM_ONNX_INTS("strides", a->stride, 2),
        CULM_ONNX_INTS("pads", a->pad, 4), CULM_ONNX_I("ceil_mode", a->ceil_mode)};
    given[4] = largest ? CULM_ONNX_INTS("dilations", a->dilation, 2)
                       : CULM_ONNX_I("count_include_pad", a->count_pad);
    const char *x = culm_onnx_in_image(e, node, 0);
    bool dilated = largest && a->dilation[0] > 0;
    culm_onnx_out(e, node, true,
                  culm_onnx_emit(e, largest ? "MaxPool" : "AveragePool", &x, 1, given,
                                 largest && !dilated ? 4 : 5, 1));
}

void culm_onnx_write_maxpool(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    pool(e, node, true);
}

void culm_onnx_write_avgpool(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    pool(e, node, false);
}

/* Pooling with equal windows, or over the whole image. */
void culm_onnx_write_adaptive_avgpool(struct culm_onnx_exporter *e,
                                      const struct culm_node_desc *node) {
    const struct culm_shape *x = culm_onnx_shape(e, node, 0);
    const int64_t *dims = node->attributes.dims;
    const char *in = culm_onnx_in_image(e, node, 0);
    if (dims[0] == 1 && dims[1] == 1) {
        culm_onnx_out(e, node, true, culm_onnx_emit_1(e, "GlobalAveragePool", in));
        return;
    }
    if (x->dim[1] % dims[0] || x->dim[2] % dims[1]) {
        culm_onnx_cannot(e, node, "windows of unequal sizes cannot be written");
        return;
    }
    const int64_t kernel[2] = {x->dim[1] / dims[0], x->dim[2] / dims[1]};
    const struct culm_onnx_given given[] = {CULM_ONNX_INTS("kernel_shape", kernel, 2),
                                            CULM_ONNX_INTS("strides", kernel, 2)};
    culm_onnx_out(e, node, true, culm_onnx_emit(e, "AveragePool", &in, 1, given, 2, 1));
}

void culm_onnx_write_batchnorm(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const struct culm_attributes *a = &node->attributes;
    bool image = culm_onnx_shape(e, node, 0)->rank == 4, training = !a->inference;
    const struct culm_onnx_given given[] = {CULM_ONNX_F("epsilon", a->eps),
                                            CULM_ONNX_F("momentum", 1 - a->momentum),
                                            CULM_ONNX_I("training_mode", training)};
    const char *inputs[5] = {image ? culm_onnx_in_image(e, node, 0) : culm_onnx_in(e, node, 0)};
    for (int32_t i = 1; i < 5; i++) {
        inputs[i] = culm_onnx_in(e, node, i);
    }
    const char *y = culm_onnx_emit(e, "BatchNormalization", inputs, 5, given, training ? 3 : 2,
                                   training ? 3 : 1);
    if (node->input[5] >= 0) {
        y = culm_onnx_emit_2(e, "Add", y,
                             image ? culm_onnx_in_image(e, node, 5) : culm_onnx_in(e, node, 5));
    }
    culm_onnx_out(e, node, image, culm_onnx_function(e, node, y, a->function));
}

void culm_onnx_write_pad(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const int64_t *p = node->attributes.pad;
    const int64_t pads[8] = {0, 0, p[0], p[1], 0, 0, p[2], p[3]};
    culm_onnx_out(e, node, true,
                  culm_onnx_emit_3(e, "Pad", culm_onnx_in_image(e, node, 0),
                                   culm_onnx_ints_constant(e, pads, 8),
                                   culm_onnx_real_constant(e, node->attributes.value)));
}

/* Resizes by factors, since the number of samples is free; these must give the exact size. */
void culm_onnx_write_resize(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const struct culm_attributes *a = &node->attributes;
    const struct culm_shape *x = culm_onnx_shape(e, node, 0);
    bool nearest = a->function == CULM_FUNCTION_NONE;
    float factor[4] = {1, 1, 0, 0};
    for (int d = 0; d < 2; d++) {
        factor[2 + d] = (float)a->dims[d] / (float)x->dim[1 + d];
        if ((int64_t)(factor[2 + d] * (float)x->dim[1 + d]) != a->dims[d]) {
            culm_onnx_cannot(e, node, "its factor is not a constant in the file");
            return;
        }
    }
    const struct culm_onnx_given given[] = {
        {.name = "mode", .text = nearest ? "nearest" : "linear"},
        {.name = "coordinate_transformation_mode",
         .text = nearest            ? "asymmetric"
                 : a->align_corners ? "align_corners"
                                    : "half_pixel"},
        {.name = "nearest_mode", .text = "floor"}};
    const char *inputs[] = {culm_onnx_in_image(e, node, 0), NULL,
                            culm_onnx_reals_constant(e, factor, 4)};
    culm_onnx_out(e, node, true, culm_onnx_emit(e, "Resize", inputs, 3, given, 3, 1));
}

/* [B,T,H*D] -> [B,H,T,D], or [B,H,D,T] */
static const char *heads(struct culm_onnx_exporter *e, const char *x, int64_t count, int64_t width,
                         bool flipped) {
    const int64_t dim[4] = {0, 0, count, width};
    const int64_t perm[4] = {0, 2, flipped ? 3 : 1, flipped ? 1 : 3};
    x = culm_onnx_emit_2(e, "Reshape", x, culm_onnx_ints_constant(e, dim, 4));
    return culm_onnx_transpose(e, x, perm, 4);
}

/* The causal mask [T,T]: true where the key is not behind the query. */
static const char *triangle(struct culm_onnx_exporter *e, int64_t length) {
    if (!e->causal || e->causal_length != length) {
        const int64_t zero = 0, one = 1;
        const char *axis[2] = {culm_onnx_ints_constant(e, &zero, 1),
                               culm_onnx_ints_constant(e, &one, 1)};
        const char *ends[3] = {culm_onnx_whole_constant(e, 0), culm_onnx_whole_constant(e, length),
                               culm_onnx_whole_constant(e, 1)};
        const char *count = culm_onnx_emit(e, "Range", ends, 3, NULL, 0, 1);
        const char *key = culm_onnx_emit_2(e, "Unsqueeze", count, axis[0]);
        const char *query = culm_onnx_emit_2(e, "Unsqueeze", count, axis[1]);
        e->causal = culm_onnx_emit_2(e, "LessOrEqual", key, query);
        e->causal_length = length;
    }
    return e->causal;
}

void culm_onnx_write_attention(struct culm_onnx_exporter *e, const struct culm_node_desc *node) {
    const struct culm_attributes *a = &node->attributes;
    bool whole = node->input[1] < 0;
    const struct culm_shape *x = culm_onnx_shape(e, node, 0);
    int64_t width = x->dim[2] / (whole ? 3 : 1), head = width / a->heads;
    const char *in[3], *least = culm_onnx_real_constant(e, -(double)FLT_MAX);
    if (whole) {
        const struct culm_onnx_given axis = CULM_ONNX_I("axis", 2);
        const char *qkv = culm_onnx_in(e, node, 0);
        in[0] = culm_onnx_emit(e, "Split", &qkv, 1, &axis, 1, 3);
        in[1] = culm_onnx_next_name(e, in[0], 1);
        in[2] = culm_onnx_next_name(e, in[0], 2);
    } else {
        for (int32_t i = 0; i < 3; i++) {
            in[i] = culm_onnx_in(e, node, i);
        }
    }
    const char *s = culm_onnx_emit_2(e, "MatMul", heads(e, in[0], a->heads, head, false),
                                     heads(e, in[1], a->heads, head, true));
    s = culm_onnx_emit_2(e, "Mul", s, culm_onnx_real_constant(e, 1 / sqrt((double)head)));
    if (a->causal) {
        s = culm_onnx_emit_3(e, "Where", triangle(e, x->dim[1]), s, least);
    }
    if (node->input[3] >= 0) {
        const int64_t axes[2] = {1, 2};
        const char *mask = culm_onnx_in(e, node, 3);
        const struct culm_onnx_given to_bool = CULM_ONNX_I("to", CULM_ONNX_BOOL);
        mask = culm_onnx_emit(e, "Cast", &mask, 1, &to_bool, 1, 1);
        mask = culm_onnx_emit_2(e, "Unsqueeze", mask, culm_onnx_ints_constant(e, axes, 2));
        s = culm_onnx_emit_3(e, "Where", mask, s, least);
    }
    const struct culm_onnx_given last = CULM_ONNX_I("axis", -1);
    const int64_t back[4] = {0, 2, 1, 3}, joined[3] = {0, 0, width};
    s = culm_onnx_emit(e, "Softmax", &s, 1, &last, 1, 1);
    if (a->dropout > 0) {
        s = culm_onnx_emit_3(e, "Dropout", s, culm_onnx_real_constant(e, a->dropout),
                             culm_onnx_true_constant(e));
    }
    s = culm_onnx_emit_2(e, "MatMul", s, heads(e, in[2], a->heads, head, false));
    s = culm_onnx_transpose(e, s, back, 4);
    culm_onnx_out(e, node, false,
                  culm_onnx_emit_2(e, "Reshape", s, culm_onnx_ints_constant(e, joined, 3)));
}
