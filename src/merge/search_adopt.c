/*
 * Building on another model's layers: one model of a group keeps all its weights, and each of the
 * others builds on them, independently of the rest.
 *
 * The first model is the one with the most outputs. If none of the others meets its targets on top
 * of it without training, a few more are tried as the first, and the one on which the others keep
 * most of their accuracy is chosen.
 *
 * Each of the others takes over the weights of the layers it has in common with the models settled
 * before it, together with the batch norms behind them, so that it computes what they compute;
 * residual branches that they lack are silenced. What is its own, above all its heads, is solved
 * for (fit.h): from what it reads now to what its original puts out. If that misses its targets,
 * the model shares as many layers as need no training (search_some.h), and is later trained on its
 * own (search_alone.h); what misses its targets goes back to these layers. Models that could not build on the first do the
 * same among themselves.
 *
 * So no model waits for another, and none loses accuracy by those that come later.
 */
#include "merge/residual.h"
#include "merge/search_alone.h"
#include "merge/search_parts.h"
#include "merge/search_some.h"
#include "merge/search_walks.h"

#include "graph/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRSTS 4         /* models of a group that are tried as the first, at most */
#define TRIES 4          /* at how many layers a model can share without training */
#define OTHERS_PART 0.25 /* of the time left to the group, for all but the first of these */

struct adopting {
    struct culm_search *s;
    const bool *own;
    int32_t *rank;
    struct search_state *shipped;
    double *kept; /* untrained: sum of the bytes taken over times the share of the target met */
    int32_t model;
    bool *held, *frozen; /* [parameters]: taken over; must not move in training */
};

/* --- who is first --- */

/* The outputs of a model in one place, such as the channels of all its heads. */
static int64_t says(const struct culm_merge_model *model) {
    int64_t sum = 0;
    for (int32_t o = 0; o < model->graph->output_count; o++) {
        sum += culm_last_dim(&model->graph->value[model->graph->output[o].value].shape);
    }
    return sum;
}

/* The bytes of the layers that others in the group have, too. */
static int64_t could_share(const struct adopting *a, int32_t model) {
    int64_t bytes = 0;
    for (int32_t l = 0; l < a->s->models[model]->layers.count; l++) {
        bytes += a->s->share->of[model][l] >= 0 ? a->s->models[model]->layers.layer[l].bytes : 0;
    }
    return bytes;
}

/* The same, as a share of the model's bytes. */
static double common(const struct adopting *a, int32_t model) {
    int64_t all = 0;
    for (int32_t l = 0; l < a->s->models[model]->layers.count; l++) {
        all += a->s->models[model]->layers.layer[l].bytes;
    }
    return all > 0 ? (double)could_share(a, model) / (double)all : 0;
}

/* Whether x is to be settled before y: more outputs; more in common; fewer layers, so that the
 * other can do what it does. */
static bool before(const struct adopting *a, int32_t x, int32_t y) {
    const int64_t sx = says(a->s->models[x]), sy = says(a->s->models[y]);
    const double cx = common(a, x), cy = common(a, y);
    const int32_t lx = a->s->models[x]->layers.count, ly = a->s->models[y]->layers.count;
    return sx != sy ? sx > sy : cx != cy ? cx > cy : lx != ly ? lx < ly : x < y;
}

/* Whether x is tried before y: with training, the one that may save more. */
static bool precedes(const struct adopting *a, bool trains, int32_t x, int32_t y) {
    const int64_t bx = trains ? could_share(a, x) : 0, by = trains ? could_share(a, y) : 0;
    return bx != by ? bx > by : before(a, x, y);
}

/* The next model of the group that is not settled, in order of precedence, after `last` (-1: from
 * the start). -1: none. */
static int32_t next_of(const struct adopting *a, bool trains, int32_t last) {
    int32_t next = -1;
    for (int32_t k = 0; k < a->s->count; k++) {
        if (a->own[k] && !a->rank[k] && (last < 0 || precedes(a, trains, last, k)) &&
            (next < 0 || precedes(a, trains, k, next))) {
            next = k;
        }
    }
    return next;
}

/* --- taking over --- */

/* The member whose weights an instance has: of those in, the one settled first. NULL: none is
 * in. */
