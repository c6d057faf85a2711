/*
 * Kernels of graphs and sparse matrices: every instruction set and number of threads against naive
 * loops that add in the order that kernels.h promises, bit for bit, and against the reference;
 * widths around those of vectors, rows without entries, and rows of several blocks.
 */
#include "device/cpu/cpu.h"

#include "base/rng.h"
#include "device/reference/reference.h"
#include "tensor/reference_sparse.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed = 1, stream;

static float uniform(void) { return 2 * culm_rng_unit((uint32_t)culm_rng_next(&stream)) - 1; }

/* --- devices --- */

#define DEVICES_MAX 8
static struct {
    char name[32];
    struct culm_device *device;
} devices[DEVICES_MAX];
static int device_count;

static int open_devices(void **state) {
    static const char *const isas[] = {"avx512_bf16", "avx512", "avx2", "neon", "base"};
    (void)state;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (culm_cpu_new(1, isas[i], &devices[device_count].device, NULL) == CULM_OK) {
            snprintf(devices[device_count++].name, sizeof devices->name, "%s", isas[i]);
        }
    }
    for (int threads = 2; threads <= 3; threads++) {
        assert_int_equal(culm_device_new(threads, &devices[device_count].device, NULL), CULM_OK);
        snprintf(devices[device_count++].name, sizeof devices->name, "%d threads", threads);
    }
    assert_int_equal(culm_reference_device_ops.create(1, &devices[device_count].device, NULL),
                     CULM_OK);
    snprintf(devices[device_count++].name, sizeof devices->name, "reference");
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    while (device_count) {
        culm_device_free(devices[--device_count].device);
    }
    return 0;
}

/* --- a matrix: rows of every size, in the middle of a larger one --- */

#define ROWS 23
#define TABLE 50
#define OFFSET 5 /* entries before the first row */
#define KEPT_SCALE 1.25f

static struct {
    uint64_t start[ROWS + 1], *entry;
    uint32_t *column, *kept_at;
    uint64_t entries; /* with those before */
    /* and by columns */
    uint64_t column_start[TABLE + 1], *column_entry;
    uint32_t *row;
} matrix;

static int64_t degree(int64_t row) {
    static const int64_t large[] = {4096, 4097, 8193, 4095, 12288};
    return row % 4 == 3 ? 0 : row % 5 == 0 && row / 5 < 5 ? large[row / 5] : row;
}

static void transpose_matrix(void) {
    uint64_t at = 0;
    for (uint32_t c = 0; c < TABLE; c++) {
        matrix.column_start[c] = at;
        for (uint32_t r = 0; r < ROWS; r++) {
            for (uint64_t e = matrix.start[r]; e < matrix.start[r + 1]; e++) {
                if (matrix.column[e] == c) {
                    matrix.row[at] = r;
                    matrix.column_entry[at++] = e;
                }
            }
        }
    }
    matrix.column_start[TABLE] = at;
}

static int make_matrix(void **state) {
    open_devices(state);
    matrix.start[0] = OFFSET;
    for (int64_t r = 0; r < ROWS; r++) {
        matrix.start[r + 1] = matrix.start[r] + (uint64_t)degree(r);
    }
    matrix.entries = matrix.start[ROWS];
    matrix.column = calloc(matrix.entries, sizeof *matrix.column);
    matrix.entry = calloc(matrix.entries, sizeof *matrix.entry);
    matrix.kept_at = calloc(matrix.entries, sizeof *matrix.kept_at);
    matrix.row = calloc(matrix.entries, sizeof *matrix.row);
    matrix.column_entry = calloc(matrix.entries, sizeof *matrix.column_entry);
    stream = seed;
    for (uint64_t e = 0; e < matrix.entries; e++) {
        matrix.column[e] = (uint32_t)culm_rng_below(&stream, TABLE - 3); /* some never */
        matrix.entry[e] = (e * 7919) % matrix.entries;
        matrix.kept_at[e] = (uint32_t)matrix.entry[e];
    }
    transpose_matrix();
    return 0;
}

static int free_matrix(void **state) {
    free(matrix.column);
    free(matrix.entry);
    free(matrix.kept_at);
    free(matrix.row);
    free(matrix.column_entry);
    return close_devices(state);
}

static struct culm_ref_rows rows_of_matrix(void) {
    return (struct culm_ref_rows){ROWS, matrix.start, matrix.column};
}

/* --- arrays of either type --- */

