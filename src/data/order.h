/*
 * The order of samples: one stream, a seeded permutation per epoch, joined.
 *
 * Position p of the stream is entry p % samples of the permutation of epoch p / samples. It is a
 * pure function of (seed, samples, p), so a shadow, a replacement and a resumed run all see what
 * the lost node saw, at any position, in any order, with nothing kept or cached.
 *
 * The permutation is a Feistel network on the rectangle [rows] x [columns], the smallest about
 * square one with rows*columns >= samples, with modular addition and Philox as round function
 * (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002); a result outside of
 * the samples goes through again (cycle walking; almost always one pass).
 * Thread: constant after init; any.
 */
#ifndef CULM_DATA_ORDER_H
#define CULM_DATA_ORDER_H

#include <stdint.h>

struct culm_order {
    uint64_t key, samples, rows, columns;
};

/* samples >= 1. */
void culm_order_init(struct culm_order *order, uint64_t seed, int64_t samples);
/* In [0, samples). */
int64_t culm_order_sample(const struct culm_order *order, uint64_t position);

#endif
