/*
 * Memory that is freed all at once: names, nodes and small tensors of one ONNX graph.
 *
 * Allocations are zeroed and aligned to 64 bytes from a size of 64 bytes on, else to 16. A limit
 * bounds their sum, so that a small file cannot ask for much; beyond it, or out of memory, they
 * return NULL. AddressSanitizer notices accesses past the end of any allocation.
 *
 * Thread: one.
 */
#ifndef CULM_ONNX_ARENA_H
#define CULM_ONNX_ARENA_H

#include "base/status.h"

struct culm_onnx_chunk;

struct culm_onnx_arena {
    struct culm_onnx_chunk *chunk;
    uint64_t bytes, bytes_max; /* allocated so far; the limit */
};

void culm_onnx_arena_init(struct culm_onnx_arena *arena, uint64_t bytes_max);
void culm_onnx_arena_release(struct culm_onnx_arena *arena);
void *culm_onnx_alloc(struct culm_onnx_arena *arena, uint64_t count, size_t size);
/* A NUL-terminated copy. */
char *culm_onnx_copy_text(struct culm_onnx_arena *arena, const void *data, size_t len);

#endif
