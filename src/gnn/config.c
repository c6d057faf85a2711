/*
 * The keys of `culm gnn train`, and the checks between them. Nothing else in the program knows a
 * key's name, default or range.
 */
#include "gnn/config.h"

#include "device/kernels.h"
#include "interval/layout.h"
#include "interval/pace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FREE CULM_CONFIG_RESUMABLE
#define SET CULM_CONFIG_SETTING
_Static_assert(CULM_CREW_NODES_MAX <= CULM_GNN_NODES_MAX, "so many can be led");
/* Each layer may begin with a gather, and the last one may end with another. */
#define LAYERS_MAX (CULM_GNN_STAGES_MAX - 1)
#define WIDTH_MAX 16384
#define AUTO_A_SERVER 100 /* workers per server to begin with, as in Dorylus */

/* --- graph --- */

static const char *const features_names[] = {"rows", "as-is", NULL};

#define G struct culm_gnn_graph_config
static const struct culm_config_row graph_rows[] = {
    CULM_CONFIG_TEXT("path", G, path, NULL, "a folder", CULM_CONFIG_INPUT,
                     "graph to train on: a folder in the format culm-graph-1"),
    CULM_CONFIG_INT("split", G, split, "0", 0, 1000000, 0,
                    "which of the graph's splits to use for training, validation and testing"),
    CULM_CONFIG_ENUM("features", G, features, "rows", features_names, 0,
                     "features of a vertex: `rows`: divided by their sum; `as-is`: unchanged"),
    CULM_CONFIG_INT("memory_mb", G, memory_mb, "0", 0, 1 << 30, FREE,
                    "megabytes of memory that features may use in each server; 0: no limit"),
};
static const struct culm_config_table graph_table = {CULM_CONFIG_ROWS(graph_rows, G)};

/* --- model --- */

const char *const culm_gnn_arch_names[] = {
    [CULM_GNN_GCN] = "gcn", [CULM_GNN_GAT] = "gat", [CULM_GNN_SAGE] = "sage", NULL};
static const char *const activation_names[] = {
    [CULM_GNN_RELU] = "relu", [CULM_GNN_TANH] = "tanh", [CULM_GNN_ELU] = "elu", NULL};

#define M struct culm_gnn_model_config
static const struct culm_config_row model_rows[] = {
    CULM_CONFIG_ENUM(
        "arch", M, arch, "gcn", culm_gnn_arch_names, 0,
        "kind of layers: graph convolutions, graph attention, or GraphSAGE with means"),
    CULM_CONFIG_INT("layers", M, layers, "2", 1, LAYERS_MAX, 0, "number of layers"),
    CULM_CONFIG_INT("width", M, width, "16", 1, WIDTH_MAX, 0,
                    "features per vertex that each hidden layer computes; gat: that each of its "
                    "heads computes"),
    CULM_CONFIG_INT("heads", M, heads, "8", 1, CULM_EDGE_HEADS_MAX, 0,
                    "gat: heads of each hidden layer"),
    CULM_CONFIG_INT("out_heads", M, out_heads, "1", 1, CULM_EDGE_HEADS_MAX, 0,
                    "gat: heads of the last layer, which are averaged"),
    CULM_CONFIG_ENUM("activation", M, activation, "relu", activation_names, 0,
                     "activation function after each hidden layer"),
    CULM_CONFIG_REAL("dropout", M, dropout, "0.5", 0, 1, CULM_CONFIG_BELOW,
                     "share of a layer's inputs that dropout sets to zero; gat: also of its "
                     "attention and of the rows that it gathers"),
    CULM_CONFIG_BOOL("bias", M, bias, "true", 0, "whether layers have a bias"),
    CULM_CONFIG_TEXT("init", M, init, "", "a file or a folder", CULM_CONFIG_EMPTY, CULM_INIT_DOC),
    CULM_CONFIG_ENUM("init_unused", M, init_unused, "refuse", culm_init_unused_names, 0,
                     CULM_INIT_UNUSED_DOC),
};
static const struct culm_config_table model_table = {CULM_CONFIG_ROWS(model_rows, M)};

