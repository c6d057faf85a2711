/*
 * What the commands `culm gnn ...` do, for src/cli, which parses options and prints results.
 *
 * Errors are one line. Thread: the caller's.
 */
#ifndef CULM_RUN_GNN_COMMANDS_H
#define CULM_RUN_GNN_COMMANDS_H

#include "base/status.h"

/* --- data graphs --- */

struct culm_gnn_about {
    char name[128];
    int64_t vertices, edges; /* as stored: an undirected edge counts once */
    int64_t features;        /* columns; 0: none */
    int64_t entries;         /* of sparse features; -1: they are dense, or there are none */
    int64_t classes, splits, split;
    int64_t train, valid, test; /* vertices in split `split` */
    int64_t isolated;           /* vertices without edges */
    int64_t degree_most;        /* most neighbours that a vertex gathers from */
    bool directed;
};

/* Whether `path` is to be taken for a graph. It is not if it is a file, which then is a
 * configuration, or a run directory. */
bool culm_gnn_is_graph(const char *path);
/* Reads and checks the whole graph. CULM_ERR_CONFIG: it has no such split (0 is always allowed). */
enum culm_status culm_gnn_show(const char *path, int64_t split, struct culm_gnn_about *ret_about,
                               struct culm_error *error);

/* What an epoch of a configuration costs, not counting evaluation. */
struct culm_gnn_config_about {
    struct culm_gnn_about graph;
    int64_t parameters;              /* elements of all weights */
    int64_t floats_per_edge;         /* of neighbours' rows, read by gathers */
    int64_t bytes_per_vertex;        /* of rows, to and from workers that have the interval */
    int64_t ghost_floats_per_vertex; /* of a row, sent to each server that reads it */
    int64_t memory_bytes;            /* estimate, for one process that owns everything */
    int64_t intervals, servers, cut_edges, ghosts; /* the latter two between servers */
    int32_t layers;
    bool multiply_first[16]; /* [layers] rows are multiplied before they are gathered */
    bool aggregated;         /* the first layer gathers once, before the first epoch */
};
/* Reads and cuts the graph, and builds the model. A run directory stands for its configuration and
 * cut; its graph must not have changed. ret_note[CULM_ERROR_MAX], here and below: a warning, or "".
 */
enum culm_status culm_gnn_show_config(const char *config_path,
                                      struct culm_gnn_config_about *ret_about, char *ret_note,
                                      struct culm_error *error);

/* --- what was learned --- */

/* Arrays [3] are for the vertices that train, validate and test. */
struct culm_gnn_evaluation {
    int64_t vertices; /* of the graph */
    int64_t count[3], correct[3];
    double auc[3]; /* area under the ROC curve, with two classes; -1: not known */
    bool best;     /* the weights were kept as best.safetensors */
};
/* Evaluates the final model of a run directory, that of a checkpoint, or the initial weights of a
 * configuration; `weights`, if not NULL, in their place (store/weights.h; of a run "best": its
 * best.safetensors). `best`, of a run: weights that are better on the vertices that validate than its
 * best.safetensors take the place of that.
 * CULM_ERR_CONFIG: the run's graph, cut or model is not what it was; here and below also where
 * logits are not finite. */
enum culm_status culm_gnn_eval(const char *path, const char *weights, bool best,
                               struct culm_gnn_evaluation *ret_evaluation, char *ret_note,
                               struct culm_error *error);
/* Writes the logits of every vertex as .npy, f32[vertices,classes]. `graph`: another graph with the
 * same features, which needs neither labels nor splits; NULL: that of the run. CULM_ERR_CONFIG also
 * as culm_gnn_eval; another graph is not compared. */
enum culm_status culm_gnn_predict(const char *dir, const char *weights, const char *graph,
                                  const char *out, int64_t *ret_vertices, int64_t *ret_classes,
                                  char *ret_note, struct culm_error *error);

/* --- what it costs --- */

#define CULM_GNN_DATE_SIZE 32

/* What a run has cost, by its events. */
struct culm_gnn_cost {
    char date[CULM_GNN_DATE_SIZE]; /* of the prices */
    double usd, seconds, value;    /* value: 1 / (seconds x usd); 0: nothing was spent */
    double role_usd[3], node_s[3]; /* of servers, parameter servers and workers */
    int64_t starts;                /* of workers */
};
/* prices: a file; NULL: the one that the run's configuration names, or the built-in one. */
enum culm_status culm_gnn_cost_run(const char *dir, const char *prices,
                                   struct culm_gnn_cost *ret_cost, struct culm_error *error);

/* A run without functions from the paper on Dorylus (OSDI 2021, table 4): its cost by the prices,
 * and the cost printed there. */
