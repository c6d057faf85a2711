/*
 * How sums over rows are cut, whoever adds them up: pieces of rows one after the other, in blocks that
 * threads share and that are put together in order.
 */
#ifndef CULM_DEVICE_CPU_COLUMNS_H
#define CULM_DEVICE_CPU_COLUMNS_H

#include "device/cpu/internal.h"

#define COLUMN_STRIP 512 /* columns that a tile adds up; a multiple of LANES */
#define COLUMN_PIECE 256 /* rows */
#define COLUMN_BLOCKS 64

struct column_blocks {
    int64_t count, terms; /* of each but the last */
};

/* Of so many tiles without blocks, which have at least `least` terms. */
static inline struct column_blocks blocks_of(int64_t tiles, int64_t results, int64_t terms,
                                             int64_t least) {
    int64_t count = tiles >= COLUMN_BLOCKS ? 1 : at_most(COLUMN_BLOCKS, terms / least);
    count = at_least(1, at_most(at_least(1, count), SHARED_FLOATS / results));
    int64_t each = ceil_div(terms, count);
    return (struct column_blocks){ceil_div(terms, each), each};
}

#endif