/* --- optimizer, stop, eval --- */

static const char *const optimizer_names[] = {
    [CULM_GNN_ADAM] = "adam", [CULM_GNN_SGD] = "sgd", NULL};
static const char *const decay_names[] = {
    [CULM_GNN_DECAY_FIRST] = "first", [CULM_GNN_DECAY_ALL] = "all", NULL};

#define O struct culm_gnn_optimizer_config
static const struct culm_config_row optimizer_rows[] = {
    CULM_CONFIG_ENUM("name", O, name, "adam", optimizer_names, 0,
                     "which optimizer updates the weights; adam has betas 0.9 and 0.999"),
    CULM_CONFIG_REAL("lr", O, lr, "0.01", 0, INFINITY, SET, "learning rate"),
    CULM_CONFIG_REAL("weight_decay", O, weight_decay, "0.0005", 0, INFINITY, SET,
                     "weight decay, added to the gradient (L2)"),
    CULM_CONFIG_ENUM("decay_layers", O, decay_layers, "first", decay_names, 0,
                     "layers whose weights decay"),
    CULM_CONFIG_REAL("momentum", O, momentum, "0", 0, 1, CULM_CONFIG_BELOW | SET, "sgd: momentum"),
};
static const struct culm_config_table optimizer_table = {CULM_CONFIG_ROWS(optimizer_rows, O)};

#define S struct culm_gnn_stop_config
static const struct culm_config_row stop_rows[] = {
    CULM_CONFIG_REAL("accuracy", S, accuracy, "0", 0, 1, 0,
                     "training stops once this fraction of the validation vertices is classified "
                     "correctly; 0 disables this"),
    CULM_CONFIG_INT(
        "patience", S, patience, "0", 0, 1000000000, 0,
        "training stops after this many evaluations in a row without improvement; 0 disables this"),
};
static const struct culm_config_table stop_table = {CULM_CONFIG_ROWS(stop_rows, S)};

#define E struct culm_gnn_eval_config
static const struct culm_config_row eval_rows[] = {
    CULM_CONFIG_INT("every", E, every, "1", 0, 1000000000, FREE,
                    "epochs between evaluations on the validation and test vertices; 0: never"),
};
static const struct culm_config_table eval_table = {CULM_CONFIG_ROWS(eval_rows, E)};

/* --- checkpoint --- */

#define C struct culm_checkpoint_config
static const struct culm_config_row checkpoint_rows[] = {
    CULM_CONFIG_INT("every", C, every, "20", 0, 1000000000, FREE,
                    "epochs between checkpoints; 0: only one, at the end"),
    CULM_CONFIG_INT("keep", C, keep, "2", 1, 1000000, FREE,
                    "number of checkpoints to keep; older ones are removed"),
    CULM_CONFIG_ENUM("best", C, best, "none", culm_best_names, FREE,
                     "keep the weights of the best checkpoint as best.safetensors: `accuracy`: on "
                     "the validation vertices. Each checkpoint is evaluated by a process on the "
                     "launcher's machine, which reads the whole graph; if several checkpoints come "
                     "due meanwhile, only the newest is evaluated"),
    CULM_CHECKPOINT_STORAGE_ROWS(C),
};
static const struct culm_config_table checkpoint_table = {CULM_CONFIG_ROWS(checkpoint_rows, C)};

/* --- engines --- */

