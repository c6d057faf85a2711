/* What the files of a compiled stage share. Not for others. */
#ifndef CULM_GRAPH_STAGE_INTERNAL_H
#define CULM_GRAPH_STAGE_INTERNAL_H

#include "graph/stage.h"

enum region {
    NOWHERE,
    PARAMS, /* of parameter `index` */
    FIELD,  /* `index` */
    INPUT,
    OUTPUT,
    D_OUTPUT,
    D_INPUT,
    ACTIVATIONS,
    SCRATCH,
};

struct place {
    enum region region;
    size_t offset_bytes; /* PARAMS: into the flat vector */
    int32_t index;
};

/* A value of a boundary. */
struct crossing {
    int32_t value;    /* of the uncut graph */
    int32_t gradient; /* value that holds its gradient: given (output) or made (input); -1: none */
    size_t offset_bytes, size_bytes;
};

struct boundary {
    struct crossing *item;
    int32_t count;
    size_t size_bytes;
};

struct culm_stage {
    struct culm_stage_info info;
    struct culm_graph *graph; /* this stage's values and nodes: forward, then backward */
    struct place *place;      /* [value_count] */
    int64_t *use_offset;      /* [use_count of the uncut graph]: floats into grads; -1: not here */
    int32_t *loss;            /* [forward_ops]: which loss of this stage a node is; -1: none */
    int32_t *chain;           /* [forward_ops]: how many from a node on may be executed as one */
    int32_t *ahead; /* [forward_ops]: a parameter's value that is read soon after; -1: none */
    struct boundary input, output;
    struct culm_param_info *params;
    struct culm_grad_info *grads;
    int32_t *fields;
};

struct culm_stage_rows {
    struct culm_value *value; /* [value_count of the stage's graph] */
};

static inline size_t stage_value_bytes(const struct culm_graph *graph, int32_t value) {
    const struct culm_value *v = &graph->value[value];
    return (size_t)culm_elements(&v->shape) * culm_dtype_bytes(v->dtype);
}

/* Gradients and parameters begin at multiples of this many. */
static inline int64_t stage_rounded_floats(int64_t floats) { return (floats + 15) & ~(int64_t)15; }

/* [value_count] each: the block that makes a value, and the last that uses it; -1: none. */
void stage_value_spans(const struct culm_graph *graph, int32_t *ret_made, int32_t *ret_used);

static inline int32_t stage_root(const struct culm_graph *graph, int32_t value) {
    while (graph->value[value].same_as >= 0) {
        value = graph->value[value].same_as;
    }
    return value;
}

/* stage_build.c: everything but places. `next` is the stage behind, built before; NULL: none. */
enum culm_status stage_build(struct culm_stage *stage, const struct culm_graph *graph,
                             const struct culm_stage *next,
                             const struct culm_stage_options *options, struct culm_error *error);
/* stage_backward.c: the gradient nodes behind the forward ones. */
enum culm_status stage_build_backward(struct culm_stage *stage, const struct culm_graph *graph,
                                      const struct culm_stage *next,
                                      const struct culm_stage_options *options,
                                      struct culm_error *error);
/* stage_chain.c: fills `chain` of a stage that is built. */
enum culm_status stage_find_chains(struct culm_stage *stage, struct culm_error *error);
/* stage_place.c */
enum culm_status stage_place(struct culm_stage *stage, struct culm_error *error);

#endif
