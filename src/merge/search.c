/* The order of attempts, for each method. See search.h. */
#include "merge/search.h"

#include "merge/search_blocks.h"
#include "merge/search_gemel.h"
#include "merge/search_groups.h"
#include "merge/search_parts.h"
#include "merge/search_seed.h"
#include "merge/search_ties.h"
#include "merge/search_walks.h"

#include <stdlib.h>
#include <string.h>

#define PROBES 4      /* attempts at finding how many layers need no training */
#define LITTLE 0.03   /* share of what a group could save that is not worth an attempt */
#define BLOCKS_PART 8 /* one in so many steps of an attempt trains block by block */

static void revert(const struct culm_search *s) {
    for (int32_t k = 0; k < s->count; k++) {
        culm_merge_model_revert(s->models[k]);
    }
}

static void share_nothing(const struct culm_search *s) {
    for (int32_t i = 0; i < s->share->match.count; i++) {
        culm_share_set(s->share, i, false);
    }
    culm_share_untie(s->share);
}

/* Shares the first `count` instances of `order`; models that may not be merged stay out. */
static void share_first(const struct culm_search *s, const int32_t *order, int32_t count) {
    share_nothing(s);
    for (int32_t i = 0; i < count; i++) {
        culm_share_set(s->share, order ? order[i] : i, true);
    }
    for (int32_t k = 0; k < s->count; k++) {
        if (!s->may[k]) {
            culm_share_leave(s->share, k);
        }
    }
}

/* --- without training --- */

/* What an instance saves relative to what it loses. The loss is squared since small losses leave
 * the answers as they are. */
static double worth(const struct culm_search *s, const double *harm, int32_t i) {
    const struct culm_instance *instance = &s->share->match.instance[i];
    return (double)instance->bytes * (instance->count - 1) / (harm[i] * harm[i] + 1e-6);
}

