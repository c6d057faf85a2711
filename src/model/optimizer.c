/* Schedules and AdamW's scalars. */
#include "model/optimizer.h"

#include "base/exact.h"

#include <math.h>
#include <stddef.h>

const char *const culm_schedule_names[] = {[CULM_SCHEDULE_COSINE] = "cosine",
                                           [CULM_SCHEDULE_CONSTANT] = "constant",
                                           [CULM_SCHEDULE_LINEAR] = "linear",
                                           [CULM_SCHEDULE_STEP] = "step",
                                           NULL};

double culm_schedule_lr(const struct culm_schedule *schedule, int64_t step) {
    double t = (double)step, warmup = (double)schedule->warmup;
    double lr = schedule->lr, min_lr = schedule->min_lr;
    if (schedule->kind == CULM_SCHEDULE_CONSTANT) {
        return lr;
    }
    if (step <= schedule->warmup) {
        return lr * t / warmup;
    }
    if (schedule->kind == CULM_SCHEDULE_STEP) {
        int64_t falls = schedule->every > 0 ? (step - 1) / schedule->every : 0;
        return fmax(min_lr, lr * culm_exact_pow(schedule->gamma, (double)falls));
    }
    double done = (t - warmup) / ((double)schedule->steps - warmup);
    if (schedule->kind == CULM_SCHEDULE_LINEAR) {
        return min_lr + (lr - min_lr) * (1 - done);
    }
    return min_lr + (lr - min_lr) / 2 * (1 + culm_exact_cos(M_PI * done));
}

struct culm_adamw culm_adamw_at(int64_t step, double beta1, double beta2) {
    return (struct culm_adamw){
        .beta1 = beta1,
        .beta2 = beta2,
        .bias_correction1 = 1 - culm_exact_pow(beta1, (double)step),
        .bias_correction2 = 1 - culm_exact_pow(beta2, (double)step),
    };
}

void culm_statistic_step(float *value, const float *sum, int64_t count, double momentum,
                         int32_t micros) {
    float part = (float)momentum, rest = (float)(1 - momentum), of = (float)micros;
    for (int64_t i = 0; i < count; i++) {
        value[i] = rest * value[i] + part * (sum[i] / of);
    }
}