static const struct culm_member *holder(const struct adopting *a, int32_t i) {
    const struct culm_instance *instance = &a->s->share->match.instance[i];
    const struct culm_member *first = NULL;
    for (int32_t m = 0; m < instance->count; m++) {
        const struct culm_member *member = &instance->member[m];
        if (a->s->share->in[i][m] && a->rank[member->model] &&
            (!first || a->rank[member->model] < a->rank[first->model])) {
            first = member;
        }
    }
    return first;
}

static void take(struct adopting *a, int32_t into, const struct culm_merge_model *from,
                 int32_t param) {
    if (into >= 0 && param >= 0) {
        memcpy(a->s->models[a->model]->value[into], from->value[param],
               4 * (size_t)culm_merge_param_elements(from, param));
        a->held[into] = true;
    }
}

static void take_layer(struct adopting *a, int32_t l, const struct culm_member *from) {
    const struct culm_merge_model *own = a->s->models[a->model], *other = a->s->models[from->model];
    const struct culm_vision_layer *to = &own->layers.layer[l];
    const struct culm_vision_layer *like = &other->layers.layer[from->layer];
    take(a, to->weight, other, like->weight);
    take(a, to->bias, other, like->bias);
    a->frozen[to->weight] = true;
    if (to->bias >= 0) {
        a->frozen[to->bias] = true;
    }
    for (int i = 0; i < CULM_MERGE_NORM_PARAMS && to->norm >= 0 && like->norm >= 0; i++) {
        take(a, culm_merge_norm_param(own->graph, to->norm, i), other,
             culm_merge_norm_param(other->graph, like->norm, i));
    }
}

/* Silences the residual branches that were not taken over: they add zero. */
static void silence(struct adopting *a) {
    struct culm_merge_model *own = a->s->models[a->model];
    for (int32_t l = 0; l < own->layers.count; l++) {
        const int32_t norm = own->layers.layer[l].norm;
        if (norm < 0 || a->held[culm_merge_norm_param(own->graph, norm, 0)] ||
            !culm_merge_residual(own->graph, norm)) {
            continue;
        }
        for (int i = 0; i < CULM_MERGE_NORM_PARAMS; i++) {
            const int32_t p = culm_merge_norm_param(own->graph, norm, i);
            const size_t bytes = 4 * (size_t)culm_merge_param_elements(own, p);
            if (i < 2) { /* scale and shift */
                memset(own->value[p], 0, bytes);
            } else {
                memcpy(own->value[p], own->aligned[p], bytes);
            }
            a->held[p] = true;
        }
    }
}

/* Whether a layer makes an output. A model's output layers are always its own. */
static bool makes_output(const struct culm_merge_model *model, int32_t l) {
    bool makes = false;
    for (int32_t o = 0; o < model->graph->output_count; o++) {
        makes |= model->graph->output[o].value ==
                 model->graph->node[model->layers.layer[l].node].output[0];
    }
    return makes;
}

/* Takes over all layers that settled models offer, and fits the rest without training. */
static enum culm_status build_on(struct adopting *a, struct culm_error *error) {
    struct culm_merge_model *own = a->s->models[a->model];
    memset(a->held, 0, (size_t)own->param_count);
    memset(a->frozen, 0, (size_t)own->param_count);
    for (int32_t l = 0; l < own->layers.count; l++) {
        const int32_t i = a->s->share->of[a->model][l];
        const struct culm_member *from = i >= 0 && !makes_output(own, l) ? holder(a, i) : NULL;
        if (from) {
            culm_share_enter(a->s->share, (struct culm_member){a->model, l});
            take_layer(a, l, from);
        }
    }
    silence(a);
    if (!search_shares(a->s, a->model)) {
        return CULM_OK;
    }
    search_attempt(a->s, "adopt");
    return search_fit_alone(a->s, a->model, a->held, error);
}

/* The bytes of the layers that the model shares. */
static int64_t shared(const struct adopting *a) {
    const struct culm_merge_model *own = a->s->models[a->model];
    int64_t bytes = 0;
    for (int32_t l = 0; l < own->layers.count; l++) {
        bytes += culm_share_of(a->s->share, a->model, l) >= 0 ? own->layers.layer[l].bytes : 0;
    }
    return bytes;
}

/* --- one model after another --- */

/* Offers to later models the layers that no settled model offers yet. */
static void offer_layers(const struct adopting *a, int32_t model) {
    for (int32_t l = 0; l < a->s->models[model]->layers.count; l++) {
        const int32_t i = a->s->share->of[model][l];
        if (i >= 0 && !holder(a, i)) {
            culm_share_enter(a->s->share, (struct culm_member){model, l});
        }
    }
}