static float widen(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint16_t narrow(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

struct array {
    enum culm_dtype dtype;
    int64_t count;
    float *f32;
    uint16_t *bf16;
};

static struct array array_of(int64_t count, enum culm_dtype dtype) {
    struct array a = {.dtype = dtype, .count = count};
    a.f32 = aligned_alloc(64, (size_t)(count + 16) * 4 / 64 * 64 + 64);
    a.bf16 = aligned_alloc(64, (size_t)(count + 32) * 2 / 64 * 64 + 64);
    for (int64_t i = 0; i < count; i++) {
        a.bf16[i] = narrow(uniform());
        a.f32[i] = dtype == CULM_BF16 ? widen(a.bf16[i]) : uniform();
    }
    return a;
}
static void array_free(struct array *a) {
    free(a->f32);
    free(a->bf16);
}
static void *data_of(const struct array *a) {
    return a->dtype == CULM_BF16 ? (void *)a->bf16 : a->f32;
}
static size_t bytes_of(const struct array *a) {
    return (size_t)a->count * culm_dtype_bytes(a->dtype);
}

static bool is_reference(int d) { return !strcmp(devices[d].name, "reference"); }

/* Bits, or for the reference, which sums in float64, nearness. */
static void expect(const float *want, const float *got, int64_t count, int device, double tolerance,
                   const char *what) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += pow((double)want[i] - (double)got[i], 2);
        size += pow((double)want[i], 2);
        if (tolerance == 0 && memcmp(&want[i], &got[i], sizeof *want)) {
            fail_msg("%s, %s, seed %llu: element %lld is %a, not %a", what, devices[device].name,
                     (unsigned long long)seed, (long long)i, (double)got[i], (double)want[i]);
        }
    }
    if (!(difference <= tolerance * tolerance * (size + 1e-30))) {
        fail_msg("%s, %s, seed %llu: off by %g", what, devices[device].name,
                 (unsigned long long)seed, sqrt(difference / size));
    }
}

/* --- spmm --- */

struct how {
    int64_t f, heads, pad;
    bool value, entry, scale, add, kept, kept_at;
    enum culm_dtype x, y;
};

/* One element as kernels.h says it: blocks of the row, each from its own first term. */
static float naive(const struct how *how, const float *x, const float *value, const uint32_t *kept,
                   int64_t row, int64_t i) {
    int64_t heads = how->heads ? how->heads : 1, head = i / (how->f / heads);
    float sum = 0;
    for (uint64_t from = matrix.start[row]; from < matrix.start[row + 1]; from += CULM_SPMM_BLOCK) {
        float part = 0;
        for (uint64_t e = from; e < matrix.start[row + 1] && e < from + CULM_SPMM_BLOCK; e++) {
            uint64_t at = (how->entry ? matrix.entry[e] : e) * (uint64_t)heads + (uint64_t)head;
            float term = x[matrix.column[e] * (how->f + how->pad) + i];
            if (how->kept) {
                uint64_t bit = how->kept_at ? matrix.kept_at[e] : e;
                float v = how->value ? value[at] * KEPT_SCALE : KEPT_SCALE;
                v = kept[bit / 32] >> bit % 32 & 1 ? v : 0;
                part = v == 0 ? part : fmaf(v, term, part);
            } else if (!how->value) {
                part = e == from ? term : part + term;
            } else {
                part = e == from ? value[at] * term : fmaf(value[at], term, part);
            }
        }
        sum = from == matrix.start[row] ? part : sum + part;
    }
    return sum;
}

/* A third of the bits, and none of those that weigh one row of the table, which is infinite; and some
 * values of 0. */
static uint32_t *leave_out(const struct how *how, struct array *value, struct array *x) {
    const uint32_t left = matrix.column[0];
    uint32_t *kept = calloc(matrix.entries / 32 + 2, sizeof *kept);
    for (uint64_t e = 0; e < matrix.entries; e++) {
        uint64_t bit = how->kept_at ? matrix.kept_at[e] : e;
        value->f32[e] = e % 5 == 0 ? -0.0f : e % 7 == 0 ? 0.0f : value->f32[e];
        if (matrix.column[e] != left && culm_rng_below(&stream, 3) == 0) {
            kept[bit / 32] |= 1u << bit % 32;
        }
    }
    for (int64_t i = left * (how->f + how->pad); i < left * (how->f + how->pad) + how->f; i++) {
        x->f32[i] = INFINITY;
        x->bf16[i] = narrow(INFINITY);
    }
    return kept;
}

