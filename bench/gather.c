/*
 * How fast rows of neighbours can be read at all: the limit that `culm bench gnn spmm` is held against.
 *
 *     bench_gather GRAPH [--width N] [--threads N] [--iters N] [--dtype f32|bf16]
 *
 * For each edge the row of the neighbour is loaded, whole and in vectors as wide as the processor has,
 * and nothing is done with it; rows lie as `culm bench gnn` has them, and each vertex reads its own too.
 * It is tried in strips of several widths, with and without asking ahead; the fastest counts. One JSON
 * line: seconds of the fastest call and of the median, and bytes of rows per second.
 */
#include "data/adjacency.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define HUGE_PAGE ((size_t)2 << 20)
#define ITERS_MAX 1000
#define CHUNK 4096 /* edges, about */

static struct culm_adjacency rows;
static const char *table;
static size_t pitch; /* bytes of a row */
static int threads = 1, iters = 15;

/* A way to go: vectors at a time, and edges asked for ahead. */
struct way {
    size_t strip; /* bytes of a strip; at least those of a row: all at once */
    uint64_t ahead;
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Loads `bytes` from `at`: vectors, and a last one that overlaps the one before, or smaller parts. */
#if defined(__x86_64__)
__attribute__((target("avx2"))) static inline void load_256(const char *at, size_t bytes) {
    size_t i = 0;
    for (; i + 32 <= bytes; i += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(at + i));
        __asm__ volatile("" ::"x"(x));
    }
    for (; i < bytes; i += 2) {
        unsigned short x;
        memcpy(&x, at + i, sizeof x);
        __asm__ volatile("" ::"r"(x));
    }
}
#endif

static inline void load_64(const char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 2) {
        unsigned short x;
        memcpy(&x, at + i, sizeof x);
        __asm__ volatile("" ::"r"(x));
    }
}

/* One function for each number of vectors, so that the loop over them is gone. */
#define GO(load, most)                                                                             \
    for (uint64_t e = from; e < to; e++) {                                                         \
        const char *row = table + rows.column[e] * pitch + first;                                  \
        if (w->ahead && e + w->ahead < to) {                                                       \
            const char *next = table + rows.column[e + w->ahead] * pitch + first;                  \
            for (size_t i = 0; i < (most)*64; i += 64) {                                           \
                __builtin_prefetch(next + (i < bytes ? i : 0), 0, 3);                              \
            }                                                                                      \
        }                                                                                          \
        load(row, bytes);                                                                          \
    }

#if defined(__x86_64__)
#define WIDE(n)                                                                                    \
    __attribute__((target("avx512f,avx512bw"))) static void go_512_##n(                            \
        const struct way *w, size_t first, size_t bytes, uint64_t from, uint64_t to) {             \
        __mmask32 last = (__mmask32)((1ull << (bytes - ((n)-1) * 64) / 2) - 1);                    \
        const uint32_t *column = rows.column;                                                      \
        const char *data = table + first;                                                          \
        size_t step = pitch;                                                                       \
        uint64_t ahead = w->ahead;                                                                 \
        for (uint64_t e = from; e < to; e++) {                                                     \
            const char *row = data + column[e] * step;                                             \
            if (ahead && e + ahead < to) {                                                         \
                const char *next = data + column[e + ahead] * step;                                \
                _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++) {                           \
                    __builtin_prefetch(next + i * 64, 0, 3);                                       \
                }                                                                                  \
            }                                                                                      \
            _Pragma("GCC unroll 16") for (int i = 0; i + 1 < (n); i++) {                           \
                __m512i x = _mm512_loadu_si512(row + i * 64);                                      \
                __asm__ volatile("" ::"v"(x));                                                     \
            }                                                                                      \
            __m512i x = _mm512_maskz_loadu_epi16(last, row + ((n)-1) * 64);                        \
            __asm__ volatile("" ::"v"(x));                                                         \
        }                                                                                          \
    }
WIDE(1)
WIDE(2) WIDE(3) WIDE(4) WIDE(5) WIDE(6) WIDE(7) WIDE(8) WIDE(9) WIDE(10) WIDE(11) WIDE(12) WIDE(13)
    WIDE(14) WIDE(15)
        WIDE(16) static void (*const wide[])(const struct way *w, size_t first, size_t bytes,
                                             uint64_t from, uint64_t to) = {
            go_512_1, go_512_2,  go_512_3,  go_512_4,  go_512_5,  go_512_6,  go_512_7,  go_512_8,
            go_512_9, go_512_10, go_512_11, go_512_12, go_512_13, go_512_14, go_512_15, go_512_16};

static void go_512(const struct way *w, size_t first, size_t bytes, uint64_t from, uint64_t to) {
    for (size_t at = 0; at < bytes; at += 1024) {
        size_t part = bytes - at < 1024 ? bytes - at : 1024;
        wide[(part + 63) / 64 - 1](w, first + at, part, from, to);
    }
}
__attribute__((target("avx2"))) static void go_256(const struct way *w, size_t first, size_t bytes,
                                                   uint64_t from, uint64_t to) {
    GO(load_256, (bytes + 63) / 64)
}
#endif
static void go_64(const struct way *w, size_t first, size_t bytes, uint64_t from, uint64_t to) {
    GO(load_64, (bytes + 63) / 64)
}
static void (*go)(const struct way *w, size_t first, size_t bytes, uint64_t from,
                  uint64_t to) = go_64;

