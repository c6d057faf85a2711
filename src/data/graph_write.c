/* Writing a graph folder whole or not at all. */
#include "data/graph_write.h"

#include "data/graph_internal.h"
#include "data/npy.h"

#include "base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum culm_status culm_graph_name_of(const char *path, char ret_name[CULM_GRAPH_NAME_SIZE],
                                    struct culm_error *error) {
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/') {
        len--;
    }
    size_t first = len;
    while (first > 0 && path[first - 1] != '/') {
        first--;
    }
    bool fine = len > first && len - first < CULM_GRAPH_NAME_SIZE;
    for (size_t i = first; i < len; i++) {
        fine = fine && (unsigned char)path[i] >= ' ' && path[i] != 0x7f;
    }
    if (!fine || (len - first <= 2 && !strncmp(path + first, "..", len - first))) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "'%.200s': its last part cannot name a graph; give a new folder",
                              path);
    }
    snprintf(ret_name, CULM_GRAPH_NAME_SIZE, "%.*s", (int)(len - first), path + first);
    return CULM_OK;
}

enum culm_status culm_graph_data_can_write(const char *path, struct culm_error *error) {
    struct stat info;
    if (lstat(path, &info) == 0) {
        return culm_error_set(error, CULM_ERR_EXISTS,
                              "graph '%s': already exists; remove it or give another name", path);
    }
    return errno == ENOENT ? CULM_OK : culm_error_errno(error, errno, "graph '%s'", path);
}

/* --- arrays --- */

struct writer {
    struct culm_fs *fs;
    const char *folder;
    struct culm_error *error;
};

static enum culm_status write_array(struct writer *writer, const char *file, char kind, int width,
                                    int rank, const uint64_t *dim, const void *data) {
    char path[CULM_PATH_MAX], header[CULM_NPY_WRITE_MAX];
    struct culm_file out;
    uint64_t bytes = dim[0] * (rank == 2 ? dim[1] : 1) * (uint64_t)width;
    enum culm_status status = culm_path_format(path, writer->error, "%s/%s", writer->folder, file);
    if (status != CULM_OK ||
        (status = culm_file_create(writer->fs, path, &out, writer->error)) != CULM_OK) {
        return status;
    }
    status = culm_file_append(&out, header, culm_npy_header(kind, width, rank, dim, header),
                              writer->error);
    if (status == CULM_OK && bytes > 0) {
        status = culm_file_append(&out, data, (size_t)bytes, writer->error);
    }
    if (status != CULM_OK) {
        culm_file_abandon(&out);
        return status;
    }
    return culm_file_finish(&out, writer->error);
}

static enum culm_status write_sparse(struct writer *writer, const struct culm_graph_data *graph) {
    uint64_t rows = (uint64_t)graph->vertices + 1;
    enum culm_status status =
        write_array(writer, "features_start.npy", 'u', 8, 1, &rows, graph->start);
    if (status == CULM_OK && graph->columns > 65536) {
        status =
            write_array(writer, "features_column.npy", 'u', 4, 1, &graph->entries, graph->column);
    } else if (status == CULM_OK) {
        uint16_t *narrow = malloc((size_t)graph->entries * sizeof *narrow + 1);
        if (!narrow) {
            return culm_error_set(writer->error, CULM_ERR_MEMORY, "graph '%s': out of memory",
                                  writer->folder);
        }
        for (uint64_t i = 0; i < graph->entries; i++) {
            narrow[i] = (uint16_t)graph->column[i];
        }
        status = write_array(writer, "features_column.npy", 'u', 2, 1, &graph->entries, narrow);
        free(narrow);
    }
    if (status == CULM_OK && graph->value) {
        status =
            write_array(writer, "features_value.npy", 'f', 4, 1, &graph->entries, graph->value);
    }
    return status;
}

static json_t *head_of(const struct culm_graph_data *graph) {
    json_t *features =
        graph->feature_kind == CULM_GRAPH_NONE ? json_pack("{s:s}", "kind", "none")
        : graph->feature_kind == CULM_GRAPH_DENSE
            ? json_pack("{s:s, s:I}", "kind", "dense", "columns", (json_int_t)graph->columns)
            : json_pack("{s:s, s:I, s:I, s:b}", "kind", "sparse", "columns",
                        (json_int_t)graph->columns, "entries", (json_int_t)graph->entries, "ones",
                        graph->value == NULL);
    json_t *head =
        json_pack("{s:s, s:s, s:I, s:I}", "format", CULM_GRAPH_FORMAT, "name", graph->name,
                  "vertices", (json_int_t)graph->vertices, "edges", (json_int_t)graph->edges);
    if (graph->edges_listed >= 0) {
        json_object_set_new(head, "edges_listed", json_integer(graph->edges_listed));
    }
    json_object_set_new(head, "directed", json_boolean(graph->directed));
    json_object_set_new(head, "classes", json_integer(graph->classes));
    if (graph->class_name) {
        json_t *names = json_array();
        for (int64_t c = 0; c < graph->classes; c++) {
            json_array_append_new(names, json_string(graph->class_name[c]));
        }
        json_object_set_new(head, "class_names", names);
    }
    json_object_set_new(head, "features", features);
    if (graph->splits > 0) {
        json_object_set_new(head, "splits", json_integer(graph->splits));
    }
    return head;
}

