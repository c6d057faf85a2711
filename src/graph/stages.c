/* Cutting a graph and compiling its stages, last to first. See stage.h. */
#include "graph/stage_internal.h"

#include <stdlib.h>
#include <string.h>

static enum culm_status compile(const struct culm_graph *graph, int32_t index, int32_t stages,
                                const int32_t *first_block,
                                const struct culm_stage_options *options,
                                const struct culm_stage *next, struct culm_stage **ret_stage,
                                struct culm_error *error) {
    struct culm_stage *stage = calloc(1, sizeof *stage);
    if (!stage) {
        return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
    }
    stage->info = (struct culm_stage_info){
        .index = index,
        .stages = stages,
        .first_block = first_block[index],
        .last_block = (index + 1 < stages ? first_block[index + 1] : graph->blocks) - 1,
    };
    enum culm_status status = stage_build(stage, graph, next, options, error);
    if (status == CULM_OK) {
        status = stage_find_chains(stage, error);
    }
    if (status == CULM_OK) {
        status = stage_place(stage, error);
    }
    if (status != CULM_OK) {
        culm_stage_free(stage);
        return status;
    }
    *ret_stage = stage;
    return CULM_OK;
}

enum culm_status culm_stages_compile(const struct culm_graph *graph, int32_t stages,
                                     const struct culm_stage_options *options,
                                     struct culm_stage **ret_stage, struct culm_error *error) {
    static const struct culm_stage_options plain = {0};
    int32_t *first_block = calloc((size_t)(stages > 0 ? stages : 1), sizeof *first_block);
    if (!first_block) {
        return culm_error_set(error, CULM_ERR_MEMORY, "stage: out of memory");
    }
    enum culm_status status = CULM_OK;
    if (options && options->first_block) {
        memcpy(first_block, options->first_block, (size_t)stages * sizeof *first_block);
    } else {
        status = culm_graph_cut(graph, stages, NULL, first_block, error);
    }
    for (int32_t s = stages - 1; s >= 0 && status == CULM_OK; s--) {
        const struct culm_stage *next = s + 1 < stages ? ret_stage[s + 1] : NULL;
        status = compile(graph, s, stages, first_block, options ? options : &plain, next,
                         &ret_stage[s], error);
        for (int32_t behind = s + 1; status != CULM_OK && behind < stages; behind++) {
            culm_stage_free(ret_stage[behind]);
            ret_stage[behind] = NULL;
        }
    }
    free(first_block);
    return status;
}
