/* Partitions: METIS, streaming and files; intervals, servers on them, and what is counted. */
#include "gnn/partition.h"

#include "../folder.h"

#include "base/rng.h"
#include "data/graph_write.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static struct culm_adjacency neighbours_of(const struct culm_graph_data *graph, bool loops) {
    struct culm_adjacency made;
    assert_int_equal(culm_adjacency_of(graph, loops, &made, NULL), CULM_OK);
    return made;
}

static struct culm_partition cut(const struct culm_adjacency *neighbours, bool directed,
                                 int64_t intervals, const char *method, uint64_t seed) {
    struct culm_partition_options options = {
        .intervals = intervals, .seed = seed, .directed = directed};
    struct culm_partition partition;
    struct culm_error error = {0};
    culm_partition_method_of(method, &options);
    if (culm_partition_of(neighbours, &options, &partition, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return partition;
}

static struct culm_partition_counts count(const struct culm_adjacency *neighbours, bool directed,
                                          const struct culm_partition *partition, int64_t servers,
                                          const int64_t *owned) {
    struct culm_partition_counts counts;
    assert_int_equal(
        culm_partition_count(neighbours, directed, partition, servers, owned, &counts, NULL),
        CULM_OK);
    return counts;
}

/* Edges at random, most of them within one of `blocks` blocks whose vertices are strewn. */
static struct culm_graph_data blocks(int64_t vertices, int64_t edges, int64_t blocks_,
                                     bool directed, uint64_t seed) {
    struct culm_graph_data graph = {.vertices = vertices, .edges = edges, .directed = directed};
    graph.edge = malloc((size_t)edges * 8 + 1);
    for (int64_t i = 0; i < edges; i++) {
        uint64_t block = culm_rng_below(&seed, (uint64_t)blocks_);
        bool inside = culm_rng_below(&seed, 10) > 0;
        for (int end = 0; end < 2; end++) {
            uint64_t v = culm_rng_below(&seed, (uint64_t)(vertices / blocks_));
            block = inside || !end ? block : culm_rng_below(&seed, (uint64_t)blocks_);
            graph.edge[2 * i + end] = (uint32_t)(v * (uint64_t)blocks_ + block);
        }
    }
    assert_int_equal(culm_graph_simplify(graph.edge, &graph.edges, vertices, directed, NULL),
                     CULM_OK);
    return graph;
}

/* Ids are a permutation that rises by (interval, old id), and no interval is empty. */
static void check_partition(const struct culm_partition *partition) {
    int64_t *next = malloc((size_t)(partition->intervals + 1) * sizeof *next);
    memcpy(next, partition->first, (size_t)(partition->intervals + 1) * sizeof *next);
    assert_int_equal(partition->first[0], 0);
    assert_int_equal(partition->first[partition->intervals], partition->vertices);
    for (int64_t v = 0; v < partition->vertices; v++) {
        assert_int_equal(partition->new_of_old[v], next[partition->interval[v]]++);
    }
    for (int64_t k = 0; k < partition->intervals; k++) {
        assert_true(partition->first[k] < partition->first[k + 1]);
        assert_int_equal(next[k], partition->first[k + 1]);
    }
    free(next);
}

/* A server's load by the plainest means. */
static void check_share(const struct culm_adjacency *neighbours, bool directed,
                        const struct culm_partition *partition, int64_t servers) {
    int64_t owned[65], cut_edges = 0, ghosts = 0, total = 0, largest = 0;
    assert_int_equal(culm_partition_share(neighbours, partition, servers, owned, NULL), CULM_OK);
    assert_int_equal(owned[0], 0);
    assert_int_equal(owned[servers], partition->intervals);
    for (int64_t s = 0; s < servers; s++) {
        int64_t load = 0;
        assert_true(owned[s] < owned[s + 1]);
        bool *needed = calloc((size_t)partition->vertices, 1);
        for (int64_t v = 0; v < partition->vertices; v++) {
            bool mine = partition->interval[v] >= owned[s] && partition->interval[v] < owned[s + 1];
            load += mine;
            for (uint64_t i = neighbours->start[v]; mine && i < neighbours->start[v + 1]; i++) {
                uint32_t u = neighbours->column[i];
                bool far =
                    partition->interval[u] < owned[s] || partition->interval[u] >= owned[s + 1];
                load += u != v;
                cut_edges += far;
                ghosts += far && !needed[u];
                needed[u] |= far;
            }
        }
        free(needed);
        total += load;
        largest = load > largest ? load : largest;
    }
    struct culm_partition_counts counts = count(neighbours, directed, partition, servers, owned);
    assert_int_equal(counts.cut_edges, directed ? cut_edges : cut_edges / 2);
    assert_int_equal(counts.ghosts, ghosts);
    assert_true(counts.balance == (double)largest * (double)servers / (double)total);
}

static void test_any_graph(void **state) {
    (void)state;
    uint64_t rng = 5;
    for (int turn = 0; turn < 120; turn++) {
        int64_t vertices = 1 + (int64_t)culm_rng_below(&rng, turn % 3 ? 600 : 30);
        bool directed = turn % 2;
        struct culm_graph_data graph =
            blocks(vertices, (int64_t)culm_rng_below(&rng, 3000), 1, directed, rng);
        struct culm_adjacency neighbours = neighbours_of(&graph, turn % 4 < 2);
        int64_t most = vertices < 64 ? vertices : 64;
        int64_t intervals = 1 + (int64_t)culm_rng_below(&rng, (uint64_t)most);
        const char *method = turn % 5 ? "metis" : "stream";
        struct culm_partition a = cut(&neighbours, directed, intervals, method, 1);
        struct culm_partition b = cut(&neighbours, directed, intervals, method, 1);
        check_partition(&a);
        assert_memory_equal(a.interval, b.interval, (size_t)vertices * 4); /* the same again */
        check_share(&neighbours, directed, &a,
                    1 + (int64_t)culm_rng_below(&rng, (uint64_t)intervals));
        check_share(&neighbours, directed, &a, intervals);
        culm_partition_release(&a);
        culm_partition_release(&b);
        culm_adjacency_release(&neighbours);
        free(graph.edge);
    }
}

/* Both methods find blocks that are there; with the edges of a random cut as the measure. */
static void test_blocks(void **state) {
    (void)state;
    static const char *const methods[] = {"metis", "stream"};
    static const double most[] = {0.2, 0.6};
    for (int directed = 0; directed < 2; directed++) {
        struct culm_graph_data graph = blocks(4000, 40000, 8, directed, 9);
        struct culm_adjacency neighbours = neighbours_of(&graph, true);
        double random = (double)graph.edges * 7 / 8;
        for (int m = 0; m < 2; m++) {
            struct culm_partition partition = cut(&neighbours, directed, 8, methods[m], 0);
            struct culm_partition_counts all = count(&neighbours, directed, &partition, 0, NULL);
            check_partition(&partition);
            print_message("%s: %lld of %lld edges cut, balance %.3f\n", methods[m],
                          (long long)all.cut_edges, (long long)graph.edges, all.balance);
            assert_true((double)all.cut_edges < most[m] * random);
            assert_true(all.balance < 1.15);
            culm_partition_release(&partition);
        }
        culm_adjacency_release(&neighbours);
        free(graph.edge);
    }
}

static void on_term(int number) { (void)number; }

static void reap_all(int number) {
    const int problem = errno;
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    errno = problem;
}

/* Whoever ignores children that end, or takes them all, gets the same partition. */
static void test_children(void **state) {
    (void)state;
    static void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, reap_all};
    struct culm_graph_data graph = blocks(200, 1000, 4, false, 1);
    struct culm_adjacency neighbours = neighbours_of(&graph, false);
    struct culm_partition plain = {0};
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        signal(SIGCHLD, handlers[i]);
        struct culm_partition partition = cut(&neighbours, false, 4, "metis", 1);
        if (i == 0) {
            plain = partition;
            continue;
        }
        assert_memory_equal(partition.interval, plain.interval,
                            (size_t)plain.vertices * sizeof *plain.interval);
        culm_partition_release(&partition);
    }
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* none is left */
    culm_partition_release(&plain);
    culm_adjacency_release(&neighbours);
    free(graph.edge);
}

