/* Products whose operands are read where they lie (gemm_direct.c); for gemm.c alone. */
#ifndef CULM_DEVICE_CPU_GEMM_DIRECT_H
#define CULM_DEVICE_CPU_GEMM_DIRECT_H

#include "device/cpu/product.h"

#define KC 256           /* terms of a chain */
#define DIRECT_PANELS 8  /* with more, A is used so often that it is packed */
#define DIRECT_TILES 200 /* of C */

/* Whether an f32 product is done so. */
bool ISA_NAME(direct_rows)(const struct product *p);
bool ISA_NAME(direct_columns)(const struct product *p);

/* Some rows of C; all of B is packed, as in gemm.c. */
void ISA_NAME(direct_rows_tile)(const struct product *p, const float *packed, int64_t row,
                                int64_t rows);
/* All of C. */
void ISA_NAME(direct_columns_run)(struct culm_cpu *cpu, const struct product *p);

#endif