/* Sorts the instances that are shared now, best first; returns how many there are. */
static int32_t sort_by_worth(const struct culm_search *s, const double *harm, int32_t *order) {
    int32_t count = 0;
    for (int32_t i = 0; i < s->share->match.count; i++) {
        int32_t at = count;
        if (culm_share_count(s->share, i) < 2) {
            continue;
        }
        for (; at > 0 && worth(s, harm, order[at - 1]) < worth(s, harm, i); at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
        count++;
    }
    return count;
}

/* Searches for the longest prefix of `order` that meets all targets untrained, shipping on the way.
 * *ret_met: its length. */
static enum culm_status probe_shares(struct culm_search *s, const int32_t *order, int32_t count,
                                     struct search_state *shipped, int32_t *ret_met,
                                     struct culm_error *error) {
    int32_t low = 0, high = count; /* too many */
    enum culm_status status = CULM_OK;
    for (int32_t probe = 0; probe < PROBES && high - low > 1 && status == CULM_OK; probe++) {
        int32_t middle = (low + high) / 2;
        double least = 0;
        if (search_late(s)) {
            break;
        }
        share_first(s, order, middle);
        search_attempt(s, "fit");
        if (!(status = search_fit(s, false, NULL, error)) &&
            !(status = search_check(s, &least, error))) {
            status = search_offer(s, shipped, error);
        }
        low = least >= 1 ? middle : low;
        high = least >= 1 ? high : middle;
    }
    *ret_met = low;
    return status;
}

/* Checks what is shared as it was fitted, then trains it block by block; undoes that unless it is
 * better. */
static enum culm_status train_blocks(struct culm_search *s, int64_t steps,
                                     struct search_state *shipped, struct culm_error *error) {
    struct search_state fitted = {.own = shipped->own};
    double before, least;
    enum culm_status status = CULM_OK;
    if (steps < 1 || (status = search_check(s, &before, error)) ||
        (status = search_save(s, &fitted, error))) {
        return status;
    }
    search_attempt(s, "blocks");
    if (!(status = search_blocks(s, steps, error)) && !(status = search_check(s, &least, error)) &&
        !(status = search_offer(s, shipped, error)) && least <= before) {
        search_restore(s, &fitted);
    }
    search_state_release(&fitted, s->count);
    return status;
}

/* Trains everything that is shared, as it is fitted now. If that comes nowhere near, tries again
 * with fewer layers of `order`: halfway to the `met` layers that need no training. */
static enum culm_status train_shares(struct culm_search *s, const double *harm,
                                     const int32_t *order, int32_t count, int32_t met,
                                     struct search_state *shipped, struct culm_error *error) {
    int64_t left = s->config->steps, taken = 0;
    enum culm_status status = CULM_OK;
    for (int32_t many = count; many > met && left > 0 && status == CULM_OK && !search_late(s);
         many = (many + met) / 2, left -= taken) {
        const int64_t before = shipped->bytes;
        if (many < count) {
            share_first(s, order, many);
            if (culm_share_saved(s->share) <= before) {
                break;
            }
            search_attempt(s, "fit");
            status = search_fit(s, false, NULL, error);
        }
        if (status == CULM_OK) {
            status = train_blocks(s, left / BLOCKS_PART, shipped, error);
        }
        if (status == CULM_OK) {
            search_attempt(s, "train");
            status = search_train(s, harm, left - left / BLOCKS_PART, shipped, &taken, error);
            taken += left / BLOCKS_PART;
        }
        if (shipped->bytes > before) {
            break;
        }
    }
    return status;
}

/* All models of a group at once: first everything they have in common, then as much as works. */
static enum culm_status share_jointly(struct culm_search *s, struct search_state *shipped,
                                      struct culm_error *error) {
    int32_t count = 0, met = 0;
    double *harm = calloc((size_t)s->share->match.count + 1, sizeof *harm), least = 0;
    int32_t *order = calloc((size_t)s->share->match.count + 1, sizeof *order);
    struct search_state all = {.own = shipped->own};
    enum culm_status status = harm && order ? CULM_OK : search_no_memory(error);
    if (status == CULM_OK) {
        share_first(s, NULL, s->share->match.count);
        search_attempt(s, "fit");
        status = search_fit(s, false, harm, error);
    }
    if (status == CULM_OK && !(status = search_check(s, &least, error))) {
        status = search_offer(s, shipped, error);
    }
    if (status == CULM_OK && least < 1 && !(status = search_save(s, &all, error))) {
        count = sort_by_worth(s, harm, order);
        status = probe_shares(s, order, count, shipped, &met, error);
    }
    if (status == CULM_OK && least < 1) {
        search_restore(s, &all);
        status = train_shares(s, harm, order, count, met, shipped, error);
    }
    search_state_release(&all, s->count);
    free(harm);
    free(order);
    return status;
}

/* --- groups --- */

struct grouped {
    struct culm_search *s;
    struct search_groups groups;
    struct search_state *state; /* [groups] */
    bool *own;                  /* [groups][models] */
    int32_t *rank;              /* [models]: see search_adopt */
};

typedef enum culm_status stage_fn(struct culm_search *s, int32_t *rank, struct search_state *state,
                                  struct culm_error *error);

static enum culm_status adopt_untrained(struct culm_search *s, int32_t *rank,
                                        struct search_state *state, struct culm_error *error) {
    return search_adopt(s, rank, false, state, error);
}

static enum culm_status adopt_trained(struct culm_search *s, int32_t *rank,
                                      struct search_state *state, struct culm_error *error) {
    return s->config->steps > 0 ? search_adopt(s, rank, true, state, error) : CULM_OK;
}

static enum culm_status jointly(struct culm_search *s, int32_t *rank, struct search_state *state,
                                struct culm_error *error) {
    (void)rank;
    for (int32_t k = 0; k < s->count; k++) {
        if (s->may[k] && s->models[k]->fixed) { /* what is kept would begin again */
            return CULM_OK;
        }
    }
    return share_jointly(s, state, error);
}

/* What a group could still save. Ties of models that are kept may hide what those that are new could
 * take over. */
static int64_t could_save(const struct grouped *g, int32_t group) {
    const int64_t left = g->groups.bytes[group] - g->state[group].bytes;
    const int64_t open = g->s->seed ? search_seed_open(g->s, &g->groups, group, g->rank) : 0;
    return left > open ? left : open;
}

/* Runs a stage for every group that still misses more than a little of what it could save. The time
 * left is divided in proportion to that; what a group does not use is left to those after it. */
static enum culm_status for_each_group(const struct grouped *g, stage_fn *stage,
                                       struct culm_error *error) {
    struct culm_search *s = g->s;
    const bool *all = s->may;
    enum culm_status status = CULM_OK;
    int64_t left = 0;
    for (int32_t i = 0; i < g->groups.count; i++) {
        left += could_save(g, i);
    }
    for (int32_t i = 0; i < g->groups.count && status == CULM_OK; i++) {
        const int64_t own = could_save(g, i);
        const double spent = s->ops->spent(s->ctx);
        s->until = left > 0 ? spent + (1 - spent) * (double)own / (double)left : 1;
        left -= own;
        if ((double)own > LITTLE * (double)g->groups.bytes[i] && !search_late(s)) {
            s->may = g->state[i].own;
            status = stage(s, g->rank, &g->state[i], error);
        }
    }
    s->may = all;
    s->until = 0;
    return status;
}

/* For all groups, however little time is left. */
static enum culm_status tie_idle(const struct grouped *g, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < g->groups.count && status == CULM_OK; i++) {
        status = search_tie_idle(g->s, &g->state[i], error);
    }
    return status;
}

