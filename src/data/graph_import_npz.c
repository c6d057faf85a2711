/*
 * Archives of NumPy arrays. Arrays of Python objects (pickles) are not read.
 *
 * libzip is loaded when it is first needed: programs that link Culm's library, perhaps statically, do
 * not all import graphs.
 */
#include "data/graph_import.h"

#include "data/graph_write.h"
#include "data/npy.h"

#include "base/file.h"
#include "base/library.h"
#include "base/pages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#define RATIO_MAX 1040 /* deflate makes at most 1032 bytes of one */
#define CLASSES_MAX 65536

#define FUNCTIONS(ROW)                                                                             \
    ROW(open)                                                                                      \
    ROW(discard)                                                                                   \
    ROW(name_locate)                                                                               \
    ROW(stat_index)                                                                                \
    ROW(fopen_index)                                                                               \
    ROW(fread)                                                                                     \
    ROW(fclose)

static struct {
#define ROW(name) __typeof__(zip_##name) *name;
    FUNCTIONS(ROW)
#undef ROW
} zip;

static enum culm_status need_library(const char *path, struct culm_error *error) {
#define ROW(name) {"zip_" #name, &zip.name},
    static const struct culm_library_function functions[] = {FUNCTIONS(ROW)};
#undef ROW
    static struct culm_library library = {.name = "libzip.so.4",
                                          .package = "libzip4",
                                          .oldest = "0.11",
                                          .functions = functions,
                                          .count = sizeof functions / sizeof *functions};
    enum culm_status status = culm_library_load(&library, error);
    if (status != CULM_OK) {
        culm_error_prefix(error, "archive '%s'", path);
    }
    return status;
}

/* An array of the archive; data NULL: it is not there. */
struct array {
    struct culm_npy_array about;
    uint8_t *data;
    char name[512]; /* "PATH: member", for messages */
};

struct archive {
    zip_t *zip;
    const char *path;
    uint64_t bytes; /* of the file */
    struct culm_error *error;
};

static enum culm_status bad(const struct archive *archive, const struct array *array,
                            const char *what) {
    return culm_error_set(archive->error, CULM_ERR_FORMAT, "archive '%s': %s", array->name, what);
}

static enum culm_status no_memory(const struct archive *archive) {
    return culm_error_set(archive->error, CULM_ERR_MEMORY, "archive '%s': out of memory",
                          archive->path);
}

/* The whole of a member. */
static enum culm_status unpack(const struct archive *archive, zip_uint64_t index,
                               struct array *array, uint64_t bytes) {
    zip_file_t *file = zip.fopen_index(archive->zip, index, 0);
    if (!file) {
        return bad(archive, array, "cannot be unpacked");
    }
    array->data = malloc((size_t)bytes + 1);
    uint64_t done = 0;
    while (array->data && done < bytes) {
        zip_int64_t got = zip.fread(file, array->data + done, bytes - done);
        if (got <= 0) {
            break;
        }
        done += (uint64_t)got;
    }
    /* The checksum is compared when the end is read. */
    bool whole = array->data && done == bytes && zip.fread(file, array->data + bytes, 1) == 0;
    zip.fclose(file);
    return !array->data ? no_memory(archive)
           : whole      ? CULM_OK
                        : bad(archive, array, "is damaged; get the archive again");
}

/* The member `NAME.npy`; nothing when it is not there. */
static enum culm_status load(const struct archive *archive, const char *name,
                             struct array *ret_array) {
    char member[128];
    zip_stat_t stat;
    struct array array = {0};
    snprintf(member, sizeof member, "%s.npy", name);
    snprintf(array.name, sizeof array.name, "%.380s: %s", archive->path, name);
    zip_int64_t index = zip.name_locate(archive->zip, member, 0);
    if (index < 0) {
        return CULM_OK;
    }
    const zip_uint64_t wanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
    if (zip.stat_index(archive->zip, (zip_uint64_t)index, 0, &stat) != 0 ||
        (stat.valid & wanted) != wanted || stat.comp_size > archive->bytes ||
        stat.size / RATIO_MAX > stat.comp_size) {
        return bad(archive, &array, "has an impossible size");
    }
    enum culm_status status = unpack(archive, (zip_uint64_t)index, &array, stat.size);
    if (status == CULM_OK) {
        size_t head = stat.size < CULM_NPY_HEADER_MAX ? (size_t)stat.size : CULM_NPY_HEADER_MAX;
        status = culm_npy_parse_array(array.data, head, stat.size, "archive", array.name,
                                      &array.about, archive->error);
    }
    if (status != CULM_OK) {
        free(array.data);
        return status;
    }
    *ret_array = array;
    return CULM_OK;
}

