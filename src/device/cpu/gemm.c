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
 *     for each piece of B that fits in the shared scratch       (K_PIECE x columns)
 *         pack it into panels [k][NR], one panel a tile         -- all threads
 *         for each MC rows of A (and part of the panels)        -- all threads, some blocks a tile
 *             for each A_RUN terms: pack A's block; for each panel, each KC terms, each MR rows:
 *                 C[MR x NR] from registers
 *
 * A is packed as it lies: rows kept as rows (a fixed stride, so that no two rows share a cache
 * set), or for op(A) = A^T as [k][16]. Packing is the only place that knows what an operand is.
 *
 * A result that is scattered over an image is formed in a block of rows x columns in
 * scratch, from all terms at once (K_PIECE is then K), and written when it is complete.
 *
 * Where packing would cost more than it brings, operands are read where they lie: gemm_direct.c. Where few
 * rows use B, it is packed a panel at a time: gemm_long.c.
 */
#include "device/cpu/gemm_direct.h"
#include "device/cpu/gemm_long.h"
#include "device/cpu/gemm_pack.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define K_PIECE 2048 /* a multiple of KC */
#define A_RUN 1024   /* a multiple of KC */
#define MC (8 * MR)
#define BLOCK_FLOATS (MC / MR * GROUP_FLOATS) /* of A, KC terms */
#define PART_COLUMNS 2048                     /* of a result formed in scratch */
#define SMALL_RESULT (256 * 1024)             /* elements: of C, of a piece of B in the cache */
#define NARROW_PANELS 4 /* with so few, A is used too little to be packed as a block */
#define LINE_FLOATS (MC + LANES)

_Static_assert(A_RUN / KC * BLOCK_FLOATS + MC * PART_COLUMNS + 2 * MC + LINES * LINE_FLOATS <=
                   PRIVATE_FLOATS,
               "a tile's scratch");

struct job {
    const struct product *p;
    struct culm_cpu *cpu;
    bool aside;               /* the result is formed in scratch */
    float *packed;            /* [panel][k_count][NR] */
    int64_t k0, k_count;      /* this piece of K */
    int64_t n0, panels;       /* this piece of N */
    int64_t rows;             /* of a block of A */
    int64_t tile_rows, parts; /* of a tile of work: rows; parts of the panels */
};

typedef void micro(int64_t k, const float *a, const float *b, float *c, int64_t ldc,
                   int64_t columns, enum how how, const float *bias, const float *ahead);
#define MICRO(mr, layout, rs, ks)                                                                  \
    static void micro_##layout##_##mr(int64_t k, const float *a, const float *b, float *c,         \
                                      int64_t ldc, int64_t columns, enum how how,                  \
                                      const float *bias, const float *ahead) {                     \
        vec acc[MR][NV];                                                                           \
        for (int r = 0; r < mr && how != ADD; r++)                                                 \
            for (int v = 0; v < NV; v++)                                                           \
                __builtin_prefetch(c + r * ldc + v * LANES, 1);                                    \
        chain_fetch(acc, mr, rs, ks, k, a, b, ahead);                                              \
        finish(acc, mr, c, ldc, columns, how, bias);                                               \
    }
#define BOTH(mr) MICRO(mr, rows, ROW_STRIDE, 1) MICRO(mr, columns, 1, K_STRIDE)
TILE_HEIGHTS(BOTH)
#undef BOTH

#define BOTH(mr) {mr, {micro_rows_##mr, micro_columns_##mr}},
static const struct {
    int rows;
    micro *run[2];
} micros[] = {TILE_HEIGHTS(BOTH)};

/* The sum over k rows of a packed panel, like a chain of a product with ones. */
static void sum_columns(float *out, const float *rows, int64_t k, int64_t columns, bool add) {
    vec sum[NV];
    for (int v = 0; v < NV; v++) {
        sum[v] = vload(rows + v * LANES);
    }
    for (int64_t i = 1; i < k; i++) {
        for (int v = 0; v < NV; v++) {
            sum[v] = vadd(sum[v], vload(rows + i * NR + v * LANES));
        }
    }
    for (int v = 0; v < NV && v * LANES < columns; v++, out += LANES) {
        int64_t left = columns - v * LANES;
        store_part(out, add ? vadd(load_part(out, left), sum[v]) : sum[v], left);
    }
}

/* Packs one panel of op(B), and sums its columns when asked. */
static void pack_panel(void *context, int64_t panel, int thread) {
    const struct job *job = context;
    const struct product *p = job->p;
    (void)thread;
    float *to = job->packed + panel * job->k_count * NR;
    int64_t column = job->n0 + panel * NR, columns = at_most(NR, p->n - column);
    pack_b(&p->b, p->trans_b, to, job->k0, job->k_count, column, columns);
    for (int64_t k0 = 0; p->column_sum && k0 < job->k_count; k0 += KC) {
        sum_columns(p->column_sum + column, to + k0 * NR, at_most(KC, job->k_count - k0), columns,
                    p->column_add || job->k0 + k0 > 0);
    }
}

