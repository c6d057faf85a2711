/*
 * Attention over the entries of rows: scores, their softmax, dropout and the sums over neighbours in
 * one go, so that nothing is kept for each edge. What is made of entries lies in the thread's own memory:
 * short rows are gone through together, one thing after the other for all of them, so that no row waits
 * for what was just stored, and dropout draws for entries of any rows; a long row goes through in
 * blocks of entries.
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

#define ARRAYS 5   /* of a block, and of a batch */
#define ROOM 65536 /* elements of an array */
#define BATCH                                                                                      \
    2048 /* elements of short rows that are gone through together; a multiple of 8 LANES */

struct attend {
    const struct culm_attend_forward_args *forward;
    const struct culm_attend_backward_args *backward;
    const uint64_t *start;
    const uint32_t *column, *column_id;
    int64_t heads, block; /* entries of a block */
    float slope;
    const struct culm_dropout *dropout; /* NULL: none */
    uint32_t threshold;
    float scale;
    struct culm_spmm_args sums;
    struct chunks chunks;
};

/* Rows first .. end - 1, with all their entries from .. to - 1. */
struct batch {
    int64_t first, end;
    uint64_t from, to;
};

/* Sums of elements by head: in lanes, or one after the other. */
struct sums {
    vec lanes;
    float *of;
};

/* What a thread has for itself. */
struct room {
    struct names {
        uint32_t row[BATCH + LANES], column[BATCH + LANES]; /* original numbers; or of rows alone */
    } names;
    uint32_t kept[ROOM / 32 + LANES]; /* bits */
    float array[ARRAYS][ROOM + LANES];
};
_Static_assert(sizeof(struct room) <= PRIVATE_FLOATS * sizeof(float), "fits");

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

SIMD bool by_lanes(int64_t heads) { return LANES % heads == 0; }

/* The lanes of each head, folded. */
SIMD void fold(const struct sums *sums, int64_t heads) {
    vec lanes = sums->lanes;
    if (!by_lanes(heads)) {
        return;
    }
    if (heads == 1) {
        sums->of[0] = vsum(lanes);
        return;
    }
    for (int64_t width = LANES / 2; width >= heads; width /= 2) {
        lanes = vadd(lanes, lanes_from(lanes, width));
    }
    store_part(sums->of, lanes, heads);
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

/* Bit by bit, which elements of 16 entries are kept, of the eight heads that were drawn or fewer. */
SIMD void keep_entries(const struct attend *s, const struct drop_bits *bits, int64_t n,
                       int64_t first, int64_t at, uint32_t *kept) {
    uint32_t word[4][LANES];
    memcpy(word, bits->word, sizeof word);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t h = first; h < at_most(first + 8, s->heads); h++) {
            uint32_t half = word[h % 8 / 2][i] >> (h % 2 * 16) & 0xFFFF;
            int64_t bit = (at + i) * s->heads + h;
            kept[bit / 32] |= (uint32_t)(half >= s->threshold) << bit % 32;
        }
    }
}

/* What is left of `count` entries, from here on whatever rows they are in: a bit for each element
 * [entries,heads]. Their blocks are keyed by (reader, read). There is room for LANES entries more. */
SIMD void draw(const struct attend *s, const uint32_t *reader, const uint32_t *read, int64_t count,
               uint32_t *kept) {
    uvec threshold = uset(s->threshold);
    if (s->heads != 1 && s->heads != 8) {
        memset(kept, 0, (size_t)(count * s->heads / 32 + 1) * sizeof *kept);
    }
    for (int64_t e = 0; e < count; e += LANES) {
        uvec c3, c2;
        memcpy(&c3, reader + e, sizeof c3);
        memcpy(&c2, read + e, sizeof c2);
        for (int64_t h = 0; h < s->heads; h += 8) {
            struct drop_bits bits =
                drop_draw_lanes(s->dropout->key, uset((uint32_t)(h / 8)), uset(0), c2, c3);
            if (s->heads == 1) {
                uint16_t left = (uint16_t)~bits_of_mask(uless(drop_slot(&bits, 0), threshold));
                memcpy((char *)kept + e / 8, &left, sizeof left);
            } else if (s->heads == 8) {
                drop_of_eight(&bits, s->threshold, (uint8_t *)kept + e);
            } else {
                keep_entries(s, &bits, at_most(LANES, count - e), h, e, kept);
            }
        }
    }
}

