/* Edges from text, labels from text, features from .npy or JSON. */
#include "data/graph_import.h"

#include "data/files.h"
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
#define CLASSES_MAX 65536

struct import {
    const struct culm_graph_edge_files *files;
    struct culm_graph_data *graph;
    struct culm_error *error;
    size_t capacity;  /* of edge */
    int64_t largest;  /* id so far; -1: none */
    int64_t labelled; /* [labels] have room for so many vertices */
    char **word;      /* labels as they were written, [words] by vertex */
    size_t words, word_capacity;
};

static enum culm_status no_memory(struct import *import) {
    return culm_error_set(import->error, CULM_ERR_MEMORY, "out of memory for graph '%s'",
                          import->graph->name);
}

/* --- edges --- */

static const char *skip_gap(const char *at) { return at + strspn(at, " \t,;"); }

/* A vertex id; NULL: there is none, or it is not followed by a gap or the end. */
static const char *take_id(const char *at, int64_t *ret_id) {
    int64_t id = 0;
    const char *first = at;
    for (; *at >= '0' && *at <= '9'; at++) {
        id = id * 10 + (*at - '0');
        if (id >= CULM_GRAPH_VERTICES_MAX) {
            return NULL;
        }
    }
    *ret_id = id;
    return at > first && (!*at || strchr(" \t,;", *at)) ? at : NULL;
}

static bool is_comment(const char *line) {
    return !line[strspn(line, " \t")] || *line == '#' || *line == '%';
}