/* METIS leaves handlers as it has found them, with their flags too. */
static void test_handlers(void **state) {
    (void)state;
    struct culm_graph_data graph = blocks(200, 1000, 4, false, 1);
    struct culm_adjacency neighbours = neighbours_of(&graph, false);
    struct sigaction set = {.sa_handler = on_term, .sa_flags = SA_RESTART}, before, after;
    sigaction(SIGTERM, &set, &before);
    struct culm_partition partition = cut(&neighbours, false, 4, "metis", 1);
    sigaction(SIGTERM, &before, &after);
    assert_true(after.sa_handler == on_term);
    assert_int_equal(after.sa_flags & (int)(SA_RESTART | SA_RESETHAND | SA_NODEFER), SA_RESTART);
    culm_partition_release(&partition);
    culm_adjacency_release(&neighbours);
    free(graph.edge);
}

static bool always(const void *ctx) {
    (void)ctx;
    return true;
}

/* The child goes, and nothing is left of it. */
static void test_stop(void **state) {
    (void)state;
    struct culm_graph_data graph = blocks(200, 1000, 4, false, 1);
    struct culm_adjacency neighbours = neighbours_of(&graph, false);
    const struct culm_stop stop = {always, NULL};
    struct culm_partition_options options = {.intervals = 4, .stop = &stop};
    struct culm_partition partition = {0};
    struct culm_error error;
    culm_partition_method_of("metis", &options);
    assert_int_equal(culm_partition_of(&neighbours, &options, &partition, &error),
                     CULM_ERR_STOPPED);
    assert_non_null(strstr(error.text, "METIS"));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    culm_partition_release(&partition);
    culm_adjacency_release(&neighbours);
    free(graph.edge);
}

