/* A plan: worked out, then played through. See plan.h. */
#include "edge/plan.h"

#include "base/rng.h"
#include "edge/batches.h"
#include "edge/order.h"
#include "edge/virtual.h"

#include <stdlib.h>
#include <string.h>

#define PLAYED_FRAMES 60 /* of the slowest feed, and */
#define PLAYED_NS_MIN 2000000000ull
#define PLAYED_NS_MAX 12000000000ull
#define PLAYED_WORK 3000000ll /* frames times queries that are played through for one plan */
#define PASSES 2
#define SAME_SHARE 0.01 /* shares that are nearer than this are the same */

int32_t culm_edge_batch_for(const struct culm_edge_query *query, int32_t frames) {
    int32_t b = 0;
    while (b < query->batches - 1 && query->batch[b] < frames) {
        b++;
    }
    return b;
}

uint64_t culm_edge_visit_ns(const struct culm_edge_query *query, int32_t frames, int32_t largest) {
    uint64_t ns = 0;
    while (frames > 0) {
        int32_t b = largest;
        while (b > 0 && query->batch[b] > frames) {
            b--;
        }
        ns += query->run_ns[b];
        frames -= query->batch[b];
    }
    return ns;
}

/* The largest batch within `visit` frames that there is memory for; -1: not even one frame. */
static int32_t batch_within(const struct culm_edge_layout *layout, int32_t q, int32_t visit) {
    const struct culm_edge_query *query = &layout->query[q];
    size_t taken = culm_edge_query_bytes(layout, q) + culm_edge_frames_bytes(layout, visit + 1);
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

/* The plan as it is worked out for visits of at most `visit` frames. */
static enum culm_status work_out(const struct culm_edge_layout *layout,
                                 const struct culm_edge_plan_options *options, int32_t visit,
                                 struct culm_edge_plan *ret_plan) {
    size_t activations[CULM_EDGE_QUERIES_MAX] = {0}, missing[CULM_EDGE_QUERIES_MAX] = {0};
    struct culm_edge_choices choices[CULM_EDGE_QUERIES_MAX];
    int32_t chosen[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_plan plan = {.slots = visit + 1, .passes = PASSES};
    size_t frames = culm_edge_frames_bytes(layout, plan.slots);
    for (int32_t q = 0; q < layout->query_count; q++) {
        const struct culm_edge_query *query = &layout->query[q];
        activations[q] = query->gone ? 0 : query->activation_bytes[batch_within(layout, q, visit)];
    }
    plan.count = options->given_order ? culm_edge_order_given(layout, plan.order)
                                      : culm_edge_order(layout, activations, frames, plan.order);
    plan.round_bytes = -1;
    for (int e = 0; plan.count >= 0 && e < CULM_EDGE_EVICTIONS; e++) {
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
    if (plan.count < 0) {
        return CULM_ERR_MEMORY;
    }
    for (int32_t i = 0; i < plan.count; i++) {
        choices[i] = choices_of(layout, plan.order[i], visit, missing[(i + 1) % plan.count]);
    }
    enum culm_status status = culm_edge_batches(choices, plan.count, 0, chosen, &plan.least_share);
    for (int32_t i = 0; status == CULM_OK && i < plan.count; i++) {
        bool samples = layout->query[plan.order[i]].every_ns > 0; /* its share is not what counts */
        plan.visit[plan.order[i]] =
            options->visit || samples ? visit : choices[i].choice[chosen[i]].frames;
    }
    *ret_plan = plan;
    return status;
}

/* --- playing through ------------------------------------------------------------------------------ */

struct played {
    int32_t count;
    double share[CULM_EDGE_QUERIES_MAX]; /* sorted */
    double mean;
};

static int ascending(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static enum culm_status play(const struct culm_edge_layout *layout,
                             const struct culm_edge_plan *plan, struct played *ret_played) {
    struct culm_edge_totals totals[CULM_EDGE_QUERIES_MAX];
    uint64_t slowest = 0;
    double frames_per_ns = 0;
    for (int32_t i = 0; i < plan->count; i++) {
        const struct culm_edge_query *query = &layout->query[plan->order[i]];
        uint64_t period = layout->feed[query->feed].period_ns;
        period = period > query->every_ns ? period : query->every_ns;
        slowest = period > slowest ? period : slowest;
        frames_per_ns += 1 / (double)period;
    }
    uint64_t span = slowest * PLAYED_FRAMES;
    span = span < PLAYED_NS_MIN ? PLAYED_NS_MIN : span > PLAYED_NS_MAX ? PLAYED_NS_MAX : span;
    double most = (double)PLAYED_WORK / (frames_per_ns * (plan->count + 1) * 40);
    span = (double)span > most ? (uint64_t)most : span;
    const struct culm_edge_virtual_options options = {
        .layout = layout, .plan = plan, .for_ns = span};
    enum culm_status status = culm_edge_virtual_run(&options, totals, NULL);
    struct played played = {0};
    for (int32_t i = 0; status == CULM_OK && i < plan->count; i++) {
        const struct culm_edge_totals *of = &totals[plan->order[i]];
        if (!layout->query[plan->order[i]].every_ns) { /* samples are not what counts */
            double share = of->frames ? (double)of->processed / (double)of->frames : 1;
            played.share[played.count++] = share;
            played.mean += share;
        }
    }
    played.mean /= played.count > 0 ? played.count : 1;
    qsort(played.share, (size_t)played.count, sizeof(double), ascending);
    *ret_played = played;
    return status;
}

static bool better(const struct played *one, const struct played *other) {
    for (int32_t i = 0; i < one->count; i++) {
        double by = one->share[i] - other->share[i];
        if (by > SAME_SHARE || by < -SAME_SHARE) {
            return by > 0;
        }
    }
    return one->mean > other->mean + SAME_SHARE / 10;
}

static enum culm_status consider(const struct culm_edge_layout *layout,
                                 const struct culm_edge_plan *plan, struct culm_edge_plan *best,
                                 struct played *best_played) {
    struct played played;
    enum culm_status status = play(layout, plan, &played);
    if (status == CULM_OK && (best_played->count < 0 || better(&played, best_played))) {
        *best = *plan;
        *best_played = played;
        best->least_share = played.count ? played.share[0] : 1;
    }
    return status;
}

static bool all_of_it(const struct played *played) {
    return played->count >= 0 && (played->count == 0 || played->share[0] > 1 - SAME_SHARE / 10);
}

/* Longer and shorter visits of single queries, as long as that helps. */
static enum culm_status improve(const struct culm_edge_layout *layout, struct culm_edge_plan *best,
                                struct played *best_played) {
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < best->count && status == CULM_OK && !all_of_it(best_played); i++) {
        if (layout->query[best->order[i]].every_ns) {
            continue;
        }
        for (int up = 0; up < 2 && status == CULM_OK; up++) {
            struct culm_edge_plan plan = *best;
            int32_t *visit = &plan.visit[plan.order[i]];
            *visit = up ? *visit * 2 : *visit / 2;
            if (*visit >= 1 && *visit < plan.slots) {
                status = consider(layout, &plan, best, best_played);
            }
        }
    }
    return status;
}

/* Two queries change places, or one is moved. */
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

/* One thing is changed. False: it cannot be. */
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

/* What a round of the order loads. */
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
                                 const struct culm_edge_plan_options *options,
                                 struct culm_edge_plan *best, struct played *best_played) {
    uint64_t random = 1;
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < options->tries && status == CULM_OK && !all_of_it(best_played); i++) {
        struct culm_edge_plan plan = *best;
        if (options->stop && __atomic_load_n(options->stop, __ATOMIC_ACQUIRE)) {
            break;
        }
        bool changed = change(layout, &plan, options->given_order, &random);
        if (changed && culm_rng_below(&random, 2)) { /* now and then two things at once */
            changed = change(layout, &plan, options->given_order, &random);
        }
        status = changed ? consider(layout, &plan, best, best_played) : CULM_OK;
    }
    best->round_bytes = round_bytes(layout, best);
    return status == CULM_OK && best->round_bytes < 0 ? CULM_ERR_MEMORY : status;
}

bool culm_edge_plan_same(const struct culm_edge_plan *one, const struct culm_edge_plan *other) {
    bool same = one->count == other->count && one->slots == other->slots &&
                one->eviction == other->eviction && one->patient == other->patient &&
                one->passes == other->passes;
    for (int32_t i = 0; i < one->count && same; i++) {
        same = one->order[i] == other->order[i] &&
               one->visit[one->order[i]] == other->visit[one->order[i]];
    }
    return same;
}

enum culm_status culm_edge_plan(const struct culm_edge_layout *layout,
                                const struct culm_edge_plan_options *options,
                                struct culm_edge_plan *ret_plan, struct culm_error *error) {
    static const struct culm_edge_plan_options none;
    struct culm_edge_plan best = {0}, plan;
    struct played best_played = {.count = -1};
    options = options ? options : &none;
    enum culm_status status = culm_edge_layout_check(layout, error);
    if (status != CULM_OK) {
        return status;
    }
    bool found = false;
    int32_t from = options->visit ? options->visit : 8, to = options->visit ? from : 1;
    for (int32_t visit = from; visit >= 1 && status == CULM_OK; visit /= 2) {
        if (visit < to && found) {
            break;
        }
        if (!fits(layout, visit)) {
            continue;
        }
        status = work_out(layout, options, visit, &plan);
        for (int way = 0; way < (options->quick ? 1 : 4) && status == CULM_OK; way++) {
            plan.patient = way & 1;
            plan.passes = way & 2 ? 0 : PASSES;
            if (!options->quick) {
                status = consider(layout, &plan, &best, &best_played);
            } else if (!found || plan.least_share > best.least_share) {
                best = plan;
            }
            found = true;
            if (all_of_it(&best_played)) {
                break;
            }
        }
        if (all_of_it(&best_played)) {
            break;
        }
    }
    if (status == CULM_OK && found && !options->quick && !options->visit) {
        status = improve(layout, &best, &best_played);
        if (status == CULM_OK && best.count > 0) {
            status = try_near(layout, options, &best, &best_played);
        }
    }
    if (status != CULM_OK) {
        return culm_error_set(error, status, "out of memory for a plan of %d queries",
                              layout->query_count);
    }
    *ret_plan = best;
    return CULM_OK;
}
