/*
 * Which values of a graph are kept in bf16.
 *
 * Parameters, their gradients, statistics, the residual stream and what the samples hold stay f32.
 * Products (linear, conv, attention, ...) give bf16; operators that only move or map elements give
 * what they get; layer norm gives bf16 where only products read it. An operator whose row does
 * not say reads and writes f32, and so does what is given to the outside. A gradient has the type of
 * its value (autodiff).
 *
 * Thread: one.
 */
#ifndef CULM_GRAPH_PRECISION_H
#define CULM_GRAPH_PRECISION_H

#include "graph/graph.h"

/* The number format of activations and products. */
enum culm_precision { CULM_PRECISION_F32, CULM_PRECISION_BF16 };
extern const char *const culm_precision_names[];

/* Sets the types of a whole, uncut graph without gradients, as built in f32. CULM_ERR_MEMORY. */
enum culm_status culm_graph_lower_bf16(struct culm_graph *graph, struct culm_error *error);

#endif
