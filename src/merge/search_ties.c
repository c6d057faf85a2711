/* Ties. See search_ties.h. */
#include "merge/search_ties.h"

#include "merge/idle.h"
#include "merge/joint.h"
#include "merge/search_course.h"
#include "merge/search_samples.h"
#include "merge/search_walks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PROBES 2                /* attempts in a row that come to nothing */
#define STEPS 50                /* of training in an attempt, at most */
#define OF_STEPS 0.025          /* and of those that the workload gives */
#define PART 8                  /* of what there is, so much less is tried at first */
#define LITTLE 0.05             /* harm that batch norms alone make up for */
#define FEWER 4                 /* of the frames of a walk, one part is enough to try layers on */
#define EVERY 25                /* steps between checks */
#define MISSING 3               /* weight of the loss of a model that has nothing to spare */
#define ROOM ((int64_t)1 << 29) /* bytes of what originals said, of all models */

struct ties {
    struct culm_search *s;
    struct search_state *shipped;
    bool **idle;   /* [models][layers] */
    int32_t *kin;  /* [models]: the first of those that share with it, at whatever distance */
    int32_t whose; /* kin of the models that are tied now */
};

static void release(struct ties *t) {
    for (int32_t k = 0; k < t->s->count && t->idle; k++) {
        free(t->idle[k]);
    }
    free(t->idle);
    free(t->kin);
}

static bool is_own(const struct ties *t, int32_t model) {
    return t->s->may[model] && (!t->shipped->own || t->shipped->own[model]);
}

static enum culm_status find_idle(struct ties *t, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    t->idle = calloc((size_t)t->s->count + 1, sizeof *t->idle);
    for (int32_t k = 0; k < t->s->count && t->idle && status == CULM_OK; k++) {
        t->idle[k] = calloc((size_t)t->s->models[k]->layers.count + 1, sizeof **t->idle);
        status = t->idle[k] ? culm_merge_idle(t->s->models[k], t->idle[k], error)
                            : search_no_memory(error);
    }
    return t->idle ? status : search_no_memory(error);
}

static const struct culm_vision_layer *layer_of(const struct ties *t, struct culm_member m) {
    return &t->s->models[m.model]->layers.layer[m.layer];
}

static bool same(struct culm_member a, struct culm_member b) {
    return a.model == b.model && a.layer == b.layer;
}

static bool same_shape(const struct ties *t, struct culm_member a, struct culm_member b) {
    const struct culm_shape *x = &t->s->models[a.model]->graph->param[layer_of(t, a)->weight].shape;
    const struct culm_shape *y = &t->s->models[b.model]->graph->param[layer_of(t, b)->weight].shape;
    bool equal = x->rank == y->rank;
    for (int32_t d = 0; d < x->rank && equal; d++) {
        equal = x->dim[d] == y->dim[d];
    }
    return equal;
}

/* Whether two layers could have one tensor, and have two. */
static bool could_tie(const struct ties *t, struct culm_member a, struct culm_member b) {
    return culm_vision_signature_fits(&layer_of(t, a)->signature, &layer_of(t, b)->signature) &&
           same_shape(t, a, b) &&
           !same(culm_share_holder(t->s->share, a), culm_share_holder(t->s->share, b));
}

/* The next layer of the group's models that has a tensor of its own; *at begins with -1, -1. False: that were all. */
static bool next_holder(const struct ties *t, struct culm_member *at) {
    for (int32_t k = at->model < 0 ? 0 : at->model; k < t->s->count; k++) {
        const int32_t first = k == at->model ? at->layer + 1 : 0;
        for (int32_t l = first; l < t->s->models[k]->layers.count && is_own(t, k); l++) {
            const struct culm_member layer = {k, l};
            if (same(culm_share_holder(t->s->share, layer), layer)) {
                *at = layer;
                return true;
            }
        }
    }
    return false;
}

