/*
 * A model of pictures, independent of the file format it comes from: its input, how to read its
 * outputs, its graphs and its weights. Readers of files fill one in (darknet/darknet.h;
 * query/open.h for all kinds); users cannot tell which.
 *
 * A graph has one field, "image" f32 [B,H,W,C], and no loss. Its outputs are maps of detector heads
 * [B,h,w,anchors (5 + classes)], candidates for boxes [B,..], logits [B,classes], or coordinates
 * [B,2 points]. A softmax,
 * log-softmax or sigmoid behind the logits is not part of it (struct culm_output, end). Parameters
 * have the names that the file format gives them. A batch norm is a node with parameters of its own
 * (gamma, beta, running mean and variance), never folded into a convolution.
 *
 * Thread: constant except for `graph` and `weights`, which one thread at a time may call.
 */
#ifndef CULM_VISION_MODEL_H
#define CULM_VISION_MODEL_H

#include "graph/graph.h"
#include "graph/ops.h"

#define CULM_VISION_HEADS_MAX 8
#define CULM_VISION_ANCHORS_MAX 16
#define CULM_VISION_CLASSES_MAX 65536

/* A picture is stretched to width x height, or put there in its own proportions; a pixel value x
 * becomes (x / 255 - mean) / deviation. */
struct culm_vision_input {
    int32_t width, height, channels; /* channels: 1 (grey) or 3 (RGB) */
    float mean[3], deviation[3];     /* in the order of the channels */
    bool letterbox;                  /* in its own proportions, in the middle */
    uint8_t around;                  /* what is around it, in every channel */
    bool bgr;                        /* blue, green, red */
};
#define CULM_VISION_AROUND 114         /* of YOLOv5 and later ones */
#define CULM_VISION_AROUND_DARKNET 128 /* half way from black to white */

/* Whether a frame becomes the same bytes for both; and the same numbers. */
bool culm_vision_same_bytes(const struct culm_vision_input *a, const struct culm_vision_input *b);
bool culm_vision_same_input(const struct culm_vision_input *a, const struct culm_vision_input *b);
/* Where in the input a frame of that size lies, in pixels. */
struct culm_vision_place {
    int32_t x, y, width, height;
};
struct culm_vision_place culm_vision_place_of(const struct culm_vision_input *input,
                                              int32_t frame_width, int32_t frame_height);

enum culm_answer_kind {
    CULM_ANSWER_BOXES,   /* outputs are heads, or a table */
    CULM_ANSWER_CLASSES, /* output 0: logits, of one class among many or (`end`) of each by itself */
    CULM_ANSWER_POINTS,  /* output 0: x, y, x, y, ... as fractions of the input's size */
};
extern const char *const culm_answer_names[]; /* "boxes", "classes", "points", NULL */

/* How to read a map. In cell (i, j) of h x w, the numbers t of anchor a begin at a (5 + classes): x
 * = (sigmoid(t0) s - (s - 1) / 2 + j) / w, y likewise, width = exp(t2) anchor / the input's width,
 * height likewise, then t4 for an object and one number a class, each through a sigmoid. */
struct culm_yolo_head {
    int32_t output; /* index among the graph's outputs */
    int32_t anchors, classes;
    float anchor[CULM_VISION_ANCHORS_MAX][2]; /* width, height in pixels of the input */
    float scale_xy;                           /* s */
    bool squared; /* width = (2 sigmoid(t2))^2 anchor / ..., height likewise */
    bool one;     /* of the classes it is one: a softmax over their numbers */
};

/* How to read candidates for boxes that the graph has worked out itself, `rows` a picture. Number e
 * of row n is number `from` + n `row` + e `each` of output `output`. */
struct culm_vision_column {
    int32_t output; /* -1: there is none */
    int64_t from, row, each;
};
#define CULM_VISION_COLUMNS 4
struct culm_vision_table {
    int64_t rows;                     /* 0: the model has no table */
    int32_t count;                    /* outputs that are read: 0 to count - 1 */
    struct culm_vision_column box;    /* four numbers */
    struct culm_vision_column object; /* one, by which those of the classes are multiplied */
    struct culm_vision_column score;  /* one for each class; or, with `label`, one */
    struct culm_vision_column label;  /* one: the class */
    enum culm_vision_corners {
        CULM_VISION_CENTRE,     /* x and y of the centre, width, height */
        CULM_VISION_CORNERS,    /* left, top, right, bottom */
        CULM_VISION_CORNERS_YX, /* top, left, bottom, right */
    } corners;
    bool fractions;         /* of the input's size; else pixels of the input */
    enum culm_function end; /* what scores and object are still to be put through; NONE: nothing */
    int32_t before, behind; /* scores of a background, in front of and behind those of classes */
    bool chosen;            /* boxes that overlap a better one have been dropped already */
};

