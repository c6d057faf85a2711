/*
 * `culm gnn`: dispatches its subcommands, and does those without files of their own. `show` and
 * `partition` read a data graph, `import` and `make` write one.
 */
#include "cli/command.h"
#include "cli/options.h"
#include "run/gnn_nodes.h"
#include "run/references.h"

#include "base/json.h"
#include "base/words.h"

#include <culm/gnn.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const best_words[] = {"none", "accuracy", NULL};

struct values {
    bool json, directed;
    int best; /* of best_words */
    const char *out, *method, *split, *seed, *labels, *features, *graph, *weights;
    int64_t intervals, servers, vertices, edges, classes, splits;
};

static const struct culm_option options[] = {
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON object"),
    CULM_OPTION("out", TEXT, "PATH", struct values, out,
                "import, make: the folder to write; partition: a file for the interval of each "
                "vertex; predict: a .npy file"),
    CULM_OPTION("graph", TEXT, "GRAPH", struct values, graph,
                "predict: another graph with the same features (default: that of the run)"),
    CULM_OPTION("weights", TEXT, "PATH", struct values, weights,
                "eval, predict: a safetensors file, its shards, a checkpoint or a run; best: "
                "DIR/best.safetensors (default: the model's own)"),
    CULM_OPTION("best", WORD, "accuracy|none", struct values, best,
                "eval: keeps the weights as DIR/best.safetensors if they are better, on the "
                "validation vertices, than those kept there",
                .words = best_words),
    CULM_OPTION("split", TEXT, "N|A/B/C", struct values, split,
                "show: the split to count (default: 0); import, make: percentages for training, "
                "validation and testing"),
    CULM_OPTION("splits", INT, "N", struct values, splits,
                "import, make: how many such splits (default: 1)"),
    CULM_OPTION("seed", TEXT, "S", struct values, seed,
                "import: seed of the first split; make, and METIS in partition: seed of all random "
                "choices (default: 0)"),
    CULM_OPTION("intervals", INT, "K", struct values, intervals, "partition: how many intervals"),
    CULM_OPTION("servers", INT, "N", struct values, servers,
                "partition: number of servers (default: one per interval)"),
    CULM_OPTION("method", TEXT, "metis|stream|FILE", struct values, method,
                "partition: METIS, streaming (the default where METIS would lack memory), or a "
                "file with a number per vertex"),
    CULM_OPTION("labels", TEXT, "FILE", struct values, labels,
                "import edges: lines of a vertex and its label, or of labels alone"),
    CULM_OPTION("features", TEXT, "FILE|F", struct values, features,
                "import edges: a .npy or .json file; make: how many (default: sbm 16, rmat 0)"),
    CULM_OPTION("directed", FLAG, NULL, struct values, directed,
                "import: an edge leads from the first vertex to the second"),
    CULM_OPTION("vertices", INT, "N", struct values, vertices,
                "import edges, make: how many vertices"),
    CULM_OPTION("edges", INT, "M", struct values, edges,
                "make: how many edges; knn: outgoing ones, M/N per vertex (default: 8 per vertex)"),
    CULM_OPTION("classes", INT, "C", struct values, classes,
                "make: how many classes (default: sbm 4, rmat 0)"),
};

static const struct culm_usage *const with_options[] = {
    &culm_usage_gnn_train, &culm_usage_gnn_server, &culm_usage_gnn_worker,
    &culm_usage_gnn_cost,  &culm_usage_gnn_bundle, NULL};

