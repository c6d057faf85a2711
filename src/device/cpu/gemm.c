/*
 * Matrix products, and the linear layers made of them.
 *
 * What fixes the bits: an element of C is, for each run of KC terms, a chain of fused multiply-adds
 * in the order of k that starts from zero; the chains are added to the element in order (the first
 * one is stored, or added to C or to the bias). Nothing else enters: not the size of the register
 * tile, nor the cut of C into tiles, nor the number of threads. So tiles may be chosen for speed.
 *
 * How it is done (after Goto and van de Geijn, "Anatomy of high-performance matrix
 * multiplication"):
 *
 *     for each piece of B that fits in the shared scratch       (K_PIECE x n columns)
 *         pack it into panels [k][NR], one panel a tile         -- all threads
 *         for each block of MC rows of A (and part of the panels)  -- all threads, a block a tile
 *             for each run of KC terms: pack A's block; for each panel, for each MR rows:
 *                 C[MR x NR] from registers
 *
 * A is packed as it lies: rows kept as rows (a fixed stride, so that no two rows share a cache
 * set), or for op(A) = A^T as [k][16].
 */
#include "device/cpu/tile.h"
#include "device/cpu/transpose.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define KC 256
#define K_PIECE 2048 /* a multiple of KC */
#define MC (8 * MR)
#define K_STRIDE 16 /* packed columns of A^T, per group of MR */
#define GROUP_FLOATS (16 * ROW_STRIDE)

struct gemm {
    bool trans_a, trans_b;
    int64_t m, n, k;
    const float *a, *b;
    int64_t lda, ldb, ldc;
    float *c;
    const float *bias; /* added to the first chain; NULL: none */
    bool add;          /* the first chain is added to C */
    float *column_sum; /* of B; NULL: not wanted */
    bool column_add;
    float *packed;       /* [panel][k_count][NR] */
    int64_t k0, k_count; /* this piece of K */
    int64_t n0, panels;  /* this piece of N */
    int64_t rows, parts; /* of a tile; parts of the panels */
    struct culm_cpu *cpu;
};

typedef void micro(int64_t k, const float *a, const float *b, float *c, int64_t ldc,
                   int64_t columns, enum how how, const float *bias);
#define MICRO(mr)                                                                                  \
    static void micro_rows_##mr(int64_t k, const float *a, const float *b, float *c, int64_t ldc,  \
                                int64_t columns, enum how how, const float *bias) {                \
        vec acc[MR][NV];                                                                           \
        chain(acc, mr, ROW_STRIDE, 1, k, a, b);                                                    \
        finish(acc, mr, c, ldc, columns, how, bias);                                               \
    }                                                                                              \
    static void micro_columns_##mr(int64_t k, const float *a, const float *b, float *c,            \
                                   int64_t ldc, int64_t columns, enum how how,                     \
                                   const float *bias) {                                            \
        vec acc[MR][NV];                                                                           \
        chain(acc, mr, 1, K_STRIDE, k, a, b);                                                      \
        finish(acc, mr, c, ldc, columns, how, bias);                                               \
    }
#if MR == 14
MICRO(14)
MICRO(8)
#else
MICRO(6)
#endif
MICRO(4)
MICRO(2)
MICRO(1)

