/*
 * What is computed for each entry of a sparse matrix, and the sums over rows that go with it: edge
 * scores, their softmax, sums by entry.
 *
 * The sums of softmax over a row's [entries, heads]: where heads divides 16, lane l of 16 takes
 * elements l, l + 16, ..., and the lanes of a head are folded by halves; else entry after entry.
 */
#include "device/cpu/edges.h"
#include "device/cpu/dots.h"
#include "device/cpu/variant.h"

#include <assert.h>

/* ---- sddmm ---- */

struct sddmm {
    const struct culm_sddmm_args *a;
    struct chunks chunks;
    int64_t width; /* of a head */
};

SIMD void sddmm_rows(const struct sddmm *s, int64_t from, int64_t to, enum culm_dtype type_a,
                     enum culm_dtype type_b) {
    const struct culm_sddmm_args *a = s->a;
    struct culm_in x = {a->a.data, type_a}, y = {a->b.data, type_b};
    for (int64_t row = from; row < to; row++) {
        dots_of_row(x, row * a->lda, y, a->ldb, a->column + a->start[row],
                    (int64_t)(a->start[row + 1] - a->start[row]), a->heads, s->width,
                    a->value + a->start[row] * (uint64_t)a->heads);
    }
}

static void sddmm_tile(void *context, int64_t tile, int thread) {
    const struct sddmm *s = context;
    (void)thread;
    int64_t from = chunk_row(&s->chunks, tile), to = chunk_row(&s->chunks, tile + 1);
    if (s->a->a.dtype == CULM_F32 && s->a->b.dtype == CULM_F32) {
        sddmm_rows(s, from, to, CULM_F32, CULM_F32);
    } else if (s->a->a.dtype == CULM_BF16 && s->a->b.dtype == CULM_BF16) {
        sddmm_rows(s, from, to, CULM_BF16, CULM_BF16);
    } else {
        sddmm_rows(s, from, to, s->a->a.dtype, s->a->b.dtype);
    }
}

void ISA_NAME(sddmm)(struct culm_cpu *cpu, const struct culm_sddmm_args *args) {
    struct sddmm s = {
        .a = args, .chunks = chunks_of(cpu, args->start, args->n), .width = args->f / args->heads};
    assert(args->f % args->heads == 0);
    culm_cpu_run(cpu, s.chunks.count, sddmm_tile, &s);
}
ALIKE(sddmm);

/* ---- softmax over rows ---- */

struct edge_softmax {
    const struct culm_edge_softmax_forward_args *forward;
    const struct culm_edge_softmax_backward_args *backward;
    struct chunks chunks;
};

/* Sums of a row's elements, as the head of this file says. */
SIMD bool by_lanes(int64_t heads) { return LANES % heads == 0; }

/* The lanes of each head, folded: heads sums. */
SIMD void fold(vec lanes, int64_t heads, float *sum) {
    if (heads == 1) {
        sum[0] = vsum(lanes);
        return;
    }
    float lane[LANES];
    vstore(lane, lanes);
    for (int64_t width = LANES / 2; width >= heads; width /= 2) {
        for (int64_t i = 0; i < width; i++) {
            lane[i] += lane[i + width];
        }
    }
    memcpy(sum, lane, (size_t)heads * sizeof *sum);
}

/* 16 lanes, each the number of its head. */
SIMD vec spread_heads(const float *of, int64_t heads) {
    float lane[LANES];
    for (int64_t i = 0; i < LANES; i++) {
        lane[i] = of[i % heads];
    }
    return vload(lane);
}

/* The scores of a row, and the largest of each head. */
SIMD void scores(const struct culm_edge_softmax_forward_args *a, int64_t row, int64_t heads,
                 float *score, float *top) {
    const float *s = a->s + row * heads;
    float slope = (float)a->slope;
    for (int64_t h = 0; h < heads; h++) {
        top[h] = -INFINITY;
    }
    for (uint64_t e = a->start[row]; e < a->start[row + 1]; e++, score += heads) {
        const float *t = a->t + (int64_t)a->column[e] * heads;
        for (int64_t h = 0; h < heads; h++) {
            float z = s[h] + t[h];
            z = z < 0 ? z * slope : z;
            score[h] = z;
            top[h] = z > top[h] ? z : top[h];
        }
    }
}

/* score becomes e^(score - largest); sum[heads]. */
static void exponentials(float *score, int64_t count, int64_t heads, const float *top, float *sum) {
    if (!by_lanes(heads)) {
        for (int64_t i = 0; i < count; i++) {
            score[i] -= top[i % heads];
        }
        for (int64_t i = 0; i < count; i += LANES) {
            store_part(score + i, vexp(load_part(score + i, count - i)), count - i);
        }
        for (int64_t i = 0; i < count; i++) {
            sum[i % heads] = i < heads ? score[i] : sum[i % heads] + score[i];
        }
        return;
    }
    vec largest = spread_heads(top, heads), lanes = vzero();
    for (int64_t i = 0; i < count; i += LANES) {
        vec e = vexp(vsub(load_part(score + i, count - i), largest));
        if (count - i < LANES) {
            e = vselect(vfirst(count - i), e, vzero());
        }
        lanes = i ? vadd(lanes, e) : e;
        store_part(score + i, e, count - i);
    }
    fold(lanes, heads, sum);
}