/* A ring of blocks: servers get stretches of it, so few edges run between two servers. */
static void test_share(void **state) {
    (void)state;
    enum { BLOCKS = 24, SIZE = 50 };
    struct culm_graph_data graph = {.vertices = BLOCKS * SIZE};
    uint64_t rng = 3;
    graph.edges = BLOCKS * SIZE * 6;
    graph.edge = malloc((size_t)graph.edges * 8);
    for (int64_t i = 0; i < graph.edges; i++) {
        uint64_t block = culm_rng_below(&rng, BLOCKS);
        uint64_t next = (block + (i % 3 == 0)) % BLOCKS; /* a third lead to the next block */
        graph.edge[2 * i] = (uint32_t)(culm_rng_below(&rng, SIZE) * BLOCKS + block * 7 % BLOCKS);
        graph.edge[2 * i + 1] = (uint32_t)(culm_rng_below(&rng, SIZE) * BLOCKS + next * 7 % BLOCKS);
    }
    assert_int_equal(culm_graph_simplify(graph.edge, &graph.edges, graph.vertices, false, NULL),
                     CULM_OK);
    struct culm_adjacency neighbours = neighbours_of(&graph, false);
    struct culm_partition partition = cut(&neighbours, false, BLOCKS, "metis", 0);
    int64_t owned[5];
    assert_int_equal(culm_partition_share(&neighbours, &partition, 4, owned, NULL), CULM_OK);
    struct culm_partition_counts all = count(&neighbours, false, &partition, 0, NULL);
    struct culm_partition_counts four = count(&neighbours, false, &partition, 4, owned);
    print_message("%lld edges between 24 intervals, %lld between 4 servers, balance %.3f\n",
                  (long long)all.cut_edges, (long long)four.cut_edges, four.balance);
    assert_true(4 * four.cut_edges < all.cut_edges);
    assert_true(four.balance < 1.1);
    culm_partition_release(&partition);
    culm_adjacency_release(&neighbours);
    free(graph.edge);
}

/* --- files, and what is refused --- */

static char *write_file(const char *name, const void *data, size_t len) {
    char *path;
    assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
    assert_int_equal(culm_file_replace(NULL, path, data, len, NULL), CULM_OK);
    return path;
}

static void expect_refused(const struct culm_adjacency *neighbours, int64_t intervals,
                           const char *method, const char *part) {
    struct culm_partition_options options = {.intervals = intervals};
    struct culm_partition partition = {0};
    struct culm_error error = {0};
    culm_partition_method_of(method, &options);
    enum culm_status status = culm_partition_of(neighbours, &options, &partition, &error);
    assert_int_equal(culm_status_exit_code(status), 3);
    assert_null(partition.interval);
    if (!strstr(error.text, part) || strchr(error.text, '\n')) {
        fail_msg("'%s' lacks '%s'", error.text, part);
    }
}

static void expect_file(const struct culm_adjacency *neighbours, const void *data, size_t len,
                        const char *part) {
    char *path = write_file("part", data, len);
    expect_refused(neighbours, 2, path, part);
    free(path);
}

#define EXPECT_TEXT(neighbours, text, part) expect_file(neighbours, text, strlen(text), part)

