/*
 * How fast a model trains in one process: for `culm bench`. Nothing here prints. Thread: the caller's.
 */
#ifndef CULM_RUN_BENCH_H
#define CULM_RUN_BENCH_H

#include "base/status.h"

extern const char *const culm_bench_dtypes[], *const culm_bench_recomputes[]; /* ended by NULL */

struct culm_bench_options {
    int64_t batch, context; /* 0: of the configuration */
    int dtype, recompute;   /* of the words above; -1: of the configuration */
    int threads;
    int64_t iters;
    bool ops; /* time operators */
};

struct culm_bench_op {
    const char *name;
    int32_t calls; /* in a step, like the rest */
    double seconds, flops;
};

struct culm_bench {
    char name[64];
    const char *dtype;
    int threads;
    int64_t batch;
    double median_s, least_s; /* of a step */
    int64_t tokens;           /* of a batch; 0: it is images */
    double flops, flops_done; /* of a step: as the layers define them; what is really done */
    double peak_gflops;       /* the highest rate of a product, or of a step */
    int64_t peak_memory_bytes;
    struct culm_bench_op *op; /* the slowest first; NULL unless asked for */
    size_t op_count;
    char note[480]; /* one line: what was done to weights; "": nothing */
};

/* Measures the training step of a published model or of a configuration file, in this process.
 * Release the result in any case. */
enum culm_status culm_bench_run(const char *what, const struct culm_bench_options *options,
                                struct culm_bench *ret_bench, struct culm_error *error);
void culm_bench_release(struct culm_bench *bench);

#endif
