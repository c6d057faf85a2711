/*
 * Kernels of graphs and sparse matrices: every instruction set and number of threads against naive
 * loops that add in the order that kernels.h promises, bit for bit, and against the reference; in
 * another order, the bits are others;
 * widths around those of vectors, rows without entries, and rows of several blocks.
 */
#include "sparse.h"

#include "device/reference/reference.h"

uint64_t seed = 1;
uint64_t stream;

float uniform(void) { return 2 * culm_rng_unit((uint32_t)culm_rng_next(&stream)) - 1; }

/* --- devices --- */

struct sparse_device devices[DEVICES_MAX];
int device_count;

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
    for (int i = 0; i < device_count; i++) {
        printf("%s%s", i ? ", " : "# compared: ", devices[i].name);
    }
    printf("\n");
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

struct sparse_matrix matrix;

static int64_t block; /* of the matrix there is */

int64_t degree(int64_t row) {
    const int64_t large[] = {block, block + 1, 2 * block + 1, block - 1, 2 * block};
    return row % 5 == 0 && row / 5 < 5 ? large[row / 5] : row % 4 == 3 ? 0 : row;
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

static void clear_matrix(void) {
    free(matrix.column);
    free(matrix.entry);
    free(matrix.kept_at);
    free(matrix.row);
    free(matrix.column_entry);
}

void matrix_make(int64_t entries) {
    clear_matrix();
    block = entries;
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
}

static int make_matrix(void **state) {
    open_devices(state);
    matrix_make(CULM_SPMM_BLOCK);
    return 0;
}

static int free_matrix(void **state) {
    clear_matrix();
    return close_devices(state);
}

void entries_astray(void *x, int64_t per_entry, bool back) {
    for (int64_t r = 0; r < ROWS; r++) {
        char *at = (char *)x + matrix.start[r] * (size_t)per_entry * 4;
        astray(at, 1, degree(r), per_entry, back);
    }
}

struct culm_ref_rows rows_of_matrix(void) {
    return (struct culm_ref_rows){ROWS, matrix.start, matrix.column};
}

/* --- arrays of either type --- */

float widen(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
uint16_t narrow(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

struct array array_of(int64_t count, enum culm_dtype dtype) {
    /* Sums of a few bf16 that are alike in size are exact in f32, in whatever order. */
    static const float by[4] = {1, 0x1p-7f, 0x1p-14f, 0x1p-21f};
    struct array a = {.dtype = dtype, .count = count};
    a.f32 = aligned_alloc(64, (size_t)(count + 16) * 4 / 64 * 64 + 64);
    a.bf16 = aligned_alloc(64, (size_t)(count + 32) * 2 / 64 * 64 + 64);
    for (int64_t i = 0; i < count; i++) {
        a.bf16[i] = narrow(uniform() * by[(uint32_t)i * 2654435761u >> 30]);
        a.f32[i] = dtype == CULM_BF16 ? widen(a.bf16[i]) : uniform();
    }
    return a;
}
void array_free(struct array *a) {
    free(a->f32);
    free(a->bf16);
}
void *data_of(const struct array *a) { return a->dtype == CULM_BF16 ? (void *)a->bf16 : a->f32; }
size_t bytes_of(const struct array *a) { return (size_t)a->count * culm_dtype_bytes(a->dtype); }

void array_astray(struct array *a, int64_t outer, int64_t n, int64_t inner, bool back) {
    astray(a->f32, outer, n, inner, back);
    astray_of(a->bf16, 2, outer, n * inner, n, inner, back);
}

bool is_reference(int d) { return !strcmp(devices[d].name, "reference"); }

bool differs(const float *one, const float *other, int64_t count) {
    return memcmp(one, other, (size_t)count * sizeof *one);
}

void expect(const float *want, const float *got, int64_t count, int device, double tolerance,
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

int main(int argc, char **argv) {
    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 10);
    }
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spmm),
        cmocka_unit_test(test_spmm_heads),
        cmocka_unit_test(test_spmm_large),
        cmocka_unit_test(test_spmm_words),
        cmocka_unit_test(test_spmm_words_batches),
        cmocka_unit_test(test_sddmm),
        cmocka_unit_test(test_edge_softmax),
        cmocka_unit_test(test_edge_softmax_slope),
        cmocka_unit_test(test_edge_sum),
        cmocka_unit_test(test_sparse_dropout),
        cmocka_unit_test(test_sparse_dropout_words),
        cmocka_unit_test(test_edge_dropout),
        cmocka_unit_test(test_attend),
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_hidden),
    };
    return cmocka_run_group_tests_name("device/sparse", tests, make_matrix, free_matrix);
}
