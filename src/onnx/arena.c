/*
 * Arenas: chunks of one size; a large allocation gets a chunk of its own. See arena.h.
 *
 * Under AddressSanitizer everything in a chunk that has not been handed out is poisoned, with a red
 * zone behind each allocation, so that even a small access past the end is seen.
 */
#include "onnx/arena.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
#include <sanitizer/asan_interface.h>
#define RED_ZONE 16
#define FORBID(at, size) __asan_poison_memory_region(at, size)
#define ALLOW(at, size) __asan_unpoison_memory_region(at, size)
#else
#define RED_ZONE 0
#define FORBID(at, size) ((void)(at), (void)(size))
#define ALLOW(at, size) ((void)(at), (void)(size))
#endif

#define CHUNK_BYTES ((size_t)64 << 10)

struct culm_onnx_chunk {
    struct culm_onnx_chunk *next;
    size_t used, size;
    _Alignas(64) uint8_t data[];
};

void culm_onnx_arena_init(struct culm_onnx_arena *arena, uint64_t bytes_max) {
    *arena = (struct culm_onnx_arena){.bytes_max = bytes_max};
}

void culm_onnx_arena_release(struct culm_onnx_arena *arena) {
    for (struct culm_onnx_chunk *chunk = arena->chunk, *next; chunk; chunk = next) {
        next = chunk->next;
        ALLOW(chunk->data, chunk->size);
        free(chunk);
    }
    arena->chunk = NULL;
    arena->bytes = 0;
}

static struct culm_onnx_chunk *chunk_new(size_t size) {
    void *memory;
    size_t bytes = (sizeof(struct culm_onnx_chunk) + size + 63) / 64 * 64;
    if (posix_memalign(&memory, 64, bytes) != 0) {
        return NULL;
    }
    struct culm_onnx_chunk *chunk = memory;
    chunk->used = 0;
    chunk->size = size;
    FORBID(chunk->data, size);
    return chunk;
}

void *culm_onnx_alloc(struct culm_onnx_arena *arena, uint64_t count, size_t size) {
    uint64_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > arena->bytes_max - arena->bytes) {
        return NULL;
    }
    arena->bytes += bytes;
    size_t alignment = bytes >= 64 ? 64 : 16;
    struct culm_onnx_chunk *chunk = arena->chunk;
    size_t start = chunk ? (chunk->used + alignment - 1) / alignment * alignment : 0;
    if (!chunk || start > chunk->size || bytes + RED_ZONE > chunk->size - start) {
        bool large = bytes > CHUNK_BYTES / 4;
        struct culm_onnx_chunk *more = chunk_new(large ? (size_t)bytes + RED_ZONE : CHUNK_BYTES);
        if (!more) {
            return NULL;
        }
        if (large && chunk) { /* behind the one that still has room */
            more->next = chunk->next;
            chunk->next = more;
        } else {
            more->next = chunk;
            arena->chunk = more;
        }
        chunk = more;
        start = 0;
    }
    chunk->used = start + (size_t)bytes + RED_ZONE;
    ALLOW(chunk->data + start, (size_t)bytes);
    return memset(chunk->data + start, 0, (size_t)bytes);
}

char *culm_onnx_copy_text(struct culm_onnx_arena *arena, const void *data, size_t len) {
    char *text = culm_onnx_alloc(arena, (uint64_t)len + 1, 1);
    if (text && len) {
        memcpy(text, data, len);
    }
    return text;
}
