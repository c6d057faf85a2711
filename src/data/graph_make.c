/* Graphs that are drawn. Every number is a pure function of the seed and of what it is for. */
#include "data/graph_make.h"

#include "data/graph_write.h"

#include "base/machine.h"
#include "base/pages.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAWS_MAX 200 /* for an edge that is wanted; many come twice */

/* What numbers are for. */
enum { FOR_EDGES = 1, FOR_IDS, FOR_CLASSES, FOR_NOISE, FOR_FEATURES, FOR_MEANS };

/* Where edges come from. */
struct maker {
    const struct culm_graph_make_options *options;
    uint64_t key;
    uint32_t *strewn;      /* [vertices] a permutation */
    int32_t *class_of;     /* blocks: [vertices], as it is before noise */
    uint32_t *member;      /* blocks: [vertices] by class, in strewn order */
    int64_t *first_member; /* blocks: [classes + 1] */
    int levels;            /* R-MAT: 2^levels >= vertices */
    void (*draw)(const struct maker *maker, uint64_t index, uint32_t ret_pair[2]);
};

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a graph of this size");
}

static uint32_t *strew(int64_t count, uint64_t key) {
    uint32_t *order = malloc((size_t)count * sizeof *order);
    for (int64_t i = 0; order && i < count; i++) {
        int64_t j = (int64_t)culm_rng_below(&key, (uint64_t)i + 1);
        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
    return order;
}

/* --- edges --- */

static void draw_rmat(const struct maker *maker, uint64_t index, uint32_t ret_pair[2]) {
    /* Weights of a quarter, in 1/65536: 0.57 0.19 0.19 0.05. */
    enum { A = 37356, B = A + 12452, C = B + 12452 };
    uint64_t u, v, vertices = (uint64_t)maker->options->vertices;
    for (uint64_t attempt = 0;; attempt++) {
        struct culm_rng_block block = {{0}};
        u = v = 0;
        for (int level = 0; level < maker->levels; level++) {
            if (level % 8 == 0) {
                block = culm_rng(maker->key, attempt * 8 + (uint64_t)level / 8, index);
            }
            uint32_t draw = block.word[level % 8 / 2] >> 16 * (level % 2) & 0xffff;
            u = 2 * u + (draw >= B);
            v = 2 * v + ((draw >= A && draw < B) || draw >= C);
        }
        if (u < vertices && v < vertices) {
            break;
        }
    }
    ret_pair[0] = maker->strewn[u];
    ret_pair[1] = maker->strewn[v];
}

/* A place of `count`, the first ones more often: its share falls as 1 / cube root. */
static int64_t uneven(uint32_t word, int64_t count) {
    double u = (double)word * 0x1p-32;
    return (int64_t)((double)count * (u * sqrt(u)));
}

static void draw_block(const struct maker *maker, uint64_t index, uint32_t ret_pair[2]) {
    struct culm_rng_block block = culm_rng(maker->key, 0, index);
    uint32_t u = maker->strewn[uneven(block.word[0], maker->options->vertices)];
    const uint32_t *among = maker->strewn;
    int64_t count = maker->options->vertices;
    if (block.word[1] % 5 > 0) {
        int32_t c = maker->class_of[u];
        among = maker->member + maker->first_member[c];
        count = maker->first_member[c + 1] - maker->first_member[c];
    }
    ret_pair[0] = u;
    ret_pair[1] = among[uneven(block.word[2], count)];
}

/* Which edges have been drawn: a table with open addressing; an edge, u < v, is never 0. */
struct drawn {
    uint64_t *key;
    uint64_t places;
};

/* False: it was there. */
static bool add(struct drawn *drawn, uint32_t u, uint32_t v) {
    uint64_t key = u < v ? (uint64_t)u << 32 | v : (uint64_t)v << 32 | u;
    uint64_t spread = culm_rng_mix(0, key);
    uint64_t at = (uint64_t)((unsigned __int128)spread * drawn->places >> 64);
    while (drawn->key[at] && drawn->key[at] != key) {
        at = at + 1 < drawn->places ? at + 1 : 0;
    }
    bool fresh = !drawn->key[at];
    drawn->key[at] = key;
    return fresh;
}

/* Draws until there are as many different edges as asked for. */
static enum culm_status make_edges(const struct maker *maker, struct culm_graph_data *graph,
                                   struct culm_error *error) {
    int64_t wanted = maker->options->edges;
    uint64_t most = (uint64_t)wanted * DRAWS_MAX + 1000000;
    struct drawn drawn = {.places = (uint64_t)wanted + (uint64_t)wanted / 2 + 8};
    graph->edge = culm_pages_alloc((size_t)wanted * 2 * sizeof *graph->edge);
    drawn.key = culm_pages_zeroed((size_t)drawn.places * sizeof *drawn.key);
    if (!graph->edge || !drawn.key) {
        free(drawn.key);
        return no_memory(error);
    }
    for (uint64_t i = 0; graph->edges < wanted && i < most; i++) {
        uint32_t *pair = graph->edge + 2 * graph->edges;
        maker->draw(maker, i, pair);
        graph->edges += pair[0] != pair[1] && add(&drawn, pair[0], pair[1]);
    }
    free(drawn.key);
    if (graph->edges < wanted) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%lld edges cannot be found among %lld vertices, only %lld; give "
                              "fewer edges or more vertices",
                              (long long)wanted, (long long)graph->vertices,
                              (long long)graph->edges);
    }
    return culm_graph_simplify(graph->edge, &graph->edges, graph->vertices, false, error);
}

