/*
 * Joint training of what is shared, towards what the originals put out.
 *
 * Every step takes samples of every model, more of those with small pictures. What is checked is
 * the mean of the weights over the last steps, which is better than any of them and as good as what
 * a smaller rate would reach later. Models that meet their targets ship at once, without those that
 * do not; training goes on for these, and until there is something to spare.
 *
 * A model that is near its target but, by its progress so far, would not reach it in the remaining
 * steps gives up layers: those that save least for what they lose. The others carry on undisturbed.
 * If a model is not even near, the attempt ends.
 */
#include "merge/joint.h"
#include "merge/search_course.h"
#include "merge/search_parts.h"
#include "merge/search_samples.h"

#include <stdlib.h>
#include <string.h>

#define NEAR 0.85               /* share of a target from which on giving up layers may help */
#define CHECKS 8                /* at least */
#define MISSING 3               /* factor of the loss of a model that misses its target */
#define HISTORY 3               /* checks from which progress is judged */
#define ROOM ((int64_t)1 << 30) /* bytes for the originals' outputs, over all models */

/* --- models with one address for each shared tensor --- */

struct training {
    struct culm_search *s;
    const double *harm; /* [instances]: from culm_fit */
    int64_t steps;
    struct search_samples *samples;     /* [models] */
    struct culm_joint_answers *answers; /* [models] */
    struct culm_joint *joint;
    struct culm_joint_part *part; /* [parts]: the models that share something */
    int32_t *model_of;            /* [parts] */
    float ***value;               /* [parts][parameters] */
    int32_t parts;
    double rate;
    int64_t taken;      /* steps so far */
    const float **anew; /* tensors that were reset to their originals */
    int32_t anew_count;
    double (*seen)[HISTORY]; /* [models]: ratios at the last checks, latest first */
    int32_t looks;           /* checks since layers were last given up */
};

static void part_ways(struct training *t) {
    culm_joint_free(t->joint);
    for (int32_t i = 0; i < t->parts && t->value; i++) {
        free(t->value[i]);
    }
    t->joint = NULL;
    t->parts = 0;
}

static void release(struct training *t) {
    part_ways(t);
    for (int32_t k = 0; k < t->s->count && t->answers; k++) {
        free(t->answers[k].value);
        free(t->answers[k].known);
    }
    free(t->samples);
    free(t->answers);
    free(t->part);
    free(t->value);
    free(t->model_of);
    free(t->seen);
    free(t->anew);
}

static enum culm_status prepare(struct training *t, struct culm_error *error) {
    struct culm_search *s = t->s;
    const size_t count = (size_t)s->count + 1;
    t->samples = calloc(count, sizeof *t->samples);
    t->answers = calloc(count, sizeof *t->answers);
    t->part = calloc(count, sizeof *t->part);
    t->value = calloc(count, sizeof *t->value);
    t->model_of = calloc(count, sizeof *t->model_of);
    t->seen = calloc(count, sizeof *t->seen);
    size_t params = 1;
    for (int32_t k = 0; k < s->count; k++) {
        params += (size_t)s->models[k]->param_count;
    }
    t->anew = calloc(params, sizeof *t->anew);
    if (!t->samples || !t->answers || !t->part || !t->value || !t->model_of || !t->seen ||
        !t->anew) {
        return search_no_memory(error);
    }
    for (int32_t k = 0; k < s->count; k++) {
        t->samples[k] = search_samples_of(s, k);
    }
    return CULM_OK;
}

static enum culm_status join(struct training *t, uint64_t seed, struct culm_error *error) {
    struct culm_search *s = t->s;
    int64_t least = SEARCH_SAMPLES_FULL;
    for (int32_t k = 0; k < s->count; k++) {
        if (!search_shares(s, k)) {
            continue;
        }
        struct search_samples *samples = &t->samples[k];
        least = search_samples_each(samples) < least ? search_samples_each(samples) : least;
        if (!(t->value[t->parts] = culm_share_addresses(s->share, s->models, k))) {
            return search_no_memory(error);
        }
        t->part[t->parts] =
            (struct culm_joint_part){.model = s->models[k]->vision,
                                     .value = t->value[t->parts],
                                     .original = (const float *const *)s->models[k]->aligned,
                                     .samples = search_samples_give(samples),
                                     .each = search_samples_each(samples),
                                     .room = ROOM / s->count,
                                     .answers = &t->answers[k]};
        t->model_of[t->parts++] = k;
    }
    const struct culm_joint_config config = search_samples_config(least, seed);
    t->rate = config.optimizer.lr;
    return culm_joint_new(&config, t->part, t->parts, s->device, &t->joint, error);
}