static void check_spmm(const struct how *how) {
    char what[128];
    snprintf(what, sizeof what, "spmm f %lld heads %lld pad %lld %s%s%s%s%s %s to %s",
             (long long)how->f, (long long)how->heads, (long long)how->pad,
             how->value ? "value " : "", how->entry ? "entry " : "", how->scale ? "scale " : "",
             how->add ? "add " : "", how->kept ? "kept " : "", culm_dtype_name(how->x),
             culm_dtype_name(how->y));
    stream = seed;
    int64_t ld = how->f + how->pad, heads = how->heads ? how->heads : 1;
    struct array x = array_of((TABLE - 1) * ld + how->f, how->x);
    struct array y = array_of(ROWS * ld, how->y), got = array_of(ROWS * ld, how->y);
    struct array value = array_of((int64_t)matrix.entries * heads, CULM_F32);
    struct array scale = array_of(ROWS, CULM_F32), before = array_of(ROWS * ld, how->y);
    uint32_t *kept = how->kept ? leave_out(how, &value, &x) : NULL;
    memcpy(data_of(&y), data_of(&before), bytes_of(&y));
    for (int64_t r = 0; r < ROWS; r++) {
        bool empty = matrix.start[r] == matrix.start[r + 1];
        for (int64_t i = 0; i < how->f; i++) {
            float sum = naive(how, x.f32, value.f32, kept, r, i);
            sum = how->scale && !empty ? sum * scale.f32[r] : sum;
            sum = !how->add ? sum : empty ? before.f32[r * ld + i] : before.f32[r * ld + i] + sum;
            y.f32[r * ld + i] = sum;
            y.bf16[r * ld + i] = narrow(sum);
        }
    }
    for (int d = 0; d < device_count; d++) {
        memcpy(data_of(&got), data_of(&before), bytes_of(&y));
        CULM_RUN(devices[d].device, spmm, .y = {data_of(&got), how->y}, .x = {data_of(&x), how->x},
                 .start = matrix.start, .column = matrix.column,
                 .value = how->value ? value.f32 : NULL, .entry = how->entry ? matrix.entry : NULL,
                 .scale = how->scale ? scale.f32 : NULL, .n = ROWS, .f = how->f, .ldx = ld,
                 .ldy = ld, .heads = how->heads, .rows = d % 2 ? TABLE : 0, .add = how->add,
                 .kept = kept, .kept_at = how->kept_at ? matrix.kept_at : NULL,
                 .kept_scale = KEPT_SCALE);
        for (int64_t i = 0; i < y.count && how->y == CULM_BF16; i++) {
            got.f32[i] = widen(got.bf16[i]);
            y.f32[i] = widen(y.bf16[i]);
        }
        double near = how->y == CULM_BF16 ? 1e-2 : 1e-4;
        expect(y.f32, got.f32, y.count, d, is_reference(d) ? near : 0, what);
    }
    array_free(&x);
    array_free(&y);
    array_free(&got);
    array_free(&value);
    array_free(&scale);
    array_free(&before);
    free(kept);
}

static void test_spmm(void **state) {
    static const int64_t widths[] = {1, 7, 8, 9, 31, 32, 33, 41, 64, 128, 257};
    (void)state;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        int64_t f = widths[i];
        check_spmm(&(struct how){.f = f});
        check_spmm(&(struct how){.f = f, .pad = 3, .scale = true, .add = true});
        check_spmm(&(struct how){.f = f, .value = true, .entry = i % 2});
        check_spmm(
            &(struct how){.f = f, .value = i % 3, .kept = true, .x = i % 2 ? CULM_BF16 : CULM_F32});
        check_spmm(
            &(struct how){.f = f, .value = i % 2, .kept = true, .kept_at = true, .add = true});
        check_spmm(&(struct how){.f = f, .x = CULM_BF16, .y = i % 2 ? CULM_BF16 : CULM_F32});
    }
}

static void test_spmm_heads(void **state) {
    static const struct {
        int64_t f, heads;
    } shapes[] = {{8, 8},  {9, 3},   {33, 3},  {41, 41},  {64, 8},
                  {64, 2}, {128, 8}, {128, 4}, {257, 257}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct how how = {.f = shapes[i].f, .heads = shapes[i].heads, .value = true};
        check_spmm(&how);
        how.entry = how.scale = how.add = true;
        how.x = how.y = CULM_BF16;
        check_spmm(&how);
    }
}