static const struct culm_member nowhere = {-1, -1};

/* Whether all that share a tensor do without it. */
static bool all_idle(const struct ties *t, struct culm_member holder) {
    bool all = true;
    for (int32_t k = 0; k < t->s->count; k++) {
        for (int32_t l = 0; l < t->s->models[k]->layers.count; l++) {
            if (same(culm_share_holder(t->s->share, (struct culm_member){k, l}), holder)) {
                all = all && t->idle[k][l];
            }
        }
    }
    return all;
}

/* `layer`, and all that share with it, get the numbers of `from`. */
static void tie(const struct ties *t, struct culm_member layer, struct culm_member from) {
    culm_share_tie(t->s->share, from, layer);
    culm_share_give(t->s->share, t->s->models, from);
}

/* --- what is done without --- */

/* The tensor that a layer that is idle takes: the first that somebody uses, else the first of its kind. */
static struct culm_member donor_of_idle(const struct ties *t, struct culm_member idle) {
    struct culm_member other = nowhere, any = nowhere;
    while (next_holder(t, &other)) {
        if (!could_tie(t, idle, other)) {
            continue;
        }
        if (!all_idle(t, other)) {
            return other;
        }
        any = any.model < 0 ? other : any;
    }
    return any;
}

/* Returns how many tensors are gone. */
static int32_t tie_all_idle(const struct ties *t) {
    int32_t tied = 0;
    struct culm_member at = nowhere;
    while (next_holder(t, &at)) {
        if (!all_idle(t, at)) {
            continue;
        }
        const struct culm_member from = donor_of_idle(t, at);
        if (from.model >= 0) {
            tie(t, at, from);
            tied++;
        }
    }
    return tied;
}

enum culm_status search_tie_idle(struct culm_search *s, struct search_state *shipped,
                                 struct culm_error *error) {
    struct ties t = {.s = s, .shipped = shipped};
    search_restore(s, shipped);
    enum culm_status status = find_idle(&t, error);
    if (status == CULM_OK && tie_all_idle(&t) > 0) {
        double least;
        search_attempt(s, "idle");
        if (!(status = search_check(s, &least, error))) {
            status = search_offer(s, shipped, error);
        }
    }
    release(&t);
    return status;
}

/* --- what does something --- */

struct candidate {
    struct culm_member layer, from;
    int64_t bytes;
    double harm;
};

static double worth(const struct candidate *c) {
    return (double)c->bytes / (c->harm * c->harm + 1e-6);
}

/* Layers that give answers stay what they are, and so do those without a batch norm, which nothing could make up for. */
static bool may_tie(const struct ties *t, struct culm_member layer) {
    return layer_of(t, layer)->norm >= 0 && !t->idle[layer.model][layer.layer];
}

/* Tries every other tensor of its kind for each that a model holds. */
static enum culm_status try_model(const struct ties *t, int32_t model,
                                  const struct culm_fit_frames *frames, struct candidate *candidate,
                                  int32_t *count, struct culm_error *error) {
    struct culm_fit_trial *trial = NULL;
    struct candidate *with = NULL;
    int32_t trials = 0, layers = 0;
    enum culm_status status = CULM_OK;
    for (int32_t k = 0; k < t->s->count; k++) {
        layers += t->s->models[k]->layers.count;
    }
    const size_t room = (size_t)layers * (size_t)t->s->models[model]->layers.count + 1;
    trial = calloc(room, sizeof *trial);
    with = calloc(room, sizeof *with);
    struct culm_member at = nowhere;
    while (trial && with && next_holder(t, &at)) {
        struct culm_member from = nowhere;
        while (at.model == model && may_tie(t, at) && next_holder(t, &from)) {
            if (may_tie(t, from) && could_tie(t, at, from)) {
                const struct culm_merge_model *giver = t->s->models[from.model];
                const struct culm_vision_layer *like = layer_of(t, from);
                trial[trials] =
                    (struct culm_fit_trial){at.layer, giver->value[like->weight],
                                            like->bias >= 0 ? giver->value[like->bias] : NULL, 0};
                with[trials++] = (struct candidate){at, from, layer_of(t, at)->bytes, 0};
            }
        }
    }
    if (!trial || !with) {
        status = search_no_memory(error);
    } else if (trials > 0) {
        status = culm_fit_try(t->s->models[model], frames, trial, trials, t->s->device, error);
    }
    for (int32_t i = 0; i < trials && status == CULM_OK; i++) {
        struct candidate *last = *count > 0 ? &candidate[*count - 1] : NULL;
        with[i].harm = trial[i].harm;
        if (last && same(last->layer, with[i].layer)) {
            *last = with[i].harm < last->harm ? with[i] : *last;
        } else {
            candidate[(*count)++] = with[i];
        }
    }
    free(trial);
    free(with);
    return status;
}

