/*
 * Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC'11).
 *
 * A number is a pure function of its key and counter, so a dropout mask made on a shadow is the
 * mask of the lost node, and no result depends on who draws first. There is no state to save.
 * Thread: any.
 */
#ifndef CULM_BASE_RNG_H
#define CULM_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct culm_rng_block {
    uint32_t word[4];
};

/* Four independent 32-bit words for (key, counter). */
struct culm_rng_block culm_rng(uint64_t key, uint64_t counter_hi, uint64_t counter_lo);

/* Mixes two numbers into a key; not commutative. (SplitMix64's finaliser.) */
uint64_t culm_rng_mix(uint64_t a, uint64_t b);
/* The same of `len` bytes. */
uint64_t culm_rng_mix_bytes(uint64_t a, const void *data, size_t len);

/* Uniform in [0, 1): the upper 24 bits of a word. */
static inline float culm_rng_unit(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

/* Two numbers of the normal distribution with mean 0 and deviation `std`, of two words: Box and
 * Muller's formula in float64 with correctly rounded functions, then the nearest float. The same
 * bits on every processor and with every C library. */
void culm_rng_normal(uint32_t a, uint32_t b, double std, float ret_pair[2]);

/* One sequence for code that wants a stream (tests, the simulator): state is the caller's. */
uint64_t culm_rng_next(uint64_t *state);
/* Uniform in [0, bound), bound > 0; without modulo bias. */
uint64_t culm_rng_below(uint64_t *state, uint64_t bound);

#endif