/* --- labels and features --- */

static enum culm_status make_labels(const struct maker *maker, struct culm_graph_data *graph,
                                    struct culm_error *error) {
    const struct culm_graph_make_options *options = maker->options;
    uint64_t key = culm_rng_mix(options->seed, FOR_NOISE);
    graph->classes = options->classes;
    if (options->classes == 0) {
        return CULM_OK;
    }
    graph->label = culm_pages_alloc((size_t)options->vertices * sizeof *graph->label);
    if (!graph->label) {
        return no_memory(error);
    }
    for (int64_t v = 0; v < options->vertices; v++) {
        struct culm_rng_block block = culm_rng(key, 0, (uint64_t)v);
        graph->label[v] = block.word[0] % 20 == 0
                              ? (int32_t)(block.word[1] % (uint64_t)options->classes)
                              : maker->class_of[v];
    }
    return CULM_OK;
}

/* Of the class's mean, each element of which is plus or minus 1.25 / sqrt(F), and the normal
 * distribution: a vertex alone says little of its class, the mean of its neighbours much. */
static enum culm_status make_features(const struct maker *maker, struct culm_graph_data *graph,
                                      struct culm_error *error) {
    const struct culm_graph_make_options *options = maker->options;
    uint64_t key = culm_rng_mix(options->seed, FOR_FEATURES);
    uint64_t means = culm_rng_mix(options->seed, FOR_MEANS);
    if (options->columns == 0) {
        return CULM_OK;
    }
    graph->feature_kind = CULM_GRAPH_DENSE;
    graph->columns = options->columns;
    size_t count;
    if (__builtin_mul_overflow((size_t)options->vertices, (size_t)options->columns, &count) ||
        count > SIZE_MAX / 8 || !(graph->dense = culm_pages_alloc(count * sizeof *graph->dense))) {
        return no_memory(error);
    }
    float mean = (float)(1.25 / sqrt((double)options->columns));
    for (int64_t v = 0; v < options->vertices; v++) {
        float *row = graph->dense + v * options->columns;
        for (int64_t f = 0; f < options->columns; f += 4) {
            struct culm_rng_block block = culm_rng(key, (uint64_t)v, (uint64_t)f);
            struct culm_rng_block sign =
                maker->class_of ? culm_rng(means, (uint64_t)maker->class_of[v], (uint64_t)f)
                                : (struct culm_rng_block){{0}};
            float draw[4];
            culm_rng_normal(block.word[0], block.word[1], 1, draw);
            culm_rng_normal(block.word[2], block.word[3], 1, draw + 2);
            for (int64_t i = 0; i < 4 && f + i < options->columns; i++) {
                float shift = !maker->class_of ? 0 : sign.word[i] & 1 ? mean : -mean;
                row[f + i] = draw[i] + shift;
            }
        }
    }
    return CULM_OK;
}

/* --- the whole --- */

static bool make_classes(struct maker *maker) {
    const struct culm_graph_make_options *options = maker->options;
    uint64_t key = culm_rng_mix(options->seed, FOR_CLASSES);
    size_t vertices = (size_t)options->vertices, classes = (size_t)options->classes;
    maker->class_of = malloc(vertices * sizeof *maker->class_of);
    maker->member = malloc(vertices * sizeof *maker->member);
    maker->first_member = calloc(classes + 2, sizeof *maker->first_member);
    if (!maker->class_of || !maker->member || !maker->first_member) {
        return false;
    }
    for (size_t v = 0; v < vertices; v++) {
        maker->class_of[v] = (int32_t)(culm_rng(key, 0, v).word[0] % classes);
        maker->first_member[maker->class_of[v] + 2]++;
    }
    for (size_t c = 0; c < classes; c++) {
        maker->first_member[c + 2] += maker->first_member[c + 1];
    }
    for (size_t i = 0; i < vertices; i++) {
        uint32_t v = maker->strewn[i];
        maker->member[maker->first_member[maker->class_of[v] + 1]++] = v;
    }
    return true;
}

