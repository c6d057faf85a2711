/*
 * What the commands of `culm` need of src/run for models of pictures: predictions, how fast they are, and
 * what a model is. As commands.h: nothing here prints.
 */
#ifndef CULM_RUN_VISION_COMMANDS_H
#define CULM_RUN_VISION_COMMANDS_H

#include "base/status.h"

#include <jansson.h>

/* --- predict ------------------------------------------------------------------------------------ */

struct culm_predict_options {
    const char *weights, *names, *normalize; /* NULL: the model's own */
    int64_t first, end;                      /* frames [first, end) of each file; end -1: all */
    double score;                            /* of boxes: the least */
    const char *draw;                        /* folder for pictures of the answers; NULL: none */
    int threads;
    int top; /* classes: how many, the best first */
};

struct culm_predicted_box {
    int class_index;
    const char *name;
    double score, x, y, width, height; /* pixels of the frame; the top left corner */
};
struct culm_predicted_class {
    int class_index;
    const char *name;
    double score;
};
struct culm_predicted_point {
    double x, y;
};
/* One of the three lists is the answer's, which may be empty; the others are NULL. */
struct culm_prediction {
    const char *file;
    int64_t frame; /* from 0 in each file */
    const struct culm_predicted_box *box;
    const struct culm_predicted_class *classes;
    const struct culm_predicted_point *point;
    int32_t count;
};
/* {"file","frame","boxes"|"classes"|"points":[..]}; NULL: out of memory. */
json_t *culm_prediction_json(const struct culm_prediction *prediction);
/* Lives until it returns. Whatever it returns but CULM_OK ends the prediction with that. */
typedef enum culm_status culm_predict_fn(void *ctx, const struct culm_prediction *prediction,
                                         struct culm_error *error);

/* "A:B", "A:", ":B" or "A" (that frame alone). */
enum culm_status culm_predict_frames(const char *text, int64_t *ret_first, int64_t *ret_end,
                                     struct culm_error *error);
/* Frame after frame of the files, which are feeds (data/feed.h). CULM_ERR_CONFIG when a file has no
 * frame of those that were asked for. */
enum culm_status culm_predict(const char *what, const char *const *files, size_t count,
                              const struct culm_predict_options *options, culm_predict_fn *told,
                              void *ctx, struct culm_error *error);

/* --- model show, import and export -------------------------------------------------------------- */

struct culm_vision_about {
    char name[64];
    const char *answers; /* "boxes", "classes" or "points" */
    int classes, width, height, channels, heads;
    int64_t parameters;   /* trained numbers */
    int tensors;          /* of all numbers */
    double flops;         /* of a frame's forward pass */
    int64_t memory_bytes; /* to answer one frame at a time */
    int64_t layer_bytes;  /* of all layers */
    struct culm_vision_about_layer {
        char name[96], signature[160];
        int64_t bytes; /* of weights and bias */
    } * layer;         /* convolutions and linear layers, in their order */
    int32_t layers;
};
/* Of any model of pictures. `weights` NULL: the model's own. `check`: its numbers are read, too; else
 * none are needed. */
enum culm_status culm_vision_about(const char *what, const char *weights, bool check,
                                   struct culm_vision_about *ret_about, struct culm_error *error);
void culm_vision_about_release(struct culm_vision_about *about);
/* Whether `what` is better asked here than in commands.h: FILE.cfg, FILE.onnx or PACKAGE:QUERY. */
bool culm_vision_is_file(const char *what);
/* Writes it for inference, with its numbers; maps of heads are outputs head0, head1, .. */
enum culm_status culm_vision_export(const char *what, const char *weights, const char *path,
                                    struct culm_error *error);

/* --- bench infer -------------------------------------------------------------------------------- */

struct culm_infer_options {
    const char *weights;
    int64_t batch; /* 0: 1 */
    int threads;
    int64_t iters;
    bool layers; /* time them one by one as well */
};
/* One operator of the fused graph. */
struct culm_infer_layer {
    char name[96]; /* of its weights, if it has any; else empty */
    char kind[48]; /* "conv 3x3/2", "depthwise 5x5", "concat", .. */
    int64_t in[4],
        out[4];          /* shapes [batch,h,w,channels] of what is read first, and of what is made;
                              with fewer dimensions the first are 1 */
    double seconds;      /* median, of the batch */
    double flops, bytes; /* of the batch; bytes: all that it reads and writes, each once */
};
struct culm_infer_bench {
    char name[64];
    int64_t batch;
    int threads;
    double median_s, least_s;       /* a frame: a batch's time over its size */
    double flops;                   /* of a frame */
    int64_t parameter_bytes;        /* of the model's numbers, as they are kept */
    int64_t activation_bytes;       /* of everything else that running takes */
    int64_t peak_memory_bytes;      /* of the process */
    struct culm_infer_layer *layer; /* as they run; NULL: not asked for */
    int32_t layer_count;
};
/* Forward passes on a picture of noise, after some that are not counted. Release it also after a
 * failure. */
enum culm_status culm_bench_infer(const char *what, const struct culm_infer_options *options,
                                  struct culm_infer_bench *ret_bench, struct culm_error *error);
void culm_infer_bench_release(struct culm_infer_bench *bench); /* fine on a zeroed struct */

#endif
