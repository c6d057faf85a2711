/* What is computed for each entry, see sparse.c: scores, softmax, dropout, attention. */
#include "sparse.h"

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
    for (int64_t h = 0; h < heads; h++) { /* the columns of each head */
        int64_t width = f / heads;
        struct array *of[] = {&a, &b};
        for (int i = 0; i < 2; i++) {
            int64_t count_of_rows = i ? TABLE : ROWS;
            astray_pitched(of[i]->f32 + h * width, count_of_rows, ld, width, 1, false);
            astray_of(of[i]->bf16 + h * width, 2, count_of_rows, ld, width, 1, false);
        }
    }
    CULM_RUN(devices[0].device, sddmm, .value = value.f32, .a = {data_of(&a), type_a},
             .b = {data_of(&b), type_b}, .start = matrix.start, .column = matrix.column, .n = ROWS,
             .f = f, .lda = ld, .ldb = ld, .heads = heads);
    if (f / heads > 3 && !differs(first.f32, value.f32, count)) {
        fail_msg("%s of %s and %s", what, culm_dtype_name(type_a), culm_dtype_name(type_b));
    }
    array_free(&a);
    array_free(&b);
    array_free(&first);
    array_free(&value);
}

void test_sddmm(void **state) {
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
    entries_astray(matrix.column, 1, false);
    entries_astray(dalpha.f32, heads, false);
    CULM_RUN(devices[0].device, edge_softmax_forward, .alpha = got[0].f32, .largest = got[1].f32,
             .sum = got[2].f32, .s = s.f32, .t = t.f32, .start = matrix.start,
             .column = matrix.column, .n = ROWS, .heads = heads, .slope = SLOPE);
    CULM_RUN(devices[0].device, edge_softmax_backward, .dscore = got[3].f32, .ds = got[4].f32,
             .alpha = got[0].f32, .dalpha = dalpha.f32, .s = s.f32, .t = t.f32,
             .start = matrix.start, .column = matrix.column, .n = ROWS, .heads = heads,
             .slope = SLOPE);
    entries_astray(matrix.column, 1, true);
    entries_astray(got[0].f32, heads, true);
    entries_astray(got[3].f32, heads, true);
    for (int i = 0; i < 5; i++) {
        assert_true(i == 1 || differs(want[i].f32, got[i].f32, want[i].count));
    }
    for (int i = 0; i < 5; i++) {
        array_free(&want[i]);
        array_free(&got[i]);
    }
    array_free(&s);
    array_free(&t);
    array_free(&dalpha);
}

void test_edge_softmax(void **state) {
    static const int64_t heads[] = {1, 2, 3, 4, 5, 8, 9, 16, 64};
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        /* pieces of a row are of 1024 elements (PIECE), which many heads fill with few entries */
        matrix_make(heads[i] > 8 ? 1024 : CULM_SPMM_BLOCK);
        check_softmax(heads[i]);
    }
    matrix_make(CULM_SPMM_BLOCK);
}

/* The gradient of a weighted sum of alpha, against finite differences of the reference; that of t is
 * the sum by columns. */
void test_edge_softmax_slope(void **state) {
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

/* --- dropout --- */

enum { WIDTH = 1433, MOST = 33000 };

struct sparse_rows {
    uint64_t start[ROWS + 1];
    uint32_t column[MOST];
};

/* The mask of sparse rows is that of the same rows with zeros between. */
static void check_sparse_dropout(struct sparse_rows *x) {
    static uint32_t kept[MOST / 32 + 2], id[ROWS];
    struct array dense = array_of(ROWS * WIDTH, CULM_F32), mask = array_of(ROWS * WIDTH, CULM_F32);
    for (int r = 0; r < ROWS; r++) {
        id[r] = (uint32_t)culm_rng_next(&stream);
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
            CULM_RUN(devices[d].device, sparse_dropout, .kept = kept, .start = x->start,
                     .column = x->column, .n = ROWS, .dropout = &dropout);
            for (int r = 0; r < ROWS; r++) {
                for (uint64_t e = x->start[r]; e < x->start[r + 1]; e++) {
                    bool want = mask.f32[r * WIDTH + x->column[e]] != 0;
                    assert_int_equal(kept[e / 32] >> e % 32 & 1, want);
                }
            }
            assert_int_equal(kept[x->start[ROWS] / 32 + 1], 0xA5A5A5A5);
        }
    }
    array_free(&dense);
    array_free(&mask);
}

/* Some rows have few of the elements that are drawn together, some many, some all; and nearly all rows have
 * many, but for one that has none. */
