/*
 * Making the layouts of a run: which beginnings queries share, and where in the arena tensors,
 * activations and frames lie.
 */
#include "live/run.h"
#include "live/watched.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum culm_status place_units(struct culm_live *run, const struct culm_edge_query *query,
                                    struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < query->tensor_count && status == CULM_OK; i++) {
        int32_t unit = query->tensor[i];
        status = culm_live_places_want(&run->unit, &run->arena, unit, run->store.unit[unit].bytes,
                                       error);
    }
    return status;
}

size_t live_activations(const struct culm_live_laid *laid) {
    size_t most = 0;
    for (int32_t q = 0; q < laid->layout.query_count; q++) {
        for (int32_t b = 0; b < laid->query[q].batches && !laid->query[q].gone; b++) {
            size_t bytes = laid->query[q].activation_bytes[b];
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

/* Gives addresses to activations, and to the frames of new feeds. Activations that have outgrown
 * theirs get new ones once the layout is in force. */
static enum culm_status place_others(struct culm_live *run, const struct culm_live_laid *laid,
                                     struct culm_error *error) {
    size_t most = live_activations(laid);
    bool ok = true;
    run->next_activations_at = run->activations_at;
    run->next_activations_room = run->activations_room;
    if (most > run->activations_room) {
        run->next_activations_at = culm_live_arena_place(&run->arena, most);
        run->next_activations_room = most;
        ok = run->next_activations_at != NULL;
    }
    for (int32_t f = 0; f < run->feed_count && ok; f++) {
        struct live_feed *feed = &run->feed[f];
        if (!feed->gone && !feed->slots_at) {
            feed->slots_at = culm_live_arena_place(
                &run->arena,
                CULM_LIVE_FRAME_SLOTS * culm_live_arena_round(&run->arena, feed->frame_bytes));
            ok = feed->slots_at != NULL;
        }
    }
    return ok ? CULM_OK
              : culm_error_set(error, CULM_ERR_MEMORY,
                               "no addresses left for activations of %.0f MB: start again",
                               (double)most / 1e6);
}

static enum culm_status resolve(struct culm_live *run, struct live_query *query,
                                struct culm_error *error) {
    const float **at = calloc((size_t)query->entry->part_count + 1, sizeof *at);
    if (!at) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for tensors");
    }
    for (int32_t p = 0; p < query->entry->part_count; p++) {
        const struct culm_live_source *source = &run->store.source[query->source[p]];
        at[p] = (const float *)(run->unit.at[source->unit] + source->offset);
    }
    free(query->next_at);
    query->next_at = at;
    return CULM_OK;
}

static bool are_twins(const struct live_query *a, const struct live_query *b) {
    return a != b && !a->gone && !b->gone && a->original_of < 0 && b->original_of < 0 &&
           a->feed == b->feed && culm_live_entries_agree(a->entry, a->source, b->entry, b->source);
}

static uint64_t twins_of(const struct culm_live *run, int32_t q) {
    uint64_t twins = 0;
    for (int32_t other = 0; other < run->query_count; other++) {
        twins |= are_twins(&run->query[q], &run->query[other]) ? 1ull << other : 0;
    }
    return twins;
}

/* Lets queries share their beginnings; but not originals, which look at frames at other times. */
static enum culm_status lay_prefixes(const struct culm_live *run, struct culm_live_laid *laid,
                                     struct culm_error *error) {
    struct culm_live_beginning of[CULM_EDGE_QUERIES_MAX] = {0};
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        if (!query->gone && query->original_of < 0) {
            uint64_t twins = twins_of(run, q);
            of[q] = (struct culm_live_beginning){
                .stage = query->entry->stage,
                .source = query->source,
                .input = &query->entry->model->input,
                .feed = query->feed,
                .times = &query->entry->times,
                .twin = twins ? 1 + (uint64_t)__builtin_ctzll(twins | 1ull << q) : 0};
        }
    }
    return culm_live_prefixes_lay(of, &laid->layout, laid->query, laid->trunk, error);
}

/* While a query runs on its own weights after drift, its merged ones are looked at rarely. */
static void lay_original(const struct culm_live *run, const struct live_query *original,
                         uint64_t number, uint64_t originals, struct culm_edge_query *to) {
    const struct live_query *query = &run->query[original->original_of];
    culm_live_watched_fill(&run->catalog[0]->workload.edge.drift,
                           query->reverted ? CULM_EDGE_DRIFT_RARELY : 1, number, originals,
                           (uint64_t)(1e6 * query->deadline_ms), to);
}

/* Fills in the queries; count[q]: how many units laid->list[q] has. */
static void lay_queries(const struct culm_live *run, const int32_t *count,
                        struct culm_live_laid *laid) {
    uint64_t originals = 0, sampling = 0;
    for (int32_t q = 0; q < run->query_count; q++) {
        originals += run->query[q].original_of >= 0 && !run->query[q].gone;
    }
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        struct culm_edge_query *to = &laid->query[q];
        culm_live_catalog_fill(run->catalog[0], query->entry, to);
        to->feed = query->feed;
        to->gone = query->gone;
        to->deadline_ns = (uint64_t)(query->deadline_ms * 1e6);
        if (query->original_of >= 0) {
            lay_original(run, query, sampling, originals, to);
            sampling += !query->gone;
        }
        to->tensor = laid->list[q];
        to->tensor_count = count[q];
    }
}

