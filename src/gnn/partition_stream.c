/*
 * Partitions a graph by linear deterministic greedy, in several passes over the vertices: a vertex
 * goes to the part that has most of its neighbours, weighted by the room left there. From the
 * second pass on, the places of all neighbours are known, so far fewer edges are cut.
 *
 * Among parts without a neighbour only the emptiest one can win. So it is enough to look at the
 * neighbours' parts and at that one, which takes O(edges + vertices log parts) per pass.
 */
#include "gnn/partition_internal.h"

#include <stdlib.h>
#include <string.h>

#define PASSES 8
#define SLACK 1.05 /* a part's load may be the mean times this */
#define NOWHERE UINT32_MAX

struct stream {
    const struct culm_adjacency *graph;
    uint32_t *part; /* [vertices] */
    uint64_t *load; /* [parts] */
    double capacity;
    uint32_t parts;
    /* A heap of parts, the emptiest on top (ties: the lowest number), and each part's place in
     * it. */
    uint32_t *heap, *place;
    /* For the current vertex. */
    uint32_t *near;    /* [parts] number of its neighbours in each */
    uint32_t *touched; /* parts where that is not 0 */
};

static uint64_t load_of(const struct stream *s, int64_t v) {
    return 1 + s->graph->start[v + 1] - s->graph->start[v];
}

static bool emptier(const struct stream *s, uint32_t a, uint32_t b) {
    return s->load[a] != s->load[b] ? s->load[a] < s->load[b] : a < b;
}

static void swap(struct stream *s, uint32_t i, uint32_t j) {
    uint32_t keep = s->heap[i];
    s->heap[i] = s->heap[j];
    s->heap[j] = keep;
    s->place[s->heap[i]] = i;
    s->place[s->heap[j]] = j;
}

static void change_load(struct stream *s, uint32_t part, uint64_t load) {
    s->load[part] = load;
    uint32_t at = s->place[part];
    while (at > 0 && emptier(s, s->heap[at], s->heap[(at - 1) / 2])) {
        swap(s, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t best = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < s->parts; child++) {
            best = emptier(s, s->heap[child], s->heap[best]) ? child : best;
        }
        if (best == at) {
            return;
        }
        swap(s, at, best);
        at = best;
    }
}

/* The number of neighbours in the part times its free share; -1: there is no room. */
static double score(const struct stream *s, uint32_t part, uint64_t load) {
    double left = 1 - (double)s->load[part] / s->capacity;
    return (double)s->load[part] + (double)load > s->capacity ? -1 : s->near[part] * left;
}

static uint32_t choose(struct stream *s, int64_t v, uint64_t load) {
    uint32_t count = 0, best = s->heap[0];
    for (uint64_t i = s->graph->start[v]; i < s->graph->start[v + 1]; i++) {
        uint32_t u = s->graph->column[i], part = s->part[u];
        if (u != v && part != NOWHERE && s->near[part]++ == 0) {
            s->touched[count++] = part;
        }
    }
    double most = s->near[best] ? score(s, best, load) : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t part = s->touched[i];
        double here = score(s, part, load);
        if (here > most || (here == most && emptier(s, part, best))) {
            most = here;
            best = part;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        s->near[s->touched[i]] = 0;
    }
    return best;
}

static void stream_once(struct stream *s) {
    for (int64_t v = 0; v < s->graph->vertices; v++) {
        uint64_t load = load_of(s, v);
        if (s->part[v] != NOWHERE) {
            change_load(s, s->part[v], s->load[s->part[v]] - load);
        }
        uint32_t part = choose(s, v, load);
        s->part[v] = part;
        change_load(s, part, s->load[part] + load);
    }
}

enum culm_status partition_stream(const struct culm_adjacency *symmetric, int64_t parts,
                                  uint32_t *ret_part, struct culm_error *error) {
    struct stream s = {.graph = symmetric, .part = ret_part, .parts = (uint32_t)parts};
    uint64_t total = (uint64_t)symmetric->vertices + symmetric->start[symmetric->vertices];
    s.load = calloc((size_t)parts, sizeof *s.load);
    s.heap = malloc((size_t)parts * sizeof *s.heap);
    s.place = malloc((size_t)parts * sizeof *s.place);
    s.near = calloc((size_t)parts, sizeof *s.near);
    s.touched = malloc((size_t)parts * sizeof *s.touched);
    bool room = s.load && s.heap && s.place && s.near && s.touched;
    if (room) {
        s.capacity = (double)total / (double)parts * SLACK + 1;
        for (uint32_t p = 0; p < s.parts; p++) {
            s.heap[p] = s.place[p] = p;
        }
        memset(ret_part, 0xff, (size_t)symmetric->vertices * sizeof *ret_part);
        for (int pass = 0; pass < PASSES; pass++) {
            stream_once(&s);
        }
    }
    free(s.load);
    free(s.heap);
    free(s.place);
    free(s.near);
    free(s.touched);
    return room ? CULM_OK
                : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for %lld parts",
                                 (long long)parts);
}