/* 0 or scale of elements at .. at + 15, of their bits. */
SIMD vec factor_of(const struct attend *s, const uint32_t *kept, int64_t at) {
    uint32_t bits;
    memcpy(&bits, (const char *)kept + at / 8, sizeof bits);
    return vselect(mask_of_bits(bits >> at % 8), vset(s->scale), vzero());
}

static void name_columns(const struct attend *s, uint64_t from, int64_t count, uint32_t *id) {
    for (int64_t e = 0; e < count; e++) {
        uint32_t column = s->column[from + (uint64_t)e];
        id[e] = s->column_id ? s->column_id[column] : column;
    }
}

static void name_row(const struct attend *s, int64_t row, int64_t count, uint32_t *id) {
    uint32_t own = (uint32_t)culm_dropout_sample(s->dropout, row);
    for (int64_t e = 0; e < count; e++) {
        id[e] = own;
    }
}

/* What is left of entries of one row. `reads`: the row reads the columns, or they read it. */
static void draw_row(const struct attend *s, struct names *names, int64_t row, uint64_t from,
                     int64_t count, bool reads, uint32_t *kept) {
    for (int64_t e = 0; e < count; e += BATCH) {
        int64_t n = at_most(BATCH, count - e);
        name_columns(s, from + (uint64_t)e, n, names->column);
        name_row(s, row, n, names->row);
        draw(s, reads ? names->row : names->column, reads ? names->column : names->row, n,
             kept + e * s->heads / 32);
    }
}

/* The same of a batch. */
static void draw_batch(const struct attend *s, struct names *names, const struct batch *b,
                       bool reads, uint32_t *kept) {
    int64_t count = (int64_t)(b->to - b->from);
    name_columns(s, b->from, count, names->column);
    for (int64_t row = b->first; row < b->end; row++) {
        name_row(s, row, (int64_t)(s->start[row + 1] - s->start[row]),
                 names->row + (s->start[row] - b->from));
    }
    draw(s, reads ? names->row : names->column, reads ? names->column : names->row, count, kept);
}

/* --- batches --- */

/* The rows from `row` on that are gone through together; none if that one is long. */
static struct batch batch_of(const struct attend *s, int64_t row, int64_t end) {
    struct batch b = {row, row, s->start[row], s->start[row]};
    uint64_t most = s->start[row] + (uint64_t)(BATCH / s->heads);
    while (b.end < end && s->start[b.end + 1] <= most && b.end - b.first < BATCH / s->heads) {
        b.to = s->start[++b.end];
    }
    return b;
}

/* --- forward --- */

/* Copies t of entries, and asks for the rows of x that are wanted then. */
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

static void copy_all_t(const struct attend *s, uint64_t from, int64_t count, float *to, bool ask) {
    switch (s->heads) {
    case 1: copy_t(s, from, count, 1, to, ask); break;
    case 4: copy_t(s, from, count, 4, to, ask); break;
    case 8: copy_t(s, from, count, 8, to, ask); break;
    default: copy_t(s, from, count, s->heads, to, ask);
    }
}

/* From t in `score`: the scores of elements of a row, their slopes, and the largest of these and, but of
 * the first, of those before. */
SIMD void scores(const struct attend *s, int64_t row, int64_t count, int64_t heads, float *score,
                 float *slope, bool first, float *top) {
    const float *own = s->forward->s + row * heads;
    if (!by_lanes(heads)) {
        for (int64_t i = 0; i < count; i++) {
            int64_t h = i % heads;
            float z = own[h] + score[i];
            slope[i] = z > 0 ? 1.0f : s->slope;
            z = z < 0 ? z * s->slope : z;
            score[i] = z;
            top[h] = (first && i < heads) || z > top[h] ? z : top[h];
        }
        return;
    }
    vec add = spread_heads(own, heads), one = vset(1.0f), below = vset(s->slope);
    vec largest = first ? vset(-INFINITY) : spread_heads(top, heads);
    for (int64_t i = 0; i < count; i += LANES) {
        vec z = vadd(add, load_part(score + i, count - i));
        store_part(slope + i, vselect(vless(vzero(), z), one, below), count - i);
        z = vselect(vless(z, vzero()), vmul(z, below), z);
        store_part(score + i, z, count - i);
        vec more = vselect(vless(largest, z), z, largest);
        largest = count - i < LANES ? vselect(vfirst(count - i), more, largest) : more;
    }
    fold_largest(largest, heads, top);
}