/* The bytes of the sources that queries of the workload use, each once. */
static double source_bytes(const struct culm_live *run, bool own) {
    bool *seen = calloc((size_t)run->store.source_count + 1, sizeof *seen);
    double bytes = 0;
    for (int32_t q = 0; q < run->query_count && seen; q++) {
        const struct live_query *query = &run->query[q];
        const int32_t *source = own ? query->original : query->source;
        for (int32_t p = 0; !query->gone && query->original_of < 0 && p < query->entry->part_count;
             p++) {
            bytes += seen[source[p]] ? 0 : (double)run->store.source[source[p]].bytes;
            seen[source[p]] = true;
        }
    }
    free(seen);
    return bytes;
}

/* Gives addresses to everything in a layout. */
static enum culm_status place(struct culm_live *run, const struct culm_live_laid *laid,
                              struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t q = 0; q < run->query_count && status == CULM_OK; q++) {
        if (!run->query[q].gone) {
            status = place_units(run, &laid->query[q], error);
            status = status ? status : resolve(run, &run->query[q], error);
            run->query[q].next_swapped = run->query[q].reverted;
        }
    }
    run->next_saving = (struct live_saving){source_bytes(run, false), source_bytes(run, true)};
    return status ? status : place_others(run, laid, error);
}

static enum culm_status lay(struct culm_live *run, bool addresses, struct culm_live_laid **ret_laid,
                            struct culm_error *error) {
    struct culm_live_laid *laid = calloc(1, sizeof *laid);
    struct culm_live_needs needs[CULM_EDGE_QUERIES_MAX] = {0};
    int32_t count[CULM_EDGE_QUERIES_MAX];
    if (!laid) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a layout");
    }
    for (int32_t q = 0; q < run->query_count; q++) {
        if (!run->query[q].gone) {
            needs[q] =
                (struct culm_live_needs){run->query[q].source, run->query[q].entry->part_count};
        }
    }
    enum culm_status status = culm_live_store_units(&run->store, needs, run->query_count,
                                                    &laid->bytes, laid->list, count, error);
    double load_ms, rate;
    live_loading(run, &load_ms, &rate);
    laid->layout = (struct culm_edge_layout){
        .query_count = run->query_count,
        .feed_count = run->feed_count,
        .tensor_count = run->store.unit_count,
        .query = laid->query,
        .feed = laid->feed,
        .tensor_bytes = laid->bytes,
        .load_ns = (uint64_t)(load_ms * 1e6),
        .load_ns_per_byte = rate > 0 ? 1e3 / rate : 0,
        .limit_bytes = run->limit_bytes,
    };
    for (int32_t f = 0; f < run->feed_count; f++) {
        laid->feed[f] = (struct culm_edge_feed){.period_ns = run->feed[f].period_ns,
                                                .frame_bytes = run->feed[f].frame_bytes,
                                                .gone = run->feed[f].gone};
    }
    if (status == CULM_OK) {
        lay_queries(run, count, laid);
        status = run->limit_bytes ? lay_prefixes(run, laid, error) : CULM_OK;
    }
    status = status || !addresses ? status : place(run, laid, error);
    if (status != CULM_OK) {
        culm_live_laid_free(laid);
        return status;
    }
    *ret_laid = laid;
    return CULM_OK;
}