static void copy_shared(const struct culm_search *s) {
    for (int32_t i = 0; i < s->share->match.count; i++) {
        if (culm_share_count(s->share, i) > 1) {
            culm_share_copy(s->share, s->models, i);
        }
    }
}

/* --- steps --- */

static enum culm_status learn(struct training *t, int64_t step, int64_t count,
                              struct culm_error *error) {
    struct culm_search *s = t->s;
    const int64_t steps = t->steps;
    enum culm_status status = CULM_OK;
    for (int64_t i = 0; i < count && status == CULM_OK; i++, step++) {
        double loss, part = (double)step / (double)steps;
        if (search_stopped(s)) {
            return search_stop(error);
        }
        culm_joint_rate(t->joint, search_course_rate(t->rate, t->taken++, part));
        status = culm_joint_run(t->joint, 1, &loss, error);
        s->ops->step(s->ctx, step + 1, steps, loss);
    }
    return status;
}

/* --- who gets there --- */

/* Raises the weight of models that miss their targets. */
static void weigh(struct training *t) {
    for (int32_t i = 0; i < t->parts; i++) {
        const bool misses = search_ratio(t->s, t->model_of[i]) < 1;
        culm_joint_weight(t->joint, i, misses ? MISSING : 1);
    }
}

static void note(struct training *t) {
    for (int32_t k = 0; k < t->s->count; k++) {
        memmove(&t->seen[k][1], &t->seen[k][0], (HISTORY - 1) * sizeof t->seen[k][0]);
        t->seen[k][0] = search_ratio(t->s, k);
    }
    t->looks++;
}

/* Whether a model that misses its target would, at its present rate, not reach it within half of
 * the checks that are left. */
static bool hopeless(const struct training *t, int32_t model, int64_t left) {
    const double *seen = t->seen[model];
    if (!search_shares(t->s, model) || seen[0] >= 1 || t->looks < HISTORY) {
        return false;
    }
    const double nearer = (seen[0] - seen[HISTORY - 1]) / (HISTORY - 1);
    return nearer <= 0 || (1 - seen[0]) / nearer > (double)left / 2;
}

static double worth(const struct training *t, int32_t i) {
    const struct culm_instance *instance = &t->s->share->match.instance[i];
    return (double)instance->bytes / (t->harm[i] * t->harm[i] + 1e-6);
}

static void take_back(struct training *t, struct culm_merge_model *model, int32_t param) {
    memcpy(model->value[param], model->aligned[param],
           4 * (size_t)culm_merge_param_elements(model, param));
    t->anew[t->anew_count++] = model->value[param];
}

/* Resets a layer that is not shared any more to its original, along with its batch norm. */
static void take_back_layer(struct training *t, const struct culm_member *member) {
    struct culm_merge_model *model = t->s->models[member->model];
    const struct culm_vision_layer *layer = &model->layers.layer[member->layer];
    take_back(t, model, layer->weight);
    if (layer->bias >= 0) {
        take_back(t, model, layer->bias);
    }
    for (int i = 0; i < CULM_MERGE_NORM_PARAMS && layer->norm >= 0; i++) {
        take_back(t, model, culm_merge_norm_param(model->graph, layer->norm, i));
    }
}

/* A model that gives up layers, those that are worth least first. */
struct leaver {
    struct training *t;
    int32_t model;
};

static bool worth_less(void *ctx, int32_t layer, int32_t other) {
    const struct leaver *leaver = ctx;
    const int32_t *of = leaver->t->s->share->of[leaver->model];
    return worth(leaver->t, of[layer]) < worth(leaver->t, of[other]);
}

static void left(void *ctx, int32_t layer) {
    const struct leaver *leaver = ctx;
    const struct culm_share *share = leaver->t->s->share;
    const int32_t i = share->of[leaver->model][layer];
    const struct culm_instance *instance = &share->match.instance[i];
    for (int32_t m = 0; m < instance->count; m++) {
        if (instance->member[m].model == leaver->model ||
            (share->in[i][m] && culm_share_count(share, i) == 1)) {
            take_back_layer(leaver->t, &instance->member[m]);
        }
    }
}

