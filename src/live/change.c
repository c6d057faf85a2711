/*
 * What changes while a run goes on: rounds of the package, the workload (reload.c), run
 * times, and models that go back to their own weights (drift.c).
 *
 * Every change leads to a new layout, which the scheduler takes up once nothing runs. Queries and
 * feeds are only ever added or marked as gone. If anything goes wrong, everything stays as it was
 * and an event says why.
 */
#include "live/run.h"

#include "base/clock.h"
#include "base/json.h"
#include "edge/planner.h"

#include <stdlib.h>
#include <string.h>

#define TIMES_NS 5000000000ull /* how often run times are compared with what was expected, */
#define AGAIN_NS 5000000000ull /* how long after a refused round it is tried again */
#define TIMES_OFF 0.15         /* and by how much they may differ */

/* --- layouts --- */

/* Makes a layout, and a plan unless one is given, and hands both to the scheduler. The caller holds
 * run->lock, and no other layout is pending. */
static enum culm_status relay(struct culm_live *run, const struct culm_edge_plan *made,
                              struct culm_error *error) {
    struct culm_live_laid *laid = NULL;
    struct culm_edge_plan plan = made ? *made : (struct culm_edge_plan){0};
    enum culm_status status = live_lay(run, &laid, error);
    const struct culm_edge_plan_options how = {
        .given_order = run->catalog[0]->workload.edge.order == CULM_EDGE_ORDER_GIVEN,
        .work = CULM_EDGE_PLAN_HASTE};
    status = status || made ? status : culm_edge_plan_make(&laid->layout, &how, &plan, error);
    if (status == CULM_OK) {
        run->next = laid;
        run->next_plan = plan;
        run->next_is_quick = !made; /* frames wait; the planner's thread looks for a better one */
        status = culm_edge_scheduler_update(run->scheduler, &laid->layout, &plan, error);
        if (status == CULM_OK) {
            return CULM_OK; /* and it may already be in force, with run->next NULL again */
        }
        run->next = NULL;
    }
    culm_live_laid_free(laid);
    return status;
}

/* What is put back if a change fails. */
struct before {
    int32_t query_count, feed_count;
    bool query_gone[CULM_EDGE_QUERIES_MAX], feed_gone[CULM_EDGE_FEEDS_MAX];
    uint64_t period_ns[CULM_EDGE_FEEDS_MAX];
    bool reverted[CULM_EDGE_QUERIES_MAX], plain[CULM_EDGE_QUERIES_MAX],
        own_tensors[CULM_EDGE_QUERIES_MAX];
    double deadline_ms[CULM_EDGE_QUERIES_MAX], score[CULM_EDGE_QUERIES_MAX],
        target[CULM_EDGE_QUERIES_MAX];
    double promised[CULM_EDGE_QUERIES_MAX];
    struct live_record record[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_drift checks[CULM_EDGE_QUERIES_MAX];
    int32_t shadow[CULM_EDGE_QUERIES_MAX];
    int32_t *source[CULM_EDGE_QUERIES_MAX], *original[CULM_EDGE_QUERIES_MAX],
        *merged[CULM_EDGE_QUERIES_MAX];
    int64_t round, layer_bytes, layer_distinct;
    char round_digest[CULM_SHA256_HEX];
    size_t placed;
};

static int32_t *copy_of(const int32_t *list, int32_t count) {
    int32_t *copy = malloc(((size_t)count + 1) * sizeof *copy);
    if (copy) {
        memcpy(copy, list, (size_t)count * sizeof *copy);
    }
    return copy;
}

static struct live_record copy_of_record(const struct live_record *record) {
    struct live_record copy = *record;
    size_t bytes = (size_t)record->count * sizeof *copy.wrong;
    copy.wrong = bytes ? malloc(bytes) : NULL;
    copy.count = copy.wrong ? record->count : 0; /* out of memory: as if it were not known */
    if (copy.wrong) {
        memcpy(copy.wrong, record->wrong, bytes);
    }
    return copy;
}

static bool remember(const struct culm_live *run, struct before *before) {
    bool ok = true;
    *before = (struct before){
        .query_count = run->query_count,
        .feed_count = run->feed_count,
        .round = run->round,
        .layer_bytes = run->layer_bytes,
        .layer_distinct = run->layer_distinct,
        .placed = run->arena.placed,
    };
    memcpy(before->round_digest, run->round_digest, sizeof before->round_digest);
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        before->query_gone[q] = query->gone;
        before->shadow[q] = query->shadow;
        before->reverted[q] = query->reverted;
        before->plain[q] = query->plain;
        before->own_tensors[q] = query->own_tensors;
        before->deadline_ms[q] = query->deadline_ms;
        before->score[q] = query->score;
        before->target[q] = query->target;
        before->promised[q] = query->promised;
        before->record[q] = copy_of_record(&query->record);
        before->checks[q] = query->checks;
        before->source[q] = copy_of(query->source, query->entry->part_count);
        before->original[q] = copy_of(query->original, query->entry->part_count);
        before->merged[q] = copy_of(query->merged, query->entry->part_count);
        ok &= before->source[q] && before->original[q] && before->merged[q];
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        before->feed_gone[f] = run->feed[f].gone;
        before->period_ns[f] = run->feed[f].period_ns;
    }
    return ok;
}

