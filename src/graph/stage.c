/* Compiling a stretch of a graph, and running it. See stage.h. */
#include "graph/stage.h"

#include "base/rng.h"
#include "graph/autodiff.h"
#include "graph/memory.h"

#include <stdlib.h>
#include <string.h>

enum region {
    NOWHERE,
    PARAMS,
    INPUT,
    TARGETS,
    OUTPUT,
    D_OUTPUT,
    D_INPUT,
    ACTIVATIONS,
    SCRATCH,
};

struct place {
    enum region region;
    size_t offset_bytes;
};

struct culm_stage {
    struct culm_stage_info info;
    struct culm_graph *graph; /* this stage's values and nodes: forward, then backward */
    struct place *place;      /* [value_count] */
    int64_t *use_offset;      /* [use_count of the uncut graph]: floats into grads; -1: not here */
    int32_t input, output;    /* values; -1: none */
    int32_t copy_output;      /* value kept for backward that is also the output; -1: none */
    struct culm_param_info *params;
    struct culm_grad_info *grads;
};

/* --- extracting the stretch --- */

static bool inside(const struct culm_graph *graph, int32_t node, int32_t first, int32_t last) {
    return graph->node[node].block >= first && graph->node[node].block <= last;
}

/* The one value made before block `border` and used in or after it; -1 none, -2 several. */
static int32_t crossing(const struct culm_graph *graph, int32_t border) {
    int32_t found = -1;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_node_desc *user = &graph->node[i];
        for (int32_t k = 0; k < user->op->inputs && user->block >= border; k++) {
            int32_t value = user->input[k];
            if (value < 0 || graph->value[value].kind != CULM_VALUE_TEMPORARY) {
                continue;
            }
            for (int32_t j = 0; j < i; j++) {
                for (int32_t o = 0; o < graph->node[j].op->outputs; o++) {
                    if (graph->node[j].output[o] == value && graph->node[j].block < border &&
                        found != value) {
                        found = found == -1 ? value : -2;
                    }
                }
            }
        }
    }
    return found;
}

/* Copies values, parameters and the stretch's nodes; ids of values stay those of the uncut graph.
 */
static enum culm_status extract(struct culm_stage *stage, const struct culm_graph *graph,
                                struct culm_error *error) {
    struct culm_graph *own = culm_graph_new();
    stage->graph = own;
    if (!own) {
        return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
    }
    own->value_capacity = graph->value_count;
    own->node_capacity = graph->node_count;
    own->param_capacity = graph->param_count;
    own->value = malloc((size_t)graph->value_count * sizeof *own->value);
    own->node = malloc((size_t)graph->node_count * sizeof *own->node);
    own->param = malloc((size_t)graph->param_count * sizeof *own->param);
    if (!own->value || !own->node || !own->param) {
        return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
    }
    memcpy(own->value, graph->value, (size_t)graph->value_count * sizeof *own->value);
    memcpy(own->param, graph->param, (size_t)graph->param_count * sizeof *own->param);
    own->value_count = graph->value_count;
    own->param_count = graph->param_count;
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (inside(graph, i, stage->info.first_block, stage->info.last_block)) {
            own->node[own->node_count++] = graph->node[i];
        }
    }
    stage->info.forward_ops = own->node_count;
    return CULM_OK;
}

static enum culm_status find_borders(struct culm_stage *stage, const struct culm_graph *graph,
                                     struct culm_error *error) {
    stage->input = stage->output = stage->copy_output = -1;
    if (stage->info.index > 0) {
        stage->input = crossing(graph, stage->info.first_block);
    }
    if (stage->info.index < stage->info.stages - 1) {
        stage->output = crossing(graph, stage->info.last_block + 1);
    } else if (graph->has_output) {
        stage->output = graph->output;
    }
    if (stage->input == -2 || stage->output == -2) {
        return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                              "several values cross the border of blocks %d and %d; cut elsewhere",
                              stage->info.first_block, stage->info.last_block);
    }
    if (stage->input >= 0) {
        stage->graph->value[stage->input].kind = CULM_VALUE_BOUNDARY;
    }
    return CULM_OK;
}

/* --- parameters and gradients --- */

static int64_t rounded(int64_t floats) { return (floats + 15) & ~(int64_t)15; }

