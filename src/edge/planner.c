/* Making a plan: it is worked out, then played through. See planner.h. */
#include "edge/planner.h"

#include "base/rng.h"
#include "edge/batches.h"
#include "edge/order.h"
#include "edge/rehearsal.h"

#include <stdlib.h>
#include <string.h>

#define PASSES 2

/* The largest batch size of at most `visit` frames that there is memory for; -1: not even one. */
static int32_t batch_within(const struct culm_edge_layout *layout, int32_t q, int32_t visit) {
    const struct culm_edge_query *query = &layout->query[q];
    size_t taken = culm_edge_need_bytes(layout, q) + culm_edge_frames_bytes(layout, visit + 1);
    int32_t b = query->batches - 1;
    while (b >= 0 && ((b > 0 && query->batch[b] > visit) ||
                      taken + query->activation_bytes[b] > layout->limit_bytes)) {
        b--;
    }
    return b;
}

static bool fits(const struct culm_edge_layout *layout, int32_t visit) {
    for (int32_t q = 0; q < layout->query_count; q++) {
        if (!layout->query[q].gone && batch_within(layout, q, visit) < 0) {
            return false;
        }
    }
    return true;
}

static struct culm_edge_choices choices_of(const struct culm_edge_layout *layout, int32_t q,
                                           int32_t visit_max, size_t next_missing) {
    const struct culm_edge_query *query = &layout->query[q];
    struct culm_edge_choices choices = {.period_ns = layout->feed[query->feed].period_ns};
    uint64_t load = next_missing ? culm_edge_load_ns(layout, next_missing) : 0;
    if (query->every_ns > choices.period_ns) {
        choices.period_ns = query->every_ns;
    }
    for (int32_t k = 1; k <= visit_max && choices.count < CULM_EDGE_CHOICES_MAX; k *= 2) {
        int32_t largest = batch_within(layout, q, visit_max);
        uint64_t run = culm_edge_visit_ns(query, k, largest);
        while (largest > 0 && query->batch[largest] > k) {
            largest--;
        }
        uint64_t first = query->run_ns[largest];
        choices.choice[choices.count++] = (struct culm_edge_choice){
            .frames = k,
            .cost_ns = run > load ? run : load,
            .window_ns = query->deadline_ns > first ? query->deadline_ns - first : 0};
    }
    return choices;
}

/* The work done for a plan so far, and what it has found that can be reused. */
struct effort {
    int64_t work, most; /* most 0: no bound */
    int32_t count;      /* queries in the order that was found for longer visits; 0: none yet */
    int32_t order[CULM_EDGE_QUERIES_MAX];
};

static bool can_afford(const struct effort *effort, int64_t work) {
    return !effort->most || effort->work + work <= effort->most;
}

/* With bounded work the order is searched for only once: it hardly depends on how long visits are.
 */
static enum culm_status find_order(const struct culm_edge_layout *layout,
                                   const struct culm_edge_plan_options *options,
                                   const size_t *activations, size_t frames, struct effort *effort,
                                   struct culm_edge_plan *plan) {
    int64_t work = 0;
    if (options->given_order) {
        plan->count = culm_edge_order_given(layout, plan->order);
    } else if (effort->most && effort->count) {
        plan->count = effort->count;
        memcpy(plan->order, effort->order, sizeof plan->order);
    } else {
        plan->count = culm_edge_order_find(layout, activations, frames,
                                           effort->most ? effort->most / 4 : CULM_EDGE_ORDER_WORK,
                                           plan->order, &work);
        if (plan->count < 0) {
            return CULM_ERR_MEMORY;
        }
        effort->count = plan->count;
        memcpy(effort->order, plan->order, sizeof plan->order);
    }
    effort->work += work;
    return CULM_OK;
}

static int32_t ticks_for(const struct effort *effort, int32_t count) {
    return effort->most ? culm_edge_ticks(count, effort->most / 4) : 0;
}

/* The work of working out one more plan, once there is an order. */
static int64_t next_work(const struct culm_edge_layout *layout, const struct effort *effort) {
    int32_t count = effort->count ? effort->count : layout->query_count;
    return CULM_EDGE_EVICTIONS * culm_edge_cycle_work(layout, count) +
           culm_edge_batches_work(count, ticks_for(effort, count));
}

