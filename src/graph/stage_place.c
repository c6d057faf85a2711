/*
 * Where the values of a stage live: what comes from outside or goes there, what backward needs of
 * forward (activations), and all else in scratch, placed by lifetimes. See stage.h.
 */
#include "graph/stage_internal.h"

#include "graph/memory.h"

#include <stdlib.h>

struct life {
    int32_t made, forward_last, backward_first, backward_last; /* steps; -1: never */
};

static void touch(struct life *life, int32_t step, bool backward) {
    if (life->made < 0) {
        life->made = step;
    }
    if (!backward) {
        life->forward_last = step;
        return;
    }
    if (life->backward_first < 0) {
        life->backward_first = step;
    }
    life->backward_last = step;
}

static void find_lives(const struct culm_stage *stage, struct life *life) {
    const struct culm_graph *graph = stage->graph;
    for (int32_t v = 0; v < graph->value_count; v++) {
        life[v] = (struct life){-1, -1, -1, -1};
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        bool backward = i >= stage->info.forward_ops;
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
            if (graph->node[i].input[k] >= 0) {
                touch(&life[stage_root(graph, graph->node[i].input[k])], i, backward);
            }
        }
        for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
            if (graph->node[i].output[k] >= 0) {
                touch(&life[stage_root(graph, graph->node[i].output[k])], i, backward);
            }
        }
    }
    /* What is copied out at the end of forward, or of backward, lives until then. */
    for (int32_t i = 0; i < stage->output.count; i++) {
        struct life *out = &life[stage_root(graph, stage->output.item[i].value)];
        if (out->made >= 0) {
            out->forward_last = stage->info.forward_ops;
        }
    }
    for (int32_t i = 0; i < stage->input.count; i++) {
        int32_t gradient = stage->input.item[i].gradient;
        if (gradient >= 0 && life[stage_root(graph, gradient)].made >= 0) {
            life[stage_root(graph, gradient)].backward_last = graph->node_count;
        }
    }
}

/* Values that come from outside. */
static void place_outside(struct culm_stage *stage) {
    const struct culm_graph *graph = stage->graph;
    for (int32_t v = 0; v < graph->value_count; v++) {
        struct place *place = &stage->place[v];
        if (graph->value[v].kind == CULM_VALUE_FIELD) {
            *place = (struct place){.region = FIELD, .index = graph->value[v].field};
        } else if (graph->value[v].kind == CULM_VALUE_PARAM) {
            place->region = PARAMS;
            for (int32_t p = 0; p < stage->info.param_count; p++) {
                if (stage->params[p].global_index == graph->value[v].param) {
                    place->offset_bytes = (size_t)stage->params[p].offset * sizeof(float);
                    place->index = p;
                }
            }
        }
    }
    for (int32_t i = 0; i < stage->input.count; i++) {
        stage->place[stage->input.item[i].value] =
            (struct place){.region = INPUT, .offset_bytes = stage->input.item[i].offset_bytes};
    }
    for (int32_t i = 0; i < stage->output.count; i++) {
        if (stage->output.item[i].gradient >= 0) {
            stage->place[stage->output.item[i].gradient] = (struct place){
                .region = D_OUTPUT, .offset_bytes = stage->output.item[i].offset_bytes};
        }
    }
}

static bool is_root(const struct culm_graph *graph, int32_t value) {
    return graph->value[value].same_as < 0;
}

/* Values that leave the stage are made in their place outside if possible; the others are copied. */
static void place_results(struct culm_stage *stage, const struct life *life) {
    const struct culm_graph *graph = stage->graph;
    for (int32_t i = 0; i < stage->output.count; i++) {
        int32_t v = stage->output.item[i].value;
        bool kept = life[v].made < stage->info.forward_ops && life[v].backward_first >= 0;
        if (is_root(graph, v) && stage->place[v].region == NOWHERE && life[v].made >= 0 && !kept) {
            stage->place[v] = (struct place){.region = OUTPUT,
                                             .offset_bytes = stage->output.item[i].offset_bytes};
        }
    }
    for (int32_t i = 0; i < stage->input.count; i++) {
        int32_t g = stage->input.item[i].gradient;
        if (g >= 0 && is_root(graph, g) && stage->place[g].region == NOWHERE &&
            life[g].made >= stage->info.forward_ops) {
            stage->place[g] = (struct place){.region = D_INPUT,
                                             .offset_bytes = stage->input.item[i].offset_bytes};
        }
    }
}

enum culm_status stage_place(struct culm_stage *stage, struct culm_error *error) {
    const struct culm_graph *graph = stage->graph;
    size_t values = (size_t)graph->value_count + 1;
    struct life *life = malloc(values * sizeof *life);
    struct culm_interval *interval = calloc(values, sizeof *interval);
    int32_t *owner = calloc(values, sizeof *owner);
    stage->place = calloc(values, sizeof *stage->place);
    enum culm_status status = CULM_ERR_MEMORY;
    if (!life || !interval || !owner || !stage->place) {
        culm_error_set(error, status, "stage: out of memory");
        goto out;
    }
    find_lives(stage, life);
    place_outside(stage);
    place_results(stage, life);
    int32_t intervals = 0;
    for (int32_t v = 0; v < graph->value_count; v++) {
        struct place *place = &stage->place[v];
        if (life[v].made < 0 || !is_root(graph, v) || place->region != NOWHERE) {
            continue;
        }
        if (life[v].made < stage->info.forward_ops && life[v].backward_first >= 0) {
            *place =
                (struct place){.region = ACTIVATIONS, .offset_bytes = stage->info.activation_bytes};
            stage->info.activation_bytes += (stage_value_bytes(graph, v) + 63) & ~(size_t)63;
            continue;
        }
        int32_t last = life[v].backward_last >= 0 ? life[v].backward_last : life[v].forward_last;
        interval[intervals] = (struct culm_interval){
            .first = life[v].made, .last = last, .size_bytes = stage_value_bytes(graph, v)};
        owner[intervals++] = v;
        place->region = SCRATCH;
    }
    status = culm_memory_place(interval, intervals, &stage->info.scratch_bytes);
    for (int32_t i = 0; i < intervals && status == CULM_OK; i++) {
        stage->place[owner[i]].offset_bytes = interval[i].offset_bytes;
    }
    for (int32_t v = 0; v < graph->value_count && status == CULM_OK; v++) {
        if (!is_root(graph, v)) {
            stage->place[v] = stage->place[stage_root(graph, v)];
        }
    }
out:
    free(life);
    free(interval);
    free(owner);
    return status;
}