static enum culm_status number_params(struct culm_stage *stage, const struct culm_graph *graph,
                                      struct culm_error *error) {
    stage->params = calloc((size_t)graph->param_count + 1, sizeof *stage->params);
    stage->grads = calloc((size_t)graph->use_count + 1, sizeof *stage->grads);
    stage->use_offset = malloc(((size_t)graph->use_count + 1) * sizeof *stage->use_offset);
    int32_t *local = malloc(((size_t)graph->param_count + 1) * sizeof *local);
    if (!stage->params || !stage->grads || !stage->use_offset || !local) {
        free(local);
        return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
    }
    struct culm_stage_info *info = &stage->info;
    memset(local, -1, ((size_t)graph->param_count + 1) * sizeof *local);
    for (int32_t u = 0; u < graph->use_count; u++) {
        if (inside(graph, graph->use[u].node, info->first_block, info->last_block)) {
            local[graph->use[u].param] = 0;
        }
    }
    for (int32_t p = 0; p < graph->param_count; p++) {
        if (local[p] < 0) {
            continue;
        }
        const struct culm_param *from = &stage->graph->param[p];
        struct culm_param_info *param = &stage->params[info->param_count];
        *param = (struct culm_param_info){.name = from->name,
                                          .rank = from->shape.rank,
                                          .count = culm_elements(&from->shape),
                                          .offset = info->param_floats,
                                          .global_index = p,
                                          .decay = from->decay,
                                          .init = from->init,
                                          .std = from->std};
        memcpy(param->shape, from->shape.dim, sizeof param->shape);
        info->param_floats += rounded(param->count);
        local[p] = info->param_count++;
    }
    for (int32_t u = 0; u < graph->use_count; u++) {
        int32_t p = graph->use[u].param;
        stage->use_offset[u] = -1;
        if (!inside(graph, graph->use[u].node, info->first_block, info->last_block)) {
            continue;
        }
        int64_t count = stage->params[local[p]].count;
        stage->use_offset[u] = info->grad_floats;
        stage->grads[info->grad_count++] =
            (struct culm_grad_info){local[p], u, count, info->grad_floats};
        info->grad_floats += rounded(count);
    }
    info->params = stage->params;
    info->grads = stage->grads;
    free(local);
    return CULM_OK;
}

/* --- placing values --- */

struct life {
    int32_t made, forward_last, backward_first, backward_last; /* steps; -1: never */
};

static int32_t root_of(const struct culm_graph *graph, int32_t value) {
    while (graph->value[value].same_as >= 0) {
        value = graph->value[value].same_as;
    }
    return value;
}

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
                touch(&life[root_of(graph, graph->node[i].input[k])], i, backward);
            }
        }
        for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
            if (graph->node[i].output[k] >= 0) {
                touch(&life[root_of(graph, graph->node[i].output[k])], i, backward);
            }
        }
    }
}

static size_t value_bytes(const struct culm_graph *graph, int32_t value) {
    const struct culm_value *v = &graph->value[value];
    return (size_t)culm_elements(&v->shape) * culm_dtype_bytes(v->dtype);
}

/* Values that come from, or go to, memory of the caller's. */
static enum region outside(const struct culm_stage *stage, int32_t value, int32_t d_output,
                           int32_t d_input) {
    switch (stage->graph->value[value].kind) {
    case CULM_VALUE_PARAM: return PARAMS;
    case CULM_VALUE_TOKENS: return INPUT;
    case CULM_VALUE_TARGETS: return TARGETS;
    case CULM_VALUE_FIELD: return NOWHERE;
    case CULM_VALUE_BOUNDARY: return value == d_output ? D_OUTPUT : INPUT;
    case CULM_VALUE_TEMPORARY: break;
    }
    return value == d_input ? D_INPUT : NOWHERE;
}