const struct culm_usage culm_usage_gnn = {
    .command = "gnn",
    .arguments = "train CONFIG.yaml | server|worker --join HOST:PORT --token-file F | bundle --out "
                 "FUNCTION.zip | eval "
                 "CONFIG|DIR|CHECKPOINT | predict DIR|CHECKPOINT --out LOGITS.npy | cost "
                 "DIR|published|prices | show "
                 "GRAPH|CONFIG|DIR | partition GRAPH --intervals K | import "
                 "edges|npz FILE... --out GRAPH "
                 "| make rmat|sbm|knn [FILE...] --out GRAPH",
    .min_arguments = 1,
    .max_arguments = 8,
    .summary = "Trains graph networks; makes, imports and inspects data graphs",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .parts = with_options,
    .config = culm_gnn_reference,
    .details =
        "train, server, worker, cost and bundle have options of their own; 'culm gnn train "
        "--help'\n"
        "lists those of train, and 'culm help config gnn' every key of its configuration.\n\n"
        "A graph is a folder: graph.json, and arrays as .npy files (docs/gnn.md has the format).\n"
        "Everything in it is checked whenever it is read.\n\n"
        "partition divides the vertices into intervals, which servers own as a whole. It prints "
        "the\n"
        "number of edges between servers, of rows that servers need from each other (ghosts), and\n"
        "the load (vertices and edges) of the busiest server relative to the mean.\n\n"
        "import edges reads text: two vertex ids per line, separated by blanks or a comma. import "
        "npz\n"
        "reads an archive with adj_indices, adj_indptr, adj_shape, attr_*, labels, or edges,\n"
        "node_features, node_labels and masks.\n\n"
        "In a graph of make rmat, a few vertices have most of the edges; a graph of make sbm has\n"
        "classes that can be learned; make knn IMAGES [LABELS] joins each image of an IDX file "
        "with\n"
        "the images nearest to it.\n",
};

/* --- printing --- */

static void print_about(const struct culm_gnn_graph_info *a, bool json) {
    if (json) {
        json_t *object =
            json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I}", "name",
                      culm_json_text(a->name), "vertices", (json_int_t)a->vertices, "edges",
                      (json_int_t)a->edges, "features", (json_int_t)a->features, "classes",
                      (json_int_t)a->classes, "splits", (json_int_t)a->splits, "train",
                      (json_int_t)a->count[0], "valid", (json_int_t)a->count[1], "test",
                      (json_int_t)a->count[2], "isolated", (json_int_t)a->isolated, "directed",
                      a->directed != 0, "degree_max", (json_int_t)a->degree_max, "entries",
                      (json_int_t)a->entries);
        if (a->entries < 0) {
            json_object_del(object, "entries");
        }
        culm_cli_print_json(object);
        return;
    }
    printf("%s: %lld vertices, %lld edges%s\n", a->name, (long long)a->vertices,
           (long long)a->edges, a->directed ? ", directed" : "");
    printf("  largest degree %lld; isolated vertices %lld\n", (long long)a->degree_max,
           (long long)a->isolated);
    if (a->features == 0) {
        printf("  no features\n");
    } else if (a->entries < 0) {
        printf("  %lld features, dense\n", (long long)a->features);
    } else {
        printf("  %lld features, sparse: %lld entries\n", (long long)a->features,
               (long long)a->entries);
    }
    printf("  %lld class%s, %lld split%s\n", (long long)a->classes, a->classes == 1 ? "" : "es",
           (long long)a->splits, a->splits == 1 ? "" : "s");
    if (a->splits > 0) {
        printf("  split %lld: %lld train, %lld validate, %lld test\n", (long long)a->split,
               (long long)a->count[0], (long long)a->count[1], (long long)a->count[2]);
    }
}

