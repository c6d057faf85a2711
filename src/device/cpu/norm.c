/*
 * Batch norm of rows [N,C], with a residual and a function folded in.
 *
 * Statistics in one walk through memory: fixed blocks of rows small enough for the second-level
 * cache are read twice, for the sum and for the squares around the block's own mean, and the blocks
 * are put together in order, in float64. Sums of backward run in order inside the same blocks. The
 * second walk takes the blocks from the last to the first, because the last ones are still in the
 * cache.
 *
 * Without a residual, backward finds again what the function saw from x, by the operations of
 * forward; with one it looks at y. Nothing but x (and y) need be kept.
 *
 * Few columns do not fill a vector: elements are normalised by coefficients that are repeated until they are
 * whole vectors. Where statistics are given, the gradient of x needs no sums, and is written in the walk for
 * those of the parameters.
 */
#include "device/cpu/functions.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define STRIP 64   /* columns that one thread folds */
#define REPEAT 512 /* floats at most, of coefficients that are repeated */
#define FEW 4      /* vectors of a row whose sums stay in registers, */
#define MANY 512   /* where columns are at most as many */

/* Per column, in shared scratch. */
enum { MEAN, SCALE, SHIFT, OFFSET, SLOPE, COEFFICIENTS };

struct norm {
    struct culm_batchnorm how;
    struct culm_in x, residual, dy, y;
    struct culm_out out, dresidual; /* y or dx */
    const float *gamma, *beta;
    float *mean, *variance, *dgamma, *dbeta, *sum_mean, *sum_variance;
    float *coefficient[COEFFICIENTS]; /* [width] each */
    float *partial;                   /* [blocks][3][width]; backward uses two */
    int64_t width, block_rows, blocks;
    bool first, fused; /* fused: the walk for the sums writes dx, too */
    int64_t period;    /* of the coefficients: c, or a multiple of it */
    const float *periodic[COEFFICIENTS];
    float repeated[COEFFICIENTS][REPEAT];
};

static struct norm norm_of(struct culm_cpu *cpu, const struct culm_batchnorm *how) {
    struct norm s = {.how = *how, .width = round_up(how->c, LANES)};
    assert(how->n > 0 && how->c > 0 && how->c <= CULM_CPU_MAX_WIDTH);
    float *shared = cpu_shared(cpu);
    for (int i = 0; i < COEFFICIENTS; i++) {
        s.coefficient[i] = shared + i * s.width;
    }
    s.partial = shared + COEFFICIENTS * s.width;
    int64_t most = (SHARED_FLOATS - COEFFICIENTS * s.width) / (3 * s.width);
    s.block_rows = at_least(32, at_most(256, 32768 / s.width));
    s.block_rows = at_least(s.block_rows, ceil_div(how->n, most));
    s.blocks = ceil_div(how->n, s.block_rows);
    return s;
}

static int64_t rows_of(const struct norm *s, int64_t block) {
    return at_most(s->how.n, (block + 1) * s->block_rows) - block * s->block_rows;
}

/* ---- statistics ---- */

/* first[c] = the first of `rows` rows from x[at] on, sum[c] = the sum of x - first. With
 * squares[c] not NULL: squares of x around the rows' mean, from first and sum. Sums of small
 * numbers keep their bits however large the mean is. */
SIMD void column_sums(float *first, float *sum, float *squares, struct culm_in x,
                      enum culm_dtype type, int64_t at, int64_t rows, int64_t c) {
    x.dtype = type;
    vec share = vset(1.0f / (float)rows);
    float *to = squares ? squares : sum;
    for (int64_t i = 0; i < c; i += LANES) {
        vstore(to + i, vzero());
        if (!squares) {
            vstore(first + i, tload_part(x, at + i, c - i));
        }
    }
    for (int64_t row = 0; row < rows; row += 4) {
        int64_t group = at_most(4, rows - row);
        for (int64_t i = 0; i < c; i += LANES) {
            vec total = vload(to + i), origin = vload(first + i), mean = vzero();
            if (squares) {
                mean = vmul(vload(sum + i), share);
            }
            if (group == 4) {
#pragma GCC unroll 4
                for (int64_t r = 0; r < 4; r++) {
                    vec d = vsub(tload_part(x, at + (row + r) * c + i, c - i), origin);
                    d = squares ? vsub(d, mean) : d;
                    total = squares ? vfma(d, d, total) : vadd(total, d);
                }
            } else {
                for (int64_t r = 0; r < group; r++) {
                    vec d = vsub(tload_part(x, at + (row + r) * c + i, c - i), origin);
                    d = squares ? vsub(d, mean) : d;
                    total = squares ? vfma(d, d, total) : vadd(total, d);
                }
            }
            vstore(to + i, total);
        }
    }
}

