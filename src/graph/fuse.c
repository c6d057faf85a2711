/* Graphs for inference: what follows a convolution goes into it. See graph.h. */
#include "device/infer.h"
#include "graph/ops.h"
#include "graph/ops/conv.h"

#include <stdlib.h>
#include <string.h>

/* A convolution and what goes with it. */
struct chain {
    int32_t conv, norm; /* nodes; norm -1: none */
    int32_t image;      /* a value: what it reads */
    int32_t coarse;     /* a value that, enlarged, comes before that; -1: none */
    int32_t residual;   /* a value; -1: none */
    int32_t result;     /* the value that the last node makes */
    enum culm_function function;
    double alpha;
};

struct fuse {
    const struct culm_graph *from;
    struct culm_graph *to;
    int32_t *readers, *reader; /* of each value: how many, and the last of them; an output is one */
    int32_t *value;            /* of each value: the value in `to`, or -1 */
    int32_t *chain_at;         /* of each node: the chain that ends with it, or -1 */
    bool *gone;                /* of each node: it is part of a chain that ends elsewhere */
    bool *turned;              /* of each value: weights of a chain */
    struct chain *chain;
    int32_t chains;
};

static void count_readers(struct fuse *f) {
    const struct culm_graph *g = f->from;
    for (int32_t i = 0; i < g->node_count; i++) {
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
            int32_t value = g->node[i].input[k];
            if (value >= 0) {
                f->readers[value]++;
                f->reader[value] = i;
            }
        }
    }
    for (int32_t i = 0; i < g->output_count; i++) {
        f->readers[g->output[i].value]++;
        f->reader[g->output[i].value] = -1;
    }
    for (int32_t v = 0; v < g->value_count; v++) {
        if (g->value[v].same_as >= 0) { /* another name of the memory reads it too */
            f->readers[g->value[v].same_as]++;
        }
    }
}

/* The node that alone reads `value`; NULL: none, or it belongs to a chain already. */
static const struct culm_node_desc *next(const struct fuse *f, int32_t value) {
    int32_t node = f->readers[value] == 1 ? f->reader[value] : -1;
    return node < 0 || f->gone[node] || f->chain_at[node] >= 0 ? NULL : &f->from->node[node];
}

static bool is_relu(enum culm_function function, double alpha) {
    return function == CULM_FUNCTION_RELU || function == CULM_FUNCTION_RELU6 ||
           (function == CULM_FUNCTION_LEAKY_RELU && alpha >= 0);
}

/* The other operand of a sum of equal shapes; -1: it is none. */
static int32_t other_of(const struct culm_graph *g, const struct culm_node_desc *node,
                        int32_t value) {
    bool sum = node->op == &culm_op_add ||
               (node->op == &culm_op_binary && node->attributes.function == CULM_FUNCTION_ADD);
    if (!sum || node->input[0] == node->input[1]) {
        return -1;
    }
    int32_t other = node->input[node->input[0] == value];
    return culm_shape_equal(&g->value[other].shape, &g->value[value].shape) &&
                   g->value[other].dtype == CULM_F32 && g->value[other].kind != CULM_VALUE_PARAM
               ? other
               : -1;
}

static bool eligible(const struct fuse *f, const struct culm_node_desc *node) {
    const struct culm_graph *g = f->from;
    if (node->op != &culm_op_conv || g->value[node->input[0]].dtype != CULM_F32 ||
        g->value[node->output[0]].dtype != CULM_F32 || f->readers[node->input[1]] != 1) {
        return false;
    }
    struct culm_conv v = culm_conv_of(g, node);
    return culm_conv_infer_possible(&v);
}

/* The node of this operator that makes `value` for one reader alone; -1: none. */
static int32_t maker_of(const struct fuse *f, int32_t value, const struct culm_op *op) {
    const struct culm_graph *g = f->from;
    for (int32_t i = 0; i < g->node_count && f->readers[value] == 1; i++) {
        if (g->node[i].op == op && g->node[i].output[0] == value) {
            return i;
        }
    }
    return -1;
}

/* Whether a map is enlarged so that each of its pixels becomes a rectangle, all of one size. */
static bool repeats(const struct culm_graph *g, const struct culm_node_desc *resize) {
    const struct culm_shape *x = culm_input_shape(g, resize, 0);
    const int64_t *size = resize->attributes.dims;
    const struct culm_resize how = {.in = {x->dim[1], x->dim[2]}, .out = {size[0], size[1]}};
    bool all = resize->attributes.function == CULM_FUNCTION_NONE;
    for (int d = 0; d < 2 && all; d++) {
        all = how.out[d] % how.in[d] == 0;
        for (int64_t o = 0; o < how.out[d] && all; o++) {
            int64_t low, high;
            (void)culm_resize_at(&how, d, o, &low, &high);
            all = low == o / (how.out[d] / how.in[d]);
        }
    }
    return all;
}

