/* Which products are of bf16. */
#include "device/cpu/product.h"

void ISA_NAME(product)(struct culm_cpu *cpu, const struct product *p) {
    if (p->a.dtype == CULM_BF16 || p->b.dtype == CULM_BF16 || p->c.out.dtype == CULM_BF16) {
        ISA_NAME(product_bf16)(cpu, p);
    } else {
        ISA_NAME(product_f32)(cpu, p);
    }
}
