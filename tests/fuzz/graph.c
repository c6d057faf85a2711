/*
 * Fuzz target: folders of the format culm-graph-1. Any files are read or refused with a message; of
 * what was read every promise of graph_data.h holds.
 */
#include "fuzz.h"

#include "data/adjacency.h"
#include "memory_files.h"

#include <math.h>

static void check_edges(const struct culm_graph_data *g) {
    for (int64_t i = 0; i < g->edges; i++) {
        const uint32_t *e = g->edge + 2 * i;
        FUZZ_REQUIRE(e[0] < g->vertices && e[1] < g->vertices && e[0] != e[1], "edge %lld",
                     (long long)i);
        FUZZ_REQUIRE(g->directed || e[0] < e[1], "edge %lld", (long long)i);
        FUZZ_REQUIRE(!i || e[-2] < e[0] || (e[-2] == e[0] && e[-1] < e[1]), "edge %lld",
                     (long long)i);
    }
    struct culm_adjacency in, out;
    if (g->vertices > 1000000) { /* many vertices need nothing but a number in graph.json */
        return;
    }
    FUZZ_REQUIRE(culm_adjacency_of(g, true, &in, NULL) == CULM_OK, "neighbours");
    FUZZ_REQUIRE(culm_adjacency_transpose(&in, NULL, &out, NULL) == CULM_OK, "transposed");
    uint64_t ends = (uint64_t)g->edges * (g->directed ? 1 : 2) + (uint64_t)g->vertices;
    FUZZ_REQUIRE(in.start[g->vertices] == ends && out.start[g->vertices] == ends, "%llu ends",
                 (unsigned long long)ends);
    for (int64_t v = 0; v < g->vertices; v++) {
        for (uint64_t i = in.start[v] + 1; i < in.start[v + 1]; i++) {
            FUZZ_REQUIRE(in.column[i] > in.column[i - 1], "row %lld", (long long)v);
        }
    }
    culm_adjacency_release(&in);
    culm_adjacency_release(&out);
}

static void check_features(const struct culm_graph_data *g) {
    for (int64_t i = 0; g->dense && i < g->vertices * g->columns; i++) {
        FUZZ_REQUIRE(isfinite(g->dense[i]), "feature %lld", (long long)i);
    }
    for (int64_t v = 0; g->start && v < g->vertices; v++) {
        for (uint64_t i = g->start[v]; i < g->start[v + 1]; i++) {
            FUZZ_REQUIRE(i < g->entries && g->column[i] < g->columns, "entry");
            FUZZ_REQUIRE(i == g->start[v] || g->column[i] > g->column[i - 1], "entry");
            FUZZ_REQUIRE(g->ones || isfinite(g->value[i]), "value");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {
        "graph.json",          "edges.npy",          "labels.npy",
        "split.npy",           "features.npy",       "features_start.npy",
        "features_column.npy", "features_value.npy", NULL};
    const struct memory_files *files = memory_files(names);
    struct culm_error error = {0};
    struct culm_graph_data *graph = NULL;
    memory_files_fill(files, data, size);
    if (culm_graph_data_open(files->folder, CULM_GRAPH_ALL, NULL, &graph, &error) == CULM_OK) {
        check_edges(graph);
        check_features(graph);
        for (int64_t s = 0; s < graph->splits; s++) {
            int64_t count[4];
            culm_graph_data_count(graph, s, count);
            FUZZ_REQUIRE(count[0] + count[1] + count[2] + count[3] == graph->vertices, "split");
        }
        culm_graph_data_free(graph);
    } else {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
    }
    return 0;
}