/* A convolution that alone reads concat(resize(coarse), image), as detectors do, reads these two instead. */
static void find_coarse(struct fuse *f, struct chain *c) {
    const struct culm_graph *g = f->from;
    const struct culm_node_desc *conv = &g->node[c->conv];
    const int32_t joined = maker_of(f, conv->input[0], &culm_op_concat);
    const struct culm_node_desc *concat = joined < 0 ? NULL : &g->node[joined];
    if (!concat || concat->attributes.axis != 3 || concat->input[2] >= 0) {
        return;
    }
    const int32_t enlarged = maker_of(f, concat->input[0], &culm_op_resize);
    if (enlarged < 0 || !repeats(g, &g->node[enlarged])) {
        return;
    }
    const int64_t *small = culm_input_shape(g, &g->node[enlarged], 0)->dim;
    const struct culm_coarse coarse = {.h = small[1], .w = small[2], .c = small[3]};
    struct culm_conv v = culm_conv_of(g, conv);
    v.c = culm_input_shape(g, concat, 1)->dim[3];
    if (culm_coarse_possible(&v, &coarse)) {
        c->coarse = g->node[enlarged].input[0];
        c->image = concat->input[1];
        f->gone[joined] = f->gone[enlarged] = true;
    }
}

static void find_chain(struct fuse *f, int32_t conv) {
    const struct culm_graph *g = f->from;
    struct chain c = {.conv = conv, .norm = -1, .residual = -1, .coarse = -1};
    c.image = g->node[conv].input[0];
    find_coarse(f, &c);
    int32_t last = conv;
    c.result = g->node[conv].output[0];
    const struct culm_node_desc *node = next(f, c.result);
    if (node && node->op == &culm_op_batchnorm && node->input[0] == c.result &&
        node->attributes.inference && f->readers[node->output[1]] == 0 &&
        f->readers[node->output[2]] == 0) {
        f->gone[last] = true;
        last = c.norm = (int32_t)(node - g->node);
        c.result = node->output[0];
        c.residual = node->input[5];
        c.function = node->attributes.function;
        c.alpha = node->attributes.alpha;
        node = next(f, c.result);
    }
    bool bare = c.residual < 0 && c.function == CULM_FUNCTION_NONE;
    int32_t other = node && bare ? other_of(g, node, c.result) : -1;
    if (other >= 0) {
        f->gone[last] = true;
        last = (int32_t)(node - g->node);
        c.residual = other;
        c.result = node->output[0];
        node = next(f, c.result);
    }
    if (node && c.function == CULM_FUNCTION_NONE && node->op == &culm_op_activation &&
        is_relu(node->attributes.function, node->attributes.alpha)) {
        f->gone[last] = true;
        last = (int32_t)(node - g->node);
        c.function = node->attributes.function;
        c.alpha = node->attributes.alpha;
        c.result = node->output[0];
    }
    f->turned[g->node[conv].input[1]] = true;
    f->chain_at[last] = f->chains;
    f->chain[f->chains++] = c;
}

/* --- the new graph --- */

static int32_t put_param(struct fuse *f, const struct culm_param *param) {
    struct culm_param own = *param;
    if (f->turned[param->value]) {
        const int64_t *d = param->shape.dim;
        own.shape = (struct culm_shape){4, {d[2], d[3], d[1], d[0]}};
        own.turned = true;
    }
    own.value = culm_graph_param(f->to, own.name, &own.shape, own.init, own.std, own.decay);
    if (own.value >= 0) {
        f->to->param[f->to->value[own.value].param] = own;
    }
    return own.value;
}

/* The value in the new graph. */
static int32_t put(struct fuse *f, int32_t id) {
    const struct culm_graph *g = f->from;
    if (id < 0 || f->value[id] >= 0) {
        return id < 0 ? -1 : f->value[id];
    }
    const struct culm_value *from = &g->value[id];
    if (from->kind == CULM_VALUE_PARAM) {
        f->value[id] = put_param(f, &g->param[from->param]);
    } else if (from->kind == CULM_VALUE_FIELD) {
        const struct culm_field *field = &g->field[from->field];
        f->value[id] = culm_graph_field(f->to, field->name, field->dtype, &field->shape);
    } else {
        int32_t same_as = from->same_as >= 0 ? put(f, from->same_as) : -1;
        f->value[id] = culm_graph_value(f->to, from->kind, from->dtype, &from->shape);
        if (f->value[id] >= 0) {
            f->to->value[f->value[id]].same_as = same_as;
        }
    }
    return f->value[id];
}

static void put_node(struct fuse *f, struct culm_node_desc node) {
    node.operator_id = f->to->node_count;
    culm_graph_number_uses(f->to, &node);
    culm_graph_append(f->to, &node);
    f->to->blocks = node.block + 1;
}

