/*
 * How fast convolutions are, layer by layer.
 *
 *     bench_conv [--net NAME] [--layer N] [--pass 0|1|2] [--batch N] [--threads N] [--reps N]
 * [--isa NAME]
 *                [--dtype f32|bf16] [--algorithm auto|direct|winograd] [--cpu-time] [--list]
 *
 * NAME is resnet18, resnet50 or vgg16. One line for each distinct layer: how often the network has
 * it, its geometry, then for forward, backward data and backward weight the algorithm, the shortest
 * and the median time in milliseconds, and GFLOP/s of the definition (so Winograd can exceed the
 * peak). The last line is the whole network. --list prints geometries alone, for peers/conv.py,
 * which measures the same layers in PyTorch beside this program. --cpu-time counts the calling
 * thread's time instead of the wall's: with one thread, for busy machines.
 */
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* count, size, channels in, out, kernel, stride */
struct layer {
    int64_t count, size, c, o, kernel, stride;
};

static const struct layer resnet18[] = {
    {1, 224, 3, 64, 7, 2},   {4, 56, 64, 64, 3, 1},   {1, 56, 64, 128, 3, 2},
    {1, 56, 64, 128, 1, 2},  {3, 28, 128, 128, 3, 1}, {1, 28, 128, 256, 3, 2},
    {1, 28, 128, 256, 1, 2}, {3, 14, 256, 256, 3, 1}, {1, 14, 256, 512, 3, 2},
    {1, 14, 256, 512, 1, 2}, {3, 7, 512, 512, 3, 1},  {0}};
static const struct layer resnet50[] = {
    {1, 224, 3, 64, 7, 2},    {1, 56, 64, 64, 1, 1},    {3, 56, 64, 64, 3, 1},
    {4, 56, 64, 256, 1, 1},   {2, 56, 256, 64, 1, 1},   {1, 56, 256, 128, 1, 1},
    {1, 56, 128, 128, 3, 2},  {4, 28, 128, 512, 1, 1},  {1, 56, 256, 512, 1, 2},
    {3, 28, 512, 128, 1, 1},  {3, 28, 128, 128, 3, 1},  {1, 28, 512, 256, 1, 1},
    {1, 28, 256, 256, 3, 2},  {6, 14, 256, 1024, 1, 1}, {1, 28, 512, 1024, 1, 2},
    {5, 14, 1024, 256, 1, 1}, {5, 14, 256, 256, 3, 1},  {1, 14, 1024, 512, 1, 1},
    {1, 14, 512, 512, 3, 2},  {3, 7, 512, 2048, 1, 1},  {1, 14, 1024, 2048, 1, 2},
    {2, 7, 2048, 512, 1, 1},  {2, 7, 512, 512, 3, 1},   {0}};
static const struct layer vgg16[] = {{1, 224, 3, 64, 3, 1},   {1, 224, 64, 64, 3, 1},
                                     {1, 112, 64, 128, 3, 1}, {1, 112, 128, 128, 3, 1},
                                     {1, 56, 128, 256, 3, 1}, {2, 56, 256, 256, 3, 1},
                                     {1, 28, 256, 512, 3, 1}, {2, 28, 512, 512, 3, 1},
                                     {3, 14, 512, 512, 3, 1}, {0}};
static const struct {
    const char *name;
    const struct layer *layers;
    int64_t batch;
} nets[] = {{"resnet18", resnet18, 16}, {"resnet50", resnet50, 8}, {"vgg16", vgg16, 4}};

static bool cpu_time;

