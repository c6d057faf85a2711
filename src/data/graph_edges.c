/* Simple edges by two counting sorts, and splits in the order of digests. */
#include "data/graph_write.h"

#include "base/machine.h"
#include "base/pages.h"
#include "base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stable, by the vertex at `place` of each pair. `next` has vertices + 1 places. */
static void sort_by(const uint32_t *from, uint32_t *to, int64_t edges, int place, uint64_t *next,
                    int64_t vertices) {
    memset(next, 0, ((size_t)vertices + 1) * sizeof *next);
    for (int64_t i = 0; i < edges; i++) {
        next[(uint64_t)from[2 * i + place] + 1]++;
    }
    for (int64_t v = 0; v < vertices; v++) {
        next[v + 1] += next[v];
    }
    for (int64_t i = 0; i < edges; i++) {
        uint64_t at = next[from[2 * i + place]]++;
        to[2 * at] = from[2 * i];
        to[2 * at + 1] = from[2 * i + 1];
    }
}

enum culm_status culm_graph_simplify(uint32_t *edge, int64_t *edges, int64_t vertices,
                                     bool directed, struct culm_error *error) {
    int64_t count = 0;
    for (int64_t i = 0; i < *edges; i++) {
        uint32_t u = edge[2 * i], v = edge[2 * i + 1];
        if (u != v) {
            bool swap = !directed && u > v;
            edge[2 * count] = swap ? v : u;
            edge[2 * count + 1] = swap ? u : v;
            count++;
        }
    }
    uint32_t *other = culm_pages_alloc((size_t)count * 2 * sizeof *other);
    uint64_t *next = culm_pages_alloc(((size_t)vertices + 1) * sizeof *next);
    if (!other || !next) {
        free(other);
        free(next);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory to sort %lld edges",
                              (long long)count);
    }
    sort_by(edge, other, count, 1, next, vertices);
    sort_by(other, edge, count, 0, next, vertices);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t u = edge[2 * i], v = edge[2 * i + 1];
        if (!kept || edge[2 * kept - 2] != u || edge[2 * kept - 1] != v) {
            edge[2 * kept] = u;
            edge[2 * kept + 1] = v;
            kept++;
        }
    }
    free(other);
    free(next);
    *edges = kept;
    return CULM_OK;
}

/* --- splits --- */

struct rank {
    uint64_t high, low; /* of the digest: its first 16 bytes */
    int64_t vertex;
};

static int by_digest(const void *a, const void *b) {
    const struct rank *x = a, *y = b;
    if (x->high != y->high) {
        return x->high < y->high ? -1 : 1;
    }
    if (x->low != y->low) {
        return x->low < y->low ? -1 : 1;
    }
    return (x->vertex > y->vertex) - (x->vertex < y->vertex);
}

static enum culm_status rank_vertex(const struct culm_graph_data *graph, int64_t number,
                                    int64_t vertex, struct rank *ret_rank,
                                    struct culm_error *error) {
    char text[CULM_GRAPH_NAME_SIZE + 48], hex[CULM_SHA256_HEX], part[17];
    int len = snprintf(text, sizeof text, "%s %lld %lld", graph->name, (long long)number,
                       (long long)vertex);
    if (culm_sha256_of(text, (size_t)len, hex) != CULM_OK) {
        return culm_error_set(error, CULM_ERR_MEMORY, "SHA-256 of a vertex: out of memory");
    }
    ret_rank->vertex = vertex;
    snprintf(part, sizeof part, "%.16s", hex);
    ret_rank->high = strtoull(part, NULL, 16);
    snprintf(part, sizeof part, "%.16s", hex + 16);
    ret_rank->low = strtoull(part, NULL, 16);
    return CULM_OK;
}

/* `rank` has room for all vertices; `ret_split` is [V], zeroed. */
static enum culm_status make_split(const struct culm_graph_data *graph, int64_t number,
                                   int train_percent, int valid_percent, struct rank *rank,
                                   uint8_t *ret_split, struct culm_error *error) {
    int64_t count = 0;
    for (int64_t v = 0; v < graph->vertices; v++) {
        if (graph->label[v] >= 0) {
            enum culm_status status = rank_vertex(graph, number, v, &rank[count++], error);
            if (status != CULM_OK) {
                return status;
            }
        }
    }
    qsort(rank, (size_t)count, sizeof *rank, by_digest);
    int64_t train = count * train_percent / 100;
    int64_t valid = count * (train_percent + valid_percent) / 100;
    for (int64_t i = 0; i < count; i++) {
        ret_split[rank[i].vertex] = i < train   ? CULM_GRAPH_TRAIN
                                    : i < valid ? CULM_GRAPH_VALID
                                                : CULM_GRAPH_TEST;
    }
    return CULM_OK;
}

enum culm_status culm_graph_splits_make(struct culm_graph_data *graph, int64_t first, int64_t count,
                                        int train_percent, int valid_percent,
                                        struct culm_error *error) {
    size_t row = (size_t)graph->vertices, size = (size_t)count * row;
    if (size > culm_machine_memory()) {
        return culm_error_set(error, CULM_ERR_MEMORY,
                              "%lld splits of %lld vertices take %.0f GB; there are %.0f GB here; "
                              "ask for fewer",
                              (long long)count, (long long)graph->vertices, (double)size / 1e9,
                              (double)culm_machine_memory() / 1e9);
    }
    enum culm_status status = CULM_OK;
    struct rank *rank = malloc(row * sizeof *rank);
    uint8_t *split = culm_pages_zeroed(size);
    if (!rank || !split) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for %lld splits",
                                (long long)count);
    }
    for (int64_t s = 0; s < count && status == CULM_OK; s++) {
        status = make_split(graph, first + s, train_percent, valid_percent, rank,
                            split + (size_t)s * row, error);
    }
    free(rank);
    if (status != CULM_OK) {
        free(split);
        return status;
    }
    free(graph->split);
    graph->split = split;
    graph->splits = count;
    return CULM_OK;
}