static void print_config(const struct culm_gnn_graph_info *g, const struct culm_gnn_show_info *c,
                         bool json) {
    json_t *order = json_array();
    for (int64_t l = 0; l < c->layers; l++) {
        const char *word = c->multiply_first[l]      ? "multiply"
                           : l == 0 && c->aggregated ? "cached"
                                                     : "gather";
        json_array_append_new(order, json_string(word));
    }
    if (json) {
        culm_cli_print_json(json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
            "vertices", (json_int_t)g->vertices, "edges", (json_int_t)g->edges, "features",
            (json_int_t)g->features, "classes", (json_int_t)g->classes, "train",
            (json_int_t)g->count[0], "valid", (json_int_t)g->count[1], "test",
            (json_int_t)g->count[2], "parameters", (json_int_t)c->parameters, "floats_per_edge",
            (json_int_t)c->floats_per_edge, "bytes_per_vertex", (json_int_t)c->bytes_per_vertex,
            "ghost_floats_per_vertex", (json_int_t)c->ghost_floats_per_vertex, "memory_bytes",
            (json_int_t)c->memory_bytes, "cut_edges", (json_int_t)c->cut_edges, "ghosts",
            (json_int_t)c->ghosts, "order", order));
        return;
    }
    print_about(g, false);
    printf("%lld parameters; order of the layers:", (long long)c->parameters);
    for (size_t l = 0; l < json_array_size(order); l++) {
        printf(" %s", json_string_value(json_array_get(order, l)));
    }
    printf(
        "\n  an epoch gathers %lld floats per edge, and sends %lld floats of a row to a server\n",
        (long long)c->floats_per_edge, (long long)c->ghost_floats_per_vertex);
    printf("  rows to and from workers: %lld bytes per vertex\n", (long long)c->bytes_per_vertex);
    printf("  %lld edges between %lld server%s, %lld ghost rows; about %.0f MB\n",
           (long long)c->cut_edges, (long long)c->servers, c->servers == 1 ? "" : "s",
           (long long)c->ghosts, (double)c->memory_bytes / 1e6);
    json_decref(order);
}

static void print_partition(const struct culm_gnn_partition_info *p, bool json) {
    if (json) {
        culm_cli_print_json(json_pack(
            "{s:I, s:I, s:f, s:I, s:I, s:I, s:[I, I], s:[I, I], s:s}", "cut_edges",
            (json_int_t)p->cut_edges, "ghosts", (json_int_t)p->ghosts, "balance", p->balance,
            "intervals", (json_int_t)p->intervals, "servers", (json_int_t)p->servers,
            "interval_cut_edges", (json_int_t)p->interval_cut_edges, "vertices",
            (json_int_t)p->vertices_min, (json_int_t)p->vertices_max, "edges",
            (json_int_t)p->edges_min, (json_int_t)p->edges_max, "method", p->method));
        return;
    }
    printf("%lld interval%s on %lld server%s (%s): %lld edges between servers, %lld between "
           "intervals\n",
           (long long)p->intervals, p->intervals == 1 ? "" : "s", (long long)p->servers,
           p->servers == 1 ? "" : "s", p->method, (long long)p->cut_edges,
           (long long)p->interval_cut_edges);
    printf("  %lld ghost rows, balance %.3f\n", (long long)p->ghosts, p->balance);
    printf("  a server has %lld to %lld vertices, %lld to %lld edges to gather over\n",
           (long long)p->vertices_min, (long long)p->vertices_max, (long long)p->edges_min,
           (long long)p->edges_max);
}

/* --- the actions --- */

/* Parses an option that must be a number here, though other commands take other values for it. */
static enum culm_status number_of(const char *option, const char *text, int64_t least, int64_t most,
                                  int64_t *ret_value, struct culm_error *error) {
    char *end;
    errno = 0;
    long long value = text ? strtoll(text, &end, 10) : 0;
    if (text && (end == text || *end || value < least || value > most || errno)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--%s %.40s: must be a whole number from %lld to %lld", option, text,
                              (long long)least, (long long)most);
    }
    *ret_value = value;
    return CULM_OK;
}

/* What a call has to say beside its result, which is printed in front of that. */
static void keep_note(void *context, const char *text) {
    snprintf(context, CULM_ERROR_MAX, "%s", text);
}

