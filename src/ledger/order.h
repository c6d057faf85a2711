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
 *
 * Samples may be left out. The stream is drawn as without that, and their positions are passed over:
 * *turn* t of a run is the t-th position of the stream whose sample is not left out. Without a list,
 * turn t is position t.
 *
 *     position  0 1 2 3 4 5 6 7     samples 4, sample 1 left out
 *     sample    2 1 3 0 0 3 2 1
 *     turn      0   1 2 3 4 5
 *
 * Thread: constant after init; any, but for turns with a list.
 */
#ifndef CULM_LEDGER_ORDER_H
#define CULM_LEDGER_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct culm_order_left_out;

struct culm_order {
    uint64_t key, samples, rows, columns;
    struct culm_order_left_out *left_out; /* borrowed; NULL: none */
};

/* samples >= 1; none is left out. */
void culm_order_init(struct culm_order *order, uint64_t seed, int64_t samples);
/* In [0, samples). */
int64_t culm_order_sample(const struct culm_order *order, uint64_t position);
/* The position of a sample in a pass over all of them, from 0: culm_order_sample of it is `sample`. */
uint64_t culm_order_position(const struct culm_order *order, uint64_t pass, int64_t sample);

/* Samples that an order of `samples` leaves out. `sample`: rising, in [0, samples), fewer than all;
 * copied. NULL: out of memory. It remembers where they are in the pass that was asked for last:
 * turns are for one thread at a time, the rest for any. */
struct culm_order_left_out *culm_order_left_out_new(const int64_t *sample, size_t count);
/* NULL: out of memory; of NULL: there is none. */
struct culm_order_left_out *culm_order_left_out_copy(const struct culm_order_left_out *from);
void culm_order_left_out_free(struct culm_order_left_out *left_out);          /* NULL is fine */
size_t culm_order_left_out_count(const struct culm_order_left_out *left_out); /* NULL: 0 */
bool culm_order_left_out_has(const struct culm_order_left_out *left_out, int64_t sample);

/* What a turn reads. */
struct culm_order_place {
    uint64_t position; /* the key of all that is random about the sample */
    int64_t sample;
};
struct culm_order_place culm_order_turn(const struct culm_order *order, uint64_t turn);

/* Which samples were read at which positions, as numbers that can be added up in any order: the ids
 * of a micro-batch are the sum of those of its samples, and CULM_IDS_PARTS small numbers are added
 * up over the micro-batches of an iteration (at most 4096: then each is below 2^24, which a float32
 * holds exactly). */
#define CULM_IDS_PARTS 5
uint64_t culm_order_id(uint64_t position, int64_t sample);
uint64_t culm_order_ids(const struct culm_order *order, uint64_t first_turn, int64_t count);
uint32_t culm_order_ids_part(uint64_t ids, int part);             /* below 4096 */
uint64_t culm_order_ids_told(const uint32_t sum[CULM_IDS_PARTS]); /* never 0 */

#endif
