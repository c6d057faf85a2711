/*
 * The arrays of a graph folder: each is read whole and then looked at element by element.
 *
 * The shape that graph.json implies and the bytes that the file has must both agree with the
 * array's header before memory is asked for, so a lying header costs nothing.
 */
#include "data/files.h"
#include "data/graph_internal.h"
#include "data/npy.h"

#include "base/file.h"
#include "base/pages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an array must be: elements of `kind` and `width`; rank 1 or 2. */
struct wanted {
    const char *file;
    char kind;
    int width, rank;
    uint64_t dim[2];
};

struct reader {
    const char *folder;
    struct culm_pins *pins;
    struct culm_error *error;
    char path[CULM_PATH_MAX]; /* of the file that was read last */
};

__attribute__((format(printf, 2, 3))) static enum culm_status bad(struct reader *reader,
                                                                  const char *format, ...) {
    va_list args;
    va_start(args, format);
    culm_error_setv(reader->error, CULM_ERR_FORMAT, format, args);
    va_end(args);
    culm_error_prefix(reader->error, "graph '%s'", reader->path);
    return CULM_ERR_FORMAT;
}

static void shape_text(int rank, const uint64_t *dim, char *ret_text, size_t size) {
    size_t at = (size_t)snprintf(ret_text, size, "[");
    for (int i = 0; i < rank && at < size; i++) {
        at += (size_t)snprintf(ret_text + at, size - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)dim[i]);
    }
    if (at < size) {
        snprintf(ret_text + at, size - at, "]");
    }
}

/* The header says what is wanted. */
static enum culm_status check_type(struct reader *reader, const struct wanted *wanted,
                                   const struct culm_npy_array *array) {
    char is[128], should[128];
    if (array->kind != wanted->kind || array->width != wanted->width) {
        return bad(reader, "has elements of type %c%d; they must be %c%d", array->kind,
                   array->width, wanted->kind, wanted->width);
    }
    bool same = array->rank == wanted->rank;
    for (int i = 0; same && i < wanted->rank; i++) {
        same = array->dim[i] == wanted->dim[i];
    }
    if (!same) {
        shape_text(array->rank, array->dim, is, sizeof is);
        shape_text(wanted->rank, wanted->dim, should, sizeof should);
        return bad(reader, "has shape %s; according to graph.json it must be %s", is, should);
    }
    return CULM_OK;
}

/* The file, whose header says what is wanted; the caller frees. */
static enum culm_status open_array(struct reader *reader, const struct wanted *wanted,
                                   struct culm_files **ret_files,
                                   struct culm_npy_array *ret_array) {
    const char *paths[] = {reader->path};
    struct culm_files *files = NULL;
    uint8_t *head = NULL;
    enum culm_status status =
        culm_path_format(reader->path, reader->error, "%s/%s", reader->folder, wanted->file);
    if (status == CULM_OK) {
        status = culm_files_open("graph", paths, 1, reader->pins, &files, reader->error);
    }
    if (status != CULM_OK) {
        return status;
    }
    uint64_t bytes = files->entry[0].bytes;
    size_t len = bytes < CULM_NPY_HEADER_MAX ? (size_t)bytes : CULM_NPY_HEADER_MAX;
    head = malloc(len);
    status = head ? culm_files_read(files, 0, 0, head, len, reader->error)
                  : culm_error_set(reader->error, CULM_ERR_MEMORY, "graph '%s': out of memory",
                                   reader->path);
    if (status == CULM_OK) {
        status =
            culm_npy_parse_array(head, len, bytes, "graph", reader->path, ret_array, reader->error);
    }
    if (status == CULM_OK) {
        status = check_type(reader, wanted, ret_array);
    }
    free(head);
    if (status != CULM_OK) {
        culm_files_free(files);
        return status;
    }
    *ret_files = files;
    return CULM_OK;
}

/* The elements as they lie in the file; the caller frees. */
static enum culm_status load(struct reader *reader, const struct wanted *wanted, void **ret_data,
                             uint64_t *ret_count) {
    struct culm_files *files = NULL;
    struct culm_npy_array array;
    void *data = NULL;
    enum culm_status status = open_array(reader, wanted, &files, &array);
    if (status == CULM_OK) {
        size_t size = (size_t)array.count * (size_t)array.width;
        data = culm_pages_alloc(size);
        status =
            data ? culm_files_read(files, 0, array.offset, data, size, reader->error)
                 : culm_error_set(reader->error, CULM_ERR_MEMORY,
                                  "graph '%s': out of memory for %zu bytes", reader->path, size);
    }
    culm_files_free(files);
    if (status != CULM_OK) {
        free(data);
        return status;
    }
    *ret_data = data;
    *ret_count = array.count;
    return CULM_OK;
}

