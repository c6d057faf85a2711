/*
 * Matrix products in bf16: operands are rounded to bf16 when they are packed (bf16 ones are taken
 * as they are), products are exact, sums are f32, and the result is rounded once if it is bf16.
 *
 * What fixes the bits: an element is one sum over all k, in the order of the device's flavour
 * (strip.h), starting from zero; then it is added to the bias or to C. Terms are padded
 * with zeros to a multiple of 32. A flavour gives the same bits on every instruction set: where the
 * instruction is missing, the widened operands go through f32 multiply-adds in the same order. The
 * cut into tiles and the number of threads do not enter.
 *
 * How it is done: a tile is a block of columns of C, with all rows (or a part of them). It packs
 * its block of B into the thread's scratch, K_MOST terms at a time, where it stays in the second
 * cache; then strip by strip of rows, A is packed and multiplied with each pair of panels. So what
 * usually is the larger operand, the weights, is read and rounded once, without a stored copy.
 * Sums over more than K_MOST terms wait in scratch. A finished piece of C is written while the next
 * one is computed.
 */
#include "device/cpu/gemm_amx.h"
#include "device/cpu/gemm_bf16_micro.h"
#include "device/cpu/gemm_bf16_pack.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define SUM_RUN 256             /* rows whose column sums are one chain; divides K_MOST */
#define B_ELEMENTS (640 * 1024) /* of packed B */
#define A_FLOATS (2 * STRIP_MOST * K_MOST) /* of packed strips: two widened or four in bf16 */
#define STREAM_FLOATS (1 << 20)            /* of a result that no cache near is meant to keep */
#define PIECE (STRIP_MOST * STRIP_COLUMNS)
#define FIXED_FLOATS (B_ELEMENTS / 2 + A_FLOATS + 2 * PIECE)
#define PARTIAL_FLOATS (PRIVATE_FLOATS - FIXED_FLOATS) /* at least, for sums that wait */
_Static_assert(PARTIAL_FLOATS >= 80 * 1024, "a tile's scratch");

struct job {
    const struct product *p;
    struct culm_cpu *cpu;
    struct strip_method method;
    int64_t k_step;           /* terms at a time */
    int64_t columns, blocks;  /* of a block of C, and how many */
    int64_t rows, row_blocks; /* of a tile */
    bool stream;              /* struct piece */
    float *partial;           /* for each thread; NULL: in its private scratch */
    int64_t partial_floats;
};

/* A piece of C that is computed and not yet written. */
struct piece {
    const float *c; /* NULL: none */
    int64_t rows, column, columns;
    bool stream; /* C is large, and lies well for being written past the caches */
    int64_t at[STRIP_MOST];
};

struct strip_method ISA_NAME(strip_method)(const struct culm_cpu *cpu) {
    bool amx = cpu->bf16_flavour == CULM_BF16_AMX;
#ifdef __AVX512BF16__
    if (amx && cpu->has_amx) {
        return (struct strip_method){.rows = STRIP_MOST, .amx = true, .run = culm_cpu_amx_strip};
    }
    if (!amx && cpu->fast_dot) {
        return (struct strip_method){.rows = DOT_ROWS, .run = strip_dot};
    }
#endif
    return (struct strip_method){
        .rows = WIDE_ROWS, .wide = true, .run = amx ? strip_as_amx : strip_portable};
}

/* Sums of the columns over the terms that were packed, each run of SUM_RUN a chain. */
static void sum_packed(const struct product *p, const uint16_t *packed, int64_t column,
                       int64_t columns, int64_t k0, int64_t k) {
    int64_t kblocks = ceil_div(k, 32);
    for (int64_t panel = 0; panel * PANEL < columns; panel++) {
        float *to = p->column_sum + column + panel * PANEL;
        int64_t left = columns - panel * PANEL;
        for (int64_t run = 0; run < k; run += SUM_RUN) {
            vec sum = vzero();
            for (int64_t i = run; i < at_most(k, run + SUM_RUN); i++) {
                const uint16_t *tile =
                    panel_at((uint16_t *)packed, kblocks, panel, i / 32) + i % 32 / 2 * 2 * PANEL;
                uvec both = load_pairs(tile);
                vec x = i % 2 ? odd_of(both) : even_of(both);
                sum = i == run ? x : vadd(sum, x);
            }
            bool add = p->column_add || k0 + run > 0;
            store_part(to, add ? vadd(load_part(to, left), sum) : sum, left);
        }
    }
}

SIMD void store_both(uint16_t *to, vec a, vec b) {
#ifdef __AVX512BF16__
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(b, a));
#else
    vstore_bf16(to, a);
    vstore_bf16(to + LANES, b);
#endif
}

