/*
 * `culm bench step NAME|CONFIG`: how long one training step takes in one process. `culm bench ops`:
 * where its time goes, operator by operator. `culm bench gnn epoch CONFIG`: an epoch of a graph
 * network. `culm bench gnn spmm|sddmm|softmax GRAPH`: one of its kernels. `culm bench infer MODEL`: how
 * fast a model of pictures answers. `culm bench leader`: bench_leader.c.
 */
#include "run/bench.h"
#include "cli/bench_leader.h"
#include "cli/command.h"
#include "cli/options.h"
#include "run/bench_infer.h"
#include "run/bench_leader.h"
#include "run/gnn_measure.h"

#include "base/json.h"
#include "base/words.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct values {
    int64_t batch, context, threads, width, workers; /* 0: not given */
    int64_t iters;
    int dtype, recompute, job; /* -1: not given */
    const char *weights, *feed;
    double score; /* below 0: not given */
    bool layers, json;
};

static const struct culm_option options[] = {
    CULM_OPTION("batch", INT, "N", struct values, batch,
                "samples in a batch (default: the configuration's, or 1)"),
    CULM_OPTION("context", INT, "T", struct values, context, "tokens in a sample"),
    CULM_OPTION("dtype", WORD, "f32|bf16", struct values, dtype,
                "number format (default: the configuration's, or f32)", .words = culm_bench_dtypes),
    CULM_OPTION("recompute", WORD, "none|block", struct values, recompute,
                "whether activations are computed again (default: the configuration's, or none)",
                .words = culm_bench_recomputes),
    CULM_OPTION("threads", INT, "N", struct values, threads, "compute threads (default: 1)",
                .most = CULM_OPTION_THREADS_MAX),
    CULM_OPTION("iters", INT, "K", struct values, iters, "steps (default: 10)"),
    CULM_OPTION("width", INT, "F", struct values, width,
                "gnn spmm, sddmm: numbers in a gathered row (default: 64)"),
    CULM_OPTION("weights", TEXT, "FILE", struct values, weights,
                "infer: the model's weights (default: its own)"),
    CULM_OPTION("feed", TEXT, "FILE", struct values, feed,
                "infer: a picture, folder or clip to look at (default: noise)"),
    CULM_OPTION("score", SHARE, "S", struct values, score,
                "infer: leaves out boxes whose score is below S (default: 0.25)"),
    CULM_OPTION("layers", FLAG, NULL, struct values, layers, "infer: times each layer as well"),
    CULM_OPTION("job", WORD, "train|gnn", struct values, job,
                "leader: of which job (default: train)", .words = culm_bench_jobs),
    CULM_OPTION("workers", INT, "N", struct values, workers,
                "leader: nodes that compute (default: 1000)"),
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON object"),
};

const struct culm_usage culm_usage_bench = {
    .command = "bench",
    .arguments =
        "step|ops NAME|CONFIG | infer MODEL | gnn epoch CONFIG | gnn spmm|sddmm|softmax GRAPH | "
        "leader",
    .min_arguments = 1,
    .max_arguments = 3,
    .summary =
        "Measures training steps, operators, inference, graph kernels and leaders in one process",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details =
        "GFLOP/s counts operations as the layers define them. The peak is the highest rate of a\n"
        "matrix product of 1024 x 1024 x 1024 in the same number format, measured before and "
        "after\n"
        "the steps, or the rate of a step if that is higher. The share of the peak counts the\n"
        "operations that are really done: Winograd convolutions do fewer.\n\n"
        "infer times how a vision model (FILE.cfg, FILE.onnx, a configuration, a run) answers: "
        "the\n"
        "forward pass of a batch, divided by its frames, first with all outputs, then only with "
        "what\n"
        "boxes of that score need, until the boxes have been read. Memory is the model's weights "
        "and\n"
        "what running it needs besides. --layers adds the operators one by one: kind, shapes read\n"
        "and written, median time, operations, and bytes read and written per second.\n\n"
        "gnn epoch times the epochs of a graph network (culm gnn train) without evaluation. GB/s\n"
        "counts the rows that gathers read, over the whole epoch. gnn spmm times one gather over "
        "the\n"
        "edges of a graph, sddmm the products of rows that attention needs, softmax its softmax\n"
        "with 8 heads; GB/s counts the rows read.\n\n"
        "leader measures the leader of a run alone, whose nodes are played: its processor time for "
        "an\n"
        "iteration (train) or epoch (gnn), the time from the last message that a commit waits for\n"
        "until all commits are queued, and, when a tenth of the workers is lost at the same "
        "moment,\n"
        "the number of views, the time until they are queued, and the bytes for each node.\n",
};

/* Of those that can have several. */
static int threads_of(const struct values *v) { return v->threads ? (int)v->threads : 1; }

