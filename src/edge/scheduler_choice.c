/*
 * The scheduler's choices: what runs next, and for which query tensors are loaded. This file only
 * chooses; scheduler.c acts.
 *
 * All times are forecasts: loads and batches are assumed to take what the layout says. If a batch
 * takes longer, scheduler.c finds out when it ends, and counts its frames as dropped.
 */
#include "edge/scheduler_internal.h"

#include "base/mark.h"

#include <string.h>

#define LIVE_PERIODS 3 /* a feed that has been silent for more periods is not waited for */

static const struct culm_edge_query *query_of(const struct culm_edge_scheduler *scheduler,
                                              int32_t query) {
    return &scheduler->layout->query[query];
}

bool scheduler_all_there(const struct culm_edge_scheduler *scheduler, int32_t query) {
    const struct culm_edge_query *of = query_of(scheduler, query);
    for (int32_t i = 0; i < of->tensor_count; i++) {
        if (scheduler->residency.state[of->tensor[i]] != CULM_EDGE_RESIDENT) {
            return false;
        }
    }
    return true;
}

uint64_t scheduler_ready_ns(const struct culm_edge_scheduler *scheduler, int32_t query,
                            uint64_t now_ns) {
    const struct culm_edge_query *of = query_of(scheduler, query);
    uint64_t loaded = now_ns;
    bool missing = false;
    if (scheduler->loading && scheduler->load_end_ns > loaded) {
        loaded = scheduler->load_end_ns;
    }
    for (int32_t i = 0; i < of->tensor_count; i++) {
        uint8_t state = scheduler->residency.state[of->tensor[i]];
        missing |= state != CULM_EDGE_RESIDENT;
        if (state == CULM_EDGE_ABSENT) {
            loaded += culm_edge_load_ns(scheduler->layout,
                                        scheduler->layout->tensor_bytes[of->tensor[i]]);
        }
    }
    uint64_t ready = missing ? loaded : now_ns;
    return scheduler->running && scheduler->run_end_ns > ready ? scheduler->run_end_ns : ready;
}

int32_t scheduler_in_time(const struct culm_edge_scheduler *scheduler, int32_t query,
                          uint64_t at_ns) {
    const struct culm_edge_query *of = query_of(scheduler, query);
    const struct feed_state *feed = &scheduler->feed[of->feed];
    int32_t count = 0;
    for (int32_t i = 0; i < feed->count; i++) {
        count += (feed->slot[i].pending >> query & 1) &&
                 scheduler_due_ns(scheduler, query, &feed->slot[i]) >= at_ns + of->run_ns[0];
    }
    return count;
}

uint64_t scheduler_burst_ns(const struct culm_edge_scheduler *scheduler,
                            const struct culm_edge_query *of, const struct query_state *state) {
    return state->looked_ns ? state->looked_ns + of->every_ns : scheduler->begin_ns + of->after_ns;
}

/* When the query's next frame should arrive; CULM_NEVER: none is to be expected. */
static uint64_t next_frame_ns(const struct culm_edge_scheduler *scheduler, int32_t query,
                              uint64_t now_ns) {
    const struct culm_edge_query *of = query_of(scheduler, query);
    const struct feed_state *feed = &scheduler->feed[of->feed];
    uint64_t period = scheduler->layout->feed[of->feed].period_ns;
    if (!feed->there || feed->ended || feed->seen == 0 ||
        now_ns > feed->last_ns + LIVE_PERIODS * period) {
        return CULM_NEVER;
    }
    uint64_t next = feed->last_ns + period;
    const struct query_state *state = &scheduler->query[query];
    if (of->every_ns && state->burst_left == 0) {
        uint64_t burst = scheduler_burst_ns(scheduler, of, state);
        next = burst > next ? burst : next;
    }
    return next > now_ns ? next : now_ns;
}

/* When the first frame should arrive that the query can answer if it is ready at `ready`;
 * CULM_NEVER: none is to be expected. */
