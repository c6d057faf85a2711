/* What the room check must refuse: an operator names an implementation of a device. */
#include "device/device.h"
#include "device/cpu/cpu.h"