static void statistics_tile(void *context, int64_t block, int thread) {
    struct norm *s = context;
    (void)thread;
    float *first = s->partial + block * 3 * s->width, *sum = first + s->width;
    float *squares = sum + s->width;
    int64_t c = s->how.c, at = block * s->block_rows * c, rows = rows_of(s, block);
    if (s->x.dtype == CULM_BF16) {
        column_sums(first, sum, NULL, s->x, CULM_BF16, at, rows, c);
        column_sums(first, sum, squares, s->x, CULM_BF16, at, rows, c);
    } else {
        column_sums(first, sum, NULL, s->x, CULM_F32, at, rows, c);
        column_sums(first, sum, squares, s->x, CULM_F32, at, rows, c);
    }
}

/* The coefficients of columns [from, to). */
static void prepare(struct norm *s, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) {
        double rstd = 1.0 / sqrt((double)s->variance[i] + s->how.eps);
        s->coefficient[MEAN][i] = s->mean[i];
        s->coefficient[SCALE][i] = (float)((double)s->gamma[i] * rstd);
        s->coefficient[SHIFT][i] = s->beta[i];
    }
    for (int64_t i = to; i < round_up(to, LANES); i++) {
        s->coefficient[MEAN][i] = s->coefficient[SCALE][i] = s->coefficient[SHIFT][i] = 0;
    }
}

static void statistics_fold_tile(void *context, int64_t tile, int thread) {
    struct norm *s = context;
    (void)thread;
    int64_t from = tile * STRIP, columns = at_most(s->how.c - from, STRIP);
    double mean[STRIP] = {0}, square[STRIP] = {0};
    for (int64_t block = 0; block < s->blocks; block++) {
        const float *first = s->partial + block * 3 * s->width + from, *sum = first + s->width;
        double rows = (double)rows_of(s, block);
        for (int64_t i = 0; i < columns; i++) {
            mean[i] += rows * (double)first[i] + (double)sum[i];
        }
    }
    for (int64_t i = 0; i < columns; i++) {
        mean[i] /= (double)s->how.n;
    }
    for (int64_t block = 0; block < s->blocks; block++) {
        const float *first = s->partial + block * 3 * s->width + from, *sum = first + s->width;
        double rows = (double)rows_of(s, block), share = 1.0 / rows;
        for (int64_t i = 0; i < columns; i++) {
            double off = (double)first[i] + (double)sum[i] * share - mean[i];
            square[i] += (double)sum[s->width + i] + rows * (off * off);
        }
    }
    for (int64_t i = 0; i < columns; i++) {
        s->mean[from + i] = (float)mean[i];
        s->variance[from + i] = (float)(square[i] / (double)s->how.n);
    }
    prepare(s, from, from + columns);
}

/* Coefficients as whole vectors, if that is not too long. */
static void repeat(struct norm *s) {
    int64_t c = s->how.c, period = c;
    while (period % LANES && period < REPEAT) {
        period += c;
    }
    bool repeated = period > c && period % LANES == 0 && period <= REPEAT;
    s->period = repeated ? period : c;
    for (int k = 0; k < COEFFICIENTS; k++) {
        s->periodic[k] = repeated ? s->repeated[k] : s->coefficient[k];
        for (int64_t i = 0; i < period && repeated; i++) {
            s->repeated[k][i] = s->coefficient[k][i % c];
        }
    }
}

static void prepare_tile(void *context, int64_t tile, int thread) {
    struct norm *s = context;
    (void)thread;
    prepare(s, tile * STRIP, at_most(s->how.c, (tile + 1) * STRIP));
}

/* ---- normalising ---- */