#define CULM_GNN_PUBLISHED_ROWS 12
struct culm_gnn_published {
    const char *model, *graph, *variant, *instance; /* variant: "cpu" or "gpu" */
    const char *printed;                            /* dollars, as in the paper */
    int servers;
    double seconds, usd;
    char rounded[16]; /* `usd` with as many digits as `printed` */
    bool equal;       /* these two are equal */
};
/* prices: a file; NULL: the built-in one. */
enum culm_status
culm_gnn_cost_published(const char *prices,
                        struct culm_gnn_published ret_rows[CULM_GNN_PUBLISHED_ROWS],
                        char ret_date[CULM_GNN_DATE_SIZE], struct culm_error *error);
const char *culm_gnn_cost_prices(void); /* the text of the built-in file */

/* Times of epochs in one process, without evaluation, after two warm-up epochs. */
struct culm_gnn_bench {
    char model[16];
    const char *dtype; /* of rows */
    int threads;
    double median_s, least_s;
    int64_t gathered_floats; /* per epoch */
    int64_t peak_memory_bytes;
};
/* `dtype`: "f32" or "bf16", in place of the configuration's precision; NULL: as configured. */
enum culm_status culm_gnn_bench(const char *config_path, const char *dtype, int threads,
                                int64_t epochs, struct culm_gnn_bench *ret_bench,
                                struct culm_error *error);

/* Times of a kernel on the edges of a graph and a loop at each vertex: sums of neighbours' rows,
 * products of rows, or the softmax over edges with 8 heads. */
extern const char *const culm_gnn_kernels[]; /* "spmm", "sddmm", "softmax", NULL */
struct culm_gnn_kernel_options {
    int threads;
    int64_t calls, width; /* width: floats of a row; ignored by softmax */
    bool bf16;
};
struct culm_gnn_kernel_bench {
    const char *kernel, *dtype;
    char graph[128];
    int threads;
    int64_t width;
    double median_s, least_s;
    int64_t gathered_floats; /* per call */
    int64_t peak_memory_bytes;
};
/* CULM_ERR_ARGUMENT: there is no such kernel, or not for bf16; otherwise as opening a graph. */
enum culm_status culm_gnn_bench_kernel(const char *name, const char *graph_path,
                                       const struct culm_gnn_kernel_options *options,
                                       struct culm_gnn_kernel_bench *ret_bench,
                                       struct culm_error *error);

struct culm_gnn_partition_options {
    int64_t intervals, servers; /* servers 0: each interval is a server of its own */
    const char *method;         /* "metis", "stream", a file; NULL: METIS if memory allows */
    uint64_t seed;
    const char *out; /* file to write the interval of each vertex to, one per line; NULL: none */
};

struct culm_gnn_partition {
    const char *method; /* "metis", "stream" or "file" */
    int64_t intervals, servers;
    int64_t cut_edges, ghosts; /* between servers */
    double balance;            /* largest load (vertices and edges) of a server over the mean */
    int64_t vertices_least, vertices_most, edges_least, edges_most; /* per server */
    int64_t between_intervals; /* edges between different intervals */
};

enum culm_status culm_gnn_partition(const char *path,
                                    const struct culm_gnn_partition_options *options,
                                    struct culm_gnn_partition *ret_partition,
                                    struct culm_error *error);

/* A new graph: kinds "edges" and "npz" are imported; "rmat", "sbm" and "knn" are generated. */
struct culm_gnn_new {
    const char *kind;
    const char *const *files; /* files of edges; an archive; images and their labels */
    size_t file_count;
    const char *labels, *features;             /* "edges": files; NULL: none */
    int64_t vertices, edges, columns, classes; /* 0: not given */
    bool directed;
    const char *split; /* "60/20/20": percentages of labelled vertices to train, validate, test */
    int64_t splits;    /* number of such splits; 0: 1 */
    uint64_t seed;     /* of random numbers, and number of the first split */
    const char *out;   /* folder to write; must not exist */
};

/* Terminated by NULL. */
extern const char *const culm_gnn_import_kinds[], *const culm_gnn_make_kinds[];

enum culm_status culm_gnn_create(const struct culm_gnn_new *options,
                                 struct culm_gnn_about *ret_about, struct culm_error *error);

/* The package of a function of AWS Lambda: the number and the size of its files. */
struct culm_gnn_bundle {
    int64_t files, bytes, zip_bytes;
    bool too_large; /* to be uploaded directly */
};
/* Writes this program, its loader and its libraries as a zip for AWS Lambda. Replaces an existing
 * file. */
enum culm_status culm_gnn_bundle_write(const char *out, struct culm_gnn_bundle *ret_bundle,
                                       struct culm_error *error);

#endif