/* Undoes a change; queries and feeds that it added go without a trace, down to their addresses. */
static void put_back(struct culm_live *run, struct before *before) {
    while (run->query_count > before->query_count) {
        live_take_back_out(run, &run->query[--run->query_count]);
        live_release_query(&run->query[run->query_count]);
    }
    while (run->feed_count > before->feed_count) {
        struct live_feed *feed = &run->feed[--run->feed_count];
        pthread_mutex_destroy(&feed->slots_lock);
        *feed = (struct live_feed){0};
    }
    culm_live_places_forget(&run->unit, &run->arena, before->placed);
    for (int32_t q = 0; q < run->query_count; q++) {
        struct live_query *query = &run->query[q];
        query->gone = before->query_gone[q];
        query->deadline_ms = before->deadline_ms[q];
        query->score = before->score[q];
        query->target = before->target[q];
        query->promised = before->promised[q];
        query->checks = before->checks[q];
        const struct live_record record = query->record;
        query->record = before->record[q];
        query->null_period_ns = 0;
        before->record[q] = record;
        free(query->next_at);
        query->next_at = NULL;
        if (before->source[q] && before->original[q] && before->merged[q]) {
            int32_t *source = query->source, *original = query->original, *merged = query->merged;
            query->shadow = before->shadow[q];
            query->reverted = before->reverted[q];
            query->plain = before->plain[q];
            query->own_tensors = before->own_tensors[q];
            query->source = before->source[q];
            query->original = before->original[q];
            query->merged = before->merged[q];
            before->source[q] = source;
            before->original[q] = original;
            before->merged[q] = merged;
        }
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        run->feed[f].gone = before->feed_gone[f];
        run->feed[f].period_ns = before->period_ns[f];
        run->feed[f].next = NULL;
    }
    run->round = before->round; /* so that a round that was refused is tried again later */
    run->layer_bytes = before->layer_bytes;
    run->layer_distinct = before->layer_distinct;
    memcpy(run->round_digest, before->round_digest, sizeof run->round_digest);
}

static void forget(struct before *before) {
    for (int32_t q = 0; q < before->query_count; q++) {
        free(before->source[q]);
        free(before->original[q]);
        free(before->merged[q]);
        free(before->record[q].wrong);
    }
}

enum culm_status live_try(struct culm_live *run,
                          enum culm_status (*change)(struct culm_live *run,
                                                     struct culm_error *error),
                          const struct culm_edge_plan *plan, struct culm_error *error) {
    struct before before;
    enum culm_status status =
        remember(run, &before) ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    pthread_mutex_lock(&run->lock);
    status = status || !change ? status : change(run, error);
    status = status ? status : relay(run, plan, error);
    if (status != CULM_OK) {
        put_back(run, &before);
    }
    pthread_mutex_unlock(&run->lock);
    forget(&before);
    return status;
}

