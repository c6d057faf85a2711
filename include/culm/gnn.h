/*
 * Graph networks with Culm: data graphs, training on them, and what was learned.
 *
 *     struct culm_error error;
 *     struct culm_config *config = NULL;
 *     struct culm_gnn_training *training = NULL;
 *     struct culm_gnn_evaluate_result result = {.size = sizeof result};
 *     if (culm_config_open("gnn.yaml", &config, &error) ||
 *         culm_gnn_training_new(config, &(struct culm_gnn_training_options){
 *             .size = sizeof(struct culm_gnn_training_options), .dir = "runs/gnn"}, &training, &error) ||
 *         culm_gnn_training_run(training, &error) ||
 *         culm_gnn_evaluate("runs/gnn", NULL, &result, &error)) {
 *         fprintf(stderr, "%s\n", error.text);
 *     }
 *     culm_gnn_training_free(training);
 *     culm_config_free(config);
 *
 * A run has processes in three roles: servers own pieces of the graph, parameter servers hold the
 * weights, and workers, if there are any, do the tensor tasks of servers (docs/gnn.md). Any of them
 * may be lost at any moment. They are processes of the `culm` program; the caller's process leads.
 *
 * examples/embed/gnn.c is a whole program, and gnn.py does the same in Python. What <culm.h> says of
 * errors, ownership, threads and versions holds here.
 */
#ifndef CULM_GNN_H
#define CULM_GNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <culm/config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- graphs -------------------------------------------------------------------------------------
 *
 * A graph is a folder: graph.json, and arrays as .npy files (docs/gnn.md has the format). Vertices
 * have numbers from 0. Whatever reads a graph checks all that it reads. A new graph is written whole
 * or not at all, to a folder that must not exist yet (CULM_ERR_EXISTS). */

struct culm_gnn_graph_info {
    size_t size; /* sizeof(struct culm_gnn_graph_info), set by the caller */
    char name[128];
    int64_t vertices;
    int64_t edges;      /* as stored: an undirected edge counts once; without loops */
    int64_t features;   /* columns; 0: none */
    int64_t entries;    /* of sparse features; -1: they are dense, or there are none */
    int64_t classes;    /* 0: no labels */
    int64_t splits;     /* of the vertices into those that train, validate and test */
    int64_t split;      /* the one that was counted */
    int64_t count[3];   /* in it: vertices that train, validate, test */
    int64_t isolated;   /* vertices without edges */
    int64_t degree_max; /* most neighbours that a vertex gathers from */
    int64_t directed;   /* 1: an edge leads from its first vertex to its second; 0: both ways */
};
/* Reads and checks the whole graph in the folder `path`. CULM_ERR_CONFIG: a file is missing, or there
 * is no split of this number (0 is always allowed). CULM_ERR_FORMAT: a file is invalid; the error has
 * the file, the place and the value. */
CULM_API enum culm_status culm_gnn_graph_show(const char *path, int64_t split,
                                              struct culm_gnn_graph_info *ret_info,
                                              struct culm_error *error);

/* A graph that the program has in memory. */
struct culm_gnn_graph_arrays {
    size_t size; /* sizeof(struct culm_gnn_graph_arrays) */
    int64_t vertices, edges;
    const int64_t *edge; /* [edges, 2]; loops, and edges that are there twice, are dropped */
    bool directed;
    const float *features; /* [vertices, columns], finite; NULL: none */
    int64_t columns;
    const int32_t *labels; /* [vertices]: 0 to classes - 1, or -1, not known; NULL: none */
    int64_t classes;
    const uint8_t *splits; /* [split_count, vertices]: 0 not used, 1 trains, 2 validates, 3 tests;
                              vertices in use need a label; NULL: none */
    int64_t split_count;
};
/* Writes it as the folder `path`, whose last part becomes the graph's name. ret_info may be NULL.
 * CULM_ERR_CONFIG: a number in the arrays is wrong; the error says which and where. */
CULM_API enum culm_status culm_gnn_graph_write(const struct culm_gnn_graph_arrays *arrays,
                                               const char *path,
                                               struct culm_gnn_graph_info *ret_info,
                                               struct culm_error *error);

/*
 * A graph from files, or a drawn one. The kinds:
 *   "edges"  lines of two ids, separated by blanks or a comma
 *   "npz"    an archive of NumPy arrays, as such data sets are published
 *   "knn"    joins each image of an IDX file with its nearest ones
 *   "rmat"   drawn: few vertices have most edges
 *   "sbm"    drawn: has classes that can be learned
 */
