/*
 * Sums over neighbours of the terms that dropout leaves: products of sparse features.
 *
 * First the entries that are left are listed, of as many rows as there is room for: which ones these
 * are is random, so nothing may branch on it. Then the listed rows are summed. Where rows of A have
 * many entries and rise, they are gone through together, some rows of x after the others, so that these
 * stay in the nearest cache while they are in use. Entries are always added in their order, so that
 * changes no bit. Where A has no values, those of all that are left are the same, and none are listed.
 */
#include "device/cpu/spmm_strip.h"
#include "device/cpu/variant.h"

#define LIST 8192           /* entries listed at a time; at least CULM_SPMM_BLOCK */
#define ITEMS 64            /* rows, or blocks of long ones */
#define NEAREST (24l << 10) /* bytes of x that are gone through together, */
#define ENTRIES_LEAST 24    /* and as many entries of a row among them, or more rows of x are */
#define AHEAD_MOST 32
#define NONE UINT32_MAX /* the column after the last */

/* A row, or a block of one. */
struct item {
    int64_t row;
    bool first, last; /* of its row */
    int32_t at;       /* in the lists */
};

struct batch {
    vec sum[ITEMS][STRIP];
    vec carried[STRIP]; /* the sum of the row's blocks in batches before */
    uint32_t column[LIST + ITEMS + AHEAD_MOST + LANES];
    float value[LIST + ITEMS + AHEAD_MOST + LANES];
    struct item item[ITEMS];
    int items, length;
    int64_t entries; /* with those left out */
};
_Static_assert(sizeof(struct batch) <= PRIVATE_FLOATS * sizeof(float), "fits");

#if SIMD_WIDE
/* Which of the entries `from` and so on, as many as `there` has, dropout leaves. */
SIMD __mmask16 kept_of(const struct culm_spmm_args *a, uint64_t from, __mmask16 there) {
    uint32_t bits;
    if (a->kept_at) {
        __m512i at = _mm512_maskz_loadu_epi32(there, a->kept_at + from);
        __m512i word = _mm512_i32gather_epi32(_mm512_srli_epi32(at, 5), a->kept, 4);
        __m512i bit = _mm512_sllv_epi32(uset(1), _mm512_and_si512(at, uset(31)));
        return _mm512_mask_test_epi32_mask(there, word, bit);
    }
    memcpy(&bits, (const char *)a->kept + from / 8, sizeof bits);
    return (__mmask16)(bits >> from % 8) & there;
}

/* Lists those of them that are left, and says how many. */
SIMD int list_sixteen(const struct culm_spmm_args *a, uint64_t from, __mmask16 there,
                      uint32_t *column, float *value) {
    __mmask16 some = kept_of(a, from, there);
    if (a->value) {
        vec v = vmul(_mm512_maskz_loadu_ps(there, a->value + from), vset(a->kept_scale));
        some = _mm512_mask_cmp_ps_mask(some, v, vzero(), _CMP_NEQ_UQ);
        _mm512_storeu_ps(value, _mm512_maskz_compress_ps(some, v));
    }
    __m512i c = _mm512_maskz_loadu_epi32(there, a->column + from);
    _mm512_storeu_si512(column, _mm512_maskz_compress_epi32(some, c));
    return __builtin_popcount(some);
}
#endif

/* Lists the entries [from, to) that are left, with their values. There is room for LANES more. */
SIMD int list_some(const struct culm_spmm_args *a, uint64_t from, uint64_t to, uint32_t *column,
                   float *value) {
    int count = 0;
#if SIMD_WIDE
    for (; to - from >= LANES; from += LANES) {
        count += list_sixteen(a, from, 0xFFFF, column + count, value + count);
    }
    if (from < to) {
        count += list_sixteen(a, from, vfirst((int64_t)(to - from)), column + count, value + count);
    }
#else
    for (; from < to; from++) {
        uint64_t bit = a->kept_at ? a->kept_at[from] : from;
        float v = a->value ? a->value[from] * a->kept_scale : 1;
        value[count] = v;
        column[count] = a->column[from];
        count += (int)(a->kept[bit / 32] >> bit % 32 & (v != 0));
    }
#endif
    return count;
}

