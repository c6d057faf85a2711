/*
 * Memory that is given back all at once: names, nodes and small tensors of one ONNX graph.
 *
 * Zeroed, 64-byte aligned from 64 bytes on, else 16. A limit bounds the total, so that a small file
 * cannot ask for much; past it, or out of memory, NULL. AddressSanitizer sees a step out of any
 * piece. Thread: one.
 */
#ifndef CULM_ONNX_ARENA_H
#define CULM_ONNX_ARENA_H

#include "base/status.h"

struct culm_onnx_chunk;

struct culm_onnx_arena {
    struct culm_onnx_chunk *chunk;
    uint64_t bytes, bytes_max; /* asked for so far; the limit */
};

void culm_onnx_arena_init(struct culm_onnx_arena *arena, uint64_t bytes_max);
void culm_onnx_arena_release(struct culm_onnx_arena *arena);
void *culm_onnx_alloc(struct culm_onnx_arena *arena, uint64_t count, size_t size);
/* A NUL-terminated copy. */
char *culm_onnx_copy_text(struct culm_onnx_arena *arena, const void *data, size_t len);

#endif
