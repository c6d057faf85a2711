/* The order of samples; see the header. Each round is undone by a subtraction, so the whole is a
 * bijection of the rectangle whatever the round function says. */
#include "ledger/order.h"

#include "base/rng.h"

#include <assert.h>
#include <stdbool.h>

/* Four are enough for large halves (Luby and Rackoff); tiny rectangles need more to reach all of
 * their permutations evenly. */
#define ROUNDS 16

/* "order": keeps this key apart from other uses of the seed */
#define ORDER_STREAM 0x6f72646572ull

void culm_order_init(struct culm_order *order, uint64_t seed, int64_t samples) {
    assert(samples >= 1);
    uint64_t count = (uint64_t)samples, rows = 0;
    for (uint64_t bit = 1ull << 31; bit; bit >>= 1) {
        if ((rows | bit) <= count / (rows | bit)) {
            rows |= bit;
        }
    }
    if (rows == 1 && count > 2) {
        rows = 2; /* one row would only rotate */
    }
    *order = (struct culm_order){.key = culm_rng_mix(seed, ORDER_STREAM),
                                 .samples = count,
                                 .rows = rows,
                                 .columns = count / rows + (count % rows != 0)};
}

/* Uniform below `bound` up to 2^-32 relative: bounds stay below 2^33 and the draw has 64 bits. */
static uint64_t draw(uint64_t key, uint64_t round, uint64_t half, uint64_t bound) {
    struct culm_rng_block block = culm_rng(key, round, half);
    return ((uint64_t)block.word[0] | (uint64_t)block.word[1] << 32) % bound;
}

int64_t culm_order_sample(const struct culm_order *order, uint64_t position) {
    uint64_t key = culm_rng_mix(order->key, position / order->samples);
    uint64_t value = position % order->samples;
    do {
        uint64_t row = value / order->columns, column = value % order->columns;
        for (uint64_t round = 0; round < ROUNDS; round += 2) {
            row = (row + draw(key, round, column, order->rows)) % order->rows;
            column = (column + draw(key, round + 1, row, order->columns)) % order->columns;
        }
        value = row * order->columns + column;
    } while (value >= order->samples);
    return (int64_t)value;
}

uint64_t culm_order_id(uint64_t position, int64_t sample) {
    return culm_rng_mix(position, (uint64_t)sample);
}

uint64_t culm_order_ids(const struct culm_order *order, uint64_t first, int64_t count) {
    uint64_t ids = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t position = first + (uint64_t)i;
        ids += culm_order_id(position, culm_order_sample(order, position));
    }
    return ids;
}

uint32_t culm_order_ids_part(uint64_t ids, int part) {
    return (uint32_t)(culm_rng_mix(ids, 5) >> 12 * part) & 4095;
}

uint64_t culm_order_ids_told(const uint32_t sum[CULM_IDS_PARTS]) {
    uint64_t told = 1;
    for (int i = 0; i < CULM_IDS_PARTS; i++) {
        told = culm_rng_mix(told, sum[i]);
    }
    return told ? told : 1;
}