struct culm_gnn_create_options {
    size_t size; /* sizeof(struct culm_gnn_create_options) */
    const char *kind;
    const char *path;         /* the folder to write; its last part becomes the graph's name */
    const char *const *files; /* "edges": files of edges; "npz": one archive; "knn": images, and
                                 perhaps their labels; else none */
    size_t file_count;
    const char *labels;   /* "edges": lines of a vertex and its label, or of a label; NULL: none */
    const char *features; /* "edges": a .npy or .json file; NULL: none */
    int64_t vertices;     /* 0: as many as the files have; "rmat", "sbm": needed */
    int64_t edges;   /* "rmat", "sbm": needed; "knn": edges going out of all vertices; 0: 8 each */
    int64_t columns; /* of features of "rmat" and "sbm"; 0: none of the former, 16 of the latter */
    int64_t classes; /* of "rmat" and "sbm"; 0: none of the former, 4 of the latter */
    bool directed;   /* "edges", "npz" */
    const char *split; /* "60/20/20": percentages of labelled vertices that train, validate, test;
                          NULL: none or, of a drawn graph with classes and of "knn" with labels, this.
                          Which vertices these are follows from the graph's name and the number of the
                          split: the same graph in a folder of another name is split otherwise */
    int64_t splits;    /* how many such splits; 0: 1 */
    uint64_t seed;     /* of all that is drawn, and the number of the first split */
};
/* ret_info may be NULL. CULM_ERR_ARGUMENT: there is no such kind, or what was set does not belong to
 * it. CULM_ERR_MACHINE: "npz" needs libzip, which is not installed. */
CULM_API enum culm_status culm_gnn_graph_create(const struct culm_gnn_create_options *options,
                                                struct culm_gnn_graph_info *ret_info,
                                                struct culm_error *error);

/* How vertices are cut into intervals, and these shared out to servers. */
struct culm_gnn_partition_options {
    size_t size;       /* sizeof(struct culm_gnn_partition_options) */
    int64_t intervals; /* 1 to 1024 */
    int64_t servers;   /* at most `intervals`; 0: as many */
    /* "metis", "stream", or a file with the interval of each vertex; NULL: METIS or, if that would take
     * more than half of the memory, streaming. */
    const char *method;
    uint64_t seed;   /* of METIS */
    const char *out; /* a file to write, with the interval of each vertex in a line; NULL: none */
};
struct culm_gnn_partition_info {
    size_t size;        /* sizeof(struct culm_gnn_partition_info), set by the caller */
    const char *method; /* "metis", "stream" or "file"; lives as long as the process */
    int64_t intervals, servers;
    int64_t cut_edges, ghosts; /* between servers: edges, and rows of others that servers need */
    double balance;            /* largest load (vertices and edges) of a server over the mean */
    int64_t vertices_min, vertices_max, edges_min, edges_max; /* of a server */
    int64_t interval_cut_edges;                               /* between intervals */
};
/* Cuts the graph in the folder `path`. CULM_ERR_MACHINE: METIS is wanted and not installed. */
CULM_API enum culm_status culm_gnn_partition(const char *path,
                                             const struct culm_gnn_partition_options *options,
                                             struct culm_gnn_partition_info *ret_info,
                                             struct culm_error *error);

/* --- configurations ----------------------------------------------------------------------------- */

/* Checks a configuration as that of a run on a graph, whose keys `culm help config gnn` lists, and
 * returns it as YAML with every default filled in, which the caller frees with culm_text_free.
 * ret_text may be NULL. The graph is not read. */
CULM_API enum culm_status culm_gnn_config_text(const struct culm_config *config, char **ret_text,
                                               struct culm_error *error);

/* What an epoch costs, not counting evaluation. */
struct culm_gnn_show_info {
    size_t size;                     /* sizeof(struct culm_gnn_show_info), set by the caller */
    int64_t parameters;              /* elements of all weights */
    int64_t floats_per_edge;         /* of neighbours' rows, read by gathers */
    int64_t bytes_per_vertex;        /* of rows, to and from workers that have the interval */
    int64_t ghost_floats_per_vertex; /* of a row, sent to each server that reads it */
    int64_t memory_bytes;            /* estimate, for one process that owns everything */
    int64_t intervals, servers, cut_edges, ghosts; /* the latter two between servers */
    uint8_t multiply_first[16]; /* [layers] 1: rows are multiplied before they are gathered */
    int64_t layers;
    int64_t aggregated; /* 1: the first layer gathers once, before the first epoch */
};
struct culm_gnn_show_options {
    size_t size; /* sizeof(struct culm_gnn_show_options) */
    void (*warning)(void *context, const char *text);
    void *context;
};
/* Reads and cuts the graph, and builds the model, of the configuration in the file `what`, or of the
 * run in that folder, whose cut it takes and whose graph must not have changed. `options` and
 * ret_graph may be NULL. */
