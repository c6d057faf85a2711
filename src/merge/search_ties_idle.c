/* Idle layers take the weights of other layers. See search_ties.h. */
#include "merge/search_ties.h"

#include "merge/search_ties_parts.h"

/* Whether all layers that share a tensor are idle. */
static bool all_idle(const struct search_ties *t, struct culm_member holder) {
    bool all = true;
    for (int32_t k = 0; k < t->s->count; k++) {
        for (int32_t l = 0; l < t->s->models[k]->layers.count; l++) {
            if (search_ties_same(culm_share_holder(t->s->share, (struct culm_member){k, l}),
                                 holder)) {
                all = all && t->idle[k][l];
            }
        }
    }
    return all;
}

/* The tensor that an idle layer takes: the first that is not idle, else the first of its shape. */
static struct culm_member donor_of_idle(const struct search_ties *t, struct culm_member idle) {
    struct culm_member other = SEARCH_TIES_NOWHERE, any = SEARCH_TIES_NOWHERE;
    while (search_ties_next(t, &other)) {
        if (!search_ties_could(t, idle, other)) {
            continue;
        }
        if (!all_idle(t, other)) {
            return other;
        }
        any = any.model < 0 ? other : any;
    }
    return any;
}

/* Returns how many tensors that saves. */
static int32_t tie_all_idle(const struct search_ties *t) {
    int32_t tied = 0;
    struct culm_member at = SEARCH_TIES_NOWHERE;
    while (search_ties_next(t, &at)) {
        if (!all_idle(t, at)) {
            continue;
        }
        const struct culm_member from = donor_of_idle(t, at);
        if (from.model >= 0) {
            search_ties_tie(t, at, from);
            tied++;
        }
    }
    return tied;
}

enum culm_status search_tie_idle(struct culm_search *s, struct search_state *shipped,
                                 struct culm_error *error) {
    struct search_ties t = {.s = s, .shipped = shipped};
    search_restore(s, shipped);
    enum culm_status status = search_ties_find_idle(&t, error);
    if (status == CULM_OK && tie_all_idle(&t) > 0) {
        double least;
        search_attempt(s, "idle");
        if (!(status = search_check(s, &least, error))) {
            status = search_offer(s, shipped, error);
        }
    }
    search_ties_release(&t);
    return status;
}