/* Past the caches, to an aligned place. */
#if SIMD_WIDE
SIMD void store_past(float *to, vec x) { _mm512_stream_ps(to, x); }
SIMD void stores_past_done(void) { _mm_sfence(); }
#else
SIMD void store_past(float *to, vec x) { vstore(to, x); }
SIMD void stores_past_done(void) {}
#endif

static void write_piece(const struct product *p, const struct piece *piece) {
    const float *from = piece->c, *bias = p->bias ? p->bias + piece->column : NULL;
    if (!from) {
        return;
    }
    if (piece->columns < STRIP_COLUMNS) {
        for (int64_t r = 0; r < piece->rows; r++) {
            for (int64_t j = 0; j < piece->columns; j += LANES) {
                int64_t at = piece->at[r] + piece->column + j, left = piece->columns - j;
                vec y = vload(from + r * STRIP_COLUMNS + j);
                if (p->add) {
                    y = vadd(tload_part(culm_in_of(p->c.out), at, left), y);
                } else if (bias) {
                    y = vadd(load_part(bias + j, left), y);
                }
                tstore_part(p->c.out, at, y, left);
            }
        }
        return;
    }
    vec bias0 = bias ? vload(bias) : vzero(), bias1 = bias ? vload(bias + LANES) : vzero();
    for (int64_t r = 0; r < piece->rows; r++, from += STRIP_COLUMNS) {
        int64_t at = piece->at[r] + piece->column;
        vec y0 = vload(from), y1 = vload(from + LANES);
        if (bias) {
            y0 = vadd(bias0, y0);
            y1 = vadd(bias1, y1);
        }
        if (p->c.out.dtype == CULM_BF16) {
            store_both((uint16_t *)p->c.out.data + at, y0, y1);
            continue;
        }
        float *to = (float *)p->c.out.data + at;
        if (p->add) {
            y0 = vadd(vload(to), y0);
            y1 = vadd(vload(to + LANES), y1);
        }
        if (piece->stream) {
            store_past(to, y0);
            store_past(to + LANES, y1);
        } else {
            vstore(to, y0);
            vstore(to + LANES, y1);
        }
    }
}

/* A's rows as they lie in memory, where AMX can load them from there; NULL: they must be packed. */
static const uint16_t *rows_in_place(const struct job *job, int64_t row, int64_t rows, int64_t k0,
                                     int64_t k) {
    const struct operand *a = &job->p->a;
    const uint16_t *from = (const uint16_t *)a->data + row * a->ld + k0;
    bool whole = rows == STRIP_MOST && k % 32 == 0;
    bool lines = (uintptr_t)from % 64 == 0 && a->ld % 32 == 0;
    bool plain = a->kind == OPERAND_ROWS && a->dtype == CULM_BF16 && !job->p->trans_a;
    return job->method.amx && plain && whole && lines ? from : NULL;
}

static void multiply(void *context, int64_t tile, int thread) {
    const struct job *job = context;
    const struct product *p = job->p;
    float *scratch = cpu_private(job->cpu, thread);
    uint16_t *packed_b = (uint16_t *)scratch;
    float *packed_a = scratch + B_ELEMENTS / 2, *two = packed_a + A_FLOATS;
    float *partial = job->partial ? job->partial + thread * job->partial_floats : two + 2 * PIECE;
    int64_t column0 = tile / job->row_blocks * job->columns, row_block = tile % job->row_blocks;
    int64_t columns = at_most(job->columns, p->n - column0);
    int64_t row0 = row_block * job->rows, row_end = at_most(p->m, row0 + job->rows);
    int64_t strip_rows = job->method.rows, pairs = ceil_div(columns, STRIP_COLUMNS);
    int64_t term_bytes = job->method.wide ? sizeof(float) : sizeof(uint16_t);
    int64_t together = !p->trans_a ? 1 : job->method.wide ? STRIPS_TURNED / 2 : STRIPS_TURNED;
    struct piece last = {.c = NULL, .stream = job->stream};
    if (job->method.amx) {
        culm_cpu_amx_begin();
    }
    for (int64_t k0 = 0; k0 < p->k || (k0 == 0 && p->k == 0); k0 += job->k_step) {
        int64_t k = at_most(job->k_step, p->k - k0), kblocks = ceil_div(k, 32);
        bool complete = k0 + k == p->k, alone = complete && k0 == 0;
        if (p->trans_b) {
            pack_b_across(&p->b, packed_b, column0, columns, k0, k);
        } else {
            pack_b_down(&p->b, packed_b, column0, columns, k0, k);
        }
        if (p->column_sum && row_block == 0) {
            sum_packed(p, packed_b, column0, columns, k0, k);
        }
        float *sums = partial;
        for (int64_t row = row0; row < row_end; row += strip_rows) {
            int64_t rows = at_most(strip_rows, row_end - row);
            const uint16_t *in_place = rows_in_place(job, row, rows, k0, k);
            int64_t at = (row - row0) / strip_rows % together;
            if (!in_place && at == 0) {
                pack_strip(p, &job->method, packed_a, row,
                           at_most(together * strip_rows, row_end - row), k0, k);
            }
            const char *strip =
                (const char *)packed_a + at * kblocks * strip_rows * term_bytes * 32;
            for (int64_t pair = 0; pair < pairs; pair++, sums += strip_rows * STRIP_COLUMNS) {
                float *c = alone ? two + pair % 2 * PIECE : sums;
                const uint16_t *b = packed_b + pair * kblocks * 2 * TILE;
                if (in_place) {
                    culm_cpu_amx_rows(kblocks, in_place, p->a.ld * 2, 64, b, c, rows, k0 > 0);
                } else {
                    job->method.run(kblocks, strip, b, c, rows, k0 > 0);
                }
                if (!complete) {
                    continue;
                }
                write_piece(p, &last);
                last.c = c;
                last.column = column0 + pair * STRIP_COLUMNS;
                last.columns = at_most(STRIP_COLUMNS, p->n - last.column);
                if (pair == 0) {
                    last.rows = rows;
                    for (int64_t r = 0; r < rows; r++) {
                        last.at[r] = result_row(&p->c, row + r);
                    }
                }
            }
            /* the rows of the next strip are elsewhere, and its first piece goes where this is */
            write_piece(p, &last);
            last.c = NULL;
        }
    }
    if (job->stream) {
        stores_past_done();
    }
    if (job->method.amx) {
        culm_cpu_amx_end();
    }
}

