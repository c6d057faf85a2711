/* The kind of device that runs use. See device.h. */
#include "device/device.h"

#include "device/cpu/cpu.h"

const struct culm_device_ops *culm_device_default(void) { return &culm_cpu_device_ops; }

enum culm_status culm_device_new(int threads, struct culm_device **ret_device,
                                 struct culm_error *error) {
    return culm_device_default()->create(threads, ret_device, error);
}

void culm_device_free(struct culm_device *device) {
    if (device) {
        device->ops->destroy(device);
    }
}
