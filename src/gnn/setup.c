/* Makes a model and a layout from the configuration. See setup.h. */
#include "gnn/setup.h"

#include "base/file.h"
#include "data/npy.h"
#include "gnn/numeric.h"

#include <stdlib.h>
#include <string.h>

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* `shares`: also divides intervals among servers. */
static enum culm_status cut(struct culm_gnn_setup *s, const struct culm_gnn_cut *made, bool shares,
                            struct culm_error *error) {
    bool given = made->path || made->interval_of;
    const struct culm_partition_options options = {.intervals = s->config->intervals,
                                                   .method = given ? CULM_PARTITION_FILE
                                                                   : CULM_PARTITION_AUTO,
                                                   .path = made->path,
                                                   .parts = made->interval_of,
                                                   .seed = s->config->seed,
                                                   .directed = s->graph->directed,
                                                   .stop = made->stop};
    size_t bytes = (size_t)s->graph->vertices * sizeof *s->interval_of;
    struct culm_adjacency neighbours = {0};
    struct culm_partition partition = {0};
    if ((made->interval_of || made->vertices) && made->vertices != s->graph->vertices) {
        return culm_error_set(error, CULM_ERR_CHANGED,
                              "the graph has %lld vertices, but that of the run has %lld",
                              (long long)s->graph->vertices, (long long)made->vertices);
    }
    s->interval_of = malloc(bytes);
    s->owned = calloc((size_t)s->config->servers + 1, sizeof *s->owned);
    if (!s->interval_of || !s->owned) {
        return no_memory(error);
    }
    enum culm_status status = culm_adjacency_of(s->graph, false, &neighbours, error);
    if (status == CULM_OK) {
        status = culm_partition_of(&neighbours, &options, &partition, error);
    }
    if (status == CULM_OK && shares) {
        status = culm_partition_share(&neighbours, &partition, s->config->servers, s->owned, error);
    }
    if (status == CULM_OK && shares) {
        status = culm_partition_count(&neighbours, s->graph->directed, &partition,
                                      s->config->servers, s->owned, &s->counts, error);
    }
    if (status == CULM_OK) {
        memcpy(s->interval_of, partition.interval, bytes);
    }
    culm_partition_release(&partition);
    culm_adjacency_release(&neighbours);
    return status;
}

static int64_t rows_max(const struct culm_gnn_structure *s) {
    int64_t most = 0;
    for (int32_t i = 0; i < s->intervals; i++) {
        int64_t rows = culm_gnn_structure_rows(s, i);
        most = rows > most ? rows : most;
    }
    return most;
}

/* The part that follows from the plan alone. */
static enum culm_status build(struct culm_gnn_setup *s, const struct culm_gnn_plan *plan,
                              struct culm_error *error) {
    enum culm_status status = culm_gnn_model_new(s->config, plan, &s->model, error);
    if (status == CULM_OK) {
        status = culm_gnn_layout_init(&s->layout, (int32_t)s->config->intervals, error);
    }
    if (status == CULM_OK) {
        culm_gnn_model_layout(s->model, &s->layout);
    }
    return status;
}

/* `config`: the setup's configuration, to be changed if need be, for prediction; NULL: training. */
static enum culm_status open_graph(struct culm_gnn_setup *s, struct culm_pins *pins,
                                   const struct culm_gnn_cut *made, struct culm_gnn_config *config,
                                   int64_t classes, struct culm_error *error) {
    struct culm_gnn_plan plan;
    /* Dense features are read once, to make the input of each interval. */
    enum culm_status status = culm_graph_data_open(
        s->config->graph.path, CULM_GRAPH_ALL | CULM_GRAPH_IN_FILE, pins, &s->graph, error);
    if (status != CULM_OK) {
        culm_error_prefix(error, "graph.path");
        return status;
    }
    /* Before the cut, which takes long. */
    status = config ? culm_gnn_plan_predict(config, s->graph, classes, &plan, error)
                    : culm_gnn_plan_make(s->config, s->graph, 1, &plan, error);
    if (config && config->intervals > s->graph->vertices) {
        config->intervals = s->graph->vertices;
    }
    if (status == CULM_OK) {
        status = cut(s, made, !config, error);
    }
    if (status == CULM_OK) {
        status =
            culm_gnn_structure_new(s->graph, s->interval_of, (int32_t)s->config->intervals,
                                   s->config->model.arch != CULM_GNN_SAGE, &s->structure, error);
    }
    if (status == CULM_OK) {
        plan.rows_max = rows_max(s->structure);
        status = build(s, &plan, error);
    }
    if (status == CULM_OK) {
        status = culm_gnn_structure_layout(s->structure, &s->layout, error);
    }
    if (status == CULM_OK) {
        s->layout.payload_max =
            culm_gnn_numeric_payload_max(s->model, &s->layout, s->structure, s->graph);
        status = culm_gnn_numeric_fits(s->config, s->model, s->structure, s->graph, error);
    }
    return status;
}

enum culm_status culm_gnn_setup_open(const struct culm_gnn_config *config, struct culm_pins *pins,
                                     struct culm_gnn_setup **ret_setup, struct culm_error *error) {
    const struct culm_gnn_cut none = {0};
    return culm_gnn_setup_open_cut(config, pins, &none, ret_setup, error);
}

