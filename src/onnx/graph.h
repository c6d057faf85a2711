/*
 * An ONNX file in memory: values, the nodes that produce them, and tensors.
 *
 * The file is read into memory, and so are the side files that large tensors may be in ("external
 * data"); tensors are borrowed bytes of these, so no model takes a second copy. Nothing in the file
 * is trusted before it has been checked: lengths, counts, that tensors have as many bytes as their
 * shapes need, that each value is produced once and before it is used. Sub-graphs (If, Loop) and
 * model-local functions are not read; a node that has one is marked.
 *
 * Passes (fold.h, pass.h) change the graph in place. A value that was replaced by another points to
 * it, so always look values up with culm_onnx_at(). Nodes stay in order; dead ones are skipped.
 *
 * Errors: one line, `onnx 'PATH': ...`. Thread: one.
 */
#ifndef CULM_ONNX_GRAPH_H
#define CULM_ONNX_GRAPH_H

#include "graph/graph.h"
#include "onnx/arena.h"

#define CULM_ONNX_RANK_MAX 8
#define CULM_ONNX_SIDE_FILES_MAX 64
/* The domain of nodes that passes create; files may not use it. */
#define CULM_ONNX_OURS "culm"

/* Numbered as in the file format. */
enum culm_onnx_type {
    CULM_ONNX_UNKNOWN = 0,
    CULM_ONNX_FLOAT = 1,
    CULM_ONNX_UINT8 = 2,
    CULM_ONNX_INT8 = 3,
    CULM_ONNX_UINT16 = 4,
    CULM_ONNX_INT16 = 5,
    CULM_ONNX_INT32 = 6,
    CULM_ONNX_INT64 = 7,
    CULM_ONNX_STRING = 8,
    CULM_ONNX_BOOL = 9,
    CULM_ONNX_FLOAT16 = 10,
    CULM_ONNX_DOUBLE = 11,
    CULM_ONNX_UINT32 = 12,
    CULM_ONNX_UINT64 = 13,
    CULM_ONNX_BFLOAT16 = 16,
};
const char *culm_onnx_type_name(int type); /* "float32", ..., "an unknown type" */
size_t culm_onnx_type_bytes(int type);     /* 0: not a type whose numbers are read */

struct culm_onnx_tensor {
    const char *name;
    int type, rank;
    int64_t dim[CULM_ONNX_RANK_MAX];
    int64_t elements;
    const void *data; /* row-major, little-endian, maybe unaligned; NULL: the type is not read */
    uint64_t bytes;
};

enum culm_onnx_kind { CULM_ONNX_MADE, CULM_ONNX_INPUT, CULM_ONNX_INITIALIZER };

struct culm_onnx_value {
    const char *name;
    enum culm_onnx_kind kind;
    int type;
    int rank;                                 /* -1: unknown */
    int64_t dim[CULM_ONNX_RANK_MAX];          /* -1: unknown */
    const char *dim_name[CULM_ONNX_RANK_MAX]; /* names of an input's free dimensions; may be NULL */
    const struct culm_onnx_tensor *data;      /* its numbers, if known; initializers have them */
    bool constant;                            /* training does not change data */
    bool owned;                               /* data is an allocation of its own */
    bool output;                              /* an output of the graph */
    enum culm_function end;                   /* of an output: what was cut off behind it */
    int32_t node, slot;                       /* MADE: output `slot` of `node` */
    int32_t same_as;                          /* the value that has replaced it; -1: none */
    int32_t uses;                             /* by living nodes; see culm_onnx_count_uses */
};

enum culm_onnx_attribute_kind {
    CULM_ONNX_ATTRIBUTE_OTHER = 0, /* not read: lists of strings or tensors, sparse ones, types */
    CULM_ONNX_ATTRIBUTE_FLOAT = 1,
    CULM_ONNX_ATTRIBUTE_INT = 2,
    CULM_ONNX_ATTRIBUTE_STRING = 3,
    CULM_ONNX_ATTRIBUTE_TENSOR = 4,
    CULM_ONNX_ATTRIBUTE_GRAPH = 5,
    CULM_ONNX_ATTRIBUTE_FLOATS = 6,
    CULM_ONNX_ATTRIBUTE_INTS = 7,
};

struct culm_onnx_attribute {
    const char *name;
    int kind;
    double f;
    int64_t i;
    const char *s;                    /* STRING: never NULL; otherwise NULL */
    const struct culm_onnx_tensor *t; /* TENSOR: never NULL; otherwise NULL */
    const int64_t *ints;              /* INTS; NULL: empty */
    const float *floats;              /* FLOATS; NULL: empty */
    int32_t count;                    /* length of ints or floats */
};

