/*
 * Fuzz target: archives of arrays that are imported as a graph.
 */
#include "fuzz.h"

#include "data/graph_import.h"
#include "memory_file.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_error error = {0};
    struct culm_graph_data *g = NULL;
    char path[64];
    int fd = memory_file(data, size, path);
    if (culm_graph_import_npz(path, size % 2, "fuzz", &g, &error) == CULM_OK) {
        for (int64_t i = 0; i < g->edges; i++) {
            const uint32_t *e = g->edge + 2 * i;
            FUZZ_REQUIRE(e[0] < g->vertices && e[1] < g->vertices && e[0] != e[1], "edge");
        }
        for (int64_t v = 0; g->label && v < g->vertices; v++) {
            FUZZ_REQUIRE(g->label[v] >= -1 && g->label[v] < g->classes, "label %d", g->label[v]);
        }
        for (int64_t v = 0; g->start && v < g->vertices; v++) {
            for (uint64_t i = g->start[v]; i < g->start[v + 1]; i++) {
                FUZZ_REQUIRE(i < g->entries && g->column[i] < g->columns, "column");
                FUZZ_REQUIRE(g->ones || isfinite(g->value[i]), "value");
            }
        }
        culm_graph_data_free(g);
    } else {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
    }
    close(fd);
    return 0;
}