static enum culm_status show_config(const char *path, const struct values *v,
                                    struct culm_error *error) {
    struct culm_gnn_graph_info graph = {.size = sizeof graph};
    struct culm_gnn_show_info info = {.size = sizeof info};
    char note[CULM_ERROR_MAX] = "";
    const struct culm_gnn_show_options how = {
        .size = sizeof how, .warning = keep_note, .context = note};
    if (v->split) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--split is for a graph; a configuration has the key graph.split");
    }
    enum culm_status status = culm_gnn_show(path, &how, &graph, &info, error);
    if (status == CULM_OK) {
        culm_cli_note("gnn", note);
        print_config(&graph, &info, v->json);
    }
    return status;
}

static enum culm_status show(const char *path, const struct values *v, struct culm_error *error) {
    struct culm_gnn_graph_info info = {.size = sizeof info};
    int64_t split = 0;
    if (!culm_cli_is_graph(path)) {
        return show_config(path, v, error);
    }
    enum culm_status status = number_of("split", v->split, 0, INT32_MAX, &split, error);
    if (status == CULM_OK) {
        status = culm_gnn_graph_show(path, split, &info, error);
    }
    if (status == CULM_OK) {
        print_about(&info, v->json);
    }
    return status;
}

static enum culm_status evaluate(const char *path, const struct values *v,
                                 struct culm_error *error) {
    static const char *const parts[] = {"train", "valid", "test"};
    struct culm_gnn_evaluate_result e = {.size = sizeof e};
    char note[CULM_ERROR_MAX] = "";
    const struct culm_gnn_evaluate_options how = {.size = sizeof how,
                                                  .weights = v->weights,
                                                  .warning = keep_note,
                                                  .context = note,
                                                  .best = v->best};
    enum culm_status status = culm_gnn_evaluate(path, &how, &e, error);
    if (status != CULM_OK) {
        return status;
    }
    culm_cli_note("gnn", note);
    json_t *object =
        json_pack("{s:o, s:I}", "name", culm_json_text(path), "vertices", (json_int_t)e.vertices);
    bool first = true;
    for (int i = 0; i < 3; i++) {
        if (e.count[i] == 0) {
            continue;
        }
        double share = (double)e.correct[i] / (double)e.count[i];
        char auc[16];
        snprintf(auc, sizeof auc, "%s_auc", parts[i]);
        json_object_set_new(object, parts[i], json_real(share));
        if (e.auc[i] >= 0) {
            json_object_set_new(object, auc, json_real(e.auc[i]));
        }
        if (!v->json) {
            printf("%s%s %.2f %% of %lld", first ? "" : ", ", parts[i], 100 * share,
                   (long long)e.count[i]);
            first = false;
            printf(e.auc[i] >= 0 ? " (ROC AUC %.4f)" : "", e.auc[i]);
        }
    }
    if (v->best) {
        json_object_set_new(object, "best", json_boolean(e.best != 0));
    }
    if (v->json) {
        culm_cli_print_json(json_incref(object));
    } else {
        printf("\n");
    }
    if (v->best && !v->json) {
        printf(e.best ? "kept as %s/best.safetensors\n"
                      : "%s/best.safetensors is as good or better\n",
               path);
    }
    json_decref(object);
    return CULM_OK;
}

static enum culm_status predict(const char *dir, const struct values *v, struct culm_error *error) {
    struct culm_gnn_prediction *prediction = NULL;
    char note[CULM_ERROR_MAX] = "";
    const struct culm_gnn_predict_options how = {.size = sizeof how,
                                                 .weights = v->weights,
                                                 .graph = v->graph,
                                                 .out = v->out,
                                                 .warning = keep_note,
                                                 .context = note};
    if (!v->out) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "name the file to write: culm gnn predict DIR --out LOGITS.npy");
    }
    enum culm_status status = culm_gnn_predict(dir, &how, &prediction, error);
    if (status != CULM_OK) {
        return status;
    }
    const int64_t vertices = culm_gnn_prediction_vertices(prediction),
                  classes = culm_gnn_prediction_classes(prediction);
    culm_gnn_prediction_free(prediction);
    culm_cli_note("gnn", note);
    if (v->json) {
        culm_cli_print_json(json_pack("{s:o, s:I, s:I}", "out", culm_json_text(v->out), "vertices",
                                      (json_int_t)vertices, "classes", (json_int_t)classes));
    } else {
        printf("%s: %lld vertices, %lld classes\n", v->out, (long long)vertices,
               (long long)classes);
    }
    return CULM_OK;
}