static void report_step(const struct culm_bench *b, bool as_json) {
    bool images = b->tokens == 0;
    double rate = (double)(images ? b->batch : b->tokens) / b->median_s;
    double gflops = b->flops / b->median_s / 1e9, done = b->flops_done / 1e9 / b->median_s;
    if (as_json) {
        json_t *object = json_pack(
            "{s:o, s:s, s:i, s:I, s:{s:f, s:f}, s:f, s:s, s:f, s:f, s:f, s:f, s:I}", "model",
            culm_json_text(b->name), "dtype", b->dtype, "threads", b->threads, "batch",
            (json_int_t)b->batch, "step_s", "median", b->median_s, "min", b->least_s, "rate_per_s",
            rate, "rate_of", images ? "samples" : "tokens", "gflops", gflops, "gflops_done", done,
            "peak_gflops", b->peak_gflops, "percent_of_peak", 100 * done / b->peak_gflops,
            "peak_memory_bytes", (json_int_t)b->peak_memory_bytes);
        culm_cli_print_json(object);
        return;
    }
    printf("%s, %s, %d threads, batch %lld: step %.4f s (min %.4f), %.0f %s/s, %.1f GFLOP/s, "
           "%.1f done (%.0f %% of %.0f), %.0f MB\n",
           b->name, b->dtype, b->threads, (long long)b->batch, b->median_s, b->least_s, rate,
           images ? "samples" : "tokens", gflops, done, 100 * done / b->peak_gflops, b->peak_gflops,
           (double)b->peak_memory_bytes / 1e6);
}

static void report_ops(const struct culm_bench *b, bool as_json) {
    json_t *list = json_array();
    double all = 0;
    for (size_t i = 0; i < b->op_count; i++) {
        all += b->op[i].seconds;
    }
    for (size_t i = 0; i < b->op_count; i++) {
        const struct culm_bench_op *op = &b->op[i];
        double gflops = op->flops / op->seconds / 1e9;
        if (as_json) {
            json_array_append_new(list,
                                  json_pack("{s:s, s:i, s:f, s:f}", "op", op->name, "calls",
                                            op->calls, "seconds", op->seconds, "gflops", gflops));
        } else {
            printf("%-24s %5d calls %9.3f ms %5.1f %%  %8.1f GFLOP/s\n", op->name, op->calls,
                   op->seconds * 1e3, 100 * op->seconds / all, gflops);
        }
    }
    if (as_json) {
        culm_cli_print_json(json_incref(list));
    }
    json_decref(list);
}

/* The sums of neighbours' rows, or what a kernel forms for each edge. */
static enum culm_status bench_kernel(const char *kernel, const char *graph, const struct values *v,
                                     struct culm_error *error) {
    const struct culm_gnn_kernel_options how = {
        .threads = threads_of(v),
        .calls = v->iters,
        .width = v->width ? v->width : 64,
        .bf16 = v->dtype > 0,
    };
    struct culm_gnn_kernel_bench b;
    enum culm_status status = culm_gnn_bench_kernel(kernel, graph, &how, &b, error);
    if (status != CULM_OK) {
        return status;
    }
    double rate = (double)b.gathered_floats * (how.bf16 ? 2 : 4) / b.median_s / 1e9;
    if (v->json) {
        culm_cli_print_json(json_pack("{s:o, s:s, s:s, s:i, s:I, s:{s:f, s:f}, s:I, s:f, s:I}",
                                      "model", culm_json_text(b.graph), "kernel", b.kernel, "dtype",
                                      b.dtype, "threads", b.threads, "width", (json_int_t)b.width,
                                      "call_s", "median", b.median_s, "min", b.least_s,
                                      "gathered_floats", (json_int_t)b.gathered_floats, "gb_per_s",
                                      rate, "peak_memory_bytes", (json_int_t)b.peak_memory_bytes));
    } else {
        printf("%s, %s, width %lld, %s, %d threads: call %.6f s (min %.6f), %lld floats gathered, "
               "%.2f GB/s, %.0f MB\n",
               b.kernel, b.graph, (long long)b.width, b.dtype, b.threads, b.median_s, b.least_s,
               (long long)b.gathered_floats, rate, (double)b.peak_memory_bytes / 1e6);
    }
    return CULM_OK;
}