CULM_API enum culm_status culm_gnn_show(const char *what,
                                        const struct culm_gnn_show_options *options,
                                        struct culm_gnn_graph_info *ret_graph,
                                        struct culm_gnn_show_info *ret_info,
                                        struct culm_error *error);

/* --- training ----------------------------------------------------------------------------------- */

struct culm_gnn_training;

struct culm_gnn_training_options {
    size_t size;     /* sizeof(struct culm_gnn_training_options) */
    const char *dir; /* the run directory, which is created; one that holds a run needs `resume` */
    bool resume;     /* continue the run in `dir` */
    /* With `resume`: go on with files of the graph that have changed since the run began; and, if no
     * checkpoint of it is whole though it had some, do it all again. */
    bool accept_inputs, from_start;
    bool insecure; /* encrypts nothing between machines; else TLS 1.3, with the token as its key */
    /* The `culm` program, which is started once for each node; without a '/', it is looked up in
     * PATH. NULL: the one that was installed with this library, otherwise "culm" in PATH. */
    const char *program;
    const char *plan;      /* plan.json of a run whose cut this one takes; NULL: none */
    const char *partition; /* a file with the interval of each vertex; NULL: the graph is cut */
    /* "HOST:PORT" where `culm gnn server` and `culm gnn worker` may join that bring DIR/token; and
     * the address that they call, if it is another. NULL: none may join. The token: `token_file`. */
    const char *listen, *advertise;
    /* As in every structure of options (culm.h). The thread in culm_gnn_training_run calls `event`.
     * Either may call culm_gnn_training_stop and culm_gnn_training_abort. */
    void (*event)(void *context, const char *json);
    void (*warning)(void *context, const char *text);
    void *context;
    /* With `listen`: a file of the token that they have (`culm keys new`), which is read at once. NULL: one is drawn, and
     * written to DIR/token for as long as the run lasts. */
    const char *token_file;
    /* With `listen`, if limit_workers is set: at most so many processes in each role on this machine; 0: none, only those who join. */
    bool limit_workers;
    int64_t workers;
};

/* Checks the configuration, the options and the run directory; starts nothing, and writes nothing, but with
 * `checkpoint.to`, as culm_training_new (culm/train.h). The configuration is not needed afterwards. CULM_ERR_EXISTS: a run is in `dir`. CULM_ERR_CONFIG: a key
 * or a value is wrong, or differs from the run to be resumed where it must not. CULM_ERR_NOT_FOUND:
 * the `culm` program was not found. */
CULM_API enum culm_status culm_gnn_training_new(const struct culm_config *config,
                                                const struct culm_gnn_training_options *options,
                                                struct culm_gnn_training **ret_training,
                                                struct culm_error *error);
/* Makes all checks that a run makes before it writes anything: reads and cuts the graph, and builds
 * the model. Returns what the run would do, as a JSON object: the fields of the event `plan`
 * (docs/formats.md), and `parameters`, `intervals`, `servers`, `parameter_servers` and `workers`. It
 * lives until the next call or culm_gnn_training_free. */
CULM_API enum culm_status culm_gnn_training_plan(struct culm_gnn_training *training,
                                                 const char **ret_json, struct culm_error *error);
/* Trains to the end: claims the run directory, starts nodes, and replaces those that are lost. May be
 * called once per object. CULM_ERR_STOPPED: culm_gnn_training_stop was called; a checkpoint holds all
 * epochs that were committed; if the graph was being cut, nothing was written, and there is no run to
 * resume. Whatever it returns, no process of the run is left. */
CULM_API enum culm_status culm_gnn_training_run(struct culm_gnn_training *training,
                                                struct culm_error *error);
/* Asks the run to write a checkpoint and end, as soon as it can, however often it is called. May be
 * called by any thread, from a signal handler, and before or after culm_gnn_training_run. */
CULM_API void culm_gnn_training_stop(struct culm_gnn_training *training);
/* Ends the run at once. What was committed since the last checkpoint has to be done again, which makes
 * culm_gnn_training_run fail with CULM_ERR_AGAIN, unless there is nothing. From the same places as
 * culm_gnn_training_stop. */
CULM_API void culm_gnn_training_abort(struct culm_gnn_training *training);
CULM_API void culm_gnn_training_free(struct culm_gnn_training *training);

