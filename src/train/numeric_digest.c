/*
 * The numeric executor: is memory still what was put there?
 *
 * Of every tensor two digests are kept since it was loaded, received or stepped: of its values and
 * of the optimizer's vectors. A step looks at all it reads and writes on the way, which costs it no
 * memory traffic. Values are looked at before PREPARED too, when the forwards and backwards of the
 * iteration have used them, and again after each of them that a later view asks for; the rest of a
 * state has no effect before the step. A gradient has to be at the step what it was when its norm
 * was taken. The files of a checkpoint are looked at after they were written, off the compute
 * thread.
 */
#include "train/numeric_internal.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

uint64_t numeric_told(struct numeric_record record) {
    return culm_rng_mix(record.value, record.rest);
}

static uint64_t digest(struct culm_numeric *x, const float *data, int64_t count, bool here) {
    return here ? culm_device_digest_here(x->o.device, data, count)
                : culm_device_digest(x->o.device, data, count);
}

struct numeric_record numeric_look(struct culm_numeric *x, const struct culm_stage_info *info,
                                   int32_t index, const float *data, bool here) {
    const struct culm_param_info *param = &info->params[index];
    uint64_t part[3] = {0};
    for (int64_t i = 0; i < x->o.plan->state_parts; i++) {
        part[i] = digest(x, data + i * info->param_floats + param->offset, param->count, here);
    }
    return (struct numeric_record){part[0], culm_rng_mix(part[1], part[2])};
}

void numeric_tell(const struct culm_numeric *x, struct culm_task *task) {
    const struct numeric_state *state = &x->state[task->stage];
    for (int32_t i = 0; i < numeric_info(x, task->stage)->param_count && task->state_digest; i++) {
        task->state_digest[i] = numeric_told(state->record[i]);
    }
}

void numeric_made(struct culm_numeric *x, struct culm_task *task) {
    struct numeric_state *state = &x->state[task->stage];
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    for (int32_t i = 0; i < info->param_count; i++) {
        state->record[i] = numeric_look(x, info, i, state->data, false);
    }
    state->whole = true;
    numeric_tell(x, task);
}

enum culm_status numeric_damaged(struct culm_task *task, int32_t stage, const char *what,
                                 const char *name) {
    task->damaged = true;
    task->stage = stage;
    return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                          "%s of '%s' changed in memory (stage %d, step %lld)", what, name, stage,
                          (long long)task->iteration);
}

enum culm_status numeric_check_values(struct culm_numeric *x, struct culm_task *task,
                                      const struct culm_stage_set *stages) {
    for (int32_t s = 0; s < x->o.plan->shape.stages; s++) {
        const struct culm_stage_info *info = numeric_info(x, s);
        const struct numeric_state *state = &x->state[s];
        for (int32_t i = 0; i < info->param_count && culm_stage_set_has(stages, s) && state->whole;
             i++) {
            const struct culm_param_info *param = &info->params[i];
            if (culm_device_digest(x->o.device, state->data + param->offset, param->count) !=
                state->record[i].value) {
                return numeric_damaged(task, s, "the state", param->name);
            }
        }
    }
    return CULM_OK;
}

enum culm_status numeric_check_saved(struct culm_numeric *x, struct culm_task *task) {
    const struct culm_stage_info *info = numeric_info(x, task->stage);
    const struct numeric_state *state = &x->state[task->stage];
    for (int32_t i = 0; i < info->param_count; i++) {
        struct numeric_record now = numeric_look(x, info, i, task->input->data, true);
        if (now.value != state->saved[i].value || now.rest != state->saved[i].rest) {
            return numeric_damaged(task, task->stage, "the state", info->params[i].name);
        }
    }
    return CULM_OK;
}

/* --- flips --- */

void culm_numeric_flip(struct culm_exec *exec, enum culm_numeric_flip_kind what) {
    struct culm_numeric *x = (struct culm_numeric *)exec;
    __atomic_store_n(&x->flip, what, __ATOMIC_RELEASE);
}

static void flip_bit(float *data, int64_t count, int bit) {
    uint32_t bits;
    memcpy(&bits, &data[count / 3], sizeof bits);
    bits ^= 1u << bit;
    memcpy(&data[count / 3], &bits, sizeof bits);
}

/* The gradient reads as a copy with another bit, so that whoever is still sent it gets the right
 * one. */
static bool flip_gradient(struct culm_numeric *x, const struct culm_task *task,
                          const struct culm_stage_set *stages) {
    const struct culm_layout *layout = &x->o.plan->layout;
    for (int32_t g = 0; g < layout->grad_count; g++) {
        const struct culm_grad_desc *grad = &layout->grad[g];
        if (grad->param >= 0 && task->grad[g] &&
            culm_stage_set_meets(&layout->param[grad->param].stages, stages)) {
            float *copy = malloc(grad->size_bytes);
            if (!copy) {
                return false;
            }
            memcpy(copy, task->grad[g]->data, grad->size_bytes);
            /* Of an exponent: a lower bit of a zero would be flushed, or lost in a sum. */
            flip_bit(copy, (int64_t)(grad->size_bytes / sizeof *copy), 30);
            free(x->flip_copy);
            culm_blob_clear(&x->flipped);
            x->flipped = culm_blob_ref(task->grad[g]);
            x->flip_copy = copy;
            return true;
        }
    }
    return false;
}

void numeric_flip_saved(struct culm_numeric *x, struct culm_task *task) {
    int due = CULM_NUMERIC_FLIP_SAVED;
    if (__atomic_compare_exchange_n(&x->flip, &due, CULM_NUMERIC_FLIP_NONE, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        const struct culm_stage_info *info = numeric_info(x, task->stage);
        const struct culm_param_info *last = &info->params[info->param_count - 1];
        flip_bit((float *)task->input->data + last->offset, last->count, 20);
    }
}

void numeric_flip_now(struct culm_numeric *x, struct culm_task *task) {
    int due = __atomic_load_n(&x->flip, __ATOMIC_ACQUIRE);
    bool done = false;
    if (due == CULM_NUMERIC_FLIP_GRADIENT && task->kind == CULM_TASK_NORM) {
        done = flip_gradient(x, task, &task->stages);
    } else if (due == CULM_NUMERIC_FLIP_APPLIED && task->kind == CULM_TASK_STEP) {
        const struct culm_stage_set stage = culm_stage_set_of(task->stage);
        done = flip_gradient(x, task, &stage);
    } else if (due == CULM_NUMERIC_FLIP_STATE &&
               (task->kind == CULM_TASK_FORWARD || task->kind == CULM_TASK_BACKWARD ||
                task->kind == CULM_TASK_STEP) &&
               x->state[task->stage].whole) {
        const struct culm_stage_info *info = numeric_info(x, task->stage);
        const struct culm_param_info *param = &info->params[info->param_count / 2];
        flip_bit(x->state[task->stage].data + param->offset, param->count, 20);
        done = true;
    }
    if (done) {
        __atomic_store_n(&x->flip, CULM_NUMERIC_FLIP_NONE, __ATOMIC_RELEASE);
    }
}
