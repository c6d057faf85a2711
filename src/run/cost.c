/* What a model costs before it is trained: parameters, FLOPs, memory, stages. See models.h. */
#include "run/cost.h"

#include "query/subject.h"

#include <stdio.h>
#include <stdlib.h>

#define STAGES_OF_A_NAME 4
#define STAGES_MAX 64

const char *culm_published(size_t index) {
    const struct culm_model_preset *preset = culm_model_preset_at(index);
    return preset ? preset->name : NULL;
}

size_t culm_cost_memory(const struct culm_stage_info *info) {
    return (size_t)(3 * info->param_floats + info->grad_floats) * sizeof(float) +
           info->activation_bytes + info->scratch_bytes;
}

static int64_t parameters_of(const struct culm_stage_info *info) {
    int64_t count = 0;
    for (int32_t i = 0; i < info->param_count; i++) {
        count += info->params[i].statistic ? 0 : info->params[i].count;
    }
    return count;
}

static struct culm_cost_stage stage_of(const struct culm_stage_info *info, int64_t batch) {
    return (struct culm_cost_stage){
        .first_block = info->first_block,
        .last_block = info->last_block,
        .parameters = parameters_of(info),
        .flops = (info->forward_flops + info->backward_flops) / (double)batch,
        .activation_bytes = info->activation_bytes,
        .boundary_bytes = info->output_bytes,
    };
}

/* Cut into as many as the configuration says, or there are blocks. */
static enum culm_status cut(const struct culm_subject *subject, const struct culm_graph *graph,
                            struct culm_cost *cost, struct culm_error *error) {
    struct culm_stage *stage[STAGES_MAX];
    int64_t count = subject->named ? STAGES_OF_A_NAME : subject->config.stages;
    count = count < graph->blocks ? count : graph->blocks;
    cost->stage = calloc((size_t)count, sizeof *cost->stage);
    if (!cost->stage) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status = culm_stages_compile(graph, (int32_t)count, NULL, stage, error);
    for (int32_t i = 0; i < count && status == CULM_OK; i++) {
        cost->stage[cost->stages++] = stage_of(culm_stage_info_of(stage[i]), subject->batch);
        culm_stage_free(stage[i]);
    }
    return status;
}

/* As one stage, activations kept or not. */
static enum culm_status compile(const struct culm_subject *subject, const struct culm_graph *graph,
                                struct culm_cost *cost, struct culm_error *error) {
    const struct culm_stage_options plain = {.recompute =
                                                 subject->config.recompute == CULM_RECOMPUTE_BLOCK};
    const struct culm_stage_options again = {.recompute = true};
    struct culm_stage *whole = NULL, *recomputed = NULL;
    enum culm_status status;
    if ((status = culm_stages_compile(graph, 1, &plain, &whole, error)) == CULM_OK &&
        (status = culm_stages_compile(graph, 1, &again, &recomputed, error)) == CULM_OK) {
        const struct culm_stage_info *info = culm_stage_info_of(whole);
        snprintf(cost->name, sizeof cost->name, "%s", subject->name);
        cost->batch = subject->batch;
        cost->parameters = culm_model_parameters(graph);
        cost->blocks = graph->blocks;
        cost->flops = (info->forward_flops + info->backward_flops) / (double)subject->batch;
        cost->memory_bytes = culm_cost_memory(info);
        cost->activation_bytes = info->activation_bytes / (size_t)subject->batch;
        cost->activation_bytes_recompute =
            culm_stage_info_of(recomputed)->activation_bytes / (size_t)subject->batch;
    }
    culm_stage_free(whole);
    culm_stage_free(recomputed);
    return status;
}

enum culm_status culm_cost_compute(const char *what, bool stages, struct culm_cost *ret_cost,
                                   struct culm_error *error) {
    const struct culm_subject_options options = {
        .kinds = CULM_SUBJECT_NAME | CULM_SUBJECT_CONFIG | CULM_SUBJECT_RUN, .structure = true};
    struct culm_subject subject;
    struct culm_graph *graph = NULL;
    *ret_cost = (struct culm_cost){0};
    enum culm_status status = culm_subject_open(what, &options, &subject, error);
    if (status == CULM_OK) {
        status =
            culm_network_graph(subject.network, subject.batch, CULM_FOR_TRAINING, &graph, error);
    }
    if (status == CULM_OK) {
        status = compile(&subject, graph, ret_cost, error);
    }
    if (status == CULM_OK && stages) {
        status = cut(&subject, graph, ret_cost, error);
    }
    culm_graph_free(graph);
    culm_subject_close(&subject);
    return status;
}

void culm_cost_release(struct culm_cost *cost) {
    free(cost->stage);
    *cost = (struct culm_cost){0};
}