/* A table larger than caches: its columns are copied strip by strip, or its rows to whole lines. */
static void check_spmm_large(int64_t f, int64_t ld) {
    enum { N = 10000, EACH = 8 };
    stream = seed;
    uint64_t *start = calloc(N + 1, sizeof *start);
    uint32_t *column = calloc(N * EACH, sizeof *column);
    for (int64_t e = 0; e < N * EACH; e++) {
        column[e] = (uint32_t)culm_rng_below(&stream, N);
    }
    for (int64_t r = 0; r <= N; r++) {
        start[r] = (uint64_t)(r * EACH);
    }
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct array x = array_of(N * ld, bf16 ? CULM_BF16 : CULM_F32);
        struct array got = array_of(N * ld, CULM_F32), want = array_of(N * ld, CULM_F32);
        for (int64_t i = 0; i < N * ld; i++) {
            float sum = got.f32[i];
            for (uint64_t e = start[i / ld]; e < start[i / ld + 1] && i % ld < f; e++) {
                float term = x.f32[column[e] * ld + i % ld];
                sum = e == start[i / ld] ? term : sum + term;
            }
            want.f32[i] = sum;
        }
        for (int d = 0; d < device_count; d++) {
            CULM_RUN(devices[d].device, spmm, .y = culm_out_f32(got.f32),
                     .x = {data_of(&x), x.dtype}, .start = start, .column = column, .n = N, .f = f,
                     .ldx = ld, .ldy = ld, .rows = N);
            expect(want.f32, got.f32, N * ld, d, is_reference(d) ? 1e-5 : 0,
                   "spmm of a large table");
        }
        array_free(&x);
        array_free(&got);
        array_free(&want);
    }
    free(start);
    free(column);
}

static void test_spmm_large(void **state) {
    (void)state;
    check_spmm_large(121, 123);
    check_spmm_large(41, 41);
    check_spmm_large(79, 79); /* as many vectors as only some processors have in a strip */
}

/* --- sddmm --- */

static void check_sddmm(int64_t f, int64_t heads, enum culm_dtype type_a, enum culm_dtype type_b) {
    char what[64];
    snprintf(what, sizeof what, "sddmm f %lld heads %lld", (long long)f, (long long)heads);
    stream = seed;
    int64_t ld = f + 2, count = (int64_t)matrix.entries * heads;
    struct array a = array_of((ROWS - 1) * ld + f, type_a),
                 b = array_of((TABLE - 1) * ld + f, type_b);
    struct array first = array_of(count, CULM_F32), value = array_of(count, CULM_F32);
    const struct culm_ref_rows rows = rows_of_matrix();
    for (int d = 0; d < device_count; d++) {
        memset(value.f32, 0, bytes_of(&value));
        CULM_RUN(devices[d].device, sddmm, .value = value.f32, .a = {data_of(&a), type_a},
                 .b = {data_of(&b), type_b}, .start = matrix.start, .column = matrix.column,
                 .n = ROWS, .f = f, .lda = ld, .ldb = ld, .heads = heads);
        if (d == 0) {
            memset(first.f32, 0, bytes_of(&first));
            culm_ref_sddmm(first.f32, a.f32, ld, b.f32, ld, &rows, f, heads);
            expect(first.f32, value.f32, count, d, 1e-6, what);
            memcpy(first.f32, value.f32, bytes_of(&first));
        }
        expect(first.f32, value.f32, count, d, is_reference(d) ? 1e-6 : 0, what);
    }
    array_free(&a);
    array_free(&b);
    array_free(&first);
    array_free(&value);
}

