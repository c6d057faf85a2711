/*
 * What changes in mid-run: rounds of the package, the workload, run times, and models that went back to
 * their own weights (edge_run_drift.c).
 *
 * All of it ends in a new layout, which the scheduler takes up when nothing runs. Queries and feeds are
 * only added or marked as gone. If something is wrong, everything stays as it was and an event says why.
 */
#include "run/edge_run.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/words.h"

#include <stdlib.h>
#include <string.h>

#define TIMES_NS 5000000000ull /* how often run times are compared with what was expected */
#define AGAIN_NS 5000000000ull /* from a round that was refused until it is tried again */
#define TIMES_OFF 0.15         /* how far they may be apart */

/* --- layouts --- */

/* Lays, plans unless there is a plan, and hands over. The store is locked by the caller, and no layout is
 * to come. */
static enum culm_status relay(struct culm_edge_running *run, const struct culm_edge_plan *made,
                              struct culm_error *error) {
    struct culm_edge_laid *laid = NULL;
    struct culm_edge_plan plan = made ? *made : (struct culm_edge_plan){0};
    enum culm_status status = culm_edge_running_lay(run, &laid, error);
    const struct culm_edge_plan_options how = {
        .given_order = run->catalog[0]->workload.edge.order == CULM_EDGE_ORDER_GIVEN,
        .work = CULM_EDGE_PLAN_HASTE};
    status = status || made ? status : culm_edge_plan(&laid->layout, &how, &plan, error);
    if (status == CULM_OK) {
        run->next = laid;
        run->next_plan = plan;
        run->next_is_quick = !made; /* frames wait: what takes longer is thought out beside */
        status = culm_edge_scheduler_update(run->scheduler, &laid->layout, &plan, error);
        if (status == CULM_OK) {
            return CULM_OK; /* and it may count by now */
        }
        run->next = NULL;
    }
    culm_edge_laid_free(laid);
    return status;
}

/* What is put back when something is wrong. */
struct before {
    int32_t query_count, feed_count;
    bool query_gone[CULM_EDGE_QUERIES_MAX], feed_gone[CULM_EDGE_FEEDS_MAX];
    bool reverted[CULM_EDGE_QUERIES_MAX], plain[CULM_EDGE_QUERIES_MAX];
    double deadline_ms[CULM_EDGE_QUERIES_MAX], score[CULM_EDGE_QUERIES_MAX];
    double promised[CULM_EDGE_QUERIES_MAX];
    int32_t shadow[CULM_EDGE_QUERIES_MAX];
    int32_t *source[CULM_EDGE_QUERIES_MAX], *original[CULM_EDGE_QUERIES_MAX],
        *merged[CULM_EDGE_QUERIES_MAX];
    int64_t round;
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

static bool remember(const struct culm_edge_running *run, struct before *before) {
    bool ok = true;
    *before = (struct before){
        .query_count = run->query_count,
        .feed_count = run->feed_count,
        .round = run->round,
        .placed = run->arena.placed,
    };
    memcpy(before->round_digest, run->round_digest, sizeof before->round_digest);
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct edge_query *query = &run->query[q];
        before->query_gone[q] = query->gone;
        before->shadow[q] = query->shadow;
        before->reverted[q] = query->reverted;
        before->plain[q] = query->plain;
        before->deadline_ms[q] = query->deadline_ms;
        before->score[q] = query->score;
        before->promised[q] = query->promised;
        before->source[q] = copy_of(query->source, query->entry->part_count);
        before->original[q] = copy_of(query->original, query->entry->part_count);
        before->merged[q] = copy_of(query->merged, query->entry->part_count);
        ok &= before->source[q] && before->original[q] && before->merged[q];
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        before->feed_gone[f] = run->feed[f].gone;
    }
    return ok;
}

