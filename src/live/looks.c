/*
 * How a run goes, as monitors see it: what the event `done` would say now, and the state of each feed and
 * query. The loop looks once a second.
 */
#include "live/run.h"

#include "base/clock.h"
#include "base/json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ILL 160
#define SILENT_NS UINT64_C(60000000000) /* a run that answers nothing for so long is not well */
#define PERIODS 3 /* of frames, after which one is missed, however seldom they come */

static json_t *seconds_since(uint64_t then, uint64_t now) {
    return then == 0 ? json_null() : json_real(now > then ? (double)(now - then) / 1e9 : 0.0);
}

/* --- feeds --- */

static const char *state_of_feed(const struct live_feed *feed, bool down, uint64_t now) {
    const uint64_t handed = __atomic_load_n(&feed->handed_ns, __ATOMIC_RELAXED);
    const uint64_t least = (uint64_t)feed->config->stall_ms * 1000000;
    const uint64_t stall = PERIODS * feed->period_ns > least ? PERIODS * feed->period_ns : least;
    const uint64_t begin = handed ? handed : feed->run->began_ns;
    return feed->ended               ? feed->failed ? "failed" : "ended"
           : down                    ? "down"
           : !handed                 ? "waiting"
           : now <= begin + stall    ? "up"
           : live_feed_follows(feed) ? "waiting"
                                     : "stalled";
}

/* When a query on the feed was last answered. */
static uint64_t answered_on(const struct culm_live *run, int32_t feed) {
    uint64_t at = 0;
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        at = query->feed == feed && query->original_of < 0 && query->answered_ns > at
                 ? query->answered_ns
                 : at;
    }
    return at;
}

/* *ret_silent_ns: without an answer for so long something is wrong; UINT64_MAX: nothing need come. */
static json_t *feeds_of(struct culm_live *run, uint64_t now, int *ret_well,
                        uint64_t *ret_silent_ns) {
    json_t *list = json_array();
    *ret_well = 0;
    *ret_silent_ns = UINT64_MAX;
    for (int32_t f = 0; f < run->feed_count; f++) {
        struct live_feed *feed = &run->feed[f];
        if (!feed->started || feed->gone) {
            continue;
        }
        const uint64_t seen = __atomic_load_n(&feed->seen_ns, __ATOMIC_ACQUIRE);
        const uint64_t handed = __atomic_load_n(&feed->handed_ns, __ATOMIC_RELAXED);
        const uint64_t period = seen ? seen : feed->period_ns;
        pthread_mutex_lock(&feed->lock);
        const struct culm_edge_outage outage = feed->outage;
        pthread_mutex_unlock(&feed->lock);
        const char *state = state_of_feed(feed, outage.down, now);
        *ret_well += strcmp(state, "up") == 0 || strcmp(state, "waiting") == 0;
        if (!feed->ended && !live_feed_follows(feed)) {
            const uint64_t known = *ret_silent_ns == UINT64_MAX ? SILENT_NS : *ret_silent_ns;
            *ret_silent_ns = PERIODS * period > known ? PERIODS * period : known;
        }
        json_array_append_new(
            list,
            json_pack(
                "{s:o, s:s, s:I, s:f, s:I, s:I, s:f, s:o, s:o, s:o}", "feed",
                culm_json_text(feed->config->name), "state", state, "frames",
                (json_int_t)__atomic_load_n(&feed->handed, __ATOMIC_RELAXED), "fps",
                period > 0 ? 1e9 / (double)period : 0.0, "outages",
                (json_int_t)outage.reconnects + outage.down, "reconnects",
                (json_int_t)outage.reconnects, "down_s",
                (double)culm_edge_outage_down_ns(&outage, now) / 1e9, "lag_ms",
                handed ? json_real((double)__atomic_load_n(&feed->lag_ns, __ATOMIC_RELAXED) / 1e6)
                       : json_null(),
                "frame_age_s", seconds_since(handed, now), "answer_age_s",
                seconds_since(answered_on(run, f), now)));
    }
    return list;
}

/* --- queries --- */

/* On which weights it runs, and why. */
static const char *state_of_query(const struct culm_live *run, const struct live_query *query) {
    const struct culm_live_form form = {query->merged, query->original, query->entry->part_count};
    return run->round < 0 || !run->package  ? "original"
           : query->retrained               ? "retrained"
           : query->unmeasured              ? "unmeasured"
           : query->reverted                ? "reverted"
           : !culm_live_form_differs(&form) ? "original"
           : query->plain                   ? "chosen"
                                            : "merged";
}

static void add_query(struct culm_live *run, json_t *item, uint64_t now, uint64_t *latest) {
    const char *name = json_string_value(json_object_get(item, "query"));
    const json_int_t frames = culm_event_int(item, "frames", 0);
    json_object_set_new(
        item, "in_time",
        frames > 0 ? json_real((double)culm_event_int(item, "processed", 0) / (double)frames)
                   : json_null());
    json_object_set_new(item, "state", json_string("removed"));
    for (int32_t q = 0; q < run->query_count && name; q++) {
        const struct live_query *query = &run->query[q];
        if (query->gone || query->original_of >= 0 ||
            strcmp(query->entry->config->name, name) != 0) {
            continue;
        }
        *latest = query->answered_ns > *latest ? query->answered_ns : *latest;
        json_object_set_new(item, "state", json_string(state_of_query(run, query)));
        json_object_set_new(item, "feed", culm_json_text(run->feed[query->feed].config->name));
        json_object_set_new(item, "bytes",
                            json_integer((json_int_t)culm_edge_query_bytes(&run->laid->layout, q)));
        json_object_set_new(item, "answer_age_s", seconds_since(query->answered_ns, now));
    }
}

json_t *live_look_at(struct culm_live *run, char *ret_ill) {
    const uint64_t now = culm_clock_ns();
    struct culm_edge_memory memory;
    uint64_t latest = run->began_ns, silent_ns;
    int well;
    json_t *look = culm_edge_scheduler_report(run->scheduler), *item;
    size_t i;
    if (!look) {
        return NULL;
    }
    live_fill_done(run, look);
    json_object_del(look, "event");
    json_object_set_new(look, "feeds", feeds_of(run, now, &well, &silent_ns));
    json_array_foreach(json_object_get(look, "queries"), i, item) {
        add_query(run, item, now, &latest);
    }
    culm_edge_scheduler_memory(run->scheduler, &memory);
    json_object_set_new(look, "pid", json_integer(getpid()));
    json_object_set_new(look, "began", json_string(run->began));
    json_object_set_new(look, "uptime_s", seconds_since(run->began_ns, now));
    json_object_set_new(look, "resident_bytes",
                        json_integer((json_int_t)(memory.tensor_bytes + memory.activation_bytes +
                                                  memory.frame_bytes)));
    json_object_set_new(
        look, "saved",
        json_real(run->saving.own > 0 ? 1 - run->saving.laid / run->saving.own : 0.0));
    snprintf(ret_ill, ILL, "%s",
             well == 0 ? "no feed gives frames"
             : silent_ns < UINT64_MAX && now - latest > silent_ns
                 ? "nothing has been answered for a minute"
                 : "");
    return look;
}
