/* New numbers, what intervals read of each other, and slices, against plain loops over the edges. */
#include "gnn/structure.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { V = 97, K = 7 };

/* A random graph: edges rise, none twice. */
static struct culm_graph_data graph_of(uint64_t *random, bool directed) {
    struct culm_graph_data graph = {.vertices = V, .directed = directed};
    graph.edge = malloc(sizeof *graph.edge * 2 * V * V);
    for (uint32_t u = 0; u < V; u++) {
        for (uint32_t v = directed ? 0 : u + 1; v < V; v++) {
            if (v != u && culm_rng_below(random, 100) < (u == 3 ? 80 : 4)) {
                graph.edge[2 * graph.edges] = u;
                graph.edge[2 * graph.edges++ + 1] = v;
            }
        }
    }
    return graph;
}

struct fixture {
    struct culm_graph_data graph;
    uint32_t interval_of[V];
    bool gathers[2][V][V]; /* [transposed][v][u]: v gathers from u, by old numbers */
    struct culm_gnn_structure *s;
};

static void make(struct fixture *f, uint64_t seed, bool directed, bool loops) {
    uint64_t random = seed;
    memset(f, 0, sizeof *f);
    f->graph = graph_of(&random, directed);
    for (int v = 0; v < V; v++) {
        do { /* interval 5 has none */
            f->interval_of[v] = (uint32_t)culm_rng_below(&random, K);
        } while (f->interval_of[v] == 5);
        f->gathers[0][v][v] = f->gathers[1][v][v] = loops;
    }
    for (int64_t e = 0; e < f->graph.edges; e++) {
        uint32_t u = f->graph.edge[2 * e], v = f->graph.edge[2 * e + 1];
        f->gathers[0][v][u] = f->gathers[1][u][v] = true;
        if (!directed) {
            f->gathers[0][u][v] = f->gathers[1][v][u] = true;
        }
    }
    struct culm_error error = {0};
    if (culm_gnn_structure_new(&f->graph, f->interval_of, K, loops, &f->s, &error)) {
        fail_msg("%s", error.text);
    }
}

static void drop(struct fixture *f) {
    culm_gnn_structure_free(f->s);
    free(f->graph.edge);
}

static void check_numbers(const struct fixture *f) {
    int64_t next = 0;
    for (uint32_t i = 0; i < K; i++) {
        assert_int_equal(f->s->first[i], next);
        for (uint32_t v = 0; v < V; v++) {
            if (f->interval_of[v] == i) {
                assert_int_equal(f->s->old_of_new[next], v);
                assert_int_equal(f->s->new_of_old[v], next++);
            }
        }
    }
    assert_int_equal(f->s->first[K], V);
}

/* The neighbours that the rows of every interval name, by way of its table, and in which order. */
static void check_rows(const struct fixture *f, bool transposed) {
    const struct culm_gnn_structure *s = f->s;
    for (int32_t i = 0; i < K; i++) {
        struct culm_gnn_rows rows;
        const struct culm_gnn_need *need = culm_gnn_structure_need(s, transposed, i);
        assert_int_equal(culm_gnn_rows_init(s, transposed, i, &rows, NULL), CULM_OK);
        uint32_t of_table[V]; /* new numbers */
        for (int32_t j = 0; j < K; j++) {
            for (uint32_t at = need->start[j]; at < need->start[j + 1]; at++) {
                of_table[at] = (uint32_t)s->first[j] + need->row[at];
            }
        }
        for (int64_t r = 0; r < culm_gnn_structure_rows(s, i); r++) {
            uint64_t e = rows.start[r];
            uint32_t v = s->old_of_new[s->first[i] + r];
            for (uint32_t u = 0; u < V; u++) { /* by new numbers */
                if (f->gathers[transposed][v][s->old_of_new[u]]) {
                    assert_true(e < rows.start[r + 1]);
                    assert_int_equal(of_table[rows.column[e++]], u);
                }
            }
            assert_int_equal(e, rows.start[r + 1]);
        }
        culm_gnn_rows_release(&rows);
    }
}