static uint64_t next_to_answer_ns(const struct culm_edge_scheduler *scheduler, int32_t query,
                                  uint64_t now_ns, uint64_t ready) {
    const struct culm_edge_query *of = query_of(scheduler, query);
    uint64_t period = scheduler->layout->feed[of->feed].period_ns;
    uint64_t next = next_frame_ns(scheduler, query, now_ns), end = ready + of->run_ns[0];
    if (next == CULM_NEVER || of->run_ns[0] > of->deadline_ns) {
        return CULM_NEVER;
    }
    if (end > next + of->deadline_ns) { /* its tensors take too long for the very next one */
        next += (end - next - of->deadline_ns + period - 1) / period * period;
    }
    return next;
}

static bool may_load(const struct culm_edge_scheduler *scheduler, int32_t query, uint64_t now_ns) {
    return scheduler->query[query].retry_ns <= now_ns || scheduler_all_there(scheduler, query);
}

void scheduler_turns(const struct culm_edge_scheduler *scheduler, int32_t *ret_turn) {
    const struct culm_edge_plan *plan = &scheduler->plan;
    int32_t from = scheduler->cursor;
    for (int32_t q = 0; q < CULM_EDGE_QUERIES_MAX; q++) {
        ret_turn[q] = CULM_EDGE_QUERIES_MAX;
    }
    for (int32_t i = 0; i < plan->count; i++) {
        if (plan->order[i] == scheduler->target) {
            from = i;
        }
    }
    for (int32_t i = 0; i < plan->count; i++) {
        ret_turn[plan->order[(from + i) % plan->count]] = i;
    }
}

/* The prefix, as an index of the query's list, from which it could continue at `at_ns`; -1: none.
 * For that the previous batch must have computed the prefix in a batch of the same size, the result
 * must still be there, and the query must be able to answer all frames of that batch in time. */
static int32_t prefix_shared(const struct culm_edge_scheduler *scheduler, int32_t query,
                             uint64_t at_ns) {
    const struct culm_edge_batch *before = &scheduler->batch;
    const struct culm_edge_query *of = query_of(scheduler, query);
    if (before->count == 0 || before->query == query || of->prefixes == 0 ||
        before->query >= scheduler->layout->query_count || before->job.status != CULM_OK) {
        return -1;
    }
    const struct culm_edge_query *other = query_of(scheduler, before->query);
    const struct feed_state *feed = &scheduler->feed[of->feed];
    int32_t shared = culm_edge_prefix_of_both(scheduler->layout, query, before->query);
    int32_t found = 0, size = culm_edge_batch_for(of, before->count);
    size_t bytes = culm_edge_need_bytes(scheduler->layout, query) + of->activation_bytes[size];
    if (shared < 0 || of->batch[size] < before->count ||
        of->batch[size] != other->batch[culm_edge_batch_for(other, before->count)] ||
        of->prefix[shared].keep_bytes[size] > scheduler->kept_bytes ||
        bytes + scheduler->frame_bytes > scheduler->layout->limit_bytes) {
        return -1;
    }
    uint64_t run_ns = of->run_ns[size] - of->prefix[shared].run_ns[size];
    for (int32_t i = 0; i < feed->count; i++) {
        for (int32_t k = 0; k < before->count; k++) {
            found += feed->slot[i].number == before->look[k].frame &&
                     (feed->slot[i].pending >> query & 1) &&
                     scheduler_due_ns(scheduler, query, &feed->slot[i]) >= at_ns + run_ns;
        }
    }
    return found == before->count ? shared : -1;
}

size_t scheduler_kept_for(const struct culm_edge_scheduler *scheduler, int32_t query,
                          uint64_t now_ns) {
    int32_t shared = prefix_shared(scheduler, query, now_ns);
    const struct culm_edge_query *of = query_of(scheduler, query);
    return shared < 0
               ? 0
               : of->prefix[shared].keep_bytes[culm_edge_batch_for(of, scheduler->batch.count)];
}