/* The text of graph.json, which the caller frees, if it can be read again. */
static enum culm_status format_head(const struct culm_graph_data *graph, const char *path,
                                    char **ret_text, struct culm_error *error) {
    for (int64_t c = 0; graph->class_name && c < graph->classes; c++) {
        if (!culm_json_is_utf8(graph->class_name[c])) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "graph '%s': the name of class %lld is not UTF-8", path,
                                  (long long)c);
        }
    }
    json_t *head = head_of(graph);
    char *text = head ? json_dumps(head, JSON_INDENT(1)) : NULL;
    json_decref(head);
    if (!text) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "graph '%s': its name is not UTF-8, or memory ran out", path);
    }
    size_t len = strlen(text);
    if (len > CULM_GRAPH_HEAD_MAX) {
        free(text);
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "graph '%s': with the names of %lld classes, graph.json would have "
                              "%zu bytes; at most %zu are allowed; shorten the labels",
                              path, (long long)graph->classes, len, CULM_GRAPH_HEAD_MAX);
    }
    *ret_text = text;
    return CULM_OK;
}

static enum culm_status write_head(struct writer *writer, const char *text) {
    char path[CULM_PATH_MAX];
    struct culm_file out;
    enum culm_status status =
        culm_path_format(path, writer->error, "%s/graph.json", writer->folder);
    if (status != CULM_OK ||
        (status = culm_file_create(writer->fs, path, &out, writer->error)) != CULM_OK) {
        return status;
    }
    status = culm_file_append(&out, text, strlen(text), writer->error);
    if (status == CULM_OK) {
        status = culm_file_append(&out, "\n", 1, writer->error);
    }
    if (status != CULM_OK) {
        culm_file_abandon(&out);
        return status;
    }
    return culm_file_finish(&out, writer->error);
}

static enum culm_status write_all(struct writer *writer, const struct culm_graph_data *graph,
                                  const char *head) {
    const uint64_t edges[] = {(uint64_t)graph->edges, 2};
    const uint64_t splits[] = {(uint64_t)graph->splits, (uint64_t)graph->vertices};
    const uint64_t dense[] = {(uint64_t)graph->vertices, (uint64_t)graph->columns};
    enum culm_status status = write_array(writer, "edges.npy", 'u', 4, 2, edges, graph->edge);
    if (status == CULM_OK && graph->classes > 0) {
        status = write_array(writer, "labels.npy", 'i', 4, 1, dense, graph->label);
    }
    if (status == CULM_OK && graph->splits > 0) {
        status = write_array(writer, "split.npy", 'u', 1, 2, splits, graph->split);
    }
    if (status == CULM_OK && graph->feature_kind == CULM_GRAPH_DENSE) {
        status = write_array(writer, "features.npy", 'f', 4, 2, dense, graph->dense);
    }
    if (status == CULM_OK && graph->feature_kind == CULM_GRAPH_SPARSE) {
        status = write_sparse(writer, graph);
    }
    return status == CULM_OK ? write_head(writer, head) : status;
}

/* Writes all into a folder of its own beside `final`, and renames that. */
static enum culm_status write_beside(struct culm_fs *fs, const struct culm_graph_data *graph,
                                     const char *head, const char *final,
                                     struct culm_error *error) {
    char temporary[CULM_PATH_MAX];
    enum culm_status status =
        culm_path_format(temporary, error, "%s.tmp-%ld", final, (long)getpid());
    if (status == CULM_OK) {
        status = culm_tree_remove(fs, temporary, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    status = culm_dir_make(fs, temporary, error);
    if (status == CULM_OK) {
        struct writer writer = {.fs = fs, .folder = temporary, .error = error};
        status = write_all(&writer, graph, head);
    }
    if (status == CULM_OK) {
        status = culm_file_sync(fs, temporary, error);
    }
    if (status == CULM_OK) {
        status = culm_graph_data_can_write(final, error);
    }
    if (status == CULM_OK) {
        status = culm_file_rename(fs, temporary, final, error);
    }
    if (status != CULM_OK) {
        culm_tree_remove(fs, temporary, NULL);
    }
    return status;
}

enum culm_status culm_graph_data_write(struct culm_fs *fs, const struct culm_graph_data *graph,
                                       const char *path, struct culm_error *error) {
    char final[CULM_PATH_MAX], *head = NULL;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    enum culm_status status = culm_path_format(final, error, "%.*s", (int)len, path);
    if (status == CULM_OK) {
        status = culm_graph_data_can_write(final, error);
    }
    if (status == CULM_OK) {
        status = format_head(graph, final, &head, error);
    }
    if (status == CULM_OK) {
        status = write_beside(fs, graph, head, final, error);
    }
    free(head);
    return status;
}
