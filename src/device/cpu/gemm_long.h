/* Products of few rows and many terms (gemm_long.c); for gemm.c alone. */
#ifndef CULM_DEVICE_CPU_GEMM_LONG_H
#define CULM_DEVICE_CPU_GEMM_LONG_H

#include "device/cpu/product.h"

#define LONG_ROWS 144 /* of C; with more, B is used so often that all of it is packed first */

/* Whether an f32 product is done so. */
bool ISA_NAME(long_product)(const struct product *p);
/* All of C. */
void ISA_NAME(long_product_run)(struct culm_cpu *cpu, const struct product *p);

#endif