enum culm_status live_lay(struct culm_live *run, struct culm_live_laid **ret_laid,
                          struct culm_error *error) {
    return lay(run, run->arena.base != NULL, ret_laid, error);
}

enum culm_status live_lay_to_plan(struct culm_live *run, struct culm_live_laid **ret_laid,
                                  struct culm_error *error) {
    return lay(run, false, ret_laid, error);
}

/* Puts new cuts in force. The times measured until a cut are kept if the new trunk has that cut. A
 * cut whose crossing values cannot be found in the program of every batch size is dropped, as are
 * the cuts after it. */
static void take_trunk(struct live_query *query, const struct culm_live_trunk *trunk) {
    double share[CULM_LIVE_CUTS_MAX][CULM_EDGE_SIZES_MAX] = {0};
    int32_t cuts = trunk->cuts;
    for (int32_t i = 0; i < cuts; i++) {
        for (int32_t j = 0; j < query->trunk.cuts; j++) {
            if (trunk->cut[i].operators == query->trunk.cut[j].operators) {
                memcpy(share[i], query->took_share[j], sizeof share[i]);
            }
        }
        for (int32_t b = 0; b < query->sizes; b++) {
            if (culm_live_crossing(query->program[b].stage, trunk->cut[i].operators,
                                   query->program[b].crossing[i]) != trunk->cut[i].values) {
                cuts = i;
            }
        }
    }
    memcpy(query->took_share, share, sizeof share);
    query->trunk = *trunk;
    query->trunk.cuts = cuts;
}

void live_shares(const struct live_query *query, struct culm_live_times *times, int32_t size) {
    for (int32_t i = 0; i < query->trunk.cuts; i++) {
        int32_t operators = query->trunk.cut[i].operators;
        double share = query->took_share[i][size];
        if (share > 0) {
            culm_live_times_set_share(times, operators, size, share);
        }
    }
}

void live_count_saving(struct culm_live *run) {
    const uint64_t now = culm_clock_ns();
    const double passed = run->saving_ns ? (double)(now - run->saving_ns) : 0;
    run->saved.laid += run->saving.laid * passed;
    run->saved.own += run->saving.own * passed;
    run->saving_ns = now;
}

void live_count(struct culm_live *run) {
    live_count_saving(run);
    run->saving = run->next_saving;
    run->activations_at = run->next_activations_at;
    run->activations_room = run->next_activations_room;
    float score = 1;
    for (int32_t q = 0; q < run->query_count; q++) {
        struct live_query *query = &run->query[q];
        const struct live_query *of =
            query->original_of >= 0 ? &run->query[query->original_of] : query;
        query->score_now = (float)of->score;
        score = query->score_now < score ? query->score_now : score;
        query->twins = twins_of(run, q);
        take_trunk(query, &run->laid->trunk[q]);
        query->ahead_count = 0;
        if (query->next_at) {
            free(query->at);
            query->at = query->next_at;
            query->next_at = NULL;
            live_swap(run, query, query->next_swapped);
        }
    }
    run->least = culm_box_least(score);
}

void live_release(struct culm_live *run) {
    for (int32_t q = 0; q < run->query_count; q++) {
        live_release_query(&run->query[q]);
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        for (int32_t i = 0; i < CULM_LIVE_FRAME_SLOTS; i++) {
            culm_blob_unref(run->feed[f].slot[i]);
        }
    }
    culm_blob_pool_free(run->headers);
    culm_live_laid_free(run->laid);
    culm_live_laid_free(run->next);
    culm_live_store_release(&run->store);
    culm_live_places_release(&run->unit);
    free(run->part);
    if (run->spool.file) {
        close(run->spool.file - 1);
    }
    free(run->spool.at);
    culm_prediction_room_release(&run->room);
    free(run->tensor);
    culm_live_arena_release(&run->arena);
    culm_device_free(run->device);
    culm_journal_free(run->events);
}