static enum culm_status place_values(struct culm_stage *stage, int32_t d_output, int32_t d_input,
                                     struct culm_error *error) {
    const struct culm_graph *graph = stage->graph;
    size_t values = (size_t)graph->value_count;
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
    int32_t intervals = 0;
    for (int32_t v = 0; v < graph->value_count; v++) {
        struct place *place = &stage->place[v];
        if (life[v].made < 0 || graph->value[v].same_as >= 0) {
            continue;
        }
        place->region = outside(stage, v, d_output, d_input);
        bool kept = life[v].made < stage->info.forward_ops && life[v].backward_first >= 0;
        if (place->region == PARAMS) {
            for (int32_t p = 0; p < stage->info.param_count; p++) {
                if (stage->params[p].global_index == graph->value[v].param) {
                    place->offset_bytes = (size_t)stage->params[p].offset * sizeof(float);
                }
            }
        } else if (place->region == NOWHERE && kept) {
            *place = (struct place){ACTIVATIONS, stage->info.activation_bytes};
            stage->info.activation_bytes += (value_bytes(graph, v) + 63) & ~(size_t)63;
            stage->copy_output = v == stage->output ? v : stage->copy_output;
        } else if (place->region == NOWHERE && v == stage->output) {
            place->region = OUTPUT;
        } else if (place->region == NOWHERE) {
            place->region = SCRATCH;
            int32_t last =
                life[v].backward_last >= 0 ? life[v].backward_last : life[v].forward_last;
            interval[intervals] = (struct culm_interval){
                .first = life[v].made, .last = last, .size_bytes = value_bytes(graph, v)};
            owner[intervals++] = v;
        }
    }
    status = culm_memory_place(interval, intervals, &stage->info.scratch_bytes);
    for (int32_t i = 0; i < intervals && status == CULM_OK; i++) {
        stage->place[owner[i]].offset_bytes = interval[i].offset_bytes;
    }
    for (int32_t v = 0; v < graph->value_count && status == CULM_OK; v++) {
        if (graph->value[v].same_as >= 0) {
            stage->place[v] = stage->place[root_of(graph, v)];
        }
    }
out:
    free(life);
    free(interval);
    free(owner);
    return status;
}

/* --- compiling --- */

static void count_flops(struct culm_stage *stage) {
    for (int32_t i = 0; i < stage->graph->node_count; i++) {
        const struct culm_node_desc *node = &stage->graph->node[i];
        double flops = node->op->flops ? node->op->flops(stage->graph, node) : 0;
        if (i < stage->info.forward_ops) {
            stage->info.forward_flops += flops;
        } else {
            stage->info.backward_flops += flops;
        }
    }
    stage->info.backward_ops = stage->graph->node_count - stage->info.forward_ops;
}

/* A parameter whose gradient nobody writes would be trained on what happens to lie in memory. */
static enum culm_status check_uses(const struct culm_stage *stage, struct culm_error *error) {
    const struct culm_graph *own = stage->graph;
    for (int32_t g = 0; g < stage->info.grad_count; g++) {
        bool written = false;
        for (int32_t i = stage->info.forward_ops; i < own->node_count && !written; i++) {
            for (int32_t k = 0; k < CULM_NODE_USES_MAX; k++) {
                written |= own->node[i].use[k] == stage->grads[g].global_use;
            }
        }
        if (!written) {
            return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                                  "parameter '%s' gets no gradient where it is used",
                                  stage->params[stage->grads[g].param].name);
        }
    }
    return CULM_OK;
}

static enum culm_status compile(const struct culm_graph *graph, int32_t index, int32_t stages,
                                const int32_t *first_block, struct culm_stage **ret_stage,
                                struct culm_error *error) {
    struct culm_stage *stage = calloc(1, sizeof *stage);
    if (!stage) {
        return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
    }
    stage->info = (struct culm_stage_info){
        .index = index,
        .stages = stages,
        .first_block = first_block[index],
        .last_block = (index + 1 < stages ? first_block[index + 1] : graph->blocks) - 1,
    };
    enum culm_status status = extract(stage, graph, error);
    if (status == CULM_OK) {
        status = find_borders(stage, graph, error);
    }
    if (status == CULM_OK) {
        status = number_params(stage, graph, error);
    }
    int32_t d_output = -1, d_input = -1;
    if (status == CULM_OK && stage->output >= 0) {
        struct culm_shape shape = graph->value[stage->output].shape;
        d_output = culm_graph_value(stage->graph, CULM_VALUE_BOUNDARY, CULM_F32, &shape);
        stage->info.output_bytes = value_bytes(graph, stage->output);
    }
    if (status == CULM_OK) {
        status = culm_graph_differentiate(stage->graph, 0, stage->info.forward_ops, stage->output,
                                          d_output, stage->input, &d_input, error);
    }
    if (status == CULM_OK && !(stage->info.index == stages - 1 && graph->has_output)) {
        status = check_uses(stage, error);
    }
    if (status == CULM_OK) {
        status = place_values(stage, d_output, d_input, error);
    }
    if (status != CULM_OK) {
        culm_stage_free(stage);
        return status;
    }
    for (int32_t v = 0; v < graph->value_count; v++) {
        if (v == stage->input || (index == 0 && graph->value[v].kind == CULM_VALUE_TOKENS)) {
            stage->info.input_bytes = value_bytes(graph, v);
        }
    }
    count_flops(stage);
    *ret_stage = stage;
    return CULM_OK;
}

