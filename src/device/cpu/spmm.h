/*
 * Sums over neighbours as other kernels use them: a row at a time, of values that were just made. The
 * bits are those of spmm.
 */
#ifndef CULM_DEVICE_CPU_SPMM_H
#define CULM_DEVICE_CPU_SPMM_H

#include "device/cpu/edges.h"
#include "device/cpu/simd.h"

#if SIMD_REGISTERS == 32
#define STRIP 8 /* vectors */
#else
#define STRIP 4
#endif
#define SPMM_STRIPS_KEPT 8

struct spmm {
    const struct culm_spmm_args *a;
    struct chunks chunks;
    int64_t heads, head_width;
    int64_t vectors, strips; /* all columns; strips have equal widths as far as they can */
    size_t element;          /* bytes of one of x */
    uint64_t ahead;          /* entries; 0: none */
    uint64_t base;           /* the entry of the first value, where values are in order */
    char *packed;  /* a strip of x with nothing between its rows; NULL: it stays where it is */
    int64_t rows;  /* of it */
    int64_t strip; /* that is packed */
};

/* One strip. */
struct spmm_strip {
    const struct spmm *s;
    int vectors;
    const char *x;        /* its first column */
    size_t pitch;         /* bytes between rows of x */
    int64_t column, last; /* its first; how many its last vector has */
    int64_t head[STRIP];  /* of each vector's first column */
    uvec lane[STRIP];     /* each lane's head; of many, counted from that */
};

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

#endif
