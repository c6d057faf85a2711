/*
 * Sums over neighbours: y = A x for a sparse A, row by row.
 *
 * The columns of x are cut into strips of at most STRIP vectors, whose sums stay in registers while
 * a row's neighbours are added one after the other. A tile is a chunk of rows of one strip; strips
 * are gone through one after the other, so that less of x is in use at a time. Where x is larger than
 * the caches of a core, strips are narrower and copied together first: as columns of a wide matrix
 * their rows would lie so far apart that they share few places in a cache. Narrow rows of an even larger
 * x that do not begin on cache lines are copied whole, to where they do: else they touch a line more, and
 * vectors lie across two. An element's sum is the same sequence whatever strip and chunk it is in.
 */
#include "device/cpu/spmm.h"
#include "device/cpu/lanes.h"
#include "device/cpu/variant.h"

#include <assert.h>

/* Rows of x are asked for in advance where x is larger than this: a smaller one lies in a cache that
 * is near enough, and asking costs more than waiting. */
#define NEAR_BYTES (3l << 19)

#define VALUE_AHEAD 12 /* entries, where values are not in order */
#define PACKED 2       /* vectors of a strip that is copied, of many */
#define PACK_VECTORS 6 /* that are many */
#define PACK_LEAST 6   /* entries to each row of x that make it worth it */
#define PACK_ROWS 512  /* copied in one tile */
#define LINE 64        /* bytes of a cache line, and of a vector */

/* Sums of strips that are copied go past the caches where there is more than this of them. */
#define STREAM_BYTES (8l << 20)

/* How the value of a term is found: there is none; one an entry; one a vector of columns; one a lane, of
 * at most LANES or of more. */
enum values { ONES, ONE, BY_VECTOR, BY_LANE, BY_LANE_OF_MANY };

/* The values of entry e: where they are, and BY_LANE themselves. */
struct found {
    const float *value;
    vec all;
};

SIMD struct found find_values(const struct spmm_strip *t, uint64_t e, enum values values) {
    const struct culm_spmm_args *a = t->s->a;
    struct found found = {.value = NULL};
    if (values != ONES) {
        found.value = a->value + (a->entry ? a->entry[e] : e - t->s->base) * (uint64_t)t->s->heads;
    }
    if (values == BY_LANE) {
        found.all = vload_n(found.value, t->s->heads);
    }
    return found;
}

SIMD vec value_of(const struct spmm_strip *t, const struct found *found, int i,
                  enum values values) {
    switch (values) {
    case BY_LANE: return look_up(found->all, found->value, t->lane[i]);
    case BY_LANE_OF_MANY:
        return look_up(vload_n(found->value + t->head[i], at_most(LANES, t->s->heads - t->head[i])),
                       found->value + t->head[i], t->lane[i]);
    case BY_VECTOR: return vset(found->value[t->head[i]]);
    default: return vset(found->value[0]);
    }
}

/* What sums read at every entry; copied, since the compiler cannot know that storing sums changes none of it. */
struct entries {
    const uint32_t *column;
    const char *x;
    size_t pitch;
    uint64_t ahead; /* entries; the rows of those before ask_end ask for others that far ahead */
    uint64_t ask_end, end;
};

static struct entries entries_of(const struct spmm_strip *t, uint64_t end) {
    struct entries entries = {
        .column = t->s->a->column, .x = t->x, .pitch = t->pitch, .ahead = t->s->ahead, .end = end};
    entries.ask_end = entries.ahead && end > entries.ahead ? end - entries.ahead : 0;
    return entries;
}

