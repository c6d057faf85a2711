/* The scheduler: how frames arrive, wait and are dropped. */
#include "edge/scheduler_internal.h"

#include "base/buf.h"
#include "base/mark.h"

#include <string.h>

void scheduler_drop(struct culm_edge_scheduler *scheduler, int32_t query,
                    const struct culm_edge_look *look, const char *why) {
    struct culm_edge_totals *totals = &scheduler->query[query].totals;
    totals->frames++;
    totals->dropped++;
    scheduler->o.exec->ops->settled(scheduler->o.exec, query, look, NULL);
    scheduler_say_frame(scheduler, query, look, 0, why);
}

static void drop_waiting(struct culm_edge_scheduler *scheduler, int32_t query,
                         struct waiting_frame *frame, const char *why) {
    const struct culm_edge_look look = {.frame = frame->number,
                                        .at_ns = frame->at_ns,
                                        .due_ns = scheduler_due_ns(scheduler, query, frame),
                                        .blob = frame->blob};
    frame->pending &= ~(1ull << query);
    scheduler_drop(scheduler, query, &look, why);
}

static void forget(struct feed_state *feed, int32_t at) {
    culm_blob_unref(feed->slot[at].blob);
    memmove(&feed->slot[at], &feed->slot[at + 1],
            (size_t)(feed->count - at - 1) * sizeof feed->slot[at]);
    feed->count--;
}

void scheduler_forget_seen(struct feed_state *feed) {
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

/* Makes room for one more frame by dropping the oldest. False: all of them are in batches. */
static bool make_slot(struct culm_edge_scheduler *scheduler, struct feed_state *feed,
                      int32_t slots) {
    while (feed->count >= slots) {
        int32_t oldest = 0;
        while (oldest < feed->count && feed->slot[oldest].in_run) {
            oldest++;
        }
        if (oldest == feed->count) {
            CULM_MARK(edge_all_slots_are_in_a_batch);
            return false;
        }
        CULM_MARK(edge_newer_frames_came);
        drop_for_all(scheduler, &feed->slot[oldest], "newer frames came");
        forget(feed, oldest);
    }
    return true;
}

/* Whether a query that samples looks at a frame that arrived at `at_ns`. */
static bool samples(const struct culm_edge_scheduler *scheduler, const struct culm_edge_query *of,
                    struct query_state *state, uint64_t at_ns) {
    if (state->burst_left == 0) {
        if (at_ns < scheduler_burst_ns(scheduler, of, state)) {
            return false;
        }
        state->looked_ns = at_ns ? at_ns : 1;
        state->burst_left = of->burst > 0 ? of->burst : 1;
    }
    state->burst_left--;
    return true;
}

void scheduler_hear_frame(struct culm_edge_scheduler *scheduler, int32_t from,
                          const struct culm_message *message) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    const bool missed = message->type == CULM_EDGE_FRAME_MISSED;
    const bool lost = missed || message->type == CULM_EDGE_FRAME_LOST;
    struct waiting_frame frame = {.number = (int64_t)culm_read_u64(&reader),
                                  .at_ns = culm_read_u64(&reader),
                                  .blob = message->payload};
    if (!culm_reader_done(&reader) || from < 0 || from >= scheduler->layout->feed_count ||
        scheduler->layout->feed[from].gone) {
        CULM_MARK(edge_frame_of_a_feed_that_is_gone);
        return;
    }
    struct feed_state *feed = &scheduler->feed[from];
    feed->there = true;
    feed->seen++;
    feed->last_ns = frame.at_ns;
    for (int32_t i = 0; i < scheduler->plan.count; i++) {
        int32_t query = scheduler->plan.order[i];
        const struct culm_edge_query *of = scheduler_query_of(scheduler, query);
        struct query_state *state = &scheduler->query[query];
        if (of->feed == from &&
            (!of->every_ns || (!lost && samples(scheduler, of, state, frame.at_ns)))) {
            frame.pending |= 1ull << query;
        }
    }
    if (!frame.pending) {
        return;
    }
    if (!lost && make_slot(scheduler, feed, scheduler->plan.slots)) {
        culm_blob_ref(frame.blob);
        feed->slot[feed->count++] = frame;
    } else {
        CULM_MARK(edge_frame_without_room);
        drop_for_all(scheduler, &frame, missed ? "the feed came too slowly" : "no room for it");
    }
}

uint64_t scheduler_drop_too_old(struct culm_edge_scheduler *scheduler, uint64_t now_ns) {
    uint64_t next_ns = CULM_NEVER;
    for (int32_t f = 0; f < scheduler->layout->feed_count; f++) {
        struct feed_state *feed = &scheduler->feed[f];
        for (int32_t i = 0; i < feed->count; i++) {
            for (uint64_t left = feed->slot[i].pending; left; left &= left - 1) {
                int32_t query = __builtin_ctzll(left);
                const struct culm_edge_query *of = scheduler_query_of(scheduler, query);
                uint64_t due = scheduler_due_ns(scheduler, query, &feed->slot[i]);
                uint64_t least = of->run_ns[0];
                if (of->prefixes) {
                    least -= of->prefix[of->prefixes - 1].run_ns[0];
                }
                if (now_ns + least > due) {
                    CULM_MARK(edge_no_time_is_left);
                    drop_waiting(scheduler, query, &feed->slot[i], "no time left");
                } else if (due - least + 1 < next_ns) {
                    next_ns = due - least + 1;
                }
            }
        }
        scheduler_forget_seen(feed);
    }
    return next_ns;
}

void scheduler_mark_run(struct culm_edge_scheduler *scheduler, bool begins) {
    const struct culm_edge_batch *batch = &scheduler->batch;
    struct feed_state *feed = &scheduler->feed[scheduler_query_of(scheduler, batch->query)->feed];
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

void scheduler_forget_gone(struct culm_edge_scheduler *scheduler) {
    const struct culm_edge_layout *layout = scheduler->layout;
    for (int32_t f = 0; f < layout->feed_count; f++) {
        struct feed_state *feed = &scheduler->feed[f];
        for (int32_t i = 0; i < feed->count; i++) {
            for (uint64_t left = feed->slot[i].pending; left; left &= left - 1) {
                const struct culm_edge_query *query =
                    scheduler_query_of(scheduler, __builtin_ctzll(left));
                if (query->gone || query->feed != f || layout->feed[f].gone) {
                    CULM_MARK(edge_frame_for_a_query_that_is_gone);
                    feed->slot[i].pending &= ~(left & -left);
                }
            }
        }
        scheduler_forget_seen(feed);
        make_slot(scheduler, feed, scheduler->plan.slots + 1);
    }
}