#define BOTH(mr)                                                                                   \
    {                                                                                              \
        mr, { micro_rows_##mr, micro_columns_##mr }                                                \
    }
static const struct {
    int rows;
    micro *run[2];
} micros[] = {
#if MR == 14
    BOTH(14), BOTH(8),
#else
    BOTH(6),
#endif
    BOTH(4), BOTH(2), BOTH(1)};

/* The sum over k rows of a packed panel, like a chain of a product with ones. */
static void sum_columns(const struct gemm *g, const float *rows, int64_t k, int64_t column,
                        int64_t columns, bool add) {
    vec sum[NV];
    for (int v = 0; v < NV; v++)
        sum[v] = vload(rows + v * LANES);
    for (int64_t i = 1; i < k; i++)
        for (int v = 0; v < NV; v++)
            sum[v] = vadd(sum[v], vload(rows + i * NR + v * LANES));
    for (int v = 0; v < NV && v * LANES < columns; v++) {
        float *out = g->column_sum + column + v * LANES;
        int64_t left = columns - v * LANES;
        store_part(out, add ? vadd(load_part(out, left), sum[v]) : sum[v], left);
    }
}

/* Packs one panel of op(B), and sums its columns when asked. */
static void pack_b(void *context, int64_t panel, int thread) {
    struct gemm *g = context;
    (void)thread;
    float *to = g->packed + panel * g->k_count * NR;
    int64_t column = g->n0 + panel * NR, columns = at_most(NR, g->n - column);
    if (!g->trans_b) {
        const float *from = g->b + g->k0 * g->ldb + column;
        if (columns == NR) {
            for (int64_t i = 0; i < g->k_count; i++)
                for (int v = 0; v < NV; v++)
                    vstore(to + i * NR + v * LANES, vload(from + i * g->ldb + v * LANES));
        } else {
            for (int64_t i = 0; i < g->k_count; i++)
                for (int v = 0; v < NV; v++) {
                    int64_t count = at_least(0, at_most(LANES, columns - v * LANES));
                    vstore(to + i * NR + v * LANES, vload_n(from + i * g->ldb + v * LANES, count));
                }
        }
    } else {
        const float *from = g->b + column * g->ldb + g->k0;
        for (int64_t i = 0; i < g->k_count; i += 16)
            for (int64_t j = 0; j < NR; j += 16)
                if (i + 16 <= g->k_count && j + 16 <= columns) {
                    transpose16(from + j * g->ldb + i, g->ldb, to + i * NR + j, NR);
                } else {
                    for (int64_t ii = i; ii < at_most(i + 16, g->k_count); ii++)
                        for (int64_t jj = j; jj < j + 16; jj++)
                            to[ii * NR + jj] = jj < columns ? from[jj * g->ldb + ii] : 0.0f;
                }
    }
    for (int64_t k0 = 0; g->column_sum && k0 < g->k_count; k0 += KC)
        sum_columns(g, to + k0 * NR, at_most(KC, g->k_count - k0), column, columns,
                    g->column_add || g->k0 + k0 > 0);
}

static void pack_a(const struct gemm *g, float *to, int64_t row, int64_t rows, int64_t k0,
                   int64_t k) {
    for (int64_t r = 0; r < rows; r += MR, to += GROUP_FLOATS) {
        int64_t count = at_most(MR, rows - r);
        if (!g->trans_a) {
            for (int64_t i = 0; i < count; i++)
                memcpy(to + i * ROW_STRIDE, g->a + (row + r + i) * g->lda + k0,
                       (size_t)k * sizeof *to);
        } else {
            const float *from = g->a + k0 * g->lda + row + r;
            for (int64_t i = 0; i < k; i++)
                vstore(to + i * K_STRIDE, vload_n(from + i * g->lda, count));
        }
    }
}

/* One block of rows by one part of the panels. */
static void multiply(void *context, int64_t tile, int thread) {
    struct gemm *g = context;
    float *packed_a = cpu_private(g->cpu, thread);
    int64_t row = tile / g->parts * g->rows, rows = at_most(g->rows, g->m - row);
    int64_t part = tile % g->parts;
    int64_t first = g->panels * part / g->parts, last = g->panels * (part + 1) / g->parts;
    for (int64_t k0 = 0; k0 < g->k_count || (k0 == 0 && g->k_count == 0); k0 += KC) {
        int64_t k = at_most(KC, g->k_count - k0);
        bool start = g->k0 + k0 == 0;
        enum how how = !start || g->add ? ADD : g->bias ? STORE_BIAS : STORE;
        pack_a(g, packed_a, row, rows, g->k0 + k0, k);
        for (int64_t panel = first; panel < last; panel++) {
            int64_t column = g->n0 + panel * NR, columns = at_most(NR, g->n - column);
            const float *b = g->packed + (panel * g->k_count + k0) * NR;
            for (int64_t r = 0; r < rows; r += MR) {
                const float *group = packed_a + r / MR * GROUP_FLOATS;
                int64_t left = at_most(MR, rows - r), at = 0;
                for (size_t i = 0; left > 0; i++)
                    for (; left >= micros[i].rows; left -= micros[i].rows, at += micros[i].rows)
                        micros[i].run[g->trans_a](k, group + at * (g->trans_a ? 1 : ROW_STRIDE), b,
                                                  g->c + (row + r + at) * g->ldc + column, g->ldc,
                                                  columns, how, g->bias ? g->bias + column : NULL);
            }
        }
    }
}

static void gemm(struct culm_cpu *cpu, struct gemm *g) {
    g->cpu = cpu;
    g->packed = cpu_shared(cpu);
    if (!g->m || !g->n)
        return;
    for (g->k0 = 0; g->k0 < g->k || (g->k0 == 0 && g->k == 0); g->k0 += K_PIECE) {
        g->k_count = at_most(K_PIECE, g->k - g->k0);
        int64_t most = SHARED_FLOATS / at_least(1, g->k_count) / NR * NR;
        for (g->n0 = 0; g->n0 < g->n; g->n0 += most) {
            g->panels = ceil_div(at_most(most, g->n - g->n0), NR);
            culm_cpu_run(cpu, g->panels, pack_b, g);
            g->rows = at_most(MC, round_up(g->m, MR));
            int64_t blocks = ceil_div(g->m, g->rows);
            g->parts = 1;
            if (cpu->threads > 1) /* enough tiles that the last ones even out */
                g->parts = at_least(1, at_most(g->panels / 4, ceil_div(8 * cpu->threads, blocks)));
            culm_cpu_run(cpu, blocks * g->parts, multiply, g);
        }
    }
}

void ISA_NAME(gemm)(struct culm_cpu *cpu, bool trans_a, bool trans_b, int64_t m, int64_t n,
                    int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                    float *c, int64_t ldc) {
    assert(beta == 0.0f || beta == 1.0f);
    gemm(cpu, &(struct gemm){.trans_a = trans_a,
                             .trans_b = trans_b,
                             .m = m,
                             .n = n,
                             .k = k,
                             .a = a,
                             .lda = lda,
                             .b = b,
                             .ldb = ldb,
                             .c = c,
                             .ldc = ldc,
                             .add = beta == 1.0f});
}

void ISA_NAME(linear_forward)(struct culm_cpu *cpu, float *y, const float *x, const float *w,
                              const float *b, int64_t n, int64_t in, int64_t out) {
    gemm(cpu, &(struct gemm){.m = n,
                             .n = out,
                             .k = in,
                             .a = x,
                             .lda = in,
                             .b = w,
                             .ldb = out,
                             .c = y,
                             .ldc = out,
                             .bias = b});
}

void ISA_NAME(linear_backward_input)(struct culm_cpu *cpu, float *dx, const float *dy,
                                     const float *w, int64_t n, int64_t in, int64_t out) {
    gemm(cpu, &(struct gemm){.trans_b = true,
                             .m = n,
                             .n = in,
                             .k = out,
                             .a = dy,
                             .lda = out,
                             .b = w,
                             .ldb = out,
                             .c = dx,
                             .ldc = in});
}

void ISA_NAME(linear_backward_weight)(struct culm_cpu *cpu, float *dw, float *db, const float *x,
                                      const float *dy, int64_t n, int64_t in, int64_t out,
                                      bool first) {
    gemm(cpu, &(struct gemm){.trans_a = true,
                             .m = in,
                             .n = out,
                             .k = n,
                             .a = x,
                             .lda = in,
                             .b = dy,
                             .ldb = out,
                             .c = dw,
                             .ldc = out,
                             .add = !first,
                             .column_sum = db,
                             .column_add = !first});
}

void ISA_NAME(head_forward)(struct culm_cpu *cpu, float *logits, const float *x, const float *wte,
                            int64_t n, int64_t c, int64_t v) {
    gemm(cpu, &(struct gemm){.trans_b = true,
                             .m = n,
                             .n = v,
                             .k = c,
                             .a = x,
                             .lda = c,
                             .b = wte,
                             .ldb = c,
                             .c = logits,
                             .ldc = v});
}

void ISA_NAME(head_backward_input)(struct culm_cpu *cpu, float *dx, const float *dlogits,
                                   const float *wte, int64_t n, int64_t c, int64_t v) {
    gemm(
        cpu,
        &(struct gemm){
            .m = n, .n = c, .k = v, .a = dlogits, .lda = v, .b = wte, .ldb = c, .c = dx, .ldc = c});
}

void ISA_NAME(head_backward_weight)(struct culm_cpu *cpu, float *dwte, const float *dlogits,
                                    const float *x, int64_t n, int64_t c, int64_t v, bool first) {
    gemm(cpu, &(struct gemm){.trans_a = true,
                             .m = v,
                             .n = c,
                             .k = n,
                             .a = dlogits,
                             .lda = v,
                             .b = x,
                             .ldb = c,
                             .c = dwte,
                             .ldc = c,
                             .add = !first});
}
