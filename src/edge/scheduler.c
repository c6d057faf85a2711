/* The scheduler: frames that come and go, jobs, memory. See scheduler.h; choices are made in
 * scheduler_choice.c. */
#include "edge/scheduler_internal.h"

#include "base/buf.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define RETRY_NS (10 * MS) /* after a load that failed; each time twice as long */
#define RETRY_DOUBLINGS 7
#define TIMER_DUE 0

static uint64_t now_of(const struct culm_edge_scheduler *scheduler) {
    return scheduler->o.world->ops->now_ns(scheduler->o.world);
}

static const struct culm_edge_query *query_of(const struct culm_edge_scheduler *scheduler,
                                              int32_t query) {
    return &scheduler->layout->query[query];
}

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
    scheduler->frame_bytes = culm_edge_frames_bytes(scheduler->layout, scheduler->plan.slots);
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

/* --- saying --- */

static void publish(struct culm_edge_scheduler *scheduler, json_t *take_event) {
    if (scheduler->o.quiet) {
        json_decref(take_event);
    } else if (take_event) {
        scheduler->o.world->ops->publish(scheduler->o.world, take_event);
    }
}

static size_t bytes_now(const struct culm_edge_scheduler *scheduler) {
    return scheduler->residency.bytes + scheduler->activation_bytes + scheduler->frame_bytes;
}

static void count_bytes(struct culm_edge_scheduler *scheduler) {
    size_t bytes = bytes_now(scheduler);
    scheduler->most_bytes = bytes > scheduler->most_bytes ? bytes : scheduler->most_bytes;
}

static void say_moved(struct culm_edge_scheduler *scheduler, const char *event, int32_t query,
                      size_t bytes) {
    if (!scheduler->o.quiet) {
        publish(scheduler,
                json_pack("{s:s, s:o, s:I, s:I}", "event", event, "query",
                          culm_json_text(query_of(scheduler, query)->name), "bytes",
                          (json_int_t)bytes, "resident_bytes", (json_int_t)bytes_now(scheduler)));
    }
}

/* In the time of events, which begins when it starts. */
static double since(const struct culm_edge_scheduler *scheduler, uint64_t ns) {
    return floor(((double)ns - (double)scheduler->begin_ns) / 1e3 + 0.5) /
           1e3; /* to a microsecond */
}

static void say_frame(struct culm_edge_scheduler *scheduler, int32_t query,
                      const struct culm_edge_look *look, uint64_t done_ns, const char *why) {
    if (scheduler->o.quiet || query_of(scheduler, query)->every_ns) {
        return;
    }
    json_t *event = json_pack("{s:s, s:o, s:I, s:f}", "event", "frame", "query",
                              culm_json_text(query_of(scheduler, query)->name), "frame",
                              (json_int_t)look->frame, "due_ms", since(scheduler, look->due_ns));
    if (why) {
        json_object_set_new(event, "dropped", json_true());
        json_object_set_new(event, "why", json_string(why));
    } else {
        json_object_set_new(event, "done_ms", json_real(since(scheduler, done_ns)));
    }
    publish(scheduler, event);
}

/* --- frames --- */

static void drop(struct culm_edge_scheduler *scheduler, int32_t query,
                 const struct culm_edge_look *look, const char *why) {
    struct culm_edge_totals *totals = &scheduler->query[query].totals;
    totals->frames++;
    totals->dropped++;
    scheduler->o.exec->ops->settled(scheduler->o.exec, query, look, NULL);
    say_frame(scheduler, query, look, 0, why);
}

static void drop_waiting(struct culm_edge_scheduler *scheduler, int32_t query,
                         struct waiting_frame *frame, const char *why) {
    const struct culm_edge_look look = {.frame = frame->number,
                                        .at_ns = frame->at_ns,
                                        .due_ns = culm_edge_due_ns(scheduler, query, frame),
                                        .blob = frame->blob};
    frame->pending &= ~(1ull << query);
    drop(scheduler, query, &look, why);
}