/* e^(score - largest), in place, and its sums. */
SIMD void exponentials(float *score, int64_t count, int64_t heads, const float *top, bool first,
                       struct sums *sum) {
    bool lanewise = by_lanes(heads);
    vec largest = lanewise ? spread_heads(top, heads) : vzero(), lanes = sum->lanes;
    for (int64_t i = 0; i < count && !lanewise; i++) {
        score[i] -= top[i % heads];
    }
    for (int64_t i = 0; i < count; i += LANES) {
        vec e = vexp(vsub(load_part(score + i, count - i), largest));
        if (lanewise && count - i < LANES) {
            e = vselect(vfirst(count - i), e, vzero());
        }
        lanes = first && i == 0 ? e : vadd(lanes, e);
        store_part(score + i, e, count - i);
    }
    sum->lanes = lanes;
    for (int64_t i = 0; i < count && !lanewise; i++) {
        float *of = &sum->of[i % heads];
        *of = first && i < heads ? score[i] : *of + score[i];
    }
}

/* From e^(score - largest) in `score`, and what is kept from bit `at` on: weight = alpha d, slope = that
 * times the slope, and the sums of alpha slope. */
SIMD void weigh(const struct attend *s, const float *score, int64_t count, int64_t heads,
                float *slope, float *weight, const uint32_t *kept, int64_t at, const float *sum,
                bool first, struct sums *total) {
    if (!by_lanes(heads)) {
        for (int64_t i = 0; i < count; i++) {
            int64_t h = i % heads, bit = at + i;
            float alpha = score[i] * (1.0f / sum[h]), part = alpha * slope[i];
            float by = s->dropout && kept[bit / 32] >> bit % 32 & 1 ? s->scale : 0;
            weight[i] = s->dropout ? alpha * by : alpha;
            total->of[h] = first && i < heads ? part : total->of[h] + part;
            slope[i] = weight[i] * slope[i];
        }
        return;
    }
    vec factor = vdiv(vset(1.0f), spread_heads(sum, heads)), lanes = total->lanes;
    for (int64_t i = 0; i < count; i += LANES) {
        int64_t n = count - i;
        vec alpha = vmul(load_part(score + i, n), factor), g = load_part(slope + i, n);
        vec k = s->dropout ? vmul(alpha, factor_of(s, kept, at + i)) : alpha;
        vec part = vmul(alpha, g);
        lanes = first && i == 0 ? part : vadd(lanes, part);
        store_part(weight + i, k, n);
        store_part(slope + i, vmul(k, g), n);
    }
    total->lanes = lanes;
}

/* What lies beside the sums of a row without entries. */
static void beside_nothing(const struct culm_attend_forward_args *a, float *beside) {
    memset(beside, 0, (size_t)(a->f + a->heads) * sizeof *beside);
    for (int64_t h = 0; h < a->heads; h++) {
        beside[a->f + a->heads + h] = -INFINITY;
    }
}

/* The logarithms of sums of exponentials. */
static void logarithms(const float *top, const float *sum, int64_t count, float *to) {
    for (int64_t i = 0; i < count; i += LANES) {
        vec log = vadd(load_part(top + i, count - i), vlog(load_part(sum + i, count - i)));
        store_part(to + i, log, count - i);
    }
}

static void forward_long(const struct attend *s, struct spmm_rows *rows, struct room *room,
                         int64_t r) {
    const struct culm_attend_forward_args *a = s->forward;
    int64_t heads = s->heads;
    float *score = room->array[0], *slope = room->array[1], *weight = room->array[2];
    float *y = a->y + r * a->ldy, *beside = a->beside ? a->beside + r * a->ldb : NULL;
    uint64_t begin = s->start[r], end = s->start[r + 1];
    float top[CULM_EDGE_HEADS_MAX], of_sum[CULM_EDGE_HEADS_MAX], of_total[CULM_EDGE_HEADS_MAX];
    struct sums sum = {vzero(), of_sum}, total = {vzero(), of_total};
    bool single = end - begin <= (uint64_t)s->block;
    for (uint64_t e = begin; e < end; e += (uint64_t)s->block) {
        int64_t n = at_most(s->block, (int64_t)(end - e));
        copy_all_t(s, e, n, score, single);
        scores(s, r, n * heads, heads, score, slope, e == begin, top);
    }
    for (uint64_t e = begin; e < end; e += (uint64_t)s->block) {
        int64_t n = at_most(s->block, (int64_t)(end - e));
        float same[CULM_EDGE_HEADS_MAX];
        if (!single) {
            copy_all_t(s, e, n, score, false);
            scores(s, r, n * heads, heads, score, slope, true, same);
        }
        exponentials(score, n * heads, heads, top, e == begin, &sum);
    }
    fold(&sum, heads);
    for (uint64_t e = begin; e < end; e += (uint64_t)s->block) {
        int64_t n = at_most(s->block, (int64_t)(end - e));
        if (!single) {
            float same[CULM_EDGE_HEADS_MAX], none[CULM_EDGE_HEADS_MAX];
            struct sums again = {vzero(), none};
            copy_all_t(s, e, n, score, false);
            scores(s, r, n * heads, heads, score, slope, true, same);
            exponentials(score, n * heads, heads, top, true, &again);
        }
        if (s->dropout) {
            draw_row(s, &room->names, r, e, n, true, room->kept);
        }
        weigh(s, score, n * heads, heads, slope, weight, room->kept, 0, sum.of, e == begin, &total);
        ISA_NAME(spmm_rows_sum)(rows, y, weight, e, e + (uint64_t)n, e > begin);
        if (beside) {
            ISA_NAME(spmm_rows_sum)(rows, beside, slope, e, e + (uint64_t)n, e > begin);
        }
    }
    if (beside) {
        fold(&total, heads);
        memcpy(beside + a->f, total.of, (size_t)heads * sizeof *beside);
        logarithms(top, sum.of, heads, beside + a->f + heads);
    }
}