static enum culm_status bench_gnn(const struct culm_arguments *arguments, const struct values *v,
                                  struct culm_error *error) {
    struct culm_gnn_bench b;
    const char *what = arguments->count > 1 ? arguments->items[1] : "";
    bool kernel = culm_word_find(culm_gnn_kernels, what) >= 0;
    if (arguments->count != 3 || (!kernel && strcmp(what, "epoch") != 0)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "'gnn %.40s' cannot be measured; write 'culm bench gnn epoch CONFIG' "
                              "or 'culm bench gnn spmm|sddmm|softmax GRAPH'",
                              what);
    }
    if (v->batch || v->context || v->recompute >= 0 || v->layers) {
        return culm_error_set(
            error, CULM_ERR_ARGUMENT,
            "--batch, --context, --recompute and --layers are not for 'bench gnn'");
    }
    if (v->width && (!kernel || !strcmp(arguments->items[1], "softmax"))) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--width is not for 'bench gnn %s'",
                              arguments->items[1]);
    }
    if (kernel) {
        return bench_kernel(arguments->items[1], arguments->items[2], v, error);
    }
    if (access(arguments->items[2], F_OK) == 0 && culm_cli_is_graph(arguments->items[2])) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "'gnn epoch' takes a configuration; '%.200s' is a graph",
                              arguments->items[2]);
    }
    const char *dtype = v->dtype < 0 ? NULL : v->dtype ? "bf16" : "f32";
    enum culm_status status =
        culm_gnn_bench_run(arguments->items[2], dtype, threads_of(v), v->iters, &b, error);
    if (status != CULM_OK) {
        return status;
    }
    double bytes = strcmp(b.dtype, "bf16") == 0 ? 2 : 4;
    double rate = (double)b.gathered_floats * bytes / b.median_s / 1e9;
    if (v->json) {
        culm_cli_print_json(json_pack("{s:s, s:s, s:i, s:{s:f, s:f}, s:I, s:f, s:I}", "model",
                                      b.model, "dtype", b.dtype, "threads", b.threads, "epoch_s",
                                      "median", b.median_s, "min", b.least_s, "gathered_floats",
                                      (json_int_t)b.gathered_floats, "gb_per_s", rate,
                                      "peak_memory_bytes", (json_int_t)b.peak_memory_bytes));
    } else {
        printf("%s, %s, %d threads: epoch %.6f s (min %.6f), %lld floats gathered, %.2f GB/s, %.0f "
               "MB\n",
               b.model, b.dtype, b.threads, b.median_s, b.least_s, (long long)b.gathered_floats,
               rate, (double)b.peak_memory_bytes / 1e6);
    }
    return CULM_OK;
}

static json_t *shape_json(const int64_t dim[4]) {
    return json_pack("[I, I, I, I]", (json_int_t)dim[0], (json_int_t)dim[1], (json_int_t)dim[2],
                     (json_int_t)dim[3]);
}

static json_t *layers_json(const struct culm_infer_bench *b) {
    json_t *list = json_array();
    for (int32_t i = 0; i < b->layer_count; i++) {
        const struct culm_infer_layer *l = &b->layer[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o, s:o, s:f, s:f, s:f}", "kind", l->kind,
                                        "name", culm_json_text(l->name), "in", shape_json(l->in),
                                        "out", shape_json(l->out), "seconds", l->seconds, "flops",
                                        l->flops, "bytes", l->bytes));
    }
    return list;
}

static void print_layers(const struct culm_infer_bench *b) {
    double all = 0;
    for (int32_t i = 0; i < b->layer_count; i++) {
        all += b->layer[i].seconds;
    }
    for (int32_t i = 0; i < b->layer_count; i++) {
        const struct culm_infer_layer *l = &b->layer[i];
        double seconds = l->seconds > 0 ? l->seconds : 1e-9; /* a clock's tick */
        printf("%3d %-16s %4lldx%-4lld %4lld -> %4lldx%-4lld %4lld %8.1f us %4.1f %% %6.1f GFLOP/s "
               "%5.1f GB/s  %s\n",
               i, l->kind, (long long)l->in[1], (long long)l->in[2], (long long)l->in[3],
               (long long)l->out[1], (long long)l->out[2], (long long)l->out[3], seconds * 1e6,
               100 * seconds / all, l->flops / seconds / 1e9, l->bytes / seconds / 1e9, l->name);
    }
}

