/*
 * `culm bench step NAME|CONFIG`: how long one training step takes in one process.
 *
 * A step is forward, backward, the norm of the gradients and AdamW on one batch of random tokens,
 * after two steps that are not counted. It is the same code as in training, without protocol, data
 * and checkpoints.
 */
#include "cli/command.h"
#include "cli/options.h"
#include "cli/subject.h"

#include "base/rng.h"
#include "model/optimizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define WARM_UP 2
#define CULM_BENCH_FIELDS 16

struct values {
    double batch, context, threads, iters;
    const char *dtype;
    bool json;
};

static const struct culm_option options[] = {
    {"batch", CULM_OPTION_REAL, "N", offsetof(struct values, batch),
     "samples (default: of the configuration, or 1)"},
    {"context", CULM_OPTION_REAL, "T", offsetof(struct values, context), "tokens in a sample"},
    {"dtype", CULM_OPTION_TEXT, "f32", offsetof(struct values, dtype), "number format"},
    {"threads", CULM_OPTION_REAL, "N", offsetof(struct values, threads), "(default: 1)"},
    {"iters", CULM_OPTION_REAL, "K", offsetof(struct values, iters), "steps (default: 10)"},
    {"json", CULM_OPTION_FLAG, NULL, offsetof(struct values, json), "prints one JSON object"},
};

