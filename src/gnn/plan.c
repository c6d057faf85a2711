/* Chooses whether layers multiply before or after they gather; plans as JSON. See plan.h. */
#include "gnn/plan.h"

#include "data/graph_data.h"

#include <string.h>

int64_t culm_gnn_plan_in(const struct culm_gnn_plan *plan, const struct culm_gnn_config *config,
                         int32_t layer) {
    return layer == 0 ? plan->columns : culm_gnn_plan_out(plan, config, layer - 1);
}

bool culm_gnn_plan_keeps(const struct culm_gnn_plan *plan) {
    return plan->multiply_first[0] || plan->aggregated;
}

int64_t culm_gnn_plan_out(const struct culm_gnn_plan *plan, const struct culm_gnn_config *config,
                          int32_t layer) {
    bool gat = config->model.arch == CULM_GNN_GAT, last = layer + 1 == plan->layers;
    int64_t heads = !gat ? 1 : last ? config->model.out_heads : config->model.heads;
    return heads * (last ? plan->classes : config->model.width);
}

bool culm_gnn_plan_own(const struct culm_gnn_plan *plan, const struct culm_gnn_config *config) {
    return plan->aggregated && config->model.arch == CULM_GNN_SAGE;
}

/* Whether gathering dense features once costs less than multiplying them first. For GraphSAGE there
 * are then two arrays of features, of which the second one takes the time of gathering about two
 * floats for each of its own (dropout, products). */
static bool pays(const struct culm_gnn_config *config, const struct culm_gnn_plan *plan) {
    int64_t neighbours = plan->edges * (plan->directed ? 1 : 2);
    double gathered = (double)neighbours * (double)culm_gnn_plan_out(plan, config, 0);
    return config->model.arch == CULM_GNN_GCN ||
           gathered > 2 * (double)plan->vertices * (double)plan->columns;
}

static void choose_order(const struct culm_gnn_config *config, struct culm_gnn_plan *plan) {
    for (int32_t l = 0; l < plan->layers; l++) {
        int64_t in = culm_gnn_plan_in(plan, config, l), out = culm_gnn_plan_out(plan, config, l);
        if (config->model.arch == CULM_GNN_GAT) {
            plan->multiply_first[l] = true;
        } else if (config->order == CULM_GNN_ORDER_PUBLISHED) {
            plan->multiply_first[l] = false;
        } else {
            plan->multiply_first[l] = l == 0 ? plan->sparse || !pays(config, plan) : out <= in;
        }
    }
    plan->aggregated = !plan->multiply_first[0] && config->order == CULM_GNN_ORDER_AUTO;
}

enum culm_status culm_gnn_plan_predict(const struct culm_gnn_config *config,
                                       const struct culm_graph_data *graph, int64_t classes,
                                       struct culm_gnn_plan *ret_plan, struct culm_error *error) {
    if (graph->feature_kind == CULM_GRAPH_NONE) {
        return culm_error_set(error, CULM_ERR_CONFIG, "graph '%s' has no features",
                              config->graph.path);
    }
    *ret_plan = (struct culm_gnn_plan){
        .vertices = graph->vertices,
        .edges = graph->edges,
        .columns = graph->columns,
        .classes = classes,
        .train = 1,
        .rows_max = 1,
        .directed = graph->directed,
        .sparse = graph->feature_kind == CULM_GRAPH_SPARSE && config->order == CULM_GNN_ORDER_AUTO,
        .layers = (int32_t)config->model.layers,
    };
    choose_order(config, ret_plan);
    return CULM_OK;
}

enum culm_status culm_gnn_plan_make(const struct culm_gnn_config *config,
                                    const struct culm_graph_data *graph, int64_t rows_max,
                                    struct culm_gnn_plan *ret_plan, struct culm_error *error) {
    int64_t count[4];
    const char *path = config->graph.path;
    if (graph->classes < 2) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "graph.path: '%s' has %lld classes; at least 2 are needed", path,
                              (long long)graph->classes);
    }
    if (config->graph.split >= graph->splits) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "graph.split: there is no split %lld; '%s' has %lld, counted from 0",
                              (long long)config->graph.split, path, (long long)graph->splits);
    }
    culm_graph_data_count(graph, config->graph.split, count);
    if (count[CULM_GRAPH_TRAIN] == 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "graph.split: '%s' has no training vertices in split %lld", path,
                              (long long)config->graph.split);
    }
    enum culm_status status = culm_gnn_plan_predict(config, graph, graph->classes, ret_plan, error);
    if (status == CULM_OK) {
        ret_plan->train = count[CULM_GRAPH_TRAIN];
        ret_plan->rows_max = rows_max;
    }
    return status;
}

json_t *culm_gnn_plan_json(const struct culm_gnn_plan *plan) {
    json_t *order = json_array();
    for (int32_t l = 0; l < plan->layers && order; l++) {
        json_array_append_new(order, json_boolean(plan->multiply_first[l]));
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:o}", "vertices",
                     (json_int_t)plan->vertices, "edges", (json_int_t)plan->edges, "columns",
                     (json_int_t)plan->columns, "classes", (json_int_t)plan->classes, "train",
                     (json_int_t)plan->train, "rows_max", (json_int_t)plan->rows_max, "directed",
                     plan->directed, "sparse", plan->sparse, "aggregated", plan->aggregated,
                     "multiply_first", order);
}

enum culm_status culm_gnn_plan_read(const json_t *json, struct culm_gnn_plan *ret_plan,
                                    struct culm_error *error) {
    json_int_t vertices, edges, columns, classes, train, rows_max;
    int directed, sparse, aggregated;
    json_t *order;
    if (json_unpack((json_t *)json, "{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:o}",
                    "vertices", &vertices, "edges", &edges, "columns", &columns, "classes",
                    &classes, "train", &train, "rows_max", &rows_max, "directed", &directed,
                    "sparse", &sparse, "aggregated", &aggregated, "multiply_first", &order) ||
        !json_is_array(order) || json_array_size(order) < 1 ||
        json_array_size(order) >= CULM_GNN_STAGES_MAX || vertices > CULM_GRAPH_VERTICES_MAX ||
        edges < 0 || edges > CULM_GRAPH_EDGES_MAX || columns < 1 || columns > INT32_MAX ||
        classes < 2 || classes > INT32_MAX || train < 1 || train > vertices || rows_max < 1 ||
        rows_max > vertices) {
        return culm_error_set(error, CULM_ERR_FORMAT, "the plan is not one of a graph network");
    }
    struct culm_gnn_plan plan = {
        .vertices = vertices,
        .edges = edges,
        .columns = columns,
        .classes = classes,
        .train = train,
        .rows_max = rows_max,
        .directed = directed,
        .sparse = sparse,
        .layers = (int32_t)json_array_size(order),
        .aggregated = aggregated,
    };
    for (int32_t l = 0; l < plan.layers; l++) {
        plan.multiply_first[l] = json_is_true(json_array_get(order, (size_t)l));
    }
    *ret_plan = plan;
    return CULM_OK;
}
