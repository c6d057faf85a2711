/*
 * Products in f32 so small in one direction that packing costs more than it brings: A is read where it
 * lies, and so is B where K is the long side. Bits as in gemm.c, whose chains of KC terms these are.
 *
 *     rows      op(A) = A, few columns: MR rows at a time by each packed panel of B
 *     columns   op(A) = A^T, few rows and columns (a weight's gradient): KC terms at a time of both, which
 *               stay in the cache for some columns of C, all of it if they are few
 *
 * Both read much memory once, and ask for it in time (gemm_later.h).
 */
#include "device/cpu/gemm_direct.h"
#include "device/cpu/gemm_later.h"
#include "device/cpu/tile.h"

#define FETCH_ROWS 32          /* of both operands: asked for this much before they are read */
#define SAME_SETS 1024         /* floats from a line of memory to the next in the same set */
#define FETCH_GROUPS 2         /* of rows: as far ahead A is asked for where C is made by rows */
#define PASS_PANELS (320 / NR) /* of B: KC terms of so many, and the next, stay in the cache */

/* What a call of a kernel knows. */
struct call {
    const float *a, *b, *bias;
    float *c;
    int64_t lda, ldb, ldc, k, columns;
    enum how how;
    struct later later[2];
};

/* acc[mr][nv] = the chain over k terms. Rows: row r, term i at a[r lda + i], B in packed panels.
 * Columns: row r, term i at a[r + i lda], column j at b[j + i ldb]. Bases three rows apart: the
 * processor adds once and twice a distance for nothing. */
SIMD void direct_chain(vec acc[MR][NV], const int mr, const int nv, const bool columns,
                       struct call *f) {
    struct later a_later = f->later[0], b_later = f->later[1];
    const int64_t row = columns ? 1 : f->lda, term = columns ? f->lda : 1;
    const int64_t ldb = columns ? f->ldb : NR, last = f->columns - (nv - 1) * LANES;
    const float *base[(MR + 2) / 3], *b = f->b;
#pragma GCC unroll 8
    for (int q = 0; q < (mr + 2) / 3; q++) {
        base[q] = f->a + 3 * q * row;
    }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) { /* also those that are not used, for compilers */
            acc[r][v] = vzero();
        }
    const int64_t end = f->k * term;
#pragma GCC unroll 4
    for (int64_t i = 0; i < end; i += term) {
        vec bv[NV];
        later_fetch(&a_later);
        if (columns) {
            later_fetch(&b_later);
            __builtin_prefetch(f->a + i + FETCH_ROWS * term);
            __builtin_prefetch(b + FETCH_ROWS * ldb);
        }
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++) {
            bv[v] = columns && v + 1 == nv ? load_part(b + v * LANES, last) : vload(b + v * LANES);
        }
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            vec av = vset(base[r / 3][r % 3 * row + i]);
#pragma GCC unroll 2
            for (int v = 0; v < nv; v++) {
                acc[r][v] = vfma(av, bv[v], acc[r][v]);
            }
        }
        b += ldb;
    }
    f->later[0] = a_later;
    f->later[1] = b_later;
}

typedef void kernel(struct call *f);
#define KERNELS(mr, nv)                                                                            \
    static void rows_##mr##_##nv(struct call *f) {                                                 \
        vec acc[MR][NV];                                                                           \
        direct_chain(acc, mr, nv, false, f);                                                       \
        finish(acc, mr, f->c, f->ldc, f->columns, f->how, f->bias);                                \
    }                                                                                              \
    static void columns_##mr##_##nv(struct call *f) {                                              \
        vec acc[MR][NV];                                                                           \
        direct_chain(acc, mr, nv, true, f);                                                        \
        finish(acc, mr, f->c, f->ldc, f->columns, f->how, f->bias);                                \
    }
#if NV == 2
#define EACH(mr) KERNELS(mr, 1) KERNELS(mr, 2)
#define ENTRY(mr) {mr, {rows_##mr##_1, rows_##mr##_2}, {columns_##mr##_1, columns_##mr##_2}},
#else
#define EACH(mr) KERNELS(mr, 1)
#define ENTRY(mr) {mr, {rows_##mr##_1}, {columns_##mr##_1}},
#endif
TILE_HEIGHTS(EACH)
static const struct {
    int mr;
    kernel *rows[NV], *columns[NV];
} kernels[] = {TILE_HEIGHTS(ENTRY)};

/* Not where all rows of an operand share a few sets of the cache. */
static bool spread(int64_t ld) { return ld % SAME_SETS; }

static bool plain(const struct product *p) {
    return p->a.kind == OPERAND_ROWS && p->c.kind == RESULT_ROWS && p->k > 0 && spread(p->a.ld);
}

static int64_t panels_of(const struct product *p) { return ceil_div(p->n, NR); }

