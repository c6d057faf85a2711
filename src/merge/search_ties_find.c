/* Which layers could take which weights, and what that would lose. See search_ties_parts.h. */
#include "merge/search_ties_parts.h"

#include "merge/search_walks.h"

#include <math.h>
#include <stdlib.h>

#define LITTLE 0.05 /* loss that batch norms make up for without training */
#define FEWER 4     /* one in so many of a walk's frames is enough for trials */

static double worth(const struct search_tie_candidate *c) {
    return (double)c->bytes / (c->harm * c->harm + 1e-6);
}

/* Whether a model that is kept from an earlier search has the layer's tensor: it stays as it is. */
static bool is_kept(const struct search_ties *t, struct culm_member layer) {
    const struct culm_member holder = culm_share_holder(t->s->share, layer);
    bool kept = false;
    for (int32_t k = 0; k < t->s->count && !kept; k++) {
        const struct culm_merge_model *model = t->s->models[k];
        for (int32_t l = 0; model->fixed && l < model->layers.count && !kept; l++) {
            kept = search_ties_same(culm_share_holder(t->s->share, (struct culm_member){k, l}),
                                    holder);
        }
    }
    return kept;
}

/* Only layers with a batch norm behind them, which can make up for a change, and not idle ones.
 * Output layers have none. */
static bool may_tie(const struct search_ties *t, struct culm_member layer) {
    return search_ties_layer(t, layer)->norm >= 0 && !t->idle[layer.model][layer.layer] &&
           !is_kept(t, layer);
}

/* Tries, for each tensor that a model holds, every other one of its shape; the best becomes its
 * candidate. */
static enum culm_status try_model(const struct search_ties *t, int32_t model,
                                  const struct culm_fit_frames *frames,
                                  struct search_tie_candidate *candidate, int32_t *count,
                                  struct culm_error *error) {
    struct culm_fit_trial *trial = NULL;
    struct search_tie_candidate *with = NULL;
    int32_t trials = 0, layers = 0;
    enum culm_status status = CULM_OK;
    for (int32_t k = 0; k < t->s->count; k++) {
        layers += t->s->models[k]->layers.count;
    }
    const size_t room = (size_t)layers * (size_t)t->s->models[model]->layers.count + 1;
    trial = calloc(room, sizeof *trial);
    with = calloc(room, sizeof *with);
    struct culm_member at = SEARCH_TIES_NOWHERE;
    while (trial && with && search_ties_next(t, &at)) {
        struct culm_member from = SEARCH_TIES_NOWHERE;
        while (at.model == model && may_tie(t, at) && search_ties_next(t, &from)) {
            if (may_tie(t, from) && search_ties_could(t, at, from)) {
                const struct culm_merge_model *giver = t->s->models[from.model];
                const struct culm_vision_layer *like = search_ties_layer(t, from);
                trial[trials] =
                    (struct culm_fit_trial){at.layer, giver->value[like->weight],
                                            like->bias >= 0 ? giver->value[like->bias] : NULL, 0};
                with[trials++] =
                    (struct search_tie_candidate){at, from, search_ties_layer(t, at)->bytes, 0};
            }
        }
    }
    if (!trial || !with) {
        status = search_no_memory(error);
    } else if (trials > 0) {
        status = culm_fit_try(t->s->models[model], frames, trial, trials, t->s->device, error);
    }
    for (int32_t i = 0; i < trials && status == CULM_OK; i++) {
        struct search_tie_candidate *last = *count > 0 ? &candidate[*count - 1] : NULL;
        with[i].harm = trial[i].harm;
        if (last && search_ties_same(last->layer, with[i].layer)) {
            *last = with[i].harm < last->harm ? with[i] : *last;
        } else {
            candidate[(*count)++] = with[i];
        }
    }
    free(trial);
    free(with);
    return status;
}

/* Sorts candidates, best first. Drops those that lose more than `most`, and those that take the
 * weights of a layer that is itself to be tied, or whose layer others take weights from. Returns
 * how many are left. */
static int32_t sort(struct search_tie_candidate *candidate, int32_t count, double most) {
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        const struct search_tie_candidate own = candidate[i];
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
        const struct search_tie_candidate own = candidate[i];
        bool clear = true;
        for (int32_t k = 0; k < free_of; k++) {
            clear = clear && !search_ties_same(candidate[k].layer, own.from) &&
                    !search_ties_same(candidate[k].from, own.layer);
        }
        if (clear) {
            candidate[free_of++] = own;
        }
    }
    return free_of;
}

enum culm_status search_ties_find(const struct search_ties *t,
                                  struct search_tie_candidate *candidate, int32_t *ret_count,
                                  struct culm_error *error) {
    struct search_walks walks;
    *ret_count = 0;
    enum culm_status status = search_walks_take(t->s, &walks, error);
    for (int32_t k = 0; k < t->s->count && status == CULM_OK; k++) {
        const struct culm_fit_frames some = {walks.frames[k].image,
                                             (walks.frames[k].count + FEWER - 1) / FEWER};
        status = search_ties_own(t, k) && t->kin[k] == t->whose
                     ? try_model(t, k, &some, candidate, ret_count, error)
                     : CULM_OK;
    }
    search_walks_release(t->s, &walks);
    *ret_count = sort(candidate, *ret_count, t->s->config->steps > 0 ? HUGE_VAL : LITTLE);
    return status;
}
