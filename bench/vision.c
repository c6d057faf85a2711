/*
 * The memory-bound kernels of convolutional networks, one by one.
 *
 *     bench_vision [--threads N] [--iters N] [--isa NAME] [--bf16] [--json]
 *                  [--shape N,H,W,C] [CASE...]
 *
 * Each case is forward or backward of a batch norm, an activation, a sum or a pooling of images
 * [N,H,W,C]; the time is the median, the rate counts every array once that must be read or written.
 * Between calls an array of 64 MiB is read, so that nothing comes out of the cache. The same in
 * PyTorch, beside it: peers/norm.py.
 */
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct bench {
    struct culm_device *cpu;
    int64_t n, h, w, c;
    enum culm_dtype dtype;
    void *x, *y, *dy, *dx, *residual, *dresidual, *index;
    float *gamma, *beta, *mean, *variance, *dgamma, *dbeta, *sum_mean, *sum_variance;
};

static struct culm_in in(const struct bench *b, const void *data) {
    return (struct culm_in){data, b->dtype};
}
static struct culm_out out(const struct bench *b, void *data) {
    return (struct culm_out){data, b->dtype};
}
static struct culm_batchnorm norm(const struct bench *b, enum culm_function function) {
    return (struct culm_batchnorm){
        .n = b->n * b->h * b->w, .c = b->c, .eps = 1e-5, .function = function};
}
static struct culm_window window(const struct bench *b) {
    return (struct culm_window){.n = b->n,
                                .c = b->c,
                                .in = {b->h, b->w},
                                .out = {(b->h - 1) / 2 + 1, (b->w - 1) / 2 + 1},
                                .kernel = {3, 3},
                                .stride = {2, 2},
                                .pad = {1, 1},
                                .pad_end = {1, 1},
                                .dilation = {1, 1}};
}

static void forward(struct bench *b, enum culm_function function, bool adds) {
    const struct culm_batchnorm how = norm(b, function);
    CULM_RUN(b->cpu, batchnorm_forward, .y = out(b, b->y), .mean = b->mean, .variance = b->variance,
             .x = in(b, b->x), .gamma = b->gamma, .beta = b->beta,
             .residual = in(b, adds ? b->residual : NULL), .how = &how);
}
static void backward(struct bench *b, enum culm_function function, bool adds) {
    const struct culm_batchnorm how = norm(b, function);
    bool looks = adds && function != CULM_FUNCTION_NONE;
    CULM_RUN(b->cpu, batchnorm_backward, .dx = out(b, b->dx),
             .dresidual = out(b, looks ? b->dresidual : NULL), .dgamma = b->dgamma,
             .dbeta = b->dbeta, .sum_mean = b->sum_mean, .sum_variance = b->sum_variance,
             .dy = in(b, b->dy), .x = in(b, b->x), .y = in(b, looks ? b->y : NULL),
             .gamma = b->gamma, .beta = b->beta, .mean = b->mean, .variance = b->variance,
             .how = &how, .first = true);
}

