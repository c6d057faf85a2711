/*
 * Autodiff: one walk over the forward nodes from last to first. Each node's gradient rule (op.h)
 * appends operators that turn the gradients of its outputs, complete by then, into contributions to
 * those of its inputs. See culm_graph_differentiate in graph.h.
 *
 * Nothing is pruned or reordered, so the order of sums follows from the graph alone.
 */
#include "graph/op.h"

#include <assert.h>
#include <stdlib.h>

struct culm_autodiff {
    struct culm_graph *graph;
    int32_t *gradients;    /* by value: sum of what was given so far */
    bool *wanted;          /* by value: depends on a parameter */
    int32_t *accumulators; /* by forward node and input */
    struct culm_node node; /* being differentiated: a copy, as the graph's array moves */
    int32_t index;
};

int32_t culm_autodiff_grad(const struct culm_autodiff *a, int output) {
    return a->gradients[a->node.out[output]];
}

bool culm_autodiff_wants(const struct culm_autodiff *a, int input) {
    int32_t value = a->node.in[input];
    return value != CULM_NO_VALUE && a->wanted[value];
}

int32_t culm_autodiff_accumulator(struct culm_autodiff *a, int input) {
    return a->accumulators[a->index * CULM_OP_MAX_INPUTS + input];
}

static bool is_param(const struct culm_autodiff *a, int input) {
    return a->graph->values[a->node.in[input]].kind == CULM_VALUE_PARAM;
}

int32_t culm_autodiff_take(struct culm_autodiff *a, int input) {
    int32_t value = a->node.in[input], taken = a->gradients[value];
    if (is_param(a, input))
        return CULM_NO_VALUE;
    a->gradients[value] = CULM_NO_VALUE;
    return taken;
}

void culm_autodiff_apply(struct culm_autodiff *a, const struct culm_op *op,
                         const struct culm_attrs *attrs, const int32_t *in,
                         const int32_t *given_out, int32_t ret_out[CULM_OP_MAX_OUTPUTS]) {
    culm_graph_apply_backward(a->graph, op, attrs, a->node.id, a->node.unit, in, given_out,
                              ret_out);
}

void culm_autodiff_give(struct culm_autodiff *a, int input, int32_t gradient) {
    static const struct culm_attrs none;
    int32_t out[CULM_OP_MAX_OUTPUTS];
    if (a->graph->status != CULM_OK || !culm_autodiff_wants(a, input))
        return;
    int32_t *sum = &a->gradients[a->node.in[input]];
    if (is_param(a, input)) {
        const int32_t into[CULM_OP_MAX_OUTPUTS] = {culm_autodiff_accumulator(a, input),
                                                   CULM_NO_VALUE, CULM_NO_VALUE};
        culm_autodiff_apply(a, &culm_op_accumulate, &none, &gradient, into, out);
    } else if (*sum == CULM_NO_VALUE) {
        *sum = gradient;
    } else {
        const int32_t in[] = {*sum, gradient};
        culm_autodiff_apply(a, &culm_op_add, &none, in, NULL, out);
        *sum = out[0];
    }
}

/* --- the walk --- */

/* Which values depend on a parameter, and an accumulator for every use of one. */
static void prepare(struct culm_autodiff *a) {
    struct culm_graph *graph = a->graph;
    for (int32_t v = 0; v < graph->value_count; v++)
        a->wanted[v] = graph->values[v].kind == CULM_VALUE_PARAM;
    for (int32_t n = 0; n < graph->forward_count && graph->status == CULM_OK; n++) {
        const struct culm_node *node = &graph->nodes[n];
        bool depends = false;
        for (int i = 0; i < node->op->inputs; i++) {
            int32_t value = node->in[i];
            if (value == CULM_NO_VALUE)
                continue;
            depends |= a->wanted[value];
            if (graph->values[value].kind == CULM_VALUE_PARAM)
                a->accumulators[n * CULM_OP_MAX_INPUTS + i] = culm_graph_accumulator(graph, value);
        }
        for (int o = 0; o < node->op->outputs; o++)
            a->wanted[node->out[o]] = depends;
    }
}

static bool reached(const struct culm_autodiff *a) {
    for (int o = 0; o < a->node.op->outputs; o++)
        if (a->gradients[a->node.out[o]] != CULM_NO_VALUE)
            return true;
    return a->node.op->loss;
}

static void check_uses(struct culm_graph *graph) {
    for (int32_t v = 0; v < graph->value_count; v++) {
        const struct culm_value *value = &graph->values[v];
        if (value->kind != CULM_VALUE_ACCUMULATOR || value->producer >= 0)
            continue;
        for (int32_t p = 0; p < v; p++) {
            const struct culm_value *param = &graph->values[p];
            if (param->kind == CULM_VALUE_PARAM && param->param == value->param)
                culm_graph_fail(graph, CULM_ERR_CONFIG, "parameter '%s' does not reach the loss",
                                param->name);
        }
    }
}

static enum culm_status walk(struct culm_autodiff *a) {
    struct culm_graph *graph = a->graph;
    int losses = 0;
    for (int32_t n = 0; n < graph->forward_count; n++)
        losses += graph->nodes[n].op->loss;
    if (losses != 1)
        culm_graph_fail(graph, CULM_ERR_CONFIG, "the graph has %d losses; it needs one", losses);
    prepare(a);
    for (int32_t n = graph->forward_count - 1; n >= 0 && graph->status == CULM_OK; n--) {
        a->node = graph->nodes[n];
        a->index = n;
        if (!reached(a))
            continue;
        if (a->node.op->gradient)
            a->node.op->gradient(a, &a->node);
        else
            culm_graph_fail(graph, CULM_ERR_CONFIG, "operator %d (%s) has no gradient", n,
                            a->node.op->name);
    }
    if (graph->status == CULM_OK)
        check_uses(graph);
    return graph->status;
}

enum culm_status culm_graph_differentiate(struct culm_graph *graph, struct culm_error *error) {
    assert(!graph->differentiated);
    if (graph->status != CULM_OK)
        return culm_graph_status(graph, error);
    /* Gradient rules ask about forward values only. */
    int32_t values = graph->value_count, uses = graph->forward_count * CULM_OP_MAX_INPUTS;
    struct culm_autodiff a = {
        .graph = graph,
        .gradients = malloc((size_t)(values + 1) * sizeof(int32_t)),
        .wanted = calloc((size_t)values + 1, sizeof(bool)),
        .accumulators = malloc((size_t)(uses + 1) * sizeof(int32_t)),
    };
    if (!a.gradients || !a.wanted || !a.accumulators) {
        culm_graph_fail(graph, CULM_ERR_MEMORY, "autodiff: out of memory");
    } else {
        for (int32_t v = 0; v < values; v++)
            a.gradients[v] = CULM_NO_VALUE;
        for (int32_t u = 0; u < uses; u++)
            a.accumulators[u] = CULM_NO_VALUE;
        walk(&a);
    }
    if (graph->status == CULM_OK) {
        int32_t *gradients = realloc(a.gradients, (size_t)graph->value_count * sizeof(int32_t));
        if (gradients) {
            a.gradients = NULL;
            for (int32_t v = values; v < graph->value_count; v++)
                gradients[v] = CULM_NO_VALUE;
            graph->gradients = gradients;
            graph->differentiated = true;
        } else {
            culm_graph_fail(graph, CULM_ERR_MEMORY, "autodiff: out of memory");
        }
    }
    free(a.gradients);
    free(a.wanted);
    free(a.accumulators);
    return culm_graph_status(graph, error);
}
