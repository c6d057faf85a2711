/* New data graphs: from files of others, from arrays of the caller, and drawn ones. See culm/gnn.h. */
#include "base/words.h"
#include "data/graph_import.h"
#include "data/graph_make.h"
#include "data/graph_write.h"
#include "run/gnn_graph.h"
#include "run/public.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAREST 8 /* neighbours of an image in knn, unless --edges is given */

/* To the caller, if that wants to know. */
static enum culm_status tell(struct culm_gnn_graph_info *ret_info,
                             const struct culm_gnn_graph_info *info, struct culm_error *error) {
    return ret_info ? culm_public_fill(ret_info, info, sizeof *info, "culm_gnn_graph_info", error)
                    : CULM_OK;
}

/* --- from files, and drawn --- */

static enum culm_status check_files(const struct culm_gnn_create_options *n, size_t least,
                                    size_t most, const char *what, struct culm_error *error) {
    return n->file_count >= least && n->file_count <= most
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_ARGUMENT, "'%s' takes %s", n->kind, what);
}

static enum culm_status not_for(const struct culm_gnn_create_options *n, const char *option,
                                bool given, struct culm_error *error) {
    return given ? culm_error_set(error, CULM_ERR_ARGUMENT, "--%s is not for '%s'", option, n->kind)
                 : CULM_OK;
}

static enum culm_status import_edges(const struct culm_gnn_create_options *n, const char *name,
                                     struct culm_graph_data **ret_graph, struct culm_error *error) {
    const struct culm_graph_edge_files files = {.edges = n->files,
                                                .edge_count = n->file_count,
                                                .labels = n->labels,
                                                .features = n->features,
                                                .vertices = n->vertices,
                                                .directed = n->directed};
    enum culm_status status = check_files(n, 1, SIZE_MAX, "files with edges", error);
    return status == CULM_OK ? culm_graph_import_edges(&files, name, ret_graph, error) : status;
}

static enum culm_status import_npz(const struct culm_gnn_create_options *n, const char *name,
                                   struct culm_graph_data **ret_graph, struct culm_error *error) {
    enum culm_status status = check_files(n, 1, 1, "one archive", error);
    if (status == CULM_OK) {
        status = not_for(n, "labels", n->labels != NULL, error);
    }
    if (status == CULM_OK) {
        status = not_for(n, "features", n->features != NULL, error);
    }
    if (status == CULM_OK) {
        status = not_for(n, "vertices", n->vertices > 0, error);
    }
    return status == CULM_OK
               ? culm_graph_import_npz(n->files[0], n->directed, name, ret_graph, error)
               : status;
}

static enum culm_status make_drawn(const struct culm_gnn_create_options *n, const char *name,
                                   struct culm_graph_data **ret_graph, struct culm_error *error) {
    bool blocks = !strcmp(n->kind, "sbm");
    const struct culm_graph_make_options options = {.vertices = n->vertices,
                                                    .edges = n->edges,
                                                    .columns = n->columns ? n->columns
                                                               : blocks   ? 16
                                                                          : 0,
                                                    .classes = n->classes ? n->classes
                                                               : blocks   ? 4
                                                                          : 0,
                                                    .seed = n->seed};
    enum culm_status status = check_files(n, 0, 0, "no file", error);
    if (status == CULM_OK && (!n->vertices || !n->edges)) {
        status =
            culm_error_set(error, CULM_ERR_ARGUMENT, "'%s' needs --vertices and --edges", n->kind);
    }
    return status != CULM_OK ? status
           : blocks          ? culm_graph_make_sbm(&options, name, ret_graph, error)
                             : culm_graph_make_rmat(&options, name, ret_graph, error);
}

static enum culm_status make_knn(const struct culm_gnn_create_options *n, const char *name,
                                 struct culm_graph_data **ret_graph, struct culm_error *error) {
    enum culm_status status = check_files(n, 1, 2, "images, and their labels", error);
    if (status == CULM_OK) {
        status = not_for(n, "features", n->columns > 0, error);
    }
    if (status == CULM_OK) {
        status = not_for(n, "classes", n->classes > 0, error);
    }
    if (status == CULM_OK && n->edges > 0 && (!n->vertices || n->edges < n->vertices)) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                "knn: --edges needs --vertices, and must not be smaller");
    }
    if (status != CULM_OK) {
        return status;
    }
    int64_t nearest = n->edges > 0 ? n->edges / n->vertices : NEAREST;
    return culm_graph_make_knn(n->files[0], n->file_count > 1 ? n->files[1] : NULL, n->vertices,
                               nearest, name, ret_graph, error);
}

