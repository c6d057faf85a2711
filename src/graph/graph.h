/*
 * The graph: what to compute. Values, nodes that make them, parameters that they use.
 *
 * A graph is built once, forward, in topological order; every node is an operator of the table in
 * ops.h applied to values. Shapes are static and are inferred, hence checked, as each node is
 * added. A node belongs to a *block*; the borders of blocks are the only legal cuts. Its
 * index in the uncut graph is its operator id, which keys its random numbers.
 *
 * A parameter may have several *uses* (a tied tensor); each use has a gradient of its own, numbered
 * in the order in which the uses appear. Parameters and fields are found by name: layers that two
 * models share are uses of one parameter (culm_graph_include).
 *
 * Errors: building stops at the first, which culm_graph_check gives: one line with operator and
 * shapes. Thread: one while building; constant afterwards.
 */
#ifndef CULM_GRAPH_GRAPH_H
#define CULM_GRAPH_GRAPH_H

#include "device/device.h"

#define CULM_NODE_INPUTS_MAX 12
#define CULM_NODE_OUTPUTS_MAX 8
#define CULM_NODE_USES_MAX 6

struct culm_op;

enum culm_value_kind {
    CULM_VALUE_TEMPORARY, /* made by a node */
    CULM_VALUE_FIELD,     /* one field of the micro-batch's samples, [B, ...] */
    CULM_VALUE_PARAM,
    CULM_VALUE_BOUNDARY, /* from another stage: an activation, or the gradient of an output */
};

struct culm_value {
    enum culm_value_kind kind;
    enum culm_dtype dtype;
    struct culm_shape shape;
    int32_t param;   /* PARAM: index */
    int32_t field;   /* FIELD: index */
    int32_t same_as; /* made in place of this value; -1: memory of its own */
    int32_t like;    /* of a gradient, or of what is computed again: the value whose shape it has;
                        -1: none */
};

/* Every operator reads the ones that it names in ops.h; the rest are zero. */
struct culm_attributes {
    int64_t heads;
    double eps, dropout;
    enum culm_function function;
    double alpha;        /* slope below zero */
    double scale, shift; /* y = scale x + shift */
    double value;        /* around what is padded */
    double smoothing;    /* of labels */
    bool causal, transposed, reverse, inference, trans_a, trans_b;
    bool loss_only;                            /* no gradient */
    bool align_corners;                        /* of images: else the centres of pixels */
    int64_t kernel[2], stride[2], dilation[2]; /* height, width */
    int64_t pad[4];                            /* top, left, bottom, right */
    int64_t groups;
    bool ceil_mode, count_pad;
    double momentum; /* of running statistics: 0.1 in PyTorch's sense */
    int64_t axis, start, length;
    int64_t dims[CULM_MAX_RANK]; /* a shape, or a permutation */
    int64_t axes;                /* bit i: dimension i */
    int32_t algorithm[3];        /* convolution: of forward, backward data, weight */
};

/* Mixes all of them into a key [base/rng.h]; what is between them in memory does not count. */
uint64_t culm_attributes_mix(uint64_t key, const struct culm_attributes *attributes);

struct culm_node_desc {
    const struct culm_op *op;
    int32_t input[CULM_NODE_INPUTS_MAX]; /* value ids; -1: absent, where the operator allows it */
    int32_t output[CULM_NODE_OUTPUTS_MAX];
    int32_t use[CULM_NODE_USES_MAX];         /* gradient nodes: uses they accumulate into; or -1 */
    int32_t param_use[CULM_NODE_INPUTS_MAX]; /* forward nodes: the use that a PARAM input is */
    struct culm_attributes attributes;
    int32_t operator_id; /* in the uncut graph */
    int32_t block;
};

enum culm_init_kind {
    CULM_INIT_ZEROS,
    CULM_INIT_ONES,
    CULM_INIT_NORMAL,
    CULM_INIT_UNIFORM,
    CULM_INIT_CONSTANT
};

struct culm_param {
    char name[96];
    struct culm_shape shape;
    struct culm_shape written; /* in files: the same but for dimensions of 1 */
    enum culm_init_kind init;
    double std;     /* NORMAL; UNIFORM: in [-std, std); CONSTANT: the value */
    bool decay;     /* weight decay acts on it */
    bool statistic; /* not trained: a running mean of what its uses collect, which is summed over
                       lanes like a gradient (docs/internals/numbers.md) */
    bool
        turned; /* weights of conv_infer: shape is [kh,kw,I,O] of what files, and `written`, have as
                    [O,I,kh,kw]; culm_graph_turn */
    int32_t value;
};

/* What a sample is made of: "image", "label", "tokens", "targets", ... The source of the samples
 * must offer every field of the model, by name, dtype and shape. */
struct culm_field {
    char name[32];
    enum culm_dtype dtype;   /* f32, i32 or sparse: then the data is a struct culm_sparse_rows */
    struct culm_shape shape; /* of the micro-batch: dimension 0 counts samples */
    int32_t value;
};

struct culm_use {
    int32_t param, node;
};

/* What the last stage gives. A model that ends in a softmax, log-softmax or sigmoid has an output of
 * what enters it, since losses and answers are worked out from that; `end` says which it is. */
struct culm_output {
    char name[32];
    int32_t value;
    enum culm_function end; /* NONE: the value is all */
};

