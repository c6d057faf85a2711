/* Joint training: tensors by address, batches, optimizer steps. See joint.h. */
#include "merge/joint.h"

#include "base/rng.h"
#include "merge/joint_part.h"
#include "model/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What all parameters at one address are. */
struct tensor {
    struct culm_optimizer_tensor step;
    float *grad, *mean; /* mean: over the last steps; NULL: none */
    double size;        /* factor of the learning rate */
    bool frozen;
    int32_t given; /* gradients received in this step */
};

/* Lower bounds on a tensor's size: for weights, and for tensors without weight decay (biases,
 * norms), which often start as zeros. */
#define SMALL_WEIGHTS 1e-3
#define SMALL_OTHERS 0.1

struct slot {
    int32_t part;
    int64_t sample;
};

/* The order of samples of a model with a fixed number in every step. */
struct turn {
    int64_t *order; /* [samples], of this epoch; NULL: it draws from the common order */
    int64_t epoch, at;
};

struct culm_joint {
    struct culm_joint_config config;
    struct culm_device *device;
    struct joint_part *part;
    int32_t parts;
    struct joint_room room;
    struct tensor *tensor;
    int32_t tensors;
    int32_t **tensor_of;        /* [parts][parameters of the graph]; -1: not used */
    struct slot *order;         /* of this epoch, over all models that draw from it */
    int64_t samples, epoch, at; /* at: samples taken in this epoch */
    struct turn *turn;          /* [parts] */
    int64_t steps;
    double lr;
    int64_t *chosen; /* [samples]: those of one model in this step */
};

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "training models together: out of memory");
}

/* --- tensors --- */

/* The tensor at that address, added if it is new. -1: the lengths differ. */
static int32_t tensor_at(struct culm_joint *joint, float *value, int64_t count) {
    for (int32_t i = 0; i < joint->tensors; i++) {
        if (joint->tensor[i].step.part[0] == value) {
            return joint->tensor[i].step.count == count ? i : -1;
        }
    }
    joint->tensor[joint->tensors].step.part[0] = value;
    joint->tensor[joint->tensors].step.count = count;
    return joint->tensors++;
}

static enum culm_status find_tensors(struct culm_joint *joint, const struct culm_joint_part *from,
                                     int32_t index, struct culm_error *error) {
    const struct joint_part *part = &joint->part[index];
    const struct culm_stage_info *info = culm_stage_info_of(part->stage);
    for (int32_t p = 0; p < info->param_count; p++) {
        const struct culm_param_info *param = &info->params[p];
        int32_t t = tensor_at(joint, from->value[param->global_index], param->count);
        if (t < 0) {
            return culm_error_set(
                error, CULM_ERR_CONFIG,
                "'%s': parameter '%s' differs in length from another at its address",
                part->model->name, param->name);
        }
        struct tensor *tensor = &joint->tensor[t];
        joint->tensor_of[index][param->global_index] = t;
        tensor->step.decay |= param->decay;
        tensor->step.statistic |= param->statistic;
        tensor->step.momentum = param->momentum;
        tensor->frozen |= from->frozen && from->frozen[param->global_index];
    }
    return CULM_OK;
}

static double size_of(const struct culm_joint *joint, const struct tensor *tensor) {
    const double least = tensor->step.decay ? SMALL_WEIGHTS : SMALL_OTHERS;
    const double squares =
        culm_device_sum_squares(joint->device, tensor->step.part[0], tensor->step.count);
    const double size = sqrt(squares / (double)tensor->step.count);
    return size > least ? size : least;
}

static int64_t floats(size_t bytes) { return (int64_t)(bytes / sizeof(float)) + 16; }

static float *take(struct culm_joint *joint, int64_t count) {
    return joint->device->ops->alloc(joint->device, (size_t)count * sizeof(float));
}

static bool take_room(struct culm_joint *joint) {
    struct joint_room *room = &joint->room;
    return (room->activations = take(joint, floats(room->activation_bytes))) &&
           (room->scratch = take(joint, floats(room->scratch_bytes))) &&
           (room->grads = take(joint, floats(room->grad_bytes))) &&
           (room->work = take(joint, floats(room->work_bytes)));
}

