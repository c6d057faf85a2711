/* Data graphs: what they have, and how they are cut. See culm/gnn.h. */
#include "run/gnn_graph.h"

#include "base/buf.h"
#include "base/file.h"
#include "data/adjacency.h"
#include "gnn/partition.h"
#include "run/gnn_output.h"
#include "run/public.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- looking --- */

enum culm_status culm_gnn_graph_about(const struct culm_graph_data *graph, int64_t split,
                                      struct culm_gnn_graph_info *ret_info,
                                      struct culm_error *error) {
    struct culm_gnn_graph_info info = {.vertices = graph->vertices,
                                       .edges = graph->edges,
                                       .features = graph->columns,
                                       .entries = -1,
                                       .classes = graph->classes,
                                       .splits = graph->splits,
                                       .split = split,
                                       .directed = graph->directed};
    struct culm_adjacency neighbours;
    int64_t count[4] = {0};
    snprintf(info.name, sizeof info.name, "%s", graph->name);
    if (graph->feature_kind == CULM_GRAPH_SPARSE) {
        info.entries = (int64_t)graph->entries;
    }
    if (split < graph->splits) {
        culm_graph_data_count(graph, split, count);
    }
    info.count[0] = count[CULM_GRAPH_TRAIN];
    info.count[1] = count[CULM_GRAPH_VALID];
    info.count[2] = count[CULM_GRAPH_TEST];
    enum culm_status status = culm_adjacency_of(graph, false, &neighbours, error);
    if (status != CULM_OK) {
        return status;
    }
    for (int64_t v = 0; v < graph->vertices; v++) {
        int64_t degree = (int64_t)(neighbours.start[v + 1] - neighbours.start[v]);
        info.isolated += degree == 0;
        info.degree_max = degree > info.degree_max ? degree : info.degree_max;
    }
    culm_adjacency_release(&neighbours);
    *ret_info = info;
    return CULM_OK;
}

enum culm_status culm_gnn_graph_show(const char *path, int64_t split,
                                     struct culm_gnn_graph_info *ret_info,
                                     struct culm_error *error) {
    struct culm_graph_data *graph;
    struct culm_gnn_graph_info info;
    enum culm_status status = culm_public_check_path(path, "culm_gnn_graph_show", error);
    if (status != CULM_OK ||
        (status = culm_public_check(split, INT64_MAX, "culm_gnn_graph_show: split", error)) ||
        (status = culm_public_room(ret_info, "culm_gnn_graph_info", error))) {
        return status;
    }
    /* Dense features are checked, and nothing more is asked of them. */
    status = culm_graph_data_open(path, CULM_GRAPH_ALL | CULM_GRAPH_IN_FILE, NULL, &graph, error);
    if (status != CULM_OK) {
        return status;
    }
    if (split > 0 && split >= graph->splits) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "graph '%s': there is no split %lld; it has %lld, numbered from 0",
                                path, (long long)split, (long long)graph->splits);
    } else {
        status = culm_gnn_graph_about(graph, split, &info, error);
    }
    culm_graph_data_free(graph);
    return status == CULM_OK
               ? culm_public_fill(ret_info, &info, sizeof info, "culm_gnn_graph_info", error)
               : status;
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
                            struct culm_gnn_partition_info *ret_result, struct culm_error *error) {
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
        *ret_result = (struct culm_gnn_partition_info){.method = methods[partition.method],
                                                       .intervals = partition.intervals,
                                                       .servers = servers,
                                                       .cut_edges = counts.cut_edges,
                                                       .ghosts = counts.ghosts,
                                                       .balance = counts.balance,
                                                       .vertices_min = counts.vertices_least,
                                                       .vertices_max = counts.vertices_most,
                                                       .edges_min = counts.edges_least,
                                                       .edges_max = counts.edges_most,
                                                       .interval_cut_edges = all.cut_edges};
    }
    free(owned);
    culm_partition_release(&partition);
    return status;
}

static enum culm_status check_cut(const struct culm_gnn_partition_options *options,
                                  struct culm_error *error) {
    const char *name = "culm_gnn_partition_options: intervals or servers";
    enum culm_status status = culm_public_check(options->intervals, INT64_MAX, name, error);
    status = status ? status : culm_public_check(options->servers, INT64_MAX, name, error);
    if (status == CULM_OK && options->servers > options->intervals) { /* before the long part */
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "%lld servers for %lld intervals; give at most as many servers as "
                                "intervals",
                                (long long)options->servers, (long long)options->intervals);
    }
    return status;
}

enum culm_status culm_gnn_partition(const char *path,
                                    const struct culm_gnn_partition_options *options,
                                    struct culm_gnn_partition_info *ret_info,
                                    struct culm_error *error) {
    struct culm_gnn_partition_options own;
    struct culm_gnn_partition_info info;
    struct culm_graph_data *graph = NULL;
    struct culm_adjacency neighbours = {0};
    enum culm_status status;
    if ((status = culm_public_check_path(path, "culm_gnn_partition", error)) ||
        (status =
             culm_public_take(&own, sizeof own, options, "culm_gnn_partition_options", error)) ||
        (status = culm_public_room(ret_info, "culm_gnn_partition_info", error)) ||
        (status = check_cut(&own, error)) ||
        (own.out && (status = culm_gnn_output_check(own.out, error)))) {
        return status;
    }
    if (!(status = culm_graph_data_open(path, CULM_GRAPH_EDGES, NULL, &graph, error)) &&
        !(status = culm_adjacency_of(graph, false, &neighbours, error))) {
        status = cut(graph, &neighbours, &own, &info, error);
    }
    culm_adjacency_release(&neighbours);
    culm_graph_data_free(graph);
    return status == CULM_OK
               ? culm_public_fill(ret_info, &info, sizeof info, "culm_gnn_partition_info", error)
               : status;
}