struct culm_graph {
    const struct culm_device_ops *device; /* built for: shape rules ask for its limits */
    struct culm_value *value;
    int32_t value_count, value_capacity;
    struct culm_node_desc *node;
    int32_t node_count, node_capacity;
    struct culm_param *param;
    int32_t param_count, param_capacity;
    struct culm_use *use;
    int32_t use_count, use_capacity;
    struct culm_field *field;
    int32_t field_count, field_capacity;
    struct culm_output *output;
    int32_t output_count, output_capacity;
    int32_t block;  /* of the nodes added next; the builder's to set, rising */
    int32_t blocks; /* how many there are */
    /* Numbers of operators that no node has: those that one operator does the work of. A builder adds to
     * it so that what follows, and its dropout, is numbered as if they were there. */
    int32_t passed;
    struct culm_error error; /* the first that building met; later calls do nothing */
};

/* An empty graph for devices of this kind. NULL: out of memory. */
struct culm_graph *culm_graph_new(const struct culm_device_ops *device);
void culm_graph_free(struct culm_graph *graph);

int32_t culm_graph_value(struct culm_graph *graph, enum culm_value_kind kind, enum culm_dtype dtype,
                         const struct culm_shape *shape);
/* Adds a parameter and returns its value. */
int32_t culm_graph_param(struct culm_graph *graph, const char *name, const struct culm_shape *shape,
                         enum culm_init_kind init, double std, bool decay);
/* Lets files have the parameter `value` in another shape of as many elements. */
void culm_graph_param_written(struct culm_graph *graph, int32_t value,
                              const struct culm_shape *shape);
/* Adds a field of the samples, or finds it, and returns its value. One of that name in another form
 * is an error. */
int32_t culm_graph_field(struct culm_graph *graph, const char *name, enum culm_dtype dtype,
                         const struct culm_shape *shape);
/* Adds a running statistic, such as batch norm's mean, and returns its value. */
int32_t culm_graph_statistic(struct culm_graph *graph, const char *name,
                             const struct culm_shape *shape, enum culm_init_kind init);
/* Applies the operator called `op` to `count` inputs; returns its first output, -1 after an error.
 * The node's other outputs follow as value ids + 1, + 2. attributes NULL: all zero. */
int32_t culm_graph_apply(struct culm_graph *graph, const char *op, const int32_t *inputs,
                         int32_t count, const struct culm_attributes *attributes);
/* Makes what an operator made an output as well, behind those that there are. */
void culm_graph_output(struct culm_graph *graph, const char *name, int32_t value);
/* What the output that was added last ends in. */
void culm_graph_output_end(struct culm_graph *graph, enum culm_function end);
/* "softmax", "log-softmax", "sigmoid"; NULL: it is none of what a model ends in. */
const char *culm_end_name(enum culm_function end);
/* What the numbers behind it are, as a name for an output: "probabilities", "log_probabilities", or
 * "logits". */
const char *culm_end_output(enum culm_function end);
/* Appends a node as it is, unchecked: for autodiff. False after an error. */
bool culm_graph_append(struct culm_graph *graph, const struct culm_node_desc *node);
enum culm_status culm_graph_check(const struct culm_graph *graph, struct culm_error *error);

/* How another graph's parameters, fields and outputs are called: the new name of `name` goes to
 * ret_name[size]. */
typedef void culm_rename_fn(void *ctx, const char *name, char *ret_name, size_t size);
/* Appends all of `other` behind the blocks that there are. A parameter or field whose new name is in
 * `graph` already is that one, and is used once more; all others are added. rename NULL: names stay.
 * ret_value[value_count of other], unless it is NULL: the value here of each value there. Operators
 * get ids of their own, hence random numbers of their own. CULM_ERR_CONFIG when a shared parameter
 * has another shape or is trained in another way, two names of `other` become one, or the graphs are
 * for other devices; CULM_ERR_UNSUPPORTED when a name is too long. `graph` is then as after any other
 * error of building. */
enum culm_status culm_graph_include(struct culm_graph *graph, const struct culm_graph *other,
                                    culm_rename_fn *rename, void *ctx, int32_t *ret_value,
                                    struct culm_error *error);
/* The same graph for inference: a convolution, the batch norm behind it (with `inference`), what is added
 * to that and a function of the ReLU family become one conv_infer, where nothing else reads what lies
 * between; and a map that is enlarged only to be joined with another before a 1x1 is read as it is. The
 * weights of these are `turned`; all parameters keep their indices and names, and stay whose they were. The
 * caller's. No gradient can be taken of it. */
enum culm_status culm_graph_fuse(const struct culm_graph *graph, struct culm_graph **ret_graph,
                                 struct culm_error *error);
/* Makes a gate of channel `channel` of each of `parts` equal parts of the channels of output `output`, in a
 * fused graph: where it is below culm_stage_run's `least`, the rest of its part may stay undefined. False,
 * and nothing is done, if it cannot be (device/infer.h), or something else reads that output too. */
bool culm_graph_gate(struct culm_graph *fused, int32_t output, int32_t parts, int32_t channel);
/* The numbers of a parameter as the graph has them, from those of files; ret_data is other memory. A
 * parameter that is not turned is copied. */
void culm_graph_turn(const struct culm_param *param, const float *data, float *ret_data);
/* The same of its elements [first, first + count) alone, which lie at `part`. */
void culm_graph_turn_part(const struct culm_param *param, const float *part, int64_t first,
                          int64_t count, float *ret_data);
/* The same graph for micro-batches of `samples`: with values of the same ids in other shapes. The
 * caller's. CULM_ERR_UNSUPPORTED when the graph was made for one number of samples alone. */
enum culm_status culm_graph_for_samples(const struct culm_graph *graph, int64_t samples,
                                        struct culm_graph **ret_graph, struct culm_error *error);

#endif
