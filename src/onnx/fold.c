/* Shapes and constants, node by node; and probing. See fold.h. */
#include "onnx/fold.h"

#include "onnx/ops.h"
#include "onnx/read.h"

#include <stdlib.h>
#include <string.h>

struct budget {
    uint64_t live, live_max, total, total_max;
};

static struct budget budget_of(const struct culm_onnx_sizes *sizes) {
    return (struct budget){
        .live_max = sizes->live_bytes_max ? sizes->live_bytes_max : (uint64_t)4 << 30,
        .total_max = sizes->total_bytes_max ? sizes->total_bytes_max : (uint64_t)256 << 30};
}

/* Allocates the numbers of an output together with their description. */
static enum culm_status tensor_for(const struct culm_onnx_call *call, struct budget *budget,
                                   struct culm_onnx_tensor **ret_tensor) {
    const struct culm_onnx_operand *out = &call->out[0];
    size_t size = culm_onnx_type_bytes(out->type);
    uint64_t bytes = (uint64_t)culm_onnx_count(out) * size; /* below 2^52: culm_onnx_set */
    if (!size || bytes > budget->live_max - budget->live ||
        bytes > budget->total_max - budget->total) {
        return culm_onnx_node_error(call->graph, call->node, CULM_ERR_UNSUPPORTED, call->error,
                                    "a constant of %lld elements of %s is too large",
                                    (long long)culm_onnx_count(out),
                                    culm_onnx_type_name(out->type));
    }
    struct culm_onnx_tensor *tensor = calloc(1, sizeof *tensor + bytes);
    if (!tensor) {
        return culm_onnx_no_memory(call->graph, call->error);
    }
    *tensor = (struct culm_onnx_tensor){.name = "",
                                        .type = out->type,
                                        .rank = out->rank,
                                        .elements = culm_onnx_count(out),
                                        .data = tensor + 1,
                                        .bytes = bytes};
    memcpy(tensor->dim, out->dim, sizeof tensor->dim);
    budget->live += bytes;
    budget->total += bytes;
    *ret_tensor = tensor;
    return CULM_OK;
}

/* SequenceAt of a SplitToSequence into equal parts is a slice. */
static bool sequence_item(struct culm_onnx_graph *graph, struct culm_onnx_node *node) {
    struct culm_onnx_node *list = culm_onnx_maker(graph, culm_onnx_input(graph, node, 0));
    int32_t index = culm_onnx_input(graph, node, 1);
    const struct culm_onnx_tensor *at = index >= 0 ? graph->value[index].data : NULL;
    if (!list || strcmp(list->op, "SplitToSequence") != 0 || !at || !at->data ||
        at->elements != 1 || list->inputs < 2) {
        return false;
    }
    int32_t x = culm_onnx_input(graph, list, 0), part = culm_onnx_input(graph, list, 1);
    const struct culm_onnx_tensor *parts = part >= 0 ? graph->value[part].data : NULL;
    const struct culm_onnx_value *v = x >= 0 ? &graph->value[x] : NULL;
    if (!parts || !parts->data || !v || v->rank < 1) {
        return false;
    }
    int64_t axis = culm_onnx_int(list, "axis", 0), i = culm_onnx_get_int(at, 0), start = 0;
    axis = axis < 0 ? axis + v->rank : axis;
    if (axis < 0 || axis >= v->rank || i < 0 || i > 1 << 20) {
        return false;
    }
    int64_t whole = v->dim[axis], length = 0;
    for (int64_t k = 0; k <= i; k++) {
        start += length;
        if (parts->rank > 0 && k >= parts->elements) {
            return false;
        }
        length = culm_onnx_get_int(parts, parts->rank > 0 ? k : 0);
        if (length < 1 || start >= whole) {
            return false;
        }
        length = length > whole - start ? whole - start : length;
    }
    node->domain = CULM_ONNX_OURS;
    node->op = "slice";
    node->culm = (struct culm_attributes){.axis = axis, .start = start, .length = length};
    node->input[0] = x;
    node->inputs = 1;
    return true;
}

