/* The table of this instruction set's kernels. */
#include "device/cpu/variant.h"

#define STRING2(x) #x
#define STRING(x) STRING2(x)
#define ENTRY(name, parameters, arguments) .name = ISA_NAME(name),
const struct culm_cpu_ops ISA_NAME(culm_cpu_ops) = {.isa = STRING(CULM_ISA), CULM_CPU_OPS(ENTRY)};