static enum culm_status read_edges(struct reader *reader, struct culm_graph_data *graph) {
    const struct wanted wanted = {"edges.npy", 'u', 4, 2, {(uint64_t)graph->edges, 2}};
    uint64_t count;
    void *data;
    enum culm_status status = load(reader, &wanted, &data, &count);
    if (status != CULM_OK) {
        return status;
    }
    const uint32_t *edge = graph->edge = data;
    uint64_t before = 0;
    for (int64_t i = 0; i < graph->edges; i++) {
        uint32_t u = edge[2 * i], v = edge[2 * i + 1];
        uint64_t key = (uint64_t)u << 32 | v;
        const char *wrong = u >= graph->vertices || v >= graph->vertices
                                ? "has a vertex that is not there"
                            : u == v                    ? "is a loop"
                            : !graph->directed && u > v ? "must have the smaller vertex first"
                            : i > 0 && key == before    ? "is there twice"
                            : i > 0 && key < before     ? "must not come after a larger one"
                                                        : NULL;
        if (wrong) {
            return bad(reader, "row %lld, (%u, %u), %s", (long long)i, u, v, wrong);
        }
        before = key;
    }
    return CULM_OK;
}

static enum culm_status read_labels(struct reader *reader, struct culm_graph_data *graph) {
    const struct wanted wanted = {"labels.npy", 'i', 4, 1, {(uint64_t)graph->vertices}};
    uint64_t count;
    void *data;
    enum culm_status status = load(reader, &wanted, &data, &count);
    if (status != CULM_OK) {
        return status;
    }
    graph->label = data;
    for (int64_t v = 0; v < graph->vertices; v++) {
        if (graph->label[v] < -1 || graph->label[v] >= graph->classes) {
            return bad(reader, "the label of vertex %lld is %d; allowed: -1 to %lld", (long long)v,
                       graph->label[v], (long long)graph->classes - 1);
        }
    }
    return CULM_OK;
}

static enum culm_status read_splits(struct reader *reader, struct culm_graph_data *graph) {
    const struct wanted wanted = {
        "split.npy", 'u', 1, 2, {(uint64_t)graph->splits, (uint64_t)graph->vertices}};
    uint64_t count;
    void *data;
    enum culm_status status = load(reader, &wanted, &data, &count);
    if (status != CULM_OK) {
        return status;
    }
    graph->split = data;
    for (uint64_t i = 0; i < count; i++) {
        int64_t s = (int64_t)i / graph->vertices, v = (int64_t)i % graph->vertices;
        if (graph->split[i] > CULM_GRAPH_TEST) {
            return bad(reader, "split %lld has %d for vertex %lld; allowed: 0 to 3", (long long)s,
                       graph->split[i], (long long)v);
        }
        if (graph->label && graph->split[i] != CULM_GRAPH_UNUSED && graph->label[v] < 0) {
            return bad(reader, "split %lld uses vertex %lld, which has no label", (long long)s,
                       (long long)v);
        }
    }
    return CULM_OK;
}

static enum culm_status check_finite(struct reader *reader, const float *value, uint64_t count,
                                     int64_t width) {
    for (uint64_t i = 0; i < count; i++) {
        if (!isfinite(value[i])) {
            return bad(reader, "%s at [%lld, %lld]: features must be finite numbers",
                       isnan(value[i]) ? "NaN" : "infinity", (long long)i / width,
                       (long long)i % width);
        }
    }
    return CULM_OK;
}

static enum culm_status read_dense(struct reader *reader, struct culm_graph_data *graph) {
    const struct wanted wanted = {
        "features.npy", 'f', 4, 2, {(uint64_t)graph->vertices, (uint64_t)graph->columns}};
    uint64_t count;
    void *data;
    enum culm_status status = load(reader, &wanted, &data, &count);
    if (status != CULM_OK) {
        return status;
    }
    graph->dense = data;
    return check_finite(reader, graph->dense, count, graph->columns);
}

/* Looks at all of them once, and leaves them where they are. */
static enum culm_status look_at_dense(struct reader *reader, struct culm_graph_data *graph) {
    const struct wanted wanted = {
        "features.npy", 'f', 4, 2, {(uint64_t)graph->vertices, (uint64_t)graph->columns}};
    struct culm_npy_array array;
    float *row = malloc((size_t)graph->columns * sizeof *row);
    enum culm_status status = row ? open_array(reader, &wanted, &graph->file, &array)
                                  : culm_error_set(reader->error, CULM_ERR_MEMORY, "out of memory");
    if (status == CULM_OK) {
        graph->file_at = array.offset;
    }
    for (int64_t v = 0; v < graph->vertices && status == CULM_OK; v++) {
        status = culm_files_read(graph->file, 0,
                                 array.offset + (uint64_t)(v * graph->columns) * sizeof *row, row,
                                 (size_t)graph->columns * sizeof *row, reader->error);
        for (int64_t c = 0; c < graph->columns && status == CULM_OK; c++) {
            if (!isfinite(row[c])) {
                status = bad(reader, "%s at [%lld, %lld]: features must be finite numbers",
                             isnan(row[c]) ? "NaN" : "infinity", (long long)v, (long long)c);
            }
        }
    }
    free(row);
    return status;
}

