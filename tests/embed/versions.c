/*
 * A program that uses every structure with a size. tests/embed/versions compiles it against one
 * version of the header and runs it with the library of another; with -DNEXT, against a header in
 * which each structure has one more member, `later`, at its end.
 *
 *     versions CONFIG.yaml DIR PROGRAM older|same|newer     (the library, seen from this program)
 */
#include <culm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct culm_error error;
static const char *library;

static void fail(int line, const char *what) {
    fprintf(stderr, "versions.c:%d: %s: %s\n", line, what, error.text);
    exit(1);
}

#define MUST(condition_)                                                                           \
    do {                                                                                           \
        if (!(condition_)) {                                                                       \
            fail(__LINE__, #condition_);                                                           \
        }                                                                                          \
    } while (0)

/* A structure that the library fills, with bytes behind it that nobody may touch. */
#define GUARDED(type_, name_)                                                                      \
    struct {                                                                                       \
        struct type_ it;                                                                           \
        unsigned char guard[64];                                                                   \
    } name_;                                                                                       \
    memset(&name_, 0xa5, sizeof name_);                                                            \
    name_.it.size = sizeof name_.it

static int whole(const unsigned char *guard) {
    for (int i = 0; i < 64; i++) {
        if (guard[i] != 0xa5) {
            return 0;
        }
    }
    return 1;
}

#ifdef NEXT
/* Only a library that knows the member writes it; only that takes it. */
#define LATER(structure_)                                                                          \
    MUST((structure_).it.later == (strcmp(library, "older") ? 0 : (int64_t)0xa5a5a5a5a5a5a5a5))

/* What an older library answers to a member that it does not know. */
static void refused(enum culm_status status, const char *name) {
    MUST(status == CULM_ERR_UNSUPPORTED);
    MUST(strstr(error.text, name) && strstr(error.text, "this version of the library"));
    printf("%s\n", error.text);
}
#else
#define LATER(structure_) (void)0
#endif

/* What an older library does not know in a structure of options. */
#ifdef NEXT
#define REFUSED(structure_, name_, call_)                                                          \
    do {                                                                                           \
        if (strcmp(library, "older") == 0) {                                                       \
            (structure_).later = 1;                                                                \
            refused(call_, name_);                                                                 \
            (structure_).later = 0;                                                                \
        }                                                                                          \
    } while (0)
#else
#define REFUSED(structure_, name_, call_) (void)0
#endif

static struct culm_config *config_of(const char *path) {
    struct culm_config *config = NULL;
    MUST(culm_config_open(path, &config, &error) == CULM_OK);
    return config;
}

static void train(const char *path, const char *dir, const char *program) {
    struct culm_training_options options = {.size = sizeof options, .dir = dir, .program = program};
    struct culm_config *config = config_of(path);
    struct culm_training *training = NULL;
    GUARDED(culm_summary_info, summary);
    REFUSED(options, "culm_training_options",
            culm_training_new(config, &options, &training, &error));
    MUST(culm_training_new(config, &options, &training, &error) == CULM_OK);
    MUST(culm_training_run(training, &error) == CULM_OK);
    MUST(culm_run_summary(dir, &summary.it, &error) == CULM_OK);
    MUST(summary.it.done && summary.it.steps == 2 && strlen(summary.it.weights_sha256) == 64);
    MUST(strlen(summary.it.state_sha256) == 64 && whole(summary.guard));
    LATER(summary);
    culm_training_free(training);
    culm_config_free(config);
}

static void evaluate(const char *path, const char *dir) {
    char weights[1024];
    struct culm_config *config = config_of(path);
    struct culm_evaluate_arguments arguments = {
        .size = sizeof arguments, .weights = weights, .samples = 4, .threads = 1};
    GUARDED(culm_evaluate_result, result);
    snprintf(weights, sizeof weights, "%s/model.safetensors", dir);
    REFUSED(arguments, "culm_evaluate_arguments",
            culm_evaluate_model(config, &arguments, &result.it, &error));
    MUST(culm_evaluate_model(config, &arguments, &result.it, &error) == CULM_OK);
    MUST(result.it.samples == 4 && result.it.loss > 0 && result.it.perplexity > 1);
    MUST(whole(result.guard));
    LATER(result);
    culm_config_free(config);
}

static void look(const char *dir) {
    struct culm_model_open_options options = {.size = sizeof options, .batch = 2, .threads = 1};
    struct culm_model *model = NULL;
    struct culm_tensors *tensors = NULL;
    GUARDED(culm_array_info, input);
    GUARDED(culm_array_info, tensor);
    REFUSED(options, "culm_model_open_options", culm_model_open(dir, &options, &model, &error));
    MUST(culm_model_open(dir, &options, &model, &error) == CULM_OK);
    MUST(culm_model_input(model, 0, &input.it, &error) == CULM_OK);
    MUST(input.it.rank == 2 && input.it.shape[0] == 2 && input.it.bytes > 0 && whole(input.guard));
    LATER(input);
    MUST(culm_tensors_open(dir, true, &tensors, &error) == CULM_OK);
    MUST(culm_tensors_info(tensors, 0, &tensor.it, &error) == CULM_OK);
    MUST(tensor.it.name && tensor.it.bytes > 0 && whole(tensor.guard));
    LATER(tensor);
    culm_tensors_free(tensors);
    culm_model_free(model);
}

static bool count_bytes(void *context, const void *bytes, size_t len) {
    (void)bytes;
    *(size_t *)context += len;
    return true;
}

static void write_text(const char *dir) {
    size_t bytes = 0;
    struct culm_generate_options options = {.size = sizeof options,
                                            .prompt = "the",
                                            .tokens = 2,
                                            .text = count_bytes,
                                            .context = &bytes};
    REFUSED(options, "culm_generate_options", culm_generate(dir, &options, &error));
    MUST(culm_generate(dir, &options, &error) == CULM_OK);
    MUST(bytes == 5);
}

static void make_graphs(const char *graph, const char *drawn) {
    static const int64_t edge[] = {0, 1, 1, 2, 2, 3};
    static const float features[] = {1, 0, 0, 1, 1, 1, 0, 0};
    static const int32_t labels[] = {0, 1, 0, 1};
    static const uint8_t splits[] = {1, 1, 2, 3};
    struct culm_gnn_graph_arrays arrays = {.size = sizeof arrays,
                                           .vertices = 4,
                                           .edges = 3,
                                           .edge = edge,
                                           .features = features,
                                           .columns = 2,
                                           .labels = labels,
                                           .classes = 2,
                                           .splits = splits,
                                           .split_count = 1};
    struct culm_gnn_create_options create = {
        .size = sizeof create, .kind = "rmat", .path = drawn, .vertices = 20, .edges = 40};
    struct culm_gnn_partition_options cut = {
        .size = sizeof cut, .intervals = 2, .method = "stream"};
    GUARDED(culm_gnn_graph_info, info);
    GUARDED(culm_gnn_partition_info, parts);
    REFUSED(arrays, "culm_gnn_graph_arrays", culm_gnn_graph_write(&arrays, graph, NULL, &error));
    MUST(culm_gnn_graph_write(&arrays, graph, &info.it, &error) == CULM_OK);
    MUST(info.it.vertices == 4 && info.it.count[0] == 2 && whole(info.guard));
    LATER(info);
    REFUSED(create, "culm_gnn_create_options", culm_gnn_graph_create(&create, NULL, &error));
    MUST(culm_gnn_graph_create(&create, NULL, &error) == CULM_OK);
    REFUSED(cut, "culm_gnn_partition_options", culm_gnn_partition(graph, &cut, &parts.it, &error));
    MUST(culm_gnn_partition(graph, &cut, &parts.it, &error) == CULM_OK);
    MUST(parts.it.intervals == 2 && parts.it.interval_cut_edges > 0 && whole(parts.guard));
    LATER(parts);
}

static void train_on_graph(const char *graph, const char *path, const char *dir,
                           const char *program) {
    char text[2048];
    struct culm_config *config = NULL;
    struct culm_gnn_training *training = NULL;
    struct culm_gnn_training_options options = {
        .size = sizeof options, .dir = dir, .program = program};
    GUARDED(culm_gnn_summary_info, summary);
    FILE *file = fopen(path, "w");
    snprintf(text, sizeof text, "graph: {path: %s}\nepochs: 2\nintervals: 2\n", graph);
    MUST(file && fputs(text, file) >= 0 && fclose(file) == 0);
    MUST(culm_config_open(path, &config, &error) == CULM_OK);
    REFUSED(options, "culm_gnn_training_options",
            culm_gnn_training_new(config, &options, &training, &error));
    MUST(culm_gnn_training_new(config, &options, &training, &error) == CULM_OK);
    MUST(culm_gnn_training_run(training, &error) == CULM_OK);
    MUST(culm_gnn_summary(dir, &summary.it, &error) == CULM_OK);
    MUST(summary.it.done && summary.it.epochs == 2 && whole(summary.guard));
    LATER(summary);
    culm_gnn_training_free(training);
    culm_config_free(config);
}

static void look_at_graph(const char *path, const char *dir) {
    struct culm_gnn_show_options show = {.size = sizeof show};
    struct culm_gnn_evaluate_options evaluate = {.size = sizeof evaluate};
    struct culm_gnn_predict_options predict = {.size = sizeof predict};
    struct culm_gnn_prediction *prediction = NULL;
    GUARDED(culm_gnn_show_info, info);
    GUARDED(culm_gnn_evaluate_result, result);
    REFUSED(show, "culm_gnn_show_options", culm_gnn_show(path, &show, NULL, &info.it, &error));
    MUST(culm_gnn_show(path, &show, NULL, &info.it, &error) == CULM_OK);
    MUST(info.it.layers == 2 && info.it.parameters > 0 && whole(info.guard));
    LATER(info);
    REFUSED(evaluate, "culm_gnn_evaluate_options",
            culm_gnn_evaluate(dir, &evaluate, &result.it, &error));
    MUST(culm_gnn_evaluate(dir, &evaluate, &result.it, &error) == CULM_OK);
    MUST(result.it.vertices == 4 && result.it.count[2] == 1 && whole(result.guard));
    LATER(result);
    REFUSED(predict, "culm_gnn_predict_options",
            culm_gnn_predict(dir, &predict, &prediction, &error));
    MUST(culm_gnn_predict(dir, &predict, &prediction, &error) == CULM_OK);
    MUST(culm_gnn_prediction_vertices(prediction) == 4);
    culm_gnn_prediction_free(prediction);
}

static void merge(const char *dir) {
    static const char text[] = "feeds: {f: {file: images}}\nqueries: [{name: a, model: m.yaml, "
                               "feed: f}]\n";
    static const char model[] = "model: {arch: resnet, blocks: [1, 1], width: 4, small_stem: true, "
                                "image: 8, channels: 3, classes: 4}\n"
                                "data: {kind: images, path: none}\nsteps: 1\n";
    static const unsigned char head[] = {0, 0, 8, 4, 0, 0, 0, 9, 0, 0,
                                         0, 8, 0, 0, 0, 8, 0, 0, 0, 3};
    struct culm_config *workload = NULL;
    struct culm_merging *merging = NULL;
    struct culm_merging_options options = {.size = sizeof options, .dir = dir};
    FILE *file = fopen("m.yaml", "w");
    MUST(file && fputs(model, file) >= 0 && fclose(file) == 0);
    file = fopen("images", "wb");
    MUST(file && fwrite(head, sizeof head, 1, file) == 1);
    for (int i = 0; i < 9 * 8 * 8 * 3; i++) {
        fputc(i % 251, file);
    }
    MUST(fclose(file) == 0);
    MUST(culm_config_read(text, strlen(text), "w", &workload, &error) == CULM_OK);
    REFUSED(options, "culm_merging_options",
            culm_merging_new(workload, &options, &merging, &error));
    MUST(culm_merging_new(workload, &options, &merging, &error) == CULM_OK);
    MUST(culm_merging_run(merging, &error) == CULM_OK);
    culm_merging_free(merging);
    culm_config_free(workload);
}

static unsigned char pixels[8 * 8 * 3];

/* With the model of `merge`. */
static void answer_frames(const char *dir) {
    static const char text[] = "feeds: {f: {file: none}}\n"
                               "queries: [{name: a, model: m.yaml, feed: f, deadline_ms: 600000}]\n"
                               "edge: {memory: all}\n";
    static const char *const posted[] = {"f"};
    struct culm_config *workload = NULL;
    struct culm_edge *edge = NULL;
    struct culm_edge_options options = {
        .size = sizeof options, .dir = dir, .posted = posted, .posted_count = 1};
    struct culm_picture picture = {
        .size = sizeof picture, .pixels = pixels, .width = 8, .height = 8, .channels = 3};
    GUARDED(culm_edge_answer, answer);
    MUST(culm_config_read(text, strlen(text), "w", &workload, &error) == CULM_OK);
    REFUSED(options, "culm_edge_options", culm_edge_open(workload, &options, &edge, &error));
    MUST(culm_edge_open(workload, &options, &edge, &error) == CULM_OK);
    MUST(culm_edge_start(edge, &error) == CULM_OK);
    REFUSED(picture, "culm_picture", culm_edge_post(edge, "f", &picture, NULL, &error));
    MUST(culm_edge_post(edge, "f", &picture, NULL, &error) == CULM_OK);
    MUST(culm_edge_take_answer(edge, -1, &answer.it, &error) == CULM_OK);
    MUST(answer.it.frame == 0 && answer.it.prediction->count == 4 && whole(answer.guard));
    LATER(answer);
    culm_edge_close(edge);
    culm_config_free(workload);
}

static enum culm_status count_answer(void *context, const struct culm_prediction *prediction,
                                     struct culm_error *ret_error) {
    (void)ret_error;
    *(int *)context += prediction->count == 4;
    return CULM_OK;
}

static void look_at_pictures(void) {
    static const char *const files[] = {"images"};
    int answers = 0;
    struct culm_vision *vision = NULL;
    struct culm_vision_options options = {.size = sizeof options};
    struct culm_vision_files_options on = {
        .size = sizeof on, .end = 3, .answer = count_answer, .context = &answers};
    GUARDED(culm_vision_info, info);
    REFUSED(options, "culm_vision_options", culm_vision_open("m.yaml", &options, &vision, &error));
    MUST(culm_vision_open("m.yaml", &options, &vision, &error) == CULM_OK);
    MUST(culm_vision_describe(vision, &info.it, &error) == CULM_OK);
    MUST(info.it.classes == 4 && info.it.width == 8 && whole(info.guard));
    LATER(info);
    REFUSED(on, "culm_vision_files_options",
            culm_vision_predict_files(vision, files, 1, &on, &error));
    MUST(culm_vision_predict_files(vision, files, 1, &on, &error) == CULM_OK && answers == 3);
    culm_vision_free(vision);
}

static void graph_and_merge(const char *dir, const char *program) {
    char graph[1024], drawn[1024], path[1024], run[1024], package[1024], answers[1024];
    snprintf(graph, sizeof graph, "%s-graph", dir);
    snprintf(drawn, sizeof drawn, "%s-drawn", dir);
    snprintf(path, sizeof path, "%s-gnn.yaml", dir);
    snprintf(run, sizeof run, "%s-gnn", dir);
    snprintf(package, sizeof package, "%s-package", dir);
    snprintf(answers, sizeof answers, "%s-edge", dir);
    make_graphs(graph, drawn);
    train_on_graph(graph, path, run, program);
    look_at_graph(path, run);
    merge(package);
    answer_frames(answers);
    look_at_pictures();
}

int main(int argc, char **argv) {
    MUST(argc == 5);
    library = argv[4];
    train(argv[1], argv[2], argv[3]);
    evaluate(argv[1], argv[2]);
    look(argv[2]);
    write_text(argv[2]);
    graph_and_merge(argv[2], argv[3]);
    return 0;
}
