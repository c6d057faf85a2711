/* Element types and shapes. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
    size_t bytes;
    const char *name;
} dtypes[CULM_DTYPE_COUNT] = {
    [CULM_F32] = {4, "f32"},
    [CULM_BF16] = {2, "bf16"},
    [CULM_I32] = {4, "i32"},
    [CULM_SPARSE] = {4, "sparse"},
};

size_t culm_dtype_bytes(enum culm_dtype dtype) { return dtypes[dtype].bytes; }
const char *culm_dtype_name(enum culm_dtype dtype) { return dtypes[dtype].name; }

struct culm_shape culm_shape_of(int rank, const int64_t *dim) {
    struct culm_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        shape.dim[i] = dim[i];
    }
    return shape;
}

bool culm_shape_equal(const struct culm_shape *a, const struct culm_shape *b) {
    if (a->rank != b->rank) {
        return false;
    }
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i]) {
            return false;
        }
    }
    return true;
}

enum culm_status culm_shape_count(const struct culm_shape *shape, int64_t *ret_count,
                                  struct culm_error *error) {
    char text[128];
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] < 1 || __builtin_mul_overflow(count, shape->dim[i], &count) ||
            count > (int64_t)1 << 62) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "shape %s: dimensions are at least 1 and their product at most "
                                  "2^62",
                                  culm_shape_format(shape, text, sizeof text));
        }
    }
    *ret_count = count;
    return CULM_OK;
}

const char *culm_shape_format(const struct culm_shape *shape, char *text, size_t size) {
    size_t at = 0;
    for (int i = 0; i < shape->rank && at < size; i++) {
        at += (size_t)snprintf(text + at, size - at, "%c%lld", i ? ',' : '[',
                               (long long)shape->dim[i]);
    }
    if (at < size) {
        snprintf(text + at, size - at, shape->rank ? "]" : "[]");
    }
    return text;
}
