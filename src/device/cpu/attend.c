/*
 * Attention over the entries of rows: scores, their softmax, dropout and the sums over neighbours in
 * one go, so that nothing is kept for each edge. A row's entries are gone through in blocks; what is
 * made of a block lies in the thread's own memory.
 *
 * Where heads divide 16, lane l of 16 takes the elements l, l + 16, ... of a row's [entries,heads], and
 * the lanes of a head are folded by halves; else sums go entry after entry.
 */
#include "device/cpu/dots.h"
#include "device/cpu/drop.h"
#include "device/cpu/functions.h"
#include "device/cpu/spmm.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define ARRAYS 5 /* of a block */

struct attend {
    const struct culm_attend_forward_args *forward;
    const struct culm_attend_backward_args *backward;
    const uint64_t *start;
    const uint32_t *column, *column_id;
    int64_t heads, block; /* entries of a block */
    bool lanewise;
    float slope;
    const struct culm_dropout *dropout; /* NULL: none */
    uint32_t threshold;
    float scale;
    struct culm_spmm_args sums;
    struct chunks chunks;
};

/* Sums of elements by head: in lanes, or one after the other. */
struct sums {
    vec lanes;
    float of[CULM_EDGE_HEADS_MAX];
};

/* Lanes `by` and so on, and then any. */
SIMD vec lanes_from(vec x, int64_t by) {
#if SIMD_WIDE
    return _mm512_permutexvar_ps(uadd(ucount(0), uset((uint32_t)by)), x);
#else
    float lane[2 * LANES] = {0};
    vstore(lane, x);
    return vload(lane + by);
#endif
}

/* The lanes of each head, folded. */
SIMD void fold(const struct attend *s, struct sums *sums) {
    vec lanes = sums->lanes;
    if (!s->lanewise) {
        return;
    }
    if (s->heads == 1) {
        sums->of[0] = vsum(lanes);
        return;
    }
    for (int64_t width = LANES / 2; width >= s->heads; width /= 2) {
        lanes = vadd(lanes, lanes_from(lanes, width));
    }
    store_part(sums->of, lanes, s->heads);
}

/* The largest of the lanes of each head. */
SIMD void fold_largest(vec lanes, int64_t heads, float *top) {
    for (int64_t width = LANES / 2; width >= heads; width /= 2) {
        vec other = lanes_from(lanes, width);
        lanes = vselect(vless(lanes, other), other, lanes);
    }
    store_part(top, lanes, heads);
}

/* 16 lanes, each the number of its head. */
SIMD vec spread_heads(const float *of, int64_t heads) {
#if SIMD_WIDE
    return _mm512_permutexvar_ps(uand(ucount(0), uset((uint32_t)heads - 1)), load_part(of, heads));
#else
    float lane[LANES];
    for (int64_t i = 0; i < LANES; i++) {
        lane[i] = of[i % heads];
    }
    return vload(lane);
#endif
}

/* --- dropout --- */

/* factor[16,heads] of entries whose draws are these: 0 or scale. */
SIMD void factors_of(const struct attend *s, const struct drop_bits *bits, int64_t n, int64_t first,
                     float *factor) {
    uint32_t word[4][LANES];
    vec scale = vset(s->scale);
    uvec threshold = uset(s->threshold);
    if (s->heads == 1) {
        store_part(factor, vselect(uless(drop_slot(bits, 0), threshold), vzero(), scale), n);
        return;
    }
    if (s->heads == 8) {
        const struct drop_entries_bits order = drop_by_entry(bits);
        for (int64_t i = 0; i < n * 8; i += LANES) {
            uvec half = drop_of_entries(&order, i);
            store_part(factor + i, vselect(uless(half, threshold), vzero(), scale), n * 8 - i);
        }
        return;
    }
    memcpy(word, bits->word, sizeof word);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t h = first; h < at_most(first + 8, s->heads); h++) {
            uint32_t half = word[h % 8 / 2][i] >> (h % 2 * 16) & 0xFFFF;
            factor[i * s->heads + h] = half < s->threshold ? 0.0f : s->scale;
        }
    }
}

