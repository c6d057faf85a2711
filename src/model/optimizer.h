/*
 * Learning rate and AdamW's scalars as pure functions of the step, in float64 (PROTOCOL 1.3).
 *
 * Thread: any.
 */
#ifndef CULM_MODEL_OPTIMIZER_H
#define CULM_MODEL_OPTIMIZER_H

#include "tensor/hyper.h"

struct culm_schedule {
    bool cosine; /* else lr, always */
    double lr, min_lr;
    int64_t warmup, steps;
};

/* Cosine, step = 1..steps: lr step / warmup up to warmup, then
 * min_lr + (lr - min_lr) / 2 (1 + cos(pi (step - warmup) / (steps - warmup))). */
double culm_schedule_lr(const struct culm_schedule *schedule, int64_t step);

/* beta1, beta2 and the bias corrections of `step` (1, 2, ...); the rest is zero, for the caller to
 * fill in. */
struct culm_adamw culm_adamw_at(int64_t step, double beta1, double beta2);

#endif