static void forget(struct feed_state *feed, int32_t at) {
    culm_blob_unref(feed->slot[at].blob);
    memmove(&feed->slot[at], &feed->slot[at + 1],
            (size_t)(feed->count - at - 1) * sizeof feed->slot[at]);
    feed->count--;
}

static void forget_seen(struct feed_state *feed) {
    for (int32_t i = feed->count - 1; i >= 0; i--) {
        if (!feed->slot[i].pending && !feed->slot[i].in_run) {
            forget(feed, i);
        }
    }
}

static void drop_for_all(struct culm_edge_scheduler *scheduler, struct waiting_frame *frame,
                         const char *why) {
    for (uint64_t left = frame->pending; left; left &= left - 1) {
        drop_waiting(scheduler, __builtin_ctzll(left), frame, why);
    }
}

/* Room for one more. False: all that is there is being looked at. */
static bool make_slot(struct culm_edge_scheduler *scheduler, struct feed_state *feed,
                      int32_t slots) {
    while (feed->count >= slots) {
        int32_t oldest = 0;
        while (oldest < feed->count && feed->slot[oldest].in_run) {
            oldest++;
        }
        if (oldest == feed->count) {
            return false;
        }
        drop_for_all(scheduler, &feed->slot[oldest], "newer frames came");
        forget(feed, oldest);
    }
    return true;
}

/* Whether one that samples looks at the frame of this moment. */
static bool samples(const struct culm_edge_scheduler *scheduler, const struct culm_edge_query *of,
                    struct query_state *state, uint64_t at_ns) {
    if (state->burst_left == 0) {
        if (at_ns < culm_edge_burst_ns(scheduler, of, state)) {
            return false;
        }
        state->looked_ns = at_ns ? at_ns : 1;
        state->burst_left = of->burst > 0 ? of->burst : 1;
    }
    state->burst_left--;
    return true;
}

static void on_frame(struct culm_edge_scheduler *scheduler, int32_t from,
                     const struct culm_message *message) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    struct waiting_frame frame = {.number = (int64_t)culm_read_u64(&reader),
                                  .at_ns = culm_read_u64(&reader)};
    if (!culm_reader_done(&reader) || from < 0 || from >= scheduler->layout->feed_count ||
        scheduler->layout->feed[from].gone) {
        return;
    }
    struct feed_state *feed = &scheduler->feed[from];
    feed->there = true;
    feed->seen++;
    feed->last_ns = frame.at_ns;
    for (int32_t i = 0; i < scheduler->plan.count; i++) {
        int32_t query = scheduler->plan.order[i];
        const struct culm_edge_query *of = query_of(scheduler, query);
        struct query_state *state = &scheduler->query[query];
        if (of->feed == from && (!of->every_ns || samples(scheduler, of, state, frame.at_ns))) {
            frame.pending |= 1ull << query;
        }
    }
    if (!frame.pending) {
        return;
    }
    if (make_slot(scheduler, feed, scheduler->plan.slots)) {
        frame.blob = culm_blob_ref(message->payload);
        feed->slot[feed->count++] = frame;
    } else {
        drop_for_all(scheduler, &frame, "no room for it");
    }
}

/* Whether some frames are too old now; returns when the next will be. */
static uint64_t drop_too_old(struct culm_edge_scheduler *scheduler, uint64_t now_ns) {
    uint64_t next_ns = CULM_NEVER;
    for (int32_t f = 0; f < scheduler->layout->feed_count; f++) {
        struct feed_state *feed = &scheduler->feed[f];
        for (int32_t i = 0; i < feed->count; i++) {
            for (uint64_t left = feed->slot[i].pending; left; left &= left - 1) {
                int32_t query = __builtin_ctzll(left);
                const struct culm_edge_query *of = query_of(scheduler, query);
                uint64_t due = culm_edge_due_ns(scheduler, query, &feed->slot[i]);
                uint64_t least = of->run_ns[0];
                if (of->prefixes) {
                    least -= of->prefix[of->prefixes - 1].run_ns[0];
                }
                if (now_ns + least > due) {
                    drop_waiting(scheduler, query, &feed->slot[i], "no time left");
                } else if (due - least + 1 < next_ns) {
                    next_ns = due - least + 1;
                }
            }
        }
        forget_seen(feed);
    }
    return next_ns;
}