static void check_slices(const struct fixture *f, bool transposed, uint64_t *random) {
    for (int32_t j = 0; j < K; j++) {
        struct culm_set readers = {0};
        uint32_t slice[V + 1], at[V + 1];
        for (int32_t r = 0; r < K; r++) {
            if (culm_rng_below(random, 2)) {
                assert_true(culm_set_add(&readers, r));
            }
        }
        int64_t count = culm_gnn_structure_slice(f->s, transposed, j, &readers, slice);
        int64_t c = 0;
        for (int64_t u = 0; u < culm_gnn_structure_rows(f->s, j); u++) {
            bool read = false;
            for (uint32_t v = 0; v < V; v++) {
                read |= culm_set_has(&readers, (int32_t)f->interval_of[v]) &&
                        f->gathers[transposed][v][f->s->old_of_new[f->s->first[j] + u]];
            }
            if (read) {
                assert_true(c < count);
                assert_int_equal(slice[c++], u);
            }
        }
        assert_int_equal(c, count);
        for (int32_t r = 0; r < K; r++) {
            if (culm_set_has(&readers, r)) {
                const struct culm_gnn_need *need = culm_gnn_structure_need(f->s, transposed, r);
                culm_gnn_structure_in_slice(f->s, transposed, j, r, slice, count, at);
                for (uint32_t n = need->start[j]; n < need->start[j + 1]; n++) {
                    assert_int_equal(slice[at[n - need->start[j]]], need->row[n]);
                }
            }
        }
    }
}

static void check_layout(const struct fixture *f) {
    struct culm_gnn_layout layout;
    assert_int_equal(culm_gnn_layout_init(&layout, K, NULL), CULM_OK);
    assert_int_equal(culm_gnn_structure_layout(f->s, &layout, NULL), CULM_OK);
    for (int t = 0; t < 2; t++) {
        bool reads[K][K] = {{false}};
        for (int i = 0; i < K; i++) {
            reads[i][i] = true; /* also where no edge says so */
        }
        for (int v = 0; v < V; v++) {
            for (int u = 0; u < V; u++) {
                reads[f->interval_of[v]][f->interval_of[u]] |= f->gathers[t][v][u];
            }
        }
        for (int32_t i = 0; i < K; i++) {
            for (int32_t j = 0; j < K; j++) {
                assert_int_equal(culm_set_has(&layout.reads[t][i], j), reads[i][j]);
                assert_int_equal(culm_set_has(&layout.read_by[t][j], i), reads[i][j]);
            }
        }
    }
    assert_int_equal(layout.first[K], V);
    culm_gnn_layout_release(&layout);
}

static void test_against_loops(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct fixture f;
        uint64_t random = 100 + seed;
        printf("# seed %d\n", (int)seed);
        make(&f, seed, seed % 2, seed > 2);
        check_numbers(&f);
        for (int t = 0; t < 2; t++) {
            check_rows(&f, t);
            check_slices(&f, t, &random);
        }
        check_layout(&f);
        drop(&f);
    }
}

static void test_no_cut(void **state) {
    (void)state;
    uint64_t random = 1;
    uint32_t interval_of[V] = {[9] = 2};
    struct culm_graph_data graph = graph_of(&random, false);
    struct culm_gnn_structure *s = NULL;
    struct culm_error error = {0};
    assert_int_equal(culm_gnn_structure_new(&graph, interval_of, 2, true, &s, &error),
                     CULM_ERR_ARGUMENT);
    assert_string_equal(error.text,
                        "vertex 9 is in interval 2, but there are only 2; cut the graph again");
    assert_null(s);
    free(graph.edge);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_loops),
        cmocka_unit_test(test_no_cut),
    };
    return cmocka_run_group_tests_name("gnn/structure", tests, NULL, NULL);
}
