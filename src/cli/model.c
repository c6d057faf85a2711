/*
 * `culm model list` and `show NAME|CONFIG`: what a model costs, before it is trained; `import
 * FILE`: what an ONNX file is to training; `export NAME|CONFIG|DIR`: a model as an ONNX file.
 */
#include "cli/command.h"
#include "cli/model_show.h"
#include "cli/options.h"
#include "run/subject.h"

#include "base/json.h"
#include "base/words.h"
#include "onnx/onnx.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct values {
    bool json;
    const char *onnx;
    int64_t batch, context, image; /* 0: not given */
};

static const struct culm_option options[] = {
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON object a model"),
    CULM_OPTION("onnx", TEXT, "FILE", struct values, onnx, "export: the file to write"),
    CULM_OPTION("batch", INT, "N", struct values, batch,
                "import: samples in a micro-batch (default: 1)"),
    CULM_OPTION("context", INT, "T", struct values, context,
                "import: tokens in a sample, where the file leaves them open"),
    CULM_OPTION("image", INT, "N", struct values, image,
                "import: height and width, where the file leaves them open"),
};

static const struct culm_usage usage = {
    .command = "model",
    .arguments = "list | show NAME|CONFIG | import FILE.onnx | export NAME|CONFIG|DIR --onnx FILE",
    .min_arguments = 1,
    .max_arguments = 2,
    .summary = "Shows what models cost; looks at ONNX files and writes them",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details = "FLOPs are of forward and backward of one sample. Memory is that of training in one "
               "process with a\n"
               "micro-batch of one sample (of a configuration: its batch.micro).\n"
               "import shows what `culm train` makes of an ONNX file (model.file: FILE.onnx):\n"
               "parameters, what its samples are made of, where it can be cut.\n"
               "export writes a model for inference: of the finished run in DIR, or one that has "
               "only begun; of BERT\n"
               "both heads, logits and logits_2. GNMT is not exported.\n",
};

static const char *pretty_count(int64_t count, char text[32]) {
    char plain[24];
    int length = snprintf(plain, sizeof plain, "%lld", (long long)count), at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            text[at++] = ',';
        }
        text[at++] = plain[i];
    }
    text[at] = '\0';
    return text;
}

struct cost {
    double flops; /* of a sample */
    size_t memory;
    int64_t parameters;
};

static struct cost cost_of(const struct culm_graph *graph, const struct culm_stage *stage,
                           int64_t batch) {
    const struct culm_stage_info *info = culm_stage_info(stage);
    /* parameters with their two moments, gradients, activations, scratch */
    return (struct cost){(info->forward_flops + info->backward_flops) / (double)batch,
                         (size_t)(3 * info->param_floats + info->grad_floats) * sizeof(float) +
                             info->activation_bytes + info->scratch_bytes,
                         culm_model_parameters(graph)};
}

/* {"name", "parameters", "flops_per_sample", "memory_bytes", "blocks"} */
static json_t *json_of(const char *name, const struct cost *cost, const struct culm_graph *graph) {
    return json_pack("{s:o, s:I, s:f, s:I, s:I}", "name", culm_json_text(name), "parameters",
                     (json_int_t)cost->parameters, "flops_per_sample", cost->flops, "memory_bytes",
                     (json_int_t)cost->memory, "blocks", (json_int_t)graph->blocks);
}

/* --- import --- */

static void print_import_json(const char *path, const struct culm_onnx_model *model,
                              const struct culm_graph *graph, const struct cost *cost) {
    json_t *object = json_of(path, cost, graph), *fields = json_array(), *notes = json_array();
    json_object_set_new(object, "producer", culm_json_text(culm_onnx_model_producer(model)));
    json_object_set_new(object, "opset", json_integer(culm_onnx_model_opset(model)));
    json_object_set_new(object, "operators", json_integer(graph->node_count));
    for (int32_t i = 0; i < graph->field_count; i++) {
        const struct culm_field *field = &graph->field[i];
        json_t *shape = json_array();
        for (int k = 0; k < field->shape.rank; k++) {
            json_array_append_new(shape, json_integer(field->shape.dim[k]));
        }
        json_array_append_new(fields,
                              json_pack("{s:o, s:s, s:o}", "name", culm_json_text(field->name),
                                        "dtype", culm_dtype_name(field->dtype), "shape", shape));
    }
    for (int32_t i = 0; culm_onnx_model_note(model, i); i++) {
        json_array_append_new(notes, culm_json_text(culm_onnx_model_note(model, i)));
    }
    json_object_set_new(object, "fields", fields);
    json_object_set_new(object, "notes", notes);
    culm_cli_print_json(object);
}

