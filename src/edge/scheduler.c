/* The scheduler: running batches, switching layouts, and the actor. See scheduler.h.
 * scheduler_choice.c makes the choices; frames, memory and events have files of their own. */
#include "edge/scheduler_internal.h"

#include "base/mark.h"

#include <stdlib.h>
#include <string.h>

#define TIMER_DUE 0

struct culm_edge_scheduler *
culm_edge_scheduler_new(const struct culm_edge_scheduler_options *options) {
    struct culm_edge_scheduler *scheduler = calloc(1, sizeof *scheduler);
    if (!scheduler) {
        return NULL;
    }
    scheduler->o = *options;
    scheduler->plan = *options->plan;
    scheduler->layout = options->layout;
    scheduler->target = scheduler->visiting = -1;
    scheduler->victim =
        malloc(((size_t)options->layout->tensor_count + 1) * sizeof *scheduler->victim);
    if (!scheduler->victim ||
        culm_edge_residency_init(&scheduler->residency, options->layout) != CULM_OK) {
        culm_edge_scheduler_free(scheduler);
        return NULL;
    }
    scheduler_count_frames(scheduler);
    scheduler->most_bytes = scheduler->frame_bytes;
    return scheduler;
}

void culm_edge_scheduler_free(struct culm_edge_scheduler *scheduler) {
    if (!scheduler) {
        return;
    }
    for (int32_t f = 0; f < CULM_EDGE_FEEDS_MAX; f++) {
        for (int32_t i = 0; i < scheduler->feed[f].count; i++) {
            culm_blob_unref(scheduler->feed[f].slot[i].blob);
        }
    }
    culm_edge_residency_release(&scheduler->residency);
    culm_edge_residency_release(&scheduler->next_residency);
    free(scheduler->victim);
    free(scheduler->next_victim);
    free(scheduler);
}

/* --- batches --- */

static bool has_visit_to(const struct culm_edge_scheduler *scheduler, int32_t query) {
    return query < scheduler->layout->query_count && !scheduler_query_of(scheduler, query)->gone;
}

/* Whether a frame could be answered now if its query's tensors were loaded. */
static bool lacks_tensors(const struct culm_edge_scheduler *scheduler, uint64_t now_ns) {
    for (int32_t i = 0; i < scheduler->plan.count; i++) {
        int32_t query = scheduler->plan.order[i];
        if (!scheduler_query_of(scheduler, query)->every_ns &&
            !scheduler_all_there(scheduler, query) &&
            scheduler_in_time(scheduler, query, now_ns) > 0) {
            return true;
        }
    }
    return false;
}

/* Accounts for the time since idle_since_ns, and starts anew if nothing runs for lack of tensors.
 */
static void count_idle(struct culm_edge_scheduler *scheduler, uint64_t now_ns, bool lacks) {
    if (scheduler->idle_since_ns) {
        scheduler->totals.waited_ns += now_ns - scheduler->idle_since_ns;
    }
    scheduler->idle_since_ns = lacks ? now_ns : 0;
}

/* Starts a batch. False: no frame would be in time, or there is no room. */
static bool start(struct culm_edge_scheduler *scheduler, int32_t query, int32_t most,
                  uint64_t now_ns, bool may_evict) {
    struct culm_edge_batch batch;
    int32_t size = scheduler_choose_batch(scheduler, query, most, now_ns, &batch);
    if (size < 0) {
        return false;
    }
    size_t activations = scheduler_query_of(scheduler, query)->activation_bytes[size];
    size_t room = scheduler_room_beside(scheduler, activations);
    if (scheduler->residency.bytes > room &&
        (!may_evict || !scheduler_make_room(scheduler, room, 1ull << query, 0))) {
        CULM_MARK(edge_batch_has_no_room);
        return false;
    }
    scheduler_set_activations(scheduler, activations);
    scheduler_count_bytes(scheduler);
    batch.job = (struct culm_job){
        .execute = scheduler->o.exec->ops->infer, .cost_ns = batch.expected_ns, .owner = scheduler};
    batch.begin_ns = now_ns;
    scheduler->batch = batch;
    scheduler->running = true;
    scheduler->run_end_ns = now_ns + batch.expected_ns;
    scheduler_mark_run(scheduler, true);
    scheduler->query[query].totals.visits++;
    count_idle(scheduler, now_ns, false);
    scheduler->o.world->ops->run(scheduler->o.world, &scheduler->batch.job);
    return true;
}

