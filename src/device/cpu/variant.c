/* The table of this instruction set's kernels. */
#include "device/cpu/variant.h"

#define STRING2(x) #x
#define STRING(x) STRING2(x)
#define ENTRY(name) .name = ISA_NAME(name),
const struct culm_cpu_kernels ISA_NAME(culm_cpu_kernels) = {.isa = STRING(CULM_ISA),
                                                            CULM_KERNELS(ENTRY)};
