/* Which layers could have one tensor. See search_ties_parts.h. */
#include "merge/search_ties_parts.h"

#include "merge/idle.h"

#include <stdlib.h>

void search_ties_release(struct search_ties *t) {
    for (int32_t k = 0; k < t->s->count && t->idle; k++) {
        free(t->idle[k]);
    }
    free(t->idle);
    free(t->kin);
}

bool search_ties_own(const struct search_ties *t, int32_t model) {
    return t->s->may[model] && (!t->shipped->own || t->shipped->own[model]);
}

enum culm_status search_ties_find_idle(struct search_ties *t, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    t->idle = calloc((size_t)t->s->count + 1, sizeof *t->idle);
    for (int32_t k = 0; k < t->s->count && t->idle && status == CULM_OK; k++) {
        t->idle[k] = calloc((size_t)t->s->models[k]->layers.count + 1, sizeof **t->idle);
        status = t->idle[k] ? culm_merge_idle(t->s->models[k], t->idle[k], error)
                            : search_no_memory(error);
    }
    return t->idle ? status : search_no_memory(error);
}

const struct culm_vision_layer *search_ties_layer(const struct search_ties *t,
                                                  struct culm_member m) {
    return &t->s->models[m.model]->layers.layer[m.layer];
}

bool search_ties_same(struct culm_member a, struct culm_member b) {
    return a.model == b.model && a.layer == b.layer;
}

static bool same_shape(const struct search_ties *t, struct culm_member a, struct culm_member b) {
    const struct culm_shape *x =
        &t->s->models[a.model]->graph->param[search_ties_layer(t, a)->weight].shape;
    const struct culm_shape *y =
        &t->s->models[b.model]->graph->param[search_ties_layer(t, b)->weight].shape;
    bool equal = x->rank == y->rank;
    for (int32_t d = 0; d < x->rank && equal; d++) {
        equal = x->dim[d] == y->dim[d];
    }
    return equal;
}

bool search_ties_could(const struct search_ties *t, struct culm_member a, struct culm_member b) {
    return culm_vision_signature_fits(&search_ties_layer(t, a)->signature,
                                      &search_ties_layer(t, b)->signature) &&
           same_shape(t, a, b) &&
           !search_ties_same(culm_share_holder(t->s->share, a), culm_share_holder(t->s->share, b));
}

bool search_ties_next(const struct search_ties *t, struct culm_member *at) {
    for (int32_t k = at->model < 0 ? 0 : at->model; k < t->s->count; k++) {
        const int32_t first = k == at->model ? at->layer + 1 : 0;
        for (int32_t l = first; l < t->s->models[k]->layers.count && search_ties_own(t, k); l++) {
            const struct culm_member layer = {k, l};
            if (search_ties_same(culm_share_holder(t->s->share, layer), layer)) {
                *at = layer;
                return true;
            }
        }
    }
    return false;
}

void search_ties_tie(const struct search_ties *t, struct culm_member layer,
                     struct culm_member from) {
    culm_share_tie(t->s->share, from, layer);
    culm_share_give(t->s->share, t->s->models, from);
}