/* Settles a model: it keeps its present weights. */
static void settle(struct adopting *a, int32_t model) {
    int32_t last = 0;
    for (int32_t k = 0; k < a->s->count; k++) {
        last = a->own[k] && a->rank[k] > last ? a->rank[k] : last;
    }
    a->rank[model] = last + 1;
    offer_layers(a, model);
}

static void align_back(struct culm_merge_model *model) {
    for (int32_t p = 0; p < model->param_count; p++) {
        memcpy(model->value[p], model->aligned[p], 4 * (size_t)culm_merge_param_elements(model, p));
    }
}

/* Gives a model its own weights back; it shares nothing. */
static void leave(struct adopting *a, int32_t model) {
    for (int32_t q = 0; q < a->s->query_count; q++) {
        if (a->s->query[q].model == model) {
            a->s->query[q].now = a->s->query[q].original;
        }
    }
    culm_share_leave(a->s->share, model);
    align_back(a->s->models[model]);
}

/* Whether the model has the weights of a layer that a settled model offers. */
static bool has_offered(const struct adopting *a, int32_t model, int32_t l) {
    const int32_t i = a->s->share->of[model][l];
    const struct culm_member *from = i >= 0 ? holder(a, i) : NULL;
    if (!from) {
        return false;
    }
    const struct culm_merge_model *own = a->s->models[model], *other = a->s->models[from->model];
    const struct culm_vision_layer *x = &own->layers.layer[l];
    const struct culm_vision_layer *y = &other->layers.layer[from->layer];
    return !memcmp(own->value[x->weight], other->value[y->weight],
                   4 * (size_t)culm_merge_param_elements(own, x->weight)) &&
           (x->bias < 0 || !memcmp(own->value[x->bias], other->value[y->bias],
                                   4 * (size_t)culm_merge_param_elements(own, x->bias)));
}

/* Goes back to the layers that a model which is not settled shared when the group last shipped, if
 * the models that are settled now offer all of them; else it shares nothing. */
static enum culm_status fall_back(struct adopting *a, int32_t model, struct culm_error *error) {
    const struct culm_merge_model *own = a->s->models[model];
    struct culm_share *share = a->s->share;
    bool *shared = calloc((size_t)own->layers.count + 1, sizeof *shared), all = true;
    char *text = culm_share_text(share);
    leave(a, model);
    if (!shared || !text) {
        free(shared);
        free(text);
        return search_no_memory(error);
    }
    culm_share_put(share, a->shipped->share);
    const bool any = search_shares(a->s, model);
    for (int32_t l = 0; l < own->layers.count && any; l++) {
        shared[l] = culm_share_of(share, model, l) >= 0;
    }
    culm_share_put(share, text);
    culm_share_leave(share, model);
    if (any) {
        culm_merge_model_restore(a->s->models[model], a->shipped->saved[model]);
    }
    for (int32_t l = 0; l < own->layers.count && any; l++) {
        all = all && (!shared[l] || has_offered(a, model, l));
    }
    if (any && !all) {
        leave(a, model);
    }
    for (int32_t l = 0; l < own->layers.count && any && all; l++) {
        if (shared[l]) {
            culm_share_enter(share, (struct culm_member){model, l});
        }
    }
    for (int32_t q = 0; q < a->s->query_count && any && all; q++) {
        struct culm_search_query *query = &a->s->query[q];
        query->now = query->model == model ? a->shipped->now[q] : query->now;
    }
    free(shared);
    free(text);
    return CULM_OK;
}

/* --- some of the layers --- */

static enum culm_status found_some(void *ctx, struct culm_error *error) {
    const struct adopting *a = ctx;
    return search_offer(a->s, a->shipped, error);
}

