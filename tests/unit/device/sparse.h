/* What the tests of sparse kernels share: devices, a matrix, arrays. sparse.c */
#ifndef CULM_TESTS_UNIT_DEVICE_SPARSE_H
#define CULM_TESTS_UNIT_DEVICE_SPARSE_H

#include "../astray.h"

#include "device/cpu/cpu.h"

#include "base/rng.h"
#include "tensor/reference_sparse.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern uint64_t seed, stream;
float uniform(void); /* in [-1, 1) */

/* Every instruction set of this machine, several threads, and the reference. */
#define DEVICES_MAX 8
struct sparse_device {
    char name[32];
    struct culm_device *device;
};
extern struct sparse_device devices[DEVICES_MAX];
extern int device_count;
bool is_reference(int device);

/* With the address sanitizer, which these take minutes with, tests do a part of their cases: all are done
 * without it. An odd number, so that what alternates is not left out. */
#ifdef __SANITIZE_ADDRESS__
#define EVERY 3
#else
#define EVERY 1
#endif

/* A matrix: rows of every size, in the middle of a larger one. */
#define ROWS 23
#define TABLE 50
#define OFFSET 5 /* entries before the first row */

struct sparse_matrix {
    uint64_t start[ROWS + 1], *entry;
    uint32_t *column, *kept_at;
    uint64_t entries; /* with those before */
    /* and by columns */
    uint64_t column_start[TABLE + 1], *column_entry;
    uint32_t *row;
};
extern struct sparse_matrix matrix;
/* Makes it anew: its large rows are of as many entries as a block, one more, one fewer, two blocks, and one more. In the
 * beginning a block is CULM_SPMM_BLOCK; whoever wants another one makes it so again. */
void matrix_make(int64_t block);
int64_t degree(int64_t row);
struct culm_ref_rows rows_of_matrix(void);

/* Moves the entries of each row to other places (astray.h), or `back`, in an array of so many numbers an entry: what
 * sums over them go through in another order. */
void entries_astray(void *x, int64_t per_entry, bool back);

/* Arrays of either type; f32 has what bf16 widens to. */
struct array {
    enum culm_dtype dtype;
    int64_t count;
    float *f32;
    uint16_t *bf16;
};
struct array array_of(int64_t count, enum culm_dtype dtype);
void array_astray(struct array *a, int64_t outer, int64_t n, int64_t inner,
                  bool back); /* both types */
void array_free(struct array *a);
void *data_of(const struct array *a);
size_t bytes_of(const struct array *a);
float widen(uint16_t half);
uint16_t narrow(float x);

/* Bits, or for the reference, which sums in float64, nearness. */
bool differs(const float *one, const float *other, int64_t count);
void expect(const float *want, const float *got, int64_t count, int device, double tolerance,
            const char *what);

/* sparse_sums.c */
void test_spmm(void **state);
void test_spmm_heads(void **state);
void test_spmm_large(void **state);
void test_spmm_words(void **state);
void test_spmm_words_batches(void **state);
void test_edge_sum(void **state);
/* sparse_edges.c */
void test_sddmm(void **state);
void test_edge_softmax(void **state);
void test_edge_softmax_slope(void **state);
void test_sparse_dropout(void **state);
void test_sparse_dropout_words(void **state);
void test_edge_dropout(void **state);
void test_attend(void **state);
void test_argmax(void **state);
/* sparse_rows.c */
void test_heads(void **state);
void test_hidden(void **state);

#endif