static enum culm_status add_edge(struct import *import, int64_t u, int64_t v) {
    struct culm_graph_data *graph = import->graph;
    size_t count = (size_t)graph->edges * 2;
    if (!CULM_GROW(graph->edge, import->capacity, count + 2)) {
        return no_memory(import);
    }
    graph->edge[count] = (uint32_t)u;
    graph->edge[count + 1] = (uint32_t)v;
    graph->edges++;
    import->largest = u > import->largest ? u : import->largest;
    import->largest = v > import->largest ? v : import->largest;
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
        if (is_comment(line)) {
            continue;
        }
        const char *at = take_id(skip_gap(line), &u);
        at = at && *at ? take_id(skip_gap(at), &v) : NULL;
        if (at) {
            status = add_edge(import, u, v);
        } else if (!heading || strspn(skip_gap(line), "0123456789") > 0) {
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

/* --- labels --- */

/* The last field of a line of comma-separated values, or its last word; quotes are taken off. */
static char *last_field(char *line) {
    size_t len = strlen(line);
    while (len > 0 && strchr(" \t", line[len - 1])) {
        line[--len] = '\0';
    }
    if (len > 1 && line[len - 1] == '"') {
        char *open = line + len - 1;
        line[len - 1] = '\0';
        while (open > line && open[-1] != '"') {
            open--;
        }
        return open;
    }
    char *comma = strrchr(line, ','), *at = comma ? comma + 1 : line;
    if (!comma) {
        char *blank = line + len;
        while (blank > line && !strchr(" \t;", blank[-1])) {
            blank--;
        }
        at = blank;
    }
    return at + strspn(at, " \t");
}

static enum culm_status keep_word(struct import *import, int64_t vertex, const char *word) {
    size_t count = (size_t)vertex + 1;
    if (count > import->words) {
        if (!CULM_GROW(import->word, import->word_capacity, count)) {
            return no_memory(import);
        }
        memset(import->word + import->words, 0, (count - import->words) * sizeof *import->word);
        import->words = count;
    }
    import->word[vertex] = strdup(word);
    return import->word[vertex] ? CULM_OK : no_memory(import);
}

/* `id ... label`, or a label alone, which is that of the next vertex. */
static enum culm_status read_label_lines(struct import *import, struct culm_lines *lines) {
    enum culm_status status;
    char *line;
    bool heading = true;
    int64_t next = 0;
    while ((status = culm_lines_next(lines, &line, import->error)) == CULM_OK && line) {
        int64_t id = next;
        if (is_comment(line)) {
            continue;
        }
        const char *rest = take_id(skip_gap(line), &id);
        bool alone = !strpbrk(line + strspn(line, " \t"), " \t,;");
        if (alone) {
            id = next++;
        } else if (!rest) {
            if (!heading) {
                return culm_lines_bad(lines, import->error,
                                      "'%.40s' does not begin with a vertex id", line);
            }
            heading = false;
            continue;
        }
        heading = false;
        if ((size_t)id < import->words && import->word[id]) {
            return culm_lines_bad(lines, import->error, "vertex %lld has a label already",
                                  (long long)id);
        }
        const char *word = last_field(line);
        if (!*word) {
            return culm_lines_bad(lines, import->error, "vertex %lld has an empty label",
                                  (long long)id);
        }
        if ((status = keep_word(import, id, word)) != CULM_OK) {
            return status;
        }
        import->largest = id > import->largest ? id : import->largest;
    }
    return status;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* True: all words are whole numbers from -1. */
static bool are_numbers(const struct import *import) {
    for (size_t v = 0; v < import->words; v++) {
        const char *word = import->word[v];
        if (word && strcmp(word, "-1") != 0 &&
            (!*word || word[strspn(word, "0123456789")] || strlen(word) > 9)) {
            return false;
        }
    }
    return true;
}

static enum culm_status too_many(struct import *import, const char *labels, long long classes) {
    return culm_error_set(import->error, CULM_ERR_FORMAT,
                          "labels '%s': %lld classes; at most %d are allowed", labels, classes,
                          CLASSES_MAX);
}

/* Classes of words, in the order of their letters. */
static enum culm_status number_words(struct import *import, const char *labels) {
    struct culm_graph_data *graph = import->graph;
    char **sorted = malloc((import->words + 1) * sizeof *sorted);
    size_t count = 0, different = 0;
    if (!sorted) {
        return no_memory(import);
    }
    for (size_t v = 0; v < import->words; v++) {
        if (import->word[v]) {
            sorted[count++] = import->word[v];
        }
    }
    qsort(sorted, count, sizeof *sorted, by_text);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(sorted[i], sorted[different - 1]) != 0) {
            sorted[different++] = sorted[i];
        }
    }
    enum culm_status status =
        different > CLASSES_MAX ? too_many(import, labels, (long long)different) : CULM_OK;
    if (status == CULM_OK) {
        graph->classes = (int64_t)different;
        graph->class_name = calloc(different + 1, sizeof *graph->class_name);
        status = graph->class_name ? CULM_OK : no_memory(import);
    }
    for (size_t c = 0; c < different && status == CULM_OK; c++) {
        graph->class_name[c] = strdup(sorted[c]);
        status = graph->class_name[c] ? CULM_OK : no_memory(import);
    }
    for (size_t v = 0; v < import->words && status == CULM_OK; v++) {
        if (import->word[v]) {
            char **at = bsearch(&import->word[v], sorted, different, sizeof *sorted, by_text);
            graph->label[v] = (int32_t)(at - sorted);
        }
    }
    free(sorted);
    return status;
}

/* When the number of vertices is known: labels of words. */
static enum culm_status set_labels(struct import *import) {
    struct culm_graph_data *graph = import->graph;
    const char *labels = import->files->labels;
    if (!labels) {
        return CULM_OK;
    }
    graph->label = malloc((size_t)graph->vertices * sizeof *graph->label);
    if (!graph->label) {
        return no_memory(import);
    }
    memset(graph->label, 0xff, (size_t)graph->vertices * sizeof *graph->label);
    if (!are_numbers(import)) {
        return number_words(import, labels);
    }
    for (size_t v = 0; v < import->words; v++) {
        int32_t label = import->word[v] ? (int32_t)strtol(import->word[v], NULL, 10) : -1;
        graph->label[v] = label;
        graph->classes = label >= graph->classes ? (int64_t)label + 1 : graph->classes;
    }
    return graph->classes > CLASSES_MAX ? too_many(import, labels, (long long)graph->classes)
           : graph->classes == 0
               ? culm_error_set(import->error, CULM_ERR_FORMAT, "labels '%s': has none", labels)
               : CULM_OK;
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
    struct culm_lines *lines;
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < files->edge_count && status == CULM_OK; i++) {
        status = read_edge_file(import, files->edges[i]);
    }
    if (status == CULM_OK && files->labels &&
        (status = culm_lines_open("labels", files->labels, &lines, import->error)) == CULM_OK) {
        status = read_label_lines(import, lines);
        culm_lines_free(lines);
    }
    if (status != CULM_OK) {
        return status;
    }
    graph->vertices = files->vertices ? files->vertices : import->largest + 1;
    graph->edges_listed = graph->edges;
    if (graph->vertices < 1 || import->largest >= graph->vertices) {
        return culm_error_set(import->error, CULM_ERR_FORMAT,
                              graph->vertices < 1 ? "there is no vertex in any file"
                                                  : "vertex %lld is in a file; --vertices says "
                                                    "%lld",
                              (long long)import->largest, (long long)graph->vertices);
    }
    if (!graph->edge && !(graph->edge = malloc(8))) {
        return no_memory(import);
    }
    status = culm_graph_simplify(graph->edge, &graph->edges, graph->vertices, graph->directed,
                                 import->error);
    if (status == CULM_OK) {
        status = set_labels(import);
    }
    return status == CULM_OK ? read_features(import) : status;
}

enum culm_status culm_graph_import_edges(const struct culm_graph_edge_files *files,
                                         const char *name, struct culm_graph_data **ret_graph,
                                         struct culm_error *error) {
    struct import import = {.files = files, .error = error, .largest = -1};
    import.graph = calloc(1, sizeof *import.graph);
    if (!import.graph) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for graph '%s'", name);
    }
    import.graph->directed = files->directed;
    snprintf(import.graph->name, sizeof import.graph->name, "%s", name);
    enum culm_status status = read_all(&import);
    for (size_t v = 0; v < import.words; v++) {
        free(import.word[v]);
    }
    free(import.word);
    if (status != CULM_OK) {
        culm_graph_data_free(import.graph);
        return status;
    }
    *ret_graph = import.graph;
    return CULM_OK;
}
