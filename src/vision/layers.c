/* The layers of a model and their signatures. See model.h. */
#include "vision/model.h"

#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t param_of(const struct culm_graph *graph, int32_t value) {
    return value >= 0 && graph->value[value].kind == CULM_VALUE_PARAM ? graph->value[value].param
                                                                      : -1;
}

/* The batch norm that reads `value`, if nothing else reads it. */
static int32_t norm_behind(const struct culm_graph *graph, int32_t node, int32_t value) {
    int32_t norm = -1, readers = 0;
    for (int32_t i = node + 1; i < graph->node_count; i++) {
        for (int32_t k = 0; k < graph->node[i].op->inputs; k++) {
            if (graph->node[i].input[k] == value) {
                readers++;
                norm = graph->node[i].op == &culm_op_batchnorm && k == 0 ? i : norm;
            }
        }
    }
    for (int32_t i = 0; i < graph->output_count; i++) {
        readers += graph->output[i].value == value;
    }
    return readers == 1 ? norm : -1;
}

static struct culm_vision_signature signature_of(const struct culm_graph *graph,
                                                 const struct culm_node_desc *node) {
    const struct culm_attributes *a = &node->attributes;
    const int64_t *w = culm_input_shape(graph, node, 1)->dim;
    struct culm_vision_signature s = {.bias = node->input[2] >= 0, .groups = 1};
    if (node->op == &culm_op_linear) {
        s.linear = true;
        s.in = a->transposed ? w[1] : w[0];
        s.out = a->transposed ? w[0] : w[1];
        return s;
    }
    s.groups = a->groups > 0 ? a->groups : 1;
    s.in = w[1] * s.groups;
    s.out = w[0];
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = w[2 + i];
        s.stride[i] = a->stride[i] > 0 ? a->stride[i] : 1;
        s.dilation[i] = a->dilation[i] > 0 ? a->dilation[i] : 1;
    }
    memcpy(s.pad, a->pad, sizeof s.pad);
    return s;
}

static bool is_known(const struct culm_vision_layers *layers, int32_t weight) {
    for (int32_t i = 0; i < layers->count; i++) {
        if (layers->layer[i].weight == weight) {
            return true;
        }
    }
    return false;
}

enum culm_status culm_vision_layers_of(const struct culm_graph *graph,
                                       struct culm_vision_layers *ret_layers,
                                       struct culm_error *error) {
    struct culm_vision_layers layers = {0};
    int32_t capacity = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_node_desc *node = &graph->node[i];
        bool layer = node->op == &culm_op_conv || node->op == &culm_op_linear;
        int32_t weight = layer ? param_of(graph, node->input[1]) : -1;
        if (weight < 0 || is_known(&layers, weight)) {
            continue;
        }
        if (!CULM_GROW(layers.layer, capacity, layers.count + 1)) {
            culm_vision_layers_release(&layers);
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the model's layers");
        }
        int32_t bias = param_of(graph, node->input[2]);
        int64_t numbers = culm_elements(&graph->param[weight].shape);
        numbers += bias >= 0 ? culm_elements(&graph->param[bias].shape) : 0;
        layers.layer[layers.count++] = (struct culm_vision_layer){
            .node = i,
            .weight = weight,
            .bias = bias,
            .norm = norm_behind(graph, i, node->output[0]),
            .signature = signature_of(graph, node),
            .bytes = numbers * 4,
        };
    }
    *ret_layers = layers;
    return CULM_OK;
}

void culm_vision_layers_release(struct culm_vision_layers *layers) {
    free(layers->layer);
    *layers = (struct culm_vision_layers){0};
}

bool culm_vision_signature_fits(const struct culm_vision_signature *a,
                                const struct culm_vision_signature *b) {
    return a->linear == b->linear && a->bias == b->bias && a->in == b->in && a->out == b->out &&
           a->kernel[0] == b->kernel[0] && a->kernel[1] == b->kernel[1] && a->groups == b->groups;
}

bool culm_vision_signature_equal(const struct culm_vision_signature *a,
                                 const struct culm_vision_signature *b) {
    bool equal = culm_vision_signature_fits(a, b);
    for (int i = 0; i < 2; i++) {
        equal = equal && a->stride[i] == b->stride[i] && a->dilation[i] == b->dilation[i];
    }
    for (int i = 0; i < 4; i++) {
        equal = equal && a->pad[i] == b->pad[i];
    }
    return equal;
}

const char *culm_vision_signature_text(const struct culm_vision_signature *s,
                                       char text[CULM_VISION_SIGNATURE_TEXT]) {
    const char *bias = s->bias ? " bias" : "";
    if (s->linear) {
        snprintf(text, CULM_VISION_SIGNATURE_TEXT, "linear %lld>%lld%s", (long long)s->in,
                 (long long)s->out, bias);
        return text;
    }
    snprintf(text, CULM_VISION_SIGNATURE_TEXT,
             "conv %lld>%lld %lldx%lld stride %lld,%lld pad %lld,%lld,%lld,%lld dilation %lld,%lld "
             "groups %lld%s",
             (long long)s->in, (long long)s->out, (long long)s->kernel[0], (long long)s->kernel[1],
             (long long)s->stride[0], (long long)s->stride[1], (long long)s->pad[0],
             (long long)s->pad[1], (long long)s->pad[2], (long long)s->pad[3],
             (long long)s->dilation[0], (long long)s->dilation[1], (long long)s->groups, bias);
    return text;
}