/* Queries and feeds that came are as if they had not, down to their addresses. */
static void put_back(struct culm_edge_running *run, struct before *before) {
    while (run->query_count > before->query_count) {
        culm_edge_running_release_query(&run->query[--run->query_count]);
    }
    while (run->feed_count > before->feed_count) {
        struct edge_feed *feed = &run->feed[--run->feed_count];
        pthread_mutex_destroy(&feed->slots_lock);
        *feed = (struct edge_feed){0};
    }
    culm_edge_places_forget(&run->unit, &run->arena, before->placed);
    for (int32_t q = 0; q < run->query_count; q++) {
        struct edge_query *query = &run->query[q];
        query->gone = before->query_gone[q];
        query->deadline_ms = before->deadline_ms[q];
        query->score = before->score[q];
        query->promised = before->promised[q];
        free(query->next_at);
        query->next_at = NULL;
        if (before->source[q] && before->original[q] && before->merged[q]) {
            int32_t *source = query->source, *original = query->original, *merged = query->merged;
            query->shadow = before->shadow[q];
            query->reverted = before->reverted[q];
            query->plain = before->plain[q];
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
    }
    run->round = before->round; /* what was refused is tried again later */
    memcpy(run->round_digest, before->round_digest, sizeof run->round_digest);
}

static void forget(struct before *before) {
    for (int32_t q = 0; q < before->query_count; q++) {
        free(before->source[q]);
        free(before->original[q]);
        free(before->merged[q]);
    }
}

enum culm_status culm_edge_running_try(struct culm_edge_running *run,
                                       enum culm_status (*change)(struct culm_edge_running *run,
                                                                  struct culm_error *error),
                                       const struct culm_edge_plan *plan,
                                       struct culm_error *error) {
    struct before before;
    enum culm_status status =
        remember(run, &before) ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    pthread_mutex_lock(&run->lock);
    status = status || !change ? status : change(run, error);
    status = status ? status : relay(run, plan, error);
    if (status != CULM_OK) {
        put_back(run, &before);
    }
    for (int32_t q = 0; q < run->query_count && strcmp(run->round_digest, before.round_digest) != 0;
         q++) {
        culm_edge_running_forget_checks(&run->query[q]); /* they were of the round before */
    }
    pthread_mutex_unlock(&run->lock);
    forget(&before);
    return status;
}

/* --- rounds --- */

void culm_edge_running_round(struct culm_edge_running *run) {
    struct culm_error error;
    int64_t before = run->round;
    uint64_t now = culm_clock_ns();
    if (now < run->round_ns) {
        return;
    }
    run->round_ns = now + AGAIN_NS; /* what is wrong is not told all the time */
    if (culm_edge_running_try(run, culm_edge_running_sources, NULL, &error) == CULM_OK) {
        run->round_ns = 0;
        culm_edge_running_publish(
            run, json_pack("{s:s, s:I}", "event", "round", "round", (json_int_t)run->round));
        return;
    }
    culm_edge_running_publish(run,
                              json_pack("{s:s, s:I, s:o}", "event", "round", "kept",
                                        (json_int_t)before, "error", culm_json_text(error.text)));
}

/* --- the workload --- */

static bool same_feed(const struct culm_feed_config *a, const struct culm_feed_config *b) {
    return strcmp(a->name, b->name) == 0 && strcmp(a->file, b->file) == 0 && a->fps == b->fps &&
           a->loop == b->loop && memcmp(a->crop, b->crop, sizeof a->crop) == 0;
}

static bool has_input(const struct edge_feed *feed, const struct culm_vision_input *input) {
    for (int32_t i = 0; i < feed->inputs; i++) {
        if (feed->input[i].width == input->width && feed->input[i].height == input->height &&
            feed->input[i].channels == input->channels) {
            return true;
        }
    }
    return false;
}

/* A feed that goes on, or has come to its end, if it gives what all its queries read; else a new one. -1: no
 * room. */
static int32_t feed_for(struct culm_edge_running *run, struct culm_edge_catalog *catalog,
                        int32_t number) {
    struct culm_feed_config *config = &catalog->workload.feeds[number];
    for (int32_t f = 0; f < run->feed_count; f++) {
        const struct edge_feed *there = &run->feed[f];
        bool broken =
            there->ended && there->failed; /* in this order: the thread has written by then */
        bool fits = !there->gone && !broken && same_feed(there->config, config);
        for (size_t q = 0; fits && q < catalog->workload.query_count; q++) {
            fits = catalog->entry[q].config->feed_index != number ||
                   has_input(&run->feed[f], &catalog->entry[q].model->input);
        }
        if (fits) {
            return f;
        }
    }
    if (run->feed_count == CULM_EDGE_FEEDS_MAX) {
        return -1;
    }
    struct edge_feed *feed = &run->feed[run->feed_count];
    culm_edge_running_open_feed(run, config, run->feed_count);
    for (size_t q = 0; q < catalog->workload.query_count; q++) {
        if (catalog->entry[q].config->feed_index == number) {
            culm_edge_running_add_input(feed, &catalog->entry[q].model->input);
        }
    }
    culm_edge_running_round_frame(feed);
    return run->feed_count++;
}

static int32_t query_for(const struct culm_edge_running *run, const struct culm_edge_entry *entry,
                         int32_t feed) {
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct edge_query *query = &run->query[q];
        if (!query->gone && query->original_of < 0 && query->feed == feed &&
            strcmp(query->entry->config->name, entry->config->name) == 0 &&
            strcmp(query->entry->identity, entry->identity) == 0 &&
            culm_words_same(query->entry->config->labels, entry->config->labels)) {
            return q;
        }
    }
    return -1;
}

