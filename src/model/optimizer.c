/* Schedules and AdamW's scalars. */
#include "model/optimizer.h"

#include <math.h>

double culm_schedule_lr(const struct culm_schedule *schedule, int64_t step) {
    double t = (double)step, warmup = (double)schedule->warmup;
    if (!schedule->cosine) {
        return schedule->lr;
    }
    if (step <= schedule->warmup) {
        return schedule->lr * t / warmup;
    }
    double done = (t - warmup) / ((double)schedule->steps - warmup);
    return schedule->min_lr + (schedule->lr - schedule->min_lr) / 2 * (1 + cos(M_PI * done));
}

struct culm_adamw culm_adamw_at(int64_t step, double beta1, double beta2) {
    return (struct culm_adamw){
        .beta1 = beta1,
        .beta2 = beta2,
        .bias_correction1 = 1 - pow(beta1, (double)step),
        .bias_correction2 = 1 - pow(beta2, (double)step),
    };
}
