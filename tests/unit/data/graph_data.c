/* Folders of the format culm-graph-1: written and read again, and refused when anything in them is
 * not what it must be; neighbours, simple edges, splits. */
#include "place.h"

#include "data/adjacency.h"
#include "data/graph_write.h"
#include "data/npy.h"

#include "base/rng.h"

#include <math.h>

/* A small graph on the heap, with all that a graph can have. */
static struct culm_graph_data *make(enum culm_graph_features kind) {
    static const uint32_t edge[] = {0, 1, 0, 3, 1, 2, 1, 3, 3, 4};
    static const int32_t label[] = {0, 1, 2, -1, 1};
    static const uint8_t split[] = {1, 2, 3, 0, 0, 3, 1, 2, 0, 1};
    static const uint64_t start[] = {0, 2, 2, 3, 5, 6};
    static const uint32_t column[] = {0, 6, 3, 1, 2, 0};
    struct culm_graph_data *graph = calloc(1, sizeof *graph);
    *graph = (struct culm_graph_data){.name = "small",
                                      .vertices = 5,
                                      .edges = 5,
                                      .edges_listed = 7,
                                      .classes = 3,
                                      .splits = 2,
                                      .columns = kind == CULM_GRAPH_NONE ? 0 : 7,
                                      .feature_kind = kind};
    graph->edge = memcpy(malloc(sizeof edge), edge, sizeof edge);
    graph->label = memcpy(malloc(sizeof label), label, sizeof label);
    graph->split = memcpy(malloc(sizeof split), split, sizeof split);
    if (kind == CULM_GRAPH_DENSE) {
        graph->dense = malloc(35 * sizeof(float));
        for (int i = 0; i < 35; i++) {
            graph->dense[i] = (float)i / 8;
        }
    } else if (kind == CULM_GRAPH_SPARSE) {
        graph->entries = 6;
        graph->start = memcpy(malloc(sizeof start), start, sizeof start);
        graph->column = memcpy(malloc(sizeof column), column, sizeof column);
        graph->value = malloc(6 * sizeof(float));
        for (int i = 0; i < 6; i++) {
            graph->value[i] = (float)i - 2;
        }
    }
    return graph;
}

static char *folder_of(const struct place *place, const char *name) {
    char *path;
    assert_true(asprintf(&path, "%s/%s", place->dir, name) > 0);
    return path;
}