static void normalise(float *x, int64_t count, int64_t heads, const float *sum) {
    if (!by_lanes(heads)) {
        for (int64_t i = 0; i < count; i++) {
            x[i] = x[i] * (1.0f / sum[i % heads]);
        }
        return;
    }
    vec factor = vdiv(vset(1.0f), spread_heads(sum, heads));
    for (int64_t i = 0; i < count; i += LANES) {
        store_part(x + i, vmul(load_part(x + i, count - i), factor), count - i);
    }
}

static void edge_softmax_forward_tile(void *context, int64_t tile, int thread) {
    const struct edge_softmax *s = context;
    const struct culm_edge_softmax_forward_args *a = s->forward;
    (void)thread;
    int64_t to = chunk_row(&s->chunks, tile + 1);
    for (int64_t row = chunk_row(&s->chunks, tile); row < to; row++) {
        float top[CULM_EDGE_HEADS_MAX], sum[CULM_EDGE_HEADS_MAX] = {0};
        int64_t entries = (int64_t)(a->start[row + 1] - a->start[row]);
        float *alpha = a->alpha + a->start[row] * (uint64_t)a->heads;
        switch (a->heads) {
        case 1: scores(a, row, 1, alpha, top); break;
        case 4: scores(a, row, 4, alpha, top); break;
        case 8: scores(a, row, 8, alpha, top); break;
        default: scores(a, row, a->heads, alpha, top);
        }
        if (entries) {
            exponentials(alpha, entries * a->heads, a->heads, top, sum);
            normalise(alpha, entries * a->heads, a->heads, sum);
        }
        for (int64_t h = 0; h < a->heads && a->largest; h++) {
            a->largest[row * a->heads + h] = top[h];
        }
        for (int64_t h = 0; h < a->heads && a->sum; h++) {
            a->sum[row * a->heads + h] = sum[h];
        }
    }
}

void ISA_NAME(edge_softmax_forward)(struct culm_cpu *cpu,
                                    const struct culm_edge_softmax_forward_args *args) {
    struct edge_softmax s = {.forward = args, .chunks = chunks_of(cpu, args->start, args->n)};
    assert(args->heads <= CULM_EDGE_HEADS_MAX);
    culm_cpu_run(cpu, s.chunks.count, edge_softmax_forward_tile, &s);
}
ALIKE(edge_softmax_forward);

/* dscore = the slope of the leaky ReLU at each score. */
SIMD void slopes(const struct culm_edge_softmax_backward_args *a, int64_t row, int64_t heads,
                 uint64_t from, uint64_t to, float *slope) {
    const float *s = a->s + row * heads;
    float below = (float)a->slope;
    for (uint64_t e = from; e < to; e++, slope += heads) {
        const float *t = a->t + (int64_t)a->column[e] * heads;
        for (int64_t h = 0; h < heads; h++) {
            slope[h] = s[h] + t[h] > 0 ? 1.0f : below;
        }
    }
}

/* The sum of x y over a row, of each head. */
static void dot_row(const float *x, const float *y, int64_t count, int64_t heads, float *sum) {
    if (!by_lanes(heads)) {
        for (int64_t i = 0; i < count; i++) {
            float p = x[i] * y[i];
            sum[i % heads] = i < heads ? p : sum[i % heads] + p;
        }
        return;
    }
    vec lanes = vzero();
    for (int64_t i = 0; i < count; i += LANES) {
        vec u = load_part(x + i, count - i), v = load_part(y + i, count - i);
        lanes = i ? vfma(u, v, lanes) : vmul(u, v);
    }
    fold(lanes, heads, sum);
}

#define PIECE 1024 /* elements; a multiple of LANES, and of heads where they divide LANES */