/* Writes what was formed in scratch; at[row] is where each row goes. */
static void emit(const struct product *p, const float *from, int64_t ld, const int64_t *at,
                 int64_t rows, int64_t column, int64_t columns) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j += LANES) {
            store_part((float *)p->c.out.data + at[i] + column + j, vload(from + i * ld + j),
                       at_most(LANES, columns - j));
        }
    }
}

/* What a tile of work knows. */
struct work {
    const struct job *job;
    float *packed_a, *aside, *lines;
    int64_t *at;             /* where rows go, if formed in scratch */
    int64_t row, rows;       /* this block; */
    int64_t first, last;     /* panels */
    struct near near;        /* what will be packed next */
    int64_t lines_each_call; /* of it */
};

/* Groups of rows from `first_row` to `end_row` of the block by one panel, `run` terms from k0 (of
 * this piece). */
static void multiply_panel(struct work *w, int64_t panel, int64_t first_row, int64_t end_row,
                           int64_t k0, int64_t run) {
    const struct job *job = w->job;
    const struct product *p = job->p;
    int64_t column = job->n0 + panel * NR, columns = at_most(NR, p->n - column);
    const float *bias = p->bias ? p->bias + column : NULL;
    bool start = job->k0 + k0 == 0;
    float *c = w->aside + (panel - w->first) * NR;
    int64_t ldc = (w->last - w->first) * NR;
    if (!job->aside) {
        ldc = p->c.ld;
        c = (float *)p->c.out.data + w->row * ldc + column;
    }
    for (int64_t i = 0; i < run || (i == 0 && run == 0); i += KC) {
        const float *b = job->packed + (panel * job->k_count + k0 + i) * NR;
        const float *a = w->packed_a + i / KC * BLOCK_FLOATS;
        int64_t k = at_most(KC, run - i);
        enum how how = i > 0 || !start || p->add ? ADD : bias ? STORE_BIAS : STORE;
        /* what is multiplied next: these columns' next terms, or the next panel */
        const float *ahead = i + KC < run ? b + KC * NR : b + (job->k_count - i) * NR;
        int64_t slice = ceil_div(k * NR, 16 * ceil_div(end_row - first_row, MR)) * 16;
        for (int64_t r = first_row; r < end_row; r += MR, ahead += slice) {
            const float *group = a + r / MR * GROUP_FLOATS;
            int64_t left = at_most(MR, end_row - r), done = 0;
            near_fetch(&w->near, w->lines_each_call);
            for (size_t m = 0; left > 0; m++) {
                for (; left >= micros[m].rows; left -= micros[m].rows, done += micros[m].rows) {
                    micros[m].run[p->trans_a](k, group + done * (p->trans_a ? 1 : ROW_STRIDE), b,
                                              c + (r + done) * ldc, ldc, columns, how, bias, ahead);
                }
            }
        }
    }
    if (job->aside && k0 + run == p->k && end_row == w->rows) {
        emit(p, c, ldc, w->at, w->rows, column, columns);
    }
}

/* Some rows, all of whose columns are few. */
static void multiply_directly(void *context, int64_t tile, int thread) {
    const struct job *job = context;
    int64_t row = tile * job->tile_rows;
    (void)thread;
    ISA_NAME(direct_rows_tile)(job->p, job->packed, row, at_most(job->tile_rows, job->p->m - row));
}

