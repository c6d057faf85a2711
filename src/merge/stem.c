/* The first part of a model as a model of its own. See stem.h. */
#include "merge/stem.h"

#include <stdio.h>

static enum culm_status build(struct culm_vision_model *model, int64_t batch,
                              struct culm_graph **ret_graph, struct culm_error *error) {
    const struct culm_stem *stem = (const struct culm_stem *)model;
    struct culm_graph *graph = NULL;
    enum culm_status status = stem->of->ops->graph(stem->of, batch, &graph, error);
    if (status != CULM_OK) {
        return status;
    }
    graph->node_count = stem->node + 1;
    graph->output_count = 0;
    graph->blocks = graph->node[stem->node].block + 1;
    culm_graph_output(graph, "features", graph->node[stem->node].output[0]);
    if ((status = culm_graph_check(graph, error)) != CULM_OK) {
        culm_graph_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}

static enum culm_status weights(struct culm_vision_model *model, const struct culm_param *param,
                                float *ret_data, struct culm_error *error) {
    return culm_vision_model_weights(((const struct culm_stem *)model)->of, param, ret_data, error);
}

static void free_nothing(struct culm_vision_model *model) { (void)model; }

void culm_stem_init(struct culm_stem *stem, struct culm_vision_model *of, int32_t node) {
    static const struct culm_vision_model_ops ops = {
        .size = sizeof ops, .graph = build, .weights = weights, .free = free_nothing};
    *stem =
        (struct culm_stem){.vision = {.ops = &ops,
                                      .input = of->input,
                                      .kind = CULM_ANSWER_POINTS}, /* for the loss: squared error */
                           .of = of,
                           .node = node};
    snprintf(stem->vision.name, sizeof stem->vision.name, "%s", of->name);
}
