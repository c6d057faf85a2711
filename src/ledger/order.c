/* The order of samples; see the header. Each round is undone by a subtraction, so the whole is a
 * bijection of the rectangle whatever the round function says. */
#include "ledger/order.h"

#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

/* The rounds of culm_order_sample undone, the last one first. */
uint64_t culm_order_position(const struct culm_order *order, uint64_t pass, int64_t sample) {
    uint64_t key = culm_rng_mix(order->key, pass);
    uint64_t value = (uint64_t)sample;
    do {
        uint64_t row = value / order->columns, column = value % order->columns;
        for (uint64_t round = ROUNDS; round > 0; round -= 2) {
            uint64_t down = draw(key, round - 1, row, order->columns);
            column = (column + order->columns - down) % order->columns;
            row = (row + order->rows - draw(key, round - 2, column, order->rows)) % order->rows;
        }
        value = row * order->columns + column;
    } while (value >= order->samples);
    return pass * order->samples + value;
}

/* --- what is left out --- */

struct culm_order_left_out {
    size_t count;
    int64_t *sample; /* rising */
    /* Of the pass that was asked for last, of the order with that key. */
    bool known;
    uint64_t key, pass;
    uint64_t *place; /* of the samples inside of the pass, rising */
};

struct culm_order_left_out *culm_order_left_out_new(const int64_t *sample, size_t count) {
    struct culm_order_left_out *left_out = calloc(1, sizeof *left_out);
    if (!left_out) {
        return NULL;
    }
    left_out->sample = malloc((count + 1) * sizeof *left_out->sample);
    left_out->place = malloc((count + 1) * sizeof *left_out->place);
    left_out->count = count;
    if (!left_out->sample || !left_out->place) {
        culm_order_left_out_free(left_out);
        return NULL;
    }
    if (count) {
        memcpy(left_out->sample, sample, count * sizeof *sample);
    }
    return left_out;
}

struct culm_order_left_out *culm_order_left_out_copy(const struct culm_order_left_out *from) {
    return from ? culm_order_left_out_new(from->sample, from->count) : NULL;
}

void culm_order_left_out_free(struct culm_order_left_out *left_out) {
    if (left_out) {
        free(left_out->sample);
        free(left_out->place);
        free(left_out);
    }
}

size_t culm_order_left_out_count(const struct culm_order_left_out *left_out) {
    return left_out ? left_out->count : 0;
}

static int compare_samples(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int compare_places(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

bool culm_order_left_out_has(const struct culm_order_left_out *left_out, int64_t sample) {
    return left_out && bsearch(&sample, left_out->sample, left_out->count, sizeof sample,
                               compare_samples) != NULL;
}

static void know_pass(struct culm_order_left_out *left_out, const struct culm_order *order,
                      uint64_t pass) {
    if (left_out->known && left_out->key == order->key && left_out->pass == pass) {
        return;
    }
    for (size_t i = 0; i < left_out->count; i++) {
        left_out->place[i] =
            culm_order_position(order, pass, left_out->sample[i]) - pass * order->samples;
    }
    qsort(left_out->place, left_out->count, sizeof *left_out->place, compare_places);
    left_out->known = true;
    left_out->key = order->key;
    left_out->pass = pass;
}

/* Position of turn `turn` of a pass: so many places that are passed over lie before it. */
static uint64_t find_turn(const struct culm_order_left_out *left_out, uint64_t turn) {
    size_t low = 0, high = left_out->count;
    while (low < high) { /* the first i whose place[i] - i, its turn if it had one, is beyond */
        size_t middle = low + (high - low) / 2;
        if (left_out->place[middle] - middle <= turn) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return turn + low;
}

struct culm_order_place culm_order_turn(const struct culm_order *order, uint64_t turn) {
    struct culm_order_left_out *left_out = order->left_out;
    uint64_t position = turn;
    if (left_out && left_out->count) {
        assert(left_out->count < order->samples);
        uint64_t turns = order->samples - left_out->count, pass = turn / turns;
        know_pass(left_out, order, pass);
        position = pass * order->samples + find_turn(left_out, turn % turns);
    }
    return (struct culm_order_place){position, culm_order_sample(order, position)};
}

/* --- which were read --- */

uint64_t culm_order_id(uint64_t position, int64_t sample) {
    return culm_rng_mix(position, (uint64_t)sample);
}

uint64_t culm_order_ids(const struct culm_order *order, uint64_t first_turn, int64_t count) {
    uint64_t ids = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct culm_order_place place = culm_order_turn(order, first_turn + (uint64_t)i);
        ids += culm_order_id(place.position, place.sample);
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