/* By what they are worth, without those that lose more than `most`, and those that would take the numbers of one that is
 * itself to be tied. Returns how many. */
static int32_t sort(struct candidate *candidate, int32_t count, double most) {
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        const struct candidate own = candidate[i];
        int32_t at = kept;
        if (own.harm > most) {
            continue;
        }
        for (; at > 0 && worth(&candidate[at - 1]) < worth(&own); at--) {
            candidate[at] = candidate[at - 1];
        }
        candidate[at] = own;
        kept++;
    }
    int32_t free_of = 0;
    for (int32_t i = 0; i < kept; i++) {
        const struct candidate own = candidate[i];
        bool clear = true;
        for (int32_t k = 0; k < free_of; k++) {
            clear =
                clear && !same(candidate[k].layer, own.from) && !same(candidate[k].from, own.layer);
        }
        if (clear) {
            candidate[free_of++] = own;
        }
    }
    return free_of;
}

static enum culm_status find_candidates(const struct ties *t, struct candidate *candidate,
                                        int32_t *ret_count, struct culm_error *error) {
    struct search_walks walks;
    *ret_count = 0;
    enum culm_status status = search_walks_take(t->s, &walks, error);
    for (int32_t k = 0; k < t->s->count && status == CULM_OK; k++) {
        const struct culm_fit_frames some = {walks.frames[k].image,
                                             (walks.frames[k].count + FEWER - 1) / FEWER};
        status = is_own(t, k) && t->kin[k] == t->whose
                     ? try_model(t, k, &some, candidate, ret_count, error)
                     : CULM_OK;
    }
    search_walks_release(t->s, &walks);
    *ret_count = sort(candidate, *ret_count, t->s->config->steps > 0 ? HUGE_VAL : LITTLE);
    return status;
}

