/* The scheduler: loading and evicting tensors, and the memory of activations. */
#include "edge/scheduler_internal.h"

#include "base/json.h"
#include "base/mark.h"

#define RETRY_NS 10000000ull /* the pause after a failed load, which doubles each time, */
#define RETRY_DOUBLINGS 7    /* up to so many times */

void scheduler_count_frames(struct culm_edge_scheduler *scheduler) {
    size_t says = culm_edge_frames_bytes(scheduler->layout, scheduler->plan.slots);
    size_t holds = scheduler->o.exec->ops->frames(scheduler->o.exec);
    if (holds > says) {
        CULM_MARK(edge_frames_of_the_layout_before_take_room);
    }
    scheduler->frames_over = holds > says;
    scheduler->frame_bytes = holds > says ? holds : says;
}

void scheduler_count_bytes(struct culm_edge_scheduler *scheduler) {
    size_t bytes = scheduler_bytes_now(scheduler);
    scheduler->most_bytes = bytes > scheduler->most_bytes ? bytes : scheduler->most_bytes;
}

size_t scheduler_room_beside(const struct culm_edge_scheduler *scheduler, size_t activations) {
    size_t taken = scheduler->frame_bytes + activations;
    return scheduler->layout->limit_bytes > taken ? scheduler->layout->limit_bytes - taken : 0;
}

void scheduler_set_activations(struct culm_edge_scheduler *scheduler, size_t bytes) {
    scheduler->kept_bytes = bytes < scheduler->kept_bytes ? bytes : scheduler->kept_bytes;
    if (bytes != scheduler->activation_bytes) {
        scheduler->activation_bytes = bytes;
        scheduler->o.exec->ops->activations(scheduler->o.exec, bytes);
    }
}

/* The query that events name for a tensor: the first of its users. */
static int32_t owner_of(const struct culm_edge_scheduler *scheduler, int32_t tensor) {
    uint64_t users = scheduler->residency.users[tensor];
    return users ? __builtin_ctzll(users) : 0;
}

static void say_load(struct culm_edge_scheduler *scheduler, int32_t query) {
    struct query_state *state = &scheduler->query[query];
    if (state->load_bytes) {
        scheduler_say_moved(scheduler, "load", query, state->load_bytes);
        state->load_bytes = 0;
    }
}

void scheduler_say_loads(struct culm_edge_scheduler *scheduler) {
    for (int32_t q = 0; q < scheduler->layout->query_count; q++) {
        say_load(scheduler, q);
    }
}

/* Publishes the loads of queries that do not have all of their tensors yet before such a tensor is
 * evicted, so that no event `evict` is about bytes that no `load` was about. */
static void say_loads_of(struct culm_edge_scheduler *scheduler, int32_t tensor) {
    const uint64_t users = scheduler->residency.users[tensor];
    for (int32_t q = 0; q < scheduler->layout->query_count; q++) {
        if (users >> q & 1) {
            say_load(scheduler, q);
        }
    }
}

void scheduler_evict(struct culm_edge_scheduler *scheduler, int32_t count) {
    size_t bytes[CULM_EDGE_QUERIES_MAX] = {0};
    for (int32_t v = 0; v < count; v++) {
        say_loads_of(scheduler, scheduler->victim[v]);
    }
    for (int32_t v = 0; v < count; v++) {
        int32_t tensor = scheduler->victim[v];
        bytes[owner_of(scheduler, tensor)] += scheduler->layout->tensor_bytes[tensor];
        scheduler->o.exec->ops->evict(scheduler->o.exec, tensor);
        culm_edge_residency_set(&scheduler->residency, tensor, CULM_EDGE_ABSENT);
    }
    scheduler->totals.evictions += count;
    for (int32_t q = 0; q < scheduler->layout->query_count; q++) {
        if (bytes[q]) {
            scheduler_say_moved(scheduler, "evict", q, bytes[q]);
        }
    }
}

bool scheduler_make_room(struct culm_edge_scheduler *scheduler, size_t most_bytes, uint64_t pinned,
                         int32_t before) {
    int32_t turn[CULM_EDGE_QUERIES_MAX];
    if (scheduler->residency.bytes <= most_bytes) {
        return true;
    }
    scheduler_turns(scheduler, turn);
    int32_t count =
        culm_edge_residency_victims(&scheduler->residency, most_bytes, turn, pinned, before,
                                    scheduler->plan.eviction, scheduler->victim);
    if (count > 0) {
        scheduler_evict(scheduler, count);
    }
    return count >= 0;
}