enum culm_status culm_gnn_setup_open_cut(const struct culm_gnn_config *config,
                                         struct culm_pins *pins, const struct culm_gnn_cut *cut,
                                         struct culm_gnn_setup **ret_setup,
                                         struct culm_error *error) {
    struct culm_gnn_setup *s = calloc(1, sizeof *s);
    if (!s) {
        return no_memory(error);
    }
    s->config = config;
    enum culm_status status = open_graph(s, pins, cut, NULL, 0, error);
    if (status != CULM_OK) {
        culm_gnn_setup_close(s);
        return status;
    }
    *ret_setup = s;
    return CULM_OK;
}

enum culm_status culm_gnn_setup_write_cut(const struct culm_gnn_setup *s, const char *path,
                                          struct culm_error *error) {
    const uint64_t dim[] = {(uint64_t)s->graph->vertices};
    char header[CULM_NPY_WRITE_MAX];
    size_t head = culm_npy_header('u', sizeof *s->interval_of, 1, dim, header);
    size_t bytes = (size_t)s->graph->vertices * sizeof *s->interval_of;
    char *file = malloc(head + bytes);
    if (!file) {
        return no_memory(error);
    }
    memcpy(file, header, head);
    memcpy(file + head, s->interval_of, bytes);
    enum culm_status status = culm_file_replace(NULL, path, file, head + bytes, error);
    free(file);
    return status;
}

/* If the graph could not be opened because its intervals are too large for graph.memory_mb: asks
 * for more of them. False: that was not the reason, or there cannot be more. */
static bool raise_intervals(const struct culm_gnn_setup *s, struct culm_gnn_config *config) {
    size_t limit = (size_t)config->graph.memory_mb << 20;
    if (!s->model || !s->structure || limit == 0 || s->model->plan.sparse) {
        return false;
    }
    size_t times = culm_gnn_numeric_needs(config, s->model, s->structure, s->graph) / limit + 1;
    int64_t most =
        s->graph->vertices < CULM_GNN_INTERVALS_MAX ? s->graph->vertices : CULM_GNN_INTERVALS_MAX;
    int64_t before = config->intervals;
    bool beyond = times > (size_t)(most / before);
    config->intervals = times < 2 ? before : beyond ? most : before * (int64_t)times;
    return config->intervals > before;
}

enum culm_status culm_gnn_setup_predict(struct culm_gnn_config *config, struct culm_pins *pins,
                                        int64_t classes, const struct culm_gnn_cut *cut,
                                        struct culm_gnn_setup **ret_setup,
                                        struct culm_error *error) {
    enum culm_status status;
    bool again;
    do {
        struct culm_gnn_setup *s = calloc(1, sizeof *s);
        if (!s) {
            return no_memory(error);
        }
        s->config = config;
        status = open_graph(s, pins, cut, config, classes, error);
        again = status == CULM_ERR_CONFIG && !cut->path && !cut->interval_of &&
                raise_intervals(s, config);
        if (status == CULM_OK) {
            *ret_setup = s;
        } else {
            culm_gnn_setup_close(s);
        }
        if (again) {
            culm_error_clear(error);
        }
    } while (again);
    return status;
}

enum culm_status culm_gnn_setup_plan(const struct culm_gnn_config *config,
                                     const struct culm_gnn_plan *plan,
                                     struct culm_gnn_setup **ret_setup, struct culm_error *error) {
    struct culm_gnn_setup *s = calloc(1, sizeof *s);
    if (!s) {
        return no_memory(error);
    }
    s->config = config;
    enum culm_status status = build(s, plan, error);
    if (status != CULM_OK) {
        culm_gnn_setup_close(s);
        return status;
    }
    *ret_setup = s;
    return CULM_OK;
}

int64_t culm_gnn_setup_memory(const struct culm_gnn_setup *s) {
    const struct culm_gnn_plan *plan = &s->model->plan;
    int64_t rows = 0; /* bytes of all rows of a vertex, made and gathered */
    for (int32_t i = 0; i < s->layout.train_steps; i++) {
        int32_t makes = s->layout.step[i].makes;
        rows += makes >= 0 ? 2 * (int64_t)s->layout.gather[makes].row_bytes : 0;
    }
    int64_t features = plan->sparse ? (int64_t)s->graph->entries * 24
                                    : plan->vertices * plan->columns * (int64_t)sizeof(float) *
                                          (1 + s->model->own_features);
    int64_t most = (s->config->graph.memory_mb << 20) * s->config->servers;
    features = most > 0 && features > most ? most : features;
    int64_t edges = (int64_t)s->structure->along[0].start[plan->vertices];
    return features + edges * 4 * (1 + s->structure->directed) + plan->vertices * rows +
           3 * culm_gnn_model_parameters(s->model) * (int64_t)sizeof(float);
}

void culm_gnn_setup_forget_graph(struct culm_gnn_setup *s) {
    culm_graph_data_free(s->graph);
    culm_gnn_structure_free(s->structure);
    s->graph = NULL;
    s->structure = NULL;
}

void culm_gnn_setup_close(struct culm_gnn_setup *s) {
    if (s) {
        culm_gnn_setup_forget_graph(s);
        free(s->interval_of);
        free(s->owned);
        culm_gnn_model_free(s->model);
        culm_gnn_layout_release(&s->layout);
        free(s);
    }
}