static enum culm_status read_start(struct reader *reader, struct culm_graph_data *graph) {
    const struct wanted wanted = {"features_start.npy", 'u', 8, 1, {(uint64_t)graph->vertices + 1}};
    uint64_t count;
    void *data;
    enum culm_status status = load(reader, &wanted, &data, &count);
    if (status != CULM_OK) {
        return status;
    }
    const uint64_t *start = graph->start = data;
    if (start[0] != 0) {
        return bad(reader, "begins with %llu, not with 0", (unsigned long long)start[0]);
    }
    for (int64_t v = 0; v < graph->vertices; v++) {
        if (start[v + 1] < start[v]) {
            return bad(reader, "row %lld ends at entry %llu, before it begins at %llu",
                       (long long)v, (unsigned long long)start[v + 1],
                       (unsigned long long)start[v]);
        }
    }
    if (start[graph->vertices] != graph->entries) {
        return bad(reader, "ends with %llu; according to graph.json there are %llu entries",
                   (unsigned long long)start[graph->vertices], (unsigned long long)graph->entries);
    }
    return CULM_OK;
}

static enum culm_status read_column(struct reader *reader, struct culm_graph_data *graph) {
    bool wide = graph->columns > 65536;
    const struct wanted wanted = {"features_column.npy", 'u', wide ? 4 : 2, 1, {graph->entries}};
    uint64_t count;
    void *data;
    enum culm_status status = load(reader, &wanted, &data, &count);
    if (status != CULM_OK) {
        return status;
    }
    if (wide) {
        graph->column = data;
    } else {
        graph->column = culm_pages_alloc((size_t)count * sizeof *graph->column);
        for (uint64_t i = 0; graph->column && i < count; i++) {
            graph->column[i] = ((const uint16_t *)data)[i];
        }
        free(data);
        if (!graph->column) {
            return culm_error_set(reader->error, CULM_ERR_MEMORY, "graph '%s': out of memory",
                                  reader->path);
        }
    }
    for (int64_t v = 0; v < graph->vertices; v++) {
        for (uint64_t i = graph->start[v]; i < graph->start[v + 1]; i++) {
            if (graph->column[i] >= graph->columns) {
                return bad(reader, "entry %llu is column %u of %lld", (unsigned long long)i,
                           graph->column[i], (long long)graph->columns);
            }
            if (i > graph->start[v] && graph->column[i] <= graph->column[i - 1]) {
                return bad(reader, "entry %llu: columns of row %lld are not in ascending order",
                           (unsigned long long)i, (long long)v);
            }
        }
    }
    return CULM_OK;
}

static enum culm_status read_sparse(struct reader *reader, struct culm_graph_data *graph) {
    const struct wanted wanted = {"features_value.npy", 'f', 4, 1, {graph->entries}};
    uint64_t count;
    void *data;
    enum culm_status status = read_start(reader, graph);
    if (status == CULM_OK) {
        status = read_column(reader, graph);
    }
    if (status != CULM_OK || graph->ones) {
        return status;
    }
    status = load(reader, &wanted, &data, &count);
    if (status != CULM_OK) {
        return status;
    }
    graph->value = data;
    for (uint64_t i = 0; i < count; i++) {
        if (!isfinite(graph->value[i])) {
            return bad(reader, "entry %llu is %s: features must be finite numbers",
                       (unsigned long long)i, isnan(graph->value[i]) ? "NaN" : "infinity");
        }
    }
    return CULM_OK;
}

enum culm_status graph_arrays_read(struct culm_graph_data *graph, const char *folder,
                                   unsigned parts, struct culm_pins *pins,
                                   struct culm_error *error) {
    struct reader reader = {.folder = folder, .pins = pins, .error = error};
    enum culm_status status = CULM_OK;
    if (parts & CULM_GRAPH_EDGES) {
        status = read_edges(&reader, graph);
    }
    if (status == CULM_OK && parts & CULM_GRAPH_LABELS && graph->classes > 0) {
        status = read_labels(&reader, graph);
    }
    if (status == CULM_OK && parts & CULM_GRAPH_SPLITS && graph->splits > 0) {
        status = read_splits(&reader, graph);
    }
    if (status == CULM_OK && parts & CULM_GRAPH_FEATURES &&
        graph->feature_kind == CULM_GRAPH_DENSE) {
        status =
            parts & CULM_GRAPH_IN_FILE ? look_at_dense(&reader, graph) : read_dense(&reader, graph);
    }
    if (status == CULM_OK && parts & CULM_GRAPH_FEATURES &&
        graph->feature_kind == CULM_GRAPH_SPARSE) {
        status = read_sparse(&reader, graph);
    }
    return status;
}
