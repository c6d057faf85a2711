/* The keys of `culm gnn train`. */
#include "gnn/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum culm_status parse(const char *text, struct culm_gnn_config *config,
                              struct culm_error *error) {
    return culm_gnn_config_parse(text, strlen(text), "g.yaml", NULL, 0, config, error);
}

static void good(const char *text, struct culm_gnn_config *config) {
    struct culm_error error = {0};
    if (parse(text, config, &error)) {
        fail_msg("%s", error.text);
    }
}

static void bad(const char *text, const char *want) {
    struct culm_gnn_config config;
    struct culm_error error = {0};
    assert_int_equal(parse(text, &config, &error), CULM_ERR_CONFIG);
    assert_string_equal(error.text, want);
}

static void test_defaults(void **state) {
    (void)state;
    struct culm_gnn_config c;
    good("graph: {path: cora}\nepochs: 200\n", &c);
    assert_string_equal(c.graph.path, "cora");
    assert_int_equal(c.graph.features, CULM_GNN_FEATURES_ROWS);
    assert_int_equal(c.model.layers, 2);
    assert_int_equal(c.model.width, 16);
    assert_true(c.model.bias && !c.model.init);
    assert_int_equal(c.intervals, 8);
    assert_int_equal(c.worker_count, 0);
    assert_int_equal(c.optimizer.name, CULM_GNN_ADAM);
    assert_true(c.optimizer.lr == 0.01 && c.optimizer.weight_decay == 0.0005);
    assert_int_equal(c.optimizer.decay_layers, CULM_GNN_DECAY_FIRST);
    assert_int_equal(c.eval.every, 1);
    assert_int_equal(c.cluster.replace_ms, 500);
    assert_int_equal(c.cluster.max_nodes, 4096);
    culm_gnn_config_release(&c);
}

/* As Dorylus begins: a hundred for each server, no more than intervals, no more than there may be. */
static void test_workers_to_begin_with(void **state) {
    (void)state;
    struct culm_gnn_config c;
    good("graph: {path: cora}\nepochs: 3\nworkers: auto\nintervals: 40\n", &c);
    assert_true(c.workers_auto && c.worker_count == 40 && c.tune == CULM_GNN_TUNE_VALUE);
    culm_gnn_config_release(&c);
    good("graph: {path: cora}\nepochs: 3\nworkers: auto\nintervals: 400\nservers: 2\n", &c);
    assert_int_equal(c.worker_count, 200);
    culm_gnn_config_release(&c);
    good("graph: {path: cora}\nepochs: 3\nworkers: auto\nintervals: 400\nmax_workers: 7\n", &c);
    assert_int_equal(c.worker_count, 7);
    culm_gnn_config_release(&c);
    good("graph: {path: cora}\nepochs: 3\nworkers: auto\nservers: 2\ncluster: {max_nodes: 9}\n",
         &c);
    assert_int_equal(c.worker_count, 6);
    culm_gnn_config_release(&c);
}

static void test_a_dump_reads_back(void **state) {
    (void)state;
    struct culm_gnn_config c, again;
    struct culm_error error = {0};
    good("graph: {path: cora, features: as-is}\nepochs: 3\nworkers: 4\nservers: 2\n"
         "model: {layers: 4, width: 7, activation: tanh, dropout: 0.25, bias: false}\n"
         "optimizer: {name: sgd, lr: 0.3, decay_layers: all}\n",
         &c);
    char *text = culm_gnn_config_dump(&c);
    good(text, &again);
    assert_int_equal(again.worker_count, 4);
    assert_int_equal(culm_gnn_config_resumable(&c, &again, 0, &error), CULM_OK);
    again.servers = 1;
    again.threads = 2;
    again.eval.every = 7;
    assert_int_equal(culm_gnn_config_resumable(&c, &again, 0, &error), CULM_OK);
    c.stop.patience = 3;
    again.stop.patience = 3;
    assert_int_equal(culm_gnn_config_resumable(&c, &again, 0, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "eval.every: the run has"));
    c.stop.patience = again.stop.patience = 0;
    again.intervals = 4;
    assert_int_equal(culm_gnn_config_resumable(&c, &again, 0, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "intervals: the run has 8"));
    free(text);
    culm_gnn_config_release(&c);
    culm_gnn_config_release(&again);
}

static void test_what_may_change(void **state) {
    (void)state;
    char *keys = culm_gnn_config_resumable_keys(); /* also those that `stop` takes away */
    const char *const want[] = {"servers",   "parameter_servers", "workers",    "tune", "engine",
                                "memory_mb", "threads",           "checkpoint", "eval", "cluster"};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        if (!strstr(keys, want[i])) {
            fail_msg("%s is not among %s", want[i], keys);
        }
    }
    assert_null(strstr(keys, "intervals"));
    free(keys);
}

static void test_what_is_wrong_is_refused(void **state) {
    (void)state;
#define BASE "graph: {path: g}\nepochs: 1\n"
    bad(BASE "cluster: {max_nodes: 4097}\n",
        "g.yaml:3: cluster.max_nodes: 4097 is out of range; allowed: 0 to 4096");
    bad(BASE "workers: 3\ncluster: {max_nodes: 4}\n",
        "g.yaml:4: cluster.max_nodes: servers + parameter_servers + workers is 5, "
        "max_nodes is 4; allowed: cluster.max_nodes from 5");
    bad(BASE "workers: auto\nservers: 3\ncluster: {max_nodes: 4}\n",
        "g.yaml:5: cluster.max_nodes: servers + parameter_servers + workers is 5, "
        "max_nodes is 4; allowed: cluster.max_nodes from 5");
    bad(BASE "cluster: {suspect_ms: 500}\n",
        "g.yaml:3: cluster.suspect_ms: suspect_ms 500 would suspect nodes whose heartbeat is a "
        "little late; allowed: from 3 times heartbeat_ms, which is 200");
    bad("epochs: 1\n", "g.yaml:1: graph.path: is missing; required: a folder");
    bad(BASE "workers: many\n",
        "g.yaml:3: workers: 'many' is not a number of workers; allowed: 0 to 4096, auto");
    bad(BASE "workers: -1\n",
        "g.yaml:3: workers: '-1' is not a number of workers; allowed: 0 to 4096, auto");
    bad(BASE "servers: 9\n",
        "g.yaml:3: servers: 9 servers for 8 intervals, and a server owns whole "
        "ones; allowed: 1 to 8");
    bad(BASE "model: {arch: gat, heads: 65}\n",
        "g.yaml:3: model.heads: 65 is out of range; allowed: 1 to 64");
    bad(BASE "eval: {every: 0}\nstop: {patience: 5}\n",
        "g.yaml:4: stop.patience: nothing is evaluated, so nothing tells when to stop; set "
        "eval.every");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_workers_to_begin_with),
        cmocka_unit_test(test_a_dump_reads_back),
        cmocka_unit_test(test_what_may_change),
        cmocka_unit_test(test_what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests_name("gnn/config", tests, NULL, NULL);
}