static void test_sddmm(void **state) {
    static const int64_t shapes[][2] = {{1, 1},  {7, 1},  {8, 1},  {9, 3},   {31, 1},
                                        {32, 4}, {33, 3}, {41, 1}, {64, 8},  {64, 4},
                                        {24, 3}, {72, 9}, {64, 1}, {128, 2}, {257, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_sddmm(shapes[i][0], shapes[i][1], i % 3 ? CULM_F32 : CULM_BF16,
                    i % 2 ? CULM_F32 : CULM_BF16);
        check_sddmm(shapes[i][0], shapes[i][1], CULM_F32, CULM_F32);
    }
}

/* --- softmax over edges --- */

#define SLOPE 0.2

static double norm(const struct array *a) {
    double size = 1e-30;
    for (int64_t i = 0; i < a->count; i++) {
        size += (double)a->f32[i] * (double)a->f32[i];
    }
    return sqrt(size);
}

static void check_softmax(int64_t heads) {
    char what[64];
    snprintf(what, sizeof what, "edge softmax heads %lld", (long long)heads);
    stream = seed;
    int64_t count = (int64_t)matrix.entries * heads;
    const struct culm_ref_rows rows = rows_of_matrix();
    struct array s = array_of(ROWS * heads, CULM_F32), t = array_of(TABLE * heads, CULM_F32);
    struct array want[5], got[5]; /* alpha, largest, sum; dscore, ds */
    struct array dalpha = array_of(count, CULM_F32);
    for (int i = 0; i < 5; i++) {
        int64_t size = i == 0 || i == 3 ? count : ROWS * heads;
        want[i] = array_of(size, CULM_F32);
        got[i] = array_of(size, CULM_F32);
        memset(want[i].f32, 0, bytes_of(&want[i]));
        memset(got[i].f32, 0, bytes_of(&got[i]));
    }
    for (int64_t i = 0; i < TABLE * heads; i++) {
        t.f32[i] *= 20;
    }
    for (int d = 0; d < device_count; d++) {
        CULM_RUN(devices[d].device, edge_softmax_forward, .alpha = got[0].f32,
                 .largest = got[1].f32, .sum = got[2].f32, .s = s.f32, .t = t.f32,
                 .start = matrix.start, .column = matrix.column, .n = ROWS, .heads = heads,
                 .slope = SLOPE);
        bool in_place = d % 2;
        if (in_place) {
            memcpy(got[3].f32, dalpha.f32, bytes_of(&got[3]));
        }
        memset(got[3].f32, 0, OFFSET * (size_t)heads * sizeof(float));
        CULM_RUN(devices[d].device, edge_softmax_backward, .dscore = got[3].f32, .ds = got[4].f32,
                 .alpha = got[0].f32, .dalpha = in_place ? got[3].f32 : dalpha.f32, .s = s.f32,
                 .t = t.f32, .start = matrix.start, .column = matrix.column, .n = ROWS,
                 .heads = heads, .slope = SLOPE);
        if (d == 0) {
            culm_ref_edge_softmax_forward(want[0].f32, want[1].f32, want[2].f32, s.f32, t.f32,
                                          &rows, heads, SLOPE);
            culm_ref_edge_softmax_backward(want[3].f32, want[4].f32, got[0].f32, dalpha.f32, s.f32,
                                           t.f32, &rows, heads, SLOPE);
            for (int64_t i = 0; i < ROWS * heads; i++) { /* infinities have no distance */
                assert_int_equal(isinf(want[1].f32[i]), isinf(got[1].f32[i]));
                want[1].f32[i] = isinf(want[1].f32[i]) ? got[1].f32[i] = 0 : want[1].f32[i];
            }
        }
        for (int i = 0; i < 5; i++) {
            for (int64_t k = 0; k < ROWS * heads && i == 1; k++) {
                got[1].f32[k] = isinf(got[1].f32[k]) ? 0 : got[1].f32[k];
            }
            /* ds is small where the terms of a row, whose sum would be zero without slopes, cancel */
            double near = i < 4 ? 1e-4 : 1e-4 * norm(&want[3]) / norm(&want[4]);
            expect(want[i].f32, got[i].f32, want[i].count, d, d == 0 || is_reference(d) ? near : 0,
                   what);
            if (d == 0) {
                memcpy(want[i].f32, got[i].f32, bytes_of(&got[i]));
            }
        }
    }
    for (int i = 0; i < 5; i++) {
        array_free(&want[i]);
        array_free(&got[i]);
    }
    array_free(&s);
    array_free(&t);
    array_free(&dalpha);
}

static void test_edge_softmax(void **state) {
    static const int64_t heads[] = {1, 2, 3, 4, 5, 8, 9, 16, 64};
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        check_softmax(heads[i]);
    }
}

/* The gradient of a weighted sum of alpha, against finite differences of the reference; that of t is
 * the sum by columns. */
static void test_edge_softmax_slope(void **state) {
    enum { HEADS = 3 };
    (void)state;
    stream = seed;
    const struct culm_ref_rows rows = rows_of_matrix();
    uint64_t count = matrix.entries * HEADS;
    struct array weight = array_of((int64_t)count, CULM_F32);
    struct array alpha = array_of((int64_t)count, CULM_F32),
                 dscore = array_of((int64_t)count, CULM_F32);
    float x[2][TABLE * HEADS], gradient[2][TABLE * HEADS], step = 1e-3f; /* of s and t */
    for (int i = 0; i < TABLE * HEADS; i++) {
        x[0][i] = uniform();
        x[1][i] = uniform();
    }
    struct culm_device *cpu = devices[0].device;
    CULM_RUN(cpu, edge_softmax_forward, .alpha = alpha.f32, .s = x[0], .t = x[1],
             .start = matrix.start, .column = matrix.column, .n = ROWS, .heads = HEADS,
             .slope = SLOPE);
    CULM_RUN(cpu, edge_softmax_backward, .dscore = dscore.f32, .ds = gradient[0],
             .alpha = alpha.f32, .dalpha = weight.f32, .s = x[0], .t = x[1], .start = matrix.start,
             .column = matrix.column, .n = ROWS, .heads = HEADS, .slope = SLOPE);
    CULM_RUN(cpu, edge_sum, .y = gradient[1], .x = dscore.f32, .start = matrix.column_start,
             .entry = matrix.column_entry, .n = TABLE, .heads = HEADS);
    for (int of = 0; of < 2; of++) {
        double want = 0, loss[2] = {0, 0};
        float direction[TABLE * HEADS];
        int sizes[] = {ROWS * HEADS, TABLE * HEADS};
        for (int i = 0; i < sizes[of]; i++) {
            direction[i] = uniform();
            want += (double)direction[i] * (double)gradient[of][i];
        }
        for (int side = 0; side < 2; side++) {
            float moved[TABLE * HEADS];
            for (int i = 0; i < sizes[of]; i++) {
                moved[i] = x[of][i] + (side ? -step : step) * direction[i];
            }
            culm_ref_edge_softmax_forward(alpha.f32, NULL, NULL, of ? x[0] : moved,
                                          of ? moved : x[1], &rows, HEADS, SLOPE);
            for (uint64_t i = OFFSET * HEADS; i < count; i++) {
                loss[side] += (double)alpha.f32[i] * (double)weight.f32[i];
            }
        }
        double got = (loss[0] - loss[1]) / (2 * (double)step);
        assert_true(fabs(want - got) < 0.05 * (fabs(want) + 0.2));
    }
    array_free(&weight);
    array_free(&alpha);
    array_free(&dscore);
}

