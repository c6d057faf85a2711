/*
 * `culm generate DIR`: text from the model of a finished run, byte by byte.
 *
 * The model is compiled as one stage for one sample and run over the whole context for every byte:
 * slow and simple. Before the context is full it is padded behind, which causal attention does not
 * see; afterwards the oldest half is let go.
 */
#include "cli/command.h"
#include "cli/options.h"

#include "base/file.h"
#include "base/rng.h"
#include "model/model.h"
#include "store/safetensors.h"
#include "train/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct values {
    const char *prompt;
    double bytes, temperature, seed, threads;
};

static const struct culm_option options[] = {
    {"prompt", CULM_OPTION_TEXT, "TEXT", offsetof(struct values, prompt),
     "what the text begins with (default: a line break)"},
    {"bytes", CULM_OPTION_REAL, "N", offsetof(struct values, bytes),
     "how many bytes to add (default: 200)"},
    {"temperature", CULM_OPTION_REAL, "X", offsetof(struct values, temperature),
     "below 1: likelier bytes; above 1: rarer ones (default: 0.8)"},
    {"seed", CULM_OPTION_REAL, "N", offsetof(struct values, seed), "of the choices (default: 1)"},
    {"threads", CULM_OPTION_REAL, "N", offsetof(struct values, threads), "(default: 2)"},
};

static const struct culm_usage usage = {
    .command = "generate",
    .arguments = "DIR",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Writes text with the model of the finished run in DIR",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct generator {
    struct culm_train_config config;
    struct culm_graph *graph;
    struct culm_stage *stage;
    struct culm_cpu *cpu;
    float *params, *logits;
    int32_t *tokens;
    void *activations, *scratch;
};

static void *aligned(size_t bytes) { return aligned_alloc(64, (bytes + 64) & ~(size_t)63); }

static enum culm_status load_params(struct generator *g, const char *dir,
                                    struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_safetensors *file = NULL;
    const struct culm_stage_info *info = culm_stage_info(g->stage);
    enum culm_status status = culm_path_format(path, error, "%s/model.safetensors", dir);
    if (status == CULM_OK) {
        status = culm_safetensors_open(path, &file, error);
    }
    for (int32_t i = 0; i < info->param_count && status == CULM_OK; i++) {
        const struct culm_param_info *param = &info->params[i];
        status = culm_safetensors_read(file, param->name, param->rank, param->shape,
                                       g->params + param->offset, error);
    }
    culm_safetensors_close(file);
    return status;
}

static enum culm_status prepare(struct generator *g, const char *dir, int threads,
                                struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/config.yaml", dir);
    if (status != CULM_OK ||
        (status = culm_train_config_load(path, NULL, 0, &g->config, error)) != CULM_OK) {
        return status;
    }
    const struct culm_model_options model = {
        .layers = g->config.model.layers,
        .width = g->config.model.width,
        .heads = g->config.model.heads,
        .context = g->config.model.context,
        .vocab = g->config.model.vocab,
        .batch = 1,
        .inference = true,
    };
    if ((status = culm_model_build(g->config.model.arch, &model, &g->graph, error)) ||
        (status = culm_stages_compile(g->graph, 1, NULL, &g->stage, error)) ||
        (status = culm_cpu_new(threads, &g->cpu, error))) {
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info(g->stage);
    g->params = aligned((size_t)info->param_floats * sizeof(float));
    g->logits = aligned(info->output_bytes);
    g->tokens = aligned((size_t)g->config.model.context * sizeof *g->tokens);
    g->activations = aligned(info->activation_bytes);
    g->scratch = aligned(info->scratch_bytes);
    if (!g->params || !g->logits || !g->tokens || !g->activations || !g->scratch) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    memset(g->tokens, 0, (size_t)g->config.model.context * sizeof *g->tokens);
    return load_params(g, dir, error);
}

static int32_t choose(const float *logits, int64_t vocab, double temperature, uint64_t *random) {
    double largest = logits[0], sum = 0;
    for (int64_t v = 1; v < vocab; v++) {
        largest = logits[v] > largest ? logits[v] : largest;
    }
    for (int64_t v = 0; v < vocab; v++) {
        sum += exp((logits[v] - largest) / temperature);
    }
    double left = (double)(culm_rng_next(random) >> 11) * 0x1p-53 * sum;
    for (int64_t v = 0; v < vocab; v++) {
        left -= exp((logits[v] - largest) / temperature);
        if (left < 0) {
            return (int32_t)v;
        }
    }
    return (int32_t)vocab - 1;
}

static void generate(struct generator *g, const char *prompt, int64_t bytes, double temperature,
                     uint64_t seed) {
    int64_t context = g->config.model.context, vocab = g->config.model.vocab, length = 0;
    size_t given = strlen(prompt);
    size_t skip = given > (size_t)context ? given - (size_t)context : 0;
    for (const char *c = prompt + skip; *c; c++) {
        g->tokens[length++] = (unsigned char)*c % (int32_t)vocab;
    }
    fputs(prompt, stdout);
    uint64_t random = culm_rng_mix(seed, 0x7E87);
    for (int64_t i = 0; i < bytes; i++) {
        if (length == context) {
            length = context / 2;
            memmove(g->tokens, g->tokens + context - length, (size_t)length * sizeof *g->tokens);
        }
        struct culm_stage_run run = {.params = g->params,
                                     .fields = (const void *const[]){g->tokens},
                                     .output = g->logits,
                                     .activations = g->activations,
                                     .scratch = g->scratch};
        (void)culm_stage_forward(g->stage, g->cpu, &run); /* without a stop flag it ends */
        int32_t token = choose(g->logits + (length - 1) * vocab, vocab, temperature, &random);
        g->tokens[length++] = token;
        putchar(token < 256 ? token : '?');
    }
    putchar('\n');
}

static void release(struct generator *g) {
    free(g->params);
    free(g->logits);
    free(g->tokens);
    free(g->activations);
    free(g->scratch);
    culm_cpu_free(g->cpu);
    culm_stage_free(g->stage);
    culm_graph_free(g->graph);
    culm_train_config_release(&g->config);
}

int culm_cli_generate(int argc, char **argv) {
    struct values values = {
        .prompt = "\n", .bytes = 200, .temperature = 0.8, .seed = 1, .threads = 2};
    struct culm_arguments arguments;
    struct culm_error error = {0};
    if (culm_options_parse(&usage, argc, argv, &values, &arguments, &error)) {
        return culm_cli_fail("generate", &error);
    }
    if (arguments.help) {
        culm_usage_print(&usage, stdout);
        return 0;
    }
    struct generator g = {0};
    int code = 0;
    if (!values.prompt[0]) {
        culm_error_set(&error, CULM_ERR_ARGUMENT,
                       "--prompt: an empty text; give at least one byte");
        code = culm_cli_fail("generate", &error);
    } else if (prepare(&g, arguments.items[0], (int)values.threads, &error)) {
        code = culm_cli_fail("generate", &error);
    } else {
        generate(&g, values.prompt, (int64_t)values.bytes, values.temperature,
                 (uint64_t)values.seed);
    }
    release(&g);
    return code;
}
