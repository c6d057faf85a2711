/*
 * Sums, means and largest elements over some dimensions; softmax.
 *
 * Neighbouring dimensions that are both kept, or both reduced, are taken as one. What is left is,
 * from the outside, reduced, kept, reduced, kept (columns), or kept, reduced, kept, reduced (rows).
 * A column is added up in order, in pieces of PIECE rows that are then added; a row in 16 lanes, in
 * pieces of RUN elements, folded by halves. Where the results are too few to keep threads busy, the
 * reduced elements are cut into fixed blocks whose results are put together in order.
 */
#include "device/cpu/columns.h"
#include "device/cpu/dots.h"
#include "device/cpu/functions.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define STRIP COLUMN_STRIP
#define PIECE COLUMN_PIECE
#define RUN 4096 /* elements; a multiple of LANES */
#define BLOCKS COLUMN_BLOCKS

struct reduce {
    struct culm_out y;
    struct culm_in x, factor; /* factor NULL: x alone */
    bool largest;
    float scale;
    int64_t dim[4]; /* columns: reduced, kept, reduced, kept; rows: kept, reduced, kept, reduced */
    bool columns;
    int64_t results, terms; /* per result */
    int64_t blocks, block;  /* of terms; units of a block */
    int64_t strips, tile_results;
    float *partial; /* [blocks][results]; NULL with one block */
};

SIMD vec start_of(const struct reduce *s) { return s->largest ? vset(-INFINITY) : vzero(); }

SIMD vec join(bool largest, vec sum, vec v) { return largest ? vmax(v, sum) : vadd(sum, v); }

SIMD vec term(const struct reduce *s, int64_t at, int64_t n) {
    vec v = tload_part(s->x, at, n);
    return s->factor.data ? vmul(v, tload_part(s->factor, at, n)) : v;
}

/* Results [i, i + n), n at most LANES, from their sums. */
SIMD void give(const struct reduce *s, int64_t i, vec sum, int64_t n) {
    tstore_part(s->y, i, s->largest ? sum : vmul(sum, vset(s->scale)), n);
}

/* ---- columns: x[r][kept][q][column] ---- */

SIMD void columns_loop(const struct reduce *s, int64_t tile, bool largest, bool f32) {
    _Alignas(64) float piece[STRIP], total[STRIP];
    struct reduce local = *s;
    if (f32) {
        local.x.dtype = local.factor.dtype = CULM_F32;
    }
    int64_t strip = tile % s->strips, block = tile / s->strips % s->blocks;
    int64_t kept = tile / s->strips / s->blocks, width = s->dim[3];
    int64_t column = strip * STRIP, n = at_most(STRIP, width - column);
    int64_t from = block * s->block, to = at_most(s->terms, from + s->block);
    for (int64_t i = 0; i < n; i += LANES) {
        vstore(total + i, start_of(s));
    }
    for (int64_t first = from; first < to; first += PIECE) {
        for (int64_t i = 0; i < n; i += LANES) {
            vstore(piece + i, start_of(s));
        }
        for (int64_t q = first; q < at_most(to, first + PIECE); q++) {
            int64_t row = (q / s->dim[2] * s->dim[1] + kept) * s->dim[2] + q % s->dim[2];
            int64_t at = row * width + column;
            for (int64_t i = 0; i < n; i += LANES) {
                vstore(piece + i, join(largest, vload(piece + i), term(&local, at + i, n - i)));
            }
        }
        for (int64_t i = 0; i < n; i += LANES) {
            vstore(total + i, join(largest, vload(total + i), vload(piece + i)));
        }
    }
    int64_t result = kept * width + column;
    for (int64_t i = 0; i < n; i += LANES) {
        if (s->partial) {
            store_part(s->partial + block * s->results + result + i, vload(total + i), n - i);
        } else {
            give(s, result + i, vload(total + i), n - i);
        }
    }
}

static void columns_tile(void *context, int64_t tile, int thread) {
    const struct reduce *s = context;
    (void)thread;
    bool f32 =
        SPECIAL && s->x.dtype == CULM_F32 && (!s->factor.data || s->factor.dtype == CULM_F32);
    if (f32 && !s->largest) {
        columns_loop(s, tile, false, true);
    } else {
        columns_loop(s, tile, s->largest, false);
    }
}

