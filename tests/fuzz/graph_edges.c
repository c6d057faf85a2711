/*
 * Fuzz target: text that is imported as a graph. Any edges, labels and features make a graph that
 * holds what graph_data.h promises, or are refused with a message.
 */
#include "fuzz.h"

#include "data/graph_import.h"
#include "memory_files.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"edges", "labels", "features", NULL};
    const struct memory_files *files = memory_files(names);
    struct culm_error error = {0};
    struct culm_graph_data *g = NULL;
    char path[3][128];
    const char *edges[] = {path[0]};
    if (size < 1) {
        return 0;
    }
    memory_files_fill(files, data + 1, size - 1);
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", files->folder, names[i]);
    }
    /* A number of vertices is given: one large id would otherwise ask for gigabytes. */
    const struct culm_graph_edge_files from = {.edges = edges,
                                               .edge_count = 1,
                                               .labels = data[0] & 1 ? path[1] : NULL,
                                               .features = data[0] & 2 ? path[2] : NULL,
                                               .directed = data[0] & 4,
                                               .vertices = 1 + data[0] / 8};
    if (culm_graph_import_edges(&from, "fuzz", &g, &error) == CULM_OK) {
        for (int64_t i = 0; i < g->edges; i++) {
            const uint32_t *e = g->edge + 2 * i;
            FUZZ_REQUIRE(e[0] < g->vertices && e[1] < g->vertices && e[0] != e[1], "edge");
            FUZZ_REQUIRE(!i || e[-2] < e[0] || (e[-2] == e[0] && e[-1] < e[1]), "edge");
        }
        for (int64_t v = 0; g->label && v < g->vertices; v++) {
            FUZZ_REQUIRE(g->label[v] >= -1 && g->label[v] < g->classes, "label %d", g->label[v]);
        }
        for (int64_t v = 0; g->start && v < g->vertices; v++) {
            for (uint64_t i = g->start[v]; i < g->start[v + 1]; i++) {
                FUZZ_REQUIRE(i < g->entries && g->column[i] < g->columns, "column");
            }
        }
        for (int64_t i = 0; g->dense && i < g->vertices * g->columns; i++) {
            FUZZ_REQUIRE(isfinite(g->dense[i]), "feature");
        }
        culm_graph_data_free(g);
    } else {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
    }
    return 0;
}
