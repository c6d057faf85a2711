/* Turns parts of any origin into intervals: fills empty ones, orders and numbers them. */
#include "gnn/partition_internal.h"

#include "interval/layout.h"

#include "base/machine.h"
#include "base/pages.h"

#include <stdlib.h>
#include <string.h>

#define METIS_BYTES_PER_END 45 /* memory per end of an edge, as measured; an edge has two */

void culm_partition_release(struct culm_partition *partition) {
    free(partition->interval);
    free(partition->new_of_old);
    free(partition->first);
    *partition = (struct culm_partition){0};
}

void culm_partition_method_of(const char *text, struct culm_partition_options *options) {
    options->method = !text                     ? CULM_PARTITION_AUTO
                      : !strcmp(text, "metis")  ? CULM_PARTITION_METIS
                      : !strcmp(text, "stream") ? CULM_PARTITION_STREAM
                                                : CULM_PARTITION_FILE;
    options->path = text;
}

static enum culm_status no_memory(struct culm_error *error, int64_t vertices) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a partition of %lld vertices",
                          (long long)vertices);
}

/* Merges two sorted rows into their union, and returns its size. `to` NULL: only counts. */
static uint64_t merge(const uint32_t *a, uint64_t m, const uint32_t *b, uint64_t n, uint32_t *to) {
    uint64_t i = 0, j = 0, count = 0;
    while (i < m || j < n) {
        uint32_t next = j == n || (i < m && a[i] < b[j]) ? a[i] : b[j];
        i += i < m && a[i] == next;
        j += j < n && b[j] == next;
        if (to) {
            to[count] = next;
        }
        count++;
    }
    return count;
}

/* Makes a directed graph symmetric: each edge in both directions. */
static enum culm_status symmetrize(const struct culm_adjacency *in, struct culm_adjacency *ret_both,
                                   struct culm_error *error) {
    struct culm_adjacency out = {0}, both = {.vertices = in->vertices};
    enum culm_status status = culm_adjacency_transpose(in, NULL, &out, error);
    if (status != CULM_OK) {
        return status;
    }
    both.start = culm_pages_zeroed(((size_t)in->vertices + 1) * sizeof *both.start);
    for (int pass = 0; both.start && pass < 2; pass++) {
        uint64_t at = 0;
        for (int64_t v = 0; v < in->vertices; v++) {
            both.start[v] = at;
            at += merge(in->column + in->start[v], in->start[v + 1] - in->start[v],
                        out.column + out.start[v], out.start[v + 1] - out.start[v],
                        pass ? both.column + at : NULL);
        }
        both.start[in->vertices] = at;
        if (pass == 0 && !(both.column = culm_pages_alloc((size_t)at * sizeof *both.column))) {
            break;
        }
    }
    culm_adjacency_release(&out);
    if (!both.column) {
        culm_adjacency_release(&both);
        return no_memory(error, in->vertices);
    }
    *ret_both = both;
    return CULM_OK;
}

/* Gives each empty part the last vertex of the largest part. */
static bool fill_empty(uint32_t *part, int64_t vertices, int64_t parts) {
    int64_t *count = calloc((size_t)parts, sizeof *count);
    if (!count) {
        return false;
    }
    for (int64_t v = 0; v < vertices; v++) {
        count[part[v]]++;
    }
    for (int64_t p = 0; p < parts; p++) {
        int64_t largest = 0, v = vertices - 1;
        for (int64_t q = 0; count[p] == 0 && q < parts; q++) {
            largest = count[q] > count[largest] ? q : largest;
        }
        while (count[p] == 0 && part[v] != largest) {
            v--;
        }
        if (count[p] == 0) {
            part[v] = (uint32_t)p;
            count[p]++;
            count[largest]--;
        }
    }
    free(count);
    return true;
}

/* Renumbers parts so that neighbouring numbers share many edges. */
static bool arrange(const struct culm_adjacency *neighbours, struct culm_partition *partition) {
    uint64_t *load = NULL, *between = partition_quotient(neighbours, partition->interval,
                                                         partition->intervals, &load);
    uint32_t *place = malloc((size_t)partition->intervals * sizeof *place);
    bool done = between && place && partition_arrange(between, load, partition->intervals, place);
    for (int64_t v = 0; done && v < partition->vertices; v++) {
        partition->interval[v] = place[partition->interval[v]];
    }
    free(place);
    free(between);
    free(load);
    return done;
}