/* Our operators that passes put into shape arithmetic. */
static bool infer_ours(struct culm_onnx_call *call) {
    const struct culm_onnx_value *y = &call->graph->value[call->node->output[0]];
    if (strcmp(call->node->op, "slice") == 0) {
        call->out[0] = call->in[0];
        call->out[0].data = NULL;
        call->out[0].dim[call->node->culm.axis] = call->node->culm.length;
        return true;
    }
    return strcmp(call->node->op, "reshape") != 0 ||
           culm_onnx_set(call, 0, call->in[0].type, y->rank, y->dim);
}

static void evaluate_ours(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    bool sliced = strcmp(call->node->op, "slice") == 0;
    int64_t axis = sliced ? call->node->culm.axis : 0, inner = 1;
    int64_t length = sliced ? call->node->culm.length : 1, whole = sliced ? x->dim[axis] : 1;
    for (int i = (int)axis + 1; i < x->rank && sliced; i++) {
        inner *= x->dim[i];
    }
    for (int64_t i = 0; i < call->out[0].data->elements; i++) {
        int64_t row = i / inner, outer = row / length;
        int64_t from = (outer * whole + row % length + call->node->culm.start) * inner + i % inner;
        culm_onnx_put_from(call->out[0].data, i, x->data, sliced ? from : i);
    }
}

static const struct culm_onnx_op ours = {"reshape, slice", 1, infer_ours, evaluate_ours};

static bool call_infer(struct culm_onnx_call *call, const struct culm_onnx_op *op) {
    if (call->inputs < op->inputs_min) {
        return culm_onnx_refuse(call, "%d inputs, at least %d are needed", call->inputs,
                                op->inputs_min);
    }
    for (int32_t i = 0; i < op->inputs_min; i++) {
        if (!call->in[i].there) {
            return culm_onnx_refuse(call, "input %d is missing", i);
        }
    }
    for (int32_t i = 0; i < call->inputs; i++) {
        if (call->in[i].there && call->in[i].rank < 0) { /* then the outputs are constant, too */
            call->out[0].type = call->in[0].type;
            return true;
        }
    }
    return op->infer(call);
}

/* Whether the outputs can be computed now. */
static bool all_known(const struct culm_onnx_call *call, const struct culm_onnx_op *op) {
    bool shape_alone = strcmp(call->node->op, "Shape") == 0 || strcmp(call->node->op, "Size") == 0;
    bool like = strcmp(call->node->op, "CastLike") == 0;
    if (!op || !op->evaluate || call->outputs != 1 || call->out[0].rank < 0) {
        return false;
    }
    for (int32_t i = 0; i < call->inputs && !shape_alone; i++) {
        if (call->in[i].there && !call->in[i].data && !(like && i == 1)) {
            return false;
        }
    }
    return true;
}

/* Infers the shapes of a node's outputs, and computes their numbers if all inputs are known. */
static enum culm_status run(struct culm_onnx_call *call, struct budget *budget) {
    const struct culm_onnx_node *node = call->node;
    const struct culm_onnx_op *op = NULL;
    if (!node->domain[0]) {
        op = culm_onnx_op_find(node->op);
    } else if (strcmp(node->domain, CULM_ONNX_OURS) == 0 &&
               (strcmp(node->op, "reshape") == 0 || strcmp(node->op, "slice") == 0)) {
        op = &ours;
    }
    for (int32_t i = 0; i < call->outputs; i++) {
        call->out[i] = (struct culm_onnx_operand){.there = true, .rank = -1};
    }
    if (!op) {
        return CULM_OK; /* unknown: an error only if it is needed in the end */
    }
    if (!call_infer(call, op)) {
        return CULM_ERR_FORMAT;
    }
    if (!all_known(call, op)) {
        return CULM_OK;
    }
    struct culm_onnx_tensor *tensor = NULL;
    enum culm_status status = tensor_for(call, budget, &tensor);
    if (status == CULM_OK) {
        call->out[0].data = tensor;
        op->evaluate(call);
    }
    return status;
}

/* Operands, reused from call to call. */
struct operands {
    struct culm_onnx_operand *operand;
    int32_t capacity;
};

static bool make_room(struct operands *operands, int64_t count) {
    if (count <= operands->capacity) {
        return true;
    }
    struct culm_onnx_operand *grown =
        realloc(operands->operand, (size_t)(2 * count) * sizeof *grown);
    if (!grown) {
        return false;
    }
    operands->operand = grown;
    operands->capacity = (int32_t)(2 * count);
    return true;
}