#define L struct culm_gnn_lambda_config
static const struct culm_config_row lambda_rows[] = {
    CULM_CONFIG_TEXT("function", L, function, "", "a name", FREE | CULM_CONFIG_EMPTY,
                     "function that runs the workers: NAME, NAME:VERSION or NAME:ALIAS"),
    CULM_CONFIG_TEXT("region", L, region, "", "a name", FREE | CULM_CONFIG_EMPTY,
                     "region of the function; empty: the one in AWS_REGION or AWS_DEFAULT_REGION"),
    CULM_CONFIG_TEXT("endpoint", L, endpoint, "", "a URL", FREE | CULM_CONFIG_EMPTY,
                     "where functions are invoked; empty: AWS's own endpoint in the region"),
    CULM_CONFIG_INT("memory_mb", L, memory_mb, "0", 0, 10240, FREE,
                    "megabytes of memory that the function must have; 0: any amount"),
    CULM_CONFIG_INT("concurrency", L, concurrency, "0", 0, 100000, FREE,
                    "largest number of invocations at a time; 0: one for each worker"),
};
static const struct culm_config_table lambda_table = {CULM_CONFIG_ROWS(lambda_rows, L)};

#define GEARMAN struct culm_gnn_gearman_config
static const struct culm_config_row gearman_rows[] = {
    CULM_CONFIG_TEXT("server", GEARMAN, server, "127.0.0.1:4730", "HOST:PORT", FREE,
                     "job server that hands jobs to workers"),
};
static const struct culm_config_table gearman_table = {CULM_CONFIG_ROWS(gearman_rows, GEARMAN)};

/* --- the whole --- */

static const char *const mode_names[] = {
    [CULM_GNN_SYNC] = "sync", [CULM_GNN_NOPIPE] = "nopipe", [CULM_GNN_ASYNC] = "async", NULL};
static const char *const engine_names[] = {
    [CULM_GNN_LOCAL] = "local", [CULM_GNN_LAMBDA] = "lambda", [CULM_GNN_GEARMAN] = "gearman", NULL};
static const char *const order_names[] = {
    [CULM_GNN_ORDER_AUTO] = "auto", [CULM_GNN_ORDER_PUBLISHED] = "published", NULL};
static const char *const tune_names[] = {[CULM_GNN_TUNE_TIME] = "time",
                                         [CULM_GNN_TUNE_DOLLARS] = "dollars",
                                         [CULM_GNN_TUNE_VALUE] = "value",
                                         NULL};