static struct way now;
static atomic_long next_chunk;
static pthread_barrier_t begin, end;
static atomic_bool over;

static void work(void) {
    uint64_t edges = rows.start[rows.vertices];
    long chunks = (long)((edges + CHUNK - 1) / CHUNK);
    size_t strips = (pitch + now.strip - 1) / now.strip;
    for (long c; (c = atomic_fetch_add(&next_chunk, 1)) < chunks * (long)strips;) {
        uint64_t from = (uint64_t)(c % chunks) * CHUNK;
        size_t first = (size_t)(c / chunks) * now.strip;
        size_t bytes = pitch - first < now.strip ? pitch - first : now.strip;
        go(&now, first, bytes, from, from + CHUNK < edges ? from + CHUNK : edges);
    }
}

static void *worker(void *argument) {
    for (;;) {
        pthread_barrier_wait(&begin);
        if (atomic_load(&over)) {
            return argument;
        }
        work();
        pthread_barrier_wait(&end);
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median; the least too. */
static double measure(struct way way, double *ret_least) {
    double took[ITERS_MAX];
    now = way;
    for (int i = -2; i < iters; i++) {
        double start = now_s();
        atomic_store(&next_chunk, 0);
        pthread_barrier_wait(&begin);
        work();
        pthread_barrier_wait(&end);
        if (i >= 0) {
            took[i] = now_s() - start;
        }
    }
    qsort(took, (size_t)iters, sizeof *took, ascending);
    *ret_least = took[0];
    return took[iters / 2];
}

int main(int argc, char **argv) {
    const char *path = NULL, *dtype = "f32";
    struct culm_graph_data *graph;
    struct culm_error error;
    long width = 64;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--width") == 0) {
            width = atol(value);
        } else if (strcmp(argv[i], "--threads") == 0) {
            threads = atoi(value);
        } else if (strcmp(argv[i], "--iters") == 0) {
            iters = atoi(value);
        } else if (strcmp(argv[i], "--dtype") == 0) {
            dtype = value;
        } else {
            path = argv[i--];
        }
        i++;
    }
    if (!path || width < 1 || threads < 1 || iters < 1 || iters > ITERS_MAX) {
        fprintf(stderr, "usage: bench_gather GRAPH [--width N] [--threads N] [--iters N] "
                        "[--dtype f32|bf16]\n");
        return 2;
    }
    if (culm_graph_data_open(path, CULM_GRAPH_EDGES, NULL, &graph, &error) != CULM_OK ||
        culm_adjacency_of(graph, true, &rows, &error) != CULM_OK) {
        fprintf(stderr, "bench_gather: %s\n", error.text);
        return 1;
    }
    culm_graph_data_free(graph);
    pitch = (size_t)width * (strcmp(dtype, "bf16") == 0 ? 2 : 4);
    size_t bytes = (size_t)rows.vertices * pitch;
    size_t room = (bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
    char *data = aligned_alloc(HUGE_PAGE, room);
    if (!data) {
        fprintf(stderr, "bench_gather: out of memory\n");
        return 1;
    }
    madvise(data, room, MADV_HUGEPAGE);
    memset(data, 1, room);
    table = data;
#if defined(__x86_64__)
    go = __builtin_cpu_supports("avx512bw") ? go_512
         : __builtin_cpu_supports("avx2")   ? go_256
                                            : go_64;
#endif
    pthread_barrier_init(&begin, NULL, (unsigned)threads);
    pthread_barrier_init(&end, NULL, (unsigned)threads);
    pthread_t *id = calloc((size_t)threads, sizeof *id);
    for (int i = 1; i < threads; i++) {
        pthread_create(&id[i], NULL, worker, NULL);
    }
    static const size_t strips[] = {1024, 512, 256, 128};
    static const uint64_t aheads[] = {0, 8, 12, 24};
    double best = 1e30, best_least = 1e30;
    struct way fastest = {0};
    for (size_t s = 0; s < sizeof strips / sizeof *strips; s++) {
        for (size_t a = 0; a < sizeof aheads / sizeof *aheads && (s == 0 || strips[s] < pitch);
             a++) {
            double least, median = measure((struct way){strips[s], aheads[a]}, &least);
            if (median < best) {
                best = median;
                best_least = least;
                fastest = (struct way){strips[s] < pitch ? strips[s] : pitch, aheads[a]};
            }
        }
    }
    atomic_store(&over, true);
    if (threads > 1) {
        pthread_barrier_wait(&begin);
    }
    for (int i = 1; i < threads; i++) {
        pthread_join(id[i], NULL);
    }
    double read = (double)rows.start[rows.vertices] * (double)pitch;
    printf(
        "{\"width\": %ld, \"dtype\": \"%s\", \"threads\": %d, \"strip_bytes\": %zu, \"ahead\": %d, "
        "\"call_s\": {\"median\": %.7f, \"min\": %.7f}, \"gb_per_s\": %.2f}\n",
        width, dtype, threads, fastest.strip, (int)fastest.ahead, best, best_least,
        read / best / 1e9);
    culm_adjacency_release(&rows);
    free(data);
    free(id);
    return 0;
}