/* --- memory --- */

static size_t room_beside(const struct culm_edge_scheduler *scheduler, size_t activations) {
    size_t taken = scheduler->frame_bytes + activations;
    return scheduler->layout->limit_bytes > taken ? scheduler->layout->limit_bytes - taken : 0;
}

static void set_activations(struct culm_edge_scheduler *scheduler, size_t bytes) {
    scheduler->kept_bytes = bytes < scheduler->kept_bytes ? bytes : scheduler->kept_bytes;
    if (bytes != scheduler->activation_bytes) {
        scheduler->activation_bytes = bytes;
        scheduler->o.exec->ops->activations(scheduler->o.exec, bytes);
    }
}

/* Whose a tensor was, for events: the first of its users. */
static int32_t owner_of(const struct culm_edge_scheduler *scheduler, int32_t tensor) {
    uint64_t users = scheduler->residency.users[tensor];
    return users ? __builtin_ctzll(users) : 0;
}

static void evict(struct culm_edge_scheduler *scheduler, int32_t count) {
    size_t bytes[CULM_EDGE_QUERIES_MAX] = {0};
    for (int32_t v = 0; v < count; v++) {
        int32_t tensor = scheduler->victim[v];
        bytes[owner_of(scheduler, tensor)] += scheduler->layout->tensor_bytes[tensor];
        scheduler->o.exec->ops->evict(scheduler->o.exec, tensor);
        culm_edge_residency_set(&scheduler->residency, tensor, CULM_EDGE_ABSENT);
    }
    scheduler->totals.evictions += count;
    for (int32_t q = 0; q < scheduler->layout->query_count; q++) {
        if (bytes[q]) {
            say_moved(scheduler, "evict", q, bytes[q]);
        }
    }
}

/* At most so many bytes of tensors stay. False: not now. */
static bool make_room(struct culm_edge_scheduler *scheduler, size_t most_bytes, uint64_t pinned,
                      int32_t before) {
    int32_t turn[CULM_EDGE_QUERIES_MAX];
    if (scheduler->residency.bytes <= most_bytes) {
        return true;
    }
    culm_edge_turns(scheduler, turn);
    int32_t count =
        culm_edge_residency_victims(&scheduler->residency, most_bytes, turn, pinned, before,
                                    scheduler->plan.eviction, scheduler->victim);
    if (count > 0) {
        evict(scheduler, count);
    }
    return count >= 0;
}

static uint64_t pins(const struct culm_edge_scheduler *scheduler) {
    uint64_t pinned = scheduler->running ? 1ull << scheduler->batch.query : 0;
    pinned |= scheduler->target >= 0 ? 1ull << scheduler->target : 0;
    return pinned | (scheduler->visiting >= 0 ? 1ull << scheduler->visiting : 0);
}