static void batch_done(struct culm_edge_scheduler *scheduler) {
    struct culm_edge_batch *batch = &scheduler->batch;
    struct query_state *state = &scheduler->query[batch->query];
    uint64_t now = scheduler_now_ns(scheduler);
    bool failed = batch->job.status != CULM_OK;
    scheduler->running = false;
    scheduler->kept_bytes = failed ? 0 : scheduler->activation_bytes;
    scheduler->totals.run_ns += batch->expected_ns;
    if (!failed) {
        scheduler->o.exec->ops->ran(scheduler->o.exec, batch, now - batch->begin_ns);
    }
    scheduler_mark_run(scheduler, false);
    for (int32_t k = 0; k < batch->count; k++) {
        const struct culm_edge_look *look = &batch->look[k];
        if (failed || now > look->due_ns) {
            if (failed) {
                CULM_MARK(edge_batch_failed);
            } else {
                CULM_MARK(edge_batch_ended_too_late);
            }
            state->totals.late += !failed;
            scheduler_drop(scheduler, batch->query, look,
                           failed ? "it failed" : "it ended too late");
        } else {
            uint64_t wait = now - state->answered_ns;
            state->totals.frames++;
            state->totals.processed++;
            state->totals.shared += batch->shared_prefix >= 0;
            state->totals.longest_wait_ns =
                wait > state->totals.longest_wait_ns ? wait : state->totals.longest_wait_ns;
            state->answered_ns = now;
            scheduler->o.exec->ops->settled(scheduler->o.exec, batch->query, look, batch);
            scheduler_say_frame(scheduler, batch->query, look, now, NULL);
        }
    }
    for (int32_t f = 0; f < scheduler->layout->feed_count; f++) {
        scheduler_forget_seen(&scheduler->feed[f]);
    }
}

/* It is the query's turn; the queries between the last turn and this one are passed over. */
static void begin_visit(struct culm_edge_scheduler *scheduler, int32_t query) {
    const struct culm_edge_plan *plan = &scheduler->plan;
    for (int32_t i = 0; i < plan->count; i++) {
        int32_t at = (scheduler->cursor + i) % plan->count;
        struct query_state *state = &scheduler->query[plan->order[at]];
        if (plan->order[at] == query) {
            scheduler->cursor = (at + 1) % plan->count;
            state->passed_over = 0;
            state->dropped_then = state->totals.dropped;
            break;
        }
        if (state->totals.dropped > state->dropped_then) {
            state->passed_over++;
            state->dropped_then = state->totals.dropped;
        }
    }
    scheduler->visiting = query;
    scheduler->left = plan->visit[query] > 0 ? plan->visit[query] : 1;
}

static void try_run(struct culm_edge_scheduler *scheduler, uint64_t now_ns) {
    int32_t kin = scheduler_choose_kin(scheduler, now_ns);
    if (kin >= 0 && start(scheduler, kin, 1, now_ns, false)) {
        return;
    }
    if (scheduler->visiting >= 0) {
        if (scheduler->left > 0 && has_visit_to(scheduler, scheduler->visiting) &&
            scheduler_all_there(scheduler, scheduler->visiting) &&
            start(scheduler, scheduler->visiting, scheduler->left, now_ns, true)) {
            scheduler->left -= scheduler->batch.count;
            return;
        }
        scheduler->visiting = -1;
    }
    scheduler_choose_target(scheduler, now_ns);
    int32_t target = scheduler->target;
    if (target >= 0 && !scheduler->waits && scheduler_all_there(scheduler, target)) {
        begin_visit(scheduler, target);
        if (start(scheduler, target, scheduler->left, now_ns, true)) {
            scheduler->left -= scheduler->batch.count;
            scheduler->target = -1;
            return;
        }
        scheduler->visiting = -1;
    }
    count_idle(scheduler, now_ns, lacks_tensors(scheduler, now_ns));
    scheduler_try_load(scheduler, now_ns); /* before a filler runs, since there is most room now */
    int32_t filler = scheduler_choose_filler(scheduler, now_ns);
    if (filler >= 0) {
        start(scheduler, filler, 1, now_ns, false);
    }
}

/* --- the life of the scheduler --- */

static bool all_over(const struct culm_edge_scheduler *scheduler) {
    bool any = false;
    for (int32_t f = 0; f < scheduler->layout->feed_count; f++) {
        const struct feed_state *feed = &scheduler->feed[f];
        bool gone = scheduler->layout->feed[f].gone || feed->ended;
        if (feed->count > 0 || !gone) {
            return false;
        }
        any = true;
    }
    return any && !scheduler->o.goes_on;
}

