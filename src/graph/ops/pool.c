/*
 * maxpool: (x [N,H,W,C]) -> y [N,h,w,C], index: where each maximum was.
 * avgpool, adaptive_avgpool: (x) -> y.
 */
#include "graph/ops/operands.h"

#define LARGEST ((int64_t)1 << 24) /* of a kernel's taps, a stride, a dilation */

static struct culm_window window_of(const struct culm_shape *x, const struct culm_shape *y,
                                    const struct culm_node_desc *node) {
    const struct culm_attributes *a = &node->attributes;
    struct culm_window window = {.n = x->dim[0],
                                 .c = x->dim[3],
                                 .count_pad = a->count_pad,
                                 .adaptive = node->op == &culm_op_adaptive_avgpool ||
                                             node->op == &culm_op_adaptive_avgpool_grad};
    for (int d = 0; d < 2; d++) {
        window.in[d] = x->dim[1 + d];
        window.out[d] = y->dim[1 + d];
        window.kernel[d] = a->kernel[d];
        window.stride[d] = a->stride[d];
        window.dilation[d] = a->dilation[d] ? a->dilation[d] : 1;
        window.pad[d] = a->pad[d];
        window.pad_end[d] = a->pad[2 + d];
    }
    return window;
}

/* PyTorch's number of windows: with ceil_mode the last one may reach past the padding, but begins
 * inside the image or the padding before it. 0: the attributes are wrong. */
static int64_t windows(const struct culm_attributes *a, int64_t in, int d) {
    int64_t kernel = a->kernel[d], stride = a->stride[d], before = a->pad[d], after = a->pad[2 + d],
            dilation = a->dilation[d] ? a->dilation[d] : 1;
    if (kernel < 1 || kernel > LARGEST || stride < 1 || stride > LARGEST || dilation < 1 ||
        dilation > LARGEST || in > (int64_t)1 << 40) {
        return 0;
    }
    int64_t reach = dilation * (kernel - 1) + 1;
    if (before < 0 || after < 0 || before >= reach || after >= reach ||
        in + before + after < reach) {
        return 0;
    }
    int64_t out = (in + before + after - reach + (a->ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (a->ceil_mode && (out - 1) * stride >= in + before) {
        out--;
    }
    return out;
}

static enum culm_status infer(struct culm_graph *graph, struct culm_node_desc *node,
                              struct culm_error *error) {
    const struct culm_shape x = *culm_input_shape(graph, node, 0);
    const struct culm_attributes *a = &node->attributes;
    bool largest = node->op == &culm_op_maxpool;
    bool adaptive = node->op == &culm_op_adaptive_avgpool;
    if (x.rank != 4) {
        return culm_shape_error(graph, node, 0, 0, "an image [N,H,W,C] is needed", error);
    }
    struct culm_shape y = x;
    for (int d = 0; d < 2; d++) {
        y.dim[1 + d] = adaptive ? a->dims[d] : windows(a, x.dim[1 + d], d);
        if (y.dim[1 + d] < 1 || y.dim[1 + d] > LARGEST) {
            return culm_shape_error(graph, node, 0, 0,
                                    "no such windows fit; kernel, stride, padding (below the "
                                    "kernel) or output size is wrong",
                                    error);
        }
        if (!largest && !adaptive && a->dilation[d] > 1) {
            return culm_shape_error(graph, node, 0, 0, "means have no dilation", error);
        }
    }
    if (!adaptive && a->kernel[0] * a->kernel[1] > LARGEST) {
        return culm_shape_error(graph, node, 0, 0, "the kernel has more than 2^24 taps", error);
    }
    culm_output_set(graph, node, 0, typed_dtype(graph, node, 0), &y);
    if (largest) {
        bool narrow = a->kernel[0] * a->kernel[1] <= CULM_POOL_BF16_TAPS;
        culm_output_set(graph, node, 1, narrow ? CULM_BF16 : CULM_F32, &y);
    }
    return CULM_OK;
}

static void gradient(struct culm_gradients *g, const struct culm_node_desc *node) {
    int32_t dy = culm_gradient_of(g, node->output[0]), x = node->input[0];
    if (dy < 0 || !typed_wanted(g, node, 0)) {
        return;
    }
    const int32_t inputs[] = {dy, node->output[1]};
    const struct culm_op *op = node->op == &culm_op_maxpool   ? &culm_op_maxpool_grad
                               : node->op == &culm_op_avgpool ? &culm_op_avgpool_grad
                                                              : &culm_op_adaptive_avgpool_grad;
    typed_give(
        g, node, 0,
        culm_gradient_node(g, op, inputs, node->op == &culm_op_maxpool ? 2 : 1, &x, 1, NULL, 0));
}

static struct culm_window forward_window(const struct culm_operands *o) {
    return window_of(typed_shape(o, o->node->input[0]), typed_shape(o, o->node->output[0]),
                     o->node);
}
static struct culm_window backward_window(const struct culm_operands *o) {
    return window_of(typed_shape(o, o->node->output[0]), typed_shape(o, o->node->input[0]),
                     o->node);
}

/* --- largest --- */

static void maxpool(const struct culm_operands *o) {
    const struct culm_window window = forward_window(o);
    CULM_RUN(o->device, maxpool_forward, .y = typed_output(o, 0), .index = typed_output(o, 1),
             .x = typed_input(o, 0), .window = &window);
}

static void maxpool_grad(const struct culm_operands *o) {
    const struct culm_window window = backward_window(o);
    CULM_RUN(o->device, maxpool_backward, .dx = typed_output(o, 0), .dy = typed_input(o, 0),
             .index = typed_input(o, 1), .window = &window);
}

const struct culm_op culm_op_maxpool = {.name = "maxpool",
                                        .precision = CULM_OP_FOLLOWS,
                                        .inputs = 1,
                                        .outputs = 2,
                                        .infer = infer,
                                        .gradient = gradient,
                                        .execute = maxpool};
/* (dy, index) -> dx */
const struct culm_op culm_op_maxpool_grad = {
    .name = "maxpool_grad", .inputs = 2, .outputs = 1, .execute = maxpool_grad};

/* --- means --- */

static void avgpool(const struct culm_operands *o) {
    const struct culm_window window = forward_window(o);
    CULM_RUN(o->device, avgpool_forward, .y = typed_output(o, 0), .x = typed_input(o, 0),
             .window = &window);
}

static void avgpool_grad(const struct culm_operands *o) {
    const struct culm_window window = backward_window(o);
    CULM_RUN(o->device, avgpool_backward, .dx = typed_output(o, 0), .dy = typed_input(o, 0),
             .window = &window);
}

const struct culm_op culm_op_avgpool = {.name = "avgpool",
                                        .precision = CULM_OP_FOLLOWS,
                                        .inputs = 1,
                                        .outputs = 1,
                                        .infer = infer,
                                        .gradient = gradient,
                                        .execute = avgpool};
const struct culm_op culm_op_avgpool_grad = {
    .name = "avgpool_grad", .inputs = 1, .outputs = 1, .execute = avgpool_grad};
const struct culm_op culm_op_adaptive_avgpool = {.name = "adaptive_avgpool",
                                                 .precision = CULM_OP_FOLLOWS,
                                                 .inputs = 1,
                                                 .outputs = 1,
                                                 .infer = infer,
                                                 .gradient = gradient,
                                                 .execute = avgpool};
const struct culm_op culm_op_adaptive_avgpool_grad = {
    .name = "adaptive_avgpool_grad", .inputs = 1, .outputs = 1, .execute = avgpool_grad};