/* The sum of entries [from, to), not empty; `last` columns of the last vector are loaded. */
SIMD void sum_entries(const struct spmm_strip *t, const struct entries *in, uint64_t from,
                      uint64_t to, vec *sum, int vectors, int64_t last, enum culm_dtype type,
                      enum values values) {
    const uint64_t *entry = values == ONES ? NULL : t->s->a->entry;
    const char *row = in->x + in->column[from] * in->pitch;
    struct found found = find_values(t, from, values);
#pragma GCC unroll 8
    for (int i = 0; i < vectors; i++) {
        vec x = strip_load(row, i, vectors, last, type);
        sum[i] = values == ONES ? x : vmul(x, value_of(t, &found, i, values));
    }
    for (uint64_t e = from + 1; e < to; e++) {
        row = in->x + in->column[e] * in->pitch;
        found = find_values(t, e, values);
        if (entry && e + VALUE_AHEAD < in->end) {
            __builtin_prefetch(t->s->a->value + entry[e + VALUE_AHEAD] * (uint64_t)t->s->heads);
        }
        if (e < in->ask_end) {
            strip_ask(in->x + in->column[e + in->ahead] * in->pitch, vectors, type);
        }
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) {
            vec x = strip_load(row, i, vectors, last, type);
            sum[i] =
                values == ONES ? vadd(sum[i], x) : vfma(x, value_of(t, &found, i, values), sum[i]);
        }
    }
}

SIMD void sum_rows_loading(const struct spmm_strip *t, int64_t from, int64_t to, int vectors,
                           int64_t last, enum culm_dtype type, enum values values) {
    const uint64_t *start = t->s->a->start;
    const struct entries in = entries_of(t, start[to]);
    for (int64_t row = from; row < to; row++) {
        vec sum[STRIP] = {vzero()};
        uint64_t e = start[row], end = start[row + 1];
        if (e == end) {
            strip_store_none(t, row);
            continue;
        }
        for (bool first = true; e < end; first = false) {
            vec part[STRIP];
            uint64_t stop = end - e > CULM_SPMM_BLOCK ? e + CULM_SPMM_BLOCK : end;
            sum_entries(t, &in, e, stop, part, vectors, last, type, values);
#pragma GCC unroll 8
            for (int i = 0; i < vectors; i++) {
                sum[i] = first ? part[i] : vadd(sum[i], part[i]);
            }
            e = stop;
        }
        strip_store(t, row, sum, vectors);
    }
}

/* Sums of rows as they are, which most are, have a loop without masks. */
SIMD void sum_rows(const struct spmm_strip *t, int64_t from, int64_t to, int vectors,
                   enum culm_dtype type, enum values values) {
    if (values == ONES && t->loaded == LANES) {
        sum_rows_loading(t, from, to, vectors, LANES, type, values);
    } else {
        sum_rows_loading(t, from, to, vectors, t->loaded, type, values);
    }
}