static void end(struct culm_edge_scheduler *scheduler) {
    uint64_t now = scheduler_now_ns(scheduler);
    count_idle(scheduler, now, false);
    scheduler->ended = true;
    scheduler_publish(scheduler, culm_edge_scheduler_report(scheduler));
    scheduler->o.world->ops->leave(scheduler->o.world, 0, NULL);
}

static void take_next(struct culm_edge_scheduler *scheduler);

static void advance(struct culm_edge_scheduler *scheduler) {
    if (scheduler->ended) {
        return;
    }
    uint64_t now = scheduler_now_ns(scheduler);
    if (scheduler->stopping) {
        if (!scheduler->running && !scheduler->loading) {
            end(scheduler);
        } else {
            CULM_MARK(edge_stop_waits_for_a_job);
        }
        return;
    }
    if (scheduler->next && !scheduler->running && !scheduler->loading) {
        take_next(scheduler);
    }
    uint64_t next = scheduler_drop_too_old(scheduler, now);
    if (scheduler->frames_over) {
        scheduler_count_frames(scheduler);
    }
    if (!scheduler->next) {
        if (!scheduler->running) {
            try_run(scheduler, now);
        }
        if (scheduler->running) {
            scheduler_choose_target(scheduler, now);
        }
        scheduler_try_load(scheduler, now);
    }
    if (!scheduler->running && !scheduler->loading && all_over(scheduler)) {
        end(scheduler);
        return;
    }
    for (int32_t i = 0; i < scheduler->plan.count; i++) {
        uint64_t retry = scheduler->query[scheduler->plan.order[i]].retry_ns;
        next = retry > now && retry < next ? retry : next;
    }
    scheduler->o.world->ops->timer(scheduler->o.world, TIMER_DUE,
                                   next == CULM_NEVER ? CULM_NEVER : next - now);
}

void culm_edge_scheduler_stop(struct culm_edge_scheduler *scheduler) {
    scheduler->stopping = true;
    advance(scheduler);
}

enum culm_status culm_edge_scheduler_update(struct culm_edge_scheduler *scheduler,
                                            const struct culm_edge_layout *layout,
                                            const struct culm_edge_plan *plan,
                                            struct culm_error *error) {
    const struct culm_edge_layout *old = scheduler->next ? scheduler->next : scheduler->layout;
    bool same = layout->query_count >= old->query_count && layout->feed_count >= old->feed_count &&
                layout->tensor_count >= old->tensor_count;
    for (int32_t t = 0; same && t < old->tensor_count; t++) {
        same = layout->tensor_bytes[t] == old->tensor_bytes[t];
    }
    if (!same) {
        CULM_MARK(edge_layout_does_not_go_on);
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "the new layout does not continue the old one");
    }
    int32_t *victim = malloc(((size_t)layout->tensor_count + 1) * sizeof *victim);
    struct culm_edge_residency residency;
    if (!victim || culm_edge_residency_init(&residency, layout) != CULM_OK) {
        free(victim);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a new layout");
    }
    if (scheduler->next) {
        CULM_MARK(edge_layout_is_replaced_before_it_is_taken);
    }
    free(scheduler->next_victim);
    culm_edge_residency_release(&scheduler->next_residency);
    scheduler->next = layout;
    scheduler->next_plan = *plan;
    scheduler->next_victim = victim;
    scheduler->next_residency = residency;
    advance(scheduler);
    return CULM_OK;
}