SIMD void normalise(const struct norm *s, int64_t at, int64_t rows, enum culm_function function,
                    bool adds, enum culm_dtype type) {
    struct culm_in x = {s->x.data, type}, residual = {s->residual.data, type};
    struct culm_out y = {s->out.data, type};
    if (type == CULM_DTYPE_COUNT) { /* several */
        x.dtype = s->x.dtype;
        residual.dtype = s->residual.dtype;
        y.dtype = s->out.dtype;
    }
    vec alpha = vset((float)s->how.alpha);
    const float *mean = s->periodic[MEAN], *scale = s->periodic[SCALE];
    const float *shift = s->periodic[SHIFT];
    const int64_t end = at + rows * s->how.c;
    for (; at < end; at += s->period) {
        int64_t count = at_most(s->period, end - at);
        for (int64_t i = 0; i < count; i += LANES) {
            int64_t j = at + i, left = count - i;
            vec v = vsub(tload_part(x, j, left), vload(mean + i));
            v = vfma(v, vload(scale + i), vload(shift + i));
            if (adds) {
                v = vadd(v, tload_part(residual, j, left));
            }
            tstore_part(y, j, vrelu(function, v, alpha), left);
        }
    }
}

static void normalise_tile(void *context, int64_t tile, int thread) {
    struct norm *s = context;
    (void)thread;
    int64_t block = s->blocks - 1 - tile, at = block * s->block_rows * s->how.c;
    int64_t rows = rows_of(s, block);
    bool adds = s->residual.data, relu = s->how.function == CULM_FUNCTION_RELU;
    bool relu6 = s->how.function == CULM_FUNCTION_RELU6;
    enum culm_dtype type = s->x.dtype;
    bool leaky = s->how.function == CULM_FUNCTION_LEAKY_RELU && type == CULM_F32;
    bool special = SPECIAL && (relu || relu6 || leaky || s->how.function == CULM_FUNCTION_NONE) &&
                   s->out.dtype == type && (!adds || s->residual.dtype == type);
#define CASE(TYPE, FUNCTION)                                                                       \
    if (adds)                                                                                      \
        normalise(s, at, rows, CULM_FUNCTION_##FUNCTION, true, CULM_##TYPE);                       \
    else                                                                                           \
        normalise(s, at, rows, CULM_FUNCTION_##FUNCTION, false, CULM_##TYPE)
    if (!special) {
        normalise(s, at, rows, s->how.function, adds, CULM_DTYPE_COUNT);
    } else if (leaky) {
        CASE(F32, LEAKY_RELU);
    } else if (type == CULM_F32 && relu6) {
        CASE(F32, RELU6);
    } else if (relu6) {
        CASE(BF16, RELU6);
    } else if (type == CULM_F32 && relu) {
        CASE(F32, RELU);
    } else if (type == CULM_F32) {
        CASE(F32, NONE);
    } else if (relu) {
        CASE(BF16, RELU);
    } else {
        CASE(BF16, NONE);
    }
#undef CASE
}

void ISA_NAME(batchnorm_forward)(struct culm_cpu *cpu,
                                 const struct culm_batchnorm_forward_args *args) {
    struct norm s = norm_of(cpu, args->how);
    s.out = args->y;
    s.mean = args->mean;
    s.variance = args->variance;
    s.x = args->x;
    s.gamma = args->gamma;
    s.beta = args->beta;
    s.residual = args->residual;
    if (args->how->inference) {
        culm_cpu_run(cpu, ceil_div(args->how->c, STRIP), prepare_tile, &s);
    } else {
        culm_cpu_run(cpu, s.blocks, statistics_tile, &s);
        culm_cpu_run(cpu, ceil_div(args->how->c, STRIP), statistics_fold_tile, &s);
    }
    repeat(&s);
    culm_cpu_run(cpu, s.blocks, normalise_tile, &s);
}

/* ---- backward ---- */

/* How the gradient before the function is found. */
enum through { PLAIN, FROM_X, FROM_Y };

/* Arrays as backward knows them. */
struct seen {
    struct culm_in x, dy, y;
    struct culm_out dresidual, dx;
    vec alpha;
};

SIMD struct seen seen_of(const struct norm *s, enum culm_dtype type) {
    const bool mixed = type == CULM_DTYPE_COUNT;
    return (struct seen){.x = {s->x.data, mixed ? s->x.dtype : type},
                         .dy = {s->dy.data, mixed ? s->dy.dtype : type},
                         .y = {s->y.data, mixed ? s->y.dtype : type},
                         .dresidual = {s->dresidual.data, mixed ? s->dresidual.dtype : type},
                         .dx = {s->out.data, mixed ? s->out.dtype : type},
                         .alpha = vset((float)s->how.alpha)};
}

/* dy times the slope of the function, at element j on, of which there are `left`; off is x - mean. */
SIMD vec before_function(const struct seen *from, vec off, vec scale, vec shift, int64_t j,
                         int64_t left, enum culm_function function, enum through through) {
    vec d = tload_part(from->dy, j, left), kept;
    if (through == PLAIN) {
        return d;
    }
    kept = through == FROM_Y ? tload_part(from->y, j, left) : vfma(off, scale, shift);
    return vrelu_backward(function, d, kept, from->alpha);
}

/* Coefficients of sixteen columns, of which there are `left`, and their sums. */
struct column {
    int64_t left;
    vec mean, scale, shift, sum, product;
};

SIMD struct column column_at(const struct norm *s, int64_t i) {
    return (struct column){.left = s->how.c - i,
                           .mean = vload(s->coefficient[MEAN] + i),
                           .scale = vload(s->coefficient[SCALE] + i),
                           .shift = vload(s->coefficient[SHIFT] + i)};
}

/* Adds element j on: the gradient, and it times x - mean. Writes the gradient of the residual and, if
 * that is wanted here, that of x. */
SIMD void backward_add(const struct seen *from, struct column *column, int64_t j, const bool fused,
                       enum culm_function function, enum through through) {
    vec off = vsub(tload_part(from->x, j, column->left), column->mean);
    vec d = before_function(from, off, column->scale, column->shift, j, column->left, function,
                            through);
    if (from->dresidual.data) {
        tstore_part(from->dresidual, j, d, column->left);
    }
    if (fused) {
        tstore_part(from->dx, j, vmul(d, column->scale), column->left);
    }
    column->sum = vadd(column->sum, d);
    column->product = vfma(d, off, column->product);
}

/* The block's sums, in memory. */
SIMD void backward_sums(const struct norm *s, int64_t block, enum culm_function function,
                        enum through through, enum culm_dtype type) {
    const struct seen from = seen_of(s, type);
    const bool fused = s->fused;
    float *sum = s->partial + block * 3 * s->width, *product = sum + s->width;
    int64_t c = s->how.c, at = block * s->block_rows * c, rows = rows_of(s, block);
    memset(sum, 0, 2 * (size_t)s->width * sizeof *sum);
    for (int64_t row = 0; row < rows; row += 2) {
        int64_t pair = row + 2 <= rows ? 2 : 1;
        for (int64_t i = 0; i < c; i += LANES) {
            struct column column = column_at(s, i);
            column.sum = vload(sum + i);
            column.product = vload(product + i);
#pragma GCC unroll 2
            for (int64_t r = 0; r < pair; r++) {
                backward_add(&from, &column, at + (row + r) * c + i, fused, function, through);
            }
            vstore(sum + i, column.sum);
            vstore(product + i, column.product);
        }
    }
}

/* The same of columns i on, in registers: `vectors` of them. */
SIMD void backward_few(const struct norm *s, int64_t block, int64_t i, const int vectors,
                       const bool fused, enum culm_function function, enum through through,
                       enum culm_dtype type) {
    const struct seen from = seen_of(s, type);
    float *sum = s->partial + block * 3 * s->width + i, *product = sum + s->width;
    int64_t c = s->how.c, at = block * s->block_rows * c + i, end = at + rows_of(s, block) * c;
    struct column column[FEW];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        column[v] = column_at(s, i + v * LANES);
        column[v].left = v + 1 < vectors ? LANES : column[v].left;
        column[v].sum = column[v].product = vzero();
    }
    for (; at < end; at += c) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            backward_add(&from, &column[v], at + v * LANES, fused, function, through);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        vstore(sum + v * LANES, column[v].sum);
        vstore(product + v * LANES, column[v].product);
    }
}

