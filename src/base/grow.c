/* See grow.h: arrays double, so that adding to one takes constant time. */
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

#define FIRST 16

size_t culm_grow(void *items, size_t item_bytes, size_t capacity, size_t count, size_t most) {
    void *old;
    size_t more = capacity ? capacity : FIRST;
    if (capacity && count <= capacity) {
        return capacity;
    }
    while (more < count) {
        if (more > most / 2 || more > SIZE_MAX / 2 / item_bytes) {
            return 0;
        }
        more *= 2;
    }
    memcpy(&old, items, sizeof old);
    void *moved = realloc(old, more * item_bytes);
    if (!moved) {
        return 0;
    }
    memcpy(items, &moved, sizeof moved);
    return more;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double culm_median(double *values, size_t count) {
    if (count == 0) {
        return 0;
    }
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