static void edge_softmax_backward_row(const struct culm_edge_softmax_backward_args *a,
                                      int64_t row) {
    _Alignas(64) float slope[PIECE];
    float dot[CULM_EDGE_HEADS_MAX], total[CULM_EDGE_HEADS_MAX] = {0};
    int64_t heads = a->heads, entries = (int64_t)(a->start[row + 1] - a->start[row]);
    int64_t count = entries * heads, step = PIECE / heads; /* entries a piece */
    bool lanewise = by_lanes(heads);
    uint64_t at = a->start[row] * (uint64_t)heads;
    const float *alpha = a->alpha + at, *dalpha = a->dalpha + at;
    vec lanes = vzero(), subtract = vzero();
    if (entries) {
        dot_row(alpha, dalpha, count, heads, dot);
        subtract = lanewise ? spread_heads(dot, heads) : vzero();
    }
    for (int64_t from = 0; from < entries; from += step) {
        int64_t n = at_most(step, entries - from) * heads, base = from * heads;
        uint64_t e = a->start[row] + (uint64_t)from, end = e + (uint64_t)(n / heads);
        float *d = a->dscore + at + base;
        switch (heads) {
        case 1: slopes(a, row, 1, e, end, slope); break;
        case 4: slopes(a, row, 4, e, end, slope); break;
        case 8: slopes(a, row, 8, e, end, slope); break;
        default: slopes(a, row, heads, e, end, slope);
        }
        for (int64_t i = 0; i < n && lanewise; i += LANES) {
            vec g = vsub(load_part(dalpha + base + i, n - i), subtract);
            g = vmul(vmul(load_part(alpha + base + i, n - i), g), vload(slope + i));
            if (n - i < LANES) {
                g = vselect(vfirst(n - i), g, vzero());
            }
            lanes = base + i ? vadd(lanes, g) : g;
            store_part(d + i, g, n - i);
        }
        for (int64_t i = 0; i < n && !lanewise; i++) {
            float g = alpha[base + i] * (dalpha[base + i] - dot[i % heads]) * slope[i];
            d[i] = g;
            total[i % heads] = base + i < heads ? g : total[i % heads] + g;
        }
    }
    if (entries && lanewise) {
        fold(lanes, heads, total);
    }
    memcpy(a->ds + row * heads, total, (size_t)heads * sizeof *total);
}

static void edge_softmax_backward_tile(void *context, int64_t tile, int thread) {
    const struct edge_softmax *s = context;
    (void)thread;
    int64_t to = chunk_row(&s->chunks, tile + 1);
    for (int64_t row = chunk_row(&s->chunks, tile); row < to; row++) {
        edge_softmax_backward_row(s->backward, row);
    }
}

void ISA_NAME(edge_softmax_backward)(struct culm_cpu *cpu,
                                     const struct culm_edge_softmax_backward_args *args) {
    struct edge_softmax s = {.backward = args, .chunks = chunks_of(cpu, args->start, args->n)};
    assert(args->heads <= CULM_EDGE_HEADS_MAX);
    culm_cpu_run(cpu, s.chunks.count, edge_softmax_backward_tile, &s);
}
ALIKE(edge_softmax_backward);

/* ---- sums by entry ---- */

struct edge_sum {
    const struct culm_edge_sum_args *a;
    struct chunks chunks;
};

static void edge_sum_row(const struct culm_edge_sum_args *a, int64_t row) {
    int64_t heads = a->heads;
    float *y = a->y + row * heads;
    uint64_t end = a->start[row + 1];
    if (a->start[row] == end) {
        if (!a->add) {
            memset(y, 0, (size_t)heads * sizeof *y);
        }
        return;
    }
    for (int64_t i = 0; i < heads; i += LANES) {
        vec sum = vzero();
        for (uint64_t from = a->start[row]; from < end; from += CULM_SPMM_BLOCK) {
            uint64_t to = end - from > CULM_SPMM_BLOCK ? from + CULM_SPMM_BLOCK : end;
            vec part = load_part(a->x + a->entry[from] * (uint64_t)heads + i, heads - i);
            for (uint64_t e = from + 1; e < to; e++) {
                part = vadd(part, load_part(a->x + a->entry[e] * (uint64_t)heads + i, heads - i));
            }
            sum = from == a->start[row] ? part : vadd(sum, part);
        }
        store_part(y + i, a->add ? vadd(load_part(y + i, heads - i), sum) : sum, heads - i);
    }
}

static void edge_sum_tile(void *context, int64_t tile, int thread) {
    const struct edge_sum *s = context;
    (void)thread;
    int64_t to = chunk_row(&s->chunks, tile + 1);
    for (int64_t row = chunk_row(&s->chunks, tile); row < to; row++) {
        edge_sum_row(s->a, row);
    }
}

void ISA_NAME(edge_sum)(struct culm_cpu *cpu, const struct culm_edge_sum_args *args) {
    struct edge_sum s = {.a = args, .chunks = chunks_of(cpu, args->start, args->n)};
    culm_cpu_run(cpu, s.chunks.count, edge_sum_tile, &s);
}
ALIKE(edge_sum);

/* ---- argmax ---- */

#define ROW_TILE 256 /* rows */

static void argmax_tile(void *context, int64_t tile, int thread) {
    const struct culm_argmax_args *a = context;
    (void)thread;
    for (int64_t row = tile * ROW_TILE; row < at_most(a->n, (tile + 1) * ROW_TILE); row++) {
        float lane[LANES], most = -INFINITY;
        int64_t best = 0;
        for (int64_t i = 0; i < a->c; i += LANES) {
            vstore(lane, tload_part(a->x, row * a->c + i, a->c - i));
            for (int64_t j = 0; j < at_most(LANES, a->c - i); j++) {
                best = lane[j] > most ? i + j : best;
                most = lane[j] > most ? lane[j] : most;
            }
        }
        a->index[row] = (int32_t)best;
    }
}

void ISA_NAME(argmax)(struct culm_cpu *cpu, const struct culm_argmax_args *args) {
    struct culm_argmax_args a = *args;
    culm_cpu_run(cpu, ceil_div(a.n, ROW_TILE), argmax_tile, &a);
}
ALIKE(argmax);