enum culm_status culm_stages_compile(const struct culm_graph *graph, int32_t stages,
                                     struct culm_stage **ret_stage, struct culm_error *error) {
    int32_t *first_block = calloc((size_t)(stages > 0 ? stages : 1), sizeof *first_block);
    if (!first_block) {
        return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
    }
    enum culm_status status = culm_graph_cut(graph, stages, first_block, error);
    for (int32_t s = 0; s < stages && status == CULM_OK; s++) {
        status = compile(graph, s, stages, first_block, &ret_stage[s], error);
        while (status != CULM_OK && s > 0) {
            culm_stage_free(ret_stage[--s]);
            ret_stage[s] = NULL;
        }
        if (status != CULM_OK) {
            break;
        }
    }
    free(first_block);
    return status;
}

void culm_stage_free(struct culm_stage *stage) {
    if (stage) {
        culm_graph_free(stage->graph);
        free(stage->place);
        free(stage->use_offset);
        free(stage->params);
        free(stage->grads);
        free(stage);
    }
}

const struct culm_stage_info *culm_stage_info(const struct culm_stage *stage) {
    return &stage->info;
}

/* --- running --- */

static void *address(const struct culm_stage *stage, const struct culm_stage_run *run,
                     int32_t value) {
    if (value < 0) {
        return NULL;
    }
    const struct place *place = &stage->place[value];
    char *base = NULL;
    switch (place->region) {
    case NOWHERE: return NULL;
    case PARAMS: base = (char *)run->params; break;
    case INPUT: base = (char *)run->input; break;
    case TARGETS: base = (char *)run->targets; break;
    case OUTPUT: base = (char *)run->output; break;
    case D_OUTPUT: base = (char *)run->d_output; break;
    case D_INPUT: base = (char *)run->d_input; break;
    case ACTIVATIONS: base = run->activations; break;
    case SCRATCH: base = run->scratch; break;
    }
    return base + place->offset_bytes;
}

static void execute(const struct culm_stage *stage, struct culm_cpu *cpu,
                    struct culm_stage_run *run, int32_t index) {
    const struct culm_node_desc *node = &stage->graph->node[index];
    struct culm_operands operands = {
        .cpu = cpu,
        .node = node,
        .value = stage->graph->value,
        .first = run->first,
        .loss_scale = run->loss_scale,
        .loss = &run->loss,
        .dropout = {.p = node->attributes.dropout,
                    .key = culm_rng_mix(culm_rng_mix(run->seed, run->iteration),
                                        (uint64_t)node->operator_id),
                    .first_sample = run->first_sample},
    };
    for (int32_t i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
        operands.input[i] = address(stage, run, node->input[i]);
    }
    for (int32_t i = 0; i < CULM_NODE_OUTPUTS_MAX; i++) {
        operands.output[i] = address(stage, run, node->output[i]);
    }
    if (node->output[0] >= 0) {
        operands.dropout.samples = stage->graph->value[node->output[0]].shape.dim[0];
    }
    for (int32_t i = 0; i < CULM_NODE_USES_MAX; i++) {
        operands.use[i] = node->use[i] >= 0 ? run->grads + stage->use_offset[node->use[i]] : NULL;
    }
    node->op->execute(&operands);
}

enum culm_status culm_stage_forward(const struct culm_stage *stage, struct culm_cpu *cpu,
                                    struct culm_stage_run *run) {
    while (run->cursor < stage->info.forward_ops) {
        execute(stage, cpu, run, run->cursor++);
        if (run->stop && __atomic_load_n(run->stop, __ATOMIC_RELAXED) &&
            run->cursor < stage->info.forward_ops) {
            return CULM_ERR_AGAIN;
        }
    }
    if (stage->copy_output >= 0) {
        memcpy(run->output, address(stage, run, stage->copy_output),
               value_bytes(stage->graph, stage->copy_output));
    }
    return CULM_OK;
}

enum culm_status culm_stage_backward(const struct culm_stage *stage, struct culm_cpu *cpu,
                                     struct culm_stage_run *run) {
    for (int32_t i = stage->info.forward_ops; i < stage->graph->node_count; i++) {
        execute(stage, cpu, run, i);
    }
    return CULM_OK;
}
