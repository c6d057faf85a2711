/* Data graphs: shows, partitions, imports and generates them. */
#include "run/gnn_commands.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/words.h"
#include "data/adjacency.h"
#include "data/graph_import.h"
#include "data/graph_make.h"
#include "data/graph_write.h"
#include "gnn/partition.h"
#include "run/gnn_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const culm_gnn_import_kinds[] = {"edges", "npz", NULL};
const char *const culm_gnn_make_kinds[] = {"rmat", "sbm", "knn", NULL};

#define NEAREST 8 /* neighbours of an image in knn, unless --edges is given */

/* --- looking --- */

bool culm_gnn_is_graph(const char *path) {
    char config[CULM_PATH_MAX];
    return !culm_file_is_regular(path) &&
           (culm_path_format(config, NULL, "%s/config.yaml", path) != CULM_OK ||
            !culm_file_is_regular(config));
}

static enum culm_status about_of(const struct culm_graph_data *graph, int64_t split,
                                 struct culm_gnn_about *ret_about, struct culm_error *error) {
    struct culm_gnn_about about = {.vertices = graph->vertices,
                                   .edges = graph->edges,
                                   .features = graph->columns,
                                   .entries = -1,
                                   .classes = graph->classes,
                                   .splits = graph->splits,
                                   .split = split,
                                   .directed = graph->directed};
    struct culm_adjacency neighbours;
    int64_t count[4] = {0};
    snprintf(about.name, sizeof about.name, "%s", graph->name);
    if (graph->feature_kind == CULM_GRAPH_SPARSE) {
        about.entries = (int64_t)graph->entries;
    }
    if (split < graph->splits) {
        culm_graph_data_count(graph, split, count);
    }
    about.train = count[CULM_GRAPH_TRAIN];
    about.valid = count[CULM_GRAPH_VALID];
    about.test = count[CULM_GRAPH_TEST];
    enum culm_status status = culm_adjacency_of(graph, false, &neighbours, error);
    if (status != CULM_OK) {
        return status;
    }
    for (int64_t v = 0; v < graph->vertices; v++) {
        int64_t degree = (int64_t)(neighbours.start[v + 1] - neighbours.start[v]);
        about.isolated += degree == 0;
        about.degree_most = degree > about.degree_most ? degree : about.degree_most;
    }
    culm_adjacency_release(&neighbours);
    *ret_about = about;
    return CULM_OK;
}

enum culm_status culm_gnn_show(const char *path, int64_t split, struct culm_gnn_about *ret_about,
                               struct culm_error *error) {
    struct culm_graph_data *graph;
    /* Dense features are checked, and nothing more is asked of them. */
    enum culm_status status =
        culm_graph_data_open(path, CULM_GRAPH_ALL | CULM_GRAPH_IN_FILE, NULL, &graph, error);
    if (status != CULM_OK) {
        return status;
    }
    if (split > 0 && split >= graph->splits) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "graph '%s': there is no split %lld; it has %lld, numbered from 0",
                                path, (long long)split, (long long)graph->splits);
    } else {
        status = about_of(graph, split, ret_about, error);
    }
    culm_graph_data_free(graph);
    return status;
}

/* --- cutting --- */

static enum culm_status write_intervals(const struct culm_partition *partition, const char *path,
                                        struct culm_error *error) {
    struct culm_buf buf;
    culm_buf_init(&buf, SIZE_MAX / 2);
    for (int64_t v = 0; v < partition->vertices; v++) {
        culm_buf_printf(&buf, "%u\n", partition->interval[v]);
    }
    enum culm_status status =
        buf.failed ? culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", path)
                   : culm_file_replace(NULL, path, buf.data, buf.len, error);
    culm_buf_release(&buf);
    return status;
}

static const char *const methods[] = {[CULM_PARTITION_METIS] = "metis",
                                      [CULM_PARTITION_STREAM] = "stream",
                                      [CULM_PARTITION_FILE] = "file"};