/* Bytes that making one takes at most: while edges are drawn, or when there are features too. */
static double memory_of(const struct culm_graph_make_options *options) {
    double vertices = (double)options->vertices, edges = (double)options->edges;
    double all =
        vertices * (options->classes > 0 ? 12 : 4) + edges * 8; /* strewn, class_of, member */
    double keys = edges * 12, floats = vertices * (double)options->columns + vertices;
    return all + (keys > 4 * floats ? keys : 4 * floats);
}

static enum culm_status check(const struct culm_graph_make_options *options,
                              struct culm_error *error) {
    double machine = (double)culm_machine_memory();
    if (options->vertices < 2 || options->vertices > CULM_GRAPH_VERTICES_MAX) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "%lld vertices; allowed: 2 to %d",
                              (long long)options->vertices, CULM_GRAPH_VERTICES_MAX);
    }
    int64_t pairs = options->vertices * (options->vertices - 1) / 2;
    pairs = pairs < CULM_GRAPH_EDGES_MAX ? pairs : CULM_GRAPH_EDGES_MAX;
    if (options->edges < 1 || options->edges > pairs) {
        return culm_error_set(
            error, CULM_ERR_ARGUMENT, "%lld edges among %lld vertices; allowed: 1 to %lld",
            (long long)options->edges, (long long)options->vertices, (long long)pairs);
    }
    if (options->classes > options->vertices || options->classes > 65536) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "%lld classes; allowed: at most 65536, and as many as vertices",
                              (long long)options->classes);
    }
    if (options->columns > INT32_MAX) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "%lld features; allowed: at most %d",
                              (long long)options->columns, INT32_MAX);
    }
    if (memory_of(options) > machine) {
        return culm_error_set(error, CULM_ERR_MEMORY,
                              "%lld vertices, %lld edges and %lld features take %.0f GB while they "
                              "are made; there are %.0f GB here; ask for fewer",
                              (long long)options->vertices, (long long)options->edges,
                              (long long)options->columns, memory_of(options) / 1e9, machine / 1e9);
    }
    return CULM_OK;
}

static enum culm_status make(struct maker *maker, const char *name,
                             struct culm_graph_data **ret_graph, struct culm_error *error) {
    const struct culm_graph_make_options *options = maker->options;
    enum culm_status status = check(options, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_graph_data *graph = calloc(1, sizeof *graph);
    maker->key = culm_rng_mix(options->seed, FOR_EDGES);
    maker->strewn = strew(options->vertices, culm_rng_mix(options->seed, FOR_IDS));
    while ((int64_t)1 << maker->levels < options->vertices) {
        maker->levels++;
    }
    if (!graph || !maker->strewn || (options->classes > 0 && !make_classes(maker))) {
        status = no_memory(error);
    }
    if (status == CULM_OK) {
        graph->vertices = options->vertices;
        graph->edges_listed = -1;
        snprintf(graph->name, sizeof graph->name, "%s", name);
        status = make_edges(maker, graph, error);
    }
    if (status == CULM_OK) {
        status = make_labels(maker, graph, error);
    }
    if (status == CULM_OK) {
        status = make_features(maker, graph, error);
    }
    free(maker->strewn);
    free(maker->class_of);
    free(maker->member);
    free(maker->first_member);
    if (status != CULM_OK) {
        culm_graph_data_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}

enum culm_status culm_graph_make_rmat(const struct culm_graph_make_options *options,
                                      const char *name, struct culm_graph_data **ret_graph,
                                      struct culm_error *error) {
    struct maker maker = {.options = options, .draw = draw_rmat};
    return make(&maker, name, ret_graph, error);
}

enum culm_status culm_graph_make_sbm(const struct culm_graph_make_options *options,
                                     const char *name, struct culm_graph_data **ret_graph,
                                     struct culm_error *error) {
    struct maker maker = {.options = options, .draw = draw_block};
    return options->classes > 0
               ? make(&maker, name, ret_graph, error)
               : culm_error_set(error, CULM_ERR_ARGUMENT, "blocks need at least 1 class");
}