/* The model takes over as many layers as it can without training, and stays what it is. */
static enum culm_status share_some(struct adopting *a, struct culm_error *error) {
    struct culm_merge_model *own = a->s->models[a->model];
    bool *may = calloc((size_t)own->layers.count + 1, sizeof *may), any = false;
    int64_t bytes;
    if (!may) {
        return search_no_memory(error);
    }
    leave(a, a->model);
    memset(a->held, 0, (size_t)own->param_count);
    for (int32_t l = 0; l < own->layers.count; l++) {
        const int32_t i = a->s->share->of[a->model][l];
        const struct culm_member *from = i >= 0 && !makes_output(own, l) ? holder(a, i) : NULL;
        if (from) {
            const struct culm_merge_model *other = a->s->models[from->model];
            const struct culm_vision_layer *like = &other->layers.layer[from->layer];
            culm_share_enter(a->s->share, (struct culm_member){a->model, l});
            take(a, own->layers.layer[l].weight, other, like->weight);
            take(a, own->layers.layer[l].bias, other, like->bias);
            any = may[l] = true;
        }
    }
    const struct search_some some = {
        .model = a->model, .may = may, .tries = TRIES, .found = found_some, .ctx = a};
    const enum culm_status status = any ? search_some(a->s, &some, &bytes, error) : CULM_OK;
    free(may);
    return status;
}