static void test_edge_sum(void **state) {
    static const int64_t heads[] = {1, 3, 8, 17};
    (void)state;
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++) {
        int64_t h = heads[k];
        struct array x = array_of((int64_t)matrix.entries * h, CULM_F32);
        struct array want = array_of(ROWS * h, CULM_F32), got = array_of(ROWS * h, CULM_F32);
        for (int d = 0; d < device_count; d++) {
            for (int add = 0; add < 2; add++) {
                for (int64_t i = 0; i < ROWS * h; i++) {
                    float sum = 0;
                    int64_t row = i / h;
                    for (uint64_t e = matrix.start[row]; e < matrix.start[row + 1]; e++) {
                        uint64_t block = (e - matrix.start[row]) % CULM_SPMM_BLOCK;
                        static float part;
                        float term = x.f32[matrix.entry[e] * (uint64_t)h + (uint64_t)(i % h)];
                        part = block ? part + term : term;
                        if (block == CULM_SPMM_BLOCK - 1 || e + 1 == matrix.start[row + 1]) {
                            sum = e < matrix.start[row] + CULM_SPMM_BLOCK ? part : sum + part;
                        }
                    }
                    got.f32[i] = 0.5f;
                    want.f32[i] = !add ? sum : degree(row) ? 0.5f + sum : 0.5f;
                }
                CULM_RUN(devices[d].device, edge_sum, .y = got.f32, .x = x.f32,
                         .start = matrix.start, .entry = matrix.entry, .n = ROWS, .heads = h,
                         .add = add);
                expect(want.f32, got.f32, ROWS * h, d, is_reference(d) ? 1e-4 : 0, "edge_sum");
            }
        }
        array_free(&x);
        array_free(&want);
        array_free(&got);
    }
}

/* --- dropout --- */

/* The mask of sparse rows is that of the same rows with zeros between. Some rows have few of the elements
 * that are drawn together, some many, some all. */
static void test_sparse_dropout(void **state) {
    enum { WIDTH = 1433, MOST = 24000 };
    uint64_t start[ROWS + 1] = {OFFSET};
    uint32_t id[ROWS], *column = calloc(MOST, sizeof *column), kept[MOST / 32 + 2];
    struct array dense = array_of(ROWS * WIDTH, CULM_F32), mask = array_of(ROWS * WIDTH, CULM_F32);
    (void)state;
    stream = seed;
    for (int r = 0; r < ROWS; r++) {
        static const uint32_t steps[] = {37, 0, 3, 2000, 1, 90, 5};
        uint32_t step = steps[r % 7];
        id[r] = (uint32_t)culm_rng_next(&stream);
        uint64_t e = start[r];
        for (uint32_t c = (uint32_t)r; c < WIDTH && step; c += step + (step > 1 ? c % 3 : 0)) {
            column[e++] = c;
        }
        start[r + 1] = e;
        assert_true(e < MOST);
    }
    for (int64_t i = 0; i < dense.count; i++) {
        dense.f32[i] = 1;
    }
    for (int ids = 0; ids < 2; ids++) {
        const struct culm_dropout dropout = {.p = ids ? 0.5 : 0.3,
                                             .key = 0x1234567890abcdef,
                                             .first_sample = (uint64_t)1 << 33,
                                             .sample_id = ids ? id : NULL,
                                             .samples = ROWS};
        CULM_RUN(devices[0].device, dropout, .y = culm_out_f32(mask.f32),
                 .x = culm_in_f32(dense.f32), .count = ROWS * WIDTH, .dropout = &dropout);
        for (int d = 0; d < device_count; d++) {
            memset(kept, 0xA5, sizeof kept);
            CULM_RUN(devices[d].device, sparse_dropout, .kept = kept, .start = start,
                     .column = column, .n = ROWS, .dropout = &dropout);
            for (int r = 0; r < ROWS; r++) {
                for (uint64_t e = start[r]; e < start[r + 1]; e++) {
                    bool want = mask.f32[r * WIDTH + column[e]] != 0;
                    assert_int_equal(kept[e / 32] >> e % 32 & 1, want);
                }
            }
            assert_int_equal(kept[start[ROWS] / 32 + 1], 0xA5A5A5A5);
        }
    }
    free(column);
    array_free(&dense);
    array_free(&mask);
}

