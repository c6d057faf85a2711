/*
 * `culm model list` and `show NAME|CONFIG|DIR`: what a model costs, before it is trained; `import
 * FILE`: what an ONNX file is to training; `export NAME|CONFIG|DIR|CHECKPOINT`: a model as an ONNX file. Of
 * darknet's files all three say what they are as models of pictures.
 */
#include "cli/command.h"
#include "cli/options.h"
#include "run/models.h"
#include "run/vision_about.h"

#include "base/json.h"
#include "base/words.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct values {
    bool json;
    const char *onnx, *weights, *decode, *size;
    int64_t batch, context, image; /* 0: not given */
};

static const struct culm_option options[] = {
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON object per model"),
    CULM_OPTION("onnx", TEXT, "FILE", struct values, onnx, "with export: the file to write"),
    CULM_OPTION("weights", TEXT, "PATH", struct values, weights,
                "for FILE.cfg: its weights file (default: FILE.weights); with export: a "
                "safetensors file, the index of its shards or their folder, a checkpoint, or a "
                "run; best: DIR/best.safetensors (default: the model's own)"),
    CULM_OPTION("decode", TEXT, "WHAT", struct values, decode,
                "with show and export of FILE.onnx: what its outputs are, as for `culm predict` "
                "(default: auto)"),
    CULM_OPTION("size", TEXT, "WxH", struct values, size,
                "with show and export of FILE.onnx: the size of its input, if the file leaves it "
                "open"),
    CULM_OPTION("batch", INT, "N", struct values, batch,
                "with import: samples in a micro-batch (default: 1)"),
    CULM_OPTION("context", INT, "T", struct values, context,
                "with import: tokens in a sample, if the file leaves that open"),
    CULM_OPTION("image", INT, "N", struct values, image,
                "with import: height and width of images, if the file leaves them open"),
};