SIMD void backward_sums_of(const struct norm *s, int64_t block, enum culm_function function,
                           enum through through, enum culm_dtype type) {
    if (type != CULM_F32 || s->how.c > MANY) {
        backward_sums(s, block, function, through, type);
        return;
    }
#define CASE(count)                                                                                \
    case count:                                                                                    \
        if (s->fused)                                                                              \
            backward_few(s, block, i, count, true, function, through, type);                       \
        else                                                                                       \
            backward_few(s, block, i, count, false, function, through, type);                      \
        break
    for (int64_t i = 0; i < s->how.c; i += FEW * LANES) {
        switch (at_most(FEW, ceil_div(s->how.c - i, LANES))) {
            CASE(1);
            CASE(2);
            CASE(3);
            CASE(FEW);
        }
    }
#undef CASE
}

SIMD void backward_input(const struct norm *s, int64_t block, enum culm_function function,
                         enum through through, enum culm_dtype type) {
    const struct seen from = seen_of(s, type);
    const float *const *coefficient = s->periodic;
    int64_t at = block * s->block_rows * s->how.c, end = at + rows_of(s, block) * s->how.c;
    for (; at < end; at += s->period) {
        int64_t count = at_most(s->period, end - at);
        for (int64_t i = 0; i < count; i += LANES) {
            int64_t j = at + i, left = count - i;
            vec scale = vload(coefficient[SCALE] + i), shift = vload(coefficient[SHIFT] + i);
            vec off = vsub(tload_part(from.x, j, left), vload(coefficient[MEAN] + i));
            vec d = before_function(&from, off, scale, shift, j, left, function, through);
            if (!s->how.inference) {
                d = vsub(d, vload(coefficient[OFFSET] + i));
                d = vfnma(off, vload(coefficient[SLOPE] + i), d);
            }
            tstore_part(from.dx, j, vmul(d, scale), left);
        }
    }
}

