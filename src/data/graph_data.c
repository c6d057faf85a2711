/* A data graph: graph.json, and what is done with the whole. Arrays are in graph_arrays.c. */
#include "data/files.h"
#include "data/graph_internal.h"

#include "base/file.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void culm_graph_data_free(struct culm_graph_data *graph) {
    if (!graph) {
        return;
    }
    free(graph->edge);
    free(graph->label);
    free(graph->split);
    free(graph->dense);
    free(graph->start);
    free(graph->column);
    free(graph->value);
    for (int64_t c = 0; graph->class_name && c < graph->classes; c++) {
        free(graph->class_name[c]);
    }
    free(graph->class_name);
    culm_files_free(graph->file);
    free(graph);
}

enum culm_status culm_graph_data_row(const struct culm_graph_data *graph, int64_t vertex,
                                     int64_t first, int64_t count, float *ret_row,
                                     struct culm_error *error) {
    uint64_t at = (uint64_t)(vertex * graph->columns + first) * sizeof *ret_row;
    size_t bytes = (size_t)count * sizeof *ret_row;
    if (graph->dense) {
        memcpy(ret_row, (const char *)graph->dense + at, bytes);
        return CULM_OK;
    }
    enum culm_status status =
        culm_files_read(graph->file, 0, graph->file_at + at, ret_row, bytes, error);
    for (int64_t c = 0; c < count && status == CULM_OK; c++) {
        if (!isfinite(ret_row[c])) {
            status = culm_error_set(
                error, CULM_ERR_FORMAT,
                "graph '%s': features must be finite numbers; the one at [%lld, %lld] no longer is",
                graph->file->entry[0].path, (long long)vertex, (long long)(first + c));
        }
    }
    return status;
}

void culm_graph_data_count(const struct culm_graph_data *graph, int64_t split,
                           int64_t ret_count[4]) {
    const uint8_t *row = graph->split + split * graph->vertices;
    memset(ret_count, 0, 4 * sizeof *ret_count);
    for (int64_t v = 0; v < graph->vertices; v++) {
        ret_count[row[v]]++;
    }
}

/* --- graph.json --- */

struct head {
    const char *path; /* of graph.json */
    struct culm_error *error;
    enum culm_status status; /* the first thing that was wrong */
};

__attribute__((format(printf, 2, 3))) static void bad(struct head *head, const char *format, ...) {
    va_list args;
    if (head->status == CULM_OK) {
        va_start(args, format);
        head->status = culm_error_setv(head->error, CULM_ERR_FORMAT, format, args);
        va_end(args);
        culm_error_prefix(head->error, "graph '%s'", head->path);
    }
}

/* A whole number that must be there. */
static int64_t whole(struct head *head, const json_t *object, const char *key, int64_t least,
                     int64_t most) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) {
        bad(head, "'%s' is %s", key, value ? "no whole number" : "missing");
        return least;
    }
    if (json_integer_value(value) < least || json_integer_value(value) > most) {
        bad(head, "'%s' is %lld; allowed: %lld to %lld", key, (long long)json_integer_value(value),
            (long long)least, (long long)most);
        return least;
    }
    return json_integer_value(value);
}

static bool yes(struct head *head, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value)) {
        bad(head, "'%s' is %s", key, value ? "neither true nor false" : "missing");
    }
    return json_is_true(value);
}

/* Text of one line; "" when it is wrong. */
static const char *line(struct head *head, const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    for (const char *at = text; at && *at; at++) {
        text = (unsigned char)*at < ' ' || *at == 0x7f ? NULL : text;
    }
    if (!text) {
        bad(head, "'%s' is %s", key,
            json_object_get(object, key) ? "no text of one line" : "missing");
    }
    return text ? text : "";
}

static void read_features(struct head *head, const json_t *json, struct culm_graph_data *graph) {
    const json_t *features = json_object_get(json, "features");
    if (!json_is_object(features)) {
        bad(head, "'features' is %s", features ? "no object" : "missing");
        return;
    }
    const char *kind = line(head, features, "kind");
    if (!strcmp(kind, "dense") || !strcmp(kind, "sparse")) {
        graph->columns = whole(head, features, "columns", 1, INT32_MAX);
    }
    if (!strcmp(kind, "dense")) {
        graph->feature_kind = CULM_GRAPH_DENSE;
    } else if (!strcmp(kind, "sparse")) {
        graph->feature_kind = CULM_GRAPH_SPARSE;
        graph->entries = (uint64_t)whole(head, features, "entries", 0, INT64_MAX / 16);
        graph->ones = yes(head, features, "ones");
    } else if (strcmp(kind, "none") != 0) {
        bad(head, "features are of kind '%.32s'; known: none, dense, sparse", kind);
    }
}

