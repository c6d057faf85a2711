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
#ifndef CULM_LEDGER_ORDER_H
#define CULM_LEDGER_ORDER_H

#include <stdint.h>

struct culm_order {
    uint64_t key, samples, rows, columns;
};

/* samples >= 1. */
void culm_order_init(struct culm_order *order, uint64_t seed, int64_t samples);
/* In [0, samples). */
int64_t culm_order_sample(const struct culm_order *order, uint64_t position);

/* Which samples were read at which positions, as numbers that can be added up in any order: the ids
 * of a micro-batch are the sum of those of its samples, and CULM_IDS_PARTS small numbers are added
 * up over the micro-batches of an iteration (at most 4096: then each is below 2^24, which a float32
 * holds exactly). */
#define CULM_IDS_PARTS 5
uint64_t culm_order_id(uint64_t position, int64_t sample);
uint64_t culm_order_ids(const struct culm_order *order, uint64_t first, int64_t count);
uint32_t culm_order_ids_part(uint64_t ids, int part);             /* below 4096 */
uint64_t culm_order_ids_told(const uint32_t sum[CULM_IDS_PARTS]); /* never 0 */

#endif
