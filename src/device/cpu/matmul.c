/*
 * Batches of matrix products, on top of product.h: in bf16 when anything is bf16.
 */
#include "device/cpu/product.h"
#include "device/cpu/variant.h"

void ISA_NAME(matmul)(struct culm_cpu *cpu, struct culm_out c, struct culm_in a, struct culm_in b,
                      const struct culm_matmul *how) {
    bool bf16 = a.dtype == CULM_BF16 || b.dtype == CULM_BF16 || c.dtype == CULM_BF16;
    struct product p = {.m = how->m,
                        .n = how->n,
                        .k = how->k,
                        .a = operand_rows(a, how->trans_a ? how->m : how->k),
                        .b = operand_rows(b, how->trans_b ? how->k : how->n),
                        .trans_a = how->trans_a,
                        .trans_b = how->trans_b,
                        .c = result_rows(c, how->n)};
    for (int64_t i = 0; i < how->batch; i++) {
        p.a.data = (const char *)a.data + (size_t)(i * how->m * how->k) * culm_dtype_bytes(a.dtype);
        p.b.data = (const char *)b.data + (size_t)(i * how->k * how->n) * culm_dtype_bytes(b.dtype);
        p.c.out.data = (char *)c.data + (size_t)(i * how->m * how->n) * culm_dtype_bytes(c.dtype);
        if (bf16) {
            ISA_NAME(product_bf16)(cpu, &p);
        } else {
            ISA_NAME(product)(cpu, &p);
        }
    }
    if (how->scale != 1) {
        ISA_NAME(affine)(cpu, c, culm_in_of(c), how->batch * how->m * how->n, how->scale, 0);
    }
}
