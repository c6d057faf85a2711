/* Inference on the CPU: device/infer.h, by the instruction set that the device has. */
#ifndef CULM_DEVICE_CPU_INFER_H
#define CULM_DEVICE_CPU_INFER_H

#include "device/cpu/cpu.h"
#include "device/infer.h"

void culm_cpu_conv_infer(struct culm_device *device, const struct culm_conv_infer_args *args,
                         int32_t count);

#endif