/* Brings in the next tensor that the target lacks, if there is room. */
static void try_load(struct culm_edge_scheduler *scheduler, uint64_t now_ns) {
    int32_t target = scheduler->target, tensor = -1;
    if (scheduler->loading || target < 0 || scheduler->query[target].retry_ns > now_ns) {
        return;
    }
    const struct culm_edge_query *of = query_of(scheduler, target);
    for (int32_t i = 0; i < of->tensor_count && tensor < 0; i++) {
        tensor = scheduler->residency.state[of->tensor[i]] == CULM_EDGE_ABSENT ? of->tensor[i] : -1;
    }
    if (tensor < 0) {
        return;
    }
    size_t bytes = scheduler->layout->tensor_bytes[tensor];
    size_t room = room_beside(scheduler, scheduler->activation_bytes);
    if (!scheduler->running && scheduler->residency.bytes + bytes > room) {
        set_activations(scheduler, culm_edge_kept_for(scheduler, target, now_ns));
        room = room_beside(scheduler, scheduler->activation_bytes);
    }
    if (room < bytes) {
        return; /* when the batch has ended there is */
    }
    int32_t before = 0;
    if (scheduler->running && scheduler->plan.patient) {
        int32_t turn[CULM_EDGE_QUERIES_MAX];
        culm_edge_turns(scheduler, turn);
        before = turn[scheduler->batch.query];
    }
    uint64_t pinned = pins(scheduler);
    if (!make_room(scheduler, room - bytes, pinned, before) &&
        (scheduler->running || !make_room(scheduler, room - bytes, 1ull << target, 0))) {
        return;
    }
    culm_edge_residency_set(&scheduler->residency, tensor, CULM_EDGE_LOADING);
    count_bytes(scheduler);
    scheduler->loading = true;
    scheduler->load =
        (struct culm_edge_load){.job = {.execute = scheduler->o.exec->ops->load,
                                        .cost_ns = culm_edge_load_ns(scheduler->layout, bytes),
                                        .owner = scheduler},
                                .exec = scheduler->o.exec,
                                .tensor = tensor,
                                .query = target,
                                .begin_ns = now_ns};
    scheduler->load_end_ns = now_ns + scheduler->load.job.cost_ns;
    scheduler->o.world->ops->io(scheduler->o.world, &scheduler->load.job);
}

static bool has_visit_to(const struct culm_edge_scheduler *scheduler, int32_t query) {
    return query < scheduler->layout->query_count && !query_of(scheduler, query)->gone;
}

static void load_done(struct culm_edge_scheduler *scheduler) {
    const struct culm_edge_load *load = &scheduler->load;
    struct query_state *state = &scheduler->query[load->query];
    uint64_t now = now_of(scheduler);
    scheduler->loading = false;
    if (load->job.status != CULM_OK) {
        culm_edge_residency_set(&scheduler->residency, load->tensor, CULM_EDGE_ABSENT);
        state->retry_ns = now + (RETRY_NS << (state->failures < RETRY_DOUBLINGS ? state->failures
                                                                                : RETRY_DOUBLINGS));
        state->failures++;
        state->totals.failures++;
        scheduler->target = scheduler->target == load->query ? -1 : scheduler->target;
        publish(scheduler, json_pack("{s:s, s:o, s:o}", "event", "load_failed", "query",
                                     culm_json_text(query_of(scheduler, load->query)->name),
                                     "error", culm_json_text(load->job.error.text)));
        return;
    }
    scheduler->o.exec->ops->loaded(scheduler->o.exec, load, now - load->begin_ns);
    culm_edge_residency_set(&scheduler->residency, load->tensor, CULM_EDGE_RESIDENT);
    state->load_bytes += scheduler->layout->tensor_bytes[load->tensor];
    scheduler->totals.loaded_bytes += (int64_t)scheduler->layout->tensor_bytes[load->tensor];
    scheduler->totals.loads++;
    if (culm_edge_all_there(scheduler, load->query) && state->load_bytes) {
        state->failures = 0;
        say_moved(scheduler, "load", load->query, state->load_bytes);
        state->load_bytes = 0;
    }
    if (!scheduler->residency.users[load->tensor]) { /* its last user went while it came */
        scheduler->victim[0] = load->tensor;
        evict(scheduler, 1);
    }
}

/* --- batches --- */

static void mark_run(struct culm_edge_scheduler *scheduler, bool begins) {
    const struct culm_edge_batch *batch = &scheduler->batch;
    struct feed_state *feed = &scheduler->feed[query_of(scheduler, batch->query)->feed];
    uint64_t bit = 1ull << batch->query;
    for (int32_t i = 0; i < feed->count; i++) {
        for (int32_t k = 0; k < batch->count; k++) {
            if (feed->slot[i].number == batch->look[k].frame) {
                feed->slot[i].pending &= ~bit;
                feed->slot[i].in_run =
                    begins ? feed->slot[i].in_run | bit : feed->slot[i].in_run & ~bit;
            }
        }
    }
}