/* The first of `names`, ended by NULL, that is there. */
static enum culm_status load_any(const struct archive *archive, const char *const *names,
                                 struct array *ret_array) {
    enum culm_status status = CULM_OK;
    for (size_t i = 0; names[i] && !ret_array->data && status == CULM_OK; i++) {
        status = load(archive, names[i], ret_array);
    }
    return status;
}

/* --- numbers --- */

/* Element i as a whole number from `least` to `most`; false: it is none. */
static bool whole(const struct array *array, uint64_t i, int64_t least, int64_t most,
                  int64_t *ret_value) {
    const uint8_t *at = array->data + array->about.offset + i * (uint64_t)array->about.width;
    int64_t value = 0;
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)array->about.width);
    if (array->about.kind == 'f') {
        return false;
    }
    if (array->about.kind == 'i') {
        int unused = 64 - 8 * array->about.width;
        value = (int64_t)(bits << unused) >> unused;
    } else if (bits > INT64_MAX) {
        return false;
    } else {
        value = (int64_t)bits;
    }
    *ret_value = value;
    return value >= least && value <= most;
}

static float real(const struct array *array, uint64_t i) {
    const uint8_t *at = array->data + array->about.offset + i * (uint64_t)array->about.width;
    int64_t value = 0;
    float narrow;
    double wide;
    if (array->about.kind != 'f') {
        return whole(array, i, INT64_MIN, INT64_MAX, &value) ? (float)value : NAN;
    }
    memcpy(&narrow, at, 4);
    if (array->about.width == 4) {
        return narrow;
    }
    memcpy(&wide, at, 8);
    return (float)wide;
}

/* --- a sparse matrix --- */

struct matrix {
    struct array data, indices, start, shape;
    int64_t rows, columns;
};

static void release_matrix(struct matrix *m) {
    free(m->data.data);
    free(m->indices.data);
    free(m->start.data);
    free(m->shape.data);
}

/* Loads PREFIX_data (if it is there), _indices, _indptr, _shape, or the same with a dot, and checks
 * shape, starts and columns. rows 0: there is none. */
static enum culm_status load_matrix(const struct archive *archive, const char *const *prefixes,
                                    struct matrix *ret_matrix) {
    static const char *const parts[] = {"data", "indices", "indptr", "shape"};
    struct matrix m = {0};
    struct array *const to[] = {&m.data, &m.indices, &m.start, &m.shape};
    enum culm_status status = CULM_OK;
    for (size_t p = 0; prefixes[p] && status == CULM_OK && !m.indices.data; p++) {
        for (size_t i = 0; i < 4 && status == CULM_OK; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", prefixes[p], parts[i]);
            free(to[i]->data);
            *to[i] = (struct array){0};
            status = load(archive, name, to[i]);
        }
    }
    *ret_matrix = m;
    if (status != CULM_OK || !m.indices.data) {
        return status;
    }
    if (!m.start.data || !m.shape.data || m.shape.about.count != 2 ||
        !whole(&m.shape, 0, 1, CULM_GRAPH_VERTICES_MAX, &m.rows) ||
        !whole(&m.shape, 1, 1, INT32_MAX, &m.columns)) {
        return bad(archive, &m.indices, "has no indptr, or no valid shape");
    }
    if (m.start.about.count != (uint64_t)m.rows + 1 ||
        (m.data.data && m.data.about.count != m.indices.about.count)) {
        return bad(archive, &m.start, "does not fit the shape or the data");
    }
    int64_t before = 0, start, column;
    for (int64_t r = 0; r <= m.rows; r++) {
        if (!whole(&m.start, (uint64_t)r, r ? before : 0, r ? INT64_MAX : 0, &start) ||
            (uint64_t)start > m.indices.about.count) {
            return bad(archive, &m.start, "does not rise from 0 to the number of indices");
        }
        before = start;
    }
    if ((uint64_t)before != m.indices.about.count) {
        return bad(archive, &m.start, "does not rise from 0 to the number of indices");
    }
    for (uint64_t i = 0; i < m.indices.about.count; i++) {
        if (!whole(&m.indices, i, 0, m.columns - 1, &column)) {
            return bad(archive, &m.indices, "has a column that is out of range");
        }
    }
    *ret_matrix = m;
    return CULM_OK;
}

