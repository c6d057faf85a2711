/* Fits and trains models whose layers were tied. See search_ties_parts.h. */
#include "merge/search_ties_parts.h"

#include "merge/joint.h"
#include "merge/search_course.h"
#include "merge/search_samples.h"
#include "merge/search_walks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 50                /* in an attempt, at most */
#define OF_STEPS 0.025          /* share of the workload's steps, at most */
#define EVERY 25                /* steps between checks */
#define MISSING 3               /* factor of the loss of a model with nothing to spare */
#define ROOM ((int64_t)1 << 29) /* bytes for the originals' outputs, over all models */

/* --- batch norms --- */

enum culm_status search_ties_fit_norms(const struct search_ties *t, int32_t model,
                                       const float *before, struct culm_error *error) {
    const struct culm_merge_model *own = t->s->models[model];
    const size_t params = (size_t)own->param_count + 1;
    struct culm_merge_model was = *own;
    bool *held = calloc(params, sizeof *held);
    was.aligned = calloc(params, sizeof *was.aligned);
    enum culm_status status = held && was.aligned ? CULM_OK : search_no_memory(error);
    for (int32_t p = 0; p < own->param_count && status == CULM_OK; p++) {
        const size_t bytes = 4 * (size_t)culm_merge_param_elements(own, p);
        held[p] = true;
        was.aligned[p] = aligned_alloc(64, (bytes + 63) / 64 * 64);
        if (!was.aligned[p]) {
            status = search_no_memory(error);
            break;
        }
        memcpy(was.aligned[p], before, bytes);
        before += culm_merge_param_elements(own, p);
    }
    for (int32_t l = 0; l < own->layers.count && status == CULM_OK; l++) {
        const int32_t norm = own->layers.layer[l].norm;
        for (int i = 0; i < CULM_MERGE_NORM_PARAMS && norm >= 0 && !t->idle[model][l]; i++) {
            held[culm_merge_norm_param(own->graph, norm, i)] = false;
        }
    }
    if (status == CULM_OK) {
        status = search_fit_as(t->s, model, &was, held, error);
    }
    for (int32_t p = 0; p < own->param_count && was.aligned; p++) {
        free(was.aligned[p]);
    }
    free(was.aligned);
    free(held);
    return status;
}

/* --- training --- */

/* The models concerned, trained with one address for each tensor. */
struct training {
    const struct search_ties *t;
    const bool *hit;                    /* [models] */
    struct search_samples *samples;     /* [models] */
    struct culm_joint_answers *answers; /* [models] */
    float ***value;                     /* [models][parameters] */
    bool **frozen; /* [models][parameters]: tensors that other models have, too */
    struct culm_joint *joint;
    double rate;
};

static void end_training(struct training *g) {
    culm_joint_free(g->joint);
    for (int32_t k = 0; k < g->t->s->count; k++) {
        free(g->value ? g->value[k] : NULL);
        free(g->frozen ? g->frozen[k] : NULL);
        free(g->answers ? g->answers[k].value : NULL);
        free(g->answers ? g->answers[k].known : NULL);
    }
    free(g->samples);
    free(g->answers);
    free(g->value);
    free(g->frozen);
}

/* Whether a model that is not concerned has the layer's tensor. */
static bool is_elsewhere(const struct training *g, struct culm_member layer) {
    const struct culm_search *s = g->t->s;
    const struct culm_member holder = culm_share_holder(s->share, layer);
    for (int32_t k = 0; k < s->count; k++) {
        for (int32_t l = 0; !g->hit[k] && l < s->models[k]->layers.count; l++) {
            if (search_ties_same(culm_share_holder(s->share, (struct culm_member){k, l}), holder)) {
                return true;
            }
        }
    }
    return false;
}

static enum culm_status add_model(struct training *g, int32_t k, struct culm_error *error) {
    struct culm_search *s = g->t->s;
    g->samples[k] = search_samples_of(s, k);
    g->value[k] = culm_share_addresses(s->share, s->models, k);
    g->frozen[k] = calloc((size_t)s->models[k]->param_count + 1, sizeof **g->frozen);
    if (!g->value[k] || !g->frozen[k]) {
        return search_no_memory(error);
    }
    for (int32_t l = 0; l < s->models[k]->layers.count; l++) {
        const struct culm_vision_layer *layer = &s->models[k]->layers.layer[l];
        const bool stays = is_elsewhere(g, (struct culm_member){k, l});
        g->frozen[k][layer->weight] = stays;
        if (layer->bias >= 0) {
            g->frozen[k][layer->bias] = stays;
        }
    }
    return CULM_OK;
}