/* factor[count,heads] of a block's entries. `reads`: the row reads the columns, or they read it. */
SIMD void draw(const struct attend *s, int64_t row, uint64_t from, int64_t count, bool reads,
               float *factor) {
    uvec own = uset((uint32_t)culm_dropout_sample(s->dropout, row));
    for (int64_t e = 0; e < count; e += LANES) {
        int64_t n = at_most(LANES, count - e);
        uint32_t id[LANES] = {0};
        for (int64_t i = 0; i < n; i++) {
            uint32_t column = s->column[from + (uint64_t)(e + i)];
            id[i] = s->column_id ? s->column_id[column] : column;
        }
        uvec other;
        memcpy(&other, id, sizeof other);
        for (int64_t h = 0; h < s->heads; h += 8) {
            struct drop_bits bits =
                drop_draw_lanes(s->dropout->key, uset((uint32_t)(h / 8)), uset(0),
                                reads ? other : own, reads ? own : other);
            factors_of(s, &bits, n, h, factor + e * s->heads);
        }
    }
}

/* --- forward --- */

/* Copies t of a block's entries, and asks for the rows of x that are wanted then. */
SIMD void copy_t(const struct attend *s, uint64_t from, int64_t count, int64_t heads, float *to,
                 bool ask) {
    const struct culm_attend_forward_args *a = s->forward;
    size_t element = culm_dtype_bytes(a->x.dtype), bytes = (size_t)a->f * element;
    for (int64_t e = 0; e < count; e++, to += heads) {
        uint32_t column = s->column[from + (uint64_t)e];
        const char *x = (const char *)a->x.data + (size_t)(column * a->ldx) * element;
        memcpy(to, a->t + column * heads, (size_t)heads * sizeof *to);
        for (size_t i = 0; i < bytes && ask; i += 64) {
            __builtin_prefetch(x + i, 0, 3);
        }
    }
}

/* From t in `score`: the scores of a block, their slopes, and the largest so far. */
static void score_lanes(const struct attend *s, int64_t row, int64_t count, float *score,
                        float *slope, float *top) {
    vec own = spread_heads(s->forward->s + row * s->heads, s->heads);
    vec largest = spread_heads(top, s->heads), one = vset(1.0f), below = vset(s->slope);
    for (int64_t i = 0; i < count; i += LANES) {
        vec z = vadd(own, load_part(score + i, count - i));
        store_part(slope + i, vselect(vless(vzero(), z), one, below), count - i);
        z = vselect(vless(z, vzero()), vmul(z, below), z);
        store_part(score + i, z, count - i);
        vec more = vselect(vless(largest, z), z, largest);
        largest = count - i < LANES ? vselect(vfirst(count - i), more, largest) : more;
    }
    fold_largest(largest, s->heads, top);
}

static void score_each(const struct attend *s, int64_t row, int64_t count, float *score,
                       float *slope, float *top) {
    const float *own = s->forward->s + row * s->heads;
    for (int64_t i = 0; i < count; i++) {
        int64_t h = i % s->heads;
        float z = own[h] + score[i];
        slope[i] = z > 0 ? 1.0f : s->slope;
        z = z < 0 ? z * s->slope : z;
        score[i] = z;
        top[h] = z > top[h] ? z : top[h];
    }
}

static void scores_of(const struct attend *s, int64_t row, uint64_t from, int64_t count,
                      float *score, float *slope, float *top, bool ask) {
    switch (s->heads) {
    case 1: copy_t(s, from, count, 1, score, ask); break;
    case 4: copy_t(s, from, count, 4, score, ask); break;
    case 8: copy_t(s, from, count, 8, score, ask); break;
    default: copy_t(s, from, count, s->heads, score, ask);
    }
    if (s->lanewise) {
        score_lanes(s, row, count * s->heads, score, slope, top);
    } else {
        score_each(s, row, count * s->heads, score, slope, top);
    }
}

/* e^(score - largest), in place, and its sums. */
static void exponentials(const struct attend *s, float *score, int64_t count, const float *top,
                         bool first, struct sums *sum) {
    vec largest = s->lanewise ? spread_heads(top, s->heads) : vzero(), lanes = sum->lanes;
    for (int64_t i = 0; i < count && !s->lanewise; i++) {
        score[i] -= top[i % s->heads];
    }
    for (int64_t i = 0; i < count; i += LANES) {
        vec e = vexp(vsub(load_part(score + i, count - i), largest));
        if (s->lanewise && count - i < LANES) {
            e = vselect(vfirst(count - i), e, vzero());
        }
        lanes = first && i == 0 ? e : vadd(lanes, e);
        store_part(score + i, e, count - i);
    }
    sum->lanes = lanes;
    for (int64_t i = 0; i < count && !s->lanewise; i++) {
        float *of = &sum->of[i % s->heads];
        *of = first && i < s->heads ? score[i] : *of + score[i];
    }
}