static enum culm_status try_model(struct adopting *a, bool trains, struct culm_error *error) {
    struct culm_search *s = a->s;
    leave(a, a->model);
    enum culm_status status = build_on(a, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!search_shares(s, a->model)) { /* no settled model has anything in common with it */
        leave(a, a->model);
        settle(a, a->model);
        return CULM_OK;
    }
    bool met = false;
    if (trains) {
        status = search_train_alone(s, a->model, a->frozen, &met, error);
    } else if (!(status = search_check_model(s, a->model, error))) {
        const double ratio = search_ratio(s, a->model);
        met = ratio >= 1;
        if (met && search_hardly_checked(s, a->model)) { /* no doubt where nothing differs */
            status = search_equals(s, a->model, &met, error);
        }
        *a->kept += (double)shared(a) * fmin(ratio, 1);
    }
    if (status == CULM_OK && met) {
        settle(a, a->model);
        return search_offer(s, a->shipped, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    return fall_back(a, a->model, error);
}

/* How a model is tried. */
enum trial { UNTRAINED, TRAINED, SOME };

static enum culm_status one_model(const struct adopting *from, int32_t model, enum trial trial,
                                  struct culm_error *error) {
    struct adopting a = *from;
    const size_t params = (size_t)a.s->models[model]->param_count + 1;
    a.model = model;
    a.held = calloc(params, sizeof *a.held);
    a.frozen = calloc(params, sizeof *a.frozen);
    enum culm_status status = !a.held || !a.frozen ? search_no_memory(error)
                              : trial == SOME      ? share_some(&a, error)
                                                   : try_model(&a, trial == TRAINED, error);
    free(a.held);
    free(a.frozen);
    return status;
}

/* Restores what the group shipped, or the originals, and offers the layers of settled models.
 * `again`: only of those that share with one another, so that the others can share among
 * themselves. */
static enum culm_status begin(struct adopting *a, bool again, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    search_restore(a->s, a->shipped);
    for (int32_t k = 0; k < a->s->count; k++) {
        if (a->own[k] && (!a->rank[k] || !search_shares(a->s, k))) {
            leave(a, k);
        }
    }
    for (int32_t rank = 1; rank <= a->s->count; rank++) {
        for (int32_t k = 0; k < a->s->count; k++) {
            if (a->own[k] && a->rank[k] == rank && (!again || search_shares(a->s, k))) {
                offer_layers(a, k);
            }
        }
    }
    for (int32_t k = 0; k < a->s->count && status == CULM_OK; k++) {
        status = a->own[k] && !a->rank[k] ? fall_back(a, k, error) : CULM_OK;
    }
    return status;
}

/* --- who else could be first --- */

/* Tries the other models of the group, untrained, on top of `first`. Sets *a->kept. */
static enum culm_status follow(struct adopting *a, int32_t first, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    leave(a, first);
    settle(a, first);
    *a->kept = 0;
    for (int32_t k = next_of(a, false, -1); k >= 0 && status == CULM_OK && !search_late(a->s);
         k = next_of(a, false, k)) {
        status = one_model(a, k, UNTRAINED, error);
    }
    return status;
}

/* The models that did not get there share some layers, on top of those that did. */
static enum culm_status follow_some(struct adopting *a, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t k = next_of(a, false, -1); k >= 0 && status == CULM_OK && !search_late(a->s);
         k = next_of(a, false, k)) {
        status = one_model(a, k, SOME, error);
    }
    return status;
}

static void forget_ranks(const struct adopting *a) {
    for (int32_t k = 0; k < a->s->count; k++) {
        a->rank[k] = a->own[k] ? 0 : a->rank[k];
    }
}

/* Whether any model builds on another; those that share only some of the layers are not settled. */
static bool any_builds(const struct adopting *a) {
    int32_t settled = 0;
    for (int32_t k = 0; k < a->s->count; k++) {
        settled += a->own[k] && a->rank[k] && search_shares(a->s, k);
    }
    return settled > 1;
}

/* Whether checks are reliable enough to compare models as the first. */
static bool is_well_checked(const struct adopting *a) {
    bool well = true;
    for (int32_t k = 0; k < a->s->count; k++) {
        well = well && (!a->own[k] || !search_hardly_checked(a->s, k));
    }
    return well;
}

/* Nothing shipped on top of `first`. Tries a few more models in its place and settles the one on
 * which the others keep most. Ends with the first on which something ships, and leaves time for
 * training. */
static enum culm_status choose_first(struct adopting *a, int32_t first, struct culm_error *error) {
    const size_t bytes = (size_t)a->s->count * sizeof *a->rank;
    int32_t *best = malloc(bytes + 1), tried = 1;
    double most = *a->kept;
    const double until = a->s->until, spent = a->s->ops->spent(a->s->ctx);
    a->s->until = spent + OTHERS_PART * (search_until(a->s) - spent);
    enum culm_status status = best ? CULM_OK : search_no_memory(error);
    if (best) {
        memcpy(best, a->rank, bytes);
        forget_ranks(a);
    }
    for (int32_t k = next_of(a, false, first);
         status == CULM_OK && k >= 0 && tried < FIRSTS && !any_builds(a) && !search_late(a->s);
         tried++) {
        status = begin(a, false, error);
        status = status ? status : follow(a, k, error);
        const bool whole = !search_late(a->s);
        if (status == CULM_OK && (any_builds(a) || (whole && *a->kept > most))) {
            memcpy(best, a->rank, bytes);
            most = *a->kept;
        }
        forget_ranks(a);
        k = next_of(a, false, k);
    }
    if (best) {
        memcpy(a->rank, best, bytes);
    }
    a->s->until = until;
    free(best);
    return status;
}

/* Whether there is something to build on, as where a search goes on from an earlier one. */
static bool any_settled(const struct adopting *a) {
    bool any = false;
    for (int32_t k = 0; k < a->s->count; k++) {
        any = any || (a->own[k] && a->rank[k] > 0);
    }
    return any;
}

enum culm_status search_adopt(struct culm_search *s, int32_t *rank, bool trains,
                              struct search_state *shipped, struct culm_error *error) {
    double kept = 0;
    struct adopting a = {
        .s = s, .own = shipped->own, .rank = rank, .shipped = shipped, .kept = &kept};
    enum culm_status status = begin(&a, false, error);
    int32_t k = next_of(&a, trains, -1);
    if (status != CULM_OK || k < 0 || search_late(s)) {
        return status;
    }
    if (!trains && !any_settled(&a)) {
        status = follow(&a, k, error);
        status = status ? status : follow_some(&a, error);
        const bool others = !any_builds(&a) && is_well_checked(&a);
        return status == CULM_OK && others ? choose_first(&a, k, error) : status;
    }
    for (; k >= 0 && status == CULM_OK && !search_late(s); k = next_of(&a, trains, k)) {
        status = one_model(&a, k, trains ? TRAINED : UNTRAINED, error);
    }
    return status || trains ? status : follow_some(&a, error);
}

enum culm_status search_adopt_again(struct culm_search *s, int32_t *rank,
                                    struct search_state *shipped, struct culm_error *error) {
    double kept = 0;
    struct adopting a = {
        .s = s, .own = shipped->own, .rank = rank, .shipped = shipped, .kept = &kept};
    enum culm_status status = begin(&a, true, error);
    const int32_t first = next_of(&a, false, -1);
    if (status != CULM_OK || first < 0) {
        return status;
    }
    leave(&a, first);
    settle(&a, first);
    for (int trains = 0; trains <= (s->config->steps > 0); trains++) {
        for (int32_t k = next_of(&a, trains, -1); k >= 0 && status == CULM_OK && !search_late(s);
             k = next_of(&a, trains, k)) {
            status = one_model(&a, k, trains ? TRAINED : UNTRAINED, error);
        }
    }
    return status;
}