/* The common cases apart; the rest in one loop that looks up type and function. */
#define EVERY_CASE(call)                                                                           \
    do {                                                                                           \
        bool y = s->y.data, none = s->how.function == CULM_FUNCTION_NONE;                          \
        enum through through = none ? PLAIN : y ? FROM_Y : FROM_X;                                 \
        bool relu6 = s->how.function == CULM_FUNCTION_RELU6;                                       \
        bool leaky = s->how.function == CULM_FUNCTION_LEAKY_RELU && s->x.dtype == CULM_F32;        \
        bool relu = s->how.function == CULM_FUNCTION_RELU;                                         \
        if (!SPECIAL || !same || !(none || relu6 || leaky || relu) || ((relu6 || leaky) && y))     \
            call(s, block, s->how.function, through, CULM_DTYPE_COUNT);                            \
        else if (leaky)                                                                            \
            call(s, block, CULM_FUNCTION_LEAKY_RELU, FROM_X, CULM_F32);                            \
        else if (relu6 && s->x.dtype == CULM_F32)                                                  \
            call(s, block, CULM_FUNCTION_RELU6, FROM_X, CULM_F32);                                 \
        else if (relu6)                                                                            \
            call(s, block, CULM_FUNCTION_RELU6, FROM_X, CULM_BF16);                                \
        else if (s->x.dtype == CULM_F32 && none)                                                   \
            call(s, block, CULM_FUNCTION_NONE, PLAIN, CULM_F32);                                   \
        else if (s->x.dtype == CULM_F32 && y)                                                      \
            call(s, block, CULM_FUNCTION_RELU, FROM_Y, CULM_F32);                                  \
        else if (s->x.dtype == CULM_F32)                                                           \
            call(s, block, CULM_FUNCTION_RELU, FROM_X, CULM_F32);                                  \
        else if (none)                                                                             \
            call(s, block, CULM_FUNCTION_NONE, PLAIN, CULM_BF16);                                  \
        else if (y)                                                                                \
            call(s, block, CULM_FUNCTION_RELU, FROM_Y, CULM_BF16);                                 \
        else                                                                                       \
            call(s, block, CULM_FUNCTION_RELU, FROM_X, CULM_BF16);                                 \
    } while (0)