/* From e^(score - largest) in `score` and factors in `kept`: kept = alpha d, slope = that times the
 * slope, and the sums of alpha slope. */
static void weigh(const struct attend *s, float *score, float *slope, float *kept, int64_t count,
                  const struct sums *sum, bool first, struct sums *total) {
    vec factor = s->lanewise ? vdiv(vset(1.0f), spread_heads(sum->of, s->heads)) : vzero();
    vec lanes = total->lanes;
    for (int64_t i = 0; i < count && s->lanewise; i += LANES) {
        int64_t n = count - i;
        vec alpha = vmul(load_part(score + i, n), factor), g = load_part(slope + i, n);
        vec k = s->dropout ? vmul(alpha, load_part(kept + i, n)) : alpha, part = vmul(alpha, g);
        lanes = first && i == 0 ? part : vadd(lanes, part);
        store_part(kept + i, k, n);
        store_part(slope + i, vmul(k, g), n);
    }
    total->lanes = lanes;
    for (int64_t i = 0; i < count && !s->lanewise; i++) {
        int64_t h = i % s->heads;
        float alpha = score[i] * (1.0f / sum->of[h]), part = alpha * slope[i];
        kept[i] = s->dropout ? alpha * kept[i] : alpha;
        total->of[h] = first && i < s->heads ? part : total->of[h] + part;
        slope[i] = kept[i] * slope[i];
    }
}

static void forward_row(const struct attend *s, struct spmm_rows *rows, float *memory, int64_t r) {
    const struct culm_attend_forward_args *a = s->forward;
    int64_t heads = s->heads, room = s->block * heads;
    float *score = memory, *slope = score + room, *kept = slope + room;
    float *y = a->y + r * a->ldy, *beside = a->beside ? a->beside + r * a->ldb : NULL;
    uint64_t begin = s->start[r], end = s->start[r + 1];
    struct sums sum = {.lanes = vzero()}, total = {.lanes = vzero()};
    float top[CULM_EDGE_HEADS_MAX];
    bool single = end - begin <= (uint64_t)s->block;
    if (begin == end) {
        memset(y, 0, (size_t)a->f * sizeof *y);
        for (int64_t i = 0; i < a->f + 2 * heads && beside; i++) {
            beside[i] = i < a->f + heads ? 0 : -INFINITY;
        }
        return;
    }
    for (int64_t h = 0; h < heads; h++) {
        top[h] = -INFINITY;
    }
    for (uint64_t e = begin; e < end; e += (uint64_t)s->block) {
        int64_t n = at_most(s->block, (int64_t)(end - e));
        scores_of(s, r, e, n, score, slope, top, single);
    }
    for (uint64_t e = begin; e < end; e += (uint64_t)s->block) {
        int64_t n = at_most(s->block, (int64_t)(end - e));
        float same[CULM_EDGE_HEADS_MAX];
        if (!single) {
            memcpy(same, top, sizeof same);
            scores_of(s, r, e, n, score, slope, same, false);
        }
        exponentials(s, score, n * heads, top, e == begin, &sum);
    }
    fold(s, &sum);
    for (uint64_t e = begin; e < end; e += (uint64_t)s->block) {
        int64_t n = at_most(s->block, (int64_t)(end - e));
        if (!single) {
            float same[CULM_EDGE_HEADS_MAX];
            struct sums again = {.lanes = vzero()};
            memcpy(same, top, sizeof same);
            scores_of(s, r, e, n, score, slope, same, false);
            exponentials(s, score, n * heads, top, true, &again);
        }
        if (s->dropout) {
            draw(s, r, e, n, true, kept);
        }
        weigh(s, score, slope, kept, n * heads, &sum, e == begin, &total);
        ISA_NAME(spmm_rows_sum)(rows, y, kept, e, e + (uint64_t)n, e > begin);
        if (beside) {
            ISA_NAME(spmm_rows_sum)(rows, beside, slope, e, e + (uint64_t)n, e > begin);
        }
    }
    if (beside) {
        fold(s, &total);
        memcpy(beside + a->f, total.of, (size_t)heads * sizeof *beside);
        for (int64_t h = 0; h < heads; h += LANES) {
            vec log = vadd(load_part(top + h, heads - h), vlog(load_part(sum.of + h, heads - h)));
            store_part(beside + a->f + heads + h, log, heads - h);
        }
    }
}

