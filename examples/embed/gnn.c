/*
 * Makes a graph of two groups of vertices, trains a graph network that tells them apart, and prints how
 * many vertices it gets right.
 *
 *     cc gnn.c -o gnn $(pkg-config --cflags --libs culm)
 *     ./gnn GRAPH DIR          (both are made)
 */
#include <culm/gnn.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define VERTICES 200
#define EDGES 800

static struct culm_gnn_training *training; /* of the handler */

static void on_interrupt(int number) {
    (void)number;
    culm_gnn_training_stop(training); /* a checkpoint, then the end */
}

static void on_event(void *context, const char *json) {
    *(long *)context +=
        strstr(json, "\"event\":\"epoch\"") != NULL; /* {"event":"epoch","epoch":1,...} */
}

static unsigned draw(unsigned below) {
    static unsigned state = 1;
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

/* Edges are mostly within a group: the even vertices, or the odd ones. Features say little. */
static enum culm_status make_graph(const char *path, struct culm_error *error) {
    static int64_t edge[2 * EDGES];
    static float features[2 * VERTICES];
    static int32_t labels[VERTICES];
    static uint8_t splits[VERTICES];
    for (int i = 0; i < EDGES; i++) {
        edge[2 * i] = draw(VERTICES);
        edge[2 * i + 1] = (edge[2 * i] + 2 * draw(VERTICES / 2) + (draw(10) == 0)) % VERTICES;
    }
    for (int v = 0; v < VERTICES; v++) {
        labels[v] = v % 2;
        features[2 * v + v % 2] = (float)draw(100) / 50;
        features[2 * v + 1 - v % 2] = (float)draw(100) / 100;
        splits[v] = v < VERTICES / 2 ? 1 : v < VERTICES * 3 / 4 ? 2 : 3; /* train, validate, test */
    }
    const struct culm_gnn_graph_arrays arrays = {.size = sizeof arrays,
                                                 .vertices = VERTICES,
                                                 .edges = EDGES,
                                                 .edge = edge,
                                                 .features = features,
                                                 .columns = 2,
                                                 .labels = labels,
                                                 .classes = 2,
                                                 .splits = splits,
                                                 .split_count = 1};
    return culm_gnn_graph_write(&arrays, path, NULL, error);
}

static enum culm_status train(const char *graph, const char *dir, struct culm_error *error) {
    static const char text[] = "model: {width: 8}\nepochs: 30\nintervals: 4\nservers: 2\n";
    struct culm_config *config = NULL;
    long epochs = 0;
    const struct culm_gnn_training_options options = {
        .size = sizeof options, .dir = dir, .event = on_event, .context = &epochs};
    enum culm_status status = culm_config_read(text, strlen(text), "gnn.c", &config, error);
    if (status == CULM_OK) {
        status = culm_config_set(config, "graph.path", graph, error);
    }
    if (status == CULM_OK) {
        status = culm_gnn_training_new(config, &options, &training, error);
    }
    culm_config_free(config);
    if (status == CULM_OK) {
        signal(SIGINT, on_interrupt);
        status = culm_gnn_training_run(training, error);
        signal(SIGINT, SIG_DFL);
        printf("%ld epochs\n", epochs);
    }
    culm_gnn_training_free(training);
    return status;
}

int main(int argc, char **argv) {
    struct culm_error error = {CULM_OK, ""};
    struct culm_gnn_evaluate_result result = {.size = sizeof result};
    if (argc != 3) {
        fprintf(stderr, "usage: %s GRAPH DIR\n", argv[0]);
        return 2;
    }
    enum culm_status status = make_graph(argv[1], &error);
    if (status == CULM_OK) {
        status = train(argv[1], argv[2], &error);
    }
    if (status == CULM_OK) {
        status = culm_gnn_evaluate(argv[2], NULL, &result, &error);
    }
    if (status == CULM_OK) {
        printf("%lld of %lld test vertices are right\n", (long long)result.correct[2],
               (long long)result.count[2]);
    } else {
        fprintf(stderr, "%s: %s\n", culm_status_name(status), error.text);
    }
    return culm_status_exit_code(status);
}