static void bn_forward(struct bench *b) { forward(b, CULM_FUNCTION_NONE, false); }
static void bn_backward(struct bench *b) { backward(b, CULM_FUNCTION_NONE, false); }
static void bn_relu_forward(struct bench *b) { forward(b, CULM_FUNCTION_RELU, false); }
static void bn_relu_backward(struct bench *b) { backward(b, CULM_FUNCTION_RELU, false); }
static void bn_add_relu_forward(struct bench *b) { forward(b, CULM_FUNCTION_RELU, true); }
static void bn_add_relu_backward(struct bench *b) { backward(b, CULM_FUNCTION_RELU, true); }
static int64_t count(const struct bench *b) { return b->n * b->h * b->w * b->c; }
static void relu_forward(struct bench *b) {
    CULM_RUN(b->cpu, activation_forward, .y = out(b, b->y), .x = in(b, b->x), .count = count(b),
             .function = CULM_FUNCTION_RELU, .alpha = 0);
}
static void relu_backward(struct bench *b) {
    CULM_RUN(b->cpu, activation_backward, .dx = out(b, b->dx), .dy = in(b, b->dy),
             .kept = in(b, b->y), .count = count(b), .function = CULM_FUNCTION_RELU, .alpha = 0);
}
static void gelu_forward(struct bench *b) {
    CULM_RUN(b->cpu, activation_forward, .y = out(b, b->y), .x = in(b, b->x), .count = count(b),
             .function = CULM_FUNCTION_GELU_ERF, .alpha = 0);
}
static void gelu_backward(struct bench *b) {
    CULM_RUN(b->cpu, activation_backward, .dx = out(b, b->dx), .dy = in(b, b->dy),
             .kept = in(b, b->x), .count = count(b), .function = CULM_FUNCTION_GELU_ERF,
             .alpha = 0);
}
static void maxpool_forward(struct bench *b) {
    const struct culm_window p = window(b);
    CULM_RUN(b->cpu, maxpool_forward, .y = out(b, b->y),
             .index = (struct culm_out){b->index, CULM_BF16}, .x = in(b, b->x), .window = &p);
}
static void maxpool_backward(struct bench *b) {
    const struct culm_window p = window(b);
    CULM_RUN(b->cpu, maxpool_backward, .dx = out(b, b->dx), .dy = in(b, b->dy),
             .index = (struct culm_in){b->index, CULM_BF16}, .window = &p);
}
static void mean_forward(struct bench *b) {
    const struct culm_window p = {
        .n = b->n, .c = b->c, .in = {b->h, b->w}, .out = {1, 1}, .adaptive = true};
    CULM_RUN(b->cpu, avgpool_forward, .y = out(b, b->y), .x = in(b, b->x), .window = &p);
}
static void mean_backward(struct bench *b) {
    const struct culm_window p = {
        .n = b->n, .c = b->c, .in = {b->h, b->w}, .out = {1, 1}, .adaptive = true};
    CULM_RUN(b->cpu, avgpool_backward, .dx = out(b, b->dx), .dy = in(b, b->dy), .window = &p);
}
static void to_nchw(struct bench *b) {
    const struct culm_shape shape = {4, {b->n, b->h, b->w, b->c}};
    const int64_t order[] = {0, 3, 1, 2};
    CULM_RUN(b->cpu, permute, .y = out(b, b->y), .x = in(b, b->x), .x_shape = &shape,
             .order = order);
}

static const struct {
    const char *name;
    void (*run)(struct bench *b);
    double arrays; /* of the size of x that must be read or written */
} cases[] = {
    {"bn_forward", bn_forward, 3},
    {"bn_backward", bn_backward, 5},
    {"bn_relu_forward", bn_relu_forward, 3},
    {"bn_relu_backward", bn_relu_backward, 5},
    {"bn_add_relu_forward", bn_add_relu_forward, 4},
    {"bn_add_relu_backward", bn_add_relu_backward, 7},
    {"relu_forward", relu_forward, 2},
    {"relu_backward", relu_backward, 3},
    {"gelu_forward", gelu_forward, 2},
    {"gelu_backward", gelu_backward, 3},
    {"maxpool_forward", maxpool_forward, 1.25},
    {"maxpool_backward", maxpool_backward, 1.25},
    {"mean_forward", mean_forward, 1},
    {"mean_backward", mean_backward, 1},
    {"to_nchw", to_nchw, 2},
};

static void *memory(size_t bytes) {
    size_t page = (size_t)2 << 20, rounded = (bytes + page - 1) / page * page;
    char *data = aligned_alloc(page, rounded);
    if (!data) {
        fprintf(stderr, "bench_vision: out of memory\n");
        exit(4);
    }
    madvise(data, rounded, MADV_HUGEPAGE);
    memset(data, 0, rounded);
    return data;
}

