/*
 * Growing arrays, and the median of one. Thread: none of its own.
 *
 *     if (!CULM_GROW(list->item, list->capacity, list->count + 1)) {
 *         return out of memory;
 *     }
 *     list->item[list->count++] = item;
 */
#ifndef CULM_BASE_GROW_H
#define CULM_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes room for `count` items in an array of `capacity`, whatever integer that is: both are changed.
 * False: out of memory, and nothing has changed. New room is not zeroed. */
#define CULM_GROW(items_, capacity_, count_)                                                       \
    __extension__({                                                                                \
        size_t now_ =                                                                              \
            culm_grow(&(items_), sizeof *(items_), (size_t)(capacity_), (size_t)(count_),          \
                      sizeof(capacity_) < sizeof(size_t) ? INT32_MAX : SIZE_MAX / 2);              \
        (capacity_) = now_ ? (__typeof__(capacity_))now_ : (capacity_);                            \
        now_ > 0;                                                                                  \
    })

/* Moves *items (a pointer to items of `item_bytes`) when there are fewer than `count` places; returns
 * how many there are now, at least 1; 0: out of memory, or more than `most`. */
size_t culm_grow(void *items, size_t item_bytes, size_t capacity, size_t count, size_t most);

/* Sorts the values. 0: there are none. */
double culm_median(double *values, size_t count);

#endif