enum culm_vision_purpose {
    CULM_VISION_INFER, /* batch norm uses its running statistics */
    CULM_VISION_LEARN, /* batch norm uses those of the batch and updates the running ones */
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

/* An implementation puts this first in a struct of its own. */
struct culm_vision_model {
    const struct culm_vision_model_ops *ops;
    char name[64]; /* of the file, without folder and extension */
    struct culm_vision_input input;
    enum culm_answer_kind kind;
    int32_t classes; /* POINTS: the number of points */
    /* CLASSES: what the file ends in; NONE counts as SOFTMAX. With SIGMOID each class has a logit
     * of its own, and two classes, no and yes, have that of the second alone. */
    enum culm_function end;
    char **class_name; /* [classes]; NULL: no names */
    bool *counts;      /* BOXES: [classes] those that answers tell of; NULL: all */
    int32_t head_count;
    struct culm_yolo_head head[CULM_VISION_HEADS_MAX];
    struct culm_vision_table table; /* BOXES without heads */
    char unread[128]; /* "'a', 'b'": outputs of a file of which the graph has one alone; "": none */
    char note[480];   /* one line for the user, once weights were read: what was done to them; "" */
};

/* How many of a graph's outputs, from the first on, the answer is read from. */
int32_t culm_vision_outputs(const struct culm_vision_model *model);
/* A graph for micro-batches of `batch` pictures, on the default device. The caller frees it with
 * culm_graph_free. */
enum culm_status culm_vision_model_graph(struct culm_vision_model *model, int64_t batch,
                                         enum culm_vision_purpose purpose,
                                         struct culm_graph **ret_graph, struct culm_error *error);
/* Gives the maps of a fused graph a gate: t4, that of an object. */
void culm_vision_gate(const struct culm_vision_model *model, struct culm_graph *fused);
/* Reads a parameter of the model's graph into ret_data[elements], in the layout of the graph.
 * CULM_ERR_CONFIG if the model was opened for its structure only. */
enum culm_status culm_vision_model_weights(struct culm_vision_model *model,
                                           const struct culm_param *param, float *ret_data,
                                           struct culm_error *error);
void culm_vision_model_free(struct culm_vision_model *model); /* NULL is fine */

/* The name of a class; if there is none, "class 3", which is written to `text`. */
const char *culm_vision_class_name(const struct culm_vision_model *model, int32_t index,
                                   char text[24]);
/* Copies names of the first classes, in order; others stay without. More than there are classes, or
 * points in their place: CULM_ERR_CONFIG. */
enum culm_status culm_vision_names_set(struct culm_vision_model *model, const char *const *names,
                                       size_t count, struct culm_error *error);
void culm_vision_names_drop(struct culm_vision_model *model); /* there are none afterwards */
/* Answers tell of these classes alone from now on, each given as a number or by its name; count 0: of all.
 * CULM_ERR_CONFIG: one is none of the model's, or it does not answer with boxes. */
enum culm_status culm_vision_count_classes(struct culm_vision_model *model,
                                           const char *const *classes, size_t count,
                                           struct culm_error *error);
/* Reads the names of classes, one a line; empty lines at the end are ignored. CULM_ERR_CONFIG: the file
 * is missing, has more or fewer lines than there are classes, or the model answers with points. */
enum culm_status culm_vision_names_read(struct culm_vision_model *model, const char *path,
                                        struct culm_error *error);

/* --- structure --- */

/* Everything that a model is apart from its numbers, as a text: its input, its graph with all
 * attributes, how its outputs are read. It begins with how it was worked out; whoever changes what
 * goes into it, or what graphs readers build, counts that up (tests/unit/vision notices). */
#define CULM_VISION_STRUCTURE_WAY 2
#define CULM_VISION_STRUCTURE 80
enum culm_status culm_vision_structure(struct culm_vision_model *model,
                                       char ret_text[CULM_VISION_STRUCTURE],
                                       struct culm_error *error);
/* False also if the two were worked out in different ways, or one is "". */
bool culm_vision_structure_differs(const char *a, const char *b);

/* A convolution or linear layer as far as others are compared with it: all but its place and
 * weights. */
struct culm_vision_signature {
    bool linear;     /* then kernel, stride, pad and dilation are 0, and groups 1 */
    bool bias;       /* the layer's own, not a following batch norm's */
    int64_t in, out; /* channels or features */
    int64_t kernel[2], stride[2], dilation[2]; /* height, width */
    int64_t pad[4];                            /* top, left, bottom, right */
    int64_t groups;
};
struct culm_vision_layer {
    int32_t node;         /* index in the graph */
    int32_t weight, bias; /* indices in the graph; bias -1: none */
    int32_t norm;         /* a batch norm that is the only reader of the output: a node; -1: none */
    struct culm_vision_signature signature;
    int64_t bytes; /* of weights and bias, 4 bytes a number */
};
struct culm_vision_layers {
    struct culm_vision_layer *layer; /* in graph order */
    int32_t count;
};

/* The layers of a graph. A parameter that several nodes use counts once, where it is used first.
 * The caller releases them; CULM_ERR_MEMORY. */
enum culm_status culm_vision_layers_of(const struct culm_graph *graph,
                                       struct culm_vision_layers *ret_layers,
                                       struct culm_error *error);
void culm_vision_layers_release(struct culm_vision_layers *layers); /* fine on a zeroed struct */

bool culm_vision_signature_equal(const struct culm_vision_signature *a,
                                 const struct culm_vision_signature *b);
/* Equal except for stride, padding and dilation: the weights have the same shape. */
bool culm_vision_signature_fits(const struct culm_vision_signature *a,
                                const struct culm_vision_signature *b);
#define CULM_VISION_SIGNATURE_TEXT 160
/* One line, for people and as a key. Returns `text`. */
const char *culm_vision_signature_text(const struct culm_vision_signature *signature,
                                       char text[CULM_VISION_SIGNATURE_TEXT]);

#endif