static enum culm_status partition(const char *path, const struct values *v,
                                  struct culm_error *error) {
    struct culm_gnn_partition_options how = {.size = sizeof how,
                                             .intervals = v->intervals,
                                             .servers = v->servers,
                                             .method = v->method,
                                             .out = v->out};
    struct culm_gnn_partition_info result = {.size = sizeof result};
    if (!v->intervals) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "say how many intervals: culm gnn partition GRAPH --intervals K");
    }
    if (v->seed && v->method && strcmp(v->method, "metis") != 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--seed is for METIS; nothing is drawn with --method %.200s",
                              v->method);
    }
    int64_t seed = 0;
    enum culm_status status = number_of("seed", v->seed, 0, INT64_MAX, &seed, error);
    if (status == CULM_OK) {
        how.seed = (uint64_t)seed;
        status = culm_gnn_partition(path, &how, &result, error);
    }
    if (status == CULM_OK) {
        print_partition(&result, v->json);
    }
    return status;
}

/* Kinds there are, and options that need others. */
static enum culm_status check_new(const struct culm_gnn_create_options *new, bool import,
                                  const struct values *v, struct culm_error *error) {
    static const char *const imported[] = {"edges", "npz", NULL};
    static const char *const made[] = {"rmat", "sbm", "knn", NULL};
    const char *const *kinds = import ? imported : made;
    if (culm_word_find(kinds, new->kind) < 0) {
        char known[64];
        culm_words_list(kinds, known, sizeof known);
        return culm_error_set(error, CULM_ERR_ARGUMENT, "unknown kind '%.40s'; allowed: %s",
                              new->kind, known);
    }
    if (v->splits && !v->split) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--splits needs --split A/B/C");
    }
    if (v->seed && !v->split && import) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--seed needs --split A/B/C");
    }
    if (v->seed && !strcmp(new->kind, "knn") && new->file_count < 2) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--seed is for the split, which needs a file of labels");
    }
    return CULM_OK;
}

static enum culm_status create(const struct culm_arguments *arguments, bool import,
                               const struct values *v, struct culm_error *error) {
    struct culm_gnn_create_options new = {.size = sizeof new,
                                          .kind = arguments->items[1],
                                          .files = arguments->items + 2,
                                          .file_count = arguments->count - 2,
                                          .labels = v->labels,
                                          .features = import ? v->features : NULL,
                                          .vertices = v->vertices,
                                          .edges = v->edges,
                                          .classes = v->classes,
                                          .directed = v->directed,
                                          .split = v->split,
                                          .splits = v->splits,
                                          .path = v->out};
    struct culm_gnn_graph_info info = {.size = sizeof info};
    int64_t seed = 0;
    enum culm_status status = check_new(&new, import, v, error);
    if (status == CULM_OK) {
        status = number_of("seed", v->seed, 0, INT64_MAX, &seed, error);
    }
    new.seed = (uint64_t)seed;
    if (status == CULM_OK && !import) {
        status = number_of("features", v->features, 1, INT32_MAX, &new.columns, error);
    }
    if (status == CULM_OK && !v->out) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT, "say where the graph goes: --out FOLDER");
    }
    if (status == CULM_OK) {
        status = culm_gnn_graph_create(&new, &info, error);
    }
    if (status == CULM_OK) {
        print_about(&info, v->json);
    }
    return status;
}

enum { SHOW = 1, PARTITION = 2, IMPORT = 4, MAKE = 8, EVAL = 16, PREDICT = 32 };