/* ---- rows: x[kept][r][kept][q] ---- */

/* Of [begin, end) of the run at x[at]. */
SIMD vec sum_of_run(const struct reduce *s, int64_t at, int64_t begin, int64_t end, bool largest) {
    vec sum = start_of(s);
    int64_t i = begin;
    for (; i + LANES <= end; i += LANES) {
        sum = join(largest, sum, term(s, at + i, LANES));
    }
    if (i < end) {
        vec v = term(s, at + i, end - i);
        sum = join(largest, sum, vselect(vfirst(end - i), v, start_of(s)));
    }
    return join(largest, start_of(s), sum);
}

/* Units are pieces of at most RUN elements of a run, runs in order. */
SIMD float row_of(const struct reduce *s, int64_t result, int64_t from, int64_t to, bool largest,
                  bool f32) {
    struct reduce local = *s;
    if (f32) {
        local.x.dtype = local.factor.dtype = CULM_F32;
    }
    int64_t run = s->dim[3], pieces = ceil_div(run, RUN);
    int64_t outer = result / s->dim[2], inner = result % s->dim[2];
    vec total = start_of(s);
    for (int64_t unit = from; unit < to; unit++) {
        int64_t r = unit / pieces, begin = unit % pieces * RUN, end = at_most(run, begin + RUN);
        int64_t at = ((outer * s->dim[1] + r) * s->dim[2] + inner) * run;
        total = join(largest, total, sum_of_run(&local, at, begin, end, largest));
    }
    return largest ? vmax_of(total) : vsum(total);
}

/* Sums of short rows of f32, eight at a time, from result i on: how many it has made. */
SIMD int64_t short_rows(const struct reduce *s, int64_t i, int64_t end, bool eight) {
    struct reduce local = *s;
    int64_t first = i, run = s->dim[3];
    local.x.dtype = local.factor.dtype = CULM_F32;
    for (; i + 8 <= end; i += 8) {
        float sum[8];
        vec part[8];
        if (eight) {
            for (int k = 0; k < 4; k++) { /* two rows a vector */
                part[k] = vadd(vzero(), term(&local, i * 8 + k * LANES, LANES));
            }
            vsum_8_of_4(part, sum);
        } else {
            for (int k = 0; k < 8; k++) {
                part[k] = sum_of_run(&local, (i + k) * run, 0, run, false);
            }
            vsum_of_8(part, sum);
        }
        give(s, i, vload_n(sum, 8), 8);
    }
    return i - first;
}

static void rows_tile(void *context, int64_t tile, int thread) {
    const struct reduce *s = context;
    (void)thread;
    bool f32 =
        SPECIAL && s->x.dtype == CULM_F32 && (!s->factor.data || s->factor.dtype == CULM_F32);
    int64_t block = tile % s->blocks, i = tile / s->blocks * s->tile_results;
    int64_t from = block * s->block, to = at_most(s->terms, from + s->block);
    int64_t end = at_most(s->results, i + s->tile_results);
    if (f32 && !s->largest && !s->partial && s->terms == 1) {
        i += s->dim[3] == 8 ? short_rows(s, i, end, true) : short_rows(s, i, end, false);
    }
    for (; i < end; i++) {
        float sum = f32 && !s->largest ? row_of(s, i, from, to, false, true)
                                       : row_of(s, i, from, to, s->largest, false);
        if (s->partial) {
            s->partial[block * s->results + i] = sum;
        } else {
            give(s, i, vset(sum), 1);
        }
    }
}

static void fold_tile(void *context, int64_t tile, int thread) {
    const struct reduce *s = context;
    (void)thread;
    for (int64_t i = tile * STRIP; i < at_most(s->results, (tile + 1) * STRIP); i += LANES) {
        int64_t n = s->results - i;
        vec sum = load_part(s->partial + i, n);
        for (int64_t block = 1; block < s->blocks; block++) {
            sum = join(s->largest, sum, load_part(s->partial + block * s->results + i, n));
        }
        give(s, i, sum, n);
    }
}