static enum culm_status cut(const struct culm_graph_data *graph,
                            const struct culm_adjacency *neighbours,
                            const struct culm_gnn_partition_options *options,
                            struct culm_gnn_partition *ret_result, struct culm_error *error) {
    struct culm_partition_options how = {
        .intervals = options->intervals, .seed = options->seed, .directed = graph->directed};
    struct culm_partition partition = {0};
    struct culm_partition_counts counts, all;
    int64_t servers = options->servers ? options->servers : options->intervals;
    int64_t *owned = NULL;
    culm_partition_method_of(options->method, &how);
    enum culm_status status = culm_partition_of(neighbours, &how, &partition, error);
    if (status == CULM_OK) {
        owned = malloc(((size_t)partition.intervals + 1) * sizeof *owned);
        status = owned ? culm_partition_share(neighbours, &partition, servers, owned, error)
                       : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    if (status == CULM_OK) {
        status =
            culm_partition_count(neighbours, graph->directed, &partition, 0, NULL, &all, error);
    }
    if (status == CULM_OK) {
        status = culm_partition_count(neighbours, graph->directed, &partition, servers, owned,
                                      &counts, error);
    }
    if (status == CULM_OK && options->out) {
        status = write_intervals(&partition, options->out, error);
    }
    if (status == CULM_OK) {
        *ret_result = (struct culm_gnn_partition){.method = methods[partition.method],
                                                  .intervals = partition.intervals,
                                                  .servers = servers,
                                                  .cut_edges = counts.cut_edges,
                                                  .ghosts = counts.ghosts,
                                                  .balance = counts.balance,
                                                  .vertices_least = counts.vertices_least,
                                                  .vertices_most = counts.vertices_most,
                                                  .edges_least = counts.edges_least,
                                                  .edges_most = counts.edges_most,
                                                  .between_intervals = all.cut_edges};
    }
    free(owned);
    culm_partition_release(&partition);
    return status;
}

enum culm_status culm_gnn_partition(const char *path,
                                    const struct culm_gnn_partition_options *options,
                                    struct culm_gnn_partition *ret_partition,
                                    struct culm_error *error) {
    struct culm_graph_data *graph = NULL;
    struct culm_adjacency neighbours = {0};
    if (options->servers > options->intervals) { /* checked before the long part */
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%lld servers for %lld intervals; give at most as many servers as "
                              "intervals",
                              (long long)options->servers, (long long)options->intervals);
    }
    enum culm_status status = options->out ? culm_gnn_output_check(options->out, error) : CULM_OK;
    if (status == CULM_OK) {
        status = culm_graph_data_open(path, CULM_GRAPH_EDGES, NULL, &graph, error);
    }
    if (status == CULM_OK) {
        status = culm_adjacency_of(graph, false, &neighbours, error);
    }
    if (status == CULM_OK) {
        status = cut(graph, &neighbours, options, ret_partition, error);
    }
    culm_adjacency_release(&neighbours);
    culm_graph_data_free(graph);
    return status;
}

/* --- importing and making --- */

static enum culm_status check_files(const struct culm_gnn_new *n, size_t least, size_t most,
                                    const char *what, struct culm_error *error) {
    return n->file_count >= least && n->file_count <= most
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_ARGUMENT, "'%s' takes %s", n->kind, what);
}

static enum culm_status not_for(const struct culm_gnn_new *n, const char *option, bool given,
                                struct culm_error *error) {
    return given ? culm_error_set(error, CULM_ERR_ARGUMENT, "--%s is not for '%s'", option, n->kind)
                 : CULM_OK;
}

static enum culm_status import_edges(const struct culm_gnn_new *n, const char *name,
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

static enum culm_status import_npz(const struct culm_gnn_new *n, const char *name,
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

static enum culm_status make_drawn(const struct culm_gnn_new *n, const char *name,
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

static enum culm_status make_knn(const struct culm_gnn_new *n, const char *name,
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

static enum culm_status add_splits(const struct culm_gnn_new *n, const char *split,
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

enum culm_status culm_gnn_create(const struct culm_gnn_new *n, struct culm_gnn_about *ret_about,
                                 struct culm_error *error) {
    char name[CULM_GRAPH_NAME_SIZE];
    struct culm_graph_data *graph = NULL;
    int percent[3];
    bool imported = culm_word_find(culm_gnn_import_kinds, n->kind) >= 0;
    if (!n->out) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "say where the graph goes: --out FOLDER");
    }
    enum culm_status status = culm_graph_name_of(n->out, name, error);
    if (status == CULM_OK && n->split) {
        status = read_split(n->split, percent, error);
    }
    if (status == CULM_OK && n->splits > CULM_GRAPH_SPLITS_MAX) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT, "--splits %lld: at most %d",
                                (long long)n->splits, CULM_GRAPH_SPLITS_MAX);
    }
    if (status == CULM_OK) {
        status = culm_graph_data_can_write(n->out, error);
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
        status = culm_graph_data_write(NULL, graph, n->out, error);
    }
    if (status == CULM_OK) {
        status = about_of(graph, 0, ret_about, error);
    }
    culm_graph_data_free(graph);
    return status;
}