struct culm_onnx_node {
    const char *op, *name, *domain; /* domain "": ONNX's own; CULM_ONNX_OURS: created by a pass */
    int32_t *input, *output;        /* values; -1: absent */
    int32_t inputs, outputs;
    struct culm_onnx_attribute *attribute;
    int32_t attributes;
    struct culm_attributes culm; /* if the domain is CULM_ONNX_OURS */
    int64_t order;               /* place among the nodes while a pass inserts some; see pass.h */
    bool dead;
};

struct culm_onnx_map {
    const char *path;
    const uint8_t *data;
    size_t len;
    bool mapped;
};

struct culm_onnx_graph {
    char *path;                /* for messages */
    const char *producer;      /* "pytorch" */
    const char *class_names;   /* metadata "names", as it is written; NULL: none */
    const char *image_size;    /* metadata "imgsz", likewise */
    const char *task;          /* metadata "task", likewise */
    int64_t ir_version, opset; /* of ONNX's own domain */
    struct culm_onnx_arena arena;
    struct culm_onnx_value *value;
    int32_t value_count, value_capacity;
    struct culm_onnx_node *node;
    int32_t node_count, node_capacity;
    int32_t *input, *output; /* of the graph, in order; inputs without initializer */
    int32_t input_count, output_count;
    int32_t *names; /* hash table: names of values -> values */
    uint32_t names_size;
    struct culm_onnx_map map[CULM_ONNX_SIDE_FILES_MAX + 1]; /* the file itself, then side files */
    int32_t maps;
    struct culm_pins *pins; /* borrowed while opening; NULL: none */
};

/* Free with culm_onnx_graph_close (NULL is fine). */
enum culm_status culm_onnx_graph_open(const char *path, struct culm_onnx_graph **ret_graph,
                                      struct culm_error *error);
/* The same, but files must hold what was pinned, else CULM_ERR_CHANGED. `pins` may be NULL. */
enum culm_status culm_onnx_graph_open_pinned(const char *path, struct culm_pins *pins,
                                             struct culm_onnx_graph **ret_graph,
                                             struct culm_error *error);
/* From memory, which is borrowed until closing; external data is refused. */
enum culm_status culm_onnx_graph_parse(const void *data, size_t len, const char *name,
                                       struct culm_onnx_graph **ret_graph,
                                       struct culm_error *error);
void culm_onnx_graph_close(struct culm_onnx_graph *graph);
/* A copy for passes to change, of a graph that no pass has changed. It borrows the original's
 * bytes, names and tensors, so close it first. */
enum culm_status culm_onnx_graph_copy(const struct culm_onnx_graph *graph,
                                      struct culm_onnx_graph **ret_copy, struct culm_error *error);
/* How often this process has parsed an ONNX file or bytes. Thread: any. */
int64_t culm_onnx_graph_reads(void);

/* The value that stands for `value` now; -1 for -1. */
int32_t culm_onnx_at(const struct culm_onnx_graph *graph, int32_t value);
/* The value that is input i of a node now; -1: absent. */
int32_t culm_onnx_input(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node,
                        int32_t i);
/* The living node that produces a value; NULL: it is an input or an initializer, or -1. */
struct culm_onnx_node *culm_onnx_maker(const struct culm_onnx_graph *graph, int32_t value);
int32_t culm_onnx_find(const struct culm_onnx_graph *graph, const char *name); /* -1: none */

/* Appends a new value; -1: out of memory. */
int32_t culm_onnx_value_new(struct culm_onnx_graph *graph, const char *name);

const struct culm_onnx_attribute *culm_onnx_attribute_of(const struct culm_onnx_node *node,
                                                         const char *name); /* NULL: none */
/* An attribute that is a list of integers; NULL: there is none, or it is of another kind. */
const struct culm_onnx_attribute *culm_onnx_list(const struct culm_onnx_node *node,
                                                 const char *name);
int64_t culm_onnx_int(const struct culm_onnx_node *node, const char *name, int64_t otherwise);
double culm_onnx_float(const struct culm_onnx_node *node, const char *name, double otherwise);
const char *culm_onnx_string(const struct culm_onnx_node *node, const char *name,
                             const char *otherwise);

/* `WHAT: operator 'Op' of node 'name', opset 20`. Returns status. */
enum culm_status culm_onnx_node_error(const struct culm_onnx_graph *graph,
                                      const struct culm_onnx_node *node, enum culm_status status,
                                      struct culm_error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The shape of a value as text: "[2,16,?]". Returns `text`. */
const char *culm_onnx_shape_text(const struct culm_onnx_value *value, char *text, size_t size);

/* Recounts the uses of all values; nodes whose outputs are not used die. */
void culm_onnx_count_uses(struct culm_onnx_graph *graph);

#endif