/* A query that is to be loaded at the start, and has not been yet; -1: none. */
static int32_t to_preload(const struct culm_edge_scheduler *scheduler, uint64_t now_ns) {
    for (int32_t q = 0; q < scheduler->layout->query_count; q++) {
        const struct culm_edge_query *of = query_of(scheduler, q);
        if ((of->pin || of->preload) && !of->gone && !scheduler->query[q].was_there &&
            !scheduler_all_there(scheduler, q) && scheduler->query[q].retry_ns <= now_ns) {
            return q;
        }
    }
    return -1;
}

void scheduler_choose_target(struct culm_edge_scheduler *scheduler, uint64_t now_ns) {
    const struct culm_edge_plan *plan = &scheduler->plan;
    const int32_t early = to_preload(scheduler, now_ns);
    scheduler->waits = false;
    if (early >= 0) { /* whatever waits: it is for the start, and once */
        scheduler->target = early;
        scheduler->waits = true;
        scheduler->wait_ns = CULM_NEVER;
        return;
    }
    if (scheduler->target >= 0 && may_load(scheduler, scheduler->target, now_ns) &&
        scheduler_in_time(scheduler, scheduler->target,
                          scheduler_ready_ns(scheduler, scheduler->target, now_ns)) > 0) {
        return; /* what has been loaded for it is not wasted */
    }
    if (scheduler->target >= 0) {
        CULM_MARK(edge_target_is_given_up);
    }
    scheduler->target = -1;
    int32_t soonest = -1;
    uint64_t soonest_ns = CULM_NEVER;
    for (int32_t i = 0; i < plan->count; i++) {
        int32_t query = plan->order[(scheduler->cursor + i) % plan->count];
        struct query_state *state = &scheduler->query[query];
        const struct culm_edge_query *of = query_of(scheduler, query);
        if (!may_load(scheduler, query, now_ns)) {
            continue;
        }
        uint64_t ready = scheduler_ready_ns(scheduler, query, now_ns);
        if (scheduler_in_time(scheduler, query, ready) > 0) {
            scheduler->target = query;
            return;
        }
        uint64_t next = next_to_answer_ns(scheduler, query, now_ns, ready);
        if (next == CULM_NEVER) {
            continue;
        }
        /* The next burst of a query that samples may be far away, so it is not waited for. */
        bool soon = !of->every_ns || state->burst_left > 0;
        if (state->passed_over >= plan->passes && soon) {
            CULM_MARK(edge_passed_over_often_enough);
            scheduler->target = query;
            scheduler->waits = true;
            scheduler->wait_ns = next + of->deadline_ns - of->run_ns[0];
            return;
        }
        uint64_t begin = next > ready ? next : ready;
        if (begin < soonest_ns) {
            soonest_ns = begin;
            soonest = query;
            scheduler->wait_ns = next + of->deadline_ns - of->run_ns[0];
        }
    }
    if (soonest >= 0) { /* there is nothing else to do: prepare for the frame that is next */
        scheduler->target = soonest;
        scheduler->waits = true;
    }
}

/* Whether one query can run while everything the other lacks is loaded beside it. */
static bool fit_together(const struct culm_edge_scheduler *scheduler, int32_t runs, int32_t comes) {
    const struct culm_edge_query *one = query_of(scheduler, runs),
                                 *other = query_of(scheduler, comes);
    size_t bytes = scheduler->frame_bytes + one->activation_bytes[0] +
                   culm_edge_need_bytes(scheduler->layout, comes);
    const uint64_t pins = culm_edge_pins(scheduler->layout);
    int32_t j = 0;
    for (int32_t i = 0; i < one->tensor_count; i++) {
        while (j < other->tensor_count && other->tensor[j] < one->tensor[i]) {
            j++;
        }
        if ((j == other->tensor_count || other->tensor[j] != one->tensor[i]) &&
            !(scheduler->residency.users[one->tensor[i]] & pins)) {
            bytes += scheduler->layout->tensor_bytes[one->tensor[i]];
        }
    }
    return bytes <= scheduler->layout->limit_bytes;
}

