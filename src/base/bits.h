/*
 * Bits in words of 64, as many as their owner has room for: a set of numbers below a bound that is known, so that
 * nothing here can fail. Where there is no such bound, or few of many numbers are members, see set.h. The bits behind
 * the last number are zero. Thread: none of its own.
 */
#ifndef CULM_BASE_BITS_H
#define CULM_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a set of numbers below `below`. */
static inline size_t culm_bits_words(int32_t below) { return ((size_t)below + 63) / 64; }

static inline bool culm_bits_has(const uint64_t *word, int32_t number) {
    return word[number / 64] >> (number % 64) & 1;
}
static inline void culm_bits_add(uint64_t *word, int32_t number) {
    word[number / 64] |= 1ull << (number % 64);
}
static inline void culm_bits_remove(uint64_t *word, int32_t number) {
    word[number / 64] &= ~(1ull << (number % 64));
}
/* The least number in these words that is not below `from`; -1: there is none. */
int32_t culm_bits_next(const uint64_t *word, int32_t words, int32_t from);
/* Those from `from` to before `to`. */
void culm_bits_add_range(uint64_t *word, int32_t from, int32_t to);
/* Are all of these in it? */
bool culm_bits_has_range(const uint64_t *word, int32_t from, int32_t to);

#endif
