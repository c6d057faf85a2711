/*
 * Sums over neighbours: y = A x for a sparse A, row by row.
 *
 * The columns of x are cut into strips of at most STRIP vectors, whose sums stay in registers while
 * a row's neighbours are added one after the other; rows of x further on are asked for in advance.
 * A tile is a chunk of rows of one strip. Strips are gone through one after the other, so that what
 * is read of a table too large for the caches is a part of it that fits better; for such a table
 * they are narrower. An element's sum is the same sequence in every strip and chunk.
 */
#include "device/cpu/edges.h"
#include "device/cpu/variant.h"

#include <assert.h>

#if SIMD_REGISTERS == 32
#define STRIP 8 /* vectors */
#else
#define STRIP 4
#endif

#define AHEAD 24 /* entries */

/* How the value of a term is found: there is none; one a row; one a vector of columns; one a lane. */
enum values { ONES, ONE, BY_VECTOR, BY_LANE };

struct spmm {
    const struct culm_spmm_args *a;
    struct chunks chunks;
    int64_t heads, head_width;
    int64_t vectors, strips; /* all columns; strips have equal widths as far as they can */
    size_t element;          /* bytes of one of x */
    bool ahead;
};

/* One strip. */
struct strip {
    const struct spmm *s;
    const char *x;        /* its first column */
    size_t pitch;         /* bytes between rows of x */
    int64_t column, last; /* its first; how many its last vector has */
    int64_t head[STRIP];  /* of each vector's first column */
    uvec lane[STRIP];     /* BY_LANE: each lane's head, counted from that */
};