static struct culm_onnx_operand operand_of(const struct culm_onnx_value *value) {
    struct culm_onnx_operand operand = {.there = true, .type = value->type, .rank = value->rank};
    memcpy(operand.dim, value->dim, sizeof operand.dim);
    operand.data = value->constant && value->data && value->data->data ? value->data : NULL;
    return operand;
}

static enum culm_status set_inputs(struct culm_onnx_graph *graph,
                                   const struct culm_onnx_sizes *sizes, struct culm_error *error) {
    for (int32_t k = 0; k < graph->input_count; k++) {
        struct culm_onnx_value *v = &graph->value[graph->input[k]];
        bool whole = !culm_onnx_is_real(v->type);
        int64_t count = 1;
        if (v->rank < 0) {
            return culm_error_set(error, CULM_ERR_FORMAT, "onnx '%s': input '%s' has no shape",
                                  graph->path, v->name);
        }
        /* channels last, as TensorFlow has them: three dimensions of an image are known by the third */
        bool last = v->rank == 4 && !whole && v->dim[1] < 0 && (v->dim[3] == 1 || v->dim[3] == 3);
        for (int i = 0; i < v->rank; i++) {
            int64_t given = i == 0                   ? sizes->batch
                            : i == 1 && last         ? sizes->height
                            : i == 2 && last         ? sizes->width
                            : i == 1 && whole        ? sizes->context
                            : i == 2 && v->rank == 4 ? sizes->height
                            : i == 3                 ? sizes->width
                                                     : 0;
            if (v->dim[i] < 0 && given < 1) {
                const char *what = i == 0 ? "a batch" : whole ? "a context" : "an image size";
                return culm_error_set(
                    error, CULM_ERR_CONFIG,
                    "onnx '%s': input '%s', dimension %d%s%s%s: is free and its size is not given; "
                    "give %s, or export with fixed sizes",
                    graph->path, v->name, i, v->dim_name[i][0] ? " ('" : "", v->dim_name[i],
                    v->dim_name[i][0] ? "')" : "", what);
            }
            v->dim[i] = v->dim[i] < 0 ? given : v->dim[i];
            if (__builtin_mul_overflow(count, v->dim[i], &count) || count > (int64_t)1 << 40) {
                return culm_error_set(error, CULM_ERR_FORMAT, "onnx '%s': input '%s' is too large",
                                      graph->path, v->name);
            }
        }
    }
    return CULM_OK;
}

/* Whether a gradient at the outputs goes on to input i. */
static bool passes_gradient(const struct culm_onnx_node *node, int32_t i) {
    static const char *const none[] = {
        "Equal", "Greater", "GreaterOrEqual", "Less",           "LessOrEqual", "Not",  "And",
        "Or",    "Xor",     "IsNaN",          "Shape",          "Size",        "Sign", "Floor",
        "Ceil",  "Round",   "Range",          "ConstantOfShape"};
    for (size_t k = 0; k < sizeof none / sizeof *none; k++) {
        if (!node->domain[0] && strcmp(node->op, none[k]) == 0) {
            return false;
        }
    }
    if (strcmp(node->op, "Cast") == 0) {
        int64_t to = culm_onnx_int(node, "to", 0);
        return to < 0 || to > 63 || culm_onnx_is_real((int)to);
    }
    if (strcmp(node->op, "Resize") == 0) { /* what is read, not its factors */
        return i == 0;
    }
    return i > 0 || strcmp(node->op, "Where") != 0;
}

/* Decides which initializers are constants: integers, single floats, and floats that no gradient
 * reaches, such as the triangle that a mask is compared with. Training changes the others. */
static bool set_constants(struct culm_onnx_graph *graph) {
    bool *reached = calloc((size_t)graph->value_count + 1, 1);
    if (!reached) {
        return false;
    }
    for (int32_t i = 0; i < graph->output_count; i++) {
        reached[culm_onnx_at(graph, graph->output[i])] = true;
    }
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        const struct culm_onnx_node *node = &graph->node[i];
        bool any = false;
        for (int32_t k = 0; k < node->outputs; k++) {
            any |= node->output[k] >= 0 && reached[node->output[k]];
        }
        for (int32_t k = 0; k < node->inputs && any; k++) {
            int32_t input = culm_onnx_input(graph, node, k);
            if (input >= 0 && passes_gradient(node, k)) {
                reached[input] = true;
            }
        }
    }
    for (int32_t i = 0; i < graph->value_count; i++) {
        struct culm_onnx_value *v = &graph->value[i];
        if (v->kind == CULM_ONNX_INITIALIZER) {
            v->constant = !culm_onnx_is_real(v->type) || v->rank == 0 || !reached[i];
        }
    }
    free(reached);
    return true;
}

