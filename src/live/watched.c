/* Originals that look at samples, in a layout. See watched.h. */
#include "live/watched.h"

#include <stdlib.h>
#include <string.h>

#define PATIENCE 4 /* times the deadline of the query that is watched */

void culm_live_watched_fill(const struct culm_drift_config *drift, double rarely, uint64_t number,
                            uint64_t originals, uint64_t deadline_ns, struct culm_edge_query *to) {
    to->every_ns = 1 + (uint64_t)(drift->every_s * 1e9 * rarely / (double)drift->frames);
    to->after_ns = to->every_ns / (originals > 0 ? originals : 1) * number;
    to->burst = 1;
    to->pin = to->preload = false;
    to->deadline_ns = PATIENCE * deadline_ns;
}

/* Numbers of the queries to be watched; returns how many there are. */
static int32_t find(const struct culm_live_catalog *catalog, int32_t *const *merged,
                    int32_t *const *own, int32_t ret_of[CULM_EDGE_QUERIES_MAX]) {
    const struct culm_drift_config *drift = &catalog->workload.edge.drift;
    const int32_t queries = (int32_t)catalog->workload.query_count;
    int32_t count = 0;
    for (int32_t q = 0; q < queries && drift->every_s > 0; q++) {
        const size_t bytes = (size_t)catalog->entry[q].part_count * sizeof **own;
        if (queries + count < CULM_EDGE_QUERIES_MAX && memcmp(merged[q], own[q], bytes) != 0) {
            ret_of[count++] = q;
        }
    }
    return count;
}

static void list_needs(const struct culm_live_catalog *catalog, int32_t *const *merged,
                       int32_t *const *own, const int32_t *of, int32_t originals,
                       struct culm_live_needs *needs) {
    const int32_t queries = (int32_t)catalog->workload.query_count;
    for (int32_t q = 0; q < queries + originals; q++) {
        const int32_t from = q < queries ? q : of[q - queries];
        needs[q] = (struct culm_live_needs){q < queries ? merged[q] : own[from],
                                            catalog->entry[from].part_count};
    }
}

enum culm_status culm_live_watched_units(const struct culm_live_catalog *catalog,
                                         int32_t *const *merged, int32_t *const *own,
                                         struct culm_live_store *store, struct culm_error *error) {
    const int32_t queries = (int32_t)catalog->workload.query_count;
    struct culm_live_needs needs[CULM_EDGE_QUERIES_MAX] = {0};
    int32_t of[CULM_EDGE_QUERIES_MAX], count[CULM_EDGE_QUERIES_MAX];
    int32_t *list[CULM_EDGE_QUERIES_MAX] = {0};
    size_t *bytes = NULL;
    const int32_t originals = find(catalog, merged, own, of);
    list_needs(catalog, merged, own, of, originals, needs);
    enum culm_status status =
        culm_live_store_units(store, needs, queries + originals, &bytes, list, count, error);
    free(bytes);
    for (int32_t q = 0; q < queries + originals; q++) {
        free(list[q]);
    }
    return status;
}

enum culm_status culm_live_watched_lay(const struct culm_live_catalog *catalog,
                                       const struct culm_live_laid *laid, int32_t *const *own,
                                       struct culm_live_store *store,
                                       struct culm_live_laid **ret_watched,
                                       struct culm_error *error) {
    const int32_t queries = (int32_t)catalog->workload.query_count;
    struct culm_live_needs needs[CULM_EDGE_QUERIES_MAX] = {0};
    int32_t of[CULM_EDGE_QUERIES_MAX], count[CULM_EDGE_QUERIES_MAX];
    const int32_t originals = find(catalog, laid->source, own, of);
    *ret_watched = NULL;
    if (originals == 0) {
        return CULM_OK;
    }
    struct culm_live_laid *watched = calloc(1, sizeof *watched);
    if (!watched) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a layout");
    }
    list_needs(catalog, laid->source, own, of, originals, needs);
    enum culm_status status = culm_live_store_units(store, needs, queries + originals,
                                                    &watched->bytes, watched->list, count, error);
    if (status != CULM_OK) {
        culm_live_laid_free(watched);
        return status;
    }
    memcpy(watched->feed, laid->feed, sizeof watched->feed);
    watched->layout = laid->layout;
    watched->layout.query_count = queries + originals;
    watched->layout.tensor_count = store->unit_count;
    watched->layout.query = watched->query;
    watched->layout.feed = watched->feed;
    watched->layout.tensor_bytes = watched->bytes;
    for (int32_t q = 0; q < queries + originals; q++) {
        const int32_t from = q < queries ? q : of[q - queries];
        watched->query[q] = laid->query[from];
        if (q >= queries) { /* it shares no beginning */
            watched->query[q] = (struct culm_edge_query){0};
            culm_live_catalog_fill(catalog, &catalog->entry[from], &watched->query[q]);
            culm_live_watched_fill(&catalog->workload.edge.drift, 1, (uint64_t)(q - queries),
                                   (uint64_t)originals, laid->query[from].deadline_ns,
                                   &watched->query[q]);
        }
        watched->query[q].tensor = watched->list[q];
        watched->query[q].tensor_count = count[q];
    }
    *ret_watched = watched;
    return CULM_OK;
}