static int64_t start_of(const struct matrix *m, int64_t row) {
    int64_t value = 0;
    (void)whole(&m->start, (uint64_t)row, 0, INT64_MAX, &value); /* looked at when loaded */
    return value;
}

/* --- parts of the graph --- */

static enum culm_status take_pairs(const struct archive *archive, const struct array *pairs,
                                   struct culm_graph_data *graph, int64_t vertices) {
    if (pairs->about.rank != 2 || pairs->about.dim[1] != 2) {
        return bad(archive, pairs, "is not an array [edges, 2]");
    }
    if (pairs->about.kind == 'f') {
        return bad(archive, pairs, "is not of integers, as ids of vertices must be");
    }
    if (vertices == 0) {
        return bad(archive, pairs,
                   "does not say how many vertices there are; the archive needs node_labels or "
                   "node_features as well");
    }
    graph->edges = (int64_t)pairs->about.dim[0];
    graph->vertices = vertices;
    graph->edge = culm_pages_alloc((size_t)pairs->about.count * sizeof *graph->edge);
    if (!graph->edge) {
        return no_memory(archive);
    }
    for (uint64_t i = 0; i < pairs->about.count; i++) {
        int64_t v;
        if (!whole(pairs, i, 0, vertices - 1, &v)) {
            return bad(archive, pairs, "has a vertex that is out of range");
        }
        graph->edge[i] = (uint32_t)v;
    }
    return CULM_OK;
}

static enum culm_status take_matrix(const struct archive *archive, const struct matrix *m,
                                    struct culm_graph_data *graph) {
    if (m->rows != m->columns) {
        return bad(archive, &m->shape, "is not square");
    }
    graph->vertices = m->rows;
    graph->edges = (int64_t)m->indices.about.count;
    graph->edge = culm_pages_alloc((size_t)graph->edges * 2 * sizeof *graph->edge);
    if (!graph->edge) {
        return no_memory(archive);
    }
    for (int64_t r = 0; r < m->rows; r++) {
        for (int64_t i = start_of(m, r); i < start_of(m, r + 1); i++) {
            int64_t column = 0;
            (void)whole(&m->indices, (uint64_t)i, 0, m->columns - 1, &column);
            graph->edge[2 * i] = (uint32_t)r;
            graph->edge[2 * i + 1] = (uint32_t)column;
        }
    }
    return CULM_OK;
}

struct cell {
    uint32_t column;
    float value;
};

static int by_column(const void *a, const void *b) {
    uint32_t x = ((const struct cell *)a)->column, y = ((const struct cell *)b)->column;
    return (x > y) - (x < y);
}

/* Rows in the order of their columns; a value that is not there is 1. */
static enum culm_status take_sparse(const struct archive *archive, const struct matrix *m,
                                    struct culm_graph_data *graph) {
    size_t entries = (size_t)m->indices.about.count;
    if (m->rows != graph->vertices) {
        return bad(archive, &m->shape, "does not have as many rows as the graph has vertices");
    }
    struct cell *row = malloc(entries * sizeof *row + 1);
    graph->feature_kind = CULM_GRAPH_SPARSE;
    graph->columns = m->columns;
    graph->entries = entries;
    graph->start = malloc(((size_t)m->rows + 1) * sizeof *graph->start);
    graph->column = culm_pages_alloc(entries * sizeof *graph->column);
    graph->value = culm_pages_alloc(entries * sizeof *graph->value);
    if (!row || !graph->start || !graph->column || !graph->value) {
        free(row);
        return no_memory(archive);
    }
    bool ones = true, fine = true;
    graph->start[0] = 0;
    for (int64_t r = 0; r < m->rows && fine; r++) {
        int64_t first = start_of(m, r), end = start_of(m, r + 1), column = 0;
        graph->start[r + 1] = (uint64_t)end;
        for (int64_t i = first; i < end; i++) {
            (void)whole(&m->indices, (uint64_t)i, 0, m->columns - 1, &column);
            row[i - first] =
                (struct cell){(uint32_t)column, m->data.data ? real(&m->data, (uint64_t)i) : 1};
        }
        qsort(row, (size_t)(end - first), sizeof *row, by_column);
        for (int64_t i = first; i < end && fine; i++) {
            graph->column[i] = row[i - first].column;
            graph->value[i] = row[i - first].value;
            ones = ones && graph->value[i] == 1;
            fine = isfinite(graph->value[i]) &&
                   (i == first || graph->column[i] > graph->column[i - 1]);
        }
    }
    free(row);
    if (!fine) {
        return bad(archive, &m->indices,
                   "has a column twice in a row, or a value that is not finite");
    }
    if (ones) {
        free(graph->value);
        graph->value = NULL;
        graph->ones = true;
    }
    return CULM_OK;
}

