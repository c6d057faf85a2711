/* The scalars of a step, and the kernel that a tensor needs. */
#include "model/step.h"

int32_t culm_optimizer_parts(const struct culm_optimizer_config *config) {
    return config->name == CULM_OPTIMIZER_SGD ? 2 : 3;
}

const char *culm_optimizer_suffix(int32_t part) {
    static const char *const suffix[CULM_OPTIMIZER_PARTS] = {"", ".exp_avg", ".exp_avg_sq"};
    return suffix[part];
}

struct culm_optimizer_step culm_optimizer_step_at(const struct culm_optimizer_config *config,
                                                  int64_t step, double lr, double grad_scale,
                                                  int32_t micros) {
    struct culm_optimizer_step at = {
        .name = config->name, .weight_decay = config->weight_decay, .micros = micros};
    at.adamw = culm_adamw_at(step, config->beta1, config->beta2);
    at.adamw.lr = lr;
    at.adamw.eps = config->eps;
    at.adamw.grad_scale = grad_scale;
    at.sgd = (struct culm_sgd){.lr = lr,
                               .momentum = config->momentum,
                               .grad_scale = grad_scale,
                               .nesterov = config->nesterov,
                               .first = step == 1};
    return at;
}

/* Statistics, and SGD without momentum, leave the optimizer's vectors alone. */
bool culm_optimizer_keeps(const struct culm_optimizer_step *step,
                          const struct culm_optimizer_tensor *tensor) {
    return !tensor->statistic && !(step->name == CULM_OPTIMIZER_SGD && step->sgd.momentum == 0);
}

static void apply_statistic(const struct culm_optimizer_step *step, struct culm_device *device,
                            const struct culm_optimizer_tensor *tensor, const float *collected,
                            struct culm_step_digest *digest) {
    float *value = tensor->part[0];
    digest->grad = culm_device_digest(device, collected, tensor->count);
    digest->before[0] = culm_device_digest(device, value, tensor->count);
    culm_statistic_step(value, collected, tensor->count, tensor->momentum, step->micros);
    digest->after[0] = culm_device_digest(device, value, tensor->count);
}

/* The gradient of the loss and of decay / 2 times the squares of the values. */
static const float *decayed(struct culm_device *device, const struct culm_optimizer_tensor *tensor,
                            const float *grad, double decay) {
    CULM_RUN(device, affine, .y = culm_out_f32(tensor->work), .x = culm_in_f32(tensor->part[0]),
             .count = tensor->count, .scale = decay);
    CULM_RUN(device, add, .y = culm_out_f32(tensor->work), .a = culm_in_f32(grad),
             .b = culm_in_f32(tensor->work), .count = tensor->count);
    return tensor->work;
}

void culm_optimizer_apply(const struct culm_optimizer_step *step, struct culm_device *device,
                          const struct culm_optimizer_tensor *tensor, const float *grad,
                          struct culm_step_digest *ret_digest) {
    double decay = tensor->decay ? step->weight_decay : 0;
    *ret_digest = (struct culm_step_digest){0};
    if (tensor->statistic) {
        apply_statistic(step, device, tensor, grad, ret_digest);
    } else if (step->name == CULM_OPTIMIZER_SGD) {
        struct culm_sgd hyper = step->sgd;
        hyper.weight_decay = decay;
        hyper.digest = ret_digest;
        CULM_RUN(device, sgd, .p = tensor->part[0], .buffer = tensor->part[1], .g = grad,
                 .count = tensor->count, .hyper = &hyper);
    } else {
        struct culm_adamw hyper = step->adamw;
        if (step->name == CULM_OPTIMIZER_ADAM && decay > 0) {
            grad = decayed(device, tensor, grad, decay);
        }
        hyper.weight_decay = step->name == CULM_OPTIMIZER_ADAM ? 0 : decay;
        hyper.digest = ret_digest;
        CULM_RUN(device, adamw, .p = tensor->part[0], .m = tensor->part[1], .v = tensor->part[2],
                 .g = grad, .count = tensor->count, .hyper = &hyper);
    }
}