/* Renumbers vertices in the order of (interval, old id). */
static enum culm_status number(struct culm_partition *partition, struct culm_error *error) {
    partition->first = calloc((size_t)partition->intervals + 2, sizeof *partition->first);
    partition->new_of_old =
        culm_pages_alloc((size_t)partition->vertices * sizeof *partition->new_of_old);
    if (!partition->first || !partition->new_of_old) {
        return no_memory(error, partition->vertices);
    }
    for (int64_t v = 0; v < partition->vertices; v++) {
        partition->first[partition->interval[v] + 2]++;
    }
    for (int64_t k = 0; k < partition->intervals; k++) {
        if (partition->first[k + 2] == 0) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "interval %lld of %lld has no vertices; give fewer intervals",
                                  (long long)k, (long long)partition->intervals);
        }
        partition->first[k + 2] += partition->first[k + 1];
    }
    for (int64_t v = 0; v < partition->vertices; v++) {
        partition->new_of_old[v] = (uint32_t)partition->first[partition->interval[v] + 1]++;
    }
    return CULM_OK;
}

/* Resolves AUTO, and replaces METIS by streaming if intervals are too small for it. */
static enum culm_partition_method method_of(const struct culm_adjacency *neighbours,
                                            const struct culm_partition_options *options) {
    enum culm_partition_method method = options->method;
    if (method == CULM_PARTITION_AUTO) {
        uint64_t bytes = neighbours->start[neighbours->vertices] * METIS_BYTES_PER_END;
        method = bytes <= culm_machine_memory() / 2 ? CULM_PARTITION_METIS : CULM_PARTITION_STREAM;
    }
    /* METIS is made for parts of many vertices. */
    return method == CULM_PARTITION_METIS && neighbours->vertices < 8 * options->intervals
               ? CULM_PARTITION_STREAM
               : method;
}

static enum culm_status take_parts(const struct culm_partition_options *options, int64_t vertices,
                                   uint32_t *ret_part, struct culm_error *error) {
    for (int64_t v = 0; v < vertices; v++) {
        if (options->parts[v] >= options->intervals) {
            return culm_error_set(error, CULM_ERR_FORMAT, "vertex %lld is in interval %u of %lld",
                                  (long long)v, options->parts[v], (long long)options->intervals);
        }
    }
    memcpy(ret_part, options->parts, (size_t)vertices * sizeof *ret_part);
    return CULM_OK;
}

static enum culm_status find_parts(const struct culm_adjacency *neighbours,
                                   const struct culm_partition_options *options,
                                   enum culm_partition_method method, uint32_t *ret_part,
                                   struct culm_error *error) {
    struct culm_adjacency both = {0};
    enum culm_status status = CULM_OK;
    if (method == CULM_PARTITION_FILE && options->parts) {
        return take_parts(options, neighbours->vertices, ret_part, error);
    }
    if (method == CULM_PARTITION_FILE) {
        return partition_file(options->path, neighbours->vertices, options->intervals, ret_part,
                              error);
    }
    if (options->intervals == 1) {
        memset(ret_part, 0, (size_t)neighbours->vertices * sizeof *ret_part);
        return CULM_OK;
    }
    if (options->directed && (status = symmetrize(neighbours, &both, error)) != CULM_OK) {
        return status;
    }
    const struct culm_adjacency *symmetric = options->directed ? &both : neighbours;
    if (method == CULM_PARTITION_METIS) {
        status = partition_metis(symmetric, options->intervals, options->seed, options->stop,
                                 ret_part, error);
    } else {
        status = partition_stream(symmetric, options->intervals, ret_part, error);
    }
    culm_adjacency_release(&both);
    return status;
}

enum culm_status culm_partition_of(const struct culm_adjacency *neighbours,
                                   const struct culm_partition_options *options,
                                   struct culm_partition *ret_partition, struct culm_error *error) {
    struct culm_partition made = {.vertices = neighbours->vertices,
                                  .intervals = options->intervals,
                                  .method = method_of(neighbours, options)};
    if (made.intervals < 1 || made.intervals > CULM_GNN_INTERVALS_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG, "%lld intervals; allowed: 1 to %d",
                              (long long)made.intervals, CULM_GNN_INTERVALS_MAX);
    }
    if (made.intervals > made.vertices) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%lld intervals for %lld vertices; give at most as many intervals "
                              "as vertices",
                              (long long)made.intervals, (long long)made.vertices);
    }
    made.interval = culm_pages_alloc((size_t)made.vertices * sizeof *made.interval);
    enum culm_status status =
        made.interval ? find_parts(neighbours, options, made.method, made.interval, error)
                      : no_memory(error, made.vertices);
    if (status == CULM_OK && options->method != CULM_PARTITION_FILE &&
        (!fill_empty(made.interval, made.vertices, made.intervals) ||
         !arrange(neighbours, &made))) {
        status = no_memory(error, made.vertices);
    }
    if (status == CULM_OK) {
        status = number(&made, error);
    }
    if (status != CULM_OK) {
        culm_partition_release(&made);
        return status;
    }
    *ret_partition = made;
    return CULM_OK;
}
