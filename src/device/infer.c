/* Inference. See infer.h. */
#include "device/infer.h"

#include "device/cpu/infer.h"
#include "tensor/reference_vision.h"

bool culm_gate_possible(const struct culm_conv *v, enum culm_function function) {
    return v->kh == 1 && v->kw == 1 && v->oh == v->h && v->ow == v->w && v->stride[0] == 1 &&
           v->stride[1] == 1 && v->groups == 1 && function == CULM_FUNCTION_NONE;
}

void culm_device_conv_infer(struct culm_device *device, const struct culm_conv_infer_args *a) {
    if (device->ops == &culm_cpu_device_ops) {
        culm_cpu_conv_infer(device, a, 1);
        return;
    }
    const struct culm_conv *v = a->conv;
    culm_ref_conv_infer(v, a->y, a->x, a->coarse.c ? &a->coarse : NULL, a->w, a->b, a->gamma,
                        a->beta, a->mean, a->variance, a->eps, a->residual);
    culm_ref_activation_forward(a->y, a->y, v->n * v->oh * v->ow * v->o, a->function, a->alpha);
}

void culm_device_conv_infer_chain(struct culm_device *device,
                                  const struct culm_conv_infer_args *args, int32_t count) {
    if (device->ops == &culm_cpu_device_ops) {
        culm_cpu_conv_infer(device, args, count);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        culm_device_conv_infer(device, &args[i]);
    }
}
