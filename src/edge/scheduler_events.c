/* The events that the scheduler publishes. */
#include "edge/scheduler_internal.h"

#include "base/json.h"

#include <math.h>

void scheduler_publish(struct culm_edge_scheduler *scheduler, json_t *take_event) {
    if (scheduler->o.quiet) {
        json_decref(take_event);
    } else if (take_event) {
        scheduler->o.world->ops->publish(scheduler->o.world, take_event);
    }
}

void scheduler_say_moved(struct culm_edge_scheduler *scheduler, const char *event, int32_t query,
                         size_t bytes) {
    if (!scheduler->o.quiet) {
        scheduler_publish(scheduler,
                          json_pack("{s:s, s:o, s:I, s:I}", "event", event, "query",
                                    culm_json_text(scheduler_query_of(scheduler, query)->name),
                                    "bytes", (json_int_t)bytes, "resident_bytes",
                                    (json_int_t)scheduler_bytes_now(scheduler)));
    }
}

/* Milliseconds since the scheduler started, as events have them. */
static double since(const struct culm_edge_scheduler *scheduler, uint64_t ns) {
    return floor(((double)ns - (double)scheduler->begin_ns) / 1e3 + 0.5) /
           1e3; /* to a microsecond */
}

void scheduler_say_frame(struct culm_edge_scheduler *scheduler, int32_t query,
                         const struct culm_edge_look *look, uint64_t done_ns, const char *why) {
    if (scheduler->o.quiet || scheduler_query_of(scheduler, query)->every_ns) {
        return;
    }
    json_t *event = json_pack("{s:s, s:o, s:I, s:f}", "event", "frame", "query",
                              culm_json_text(scheduler_query_of(scheduler, query)->name), "frame",
                              (json_int_t)look->frame, "due_ms", since(scheduler, look->due_ns));
    if (why) {
        json_object_set_new(event, "dropped", json_true());
        json_object_set_new(event, "why", json_string(why));
    } else {
        json_object_set_new(event, "done_ms", json_real(since(scheduler, done_ns)));
    }
    scheduler_publish(scheduler, event);
}

static json_t *totals_json(const struct culm_edge_scheduler *scheduler) {
    json_t *list = json_array();
    for (int32_t q = 0; q < scheduler->layout->query_count; q++) {
        const struct culm_edge_totals *totals = &scheduler->query[q].totals;
        if (scheduler_query_of(scheduler, q)->every_ns) {
            continue; /* it looks at samples for somebody else */
        }
        json_array_append_new(
            list, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "query",
                            culm_json_text(scheduler_query_of(scheduler, q)->name), "frames",
                            (json_int_t)totals->frames, "processed", (json_int_t)totals->processed,
                            "dropped", (json_int_t)totals->dropped, "late",
                            (json_int_t)totals->late, "shared", (json_int_t)totals->shared));
    }
    return list;
}

json_t *culm_edge_scheduler_report(const struct culm_edge_scheduler *scheduler) {
    double span = (double)(scheduler_now_ns(scheduler) - scheduler->begin_ns);
    return json_pack("{s:s, s:o, s:I, s:I, s:f, s:I}", "event", "done", "queries",
                     totals_json(scheduler), "resident_max_bytes",
                     (json_int_t)scheduler->most_bytes, "limit_bytes",
                     (json_int_t)scheduler->layout->limit_bytes, "load_share",
                     span > 0 ? (double)scheduler->totals.waited_ns / span : 0.0, "loaded_bytes",
                     (json_int_t)scheduler->totals.loaded_bytes);
}