static bool same_type(const struct norm *s, struct culm_out out) {
    return s->dy.dtype == s->x.dtype && (!s->y.data || s->y.dtype == s->x.dtype) &&
           (!out.data || out.dtype == s->x.dtype);
}

static void backward_sums_tile(void *context, int64_t block, int thread) {
    struct norm *s = context;
    (void)thread;
    bool given = s->how.inference && s->out.data;
    bool same = same_type(s, s->dresidual) && (!given || same_type(s, s->out));
    EVERY_CASE(backward_sums_of);
    if (given && !s->fused) { /* while it is in the cache */
        EVERY_CASE(backward_input);
    }
}

static void backward_input_tile(void *context, int64_t tile, int thread) {
    struct norm *s = context;
    (void)thread;
    int64_t block = s->blocks - 1 - tile;
    bool same = same_type(s, s->out);
    EVERY_CASE(backward_input);
}

static void put(float *to, double x, bool first) {
    if (to) {
        *to = first ? (float)x : *to + (float)x;
    }
}

static void backward_fold_tile(void *context, int64_t tile, int thread) {
    struct norm *s = context;
    (void)thread;
    int64_t from = tile * STRIP, columns = at_most(s->how.c - from, STRIP);
    double sum[STRIP] = {0}, product[STRIP] = {0}, n = (double)s->how.n;
    for (int64_t block = 0; block < s->blocks; block++) {
        const float *share = s->partial + block * 3 * s->width + from;
        for (int64_t i = 0; i < columns; i++) {
            sum[i] += (double)share[i];
            product[i] += (double)share[s->width + i];
        }
    }
    for (int64_t i = 0; i < columns; i++) {
        int64_t j = from + i;
        double variance = (double)s->variance[j], rstd = 1.0 / sqrt(variance + s->how.eps);
        put(s->dbeta ? s->dbeta + j : NULL, sum[i], s->first);
        put(s->dgamma ? s->dgamma + j : NULL, product[i] * rstd, s->first);
        s->coefficient[OFFSET][j] = s->how.inference ? 0 : (float)(sum[i] / n);
        s->coefficient[SLOPE][j] = s->how.inference ? 0 : (float)(product[i] * rstd * rstd / n);
        if (!s->how.inference && s->how.n > 1) {
            variance *= n / (n - 1);
        }
        put(s->sum_mean ? s->sum_mean + j : NULL, (double)s->mean[j], s->first);
        put(s->sum_variance ? s->sum_variance + j : NULL, variance, s->first);
    }
    for (int64_t i = s->how.c; i < s->width && from + columns == s->how.c; i++) {
        s->coefficient[OFFSET][i] = s->coefficient[SLOPE][i] = 0;
    }
}

void ISA_NAME(batchnorm_backward)(struct culm_cpu *cpu,
                                  const struct culm_batchnorm_backward_args *args) {
    struct norm s = norm_of(cpu, args->how);
    s.dy = args->dy;
    s.x = args->x;
    s.y = args->y;
    s.dresidual = args->dresidual;
    s.gamma = args->gamma;
    s.beta = args->beta;
    s.mean = (float *)args->mean;
    s.variance = (float *)args->variance;
    s.dgamma = args->dgamma;
    s.dbeta = args->dbeta;
    s.sum_mean = args->sum_mean;
    s.sum_variance = args->sum_variance;
    s.first = args->first;
    s.out = args->dx;
    s.fused = args->how->inference && args->dx.data && args->how->c % LANES == 0;
    culm_cpu_run(cpu, ceil_div(args->how->c, STRIP), prepare_tile, &s);
    repeat(&s);
    culm_cpu_run(cpu, s.blocks, backward_sums_tile, &s);
    culm_cpu_run(cpu, ceil_div(args->how->c, STRIP), backward_fold_tile, &s);
    if (!args->dx.data || args->how->inference) {
        return;
    }
    repeat(&s);
    bool exact =
        args->dresidual.dtype == CULM_F32 || args->how->function != CULM_FUNCTION_LEAKY_RELU;
    if (args->dresidual.data && exact) { /* the gradient before the function */
        s.dy = culm_in_of(args->dresidual);
        s.how.function = CULM_FUNCTION_NONE;
        s.y.data = NULL;
    }
    culm_cpu_run(cpu, s.blocks, backward_input_tile, &s);
}
