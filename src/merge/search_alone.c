/* Training one model on top of what it took over. See search_alone.h. */
#include "merge/search_alone.h"

#include "merge/search_course.h"
#include "merge/search_parts.h"
#include "merge/search_samples.h"

#include <stdlib.h>

#define EVERY 25 /* steps between checks */
#define FAR 0.7  /* share of a target below which neither more steps nor more private layers help */
#define FEW_CHECKED 30 /* frames */
#define STEPS 2000     /* of a model, at most */
#define AFTER 3        /* further checks in which a model that meets its targets may improve */
#define ROOM ((int64_t)1 << 29) /* bytes for the original's outputs */

/* Training goes in stretches. In each the learning rate falls to a twentieth of its start, since
 * the last half point of accuracy comes at a small rate. If the model still misses a target, a part
 * of the bytes it shares becomes private, and another stretch follows. */
#define STRETCHES 3
static const struct {
    double steps, rate,
        leaves; /* shares: of all steps; of the initial rate; of the bytes given up first */
} stretch[STRETCHES] = {{0.5, 1, 0}, {0.25, 0.5, 0.2}, {0.25, 0.5, 0.4}};

struct alone {
    struct culm_search *s;
    int32_t model;
    bool *frozen;     /* [parameters] */
    float *best;      /* its values at the best check */
    double *best_now; /* [queries]: accuracy at that check */
    double ratio;     /* at that check */
    double rate;      /* the learning rate at the start of the first stretch */
    struct culm_joint_answers answers;
    struct search_samples samples;
    int64_t taken; /* steps so far */
};

static enum culm_status join(struct alone *a, struct culm_joint **ret_joint,
                             struct culm_error *error) {
    const struct culm_merge_model *own = a->s->models[a->model];
    const struct culm_joint_part part = {.model = own->vision,
                                         .value = own->value,
                                         .original = (const float *const *)own->aligned,
                                         .frozen = a->frozen,
                                         .samples = search_samples_give(&a->samples),
                                         .each = search_samples_each(&a->samples),
                                         .room = ROOM,
                                         .answers = &a->answers};
    const struct culm_joint_config config = search_samples_config(
        search_samples_each(&a->samples), a->s->config->seed + (uint64_t)a->taken);
    a->rate = config.optimizer.lr;
    return culm_joint_new(&config, &part, 1, a->s->device, ret_joint, error);
}

static enum culm_status keep_best(struct alone *a, struct culm_error *error) {
    const double ratio = search_ratio(a->s, a->model);
    if (a->best && ratio < a->ratio) {
        return CULM_OK;
    }
    free(a->best);
    a->best = culm_merge_model_save(a->s->models[a->model]);
    a->ratio = ratio;
    for (int32_t q = 0; q < a->s->query_count; q++) {
        a->best_now[q] = a->s->query[q].now;
    }
    return a->best ? CULM_OK : search_no_memory(error);
}

static void take_best(struct alone *a) {
    culm_merge_model_restore(a->s->models[a->model], a->best);
    for (int32_t q = 0; q < a->s->query_count; q++) {
        a->s->query[q].now = a->s->query[q].model == a->model ? a->best_now[q] : a->s->query[q].now;
    }
}

bool search_hardly_checked(const struct culm_search *s, int32_t model) {
    int64_t least = FEW_CHECKED;
    for (int32_t q = 0; q < s->query_count; q++) {
        const int64_t count = s->query[q].check.count;
        least = s->query[q].model == model && count < least ? count : least;
    }
    return s->config->steps > 0 && least < FEW_CHECKED;
}

/* Whether all queries of the model have something to spare. */
static bool spares(const struct alone *a) {
    bool spare = !search_hardly_checked(a->s, a->model);
    for (int32_t q = 0; q < a->s->query_count; q++) {
        const struct culm_search_query *query = &a->s->query[q];
        spare = spare && (query->model != a->model || query->now >= search_enough(query));
    }
    return spare;
}

/* The number of steps taken by the end of a stretch. */
static int64_t end_of(const struct alone *a, int32_t which) {
    const int64_t steps = a->s->config->steps < STEPS ? a->s->config->steps : STEPS;
    double share = 0;
    for (int32_t i = 0; i <= which; i++) {
        share += stretch[i].steps;
    }
    return (int64_t)(share * (double)steps);
}

/* Trains up to the next check of a stretch, and checks. */
static enum culm_status learn(struct alone *a, struct culm_joint *joint, int32_t which,
                              struct culm_error *error) {
    struct culm_search *s = a->s;
    const int64_t from = which > 0 ? end_of(a, which - 1) : 0, until = end_of(a, which);
    const int64_t check = until - a->taken < EVERY ? until : a->taken + EVERY;
    enum culm_status status = CULM_OK;
    while (a->taken < check && status == CULM_OK) {
        const double done = (double)(a->taken - from) / (double)(until - from);
        double loss;
        if (search_stopped(s)) {
            return search_stop(error);
        }
        culm_joint_rate(joint, search_course_rate(a->rate * stretch[which].rate, a->taken, done));
        status = culm_joint_run(joint, 1, &loss, error);
        s->ops->step(s->ctx, ++a->taken, end_of(a, STRETCHES - 1), loss);
    }
    if (status == CULM_OK) {
        culm_joint_exchange(joint);
        status = search_check_model(s, a->model, error);
    }
    return status;
}