/* Whether a frame could be answered now, were it not for tensors that have to come. */
static bool lacks_tensors(const struct culm_edge_scheduler *scheduler, uint64_t now_ns) {
    for (int32_t i = 0; i < scheduler->plan.count; i++) {
        int32_t query = scheduler->plan.order[i];
        if (!query_of(scheduler, query)->every_ns && !culm_edge_all_there(scheduler, query) &&
            culm_edge_in_time(scheduler, query, now_ns) > 0) {
            return true;
        }
    }
    return false;
}

/* Nothing runs from now on. */
static void count_idle(struct culm_edge_scheduler *scheduler, uint64_t now_ns, bool lacks) {
    if (scheduler->idle_since_ns) {
        scheduler->totals.waited_ns += now_ns - scheduler->idle_since_ns;
    }
    scheduler->idle_since_ns = lacks ? now_ns : 0;
}

/* False: nothing would be in time, or there is no room. */
static bool start(struct culm_edge_scheduler *scheduler, int32_t query, int32_t most,
                  uint64_t now_ns, bool may_evict) {
    struct culm_edge_batch batch;
    int32_t size = culm_edge_choose_batch(scheduler, query, most, now_ns, &batch);
    if (size < 0) {
        return false;
    }
    size_t activations = query_of(scheduler, query)->activation_bytes[size];
    size_t room = room_beside(scheduler, activations);
    if (scheduler->residency.bytes > room &&
        (!may_evict || !make_room(scheduler, room, 1ull << query, 0))) {
        return false;
    }
    set_activations(scheduler, activations);
    count_bytes(scheduler);
    batch.job = (struct culm_job){
        .execute = scheduler->o.exec->ops->infer, .cost_ns = batch.expected_ns, .owner = scheduler};
    batch.begin_ns = now_ns;
    scheduler->batch = batch;
    scheduler->running = true;
    scheduler->run_end_ns = now_ns + batch.expected_ns;
    mark_run(scheduler, true);
    scheduler->query[query].totals.visits++;
    count_idle(scheduler, now_ns, false);
    scheduler->o.world->ops->run(scheduler->o.world, &scheduler->batch.job);
    return true;
}

static void batch_done(struct culm_edge_scheduler *scheduler) {
    struct culm_edge_batch *batch = &scheduler->batch;
    struct query_state *state = &scheduler->query[batch->query];
    uint64_t now = now_of(scheduler);
    bool failed = batch->job.status != CULM_OK;
    scheduler->running = false;
    scheduler->kept_bytes = failed ? 0 : scheduler->activation_bytes;
    scheduler->totals.run_ns += batch->expected_ns;
    if (!failed) {
        scheduler->o.exec->ops->ran(scheduler->o.exec, batch, now - batch->begin_ns);
    }
    mark_run(scheduler, false);
    for (int32_t k = 0; k < batch->count; k++) {
        const struct culm_edge_look *look = &batch->look[k];
        if (failed || now > look->due_ns) {
            state->totals.late += !failed;
            drop(scheduler, batch->query, look, failed ? "it failed" : "it ended too late");
        } else {
            uint64_t wait = now - state->answered_ns;
            state->totals.frames++;
            state->totals.processed++;
            state->totals.shared += batch->shared_prefix >= 0;
            state->totals.longest_wait_ns =
                wait > state->totals.longest_wait_ns ? wait : state->totals.longest_wait_ns;
            state->answered_ns = now;
            scheduler->o.exec->ops->settled(scheduler->o.exec, batch->query, look, batch);
            say_frame(scheduler, batch->query, look, now, NULL);
        }
    }
    for (int32_t f = 0; f < scheduler->layout->feed_count; f++) {
        forget_seen(&scheduler->feed[f]);
    }
}

