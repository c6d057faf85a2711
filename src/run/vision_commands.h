/*
 * What the commands of `culm` need from src/run for models of pictures: predictions, their speed,
 * and descriptions of models. As with commands.h, nothing here prints.
 */
#ifndef CULM_RUN_VISION_COMMANDS_H
#define CULM_RUN_VISION_COMMANDS_H

#include "base/status.h"

#include <jansson.h>

/* --- predict --- */

struct culm_predict_options {
    const char *weights, *names, *normalize; /* NULL: the model's own */
    int64_t first, end;                      /* frames [first, end) of each file; end -1: all */
    double score;                            /* lowest score of a box */
    const char *draw;                        /* folder for pictures of the answers; NULL: none */
    int threads;
    int top;                                   /* classes: the number of best ones */
    void (*note)(void *ctx, const char *text); /* one line: what is left out; NULL: not told */
    /* A picture of several cannot be read: one line says why. NULL: not told. */
    void (*bad)(void *ctx, const char *file, int64_t frame, const char *why);
};

struct culm_predicted_box {
    int class_index;
    const char *name;
    double score, x, y, width, height; /* in pixels of the frame; x, y: top left corner */
};
struct culm_predicted_class {
    int class_index;
    const char *name;
    double score;
};
struct culm_predicted_point {
    double x, y;
};
/* The list of the answer's kind, possibly empty; the other two are NULL. */
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
/* Called for each frame; the prediction is valid during the call. A status other than CULM_OK ends
 * culm_predict, which returns it. */
typedef enum culm_status culm_predict_fn(void *ctx, const struct culm_prediction *prediction,
                                         struct culm_error *error);

/* "A:B", "A:", ":B" or "A" (that frame alone). */
enum culm_status culm_predict_frames(const char *text, int64_t *ret_first, int64_t *ret_end,
                                     struct culm_error *error);
/* Predicts frame after frame of the files, which are feeds (data/feed.h). CULM_ERR_CONFIG: a file
 * has none of the frames asked for, or an answer has a number that is not finite. CULM_ERR_FORMAT: of
 * several pictures some cannot be read; the others were predicted. */
enum culm_status culm_predict(const char *what, const char *const *files, size_t count,
                              const struct culm_predict_options *options, culm_predict_fn *told,
                              void *ctx, struct culm_error *error);

/* --- model show, import and export --- */

struct culm_vision_about {
    char name[64];
    const char *answers; /* "boxes", "classes" or "points" */
    int classes, width, height, channels, heads;
    const char *ends_in;  /* "softmax", "log-softmax", "sigmoid"; NULL: none of them */
    int64_t parameters;   /* trained elements */
    int tensors;          /* all parameters */
    double flops;         /* of the forward pass of a frame */
    int64_t memory_bytes; /* for answering one frame at a time */
    int64_t layer_bytes;  /* of all layers */
    struct culm_vision_about_layer {
        char name[96], signature[160];
        int64_t bytes; /* of weights and bias */
    } * layer;         /* convolutions and linear layers, in graph order */
    int32_t layers;
};
/* Describes any model of pictures. weights NULL: the model's own. `check`: read its weights;
 * otherwise none are needed. */
enum culm_status culm_vision_about(const char *what, const char *weights, bool check,
                                   struct culm_vision_about *ret_about, struct culm_error *error);
void culm_vision_about_release(struct culm_vision_about *about);
/* Whether `what` is a model of pictures by its name (FILE.cfg, FILE.onnx or PACKAGE:QUERY), to be
 * described here rather than by commands.h. */
bool culm_vision_is_file(const char *what);
/* Exports the model as an ONNX file for inference, with its weights. The maps of heads become
 * outputs head0, head1, ... */
enum culm_status culm_vision_export(const char *what, const char *weights, const char *path,
                                    struct culm_error *error);

/* --- bench infer --- */

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
