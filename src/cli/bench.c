/*
 * `culm bench step NAME|CONFIG`: how long one training step takes in one process. `culm bench ops`:
 * where its time goes, operator by operator.
 *
 * A step is forward, backward, the norm of the gradients and AdamW on one batch of random samples,
 * after two steps that are not counted. It is the same code as in training, without protocol, data
 * and checkpoints.
 */
#include "cli/command.h"
#include "cli/options.h"
#include "run/subject.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/pages.h"
#include "graph/ops/conv.h"
#include "model/optimizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define WARM_UP 2

struct values {
    int64_t batch, context, threads, iters; /* batch, context: 0: not given */
    int dtype, recompute;                   /* -1: not given */
    bool json;
};

static const char *const recompute_names[] = {
    [CULM_RECOMPUTE_NONE] = "none", [CULM_RECOMPUTE_BLOCK] = "block", NULL};

static const struct culm_option options[] = {
    CULM_OPTION("batch", INT, "N", struct values, batch,
                "samples (default: of the configuration, or 1)"),
    CULM_OPTION("context", INT, "T", struct values, context, "tokens in a sample"),
    CULM_OPTION("dtype", WORD, "f32|bf16", struct values, dtype,
                "number format (default: of the configuration, or f32)",
                .words = culm_precision_names),
    CULM_OPTION("recompute", WORD, "none|block", struct values, recompute,
                "activations: kept, or computed again (default: of the configuration, or none)",
                .words = recompute_names),
    CULM_OPTION("threads", INT, "N", struct values, threads, "compute threads (default: 1)",
                .most = CULM_OPTION_THREADS_MAX),
    CULM_OPTION("iters", INT, "K", struct values, iters, "steps (default: 10)"),
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON object"),
};

static const struct culm_usage usage = {
    .command = "bench",
    .arguments = "step|ops NAME|CONFIG",
    .min_arguments = 2,
    .max_arguments = 2,
    .summary = "Measures the training step of a model in one process, or its operators",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details =
        "GFLOP/s: as the layers define their operations. Peak: the highest rate of a matrix "
        "product\n"
        "of 1024 x 1024 x 1024 in the same number format, before and after the steps, or of a "
        "step.\n"
        "Its share is of what is really done: Winograd's convolutions do fewer operations.\n",
};

struct bench {
    struct culm_subject subject;
    struct culm_runner runner;
    float *m, *v;
    int64_t steps, tokens; /* tokens: of a batch; samples when they are images */
    double *op_s;          /* by operator of the program; NULL: not timed */
};

static double seconds_since(uint64_t start_ns) {
    return (double)(culm_clock_ns() - start_ns) / 1e9;
}

/* Tokens of a batch; 0: it is images. */
static int64_t tokens_of(const struct culm_graph *graph) {
    int64_t tokens = 0;
    for (int32_t f = 0; f < graph->field_count; f++) {
        const struct culm_field *field = &graph->field[f];
        if (strcmp(field->name, "targets") == 0 || strcmp(field->name, "types") == 0) {
            tokens = culm_elements(&field->shape);
        }
    }
    return tokens;
}

/* --- a step --- */

static void run_ops(struct bench *b, struct culm_stage_run *run) {
    const struct culm_stage_info *info = culm_stage_info(b->runner.stage);
    for (int32_t i = 0; i < info->forward_ops + info->backward_ops; i++) {
        uint64_t start = culm_clock_ns();
        culm_stage_execute(b->runner.stage, b->runner.device, run, i);
        b->op_s[i] += seconds_since(start);
    }
}

static void step(struct bench *b) {
    const struct culm_runner *r = &b->runner;
    const struct culm_stage_info *info = culm_stage_info(r->stage);
    struct culm_stage_run run = culm_runner_run(r);
    run.seed = 1;
    run.iteration = (uint64_t)++b->steps;
    if (b->op_s) {
        run_ops(b, &run);
    } else {
        (void)culm_stage_forward(r->stage, r->device, &run); /* without a stop flag both end */
        (void)culm_stage_backward(r->stage, r->device, &run);
    }
    struct culm_adamw hyper = culm_adamw_at(b->steps, 0.9, 0.95);
    hyper.lr = 1e-4;
    hyper.eps = 1e-8;
    hyper.weight_decay = 0.1;
    /* Training looks at what it reads and writes (train/numeric_digest.c): so does this. */
    struct culm_step_digest digest;
    uint64_t values = culm_device_digest(r->device, r->params, info->param_floats), grads;
    hyper.digest = &digest;
    hyper.grad_scale = 1.0 / (1.0 + culm_device_sum_squares_digest(r->device, r->grads,
                                                                   info->grad_floats, &grads));
    (void)values;
    for (int32_t g = 0; g < info->grad_count; g++) {
        const struct culm_param_info *param = &info->params[info->grads[g].param];
        if (!param->statistic) {
            CULM_RUN(r->device, adamw, .p = r->params + param->offset, .m = b->m + param->offset,
                     .v = b->v + param->offset, .g = r->grads + info->grads[g].offset,
                     .count = param->count, .hyper = &hyper);
        }
    }
}