SIMD void forward_batch(const struct attend *s, struct spmm_rows *rows, struct room *room,
                        const struct batch *b, int64_t heads) {
    const struct culm_attend_forward_args *a = s->forward;
    float *score = room->array[0], *slope = room->array[1], *weight = room->array[2];
    float *top = room->array[3], *of_sum = top + BATCH + LANES, *log = of_sum + BATCH + LANES;
    float *of_total = room->array[4];
    copy_t(s, b->from, (int64_t)(b->to - b->from), heads, score, true);
    if (s->dropout) {
        draw_batch(s, &room->names, b, true, room->kept);
    }
    for (int64_t r = b->first, h = 0; r < b->end; r++, h += heads) {
        int64_t at = (int64_t)(s->start[r] - b->from) * heads;
        int64_t count = (int64_t)(s->start[r + 1] - s->start[r]) * heads;
        scores(s, r, count, heads, score + at, slope + at, true, top + h);
    }
    for (int64_t r = b->first, h = 0; r < b->end; r++, h += heads) {
        int64_t at = (int64_t)(s->start[r] - b->from) * heads;
        int64_t count = (int64_t)(s->start[r + 1] - s->start[r]) * heads;
        struct sums sum = {vzero(), of_sum + h};
        exponentials(score + at, count, heads, top + h, true, &sum);
        fold(&sum, heads);
    }
    for (int64_t r = b->first, h = 0; r < b->end; r++, h += heads) {
        int64_t at = (int64_t)(s->start[r] - b->from) * heads;
        int64_t count = (int64_t)(s->start[r + 1] - s->start[r]) * heads;
        struct sums total = {vzero(), of_total + h};
        weigh(s, score + at, count, heads, slope + at, weight + at, room->kept, at, of_sum + h,
              true, &total);
        fold(&total, heads);
    }
    const uint64_t *start = s->start + b->first;
    int64_t n = b->end - b->first;
    float *y = a->y + b->first * a->ldy;
    if (!a->beside) {
        ISA_NAME(spmm_rows_sums)(rows, start, n, y, a->ldy, weight);
        return;
    }
    float *beside = a->beside + b->first * a->ldb;
    ISA_NAME(spmm_rows_pair)(rows, start, n, y, a->ldy, weight, beside, a->ldb, slope);
    logarithms(top, of_sum, n * heads, log);
    for (int64_t r = 0; r < n; r++, beside += a->ldb) {
        memcpy(beside + a->f, of_total + r * heads, (size_t)heads * sizeof *beside);
        memcpy(beside + a->f + heads, log + r * heads, (size_t)heads * sizeof *beside);
        if (start[r] == start[r + 1]) {
            beside_nothing(a, beside);
        }
    }
}