/* One function for each number of vectors, type of x and kind of values. */
typedef void sum_rows_fn(const struct spmm_strip *t, int64_t from, int64_t to);
#define ONE_OF(vectors, type, values)                                                              \
    static void rows_##vectors##_##type##_##values(const struct spmm_strip *t, int64_t from,       \
                                                   int64_t to) {                                   \
        sum_rows(t, from, to, vectors, CULM_##type, values);                                       \
    }
#define NAME_OF(vectors, type, values) rows_##vectors##_##type##_##values,
/* clang-format off */
#define EVERY_KIND(X, type)                                                                        \
    X(EVERY_WIDTH, type, ONES) X(EVERY_WIDTH, type, ONE)                                           \
    X(EVERY_WIDTH, type, BY_VECTOR) X(EVERY_WIDTH, type, BY_LANE)                                  \
    X(EVERY_WIDTH, type, BY_LANE_OF_MANY)
/* clang-format on */
#define DEFINE(every, type, values) every(ONE_OF, type, values)
#define LIST(every, type, values) {every(NAME_OF, type, values)},
EVERY_KIND(DEFINE, F32)
EVERY_KIND(DEFINE, BF16)
static sum_rows_fn *const functions[2][5][STRIP] = {{EVERY_KIND(LIST, F32)},
                                                    {EVERY_KIND(LIST, BF16)}};

static enum values values_of(const struct spmm *s) {
    if (!s->a->value) {
        return ONES;
    }
    return s->heads == 1                ? ONE
           : s->head_width % LANES == 0 ? BY_VECTOR
           : s->heads <= LANES          ? BY_LANE
                                        : BY_LANE_OF_MANY;
}

static void make_strip(struct spmm_strip *t, const struct spmm *s, int64_t index) {
    const struct culm_spmm_args *a = s->a;
    int64_t first = s->vectors * index / s->strips;
    t->s = s;
    t->vectors = (int)(s->vectors * (index + 1) / s->strips - first);
    t->x = (const char *)a->x.data + (size_t)(first * LANES) * s->element;
    t->pitch = (size_t)a->ldx * s->element;
    if (s->packed) {
        t->x = s->packed;
        t->pitch = s->packed_pitch;
    }
    t->column = first * LANES;
    t->last = at_most(LANES, a->f - (first + t->vectors - 1) * LANES);
    t->loaded = s->packed ? LANES : t->last;
    enum values values = values_of(s);
    for (int i = 0; i < t->vectors; i++) {
        uint32_t lane[LANES] = {0};
        t->head[i] = (t->column + i * LANES) / s->head_width;
        for (int64_t j = 0; j < LANES && values >= BY_LANE; j++) {
            int64_t column = at_most(a->f - 1, t->column + i * LANES + j);
            int64_t head = column / s->head_width;
            lane[j] = (uint32_t)(values == BY_LANE ? head : head - t->head[i]);
        }
        memcpy(&t->lane[i], lane, sizeof lane);
    }
}

static void run_strip(const struct spmm_strip *t, int64_t from, int64_t to, float *memory) {
    if (t->s->a->kept) {
        ISA_NAME(spmm_some_rows)(t, from, to, memory);
        return;
    }
    if (t->s->a->kept_words) {
        ISA_NAME(spmm_word_rows)(t, from, to, memory);
        return;
    }
    functions[t->s->a->x.dtype == CULM_BF16][values_of(t->s)][t->vectors - 1](t, from, to);
}

static struct spmm spmm_of(const struct culm_spmm_args *args) {
    struct spmm s = {
        .a = args, .heads = at_least(1, args->heads), .element = culm_dtype_bytes(args->x.dtype)};
    assert(args->f % s.heads == 0 && (!args->kept || (!args->entry && s.heads == 1)));
    s.head_width = args->f / s.heads;
    s.vectors = ceil_div(args->f, LANES);
    s.strips = ceil_div(s.vectors, STRIP);
    return s;
}

void ISA_NAME(spmm_rows_init)(struct spmm_rows *rows, const struct culm_spmm_args *args) {
    rows->args = *args;
    rows->args.start = rows->range;
    rows->args.n = 1;
    rows->spmm = spmm_of(&rows->args);
    for (int64_t i = 0; i < at_most(rows->spmm.strips, SPMM_STRIPS_KEPT); i++) {
        make_strip(&rows->strip[i], &rows->spmm, i);
    }
}

/* Whatever rows the arguments name. */
static void sum_strips(struct spmm_rows *rows, int64_t n) {
    for (int64_t i = 0; i < rows->spmm.strips; i++) {
        struct spmm_strip *strip = &rows->strip[at_most(i, SPMM_STRIPS_KEPT - 1)];
        if (i >= SPMM_STRIPS_KEPT - 1) { /* the last place is for all others */
            make_strip(strip, &rows->spmm, i);
        }
        run_strip(strip, 0, n, NULL);
    }
}

void ISA_NAME(spmm_rows_sum)(struct spmm_rows *rows, float *y, const float *value, uint64_t from,
                             uint64_t to, bool add) {
    rows->args.y = (struct culm_out){y, CULM_F32};
    rows->args.value = value;
    rows->args.add = add;
    rows->args.start = rows->range;
    rows->range[0] = rows->spmm.base = from;
    rows->range[1] = to;
    sum_strips(rows, 1);
}

void ISA_NAME(spmm_rows_sums)(struct spmm_rows *rows, const uint64_t *start, int64_t n, float *y,
                              int64_t ldy, const float *value) {
    rows->args.y = (struct culm_out){y, CULM_F32};
    rows->args.ldy = ldy;
    rows->args.value = value;
    rows->args.add = false;
    rows->args.start = start;
    rows->spmm.base = start[0];
    sum_strips(rows, n);
}

/* ---- two sums of the same rows ---- */

struct pair {
    const float *value, *other;
    float *z;
    int64_t ldz;
};

SIMD struct found find_in(const struct spmm_strip *t, const float *value, uint64_t e,
                          enum values values) {
    struct found found = {.value = value + (e - t->s->base) * (uint64_t)t->s->heads};
    if (values == BY_LANE) {
        found.all = vload_n(found.value, t->s->heads);
    }
    return found;
}

SIMD void pair_rows(const struct spmm_strip *t, const struct pair *p, int64_t n, int vectors,
                    enum culm_dtype type, enum values values) {
    const struct culm_spmm_args *a = t->s->a;
    for (int64_t row = 0; row < n; row++) {
        vec y[STRIP], z[STRIP];
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) {
            y[i] = z[i] = vzero();
        }
        for (uint64_t e = a->start[row]; e < a->start[row + 1]; e++) {
            const char *x = t->x + a->column[e] * t->pitch;
            struct found value = find_in(t, p->value, e, values);
            struct found other = find_in(t, p->other, e, values);
            bool first = e == a->start[row];
#pragma GCC unroll 8
            for (int i = 0; i < vectors; i++) {
                vec one = strip_load(x, i, vectors, t->last, type);
                vec v = value_of(t, &value, i, values), w = value_of(t, &other, i, values);
                y[i] = first ? vmul(one, v) : vfma(one, v, y[i]);
                z[i] = first ? vmul(one, w) : vfma(one, w, z[i]);
            }
        }
        strip_store(t, row, y, vectors);
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) {
            store_part(p->z + row * p->ldz + i * LANES, z[i], i + 1 < vectors ? LANES : t->last);
        }
    }
}