/* Nothing is known of how long it takes: as long as the slowest that is known, until it was run. */
static void guess_times(const struct culm_edge_running *run, struct culm_edge_entry *entry) {
    for (int32_t b = 0; b < entry->times.sizes && entry->times.run_ms[b] <= 0; b++) {
        entry->times.run_ms[b] = 1;
        for (int32_t q = 0; q < run->query_count; q++) {
            const struct culm_edge_entry *other = run->query[q].entry;
            bool same = strcmp(other->identity, entry->identity) == 0;
            if (other != entry && b < other->times.sizes &&
                (same || other->times.run_ms[b] > entry->times.run_ms[b])) {
                entry->times.run_ms[b] = other->times.run_ms[b];
            }
        }
        /* Whoever is thought too slow to try is never run, and so never known better. */
        double most = entry->config->deadline_ms / 2;
        entry->times.run_ms[b] =
            b == 0 && entry->times.run_ms[b] > most ? most : entry->times.run_ms[b];
    }
}

static enum culm_status take_workload(struct culm_edge_running *run, struct culm_error *error) {
    struct culm_edge_catalog *catalog = run->catalog[run->catalogs - 1];
    int32_t feed[CULM_EDGE_FEEDS_MAX];
    bool query_stays[CULM_EDGE_QUERIES_MAX] = {0}, feed_stays[CULM_EDGE_FEEDS_MAX] = {0};
    enum culm_status status = CULM_OK;
    for (size_t f = 0; f < catalog->workload.feed_count; f++) {
        const struct culm_feed_config *config = &catalog->workload.feeds[f];
        int32_t before = run->feed_count;
        feed[f] = feed_for(run, catalog, (int32_t)f);
        if (feed[f] < 0) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "more than %d feeds since it began: start again",
                                  CULM_EDGE_FEEDS_MAX);
        }
        feed_stays[feed[f]] = true;
        status =
            run->feed_count > before ? culm_feed_find(config->name, config->file, error) : status;
        if (status != CULM_OK) {
            return status;
        }
    }
    for (size_t q = 0; q < catalog->workload.query_count && status == CULM_OK; q++) {
        struct culm_edge_entry *entry = &catalog->entry[q];
        int32_t on = feed[entry->config->feed_index], query = query_for(run, entry, on);
        if (query >= 0) {
            run->query[query].deadline_ms = entry->config->deadline_ms;
            run->query[query].score = entry->config->score;
        } else {
            status = culm_edge_running_open(run, entry, -1, on, &query, error);
            guess_times(run, entry);
        }
        query_stays[query] = true;
    }
    for (int32_t q = 0; q < run->query_count; q++) {
        if (run->query[q].original_of < 0 && !query_stays[q]) {
            run->query[q].gone = true;
        }
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        run->feed[f].gone |= !feed_stays[f];
    }
    return status ? status : culm_edge_running_sources(run, error);
}