const struct culm_usage culm_usage_model = {
    .command = "model",
    .arguments = "list | show NAME|CONFIG|DIR|FILE|PACKAGE:QUERY | import FILE|PACKAGE:QUERY | "
                 "export NAME|CONFIG|DIR|CHECKPOINT|FILE|PACKAGE:QUERY --onnx FILE",
    .min_arguments = 1,
    .max_arguments = 2,
    .summary = "Shows what models cost; looks at ONNX files and writes them",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details =
        "FLOPs count the forward and backward pass of one sample. Memory is what training in one\n"
        "process needs with a micro-batch of one sample (of a configuration: with its "
        "batch.micro).\n\n"
        "import shows what `culm train` makes of an ONNX file (model.file: FILE.onnx): its\n"
        "parameters, the fields of its samples, and where it can be cut.\n\n"
        "For darknet's FILE.cfg, import checks FILE.weights and shows what the model answers; "
        "show\n"
        "needs the configuration alone. For FILE.onnx, show prints the same. With PACKAGE:QUERY,\n"
        "show, import and export take the model that `culm merge` has made of the query's.\n\n"
        "export writes a model for inference, with the weights of a run or a checkpoint, or with "
        "its\n"
        "initial weights. BERT has both heads, logits and logits_2. GNMT cannot be exported.\n",
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

/* --- list, show --- */

static void print_cost_json(const struct culm_cost *c, bool stages) {
    json_t *object =
        json_pack("{s:o, s:I, s:f, s:I, s:I, s:I, s:I}", "name", culm_json_text(c->name),
                  "parameters", (json_int_t)c->parameters, "flops_per_sample", c->flops,
                  "memory_bytes", (json_int_t)c->memory_bytes, "activation_bytes",
                  (json_int_t)c->activation_bytes, "activation_bytes_recompute",
                  (json_int_t)c->activation_bytes_recompute, "blocks", (json_int_t)c->blocks);
    json_t *list = json_array();
    for (int32_t i = 0; i < c->stages; i++) {
        const struct culm_cost_stage *one = &c->stage[i];
        json_array_append_new(
            list,
            json_pack("{s:i, s:i, s:I, s:f, s:I, s:I}", "first", one->first_block, "last",
                      one->last_block, "parameters", (json_int_t)one->parameters, "flops",
                      one->flops, "activation_bytes", (json_int_t)one->activation_bytes / c->batch,
                      "boundary_bytes", (json_int_t)one->boundary_bytes / c->batch));
    }
    if (stages) {
        json_object_set(object, "stages", list);
    }
    json_decref(list);
    culm_cli_print_json(object);
}

static void print_cost(const struct culm_cost *c, bool stages) {
    printf("%-12s %14lld parameters  %10.2f GFLOP a sample  %8.1f MB to train  %lld blocks\n",
           c->name, (long long)c->parameters, c->flops / 1e9, (double)c->memory_bytes / 1e6,
           (long long)c->blocks);
    if (!stages) {
        return;
    }
    printf("activations of a sample: %.1f MB, with recompute: block %.1f MB\n",
           (double)c->activation_bytes / 1e6, (double)c->activation_bytes_recompute / 1e6);
    for (int32_t i = 0; i < c->stages; i++) {
        const struct culm_cost_stage *one = &c->stage[i];
        printf("stage %d of %d: blocks %d to %d, %lld parameters, %.2f GFLOP, %.1f MB of "
               "activations, sends %.2f MB\n",
               i, c->stages, one->first_block, one->last_block, (long long)one->parameters,
               one->flops / 1e9, (double)one->activation_bytes / (double)c->batch / 1e6,
               (double)one->boundary_bytes / (double)c->batch / 1e6);
    }
}

static enum culm_status show(const char *what, bool stages, bool json, struct culm_error *error) {
    struct culm_cost cost;
    enum culm_status status = culm_cost_compute(what, stages, &cost, error);
    if (status == CULM_OK) {
        (json ? print_cost_json : print_cost)(&cost, stages);
    }
    culm_cost_release(&cost);
    return status;
}

static enum culm_status list(bool json, struct culm_error *error) {
    const char *name;
    enum culm_status status = CULM_OK;
    for (size_t i = 0; (name = culm_published(i)) && status == CULM_OK; i++) {
        status = show(name, false, json, error);
    }
    return status;
}

/* --- import --- */

static void print_import_json(const char *path, const struct culm_import *import) {
    const struct culm_import_about about = culm_import_describe(import);
    json_t *fields = json_array(), *notes = json_array();
    json_t *object =
        json_pack("{s:o, s:I, s:f, s:I, s:I, s:o, s:I, s:i}", "name", culm_json_text(path),
                  "parameters", (json_int_t)about.parameters, "flops_per_sample", about.flops,
                  "memory_bytes", (json_int_t)about.memory_bytes, "blocks",
                  (json_int_t)about.blocks, "producer", culm_json_text(about.producer), "opset",
                  (json_int_t)about.opset, "operators", about.operators);
    for (int32_t i = 0; i < about.fields; i++) {
        const struct culm_import_field field = culm_import_field_of(import, i);
        json_t *shape = json_array();
        for (int k = 0; k < field.rank; k++) {
            json_array_append_new(shape, json_integer(field.shape[k]));
        }
        json_array_append_new(fields,
                              json_pack("{s:o, s:s, s:o}", "name", culm_json_text(field.name),
                                        "dtype", field.dtype, "shape", shape));
    }
    for (int32_t i = 0; i < about.notes; i++) {
        json_array_append_new(notes, culm_json_text(culm_import_note(import, i)));
    }
    json_object_set_new(object, "ends_in",
                        about.ends_in ? json_string(about.ends_in) : json_null());
    json_object_set_new(object, "fields", fields);
    json_object_set_new(object, "notes", notes);
    culm_cli_print_json(object);
}

static void print_import(const char *path, const struct culm_import *import) {
    const struct culm_import_about about = culm_import_describe(import);
    char number[32];
    printf("%s: by %s, opset %lld\n", path, about.producer[0] ? about.producer : "unknown",
           (long long)about.opset);
    printf("  %s parameters in %d tensors, %d operators, %d blocks\n",
           pretty_count(about.parameters, number), about.tensors, about.operators, about.blocks);
    printf("  %.2f GFLOP a sample, %.1f MB to train\n", about.flops / 1e9,
           (double)about.memory_bytes / 1e6);
    for (int32_t i = 0; i < about.fields; i++) {
        const struct culm_import_field field = culm_import_field_of(import, i);
        printf("  field %-12s %s [", field.name, field.dtype);
        for (int k = 0; k < field.rank; k++) {
            printf("%s%lld", k ? "," : "", (long long)field.shape[k]);
        }
        printf("]\n");
    }
    for (int32_t i = 0; i < about.notes; i++) {
        printf("  note: %s\n", culm_import_note(import, i));
    }
}

static enum culm_status import_model(const char *path, const struct values *values,
                                     struct culm_error *error) {
    const struct culm_import_options how = {values->batch, values->context, values->image};
    struct culm_import *import = NULL;
    enum culm_status status = culm_import_open(path, &how, &import, error);
    if (status == CULM_OK) {
        (values->json ? print_import_json : print_import)(path, import);
    }
    culm_import_free(import);
    return status;
}

/* --- models of pictures --- */

static void print_about_json(const char *path, const struct culm_vision_about *a) {
    json_t *layers = json_array();
    for (int32_t i = 0; i < a->layers; i++) {
        json_array_append_new(layers,
                              json_pack("{s:o, s:s, s:I}", "name", culm_json_text(a->layer[i].name),
                                        "signature", a->layer[i].signature, "bytes",
                                        (json_int_t)a->layer[i].bytes));
    }
    culm_cli_print_json(json_pack(
        "{s:o, s:s, s:i, s:s?, s:{s:i, s:i, s:i}, s:i, s:I, s:I, s:i, s:f, s:I, s:I, s:o}", "name",
        culm_json_text(path), "answers", a->answers, "classes", a->classes, "ends_in", a->ends_in,
        "input", "width", a->width, "height", a->height, "channels", a->channels, "heads", a->heads,
        "candidates", (json_int_t)a->candidates, "parameters", (json_int_t)a->parameters, "tensors",
        a->tensors, "flops_per_sample", a->flops, "memory_bytes", (json_int_t)a->memory_bytes,
        "bytes", (json_int_t)a->layer_bytes, "layers", layers));
}

static void print_about(const char *path, const struct culm_vision_about *a) {
    char number[32];
    printf("%s: %s, %d %s, input %d x %d x %d\n", path, a->answers, a->classes,
           a->answers[0] == 'p' ? "of them" : "classes", a->width, a->height, a->channels);
    if (a->ends_in) {
        printf("  ends in a %s\n", a->ends_in);
    }
    if (a->candidates) {
        printf("  %s candidates for boxes a frame\n", pretty_count(a->candidates, number));
    }
    printf("  %s parameters in %d tensors\n", pretty_count(a->parameters, number), a->tensors);
    printf("  %.2f GFLOP a frame, %.1f MB to answer\n", a->flops / 1e9,
           (double)a->memory_bytes / 1e6);
    printf("  %d layers of %s bytes\n", (int)a->layers, pretty_count(a->layer_bytes, number));
    for (int32_t i = 0; i < a->layers; i++) {
        printf("  %-32s %10s  %s\n", a->layer[i].name, pretty_count(a->layer[i].bytes, number),
               a->layer[i].signature);
    }
}

static enum culm_status about_model(const char *path, const struct values *v, bool check,
                                    struct culm_error *error) {
    struct culm_vision_about about;
    const struct culm_vision_which which = {path, v->weights, v->decode, v->size};
    enum culm_status status = culm_vision_describe_file(&which, check, &about, error);
    if (status == CULM_OK) {
        (v->json ? print_about_json : print_about)(path, &about);
    }
    culm_vision_about_release(&about);
    return status;
}

static bool ends_in(const char *path, const char *ending) {
    size_t len = strlen(path), ending_len = strlen(ending);
    return len > ending_len && strcmp(path + len - ending_len, ending) == 0;
}

/* --- the command --- */

static enum culm_status export_model(const char *what, const char *weights, const char *path,
                                     struct culm_error *error) {
    char note[CULM_EXPORT_NOTE_SIZE];
    enum culm_status status = culm_export(what, weights, path, note, error);
    culm_cli_note("model", note);
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
        return list(v->json, error);
    }
    bool cfg = subject && ends_in(subject, ".cfg");
    bool pictures = subject && culm_vision_is_file(subject);
    if (v->weights && !cfg && action != EXPORT) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--weights is for FILE.cfg, and of other models for export alone");
    }
    if ((v->decode || v->size) && !(pictures && (action == SHOW || action == EXPORT))) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--decode and --size are for show and export of FILE.onnx");
    }
    if (action == SHOW && pictures) {
        return about_model(subject, v, false, error);
    }
    if (action == IMPORT && pictures && !ends_in(subject, ".onnx")) {
        return about_model(subject, v, true, error);
    }
    if (action == EXPORT && pictures && v->onnx) {
        const struct culm_vision_which which = {subject, v->weights, v->decode, v->size};
        return culm_vision_export(&which, v->onnx, error);
    }
    if (action == SHOW && subject) {
        return show(subject, true, v->json, error);
    }
    if (action == IMPORT && subject) {
        return import_model(subject, v, error);
    }
    if (action == EXPORT && subject && v->onnx) {
        return export_model(subject, v->weights, v->onnx, error);
    }
    return culm_error_set(error, CULM_ERR_ARGUMENT,
                          "write 'culm model list', 'culm model show "
                          "NAME|CONFIG|DIR|FILE|PACKAGE:QUERY', 'culm model "
                          "import FILE|PACKAGE:QUERY' or 'culm model export "
                          "NAME|CONFIG|DIR|CHECKPOINT|FILE|PACKAGE:QUERY --onnx "
                          "FILE'");
}

int culm_cli_model(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_model, argc, argv, &values, run);
}
