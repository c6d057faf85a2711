/* Edges from text, features from .npy or JSON. */
#include "data/graph_import.h"

#include "data/files.h"
#include "data/graph_import_labels.h"
#include "data/graph_import_text.h"
#include "data/graph_write.h"
#include "data/lines.h"
#include "data/npy.h"

#include "base/grow.h"
#include "base/pages.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEATURE_BYTES_MAX ((uint64_t)1 << 32) /* of JSON */

struct import {
    const struct culm_graph_edge_files *files;
    struct culm_graph_data *graph;
    struct culm_error *error;
    size_t capacity; /* of edge */
    int64_t largest; /* id so far; -1: none */
    struct culm_graph_room room;
    struct culm_graph_labels labels;
};

static enum culm_status no_memory(struct import *import) {
    return culm_error_set(import->error, CULM_ERR_MEMORY, "out of memory for graph '%s'",
                          import->graph->name);
}

/* --- edges --- */

static enum culm_status add_edge(struct import *import, const struct culm_lines *lines, int64_t u,
                                 int64_t v) {
    struct culm_graph_data *graph = import->graph;
    size_t count = (size_t)graph->edges * 2;
    import->largest = u > import->largest ? u : import->largest;
    import->largest = v > import->largest ? v : import->largest;
    enum culm_status status =
        culm_graph_room_check(&import->room, import->largest + 1, graph->edges + 1, import->error);
    if (status != CULM_OK) {
        culm_lines_prefix(lines, import->error);
        return status;
    }
    if (!CULM_GROW(graph->edge, import->capacity, count + 2)) {
        return no_memory(import);
    }
    graph->edge[count] = (uint32_t)u;
    graph->edge[count + 1] = (uint32_t)v;
    graph->edges++;
    return CULM_OK;
}

static enum culm_status read_edge_file(struct import *import, const char *path) {
    struct culm_lines *lines;
    char *line;
    enum culm_status status = culm_lines_open("edges", path, &lines, import->error);
    if (status != CULM_OK) {
        return status;
    }
    bool heading = true; /* may still come */
    while ((status = culm_lines_next(lines, &line, import->error)) == CULM_OK && line) {
        int64_t u, v;
        if (culm_text_is_comment(line)) {
            continue;
        }
        const char *at = culm_text_take_id(culm_text_skip_gap(line), &u);
        at = at && *at ? culm_text_take_id(culm_text_skip_gap(at), &v) : NULL;
        if (at) {
            status = add_edge(import, lines, u, v);
        } else if (!heading || !culm_text_is_heading(line)) {
            status = culm_lines_bad(lines, import->error,
                                    "'%.40s' is not an edge; write two vertex ids below %d", line,
                                    CULM_GRAPH_VERTICES_MAX);
        }
        if (status != CULM_OK) {
            break;
        }
        heading = false;
    }
    culm_lines_free(lines);
    return status;
}

/* --- features --- */

static enum culm_status bad_features(struct import *import, const char *format, const char *what) {
    culm_error_set(import->error, CULM_ERR_FORMAT, "features '%s': ", import->files->features);
    size_t len = import->error ? strlen(import->error->text) : 0;
    if (import->error) {
        snprintf(import->error->text + len, sizeof import->error->text - len, format, what);
    }
    return CULM_ERR_FORMAT;
}