static void test_edge_dropout(void **state) {
    static const int64_t heads[] = {1, 3, 8, 9, 16};
    uint32_t row_id[ROWS], column_id[TABLE];
    (void)state;
    stream = seed;
    for (int i = 0; i < TABLE; i++) {
        column_id[i] = (uint32_t)culm_rng_next(&stream);
        row_id[i % ROWS] = (uint32_t)culm_rng_next(&stream);
    }
    const struct culm_ref_rows rows = rows_of_matrix();
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++) {
        int64_t count = (int64_t)matrix.entries * heads[k];
        struct array x = array_of(count, CULM_F32), want = array_of(count, CULM_F32),
                     got = array_of(count, CULM_F32);
        for (int ids = 0; ids < 2; ids++) {
            const struct culm_dropout dropout = {.p = 0.6,
                                                 .key = 99,
                                                 .first_sample = 7,
                                                 .sample_id = ids ? row_id : NULL,
                                                 .samples = ROWS};
            int64_t dropped = 0;
            memcpy(want.f32, x.f32, bytes_of(&x));
            culm_ref_edge_dropout(want.f32, x.f32, &rows, ids ? column_id : NULL, heads[k],
                                  &dropout);
            for (int d = 0; d < device_count; d++) {
                memcpy(got.f32, x.f32, bytes_of(&x));
                CULM_RUN(devices[d].device, edge_dropout, .y = got.f32,
                         .x = d % 2 ? got.f32 : x.f32, .start = matrix.start,
                         .column = matrix.column, .column_id = ids ? column_id : NULL, .n = ROWS,
                         .heads = heads[k], .dropout = &dropout);
                expect(want.f32, got.f32, count, d, 1e-7, "edge_dropout");
                for (int64_t i = 0; i < count; i++) {
                    assert_int_equal(want.f32[i] == 0, got.f32[i] == 0);
                    dropped += d == 0 && want.f32[i] == 0;
                }
            }
            assert_true(dropped > count / 2 && dropped < count * 7 / 10);
        }
        array_free(&x);
        array_free(&want);
        array_free(&got);
    }
}

/* --- attention, all at once --- */