#define T struct culm_gnn_config
static const struct culm_config_row rows[] = {
    CULM_CONFIG_SECTION("graph", T, graph, &graph_table),
    CULM_CONFIG_SECTION("model", T, model, &model_table),
    CULM_CONFIG_INT("epochs", T, epochs, NULL, 0, 1000000000, SET,
                    "epochs to train for; 0 writes the initial model"),
    CULM_CONFIG_ENUM(
        "mode", T, mode, "sync", mode_names, 0,
        "`sync`: every gather waits for the rows of its own epoch; `async`: it may read rows that "
        "are up to `staleness` epochs old; `nopipe`: one step after the other, without overlap"),
    CULM_CONFIG_INT("staleness", T, staleness, "1", 0, CULM_GNN_STALENESS_MAX, 0,
                    "`mode: async`: how many epochs old a row may be"),
    CULM_CONFIG_INT("intervals", T, intervals, "8", 1, CULM_GNN_INTERVALS_MAX, 0,
                    "fixed pieces of the graph, distributed over the servers"),
    CULM_CONFIG_INT("servers", T, servers, "1", 1, CULM_GNN_INTERVALS_MAX, FREE,
                    "processes that own pieces of the graph; at most `intervals`"),
    CULM_CONFIG_INT("parameter_servers", T, parameter_servers, "1", 1, 15, FREE,
                    "processes that hold the weights"),
    CULM_CONFIG_TEXT(
        "workers", T, workers, "0", "a number or `auto`", FREE,
        "processes that do the servers' tensor tasks; 0: the servers do these tasks themselves"),
    CULM_CONFIG_ENUM(
        "tune", T, tune, "value", tune_names, FREE,
        "`workers: auto`: what to minimise: `time`, `dollars`, or `value`: the product of both"),
    CULM_CONFIG_INT("max_workers", T, max_workers, "0", 0, CULM_CREW_NODES_MAX, FREE,
                    "`workers: auto`: largest number of workers; 0: one per interval and, with "
                    "`engine: local`, at most one per processor"),
    CULM_CONFIG_ENUM(
        "engine", T, engine, "local", engine_names, FREE,
        "where workers run: as processes of this machine, on AWS Lambda, or as Gearman jobs"),
    CULM_CONFIG_SECTION("lambda", T, lambda, &lambda_table),
    CULM_CONFIG_SECTION("gearman", T, gearman, &gearman_table),
    CULM_CONFIG_TEXT("prices", T, prices, "", "a file", FREE | CULM_CONFIG_EMPTY,
                     "price list of machines; empty: the list shipped with Culm"),
    CULM_CONFIG_ENUM(
        "order", T, order, "auto", order_names, 0,
        "order of products and gathers: `auto`: in each layer the one with the lower counted cost; "
        "`published`: the order of Dorylus, which gathers the features again in every epoch"),
    CULM_CONFIG_SECTION("optimizer", T, optimizer, &optimizer_table),
    CULM_CONFIG_SECTION("stop", T, stop, &stop_table),
    CULM_CONFIG_ENUM("precision", T, precision, "f32", culm_precision_names, 0,
                     "number format of rows that are gathered and sent; weights and sums stay f32"),
    CULM_CONFIG_INT("threads", T, threads, "1", 1, 256, FREE, "compute threads of each process"),
    CULM_CONFIG_U64("seed", T, seed, "1", 0, "seed of the initial weights and of dropout"),
    CULM_CONFIG_SECTION("checkpoint", T, checkpoint, &checkpoint_table),
    CULM_CONFIG_SECTION("eval", T, eval, &eval_table),
    CULM_CONFIG_SECTION("cluster", T, cluster, &culm_crew_config_table),
};

static enum culm_status read_workers(T *c, const struct culm_config_place *place,
                                     struct culm_error *error) {
    c->workers_auto = strcmp(c->workers, "auto") == 0;
    if (c->workers_auto) {
        int64_t most = c->max_workers > 0 ? c->max_workers : CULM_CREW_NODES_MAX;
        c->worker_count = AUTO_A_SERVER * c->servers;
        c->worker_count = c->worker_count < c->intervals ? c->worker_count : c->intervals;
        c->worker_count = c->worker_count < most ? c->worker_count : most;
        return CULM_OK;
    }
    char *end;
    errno = 0;
    long long count = strtoll(c->workers, &end, 10);
    if (errno || end == c->workers || *end || strspn(c->workers, "0123456789") == 0 ||
        count > CULM_CREW_NODES_MAX) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("workers"), error,
                                  "'%.40s' is not a number of workers; allowed: 0 to %d, auto",
                                  c->workers, CULM_CREW_NODES_MAX);
    }
    c->worker_count = count;
    return CULM_OK;
}

static enum culm_status check_order(const T *c, const struct culm_config_place *place,
                                    struct culm_error *error) {
    if (c->order == CULM_GNN_ORDER_PUBLISHED && c->model.arch != CULM_GNN_GCN) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("order"), error,
                                  "the published order is that of 'arch: gcn'; leave it out");
    }
    return CULM_OK;
}

/* All that are to be there may be; those that are sought have what the others leave. */
static enum culm_status check_nodes(T *c, const struct culm_config_place *place,
                                    struct culm_error *error) {
    if (c->cluster.max_nodes == 0) {
        c->cluster.max_nodes = CULM_CREW_NODES_MAX;
    }
    int64_t room = c->cluster.max_nodes - c->servers - c->parameter_servers;
    if (c->workers_auto && c->worker_count > room) {
        c->worker_count = room > 1 ? room : 1;
    }
    int64_t nodes = c->servers + c->parameter_servers + c->worker_count;
    if (nodes > c->cluster.max_nodes) {
        return culm_config_refuse(
            place, CULM_CONFIG_KEYS("cluster.max_nodes", "servers", "parameter_servers", "workers"),
            error,
            "servers + parameter_servers + workers is %lld, max_nodes is %lld; allowed: "
            "cluster.max_nodes from %lld",
            (long long)nodes, (long long)c->cluster.max_nodes, (long long)nodes);
    }
    return CULM_OK;
}

