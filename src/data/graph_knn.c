/*
 * Nearest neighbours of images, by comparing each with all.
 *
 * Distances are whole numbers, so they are exact, and neither threads nor the machine matter.
 */
#include "data/graph_make.h"

#include "data/graph_write.h"
#include "data/idx.h"

#include "base/pages.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 64
#define PIXELS_MAX 32768 /* of an image: sums of squares of bytes stay below 2^31 */
#define NEAREST_MAX 1024
#define QUERIES 16 /* images that are compared with one stretch of all others at once */
#define STRETCH 32

struct knn {
    int64_t images, width, nearest; /* width: pixels of an image, rounded up */
    int16_t *pixel;                 /* [images, width] */
    int64_t *square;                /* [images] sum of squares */
    uint32_t *found;                /* [images, nearest] */
};

struct job {
    const struct knn *knn;
    int64_t first, end;
    int64_t *distance; /* [QUERIES, nearest], rising */
    pthread_t thread;
    bool runs;
};

static int32_t product(const int16_t *a, const int16_t *b, int64_t width) {
    int32_t sum = 0;
    for (int64_t i = 0; i < width; i++) {
        sum += (int32_t)a[i] * b[i];
    }
    return sum;
}

/* Keeps the nearest ones in order; of equally near ones that which came first. */
static void offer(int64_t *distance, uint32_t *found, int64_t count, int64_t room, int64_t here,
                  uint32_t image) {
    int64_t at = count < room ? count : room - 1;
    if (count >= room && here >= distance[room - 1]) {
        return;
    }
    for (; at > 0 && distance[at - 1] > here; at--) {
        distance[at] = distance[at - 1];
        found[at] = found[at - 1];
    }
    distance[at] = here;
    found[at] = image;
}

static void compare(const struct job *job, int64_t first, int64_t end) {
    const struct knn *k = job->knn;
    for (int64_t stretch = 0; stretch < k->images; stretch += STRETCH) {
        int64_t stop = stretch + STRETCH < k->images ? stretch + STRETCH : k->images;
        for (int64_t i = first; i < end; i++) {
            for (int64_t j = stretch; j < stop; j++) {
                if (j == i) {
                    continue;
                }
                int64_t dot = product(k->pixel + i * k->width, k->pixel + j * k->width, k->width);
                offer(job->distance + (i - first) * k->nearest, k->found + i * k->nearest,
                      j - (j > i), k->nearest, k->square[i] + k->square[j] - 2 * dot, (uint32_t)j);
            }
        }
    }
}

static void *run(void *ctx) {
    struct job *job = ctx;
    for (int64_t i = job->first; i < job->end; i += QUERIES) {
        compare(job, i, i + QUERIES < job->end ? i + QUERIES : job->end);
    }
    return NULL;
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory to compare so many images");
}

static enum culm_status search(const struct knn *k, struct culm_error *error) {
    struct job job[THREADS_MAX] = {{0}};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t threads = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : cores;
    bool room = true;
    threads = threads < k->images ? threads : k->images;
    for (int64_t t = 0; t < threads; t++) {
        job[t] = (struct job){
            .knn = k, .first = k->images * t / threads, .end = k->images * (t + 1) / threads};
        job[t].distance = malloc((size_t)(QUERIES * k->nearest) * sizeof *job[t].distance);
        room = room && job[t].distance;
    }
    for (int64_t t = 1; room && t < threads; t++) {
        job[t].runs = pthread_create(&job[t].thread, NULL, run, &job[t]) == 0;
    }
    for (int64_t t = 0; room && t < threads; t++) { /* here what has no thread */
        if (!job[t].runs) {
            run(&job[t]);
        }
    }
    for (int64_t t = 0; t < threads; t++) {
        if (job[t].runs) {
            pthread_join(job[t].thread, NULL);
        }
        free(job[t].distance);
    }
    return room ? CULM_OK : no_memory(error);
}

/* --- files --- */

static enum culm_status open_images(const char *path, int64_t vertices, struct culm_idx *ret_idx,
                                    int64_t *ret_images, struct culm_error *error) {
    enum culm_status status = culm_idx_open(path, NULL, ret_idx, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_idx *idx = ret_idx;
    int64_t images = vertices ? vertices : idx->dim[0];
    if (idx->rank < 2 || idx->item_bytes > PIXELS_MAX) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              idx->rank < 2 ? "images '%s': are labels; give the images first"
                                            : "images '%s': have more than 32768 pixels",
                              path);
    }
    if (images > idx->dim[0] || images > CULM_GRAPH_VERTICES_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG, "images '%s': has %lld, %lld are asked for",
                              path, (long long)idx->dim[0], (long long)images);
    }
    *ret_images = images;
    return CULM_OK;
}

