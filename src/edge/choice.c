/* A choice of layouts. See choice.h. */
#include "edge/choice.h"

#include "edge/trial.h"

/* Nothing is ever loaded twice, and no other layout would compute less. */
static bool is_enough(const struct culm_edge_layout *const *layout, int32_t count, int32_t at) {
    size_t least, most;
    bool enough = true;
    culm_edge_memory_range(layout[at], &least, &most);
    for (int32_t i = at + 1; i < count; i++) {
        for (int32_t q = 0; q < layout[i]->query_count; q++) {
            enough &= q < layout[at]->query_count &&
                      layout[i]->query[q].prefixes <= layout[at]->query[q].prefixes;
        }
    }
    return enough && most <= layout[at]->limit_bytes;
}

/* A layout that was looked at; found: it has a plan. */
struct tried {
    struct culm_edge_plan plan;
    struct culm_edge_trial trial;
    bool found;
};

static enum culm_status try_one(const struct culm_edge_layout *layout,
                                const struct culm_edge_plan_options *how, struct tried *tried,
                                struct culm_error *error) {
    struct culm_edge_trial trial = {0};
    struct culm_edge_plan plan;
    enum culm_status status = culm_edge_plan(layout, how, &plan, error);
    if (status == CULM_OK && !how->quick &&
        (status = culm_edge_trial_run(layout, &plan, true, &trial))) {
        culm_error_set(error, status, "out of memory for a plan");
    }
    if (status == CULM_OK) {
        *tried = (struct tried){plan, trial, true};
    }
    return status;
}

static bool better(const struct tried *one, const struct tried *other, bool quick) {
    return !other->found || (quick ? one->plan.least_share > other->plan.least_share
                                   : culm_edge_trial_better(&one->trial, &other->trial));
}

/* With the plans that are worked out, and the best that was found for one before. */
static enum culm_status look_at_all(const struct culm_edge_layout *const *layout, int32_t count,
                                    struct culm_edge_plan_options how, int32_t *ret_chosen,
                                    struct tried *best, struct culm_error *error) {
    for (int32_t i = 0; i < count; i++) {
        struct tried tried = {0};
        how.other = best->found ? &best->plan : NULL;
        enum culm_status status = try_one(layout[i], &how, &tried, error);
        if (status == CULM_ERR_CONFIG && (best->found || i + 1 < count)) {
            culm_error_clear(error);
            continue;
        }
        if (status != CULM_OK) {
            return status;
        }
        if (better(&tried, best, how.quick)) {
            *ret_chosen = i;
            *best = tried;
        }
        if (culm_edge_asked_to_stop(how.stop)) {
            break;
        }
        if (*ret_chosen == i &&
            (is_enough(layout, count, i) || (!how.quick && culm_edge_trial_whole(&best->trial)))) {
            break;
        }
    }
    return CULM_OK;
}

enum culm_status culm_edge_choose(const struct culm_edge_layout *const *layout, int32_t count,
                                  const struct culm_edge_plan_options *options, int32_t *ret_chosen,
                                  struct culm_edge_plan *ret_plan, struct culm_error *error) {
    struct culm_edge_plan_options how = *options;
    struct tried best = {0};
    int32_t chosen = 0;
    how.tries = count > 1 ? 0 : options->tries;
    enum culm_status status = look_at_all(layout, count, how, &chosen, &best, error);
    how.tries = options->tries;
    /* What takes long is done for the best of them, and for the one in which most is shared: there is most
     * to find. */
    int32_t near[] = {chosen, count - 1};
    for (int i = 0; i < 2 && count > 1 && status == CULM_OK && how.tries > 0 && !how.quick; i++) {
        struct tried tried = {0};
        if ((i > 0 && (near[1] == near[0] || is_enough(layout, count, near[0]))) ||
            culm_edge_trial_whole(&best.trial) || culm_edge_asked_to_stop(how.stop)) {
            break;
        }
        how.other = &best.plan;
        status = try_one(layout[near[i]], &how, &tried, error);
        if (status == CULM_OK && better(&tried, &best, false)) {
            chosen = near[i];
            best = tried;
        } else if (status == CULM_ERR_CONFIG) { /* less fits */
            culm_error_clear(error);
            status = CULM_OK;
        }
    }
    if (status == CULM_OK) {
        *ret_chosen = chosen;
        *ret_plan = best.plan;
    }
    return status;
}
