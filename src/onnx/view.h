/*
 * Views: how the dimensions of a value come from those of a source, with only reshapes, transposes,
 * slices and scaling in between.
 *
 * Exporters rearrange heads in many ways; what matters is where each number comes from. A dimension
 * is a list of atoms, outermost first, and each atom steps through one dimension of the source. So
 * [B,H,T,D] over [B,T,C] is {(0,B,1)} {(2,H,D)} {(1,T,1)} {(2,D,1)}, with atoms as (source
 * dimension, size, stride).
 *
 * Private to src/onnx. Thread: one.
 */
#ifndef CULM_ONNX_VIEW_H
#define CULM_ONNX_VIEW_H

#include "onnx/graph.h"

#define CULM_ONNX_ATOMS_MAX 12

struct culm_onnx_atom {
    int source_dim;
    int64_t size, stride;
};

struct culm_onnx_view_dim {
    int count;
    struct culm_onnx_atom atom[CULM_ONNX_ATOMS_MAX];
};

struct culm_onnx_view {
    int32_t source;
    int rank;
    struct culm_onnx_view_dim dim[CULM_ONNX_RANK_MAX];
    int64_t offset[CULM_ONNX_RANK_MAX]; /* of slices, into each dimension of the source */
    double scale;
};

/* What may be in between besides reshapes and transposes. */
enum { CULM_ONNX_VIEW_SLICES = 1, CULM_ONNX_VIEW_FACTORS = 2 };

/* The view of `value` over the most distant source; returns the number of steps in between. */
int culm_onnx_view_of(const struct culm_onnx_graph *graph, int32_t value, int through,
                      struct culm_onnx_view *ret_view);
/* Whether dimensions [from, to) of the view consist of these atoms, not counting those of size
 * 1. */
bool culm_onnx_view_is(const struct culm_onnx_view *view, int from, int to,
                       const struct culm_onnx_atom *atoms, int count);

#endif