/* Batch norms make what they made before as well as they can: `before` are the model's numbers then. */
static enum culm_status fit_norms(const struct ties *t, int32_t model, const float *before,
                                  struct culm_error *error) {
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

static bool spares(const struct culm_search *s, int32_t model) {
    bool spare = search_ratio(s, model) >= 1;
    for (int32_t q = 0; q < s->query_count; q++) {
        spare =
            spare && (s->query[q].model != model || s->query[q].now >= search_enough(&s->query[q]));
    }
    return spare;
}

/* --- training --- */

/* The models that have one of the layers that were tied, with one address for each tensor. */
struct training {
    const struct ties *t;
    const bool *hit;                    /* [models] */
    struct search_samples *samples;     /* [models] */
    struct culm_joint_answers *answers; /* [models] */
    float ***value;                     /* [models][parameters] */
    bool **frozen; /* [models][parameters]: what models have that were not hit */
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

/* Whether a model that was not hit has the layer's tensor. */
static bool is_elsewhere(const struct training *g, struct culm_member layer) {
    const struct culm_search *s = g->t->s;
    const struct culm_member holder = culm_share_holder(s->share, layer);
    for (int32_t k = 0; k < s->count; k++) {
        for (int32_t l = 0; !g->hit[k] && l < s->models[k]->layers.count; l++) {
            if (same(culm_share_holder(s->share, (struct culm_member){k, l}), holder)) {
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

/* Checks the models that were hit; those that have nothing to spare weigh more from now on. */
static enum culm_status check_hit(const struct ties *t, const bool *hit, struct culm_joint *joint,
                                  bool *ret_met, double *ret_least, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    int32_t part = 0;
    *ret_met = true;
    *ret_least = HUGE_VAL;
    for (int32_t k = 0; k < t->s->count && status == CULM_OK; k++) {
        if (hit[k] && !(status = search_check_model(t->s, k, error))) {
            const bool spare = spares(t->s, k);
            *ret_least = fmin(*ret_least, search_ratio(t->s, k));
            *ret_met = *ret_met && spare;
            if (joint) {
                culm_joint_weight(joint, part++, spare ? 1 : MISSING);
            }
        }
    }
    return status;
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

/* Whether so many more checks are in vain: `least` is what the last one found, `before` the one before it. */
static bool hopeless(double least, double before, int64_t checks) {
    return least < 1 && 1 - least > (least - before) * (double)checks;
}

/* Trains what was hit until there is something to spare. It ends early where it would not get there. */
static enum culm_status train(const struct ties *t, const bool *hit, double before, bool *ret_met,
                              struct culm_error *error) {
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
        status = check_hit(t, hit, g.joint, ret_met, &least, error);
        step = until;
        if (hopeless(least, before, (steps - step) / EVERY) || search_late(t->s)) {
            break;
        }
        if (!*ret_met) {
            culm_joint_exchange(g.joint);
        }
        before = least;
    }
    end_training(&g);
    return status;
}

/* Whether the model has one of these layers. */
static bool is_hit(const struct ties *t, int32_t model, const struct candidate *candidate,
                   int32_t count) {
    bool hit = false;
    for (int32_t l = 0; l < t->s->models[model]->layers.count; l++) {
        const struct culm_member holder =
            culm_share_holder(t->s->share, (struct culm_member){model, l});
        for (int32_t i = 0; i < count && !hit; i++) {
            hit = same(holder, candidate[i].layer);
        }
    }
    return hit;
}

/* The first so many candidates at once; what goes ships. */
static enum culm_status attempt(const struct ties *t, const struct candidate *candidate,
                                int32_t count, bool *ret_met, struct culm_error *error) {
    struct culm_search *s = t->s;
    enum culm_status status = CULM_OK;
    bool *hit = calloc((size_t)s->count + 1, sizeof *hit);
    if (!hit) {
        return search_no_memory(error);
    }
    for (int32_t k = 0; k < s->count; k++) {
        hit[k] = is_own(t, k) && is_hit(t, k, candidate, count);
    }
    for (int32_t i = 0; i < count; i++) {
        tie(t, candidate[i].layer, candidate[i].from);
    }
    search_attempt(s, "tie");
    for (int32_t k = 0; k < s->count && status == CULM_OK; k++) {
        status = hit[k] ? fit_norms(t, k, t->shipped->saved[k], error) : CULM_OK;
    }
    double least;
    if (status == CULM_OK && !(status = check_hit(t, hit, NULL, ret_met, &least, error)) &&
        !*ret_met) {
        status = train(t, hit, least, ret_met, error);
    }
    free(hit);
    return status == CULM_OK && *ret_met ? search_ship(s, t->shipped, error) : status;
}

/* What queries say where everything is as it shipped; no number changes. */
static enum culm_status look(const struct ties *t, struct culm_error *error) {
    struct culm_search *s = t->s;
    enum culm_status status = CULM_OK;
    for (int32_t q = 0; q < s->query_count && status == CULM_OK; q++) {
        struct culm_search_query *query = &s->query[q];
        status = search_stopped(s)
                     ? search_stop(error)
                     : culm_judge_now(query->judge, s->models[query->model]->value, &query->check,
                                      query->wanted, &query->now, error);
    }
    return status;
}

/* Attempts, from an eighth of what there is: what goes ships, and others are found beyond it. After one that does not go the
 * next is at half as many. now[queries]: room. */
static enum culm_status go(const struct ties *t, struct candidate *candidate, double *now,
                           struct culm_error *error) {
    struct culm_search *s = t->s;
    int32_t count, many = -1;
    enum culm_status status = find_candidates(t, candidate, &count, error);
    if (status != CULM_OK || count == 0 || (status = look(t, error))) {
        return status;
    }
    many = (count + PART - 1) / PART;
    for (int32_t missed = 0; missed < PROBES && many > 0 && !search_late(s);) {
        bool met = false;
        for (int32_t q = 0; q < s->query_count; q++) {
            now[q] = s->query[q].now;
        }
        if ((status = attempt(t, candidate, many, &met, error))) {
            break;
        }
        if (met) {
            missed = 0;
            if ((status = find_candidates(t, candidate, &count, error))) {
                break;
            }
            many = many < count ? many : count;
            continue;
        }
        missed++;
        many /= 2;
        search_restore(s, t->shipped);
        for (int32_t q = 0; q < s->query_count; q++) {
            s->query[q].now = now[q];
        }
    }
    return status;
}

/* Models that share a tensor are tied together, others for themselves. */
static enum culm_status find_kin(struct ties *t, struct culm_error *error) {
    const struct culm_search *s = t->s;
    t->kin = calloc((size_t)s->count + 1, sizeof *t->kin);
    for (int32_t k = 0; k < s->count && t->kin; k++) {
        t->kin[k] = k;
        for (int32_t l = 0; l < s->models[k]->layers.count; l++) {
            const int32_t a = t->kin[k];
            const int32_t b = t->kin[culm_share_holder(s->share, (struct culm_member){k, l}).model];
            for (int32_t m = 0; m <= k; m++) {
                t->kin[m] = t->kin[m] == a || t->kin[m] == b ? (a < b ? a : b) : t->kin[m];
            }
        }
    }
    return t->kin ? CULM_OK : search_no_memory(error);
}

/* One after the other; what time one leaves is for those after it. */
static enum culm_status each_kin(struct ties *t, struct candidate *candidate, double *now,
                                 struct culm_error *error) {
    struct culm_search *s = t->s;
    int32_t left = 0;
    enum culm_status status = CULM_OK;
    for (int32_t k = 0; k < s->count; k++) {
        left += t->kin[k] == k;
    }
    for (int32_t k = 0; k < s->count && status == CULM_OK; k++) {
        if (t->kin[k] != k) {
            continue;
        }
        const double spent = s->ops->spent(s->ctx);
        s->until = spent + (1 - spent) / left--;
        t->whose = k;
        status = search_late(s) ? CULM_OK : go(t, candidate, now, error);
    }
    s->until = 0;
    return status;
}

enum culm_status search_tie(struct culm_search *s, struct search_state *shipped,
                            struct culm_error *error) {
    struct ties t = {.s = s, .shipped = shipped};
    int32_t layers = 1;
    for (int32_t k = 0; k < s->count; k++) {
        layers += s->models[k]->layers.count;
    }
    struct candidate *candidate = calloc((size_t)layers, sizeof *candidate);
    double *now = calloc((size_t)s->query_count + 1, sizeof *now);
    search_restore(s, shipped);
    enum culm_status status = candidate && now ? CULM_OK : search_no_memory(error);
    if (status == CULM_OK && !search_late(s) && !(status = find_idle(&t, error)) &&
        !(status = find_kin(&t, error))) {
        status = each_kin(&t, candidate, now, error);
    }
    release(&t);
    free(candidate);
    free(now);
    return status;
}