/* Works out the plan for visits of at most `visit` frames. */
static enum culm_status work_out(const struct culm_edge_layout *layout,
                                 const struct culm_edge_plan_options *options, int32_t visit,
                                 struct effort *effort, struct culm_edge_plan *ret_plan) {
    size_t activations[CULM_EDGE_QUERIES_MAX] = {0}, missing[CULM_EDGE_QUERIES_MAX] = {0};
    struct culm_edge_choices choices[CULM_EDGE_QUERIES_MAX];
    int32_t chosen[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_plan plan = {.slots = visit + 1, .passes = PASSES};
    size_t frames = culm_edge_frames_bytes(layout, plan.slots);
    for (int32_t q = 0; q < layout->query_count; q++) {
        const struct culm_edge_query *query = &layout->query[q];
        activations[q] = query->gone ? 0 : query->activation_bytes[batch_within(layout, q, visit)];
    }
    enum culm_status status = find_order(layout, options, activations, frames, effort, &plan);
    plan.round_bytes = -1;
    effort->work += next_work(layout, effort);
    for (int e = 0; status == CULM_OK && e < CULM_EDGE_EVICTIONS; e++) {
        size_t lacks[CULM_EDGE_QUERIES_MAX] = {0};
        int64_t bytes = culm_edge_cycle_bytes(layout, plan.order, plan.count, activations, frames,
                                              (enum culm_edge_eviction)e, lacks);
        if (bytes < 0) {
            return CULM_ERR_MEMORY;
        }
        if (plan.round_bytes < 0 || bytes < plan.round_bytes) {
            plan.round_bytes = bytes;
            plan.eviction = (enum culm_edge_eviction)e;
            memcpy(missing, lacks, sizeof missing);
        }
    }
    for (int32_t i = 0; i < plan.count && status == CULM_OK; i++) {
        choices[i] = choices_of(layout, plan.order[i], visit, missing[(i + 1) % plan.count]);
    }
    if (status == CULM_OK) {
        status = culm_edge_batches(choices, plan.count, ticks_for(effort, plan.count), chosen,
                                   &plan.least_share);
    }
    for (int32_t i = 0; status == CULM_OK && i < plan.count; i++) {
        bool samples = layout->query[plan.order[i]].every_ns > 0; /* its share does not matter */
        plan.visit[plan.order[i]] =
            options->visit || samples ? visit : choices[i].choice[chosen[i]].frames;
    }
    *ret_plan = plan;
    return status;
}

/* --- playing through --- */

/* The best plan so far, and how well it did in a short rehearsal and in a long one. */
struct best {
    struct culm_edge_plan plan;
    struct culm_edge_rehearsal brief, lasting;
    bool found, played;
    const struct culm_stop *stop;
    struct effort *effort;
};

/* Whether to try nothing more. */
static bool is_over(const struct best *best) {
    return best->found && ((best->played && culm_edge_rehearsal_whole(&best->lasting)) ||
                           culm_stop_asked(best->stop));
}

/* Keeps the plan if it is the best so far. A short rehearsal quickly rules out what is no better.
 * But a few rounds may go well by chance, so a plan that seems better must prove it in a long
 * rehearsal. */
static enum culm_status consider(const struct culm_edge_layout *layout,
                                 const struct culm_edge_plan *plan, struct best *best) {
    struct culm_edge_rehearsal brief, lasting;
    int64_t work = culm_edge_rehearsal_work(layout, plan);
    if (is_over(best) || !can_afford(best->effort, work)) {
        return CULM_OK;
    }
    best->effort->work += culm_edge_rehearsal_brief_work(work);
    enum culm_status status = culm_edge_rehearsal_run(layout, plan, false, &brief);
    if (status != CULM_OK || (best->found && !culm_edge_rehearsal_better(&brief, &best->brief))) {
        return status;
    }
    best->effort->work += work - culm_edge_rehearsal_brief_work(work);
    status = culm_edge_rehearsal_run(layout, plan, true, &lasting);
    if (status == CULM_OK &&
        (!best->found || culm_edge_rehearsal_better(&lasting, &best->lasting))) {
        *best = (struct best){*plan, brief, lasting, true, true, best->stop, best->effort};
        best->plan.least_share = lasting.count ? lasting.share[0] : 1;
    }
    return status;
}

/* Tries visits twice and half as long for each query. */
static enum culm_status improve(const struct culm_edge_layout *layout, struct best *best) {
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < best->plan.count && status == CULM_OK && !is_over(best); i++) {
        if (layout->query[best->plan.order[i]].every_ns) {
            continue;
        }
        for (int up = 0; up < 2 && status == CULM_OK; up++) {
            struct culm_edge_plan plan = best->plan;
            int32_t *visit = &plan.visit[plan.order[i]];
            *visit = up ? *visit * 2 : *visit / 2;
            if (*visit >= 1 && *visit < plan.slots) {
                status = consider(layout, &plan, best);
            }
        }
    }
    return status;
}