void test_sparse_dropout(void **state) {
    struct sparse_rows *x = calloc(1, sizeof *x);
    (void)state;
    assert_non_null(x);
    stream = seed;
    for (int dense = 0; dense < 2; dense++) {
        x->start[0] = OFFSET;
        for (int r = 0; r < ROWS; r++) {
            static const uint32_t steps[2][7] = {{37, 0, 3, 2000, 1, 90, 5}, {1, 1, 3, 1, 2, 1, 1}};
            uint32_t step = dense && r == 3 ? 0 : steps[dense][r % 7];
            uint64_t e = x->start[r];
            for (uint32_t c = (uint32_t)r; c < WIDTH && step; c += step + (step > 1 ? c % 3 : 0)) {
                x->column[e++] = c;
                assert_true(e < MOST);
            }
            x->start[r + 1] = e;
        }
        check_sparse_dropout(x);
    }
    free(x);
}

/* Bits of all elements, by rows and by columns, of several bands of rows and groups of columns. */
void test_sparse_dropout_words(void **state) {
    enum { N = 141, C = 203, WORDS = (C + 63) / 64, TURNED = (N + 63) / 64 };
    static uint64_t there[WORDS * N], kept[WORDS * N + 1], turned[TURNED * C + 1];
    const uint64_t start[N + 1] = {0}; /* helps nobody here */
    const struct culm_dropout dropout = {.p = 0.4, .key = 77, .first_sample = 5, .samples = N};
    (void)state;
    stream = seed;
    for (int i = 0; i < N * C; i++) {
        there[i % C / 64 * N + i / C] |= (culm_rng_next(&stream) >> 40 & 1) << i % C % 64;
    }
    for (int d = 0; d < 2 * device_count; d++) {
        bool turns = d % 2;
        memset(kept, 0xA5, sizeof kept);
        memset(turned, 0xA5, sizeof turned);
        CULM_RUN(devices[d / 2].device, sparse_dropout, .start = start, .n = N, .dropout = &dropout,
                 .there = there, .kept_words = kept, .turned_words = turns ? turned : NULL,
                 .columns = C);
        for (int r = 0; r < TURNED * 64; r++) {
            for (int c = 0; c < WORDS * 64; c++) {
                bool is = r < N && c < C;
                bool want = is && there[c / 64 * N + r] >> c % 64 & 1 &&
                            !culm_dropout_drops(&dropout, r, c);
                assert_true(r >= N || (kept[c / 64 * N + r] >> c % 64 & 1) == want);
                assert_true(!turns || c >= C || (turned[r / 64 * C + c] >> r % 64 & 1) == want);
            }
        }
        assert_int_equal(kept[WORDS * N], 0xA5A5A5A5A5A5A5A5);
        assert_int_equal(turned[turns ? TURNED * C : 0], 0xA5A5A5A5A5A5A5A5);
    }
}

void test_edge_dropout(void **state) {
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
    entries_astray(matrix.column, 1, false);
    CULM_RUN(devices[0].device, attend_forward, .y = got[0].f32, .beside = got[1].f32,
             .x = {data_of(&table), type}, .s = s.f32, .t = t.f32, .start = matrix.start,
             .column = matrix.column, .column_id = column_id, .n = ROWS, .f = f, .ldx = ld,
             .ldy = ld, .ldb = extra, .heads = heads, .slope = SLOPE,
             .dropout = p > 0 ? &dropout : NULL);
    CULM_RUN(devices[0].device, attend_backward, .y = got[2].f32, .dt = got[3].f32,
             .x = {data_of(&own), type}, .dy = {data_of(&table), type}, .t = s.f32,
             .reader = reader.f32, .start = matrix.start, .column = matrix.column,
             .column_id = column_id, .n = ROWS, .f = f, .ldx = ld, .ldy = ld, .ldd = ld,
             .ldt = heads, .heads = heads, .slope = SLOPE, .dropout = p > 0 ? &dropout : NULL);
    entries_astray(matrix.column, 1, true);
    for (int i = 0; i < 4; i++) {
        for (int64_t k = 0; k < size[i]; k++) {
            got[i].f32[k] = isinf(got[i].f32[k]) ? 0 : got[i].f32[k];
        }
        assert_true(differs(want[i].f32, got[i].f32, size[i]));
    }
    struct array *const all[] = {&table,   &own,     &s,      &t,      &reader, &want[0], &want[1],
                                 &want[2], &want[3], &got[0], &got[1], &got[2], &got[3]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        array_free(all[i]);
    }
}

void test_attend(void **state) {
    static const struct {
        int64_t heads, width;
        double p;
    } shapes[] = {{8, 8, 0.6}, {8, 8, 0},    {1, 7, 0.6},  {1, 200, 0}, {4, 16, 0.3},
                  {3, 5, 0.6}, {9, 31, 0.5}, {20, 9, 0.5}, {64, 2, 0.5}};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i += EVERY) {
        const int64_t heads = shapes[i / 2].heads;
        matrix_make(heads > 16 ? 1024 : CULM_SPMM_BLOCK); /* blocks of attend.c are so large */
        check_attend(heads, shapes[i / 2].width, i % 2 ? CULM_BF16 : CULM_F32, shapes[i / 2].p);
    }
    matrix_make(CULM_SPMM_BLOCK);
}

/* --- argmax --- */

void test_argmax(void **state) {
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
