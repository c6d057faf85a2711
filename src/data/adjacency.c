/* In-neighbours by counting sorts; see the header. */
#include "data/adjacency.h"

#include "base/pages.h"

#include <stdlib.h>
#include <string.h>

void culm_adjacency_release(struct culm_adjacency *adjacency) {
    free(adjacency->start);
    free(adjacency->column);
    *adjacency = (struct culm_adjacency){0};
}

static enum culm_status no_memory(struct culm_error *error, int64_t vertices) {
    return culm_error_set(error, CULM_ERR_MEMORY,
                          "out of memory for the neighbours of %lld vertices", (long long)vertices);
}

/* Places of rows from their lengths, which stand at start[v + 2]; afterwards start[v + 1] is where
 * the next entry of row v goes, and when all are placed start[v] is where row v begins. */
static bool lay_out(struct culm_adjacency *adjacency) {
    uint64_t *start = adjacency->start;
    for (int64_t v = 0; v < adjacency->vertices; v++) {
        start[v + 2] += start[v + 1];
    }
    adjacency->column =
        culm_pages_alloc((size_t)start[adjacency->vertices + 1] * sizeof *adjacency->column);
    return adjacency->column != NULL;
}

static void place(struct culm_adjacency *adjacency, uint32_t row, uint32_t column) {
    adjacency->column[adjacency->start[row + 1]++] = column;
}

/* Room for `vertices` lengths and one more number, all 0. */
static bool begin(struct culm_adjacency *adjacency, int64_t vertices) {
    adjacency->vertices = vertices;
    adjacency->start = culm_pages_zeroed(((size_t)vertices + 2) * sizeof *adjacency->start);
    return adjacency->start != NULL;
}

enum culm_status culm_adjacency_of(const struct culm_graph_data *graph, bool loops,
                                   struct culm_adjacency *ret_adjacency, struct culm_error *error) {
    struct culm_adjacency made = {0};
    const uint32_t *edge = graph->edge;
    if (!begin(&made, graph->vertices)) {
        return no_memory(error, graph->vertices);
    }
    for (int64_t i = 0; i < graph->edges; i++) {
        made.start[(uint64_t)edge[2 * i + 1] + 2]++;
        made.start[(uint64_t)edge[2 * i] + 2] += !graph->directed;
    }
    for (int64_t v = 0; loops && v < graph->vertices; v++) {
        made.start[v + 2]++;
    }
    if (!lay_out(&made)) {
        culm_adjacency_release(&made);
        return no_memory(error, graph->vertices);
    }
    /* Edges rise by (u, v). Whatever is smaller than u has been added to the row of u when the
     * edges of u come, and the larger ones follow in order; in between is the place of the loop. */
    int64_t looped = 0;
    for (int64_t i = 0; i < graph->edges; i++) {
        uint32_t u = edge[2 * i], v = edge[2 * i + 1];
        for (; loops && looped <= u; looped++) {
            place(&made, (uint32_t)looped, (uint32_t)looped);
        }
        place(&made, v, u);
        if (!graph->directed) {
            place(&made, u, v);
        }
    }
    for (; loops && looped < graph->vertices; looped++) {
        place(&made, (uint32_t)looped, (uint32_t)looped);
    }
    *ret_adjacency = made;
    return CULM_OK;
}

/* Rows of the result are new_of_old of the columns, their entries new_of_old of the rows, in the
 * order in which `old_of_new` walks the rows. NULL: all keep their ids. */
static enum culm_status transpose(const struct culm_adjacency *adjacency,
                                  const uint32_t *new_of_old, const uint32_t *old_of_new,
                                  struct culm_adjacency *ret_transposed, struct culm_error *error) {
    struct culm_adjacency made = {0};
    uint64_t entries = adjacency->start[adjacency->vertices];
    if (!begin(&made, adjacency->vertices)) {
        return no_memory(error, adjacency->vertices);
    }
    for (uint64_t i = 0; i < entries; i++) {
        uint32_t u = adjacency->column[i];
        made.start[(uint64_t)(new_of_old ? new_of_old[u] : u) + 2]++;
    }
    if (!lay_out(&made)) {
        culm_adjacency_release(&made);
        return no_memory(error, adjacency->vertices);
    }
    for (int64_t v = 0; v < adjacency->vertices; v++) {
        int64_t old = old_of_new ? old_of_new[v] : v;
        for (uint64_t i = adjacency->start[old]; i < adjacency->start[old + 1]; i++) {
            uint32_t u = adjacency->column[i];
            place(&made, new_of_old ? new_of_old[u] : u, (uint32_t)v);
        }
    }
    *ret_transposed = made;
    return CULM_OK;
}

enum culm_status culm_adjacency_transpose(const struct culm_adjacency *adjacency,
                                          const uint32_t *new_of_old,
                                          struct culm_adjacency *ret_transposed,
                                          struct culm_error *error) {
    uint32_t *old_of_new = NULL;
    if (new_of_old) {
        old_of_new = culm_pages_alloc((size_t)adjacency->vertices * sizeof *old_of_new);
        if (!old_of_new) {
            return no_memory(error, adjacency->vertices);
        }
        for (int64_t v = 0; v < adjacency->vertices; v++) {
            old_of_new[new_of_old[v]] = (uint32_t)v;
        }
    }
    enum culm_status status = transpose(adjacency, new_of_old, old_of_new, ret_transposed, error);
    free(old_of_new);
    return status;
}