/* Grouped convolutions first, which do much for their bytes, then the layers with the fewest
 * bytes. */
static bool smaller(void *ctx, int32_t layer, int32_t other) {
    const struct alone *a = ctx;
    const struct culm_vision_layers *layers = &a->s->models[a->model]->layers;
    const struct culm_vision_layer *x = &layers->layer[layer], *y = &layers->layer[other];
    const bool dx = x->signature.groups > 1, dy = y->signature.groups > 1;
    return dx != dy ? dx : x->bytes < y->bytes;
}

static void left(void *ctx, int32_t layer) {
    struct alone *a = ctx;
    const struct culm_vision_layer *own = &a->s->models[a->model]->layers.layer[layer];
    a->frozen[own->weight] = false;
    if (own->bias >= 0) {
        a->frozen[own->bias] = false;
    }
}

/* Makes a share of the bytes that the model took over private, with their present weights. False:
 * it would share nothing. */
static bool let_go(struct alone *a, double part) {
    const struct culm_merge_model *own = a->s->models[a->model];
    const struct search_leaving leaving = {a, smaller, left};
    int64_t all = 0;
    for (int32_t l = 0; l < own->layers.count; l++) {
        all += culm_share_of(a->s->share, a->model, l) >= 0 ? own->layers.layer[l].bytes : 0;
    }
    return search_course_let_go(a->s, a->model, part * (double)all, &leaving) &&
           search_shares(a->s, a->model);
}

/* Makes some layers private and continues the training. *ret_left: whether any are still shared. */
static enum culm_status give_up_some(struct alone *a, double part, struct culm_joint **joint,
                                     bool *ret_left, struct culm_error *error) {
    struct culm_search *s = a->s;
    struct culm_joint *before = *joint;
    *ret_left = let_go(a, part);
    if (!*ret_left) {
        return CULM_OK;
    }
    search_attempt(s, "adopt");
    enum culm_status status = join(a, joint, error);
    if (status == CULM_OK) {
        culm_joint_go_on(*joint, before);
        culm_joint_free(before);
    }
    return status;
}

/* How a stretch of training ended. */
enum ended { MET, MISSED, GIVEN_UP };

/* Whether more steps are pointless: the model is far from its target after a third of the first
 * stretch or later. */
static bool far_away(const struct alone *a) {
    return 3 * a->taken >= end_of(a, 0) && search_ratio(a->s, a->model) < FAR;
}

/* Trains until the model has something to spare or the stretch ends. */
static enum culm_status train_stretch(struct alone *a, struct culm_joint *joint, int32_t which,
                                      enum ended *ret_ended, struct culm_error *error) {
    const int64_t until = end_of(a, which);
    int32_t met = 0;
    enum culm_status status = CULM_OK;
    bool goes = a->taken < until;
    while (goes && !(status = learn(a, joint, which, error))) {
        met += search_ratio(a->s, a->model) >= 1;
        if (met && (status = keep_best(a, error))) {
            break;
        }
        goes = a->taken < until && !(met && spares(a)) && met <= AFTER && !far_away(a) &&
               !search_late(a->s);
        if (goes) {
            culm_joint_exchange(joint); /* train the weights on, not their mean */
        }
    }
    *ret_ended = met ? MET : far_away(a) || search_late(a->s) ? GIVEN_UP : MISSED;
    return status;
}

static enum culm_status train(struct alone *a, struct culm_error *error) {
    struct culm_joint *joint;
    enum ended ended = MISSED;
    bool left = true;
    enum culm_status status = join(a, &joint, error);
    if (status != CULM_OK) {
        return status;
    }
    for (int32_t which = 0; which < STRETCHES && left && ended == MISSED && status == CULM_OK;
         which++) {
        if (which > 0) {
            culm_joint_exchange(joint);
            status = give_up_some(a, stretch[which].leaves, &joint, &left, error);
        }
        if (left && status == CULM_OK) {
            status = train_stretch(a, joint, which, &ended, error);
        }
    }
    culm_joint_free(joint);
    return status;
}

enum culm_status search_train_alone(struct culm_search *s, int32_t model, bool *frozen,
                                    bool *ret_met, struct culm_error *error) {
    struct alone a = {
        .s = s, .model = model, .frozen = frozen, .samples = search_samples_of(s, model)};
    a.best_now = calloc((size_t)s->query_count + 1, sizeof *a.best_now);
    const enum culm_status status = a.best_now ? train(&a, error) : search_no_memory(error);
    *ret_met = a.best != NULL;
    if (a.best) {
        take_best(&a);
    }
    free(a.best);
    free(a.best_now);
    free(a.answers.value);
    free(a.answers.known);
    return status;
}