static enum culm_status dense_features(struct import *import, const uint8_t *data, size_t len) {
    struct culm_graph_data *graph = import->graph;
    struct culm_npy_array array;
    size_t head = len < CULM_NPY_HEADER_MAX ? len : CULM_NPY_HEADER_MAX;
    enum culm_status status = culm_npy_parse_array(data, head, len, "features",
                                                   import->files->features, &array, import->error);
    if (status != CULM_OK) {
        return status;
    }
    if (array.kind != 'f' || array.width != 4 || array.rank != 2 || array.dim[0] < 1 ||
        array.dim[1] < 1 || array.dim[1] > INT32_MAX) {
        return bad_features(import, "%s", "is not an array [vertices, features] of float32");
    }
    if (array.dim[0] != (uint64_t)graph->vertices) {
        return culm_error_set(import->error, CULM_ERR_FORMAT,
                              "features '%s': has %llu rows; the graph has %lld vertices",
                              import->files->features, (unsigned long long)array.dim[0],
                              (long long)graph->vertices);
    }
    graph->feature_kind = CULM_GRAPH_DENSE;
    graph->columns = (int64_t)array.dim[1];
    graph->dense = culm_pages_alloc((size_t)array.count * sizeof *graph->dense);
    if (!graph->dense) {
        return no_memory(import);
    }
    memcpy(graph->dense, data + array.offset, (size_t)array.count * sizeof *graph->dense);
    for (uint64_t i = 0; i < array.count; i++) {
        if (!isfinite(graph->dense[i])) {
            return culm_error_set(import->error, CULM_ERR_FORMAT,
                                  "features '%s': [%llu, %llu] is not a finite number",
                                  import->files->features, (unsigned long long)(i / array.dim[1]),
                                  (unsigned long long)(i % array.dim[1]));
        }
    }
    return CULM_OK;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The columns of one vertex, rising, each once. */
static enum culm_status add_row(struct import *import, const json_t *list, size_t *capacity) {
    struct culm_graph_data *graph = import->graph;
    size_t first = (size_t)graph->entries, count = json_array_size(list), kept = first;
    if (!CULM_GROW(graph->column, *capacity, first + count + 1)) {
        return no_memory(import);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *column = json_array_get(list, i);
        if (!json_is_integer(column) || json_integer_value(column) < 0 ||
            json_integer_value(column) >= INT32_MAX) {
            return bad_features(import, "%s", "a column is not an integer from 0");
        }
        graph->column[first + i] = (uint32_t)json_integer_value(column);
    }
    qsort(graph->column + first, count, sizeof *graph->column, by_number);
    for (size_t i = first; i < first + count; i++) {
        if (kept == first || graph->column[i] != graph->column[kept - 1]) {
            graph->column[kept++] = graph->column[i];
        }
    }
    if (kept > first && graph->column[kept - 1] >= graph->columns) {
        graph->columns = (int64_t)graph->column[kept - 1] + 1;
    }
    graph->entries = kept;
    return CULM_OK;
}

static enum culm_status sparse_features(struct import *import, const char *text, size_t len) {
    struct culm_graph_data *graph = import->graph;
    json_error_t reason;
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &reason);
    size_t capacity = 0;
    enum culm_status status = CULM_OK;
    if (!json_is_object(json)) {
        json_decref(json);
        return bad_features(import, "%s", "is neither .npy nor a JSON object of lists");
    }
    graph->feature_kind = CULM_GRAPH_SPARSE;
    graph->ones = true;
    graph->start = calloc((size_t)graph->vertices + 1, sizeof *graph->start);
    status = graph->start ? CULM_OK : no_memory(import);
    size_t used = 0;
    for (int64_t v = 0; v < graph->vertices && status == CULM_OK; v++) {
        char key[24];
        snprintf(key, sizeof key, "%lld", (long long)v);
        const json_t *list = json_object_get(json, key);
        used += list != NULL;
        if (list && !json_is_array(list)) {
            status = bad_features(import, "vertex %s has no list", key);
        } else if (list) {
            status = add_row(import, list, &capacity);
        }
        graph->start[v + 1] = graph->entries;
    }
    if (status == CULM_OK && used < json_object_size(json)) {
        status = bad_features(import, "%s", "has a key that is not a vertex of the graph");
    }
    if (status == CULM_OK && graph->columns == 0) {
        status = bad_features(import, "%s", "has no entry");
    }
    json_decref(json);
    return status;
}

static enum culm_status read_features(struct import *import) {
    const char *path = import->files->features;
    struct culm_files *files;
    char *data;
    size_t len;
    if (!path) {
        return CULM_OK;
    }
    enum culm_status status = culm_files_open("features", &path, 1, NULL, &files, import->error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_files_slurp(files, 0, FEATURE_BYTES_MAX * 16, &data, &len, import->error);
    culm_files_free(files);
    if (status == CULM_OK) {
        status = culm_npy_is(data, len) ? dense_features(import, (const uint8_t *)data, len)
                                        : sparse_features(import, data, len);
        free(data);
    }
    return status;
}

/* --- the whole --- */

static enum culm_status read_all(struct import *import) {
    const struct culm_graph_edge_files *files = import->files;
    struct culm_graph_data *graph = import->graph;
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < files->edge_count && status == CULM_OK; i++) {
        status = read_edge_file(import, files->edges[i]);
    }
    if (status == CULM_OK && files->labels) {
        status =
            culm_graph_labels_read(files->labels, &import->room, &import->labels, import->error);
    }
    if (status != CULM_OK) {
        return status;
    }
    int64_t labelled = (int64_t)import->labels.count;
    import->largest = labelled > import->largest ? labelled - 1 : import->largest;
    graph->vertices = files->vertices ? files->vertices : import->largest + 1;
    graph->edges_listed = graph->edges;
    if (graph->vertices < 1 || import->largest >= graph->vertices) {
        return culm_error_set(import->error, CULM_ERR_FORMAT,
                              graph->vertices < 1 ? "there is no vertex in any file"
                                                  : "vertex %lld is in a file; --vertices says "
                                                    "%lld",
                              (long long)import->largest, (long long)graph->vertices);
    }
    status = culm_graph_room_check(&import->room, graph->vertices, graph->edges, import->error);
    if (status != CULM_OK) {
        return status;
    }
    if (!graph->edge && !(graph->edge = malloc(8))) {
        return no_memory(import);
    }
    status = culm_graph_simplify(graph->edge, &graph->edges, graph->vertices, graph->directed,
                                 import->error);
    if (status == CULM_OK && files->labels) {
        status = culm_graph_labels_set(&import->labels, graph, import->error);
    }
    return status == CULM_OK ? read_features(import) : status;
}

enum culm_status culm_graph_import_edges(const struct culm_graph_edge_files *files,
                                         const char *name, struct culm_graph_data **ret_graph,
                                         struct culm_error *error) {
    struct import import = {.files = files,
                            .error = error,
                            .largest = -1,
                            .room = culm_graph_room_of(files->labels, files->features)};
    import.graph = calloc(1, sizeof *import.graph);
    if (!import.graph) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for graph '%s'", name);
    }
    import.graph->directed = files->directed;
    snprintf(import.graph->name, sizeof import.graph->name, "%s", name);
    enum culm_status status = read_all(&import);
    culm_graph_labels_release(&import.labels);
    if (status != CULM_OK) {
        culm_graph_data_free(import.graph);
        return status;
    }
    *ret_graph = import.graph;
    return CULM_OK;
}
