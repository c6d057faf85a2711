/* The simulated world would compute in numbers. */

#include "device/device.h"