SIMD vec load_columns(const char *at, int i, int vectors, int64_t last, enum culm_dtype type) {
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

/* table[index] of each lane; there are `count` elements. */
SIMD vec look_up(const float *table, int64_t count, uvec index) {
#if SIMD_WIDE
    return _mm512_permutexvar_ps(index, vload_n(table, count > LANES ? LANES : count));
#elif defined(__AVX2__)
    vec t = vload_n(table, count > LANES ? LANES : count);
    __m256i seven = _mm256_set1_epi32(7);
    __m256 low_a = _mm256_permutevar8x32_ps(t.a, index.a);
    __m256 high_a = _mm256_permutevar8x32_ps(t.b, index.a);
    __m256 low_b = _mm256_permutevar8x32_ps(t.a, index.b);
    __m256 high_b = _mm256_permutevar8x32_ps(t.b, index.b);
    return SIMD_BOTH(
        vec,
        _mm256_blendv_ps(low_a, high_a, _mm256_castsi256_ps(_mm256_cmpgt_epi32(index.a, seven))),
        _mm256_blendv_ps(low_b, high_b, _mm256_castsi256_ps(_mm256_cmpgt_epi32(index.b, seven))));
#else
    float out[LANES];
    uint32_t at[LANES];
    (void)count;
    memcpy(at, &index, sizeof at);
    for (int i = 0; i < LANES; i++) {
        out[i] = table[at[i]];
    }
    return vload(out);
#endif
}

SIMD vec value_of(const struct strip *t, uint64_t e, int i, enum values values) {
    const struct culm_spmm_args *a = t->s->a;
    const float *value = a->value + (a->entry ? a->entry[e] : e) * (uint64_t)t->s->heads;
    if (values == BY_LANE) {
        return look_up(value + t->head[i], t->s->heads - t->head[i], t->lane[i]);
    }
    return vset(value[values == BY_VECTOR ? t->head[i] : 0]);
}

/* The sum of entries [from, to), not empty, of which more follow up to `end`. */
SIMD void sum_entries(const struct strip *t, uint64_t from, uint64_t to, uint64_t end, vec *sum,
                      int vectors, enum culm_dtype type, enum values values) {
    const uint32_t *column = t->s->a->column;
    const char *row = t->x + column[from] * t->pitch;
#pragma GCC unroll 8
    for (int i = 0; i < vectors; i++) {
        vec x = load_columns(row, i, vectors, t->last, type);
        sum[i] = values == ONES ? x : vmul(x, value_of(t, from, i, values));
    }
    for (uint64_t e = from + 1; e < to; e++) {
        row = t->x + column[e] * t->pitch;
        if (t->s->ahead && e + AHEAD < end) {
            const char *next = t->x + column[e + AHEAD] * t->pitch;
#pragma GCC unroll 8
            for (int i = 0; i < vectors; i += type == CULM_BF16 ? 2 : 1) {
                __builtin_prefetch(next + i * LANES * (type == CULM_BF16 ? 2 : 4), 0, 3);
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) {
            vec x = load_columns(row, i, vectors, t->last, type);
            sum[i] = values == ONES ? vadd(sum[i], x) : vfma(x, value_of(t, e, i, values), sum[i]);
        }
    }
}

SIMD void store_row(const struct strip *t, int64_t row, const vec *sum, int vectors) {
    const struct culm_spmm_args *a = t->s->a;
    int64_t at = row * a->ldy + t->column;
#pragma GCC unroll 8
    for (int i = 0; i < vectors; i++) {
        int64_t n = i + 1 < vectors ? LANES : t->last;
        vec y = a->scale ? vmul(sum[i], vset(a->scale[row])) : sum[i];
        if (a->add) {
            y = vadd(tload_part(culm_in_of(a->y), at + i * LANES, n), y);
        }
        tstore_part(a->y, at + i * LANES, y, n);
    }
}

SIMD void sum_rows(const struct strip *t, int64_t from, int64_t to, int vectors,
                   enum culm_dtype type, enum values values) {
    const struct culm_spmm_args *a = t->s->a;
    uint64_t end = a->start[to];
    for (int64_t row = from; row < to; row++) {
        vec sum[STRIP] = {vzero()};
        uint64_t e = a->start[row], last = a->start[row + 1];
        if (e == last) {
            for (int i = 0; i < vectors && !a->add; i++) {
                int64_t n = i + 1 < vectors ? LANES : t->last;
                tstore_part(a->y, row * a->ldy + t->column + i * LANES, vzero(), n);
            }
            continue;
        }
        for (bool first = true; e < last; first = false) {
            vec part[STRIP];
            uint64_t stop = last - e > CULM_SPMM_BLOCK ? e + CULM_SPMM_BLOCK : last;
            sum_entries(t, e, stop, end, part, vectors, type, values);
#pragma GCC unroll 8
            for (int i = 0; i < vectors; i++) {
                sum[i] = first ? part[i] : vadd(sum[i], part[i]);
            }
            e = stop;
        }
        store_row(t, row, sum, vectors);
    }
}

/* One function for each number of vectors, type of x and kind of values. */
typedef void sum_rows_fn(const struct strip *t, int64_t from, int64_t to);
#define ONE_OF(vectors, type, values)                                                              \
    static void rows_##vectors##_##type##_##values(const struct strip *t, int64_t from,            \
                                                   int64_t to) {                                   \
        sum_rows(t, from, to, vectors, CULM_##type, values);                                       \
    }
#define NAME_OF(vectors, type, values) rows_##vectors##_##type##_##values,
#define EVERY_WIDTH_4(X, type, values)                                                             \
    X(1, type, values) X(2, type, values) X(3, type, values) X(4, type, values)
#if SIMD_REGISTERS == 32
#define EVERY_WIDTH(X, type, values)                                                               \
    EVERY_WIDTH_4(X, type, values)                                                                 \
    X(5, type, values) X(6, type, values) X(7, type, values) X(8, type, values)
#else
#define EVERY_WIDTH(X, type, values) EVERY_WIDTH_4(X, type, values)
#endif
#define EVERY_KIND(X, type)                                                                        \
    X(EVERY_WIDTH, type, ONES)                                                                     \
    X(EVERY_WIDTH, type, ONE) X(EVERY_WIDTH, type, BY_VECTOR) X(EVERY_WIDTH, type, BY_LANE)
#define DEFINE(every, type, values) every(ONE_OF, type, values)
#define LIST(every, type, values) {every(NAME_OF, type, values)},
EVERY_KIND(DEFINE, F32)
EVERY_KIND(DEFINE, BF16)
static sum_rows_fn *const functions[2][4][STRIP] = {{EVERY_KIND(LIST, F32)},
                                                    {EVERY_KIND(LIST, BF16)}};

static enum values values_of(const struct spmm *s) {
    if (!s->a->value) {
        return ONES;
    }
    return s->heads == 1 ? ONE : s->head_width % LANES == 0 ? BY_VECTOR : BY_LANE;
}

static void spmm_tile(void *context, int64_t tile, int thread) {
    const struct spmm *s = context;
    const struct culm_spmm_args *a = s->a;
    (void)thread;
    int64_t chunk = tile % s->chunks.count, index = tile / s->chunks.count;
    int64_t from = chunk_row(&s->chunks, chunk), to = chunk_row(&s->chunks, chunk + 1);
    int64_t first = s->vectors * index / s->strips;
    int vectors = (int)(s->vectors * (index + 1) / s->strips - first);
    struct strip t = {.s = s,
                      .x = (const char *)a->x.data + (size_t)(first * LANES) * s->element,
                      .pitch = (size_t)a->ldx * s->element,
                      .column = first * LANES,
                      .last = at_most(LANES, a->f - (first + vectors - 1) * LANES)};
    for (int i = 0; i < vectors; i++) {
        uint32_t lane[LANES];
        t.head[i] = (t.column + i * LANES) / s->head_width;
        for (int64_t j = 0; j < LANES; j++) {
            int64_t column = at_most(a->f - 1, t.column + i * LANES + j);
            lane[j] = (uint32_t)(column / s->head_width - t.head[i]);
        }
        memcpy(&t.lane[i], lane, sizeof lane);
    }
    if (from < to) {
        functions[a->x.dtype == CULM_BF16][values_of(s)][vectors - 1](&t, from, to);
    }
}

void ISA_NAME(spmm)(struct culm_cpu *cpu, const struct culm_spmm_args *args) {
    struct spmm s = {.a = args,
                     .chunks = chunks_of(cpu, args->start, args->n),
                     .heads = at_least(1, args->heads),
                     .element = culm_dtype_bytes(args->x.dtype)};
    s.head_width = args->f / s.heads;
    s.vectors = ceil_div(args->f, LANES);
    s.strips = ceil_div(s.vectors, STRIP);
    s.ahead = true;
    assert(args->f % s.heads == 0);
    culm_cpu_run(cpu, s.chunks.count * s.strips, spmm_tile, &s);
}