/* Puts in what the search goes on from, in the group's state or, -1, in the whole. */
static void put_seed(const struct grouped *g, int32_t group) {
    if (g->s->seed) {
        search_seed_put(g->s, &g->groups, group);
    }
}

static enum culm_status begin_groups(struct grouped *g, struct search_state *shipped,
                                     struct culm_error *error) {
    struct culm_search *s = g->s;
    const size_t models = (size_t)s->count + 1;
    enum culm_status status = s->seed ? search_seed_check(s, error) : CULM_OK;
    status = status ? status : search_groups_find(s, &g->groups, error);
    g->state = calloc((size_t)g->groups.count + 1, sizeof *g->state);
    g->own = calloc(((size_t)g->groups.count + 1) * models, sizeof *g->own);
    g->rank = calloc(models, sizeof *g->rank);
    if (status != CULM_OK || !g->state || !g->own || !g->rank) {
        return status ? status : search_no_memory(error);
    }
    put_seed(g, -1);
    status = search_save(s, shipped, error); /* the groups have changed the instances */
    for (int32_t i = 0; i < g->groups.count && status == CULM_OK; i++) {
        bool *own = g->own + (size_t)i * models;
        for (int32_t k = 0; k < s->count; k++) {
            own[k] = g->groups.of[k] == i;
        }
        g->state[i] = (struct search_state){.own = own, .whole = shipped};
        put_seed(g, i);
        status = search_save(s, &g->state[i], error);
    }
    if (status == CULM_OK && s->seed) {
        search_seed_rank(s, &g->groups, g->rank);
        search_restore(s, shipped);
        status = s->seed->ship ? search_ship(s, shipped, error) : CULM_OK;
    }
    return status;
}

static enum culm_status by_culm(struct culm_search *s, struct search_state *shipped,
                                struct culm_error *error) {
    struct grouped g = {.s = s};
    enum culm_status status = begin_groups(&g, shipped, error);
    if (status == CULM_OK && !(status = search_align(s, error)) &&
        !(status = for_each_group(&g, adopt_untrained, error)) && !(status = tie_idle(&g, error)) &&
        !(status = for_each_group(&g, adopt_trained, error)) &&
        !(status = for_each_group(&g, search_adopt_again, error)) &&
        !(status = for_each_group(&g, jointly, error)) && !(status = tie_idle(&g, error))) {
        status = search_tie(s, shipped, error);
    }
    for (int32_t i = 0; i < g.groups.count && g.state; i++) {
        search_state_release(&g.state[i], s->count);
    }
    free(g.state);
    free(g.own);
    free(g.rank);
    search_groups_release(&g.groups);
    return status;
}