static void *numbers(struct bench *b, int64_t n) {
    void *data = memory((size_t)n * 4);
    uint32_t state = 12345;
    float *f = data;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        f[i] = (float)(state >> 8) / 8388608.0f - 1;
    }
    if (b->dtype == CULM_BF16) { /* in place: every element moves towards the front */
        for (int64_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, &f[i], 4);
            ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
        }
    }
    return data;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    struct bench b = {.n = 8, .h = 56, .w = 56, .c = 256, .dtype = CULM_F32};
    long threads = 1, iters = 15;
    const char *isa = NULL, *only[32] = {NULL};
    bool json = false;
    int onlys = 0;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--threads") && more) {
            threads = atol(argv[++i]);
        } else if (!strcmp(argv[i], "--iters") && more) {
            iters = atol(argv[++i]);
        } else if (!strcmp(argv[i], "--isa") && more) {
            isa = argv[++i];
        } else if (!strcmp(argv[i], "--bf16")) {
            b.dtype = CULM_BF16;
        } else if (!strcmp(argv[i], "--json")) {
            json = true;
        } else if (!strcmp(argv[i], "--shape") && more) {
            long long d[4] = {0};
            sscanf(argv[++i], "%lld,%lld,%lld,%lld", &d[0], &d[1], &d[2], &d[3]);
            b.n = d[0], b.h = d[1], b.w = d[2], b.c = d[3];
        } else if (argv[i][0] != '-' && onlys < 32) {
            only[onlys++] = argv[i];
        } else {
            fprintf(stderr, "bench_vision: unknown option '%s'\n", argv[i]);
            return 2;
        }
    }
    struct culm_error error;
    if (iters < 1 || iters > 1000 || b.n < 1 || b.h < 1 || b.w < 1 || b.c < 1 ||
        count(&b) > (int64_t)1 << 31) {
        fprintf(stderr, "bench_vision: iters are 1 to 1000, a shape has up to 2^31 elements\n");
        return 2;
    }
    if (culm_cpu_new((int)threads, isa, &b.cpu, &error)) {
        fprintf(stderr, "bench_vision: %s\n", error.text);
        return 1;
    }
    void **images[] = {&b.x, &b.y, &b.dy, &b.dx, &b.residual, &b.dresidual, &b.index};
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        *images[i] = numbers(&b, count(&b));
    }
    float **columns[] = {&b.gamma,  &b.beta,  &b.mean,     &b.variance,
                         &b.dgamma, &b.dbeta, &b.sum_mean, &b.sum_variance};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        *columns[i] = memory((size_t)b.c * 4);
        for (int64_t j = 0; j < b.c; j++) {
            (*columns[i])[j] = 1;
        }
    }
    size_t sweep = (size_t)64 << 20;
    volatile char *other = memory(sweep);
    double *times = malloc((size_t)iters * sizeof *times);
    for (size_t k = 0; k < sizeof cases / sizeof *cases && times; k++) {
        bool wanted = !onlys;
        for (int i = 0; i < onlys; i++) {
            wanted |= !strcmp(only[i], cases[k].name);
        }
        if (!wanted) {
            continue;
        }
        cases[k].run(&b);
        for (long i = 0; i < iters; i++) {
            char sum = 0;
            for (size_t at = 0; at < sweep; at += 64) {
                sum = (char)(sum + other[at]);
            }
            other[0] = sum;
            double start = seconds();
            cases[k].run(&b);
            times[i] = seconds() - start;
        }
        qsort(times, (size_t)iters, sizeof *times, ascending);
        double median = times[iters / 2];
        double bytes = cases[k].arrays * (double)count(&b) * (double)culm_dtype_bytes(b.dtype);
        printf(json ? "{\"case\": \"%s\", \"ms\": %.4f, \"best_ms\": %.4f, \"gb_s\": %.1f}\n"
                    : "%-22s median %9.3f ms   best %9.3f ms   %6.1f GB/s\n",
               cases[k].name, median * 1e3, times[0] * 1e3, bytes / median * 1e-9);
        fflush(stdout);
    }
    free(times);
    free((void *)other);
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        free(*images[i]);
    }
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        free(*columns[i]);
    }
    culm_device_free(b.cpu);
    return 0;
}