static enum culm_status read_images(const struct culm_idx *idx, struct knn *k,
                                    struct culm_graph_data *graph, struct culm_error *error) {
    int64_t pixels = idx->item_bytes;
    k->width = (pixels + 31) & ~(int64_t)31;
    k->pixel = culm_pages_zeroed((size_t)(k->images * k->width) * sizeof *k->pixel);
    k->square = calloc((size_t)k->images, sizeof *k->square);
    k->found = malloc((size_t)(k->images * k->nearest) * sizeof *k->found);
    graph->dense = culm_pages_alloc((size_t)(k->images * pixels) * sizeof *graph->dense);
    uint8_t *byte = malloc((size_t)pixels);
    enum culm_status status =
        k->pixel && k->square && k->found && graph->dense && byte ? CULM_OK : no_memory(error);
    for (int64_t i = 0; i < k->images && status == CULM_OK; i++) {
        status = culm_idx_read(idx, i, 1, byte, error);
        for (int64_t p = 0; p < pixels && status == CULM_OK; p++) {
            k->pixel[i * k->width + p] = byte[p];
            k->square[i] += (int64_t)byte[p] * byte[p];
            graph->dense[i * pixels + p] = (float)byte[p] / 255;
        }
    }
    free(byte);
    graph->feature_kind = CULM_GRAPH_DENSE;
    graph->columns = pixels;
    return status;
}

static enum culm_status read_labels(const char *path, int64_t images, struct culm_graph_data *graph,
                                    struct culm_error *error) {
    struct culm_idx idx = {0};
    enum culm_status status = culm_idx_open(path, NULL, &idx, error);
    if (status == CULM_OK && idx.rank != 1) {
        status = culm_error_set(error, CULM_ERR_FORMAT,
                                "labels '%s': are images; give the labels of the images", path);
    } else if (status == CULM_OK && idx.dim[0] != images) {
        status = culm_error_set(error, CULM_ERR_FORMAT,
                                "labels '%s': are %lld for %lld images; give those of the images",
                                path, (long long)idx.dim[0], (long long)images);
    }
    uint8_t *byte = malloc((size_t)graph->vertices);
    graph->label = malloc((size_t)graph->vertices * sizeof *graph->label);
    if (status == CULM_OK) {
        status = byte && graph->label ? culm_idx_read(&idx, 0, graph->vertices, byte, error)
                                      : no_memory(error);
    }
    for (int64_t v = 0; v < graph->vertices && status == CULM_OK; v++) {
        graph->label[v] = byte[v];
        graph->classes = graph->label[v] >= graph->classes ? graph->label[v] + 1 : graph->classes;
    }
    free(byte);
    culm_idx_release(&idx);
    return status;
}

static enum culm_status edges_of(const struct knn *k, struct culm_graph_data *graph,
                                 struct culm_error *error) {
    graph->edges = k->images * k->nearest;
    graph->edge = culm_pages_alloc((size_t)graph->edges * 2 * sizeof *graph->edge);
    if (!graph->edge) {
        return no_memory(error);
    }
    for (int64_t i = 0; i < graph->edges; i++) {
        graph->edge[2 * i] = (uint32_t)(i / k->nearest);
        graph->edge[2 * i + 1] = k->found[i];
    }
    return culm_graph_simplify(graph->edge, &graph->edges, graph->vertices, false, error);
}

enum culm_status culm_graph_make_knn(const char *images, const char *labels, int64_t vertices,
                                     int64_t nearest, const char *name,
                                     struct culm_graph_data **ret_graph, struct culm_error *error) {
    struct culm_idx idx = {0};
    struct knn k = {.nearest = nearest};
    struct culm_graph_data *graph = calloc(1, sizeof *graph);
    enum culm_status status =
        graph ? open_images(images, vertices, &idx, &k.images, error) : no_memory(error);
    if (status == CULM_OK && (nearest < 1 || nearest > NEAREST_MAX || nearest >= k.images)) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                "%lld nearest of %lld images; allowed: 1 to %d, fewer than images",
                                (long long)nearest, (long long)k.images, NEAREST_MAX);
    }
    if (status == CULM_OK) {
        snprintf(graph->name, sizeof graph->name, "%s", name);
        graph->vertices = k.images;
        graph->edges_listed = -1;
        status = read_images(&idx, &k, graph, error);
    }
    if (status == CULM_OK && labels) {
        status = read_labels(labels, idx.dim[0], graph, error);
    }
    if (status == CULM_OK) {
        status = search(&k, error);
    }
    if (status == CULM_OK) {
        status = edges_of(&k, graph, error);
    }
    culm_idx_release(&idx);
    free(k.pixel);
    free(k.square);
    free(k.found);
    if (status != CULM_OK) {
        culm_graph_data_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}
