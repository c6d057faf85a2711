/*
 * Batches of matrix products, on top of product.h: in bf16 when anything is bf16.
 */
#include "device/cpu/product.h"
#include "device/cpu/variant.h"

void ISA_NAME(matmul)(struct culm_cpu *cpu, const struct culm_matmul_args *args) {
    bool bf16 =
        args->a.dtype == CULM_BF16 || args->b.dtype == CULM_BF16 || args->c.dtype == CULM_BF16;
    struct product p = {
        .m = args->how->m,
        .n = args->how->n,
        .k = args->how->k,
        .a = operand_rows(args->a, args->how->trans_a ? args->how->m : args->how->k),
        .b = operand_rows(args->b, args->how->trans_b ? args->how->k : args->how->n),
        .trans_a = args->how->trans_a,
        .trans_b = args->how->trans_b,
        .c = result_rows(args->c, args->how->n)};
    for (int64_t i = 0; i < args->how->batch; i++) {
        p.a.data = (const char *)args->a.data +
                   (size_t)(i * args->how->m * args->how->k) * culm_dtype_bytes(args->a.dtype);
        p.b.data = (const char *)args->b.data +
                   (size_t)(i * args->how->k * args->how->n) * culm_dtype_bytes(args->b.dtype);
        p.c.out.data = (char *)args->c.data +
                       (size_t)(i * args->how->m * args->how->n) * culm_dtype_bytes(args->c.dtype);
        if (bf16) {
            ISA_NAME(product_bf16)(cpu, &p);
        } else {
            ISA_NAME(product)(cpu, &p);
        }
    }
    if (args->how->scale != 1) {
        ISA_NAME(affine)
        (cpu, &(struct culm_affine_args){.y = args->c,
                                         .x = culm_in_of(args->c),
                                         .count = args->how->batch * args->how->m * args->how->n,
                                         .scale = args->how->scale,
                                         .shift = 0});
    }
}