/* GFLOP/s of a product of the layers' kind, in the number format of the model. The clock changes
 * and other processes come and go, so one that was measured once bounds nothing. */
static double measured_peak(struct bench *b) {
    enum { M = 1024, N = 1024, K = 1024, FEW = 16, TRIES = 7 };
    bool half = b->subject.config.precision == CULM_PRECISION_BF16;
    size_t bytes = half ? 2 : 4;
    enum culm_dtype dtype = half ? CULM_BF16 : CULM_F32;
    void *x = culm_pages_zeroed(M * K * bytes), *y = culm_pages_zeroed(M * N * bytes);
    float *w = culm_pages_zeroed(K * N * sizeof *w);
    double best = 0;
    int64_t rows = FEW; /* on an emulated processor the whole would take minutes */
    for (int i = 0; i < TRIES && x && y && w; i++) {
        uint64_t start = culm_clock_ns();
        CULM_RUN(b->runner.device, linear_forward, .y = (struct culm_out){y, dtype},
                 .x = (struct culm_in){x, dtype}, .w = w, .n = rows, .in = K, .out = N);
        double took = seconds_since(start), rate = 2.0 * (double)rows * N * K / took / 1e9;
        best = rate > best ? rate : best;
        if (took > 1) {
            break;
        }
        rows = M;
    }
    free(x);
    free(y);
    free(w);
    return best;
}

/* What a step really does; see culm_node_flops_done. */
static double flops_done(const struct bench *b) {
    const struct culm_graph *program = culm_stage_program(b->runner.stage);
    double done = 0;
    for (int32_t i = 0; i < program->node_count; i++) {
        done += culm_node_flops_done(program, &program->node[i]);
    }
    return done;
}

static void report_step(const struct bench *b, const struct values *values, double median,
                        double least, double peak) {
    const struct culm_stage_info *info = culm_stage_info(b->runner.stage);
    double flops = info->forward_flops + info->backward_flops, gflops = flops / median / 1e9;
    double work = flops_done(b) / 1e9, done = work / median;
    peak = work / least > peak ? work / least : peak;
    const char *dtype = culm_precision_names[b->subject.config.precision];
    bool images = b->tokens == 0;
    double rate = (double)(images ? b->subject.batch : b->tokens) / median;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    json_int_t memory = (json_int_t)used.ru_maxrss * 1024;
    if (values->json) {
        json_t *object = json_pack(
            "{s:o, s:s, s:i, s:I, s:{s:f, s:f}, s:f, s:s, s:f, s:f, s:f, s:f, s:I}", "model",
            culm_json_text(b->subject.name), "dtype", dtype, "threads",
            b->runner.device->ops->threads(b->runner.device), "batch", (json_int_t)b->subject.batch,
            "step_s", "median", median, "min", least, "rate_per_s", rate, "rate_of",
            images ? "samples" : "tokens", "gflops", gflops, "gflops_done", done, "peak_gflops",
            peak, "percent_of_peak", 100 * done / peak, "peak_memory_bytes", memory);
        culm_cli_print_json(object);
        return;
    }
    printf("%s, %s, %d threads, batch %lld: step %.4f s (min %.4f), %.0f %s/s, %.1f GFLOP/s, "
           "%.1f done (%.0f %% of %.0f), %.0f MB\n",
           b->subject.name, dtype, b->runner.device->ops->threads(b->runner.device),
           (long long)b->subject.batch, median, least, rate, images ? "samples" : "tokens", gflops,
           done, 100 * done / peak, peak, (double)memory / 1e6);
}

/* --- by operator --- */

struct op_time {
    const char *name;
    double seconds, flops;
    int32_t calls;
};

static int slower(const void *a, const void *b) {
    double x = ((const struct op_time *)a)->seconds, y = ((const struct op_time *)b)->seconds;
    return (x < y) - (x > y);
}