int32_t scheduler_choose_filler(const struct culm_edge_scheduler *scheduler, uint64_t now_ns) {
    const struct culm_edge_plan *plan = &scheduler->plan;
    int32_t target = scheduler->target;
    size_t room = scheduler->layout->limit_bytes - scheduler->frame_bytes;
    for (int32_t i = 0; i < plan->count; i++) {
        int32_t query = plan->order[(scheduler->cursor + i) % plan->count];
        const struct culm_edge_query *of = query_of(scheduler, query);
        if (query == target || !scheduler_all_there(scheduler, query) ||
            scheduler_in_time(scheduler, query, now_ns) == 0 ||
            scheduler->residency.bytes + of->activation_bytes[0] > room) {
            continue;
        }
        uint64_t end = now_ns + of->run_ns[0];
        if (target < 0) {
            return query;
        }
        if (!scheduler_all_there(scheduler, target) && !fit_together(scheduler, query, target)) {
            CULM_MARK(edge_filler_would_take_the_room);
            continue; /* else fillers could keep the target waiting for room forever */
        }
        uint64_t ready = scheduler_ready_ns(scheduler, target, now_ns);
        if (end <= ready || (scheduler->waits && end <= scheduler->wait_ns) ||
            (!scheduler->waits && scheduler_in_time(scheduler, target, end) ==
                                      scheduler_in_time(scheduler, target, ready))) {
            return query;
        }
    }
    return -1;
}

/* Whether the query could answer fewer frames in time if it began at `to`, not at `from`. */
static bool loses(const struct culm_edge_scheduler *scheduler, int32_t query, uint64_t from,
                  uint64_t to) {
    return to > from &&
           scheduler_in_time(scheduler, query, to) < scheduler_in_time(scheduler, query, from);
}

/* How many frames a visit would answer that goes on at `at_ns` and may take `most` more. */
static int32_t visit_answers(const struct culm_edge_scheduler *scheduler, int32_t query,
                             int32_t most, uint64_t at_ns) {
    const struct feed_state *feed = &scheduler->feed[query_of(scheduler, query)->feed];
    struct culm_edge_batch batch;
    int32_t answers = 0;
    while (most > 0 && scheduler_choose_batch(scheduler, query, most, at_ns, &batch) >= 0) {
        answers += batch.count;
        at_ns += batch.expected_ns;
        most = 0;
        for (int32_t i = 0; i < feed->count; i++) { /* earlier ones were taken or left out */
            most += (feed->slot[i].pending >> query & 1) &&
                    feed->slot[i].number > batch.look[batch.count - 1].frame;
        }
    }
    return answers;
}

/* Whether the visit in progress would answer fewer frames if it went on at `to`, not at `from`. */
static bool visit_loses(const struct culm_edge_scheduler *scheduler, uint64_t from, uint64_t to) {
    int32_t visiting = scheduler->visiting, left = scheduler->left;
    return visiting >= 0 && left > 0 && scheduler_all_there(scheduler, visiting) &&
           visit_answers(scheduler, visiting, left, to) <
               visit_answers(scheduler, visiting, left, from);
}

int32_t scheduler_choose_kin(const struct culm_edge_scheduler *scheduler, uint64_t now_ns) {
    const struct culm_edge_plan *plan = &scheduler->plan;
    int32_t target = scheduler->target, best = -1;
    size_t room = scheduler->layout->limit_bytes - scheduler->frame_bytes;
    uint64_t most_ns = 0;
    for (int32_t i = 0; i < plan->count; i++) {
        int32_t query = plan->order[(scheduler->cursor + i) % plan->count];
        int32_t shared = prefix_shared(scheduler, query, now_ns);
        if (shared < 0 || !scheduler_all_there(scheduler, query)) {
            continue;
        }
        const struct culm_edge_query *of = query_of(scheduler, query);
        int32_t size = culm_edge_batch_for(of, scheduler->batch.count);
        uint64_t saved = of->prefix[shared].run_ns[size];
        uint64_t end = now_ns + of->run_ns[size] - saved;
        bool harms = query != scheduler->visiting && visit_loses(scheduler, now_ns, end);
        if (target >= 0 && target != query) {
            uint64_t ready = scheduler_ready_ns(scheduler, target, now_ns);
            harms |=
                scheduler->waits ? end > scheduler->wait_ns : loses(scheduler, target, ready, end);
        }
        if (!harms && saved > most_ns &&
            scheduler->residency.bytes + of->activation_bytes[size] <= room) {
            most_ns = saved;
            best = query;
        }
    }
    return best;
}