/* Swaps two queries, or moves one. */
static void reorder(struct culm_edge_plan *plan, uint64_t *random) {
    uint64_t count = (uint64_t)plan->count;
    int32_t from = (int32_t)culm_rng_below(random, count);
    int32_t to = (int32_t)culm_rng_below(random, count), query = plan->order[from];
    if (culm_rng_below(random, 2)) {
        plan->order[from] = plan->order[to];
    } else {
        memmove(plan->order + from, plan->order + from + 1,
                (size_t)(plan->count - from - 1) * sizeof query);
        memmove(plan->order + to + 1, plan->order + to,
                (size_t)(plan->count - to - 1) * sizeof query);
    }
    plan->order[to] = query;
}

/* Changes one thing at random. False: the result is not a valid plan. */
static bool change(const struct culm_edge_layout *layout, struct culm_edge_plan *plan, bool given,
                   uint64_t *random) {
    int32_t query = plan->order[culm_rng_below(random, (uint64_t)plan->count)];
    int32_t *visit = &plan->visit[query];
    switch (culm_rng_below(random, given ? 5 : 10)) {
    case 0: plan->patient = !plan->patient; return true;
    case 1: plan->eviction = (plan->eviction + 1) % CULM_EDGE_EVICTIONS; return true;
    case 2: *visit *= 2; return *visit < plan->slots && !layout->query[query].every_ns;
    case 3: *visit /= 2; return *visit >= 1 && !layout->query[query].every_ns;
    case 4: plan->passes = (int32_t)culm_rng_below(random, PASSES + 2); return true;
    default: reorder(plan, random); return plan->count > 1;
    }
}

/* The bytes that a round of the plan loads. */
static int64_t round_bytes(const struct culm_edge_layout *layout,
                           const struct culm_edge_plan *plan) {
    size_t activations[CULM_EDGE_QUERIES_MAX] = {0};
    for (int32_t i = 0; i < plan->count; i++) {
        int32_t q = plan->order[i];
        activations[q] =
            layout->query[q].activation_bytes[batch_within(layout, q, plan->slots - 1)];
    }
    return culm_edge_cycle_bytes(layout, plan->order, plan->count, activations,
                                 culm_edge_frames_bytes(layout, plan->slots), plan->eviction, NULL);
}

static enum culm_status try_near(const struct culm_edge_layout *layout,
                                 const struct culm_edge_plan_options *options, struct best *best) {
    uint64_t random = 1;
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < options->tries && status == CULM_OK && !is_over(best); i++) {
        struct culm_edge_plan plan = best->plan;
        bool changed = change(layout, &plan, options->given_order, &random);
        if (changed && culm_rng_below(&random, 2)) { /* every other time, two things at once */
            changed = change(layout, &plan, options->given_order, &random);
        }
        status = changed ? consider(layout, &plan, best) : CULM_OK;
    }
    best->plan.round_bytes = round_bytes(layout, &best->plan);
    return status == CULM_OK && best->plan.round_bytes < 0 ? CULM_ERR_MEMORY : status;
}

/* Whether a plan of another layout, which may have other queries and more room, can be run here. */
static bool can_be_run(const struct culm_edge_layout *layout, const struct culm_edge_plan *plan) {
    int32_t there = 0;
    bool can = fits(layout, plan->slots - 1);
    for (int32_t q = 0; q < layout->query_count; q++) {
        there += !layout->query[q].gone;
    }
    for (int32_t i = 0; i < plan->count; i++) {
        can &= plan->order[i] < layout->query_count && !layout->query[plan->order[i]].gone;
    }
    return can && there == plan->count;
}