/* Fills dim[] and columns; the last of up to four groups is kept or reduced. */
static void collapse(struct reduce *s, const struct culm_shape *x, int64_t axes) {
    int64_t group[CULM_MAX_RANK + 1];
    bool reduced[CULM_MAX_RANK + 1];
    int count = 0;
    for (int i = 0; i < x->rank; i++) {
        bool now = axes >> i & 1;
        if (x->dim[i] == 1) {
            continue;
        }
        if (count && reduced[count - 1] == now) {
            group[count - 1] *= x->dim[i];
        } else {
            group[count] = x->dim[i];
            reduced[count++] = now;
        }
    }
    s->columns = !count || !reduced[count - 1];
    for (int i = 0; i < 4; i++) {
        s->dim[3 - i] = i < count ? group[count - 1 - i] : 1;
    }
}

static void reduce(struct culm_cpu *cpu, struct reduce *s, const struct culm_shape *x,
                   int64_t axes) {
    collapse(s, x, axes);
    int64_t tiles;
    if (s->columns) {
        s->results = s->dim[1] * s->dim[3];
        s->terms = s->dim[0] * s->dim[2];
        s->strips = ceil_div(s->dim[3], STRIP);
        tiles = s->dim[1] * s->strips;
    } else {
        s->results = s->dim[0] * s->dim[2];
        s->terms = s->dim[1] * ceil_div(s->dim[3], RUN); /* units */
        int64_t each = s->dim[1] * s->dim[3];
        s->tile_results = at_least(at_least(1, 8192 / each), ceil_div(s->results, 1 << 20));
        tiles = ceil_div(s->results, s->tile_results);
    }
    struct column_blocks cut = blocks_of(tiles, s->results, s->terms, s->columns ? 64 : 1);
    s->blocks = cut.count;
    s->block = cut.terms;
    s->partial = s->blocks > 1 ? cpu_shared(cpu) : NULL;
    assert(tiles * s->blocks < 1 << 24);
    culm_cpu_run(cpu, tiles * s->blocks, s->columns ? columns_tile : rows_tile, s);
    if (s->partial) {
        culm_cpu_run(cpu, ceil_div(s->results, STRIP), fold_tile, s);
    }
}

void ISA_NAME(reduce)(struct culm_cpu *cpu, const struct culm_reduce_args *args) {
    struct reduce s = {
        .y = args->y, .x = args->x, .factor = args->factor, .scale = (float)args->scale};
    s.largest = args->function == CULM_FUNCTION_MAX;
    assert(s.largest || args->function == CULM_FUNCTION_SUM);
    reduce(cpu, &s, args->x_shape, args->axes);
}

/* ---- the gradient of a largest element, shared by all that are as large ---- */

struct largest {
    struct reduce r; /* y is dx; x is x */
    struct culm_in dy, y;
};

SIMD float one_of(struct culm_in x, int64_t i) {
    return x.dtype == CULM_BF16 ? bf16_widen(((const uint16_t *)x.data)[i])
                                : ((const float *)x.data)[i];
}

static int64_t place_of(const struct reduce *s, int64_t result, int64_t term) {
    const int64_t *d = s->dim;
    if (s->columns) {
        int64_t kept = result / d[3], row = (term / d[2] * d[1] + kept) * d[2] + term % d[2];
        return row * d[3] + result % d[3];
    }
    return ((result / d[2] * d[1] + term / d[3]) * d[2] + result % d[2]) * d[3] + term % d[3];
}

static void largest_tile(void *context, int64_t tile, int thread) {
    const struct largest *s = context;
    (void)thread;
    for (int64_t i = tile * s->r.tile_results;
         i < at_most(s->r.results, (tile + 1) * s->r.tile_results); i++) {
        float top = one_of(s->y, i), equal = 0;
        for (int64_t t = 0; t < s->r.terms; t++) {
            equal += one_of(s->r.x, place_of(&s->r, i, t)) == top;
        }
        float share = one_of(s->dy, i) / equal;
        for (int64_t t = 0; t < s->r.terms; t++) {
            int64_t at = place_of(&s->r, i, t);
            tstore_part(s->r.y, at, vset(one_of(s->r.x, at) == top ? share : 0.0f), 1);
        }
    }
}

