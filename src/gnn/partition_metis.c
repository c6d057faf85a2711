/* Partitions a graph with METIS, which seeds its random numbers in each call and uses no threads,
 * so the result is reproducible. */
#include "gnn/partition_internal.h"

#include "base/pages.h"

#include <assert.h>
#include <metis.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

static_assert(sizeof(idx_t) == 4 && sizeof(real_t) == 4, "METIS as Debian builds it");

/* The same graph without loops, in METIS's integers. */
struct metis_graph {
    idx_t *start, *column, *weight; /* weight: 1 + number of edges, limited */
};

static void release(struct metis_graph *graph) {
    free(graph->start);
    free(graph->column);
    free(graph->weight);
}

static bool convert(const struct culm_adjacency *from, int64_t parts, struct metis_graph *to) {
    size_t vertices = (size_t)from->vertices;
    /* A vertex heavier than a part would make METIS leave other parts empty. */
    idx_t most = 1 + (idx_t)((vertices + from->start[vertices]) / (size_t)parts);
    to->start = culm_pages_alloc((vertices + 1) * sizeof *to->start);
    to->column = culm_pages_alloc((size_t)from->start[vertices] * sizeof *to->column);
    to->weight = culm_pages_alloc(vertices * sizeof *to->weight);
    if (!to->start || !to->column || !to->weight) {
        return false;
    }
    idx_t count = 0;
    for (size_t v = 0; v < vertices; v++) {
        to->start[v] = count;
        for (uint64_t i = from->start[v]; i < from->start[v + 1]; i++) {
            if (from->column[i] != v) {
                to->column[count++] = (idx_t)from->column[i];
            }
        }
        idx_t load = 1 + count - to->start[v];
        to->weight[v] = load < most ? load : most;
    }
    to->start[vertices] = count;
    return true;
}

/* While it works, METIS has handlers of its own for SIGTERM and SIGABRT, which it uses to jump out of
 * internal errors. A SIGTERM from outside would trigger that, so it is blocked meanwhile. Afterwards
 * METIS restores the handlers that there were, but not how: they would be used once, and without
 * further calls being restarted. */
static int call(struct metis_graph *graph, idx_t vertices, idx_t parts, idx_t *options,
                idx_t *ret_part) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    idx_t constraints = 1, cut;
    real_t slack = 1.05f;
    sigset_t term, before;
    struct sigaction had[2];
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_mutex_lock(&lock);
    pthread_sigmask(SIG_BLOCK, &term, &before);
    sigaction(SIGTERM, NULL, &had[0]);
    sigaction(SIGABRT, NULL, &had[1]);
    int result =
        METIS_PartGraphKway(&vertices, &constraints, graph->start, graph->column, graph->weight,
                            NULL, NULL, &parts, NULL, &slack, options, &cut, ret_part);
    sigaction(SIGTERM, &had[0], NULL);
    sigaction(SIGABRT, &had[1], NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_unlock(&lock);
    return result;
}

enum culm_status culm_partition_metis(const struct culm_adjacency *symmetric, int64_t parts,
                                      uint64_t seed, uint32_t *ret_part, struct culm_error *error) {
    struct metis_graph graph = {0};
    idx_t options[METIS_NOPTIONS];
    if (symmetric->vertices > INT32_MAX - 1 ||
        symmetric->start[symmetric->vertices] > (uint64_t)INT32_MAX / 2) {
        return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                              "%llu ends of edges are too many for METIS; use the method 'stream'",
                              (unsigned long long)symmetric->start[symmetric->vertices]);
    }
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_SEED] = (idx_t)(seed & 0x7fffffff);
    options[METIS_OPTION_NUMBERING] = 0;
    int result = METIS_ERROR_MEMORY;
    if (convert(symmetric, parts, &graph)) {
        result = call(&graph, (idx_t)symmetric->vertices, (idx_t)parts, options, (idx_t *)ret_part);
    }
    release(&graph);
    if (result == METIS_ERROR_MEMORY) {
        return culm_error_set(error, CULM_ERR_MEMORY,
                              "METIS: out of memory; the method 'stream' needs less");
    }
    if (result != METIS_OK) {
        return culm_error_set(error, CULM_ERR_INTERNAL,
                              "METIS ended with %d; use the method 'stream'", result);
    }
    return CULM_OK;
}