static enum culm_status finish(void *object, const struct culm_config_place *place,
                               struct culm_error *error) {
    T *c = object;
    enum culm_status status = read_workers(c, place, error);
    if (status == CULM_OK) {
        status = check_order(c, place, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (c->servers > c->intervals) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("servers", "intervals"), error,
                                  "%lld servers for %lld intervals, and a server owns whole ones; "
                                  "allowed: 1 to %lld",
                                  (long long)c->servers, (long long)c->intervals,
                                  (long long)c->intervals);
    }
    status = check_nodes(c, place, error);
    if (status != CULM_OK) {
        return status;
    }
    if ((c->stop.accuracy > 0 || c->stop.patience > 0) && c->eval.every == 0) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("stop.accuracy", "stop.patience"), error,
                                  "nothing is evaluated, so nothing tells when to stop; set "
                                  "eval.every");
    }
    if (c->checkpoint.best == CULM_BEST_LOSS ||
        (c->checkpoint.best != CULM_BEST_NONE && c->eval.every == 0)) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("checkpoint.best", "eval.every"), error,
                                  "'best: %s' %s", culm_best_names[c->checkpoint.best],
                                  c->eval.every == 0
                                      ? "needs evaluations, and there are none; set eval.every, or "
                                        "leave it out"
                                      : "is not known of graph networks; allowed: none, accuracy");
    }
    return CULM_OK;
}

const struct culm_config_table culm_gnn_config_table = {CULM_CONFIG_ROWS(rows, T),
                                                        .finish = finish};

enum culm_status culm_gnn_config_parse(const char *text, size_t len, const char *name,
                                       const char *const *sets, size_t set_count,
                                       struct culm_gnn_config *ret_config,
                                       struct culm_error *error) {
    return culm_config_parse(&culm_gnn_config_table, text, len, name, sets, set_count, ret_config,
                             error);
}

enum culm_status culm_gnn_config_load(const char *path, const char *const *sets, size_t set_count,
                                      struct culm_gnn_config *ret_config,
                                      struct culm_error *error) {
    return culm_config_load(&culm_gnn_config_table, path, sets, set_count, ret_config, error);
}

void culm_gnn_config_release(struct culm_gnn_config *config) {
    culm_config_release(&culm_gnn_config_table, config);
}

char *culm_gnn_config_dump(const struct culm_gnn_config *config) {
    return culm_config_dump_text(&culm_gnn_config_table, config);
}

char *culm_gnn_config_reference(bool markdown) {
    return culm_config_document_text(&culm_gnn_config_table, markdown);
}

char *culm_gnn_config_setting_keys(void) {
    return culm_config_setting_text(&culm_gnn_config_table);
}

char *culm_gnn_config_resumable_keys(void) {
    return culm_config_resumable_text(&culm_gnn_config_table);
}

enum culm_status culm_gnn_config_resumable(const struct culm_gnn_config *before,
                                           const struct culm_gnn_config *now, unsigned more_flags,
                                           struct culm_error *error) {
    enum culm_status status =
        culm_config_resumable(&culm_gnn_config_table, before, now, more_flags, error);
    bool stops = before->stop.accuracy > 0 || before->stop.patience > 0;
    if (status == CULM_OK && stops && before->eval.every != now->eval.every) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "eval.every: the run has %lld, and %lld was given; with "
                                "stop.accuracy or stop.patience, evaluations say when training "
                                "ends, so it may not change",
                                (long long)before->eval.every, (long long)now->eval.every);
    }
    return status;
}
