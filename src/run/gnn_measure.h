/*
 * What runs on graphs cost, and how fast they compute: for `culm gnn cost` and `culm bench gnn`.
 * Errors are one line; nothing here prints. Thread: the caller's.
 */
#ifndef CULM_RUN_GNN_MEASURE_H
#define CULM_RUN_GNN_MEASURE_H

#include "base/status.h"

/* --- dollars --- */

#define CULM_GNN_DATE_SIZE 32

/* What a run has cost, by its events. */
struct culm_gnn_cost {
    char date[CULM_GNN_DATE_SIZE]; /* of the prices */
    double usd, seconds, value;    /* value: 1 / (seconds x usd); 0: nothing was spent */
    double role_usd[3], node_s[3]; /* of servers, parameter servers and workers */
    int64_t starts;                /* of workers */
};
/* prices: a file; NULL: the one that the run's configuration names, or the built-in one. */
enum culm_status culm_gnn_cost_run(const char *dir, const char *prices,
                                   struct culm_gnn_cost *ret_cost, struct culm_error *error);

/* A run without functions from the paper on Dorylus (OSDI 2021, table 4): its cost by the prices,
 * and the cost printed there. */
#define CULM_GNN_PUBLISHED_ROWS 12
struct culm_gnn_published {
    const char *model, *graph, *variant, *instance; /* variant: "cpu" or "gpu" */
    const char *printed;                            /* dollars, as in the paper */
    int servers;
    double seconds, usd;
    char rounded[16]; /* `usd` with as many digits as `printed` */
    bool equal;       /* these two are equal */
};
/* prices: a file; NULL: the built-in one. */
enum culm_status
culm_gnn_cost_published(const char *prices,
                        struct culm_gnn_published ret_rows[CULM_GNN_PUBLISHED_ROWS],
                        char ret_date[CULM_GNN_DATE_SIZE], struct culm_error *error);
const char *culm_gnn_cost_prices(void); /* the text of the built-in file */

/* --- speed --- */

/* Times of epochs in one process, without evaluation, after two warm-up epochs. */
struct culm_gnn_bench {
    char model[16];
    const char *dtype; /* of rows */
    int threads;
    double median_s, least_s;
    int64_t gathered_floats; /* per epoch */
    int64_t peak_memory_bytes;
};
/* `dtype`: "f32" or "bf16", in place of the configuration's precision; NULL: as configured. */
enum culm_status culm_gnn_bench_run(const char *config_path, const char *dtype, int threads,
                                    int64_t epochs, struct culm_gnn_bench *ret_bench,
                                    struct culm_error *error);

/* Times of a kernel on the edges of a graph and a loop at each vertex: sums of neighbours' rows,
 * products of rows, or the softmax over edges with 8 heads. */
extern const char *const culm_gnn_kernels[]; /* "spmm", "sddmm", "softmax", NULL */
struct culm_gnn_kernel_options {
    int threads;
    int64_t calls, width; /* width: floats of a row; ignored by softmax */
    bool bf16;
};
struct culm_gnn_kernel_bench {
    const char *kernel, *dtype;
    char graph[128];
    int threads;
    int64_t width;
    double median_s, least_s;
    int64_t gathered_floats; /* per call */
    int64_t peak_memory_bytes;
};
/* CULM_ERR_ARGUMENT: there is no such kernel, or not for bf16; otherwise as opening a graph. */
enum culm_status culm_gnn_bench_kernel(const char *name, const char *graph_path,
                                       const struct culm_gnn_kernel_options *options,
                                       struct culm_gnn_kernel_bench *ret_bench,
                                       struct culm_error *error);

#endif