static void report_infer(const struct culm_infer_bench *b, bool as_json) {
    double gflops = b->flops / b->median_s / 1e9;
    int64_t memory = b->parameter_bytes + b->activation_bytes;
    if (as_json) {
        json_t *object = json_pack(
            "{s:o, s:i, s:I, s:{s:f, s:f}, s:{s:f, s:f}, s:f, s:f, s:f, s:I, s:I, s:I, s:I}",
            "model", culm_json_text(b->name), "threads", b->threads, "batch", (json_int_t)b->batch,
            "frame_s", "median", b->median_s, "min", b->least_s, "answer_s", "median",
            b->answer_median_s, "min", b->answer_least_s, "answers", b->answers, "frames_per_s",
            1 / b->median_s, "gflops", gflops, "memory_bytes", (json_int_t)memory,
            "parameter_bytes", (json_int_t)b->parameter_bytes, "activation_bytes",
            (json_int_t)b->activation_bytes, "peak_memory_bytes", (json_int_t)b->peak_memory_bytes);
        if (b->layer) {
            json_object_set_new(object, "layers", layers_json(b));
        }
        culm_cli_print_json(object);
        return;
    }
    if (b->layer) {
        print_layers(b);
    }
    printf("%s, %d threads, batch %lld: frame %.3f ms (min %.3f), %.0f frames/s, %.1f GFLOP/s, "
           "%.1f MB; to its answers %.3f ms (min %.3f)\n",
           b->name, b->threads, (long long)b->batch, b->median_s * 1e3, b->least_s * 1e3,
           1 / b->median_s, gflops, (double)memory / 1e6, b->answer_median_s * 1e3,
           b->answer_least_s * 1e3);
}

static enum culm_status bench_infer(const struct culm_arguments *arguments, const struct values *v,
                                    struct culm_error *error) {
    struct culm_infer_bench b;
    if (arguments->count != 2 || v->context || v->recompute >= 0 || v->dtype > 0 || v->width) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "write 'culm bench infer MODEL', with --batch, --threads, --iters, "
                              "--weights, --feed, --score, --layers and --json alone");
    }
    const struct culm_infer_options how = {.weights = v->weights,
                                           .batch = v->batch,
                                           .threads = threads_of(v),
                                           .iters = v->iters,
                                           .layers = v->layers,
                                           .feed = v->feed,
                                           .score = v->score >= 0 ? v->score : 0.25};
    enum culm_status status = culm_bench_infer(arguments->items[1], &how, &b, error);
    if (status == CULM_OK) {
        culm_cli_note("bench", b.note);
        report_infer(&b, v->json);
    }
    culm_infer_bench_release(&b);
    return status;
}

static enum culm_status bench_leader(const struct culm_arguments *arguments, const struct values *v,
                                     struct culm_error *error) {
    struct culm_leader_bench b;
    if (arguments->count != 1 || v->batch || v->context || v->threads || v->recompute >= 0 ||
        v->dtype >= 0 || v->width || v->weights || v->feed || v->score >= 0 || v->layers) {
        return culm_error_set(
            error, CULM_ERR_ARGUMENT,
            "write 'culm bench leader', with --job, --workers, --iters and --json "
            "alone");
    }
    enum culm_status status =
        culm_bench_leader(v->job < 0 ? CULM_BENCH_TRAIN : v->job, v->workers ? v->workers : 1000,
                          v->iters, &b, error);
    if (status == CULM_OK) {
        culm_cli_report_leader(&b, v->json);
    }
    return status;
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    static const char *const actions[] = {"step", "ops", NULL};
    const struct values *v = values;
    int ops = culm_word_find(actions, arguments->items[0]);
    (void)ret_code;
    if (strcmp(arguments->items[0], "leader") == 0) {
        return bench_leader(arguments, v, error);
    }
    if (v->workers || v->job >= 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--%s is for 'bench leader' alone",
                              v->workers ? "workers" : "job");
    }
    if (strcmp(arguments->items[0], "gnn") == 0) {
        return bench_gnn(arguments, v, error);
    }
    if (strcmp(arguments->items[0], "infer") == 0) {
        return bench_infer(arguments, v, error);
    }
    if (v->weights) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--weights is for 'bench infer' alone");
    }
    if (v->layers || v->feed || v->score >= 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--%s is for 'bench infer' alone",
                              v->layers ? "layers"
                              : v->feed ? "feed"
                                        : "score");
    }
    if (v->width) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--width is for 'bench gnn' alone");
    }
    if (ops < 0 || arguments->count != 2) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "'%s' cannot be measured; write 'culm bench step NAME|CONFIG' or "
                              "'culm bench ops NAME|CONFIG'",
                              arguments->items[0]);
    }
    const struct culm_bench_options how = {
        .batch = v->batch,
        .context = v->context,
        .dtype = v->dtype,
        .recompute = v->recompute,
        .threads = threads_of(v),
        .iters = v->iters,
        .ops = ops == 1,
    };
    struct culm_bench bench;
    enum culm_status status = culm_bench_run(arguments->items[1], &how, &bench, error);
    culm_cli_note("bench", bench.note);
    if (status == CULM_OK) {
        (ops ? report_ops : report_step)(&bench, v->json);
    }
    culm_bench_release(&bench);
    return status;
}

int culm_cli_bench(int argc, char **argv) {
    struct values values = {.iters = 10, .dtype = -1, .recompute = -1, .job = -1, .score = -1};
    return culm_cli_run(&culm_usage_bench, argc, argv, &values, run);
}