static void put_chain(struct fuse *f, const struct chain *c, int32_t block) {
    const struct culm_node_desc *conv = &f->from->node[c->conv];
    const struct culm_node_desc *norm = c->norm >= 0 ? &f->from->node[c->norm] : NULL;
    struct culm_node_desc node = {
        .op = &culm_op_conv_infer, .attributes = conv->attributes, .block = block};
    memset(node.input, -1, sizeof node.input);
    memset(node.output, -1, sizeof node.output);
    memset(node.use, -1, sizeof node.use);
    node.input[0] = put(f, c->image);
    node.input[1] = put(f, conv->input[1]);
    node.input[2] = put(f, conv->input[2]);
    for (int i = 1; i <= 4 && norm; i++) {
        node.input[2 + i] = put(f, norm->input[i]);
    }
    node.input[7] = put(f, c->residual);
    node.input[8] = put(f, c->coarse);
    node.output[0] = put(f, c->result);
    node.attributes.eps = norm ? norm->attributes.eps : 0;
    node.attributes.function = c->function;
    node.attributes.alpha = c->alpha;
    put_node(f, node);
}

static void put_other(struct fuse *f, const struct culm_node_desc *from) {
    struct culm_node_desc node = *from;
    for (int i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
        node.input[i] = put(f, from->input[i]);
    }
    for (int i = 0; i < CULM_NODE_OUTPUTS_MAX; i++) {
        /* The places of maxima are for gradients; without them it is faster. */
        bool wanted = i != 1 || from->op != &culm_op_maxpool || f->readers[from->output[1]] > 0;
        node.output[i] = wanted ? put(f, from->output[i]) : -1;
    }
    put_node(f, node);
}

static void build(struct fuse *f) {
    const struct culm_graph *g = f->from;
    count_readers(f);
    for (int32_t i = 0; i < g->node_count; i++) {
        if (eligible(f, &g->node[i])) {
            find_chain(f, i);
        }
    }
    for (int32_t i = 0; i < g->field_count; i++) { /* fields and parameters keep their numbers */
        put(f, g->field[i].value);
    }
    for (int32_t i = 0; i < g->param_count; i++) {
        put(f, g->param[i].value);
    }
    for (int32_t i = 0; i < g->node_count && f->to->error.status == CULM_OK; i++) {
        if (f->chain_at[i] >= 0) {
            put_chain(f, &f->chain[f->chain_at[i]], g->node[i].block);
        } else if (!f->gone[i]) {
            put_other(f, &g->node[i]);
        }
    }
    for (int32_t i = 0; i < g->output_count; i++) {
        culm_graph_output(f->to, g->output[i].name, f->value[g->output[i].value]);
        culm_graph_output_end(f->to, g->output[i].end);
    }
    f->to->block = f->to->blocks;
}

enum culm_status culm_graph_fuse(const struct culm_graph *graph, struct culm_graph **ret_graph,
                                 struct culm_error *error) {
    size_t values = (size_t)graph->value_count + 1, nodes = (size_t)graph->node_count + 1;
    struct fuse f = {.from = graph,
                     .to = culm_graph_new(graph->device),
                     .readers = calloc(values, sizeof *f.readers),
                     .reader = calloc(values, sizeof *f.reader),
                     .value = malloc(values * sizeof *f.value),
                     .chain_at = malloc(nodes * sizeof *f.chain_at),
                     .gone = calloc(nodes, sizeof *f.gone),
                     .turned = calloc(values, sizeof *f.turned),
                     .chain = calloc(nodes, sizeof *f.chain)};
    enum culm_status status;
    if (f.to && f.readers && f.reader && f.value && f.chain_at && f.gone && f.turned && f.chain) {
        memset(f.value, -1, values * sizeof *f.value);
        memset(f.chain_at, -1, nodes * sizeof *f.chain_at);
        build(&f);
        status = culm_graph_check(f.to, error);
    } else {
        status = culm_error_set(error, CULM_ERR_MEMORY, "graph: out of memory");
    }
    free(f.readers);
    free(f.reader);
    free(f.value);
    free(f.chain_at);
    free(f.gone);
    free(f.turned);
    free(f.chain);
    if (status != CULM_OK) {
        culm_graph_free(f.to);
        return status;
    }
    *ret_graph = f.to;
    return CULM_OK;
}

void culm_graph_turn_part(const struct culm_param *param, const float *part, int64_t first,
                          int64_t count, float *ret_data) {
    const int64_t *d = param->written.dim;
    if (param->turned) {
        culm_conv_turn_part(part, first, count, d[0], d[1], d[2] * d[3], ret_data);
    } else {
        memcpy(ret_data + first, part, (size_t)count * sizeof *part);
    }
}

void culm_graph_turn(const struct culm_param *param, const float *data, float *ret_data) {
    culm_graph_turn_part(param, data, 0, culm_elements(&param->shape), ret_data);
}