static void report_ops(const struct bench *b, const struct values *values, double iters) {
    const struct culm_graph *program = culm_stage_program(b->runner.stage);
    struct op_time table[128] = {0};
    size_t rows = 0;
    double all = 0;
    for (int32_t i = 0; i < program->node_count; i++) {
        const struct culm_node_desc *node = &program->node[i];
        size_t row = 0;
        while (row < rows && strcmp(table[row].name, node->op->name) != 0) {
            row++;
        }
        if (row == sizeof table / sizeof *table) {
            continue;
        }
        rows = row == rows ? rows + 1 : rows;
        table[row].name = node->op->name;
        table[row].calls++;
        table[row].seconds += b->op_s[i] / iters;
        table[row].flops += node->op->flops ? node->op->flops(program, node) : 0;
        all += b->op_s[i] / iters;
    }
    qsort(table, rows, sizeof *table, slower);
    json_t *list = json_array();
    for (size_t i = 0; i < rows; i++) {
        const struct op_time *t = &table[i];
        double gflops = t->flops / t->seconds / 1e9;
        if (values->json) {
            json_array_append_new(list,
                                  json_pack("{s:s, s:i, s:f, s:f}", "op", t->name, "calls",
                                            t->calls, "seconds", t->seconds, "gflops", gflops));
        } else {
            printf("%-24s %5d calls %9.3f ms %5.1f %%  %8.1f GFLOP/s\n", t->name, t->calls,
                   t->seconds * 1e3, 100 * t->seconds / all, gflops);
        }
    }
    if (values->json) {
        culm_cli_print_json(json_incref(list));
    }
    json_decref(list);
}

/* --- the command --- */

static enum culm_status measure(struct bench *b, const struct values *values, bool ops,
                                struct culm_error *error) {
    size_t iters = (size_t)values->iters;
    double *took = calloc(iters, sizeof *took);
    if (!took) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    double peak = measured_peak(b);
    for (int i = 0; i < WARM_UP; i++) {
        step(b);
    }
    if (ops) {
        int32_t count = culm_stage_program(b->runner.stage)->node_count;
        b->op_s = calloc((size_t)count, sizeof *b->op_s);
    }
    for (size_t i = 0; i < iters; i++) {
        uint64_t start = culm_clock_ns();
        step(b);
        took[i] = seconds_since(start);
    }
    double median = culm_median(took, iters);
    if (ops && b->op_s) {
        report_ops(b, values, (double)iters);
    } else {
        double again = measured_peak(b);
        report_step(b, values, median, took[0], again > peak ? again : peak);
    }
    free(took);
    return CULM_OK;
}

static void apply(struct bench *b, const struct values *values) {
    struct culm_train_config *config = &b->subject.config;
    if (values->batch) {
        b->subject.batch = values->batch;
    }
    if (values->context) {
        config->model.options.context = values->context;
    }
    if (values->dtype >= 0) {
        config->precision = (enum culm_precision)values->dtype;
    }
    if (values->recompute >= 0) {
        config->recompute = (enum culm_recompute)values->recompute;
    }
}

static enum culm_status bench(struct bench *b, const struct culm_arguments *arguments,
                              const struct values *values, struct culm_error *error) {
    static const char *const actions[] = {"step", "ops", NULL};
    int ops = culm_word_find(actions, arguments->items[0]);
    if (ops < 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "'%s' cannot be measured; write 'culm bench step NAME|CONFIG' or "
                              "'culm bench ops NAME|CONFIG'",
                              arguments->items[0]);
    }
    const struct culm_subject_options subject = {.kinds = CULM_SUBJECT_NAME | CULM_SUBJECT_CONFIG,
                                                 .sets = culm_subject_alone,
                                                 .set_count = CULM_SUBJECT_ALONE_COUNT};
    char note[CULM_NETWORK_NOTE_SIZE] = "";
    enum culm_status status;
    if ((status = culm_subject_open(arguments->items[1], &subject, &b->subject, error))) {
        return status;
    }
    apply(b, values);
    const struct culm_runner_options runner = {
        .batch = b->subject.batch, .purpose = CULM_FOR_TRAINING, .threads = (int)values->threads};
    if ((status = culm_runner_init(&b->runner, b->subject.network, &runner, error)) ||
        (status = culm_subject_load(&b->subject, &b->runner, note, error))) {
        return status;
    }
    culm_cli_note("bench", note);
    const struct culm_stage_info *info = culm_stage_info(b->runner.stage);
    b->m = culm_pages_zeroed((size_t)info->param_floats * sizeof(float));
    b->v = culm_pages_zeroed((size_t)info->param_floats * sizeof(float));
    if (!b->m || !b->v) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    culm_runner_fill_random(&b->runner, &b->subject.config);
    b->tokens = tokens_of(b->runner.graph);
    return measure(b, values, ops, error);
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    struct bench b = {0};
    enum culm_status status = bench(&b, arguments, values, error);
    (void)ret_code;
    free(b.m);
    free(b.v);
    free(b.op_s);
    culm_runner_release(&b.runner);
    culm_subject_close(&b.subject);
    return status;
}

int culm_cli_bench(int argc, char **argv) {
    struct values values = {.threads = 1, .iters = 10, .dtype = -1, .recompute = -1};
    return culm_cli_run(&usage, argc, argv, &values, run);
}