static void look_at(const struct culm_edge_scheduler *scheduler, int32_t query,
                    const struct waiting_frame *frame, struct culm_edge_look *ret_look) {
    *ret_look = (struct culm_edge_look){.frame = frame->number,
                                        .at_ns = frame->at_ns,
                                        .due_ns = scheduler_due_ns(scheduler, query, frame),
                                        .blob = frame->blob};
}

int32_t scheduler_choose_batch(const struct culm_edge_scheduler *scheduler, int32_t query,
                               int32_t most, uint64_t now_ns, struct culm_edge_batch *ret_batch) {
    const struct culm_edge_query *of = query_of(scheduler, query);
    const struct feed_state *feed = &scheduler->feed[of->feed];
    int32_t fits[CULM_EDGE_SLOTS_MAX], count = 0, best = -1, best_count = 0;
    int32_t shared = prefix_shared(scheduler, query, now_ns);
    struct culm_edge_batch chosen = {
        .exec = scheduler->o.exec, .query = query, .shared_prefix = shared};
    if (shared >= 0) {
        int32_t size = culm_edge_batch_for(of, scheduler->batch.count);
        for (int32_t i = 0; i < feed->count; i++) {
            for (int32_t k = 0; k < scheduler->batch.count; k++) {
                if (feed->slot[i].number == scheduler->batch.look[k].frame) {
                    look_at(scheduler, query, &feed->slot[i], &chosen.look[chosen.count++]);
                }
            }
        }
        chosen.expected_ns = of->run_ns[size] - of->prefix[shared].run_ns[size];
        *ret_batch = chosen;
        return size;
    }
    /* The newest frames that are in time, the newest first. */
    for (int32_t i = feed->count - 1; i >= 0 && count < most; i--) {
        if ((feed->slot[i].pending >> query & 1) &&
            scheduler_due_ns(scheduler, query, &feed->slot[i]) >= now_ns + of->run_ns[0]) {
            fits[count++] = i;
        }
    }
    /* The batch size that answers the most frames per time; among equals the smallest. */
    size_t room = scheduler->layout->limit_bytes - scheduler->frame_bytes;
    size_t own = culm_edge_need_bytes(scheduler->layout, query);
    for (int32_t b = 0; b < of->batches; b++) {
        int32_t in_time = 0;
        for (int32_t i = 0; i < count; i++) {
            in_time +=
                scheduler_due_ns(scheduler, query, &feed->slot[fits[i]]) >= now_ns + of->run_ns[b];
        }
        in_time = in_time < of->batch[b] ? in_time : of->batch[b];
        if (own + of->activation_bytes[b] <= room && in_time > 0 &&
            (best < 0 || (double)in_time * (double)of->run_ns[best] >
                             (double)best_count * (double)of->run_ns[b])) {
            best = b;
            best_count = in_time;
        }
    }
    if (best < 0) {
        return -1;
    }
    for (int32_t i = count - 1; i >= 0 && chosen.count < best_count; i--) { /* the oldest first */
        if (scheduler_due_ns(scheduler, query, &feed->slot[fits[i]]) >= now_ns + of->run_ns[best]) {
            look_at(scheduler, query, &feed->slot[fits[i]], &chosen.look[chosen.count++]);
        }
    }
    chosen.expected_ns = of->run_ns[best];
    *ret_batch = chosen;
    return best;
}
