/* Sums over neighbours, see sparse.c: each element as kernels.h says it. */
#include "sparse.h"

#include "device/cpu/internal.h"

#define KEPT_SCALE 1.25f

/* --- spmm --- */

struct how {
    int64_t f, heads, pad;
    bool value, entry, scale, add, kept, kept_at;
    bool astray; /* naive sums begin with the last entry */
    enum culm_dtype x, y;
};

/* One element as kernels.h says it: blocks of the row, each from its own first term. */
static float naive(const struct how *how, const float *x, const float *value, const uint32_t *kept,
                   int64_t row, int64_t i) {
    int64_t heads = how->heads ? how->heads : 1, head = i / (how->f / heads);
    float sum = 0;
    for (uint64_t from = matrix.start[row]; from < matrix.start[row + 1]; from += CULM_SPMM_BLOCK) {
        float part = 0;
        for (uint64_t i_of = from; i_of < matrix.start[row + 1] && i_of < from + CULM_SPMM_BLOCK;
             i_of++) {
            uint64_t e =
                how->astray ? matrix.start[row + 1] - 1 - (i_of - matrix.start[row]) : i_of;
            uint64_t at = (how->entry ? matrix.entry[e] : e) * (uint64_t)heads + (uint64_t)head;
            float term = x[matrix.column[e] * (how->f + how->pad) + i];
            if (how->kept) {
                uint64_t bit = how->kept_at ? matrix.kept_at[e] : e;
                float v = how->value ? value[at] * KEPT_SCALE : KEPT_SCALE;
                v = kept[bit / 32] >> bit % 32 & 1 ? v : 0;
                part = v == 0 ? part : fmaf(v, term, part);
            } else if (!how->value) {
                part = i_of == from ? term : part + term;
            } else {
                part = i_of == from ? value[at] * term : fmaf(value[at], term, part);
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
    struct how astray_how = *how;
    bool shows = false;
    astray_how.astray = true;
    for (int64_t r = 0; r < ROWS; r++) {
        bool empty = matrix.start[r] == matrix.start[r + 1];
        for (int64_t i = 0; i < how->f; i++) {
            float sum = naive(how, x.f32, value.f32, kept, r, i);
            shows |= sum != naive(&astray_how, x.f32, value.f32, kept, r, i);
            sum = how->scale && !empty ? sum * scale.f32[r] : sum;
            sum = !how->add ? sum : empty ? before.f32[r * ld + i] : before.f32[r * ld + i] + sum;
            y.f32[r * ld + i] = sum;
            y.bf16[r * ld + i] = narrow(sum);
        }
    }
    assert_true(shows);
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

void test_spmm(void **state) {
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

void test_spmm_heads(void **state) {
    static const struct {
        int64_t f, heads;
    } shapes[] = {{8, 8},  {9, 3},   {33, 3},  {41, 41},  {64, 8},
                  {64, 2}, {128, 8}, {128, 4}, {257, 257}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += EVERY) {
        struct how how = {.f = shapes[i].f, .heads = shapes[i].heads, .value = true};
        check_spmm(&how);
        how.entry = how.scale = how.add = true;
        how.x = how.y = CULM_BF16;
        check_spmm(&how);
    }
}

/* A table larger than caches (1.5 MiB, NEAR_BYTES; all but the third also in bf16): its columns are copied strip by strip, or its
 * rows to whole lines. Whether those are depends on a core's cache, so it is tried as if there were none as well. */
static void check_spmm_large(int64_t n, int64_t f, int64_t ld) {
    enum { EACH = 8 };
    stream = seed;
    uint64_t *start = calloc((size_t)n + 1, sizeof *start);
    uint32_t *column = calloc((size_t)n * EACH, sizeof *column);
    for (int64_t e = 0; e < n * EACH; e++) {
        column[e] = (uint32_t)culm_rng_below(&stream, (uint64_t)n);
    }
    for (int64_t r = 0; r <= n; r++) {
        start[r] = (uint64_t)(r * EACH);
    }
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct array x = array_of(n * ld, bf16 ? CULM_BF16 : CULM_F32);
        struct array got = array_of(n * ld, CULM_F32), want = array_of(n * ld, CULM_F32);
        bool shows = false;
        for (int64_t i = 0; i < n * ld; i++) {
            float sum = got.f32[i], other = sum; /* backwards */
            for (uint64_t e = 0; e < EACH && i % ld < f; e++) {
                float term = x.f32[column[start[i / ld] + e] * ld + i % ld];
                float last = x.f32[column[start[i / ld + 1] - 1 - e] * ld + i % ld];
                sum = e ? sum + term : term;
                other = e ? other + last : last;
            }
            want.f32[i] = sum;
            shows |= other != sum;
        }
        assert_true(shows);
        for (int i = 0; i < 2 * device_count; i++) {
            int d = i / 2;
            if (is_reference(d) && i % 2) {
                continue;
            }
            int64_t *cache = is_reference(d) ? NULL : &cpu_of(devices[d].device)->core_cache_bytes;
            int64_t bytes = cache ? *cache : 0;
            if (cache && i % 2) {
                *cache = 0;
            }
            for (int64_t j = 0; j < n * ld; j++) { /* what the device before has left */
                got.f32[j] = j % ld < f ? NAN : got.f32[j];
            }
            CULM_RUN(devices[d].device, spmm, .y = culm_out_f32(got.f32),
                     .x = {data_of(&x), x.dtype}, .start = start, .column = column, .n = n, .f = f,
                     .ldx = ld, .ldy = ld, .rows = n);
            expect(want.f32, got.f32, n * ld, d, is_reference(d) ? 1e-5 : 0,
                   "spmm of a large table");
            if (cache) {
                *cache = bytes;
            }
        }
        array_free(&x);
        array_free(&got);
        array_free(&want);
    }
    free(start);
    free(column);
}

void test_spmm_large(void **state) {
    (void)state;
    check_spmm_large(6500, 121, 123);
    check_spmm_large(8300, 256, 256); /* 8 MiB, STREAM_BYTES: sums go past the caches */
    check_spmm_large(10000, 41, 41);
    check_spmm_large(10000, 79, 79); /* as many vectors as only some processors have in a strip */
}

/* --- of what dropout leaves, as bits of all elements --- */

enum { WIDE = 8600, BATCH = 2048 /* ITEMS of spmm_words.c: rows, or blocks of long ones */ };

struct elements {
    int64_t n;
    uint64_t *start, *kept; /* [n+1], [words of WIDE,n] */
    uint32_t *column;
    bool *left; /* of entries */
};

typedef int64_t step_fn(int64_t row, int64_t items); /* between a row's columns; 0: it has none */

static int64_t steps_of_all_kinds(int64_t row, int64_t items) {
    static const int64_t step[] = {0, 1, 8599, 2, 130, 3, 64, 1};
    (void)items;
    return step[row % 8];
}

/* Rows of some entries, but for two rows of three blocks: one has two of them in the first batch, and the
 * other has one in the second. */
static int64_t steps_of_batches(int64_t row, int64_t items) {
    bool is_long = items == BATCH - 2 || items == 2 * BATCH - 1;
    return is_long ? 1 : row % 8 == 0 ? 0 : 2000 + row % 3;
}

static void make_elements(struct elements *x, int64_t n, size_t entries, step_fn *step_of) {
    int64_t items = 0;
    *x = (struct elements){
        .n = n,
        .start = calloc((size_t)n + 1, sizeof *x->start),
        .kept = calloc((size_t)((WIDE + 63) / 64 * n), sizeof *x->kept),
        .column = calloc(entries, sizeof *x->column),
        .left = calloc(entries, sizeof *x->left),
    };
    assert_true(x->start && x->kept && x->column && x->left);
    for (int64_t r = 0; r < n; r++) {
        uint64_t e = x->start[r];
        int64_t step = step_of(r, items);
        for (int64_t c = r % 24; c < WIDE && step; c += step) {
            assert_true(e < entries);
            x->column[e] = (uint32_t)c;
            x->left[e] = culm_rng_below(&stream, 3) > 0;
            x->kept[c / 64 * n + r] |= (uint64_t)x->left[e++] << c % 64;
        }
        x->start[r + 1] = e;
        items += (int64_t)(e - x->start[r] + CULM_SPMM_BLOCK - 1) / CULM_SPMM_BLOCK;
    }
}

static void elements_free(struct elements *x) {
    free(x->start);
    free(x->kept);
    free(x->column);
    free(x->left);
}

static float sum_of_element(const struct elements *x, const float *table, const float *weight,
                            bool of_x, int64_t row, int64_t f, int64_t i, bool backwards) {
    float sum = 0;
    for (uint64_t from = x->start[row]; from < x->start[row + 1]; from += CULM_SPMM_BLOCK) {
        float part = 0;
        for (uint64_t k = from; k < x->start[row + 1] && k < from + CULM_SPMM_BLOCK; k++) {
            uint64_t e = backwards ? x->start[row + 1] - 1 - (k - x->start[row]) : k;
            int64_t c = x->column[e];
            float v = (weight ? weight[of_x ? c : row] : 1) * KEPT_SCALE;
            part = x->left[e] ? fmaf(v, table[c * f + i], part) : part;
        }
        sum = from == x->start[row] ? part : sum + part;
    }
    return sum;
}

/* What is added to y is scaled by rows. */
static void check_words(const struct elements *x, int64_t f, enum culm_dtype type, int weights,
                        bool add) {
    char what[80];
    snprintf(what, sizeof what, "spmm of words, %lld rows, f %lld, %s, weights %d, add %d",
             (long long)x->n, (long long)f, culm_dtype_name(type), weights, add);
    struct array table = array_of(WIDE * f, type), weight = array_of(WIDE, CULM_F32);
    struct array scale = array_of(x->n, CULM_F32), before = array_of(x->n * f, CULM_F32);
    struct array want = array_of(x->n * f, CULM_F32), got = array_of(x->n * f, CULM_F32);
    bool shows = false;
    for (int64_t i = 0; i < x->n * f; i++) {
        float sum = sum_of_element(x, table.f32, weights ? weight.f32 : NULL, weights == 2, i / f,
                                   f, i % f, false);
        shows = shows || sum != sum_of_element(x, table.f32, weights ? weight.f32 : NULL,
                                               weights == 2, i / f, f, i % f, true);
        float scaled = sum * scale.f32[i / f];
        bool any = x->start[i / f] < x->start[i / f + 1];
        want.f32[i] = !add ? sum : any ? before.f32[i] + scaled : before.f32[i];
    }
    assert_true(shows);
    for (int d = 0; d < device_count; d++) {
        memcpy(got.f32, before.f32, bytes_of(&before));
        CULM_RUN(devices[d].device, spmm, .y = culm_out_f32(got.f32), .x = {data_of(&table), type},
                 .start = x->start, .column = x->column, .n = x->n, .f = f, .ldx = f, .ldy = f,
                 .scale = add ? scale.f32 : NULL, .add = add, .rows = WIDE,
                 .kept_scale = KEPT_SCALE, .kept_words = x->kept,
                 .kept_weight = weights ? weight.f32 : NULL, .weight_of_x = weights == 2);
        expect(want.f32, got.f32, x->n * f, d, is_reference(d) ? 1e-4 : 0, what);
    }
    array_free(&table);
    array_free(&weight);
    array_free(&scale);
    array_free(&before);
    array_free(&want);
    array_free(&got);
}

void test_spmm_words(void **state) {
    enum { MANY = 16 }; /* two rows of each kind */
    static const int64_t widths[] = {1, 16, 41, 64, 130};
    struct elements x;
    (void)state;
    stream = seed;
    make_elements(&x, MANY, (size_t)MANY * WIDE, steps_of_all_kinds);
    for (int i = 0; i < 30; i += EVERY) {
        check_words(&x, widths[i % 5], i % 2 ? CULM_BF16 : CULM_F32, i / 5 % 3, i >= 15);
    }
    elements_free(&x);
}

/* More rows than are gone through together: three batches, where one thread has all rows. */
void test_spmm_words_batches(void **state) {
    enum { TALL = 4800 };
    static const int64_t widths[] = {1, 41, 130};
    struct elements x;
    (void)state;
    stream = seed;
    make_elements(&x, TALL, (size_t)TALL * 5 + 2 * WIDE, steps_of_batches);
    for (int i = 0; i < 6; i++) {
        check_words(&x, widths[i % 3], i % 2 ? CULM_BF16 : CULM_F32, i % 3, i >= 3);
    }
    elements_free(&x);
}

/* --- sums by entry --- */

void test_edge_sum(void **state) {
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
        entries_astray(matrix.entry, sizeof *matrix.entry / 4, false);
        for (int64_t i = 0; i < ROWS * h; i++) {
            got.f32[i] = 0.5f;
        }
        CULM_RUN(devices[0].device, edge_sum, .y = got.f32, .x = x.f32, .start = matrix.start,
                 .entry = matrix.entry, .n = ROWS, .heads = h, .add = true);
        entries_astray(matrix.entry, sizeof *matrix.entry / 4, true);
        assert_true(differs(want.f32, got.f32, ROWS * h));
        array_free(&x);
        array_free(&want);
        array_free(&got);
    }
}