static void forward_tile(void *context, int64_t tile, int thread) {
    struct attend *s = ((struct attend **)context)[0];
    struct culm_cpu *cpu = ((struct culm_cpu **)context)[1];
    struct spmm_rows rows;
    ISA_NAME(spmm_rows_init)(&rows, &s->sums);
    int64_t to = chunk_row(&s->chunks, tile + 1);
    for (int64_t row = chunk_row(&s->chunks, tile); row < to; row++) {
        forward_row(s, &rows, cpu_private(cpu, thread), row);
    }
}

/* --- backward --- */

/* Copies the three things that a block's readers kept: s, lse and c. */
SIMD void copy_readers(const struct attend *s, uint64_t from, int64_t count, int64_t heads,
                       float *score, float *lse, float *c) {
    size_t bytes = (size_t)heads * sizeof *c;
    for (int64_t e = 0; e < count; e++, score += heads, lse += heads, c += heads) {
        const float *reader = s->backward->reader + s->column[from + (uint64_t)e] * 3 * heads;
        memcpy(score, reader, bytes);
        memcpy(lse, reader + heads, bytes);
        memcpy(c, reader + 2 * heads, bytes);
    }
}

/* Where heads do not divide 16: t of each element. */
static vec t_of(const float *t, int64_t first, int64_t heads) {
    float lane[LANES];
    for (int64_t j = 0; j < LANES; j++) {
        lane[j] = t[(first + j) % heads];
    }
    return vload(lane);
}

/* From s, lse and c of readers: score = alpha d, and the sums of alpha slope (d dot - c). */
static void differentiate(const struct attend *s, const float *t, float *score, const float *lse,
                          const float *c, const float *dot, const float *factor, int64_t count,
                          bool first, struct sums *dt) {
    vec own = s->lanewise ? spread_heads(t, s->heads) : vzero();
    vec one = vset(1.0f), below = vset(s->slope), lanes = dt->lanes;
    for (int64_t i = 0; i < count; i += LANES) {
        int64_t n = count - i;
        vec z = vadd(load_part(score + i, n), s->lanewise ? own : t_of(t, i, s->heads));
        mask above = vless(vzero(), z);
        vec alpha = vexp(vsub(vselect(above, z, vmul(below, z)), load_part(lse + i, n)));
        vec d = load_part(dot + i, n), k = alpha;
        if (s->dropout) {
            vec by = load_part(factor + i, n);
            k = vmul(alpha, by);
            d = vmul(d, by);
        }
        vec g = vmul(alpha, vsub(d, load_part(c + i, n)));
        g = vmul(g, vselect(above, one, below));
        store_part(score + i, k, n);
        if (s->lanewise) {
            g = n < LANES ? vselect(vfirst(n), g, vzero()) : g;
            lanes = first && i == 0 ? g : vadd(lanes, g);
            continue;
        }
        float lane[LANES];
        vstore(lane, g);
        for (int64_t j = 0; j < at_most(LANES, n); j++) {
            float *of = &dt->of[(i + j) % s->heads];
            *of = first && i + j < s->heads ? lane[j] : *of + lane[j];
        }
    }
    dt->lanes = lanes;
}