typedef void pair_rows_fn(const struct spmm_strip *t, const struct pair *p, int64_t n);
#define PAIR_OF(vectors, type, values)                                                             \
    static void pair_##vectors##_##type##_##values(const struct spmm_strip *t,                     \
                                                   const struct pair *p, int64_t n) {              \
        pair_rows(t, p, n, vectors, CULM_##type, values);                                          \
    }
#define PAIR_NAME(vectors, type, values) pair_##vectors##_##type##_##values,
/* clang-format off */
#define EVERY_PAIR(X, type)                                                                        \
    X(EVERY_HALF_WIDTH, type, ONE) X(EVERY_HALF_WIDTH, type, BY_VECTOR)                            \
    X(EVERY_HALF_WIDTH, type, BY_LANE)
/* clang-format on */
#define PAIR_DEFINE(every, type, values) every(PAIR_OF, type, values)
#define PAIR_LIST(every, type, values) {every(PAIR_NAME, type, values)},
EVERY_PAIR(PAIR_DEFINE, F32)
EVERY_PAIR(PAIR_DEFINE, BF16)
static pair_rows_fn *const pairs[2][3][STRIP / 2] = {{EVERY_PAIR(PAIR_LIST, F32)},
                                                     {EVERY_PAIR(PAIR_LIST, BF16)}};

void ISA_NAME(spmm_rows_pair)(struct spmm_rows *rows, const uint64_t *start, int64_t n, float *y,
                              int64_t ldy, const float *value, float *z, int64_t ldz,
                              const float *other) {
    const struct spmm_strip *strip = &rows->strip[0];
    enum values values = values_of(&rows->spmm);
    if (rows->spmm.strips > 1 || strip->vectors > STRIP / 2 || values > BY_LANE) {
        ISA_NAME(spmm_rows_sums)(rows, start, n, y, ldy, value);
        ISA_NAME(spmm_rows_sums)(rows, start, n, z, ldz, other);
        return;
    }
    rows->args.y = (struct culm_out){y, CULM_F32};
    rows->args.ldy = ldy;
    rows->args.add = false;
    rows->args.start = start;
    rows->spmm.base = start[0];
    const struct pair pair = {value, other, z, ldz};
    pairs[rows->args.x.dtype == CULM_BF16][values - ONE][strip->vectors - 1](strip, &pair, n);
}

/* ---- all of it ---- */

static void spmm_tile(void *context, int64_t tile, int thread) {
    const struct spmm *s = context;
    int64_t chunk = tile % s->chunks.count, index = tile / s->chunks.count;
    int64_t from = chunk_row(&s->chunks, chunk), to = chunk_row(&s->chunks, chunk + 1);
    struct spmm_strip t;
    if (from < to) {
        make_strip(&t, s, s->packed ? s->strip : index);
        run_strip(&t, from, to, cpu_private(s->cpu, thread));
        if (s->stream) {
            vstream_end();
        }
    }
}

/* A row of the strip, with zeros behind it up to whole vectors. */
SIMD void pack_row(char *to, const char *from, int64_t columns, enum culm_dtype type) {
    if (type == CULM_F32) {
        const float *x = (const float *)(const void *)from;
        float *y = (float *)(void *)to;
        for (int64_t i = 0; i < columns; i += LANES) {
            vstore(y + i, load_part(x + i, columns - i));
        }
        return;
    }
    size_t bytes = (size_t)columns * sizeof(uint16_t);
    memcpy(to, from, bytes);
    memset(to + bytes, 0, (size_t)(-columns & (LANES - 1)) * sizeof(uint16_t));
}

static void pack_tile(void *context, int64_t tile, int thread) {
    const struct spmm *s = context;
    (void)thread;
    int64_t first = s->vectors * s->strip / s->strips * LANES;
    int64_t last = at_most(s->a->f, s->vectors * (s->strip + 1) / s->strips * LANES);
    int64_t to = at_most(s->rows, (tile + 1) * PACK_ROWS);
    for (int64_t row = tile * PACK_ROWS; row < to; row++) {
        const char *from =
            (const char *)s->a->x.data + (size_t)(row * s->a->ldx + first) * s->element;
        pack_row(s->packed + (size_t)row * s->packed_pitch, from, last - first, s->a->x.dtype);
    }
}

/* Vectors of strips that are copied, where copies fit and are read often enough; else 0. */
static int64_t packed_vectors(const struct spmm *s, uint64_t entries) {
    int64_t row = s->a->f * (int64_t)s->element, pitch = s->a->ldx * (int64_t)s->element;
    int64_t whole = s->vectors * LANES * (int64_t)s->element;
    if (s->rows == 0 || s->a->kept || s->a->kept_words || s->rows * pitch <= NEAR_BYTES ||
        entries < (uint64_t)s->rows * PACK_LEAST) {
        return 0;
    }
    /* What other cores have copied comes from their caches; a smaller table is mostly in a core's own. */
    bool crooked = s->vectors <= STRIP && pitch % LINE != 0 && 4 * (whole - row) <= row &&
                   s->rows * pitch > 2 * s->cpu->core_cache_bytes;
    int64_t vectors = s->vectors >= PACK_VECTORS ? PACKED : crooked ? s->vectors : 0;
    int64_t bytes = s->rows * vectors * LANES * (int64_t)s->element;
    return bytes <= SHARED_FLOATS * (int64_t)sizeof(float) ? vectors : 0;
}

/* Whether y can be stored in whole, aligned vectors, and is large. */
static bool streams(const struct culm_spmm_args *a) {
    return a->y.dtype == CULM_F32 && !a->add && a->f % LANES == 0 && a->ldy % LANES == 0 &&
           (uintptr_t)a->y.data % LINE == 0 && a->n * a->f * (int64_t)sizeof(float) > STREAM_BYTES;
}

void ISA_NAME(spmm)(struct culm_cpu *cpu, const struct culm_spmm_args *args) {
    struct spmm s = spmm_of(args);
    s.cpu = cpu;
    s.chunks = chunks_of(cpu, args->start, args->n);
    s.rows = args->rows;
    int64_t rows = args->rows ? args->rows : args->n;
    uint64_t entries = args->start[args->n] - args->start[0];
    if (args->kept_words) { /* rows are gone through together */
        s.chunks = chunks_each(cpu, args->start, args->n, 8);
    }
    int64_t packed = packed_vectors(&s, entries);
    if (packed) {
        s.packed = (char *)cpu_shared(cpu);
        s.packed_pitch = (size_t)(packed * LANES) * s.element;
        s.strips = ceil_div(s.vectors, packed);
        s.ahead = 24;
        s.stream = streams(args);
        for (; s.strip < s.strips; s.strip++) {
            culm_cpu_run(cpu, ceil_div(s.rows, PACK_ROWS), pack_tile, &s);
            culm_cpu_run(cpu, s.chunks.count, spmm_tile, &s);
        }
        return;
    }
    if (rows * args->ldx * (int64_t)s.element > NEAR_BYTES) { /* about as many lines on their way */
        s.ahead = s.vectors / s.strips < 6 ? 24 : 12;
    }
    culm_cpu_run(cpu, s.chunks.count * s.strips, spmm_tile, &s);
}