bool ISA_NAME(direct_rows)(const struct product *p) {
    return plain(p) && !p->trans_a && panels_of(p) <= DIRECT_PANELS;
}

bool ISA_NAME(direct_columns)(const struct product *p) {
    return plain(p) && p->trans_a && !p->trans_b && p->b.kind == OPERAND_ROWS && spread(p->b.ld) &&
           !p->column_sum && !p->bias && ceil_div(p->m, MR) * panels_of(p) <= DIRECT_TILES;
}

/* All rows of a tile by all panels. */
void ISA_NAME(direct_rows_tile)(const struct product *p, const float *packed, int64_t row,
                                int64_t rows) {
    const int64_t panels = panels_of(p), end = row + rows;
    struct call f = {.lda = p->a.ld, .ldc = p->c.ld};
    const float *a = (const float *)p->a.data + row * f.lda;
    float *c = (float *)p->c.out.data + row * f.ldc;
    for (size_t m = 0; row < end; m++) {
        for (const int mr = kernels[m].mr; end - row >= mr; row += mr) {
            f.later[0] = later_rows(a + FETCH_GROUPS * mr * f.lda, mr, p->k, f.lda, p->k * panels);
            for (int64_t panel = 0; panel < panels; panel++) {
                f.columns = at_most(NR, p->n - panel * NR);
                f.c = c + panel * NR;
                for (int64_t k0 = 0; k0 < p->k; k0 += KC) {
                    f.k = at_most(KC, p->k - k0);
                    f.how = k0 > 0 || p->add ? ADD : p->bias ? STORE_BIAS : STORE;
                    f.bias = p->bias ? p->bias + panel * NR : NULL;
                    f.a = a + k0;
                    f.b = packed + (panel * p->k + k0) * NR;
                    kernels[m].rows[f.columns > LANES ? NV - 1 : 0](&f);
                }
            }
            a += mr * f.lda;
            c += mr * f.ldc;
        }
    }
}

/* What of C is one tile of work: some of the longer side, as evenly as threads can share it. */
struct job {
    const struct product *p;
    int64_t rows, columns; /* of a tile; whole groups of MR, whole panels */
    int64_t across;        /* tiles beside each other */
};

/* These rows and columns of C. What of the operands is read at the next KC terms is asked for at these. */
static void columns_pass(const struct product *p, int64_t first, int64_t end, int64_t from,
                         int64_t to) {
    const int64_t calls = ceil_div(end - first, MR) * ceil_div(to - from, NR);
    struct call f = {.lda = p->a.ld, .ldb = p->b.ld, .ldc = p->c.ld};
    for (int64_t k0 = 0; k0 < p->k; k0 += KC) {
        const float *a = (const float *)p->a.data + k0 * f.lda;
        const float *b = (const float *)p->b.data + k0 * f.ldb;
        f.k = at_most(KC, p->k - k0);
        f.how = k0 > 0 || p->add ? ADD : STORE;
        f.later[0] = later_rows(a + KC * f.lda + first, KC, end - first, f.lda, calls * f.k);
        f.later[1] = later_rows(b + KC * f.ldb + from, KC, to - from, f.ldb, calls * f.k);
        for (int64_t column = from; column < to; column += NR) {
            f.columns = at_most(NR, to - column);
            f.b = b + column;
            int64_t row = first;
            for (size_t m = 0; row < end; m++) {
                for (; end - row >= kernels[m].mr; row += kernels[m].mr) {
                    f.a = a + row;
                    f.c = (float *)p->c.out.data + row * f.ldc + column;
                    kernels[m].columns[f.columns > LANES ? NV - 1 : 0](&f);
                }
            }
        }
    }
}

static void columns_tile(void *context, int64_t tile, int thread) {
    const struct job *job = context;
    const struct product *p = job->p;
    const int64_t first = tile / job->across * job->rows, end = at_most(p->m, first + job->rows);
    const int64_t from = tile % job->across * job->columns;
    const int64_t to = at_most(p->n, from + job->columns);
    (void)thread;
    int64_t passes = ceil_div(ceil_div(to - from, NR), PASS_PANELS);
    int64_t each = ceil_div(ceil_div(to - from, NR), passes) * NR;
    for (int64_t column = from; column < to; column += each) {
        columns_pass(p, first, end, column, at_most(to, column + each));
    }
}

void ISA_NAME(direct_columns_run)(struct culm_cpu *cpu, const struct product *p) {
    struct job job = {p, p->m, p->n, 1};
    if (panels_of(p) > ceil_div(p->m, MR)) {
        job.columns = ceil_div(panels_of(p), cpu->threads) * NR;
        job.across = ceil_div(p->n, job.columns);
    } else {
        job.rows = ceil_div(ceil_div(p->m, MR), cpu->threads) * MR;
    }
    culm_cpu_run(cpu, ceil_div(p->m, job.rows) * job.across, columns_tile, &job);
}