static void keep(struct culm_onnx_graph *graph, const struct culm_onnx_node *node,
                 const struct culm_onnx_call *call) {
    for (int32_t k = 0; k < node->outputs; k++) {
        if (node->output[k] < 0) {
            continue;
        }
        struct culm_onnx_value *v = &graph->value[node->output[k]];
        v->type = call->out[k].type;
        v->rank = call->out[k].rank;
        memcpy(v->dim, call->out[k].dim, sizeof v->dim);
        v->data = call->out[k].data;
        v->constant = v->owned = v->data != NULL;
    }
}

/* After a node has folded: frees what only it still needed. */
static void give_back(struct culm_onnx_graph *graph, const struct culm_onnx_node *node,
                      struct budget *budget) {
    for (int32_t k = 0; k < node->inputs; k++) {
        int32_t input = culm_onnx_input(graph, node, k);
        struct culm_onnx_value *v = input >= 0 ? &graph->value[input] : NULL;
        if (v && --v->uses == 0 && v->owned) {
            budget->live -= v->data->bytes;
            free((void *)(uintptr_t)v->data);
            v->data = NULL;
            v->owned = v->constant = false;
        }
    }
}

enum culm_status culm_onnx_fold(struct culm_onnx_graph *graph, const struct culm_onnx_sizes *sizes,
                                struct culm_error *error) {
    struct budget budget = budget_of(sizes);
    struct operands operands = {0};
    enum culm_status status = set_inputs(graph, sizes, error);
    if (status == CULM_OK && !set_constants(graph)) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory", graph->path);
    }
    culm_onnx_count_uses(graph);
    for (int32_t i = 0; i < graph->node_count && status == CULM_OK; i++) {
        struct culm_onnx_node *node = &graph->node[i];
        if (node->dead) {
            continue;
        }
        if (node->output[0] < 0) { /* passes and builders need not look at it */
            status = culm_onnx_node_error(graph, node, CULM_ERR_UNSUPPORTED, error,
                                          "has no first output");
            break;
        }
        if (!node->domain[0] && strcmp(node->op, "SequenceAt") == 0) {
            sequence_item(graph, node);
        }
        if (!make_room(&operands, (int64_t)node->inputs + node->outputs)) {
            status =
                culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory", graph->path);
            break;
        }
        struct culm_onnx_call call = {.graph = graph,
                                      .node = node,
                                      .in = operands.operand,
                                      .out = operands.operand + node->inputs,
                                      .inputs = node->inputs,
                                      .outputs = node->outputs,
                                      .error = error};
        for (int32_t k = 0; k < node->inputs; k++) {
            int32_t input = culm_onnx_input(graph, node, k);
            operands.operand[k] = input < 0 ? (struct culm_onnx_operand){.rank = 0}
                                            : operand_of(&graph->value[input]);
        }
        status = run(&call, &budget);
        if (status == CULM_OK) {
            keep(graph, node, &call);
            if (call.out[0].data) {
                node->dead = true;
                give_back(graph, node, &budget);
            }
        }
    }
    free(operands.operand);
    culm_onnx_count_uses(graph);
    return status;
}

/* Marks the nodes that `value` depends on. */
static bool *ancestors(const struct culm_onnx_graph *graph, int32_t value) {
    bool *wanted = calloc((size_t)graph->value_count + 1, 1);
    value = culm_onnx_at(graph, value);
    if (!wanted || value < 0) {
        free(wanted);
        return NULL;
    }
    wanted[value] = true;
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        const struct culm_onnx_node *node = &graph->node[i];
        bool needed = false;
        for (int32_t k = 0; k < node->outputs && !node->dead; k++) {
            needed |= node->output[k] >= 0 && wanted[node->output[k]] &&
                      !graph->value[node->output[k]].data;
        }
        for (int32_t k = 0; k < node->inputs && needed; k++) {
            int32_t input = culm_onnx_input(graph, node, k);
            if (input >= 0) {
                wanted[input] = true;
            }
        }
    }
    return wanted;
}

