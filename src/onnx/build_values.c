/* The builder: values of the file, in the forms that operators need. See build.h. */
#include "onnx/build.h"

#include "base/grow.h"
#include "onnx/ops.h"

#include <stdio.h>
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
enum culm_status culm_onnx_graph_error(struct culm_onnx_build *build,
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

struct culm_onnx_made *culm_onnx_made_of(struct culm_onnx_build *build,
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
    struct culm_onnx_made *made = culm_onnx_made_of(build, node, i);
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
    struct culm_onnx_made *made = culm_onnx_made_of(build, node, i);
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
    struct culm_onnx_made *made = culm_onnx_made_of(build, node, i);
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
    enum culm_status status = culm_onnx_graph_error(build, node);
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
    enum culm_status status = culm_onnx_graph_error(build, node);
    if (status != CULM_OK) {
        return status;
    }
    return culm_onnx_keep(build, node, image,
                          culm_layer_apply(build->graph, op, inputs, count, attributes));
}