static void write_graph(const struct culm_graph_data *graph, const char *path) {
    struct culm_error error = {0};
    if (culm_graph_data_write(NULL, graph, path, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
}

static struct culm_graph_data *read_graph(const char *path, unsigned parts) {
    struct culm_error error = {0};
    struct culm_graph_data *graph = NULL;
    if (culm_graph_data_open(path, parts, NULL, &graph, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return graph;
}

static void expect_bad(const char *path, const char *part) {
    struct culm_error error = {0};
    struct culm_graph_data *graph = NULL;
    enum culm_status status = culm_graph_data_open(path, CULM_GRAPH_ALL, NULL, &graph, &error);
    assert_int_equal(culm_status_exit_code(status), 3);
    assert_null(graph);
    expect_message(&error, part);
}

static void expect_same(const void *a, const void *b, size_t bytes) {
    if (bytes) {
        assert_memory_equal(a, b, bytes);
    } else {
        assert_null(a);
    }
}

static void test_round_trip(void **state) {
    for (int kind = CULM_GRAPH_NONE; kind <= CULM_GRAPH_SPARSE; kind++) {
        char name[16];
        snprintf(name, sizeof name, "kind%d", kind);
        char *path = folder_of(*state, name);
        struct culm_graph_data *a = make(kind), *b;
        write_graph(a, path);
        b = read_graph(path, CULM_GRAPH_ALL);
        assert_string_equal(b->name, "small");
        assert_int_equal(b->vertices, 5);
        assert_int_equal(b->edges, 5);
        assert_int_equal(b->edges_listed, 7);
        assert_int_equal(b->columns, a->columns);
        assert_int_equal(b->feature_kind, kind);
        expect_same(b->edge, a->edge, 40);
        expect_same(b->label, a->label, 20);
        expect_same(b->split, a->split, 10);
        expect_same(b->dense, a->dense, kind == CULM_GRAPH_DENSE ? 140 : 0);
        expect_same(b->start, a->start, kind == CULM_GRAPH_SPARSE ? 48 : 0);
        expect_same(b->column, a->column, kind == CULM_GRAPH_SPARSE ? 24 : 0);
        expect_same(b->value, a->value, kind == CULM_GRAPH_SPARSE ? 24 : 0);
        int64_t count[4];
        culm_graph_data_count(b, 1, count);
        assert_true(count[0] == 1 && count[1] == 2 && count[2] == 1 && count[3] == 1);
        culm_graph_data_free(b);
        b = read_graph(path, CULM_GRAPH_LABELS); /* counts are known without arrays */
        assert_true(!b->edge && b->label && !b->split && !b->dense && !b->start);
        assert_int_equal(b->edges, 5);
        assert_int_equal(b->splits, 2);
        culm_graph_data_free(b);
        culm_graph_data_free(a);
        free(path);
    }
}

/* Writing it fails, and leaves nothing. */
static void expect_unwritten(const struct place *place, const struct culm_graph_data *graph,
                             const char *part) {
    struct culm_error error = {0};
    struct culm_names names = {0};
    char *parent = folder_of(place, "unwritten"), *inside;
    assert_int_equal(culm_dir_make(NULL, parent, &error), CULM_OK);
    assert_true(asprintf(&inside, "%s/new", parent) > 0);
    assert_int_not_equal(culm_graph_data_write(NULL, graph, inside, &error), CULM_OK);
    expect_message(&error, part);
    assert_int_equal(culm_dir_list(parent, &names, &error), CULM_OK);
    assert_int_equal(names.count, 0);
    culm_names_release(&names);
    free(inside);
    free(parent);
}

/* Not over what is there, and nothing that could not be read again. */
static void test_whole_or_not(void **state) {
    struct culm_error error = {0};
    struct culm_graph_data *graph = make(CULM_GRAPH_DENSE);
    char *path = folder_of(*state, "twice");
    write_graph(graph, path);
    assert_int_equal(culm_graph_data_write(NULL, graph, path, &error), CULM_ERR_EXISTS);
    expect_message(&error, "already exists");
    graph->class_name = calloc(3, sizeof *graph->class_name);
    for (int c = 0; c < 3; c++) {
        graph->class_name[c] = calloc(6 << 20, 1);
        memset(graph->class_name[c], 'a' + c, 10);
    }
    memcpy(graph->class_name[1], "caf\xe9", 5);
    expect_unwritten(*state, graph, "the name of class 1 is not UTF-8");
    memset(graph->class_name[1], 'b', (6 << 20) - 1);
    memset(graph->class_name[0], 'a', (6 << 20) - 1);
    memset(graph->class_name[2], 'c', (6 << 20) - 1);
    expect_unwritten(*state, graph, "at most 16777216 are allowed; shorten the labels");
    graph->name[0] = (char)0xff;
    expect_unwritten(*state, graph, "its name is not UTF-8");
    culm_graph_data_free(graph);
    free(path);
}

/* --- what is refused --- */

static void edit(const char *folder, const char *file, long at, const void *bytes, size_t len) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void cut(const char *folder, const char *file, long bytes) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    assert_int_equal(truncate(path, bytes), 0);
}

static void drop(const char *folder, const char *file) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    assert_int_equal(unlink(path), 0);
}

static void replace(const char *folder, const char *from, const char *to) {
    char path[256], made[4096], *text, *at;
    size_t len;
    snprintf(path, sizeof path, "%s/graph.json", folder);
    assert_int_equal(culm_file_read(NULL, path, sizeof made, &text, &len, NULL), CULM_OK);
    at = strstr(text, from);
    assert_non_null(at);
    snprintf(made, sizeof made, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_int_equal(culm_file_replace(NULL, path, made, strlen(made), NULL), CULM_OK);
    free(text);
}

#define U32(...) ((const uint32_t[]){__VA_ARGS__})
#define PAIR(u, v) U32(u, v), 8

struct wrong {
    const char *file; /* NULL: text of graph.json */
    long at;          /* of the arrays; from the end when negative */
    const void *bytes;
    size_t len;
    const char *from, *to; /* graph.json */
    const char *message;
};

static void test_wrong(void **state) {
    static const float nan_value[] = {NAN}, infinite[] = {-INFINITY};
    static const uint64_t huge[] = {UINT64_MAX}, nine[] = {9};
    static const int32_t label[] = {3, -2};
    static const uint16_t column[] = {7, 1};
    const struct wrong sparse[] = {
        {"edges.npy", 128, PAIR(1, 0), NULL, NULL, "row 0, (1, 0), must have the smaller vertex"},
        {"edges.npy", 128, PAIR(0, 0), NULL, NULL, "row 0, (0, 0), is a loop"},
        {"edges.npy", 136, PAIR(0, 1), NULL, NULL, "row 1, (0, 1), is there twice"},
        {"edges.npy", 128, PAIR(2, 3), NULL, NULL, "row 1, (0, 3), must not come after a larger"},
        {"edges.npy", -8, PAIR(3, 5), NULL, NULL, "row 4, (3, 5), has a vertex that is not there"},
        {"labels.npy", 128, &label[0], 4, NULL, NULL, "vertex 0 is 3; allowed: -1 to 2"},
        {"labels.npy", -4, &label[1], 4, NULL, NULL, "vertex 4 is -2"},
        {"split.npy", -1, "\4", 1, NULL, NULL, "split 1 has 4 for vertex 4"},
        {"split.npy", -2, "\1", 1, NULL, NULL, "split 1 uses vertex 3, which has no label"},
        {"features_start.npy", 128, nine, 8, NULL, NULL, "begins with 9"},
        {"features_start.npy", 144, nine, 8, NULL, NULL, "row 2 ends at entry 3, before"},
        {"features_start.npy", -8, huge, 8, NULL, NULL,
         "according to graph.json there are 6 entries"},
        {"features_column.npy", 128, &column[0], 2, NULL, NULL, "entry 0 is column 7 of 7"},
        {"features_column.npy", 136, &column[1], 2, NULL, NULL,
         "columns of row 3 are not in ascending order"},
        {"features_value.npy", 132, nan_value, 4, NULL, NULL, "entry 1 is NaN"},
        {"features_value.npy", -4, infinite, 4, NULL, NULL, "entry 5 is infinity"},
        {"edges.npy", 0, "X", 1, NULL, NULL, "does not begin as a .npy file"},
        {"edges.npy", 22, "i", 1, NULL, NULL, "has elements of type i4; they must be u4"},
        {"edges.npy", 21, ">", 1, NULL, NULL, "not little-endian"},
        {.from = "\"vertices\": 5",
         .to = "\"vertices\": 6",
         .message = "has shape [5]; according to graph.json it must be [6]"},
        {.from = "\"edges\": 5",
         .to = "\"edges\": 4",
         .message = "has shape [5, 2]; according to graph.json it must be [4, 2]"},
        {.from = "\"entries\": 6", .to = "\"entries\": 5", .message = "there are 5 entries"},
        {.from = "\"columns\": 7", .to = "\"columns\": 70000", .message = "they must be u4"},
        {.from = "\"splits\": 2", .to = "\"splits\": 1", .message = "must be [1, 5]"},
        {.from = "\"vertices\": 5", .to = "\"vertices\": 0", .message = "'vertices' is 0"},
        {.from = "\"vertices\": 5", .to = "\"vertices\": 5.5", .message = "is no whole number"},
        {.from = "\"vertices\": 5,", .to = "", .message = "'vertices' is missing"},
        {.from = "culm-graph-1", .to = "culm-graph-2", .message = "of format 'culm-graph-2'"},
        {.from = "\"sparse\"", .to = "\"other\"", .message = "features are of kind 'other'"},
        {.from = "\"small\"", .to = "\"sm\\nall\"", .message = "'name' is no text of one line"},
        {.from = "{", .to = "[", .message = "not valid JSON"},
        {.from = "\"directed\": false", .to = "\"directed\": 0", .message = "neither true nor"},
    };
    struct culm_graph_data *graph = make(CULM_GRAPH_SPARSE);
    char *path = folder_of(*state, "wrong");
    for (size_t i = 0; i < sizeof sparse / sizeof *sparse; i++) {
        const struct wrong *w = &sparse[i];
        write_graph(graph, path);
        if (w->file) {
            edit(path, w->file, w->at, w->bytes, w->len);
        } else {
            replace(path, w->from, w->to);
        }
        expect_bad(path, w->message);
        assert_int_equal(culm_tree_remove(NULL, path, NULL), CULM_OK);
    }
    culm_graph_data_free(graph);
    graph = make(CULM_GRAPH_DENSE);
    write_graph(graph, path);
    edit(path, "features.npy", -4, nan_value, 4);
    expect_bad(path, "features.npy': NaN at [4, 6]: features must be finite numbers");
    culm_graph_data_free(graph);
    free(path);
}

/* Each file missing, empty, cut anywhere, or with more than its header says. */
static void test_cut(void **state) {
    static const char *const files[] = {
        "graph.json",         "edges.npy",           "labels.npy",        "split.npy",
        "features_start.npy", "features_column.npy", "features_value.npy"};
    static const long sizes[] = {0, 1, 7, 9, 60, 127, 128, 129};
    struct culm_graph_data *graph = make(CULM_GRAPH_SPARSE);
    char *path = folder_of(*state, "cut");
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            write_graph(graph, path);
            cut(path, files[f], sizes[i]);
            expect_bad(path, files[f]);
            assert_int_equal(culm_tree_remove(NULL, path, NULL), CULM_OK);
        }
        write_graph(graph, path);
        drop(path, files[f]);
        expect_bad(path, f ? files[f] : "is not a folder with a graph.json");
        assert_int_equal(culm_tree_remove(NULL, path, NULL), CULM_OK);
        if (f) {
            write_graph(graph, path);
            char *file;
            assert_true(asprintf(&file, "%s/%s", path, files[f]) > 0);
            FILE *out = fopen(file, "ab");
            assert_true(fputc(0, out) == 0 && fclose(out) == 0);
            free(file);
            expect_bad(path, "the file is damaged");
            assert_int_equal(culm_tree_remove(NULL, path, NULL), CULM_OK);
        }
    }
    expect_bad(path, "is not a folder with a graph.json");
    culm_graph_data_free(graph);
    free(path);
}

/* --- neighbours --- */

/* Random simple edges, some directed graphs; ids below V. */
static struct culm_graph_data random_graph(uint64_t *rng, bool directed) {
    struct culm_graph_data graph = {.directed = directed};
    graph.vertices = 1 + (int64_t)culm_rng_below(rng, 40);
    graph.edges = (int64_t)culm_rng_below(rng, 120);
    graph.edge = malloc((size_t)graph.edges * 8 + 1);
    for (int64_t i = 0; i < 2 * graph.edges; i++) {
        graph.edge[i] = (uint32_t)culm_rng_below(rng, (uint64_t)graph.vertices);
    }
    assert_int_equal(culm_graph_simplify(graph.edge, &graph.edges, graph.vertices, directed, NULL),
                     CULM_OK);
    return graph;
}

static bool has_edge(const struct culm_graph_data *graph, int64_t u, int64_t v) {
    for (int64_t i = 0; i < graph->edges; i++) {
        if (graph->edge[2 * i] == u && graph->edge[2 * i + 1] == v) {
            return true;
        }
    }
    return false;
}

static void test_adjacency(void **state) {
    (void)state;
    uint64_t rng = 11;
    for (int turn = 0; turn < 200; turn++) {
        bool directed = turn % 2, loops = turn % 4 < 2;
        struct culm_graph_data graph = random_graph(&rng, directed);
        struct culm_adjacency in, out, moved;
        uint32_t *new_of_old = malloc((size_t)graph.vertices * 4);
        assert_int_equal(culm_adjacency_of(&graph, loops, &in, NULL), CULM_OK);
        assert_int_equal(culm_adjacency_transpose(&in, NULL, &out, NULL), CULM_OK);
        for (int64_t v = 0; v < graph.vertices; v++) {
            uint64_t j = in.start[v], k = out.start[v];
            for (int64_t u = 0; u < graph.vertices; u++) {
                bool loop = loops && u == v;
                if (has_edge(&graph, u, v) || loop || (!directed && has_edge(&graph, v, u))) {
                    assert_true(j < in.start[v + 1]);
                    assert_int_equal(in.column[j++], u);
                }
                if (has_edge(&graph, v, u) || loop || (!directed && has_edge(&graph, u, v))) {
                    assert_true(k < out.start[v + 1]);
                    assert_int_equal(out.column[k++], u);
                }
            }
            assert_int_equal(j, in.start[v + 1]);
            assert_int_equal(k, out.start[v + 1]);
        }
        for (int64_t v = 0; v < graph.vertices; v++) {
            new_of_old[v] = (uint32_t)v;
        }
        for (int64_t v = graph.vertices - 1; v > 0; v--) {
            int64_t other = (int64_t)culm_rng_below(&rng, (uint64_t)v + 1);
            uint32_t keep = new_of_old[v];
            new_of_old[v] = new_of_old[other];
            new_of_old[other] = keep;
        }
        assert_int_equal(culm_adjacency_transpose(&out, new_of_old, &moved, NULL), CULM_OK);
        for (int64_t v = 0; v < graph.vertices; v++) {
            int64_t w = new_of_old[v];
            uint64_t first = moved.start[w], count = in.start[v + 1] - in.start[v];
            assert_int_equal(moved.start[w + 1] - first, count);
            for (uint64_t i = 0; i < count; i++) {
                assert_true(i == 0 || moved.column[first + i] > moved.column[first + i - 1]);
                uint64_t at = first;
                while (at < first + count &&
                       moved.column[at] != new_of_old[in.column[in.start[v] + i]]) {
                    at++;
                }
                assert_true(at < first + count);
            }
        }
        culm_adjacency_release(&in);
        culm_adjacency_release(&out);
        culm_adjacency_release(&moved);
        free(new_of_old);
        free(graph.edge);
    }
}

static void test_simplify(void **state) {
    (void)state;
    const uint32_t pairs[] = {3, 1, 0, 0, 1, 3, 2, 0, 3, 1, 0, 2, 2, 3};
    const uint32_t undirected[] = {0, 2, 1, 3, 2, 3}, directed[] = {0, 2, 1, 3, 2, 0, 2, 3, 3, 1};
    uint32_t edge[14];
    int64_t edges = 7;
    memcpy(edge, pairs, sizeof pairs);
    assert_int_equal(culm_graph_simplify(edge, &edges, 4, false, NULL), CULM_OK);
    assert_int_equal(edges, 3);
    assert_memory_equal(edge, undirected, sizeof undirected);
    memcpy(edge, pairs, sizeof pairs);
    edges = 7;
    assert_int_equal(culm_graph_simplify(edge, &edges, 4, true, NULL), CULM_OK);
    assert_int_equal(edges, 5);
    assert_memory_equal(edge, directed, sizeof directed);
}

/* The order of SHA-256("t 0 V"), V = 0 .. 9, found with sha256sum: 8 6 7 5 9 1 4 0 2 3 when none is
 * left out. */
static void test_split(void **state) {
    (void)state;
    struct culm_graph_data graph = {.name = "t", .vertices = 10, .classes = 1};
    int32_t label[10] = {0};
    graph.label = label;
    assert_int_equal(culm_graph_splits_make(&graph, 0, 2, 60, 20, NULL), CULM_OK);
    assert_int_equal(graph.splits, 2);
    const uint8_t all[] = {2, 1, 3, 3, 2, 1, 1, 1, 1, 1};
    uint8_t next[10];
    memcpy(next, graph.split + 10, sizeof next);
    assert_memory_equal(graph.split, all, sizeof all);
    assert_int_equal(culm_graph_splits_make(&graph, 1, 1, 60, 20, NULL), CULM_OK);
    assert_int_equal(graph.splits, 1);
    assert_memory_equal(graph.split, next, sizeof next);
    label[0] = -1;
    assert_int_equal(culm_graph_splits_make(&graph, 0, 1, 60, 20, NULL), CULM_OK);
    const uint8_t but_one[] = {0, 2, 3, 3, 2, 1, 1, 1, 1, 1};
    assert_memory_equal(graph.split, but_one, sizeof but_one);
    free(graph.split);
}

/* The header is what NumPy writes. */
static void test_npy_header(void **state) {
    (void)state;
    char header[CULM_NPY_WRITE_MAX];
    const uint64_t dim[] = {5278, 2};
    size_t len = culm_npy_header('u', 4, 2, dim, header);
    assert_int_equal(len, 128);
    const char *text = "{'descr': '<u4', 'fortran_order': False, 'shape': (5278, 2), }";
    assert_memory_equal(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_memory_equal(header + 10, text, strlen(text));
    assert_int_equal(header[127], '\n');
}

/* Real graphs, where they are: read, written again, the same bytes. */
static void test_published(void **state) {
    static const char *const names[] = {"cora", "cora_ml", "tolokers", "github", "facebook"};
    const char *graphs = getenv("CULM_GRAPHS");
    char path[512], copy[512];
    if (!graphs || !*graphs) {
        print_message("no graphs: set CULM_GRAPHS to their folder\n");
        skip();
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", graphs, names[i]);
        snprintf(copy, sizeof copy, "%s/%s", ((struct place *)*state)->dir, names[i]);
        struct culm_graph_data *graph = read_graph(path, CULM_GRAPH_ALL);
        write_graph(graph, copy);
        culm_graph_data_free(graph);
        struct culm_names files;
        assert_int_equal(culm_dir_list(path, &files, NULL), CULM_OK);
        for (size_t f = 0; f < files.count; f++) {
            char a[1024], b[1024], *x, *y;
            size_t m, n;
            snprintf(a, sizeof a, "%s/%s", path, files.name[f]);
            snprintf(b, sizeof b, "%s/%s", copy, files.name[f]);
            assert_int_equal(culm_file_read(NULL, a, 1 << 30, &x, &m, NULL), CULM_OK);
            assert_int_equal(culm_file_read(NULL, b, 1 << 30, &y, &n, NULL), CULM_OK);
            if (m != n || memcmp(x, y, m) != 0) {
                fail_msg("%s/%s differs", names[i], files.name[f]);
            }
            free(x);
            free(y);
        }
        culm_names_release(&files);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_whole_or_not),
        cmocka_unit_test(test_wrong),      cmocka_unit_test(test_cut),
        cmocka_unit_test(test_adjacency),  cmocka_unit_test(test_simplify),
        cmocka_unit_test(test_split),      cmocka_unit_test(test_npy_header),
        cmocka_unit_test(test_published),
    };
    return cmocka_run_group_tests_name("data/graph_data", tests, make_place, drop_place);
}