/* Refuses options that the command does not use: they are mistakes. */
static enum culm_status check_options(const struct values *v, unsigned action,
                                      struct culm_error *error) {
    const struct {
        bool given;
        const char *option;
        unsigned actions;
        const char *commands;
    } rows[] = {
        {v->out, "out", IMPORT | MAKE | PARTITION | PREDICT,
         "culm gnn import|make|partition|predict"},
        {v->graph, "graph", PREDICT, "culm gnn predict"},
        {v->best, "best", EVAL, "culm gnn eval"},
        {v->weights, "weights", EVAL | PREDICT, "culm gnn eval|predict"},
        {v->split, "split", SHOW | IMPORT | MAKE, "culm gnn show|import|make"},
        {v->splits, "splits", IMPORT | MAKE, "culm gnn import|make"},
        {v->seed, "seed", IMPORT | MAKE | PARTITION, "culm gnn import|make|partition"},
        {v->intervals, "intervals", PARTITION, "culm gnn partition"},
        {v->servers, "servers", PARTITION, "culm gnn partition"},
        {v->method, "method", PARTITION, "culm gnn partition"},
        {v->labels, "labels", IMPORT, "culm gnn import"},
        {v->features, "features", IMPORT | MAKE, "culm gnn import|make"},
        {v->directed, "directed", IMPORT, "culm gnn import"},
        {v->vertices, "vertices", IMPORT | MAKE, "culm gnn import|make"},
        {v->edges, "edges", MAKE, "culm gnn make"},
        {v->classes, "classes", MAKE, "culm gnn make"},
    };
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == CULM_OK; i++) {
        bool slip = rows[i].given && !(rows[i].actions & action);
        status = culm_cli_only(slip, rows[i].option, rows[i].commands, error);
    }
    return status;
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    static const char *const actions[] = {"show", "partition", "import", "make",
                                          "eval", "predict",   NULL};
    static const char *const needs[] = {"GRAPH|CONFIG|DIR", "GRAPH",      "edges|npz",
                                        "rmat|sbm|knn",     "CONFIG|DIR", "DIR"};
    const struct values *v = values;
    const char *path = arguments->items[1];
    int index = culm_word_find(actions, arguments->items[0]);
    (void)ret_code;
    if (index < 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "no such command: '%.60s'; see 'culm gnn --help'",
                              arguments->items[0]);
    }
    unsigned action = 1u << index;
    bool creates = action == IMPORT || action == MAKE;
    if (arguments->count < 2 || (arguments->count > 2 && !creates)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "'%s' needs %s%s; see 'culm gnn --help'",
                              actions[index], needs[index],
                              arguments->count > 2 ? " and nothing else" : "");
    }
    enum culm_status status = check_options(v, action, error);
    if (status != CULM_OK) {
        return status;
    }
    switch (action) {
    case SHOW: return show(path, v, error);
    case PARTITION: return partition(path, v, error);
    case EVAL: return evaluate(path, v, error);
    case PREDICT: return predict(path, v, error);
    default: return create(arguments, action == IMPORT, v, error);
    }
}

int culm_cli_gnn(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "culm gnn: needs a command; see 'culm gnn --help'\n");
        return 2;
    }
    if (strcmp(argv[1], "train") == 0) { /* has options of its own */
        return culm_cli_gnn_train(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "cost") == 0) {
        return culm_cli_gnn_cost(argc - 1, argv + 1);
    }
    if ((strcmp(argv[1], "server") == 0 || strcmp(argv[1], "worker") == 0)) {
        return culm_cli_gnn_join(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "bundle") == 0) {
        return culm_cli_gnn_bundle(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "function") == 0) { /* what AWS Lambda starts */
        return culm_gnn_function_main();
    }
    struct values values = {0};
    return culm_cli_run(&culm_usage_gnn, argc, argv, &values, run);
}