static enum culm_status take_dense(const struct archive *archive, const struct array *features,
                                   struct culm_graph_data *graph) {
    if (features->about.rank != 2 || features->about.dim[0] != (uint64_t)graph->vertices ||
        features->about.dim[1] < 1 || features->about.dim[1] > INT32_MAX) {
        return bad(archive, features, "is not an array [vertices, features]");
    }
    graph->feature_kind = CULM_GRAPH_DENSE;
    graph->columns = (int64_t)features->about.dim[1];
    graph->dense = culm_pages_alloc((size_t)features->about.count * sizeof *graph->dense);
    if (!graph->dense) {
        return no_memory(archive);
    }
    for (uint64_t i = 0; i < features->about.count; i++) {
        graph->dense[i] = real(features, i);
        if (!isfinite(graph->dense[i])) {
            return bad(archive, features, "has a value that is not finite");
        }
    }
    return CULM_OK;
}

static enum culm_status take_labels(const struct archive *archive, const struct array *labels,
                                    struct culm_graph_data *graph) {
    if (labels->about.rank != 1 || labels->about.count != (uint64_t)graph->vertices) {
        return bad(archive, labels, "does not have as many labels as the graph has vertices");
    }
    graph->label = malloc((size_t)graph->vertices * sizeof *graph->label);
    if (!graph->label) {
        return no_memory(archive);
    }
    for (uint64_t v = 0; v < labels->about.count; v++) {
        int64_t label;
        if (!whole(labels, v, -1, CLASSES_MAX - 1, &label)) {
            return bad(archive, labels, "has a label that is not an integer from -1 to 65535");
        }
        graph->label[v] = (int32_t)label;
        graph->classes = label >= graph->classes ? label + 1 : graph->classes;
    }
    return graph->classes > 0 ? CULM_OK : bad(archive, labels, "has no class");
}

/* Masks of who trains, validates and tests: [S, V] or [V]. */
static enum culm_status take_masks(const struct archive *archive, struct culm_graph_data *graph) {
    static const char *const names[][3] = {{"train_masks", "train_mask", NULL},
                                           {"val_masks", "val_mask", NULL},
                                           {"test_masks", "test_mask", NULL}};
    enum culm_status status = CULM_OK;
    for (int use = 0; use < 3 && status == CULM_OK; use++) {
        struct array mask = {0};
        status = load_any(archive, names[use], &mask);
        if (status != CULM_OK || !mask.data) {
            continue;
        }
        int64_t splits = mask.about.rank == 2 ? (int64_t)mask.about.dim[0] : 1, yes;
        if (mask.about.count != (uint64_t)splits * (uint64_t)graph->vertices || splits < 1 ||
            splits > CULM_GRAPH_SPLITS_MAX || (graph->split && splits != graph->splits) ||
            !graph->label) {
            status = bad(archive, &mask, "does not fit the vertices, the labels or other masks");
        } else if (!graph->split) {
            graph->split = calloc(mask.about.count, 1);
            graph->splits = splits;
            status = graph->split ? CULM_OK : no_memory(archive);
        }
        for (uint64_t i = 0; i < mask.about.count && status == CULM_OK; i++) {
            if (!whole(&mask, i, 0, 1, &yes)) {
                status = bad(archive, &mask, "is not a mask of 0 and 1");
            } else if (yes && graph->split[i]) {
                status = bad(archive, &mask, "has a vertex that another mask has too");
            } else if (yes && graph->label[i % (uint64_t)graph->vertices] < 0) {
                status = bad(archive, &mask, "has a vertex that has no label");
            } else if (yes) {
                graph->split[i] = (uint8_t)(CULM_GRAPH_TRAIN + use);
            }
        }
        free(mask.data);
    }
    return status;
}

