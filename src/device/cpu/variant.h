/* Names of this instruction set's variant of every kernel: ISA_NAME(linear_forward) is
 * linear_forward_avx2 and so on. Included by every kernel file. */
#ifndef CULM_DEVICE_CPU_VARIANT_H
#define CULM_DEVICE_CPU_VARIANT_H

#include "device/cpu/internal.h"
#include "device/cpu/simd.h"

#define CULM_CPU_DECLARE(name, parameters, arguments) void ISA_NAME(name) parameters;
CULM_CPU_OPS(CULM_CPU_DECLARE)
#undef CULM_CPU_DECLARE

#endif