/* Switches to the next layout. Nothing runs and nothing is being loaded. */
static void take_next(struct culm_edge_scheduler *scheduler) {
    int32_t queries = scheduler->layout->query_count;
    CULM_MARK(edge_layout_is_taken);
    scheduler_say_loads(scheduler); /* of tensors that these queries may not use any more */
    culm_edge_residency_go_on(&scheduler->residency, &scheduler->next_residency);
    free(scheduler->victim);
    scheduler->victim = scheduler->next_victim;
    scheduler->layout = scheduler->next;
    scheduler->plan = scheduler->next_plan;
    scheduler->next = NULL;
    scheduler->next_victim = NULL;
    for (int32_t q = 0; q < scheduler->layout->query_count; q++) {
        struct query_state *state = &scheduler->query[q];
        uint64_t now = scheduler_now_ns(scheduler), every = scheduler->layout->query[q].every_ns;
        uint64_t first = now + scheduler->layout->query[q].after_ns;
        state->answered_ns = q >= queries ? now : state->answered_ns;
        if (every && !state->looked_ns) { /* it begins to sample: its first burst is at `first` */
            state->looked_ns = first > every ? first - every : 1;
        }
        state->passed_over = 0;
        state->retry_ns = 0;
    }
    scheduler->cursor = 0;
    scheduler->target = scheduler->visiting = -1;
    scheduler->batch.count = 0;
    scheduler_forget_gone(scheduler);
    scheduler_count_frames(scheduler);
    scheduler_set_activations(scheduler, 0);
    /* What nobody uses any more goes at once, and more if frames now take more memory. */
    int32_t count = 0;
    for (int32_t t = 0; t < scheduler->layout->tensor_count; t++) {
        if (scheduler->residency.state[t] == CULM_EDGE_RESIDENT && !scheduler->residency.users[t]) {
            CULM_MARK(edge_tensor_that_nobody_uses_goes);
            scheduler->victim[count++] = t;
        }
    }
    scheduler_evict(scheduler, count);
    scheduler_make_room(scheduler, scheduler_room_beside(scheduler, 0), 0, 0);
    scheduler_count_bytes(scheduler);
    scheduler->o.exec->ops->relaid(scheduler->o.exec);
}

static void on_start(void *actor) {
    struct culm_edge_scheduler *scheduler = actor;
    uint64_t now = scheduler_now_ns(scheduler);
    scheduler->begin_ns = now;
    for (int32_t q = 0; q < CULM_EDGE_QUERIES_MAX; q++) {
        scheduler->query[q].answered_ns = now;
    }
    advance(scheduler);
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct culm_edge_scheduler *scheduler = actor;
    bool frame = message->type == CULM_EDGE_FRAME || message->type == CULM_EDGE_FRAME_LOST ||
                 message->type == CULM_EDGE_FRAME_MISSED;
    if (frame && !scheduler->ended) {
        scheduler_hear_frame(scheduler, from, message);
        advance(scheduler);
    }
}

static void on_lost(void *actor, int32_t node) {
    struct culm_edge_scheduler *scheduler = actor;
    if (node >= 0 && node < CULM_EDGE_FEEDS_MAX) { /* it may be a feed of the next layout */
        CULM_MARK(edge_feed_is_lost);
        scheduler->feed[node].ended = true;
        scheduler_publish(scheduler,
                          json_pack("{s:s, s:i, s:b}", "event", "feed", "feed", node, "ended", 1));
        advance(scheduler);
    }
}

void culm_edge_scheduler_feed_again(struct culm_edge_scheduler *scheduler, int32_t feed) {
    scheduler->feed[feed].ended = false;
}

static void on_timer(void *actor, uint32_t timer) {
    (void)timer;
    advance(actor);
}

static void on_job_done(void *actor, struct culm_job *job) {
    struct culm_edge_scheduler *scheduler = actor;
    if (job == &scheduler->load.job) {
        scheduler_load_done(scheduler);
    } else {
        batch_done(scheduler);
    }
    advance(scheduler);
}

const struct culm_actor_ops culm_edge_scheduler_actor = {.size = sizeof(struct culm_actor_ops),
                                                         .start = on_start,
                                                         .message = on_message,
                                                         .lost = on_lost,
                                                         .timer = on_timer,
                                                         .job_done = on_job_done};

const struct culm_edge_totals *
culm_edge_scheduler_totals(const struct culm_edge_scheduler *scheduler, int32_t query) {
    return &scheduler->query[query].totals;
}

void culm_edge_scheduler_memory(const struct culm_edge_scheduler *scheduler,
                                struct culm_edge_memory *ret_memory) {
    *ret_memory = scheduler->totals;
    ret_memory->tensor_bytes = scheduler->residency.bytes;
    ret_memory->activation_bytes = scheduler->activation_bytes;
    ret_memory->frame_bytes = scheduler->frame_bytes;
    ret_memory->most_bytes = scheduler->most_bytes;
    ret_memory->elapsed_ns = scheduler_now_ns(scheduler) - scheduler->begin_ns;
}

bool culm_edge_scheduler_holds(const struct culm_edge_scheduler *scheduler, int32_t tensor) {
    return scheduler->residency.state[tensor] == CULM_EDGE_RESIDENT;
}
