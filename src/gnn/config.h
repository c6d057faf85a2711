/*
 * The configuration of `culm gnn train`: plain data with every default filled in and every value
 * checked.
 *
 * The struct owns its strings; everything else is stored in place. Thread: constant after loading.
 */
#ifndef CULM_GNN_CONFIG_H
#define CULM_GNN_CONFIG_H

#include "base/config.h"
#include "crew/config.h"
#include "graph/precision.h"
#include "interval/tune.h"
#include "model/config.h"
#include "store/config.h"

enum culm_gnn_features { CULM_GNN_FEATURES_ROWS, CULM_GNN_FEATURES_AS_IS };
enum culm_gnn_arch { CULM_GNN_GCN, CULM_GNN_GAT, CULM_GNN_SAGE };
enum culm_gnn_activation { CULM_GNN_RELU, CULM_GNN_TANH, CULM_GNN_ELU };
enum culm_gnn_mode { CULM_GNN_SYNC, CULM_GNN_NOPIPE, CULM_GNN_ASYNC };
enum culm_gnn_engine { CULM_GNN_LOCAL, CULM_GNN_LAMBDA, CULM_GNN_GEARMAN };
enum culm_gnn_order { CULM_GNN_ORDER_AUTO, CULM_GNN_ORDER_PUBLISHED };
enum culm_gnn_optimizer { CULM_GNN_ADAM, CULM_GNN_SGD };
enum culm_gnn_decay_layers { CULM_GNN_DECAY_FIRST, CULM_GNN_DECAY_ALL };
extern const char *const culm_gnn_arch_names[];

struct culm_gnn_graph_config {
    char *path;
    int64_t split;
    enum culm_gnn_features features;
    int64_t memory_mb;
};

struct culm_gnn_model_config {
    enum culm_gnn_arch arch;
    int64_t layers, width, heads, out_heads;
    enum culm_gnn_activation activation;
    double dropout;
    bool bias;
    char *init; /* initial weights (store/weights.h); NULL: none */
    enum culm_init_unused init_unused;
    bool init_given; /* no key: a command gave it as weights, and messages say so */
};

/* `engine: lambda`. */
struct culm_gnn_lambda_config {
    char *function, *region, *endpoint; /* NULL: not given */
    int64_t memory_mb;                  /* that the function must have; 0: any amount */
    int64_t concurrency;                /* invocations at once; 0: as many as workers */
};

/* `engine: gearman`. */
struct culm_gnn_gearman_config {
    char *server;
};

struct culm_gnn_optimizer_config {
    enum culm_gnn_optimizer name;
    double lr, weight_decay, momentum;
    enum culm_gnn_decay_layers decay_layers;
};

struct culm_gnn_stop_config {
    double accuracy;  /* validation accuracy that ends training; 0: none */
    int64_t patience; /* evaluations without a new best that end training; 0: none */
};

struct culm_gnn_eval_config {
    int64_t every;
};

struct culm_gnn_config {
    struct culm_gnn_graph_config graph;
    struct culm_gnn_model_config model;
    int64_t epochs;
    enum culm_gnn_mode mode;
    int64_t staleness, intervals, servers, parameter_servers;
    char *workers;        /* a number or "auto" */
    int64_t worker_count; /* from `workers`; auto: the number to begin with */
    bool workers_auto;
    int64_t max_workers; /* auto: upper limit; 0: see the key's description */
    enum culm_gnn_tune tune;
    enum culm_gnn_engine engine;
    struct culm_gnn_lambda_config lambda;
    struct culm_gnn_gearman_config gearman;
    char *prices; /* a file for gnn/prices.h; NULL: the built-in one */
    enum culm_gnn_order order;
    struct culm_gnn_optimizer_config optimizer;
    struct culm_gnn_stop_config stop;
    enum culm_precision precision;
    int64_t threads; /* per process */
    uint64_t seed;
    struct culm_checkpoint_config checkpoint; /* `every` counts epochs */
    struct culm_gnn_eval_config eval;
    struct culm_crew_config cluster;
};

/* Loads `path` (YAML), then applies `sets` ("key.sub=value") in order. Errors read `FILE:LINE: key:
 * what is wrong; what is allowed` (`--set: key: ...` for a set). On failure *ret_config is
 * untouched. */
enum culm_status culm_gnn_config_load(const char *path, const char *const *sets, size_t set_count,
                                      struct culm_gnn_config *ret_config, struct culm_error *error);
/* The same from text; `name` stands for FILE in messages. */
enum culm_status culm_gnn_config_parse(const char *text, size_t len, const char *name,
                                       const char *const *sets, size_t set_count,
                                       struct culm_gnn_config *ret_config,
                                       struct culm_error *error);
void culm_gnn_config_release(struct culm_gnn_config *config);

/* Writes every key as YAML that parses back to the same configuration. Caller frees. NULL: out of
 * memory. */
char *culm_gnn_config_dump(const struct culm_gnn_config *config);
/* A list, in words, of the keys that `--resume` may change. Caller frees. NULL: out of memory. */
char *culm_gnn_config_resumable_keys(void);
/* In the same way, what `--set` may change then as well. */
char *culm_gnn_config_setting_keys(void);
/* CULM_ERR_CONFIG, naming the key, if `now` changes a key that `--resume` may not change, and that
 * has none of `more_flags` (base/config.h). */
enum culm_status culm_gnn_config_resumable(const struct culm_gnn_config *before,
                                           const struct culm_gnn_config *now, unsigned more_flags,
                                           struct culm_error *error);
/* Its rows, for what compares any two. */
extern const struct culm_config_table culm_gnn_config_table;
/* The reference of all keys: a Markdown table, or lines for a terminal. Caller frees. NULL: out of
 * memory. */
char *culm_gnn_config_reference(bool markdown);

#endif