/* Some blocks of rows by one part of the panels. */
static void multiply(void *context, int64_t tile, int thread) {
    const struct job *job = context;
    const struct product *p = job->p;
    int64_t part = tile % job->parts, row = tile / job->parts * job->tile_rows;
    int64_t end = at_most(p->m, row + job->tile_rows);
    struct work w = {.job = job,
                     .packed_a = cpu_private(job->cpu, thread),
                     .first = job->panels * part / job->parts,
                     .last = job->panels * (part + 1) / job->parts};
    w.aside = w.packed_a + A_RUN / KC * BLOCK_FLOATS;
    w.at = (int64_t *)(w.aside + MC * PART_COLUMNS);
    w.lines = (float *)(w.at + MC);
    for (; row < end; row += job->rows) {
        w.row = row;
        w.rows = at_most(job->rows, end - row);
        for (int64_t i = 0; job->aside && i < w.rows; i++) {
            w.at[i] = result_row(&p->c, row + i);
        }
        for (int64_t k0 = 0; k0 < job->k_count || (k0 == 0 && job->k_count == 0); k0 += A_RUN) {
            int64_t run = at_most(A_RUN, job->k_count - k0);
            bool same = k0 + run < job->k_count; /* rows next time */
            int64_t next_row = same ? row : row + job->rows, next_k0 = same ? k0 + run : 0;
            w.near = near_a(&p->a, p->trans_a, next_row, at_most(job->rows, end - next_row),
                            job->k0 + next_k0, at_most(A_RUN, job->k_count - next_k0));
            int64_t calls = ceil_div(run, KC) * ceil_div(w.rows, MR) * (w.last - w.first);
            w.lines_each_call = ceil_div(near_lines(&w.near), at_least(1, calls));
            /* Few columns: A is read from the first-level cache. */
            bool narrow = !p->trans_a && w.last - w.first <= NARROW_PANELS;
            int64_t each = narrow ? MR : w.rows;
            for (int64_t r = 0; r < w.rows; r += each) {
                int64_t end_row = at_most(w.rows, r + each);
                for (int64_t i = 0; i < run; i += KC) {
                    pack_a(&p->a, p->trans_a,
                           w.packed_a + i / KC * BLOCK_FLOATS + r / MR * GROUP_FLOATS, row + r,
                           end_row - r, job->k0 + k0 + i, at_most(KC, run - i), w.lines,
                           LINE_FLOATS);
                }
                for (int64_t panel = w.first; panel < w.last; panel++) {
                    multiply_panel(&w, panel, r, end_row, k0, run);
                }
            }
        }
    }
}

void ISA_NAME(product_f32)(struct culm_cpu *cpu, const struct product *p) {
    struct job job = {.p = p, .cpu = cpu, .packed = cpu_shared(cpu) + p->first_free};
    job.aside = p->c.kind != RESULT_ROWS;
    assert(!job.aside || (!p->add && p->k <= PRODUCT_MAX_TERMS));
    assert(!p->add || !p->bias);
    if (!p->m || !p->n) {
        return;
    }
    if (ISA_NAME(direct_columns)(p)) {
        ISA_NAME(direct_columns_run)(cpu, p);
        return;
    }
    if (ISA_NAME(long_product)(p)) {
        ISA_NAME(long_product_run)(cpu, p);
        return;
    }
    int64_t piece = K_PIECE;
    if (job.aside || p->b.kind == OPERAND_WEIGHTS) {
        piece = at_least(1, at_most(p->k, PRODUCT_MAX_TERMS / KC * KC));
    } else if (p->k > K_PIECE && p->m * p->n <= SMALL_RESULT) {
        piece = at_least(KC, at_most(K_PIECE, SMALL_RESULT / 2 / p->n / KC * KC));
    }
    for (job.k0 = 0; job.k0 < p->k || (job.k0 == 0 && p->k == 0); job.k0 += piece) {
        job.k_count = at_most(piece, p->k - job.k0);
        int64_t space = SHARED_FLOATS - p->first_free;
        int64_t most = at_least(1, space / at_least(1, job.k_count) / NR) * NR;
        for (job.n0 = 0; job.n0 < p->n; job.n0 += most) {
            job.panels = ceil_div(at_most(most, p->n - job.n0), NR);
            culm_cpu_run(cpu, job.panels, pack_panel, &job);
            if (job.k_count == p->k && job.panels * NR >= p->n && ISA_NAME(direct_rows)(p)) {
                job.tile_rows = round_up(at_least(MC, ceil_div(p->m, 16 * cpu->threads)), MR);
                culm_cpu_run(cpu, ceil_div(p->m, job.tile_rows), multiply_directly, &job);
                continue;
            }
            job.rows = round_up(ceil_div(p->m, ceil_div(p->m, MC)), MR); /* of equal size */
            int64_t blocks = ceil_div(p->m, job.rows);
            job.parts = 1;
            if (cpu->threads > 1) { /* enough tiles that the last ones even out */
                job.parts =
                    at_least(1, at_most(job.panels / 4, ceil_div(8 * cpu->threads, blocks)));
            }
            if (job.aside) {
                job.parts = at_least(job.parts, ceil_div(job.panels, PART_COLUMNS / NR));
            }
            int64_t each = at_least(1, at_most(16, blocks * job.parts / (8 * cpu->threads)));
            job.tile_rows = each * job.rows;
            culm_cpu_run(cpu, ceil_div(blocks, each) * job.parts, multiply, &job);
        }
    }
}
ALIKE(product_f32);

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

void ISA_NAME(gemm)(struct culm_cpu *cpu, const struct culm_gemm_args *args) {
    assert(args->beta == 0.0f || args->beta == 1.0f);
    struct product p = plain(args->trans_a, args->trans_b, args->m, args->n, args->k, args->a,
                             args->lda, args->b, args->ldb, args->c, args->ldc);
    p.add = args->beta == 1.0f;
    ISA_NAME(product_f32)(cpu, &p);
}
ALIKE(gemm);
