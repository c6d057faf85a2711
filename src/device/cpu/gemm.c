/*
 * Matrix products in f32.
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
 *             for each A_RUN terms: pack A's block; for each panel, each KC terms, each MR rows:
 *                 C[MR x NR] from registers
 *
 * A is packed as it lies: rows kept as rows (a fixed stride, so that no two rows share a cache
 * set), or for op(A) = A^T as [k][16]. Packing is the only place that knows what an operand is.
 *
 * A result that is bf16 or scattered over an image is formed in a block of rows x columns in
 * scratch, from all terms at once (K_PIECE is then K), and written when it is complete.
 */
#include "device/cpu/product.h"
#include "device/cpu/tile.h"
#include "device/cpu/transpose.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define KC 256
#define K_PIECE 2048 /* a multiple of KC */
#define A_RUN 1024   /* a multiple of KC */
#define MC (8 * MR)
#define K_STRIDE 16 /* packed columns of A^T, per group of MR */
#define GROUP_FLOATS (16 * ROW_STRIDE)
#define BLOCK_FLOATS (ceil_div(MC, MR) * GROUP_FLOATS) /* of A, KC terms */
#define PART_COLUMNS 2048                              /* of a result formed in scratch */

_Static_assert(8 * GROUP_FLOATS * (A_RUN / KC) + MC * PART_COLUMNS + 2 * MC <= PRIVATE_FLOATS,
               "a tile's scratch");

struct job {
    const struct product *p;
    struct culm_cpu *cpu;
    bool aside;          /* the result is formed in scratch */
    float *packed;       /* [panel][k_count][NR] */
    int64_t k0, k_count; /* this piece of K */
    int64_t n0, panels;  /* this piece of N */
    int64_t rows, parts; /* of a tile; parts of the panels */
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
static void sum_columns(float *out, const float *rows, int64_t k, int64_t columns, bool add) {
    vec sum[NV];
    for (int v = 0; v < NV; v++)
        sum[v] = vload(rows + v * LANES);
    for (int64_t i = 1; i < k; i++)
        for (int v = 0; v < NV; v++)
            sum[v] = vadd(sum[v], vload(rows + i * NR + v * LANES));
    for (int v = 0; v < NV && v * LANES < columns; v++, out += LANES) {
        int64_t left = columns - v * LANES;
        store_part(out, add ? vadd(load_part(out, left), sum[v]) : sum[v], left);
    }
}

static void pack_rows(const struct operand *b, float *to, int64_t k0, int64_t k, int64_t column,
                      int64_t columns) {
    struct culm_in in = {b->data, b->dtype};
    for (int64_t i = 0; i < k; i++, to += NR)
        for (int v = 0; v < NV; v++) {
            int64_t left = columns - v * LANES, at = (k0 + i) * b->ld + column + v * LANES;
            vstore(to + v * LANES, left > 0 ? tload_part(in, at, left) : vzero());
        }
}

static void pack_transposed(const struct operand *b, float *to, int64_t k0, int64_t k,
                            int64_t column, int64_t columns) {
    float part[16 * 16], turned[16 * 16];
    for (int64_t i = 0; i < k; i += 16)
        for (int64_t j = 0; j < NR; j += 16) {
            int64_t terms = at_most(16, k - i), count = at_least(0, at_most(16, columns - j));
            if (terms == 16 && count == 16 && b->kind == OPERAND_ROWS && b->dtype == CULM_F32) {
                transpose16((const float *)b->data + (column + j) * b->ld + k0 + i, b->ld,
                            to + i * NR + j, NR);
                continue;
            }
            memset(part, 0, sizeof part);
            operand_read_f32(b, column + j, count, k0 + i, terms, part, 16);
            transpose16(part, 16, turned, 16);
            for (int64_t ii = 0; ii < terms; ii++)
                vstore(to + (i + ii) * NR + j, vload(turned + ii * 16));
        }
}

/* Packs one panel of op(B), and sums its columns when asked. */
static void pack_b(void *context, int64_t panel, int thread) {
    const struct job *job = context;
    const struct product *p = job->p;
    (void)thread;
    float *to = job->packed + panel * job->k_count * NR;
    int64_t column = job->n0 + panel * NR, columns = at_most(NR, p->n - column);
    if (p->trans_b) {
        pack_transposed(&p->b, to, job->k0, job->k_count, column, columns);
    } else if (p->b.kind == OPERAND_ROWS) {
        pack_rows(&p->b, to, job->k0, job->k_count, column, columns);
    } else {
        if (columns < NR)
            memset(to, 0, (size_t)(job->k_count * NR) * sizeof *to);
        operand_read_f32(&p->b, job->k0, job->k_count, column, columns, to, NR);
    }
    for (int64_t k0 = 0; p->column_sum && k0 < job->k_count; k0 += KC)
        sum_columns(p->column_sum + column, to + k0 * NR, at_most(KC, job->k_count - k0), columns,
                    p->column_add || job->k0 + k0 > 0);
}

/* A block of at most KC terms. */
static void pack_a(const struct product *p, float *to, int64_t row, int64_t rows, int64_t k0,
                   int64_t k) {
    if (!p->trans_a) {
        for (int64_t r = 0; r < rows; r += MR, to += GROUP_FLOATS)
            operand_read_f32(&p->a, row + r, at_most(MR, rows - r), k0, k, to, ROW_STRIDE);
        return;
    }
    float line[MC + LANES];
    for (int64_t i = 0; i < k; i++) {
        const float *from = (const float *)p->a.data + (k0 + i) * p->a.ld + row;
        if (p->a.kind != OPERAND_ROWS || p->a.dtype != CULM_F32) {
            operand_read_f32(&p->a, k0 + i, 1, row, rows, line, 0);
            from = line;
        }
        for (int64_t r = 0; r < rows; r += MR)
            vstore(to + r / MR * GROUP_FLOATS + i * K_STRIDE,
                   vload_n(from + r, at_most(MR, rows - r)));
    }
}

/* Writes what was formed in scratch; at[row] is where each row goes. */
static void emit(const struct product *p, const float *from, int64_t ld, const int64_t *at,
                 int64_t rows, int64_t column, int64_t columns) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += LANES)
            tstore_part(p->c.out, at[i] + column + j, vload(from + i * ld + j),
                        at_most(LANES, columns - j));
}

