/*
 * `culm eval CONFIG|DIR|CHECKPOINT`: loss, accuracy and perplexity on held-out data.
 *
 * Of a run directory the finished model is evaluated; of a configuration, what it starts from
 * (model.init, an ONNX file, or the seed). A checkpoint of a run directory brings the configuration
 * it was made with and what the files must hold.
 */
#include "base/json.h"
#include "cli/command.h"
#include "cli/options.h"

#include <culm/train.h>
#include <jansson.h>
#include <stdio.h>

/* As enum culm_evaluate_by numbers them. */
static const char *const measures[] = {"none", "loss", "accuracy", NULL};

struct values {
    struct culm_option_list sets, data;
    const char *weights;
    int64_t samples, threads; /* samples 0: all */
    int best;
    bool json;
};

static const struct culm_option options[] = {
    CULM_OPTION("set", LIST, "key.sub=value", struct values, sets,
                "changes a key of the configuration; repeatable"),
    CULM_OPTION("data", LIST, "PATH", struct values, data,
                "evaluates on all samples of this file instead of the held-out ones; repeatable"),
    CULM_OPTION("weights", TEXT, "PATH", struct values, weights, CULM_CLI_WEIGHTS_DOC),
    CULM_OPTION("samples", INT, "N", struct values, samples, "evaluates at most N samples"),
    CULM_OPTION("threads", INT, "N", struct values, threads, "compute threads (default: 2)",
                .most = CULM_OPTION_THREADS_MAX),
    CULM_OPTION(
        "best", WORD, "loss|accuracy|none", struct values, best,
        "keeps the weights as DIR/best.safetensors if they are better than those kept there",
        .words = measures),
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON object"),
};

const struct culm_usage culm_usage_eval = {
    .command = "eval",
    .arguments = "CONFIG|DIR|CHECKPOINT",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Measures loss, accuracy and perplexity of a model on held-out data",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

static void print(const char *name, const struct culm_evaluate_result *e, bool asked, bool json) {
    if (json) {
        json_t *object =
            json_pack("{s:o, s:I, s:I, s:f, s:f}", "name", culm_json_text(name), "samples",
                      (json_int_t)e->samples, "counted", (json_int_t)e->counted, "loss", e->loss,
                      "accuracy", e->accuracy);
        if (e->perplexity > 0) {
            json_object_set_new(object, "perplexity", json_real(e->perplexity));
        }
        if (asked) {
            json_object_set_new(object, "best", json_boolean(e->best != 0));
        }
        culm_cli_print_json(object);
        return;
    }
    printf("%s: loss %.4f, accuracy %.2f %%", name, e->loss, 100 * e->accuracy);
    if (e->perplexity > 0) {
        printf(", perplexity %.2f", e->perplexity);
    }
    printf(" on %lld samples\n", (long long)e->samples);
    if (asked) {
        printf(e->best ? "kept as %s/best.safetensors\n"
                       : "%s/best.safetensors is as good or better\n",
               name);
    }
}

/* What is worth knowing beside the result, which is printed in front of it. */
struct notes {
    char text[4][CULM_ERROR_MAX];
    size_t count;
};

static void keep_note(void *context, const char *text) {
    struct notes *notes = context;
    if (notes->count < sizeof notes->text / sizeof *notes->text) {
        snprintf(notes->text[notes->count++], sizeof *notes->text, "%s", text);
    }
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const struct values *v = values;
    struct notes notes = {.count = 0};
    const struct culm_evaluate_arguments how = {
        .size = sizeof how,
        .weights = v->weights,
        .paths = (const char *const *)v->data.items,
        .path_count = v->data.count,
        .samples = v->samples,
        .threads = v->threads,
        .settings = (const char *const *)v->sets.items,
        .setting_count = v->sets.count,
        .warning = keep_note,
        .context = &notes,
        .best = v->best,
    };
    struct culm_evaluate_result result = {.size = sizeof result};
    (void)ret_code;
    enum culm_status status = culm_evaluate(arguments->items[0], &how, &result, error);
    if (status == CULM_OK) {
        for (size_t i = 0; i < notes.count; i++) {
            culm_cli_note("eval", notes.text[i]);
        }
        print(arguments->items[0], &result, v->best != 0, v->json);
    }
    return status;
}

int culm_cli_eval(int argc, char **argv) {
    struct values values = {.threads = 2};
    return culm_cli_run(&culm_usage_eval, argc, argv, &values, run);
}