/* Its turn has come: those between the last one and it have been passed over. */
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
    int32_t kin = culm_edge_choose_kin(scheduler, now_ns);
    if (kin >= 0 && start(scheduler, kin, 1, now_ns, false)) {
        return;
    }
    if (scheduler->visiting >= 0) {
        if (scheduler->left > 0 && has_visit_to(scheduler, scheduler->visiting) &&
            culm_edge_all_there(scheduler, scheduler->visiting) &&
            start(scheduler, scheduler->visiting, scheduler->left, now_ns, true)) {
            scheduler->left -= scheduler->batch.count;
            return;
        }
        scheduler->visiting = -1;
    }
    culm_edge_choose_target(scheduler, now_ns);
    int32_t target = scheduler->target;
    if (target >= 0 && !scheduler->waits && culm_edge_all_there(scheduler, target)) {
        begin_visit(scheduler, target);
        if (start(scheduler, target, scheduler->left, now_ns, true)) {
            scheduler->left -= scheduler->batch.count;
            scheduler->target = -1;
            return;
        }
        scheduler->visiting = -1;
    }
    count_idle(scheduler, now_ns, lacks_tensors(scheduler, now_ns));
    try_load(scheduler, now_ns); /* while nothing runs there is most room */
    int32_t filler = culm_edge_choose_filler(scheduler, now_ns);
    if (filler >= 0) {
        start(scheduler, filler, 1, now_ns, false);
    }
}

/* --- the whole --- */

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

static json_t *totals_json(const struct culm_edge_scheduler *scheduler) {
    json_t *list = json_array();
    for (int32_t q = 0; q < scheduler->layout->query_count; q++) {
        const struct culm_edge_totals *totals = &scheduler->query[q].totals;
        if (query_of(scheduler, q)->every_ns) {
            continue; /* it looks at samples for somebody else */
        }
        json_array_append_new(
            list, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "query",
                            culm_json_text(query_of(scheduler, q)->name), "frames",
                            (json_int_t)totals->frames, "processed", (json_int_t)totals->processed,
                            "dropped", (json_int_t)totals->dropped, "late",
                            (json_int_t)totals->late, "shared", (json_int_t)totals->shared));
    }
    return list;
}

static void end(struct culm_edge_scheduler *scheduler) {
    uint64_t now = now_of(scheduler);
    double span = (double)(now - scheduler->begin_ns);
    count_idle(scheduler, now, false);
    scheduler->ended = true;
    publish(scheduler, json_pack("{s:s, s:o, s:I, s:I, s:f, s:I}", "event", "done", "queries",
                                 totals_json(scheduler), "resident_max_bytes",
                                 (json_int_t)scheduler->most_bytes, "limit_bytes",
                                 (json_int_t)scheduler->layout->limit_bytes, "load_share",
                                 span > 0 ? (double)scheduler->totals.waited_ns / span : 0.0,
                                 "loaded_bytes", (json_int_t)scheduler->totals.loaded_bytes));
    scheduler->o.world->ops->leave(scheduler->o.world, 0, NULL);
}

static void take_next(struct culm_edge_scheduler *scheduler);

