/*
 * Negative controls of orders: sums whose terms went astray.
 *
 * A test that compares bits says something about the order of a sum only if its numbers are such that
 * another order has other bits. Whole numbers, zeros and equal numbers are not, nor is a sum that is
 * rounded before it is compared. So the same sum is formed once more with its terms in another order:
 * it must be near, and its bits must differ.
 */
#ifndef CULM_TESTS_ASTRAY_H
#define CULM_TESTS_ASTRAY_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Which term comes in each place of n: drawn, and always the same. What merely turns terms around, or moves
 * each by as many places, would leave a sum by halves as it is. The caller frees it. */
static inline int64_t *astray_order(int64_t n) {
    int64_t *order = malloc((size_t)n * sizeof *order);
    uint64_t random = culm_rng_mix(31, (uint64_t)n);
    if (!order) {
        abort();
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t other = (int64_t)culm_rng_below(&random, (uint64_t)i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    if (n > 1 && order[0] == 0) { /* two are turned around */
        order[0] = order[n - 1];
        order[n - 1] = 0;
    }
    return order;
}

/* x has `outer` parts of `pitch` elements, each of which begins with [n,inner]: puts those of dimension n
 * into that order, or `back` into their own. Elements have `size` bytes. */
static inline void astray_of(void *x, size_t size, int64_t outer, int64_t pitch, int64_t n,
                             int64_t inner, bool back) {
    int64_t *order = astray_order(n);
    size_t bytes = (size_t)inner * size;
    char *part = malloc((size_t)n * bytes);
    for (int64_t o = 0; o < outer; o++) {
        char *at = (char *)x + (size_t)(o * pitch) * size;
        memcpy(part, at, (size_t)n * bytes);
        for (int64_t i = 0; i < n; i++) {
            size_t mine = (size_t)i * bytes, from = (size_t)order[i] * bytes;
            memcpy(at + (back ? from : mine), part + (back ? mine : from), bytes);
        }
    }
    free(part);
    free(order);
}

/* The same of elements of 4 bytes, as those are that follow. */
static inline void astray_pitched(void *x, int64_t outer, int64_t pitch, int64_t n, int64_t inner,
                                  bool back) {
    astray_of(x, 4, outer, pitch, n, inner, back);
}

/* The same of x[outer,n,inner]. */
static inline void astray(void *x, int64_t outer, int64_t n, int64_t inner, bool back) {
    astray_pitched(x, outer, n * inner, n, inner, back);
}

/* x[outer,n,inner] from its last element of n to its first; once more turns it back. */
static inline void astray_turned(void *x, int64_t outer, int64_t n, int64_t inner) {
    size_t bytes = (size_t)inner * 4;
    char *kept = malloc(bytes);
    for (int64_t i = 0; i < outer * n; i++) {
        int64_t other = i - i % n + n - 1 - i % n;
        char *a = (char *)x + (size_t)i * bytes, *b = (char *)x + (size_t)other * bytes;
        if (i < other) {
            memcpy(kept, a, bytes);
            memcpy(a, b, bytes);
            memcpy(b, kept, bytes);
        }
    }
    free(kept);
}

/* Indices of elements of a dimension n, of which some may be negative: where those are now, or were. */
static inline void astray_indices(int32_t *index, int64_t count, int64_t n, bool back) {
    int64_t *order = astray_order(n), *place = malloc((size_t)n * sizeof *place);
    for (int64_t i = 0; i < n; i++) {
        place[order[i]] = i;
    }
    for (int64_t i = 0; i < count; i++) {
        if (index[i] >= 0) {
            index[i] = (int32_t)(back ? order[index[i]] : place[index[i]]);
        }
    }
    free(place);
    free(order);
}

#endif
