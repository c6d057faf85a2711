/*
 * Layers taken over: one model keeps all its numbers, and the others, each for itself, build on them.
 *
 * The model that says most comes first. Every other takes over the weights of the layers that it has in
 * common with those before it, and the batch norms behind these, so that it computes what they compute;
 * residual branches that they do not have are silent. What is its own, its heads above all, is solved for
 * (fit.h), from what it reads now to what its original makes. Where that does not meet its targets, it is
 * trained, alone, towards what its original says: what it took over stays as it is, and what is private
 * moves, batch norms with it. Where that does not get there, the layers with the fewest bytes are private
 * too, and go on from where they are. Models to which the first is of no use do the same among themselves.
 * So no model waits for another, and none loses anything by those that come after it.
 */
#include "merge/residual.h"
#include "merge/search_parts.h"
#include "merge/search_samples.h"
#include "merge/search_walks.h"

#include "graph/ops.h"

#include <stdlib.h>
#include <string.h>

#define WARM_UP 20 /* steps */
#define EVERY 25   /* steps between checks */
#define FAR 0.7 /* share of a target, below which neither more steps nor more private layers help */
#define FEW_CHECKED 30 /* frames */
#define STEPS 2000     /* of a model, at most */
#define AFTER 3        /* checks in which a model that meets its targets may become better */
#define ROOM ((int64_t)1 << 29) /* bytes of what the original said */

/* Training goes by stretches. In each the rate falls to a twentieth of what it was at first: the last half of a point of
 * accuracy comes when it is small. A model that still misses its target then makes a part of the bytes that it shares
 * private, and has another stretch. */
#define STRETCHES 3
static const struct {
    double steps, rate,
        leaves; /* shares: of all steps, of the first rate, of the bytes before it begins */
} stretch[STRETCHES] = {{0.5, 1, 0}, {0.25, 0.5, 0.2}, {0.25, 0.5, 0.4}};

struct adopting {
    struct culm_search *s;
    const bool *own;
    int32_t *rank;
    struct search_state *shipped;
    int32_t model;
    bool *held, *frozen; /* [parameters] of the model: taken over; that may not move */
    float *best;         /* its numbers when it had most to spare */
    double *best_now;    /* [queries]: what its checks said then */
    double ratio;        /* then */
    double rate;         /* of the first stretch, at its begin */
    struct culm_joint_answers answers;
    struct search_samples samples;
    int64_t taken; /* steps */
};

/* --- who is first --- */

/* How much a model says in one place. */
static int64_t says(const struct culm_merge_model *model) {
    int64_t sum = 0;
    for (int32_t o = 0; o < model->graph->output_count; o++) {
        sum += culm_last_dim(&model->graph->value[model->graph->output[o].value].shape);
    }
    return sum;
}

/* Bytes of the layers that others of its group have, too. */
static int64_t could_share(const struct adopting *a, int32_t model) {
    int64_t bytes = 0;
    for (int32_t l = 0; l < a->s->models[model]->layers.count; l++) {
        bytes += a->s->share->of[model][l] >= 0 ? a->s->models[model]->layers.layer[l].bytes : 0;
    }
    return bytes;
}

/* The same as a share of all its bytes. */
static double common(const struct adopting *a, int32_t model) {
    int64_t all = 0;
    for (int32_t l = 0; l < a->s->models[model]->layers.count; l++) {
        all += a->s->models[model]->layers.layer[l].bytes;
    }
    return all > 0 ? (double)could_share(a, model) / (double)all : 0;
}

/* Whether model x comes before y: it says more; more of it is common; it is smaller, so that the other may do what
 * it does. */
static bool before(const struct adopting *a, int32_t x, int32_t y) {
    const int64_t sx = says(a->s->models[x]), sy = says(a->s->models[y]);
    const double cx = common(a, x), cy = common(a, y);
    const int32_t lx = a->s->models[x]->layers.count, ly = a->s->models[y]->layers.count;
    return sx != sy ? sx > sy : cx != cy ? cx > cy : lx != ly ? lx < ly : x < y;
}

/* Which of two is tried first: with training, what may save most. */
static bool precedes(const struct adopting *a, bool trains, int32_t x, int32_t y) {
    const int64_t bx = trains ? could_share(a, x) : 0, by = trains ? could_share(a, y) : 0;
    return bx != by ? bx > by : before(a, x, y);
}

