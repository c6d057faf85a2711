/*
 * Rows of neighbours cut into chunks of about equal work, for the kernels of graphs and sparse
 * matrices. A row is never split; which thread takes a chunk changes no bit.
 */
#ifndef CULM_DEVICE_CPU_EDGES_H
#define CULM_DEVICE_CPU_EDGES_H

#include "device/cpu/internal.h"

#define CHUNK_ROW 8      /* what a row costs, in entries */
#define CHUNK_LEAST 1024 /* entries */

struct chunks {
    const uint64_t *start;
    int64_t n, count;
    uint64_t work; /* of one chunk */
};

static inline uint64_t chunk_work(const struct chunks *s, int64_t row) {
    return s->start[row] - s->start[0] + CHUNK_ROW * (uint64_t)row;
}

/* `each` chunks for each thread, or fewer where they would be smaller than CHUNK_LEAST. One thread has one chunk. */
static inline struct chunks chunks_each(const struct culm_cpu *cpu, const uint64_t *start,
                                        int64_t n, int each) {
    struct chunks s = {.start = start, .n = n};
    uint64_t work = chunk_work(&s, n), least = CHUNK_LEAST;
    uint64_t share = work / (uint64_t)(cpu->threads * each);
    s.work = cpu->threads == 1 ? work + 1 : share > least ? share : least;
    s.count = (int64_t)((work + s.work - 1) / s.work);
    return s;
}

static inline struct chunks chunks_of(const struct culm_cpu *cpu, const uint64_t *start,
                                      int64_t n) {
    return chunks_each(cpu, start, n, 32);
}

/* The first row of chunk i; n for i = count. */
static inline int64_t chunk_row(const struct chunks *s, int64_t i) {
    int64_t low = 0, high = s->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (chunk_work(s, middle) < (uint64_t)i * s->work) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

#endif
