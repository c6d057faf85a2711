/* Names of this instruction set's variant of every kernel: ISA_NAME(linear_forward) is
 * linear_forward_avx2 and so on. Included by every kernel file. */
#ifndef CULM_DEVICE_CPU_VARIANT_H
#define CULM_DEVICE_CPU_VARIANT_H

#include "device/cpu/internal.h"
#include "device/cpu/simd.h"

#define CULM_CPU_KERNEL(name)                                                                      \
    void ISA_NAME(name)(struct culm_cpu * cpu, const struct culm_##name##_args *args);
CULM_KERNELS(CULM_CPU_KERNEL)
#undef CULM_CPU_KERNEL

#endif
