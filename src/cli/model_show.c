/* What a model costs. See model_show.h. */
#include "cli/model_show.h"

#include "cli/command.h"

#include "base/json.h"
#include "run/subject.h"

#include <jansson.h>
#include <stdlib.h>

#define STAGES_OF_A_NAME 4
#define STAGES_MAX 64

struct shown {
    struct culm_subject subject;
    struct culm_graph *graph;
    struct culm_stage *whole, *recomputed; /* as one stage, activations kept or not */
    struct culm_stage *stage[STAGES_MAX];
    int32_t stages;
};

static int64_t parameters_of(const struct culm_stage_info *info) {
    int64_t count = 0;
    for (int32_t i = 0; i < info->param_count; i++) {
        count += info->params[i].statistic ? 0 : info->params[i].count;
    }
    return count;
}

static json_t *stage_json(const struct culm_stage_info *info, int64_t batch) {
    return json_pack("{s:i, s:i, s:I, s:f, s:I, s:I}", "first", info->first_block, "last",
                     info->last_block, "parameters", (json_int_t)parameters_of(info), "flops",
                     (info->forward_flops + info->backward_flops) / (double)batch,
                     "activation_bytes", (json_int_t)info->activation_bytes / batch,
                     "boundary_bytes", (json_int_t)info->output_bytes / batch);
}

static void print(const struct shown *s, bool stages, bool json) {
    const struct culm_stage_info *info = culm_stage_info(s->whole);
    int64_t batch = s->subject.batch, parameters = culm_model_parameters(s->graph);
    double flops = (info->forward_flops + info->backward_flops) / (double)batch;
    /* parameters with their two moments, gradients, activations, scratch */
    size_t memory = (size_t)(3 * info->param_floats + info->grad_floats) * sizeof(float) +
                    info->activation_bytes + info->scratch_bytes;
    size_t kept = info->activation_bytes / (size_t)batch;
    size_t least = culm_stage_info(s->recomputed)->activation_bytes / (size_t)batch;
    if (json) {
        json_t *object = json_pack(
            "{s:o, s:I, s:f, s:I, s:I, s:I, s:I}", "name", culm_json_text(s->subject.name),
            "parameters", (json_int_t)parameters, "flops_per_sample", flops, "memory_bytes",
            (json_int_t)memory, "activation_bytes", (json_int_t)kept, "activation_bytes_recompute",
            (json_int_t)least, "blocks", (json_int_t)s->graph->blocks);
        json_t *list = json_array();
        for (int32_t i = 0; stages && i < s->stages; i++) {
            json_array_append_new(list, stage_json(culm_stage_info(s->stage[i]), batch));
        }
        if (stages) {
            json_object_set(object, "stages", list);
        }
        json_decref(list);
        culm_cli_print_json(object);
        return;
    }
    printf("%-12s %14lld parameters  %10.2f GFLOP a sample  %8.1f MB to train  %d blocks\n",
           s->subject.name, (long long)parameters, flops / 1e9, (double)memory / 1e6,
           s->graph->blocks);
    if (!stages) {
        return;
    }
    printf("activations of a sample: %.1f MB, with recompute: block %.1f MB\n", (double)kept / 1e6,
           (double)least / 1e6);
    for (int32_t i = 0; i < s->stages; i++) {
        const struct culm_stage_info *one = culm_stage_info(s->stage[i]);
        printf("stage %d of %d: blocks %d to %d, %lld parameters, %.2f GFLOP, %.1f MB of "
               "activations, sends %.2f MB\n",
               i, s->stages, one->first_block, one->last_block, (long long)parameters_of(one),
               (one->forward_flops + one->backward_flops) / (double)batch / 1e9,
               (double)one->activation_bytes / (double)batch / 1e6,
               (double)one->output_bytes / (double)batch / 1e6);
    }
}

static enum culm_status compile(struct shown *s, bool stages, struct culm_error *error) {
    const struct culm_stage_options again = {.recompute = true};
    enum culm_status status = culm_subject_compile(&s->subject, &s->graph, &s->whole, error);
    if (status == CULM_OK) {
        status = culm_stages_compile(s->graph, 1, &again, &s->recomputed, error);
    }
    int64_t count = s->subject.named ? STAGES_OF_A_NAME : s->subject.config.stages;
    count = count < s->graph->blocks ? count : s->graph->blocks;
    if (status == CULM_OK && stages) {
        status = culm_stages_compile(s->graph, (int32_t)count, NULL, s->stage, error);
        s->stages = status == CULM_OK ? (int32_t)count : 0;
    }
    return status;
}

enum culm_status culm_model_show(const char *name_or_path, bool stages, bool json,
                                 struct culm_error *error) {
    const struct culm_subject_options options = {.kinds = CULM_SUBJECT_NAME | CULM_SUBJECT_CONFIG};
    struct shown s = {0};
    enum culm_status status = culm_subject_open(name_or_path, &options, &s.subject, error);
    if (status != CULM_OK) {
        return status;
    }
    status = compile(&s, stages, error);
    if (status == CULM_OK) {
        print(&s, stages, json);
    }
    for (int32_t i = 0; i < s.stages; i++) {
        culm_stage_free(s.stage[i]);
    }
    culm_stage_free(s.whole);
    culm_stage_free(s.recomputed);
    culm_graph_free(s.graph);
    culm_subject_close(&s.subject);
    return status;
}
