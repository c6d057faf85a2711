/* `culm model list` and `culm model show NAME|CONFIG`: what a model costs, before it is trained. */
#include "cli/command.h"
#include "cli/options.h"
#include "cli/subject.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct values {
    bool json;
};

static const struct culm_option options[] = {
    {"json", CULM_OPTION_FLAG, NULL, offsetof(struct values, json),
     "prints one JSON object a model"},
};

static const struct culm_usage usage = {
    .command = "model",
    .arguments = "list | show NAME|CONFIG",
    .min_arguments = 1,
    .max_arguments = 2,
    .summary = "Lists named models, or shows the parameters, FLOPs and memory of one",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details = "FLOPs are of forward and backward of one sample. Memory is that of training in one "
               "process with a\n"
               "micro-batch of one sample (of a configuration: its batch.micro).\n",
};

static enum culm_status show(const char *name, bool json, struct culm_error *error) {
    struct culm_subject subject;
    struct culm_graph *graph = NULL;
    struct culm_stage *stage = NULL;
    enum culm_status status = culm_subject_find(name, &subject, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_subject_compile(&subject, &graph, &stage, error);
    if (status != CULM_OK) {
        culm_subject_release(&subject);
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info(stage);
    double flops = (info->forward_flops + info->backward_flops) / (double)subject.batch;
    /* parameters with their two moments, gradients, activations, scratch */
    size_t memory = (size_t)(3 * info->param_floats + info->grad_floats) * sizeof(float) +
                    info->activation_bytes + info->scratch_bytes;
    json_int_t parameters = culm_model_parameters(graph);
    if (json) {
        json_t *object = json_pack("{s:s, s:I, s:f, s:I, s:I}", "name", subject.name, "parameters",
                                   parameters, "flops_per_sample", flops, "memory_bytes",
                                   (json_int_t)memory, "blocks", (json_int_t)graph->blocks);
        char *text = json_dumps(object, JSON_COMPACT);
        puts(text ? text : "");
        free(text);
        json_decref(object);
    } else {
        printf("%-12s %14lld parameters  %10.2f GFLOP a sample  %8.1f MB to train  %d blocks\n",
               subject.name, (long long)parameters, flops / 1e9, (double)memory / 1e6,
               graph->blocks);
    }
    culm_stage_free(stage);
    culm_graph_free(graph);
    culm_subject_release(&subject);
    return CULM_OK;
}

int culm_cli_model(int argc, char **argv) {
    struct values values = {0};
    struct culm_arguments arguments;
    struct culm_error error = {0};
    enum culm_status status = culm_options_parse(&usage, argc, argv, &values, &arguments, &error);
    if (status == CULM_OK && arguments.help) {
        culm_usage_print(&usage, stdout);
        return 0;
    }
    if (status == CULM_OK && arguments.count == 1 && strcmp(arguments.items[0], "list") == 0) {
        const struct culm_model_preset *preset;
        for (size_t i = 0; (preset = culm_model_preset(i)) && status == CULM_OK; i++) {
            status = show(preset->name, values.json, &error);
        }
    } else if (status == CULM_OK && arguments.count == 2 &&
               strcmp(arguments.items[0], "show") == 0) {
        status = show(arguments.items[1], values.json, &error);
    } else if (status == CULM_OK) {
        status = culm_error_set(&error, CULM_ERR_ARGUMENT,
                                "write 'culm model list' or 'culm model show NAME|CONFIG'");
    }
    return status == CULM_OK ? 0 : culm_cli_fail("model", &error);
}