/* The newest catalog goes if no query and no feed is from it. */
static void drop_unused(struct culm_edge_running *run) {
    struct culm_edge_catalog *catalog = run->catalog[run->catalogs - 1];
    const struct culm_workload *workload = &catalog->workload;
    bool used = false;
    for (int32_t q = 0; q < run->query_count; q++) {
        for (size_t e = 0; catalog->entry && e < workload->query_count; e++) {
            used |= run->query[q].entry == &catalog->entry[e];
        }
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        for (size_t e = 0; e < workload->feed_count; e++) {
            used |= run->feed[f].config == &workload->feeds[e];
        }
    }
    if (!used) {
        run->catalogs--;
        culm_edge_catalog_release(catalog);
        free(catalog);
    }
}

void culm_edge_running_reload(struct culm_edge_running *run) {
    struct culm_error error;
    const struct culm_edge_catalog_options options = {.sets = run->command->sets,
                                                      .set_count = run->command->set_count,
                                                      .profile = run->command->profile};
    struct culm_edge_catalog *catalog = calloc(1, sizeof *catalog);
    enum culm_status status = CULM_OK;
    if (!catalog) {
        status = culm_error_set(&error, CULM_ERR_MEMORY, "out of memory for a workload");
    } else {
        run->catalog[run->catalogs++] = catalog;
        status = culm_edge_catalog_open(run->command->workload, &options, catalog, &error);
        status = status ? status : culm_edge_running_try(run, take_workload, NULL, &error);
        drop_unused(run);
    }
    culm_edge_running_trim();
    status = status ? status : culm_edge_running_outs(run, &error);
    status = status ? status : culm_edge_running_feeds(run, &error);
    for (int32_t f = 0; f < run->feed_count; f++) {
        if (run->feed[f].gone) {
            __atomic_store_n(&run->feed[f].stop, 1, __ATOMIC_RELEASE);
        }
    }
    json_t *names = json_array();
    for (int32_t q = 0; q < run->query_count; q++) {
        if (!run->query[q].gone && run->query[q].original_of < 0) {
            json_array_append_new(names, culm_json_text(run->query[q].entry->config->name));
        }
    }
    json_t *event = json_pack("{s:s, s:o}", "event", "workload", "queries", names);
    if (status != CULM_OK) {
        json_object_set_new(event, "error", culm_json_text(error.text));
    }
    culm_edge_running_publish(run, event);
}

/* --- by itself --- */

/* Models that take longer, or less, than was thought. */
static bool times_differ(struct culm_edge_running *run) {
    bool differ = false;
    for (int32_t q = 0; q < run->query_count; q++) {
        struct edge_query *query = &run->query[q];
        for (int32_t b = 0; b < query->sizes && !query->gone; b++) {
            double took = query->took_ms[b], *thought = &query->entry->times.run_ms[b];
            if (query->original_of < 0 && b == 0 && *thought >= query->deadline_ms) {
                *thought = 0.9 * query->deadline_ms; /* one more try */
                query->took_ms[b] = 0;
                differ = true;
            } else if (query->original_of < 0 && took > 0 &&
                       (took > *thought * (1 + TIMES_OFF) || took < *thought * (1 - TIMES_OFF))) {
                *thought = took;
                differ = true;
            }
            culm_edge_running_shares(query, &query->entry->times, b);
        }
    }
    return differ;
}

/* Feeds that are faster or slower than was thought. */
static bool feeds_differ(struct culm_edge_running *run) {
    bool differ = false;
    for (int32_t f = 0; f < run->feed_count; f++) {
        struct edge_feed *feed = &run->feed[f];
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

void culm_edge_running_settle(struct culm_edge_running *run) {
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
        if (culm_edge_running_try(run, culm_edge_running_wear, NULL, &error) != CULM_OK) {
            culm_edge_running_publish(run, json_pack("{s:s, s:o}", "event", "warning", "message",
                                                     culm_json_text(error.text)));
        }
    }
}