void ISA_NAME(product_bf16)(struct culm_cpu *cpu, const struct product *p) {
    struct job job = {.p = p, .cpu = cpu, .method = ISA_NAME(strip_method)(cpu)};
    assert(!p->add || (!p->bias && p->c.out.dtype == CULM_F32 && p->c.kind == RESULT_ROWS));
    if (!p->m || !p->n) {
        return;
    }
    int64_t threads = cpu->threads;
    int64_t k_pieces = at_least(1, ceil_div(p->k, K_MOST));
    job.k_step = at_least(SUM_RUN, round_up(ceil_div(p->k, k_pieces), SUM_RUN));
    int64_t most = B_ELEMENTS / job.k_step / STRIP_COLUMNS * STRIP_COLUMNS;
    /* As wide as fits, in a number of blocks that threads can share evenly. */
    job.blocks = ceil_div(p->n, most);
    if (job.blocks % threads && p->n >= threads * 4 * STRIP_COLUMNS) {
        job.blocks = round_up(job.blocks, threads);
    }
    job.columns = round_up(ceil_div(p->n, job.blocks), STRIP_COLUMNS);
    job.blocks = ceil_div(p->n, job.columns);
    job.stream = p->c.kind == RESULT_ROWS && p->c.out.dtype == CULM_F32 && !p->add &&
                 p->m * p->n >= STREAM_FLOATS && p->c.ld % LANES == 0 &&
                 (uintptr_t)p->c.out.data % 64 == 0;
    int64_t strips = ceil_div(p->m, job.method.rows);
    job.row_blocks = 1;
    if (job.blocks % threads) {
        job.row_blocks = at_most(at_least(1, strips / 4), 2 * threads);
    }
    if (p->k > job.k_step) {
        job.partial_floats = (SHARED_FLOATS - p->first_free) / threads;
        if (job.partial_floats >= PARTIAL_FLOATS) {
            job.partial = cpu_shared(cpu) + p->first_free;
        } else {
            job.partial_floats = PARTIAL_FLOATS;
        }
        int64_t fits = job.partial_floats / (job.columns * job.method.rows);
        job.row_blocks = at_least(job.row_blocks, ceil_div(strips, fits));
    }
    job.rows = ceil_div(strips, job.row_blocks) * job.method.rows;
    job.row_blocks = ceil_div(p->m, job.rows);
    culm_cpu_run(cpu, job.blocks * job.row_blocks, multiply, &job);
}

void ISA_NAME(gemm_bf16)(struct culm_cpu *cpu, const struct culm_gemm_bf16_args *args) {
    struct product p = {.m = args->m,
                        .n = args->n,
                        .k = args->k,
                        .a = operand_rows(args->a, args->lda),
                        .b = operand_rows(args->b, args->ldb),
                        .trans_a = args->trans_a,
                        .trans_b = args->trans_b,
                        .c = result_rows(args->c, args->ldc),
                        .bias = args->bias,
                        .add = args->add};
    ISA_NAME(product_bf16)(cpu, &p);
}