/* The first of those that have no rank and come behind `last` (-1: none); -1: there is none. */
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

static struct culm_member *member_of(const struct culm_search *s, int32_t i, int32_t model,
                                     bool **ret_in) {
    const struct culm_instance *instance = &s->share->match.instance[i];
    for (int32_t m = 0; m < instance->count; m++) {
        if (instance->member[m].model == model) {
            *ret_in = &s->share->in[i][m];
            return &instance->member[m];
        }
    }
    return NULL;
}

/* Whose numbers an instance has: of those that are in, the model that came first; NULL: nobody is in. */
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

static int32_t norm_param(const struct culm_merge_model *model, int32_t norm, int input) {
    return model->graph->value[model->graph->node[norm].input[input]].param;
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
    for (int i = 1; i <= 4 && to->norm >= 0 && like->norm >= 0; i++) {
        take(a, norm_param(own, to->norm, i), other, norm_param(other, like->norm, i));
    }
}

/* What a branch that was not taken over adds to what goes past it is nothing. */
static void silence(struct adopting *a) {
    struct culm_merge_model *own = a->s->models[a->model];
    for (int32_t l = 0; l < own->layers.count; l++) {
        const int32_t norm = own->layers.layer[l].norm;
        if (norm < 0 || a->held[norm_param(own, norm, 1)] ||
            !culm_merge_residual(own->graph, norm)) {
            continue;
        }
        for (int i = 1; i <= 4; i++) {
            const int32_t p = norm_param(own, norm, i);
            const size_t bytes = 4 * (size_t)culm_merge_param_elements(own, p);
            if (i <= 2) {
                memset(own->value[p], 0, bytes);
            } else {
                memcpy(own->value[p], own->aligned[p], bytes);
            }
            a->held[p] = true;
        }
    }
}

/* What a model says is its own, however others say theirs. */
static bool makes_output(const struct culm_merge_model *model, int32_t l) {
    bool makes = false;
    for (int32_t o = 0; o < model->graph->output_count; o++) {
        makes |= model->graph->output[o].value ==
                 model->graph->node[model->layers.layer[l].node].output[0];
    }
    return makes;
}

