/*
 * How fast models of pictures answer: for `culm bench infer`. Nothing here prints. Thread: the caller's.
 */
#ifndef CULM_RUN_BENCH_INFER_H
#define CULM_RUN_BENCH_INFER_H

#include "base/status.h"

struct culm_infer_options {
    const char *weights;
    int64_t batch; /* 0: 1 */
    int threads;
    int64_t iters;
    bool layers;      /* also time each operator */
    const char *feed; /* data/feed.h: its first frames are seen in turn; NULL: a picture of noise */
    double score;     /* lowest score of a box */
};
/* One operator of the fused graph. */
struct culm_infer_layer {
    char name[96]; /* of its weights; empty if it has none */
    char kind[48]; /* "conv 3x3/2", "depthwise 5x5", "concat", .. */
    int64_t in[4],
        out[4];          /* shapes [batch,h,w,channels] of the first input and of the output; fewer
                            dimensions are preceded by ones */
    double seconds;      /* median, for a batch */
    double flops, bytes; /* for a batch; bytes: everything it reads and writes, once */
};
struct culm_infer_bench {
    char name[64];
    int64_t batch;
    int threads;
    double median_s, least_s;               /* a frame: the time of a batch over its size */
    double answer_median_s, answer_least_s; /* the same until answers are read from the outputs */
    double answers;                         /* in a frame, on average: boxes, classes or points */
    double flops;                           /* for a frame */
    int64_t parameter_bytes;                /* of the model's weights as they are stored */
    int64_t activation_bytes;               /* of everything else that a run needs */
    int64_t peak_memory_bytes;              /* of the process */
    struct culm_infer_layer *layer;         /* in order of execution; NULL: not asked for */
    int32_t layer_count;
    char note[480]; /* one line for the user: what was done to the weights; "" */
};
/* Times forward passes, after some that are not counted: first with all of the outputs, then with
 * as much of them as answers need (vision/runner.h), until these are read. Release the result even
 * after a failure. */
enum culm_status culm_bench_infer(const char *what, const struct culm_infer_options *options,
                                  struct culm_infer_bench *ret_bench, struct culm_error *error);
void culm_infer_bench_release(struct culm_infer_bench *bench); /* fine on a zeroed struct */

#endif