/* Options that a kind has nothing for, and that the kinds themselves do not look at. */
static enum culm_status check_members(const struct culm_gnn_create_options *n,
                                      struct culm_error *error) {
    const bool imported = !strcmp(n->kind, "edges") || !strcmp(n->kind, "npz");
    const struct {
        bool given;
        const char *option;
    } rows[] = {
        {imported && n->edges, "edges"},        {imported && n->columns, "features"},
        {imported && n->classes, "classes"},    {!imported && n->labels, "labels"},
        {!imported && n->features, "features"}, {!imported && n->directed, "directed"},
    };
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == CULM_OK; i++) {
        status = not_for(n, rows[i].option, rows[i].given, error);
    }
    return status;
}

static enum culm_status check(const struct culm_gnn_create_options *n, struct culm_error *error) {
    static const char *const kinds[] = {"edges", "npz", "knn", "rmat", "sbm", NULL};
    const int64_t numbers[] = {n->vertices, n->edges, n->columns, n->classes, n->splits};
    enum culm_status status = CULM_OK;
    if (!n->kind || culm_word_find(kinds, n->kind) < 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_gnn_create_options: unknown kind '%.40s'; allowed: edges, npz, "
                              "knn, rmat, sbm",
                              n->kind ? n->kind : "");
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == CULM_OK; i++) {
        status = culm_public_check(numbers[i], INT64_MAX, "culm_gnn_create_options", error);
    }
    for (size_t i = 0; i < n->file_count && status == CULM_OK; i++) {
        if (!n->files || !n->files[i]) {
            status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                    "culm_gnn_create_options: file %zu of %zu is NULL", i + 1,
                                    n->file_count);
        }
    }
    if (status == CULM_OK && n->seed > INT64_MAX) {
        status =
            culm_error_set(error, CULM_ERR_ARGUMENT, "culm_gnn_create_options: seed is above %lld",
                           (long long)INT64_MAX);
    }
    return status == CULM_OK ? check_members(n, error) : status;
}

/* Parses percentages such as "60/20/20". */
static enum culm_status read_split(const char *text, int ret_percent[3], struct culm_error *error) {
    int used = 0;
    if (sscanf(text, "%3d/%3d/%3d%n", &ret_percent[0], &ret_percent[1], &ret_percent[2], &used) ==
            3 &&
        !text[used] && ret_percent[0] > 0 && ret_percent[1] >= 0 && ret_percent[2] >= 0 &&
        ret_percent[0] + ret_percent[1] + ret_percent[2] == 100) {
        return CULM_OK;
    }
    return culm_error_set(
        error, CULM_ERR_ARGUMENT,
        "'%.40s' is not a split; write three percentages with the sum 100, such as "
        "60/20/20",
        text);
}

static enum culm_status add_splits(const struct culm_gnn_create_options *n, const char *split,
                                   struct culm_graph_data *graph, struct culm_error *error) {
    int percent[3];
    enum culm_status status = read_split(split, percent, error);
    if (status == CULM_OK && graph->classes == 0) {
        status = culm_error_set(error, CULM_ERR_CONFIG, "a split needs labels; the graph has none");
    }
    return status == CULM_OK
               ? culm_graph_splits_make(graph, (int64_t)n->seed, n->splits ? n->splits : 1,
                                        percent[0], percent[1], error)
               : status;
}

