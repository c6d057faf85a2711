/* The shapes of a stage's values with fewer samples. See stage.h. */
#include "graph/stage_internal.h"

#include <stdlib.h>
#include <string.h>

/* Gradients, and what is computed again, have the shape of another value, which came before. */
static enum culm_status fill(const struct culm_stage *stage, const struct culm_graph *resized,
                             struct culm_value *value, struct culm_error *error) {
    for (int32_t v = 0; v < stage->graph->value_count; v++) {
        value[v] = stage->graph->value[v];
        if (v < resized->value_count) {
            value[v].shape = resized->value[v].shape;
        } else if (value[v].like >= 0 && value[v].like < v) {
            value[v].shape = value[value[v].like].shape;
        }
        if (culm_elements(&value[v].shape) > culm_elements(&stage->graph->value[v].shape)) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "a stage runs no more samples than it was compiled for");
        }
    }
    return CULM_OK;
}

enum culm_status culm_stage_rows_new(const struct culm_stage *stage, const struct culm_graph *graph,
                                     int64_t samples, struct culm_stage_rows **ret_rows,
                                     struct culm_error *error) {
    struct culm_graph *resized = NULL;
    enum culm_status status = culm_graph_for_samples(graph, samples, &resized, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_stage_rows *rows = calloc(1, sizeof *rows);
    if (rows) {
        rows->value = malloc(((size_t)stage->graph->value_count + 1) * sizeof *rows->value);
    }
    status = rows && rows->value ? fill(stage, resized, rows->value, error)
                                 : culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
    culm_graph_free(resized);
    if (status != CULM_OK) {
        culm_stage_rows_free(rows);
        return status;
    }
    *ret_rows = rows;
    return CULM_OK;
}

void culm_stage_rows_free(struct culm_stage_rows *rows) {
    if (rows) {
        free(rows->value);
        free(rows);
    }
}