static enum culm_status take_memory(struct culm_joint *joint, struct culm_error *error) {
    const int32_t vectors = culm_optimizer_parts(&joint->config.optimizer);
    bool made = take_room(joint);
    for (int32_t t = 0; t < joint->tensors && made; t++) {
        struct tensor *tensor = &joint->tensor[t];
        tensor->size = joint->config.relative ? size_of(joint, tensor) : 1;
        if (tensor->frozen) {
            continue;
        }
        made = (tensor->grad = take(joint, tensor->step.count)) &&
               (tensor->step.work = take(joint, tensor->step.count));
        if (joint->config.average > 0 && !tensor->step.statistic && made) {
            made = (tensor->mean = take(joint, tensor->step.count)) != NULL;
        }
        for (int32_t v = 1; v < vectors && made && !tensor->step.statistic; v++) {
            made = (tensor->step.part[v] = take(joint, tensor->step.count)) != NULL;
        }
    }
    return made ? CULM_OK : no_memory(error);
}

/* --- creating and freeing --- */

static enum culm_status add_parts(struct culm_joint *joint, const struct culm_joint_part *from,
                                  struct culm_error *error) {
    int64_t params = 0, most = 1;
    for (int32_t i = 0; i < joint->parts; i++) {
        enum culm_status status = joint_part_init(&joint->part[i], &from[i], &joint->config,
                                                  joint->device, &joint->room, error);
        if (status != CULM_OK) {
            return status;
        }
        const int32_t count = joint->part[i].graph->param_count;
        joint->tensor_of[i] = calloc((size_t)count + 1, sizeof **joint->tensor_of);
        if (!joint->tensor_of[i]) {
            return no_memory(error);
        }
        for (int32_t p = 0; p < count; p++) {
            joint->tensor_of[i][p] = -1;
        }
        params += count;
        if (from[i].each > 0) {
            joint->turn[i].order = calloc((size_t)from[i].samples.count, sizeof(int64_t));
            joint->turn[i].at = from[i].samples.count;
            joint->turn[i].epoch = -1;
            if (!joint->turn[i].order) {
                return no_memory(error);
            }
        } else {
            joint->samples += from[i].samples.count;
        }
        most = joint->part[i].batch > most ? joint->part[i].batch : most;
    }
    joint->tensor = calloc((size_t)params + 1, sizeof *joint->tensor);
    joint->order = calloc((size_t)joint->samples + 1, sizeof *joint->order);
    joint->chosen = calloc((size_t)most, sizeof *joint->chosen);
    if (!joint->tensor || !joint->order || !joint->chosen) {
        return no_memory(error);
    }
    joint->at = joint->samples;
    joint->epoch = -1;
    for (int32_t i = 0; i < joint->parts; i++) {
        enum culm_status status = find_tensors(joint, &from[i], i, error);
        if (status != CULM_OK) {
            return status;
        }
    }
    return take_memory(joint, error);
}

enum culm_status culm_joint_new(const struct culm_joint_config *config,
                                const struct culm_joint_part *part, int32_t parts,
                                struct culm_device *device, struct culm_joint **ret_joint,
                                struct culm_error *error) {
    struct culm_joint *joint = calloc(1, sizeof *joint);
    if (!joint) {
        return no_memory(error);
    }
    joint->config = *config;
    joint->device = device;
    joint->parts = parts;
    joint->lr = config->optimizer.lr;
    joint->part = calloc((size_t)parts + 1, sizeof *joint->part);
    joint->tensor_of = calloc((size_t)parts + 1, sizeof *joint->tensor_of);
    joint->turn = calloc((size_t)parts + 1, sizeof *joint->turn);
    enum culm_status status = joint->part && joint->tensor_of && joint->turn
                                  ? add_parts(joint, part, error)
                                  : no_memory(error);
    if (status != CULM_OK) {
        culm_joint_free(joint);
        return status;
    }
    *ret_joint = joint;
    return CULM_OK;
}

void culm_joint_free(struct culm_joint *joint) {
    if (!joint) {
        return;
    }
    for (int32_t t = 0; joint->tensor && t < joint->tensors; t++) {
        struct tensor *tensor = &joint->tensor[t];
        joint->device->ops->release(joint->device, tensor->grad);
        joint->device->ops->release(joint->device, tensor->mean);
        joint->device->ops->release(joint->device, tensor->step.work);
        joint->device->ops->release(joint->device, tensor->step.part[1]);
        joint->device->ops->release(joint->device, tensor->step.part[2]);
    }
    joint->device->ops->release(joint->device, joint->room.activations);
    joint->device->ops->release(joint->device, joint->room.scratch);
    joint->device->ops->release(joint->device, joint->room.grads);
    joint->device->ops->release(joint->device, joint->room.work);
    for (int32_t i = 0; i < joint->parts; i++) {
        if (joint->part) {
            joint_part_release(&joint->part[i], joint->device);
        }
        if (joint->tensor_of) {
            free(joint->tensor_of[i]);
        }
        if (joint->turn) {
            free(joint->turn[i].order);
        }
    }
    free(joint->turn);
    free(joint->part);
    free(joint->tensor_of);
    free(joint->tensor);
    free(joint->order);
    free(joint->chosen);
    free(joint);
}