/* Gives up a tenth of the bytes that the model could share. */
static void let_go(struct training *t, int32_t model) {
    const struct culm_merge_model *own = t->s->models[model];
    struct leaver leaver = {t, model};
    const struct search_leaving leaving = {&leaver, worth_less, left};
    int64_t bytes = 0;
    for (int32_t l = 0; l < own->layers.count; l++) {
        bytes += t->s->share->of[model][l] >= 0 ? own->layers.layer[l].bytes : 0;
    }
    search_course_let_go(t->s, model, (double)bytes / 10, &leaving);
}

/* What the last check showed: some models should give up layers; one is not even near. */
struct leaving {
    bool some, far;
};

static struct leaving look(const struct training *t, int64_t left) {
    struct leaving found = {0};
    for (int32_t k = 0; k < t->s->count; k++) {
        const bool misses = hopeless(t, k, left);
        found.some |= misses;
        found.far |= misses && t->seen[k][0] < NEAR;
    }
    return found;
}

/* Continues the training with what is still shared. */
static enum culm_status give_up_some(struct training *t, int64_t step, int64_t left,
                                     struct culm_error *error) {
    struct culm_search *s = t->s;
    struct culm_joint *before = t->joint;
    culm_joint_exchange(before);
    copy_shared(s);
    t->anew_count = 0;
    for (int32_t k = 0; k < s->count; k++) {
        if (hopeless(t, k, left)) {
            let_go(t, k);
        }
    }
    t->looks = 1; /* judge by checks from now on */
    search_revert_alone(s);
    if (culm_share_saved(s->share) == 0) {
        return CULM_OK;
    }
    t->joint = NULL;
    part_ways(t);
    search_attempt(s, "train");
    enum culm_status status = join(t, s->config->seed + (uint64_t)step, error);
    if (status == CULM_OK) {
        culm_joint_go_on(t->joint, before);
        for (int32_t i = 0; i < t->anew_count; i++) {
            culm_joint_forget(t->joint, t->anew[i]);
        }
    }
    culm_joint_free(before);
    return status;
}

/* --- the whole --- */

/* Whether all queries have something to spare. */
static bool spares(const struct culm_search *s) {
    bool spare = true;
    for (int32_t q = 0; q < s->query_count; q++) {
        spare = spare && (!search_shares(s, s->query[q].model) ||
                          s->query[q].now >= search_enough(&s->query[q]));
    }
    return spare;
}

static enum culm_status go(struct training *t, struct search_state *shipped,
                           struct culm_error *error) {
    struct culm_search *s = t->s;
    int64_t steps = t->steps, every = steps / CHECKS > 10 ? steps / CHECKS : 10, met = 0;
    enum culm_status status = CULM_OK;
    for (int64_t step = 0, count; step < steps && status == CULM_OK; step += count) {
        double least;
        struct leaving found = {0};
        count = steps - step < every ? steps - step : every;
        if ((status = learn(t, step, count, error))) {
            break;
        }
        culm_joint_exchange(t->joint);
        copy_shared(s);
        if ((status = search_check(s, &least, error)) ||
            (status = search_offer(s, shipped, error))) {
            break;
        }
        note(t);
        if (least < 1 && t->taken >= t->steps / 4) {
            found = look(t, (steps - step - count) / every);
        }
        if ((least >= 1 && (spares(s) || ++met > CHECKS / 2)) || found.far || search_late(s) ||
            culm_share_saved(s->share) < shipped->bytes) {
            break;
        }
        if (found.some) {
            status = give_up_some(t, step + count, (steps - step - count) / every, error);
        } else {
            culm_joint_exchange(t->joint);
        }
        if (status != CULM_OK || culm_share_saved(s->share) == 0) {
            break;
        }
        weigh(t);
    }
    return status;
}

enum culm_status search_train(struct culm_search *s, const double *harm, int64_t steps,
                              struct search_state *shipped, int64_t *ret_taken,
                              struct culm_error *error) {
    struct training t = {.s = s, .harm = harm, .steps = steps};
    enum culm_status status = prepare(&t, error);
    if (status == CULM_OK && !(status = join(&t, s->config->seed, error))) {
        status = go(&t, shipped, error);
    }
    *ret_taken = t.taken;
    release(&t);
    return status;
}
