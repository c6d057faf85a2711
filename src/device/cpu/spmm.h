/*
 * Sums over neighbours as other kernels use them: a row at a time, of values that were just made. The
 * bits are those of spmm.
 */
#ifndef CULM_DEVICE_CPU_SPMM_H
#define CULM_DEVICE_CPU_SPMM_H

#include "device/cpu/spmm_strip.h"

#define SPMM_STRIPS_KEPT 8

struct spmm_rows {
    struct culm_spmm_args args;
    struct spmm spmm;
    uint64_t range[2];
    struct spmm_strip strip[SPMM_STRIPS_KEPT];
};

/* x, column, f, ldx and heads are taken from the arguments. It must stay where it is. */
void ISA_NAME(spmm_rows_init)(struct spmm_rows *rows, const struct culm_spmm_args *args);
/* y[f] = or += the sum of the entries from, .., to - 1, of which there are some; of values
 * value[to - from,heads]. */
void ISA_NAME(spmm_rows_sum)(struct spmm_rows *rows, float *y, const float *value, uint64_t from,
                             uint64_t to, bool add);
/* n rows of y, of all their entries, from start[0] on; values begin with that one's. */
void ISA_NAME(spmm_rows_sums)(struct spmm_rows *rows, const uint64_t *start, int64_t n, float *y,
                              int64_t ldy, const float *value);
/* The same twice, of other values; rows have at most CULM_SPMM_BLOCK entries. */
void ISA_NAME(spmm_rows_pair)(struct spmm_rows *rows, const uint64_t *start, int64_t n, float *y,
                              int64_t ldy, const float *value, float *z, int64_t ldz,
                              const float *other);

#endif
