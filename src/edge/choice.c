/* Choosing among layouts. See choice.h. */
#include "edge/choice.h"

#include "edge/rehearsal.h"
#include "edge/unshared.h"

/* Whether no later layout need be looked at: this one fits into memory as a whole, so nothing is
 * ever loaded twice, and no later one has more common beginnings that would save computation. */
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

/* A layout that was looked at; found: a plan was found for it. */
struct tried {
    struct culm_edge_plan plan;
    struct culm_edge_rehearsal rehearsal;
    bool found;
};

static enum culm_status try_one(const struct culm_edge_layout *layout,
                                const struct culm_edge_plan_options *how, struct tried *tried,
                                struct culm_error *error) {
    struct culm_edge_rehearsal rehearsal = {0};
    struct culm_edge_plan plan;
    enum culm_status status = culm_edge_plan_make(layout, how, &plan, error);
    if (status == CULM_OK && !how->quick) {
        status = culm_edge_rehearsal_run(layout, &plan, true, &rehearsal);
        if (status != CULM_OK) {
            culm_error_set(error, status, "out of memory for a plan");
        }
    }
    if (status == CULM_OK) {
        *tried = (struct tried){plan, rehearsal, true};
    }
    return status;
}

static bool better(const struct tried *one, const struct tried *other, bool quick) {
    return !other->found ||
           (quick ? one->plan.least_share > other->plan.least_share
                  : culm_edge_rehearsal_better(&one->rehearsal, &other->rehearsal));
}

/* Looks at every layout with the plans worked out for it and the best plan of earlier layouts. */
static enum culm_status look_at_all(const struct culm_edge_layout *const *layout, int32_t count,
                                    struct culm_edge_plan_options how, int32_t *ret_chosen,
                                    struct tried *best, struct culm_error *error) {
    for (int32_t i = 0; i < count; i++) {
        struct tried tried = {0};
        how.other = &best->plan;
        how.others = best->found;
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
        if (culm_stop_asked(how.stop)) {
            break;
        }
        if (*ret_chosen == i && (is_enough(layout, count, i) ||
                                 (!how.quick && culm_edge_rehearsal_whole(&best->rehearsal)))) {
            break;
        }
    }
    return CULM_OK;
}

/* --- with plans near the best ones --- */

#define LESS 3            /* ways of sharing less: nothing, one third, two thirds */
#define STARTS (LESS + 4) /* the most plans to begin with */
#define LESS_TRIES(tries) ((tries) / 4)

/* Plans of other layouts of the same queries, to begin a search with. */
struct starts {
    struct culm_edge_plan plan[STARTS];
    int32_t count;
};

static void begin_with(struct starts *starts, const struct tried *tried) {
    if (tried->found && starts->count < STARTS) {
        starts->plan[starts->count++] = tried->plan;
    }
}

/* Looks at a layout, with a search among plans near the best one. */
static enum culm_status look_near(const struct culm_edge_layout *layout,
                                  struct culm_edge_plan_options how, const struct starts *starts,
                                  struct tried *ret_tried, struct culm_error *error) {
    how.other = starts->plan;
    how.others = starts->count;
    enum culm_status status = try_one(layout, &how, ret_tried, error);
    if (status == CULM_ERR_CONFIG) { /* it does not fit */
        culm_error_clear(error);
        status = CULM_OK;
    }
    return status;
}

/* Adds the best plans that the layout would have if it shared less. nothing: also if it shared
 * nothing at all, which has been looked at already for later layouts. */
static enum culm_status share_less(const struct culm_edge_layout *layout, bool nothing,
                                   struct culm_edge_plan_options how, struct starts *starts,
                                   struct culm_error *error) {
    enum culm_status status = CULM_OK;
    const struct starts none = {.count = 0};
    int32_t tries = how.tries;
    for (int32_t i = nothing ? 0 : 1; i < LESS && status == CULM_OK; i++) {
        struct culm_edge_unshared unshared;
        struct tried tried = {0};
        how.tries = i > 0 ? LESS_TRIES(tries) : tries;
        status = culm_edge_unshared_init(&unshared, layout, (double)i / LESS);
        if (status == CULM_OK) {
            status = look_near(&unshared.layout, how, &none, &tried, error);
            begin_with(starts, &tried);
        } else {
            culm_error_set(error, status, "out of memory for a plan");
        }
        culm_edge_unshared_release(&unshared);
    }
    return status;
}