static uint64_t pins(const struct culm_edge_scheduler *scheduler) {
    uint64_t pinned = scheduler->running ? 1ull << scheduler->batch.query : 0;
    pinned |= scheduler->target >= 0 ? 1ull << scheduler->target : 0;
    return pinned | (scheduler->visiting >= 0 ? 1ull << scheduler->visiting : 0);
}

void scheduler_try_load(struct culm_edge_scheduler *scheduler, uint64_t now_ns) {
    int32_t target = scheduler->target, tensor = -1;
    if (scheduler->loading || target < 0 || scheduler->query[target].retry_ns > now_ns) {
        return;
    }
    const struct culm_edge_query *of = scheduler_query_of(scheduler, target);
    for (int32_t i = 0; i < of->tensor_count && tensor < 0; i++) {
        tensor = scheduler->residency.state[of->tensor[i]] == CULM_EDGE_ABSENT ? of->tensor[i] : -1;
    }
    if (tensor < 0) {
        return;
    }
    size_t bytes = scheduler->layout->tensor_bytes[tensor];
    size_t room = scheduler_room_beside(scheduler, scheduler->activation_bytes);
    if (!scheduler->running && scheduler->residency.bytes + bytes > room) {
        scheduler_set_activations(scheduler, scheduler_kept_for(scheduler, target, now_ns));
        room = scheduler_room_beside(scheduler, scheduler->activation_bytes);
    }
    if (room < bytes) {
        CULM_MARK(edge_load_waits_for_the_batch);
        return; /* there is room once the batch has ended */
    }
    int32_t before = 0;
    if (scheduler->running && scheduler->plan.patient) {
        int32_t turn[CULM_EDGE_QUERIES_MAX];
        scheduler_turns(scheduler, turn);
        before = turn[scheduler->batch.query];
    }
    uint64_t pinned = pins(scheduler);
    if (!scheduler_make_room(scheduler, room - bytes, pinned, before) &&
        (scheduler->running || !scheduler_make_room(scheduler, room - bytes, 1ull << target, 0))) {
        CULM_MARK(edge_load_finds_nothing_to_evict);
        return;
    }
    culm_edge_residency_set(&scheduler->residency, tensor, CULM_EDGE_LOADING);
    scheduler_count_bytes(scheduler);
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

void scheduler_load_done(struct culm_edge_scheduler *scheduler) {
    const struct culm_edge_load *load = &scheduler->load;
    struct query_state *state = &scheduler->query[load->query];
    uint64_t now = scheduler_now_ns(scheduler);
    scheduler->loading = false;
    if (load->job.status != CULM_OK) {
        CULM_MARK(edge_load_failed);
        culm_edge_residency_set(&scheduler->residency, load->tensor, CULM_EDGE_ABSENT);
        state->retry_ns = now + (RETRY_NS << (state->failures < RETRY_DOUBLINGS ? state->failures
                                                                                : RETRY_DOUBLINGS));
        state->failures++;
        state->totals.failures++;
        scheduler->target = scheduler->target == load->query ? -1 : scheduler->target;
        scheduler_publish(
            scheduler, json_pack("{s:s, s:o, s:o}", "event", "load_failed", "query",
                                 culm_json_text(scheduler_query_of(scheduler, load->query)->name),
                                 "error", culm_json_text(load->job.error.text)));
        return;
    }
    scheduler->o.exec->ops->loaded(scheduler->o.exec, load, now - load->begin_ns);
    culm_edge_residency_set(&scheduler->residency, load->tensor, CULM_EDGE_RESIDENT);
    state->load_bytes += scheduler->layout->tensor_bytes[load->tensor];
    scheduler->totals.loaded_bytes += (int64_t)scheduler->layout->tensor_bytes[load->tensor];
    scheduler->totals.loads++;
    state->was_there |= scheduler_all_there(scheduler, load->query);
    if (scheduler_all_there(scheduler, load->query) && state->load_bytes) {
        if (state->failures > 0) {
            CULM_MARK(edge_loaded_after_all);
        }
        state->failures = 0;
        say_load(scheduler, load->query);
    }
}