/* One block of rows by one part of the panels. */
static void multiply(void *context, int64_t tile, int thread) {
    const struct job *job = context;
    const struct product *p = job->p;
    float *packed_a = cpu_private(job->cpu, thread);
    int64_t row = tile / job->parts * job->rows, rows = at_most(job->rows, p->m - row);
    int64_t part = tile % job->parts;
    int64_t first = job->panels * part / job->parts, last = job->panels * (part + 1) / job->parts;
    float *aside = packed_a + A_RUN / KC * BLOCK_FLOATS;
    int64_t aside_ld = (last - first) * NR;
    int64_t *at = (int64_t *)(aside + MC * PART_COLUMNS);
    for (int64_t i = 0; job->aside && i < rows; i++)
        at[i] = result_row(&p->c, row + i);
    for (int64_t k0 = 0; k0 < job->k_count || (k0 == 0 && job->k_count == 0); k0 += A_RUN) {
        int64_t run = at_most(A_RUN, job->k_count - k0);
        bool start = job->k0 + k0 == 0;
        for (int64_t i = 0; i < run; i += KC)
            pack_a(p, packed_a + i / KC * BLOCK_FLOATS, row, rows, job->k0 + k0 + i,
                   at_most(KC, run - i));
        for (int64_t panel = first; panel < last; panel++) {
            int64_t column = job->n0 + panel * NR, columns = at_most(NR, p->n - column);
            const float *bias = p->bias ? p->bias + column : NULL;
            float *c = aside + (panel - first) * NR;
            int64_t ldc = aside_ld;
            if (!job->aside) {
                ldc = p->c.ld;
                c = (float *)p->c.out.data + row * ldc + column;
            }
            for (int64_t i = 0; i < run || (i == 0 && run == 0); i += KC) {
                const float *b = job->packed + (panel * job->k_count + k0 + i) * NR;
                const float *a = packed_a + i / KC * BLOCK_FLOATS;
                int64_t k = at_most(KC, run - i);
                enum how how = i > 0 || !start || p->add ? ADD : bias ? STORE_BIAS : STORE;
                for (int64_t r = 0; r < rows; r += MR) {
                    const float *group = a + r / MR * GROUP_FLOATS;
                    int64_t left = at_most(MR, rows - r), done = 0;
                    for (size_t m = 0; left > 0; m++)
                        for (; left >= micros[m].rows;
                             left -= micros[m].rows, done += micros[m].rows)
                            micros[m].run[p->trans_a](
                                k, group + done * (p->trans_a ? 1 : ROW_STRIDE), b,
                                c + (r + done) * ldc, ldc, columns, how, bias);
                }
            }
            if (job->aside && k0 + run == p->k)
                emit(p, c, ldc, at, rows, column, columns);
        }
    }
}

