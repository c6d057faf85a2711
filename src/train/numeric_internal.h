/* The numeric executor's parts, shared by its files. Not for others. */
#ifndef CULM_TRAIN_NUMERIC_INTERNAL_H
#define CULM_TRAIN_NUMERIC_INTERNAL_H

#include "data/order.h"
#include "train/numeric.h"

/* State of one stage; vectors of info->param_floats. */
struct numeric_state {
    float *data; /* one allocation: parameters, exp_avg, exp_avg_sq */
};

struct culm_numeric {
    struct culm_exec exec; /* first member */
    struct culm_numeric_options o;
    struct culm_order order;
    struct numeric_state state[CULM_MAX_STAGES];
    void *scratch, *frc_scratch;
    int32_t *tokens, *frc_tokens;  /* [2, micro, context]: inputs, targets */
    const void *fields[2], *frc_fields[2];
    float *tied;                   /* sum of the uses of a tied tensor */
    struct culm_stage_run frc_run; /* of a redundant forward that was stopped */
};

static inline const struct culm_stage_info *numeric_info(const struct culm_numeric *x,
                                                         int32_t stage) {
    return culm_stage_info(x->o.plan->stage[stage]);
}

/* numeric.c: makes room for the state of a stage, contents undefined. */
enum culm_status culm_numeric_state(struct culm_numeric *x, int32_t stage,
                                    struct culm_error *error);

/* numeric_store.c */
enum culm_status culm_numeric_load(struct culm_numeric *x, struct culm_task *task);
enum culm_status culm_numeric_save(struct culm_numeric *x, struct culm_task *task);
enum culm_status culm_numeric_publish(struct culm_numeric *x, struct culm_task *task);
enum culm_status culm_numeric_discard(struct culm_numeric *x, struct culm_task *task);
enum culm_status culm_numeric_finish(struct culm_numeric *x, struct culm_task *task);

#endif