/* Replaces the rehearsal by the one that decides in the end, if that is another one. */
static enum culm_status weigh(const struct culm_edge_layout *layout,
                              const struct culm_edge_plan_options *how, struct tried *tried,
                              struct culm_error *error) {
    enum culm_status status =
        how->frames > 0 && tried->found
            ? culm_edge_rehearsal_of_frames(layout, &tried->plan, how->frames, &tried->rehearsal)
            : CULM_OK;
    return status ? culm_error_set(error, status, "out of memory for a plan") : CULM_OK;
}

/* Looks at a layout once more, beginning with the plans that it would have if it shared less. */
static enum culm_status look_again(const struct culm_edge_layout *layout, bool nothing,
                                   const struct culm_edge_plan_options *how, struct starts *starts,
                                   struct tried *ret_tried, struct culm_error *error) {
    bool shares = false;
    enum culm_status status = culm_edge_shares_any(layout, &shares);
    if (status != CULM_OK) {
        return culm_error_set(error, status, "out of memory for a plan");
    }
    if (!shares || culm_stop_asked(how->stop)) {
        return CULM_OK;
    }
    status = share_less(layout, nothing, *how, starts, error);
    return status ? status : look_near(layout, *how, starts, ret_tried, error);
}

/* The long search, for three of the layouts: the first, as if it were alone; the best one so far;
 * and the last one, which shares the most, so that there is the most to find. */
static enum culm_status look_longer(const struct culm_edge_layout *const *layout, int32_t count,
                                    const struct culm_edge_plan_options *how, int32_t *chosen,
                                    struct tried *best, struct culm_error *error) {
    enum { FIRST, FIRST_AGAIN, BEST, LAST, LAST_AGAIN, WITHOUT, LOOKS };
    const int32_t last = count - 1,
                  at[LOOKS] = {0, 0, *chosen, last, last, *chosen}; /* the layout of each look */
    struct tried found[LOOKS] = {{.found = false}};
    struct starts starts = {.count = 0};
    const bool enough = is_enough(layout, count, *chosen);
    enum culm_status status = look_near(layout[0], *how, &starts, &found[FIRST], error);
    begin_with(&starts, &found[FIRST]);
    if (status == CULM_OK) {
        struct starts of_first = starts;
        status = look_again(layout[0], true, how, &of_first, &found[FIRST_AGAIN], error);
    }
    for (int look = BEST; look <= LAST && status == CULM_OK && last > 0; look++) {
        struct starts one = {.count = 0};
        bool again = look == LAST && (enough || at[BEST] == last);
        begin_with(&one, look == LAST && found[BEST].found ? &found[BEST] : best);
        if (!again && !culm_stop_asked(how->stop)) {
            status = look_near(layout[at[look]], *how, &one, &found[look], error);
        }
        begin_with(&starts, &found[look]);
    }
    if (status == CULM_OK && last > 0 && !enough) {
        status = look_again(layout[last], false, how, &starts, &found[LAST_AGAIN], error);
    }
    if (culm_stop_asked(how->stop)) { /* a search cut short may have found less than this */
        found[WITHOUT] = *best;
    }
    best->found = false;
    for (int look = 0; look < LOOKS && status == CULM_OK; look++) {
        status = weigh(layout[at[look]], how, &found[look], error);
        if (status == CULM_OK && found[look].found && better(&found[look], best, false)) {
            *chosen = at[look];
            *best = found[look];
        }
    }
    return status;
}

enum culm_status culm_edge_choose(const struct culm_edge_layout *const *layout, int32_t count,
                                  const struct culm_edge_plan_options *options, int32_t *ret_chosen,
                                  struct culm_edge_plan *ret_plan, struct culm_error *error) {
    struct culm_edge_plan_options how = *options;
    struct tried best = {0};
    int32_t chosen = 0;
    how.tries = 0;
    enum culm_status status = look_at_all(layout, count, how, &chosen, &best, error);
    how.tries = options->tries;
    if (status == CULM_OK && how.tries > 0 && !how.quick &&
        !culm_edge_rehearsal_whole(&best.rehearsal) && !culm_stop_asked(how.stop)) {
        status = look_longer(layout, count, &how, &chosen, &best, error);
    }
    if (status == CULM_OK) {
        *ret_chosen = chosen;
        *ret_plan = best.plan;
    }
    return status;
}
