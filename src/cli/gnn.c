/*
 * `culm gnn`: dispatches its subcommands, and does those without files of their own. `show` and
 * `partition` read a data graph, `import` and `make` write one.
 */
#include "cli/command.h"
#include "cli/options.h"
#include "run/gnn_commands.h"
#include "run/gnn_training.h"

#include "base/json.h"
#include "base/words.h"

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
                "eval: keeps the weights as DIR/best.safetensors if this is better, on the "
                "vertices that validate, than that of those there",
                .words = best_words),
    CULM_OPTION(
        "split", TEXT, "N|A/B/C", struct values, split,
        "show: the split to count (default: 0); import, make: percent that train, validate, "
        "test"),
    CULM_OPTION("splits", INT, "N", struct values, splits,
                "import, make: how many such splits (default: 1)"),
    CULM_OPTION("seed", TEXT, "S", struct values, seed,
                "import: of the first split; make, and METIS in partition: of all that is drawn "
                "(default: 0)"),
    CULM_OPTION("intervals", INT, "K", struct values, intervals, "partition: how many intervals"),
    CULM_OPTION("servers", INT, "N", struct values, servers,
                "partition: servers that share the intervals (default: one each)"),
    CULM_OPTION("method", TEXT, "metis|stream|FILE", struct values, method,
                "partition: METIS, streaming (default where METIS lacks memory), or a file with a "
                "number per vertex"),
    CULM_OPTION("labels", TEXT, "FILE", struct values, labels,
                "import edges: lines of a vertex and its label, or of a label"),
    CULM_OPTION("features", TEXT, "FILE|F", struct values, features,
                "import edges: a .npy or .json file; make: how many (default: sbm 16, rmat 0)"),
    CULM_OPTION("directed", FLAG, NULL, struct values, directed,
                "import: an edge leads from the first vertex to the second"),
    CULM_OPTION("vertices", INT, "N", struct values, vertices,
                "import edges, make: how many vertices"),
    CULM_OPTION("edges", INT, "M", struct values, edges,
                "make: how many edges; knn: going out, so M/N of each vertex (default: 8)"),
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
    .summary = "Trains graph networks; makes data graphs and looks at them",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .parts = with_options,
    .config = culm_gnn_training_reference,
    .details =
        "train, server, worker, cost and bundle have options of their own; 'culm gnn train "
        "--help'\n"
        "lists those of train, and 'culm help config gnn' every key of its configuration.\n"
        "\n"
        "A graph is a folder: graph.json, and arrays as .npy files (docs/gnn.md has the format).\n"
        "Everything in it is checked whenever it is read.\n"
        "\n"
        "partition cuts the vertices into intervals, which servers own as a whole. It prints the\n"
        "edges between servers, the rows of others that servers need (ghosts), and the load of "
        "the\n"
        "largest over the mean; load is vertices and edges.\n"
        "\n"
        "import edges reads text: two ids a line, with blanks or a comma between. import npz "
        "reads\n"
        "an archive with adj_indices, adj_indptr, adj_shape, attr_*, labels, or edges,\n"
        "node_features, node_labels and masks.\n"
        "\n"
        "make rmat has few vertices with most edges, make sbm has classes that can be learned, "
        "and\n"
        "make knn IMAGES [LABELS] joins each image of an IDX file with its nearest ones.\n",
};

/* --- printing --- */

static void print_about(const struct culm_gnn_about *a, bool json) {
    if (json) {
        json_t *object = json_pack(
            "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I}", "name",
            culm_json_text(a->name), "vertices", (json_int_t)a->vertices, "edges",
            (json_int_t)a->edges, "features", (json_int_t)a->features, "classes",
            (json_int_t)a->classes, "splits", (json_int_t)a->splits, "train", (json_int_t)a->train,
            "valid", (json_int_t)a->valid, "test", (json_int_t)a->test, "isolated",
            (json_int_t)a->isolated, "directed", a->directed, "degree_max",
            (json_int_t)a->degree_most, "entries", (json_int_t)a->entries);
        if (a->entries < 0) {
            json_object_del(object, "entries");
        }
        culm_cli_print_json(object);
        return;
    }
    printf("%s: %lld vertices, %lld edges%s\n", a->name, (long long)a->vertices,
           (long long)a->edges, a->directed ? ", directed" : "");
    printf("  largest degree %lld; isolated vertices %lld\n", (long long)a->degree_most,
           (long long)a->isolated);
    if (a->features == 0) {
        printf("  no features\n");
    } else if (a->entries < 0) {
        printf("  %lld features, dense\n", (long long)a->features);
    } else {
        printf("  %lld features, sparse: %lld entries\n", (long long)a->features,
               (long long)a->entries);
    }
    printf("  %lld classes, %lld splits\n", (long long)a->classes, (long long)a->splits);
    if (a->splits > 0) {
        printf("  split %lld: %lld train, %lld validate, %lld test\n", (long long)a->split,
               (long long)a->train, (long long)a->valid, (long long)a->test);
    }
}

