/*
 * `culm generate DIR|CHECKPOINT`: text from the model of a run, token by token.
 */
#include "cli/command.h"
#include "cli/options.h"

#include <culm/infer.h>
#include <stdio.h>

struct values {
    const char *prompt, *weights;
    int64_t tokens, seed, threads;
    double temperature;
};

static const struct culm_option options[] = {
    CULM_OPTION("prompt", TEXT, "TEXT", struct values, prompt,
                "text to begin with (default: a line break)"),
    CULM_OPTION("weights", TEXT, "PATH", struct values, weights, CULM_CLI_WEIGHTS_DOC),
    CULM_OPTION("tokens", INT, "N", struct values, tokens,
                "how many tokens to add, which are bytes without a tokenizer (default: 200)"),
    CULM_OPTION("bytes", INT, "N", struct values, tokens, "the old name of --tokens"),
    CULM_OPTION("temperature", REAL, "X", struct values, temperature,
                "below 1: likelier tokens; above 1: rarer ones (default: 0.8)"),
    CULM_OPTION("seed", INT, "N", struct values, seed, "seed of the random choices (default: 1)"),
    CULM_OPTION("threads", INT, "N", struct values, threads, "compute threads (default: 2)",
                .most = CULM_OPTION_THREADS_MAX),
};

const struct culm_usage culm_usage_generate = {
    .command = "generate",
    .arguments = "DIR|CHECKPOINT",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Writes text with the model of a run or of a checkpoint",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details =
        "The model is a gpt2, or an ONNX file that reads only tokens, has causal attention, and\n"
        "answers with logits [batch, length, vocabulary].\n",
};

static bool say(void *context, const void *bytes, size_t len) {
    (void)context;
    fwrite(bytes, 1, len, stdout);
    fflush(stdout);
    return true;
}

static void note(void *context, const char *text) {
    (void)context;
    culm_cli_note("generate", text);
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const struct values *v = values;
    (void)ret_code;
    if (!v->prompt[0]) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--prompt: the text is empty; give at least one byte");
    }
    const struct culm_generate_options how = {
        .size = sizeof how,
        .prompt = v->prompt,
        .weights = v->weights,
        .tokens = v->tokens,
        .temperature = v->temperature,
        .seed = (uint64_t)v->seed,
        .threads = v->threads,
        .text = say,
        .warning = note,
    };
    enum culm_status status = culm_generate(arguments->items[0], &how, error);
    if (status == CULM_OK) {
        putchar('\n');
    }
    return status;
}

int culm_cli_generate(int argc, char **argv) {
    struct values values = {
        .prompt = "\n", .tokens = 200, .temperature = 0.8, .seed = 1, .threads = 2};
    return culm_cli_run(&culm_usage_generate, argc, argv, &values, run);
}
