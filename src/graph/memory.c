/* Placing intervals: largest first, lowest gap. */
#include "graph/memory.h"

#include <stdlib.h>

#define ALIGN 64

struct order {
    int32_t index;
    size_t size;
};

static int larger_first(const void *a, const void *b) {
    const struct order *x = a, *y = b;
    if (x->size != y->size) {
        return x->size < y->size ? 1 : -1;
    }
    return (x->index > y->index) - (x->index < y->index);
}

static int lower_first(const void *a, const void *b) {
    const struct culm_interval *x = *(const struct culm_interval *const *)a;
    const struct culm_interval *y = *(const struct culm_interval *const *)b;
    return (x->offset_bytes > y->offset_bytes) - (x->offset_bytes < y->offset_bytes);
}

static size_t rounded(size_t size) { return (size + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

enum culm_status culm_memory_place(struct culm_interval *intervals, int32_t count,
                                   size_t *ret_total_bytes) {
    struct order *order = calloc((size_t)count + 1, sizeof *order);
    struct culm_interval **near = calloc((size_t)count + 1, sizeof(struct culm_interval *));
    if (!order || !near) {
        free(order);
        free(near);
        return CULM_ERR_MEMORY;
    }
    for (int32_t i = 0; i < count; i++) {
        order[i] = (struct order){i, rounded(intervals[i].size_bytes)};
    }
    qsort(order, (size_t)count, sizeof *order, larger_first);
    size_t total = 0;
    for (int32_t i = 0; i < count; i++) {
        struct culm_interval *interval = &intervals[order[i].index];
        size_t neighbours = 0, offset = 0;
        for (int32_t j = 0; j < i; j++) {
            struct culm_interval *placed = &intervals[order[j].index];
            if (placed->first <= interval->last && interval->first <= placed->last) {
                near[neighbours++] = placed;
            }
        }
        qsort(near, neighbours, sizeof(struct culm_interval *), lower_first);
        for (size_t j = 0; j < neighbours; j++) {
            if (offset + order[i].size <= near[j]->offset_bytes) {
                break;
            }
            size_t end = near[j]->offset_bytes + rounded(near[j]->size_bytes);
            offset = end > offset ? end : offset;
        }
        interval->offset_bytes = offset;
        total = offset + order[i].size > total ? offset + order[i].size : total;
    }
    free(order);
    free(near);
    *ret_total_bytes = total;
    return CULM_OK;
}