static void print_config(const struct culm_gnn_config_about *c, bool json) {
    json_t *order = json_array();
    for (int32_t l = 0; l < c->layers; l++) {
        const char *word = c->multiply_first[l]      ? "multiply"
                           : l == 0 && c->aggregated ? "cached"
                                                     : "gather";
        json_array_append_new(order, json_string(word));
    }
    if (json) {
        culm_cli_print_json(json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
            "vertices", (json_int_t)c->graph.vertices, "edges", (json_int_t)c->graph.edges,
            "features", (json_int_t)c->graph.features, "classes", (json_int_t)c->graph.classes,
            "train", (json_int_t)c->graph.train, "valid", (json_int_t)c->graph.valid, "test",
            (json_int_t)c->graph.test, "parameters", (json_int_t)c->parameters, "floats_per_edge",
            (json_int_t)c->floats_per_edge, "bytes_per_vertex", (json_int_t)c->bytes_per_vertex,
            "ghost_floats_per_vertex", (json_int_t)c->ghost_floats_per_vertex, "memory_bytes",
            (json_int_t)c->memory_bytes, "cut_edges", (json_int_t)c->cut_edges, "ghosts",
            (json_int_t)c->ghosts, "order", order));
        return;
    }
    print_about(&c->graph, false);
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

static void print_partition(const struct culm_gnn_partition *p, bool json) {
    if (json) {
        culm_cli_print_json(json_pack(
            "{s:I, s:I, s:f, s:I, s:I, s:I, s:[I, I], s:[I, I], s:s}", "cut_edges",
            (json_int_t)p->cut_edges, "ghosts", (json_int_t)p->ghosts, "balance", p->balance,
            "intervals", (json_int_t)p->intervals, "servers", (json_int_t)p->servers,
            "interval_cut_edges", (json_int_t)p->between_intervals, "vertices",
            (json_int_t)p->vertices_least, (json_int_t)p->vertices_most, "edges",
            (json_int_t)p->edges_least, (json_int_t)p->edges_most, "method", p->method));
        return;
    }
    printf("%lld interval%s on %lld server%s (%s): %lld edges between servers, %lld between "
           "intervals\n",
           (long long)p->intervals, p->intervals == 1 ? "" : "s", (long long)p->servers,
           p->servers == 1 ? "" : "s", p->method, (long long)p->cut_edges,
           (long long)p->between_intervals);
    printf("  %lld ghost rows, balance %.3f\n", (long long)p->ghosts, p->balance);
    printf("  a server has %lld to %lld vertices, %lld to %lld edges to gather over\n",
           (long long)p->vertices_least, (long long)p->vertices_most, (long long)p->edges_least,
           (long long)p->edges_most);
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

static enum culm_status show(const char *path, const struct values *v, struct culm_error *error) {
    struct culm_gnn_about about;
    int64_t split = 0;
    if (!culm_gnn_is_graph(path) && v->split) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--split is for a graph; a configuration has the key graph.split");
    }
    if (!culm_gnn_is_graph(path)) {
        struct culm_gnn_config_about config;
        char note[CULM_ERROR_MAX];
        enum culm_status read = culm_gnn_show_config(path, &config, note, error);
        if (read == CULM_OK) {
            culm_cli_note("gnn", note);
            print_config(&config, v->json);
        }
        return read;
    }
    enum culm_status status = number_of("split", v->split, 0, INT32_MAX, &split, error);
    if (status == CULM_OK) {
        status = culm_gnn_show(path, split, &about, error);
    }
    if (status == CULM_OK) {
        print_about(&about, v->json);
    }
    return status;
}

static enum culm_status evaluate(const char *path, const struct values *v,
                                 struct culm_error *error) {
    static const char *const parts[] = {"train", "valid", "test"};
    struct culm_gnn_evaluation e;
    char note[CULM_ERROR_MAX];
    enum culm_status status = culm_gnn_eval(path, v->weights, v->best != 0, &e, note, error);
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
        json_object_set_new(object, "best", json_boolean(e.best));
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
    int64_t vertices, classes;
    char note[CULM_ERROR_MAX];
    if (!v->out) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "name the file to write: culm gnn predict DIR --out LOGITS.npy");
    }
    enum culm_status status =
        culm_gnn_predict(dir, v->weights, v->graph, v->out, &vertices, &classes, note, error);
    if (status == CULM_OK) {
        culm_cli_note("gnn", note);
    }
    if (status == CULM_OK && v->json) {
        culm_cli_print_json(json_pack("{s:o, s:I, s:I}", "out", culm_json_text(v->out), "vertices",
                                      (json_int_t)vertices, "classes", (json_int_t)classes));
    } else if (status == CULM_OK) {
        printf("%s: %lld vertices, %lld classes\n", v->out, (long long)vertices,
               (long long)classes);
    }
    return status;
}

static enum culm_status partition(const char *path, const struct values *v,
                                  struct culm_error *error) {
    struct culm_gnn_partition_options how = {
        .intervals = v->intervals, .servers = v->servers, .method = v->method, .out = v->out};
    struct culm_gnn_partition result;
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
static enum culm_status check_new(const struct culm_gnn_new *new, bool import,
                                  const struct values *v, struct culm_error *error) {
    const char *const *kinds = import ? culm_gnn_import_kinds : culm_gnn_make_kinds;
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
    struct culm_gnn_new new = {.kind = arguments->items[1],
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
                               .out = v->out};
    struct culm_gnn_about about;
    int64_t seed = 0;
    enum culm_status status = check_new(&new, import, v, error);
    if (status == CULM_OK) {
        status = number_of("seed", v->seed, 0, INT64_MAX, &seed, error);
    }
    new.seed = (uint64_t)seed;
    if (status == CULM_OK && !import) {
        status = number_of("features", v->features, 1, INT32_MAX, &new.columns, error);
    }
    if (status == CULM_OK) {
        status = culm_gnn_create(&new, &about, error);
    }
    if (status == CULM_OK) {
        print_about(&about, v->json);
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