static void forward_tile(void *context, int64_t tile, int thread) {
    const struct attend *s = ((struct attend **)context)[0];
    struct culm_cpu *cpu = ((struct culm_cpu **)context)[1];
    struct room *room = (struct room *)(void *)cpu_private(cpu, thread);
    struct spmm_rows rows;
    ISA_NAME(spmm_rows_init)(&rows, &s->sums);
    int64_t row = chunk_row(&s->chunks, tile), to = chunk_row(&s->chunks, tile + 1);
    while (row < to) {
        struct batch b = batch_of(s, row, to);
        if (b.end == row) {
            forward_long(s, &rows, room, row++);
            continue;
        }
        row = b.end;
        switch (s->heads) {
        case 1: forward_batch(s, &rows, room, &b, 1); break;
        case 8: forward_batch(s, &rows, room, &b, 8); break;
        default: forward_batch(s, &rows, room, &b, s->heads);
        }
    }
}

/* --- backward --- */

/* Copies the three things that entries' readers kept: s, lse and c. */
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

static void copy_all_readers(const struct attend *s, uint64_t from, int64_t count, float *score,
                             float *lse, float *c) {
    switch (s->heads) {
    case 1: copy_readers(s, from, count, 1, score, lse, c); break;
    case 4: copy_readers(s, from, count, 4, score, lse, c); break;
    case 8: copy_readers(s, from, count, 8, score, lse, c); break;
    default: copy_readers(s, from, count, s->heads, score, lse, c);
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

/* From s, lse and c of readers, and what is kept from bit `at` on: score = alpha d, and the sums of alpha
 * slope (d dot - c). */
SIMD void differentiate(const struct attend *s, const float *t, float *score, const float *lse,
                        const float *c, const float *dot, const uint32_t *kept, int64_t at,
                        int64_t count, int64_t heads, bool first, struct sums *dt) {
    bool lanewise = by_lanes(heads);
    vec own = lanewise ? spread_heads(t, heads) : vzero();
    vec one = vset(1.0f), below = vset(s->slope), lanes = dt->lanes;
    for (int64_t i = 0; i < count; i += LANES) {
        int64_t n = count - i;
        vec z = vadd(load_part(score + i, n), lanewise ? own : t_of(t, i, heads));
        mask above = vless(vzero(), z);
        vec alpha = vexp(vsub(vselect(above, z, vmul(below, z)), load_part(lse + i, n)));
        vec d = load_part(dot + i, n), k = alpha;
        if (s->dropout) {
            vec by = factor_of(s, kept, at + i);
            k = vmul(alpha, by);
            d = vmul(d, by);
        }
        vec g = vmul(alpha, vsub(d, load_part(c + i, n)));
        g = vmul(g, vselect(above, one, below));
        store_part(score + i, k, n);
        if (lanewise) {
            g = n < LANES ? vselect(vfirst(n), g, vzero()) : g;
            lanes = first && i == 0 ? g : vadd(lanes, g);
            continue;
        }
        float lane[LANES];
        vstore(lane, g);
        for (int64_t j = 0; j < at_most(LANES, n); j++) {
            float *of = &dt->of[(i + j) % heads];
            *of = first && i + j < heads ? lane[j] : *of + lane[j];
        }
    }
    dt->lanes = lanes;
}

/* <x[r], dy[i]> of entries of row r, by head. */
SIMD void dots_of_entries(const struct attend *s, int64_t r, uint64_t from, int64_t count,
                          float *dot) {
    const struct culm_attend_backward_args *a = s->backward;
    struct culm_in x = a->x, dy = a->dy;
    if (x.dtype == CULM_F32 && dy.dtype == CULM_F32) { /* known to the compiler */
        dots_of_row((struct culm_in){x.data, CULM_F32}, r * a->ldx,
                    (struct culm_in){dy.data, CULM_F32}, a->ldd, s->column + from, count, s->heads,
                    a->f / s->heads, dot);
    } else {
        dots_of_row(x, r * a->ldx, dy, a->ldd, s->column + from, count, s->heads, a->f / s->heads,
                    dot);
    }
}

static void backward_long(const struct attend *s, struct spmm_rows *rows, struct room *room,
                          int64_t r) {
    const struct culm_attend_backward_args *a = s->backward;
    int64_t heads = s->heads;
    float *score = room->array[0], *lse = room->array[1], *c = room->array[2];
    float *dot = room->array[3], *y = a->y + r * a->ldy;
    uint64_t begin = s->start[r], end = s->start[r + 1];
    struct sums dt = {vzero(), a->dt + r * a->ldt};
    for (uint64_t e = begin; e < end; e += (uint64_t)s->block) {
        int64_t n = at_most(s->block, (int64_t)(end - e));
        copy_all_readers(s, e, n, score, lse, c);
        dots_of_entries(s, r, e, n, dot);
        if (s->dropout) {
            draw_row(s, &room->names, r, e, n, false, room->kept);
        }
        differentiate(s, a->t + r * heads, score, lse, c, dot, room->kept, 0, n * heads, heads,
                      e == begin, &dt);
        ISA_NAME(spmm_rows_sum)(rows, y, score, e, e + (uint64_t)n, e > begin);
    }
    fold(&dt, heads);
}

/* The dot products of a batch of rows of one head that is no wider than a vector. */
SIMD void dots_of_vectors(const struct attend *s, const struct batch *b, uint32_t *row,
                          float *dot) {
    const struct culm_attend_backward_args *a = s->backward;
    const struct culm_in x = {a->x.data, CULM_F32}, dy = {a->dy.data, CULM_F32};
    int64_t count = (int64_t)(b->to - b->from), e = 0;
    const uint32_t *column = s->column + b->from;
    for (int64_t r = b->first; r < b->end; r++) {
        for (uint64_t i = s->start[r]; i < s->start[r + 1]; i++) {
            row[i - b->from] = (uint32_t)r;
        }
    }
    for (; e + 8 <= count; e += 8) {
        vec sum[8];
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) {
            sum[k] = products(x, dy, row[e + k] * a->ldx, column[e + k] * a->ldd, a->f);
        }
        vsum_of_8(sum, dot + e);
    }
    for (; e < count; e++) {
        dot[e] = vsum(products(x, dy, row[e] * a->ldx, column[e] * a->ldd, a->f));
    }
}

SIMD void backward_batch(const struct attend *s, struct spmm_rows *rows, struct room *room,
                         const struct batch *b, int64_t heads) {
    const struct culm_attend_backward_args *a = s->backward;
    float *score = room->array[0], *lse = room->array[1], *c = room->array[2];
    float *dot = room->array[3];
    bool vectors = heads == 1 && a->f <= LANES && a->x.dtype == CULM_F32 && a->dy.dtype == CULM_F32;
    copy_readers(s, b->from, (int64_t)(b->to - b->from), heads, score, lse, c);
    if (vectors) {
        dots_of_vectors(s, b, room->names.row, dot);
    }
    for (int64_t r = b->first; r < b->end && !vectors; r++) {
        dots_of_entries(s, r, s->start[r], (int64_t)(s->start[r + 1] - s->start[r]),
                        dot + (int64_t)(s->start[r] - b->from) * heads);
    }
    if (s->dropout) {
        draw_batch(s, &room->names, b, false, room->kept);
    }
    for (int64_t r = b->first; r < b->end; r++) {
        int64_t at = (int64_t)(s->start[r] - b->from) * heads;
        int64_t count = (int64_t)(s->start[r + 1] - s->start[r]) * heads;
        float *ret_dt = a->dt + r * a->ldt;
        struct sums dt = {vzero(), ret_dt};
        differentiate(s, a->t + r * heads, score + at, lse + at, c + at, dot + at, room->kept, at,
                      count, heads, true, &dt);
        fold(&dt, heads);
        if (count == 0) {
            memset(ret_dt, 0, (size_t)heads * sizeof *ret_dt);
        }
    }
    ISA_NAME(spmm_rows_sums)
    (rows, s->start + b->first, b->end - b->first, a->y + b->first * a->ldy, a->ldy, score);
}

static void backward_tile(void *context, int64_t tile, int thread) {
    const struct attend *s = ((struct attend **)context)[0];
    struct culm_cpu *cpu = ((struct culm_cpu **)context)[1];
    struct room *room = (struct room *)(void *)cpu_private(cpu, thread);
    struct spmm_rows rows;
    ISA_NAME(spmm_rows_init)(&rows, &s->sums);
    int64_t row = chunk_row(&s->chunks, tile), to = chunk_row(&s->chunks, tile + 1);
    while (row < to) {
        struct batch b = batch_of(s, row, to);
        if (b.end == row) {
            backward_long(s, &rows, room, row++);
            continue;
        }
        row = b.end;
        switch (s->heads) {
        case 1: backward_batch(s, &rows, room, &b, 1); break;
        case 8: backward_batch(s, &rows, room, &b, 8); break;
        default: backward_batch(s, &rows, room, &b, s->heads);
        }
    }
}

/* --- both --- */

static void run(struct culm_cpu *cpu, struct attend *s, int64_t n, culm_cpu_tile *tile) {
    assert(s->heads <= CULM_EDGE_HEADS_MAX && s->sums.f % s->heads == 0);
    s->block = s->heads > 16 ? 1024 : 4096;
    assert(s->block * s->heads <= ROOM);
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