static void check_attend(int64_t heads, int64_t width, enum culm_dtype type, double p) {
    enum { BETWEEN = 3 };
    char what[96];
    int64_t f = heads * width, ld = f + BETWEEN, extra = f + 2 * heads;
    uint32_t row_id[ROWS], column_id[TABLE];
    snprintf(what, sizeof what, "attention, heads %lld of %lld, %s, dropout %g", (long long)heads,
             (long long)width, culm_dtype_name(type), p);
    stream = seed;
    for (int i = 0; i < TABLE; i++) {
        column_id[i] = (uint32_t)culm_rng_next(&stream);
        row_id[i % ROWS] = (uint32_t)culm_rng_next(&stream);
    }
    const struct culm_dropout dropout = {.p = p, .key = 99, .sample_id = row_id, .samples = ROWS};
    struct array table = array_of(TABLE * ld, type), own = array_of(ROWS * ld, type);
    struct array s = array_of(ROWS * heads, CULM_F32), t = array_of(TABLE * heads, CULM_F32);
    struct array reader = array_of(TABLE * 3 * heads, CULM_F32);
    struct array want[4], got[4]; /* y, beside; y, dt */
    const int64_t size[4] = {ROWS * ld, ROWS * extra, ROWS * ld, ROWS * heads};
    for (int64_t i = 0; i < TABLE * 3 * heads; i++) { /* alphas like those of a row of ten */
        reader.f32[i] += i / heads % 3 == 1 ? 2 : 0;
    }
    for (int i = 0; i < 4; i++) {
        want[i] = array_of(size[i], CULM_F32);
        got[i] = array_of(size[i], CULM_F32);
    }
    for (int d = 0; d < device_count; d++) {
        for (int i = 0; i < 4; i++) {
            memset(got[i].f32, 0, bytes_of(&got[i]));
        }
        for (int with = 0; with < 2; with++) { /* y is the same without the rest */
            CULM_RUN(devices[d].device, attend_forward, .y = got[0].f32,
                     .beside = with ? got[1].f32 : NULL, .x = {data_of(&table), type}, .s = s.f32,
                     .t = t.f32, .start = matrix.start, .column = matrix.column,
                     .column_id = column_id, .n = ROWS, .f = f, .ldx = ld, .ldy = ld, .ldb = extra,
                     .heads = heads, .slope = SLOPE, .dropout = p > 0 ? &dropout : NULL);
            if (d == 0 && with == 0) {
                memcpy(want[0].f32, got[0].f32, bytes_of(&got[0]));
            }
        }
        CULM_RUN(devices[d].device, attend_backward, .y = got[2].f32, .dt = got[3].f32,
                 .x = {data_of(&own), type}, .dy = {data_of(&table), type}, .t = s.f32,
                 .reader = reader.f32, .start = matrix.start, .column = matrix.column,
                 .column_id = column_id, .n = ROWS, .f = f, .ldx = ld, .ldy = ld, .ldd = ld,
                 .ldt = heads, .heads = heads, .slope = SLOPE, .dropout = p > 0 ? &dropout : NULL);
        for (int64_t r = 0; r < ROWS; r++) { /* infinities have no distance */
            for (int64_t h = 0; h < heads; h++) {
                float *log = &got[1].f32[r * extra + f + heads + h];
                assert_int_equal(matrix.start[r] == matrix.start[r + 1], isinf(*log) && *log < 0);
                *log = isinf(*log) ? 0 : *log;
            }
        }
        for (int i = 0; i < 4; i++) {
            bool first = d == 0 && i > 0;
            if (first) {
                memcpy(want[i].f32, got[i].f32, bytes_of(&got[i]));
            }
            expect(want[i].f32, got[i].f32, size[i], d, is_reference(d) ? 1e-4 : 0, what);
        }
    }
    struct array *const all[] = {&table,   &own,     &s,      &t,      &reader, &want[0], &want[1],
                                 &want[2], &want[3], &got[0], &got[1], &got[2], &got[3]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        array_free(all[i]);
    }
}

static void test_attend(void **state) {
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        enum culm_dtype type = bf16 ? CULM_BF16 : CULM_F32;
        check_attend(8, 8, type, 0.6);
        check_attend(8, 8, type, 0);
        check_attend(1, 7, type, 0.6);
        check_attend(1, 200, type, 0);
        check_attend(4, 16, type, 0.3);
        check_attend(3, 5, type, 0.6);
        check_attend(9, 31, type, 0.5);
        check_attend(20, 9, type, 0.5);
        check_attend(64, 2, type, 0.5);
    }
}

/* --- argmax --- */

static void test_argmax(void **state) {
    static const int64_t widths[] = {1, 7, 16, 17, 41, 210};
    enum { N = 600 };
    static float x[N * 210];
    static uint16_t half[N * 210];
    int32_t index[N];
    (void)state;
    stream = seed;
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
        int64_t c = widths[k];
        for (int64_t i = 0; i < N * c; i++) { /* few values: many are equal */
            x[i] = (float)culm_rng_below(&stream, 20) - 10;
            half[i] = narrow(x[i]);
        }
        for (int d = 0; d < device_count; d++) {
            bool bf16 = d % 2;
            CULM_RUN(devices[d].device, argmax, .index = index,
                     .x = {bf16 ? (void *)half : x, bf16 ? CULM_BF16 : CULM_F32}, .n = N, .c = c);
            for (int64_t r = 0; r < N; r++) {
                for (int32_t i = 0; i < c; i++) {
                    float best = x[r * c + index[r]];
                    assert_true(i < index[r] ? x[r * c + i] < best : x[r * c + i] <= best);
                }
            }
        }
    }
}

int main(int argc, char **argv) {
    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 10);
    }
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spmm),         cmocka_unit_test(test_spmm_heads),
        cmocka_unit_test(test_spmm_large),   cmocka_unit_test(test_sddmm),
        cmocka_unit_test(test_edge_softmax), cmocka_unit_test(test_edge_softmax_slope),
        cmocka_unit_test(test_edge_sum),     cmocka_unit_test(test_sparse_dropout),
        cmocka_unit_test(test_edge_dropout), cmocka_unit_test(test_attend),
        cmocka_unit_test(test_argmax),
    };
    return cmocka_run_group_tests_name("device/sparse", tests, make_matrix, free_matrix);
}