static enum culm_status begin_training(struct training *g, struct culm_error *error) {
    struct culm_search *s = g->t->s;
    const size_t count = (size_t)s->count + 1;
    struct culm_joint_part *part = calloc(count, sizeof *part);
    int64_t least = SEARCH_SAMPLES_FULL;
    int32_t parts = 0;
    g->samples = calloc(count, sizeof *g->samples);
    g->answers = calloc(count, sizeof *g->answers);
    g->value = calloc(count, sizeof *g->value);
    g->frozen = calloc(count, sizeof *g->frozen);
    enum culm_status status = part && g->samples && g->answers && g->value && g->frozen
                                  ? CULM_OK
                                  : search_no_memory(error);
    for (int32_t k = 0; k < s->count && status == CULM_OK; k++) {
        if (!g->hit[k] || (status = add_model(g, k, error))) {
            continue;
        }
        const int64_t each = search_samples_each(&g->samples[k]);
        least = each < least ? each : least;
        part[parts++] =
            (struct culm_joint_part){.model = s->models[k]->vision,
                                     .value = g->value[k],
                                     .original = (const float *const *)s->models[k]->aligned,
                                     .frozen = g->frozen[k],
                                     .samples = search_samples_give(&g->samples[k]),
                                     .each = each,
                                     .room = ROOM / s->count,
                                     .answers = &g->answers[k]};
    }
    if (status == CULM_OK) {
        const struct culm_joint_config config =
            search_samples_config(least, s->config->seed + (uint64_t)s->round);
        g->rate = config.optimizer.lr;
        status = culm_joint_new(&config, part, parts, s->device, &g->joint, error);
    }
    free(part);
    return status;
}

static bool spares(const struct culm_search *s, int32_t model) {
    bool spare = search_ratio(s, model) >= 1;
    for (int32_t q = 0; q < s->query_count; q++) {
        spare =
            spare && (s->query[q].model != model || s->query[q].now >= search_enough(&s->query[q]));
    }
    return spare;
}

enum culm_status search_ties_check(const struct search_ties *t, const bool *hit, bool *ret_met,
                                   double *ret_least, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    *ret_met = true;
    *ret_least = HUGE_VAL;
    for (int32_t k = 0; k < t->s->count && status == CULM_OK; k++) {
        if (hit[k] && !(status = search_check_model(t->s, k, error))) {
            *ret_least = fmin(*ret_least, search_ratio(t->s, k));
            *ret_met = *ret_met && spares(t->s, k);
        }
    }
    return status;
}

/* Raises the weight of models that have nothing to spare. */
static void weigh(const struct training *g) {
    int32_t part = 0;
    for (int32_t k = 0; k < g->t->s->count; k++) {
        if (g->hit[k]) {
            culm_joint_weight(g->joint, part++, spares(g->t->s, k) ? 1 : MISSING);
        }
    }
}

static enum culm_status learn(struct training *g, int64_t from, int64_t until, int64_t steps,
                              struct culm_error *error) {
    struct culm_search *s = g->t->s;
    enum culm_status status = CULM_OK;
    for (int64_t i = from; i < until && status == CULM_OK; i++) {
        double loss;
        if (search_stopped(s)) {
            return search_stop(error);
        }
        culm_joint_rate(g->joint, search_course_rate(g->rate, i, (double)i / (double)steps));
        status = culm_joint_run(g->joint, 1, &loss, error);
        s->ops->step(s->ctx, i + 1, steps, loss);
    }
    return status;
}

/* Whether `checks` more checks would not get there at the present rate. least, before: the smallest
 * ratios at the last check and the one before. */
static bool hopeless(double least, double before, int64_t checks) {
    return least < 1 && 1 - least > (least - before) * (double)checks;
}

enum culm_status search_ties_train(const struct search_ties *t, const bool *hit, double before,
                                   bool *ret_met, struct culm_error *error) {
    const int64_t given = (int64_t)(OF_STEPS * (double)t->s->config->steps);
    const int64_t steps = given < STEPS ? given : STEPS;
    struct training g = {.t = t, .hit = hit};
    enum culm_status status = steps > 0 ? begin_training(&g, error) : CULM_OK;
    for (int64_t step = 0; step < steps && status == CULM_OK && !*ret_met;) {
        const int64_t until = step + EVERY < steps ? step + EVERY : steps;
        double least;
        if ((status = learn(&g, step, until, steps, error))) {
            break;
        }
        culm_joint_exchange(g.joint);
        culm_share_spread(t->s->share, t->s->models);
        status = search_ties_check(t, hit, ret_met, &least, error);
        step = until;
        if (hopeless(least, before, (steps - step) / EVERY) || search_late(t->s)) {
            break;
        }
        if (!*ret_met) {
            weigh(&g);
            culm_joint_exchange(g.joint);
        }
        before = least;
    }
    end_training(&g);
    return status;
}