static void read_class_names(struct head *head, const json_t *json, struct culm_graph_data *graph) {
    const json_t *names = json_object_get(json, "class_names");
    if (!names || head->status != CULM_OK) {
        return;
    }
    if (!json_is_array(names) || (int64_t)json_array_size(names) != graph->classes) {
        bad(head, "'class_names' is not a list of %lld names", (long long)graph->classes);
        return;
    }
    graph->class_name = calloc((size_t)graph->classes + 1, sizeof *graph->class_name);
    for (size_t c = 0; graph->class_name && c < json_array_size(names); c++) {
        const char *name = json_string_value(json_array_get(names, c));
        if (!name) {
            bad(head, "entry %zu of 'class_names' is not a string", c);
            return;
        }
        graph->class_name[c] = strdup(name);
        if (!graph->class_name[c]) {
            break;
        }
    }
    if (!graph->class_name || (graph->classes && !graph->class_name[graph->classes - 1])) {
        head->status =
            culm_error_set(head->error, CULM_ERR_MEMORY, "graph '%s': out of memory", head->path);
    }
}

static enum culm_status read_head(struct culm_graph_data *graph, const char *path, const char *text,
                                  size_t len, struct culm_error *error) {
    struct head head = {.path = path, .error = error};
    json_error_t reason;
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &reason);
    if (!json) {
        return culm_error_set(error, CULM_ERR_FORMAT, "graph '%s': byte %d: not valid JSON", path,
                              reason.position);
    }
    if (!json_is_object(json)) {
        bad(&head, "is not a JSON object");
    }
    const char *format = line(&head, json, "format");
    if (strcmp(format, CULM_GRAPH_FORMAT) != 0) {
        bad(&head, "is of format '%.32s'; known: " CULM_GRAPH_FORMAT, format);
    }
    const char *name = line(&head, json, "name");
    if (strlen(name) >= sizeof graph->name) {
        bad(&head, "'name' is longer than %zu bytes", sizeof graph->name - 1);
    }
    snprintf(graph->name, sizeof graph->name, "%s", name);
    graph->vertices = whole(&head, json, "vertices", 1, CULM_GRAPH_VERTICES_MAX);
    graph->edges = whole(&head, json, "edges", 0, CULM_GRAPH_EDGES_MAX);
    graph->edges_listed = json_object_get(json, "edges_listed")
                              ? whole(&head, json, "edges_listed", 0, INT64_MAX)
                              : -1;
    graph->directed = yes(&head, json, "directed");
    graph->classes = whole(&head, json, "classes", 0, INT32_MAX);
    graph->splits = json_object_get(json, "splits")
                        ? whole(&head, json, "splits", 0, CULM_GRAPH_SPLITS_MAX)
                        : 0;
    if (graph->splits > 0 && graph->classes == 0) {
        bad(&head, "has splits, but no classes to learn");
    }
    read_features(&head, json, graph);
    read_class_names(&head, json, graph);
    json_decref(json);
    return head.status;
}

/* --- opening --- */

bool culm_graph_data_is(const char *path) {
    char head[CULM_PATH_MAX], edges[CULM_PATH_MAX];
    return culm_path_format(head, NULL, "%s/graph.json", path) == CULM_OK &&
           culm_path_format(edges, NULL, "%s/edges.npy", path) == CULM_OK &&
           culm_file_is_regular(head) && culm_file_is_regular(edges);
}

enum culm_status culm_graph_data_open(const char *path, unsigned parts, struct culm_pins *pins,
                                      struct culm_graph_data **ret_graph,
                                      struct culm_error *error) {
    char name[CULM_PATH_MAX], *text = NULL;
    const char *names[] = {name};
    struct culm_files *files = NULL;
    size_t len;
    struct culm_graph_data *graph = calloc(1, sizeof *graph);
    if (!graph) {
        return culm_error_set(error, CULM_ERR_MEMORY, "graph '%s': out of memory", path);
    }
    enum culm_status status = culm_path_format(name, error, "%s/graph.json", path);
    if (status == CULM_OK && !culm_file_is_regular(name)) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "graph '%s': is not a folder with a graph.json; make one with "
                                "'culm gnn import' or 'culm gnn make'",
                                path);
    }
    if (status == CULM_OK) {
        status = culm_files_open("graph", names, 1, pins, &files, error);
    }
    if (status == CULM_OK) {
        status = culm_files_slurp(files, 0, CULM_GRAPH_HEAD_MAX, &text, &len, error);
    }
    if (status == CULM_OK) {
        status = read_head(graph, name, text, len, error);
    }
    if (status == CULM_OK) {
        status = graph_arrays_read(graph, path, parts, pins, error);
    }
    free(text);
    culm_files_free(files);
    if (status != CULM_OK) {
        culm_graph_data_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}