/* What a run on a graph has done so far, according to its events. */
struct culm_gnn_summary_info {
    size_t size;    /* sizeof(struct culm_gnn_summary_info), set by the caller */
    int64_t done;   /* 1: it has ended; 0: not yet */
    int64_t epochs; /* that are done and were not rolled back */
    double loss;    /* of the last of these epochs; NaN if there is none */
    /* Shares of the vertices that validate and test that are right, and of the latter after the epoch
     * that was best on the former; NaN until the run is done, or where there are no such vertices. */
    double valid, test, test_at_best_valid;
    double usd; /* what it has cost so far, by its prices */
    int64_t lost_servers, lost_parameter_servers, lost_workers;
    int64_t rollbacks, epochs_redone;
    double pause_ms_median, pause_ms_max;      /* after losses; 0 if there was no pause */
    double rate_per_s;                         /* epochs per second, median */
    char weights_sha256[72], state_sha256[72]; /* 64 digits and a NUL; "" until the run is done */
    /* Where the time of all its launches went (docs/formats.md); goodput is the useful share, 1 if
     * there was no time. */
    double goodput, useful_ms, redone_ms, paused_ms, waiting_ms, saving_ms;
};
/* CULM_ERR_NOT_FOUND: `dir` holds no run. CULM_ERR_CONFIG: it holds one of another job. */
CULM_API enum culm_status culm_gnn_summary(const char *dir,
                                           struct culm_gnn_summary_info *ret_summary,
                                           struct culm_error *error);

/* --- what was learned --------------------------------------------------------------------------- */

struct culm_gnn_evaluate_options {
    size_t size; /* sizeof(struct culm_gnn_evaluate_options) */
    /* A safetensors file, the index of its shards or their folder, a checkpoint, or a run; of a run
     * also "best": its best.safetensors. NULL: the model's own. */
    const char *weights;
    void (*warning)(void *context, const char *text);
    void *context;
    /* Not 0, of a run: weights that are better on the vertices that validate than its
     * best.safetensors take the place of that. */
    int64_t best;
};
/* Arrays have an element for the vertices that train, validate and test. */
struct culm_gnn_evaluate_result {
    size_t size;      /* sizeof(struct culm_gnn_evaluate_result), set by the caller */
    int64_t vertices; /* of the graph */
    int64_t count[3], correct[3];
    double auc[3]; /* area under the ROC curve, with two classes; -1: not known */
    int64_t best;  /* 1: the weights were kept as best.safetensors */
};
/* Evaluates the final model of the run in the folder `what`, that of a checkpoint, or the weights that
 * training by the configuration file `what` would start from. It computes in this process, with the
 * `threads` of the configuration. `options` may be NULL. CULM_ERR_CONFIG: the run has not ended; the
 * graph, cut or model is not what it was when the run began; or logits are not finite. */
CULM_API enum culm_status culm_gnn_evaluate(const char *what,
                                            const struct culm_gnn_evaluate_options *options,
                                            struct culm_gnn_evaluate_result *ret_result,
                                            struct culm_error *error);

/* The logits of every vertex of a graph. They never change, so any number of threads may use one
 * object at once. */
struct culm_gnn_prediction;

struct culm_gnn_predict_options {
    size_t size;         /* sizeof(struct culm_gnn_predict_options) */
    const char *weights; /* as in struct culm_gnn_evaluate_options */
    const char
        *graph;      /* another graph with the same features, which needs neither labels nor splits;
                            NULL: that of the run, which must not have changed */
    const char *out; /* a .npy file to write as well, f32 [vertices, classes]; NULL: none */
    void (*warning)(void *context, const char *text);
    void *context;
};
/* By the model of the run in the folder `what`, or of a checkpoint of it. `options` may be NULL. Errors
 * as of culm_gnn_evaluate. */
CULM_API enum culm_status culm_gnn_predict(const char *what,
                                           const struct culm_gnn_predict_options *options,
                                           struct culm_gnn_prediction **ret_prediction,
                                           struct culm_error *error);
CULM_API void culm_gnn_prediction_free(struct culm_gnn_prediction *prediction);
/* These are 0 or NULL if `prediction` is NULL. */
CULM_API int64_t culm_gnn_prediction_vertices(const struct culm_gnn_prediction *prediction);
CULM_API int64_t culm_gnn_prediction_classes(const struct culm_gnn_prediction *prediction);
/* [vertices, classes]; the largest in a row is the predicted class. */
CULM_API const float *culm_gnn_prediction_logits(const struct culm_gnn_prediction *prediction);

#ifdef __cplusplus
}
#endif

#endif