static enum culm_status create(const struct culm_gnn_create_options *n,
                               struct culm_gnn_graph_info *info, struct culm_error *error) {
    char name[CULM_GRAPH_NAME_SIZE];
    struct culm_graph_data *graph = NULL;
    int percent[3];
    const bool imported = !strcmp(n->kind, "edges") || !strcmp(n->kind, "npz");
    enum culm_status status = culm_graph_name_of(n->path, name, error);
    if (status == CULM_OK && n->split) {
        status = read_split(n->split, percent, error);
    }
    if (status == CULM_OK && n->splits > CULM_GRAPH_SPLITS_MAX) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT, "--splits %lld: at most %d",
                                (long long)n->splits, CULM_GRAPH_SPLITS_MAX);
    }
    if (status == CULM_OK) {
        status = culm_graph_data_can_write(n->path, error);
    }
    if (status == CULM_OK) {
        status = !strcmp(n->kind, "edges") ? import_edges(n, name, &graph, error)
                 : !strcmp(n->kind, "npz") ? import_npz(n, name, &graph, error)
                 : !strcmp(n->kind, "knn") ? make_knn(n, name, &graph, error)
                                           : make_drawn(n, name, &graph, error);
    }
    const char *split = n->split                               ? n->split
                        : !imported && graph && graph->classes ? "60/20/20"
                                                               : NULL;
    if (status == CULM_OK && split) {
        status = add_splits(n, split, graph, error);
    }
    if (status == CULM_OK) {
        status = culm_graph_data_write(NULL, graph, n->path, error);
    }
    if (status == CULM_OK) {
        status = culm_gnn_graph_about(graph, 0, info, error);
    }
    culm_graph_data_free(graph);
    return status;
}

enum culm_status culm_gnn_graph_create(const struct culm_gnn_create_options *options,
                                       struct culm_gnn_graph_info *ret_info,
                                       struct culm_error *error) {
    struct culm_gnn_create_options own;
    struct culm_gnn_graph_info info;
    enum culm_status status;
    if ((status = culm_public_take(&own, sizeof own, options, "culm_gnn_create_options", error)) ||
        (ret_info && (status = culm_public_room(ret_info, "culm_gnn_graph_info", error))) ||
        (status = check(&own, error)) ||
        (status = culm_public_check_path(own.path, "culm_gnn_graph_create", error)) ||
        (status = create(&own, &info, error))) {
        return status;
    }
    return tell(ret_info, &info, error);
}

/* --- from arrays --- */

typedef struct culm_gnn_graph_arrays A;

static enum culm_status bad(struct culm_error *error, const char *array, int64_t row,
                            int64_t column, const char *what) {
    return culm_error_set(error, CULM_ERR_CONFIG, "%s [%lld, %lld]: %s", array, (long long)row,
                          (long long)column, what);
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a graph");
}

static enum culm_status check_shape(const A *a, struct culm_error *error) {
    const struct {
        bool given, there;
        int64_t count, most;
        const char *array, *number;
    } rows[] = {
        {true, true, a->vertices, CULM_GRAPH_VERTICES_MAX, "", "vertices"},
        {a->edges > 0, a->edge != NULL, a->edges, CULM_GRAPH_EDGES_MAX, "edge", "edges"},
        {a->features || a->columns, a->features != NULL, a->columns, INT32_MAX, "features",
         "columns"},
        {a->labels || a->classes, a->labels != NULL, a->classes, INT32_MAX, "labels", "classes"},
        {a->splits || a->split_count, a->splits != NULL, a->split_count, CULM_GRAPH_SPLITS_MAX,
         "splits", "split_count"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].given && !rows[i].there) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "culm_gnn_graph_arrays: %s is NULL, and %s is %lld",
                                  rows[i].array, rows[i].number, (long long)rows[i].count);
        }
        if (rows[i].given && (rows[i].count < 1 || rows[i].count > rows[i].most)) {
            return culm_error_set(
                error, CULM_ERR_ARGUMENT, "culm_gnn_graph_arrays: %s is %lld; allowed: 1 to %lld",
                rows[i].number, (long long)rows[i].count, (long long)rows[i].most);
        }
    }
    return a->edges < 0 ? culm_public_check(a->edges, CULM_GRAPH_EDGES_MAX,
                                            "culm_gnn_graph_arrays: edges", error)
                        : CULM_OK;
}

static enum culm_status take_edges(const A *a, struct culm_graph_data *graph,
                                   struct culm_error *error) {
    graph->edge = malloc((size_t)(a->edges + 1) * 2 * sizeof *graph->edge);
    if (!graph->edge) {
        return no_memory(error);
    }
    for (int64_t i = 0; i < 2 * a->edges; i++) {
        if (a->edge[i] < 0 || a->edge[i] >= a->vertices) {
            return bad(error, "edge", i / 2, i % 2, "there is no such vertex");
        }
        graph->edge[i] = (uint32_t)a->edge[i];
    }
    graph->edges = graph->edges_listed = a->edges;
    return culm_graph_simplify(graph->edge, &graph->edges, graph->vertices, graph->directed, error);
}

