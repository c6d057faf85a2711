/*
 * C = op(A) op(B) [+ bias] [+ C], of operands that are read through a description (operand.h) and a
 * result that is f32 or bf16, plain rows or pixels of an image. Accumulated in f32, rounded once.
 * When A, B or C is bf16, so is the product: what is f32 is rounded on the way (gemm_bf16.c).
 * Shapes, bits and scratch: gemm.c.
 */
#ifndef CULM_DEVICE_CPU_PRODUCT_H
#define CULM_DEVICE_CPU_PRODUCT_H

#include "device/cpu/operand.h"

/* Terms of an element where C is a GRID. */
#define PRODUCT_MAX_TERMS 65536

struct product {
    int64_t m, n, k;
    struct operand a, b;   /* [m,k], [k,n]; */
    bool trans_a, trans_b; /* or [k,m], [n,k] */
    struct result c;
    bool add;           /* C is read and added to: f32 rows only */
    const float *bias;  /* [n], added to the first chain; NULL: none; not with add */
    float *column_sum;  /* [n], of B; NULL: not wanted */
    bool column_add;    /* added to what is there */
    int64_t first_free; /* floats at the start of the shared scratch that are the caller's */
};

void ISA_NAME(product)(struct culm_cpu *cpu, const struct product *p);
/* Of f32 alone: gemm.c. */
void ISA_NAME(product_f32)(struct culm_cpu *cpu, const struct product *p);
/* In bf16 whatever the types. No limit to k. */
void ISA_NAME(product_bf16)(struct culm_cpu *cpu, const struct product *p);

SIMD struct result result_rows(struct culm_out out, int64_t ld) {
    return (struct result){.kind = RESULT_ROWS, .out = out, .ld = ld};
}

#endif