static double now(void) {
    struct timespec t;
    clock_gettime(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *array(int64_t count, enum culm_dtype dtype, uint32_t seed) {
    size_t page = (size_t)2 << 20;
    size_t bytes = ((size_t)count * 4 + 4096 + page - 1) / page * page;
    void *p = aligned_alloc(page, bytes);
    if (!p) {
        fprintf(stderr, "bench_conv: out of memory\n");
        exit(1);
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        float x = (float)(seed >> 8) / (1 << 23) - 1;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (dtype == CULM_BF16) {
            ((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
        } else {
            ((float *)p)[i] = x;
        }
    }
    return p;
}

static struct culm_conv geometry(const struct layer *l, int64_t batch) {
    int64_t pad = l->kernel / 2;
    struct culm_conv v = {.n = batch,
                          .h = l->size,
                          .w = l->size,
                          .c = l->c,
                          .o = l->o,
                          .kh = l->kernel,
                          .kw = l->kernel,
                          .stride = {l->stride, l->stride},
                          .pad = {pad, pad, pad, pad},
                          .dilation = {1, 1},
                          .groups = 1};
    v.oh = culm_conv_output_size(&v, 0);
    v.ow = culm_conv_output_size(&v, 1);
    return v;
}

int main(int argc, char **argv) {
    const char *net = "resnet50", *isa = NULL, *dtype_name = "f32", *algorithm_name = "auto";
    int64_t only = -1, only_pass = -1, batch = 0, threads = 1, reps = 7;
    bool list = false;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (!strcmp(name, "--list")) {
            list = true;
            continue;
        }
        if (!strcmp(name, "--cpu-time")) {
            cpu_time = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : "";
        if (!strcmp(name, "--net")) {
            net = value;
        } else if (!strcmp(name, "--isa")) {
            isa = value;
        } else if (!strcmp(name, "--dtype")) {
            dtype_name = value;
        } else if (!strcmp(name, "--algorithm")) {
            algorithm_name = value;
        } else if (!strcmp(name, "--layer")) {
            only = strtoll(value, NULL, 10);
        } else if (!strcmp(name, "--pass")) {
            only_pass = strtoll(value, NULL, 10);
        } else if (!strcmp(name, "--batch")) {
            batch = strtoll(value, NULL, 10);
        } else if (!strcmp(name, "--threads")) {
            threads = strtoll(value, NULL, 10);
        } else if (!strcmp(name, "--reps")) {
            reps = strtoll(value, NULL, 10);
        } else {
            fprintf(stderr, "bench_conv: unknown option '%s'\n", name);
            return 2;
        }
    }
    size_t n = 0;
    while (n < sizeof nets / sizeof *nets && strcmp(nets[n].name, net)) {
        n++;
    }
    enum culm_conv_algorithm wanted = CULM_CONV_AUTO;
    while (wanted < CULM_CONV_ALGORITHMS &&
           strcmp(culm_conv_algorithm_name(wanted), algorithm_name)) {
        wanted++;
    }
    if (n == sizeof nets / sizeof *nets || wanted == CULM_CONV_ALGORITHMS || reps < 1 ||
        reps > 99) {
        fprintf(stderr, "bench_conv: --net, --algorithm or --reps is not what it may be\n");
        return 2;
    }
    batch = batch ? batch : nets[n].batch;
    enum culm_dtype dtype = strcmp(dtype_name, "bf16") ? CULM_F32 : CULM_BF16;
    struct culm_device *cpu;
    struct culm_error error;
    if (culm_cpu_new((int)threads, isa, &cpu, &error)) {
        fprintf(stderr, "bench_conv: %s\n", error.text);
        return 1;
    }
    double total[CULM_CONV_PASSES] = {0}, work[CULM_CONV_PASSES] = {0};
    for (int64_t i = 0; nets[n].layers[i].count; i++) {
        const struct layer *l = &nets[n].layers[i];
        struct culm_conv v = geometry(l, batch);
        if (only >= 0 && i != only) {
            continue;
        }
        printf("%2lld x%lld %lldx%lldx%lldx%lld o %lld k %lld s %lld", (long long)i,
               (long long)l->count, (long long)v.n, (long long)v.h, (long long)v.w, (long long)v.c,
               (long long)v.o, (long long)v.kh, (long long)v.stride[0]);
        if (list) {
            printf("\n");
            continue;
        }
        int64_t xs = v.n * v.h * v.w * v.c, ys = v.n * v.oh * v.ow * v.o;
        int64_t ws = v.o * v.c * v.kh * v.kw;
        void *x = array(xs, dtype, 1), *y = array(ys, dtype, 2), *dx = array(xs, dtype, 3);
        float *w = array(ws, CULM_F32, 4), *dw = array(ws, CULM_F32, 5);
        for (enum culm_conv_pass pass = 0; pass < CULM_CONV_PASSES; pass++) {
            if ((pass == CULM_CONV_BACKWARD_DATA && v.c == 3) ||
                (only_pass >= 0 && (int)pass != only_pass)) {
                printf(" |    none                         ");
                continue;
            }
            enum culm_conv_algorithm algorithm = wanted;
            if (algorithm == CULM_CONV_AUTO || !culm_conv_algorithm_possible(&v, pass, algorithm)) {
                algorithm = culm_conv_algorithm_default(&v, pass);
            }
            double times[100];
            for (int64_t r = -1; r < reps; r++) {
                double start = now();
                if (pass == CULM_CONV_FORWARD) {
                    CULM_RUN(cpu, conv_forward, .conv = &v, .algorithm = algorithm,
                             .y = (struct culm_out){y, dtype}, .x = (struct culm_in){x, dtype},
                             .w = w);
                } else if (pass == CULM_CONV_BACKWARD_DATA) {
                    CULM_RUN(cpu, conv_backward_data, .conv = &v, .algorithm = algorithm,
                             .dx = (struct culm_out){dx, dtype}, .dy = (struct culm_in){y, dtype},
                             .w = w);
                } else {
                    CULM_RUN(cpu, conv_backward_weight, .conv = &v, .algorithm = algorithm,
                             .dw = dw, .x = (struct culm_in){x, dtype},
                             .dy = (struct culm_in){y, dtype}, .first = true);
                }
                if (r >= 0) {
                    times[r] = now() - start;
                }
            }
            qsort(times, (size_t)reps, sizeof *times, ascending);
            double flops = culm_conv_flops(&v);
            printf(" | %c %8.3f %8.3f ms %6.1f", culm_conv_algorithm_name(algorithm)[0],
                   times[0] * 1e3, times[reps / 2] * 1e3, flops / times[0] * 1e-9);
            total[pass] += times[0] * (double)l->count;
            work[pass] += flops * (double)l->count;
        }
        printf("\n");
        fflush(stdout);
        free(x);
        free(y);
        free(dx);
        free(w);
        free(dw);
    }
    if (!list) {
        printf(
            "sum of shortest: forward %.1f ms (%.0f GFLOP/s), backward data %.1f (%.0f), backward "
            "weight %.1f (%.0f), all %.1f ms\n",
            total[0] * 1e3, work[0] / total[0] * 1e-9, total[1] * 1e3, work[1] / total[1] * 1e-9,
            total[2] * 1e3, work[2] / total[2] * 1e-9, (total[0] + total[1] + total[2]) * 1e3);
    }
    culm_device_free(cpu);
    return 0;
}