static const struct culm_usage usage = {
    .command = "bench",
    .arguments = "step NAME|CONFIG",
    .min_arguments = 2,
    .max_arguments = 2,
    .summary = "Measures the training step of a model in one process",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct bench {
    struct culm_subject subject;
    struct culm_graph *graph;
    struct culm_stage *stage;
    struct culm_cpu *cpu;
    float *params, *m, *v, *grads;
    void *field[CULM_BENCH_FIELDS];
    void *activations, *scratch;
    int64_t steps;
};

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *aligned(size_t bytes) {
    void *data = aligned_alloc(64, (bytes + 64) & ~(size_t)63);
    return data ? memset(data, 0, (bytes + 64) & ~(size_t)63) : NULL;
}

/* The number of values that a field may have: classes, tokens, positions. */
static int64_t range_of(const struct bench *b, const struct culm_field *field) {
    const struct culm_model_options *o = &b->subject.options;
    if (strcmp(field->name, "label") == 0) {
        return o->classes ? o->classes : 1000;
    }
    if (strcmp(field->name, "positions") == 0) {
        return o->context;
    }
    if (strcmp(field->name, "mask") == 0) {
        return 1; /* and one is added: all there */
    }
    if (strcmp(field->name, "types") == 0 || strcmp(field->name, "nsp") == 0) {
        return 2;
    }
    return o->vocab;
}

static enum culm_status fill_fields(struct bench *b, struct culm_error *error) {
    uint64_t random = 1;
    if (b->graph->field_count > CULM_BENCH_FIELDS) {
        return culm_error_set(error, CULM_ERR_UNSUPPORTED, "a sample of %d fields",
                              b->graph->field_count);
    }
    for (int32_t f = 0; f < b->graph->field_count; f++) {
        const struct culm_field *field = &b->graph->field[f];
        int64_t count = culm_elements(&field->shape), range = range_of(b, field);
        b->field[f] = aligned((size_t)count * 4);
        if (!b->field[f]) {
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
        }
        bool length = strstr(field->name, "length") != NULL,
             mask = strcmp(field->name, "mask") == 0;
        for (int64_t i = 0; i < count; i++) {
            int32_t drawn = (int32_t)culm_rng_below(&random, (uint64_t)range);
            if (field->dtype == CULM_F32) {
                ((float *)b->field[f])[i] = culm_rng_unit((uint32_t)culm_rng_next(&random)) - 0.5f;
            } else {
                ((int32_t *)b->field[f])[i] = length ? (int32_t)b->subject.options.context
                                              : mask ? 1
                                                     : drawn;
            }
        }
    }
    return CULM_OK;
}

static enum culm_status prepare(struct bench *b, int threads, struct culm_error *error) {
    enum culm_status status;
    if ((status = culm_subject_compile(&b->subject, &b->graph, &b->stage, error)) ||
        (status = culm_cpu_new(threads, &b->cpu, error))) {
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info(b->stage);
    size_t floats = (size_t)info->param_floats * sizeof(float);
    b->params = aligned(floats);
    b->m = aligned(floats);
    b->v = aligned(floats);
    b->grads = aligned((size_t)info->grad_floats * sizeof(float));
    b->activations = aligned(info->activation_bytes);
    b->scratch = aligned(info->scratch_bytes);
    if (!b->params || !b->m || !b->v || !b->grads || !b->activations || !b->scratch) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int32_t i = 0; i < info->param_count; i++) {
        culm_model_init_param(&info->params[i], 1, b->params + info->params[i].offset);
    }
    return fill_fields(b, error);
}

static void step(struct bench *b) {
    const struct culm_stage_info *info = culm_stage_info(b->stage);
    struct culm_stage_run run = {.seed = 1,
                                 .iteration = (uint64_t)++b->steps,
                                 .params = b->params,
                                 .fields = (const void *const *)b->field,
                                 .loss_scale = 1.0 / (double)b->subject.options.batch,
                                 .activations = b->activations,
                                 .scratch = b->scratch,
                                 .grads = b->grads,
                                 .first = true};
    (void)culm_stage_forward(b->stage, b->cpu, &run); /* without a stop flag both end */
    (void)culm_stage_backward(b->stage, b->cpu, &run);
    struct culm_adamw hyper = culm_adamw_at(b->steps, 0.9, 0.95);
    hyper.lr = 1e-4;
    hyper.eps = 1e-8;
    hyper.weight_decay = 0.1;
    hyper.grad_scale = 1.0 / (1.0 + culm_cpu_sum_squares(b->cpu, b->grads, info->grad_floats));
    for (int32_t g = 0; g < info->grad_count; g++) {
        const struct culm_param_info *param = &info->params[info->grads[g].param];
        culm_cpu_adamw(b->cpu, b->params + param->offset, b->m + param->offset,
                       b->v + param->offset, b->grads + info->grads[g].offset, param->count,
                       &hyper);
    }
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum culm_status measure(struct bench *b, const struct values *values,
                                struct culm_error *error) {
    size_t iters = (size_t)values->iters;
    double *took = calloc(iters, sizeof *took);
    if (!took) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int i = 0; i < WARM_UP; i++) {
        step(b);
    }
    for (size_t i = 0; i < iters; i++) {
        double start = seconds();
        step(b);
        took[i] = seconds() - start;
    }
    qsort(took, iters, sizeof *took, compare);
    double median = iters % 2 ? took[iters / 2] : (took[iters / 2 - 1] + took[iters / 2]) / 2;
    const struct culm_stage_info *info = culm_stage_info(b->stage);
    double flops = info->forward_flops + info->backward_flops;
    double tokens = (double)(b->subject.options.batch *
                             (b->subject.options.context ? b->subject.options.context : 1));
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    if (values->json) {
        json_t *object =
            json_pack("{s:s, s:s, s:i, s:I, s:{s:f, s:f}, s:f, s:f, s:I}", "model", b->subject.name,
                      "dtype", "f32", "threads", culm_cpu_threads(b->cpu), "batch",
                      (json_int_t)b->subject.options.batch, "step_s", "median", median, "min",
                      took[0], "rate_per_s", tokens / median, "gflops", flops / median / 1e9,
                      "peak_memory_bytes", (json_int_t)used.ru_maxrss * 1024);
        char *text = json_dumps(object, JSON_COMPACT);
        puts(text ? text : "");
        free(text);
        json_decref(object);
    } else {
        printf(
            "%s, f32, %d threads, batch %lld x %lld: step %.4f s (min %.4f), %.0f tokens/s, %.1f "
            "GFLOP/s, %.0f MB\n",
            b->subject.name, culm_cpu_threads(b->cpu), (long long)b->subject.options.batch,
            (long long)b->subject.options.context, median, took[0], tokens / median,
            flops / median / 1e9, (double)used.ru_maxrss / 1e3);
    }
    free(took);
    return CULM_OK;
}

static enum culm_status bench(struct bench *b, const struct culm_arguments *arguments,
                              const struct values *values, struct culm_error *error) {
    if (strcmp(arguments->items[0], "step") != 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "'%s' cannot be measured; write 'culm bench step NAME|CONFIG'",
                              arguments->items[0]);
    }
    if (strcmp(values->dtype, "f32") != 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--dtype: '%s' is not there; allowed is f32", values->dtype);
    }
    enum culm_status status = culm_subject_find(arguments->items[1], &b->subject, error);
    if (status != CULM_OK) {
        return status;
    }
    if (values->batch >= 1) {
        b->subject.options.batch = (int64_t)values->batch;
    }
    if (values->context >= 1) {
        b->subject.options.context = (int64_t)values->context;
    }
    status = prepare(b, (int)values->threads, error);
    return status == CULM_OK ? measure(b, values, error) : status;
}

int culm_cli_bench(int argc, char **argv) {
    struct values values = {.threads = 1, .iters = 10, .dtype = "f32"};
    struct culm_arguments arguments;
    struct culm_error error = {0};
    enum culm_status status = culm_options_parse(&usage, argc, argv, &values, &arguments, &error);
    if (status == CULM_OK && arguments.help) {
        culm_usage_print(&usage, stdout);
        return 0;
    }
    struct bench b = {0};
    if (status == CULM_OK) {
        status = bench(&b, &arguments, &values, &error);
    }
    free(b.params);
    free(b.m);
    free(b.v);
    free(b.grads);
    for (int f = 0; f < CULM_BENCH_FIELDS; f++) {
        free(b.field[f]);
    }
    free(b.activations);
    free(b.scratch);
    culm_cpu_free(b.cpu);
    culm_stage_free(b.stage);
    culm_graph_free(b.graph);
    return status == CULM_OK ? 0 : culm_cli_fail("bench", &error);
}
