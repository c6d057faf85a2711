/*
 * Strips of columns, which sums over neighbours are computed in: what one is, how its rows are loaded,
 * and how sums are stored.
 */
#ifndef CULM_DEVICE_CPU_SPMM_STRIP_H
#define CULM_DEVICE_CPU_SPMM_STRIP_H

#include "device/cpu/edges.h"
#include "device/cpu/simd.h"

#if SIMD_REGISTERS == 32
#define STRIP 8 /* vectors */
#else
#define STRIP 4
#endif

struct spmm {
    struct culm_cpu *cpu; /* NULL for spmm_rows */
    const struct culm_spmm_args *a;
    struct chunks chunks;
    int64_t heads, head_width;
    int64_t vectors, strips; /* all columns; strips have equal widths as far as they can */
    size_t element;          /* bytes of one of x */
    uint64_t ahead;          /* entries; 0: none */
    uint64_t base;           /* the entry of the first value, where values are in order */
    char *packed; /* a strip of x with nothing between its rows; NULL: it stays where it is */
    size_t packed_pitch; /* bytes between those */
    bool stream;         /* y would push that strip out of the caches: it is stored past them */
    int64_t rows;        /* of it */
    int64_t strip;       /* that is packed */
};

/* One strip. */
struct spmm_strip {
    const struct spmm *s;
    int vectors;
    const char *x;        /* its first column */
    size_t pitch;         /* bytes between rows of x */
    int64_t column, last; /* its first; how many its last vector has */
    int64_t loaded;       /* of that one: LANES where rows go on up to there */
    int64_t head[STRIP];  /* of each vector's first column */
    uvec lane[STRIP];     /* each lane's head; of many, counted from that */
};

/* Rows [from, to) of a strip where dropout leaves out some terms. `memory` is the thread's own. What dropout
 * keeps is given as bits of entries (`kept`, spmm_some.c), or as bits of all elements (`kept_words`,
 * spmm_words.c). */
void ISA_NAME(spmm_some_rows)(const struct spmm_strip *t, int64_t from, int64_t to, float *memory);
void ISA_NAME(spmm_word_rows)(const struct spmm_strip *t, int64_t from, int64_t to, float *memory);

/* Columns of vector i of a row of x, which begins `at`; the last vector has `last`. */
SIMD vec strip_load(const char *at, int i, int vectors, int64_t last, enum culm_dtype type) {
    if (type == CULM_BF16) {
        const uint16_t *p = (const uint16_t *)(const void *)at + i * LANES;
        if (i + 1 < vectors || last == LANES) {
            return vload_bf16(p);
        }
#if SIMD_WIDE
        __m256i part = _mm256_maskz_loadu_epi16((__mmask16)((1u << last) - 1), p);
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(part), 16));
#else
        return tload_part((struct culm_in){p, CULM_BF16}, 0, last);
#endif
    }
    const float *p = (const float *)(const void *)at + i * LANES;
    return i + 1 < vectors ? vload(p) : vload_n(p, last);
}

SIMD void strip_ask(const char *row, int vectors, enum culm_dtype type) {
#pragma GCC unroll 8
    for (int i = 0; i < vectors; i += type == CULM_BF16 ? 2 : 1) {
        __builtin_prefetch(row + i * LANES * (type == CULM_BF16 ? 2 : 4), 0, 3);
    }
}

/* Row `row` of y, of its sum. */
SIMD void strip_store(const struct spmm_strip *t, int64_t row, const vec *sum, int vectors) {
    const struct culm_spmm_args *a = t->s->a;
    int64_t at = row * a->ldy + t->column;
#pragma GCC unroll 8
    for (int i = 0; i < vectors; i++) {
        int64_t n = i + 1 < vectors ? LANES : t->last;
        vec y = a->scale ? vmul(sum[i], vset(a->scale[row])) : sum[i];
        if (a->add) {
            y = vadd(tload_part(culm_in_of(a->y), at + i * LANES, n), y);
        }
        if (t->s->stream) {
            vstream((float *)a->y.data + at + i * LANES, y);
        } else {
            tstore_part(a->y, at + i * LANES, y, n);
        }
    }
}

/* The row has no entries. */
SIMD void strip_store_none(const struct spmm_strip *t, int64_t row) {
    const struct culm_spmm_args *a = t->s->a;
    for (int i = 0; i < t->vectors && !a->add; i++) {
        int64_t n = i + 1 < t->vectors ? LANES : t->last;
        tstore_part(a->y, row * a->ldy + t->column + i * LANES, vzero(), n);
    }
}

/* One function for each number of vectors, X(vectors, ...), and for each up to half of a strip. */
#define EVERY_2(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__)
#define EVERY_4(X, ...) EVERY_2(X, __VA_ARGS__) X(3, __VA_ARGS__) X(4, __VA_ARGS__)
#if SIMD_REGISTERS == 32
#define EVERY_HALF_WIDTH EVERY_4
#define EVERY_WIDTH(X, ...)                                                                        \
    EVERY_4(X, __VA_ARGS__)                                                                        \
    X(5, __VA_ARGS__) X(6, __VA_ARGS__) X(7, __VA_ARGS__) X(8, __VA_ARGS__)
#else
#define EVERY_HALF_WIDTH EVERY_2
#define EVERY_WIDTH EVERY_4
#endif

#endif