int64_t culm_joint_epoch_batches(const struct culm_joint *joint) {
    int64_t most = (joint->samples + joint->config.batch - 1) / joint->config.batch;
    for (int32_t i = 0; i < joint->parts; i++) {
        const struct joint_part *part = &joint->part[i];
        int64_t own =
            joint->turn[i].order ? (part->samples.count + part->batch - 1) / part->batch : 0;
        most = own > most ? own : most;
    }
    return most;
}

void culm_joint_weight(struct culm_joint *joint, int32_t part, double weight) {
    joint->part[part].weight = weight;
}

void culm_joint_rate(struct culm_joint *joint, double lr) { joint->lr = lr; }

static struct tensor *find(const struct culm_joint *joint, const float *value) {
    for (int32_t t = 0; t < joint->tensors; t++) {
        if (joint->tensor[t].step.part[0] == value) {
            return &joint->tensor[t];
        }
    }
    return NULL;
}

static void copy_if(float *to, const float *from, int64_t count) {
    if (to && from) {
        memcpy(to, from, (size_t)count * sizeof *to);
    }
}

/* Starts afresh from the tensor's present values. */
static void forget(const struct culm_joint *joint, struct tensor *tensor) {
    for (int32_t v = 1; v <= 2; v++) {
        if (tensor->step.part[v]) {
            memset(tensor->step.part[v], 0, (size_t)tensor->step.count * sizeof(float));
        }
    }
    copy_if(tensor->mean, tensor->step.part[0], tensor->step.count);
    tensor->size = joint->config.relative ? size_of(joint, tensor) : 1;
}

void culm_joint_forget(struct culm_joint *joint, const float *value) {
    struct tensor *tensor = find(joint, value);
    if (tensor) {
        forget(joint, tensor);
    }
}

static void remember(struct tensor *tensor, const struct tensor *known) {
    tensor->size = known->size;
    copy_if(tensor->mean, known->mean, tensor->step.count);
    copy_if(tensor->step.part[1], known->step.part[1], tensor->step.count);
    copy_if(tensor->step.part[2], known->step.part[2], tensor->step.count);
}

/* The part that trains the same model; -1: none. */
static int32_t part_like(const struct culm_joint *joint, const struct joint_part *part) {
    int32_t i = joint->parts - 1;
    while (i >= 0 && joint->part[i].model != part->model) {
        i--;
    }
    return i;
}

void culm_joint_go_on(struct culm_joint *joint, const struct culm_joint *from) {
    joint->steps = from->steps;
    for (int32_t t = 0; t < joint->tensors; t++) {
        forget(joint, &joint->tensor[t]);
    }
    for (int32_t i = 0; i < joint->parts; i++) {
        const struct joint_part *part = &joint->part[i];
        const int32_t was = part_like(from, part);
        for (int32_t p = 0; p < part->graph->param_count && was >= 0; p++) {
            const int32_t to = joint->tensor_of[i][p], known = from->tensor_of[was][p];
            if (to >= 0 && known >= 0) {
                remember(&joint->tensor[to], &from->tensor[known]);
            }
        }
    }
}

void culm_joint_exchange(struct culm_joint *joint) {
    for (int32_t t = 0; t < joint->tensors && joint->steps > 0; t++) {
        struct tensor *tensor = &joint->tensor[t];
        float *value = tensor->step.part[0];
        for (int64_t i = 0; i < tensor->step.count && tensor->mean; i++) {
            float now = value[i];
            value[i] = tensor->mean[i];
            tensor->mean[i] = now;
        }
    }
}

/* --- steps --- */

static void shuffle(struct culm_joint *joint) {
    uint64_t random = culm_rng_mix(joint->config.seed, (uint64_t)++joint->epoch);
    int64_t at = 0;
    for (int32_t i = 0; i < joint->parts; i++) {
        for (int64_t k = 0; k < joint->part[i].samples.count && !joint->turn[i].order; k++) {
            joint->order[at++] = (struct slot){i, k};
        }
    }
    for (int64_t i = joint->samples - 1; i > 0; i--) {
        int64_t other = (int64_t)culm_rng_below(&random, (uint64_t)i + 1);
        struct slot slot = joint->order[i];
        joint->order[i] = joint->order[other];
        joint->order[other] = slot;
    }
    joint->at = 0;
}

/* The next `count` samples of a model with a fixed number in every step. Goes on into the next
 * epoch when one ends. */
