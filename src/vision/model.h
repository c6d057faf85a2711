/*
 * A model of pictures, whatever file it comes from: what goes in, what comes out, its graphs, and its
 * numbers. Whoever reads files (darknet/darknet.h; run/vision_open.h for all kinds) fills one in; who
 * uses it does not know which.
 *
 * A graph has one field, "image" f32 [B,H,W,C], and no loss; its outputs are maps of detector heads
 * [B,h,w,anchors (5 + classes)], logits [B,classes], or coordinates [B,2 points]. Parameters have the
 * names that the file's format gives them. Batch norm is a node with parameters of its own, gamma, beta
 * and running mean and variance, and is never folded into a convolution's weights.
 *
 * Thread: constant but for `graph` and `weights`, which one thread at a time may call.
 */
#ifndef CULM_VISION_MODEL_H
#define CULM_VISION_MODEL_H

#include "graph/graph.h"
#include "graph/ops.h"

#define CULM_VISION_HEADS_MAX 8
#define CULM_VISION_ANCHORS_MAX 16
#define CULM_VISION_CLASSES_MAX 65536

/* A picture is stretched to width x height; a pixel x becomes (x / 255 - mean) / deviation. */
struct culm_vision_input {
    int32_t width, height, channels; /* channels: 1 (grey) or 3 (RGB) */
    float mean[3], deviation[3];
};

enum culm_answer_kind {
    CULM_ANSWER_BOXES,   /* outputs are heads */
    CULM_ANSWER_CLASSES, /* output 0: logits */
    CULM_ANSWER_POINTS,  /* output 0: x, y, x, y, .. as shares of the input's width and height */
};
extern const char *const culm_answer_names[]; /* "boxes", "classes", "points", NULL */

/* How to read a map. Cell (i, j) of h x w, anchor a, whose numbers t begin at a (5 + classes):
 * x = (sigmoid(t0) s - (s - 1) / 2 + j) / w, y alike, width = exp(t2) anchor / the input's width. */
struct culm_yolo_head {
    int32_t output; /* of the graph */
    int32_t anchors, classes;
    float anchor[CULM_VISION_ANCHORS_MAX][2]; /* width, height in pixels of the input */
    float scale_xy;                           /* s */
};

enum culm_vision_purpose {
    CULM_VISION_INFER, /* batch norm by its running statistics */
    CULM_VISION_LEARN, /* batch norm by those of the batch, which it also gives to learn from */
};

struct culm_vision_model;

struct culm_vision_model_ops {
    size_t size;
    enum culm_status (*graph)(struct culm_vision_model *model, int64_t batch,
                              struct culm_graph **ret_graph, struct culm_error *error);
    enum culm_status (*weights)(struct culm_vision_model *model, const struct culm_param *param,
                                float *ret_data, struct culm_error *error);
    void (*free)(struct culm_vision_model *model);
};

/* Whoever implements one puts this first in a structure of its own. */
struct culm_vision_model {
    const struct culm_vision_model_ops *ops;
    char name[64]; /* of the file, without folder and ending */
    struct culm_vision_input input;
    enum culm_answer_kind kind;
    int32_t classes;   /* POINTS: how many points */
    char **class_name; /* [classes]; NULL: they have none */
    int32_t head_count;
    struct culm_yolo_head head[CULM_VISION_HEADS_MAX];
};

/* For micro-batches of `batch` pictures on the default device. The caller frees it with
 * culm_graph_free. */
enum culm_status culm_vision_model_graph(struct culm_vision_model *model, int64_t batch,
                                         enum culm_vision_purpose purpose,
                                         struct culm_graph **ret_graph, struct culm_error *error);
/* The model's own numbers of a parameter of its graph: fills ret_data[elements], in the layout that
 * the graph has it in. CULM_ERR_CONFIG where the model was opened for its structure alone. */
enum culm_status culm_vision_model_weights(struct culm_vision_model *model,
                                           const struct culm_param *param, float *ret_data,
                                           struct culm_error *error);
void culm_vision_model_free(struct culm_vision_model *model); /* NULL is fine */

/* The name of a class: what the model was given, else "class 3" in `text`, which is returned then. */
const char *culm_vision_class_name(const struct culm_vision_model *model, int32_t index,
                                   char text[24]);
/* One name a line from a file; a last empty line does not count. CULM_ERR_CONFIG unless there are as
 * many as classes. */
enum culm_status culm_vision_names_read(struct culm_vision_model *model, const char *path,
                                        struct culm_error *error);

/* --- structure --- */

/* A convolution or a linear layer as others compare it: everything but its place and its numbers. */
struct culm_vision_signature {
    bool linear;     /* kernel, stride, pad, dilation 0, groups 1 */
    bool bias;       /* of its own; a batch norm behind it does not count */
    int64_t in, out; /* channels or features */
    int64_t kernel[2], stride[2], dilation[2]; /* height, width */
    int64_t pad[4];                            /* top, left, bottom, right */
    int64_t groups;
};
struct culm_vision_layer {
    int32_t node;         /* of the graph */
    int32_t weight, bias; /* parameters of the graph; bias -1: none */
    int32_t norm;         /* the batch norm that alone reads what it makes: a node; -1: none */
    struct culm_vision_signature signature;
    int64_t bytes; /* of weights and bias, 4 a number */
};
struct culm_vision_layers {
    struct culm_vision_layer *layer; /* in the order of the graph */
    int32_t count;
};

/* A parameter that several nodes use is a layer where it is used first. */
enum culm_status culm_vision_layers_of(const struct culm_graph *graph,
                                       struct culm_vision_layers *ret_layers,
                                       struct culm_error *error);
void culm_vision_layers_release(struct culm_vision_layers *layers); /* fine on a zeroed struct */

bool culm_vision_signature_equal(const struct culm_vision_signature *a,
                                 const struct culm_vision_signature *b);
/* The same with stride, padding and dilation left out: the weights have the same shape and use. */
bool culm_vision_signature_fits(const struct culm_vision_signature *a,
                                const struct culm_vision_signature *b);
#define CULM_VISION_SIGNATURE_TEXT 160
/* One line, for people and as a key; returns `text`. */
const char *culm_vision_signature_text(const struct culm_vision_signature *signature,
                                       char text[CULM_VISION_SIGNATURE_TEXT]);

#endif
