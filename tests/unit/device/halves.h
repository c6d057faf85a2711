/*
 * Typed operands for the operator test: the harness keeps all buffers in f32; a shape that asks for
 * bf16 has its inputs rounded before either side sees them, and the device reads and writes copies
 * of two bytes an element.
 */
#ifndef CULM_TESTS_DEVICE_HALVES_H
#define CULM_TESTS_DEVICE_HALVES_H

#include "ops.h"

#include <stdlib.h>
#include <string.h>

struct typed {
    struct run *run;
    int64_t bf16; /* 1: all; 2: what is read */
    uint16_t *half[MAX_BUFFERS];
    uint32_t written;
};

static inline uint16_t typed_narrow(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float typed_widen(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* Rounds the buffers in `mask`. */
static inline void typed_round(struct run *run, int64_t bf16, uint32_t mask) {
    for (int b = 0; bf16 && b < MAX_BUFFERS; b++) {
        for (int64_t i = 0; mask >> b & 1 && i < run->count[b]; i++) {
            run->buffer[b][i] = typed_widen(typed_narrow(run->buffer[b][i]));
        }
    }
}
/* And makes them of many sizes: sums of a few bf16 that are alike in size are exact in f32, in whatever
 * order. */
static inline void typed_spread(struct run *run, int64_t bf16, uint32_t mask) {
    static const float by[4] = {1, 0x1p-7f, 0x1p-14f, 0x1p-21f};
    typed_round(run, bf16, mask);
    for (int b = 0; bf16 && b < MAX_BUFFERS; b++) {
        for (int64_t i = 0; mask >> b & 1 && i < run->count[b]; i++) {
            run->buffer[b][i] *= by[(uint32_t)i * 2654435761u >> 30];
        }
    }
}
static inline uint16_t *typed_half(struct typed *t, int b) {
    int64_t count = t->run->count[b];
    t->half[b] = aligned_alloc(64, ((size_t)count * 2 + 127) / 64 * 64);
    for (int64_t i = 0; i < count; i++) {
        t->half[b][i] = typed_narrow(t->run->buffer[b][i]);
    }
    return t->half[b];
}
static inline struct culm_in typed_in(struct typed *t, int b) {
    return t->bf16 ? (struct culm_in){typed_half(t, b), CULM_BF16} : culm_in_f32(t->run->buffer[b]);
}
static inline struct culm_out typed_out(struct typed *t, int b) {
    t->written |= 1u << b;
    return t->bf16 == 1 ? (struct culm_out){typed_half(t, b), CULM_BF16}
                        : culm_out_f32(t->run->buffer[b]);
}
/* After the call: what was written goes back to the buffers. */
static inline void typed_end(struct typed *t) {
    for (int b = 0; b < MAX_BUFFERS; b++) {
        for (int64_t i = 0; t->half[b] && t->written >> b & 1 && i < t->run->count[b]; i++) {
            t->run->buffer[b][i] = typed_widen(t->half[b][i]);
        }
        free(t->half[b]);
    }
}

#endif