static void print_import(const char *path, const struct culm_onnx_model *model,
                         const struct culm_graph *graph, const struct cost *cost) {
    char text[64], number[32];
    const char *producer = culm_onnx_model_producer(model);
    printf("%s: by %s, opset %lld\n", path, producer[0] ? producer : "unknown",
           (long long)culm_onnx_model_opset(model));
    printf("  %s parameters in %d tensors, %d operators, %d blocks\n",
           pretty_count(cost->parameters, number), graph->param_count, graph->node_count,
           graph->blocks);
    printf("  %.2f GFLOP a sample, %.1f MB to train\n", cost->flops / 1e9,
           (double)cost->memory / 1e6);
    for (int32_t i = 0; i < graph->field_count; i++) {
        const struct culm_field *field = &graph->field[i];
        printf("  field %-12s %s %s\n", field->name, culm_dtype_name(field->dtype),
               culm_shape_format(&field->shape, text, sizeof text));
    }
    for (int32_t i = 0; culm_onnx_model_note(model, i); i++) {
        printf("  note: %s\n", culm_onnx_model_note(model, i));
    }
}

static enum culm_status import_model(const char *path, const struct values *values,
                                     struct culm_error *error) {
    const struct culm_onnx_options how = {.batch = values->batch ? values->batch : 1,
                                          .context = values->context,
                                          .height = values->image,
                                          .width = values->image};
    const struct culm_stage_options plain = {0};
    struct culm_onnx_model *model = NULL;
    struct culm_graph *graph = NULL;
    struct culm_stage *stage = NULL;
    enum culm_status status = culm_onnx_import(path, &how, &model, &graph, error);
    if (status == CULM_OK) {
        status = culm_stages_compile(graph, 1, &plain, &stage, error);
    }
    if (status == CULM_OK) {
        struct cost cost = cost_of(graph, stage, how.batch);
        (values->json ? print_import_json : print_import)(path, model, graph, &cost);
    }
    culm_stage_free(stage);
    culm_graph_free(graph);
    culm_onnx_model_free(model);
    return status;
}

/* --- export --- */

static enum culm_status weight_of(void *arg, const struct culm_param *param, float *ret_data,
                                  struct culm_error *error) {
    const struct culm_runner *runner = arg;
    const struct culm_stage_info *info = culm_stage_info(runner->stage);
    for (int32_t i = 0; i < info->param_count; i++) {
        if (strcmp(info->params[i].name, param->name) == 0) {
            memcpy(ret_data, runner->params + info->params[i].offset,
                   (size_t)info->params[i].count * sizeof *ret_data);
            return CULM_OK;
        }
    }
    return culm_error_set(error, CULM_ERR_INTERNAL, "no parameter '%s'", param->name);
}

/* The graph of evaluation, since that has all heads; in f32, which the weights are. */
static enum culm_status export_model(const char *what, const char *path, struct culm_error *error) {
    const struct culm_subject_options kinds = {.kinds = CULM_SUBJECT_NAME | CULM_SUBJECT_CONFIG |
                                                        CULM_SUBJECT_RUN};
    const struct culm_runner_options how = {.batch = 1, .purpose = CULM_FOR_LOSS, .threads = 1};
    char note[CULM_NETWORK_NOTE_SIZE] = "";
    struct culm_subject subject;
    struct culm_runner runner = {0};
    enum culm_status status = culm_subject_open(what, &kinds, &subject, error);
    if (status != CULM_OK) {
        return status;
    }
    subject.config.precision = CULM_PRECISION_F32;
    status = culm_runner_init(&runner, subject.network, &how, error);
    if (status == CULM_OK) {
        status = culm_subject_load(&subject, &runner, note, error);
        culm_cli_note("model", note);
    }
    if (status == CULM_OK) {
        status = culm_onnx_export(runner.graph, weight_of, &runner, path, error);
    }
    culm_runner_release(&runner);
    culm_subject_close(&subject);
    return status;
}

static enum culm_status list(const struct values *values, struct culm_error *error) {
    const struct culm_model_preset *preset;
    enum culm_status status = CULM_OK;
    for (size_t i = 0; (preset = culm_model_preset(i)) && status == CULM_OK; i++) {
        status = culm_model_show(preset->name, false, values->json, error);
    }
    return status;
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    enum { LIST, SHOW, IMPORT, EXPORT };
    static const char *const actions[] = {"list", "show", "import", "export", NULL};
    const struct values *v = values;
    const char *subject = arguments->count == 2 ? arguments->items[1] : NULL;
    int action = culm_word_find(actions, arguments->items[0]);
    (void)ret_code;
    if (action == LIST && !subject) {
        return list(v, error);
    }
    if (action == SHOW && subject) {
        return culm_model_show(subject, true, v->json, error);
    }
    if (action == IMPORT && subject) {
        return import_model(subject, v, error);
    }
    if (action == EXPORT && subject && v->onnx) {
        return export_model(subject, v->onnx, error);
    }
    return culm_error_set(error, CULM_ERR_ARGUMENT,
                          "write 'culm model list', 'culm model show NAME|CONFIG', 'culm model "
                          "import FILE.onnx' or 'culm model export NAME|CONFIG|DIR --onnx FILE'");
}

int culm_cli_model(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&usage, argc, argv, &values, run);
}
