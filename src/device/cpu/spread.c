/*
 * Two operands of which the second is spread over the first: every dimension of b is that of a, or
 * 1 (as numpy broadcasts, but a keeps its shape).
 *
 * Dimensions that are spread alike are taken as one, so a row is as long as it can be, and in a row
 * b is either a row of its own or one number.
 */
#include "device/cpu/functions.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define TILE 8192 /* elements, about */

struct spread {
    struct culm_out y;
    struct culm_in a, b; /* a NULL: y = scale b */
    enum culm_function function;
    float scale;
    int rank;
    int64_t dim[CULM_MAX_RANK], stride[CULM_MAX_RANK]; /* of a; strides in b, 0: spread */
    int64_t rows, tile_rows, chunks;
};

/* b's shape is right-aligned; missing dimensions count as 1. */
static void collapse(struct spread *s, const struct culm_shape *a, const struct culm_shape *b) {
    int64_t stride[CULM_MAX_RANK] = {0}, step = 1;
    for (int i = b->rank - 1; i >= 0; i--) {
        int at = i + a->rank - b->rank;
        assert(at >= 0 && (b->dim[i] == 1 || b->dim[i] == a->dim[at]));
        stride[at] = b->dim[i] == 1 ? 0 : step;
        step *= b->dim[i];
    }
    for (int i = 0; i < a->rank; i++) {
        int last = s->rank - 1;
        if (a->dim[i] == 1) {
            continue;
        }
        if (s->rank && s->stride[last] == stride[i] * a->dim[i]) {
            s->dim[last] *= a->dim[i];
            s->stride[last] = stride[i];
        } else {
            s->dim[s->rank] = a->dim[i];
            s->stride[s->rank++] = stride[i];
        }
    }
    if (!s->rank) {
        s->dim[0] = 1;
        s->stride[0] = 1;
        s->rank = 1;
    }
}

SIMD vec combine(enum culm_function function, vec a, vec b, vec scale) {
    switch (function) {
    case CULM_FUNCTION_ADD: return vadd(a, b);
    case CULM_FUNCTION_SUB: return vsub(a, b);
    case CULM_FUNCTION_MUL: return vmul(a, b);
    case CULM_FUNCTION_DIV: return vdiv(a, b);
    default: return vmul(b, scale);
    }
}

/* n elements of a and y from i on; b from j on, or the one at j. */
SIMD void row_loop(const struct spread *s, int64_t i, int64_t j, int64_t n,
                   enum culm_function function, bool one, enum culm_dtype type) {
    struct culm_in a = {s->a.data, type}, b = {s->b.data, type};
    struct culm_out y = {s->y.data, type};
    if (type == CULM_DTYPE_COUNT) {
        a.dtype = s->a.dtype;
        b.dtype = s->b.dtype;
        y.dtype = s->y.dtype;
    }
    vec scale = vset(s->scale), v = vzero(), w = vzero();
    if (one && type == CULM_F32) {
        w = vset(((const float *)b.data)[j]);
    } else if (one) {
        float first[LANES];
        vstore(first, tload_part(b, j, 1));
        w = vset(first[0]);
    }
    for (int64_t k = 0; k < n; k += LANES) {
        if (function != CULM_FUNCTION_NONE) {
            v = tload_part(a, i + k, n - k);
        }
        if (!one) {
            w = tload_part(b, j + k, n - k);
        }
        tstore_part(y, i + k, combine(function, v, w, scale), n - k);
    }
}

/* Elements [from, from + n) of rows [first, end). */
SIMD void rows_loop(const struct spread *s, int64_t first, int64_t end, int64_t from, int64_t n,
                    enum culm_function function, bool one, enum culm_dtype type) {
    int last = s->rank - 1;
    int64_t place[CULM_MAX_RANK] = {0}, j = from * s->stride[last], rest = first;
    for (int d = last - 1; d >= 0; d--) {
        place[d] = rest % s->dim[d];
        j += place[d] * s->stride[d];
        rest /= s->dim[d];
    }
    for (int64_t row = first; row < end; row++) {
        row_loop(s, row * s->dim[last] + from, j, n, function, one, type);
        for (int d = last - 1; d >= 0; d--) {
            j += s->stride[d];
            if (++place[d] < s->dim[d]) {
                break;
            }
            j -= s->dim[d] * s->stride[d];
            place[d] = 0;
        }
    }
}

SIMD void rows_types(const struct spread *s, int64_t first, int64_t end, int64_t from, int64_t n,
                     enum culm_function function) {
    bool f32 =
        SPECIAL && s->a.dtype == CULM_F32 && s->b.dtype == CULM_F32 && s->y.dtype == CULM_F32;
    bool one = s->stride[s->rank - 1] == 0;
    if (f32 && one) {
        rows_loop(s, first, end, from, n, function, true, CULM_F32);
    } else if (f32) {
        rows_loop(s, first, end, from, n, function, false, CULM_F32);
    } else {
        rows_loop(s, first, end, from, n, function, one, CULM_DTYPE_COUNT);
    }
}

static void spread_tile(void *context, int64_t tile, int thread) {
    const struct spread *s = context;
    (void)thread;
    int64_t first = tile / s->chunks * s->tile_rows, end = at_most(s->rows, first + s->tile_rows);
    int64_t from = 0, n = s->dim[s->rank - 1];
    if (s->chunks > 1) {
        from = tile % s->chunks * TILE;
        n = at_most(TILE, n - from);
    }
    switch (s->function) {
    case CULM_FUNCTION_ADD: rows_types(s, first, end, from, n, CULM_FUNCTION_ADD); break;
    case CULM_FUNCTION_SUB: rows_types(s, first, end, from, n, CULM_FUNCTION_SUB); break;
    case CULM_FUNCTION_MUL: rows_types(s, first, end, from, n, CULM_FUNCTION_MUL); break;
    case CULM_FUNCTION_DIV: rows_types(s, first, end, from, n, CULM_FUNCTION_DIV); break;
    default: rows_types(s, first, end, from, n, CULM_FUNCTION_NONE);
    }
}

static void run(struct culm_cpu *cpu, struct spread *s, const struct culm_shape *a,
                const struct culm_shape *b) {
    collapse(s, a, b);
    s->rows = 1;
    for (int i = 0; i + 1 < s->rank; i++) {
        s->rows *= s->dim[i];
    }
    int64_t row = s->dim[s->rank - 1];
    s->chunks = ceil_div(row, TILE);
    s->tile_rows = at_least(at_least(1, TILE / row), ceil_div(s->rows * s->chunks, 1 << 22));
    culm_cpu_run(cpu, ceil_div(s->rows, s->tile_rows) * s->chunks, spread_tile, s);
}

void ISA_NAME(binary)(struct culm_cpu *cpu, const struct culm_binary_args *args) {
    assert(args->function >= CULM_FUNCTION_ADD && args->function <= CULM_FUNCTION_DIV);
    struct spread s = {.y = args->y, .a = args->a, .b = args->b, .function = args->function};
    run(cpu, &s, args->a_shape, args->b_shape);
}

void ISA_NAME(spread)(struct culm_cpu *cpu, const struct culm_spread_args *args) {
    struct spread s = {
        .y = args->y, .a = {NULL, args->y.dtype}, .b = args->b, .scale = (float)args->scale};
    run(cpu, &s, args->y_shape, args->b_shape);
}