static void backward_row(const struct attend *s, struct spmm_rows *rows, float *memory, int64_t r) {
    const struct culm_attend_backward_args *a = s->backward;
    int64_t heads = s->heads, room = s->block * heads, width = a->f / heads;
    float *score = memory, *lse = score + room, *c = lse + room, *dot = c + room;
    float *factor = dot + room, *y = a->y + r * a->ldy, *ret_dt = a->dt + r * a->ldt;
    uint64_t begin = s->start[r], end = s->start[r + 1];
    struct sums dt = {.lanes = vzero()};
    const float *t = a->t + r * heads;
    if (begin == end) {
        memset(y, 0, (size_t)a->f * sizeof *y);
        memset(ret_dt, 0, (size_t)heads * sizeof *ret_dt);
        return;
    }
    for (uint64_t e = begin; e < end; e += (uint64_t)s->block) {
        int64_t n = at_most(s->block, (int64_t)(end - e));
        const uint32_t *column = s->column + e;
        switch (heads) {
        case 1: copy_readers(s, e, n, 1, score, lse, c); break;
        case 4: copy_readers(s, e, n, 4, score, lse, c); break;
        case 8: copy_readers(s, e, n, 8, score, lse, c); break;
        default: copy_readers(s, e, n, heads, score, lse, c);
        }
        if (a->x.dtype == CULM_F32 && a->dy.dtype == CULM_F32) {
            dots_of_row((struct culm_in){a->x.data, CULM_F32}, r * a->ldx,
                        (struct culm_in){a->dy.data, CULM_F32}, a->ldd, column, n, heads, width,
                        dot);
        } else {
            dots_of_row(a->x, r * a->ldx, a->dy, a->ldd, column, n, heads, width, dot);
        }
        if (s->dropout) {
            draw(s, r, e, n, false, factor);
        }
        differentiate(s, t, score, lse, c, dot, factor, n * heads, e == begin, &dt);
        ISA_NAME(spmm_rows_sum)(rows, y, score, e, e + (uint64_t)n, e > begin);
    }
    fold(s, &dt);
    memcpy(ret_dt, dt.of, (size_t)heads * sizeof *ret_dt);
}

static void backward_tile(void *context, int64_t tile, int thread) {
    struct attend *s = ((struct attend **)context)[0];
    struct culm_cpu *cpu = ((struct culm_cpu **)context)[1];
    struct spmm_rows rows;
    ISA_NAME(spmm_rows_init)(&rows, &s->sums);
    int64_t to = chunk_row(&s->chunks, tile + 1);
    for (int64_t row = chunk_row(&s->chunks, tile); row < to; row++) {
        backward_row(s, &rows, cpu_private(cpu, thread), row);
    }
}

/* --- both --- */

static void run(struct culm_cpu *cpu, struct attend *s, int64_t n, culm_cpu_tile *tile) {
    assert(s->heads <= CULM_EDGE_HEADS_MAX && s->sums.f % s->heads == 0);
    s->block = s->heads > 16 ? 1024 : 4096;
    assert(ARRAYS * s->block * s->heads <= PRIVATE_FLOATS);
    s->lanewise = LANES % s->heads == 0;
    s->chunks = chunks_of(cpu, s->start, n);
    if (s->dropout) {
        assert(s->dropout->p > 0 && s->dropout->p < 1 && s->dropout->samples == n);
        s->threshold = drop_threshold(s->dropout->p);
        s->scale = (float)(1.0 / (1.0 - s->dropout->p));
    }
    void *context[] = {s, cpu};
    culm_cpu_run(cpu, s->chunks.count, tile, context);
}

void ISA_NAME(attend_forward)(struct culm_cpu *cpu, const struct culm_attend_forward_args *args) {
    struct attend s = {.forward = args,
                       .start = args->start,
                       .column = args->column,
                       .column_id = args->column_id,
                       .heads = args->heads,
                       .slope = (float)args->slope,
                       .dropout = args->dropout,
                       .sums = {.x = args->x,
                                .column = args->column,
                                .value = args->s, /* some: others are given with each row */
                                .f = args->f,
                                .ldx = args->ldx,
                                .ldy = args->f,
                                .heads = args->heads}};
    run(cpu, &s, args->n, forward_tile);
}

void ISA_NAME(attend_backward)(struct culm_cpu *cpu, const struct culm_attend_backward_args *args) {
    struct attend s = {.backward = args,
                       .start = args->start,
                       .column = args->column,
                       .column_id = args->column_id,
                       .heads = args->heads,
                       .slope = (float)args->slope,
                       .dropout = args->dropout,
                       .sums = {.x = args->dy,
                                .column = args->column,
                                .value = args->t,
                                .f = args->f,
                                .ldx = args->ldd,
                                .ldy = args->f,
                                .heads = args->heads}};
    run(cpu, &s, args->n, backward_tile);
}
