/*
 * Learning rate and AdamW's scalars as pure functions of the step, in float64, so that every
 * holder of a tensor steps it with the same bits.
 *
 * Thread: any.
 */
#ifndef CULM_MODEL_OPTIMIZER_H
#define CULM_MODEL_OPTIMIZER_H

#include "tensor/hyper.h"

enum culm_schedule_kind {
    CULM_SCHEDULE_COSINE,
    CULM_SCHEDULE_CONSTANT, /* lr, always */
    CULM_SCHEDULE_LINEAR,
    CULM_SCHEDULE_STEP,
};

extern const char *const culm_schedule_names[]; /* "cosine", "constant", ..., NULL */

struct culm_schedule {
    enum culm_schedule_kind kind;
    double lr, min_lr;
    int64_t warmup, steps;
    int64_t every; /* STEP: steps between two falls; 0: never */
    double gamma;  /* STEP: factor of each */
};

/* step = 1..steps. All but CONSTANT rise to lr by lr step / warmup, up to warmup. Then, with
 * t = (step - warmup) / (steps - warmup):
 *   COSINE  min_lr + (lr - min_lr) / 2 (1 + cos(pi t))
 *   LINEAR  min_lr + (lr - min_lr) (1 - t)
 *   STEP    the larger of min_lr and lr gamma^floor((step - 1) / every) */
double culm_schedule_lr(const struct culm_schedule *schedule, int64_t step);

/* beta1, beta2 and the bias corrections of `step` (1, 2, ...); the rest is zero, for the caller to
 * fill in. */
struct culm_adamw culm_adamw_at(int64_t step, double beta1, double beta2);

/* A running statistic moves towards the mean of what `micros` micro-batches collected; `sum` is
 * their sum: value = (1 - momentum) value + momentum (sum / micros), in float32. Both have `count`
 * elements. */
void culm_statistic_step(float *value, const float *sum, int64_t count, double momentum,
                         int32_t micros);

#endif
