/*
 * Element types and shapes: what a value is, without saying where it lives or who computes it.
 *
 * A shape has at most CULM_MAX_RANK dimensions, row-major, each at least 1. Thread: any; plain
 * data.
 */
#ifndef CULM_TENSOR_TENSOR_H
#define CULM_TENSOR_TENSOR_H

#include "base/status.h"

#define CULM_MAX_RANK 4

/* SPARSE: rows of f32 of which most elements are zero; the memory of such a value holds no elements
 * but says where they are (graph/sparse.h). */
enum culm_dtype { CULM_F32, CULM_BF16, CULM_I32, CULM_SPARSE, CULM_DTYPE_COUNT };

size_t culm_dtype_bytes(enum culm_dtype dtype);     /* of an element; SPARSE: if all were there */
const char *culm_dtype_name(enum culm_dtype dtype); /* "f32", "bf16", "i32", "sparse" */

struct culm_shape {
    int rank; /* 0: a scalar, of one element */
    int64_t dim[CULM_MAX_RANK];
};

struct culm_shape culm_shape_of(int rank, const int64_t *dim);
bool culm_shape_equal(const struct culm_shape *a, const struct culm_shape *b);
/* The number of elements; CULM_ERR_ARGUMENT when a dimension is below 1 or the product is above
 * 2^62. */
enum culm_status culm_shape_count(const struct culm_shape *shape, int64_t *ret_count,
                                  struct culm_error *error);
/* "[8,128,256]"; cut to size. Returns text. */
const char *culm_shape_format(const struct culm_shape *shape, char *text, size_t size);

#endif
