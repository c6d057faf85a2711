/*
 * Products in f32 of op(A) = A^T with few rows, and terms as many as there are samples: the gradient of a
 * layer's weights. Bits as in gemm.c, whose chains of KC terms these are.
 *
 * All of B is used by these few rows only, so packing it first, through far caches, costs a good part of
 * the product. Here it goes by KC terms: they are packed of A, for all rows, and of one panel of B after the
 * other, which then lies in the first-level cache for all rows. The next KC terms of both come from memory
 * meanwhile. With AVX-512 it has not been measured, and is not done.
 */
#include "device/cpu/gemm_long.h"
#include "device/cpu/gemm_direct.h"
#include "device/cpu/gemm_later.h"
#include "device/cpu/tile.h"

#define GROUP (MR > 8 ? 16 : 6) /* floats of a term in a group of MR rows */
#define GROUP_FLOATS (KC * GROUP + LANES)
#define ASK_TERMS 4 /* of a chain, between askings for memory */

_Static_assert((LONG_ROWS / MR + 1) * GROUP_FLOATS + KC * NR <= PRIVATE_FLOATS, "a tile's scratch");

/* What a call of a kernel knows. */
struct call {
    const float *a, *b; /* packed */
    const float *bias;
    float *c;
    int64_t ldc, k, columns;
    enum how how;
    struct later later[2];
};

SIMD void long_chain(vec acc[MR][NV], const int mr, struct call *f) {
    struct later a_later = f->later[0], b_later = f->later[1];
    const float *a = f->a, *b = f->b;
    int64_t left = f->k;
    chain_begin(acc, mr);
    for (; left >= ASK_TERMS; left -= ASK_TERMS) {
        later_fetch(&a_later);
        later_fetch(&b_later);
#pragma GCC unroll 4
        for (int t = 0; t < ASK_TERMS; t++) {
            chain_term(acc, mr, 1, a + t * GROUP, b + t * NR);
        }
        a += ASK_TERMS * GROUP;
        b += ASK_TERMS * NR;
    }
    for (; left > 0; left--, a += GROUP, b += NR) {
        chain_term(acc, mr, 1, a, b);
    }
    f->later[0] = a_later;
    f->later[1] = b_later;
}

typedef void kernel(struct call *f);
#define EACH(mr)                                                                                   \
    static void long_##mr(struct call *f) {                                                        \
        vec acc[MR][NV];                                                                           \
        long_chain(acc, mr, f);                                                                    \
        finish(acc, mr, f->c, f->ldc, f->columns, f->how, f->bias);                                \
    }
#define ENTRY(mr) {mr, long_##mr},
TILE_HEIGHTS(EACH)
static const struct {
    int mr;
    kernel *run;
} kernels[] = {TILE_HEIGHTS(ENTRY)};

bool ISA_NAME(long_product)(const struct product *p) {
    return !SIMD_WIDE && p->trans_a && !p->trans_b && p->a.kind == OPERAND_ROWS &&
           p->b.kind == OPERAND_ROWS && p->c.kind == RESULT_ROWS && p->k > 0 && p->m <= LONG_ROWS &&
           !p->column_sum;
}

/* k terms of op(A), as groups [k][GROUP] of MR rows. */
static void pack_groups(float *to, const float *a, int64_t lda, int64_t rows, int64_t k) {
    for (int64_t i = 0; i < k; i++, a += lda, to += GROUP) {
        float *group = to;
        for (int64_t r = 0; r < rows; r += MR, group += GROUP_FLOATS) {
            vstore(group, load_part(a + r, rows - r)); /* the next term is written over the rest */
        }
    }
}

/* k terms of a panel of B, [k][NR]; beyond its columns is zero. */
static void pack_panel(float *to, const float *b, int64_t ldb, int64_t columns, int64_t k) {
    for (int64_t i = 0; i < k; i++, b += ldb, to += NR) {
        for (int v = 0; v < NV; v++) {
            int64_t left = columns - v * LANES;
            vstore(to + v * LANES, left > 0 ? load_part(b + v * LANES, left) : vzero());
        }
    }
}

/* What of C is one tile of work: some of the longer side, as evenly as threads can share it. */
struct job {
    const struct product *p;
    struct culm_cpu *cpu;
    int64_t rows, columns; /* of a tile; whole groups of MR, whole panels */
    int64_t across;        /* tiles beside each other */
};

static void long_tile(void *context, int64_t tile, int thread) {
    const struct job *job = context;
    const struct product *p = job->p;
    const int64_t first = tile / job->across * job->rows, rows = at_most(job->rows, p->m - first);
    const int64_t from = tile % job->across * job->columns;
    const int64_t to = at_most(p->n, from + job->columns);
    const int64_t calls = ceil_div(rows, MR) * ceil_div(to - from, NR);
    float *groups = cpu_private(job->cpu, thread);
    float *panel = groups + ceil_div(rows, MR) * GROUP_FLOATS;
    struct call f = {.ldc = p->c.ld};
    for (int64_t k0 = 0; k0 < p->k; k0 += KC) {
        const float *a = (const float *)p->a.data + k0 * p->a.ld + first;
        const float *b = (const float *)p->b.data + k0 * p->b.ld;
        f.k = at_most(KC, p->k - k0);
        f.how = k0 > 0 || p->add ? ADD : p->bias ? STORE_BIAS : STORE;
        int64_t times = calls * (f.k / ASK_TERMS);
        f.later[0] = later_rows(a + KC * p->a.ld, KC, rows, p->a.ld, times);
        f.later[1] = later_rows(b + KC * p->b.ld + from, KC, to - from, p->b.ld, times);
        pack_groups(groups, a, p->a.ld, rows, f.k);
        for (int64_t column = from; column < to; column += NR) {
            f.columns = at_most(NR, to - column);
            pack_panel(panel, b + column, p->b.ld, f.columns, f.k);
            f.b = panel;
            f.bias = p->bias ? p->bias + column : NULL;
            int64_t row = 0;
            for (size_t m = 0; row < rows; m++) {
                for (; rows - row >= kernels[m].mr; row += kernels[m].mr) {
                    f.a = groups + row / MR * GROUP_FLOATS + row % MR;
                    f.c = (float *)p->c.out.data + (first + row) * f.ldc + column;
                    kernels[m].run(&f);
                }
            }
        }
    }
}

void ISA_NAME(long_product_run)(struct culm_cpu *cpu, const struct product *p) {
    struct job job = {p, cpu, p->m, p->n, 1};
    int64_t panels = ceil_div(p->n, NR), groups = ceil_div(p->m, MR);
    if (panels > groups) {
        job.columns = ceil_div(panels, cpu->threads) * NR;
        job.across = ceil_div(p->n, job.columns);
    } else {
        job.rows = ceil_div(groups, cpu->threads) * MR;
    }
    culm_cpu_run(cpu, ceil_div(p->m, job.rows) * job.across, long_tile, &job);
}