void ISA_NAME(reduce_max_backward)(struct culm_cpu *cpu,
                                   const struct culm_reduce_max_backward_args *args) {
    struct largest s = {.r = {.y = args->dx, .x = args->x}, .dy = args->dy, .y = args->y};
    collapse(&s.r, args->x_shape, args->axes);
    const int64_t *d = s.r.dim;
    s.r.results = s.r.columns ? d[1] * d[3] : d[0] * d[2];
    s.r.terms = s.r.columns ? d[0] * d[2] : d[1] * d[3];
    /* whole vectors of columns, so that no two threads write one line much */
    s.r.tile_results = at_least(LANES, ceil_div(s.r.results, 1 << 20));
    culm_cpu_run(cpu, ceil_div(s.r.results, s.r.tile_results), largest_tile, &s);
}

/* ---- softmax over rows ---- */

#define SOFTMAX_TILE 8192 /* elements, about */

struct softmax {
    struct culm_cpu *cpu;
    struct culm_out y;
    struct culm_in x, dy;
    int64_t n, c, tile_rows;
};

static void softmax_tile(void *context, int64_t tile, int thread) {
    const struct softmax *s = context;
    float *e = cpu_private(s->cpu, thread);
    for (int64_t row = tile * s->tile_rows; row < at_most(s->n, (tile + 1) * s->tile_rows); row++) {
        int64_t at = row * s->c;
        vec top = vset(-INFINITY), sum = vzero();
        for (int64_t i = 0; i < s->c; i += LANES) {
            vec v = tload_part(s->x, at + i, s->c - i);
            if (s->c - i < LANES) {
                v = vselect(vfirst(s->c - i), v, vset(-INFINITY));
            }
            vstore(e + i, v);
            top = vmax(top, v);
        }
        vec most = vset(vmax_of(top));
        for (int64_t i = 0; i < s->c; i += LANES) { /* past the end: e^-inf = 0 */
            vec v = vexp(vsub(vload(e + i), most));
            vstore(e + i, v);
            sum = vadd(sum, v);
        }
        vec share = vset(1.0f / vsum(sum));
        for (int64_t i = 0; i < s->c; i += LANES) {
            tstore_part(s->y, at + i, vmul(vload(e + i), share), s->c - i);
        }
    }
}

static void softmax_backward_tile(void *context, int64_t tile, int thread) {
    const struct softmax *s = context;
    (void)thread;
    for (int64_t row = tile * s->tile_rows; row < at_most(s->n, (tile + 1) * s->tile_rows); row++) {
        int64_t at = row * s->c;
        vec sum = vzero();
        for (int64_t i = 0; i < s->c; i += LANES) {
            sum =
                vfma(tload_part(s->dy, at + i, s->c - i), tload_part(s->x, at + i, s->c - i), sum);
        }
        vec mean = vset(vsum(sum));
        for (int64_t i = 0; i < s->c; i += LANES) {
            vec d = vsub(tload_part(s->dy, at + i, s->c - i), mean);
            tstore_part(s->y, at + i, vmul(d, tload_part(s->x, at + i, s->c - i)), s->c - i);
        }
    }
}

static void run_softmax(struct culm_cpu *cpu, struct softmax *s, culm_cpu_tile *tile) {
    assert(s->c <= CULM_CPU_MAX_SOFTMAX);
    s->tile_rows = at_least(at_least(1, SOFTMAX_TILE / s->c), ceil_div(s->n, 1 << 20));
    culm_cpu_run(cpu, ceil_div(s->n, s->tile_rows), tile, s);
}

void ISA_NAME(softmax_forward)(struct culm_cpu *cpu, const struct culm_softmax_forward_args *args) {
    struct softmax s = {.cpu = cpu, .y = args->y, .x = args->x, .n = args->n, .c = args->c};
    run_softmax(cpu, &s, softmax_tile);
}

void ISA_NAME(softmax_backward)(struct culm_cpu *cpu,
                                const struct culm_softmax_backward_args *args) {
    struct softmax s = {
        .cpu = cpu, .y = args->dx, .x = args->y, .dy = args->dy, .n = args->n, .c = args->c};
    run_softmax(cpu, &s, softmax_backward_tile);
}