/* --- the whole --- */

static enum culm_status take_edges(const struct archive *archive, struct culm_graph_data *graph,
                                   int64_t vertices) {
    static const char *const prefixes[] = {"adj_", "adj_matrix.", NULL};
    struct matrix adjacency = {0};
    struct array pairs = {0};
    enum culm_status status = load_matrix(archive, prefixes, &adjacency);
    if (status == CULM_OK && adjacency.rows > 0) {
        status = take_matrix(archive, &adjacency, graph);
    } else if (status == CULM_OK && (status = load(archive, "edges", &pairs)) == CULM_OK) {
        status = !pairs.data ? culm_error_set(archive->error, CULM_ERR_FORMAT,
                                              "archive '%s': has neither adj_indices nor edges",
                                              archive->path)
                             : take_pairs(archive, &pairs, graph, vertices);
    }
    free(pairs.data);
    release_matrix(&adjacency);
    graph->edges_listed = graph->edges;
    return status == CULM_OK ? culm_graph_simplify(graph->edge, &graph->edges, graph->vertices,
                                                   graph->directed, archive->error)
                             : status;
}

static enum culm_status take_all(const struct archive *archive, struct culm_graph_data *graph) {
    static const char *const prefixes[] = {"attr_", "attr_matrix.", NULL};
    static const char *const denses[] = {"node_features", "features", NULL};
    static const char *const label_names[] = {"labels", "node_labels", NULL};
    struct matrix sparse = {0};
    struct array dense = {0}, labels = {0};
    enum culm_status status = load_matrix(archive, prefixes, &sparse);
    if (status == CULM_OK && sparse.rows == 0) {
        status = load_any(archive, denses, &dense);
    }
    if (status == CULM_OK) {
        status = load_any(archive, label_names, &labels);
    }
    if (status == CULM_OK) {
        /* A list of edges does not say how many vertices there are; labels or features do. */
        bool some = dense.data && dense.about.count > 0;
        uint64_t vertices = labels.data ? labels.about.count : some ? dense.about.dim[0] : 0;
        vertices = vertices > CULM_GRAPH_VERTICES_MAX ? 0 : vertices;
        status = take_edges(archive, graph, sparse.rows ? sparse.rows : (int64_t)vertices);
    }
    if (status == CULM_OK && labels.data) {
        status = take_labels(archive, &labels, graph);
    }
    if (status == CULM_OK && sparse.rows > 0) {
        status = take_sparse(archive, &sparse, graph);
    } else if (status == CULM_OK && dense.data) {
        status = take_dense(archive, &dense, graph);
    }
    free(labels.data);
    free(dense.data);
    release_matrix(&sparse);
    return status == CULM_OK ? take_masks(archive, graph) : status;
}

enum culm_status culm_graph_import_npz(const char *path, bool directed, const char *name,
                                       struct culm_graph_data **ret_graph,
                                       struct culm_error *error) {
    struct archive archive = {.path = path, .error = error};
    int reason = 0;
    enum culm_status status = culm_file_size(path, &archive.bytes, error);
    status = status ? status : need_library(path, error);
    if (status != CULM_OK) {
        return status;
    }
    archive.zip = zip.open(path, ZIP_RDONLY, &reason);
    if (!archive.zip) {
        return culm_error_set(error, reason == ZIP_ER_MEMORY ? CULM_ERR_MEMORY : CULM_ERR_FORMAT,
                              "archive '%s': is not a readable .npz; download it again", path);
    }
    struct culm_graph_data *graph = calloc(1, sizeof *graph);
    if (graph) {
        graph->directed = directed;
        snprintf(graph->name, sizeof graph->name, "%s", name);
        status = take_all(&archive, graph);
    } else {
        status = no_memory(&archive);
    }
    zip.discard(archive.zip);
    if (status != CULM_OK) {
        culm_graph_data_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}
