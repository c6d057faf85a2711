/*
 * What `culm gnn` needs of src/run: beside run/commands.h the header of this room that src/cli
 * includes. What is worked out here is printed there.
 */
#ifndef CULM_RUN_GNN_COMMANDS_H
#define CULM_RUN_GNN_COMMANDS_H

#include "base/status.h"

/* --- data graphs -------------------------------------------------------------------------------- */

struct culm_gnn_about {
    char name[128];
    int64_t vertices, edges; /* as stored: an undirected edge once */
    int64_t features;        /* columns; 0: none */
    int64_t entries;         /* of sparse features; -1: they are dense, or there are none */
    int64_t classes, splits, split;
    int64_t train, valid, test; /* vertices of the split */
    int64_t isolated;           /* vertices without an edge */
    int64_t degree_most;        /* neighbours that a vertex gathers from */
    bool directed;
};

/* Whether this is to be a graph: anything but a file, which is a configuration, or a run. */
bool culm_gnn_is_graph(const char *path);
/* Reads and checks the whole graph. CULM_ERR_CONFIG: it has no such split, other than 0. */
enum culm_status culm_gnn_show(const char *path, int64_t split, struct culm_gnn_about *ret_about,
                               struct culm_error *error);

/* What a configuration comes to. Rows are counted where they are read and sent, in an epoch without
 * its evaluation. */
struct culm_gnn_config_about {
    struct culm_gnn_about graph;
    int64_t parameters;              /* elements */
    int64_t floats_per_edge;         /* of neighbours' rows that gathers read */
    int64_t bytes_per_vertex;        /* of rows to and from workers that have the interval */
    int64_t ghost_floats_per_vertex; /* of a row, to each server that reads it */
    int64_t memory_bytes;            /* of one process that owns everything, about */
    int64_t intervals, servers, cut_edges, ghosts; /* between servers */
    int32_t layers;
    bool multiply_first[16]; /* before the gather; else behind it */
    bool aggregated;         /* the first layer's gather was made once, beforehand */
};
/* Reads the graph, cuts it, builds the model. */
enum culm_status culm_gnn_show_config(const char *config_path,
                                      struct culm_gnn_config_about *ret_about,
                                      struct culm_error *error);

/* --- what was learned --------------------------------------------------------------------------- */

/* Of what trains, validates, tests. */
struct culm_gnn_evaluation {
    int64_t vertices; /* all */
    int64_t count[3], correct[3];
    double auc[3]; /* area under the ROC curve, of two classes; -1: not known */
};
/* Of a run directory the finished model, of a configuration what it starts from. */
enum culm_status culm_gnn_eval(const char *path, struct culm_gnn_evaluation *ret_evaluation,
                               struct culm_error *error);
/* Writes the logits of every vertex as .npy, f32[vertices,classes]. `graph`: another graph with the same
 * features, of which nothing else is read; NULL: that of the run. */
enum culm_status culm_gnn_predict(const char *dir, const char *graph, const char *out,
                                  int64_t *ret_vertices, int64_t *ret_classes,
                                  struct culm_error *error);

/* --- what it costs ------------------------------------------------------------------------------ */

#define CULM_GNN_DATE_SIZE 32

/* A run, by its events: of servers, parameter servers and workers. */
struct culm_gnn_cost {
    char date[CULM_GNN_DATE_SIZE]; /* of the prices */
    double usd, seconds, value;    /* value: 1 / (seconds x usd); 0: nothing was spent */
    double role_usd[3], node_s[3];
    int64_t starts; /* of workers */
};
/* prices: a file; NULL: the one that comes with the program. */
enum culm_status culm_gnn_cost_run(const char *dir, const char *prices,
                                   struct culm_gnn_cost *ret_cost, struct culm_error *error);

/* A run that the paper on Dorylus tells of, without functions: what it costs by the prices, and what is
 * printed there. */
#define CULM_GNN_PUBLISHED_ROWS 12
struct culm_gnn_published {
    const char *model, *graph, *variant, *instance; /* variant: "cpu", "gpu" */
    const char *printed;
    int servers;
    double seconds, usd;
    char rounded[16]; /* usd in as many digits as are printed */
    bool equal;
};
enum culm_status
culm_gnn_cost_published(const char *prices,
                        struct culm_gnn_published ret_rows[CULM_GNN_PUBLISHED_ROWS],
                        char ret_date[CULM_GNN_DATE_SIZE], struct culm_error *error);