/* Keeps the plan if its expected share is the best so far, without playing it through. */
static void expect(const struct culm_edge_plan *plan, struct best *best) {
    if (!best->found || plan->least_share > best->plan.least_share) {
        best->plan = *plan;
        best->found = true;
    }
}

/* Considers each of the ways in which a plan can be run. */
static enum culm_status consider_ways(const struct culm_edge_layout *layout,
                                      const struct culm_edge_plan *worked_out, struct best *best) {
    enum culm_status status = CULM_OK;
    for (int way = 0; way < 4 && status == CULM_OK && !is_over(best); way++) {
        struct culm_edge_plan plan = *worked_out;
        plan.patient = way & 1;
        plan.passes = way & 2 ? 0 : PASSES;
        status = consider(layout, &plan, best);
    }
    return status;
}

/* Plays as many of the plans that were worked out as the effort allows, beginning with the one
 * expected to be the best. */
static enum culm_status play(const struct culm_edge_layout *layout,
                             const struct culm_edge_plan *worked_out, int32_t count,
                             struct best *best) {
    struct culm_edge_plan first = best->plan;
    if (!can_afford(best->effort, culm_edge_rehearsal_work(layout, &first))) {
        return CULM_OK;
    }
    best->found = false;
    enum culm_status status = consider(layout, &first, best);
    for (int32_t i = 0; i < count && status == CULM_OK; i++) {
        status = consider_ways(layout, &worked_out[i], best);
    }
    return status;
}

#define VISITS 5 /* the most lengths of visits that are tried */

/* Works out plans for visits of fewer and fewer frames, and considers each. */
static enum culm_status try_worked_out(const struct culm_edge_layout *layout,
                                       const struct culm_edge_plan_options *options,
                                       struct best *best) {
    struct culm_edge_plan plan[VISITS];
    int32_t count = 0;
    enum culm_status status = CULM_OK;
    int32_t from = options->visit ? options->visit : 8, to = options->visit ? from : 1;
    for (int32_t visit = from; visit >= 1 && status == CULM_OK && !is_over(best); visit /= 2) {
        if (best->found &&
            (visit < to || !can_afford(best->effort, next_work(layout, best->effort)))) {
            break;
        }
        if (!fits(layout, visit)) {
            continue;
        }
        status = work_out(layout, options, visit, best->effort, &plan[count]);
        if (status == CULM_OK && (options->quick || best->effort->most)) {
            expect(&plan[count++], best);
        } else if (status == CULM_OK) {
            status = consider_ways(layout, &plan[count], best);
        }
    }
    if (status == CULM_OK && best->found && !options->quick && best->effort->most) {
        status = play(layout, plan, count, best);
    }
    return status;
}

enum culm_status culm_edge_plan_make(const struct culm_edge_layout *layout,
                                     const struct culm_edge_plan_options *options,
                                     struct culm_edge_plan *ret_plan, struct culm_error *error) {
    static const struct culm_edge_plan_options none;
    options = options ? options : &none;
    struct effort effort = {.most = options->work};
    struct best best = {.stop = options->stop, .effort = &effort};
    enum culm_status status = culm_edge_layout_check(layout, error);
    if (status != CULM_OK) {
        return status;
    }
    status = try_worked_out(layout, options, &best);
    if (status == CULM_OK && best.played && !options->visit) {
        status = improve(layout, &best);
        for (int32_t i = 0; i < options->others && status == CULM_OK; i++) {
            status = can_be_run(layout, &options->other[i])
                         ? consider(layout, &options->other[i], &best)
                         : CULM_OK;
        }
        if (status == CULM_OK && best.plan.count > 0) {
            status = try_near(layout, options, &best);
        }
    }
    if (status != CULM_OK) {
        return culm_error_set(error, status, "out of memory for a plan of %d queries",
                              layout->query_count);
    }
    *ret_plan = best.plan;
    ret_plan->work = effort.work;
    return CULM_OK;
}