void ISA_NAME(product)(struct culm_cpu *cpu, const struct product *p) {
    struct job job = {.p = p, .cpu = cpu, .packed = cpu_shared(cpu) + p->first_free};
    if (p->a.dtype == CULM_BF16 || p->b.dtype == CULM_BF16 || p->c.out.dtype == CULM_BF16) {
        ISA_NAME(product_bf16)(cpu, p);
        return;
    }
    job.aside = p->c.kind != RESULT_ROWS;
    assert(!job.aside || (!p->add && p->k <= PRODUCT_MAX_TERMS));
    assert(!p->add || !p->bias);
    if (!p->m || !p->n)
        return;
    int64_t piece = job.aside ? at_least(1, p->k) : K_PIECE;
    for (job.k0 = 0; job.k0 < p->k || (job.k0 == 0 && p->k == 0); job.k0 += piece) {
        job.k_count = at_most(piece, p->k - job.k0);
        int64_t space = SHARED_FLOATS - p->first_free;
        int64_t most = at_least(1, space / at_least(1, job.k_count) / NR) * NR;
        for (job.n0 = 0; job.n0 < p->n; job.n0 += most) {
            job.panels = ceil_div(at_most(most, p->n - job.n0), NR);
            culm_cpu_run(cpu, job.panels, pack_b, &job);
            job.rows = at_most(MC, round_up(p->m, MR));
            int64_t blocks = ceil_div(p->m, job.rows);
            job.parts = 1;
            if (cpu->threads > 1) /* enough tiles that the last ones even out */
                job.parts =
                    at_least(1, at_most(job.panels / 4, ceil_div(8 * cpu->threads, blocks)));
            if (job.aside)
                job.parts = at_least(job.parts, ceil_div(job.panels, PART_COLUMNS / NR));
            culm_cpu_run(cpu, blocks * job.parts, multiply, &job);
        }
    }
}

/* A product of plain f32 matrices. */
static struct product plain(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                            const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                            int64_t ldc) {
    return (struct product){.m = m,
                            .n = n,
                            .k = k,
                            .a = operand_rows(culm_in_f32(a), lda),
                            .b = operand_rows(culm_in_f32(b), ldb),
                            .trans_a = trans_a,
                            .trans_b = trans_b,
                            .c = result_rows(culm_out_f32(c), ldc)};
}

void ISA_NAME(gemm)(struct culm_cpu *cpu, bool trans_a, bool trans_b, int64_t m, int64_t n,
                    int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                    float *c, int64_t ldc) {
    assert(beta == 0.0f || beta == 1.0f);
    struct product p = plain(trans_a, trans_b, m, n, k, a, lda, b, ldb, c, ldc);
    p.add = beta == 1.0f;
    ISA_NAME(product)(cpu, &p);
}
