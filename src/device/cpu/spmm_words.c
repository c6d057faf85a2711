/*
 * Sums over neighbours where what dropout leaves is given as bits of all elements: products of sparse
 * features that have many.
 *
 * x is gone through in parts of some words of 64 rows, which stay in the nearest cache while all rows of a
 * batch add what they have of them. Bits are taken from the lowest on, and parts rise, so entries are
 * added in their order.
 */
#include "device/cpu/spmm_strip.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define BITS 64
#define ITEMS 2048          /* rows, or blocks of long ones */
#define NEAREST (24l << 10) /* bytes of x that are gone through together */
#define FAR (512l << 10)    /* a larger x is asked for in advance */

/* A row, or a block of one. */
struct item {
    int64_t row, from, to; /* columns */
    bool first, last;      /* of its row */
};

struct batch {
    float sum[ITEMS * STRIP * LANES]; /* [items][vectors] */
    struct item item[ITEMS];
    int items;
    vec carried[STRIP]; /* the sum of the row's blocks before */
};
_Static_assert(sizeof(struct batch) <= PRIVATE_FLOATS * sizeof(float), "fits");

enum weights { NONE, BY_ROW, BY_COLUMN };

/* The bits of word `word` that belong to the item. */
SIMD uint64_t bits_of(const struct culm_spmm_args *a, const struct item *item, int64_t word) {
    uint64_t bits = a->kept_words[word * a->n + item->row];
    int64_t first = word * BITS;
    if (item->from > first) {
        bits = item->from - first < BITS ? bits & ~UINT64_C(0) << (item->from - first) : 0;
    }
    if (item->to < first + BITS) {
        bits = item->to > first ? bits & ~UINT64_C(0) >> (first + BITS - item->to) : 0;
    }
    return bits;
}

/* Goes on with the sums of all items, by words first .. end - 1; whole: so is the last vector. */
SIMD void sum_words(const struct spmm_strip *t, struct batch *b, int64_t first, int64_t end,
                    int vectors, enum culm_dtype type, enum weights weights, bool whole) {
    const struct culm_spmm_args *a = t->s->a;
    const int64_t rows = at_most(t->s->rows - end * BITS, (end - first) * BITS);
    const int64_t each = ceil_div(rows, b->items); /* of the next part, asked for with each item */
    const bool far = t->s->rows * vectors * LANES * (int64_t)t->s->element > FAR;
    const char *next = t->x + (size_t)(end * BITS) * t->pitch;
    for (int i = 0; i < b->items; i++) {
        const struct item *item = &b->item[i];
        float *at = b->sum + i * vectors * LANES;
        vec sum[STRIP], v = vset(a->kept_scale);
        for (int64_t q = i * each; far && q < (i + 1) * each && q < rows; q++) {
#pragma GCC unroll 8
            for (int j = 0; j < vectors; j++) {
                __builtin_prefetch(next + (size_t)q * t->pitch + j * 64, 0, 2);
            }
        }
        if (item->to <= first * BITS || item->from >= end * BITS) {
            continue;
        }
        if (weights == BY_ROW) {
            v = vmul(vset(a->kept_weight[item->row]), v);
        }
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) {
            sum[j] = vload(at + j * LANES);
        }
        for (int64_t word = first; word < end; word++) {
            const char *x = t->x + (size_t)(word * BITS) * t->pitch;
            for (uint64_t bits = bits_of(a, item, word); bits; bits &= bits - 1) {
                int bit = __builtin_ctzll(bits);
                const char *row = x + (size_t)bit * t->pitch;
                vec by = v;
                if (weights == BY_COLUMN) {
                    by = vmul(vset(a->kept_weight[word * BITS + bit]), v);
                }
#pragma GCC unroll 8
                for (int j = 0; j < vectors; j++) {
                    sum[j] = vfma(strip_load(row, j, vectors + whole, t->last, type), by, sum[j]);
                }
            }
        }
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) {
            vstore(at + j * LANES, sum[j]);
        }
    }
}

typedef void sum_words_fn(const struct spmm_strip *t, struct batch *b, int64_t first, int64_t end);
#define ONE_OF(vectors, type)                                                                      \
    static void sum_##vectors##_##type(const struct spmm_strip *t, struct batch *b, int64_t first, \
                                       int64_t end) {                                              \
        if (t->s->a->kept_weight && t->s->a->weight_of_x) {                                        \
            sum_words(t, b, first, end, vectors, CULM_##type, BY_COLUMN, false);                   \
        } else if (t->s->a->kept_weight) {                                                         \
            sum_words(t, b, first, end, vectors, CULM_##type, BY_ROW, false);                      \
        } else if (t->last < LANES) {                                                              \
            sum_words(t, b, first, end, vectors, CULM_##type, NONE, false);                        \
        } else {                                                                                   \
            sum_words(t, b, first, end, vectors, CULM_##type, NONE, true);                         \
        }                                                                                          \
    }
#define NAME_OF(vectors, type) sum_##vectors##_##type,
EVERY_WIDTH(ONE_OF, F32)
EVERY_WIDTH(ONE_OF, BF16)
static sum_words_fn *const functions[2][STRIP] = {{EVERY_WIDTH(NAME_OF, F32)},
                                                  {EVERY_WIDTH(NAME_OF, BF16)}};

static void sum_batch(const struct spmm_strip *t, struct batch *b) {
    sum_words_fn *sum = functions[t->s->a->x.dtype == CULM_BF16][t->vectors - 1];
    int64_t bytes = BITS * t->vectors * LANES * (int64_t)t->s->element;
    int64_t words = ceil_div(t->s->rows, BITS), each = at_least(1, NEAREST / bytes);
    if (b->items == 0) {
        return;
    }
    memset(b->sum, 0, (size_t)(b->items * t->vectors) * sizeof(vec));
    for (int64_t word = 0; word < words; word += each) {
        sum(t, b, word, at_most(words, word + each));
    }
    for (int i = 0; i < b->items; i++) {
        for (int j = 0; j < t->vectors; j++) {
            vec part = vload(b->sum + (i * t->vectors + j) * LANES);
            b->carried[j] = b->item[i].first ? part : vadd(b->carried[j], part);
        }
        if (b->item[i].last) {
            strip_store(t, b->item[i].row, b->carried, t->vectors);
        }
    }
    b->items = 0;
}

void ISA_NAME(spmm_word_rows)(const struct spmm_strip *t, int64_t from, int64_t to, float *memory) {
    struct batch *b = (struct batch *)memory;
    const struct culm_spmm_args *a = t->s->a;
    assert(t->s->rows > 0 && !a->value);
    b->items = 0;
    for (int64_t row = from; row < to; row++) {
        uint64_t begin = a->start[row], end = a->start[row + 1];
        if (begin == end) {
            strip_store_none(t, row);
        }
        for (uint64_t e = begin, stop; e < end; e = stop) {
            stop = end - e > CULM_SPMM_BLOCK ? e + CULM_SPMM_BLOCK : end;
            b->item[b->items++] = (struct item){.row = row,
                                                .from = e == begin ? 0 : a->column[e],
                                                .to = stop == end ? INT64_MAX : a->column[stop],
                                                .first = e == begin,
                                                .last = stop == end};
            if (b->items == ITEMS) {
                sum_batch(t, b);
            }
        }
    }
    sum_batch(t, b);
}
