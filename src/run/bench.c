/*
 * The training step of a model in one process, timed as a whole or operator by operator.
 *
 * A step is forward, backward, the norm of the gradients and AdamW on one batch of random samples,
 * after two steps that are not counted. It is the same code as in training, without protocol, data
 * and checkpoints.
 */
#include "run/bench.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/machine.h"
#include "base/pages.h"
#include "graph/ops/conv.h"
#include "model/optimizer.h"
#include "query/subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP 2

const char *const culm_bench_recomputes[] = {
    [CULM_RECOMPUTE_NONE] = "none", [CULM_RECOMPUTE_BLOCK] = "block", NULL};

const char *const culm_bench_dtypes[] = {
    [CULM_PRECISION_F32] = "f32", [CULM_PRECISION_BF16] = "bf16", NULL};

struct bench {
    struct culm_subject subject;
    struct culm_runner runner;
    float *m, *v;
    int64_t steps;
    double *op_s; /* by operator of the program; NULL: not timed */
};

static double seconds_since(uint64_t start_ns) {
    return (double)(culm_clock_ns() - start_ns) / 1e9;
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
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
    const struct culm_stage_info *info = culm_stage_info_of(b->runner.stage);
    for (int32_t i = 0; i < info->forward_ops + info->backward_ops; i++) {
        uint64_t start = culm_clock_ns();
        culm_stage_execute(b->runner.stage, b->runner.device, run, i);
        b->op_s[i] += seconds_since(start);
    }
}

static void step(struct bench *b) {
    const struct culm_runner *r = &b->runner;
    const struct culm_stage_info *info = culm_stage_info_of(r->stage);
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

/* --- the results --- */

static void tell_step(const struct bench *b, double peak_gflops, struct culm_bench *bench) {
    const struct culm_stage_info *info = culm_stage_info_of(b->runner.stage);
    snprintf(bench->name, sizeof bench->name, "%s", b->subject.name);
    bench->dtype = culm_bench_dtypes[b->subject.config.precision];
    bench->threads = b->runner.device->ops->threads(b->runner.device);
    bench->batch = b->subject.batch;
    bench->tokens = tokens_of(b->runner.graph);
    bench->flops = info->forward_flops + info->backward_flops;
    bench->flops_done = flops_done(b);
    double done = bench->flops_done / 1e9 / bench->least_s;
    bench->peak_gflops = done > peak_gflops ? done : peak_gflops;
    bench->peak_memory_bytes = (int64_t)culm_machine_peak();
}

static int slower(const void *a, const void *b) {
    double x = ((const struct culm_bench_op *)a)->seconds;
    double y = ((const struct culm_bench_op *)b)->seconds;
    return (x < y) - (x > y);
}

/* The row of an operator, new or not; NULL: out of memory. */
static struct culm_bench_op *row_of(struct culm_bench *bench, size_t *capacity, const char *name) {
    for (size_t i = 0; i < bench->op_count; i++) {
        if (strcmp(bench->op[i].name, name) == 0) {
            return &bench->op[i];
        }
    }
    if (!CULM_GROW(bench->op, *capacity, bench->op_count + 1)) {
        return NULL;
    }
    bench->op[bench->op_count] = (struct culm_bench_op){.name = name};
    return &bench->op[bench->op_count++];
}

static enum culm_status tell_ops(const struct bench *b, double iters, struct culm_bench *bench,
                                 struct culm_error *error) {
    const struct culm_graph *program = culm_stage_program(b->runner.stage);
    size_t capacity = 0;
    for (int32_t i = 0; i < program->node_count; i++) {
        const struct culm_node_desc *node = &program->node[i];
        struct culm_bench_op *row = row_of(bench, &capacity, node->op->name);
        if (!row) {
            return no_memory(error);
        }
        row->calls++;
        row->seconds += b->op_s[i] / iters;
        row->flops += node->op->flops ? node->op->flops(program, node) : 0;
    }
    qsort(bench->op, bench->op_count, sizeof *bench->op, slower);
    return CULM_OK;
}

/* --- measuring --- */

static enum culm_status measure(struct bench *b, const struct culm_bench_options *options,
                                struct culm_bench *bench, struct culm_error *error) {
    size_t iters = (size_t)options->iters;
    double *took = calloc(iters, sizeof *took);
    if (!took) {
        return no_memory(error);
    }
    double peak = measured_peak(b);
    for (int i = 0; i < WARM_UP; i++) {
        step(b);
    }
    if (options->ops) {
        int32_t count = culm_stage_program(b->runner.stage)->node_count;
        b->op_s = calloc((size_t)count + 1, sizeof *b->op_s);
        if (!b->op_s) {
            free(took);
            return no_memory(error);
        }
    }
    for (size_t i = 0; i < iters; i++) {
        uint64_t start = culm_clock_ns();
        step(b);
        took[i] = seconds_since(start);
    }
    bench->median_s = culm_median(took, iters); /* and sorts them */
    bench->least_s = took[0];
    free(took);
    if (options->ops) {
        return tell_ops(b, (double)iters, bench, error);
    }
    double again = measured_peak(b);
    tell_step(b, again > peak ? again : peak, bench);
    return CULM_OK;
}

static void apply(struct culm_subject *subject, const struct culm_bench_options *options) {
    struct culm_train_config *config = &subject->config;
    if (options->batch) {
        subject->batch = options->batch;
    }
    if (options->context) {
        config->model.options.context = options->context;
    }
    if (options->dtype >= 0) {
        config->precision = (enum culm_precision)options->dtype;
    }
    if (options->recompute >= 0) {
        config->recompute = (enum culm_recompute)options->recompute;
    }
}

static enum culm_status run(struct bench *b, const char *what,
                            const struct culm_bench_options *options, struct culm_bench *bench,
                            struct culm_error *error) {
    const struct culm_subject_options subject = {.kinds = CULM_SUBJECT_NAME | CULM_SUBJECT_CONFIG,
                                                 .sets = culm_subject_alone,
                                                 .set_count = CULM_SUBJECT_ALONE_COUNT};
    enum culm_status status = culm_subject_open(what, &subject, &b->subject, error);
    if (status != CULM_OK) {
        return status;
    }
    apply(&b->subject, options);
    const struct culm_runner_options runner = {
        .batch = b->subject.batch, .purpose = CULM_FOR_TRAINING, .threads = options->threads};
    if ((status = culm_runner_init(&b->runner, b->subject.network, &runner, error)) ||
        (status = culm_subject_load(&b->subject, &b->runner, bench->note, error))) {
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info_of(b->runner.stage);
    b->m = culm_pages_zeroed((size_t)info->param_floats * sizeof(float));
    b->v = culm_pages_zeroed((size_t)info->param_floats * sizeof(float));
    if (!b->m || !b->v) {
        return no_memory(error);
    }
    culm_runner_fill_random(&b->runner, &b->subject.config);
    return measure(b, options, bench, error);
}

enum culm_status culm_bench_run(const char *what, const struct culm_bench_options *options,
                                struct culm_bench *ret_bench, struct culm_error *error) {
    struct bench b = {0};
    *ret_bench = (struct culm_bench){0};
    enum culm_status status = run(&b, what, options, ret_bench, error);
    free(b.m);
    free(b.v);
    free(b.op_s);
    culm_runner_release(&b.runner);
    culm_subject_close(&b.subject);
    return status;
}

void culm_bench_release(struct culm_bench *bench) {
    free(bench->op);
    *bench = (struct culm_bench){0};
}