/* Goes on with the sums of all items, as far as columns are below `limit`. */
SIMD void sum_below(const struct spmm_strip *t, struct batch *b, uint32_t limit, bool begins,
                    int ahead, int vectors, enum culm_dtype type, bool ones) {
    const vec scale = vset(t->s->a->kept_scale);
    for (int i = 0; i < b->items; i++) {
        const uint32_t *column = b->column + b->item[i].at;
        const float *value = b->value + b->item[i].at;
        vec sum[STRIP];
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) {
            sum[j] = begins ? vzero() : b->sum[i][j];
        }
        for (; *column < limit; column++, value++) {
            const char *row = t->x + *column * t->pitch;
            vec v = ones ? scale : vset(*value);
            if (ahead && column[ahead] != NONE) {
                strip_ask(t->x + column[ahead] * t->pitch, vectors, type);
            }
#pragma GCC unroll 8
            for (int j = 0; j < vectors; j++) {
                sum[j] = vfma(strip_load(row, j, vectors, t->last, type), v, sum[j]);
            }
        }
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) {
            b->sum[i][j] = sum[j];
        }
        b->item[i].at = (int32_t)(column - b->column);
    }
}

typedef void sum_below_fn(const struct spmm_strip *t, struct batch *b, uint32_t limit, bool begins,
                          int ahead);
#define ONE_OF(vectors, type)                                                                      \
    static void sum_##vectors##_##type(const struct spmm_strip *t, struct batch *b,                \
                                       uint32_t limit, bool begins, int ahead) {                   \
        if (t->s->a->value) {                                                                      \
            sum_below(t, b, limit, begins, ahead, vectors, CULM_##type, false);                    \
        } else {                                                                                   \
            sum_below(t, b, limit, begins, ahead, vectors, CULM_##type, true);                     \
        }                                                                                          \
    }
#define NAME_OF(vectors, type) sum_##vectors##_##type,
EVERY_WIDTH(ONE_OF, F32)
EVERY_WIDTH(ONE_OF, BF16)
static sum_below_fn *const functions[2][STRIP] = {{EVERY_WIDTH(NAME_OF, F32)},
                                                  {EVERY_WIDTH(NAME_OF, BF16)}};

/* How many rows of x are gone through together. */
static int64_t rows_together(const struct spmm_strip *t, const struct batch *b) {
    const struct spmm *s = t->s;
    int64_t fit = NEAREST / (t->vectors * LANES * (int64_t)s->element);
    int64_t times = at_most(ceil_div(s->rows, fit), b->entries / (b->items * ENTRIES_LEAST));
    return times > 1 ? ceil_div(s->rows, times) : NONE;
}

static void sum_batch(const struct spmm_strip *t, struct batch *b) {
    sum_below_fn *sum = functions[t->s->a->x.dtype == CULM_BF16][t->vectors - 1];
    if (b->items == 0) {
        return;
    }
    for (int i = 0; i < AHEAD_MOST; i++) {
        b->column[b->length + i] = NONE;
    }
    int64_t together = rows_together(t, b), limit = together;
    bool all = together == NONE;
    for (; limit < t->s->rows && !all; limit += together) {
        sum(t, b, (uint32_t)limit, limit == together, 0);
    }
    sum(t, b, NONE, all, all ? (int)t->s->ahead : 0);
    for (int i = 0; i < b->items; i++) {
        for (int j = 0; j < t->vectors; j++) {
            b->carried[j] = b->item[i].first ? b->sum[i][j] : vadd(b->carried[j], b->sum[i][j]);
        }
        if (b->item[i].last) {
            strip_store(t, b->item[i].row, b->carried, t->vectors);
        }
    }
    b->items = b->length = 0;
    b->entries = 0;
}

void ISA_NAME(spmm_some_rows)(const struct spmm_strip *t, int64_t from, int64_t to, float *memory) {
    struct batch *b = (struct batch *)memory;
    const uint64_t *start = t->s->a->start;
    b->items = b->length = 0;
    b->entries = 0;
    for (int64_t row = from; row < to; row++) {
        if (start[row] == start[row + 1]) {
            strip_store_none(t, row);
        }
        for (uint64_t e = start[row], stop; e < start[row + 1]; e = stop) {
            stop = start[row + 1] - e > CULM_SPMM_BLOCK ? e + CULM_SPMM_BLOCK : start[row + 1];
            if (b->items == ITEMS || b->length + (int64_t)(stop - e) > LIST) {
                sum_batch(t, b);
            }
            b->item[b->items++] = (struct item){.row = row,
                                                .first = e == start[row],
                                                .last = stop == start[row + 1],
                                                .at = b->length};
            b->length += list_some(t->s->a, e, stop, b->column + b->length, b->value + b->length);
            b->column[b->length++] = NONE;
            b->entries += (int64_t)(stop - e);
        }
    }
    sum_batch(t, b);
}