/* Shares whatever others have settled, without training. */
static enum culm_status build_on(struct adopting *a, struct culm_error *error) {
    struct culm_merge_model *own = a->s->models[a->model];
    memset(a->held, 0, (size_t)own->param_count);
    memset(a->frozen, 0, (size_t)own->param_count);
    for (int32_t l = 0; l < own->layers.count; l++) {
        const int32_t i = a->s->share->of[a->model][l];
        const struct culm_member *from = i >= 0 && !makes_output(own, l) ? holder(a, i) : NULL;
        bool *in;
        if (from && member_of(a->s, i, a->model, &in)) {
            *in = true;
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

/* --- training --- */

static enum culm_status join(struct adopting *a, struct culm_joint **ret_joint,
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

static enum culm_status keep_best(struct adopting *a, struct culm_error *error) {
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

static void take_best(struct adopting *a) {
    culm_merge_model_restore(a->s->models[a->model], a->best);
    for (int32_t q = 0; q < a->s->query_count; q++) {
        a->s->query[q].now = a->s->query[q].model == a->model ? a->best_now[q] : a->s->query[q].now;
    }
}

/* Whether its queries are checked by so few frames that these say little: then it is trained in any case. */
static bool hardly_checked(const struct adopting *a) {
    int64_t least = FEW_CHECKED;
    for (int32_t q = 0; q < a->s->query_count; q++) {
        const int64_t count = a->s->query[q].check.count;
        least = a->s->query[q].model == a->model && count < least ? count : least;
    }
    return a->s->config->steps > 0 && least < FEW_CHECKED;
}

/* Whether all of its queries have something to spare. */
static bool spares(const struct adopting *a) {
    bool spare = !hardly_checked(a);
    for (int32_t q = 0; q < a->s->query_count; q++) {
        const struct culm_search_query *query = &a->s->query[q];
        spare = spare && (query->model != a->model || query->now >= search_enough(query));
    }
    return spare;
}

/* Steps that are taken when a stretch ends. */
static int64_t end_of(const struct adopting *a, int32_t which) {
    const int64_t steps = a->s->config->steps < STEPS ? a->s->config->steps : STEPS;
    double share = 0;
    for (int32_t i = 0; i <= which; i++) {
        share += stretch[i].steps;
    }
    return (int64_t)(share * (double)steps);
}

/* The next steps of a stretch, up to a check. */
static enum culm_status learn(struct adopting *a, struct culm_joint *joint, int32_t which,
                              struct culm_error *error) {
    struct culm_search *s = a->s;
    const int64_t from = which > 0 ? end_of(a, which - 1) : 0, until = end_of(a, which);
    const int64_t check = until - a->taken < EVERY ? until : a->taken + EVERY;
    enum culm_status status = CULM_OK;
    while (a->taken < check && status == CULM_OK) {
        const double warm = a->taken < WARM_UP ? (double)(a->taken + 1) / WARM_UP : 1;
        const double done = (double)(a->taken - from) / (double)(until - from);
        double loss;
        if (search_stopped(s)) {
            return search_stop(error);
        }
        culm_joint_rate(joint, a->rate * stretch[which].rate * warm * (1 - 0.95 * done));
        status = culm_joint_run(joint, 1, &loss, error);
        s->ops->step(s->ctx, ++a->taken, end_of(a, STRETCHES - 1), loss);
    }
    if (status == CULM_OK) {
        culm_joint_exchange(joint);
        status = search_check_model(s, a->model, error);
    }
    return status;
}

/* Of the layers that it took over, those with the fewest bytes become private as they are, until this part of the bytes
 * is; depthwise ones first, which do much for their bytes. False: it shares nothing more. */
static bool let_go(struct adopting *a, double part) {
    const struct culm_merge_model *own = a->s->models[a->model];
    int64_t all = 0, gone = 0;
    bool *in, left = false;
    for (int32_t l = 0; l < own->layers.count; l++) {
        all += culm_share_of(a->s->share, a->model, l) >= 0 ? own->layers.layer[l].bytes : 0;
    }
    while ((double)gone < part * (double)all) {
        int32_t least = -1;
        for (int32_t l = 0; l < own->layers.count; l++) {
            const struct culm_vision_layer *layer = &own->layers.layer[l];
            const struct culm_vision_layer *other = least >= 0 ? &own->layers.layer[least] : NULL;
            if (culm_share_of(a->s->share, a->model, l) >= 0 &&
                (!other || (layer->signature.groups > 1) > (other->signature.groups > 1) ||
                 ((layer->signature.groups > 1) == (other->signature.groups > 1) &&
                  layer->bytes < other->bytes))) {
                least = l;
            }
        }
        if (least < 0 || !member_of(a->s, a->s->share->of[a->model][least], a->model, &in)) {
            return false;
        }
        *in = false;
        gone += own->layers.layer[least].bytes;
        a->frozen[own->layers.layer[least].weight] = false;
        if (own->layers.layer[least].bias >= 0) {
            a->frozen[own->layers.layer[least].bias] = false;
        }
    }
    for (int32_t l = 0; l < own->layers.count && !left; l++) {
        left = culm_share_of(a->s->share, a->model, l) >= 0;
    }
    return left;
}

/* Some of what it took over becomes private, and training goes on where it was. False: nothing is left. */
static enum culm_status give_up_some(struct adopting *a, double part, struct culm_joint **joint,
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

/* Whether more steps are in vain: a model that is far from its target after a third of the first stretch, or later. */
static bool far_away(const struct adopting *a) {
    return 3 * a->taken >= end_of(a, 0) && search_ratio(a->s, a->model) < FAR;
}

/* Trains what may move until there is something to spare, or the stretch ends. */
static enum culm_status train_stretch(struct adopting *a, struct culm_joint *joint, int32_t which,
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
            culm_joint_exchange(joint); /* on with the weights, not with their mean */
        }
    }
    *ret_ended = met ? MET : far_away(a) || search_late(a->s) ? GIVEN_UP : MISSED;
    return status;
}

static enum culm_status train(struct adopting *a, struct culm_error *error) {
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

/* --- one model after the other --- */

/* Whoever comes later may take over those of its layers that nobody has yet. */
static void offer_layers(const struct adopting *a, int32_t model) {
    for (int32_t l = 0; l < a->s->models[model]->layers.count; l++) {
        const int32_t i = a->s->share->of[model][l];
        bool *in;
        if (i >= 0 && !holder(a, i) && member_of(a->s, i, model, &in)) {
            *in = true;
        }
    }
}

/* It keeps the numbers that it has now. */
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

/* Its own numbers, and nothing shared with others. */
static void decline(struct adopting *a, int32_t model) {
    for (int32_t q = 0; q < a->s->query_count; q++) {
        if (a->s->query[q].model == model) {
            a->s->query[q].now = a->s->query[q].original;
        }
    }
    culm_share_leave(a->s->share, model);
    align_back(a->s->models[model]);
}

static enum culm_status try_model(struct adopting *a, bool trains, struct culm_error *error) {
    struct culm_search *s = a->s;
    enum culm_status status = build_on(a, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!search_shares(s, a->model)) { /* nobody before it has anything that it could take */
        decline(a, a->model);
        settle(a, a->model);
        return CULM_OK;
    }
    status = trains ? train(a, error) : search_check_model(s, a->model, error);
    const bool met =
        trains ? a->best != NULL : !hardly_checked(a) && search_ratio(s, a->model) >= 1;
    if (a->best) {
        take_best(a);
    }
    if (status == CULM_OK && met) {
        settle(a, a->model);
        return search_offer(s, a->shipped, error);
    }
    decline(a, a->model);
    return status;
}

static enum culm_status one_model(const struct adopting *from, int32_t model, bool trains,
                                  struct culm_error *error) {
    struct adopting a = *from;
    const size_t params = (size_t)a.s->models[model]->param_count + 1;
    a.model = model;
    a.samples = search_samples_of(a.s, model);
    a.held = calloc(params, sizeof *a.held);
    a.frozen = calloc(params, sizeof *a.frozen);
    a.best_now = calloc((size_t)a.s->query_count + 1, sizeof *a.best_now);
    enum culm_status status =
        a.held && a.frozen && a.best_now ? try_model(&a, trains, error) : search_no_memory(error);
    free(a.held);
    free(a.frozen);
    free(a.best);
    free(a.best_now);
    free(a.answers.value);
    free(a.answers.known);
    return status;
}

/* Where the group is: what shipped, or the originals. `again`: of those that keep their numbers and share nothing, no layers are offered, so
 * that others may share among themselves. */
static void begin(struct adopting *a, bool again) {
    search_restore(a->s, a->shipped);
    for (int32_t k = 0; k < a->s->count; k++) {
        if (a->own[k] && !search_shares(a->s, k)) {
            decline(a, k);
        }
    }
    for (int32_t rank = 1; rank <= a->s->count; rank++) {
        for (int32_t k = 0; k < a->s->count; k++) {
            if (a->own[k] && a->rank[k] == rank && (!again || search_shares(a->s, k))) {
                offer_layers(a, k);
            }
        }
    }
}

enum culm_status search_adopt(struct culm_search *s, int32_t *rank, bool trains,
                              struct search_state *shipped, struct culm_error *error) {
    struct adopting a = {.s = s, .own = shipped->own, .rank = rank, .shipped = shipped};
    enum culm_status status = CULM_OK;
    begin(&a, false);
    int32_t k = -1;
    for (bool first = true; status == CULM_OK && !search_late(s); first = false) {
        k = next_of(&a, trains, k);
        if (k < 0) {
            break;
        }
        if (first && !trains) {
            settle(&a, k);
        } else {
            status = one_model(&a, k, trains, error);
        }
    }
    return status;
}

enum culm_status search_adopt_again(struct culm_search *s, int32_t *rank,
                                    struct search_state *shipped, struct culm_error *error) {
    struct adopting a = {.s = s, .own = shipped->own, .rank = rank, .shipped = shipped};
    enum culm_status status = CULM_OK;
    begin(&a, true);
    const int32_t first = next_of(&a, false, -1);
    if (first < 0) {
        return CULM_OK;
    }
    settle(&a, first);
    for (int trains = 0; trains <= (s->config->steps > 0); trains++) {
        for (int32_t k = next_of(&a, trains, -1); k >= 0 && status == CULM_OK && !search_late(s);
             k = next_of(&a, trains, k)) {
            status = one_model(&a, k, trains, error);
        }
    }
    return status;
}
