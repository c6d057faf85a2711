/*
 * A step of an optimizer, tensor by tensor.
 *
 * Optimizers here look at one element at a time, so a tensor is stepped wherever it lies and
 * whoever holds it, together with others or alone: a stage of a pipeline steps all of its tensors, a
 * server those that it owns, with the same bits. A tensor is kept as up to CULM_OPTIMIZER_PARTS
 * vectors of its length: its values and what the optimizer keeps of it. Thread: one call at a time
 * per device.
 */
#ifndef CULM_MODEL_STEP_H
#define CULM_MODEL_STEP_H

#include "device/device.h"
#include "model/config.h"

#define CULM_OPTIMIZER_PARTS 3

struct culm_optimizer_tensor {
    float *part[CULM_OPTIMIZER_PARTS]; /* values, then as culm_optimizer_suffix; the others NULL */
    int64_t count;                     /* of each */
    bool decay;                        /* weight decay is for it */
    bool statistic;  /* no gradient steps it: it moves towards the mean of what was collected */
    double momentum; /* of a statistic */
    float *work;     /* [count]: what Adam needs where weight decay acts; else unused */
};

/* How many vectors a tensor has with this optimizer: 2 or 3. */
int32_t culm_optimizer_parts(const struct culm_optimizer_config *config);
/* "", ".exp_avg", ".exp_avg_sq": what files call the vectors of a tensor, behind its name. */
const char *culm_optimizer_suffix(int32_t part);

/* What is alike for all tensors in one step. */
struct culm_optimizer_step {
    enum culm_optimizer name;
    double weight_decay;
    struct culm_adamw adamw;
    struct culm_sgd sgd;
    int32_t micros; /* that a statistic was collected over */
};

/* step = 1, 2, ...; grad_scale: 1, or what clipping says. */
struct culm_optimizer_step culm_optimizer_step_at(const struct culm_optimizer_config *config,
                                                  int64_t step, double lr, double grad_scale,
                                                  int32_t micros);
/* Whether it reads and writes more of the tensor than its values. */
bool culm_optimizer_keeps(const struct culm_optimizer_step *step,
                          const struct culm_optimizer_tensor *tensor);
/* ADAM is PyTorch's Adam, with its weight decay in the gradient, which is not scaled for clipping.
 * Steps the tensor by its whole gradient (of a statistic: by the sum of what was collected), and says
 * what was read and made. */
void culm_optimizer_apply(const struct culm_optimizer_step *step, struct culm_device *device,
                          const struct culm_optimizer_tensor *tensor, const float *grad,
                          struct culm_step_digest *ret_digest);

#endif