static void advance(struct culm_edge_scheduler *scheduler) {
    if (scheduler->ended) {
        return;
    }
    uint64_t now = now_of(scheduler);
    if (scheduler->stopping) {
        if (!scheduler->running && !scheduler->loading) {
            end(scheduler);
        }
        return;
    }
    if (scheduler->next && !scheduler->running && !scheduler->loading) {
        take_next(scheduler);
    }
    uint64_t next = drop_too_old(scheduler, now);
    if (!scheduler->next) {
        if (!scheduler->running) {
            try_run(scheduler, now);
        }
        if (scheduler->running) {
            culm_edge_choose_target(scheduler, now);
        }
        try_load(scheduler, now);
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
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "a new layout that does not go on from the old one");
    }
    int32_t *victim = malloc(((size_t)layout->tensor_count + 1) * sizeof *victim);
    struct culm_edge_residency residency;
    if (!victim || culm_edge_residency_init(&residency, layout) != CULM_OK) {
        free(victim);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a new layout");
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

/* Nobody wants these answers any more. */
static void forget_gone(struct culm_edge_scheduler *scheduler) {
    const struct culm_edge_layout *layout = scheduler->layout;
    for (int32_t f = 0; f < layout->feed_count; f++) {
        struct feed_state *feed = &scheduler->feed[f];
        for (int32_t i = 0; i < feed->count; i++) {
            for (uint64_t left = feed->slot[i].pending; left; left &= left - 1) {
                const struct culm_edge_query *query = query_of(scheduler, __builtin_ctzll(left));
                if (query->gone || query->feed != f || layout->feed[f].gone) {
                    feed->slot[i].pending &= ~(left & -left);
                }
            }
        }
        forget_seen(feed);
        make_slot(scheduler, feed, scheduler->plan.slots + 1);
    }
}

/* Nothing runs and nothing is being loaded. */
static void take_next(struct culm_edge_scheduler *scheduler) {
    int32_t queries = scheduler->layout->query_count;
    culm_edge_residency_go_on(&scheduler->residency, &scheduler->next_residency);
    free(scheduler->victim);
    scheduler->victim = scheduler->next_victim;
    scheduler->layout = scheduler->next;
    scheduler->plan = scheduler->next_plan;
    scheduler->next = NULL;
    scheduler->next_victim = NULL;
    for (int32_t q = 0; q < scheduler->layout->query_count; q++) {
        struct query_state *state = &scheduler->query[q];
        uint64_t now = now_of(scheduler), every = scheduler->layout->query[q].every_ns;
        uint64_t first = now + scheduler->layout->query[q].after_ns;
        state->answered_ns = q >= queries ? now : state->answered_ns;
        if (every && !state->looked_ns) { /* one that samples from now on, in its turn */
            state->looked_ns = first > every ? first - every : 1;
        }
        state->passed_over = 0;
        state->retry_ns = 0;
    }
    scheduler->cursor = 0;
    scheduler->target = scheduler->visiting = -1;
    scheduler->batch.count = 0;
    forget_gone(scheduler);
    scheduler->frame_bytes = culm_edge_frames_bytes(scheduler->layout, scheduler->plan.slots);
    set_activations(scheduler, 0);
    /* What nobody uses goes at once, and more if frames now take its place. */
    int32_t count = 0;
    for (int32_t t = 0; t < scheduler->layout->tensor_count; t++) {
        if (scheduler->residency.state[t] == CULM_EDGE_RESIDENT && !scheduler->residency.users[t]) {
            scheduler->victim[count++] = t;
        }
    }
    evict(scheduler, count);
    make_room(scheduler, room_beside(scheduler, 0), 0, 0);
    count_bytes(scheduler);
    scheduler->o.exec->ops->relaid(scheduler->o.exec);
}

static void on_start(void *actor) {
    struct culm_edge_scheduler *scheduler = actor;
    uint64_t now = now_of(scheduler);
    scheduler->begin_ns = now;
    for (int32_t q = 0; q < CULM_EDGE_QUERIES_MAX; q++) {
        scheduler->query[q].answered_ns = now;
    }
    advance(scheduler);
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct culm_edge_scheduler *scheduler = actor;
    if (message->type == CULM_EDGE_FRAME && !scheduler->ended) {
        on_frame(scheduler, from, message);
        advance(scheduler);
    }
}

static void on_lost(void *actor, int32_t node) {
    struct culm_edge_scheduler *scheduler = actor;
    if (node >= 0 && node < CULM_EDGE_FEEDS_MAX) { /* also of a layout that is still to come */
        scheduler->feed[node].ended = true;
        publish(scheduler, json_pack("{s:s, s:i, s:b}", "event", "feed", "feed", node, "ended", 1));
        advance(scheduler);
    }
}

static void on_timer(void *actor, uint32_t timer) {
    (void)timer;
    advance(actor);
}

static void on_job_done(void *actor, struct culm_job *job) {
    struct culm_edge_scheduler *scheduler = actor;
    if (job == &scheduler->load.job) {
        load_done(scheduler);
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
    ret_memory->elapsed_ns = now_of(scheduler) - scheduler->begin_ns;
}

bool culm_edge_scheduler_holds(const struct culm_edge_scheduler *scheduler, int32_t tensor) {
    return scheduler->residency.state[tensor] == CULM_EDGE_RESIDENT;
}