int32_t culm_onnx_sources(const struct culm_onnx_graph *graph, int32_t value, int32_t *ret_inputs,
                          int32_t max) {
    bool *wanted = ancestors(graph, value);
    int32_t count = 0;
    for (int32_t i = 0; i < graph->value_count && wanted && count >= 0; i++) {
        const struct culm_onnx_value *v = &graph->value[i];
        if (wanted[i] && v->kind == CULM_ONNX_INITIALIZER && !v->constant) {
            count = -1;
        } else if (wanted[i] && v->kind == CULM_ONNX_INPUT) {
            if (count < max) {
                ret_inputs[count] = i;
            }
            count++;
        }
    }
    free(wanted);
    return wanted ? count : -1;
}

/* Runs a node on what is known of its inputs, and keeps the results. */
static enum culm_status probe_node(const struct culm_onnx_graph *graph,
                                   const struct culm_onnx_node *node, struct operands *operands,
                                   struct culm_onnx_operand *env, struct budget *budget,
                                   struct culm_error *error) {
    if (!make_room(operands, node->inputs)) {
        return CULM_ERR_MEMORY;
    }
    struct culm_onnx_operand out;
    struct culm_onnx_call call = {.graph = graph,
                                  .node = node,
                                  .in = operands->operand,
                                  .out = &out,
                                  .inputs = node->inputs,
                                  .outputs = 1,
                                  .error = error};
    for (int32_t k = 0; k < node->inputs; k++) {
        int32_t input = culm_onnx_input(graph, node, k);
        operands->operand[k] = input < 0 ? (struct culm_onnx_operand){.rank = 0} : env[input];
    }
    enum culm_status status = run(&call, budget);
    if (status == CULM_OK) {
        env[node->output[0]] = out;
    }
    return status;
}

enum culm_status culm_onnx_probe(const struct culm_onnx_graph *graph, int32_t value,
                                 const struct culm_onnx_guess *guesses, int32_t count,
                                 struct culm_onnx_tensor **ret_data, struct culm_error *error) {
    struct budget budget = budget_of(&(struct culm_onnx_sizes){0});
    struct culm_onnx_operand *env = calloc((size_t)graph->value_count + 1, sizeof *env);
    bool *wanted = ancestors(graph, value);
    struct operands operands = {0};
    enum culm_status status = env && wanted ? CULM_OK : CULM_ERR_MEMORY;
    value = culm_onnx_at(graph, value);
    for (int32_t i = 0; i < graph->value_count && status == CULM_OK; i++) {
        env[i] = operand_of(&graph->value[i]);
    }
    for (int32_t k = 0; k < count && status == CULM_OK; k++) {
        env[guesses[k].value].data = guesses[k].data;
    }
    for (int32_t i = 0; i < graph->node_count && status == CULM_OK; i++) {
        const struct culm_onnx_node *node = &graph->node[i];
        if (!node->dead && node->outputs == 1 && node->output[0] >= 0 && wanted[node->output[0]] &&
            !env[node->output[0]].data) {
            status = probe_node(graph, node, &operands, env, &budget, error);
        }
    }
    if (status == CULM_ERR_MEMORY && (!error || error->status != status)) {
        culm_error_set(error, status, "onnx '%s': out of memory", graph->path);
    }
    if (status == CULM_OK && (!env[value].data || graph->value[value].node < 0)) {
        status = culm_error_set(error, CULM_ERR_UNSUPPORTED,
                                "onnx '%s': '%s' cannot be computed beforehand", graph->path,
                                graph->value[value].name);
    }
    for (int32_t i = 0; i < graph->value_count && env; i++) {
        /* frees what was computed here, but not guesses and the graph's own data */
        bool made = env[i].data && !graph->value[i].data && graph->value[i].kind == CULM_ONNX_MADE;
        if (made && i == value && status == CULM_OK) {
            *ret_data = (struct culm_onnx_tensor *)(uintptr_t)env[i].data;
        } else if (made) {
            free((void *)(uintptr_t)env[i].data);
        }
    }
    free(operands.operand);
    free(wanted);
    free(env);
    return status;
}
