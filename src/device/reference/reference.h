/*
 * The device `reference`: the plain kernels of src/tensor behind the table of device.h, on the
 * calling thread.
 *
 * It proves that what lies above this room asks nothing of the CPU, and lets a graph be run by what
 * defines its operators. It is slow, copies every output, and allocates while it runs: when memory
 * runs out it ends the process. For tests; no program is linked with it.
 *
 * It computes in float64 and f32 whatever the arrays are: bf16 is widened and rounded, but operands
 * of bf16 products are not rounded as the CPU does.
 */
#ifndef CULM_DEVICE_REFERENCE_REFERENCE_H
#define CULM_DEVICE_REFERENCE_REFERENCE_H

#include "device/device.h"

extern const struct culm_device_ops culm_reference_device_ops;

#endif
