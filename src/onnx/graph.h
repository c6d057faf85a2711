/*
 * An ONNX file in memory: values, nodes that make them, tensors that live in the file.
 *
 * Reading takes the file into memory, and the side files in which large tensors may lie ("external
 * data"); tensors are borrowed bytes of these, so a model of any size costs no second copy. Nothing
 * in the file is believed before it is checked: every length, every count, that tensors have as
 * many bytes as their shape needs, that each value is made once and before it is used. Sub-graphs
 * (If, Loop) and model-local functions are not read; a node that has one says so.
 *
 * The passes (fold.h, fuse.h) change the graph in place. A value that another one has taken the
 * place of points to it; always look through culm_onnx_at(). Nodes stay in order; dead ones are
 * skipped.
 *
 * Errors: one line, `onnx 'PATH': ...`. Thread: one.
 */
#ifndef CULM_ONNX_GRAPH_H
#define CULM_ONNX_GRAPH_H

#include "graph/graph.h"
#include "onnx/arena.h"

#define CULM_ONNX_RANK_MAX 8
#define CULM_ONNX_SIDE_FILES_MAX 64
/* The domain of nodes that passes make; files may not say it. */
#define CULM_ONNX_OURS "culm"

/* The numbers of the format. */
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
const char *culm_onnx_type_name(int type); /* "float32", ...; "type 17" is "unknown type" */
size_t culm_onnx_type_bytes(int type);     /* 0: no numbers that are read */

struct culm_onnx_tensor {
    const char *name;
    int type, rank;
    int64_t dim[CULM_ONNX_RANK_MAX];
    int64_t elements;
    const void *data; /* row-major, little-endian, perhaps not aligned; NULL: of an unread type */
    uint64_t bytes;
};

enum culm_onnx_kind { CULM_ONNX_MADE, CULM_ONNX_INPUT, CULM_ONNX_INITIALIZER };

struct culm_onnx_value {
    const char *name;
    enum culm_onnx_kind kind;
    int type;
    int rank;                                 /* -1: not known */
    int64_t dim[CULM_ONNX_RANK_MAX];          /* -1: not known */
    const char *dim_name[CULM_ONNX_RANK_MAX]; /* of an input's free dimensions; or NULL */
    const struct culm_onnx_tensor *data;      /* its number, if it is one; of initializers too */
    bool constant;                            /* data does not change in training */
    bool owned;                               /* data is memory of its own, to be freed */
    bool output;                              /* of the graph */
    int32_t node, slot;                       /* MADE: output `slot` of `node` */
    int32_t same_as;                          /* another value has taken its place; or -1 */
    int32_t uses;                             /* by living nodes; culm_onnx_count_uses */
};

enum culm_onnx_attribute_kind {
    CULM_ONNX_ATTRIBUTE_OTHER = 0, /* not read: strings, tensors, sparse ones, types */
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
    const char *s;                    /* of STRING, never NULL there; NULL elsewhere */
    const struct culm_onnx_tensor *t; /* of TENSOR, likewise */
    const int64_t *ints;              /* of INTS; NULL: empty */
    const float *floats;              /* of FLOATS; NULL: empty */
    int32_t count;                    /* of ints or floats */
};

struct culm_onnx_node {
    const char *op, *name, *domain; /* domain "": ONNX itself; CULM_ONNX_OURS: made by a pass */
    int32_t *input, *output;        /* values; -1: absent */
    int32_t inputs, outputs;
    struct culm_onnx_attribute *attribute;
    int32_t attributes;
    struct culm_attributes culm; /* of domain CULM_ONNX_OURS */
    int64_t order;               /* of execution, while a pass inserts; see pass.h */
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
    int64_t ir_version, opset; /* of domain "" */
    struct culm_onnx_arena arena;
    struct culm_onnx_value *value;
    int32_t value_count, value_capacity;
    struct culm_onnx_node *node;
    int32_t node_count, node_capacity;
    int32_t *input, *output; /* of the graph, in its order; inputs without initializer */
    int32_t input_count, output_count;
    int32_t *names; /* hash of value names -> value */
    uint32_t names_size;
    struct culm_onnx_map map[CULM_ONNX_SIDE_FILES_MAX + 1]; /* the file, then side files */
    int32_t maps;
    struct culm_pins *pins; /* borrowed while opening; NULL: none */
};

/* Free with culm_onnx_graph_close (NULL is fine). */
enum culm_status culm_onnx_graph_open(const char *path, struct culm_onnx_graph **ret_graph,
                                      struct culm_error *error);
/* The same; the files hold what was pinned, or CULM_ERR_CHANGED. `pins` may be NULL. */
enum culm_status culm_onnx_graph_open_pinned(const char *path, struct culm_pins *pins,
                                             struct culm_onnx_graph **ret_graph,
                                             struct culm_error *error);
/* From memory that is borrowed until closing; external data is refused. */
enum culm_status culm_onnx_graph_parse(const void *data, size_t len, const char *name,
                                       struct culm_onnx_graph **ret_graph,
                                       struct culm_error *error);
void culm_onnx_graph_close(struct culm_onnx_graph *graph);
/* One that passes may change, of a graph that none has changed; closed before that one, whose bytes,
 * names and tensors it borrows. */
enum culm_status culm_onnx_graph_copy(const struct culm_onnx_graph *graph,
                                      struct culm_onnx_graph **ret_copy, struct culm_error *error);
/* How many times this process has read a file or bytes as ONNX. Any thread. */
int64_t culm_onnx_graph_reads(void);

/* The living value in the place of `value`; -1 for -1. */
int32_t culm_onnx_at(const struct culm_onnx_graph *graph, int32_t value);
/* Value and node that are input i of a node, looked through; -1, NULL: none. */
int32_t culm_onnx_input(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node,
                        int32_t i);
/* The living node that makes a value; NULL: an input, an initializer or nothing. */
struct culm_onnx_node *culm_onnx_maker(const struct culm_onnx_graph *graph, int32_t value);
int32_t culm_onnx_find(const struct culm_onnx_graph *graph, const char *name); /* -1: none */

/* A new one at the end; -1: out of memory. */
int32_t culm_onnx_value_new(struct culm_onnx_graph *graph, const char *name);

const struct culm_onnx_attribute *culm_onnx_attribute(const struct culm_onnx_node *node,
                                                      const char *name); /* NULL: none */
/* One that is a list of whole numbers; NULL: there is none, or it is of another kind. */
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
/* Shape of a value as text: "[2,16,?]". Returns text. */
const char *culm_onnx_shape_text(const struct culm_onnx_value *value, char *text, size_t size);

/* Counts uses; nodes whose outputs nobody uses die. */
void culm_onnx_count_uses(struct culm_onnx_graph *graph);

#endif
