/*
 * Sparse rows: what the memory of a SPARSE field holds. A matrix [n,columns] of which only some
 * elements are there, by rows, and for gradients by columns too.
 *
 * Row r has the entries e = start[r] .. start[r + 1] - 1: element column[e] is value[e]. Column c has
 * k = column_start[c] .. column_start[c + 1] - 1: row[k], rising, in which it is entry[k]. The columns
 * of a row rise too.
 *
 * What dropout keeps is a bit for each entry (`kept`). Where many of all elements are entries, and all values of
 * a row are equal, it is a bit for each element instead (`kept_words`, as in device/kernels.h), and `there` has
 * a bit for each element that is an entry.
 *
 * All arrays are the caller's. Thread: one run at a time where there is dropout, which writes
 * `kept`; else any.
 */
#ifndef CULM_GRAPH_SPARSE_H
#define CULM_GRAPH_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What `kept` or `kept_words` hold, so that backward need not draw again what forward drew. */
struct culm_sparse_dropped {
    bool there;
    uint64_t key; /* of the dropout */
};

struct culm_sparse_rows {
    int64_t n, columns;
    const uint64_t *start; /* [n+1] */
    const uint32_t *column;
    const float *value;           /* NULL: ones */
    const uint64_t *column_start; /* [columns+1]; NULL: backward is not run */
    const uint32_t *row;
    const uint32_t *entry;     /* NULL: no dropout */
    const float *column_value; /* value[entry[k]]; NULL: ones */
    uint32_t *kept;            /* culm_sparse_kept_words; NULL: no dropout */
    const uint64_t *there;     /* culm_sparse_words by rows; NULL: `kept` is used */
    uint64_t *kept_words;      /* as many; and by columns */
    uint64_t *turned_words;
    const float *weight;               /* [n]: the value of all entries of a row; NULL: 1 */
    struct culm_sparse_dropped *holds; /* while the rows' ids stay; NULL: drawn each time */
};

/* A bit for each entry, and a word more, which kernels may read. */
static inline size_t culm_sparse_kept_words(size_t entries) { return entries / 32 + 2; }

/* Bits of all elements of n rows, in words of 64 columns; by columns: of these, in words of 64 rows. */
static inline size_t culm_sparse_words(int64_t n, int64_t columns) {
    return (size_t)((columns + 63) / 64) * (size_t)n;
}

/* Whether so many elements are there that bits of all are worth having. */
static inline bool culm_sparse_worth_words(int64_t n, int64_t columns, size_t entries) {
    return entries > 0 && (double)entries >= 0.2 * (double)n * (double)columns;
}

#endif