/* --- rounds --- */

void live_round(struct culm_live *run) {
    struct culm_error error;
    int64_t before = run->round;
    uint64_t now = culm_clock_ns();
    if (now < run->round_ns) {
        return;
    }
    run->round_ns = now + AGAIN_NS;
    if (live_try(run, live_sources, NULL, &error) == CULM_OK) {
        run->round_ns = 0;
        run->round_error[0] = '\0';
        run->mend = true;
        live_publish(run, json_pack("{s:s, s:I, s:o}", "event", "round", "round",
                                    (json_int_t)run->round, "package", live_package(run)));
        return;
    }
    if (strcmp(error.text, run->round_error) == 0) {
        return; /* said before */
    }
    memcpy(run->round_error, error.text, sizeof run->round_error);
    live_publish(run, json_pack("{s:s, s:I, s:o}", "event", "round", "kept", (json_int_t)before,
                                "error", culm_json_text(error.text)));
}

/* --- run times and feed rates --- */

/* Whether models take longer, or less long, than was assumed; corrects the assumption. */
static bool times_differ(struct culm_live *run) {
    bool differ = false;
    for (int32_t q = 0; q < run->query_count; q++) {
        struct live_query *query = &run->query[q];
        for (int32_t b = 0; b < query->sizes && !query->gone; b++) {
            double took = query->took_ms[b], *thought = &query->entry->times.run_ms[b];
            if (query->original_of < 0 && b == 0 && *thought >= query->deadline_ms) {
                *thought = 0.9 * query->deadline_ms; /* else it would never be run, nor measured */
                query->took_ms[b] = 0;
                differ = true;
            } else if (query->original_of < 0 && took > 0 &&
                       (took > *thought * (1 + TIMES_OFF) || took < *thought * (1 - TIMES_OFF))) {
                *thought = took;
                differ = true;
            }
            live_shares(query, &query->entry->times, b);
        }
    }
    return differ;
}

/* Whether feeds are faster or slower than was assumed; corrects the assumption. */
static bool feeds_differ(struct culm_live *run) {
    bool differ = false;
    for (int32_t f = 0; f < run->feed_count; f++) {
        struct live_feed *feed = &run->feed[f];
        double seen = (double)__atomic_load_n(&feed->seen_ns, __ATOMIC_ACQUIRE);
        double thought = (double)feed->period_ns;
        if (!feed->gone && seen > 0 &&
            (seen > thought * (1 + TIMES_OFF) || seen < thought * (1 - TIMES_OFF))) {
            feed->period_ns = (uint64_t)seen;
            differ = true;
        }
    }
    return differ;
}

/* Going back to the original weights, or to the merged ones, has failed: sets the mark to what a
 * query does run on, so that its checks go on and ask for it again. */
static void revert_again(struct culm_live *run) {
    for (int32_t q = 0; q < run->query_count; q++) {
        struct live_query *query = &run->query[q];
        size_t bytes = (size_t)query->entry->part_count * sizeof *query->source;
        bool own = !query->source || !query->original ||
                   memcmp(query->source, query->original, bytes) == 0;
        bool differ = own && query->merged && memcmp(query->merged, query->original, bytes) != 0;
        query->reverted = own && (query->reverted || (differ && !query->plain));
        query->checks.away = query->reverted;
    }
}

void live_settle(struct culm_live *run) {
    struct culm_error error;
    uint64_t now = culm_clock_ns();
    if (run->next) {
        return; /* one change at a time */
    }
    if (now > run->timed_ns + TIMES_NS) {
        run->changed |= run->timed_ns > 0 && times_differ(run);
        run->changed |= feeds_differ(run);
        run->timed_ns = now;
    }
    if (run->changed) {
        run->changed = false;
        if (live_try(run, live_wear, NULL, &error) != CULM_OK) {
            revert_again(run);
            live_warn(run, error.text);
        }
    }
}