const char *culm_gnn_cost_prices(void); /* the text of the file that comes with the program */

/* Epochs of a configuration in one process, without evaluation, after two that are not counted. */
struct culm_gnn_bench {
    char model[16];
    const char *dtype; /* of rows */
    int threads;
    double median_s, least_s;
    int64_t gathered_floats; /* in an epoch */
    int64_t peak_memory_bytes;
};
/* `dtype`: "f32" or "bf16" instead of the configuration's precision; NULL: that. */
enum culm_status culm_gnn_bench(const char *config_path, const char *dtype, int threads,
                                int64_t epochs, struct culm_gnn_bench *ret_bench,
                                struct culm_error *error);

/* A kernel of graph networks on the edges of a graph, each vertex its own neighbour too: the sums of
 * neighbours' rows, products of rows, or the softmax of edges with 8 heads. */
extern const char *const culm_gnn_kernels[]; /* "spmm", "sddmm", "softmax", NULL */
struct culm_gnn_kernel_options {
    int threads;
    int64_t calls, width; /* width: floats of a row; not of softmax */
    bool bf16;
};
struct culm_gnn_kernel_bench {
    const char *kernel, *dtype;
    char graph[128];
    int threads;
    int64_t width;
    double median_s, least_s;
    int64_t gathered_floats; /* in a call */
    int64_t peak_memory_bytes;
};
/* CULM_ERR_ARGUMENT: no such kernel, or not of bf16; and the errors of opening a graph. */
enum culm_status culm_gnn_bench_kernel(const char *name, const char *graph_path,
                                       const struct culm_gnn_kernel_options *options,
                                       struct culm_gnn_kernel_bench *ret_bench,
                                       struct culm_error *error);

struct culm_gnn_partition_options {
    int64_t intervals, servers; /* servers 0: each interval is a server of its own */
    const char *method;         /* "metis", "stream", a file; NULL: as memory allows */
    uint64_t seed;
    const char *out; /* NULL, or the file that gets a line with the interval of each vertex */
};

struct culm_gnn_partition {
    const char *method; /* "metis", "stream" or "file" */
    int64_t intervals, servers;
    int64_t cut_edges, ghosts; /* between servers */
    double balance;            /* load (vertices and edges) of the largest server over the mean */
    int64_t vertices_least, vertices_most, edges_least, edges_most; /* of servers */
    int64_t between_intervals;                                      /* edges */
};

enum culm_status culm_gnn_partition(const char *path,
                                    const struct culm_gnn_partition_options *options,
                                    struct culm_gnn_partition *ret_partition,
                                    struct culm_error *error);

/* A new graph: "edges" and "npz" are imported, "rmat", "sbm" and "knn" made. */
struct culm_gnn_new {
    const char *kind;
    const char *const *files; /* edges; an archive; images and their labels */
    size_t file_count;
    const char *labels, *features;             /* edges: files; NULL: none */
    int64_t vertices, edges, columns, classes; /* 0: not given */
    bool directed;
    const char *split; /* "60/20/20": percent of the labelled vertices that train, validate, test */
    int64_t splits;    /* how many of these; 0: 1 */
    uint64_t seed;     /* of what is drawn, and of the first split */
    const char *out;   /* a folder that is not there */
};

extern const char *const culm_gnn_import_kinds[], *const culm_gnn_make_kinds[]; /* ended by NULL */

enum culm_status culm_gnn_create(const struct culm_gnn_new *options,
                                 struct culm_gnn_about *ret_about, struct culm_error *error);

/* A function's package: what is in it, and how large it is. */
struct culm_gnn_bundle {
    int64_t files, bytes, zip_bytes;
    bool too_large; /* to be uploaded at once */
};
/* Writes this program, its loader and its libraries as a zip for AWS Lambda, in place of what is there. */
enum culm_status culm_gnn_bundle_write(const char *out, struct culm_gnn_bundle *ret_bundle,
                                       struct culm_error *error);

#endif