static enum culm_status take_features(const A *a, struct culm_graph_data *graph,
                                      struct culm_error *error) {
    const int64_t count = a->vertices * a->columns;
    graph->dense = (uint64_t)count < SIZE_MAX / sizeof *graph->dense
                       ? malloc((size_t)count * sizeof *graph->dense)
                       : NULL;
    if (!graph->dense) {
        return no_memory(error);
    }
    memcpy(graph->dense, a->features, (size_t)count * sizeof *graph->dense);
    graph->columns = a->columns;
    graph->feature_kind = CULM_GRAPH_DENSE;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(graph->dense[i])) {
            return bad(error, "features", i / a->columns, i % a->columns, "it is not finite");
        }
    }
    return CULM_OK;
}

static enum culm_status take_labels(const A *a, struct culm_graph_data *graph,
                                    struct culm_error *error) {
    graph->label = malloc((size_t)a->vertices * sizeof *graph->label);
    if (!graph->label) {
        return no_memory(error);
    }
    memcpy(graph->label, a->labels, (size_t)a->vertices * sizeof *graph->label);
    graph->classes = a->classes;
    for (int64_t v = 0; v < a->vertices; v++) {
        if (graph->label[v] < -1 || graph->label[v] >= a->classes) {
            return bad(error, "labels", v, 0, "there is no such class");
        }
    }
    return CULM_OK;
}

static enum culm_status take_splits(const A *a, struct culm_graph_data *graph,
                                    struct culm_error *error) {
    const int64_t count = a->split_count * a->vertices;
    graph->split = malloc((size_t)count);
    if (!graph->split) {
        return no_memory(error);
    }
    memcpy(graph->split, a->splits, (size_t)count);
    graph->splits = a->split_count;
    for (int64_t i = 0; i < count; i++) {
        const int64_t v = i % a->vertices;
        if (graph->split[i] > CULM_GRAPH_TEST) {
            return bad(error, "splits", i / a->vertices, v, "it is not one of 0 to 3");
        }
        if (graph->split[i] != CULM_GRAPH_UNUSED && (!graph->label || graph->label[v] < 0)) {
            return bad(error, "splits", i / a->vertices, v, "the vertex has no label");
        }
    }
    return CULM_OK;
}

static enum culm_status take(const A *a, const char *path, struct culm_graph_data *graph,
                             struct culm_error *error) {
    enum culm_status status = culm_graph_name_of(path, graph->name, error);
    graph->vertices = a->vertices;
    graph->directed = a->directed;
    if (status == CULM_OK) {
        status = culm_graph_data_can_write(path, error);
    }
    if (status == CULM_OK) {
        status = take_edges(a, graph, error);
    }
    if (status == CULM_OK && a->features) {
        status = take_features(a, graph, error);
    }
    if (status == CULM_OK && a->labels) {
        status = take_labels(a, graph, error);
    }
    return status == CULM_OK && a->splits ? take_splits(a, graph, error) : status;
}

enum culm_status culm_gnn_graph_write(const struct culm_gnn_graph_arrays *arrays, const char *path,
                                      struct culm_gnn_graph_info *ret_info,
                                      struct culm_error *error) {
    A own;
    struct culm_gnn_graph_info info;
    enum culm_status status;
    if ((status = culm_public_take(&own, sizeof own, arrays, "culm_gnn_graph_arrays", error)) ||
        (status = culm_public_check_path(path, "culm_gnn_graph_write", error)) ||
        (ret_info && (status = culm_public_room(ret_info, "culm_gnn_graph_info", error))) ||
        (status = check_shape(&own, error))) {
        return status;
    }
    struct culm_graph_data *graph = calloc(1, sizeof *graph);
    if (!graph) {
        return no_memory(error);
    }
    if (!(status = take(&own, path, graph, error)) &&
        !(status = culm_graph_data_write(NULL, graph, path, error))) {
        status = culm_gnn_graph_about(graph, 0, &info, error);
    }
    culm_graph_data_free(graph);
    return status == CULM_OK ? tell(ret_info, &info, error) : status;
}