/* --- bounds and baselines --- */

static void copy_all(struct culm_search *s) {
    revert(s);
    for (int32_t i = 0; i < s->share->match.count; i++) {
        if (culm_share_count(s->share, i) > 1) {
            culm_share_copy(s->share, s->models, i);
        }
    }
}

static enum culm_status by_max(struct culm_search *s, struct search_state *shipped,
                               struct culm_error *error) {
    double least;
    share_first(s, NULL, s->share->match.count);
    search_attempt(s, "copy");
    copy_all(s);
    enum culm_status status = search_check(s, &least, error);
    return status == CULM_OK ? search_ship(s, shipped, error) : status;
}

/* Shares the first `depth` layers of models that begin with the same ones. Each instance is shared
 * by the models that begin like its first one. */
static void share_stem(struct culm_search *s, int32_t depth) {
    share_nothing(s);
    for (int32_t i = 0; i < s->share->match.count; i++) {
        const struct culm_instance *instance = &s->share->match.instance[i];
        const struct culm_vision_layers *first = &s->models[instance->member[0].model]->layers;
        int32_t layer = instance->member[0].layer;
        for (int32_t m = 0; m < instance->count && layer < depth; m++) {
            const struct culm_vision_layers *pair[] = {
                first, &s->models[instance->member[m].model]->layers};
            int64_t bytes;
            s->share->in[i][m] = s->may[instance->member[m].model] &&
                                 instance->member[m].layer == layer &&
                                 culm_match_prefix(pair, 2, &bytes) > layer;
        }
    }
}

static enum culm_status by_stem(struct culm_search *s, struct search_state *shipped,
                                struct culm_error *error) {
    int32_t depth = 0;
    int64_t tried = 0; /* bytes saved by the last attempt */
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < s->share->match.count; i++) {
        int32_t layer = s->share->match.instance[i].member[0].layer;
        depth = layer + 1 > depth ? layer + 1 : depth;
    }
    for (; depth > 0 && status == CULM_OK; depth /= 2) {
        double least;
        share_stem(s, depth);
        if (culm_share_saved(s->share) == tried || search_late(s)) {
            continue; /* saves nothing, or the same as the last attempt */
        }
        tried = culm_share_saved(s->share);
        search_attempt(s, "stem");
        status = search_fit(s, true, NULL, error);
        if (status == CULM_OK && !(status = search_check(s, &least, error)) && least >= 1) {
            return search_ship(s, shipped, error);
        }
    }
    return status;
}

enum culm_status culm_search_run(struct culm_search *s, struct culm_error *error) {
    struct search_state shipped = {0};
    s->tried = 0;
    revert(s);
    share_nothing(s);
    enum culm_status status = search_save(s, &shipped, error);
    if (status == CULM_OK && s->share->match.count > 0) {
        switch (s->config->method) {
        case CULM_MERGE_CULM: status = by_culm(s, &shipped, error); break;
        case CULM_MERGE_MAX: status = by_max(s, &shipped, error); break;
        case CULM_MERGE_STEM: status = by_stem(s, &shipped, error); break;
        case CULM_MERGE_NONE: break;
        case CULM_MERGE_GEMEL:
        case CULM_MERGE_GEMEL_FIXED:
            search_state_release(&shipped, s->count);
            return culm_search_gemel(s, error);
        }
    }
    if (shipped.saved) {
        search_restore(s, &shipped);
    }
    search_state_release(&shipped, s->count);
    return status;
}