static void choose(struct culm_joint *joint, int32_t part, int64_t count) {
    struct turn *turn = &joint->turn[part];
    const int64_t all = joint->part[part].samples.count;
    for (int64_t i = 0; i < count; i++) {
        if (turn->at >= all) {
            uint64_t random = culm_rng_mix(culm_rng_mix(joint->config.seed, (uint64_t)part + 1),
                                           (uint64_t)++turn->epoch);
            for (int64_t k = 0; k < all; k++) {
                int64_t other = (int64_t)culm_rng_below(&random, (uint64_t)k + 1);
                turn->order[k] = turn->order[other];
                turn->order[other] = k;
            }
            turn->at = 0;
        }
        joint->chosen[i] = turn->order[turn->at++];
    }
}

struct gradients {
    struct culm_joint *joint;
    int32_t part;
};

static void add_gradient(void *ctx, int32_t param, const float *gradient) {
    const struct gradients *to = ctx;
    struct culm_joint *joint = to->joint;
    struct tensor *tensor = &joint->tensor[joint->tensor_of[to->part][param]];
    if (tensor->frozen) {
        return;
    }
    if (tensor->given++) {
        CULM_RUN(joint->device, accumulate, .sum = tensor->grad, .x = culm_in_f32(gradient),
                 .count = tensor->step.count);
    } else {
        memcpy(tensor->grad, gradient, (size_t)tensor->step.count * sizeof *gradient);
    }
}

/* Early on the mean reaches back less far: over about a ninth of the steps so far, so that it does
 * not cling to the first values. */
static void average(const struct culm_joint *joint, struct tensor *tensor) {
    const double early = (double)joint->steps / (double)(joint->steps + 9);
    const double keep = early < joint->config.average ? early : joint->config.average;
    const float *value = tensor->step.part[0], take = (float)(1 - keep);
    if (tensor->mean && joint->steps == 1) {
        memcpy(tensor->mean, value, (size_t)tensor->step.count * sizeof *value);
    }
    for (int64_t i = 0; i < tensor->step.count && tensor->mean; i++) {
        tensor->mean[i] += take * (value[i] - tensor->mean[i]);
    }
}

/* A tensor that no sample of this step has used takes a step as well, for the sake of momentum and
 * weight decay. */
static void apply(struct culm_joint *joint) {
    const int64_t number = ++joint->steps;
    for (int32_t t = 0; t < joint->tensors; t++) {
        struct tensor *tensor = &joint->tensor[t];
        if (tensor->frozen || (tensor->step.statistic && !tensor->given)) {
            continue;
        }
        if (!tensor->given) {
            memset(tensor->grad, 0, (size_t)tensor->step.count * sizeof *tensor->grad);
        }
        struct culm_step_digest digest;
        const struct culm_optimizer_step step = culm_optimizer_step_at(
            &joint->config.optimizer, number, joint->lr * tensor->size, 1, tensor->given);
        culm_optimizer_apply(&step, joint->device, &tensor->step, tensor->grad, &digest);
        average(joint, tensor);
    }
}

static enum culm_status step(struct culm_joint *joint, double *ret_loss, struct culm_error *error) {
    if (joint->at >= joint->samples && joint->samples > 0) {
        shuffle(joint);
    }
    int64_t end = joint->at + joint->config.batch;
    end = end < joint->samples ? end : joint->samples;
    for (int32_t t = 0; t < joint->tensors; t++) {
        joint->tensor[t].given = 0;
    }
    *ret_loss = 0;
    for (int32_t i = 0; i < joint->parts; i++) {
        int64_t count = 0;
        double loss = 0;
        if (joint->turn[i].order) {
            count = joint->part[i].batch;
            choose(joint, i, count);
        }
        for (int64_t k = joint->at; k < end; k++) {
            if (joint->order[k].part == i) {
                joint->chosen[count++] = joint->order[k].sample;
            }
        }
        struct gradients to = {joint, i};
        enum culm_status status =
            count ? joint_part_run(&joint->part[i], &joint->config, joint->device, joint->chosen,
                                   count, add_gradient, &to, &loss, error)
                  : CULM_OK;
        if (status != CULM_OK) {
            return status;
        }
        *ret_loss += loss;
    }
    joint->at = end;
    apply(joint);
    return CULM_OK;
}

enum culm_status culm_joint_run(struct culm_joint *joint, int64_t batches, double *ret_loss,
                                struct culm_error *error) {
    double sum = 0;
    int64_t done = 0;
    for (; done < batches && isfinite(sum); done++) {
        double loss;
        enum culm_status status = step(joint, &loss, error);
        if (status != CULM_OK) {
            return status;
        }
        sum += loss;
    }
    *ret_loss = done ? sum / (double)done : 0;
    return CULM_OK;
}
