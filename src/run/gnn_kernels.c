/* Times a kernel of graph networks on the edges of a graph. */
#include "run/gnn_measure.h"

#include "base/clock.h"
#include "base/machine.h"
#include "base/words.h"
#include "data/adjacency.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP 2
#define HEADS 8
#define SLOPE 0.2

const char *const culm_gnn_kernels[] = {"spmm", "sddmm", "softmax", NULL};
enum { SPMM, SDDMM, SOFTMAX };

struct arrays {
    struct culm_device *device;
    struct culm_adjacency rows; /* with loops */
    enum culm_dtype dtype;
    int64_t width;
    void *x, *y;         /* [V,width] */
    float *value;        /* [E,HEADS]; spmm has none */
    float *from, *scale; /* [V,HEADS] */
};

static enum culm_status make_arrays(struct arrays *a, int kernel, struct culm_error *error) {
    const struct culm_device_ops *ops = a->device->ops;
    size_t vertices = (size_t)a->rows.vertices, entries = (size_t)a->rows.start[vertices];
    size_t bytes = vertices * (size_t)a->width * culm_dtype_bytes(a->dtype);
    a->x = ops->alloc(a->device, bytes);
    a->y = ops->alloc(a->device, bytes);
    a->from = ops->alloc(a->device, vertices * HEADS * sizeof(float));
    a->scale = ops->alloc(a->device, vertices * HEADS * sizeof(float));
    a->value = ops->alloc(a->device, kernel == SPMM ? 64 : entries * HEADS * sizeof(float));
    if (!a->x || !a->y || !a->from || !a->scale || !a->value) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for arrays of %zu bytes",
                              bytes);
    }
    for (size_t i = 0; i < vertices * (size_t)a->width; i++) { /* 0.5 .. 1, of either type */
        uint32_t bits = 0x3f000000u + (uint32_t)(i * 7 % 128 << 16);
        if (a->dtype == CULM_BF16) {
            ((uint16_t *)a->x)[i] = (uint16_t)(bits >> 16);
        } else {
            memcpy((float *)a->x + i, &bits, sizeof bits);
        }
    }
    for (size_t i = 0; i < vertices * HEADS; i++) {
        a->from[i] = (float)(i * 7 % 128) / 128;
        a->scale[i] = 0.5f;
    }
    return CULM_OK;
}

static void release_arrays(struct arrays *a) {
    if (a->device) {
        void *const all[] = {a->x, a->y, a->value, a->from, a->scale};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            a->device->ops->release(a->device, all[i]);
        }
        culm_device_free(a->device);
    }
    culm_adjacency_release(&a->rows);
}

static void call(const struct arrays *a, int kernel) {
    const struct culm_adjacency *rows = &a->rows;
    struct culm_in x = {a->x, a->dtype};
    switch (kernel) {
    case SPMM:
        CULM_RUN(a->device, spmm, .y = {a->y, a->dtype}, .x = x, .start = rows->start,
                 .column = rows->column, .scale = a->scale, .n = rows->vertices, .f = a->width,
                 .ldx = a->width, .ldy = a->width, .rows = rows->vertices);
        break;
    case SDDMM:
        CULM_RUN(a->device, sddmm, .value = a->value, .a = x, .b = x, .start = rows->start,
                 .column = rows->column, .n = rows->vertices, .f = a->width, .lda = a->width,
                 .ldb = a->width, .heads = a->width % HEADS ? 1 : HEADS);
        break;
    default:
        CULM_RUN(a->device, edge_softmax_forward, .alpha = a->value, .s = a->scale, .t = a->from,
                 .start = rows->start, .column = rows->column, .n = rows->vertices, .heads = HEADS,
                 .slope = SLOPE);
    }
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum culm_status measure(const struct arrays *a, int kernel, int64_t calls,
                                struct culm_gnn_kernel_bench *bench, struct culm_error *error) {
    double *took = calloc((size_t)calls, sizeof *took);
    if (!took) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int64_t i = -WARM_UP; i < calls; i++) {
        uint64_t start = culm_clock_ns();
        call(a, kernel);
        if (i >= 0) {
            took[i] = (double)(culm_clock_ns() - start) / 1e9;
        }
    }
    qsort(took, (size_t)calls, sizeof *took, by_size);
    bench->least_s = took[0];
    bench->median_s = (took[calls / 2] + took[(calls - 1) / 2]) / 2;
    bench->peak_memory_bytes = (int64_t)culm_machine_peak();
    free(took);
    return CULM_OK;
}

enum culm_status culm_gnn_bench_kernel(const char *name, const char *graph_path,
                                       const struct culm_gnn_kernel_options *options,
                                       struct culm_gnn_kernel_bench *ret_bench,
                                       struct culm_error *error) {
    struct arrays a = {.dtype = options->bf16 ? CULM_BF16 : CULM_F32, .width = options->width};
    struct culm_graph_data *graph = NULL;
    int kernel = culm_word_find(culm_gnn_kernels, name);
    if (kernel < 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "no kernel is called '%.40s'", name);
    }
    if (kernel == SOFTMAX && options->bf16) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "softmax over edges exists in f32 only");
    }
    if (options->width > culm_device_default()->limits.width) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "a row may have at most %lld numbers",
                              (long long)culm_device_default()->limits.width);
    }
    enum culm_status status =
        culm_graph_data_open(graph_path, CULM_GRAPH_EDGES, NULL, &graph, error);
    if (status == CULM_OK) {
        status = culm_adjacency_of(graph, true, &a.rows, error);
    }
    if (status == CULM_OK) {
        status = culm_device_new(options->threads, &a.device, error);
    }
    if (status == CULM_OK) {
        status = make_arrays(&a, kernel, error);
    }
    if (status == CULM_OK) {
        struct culm_gnn_kernel_bench bench = {.kernel = culm_gnn_kernels[kernel],
                                              .dtype = culm_dtype_name(a.dtype),
                                              .threads = options->threads,
                                              .width = kernel == SOFTMAX ? HEADS : a.width};
        snprintf(bench.graph, sizeof bench.graph, "%s", graph->name);
        bench.gathered_floats = (int64_t)a.rows.start[a.rows.vertices] * bench.width;
        status = measure(&a, kernel, options->calls, &bench, error);
        if (status == CULM_OK) {
            *ret_bench = bench;
        }
    }
    release_arrays(&a);
    culm_graph_data_free(graph);
    return status;
}