static void test_files(void **state) {
    (void)state;
    struct culm_graph_data graph = blocks(5, 10, 1, false, 1);
    struct culm_adjacency neighbours = neighbours_of(&graph, false);
    static const uint32_t expected[] = {1, 0, 1, 1, 0};
    static const char npy[] = "\x93NUMPY\x01\x00\x3a\x00{'descr': '|u1', 'fortran_order': False, "
                              "'shape': (5,), }\n\1\0\1\1\0";
    char *text = write_file("part.text", "1\n 0\r\n1\n1\n0", 11);
    char *array = write_file("part.npy", npy, sizeof npy - 1);
    for (int i = 0; i < 2; i++) {
        struct culm_partition partition = cut(&neighbours, false, 2, i ? array : text, 0);
        check_partition(&partition);
        assert_memory_equal(partition.interval, expected, sizeof expected); /* as they stand */
        culm_partition_release(&partition);
    }
    expect_refused(&neighbours, 3, text, "interval 2 of 3 has no vertices");
    expect_refused(&neighbours, 1, text,
                   "vertex 0 is in part 1; with 1 intervals parts are 0 to 0");
    EXPECT_TEXT(&neighbours, "1\n0\n1\n1\n", "has 4 numbers; the graph has 5 vertices");
    EXPECT_TEXT(&neighbours, "1\n0\n1\n1\n0\n0\n", "has more than 5 numbers");
    EXPECT_TEXT(&neighbours, "1\n0\n-1\n1\n0\n", "line 3 is not an integer");
    EXPECT_TEXT(&neighbours, "1\n0\n\n1\n0\n", "line 3 is not an integer");
    EXPECT_TEXT(&neighbours, "1\n0\n1 1\n1\n0\n", "line 3 is not an integer");
    EXPECT_TEXT(&neighbours, "1\n99999999999999999999\n", "line 2 is not an integer");
    expect_file(&neighbours, "1\n0\n\0", 5, "is neither text nor .npy");
    expect_file(&neighbours, npy, sizeof npy - 2, "the file is damaged");
    expect_refused(&neighbours, 2, "/nowhere/at/all", "No such file");
    expect_refused(&neighbours, 2, folder, "is a directory");
    free(text);
    free(array);
    culm_adjacency_release(&neighbours);
    free(graph.edge);
}

static void test_refused(void **state) {
    (void)state;
    struct culm_graph_data graph = blocks(5, 10, 1, false, 1);
    struct culm_adjacency neighbours = neighbours_of(&graph, false);
    struct culm_partition partition = cut(&neighbours, false, 2, "metis", 0);
    struct culm_error error = {0};
    int64_t owned[4];
    expect_refused(&neighbours, 6, "metis", "6 intervals for 5 vertices");
    expect_refused(&neighbours, 0, "metis", "0 intervals; allowed: 1 to 4096");
    expect_refused(&neighbours, 5000, "stream", "5000 intervals; allowed: 1 to 4096");
    assert_int_equal(culm_partition_share(&neighbours, &partition, 3, owned, &error),
                     CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "3 servers for 2 intervals"));
    culm_partition_release(&partition);
    culm_adjacency_release(&neighbours);
    free(graph.edge);
}

/* --- real ones --- */

static void test_published(void **state) {
    (void)state;
    /* Intervals, and at most so many of a hundred edges between them: METIS, streaming. */
    static const struct {
        const char *name;
        int64_t intervals;
        int metis, stream;
    } cases[] = {{"cora", 8, 13, 26}, {"github", 8, 48, 51}, {"facebook", 4, 9, 17}};
    const char *graphs = getenv("CULM_GRAPHS");
    if (!graphs || !*graphs) {
        print_message("no graphs: set CULM_GRAPHS to their folder\n");
        skip();
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        struct culm_graph_data *graph;
        struct culm_error error = {0};
        snprintf(path, sizeof path, "%s/%s", graphs, cases[i].name);
        if (culm_graph_data_open(path, CULM_GRAPH_EDGES, NULL, &graph, &error) != CULM_OK) {
            fail_msg("%s", error.text);
        }
        struct culm_adjacency neighbours = neighbours_of(graph, true);
        for (int m = 0; m < 2; m++) {
            struct culm_partition partition =
                cut(&neighbours, false, cases[i].intervals, m ? "stream" : "metis", 0);
            struct culm_partition_counts all = count(&neighbours, false, &partition, 0, NULL);
            check_partition(&partition);
            check_share(&neighbours, false, &partition, 3);
            print_message("%s, %s: %lld of %lld edges between %lld intervals, balance %.3f\n",
                          cases[i].name, m ? "stream" : "metis", (long long)all.cut_edges,
                          (long long)graph->edges, (long long)cases[i].intervals, all.balance);
            assert_true(100 * all.cut_edges <
                        (m ? cases[i].stream : cases[i].metis) * graph->edges);
            assert_true(all.balance < 1.12);
            culm_partition_release(&partition);
        }
        culm_adjacency_release(&neighbours);
        culm_graph_data_free(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_graph), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_share),     cmocka_unit_test(test_handlers),
        cmocka_unit_test(test_stop),      cmocka_unit_test(test_children),
        cmocka_unit_test(test_files),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_published),
    };
    return cmocka_run_group_tests_name("gnn/partition", tests, make_folder, drop_folder);
}
