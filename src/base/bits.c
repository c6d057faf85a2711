/* Bits in words of 64. See bits.h. */
#include "base/bits.h"

/* The bits of word `w` that belong to the range. */
static uint64_t part(int32_t w, int32_t from, int32_t to) {
    uint64_t bits = UINT64_MAX;
    if (from > 64 * w) {
        bits <<= from - 64 * w;
    }
    if (to < 64 * (w + 1)) {
        bits &= (1ull << (to - 64 * w)) - 1;
    }
    return bits;
}

int32_t culm_bits_next(const uint64_t *word, int32_t words, int32_t from) {
    for (int32_t w = from / 64; w < words; w++) {
        const uint64_t left = word[w] & (w == from / 64 ? UINT64_MAX << from % 64 : UINT64_MAX);
        if (left) {
            return 64 * w + __builtin_ctzll(left);
        }
    }
    return -1;
}

void culm_bits_add_range(uint64_t *word, int32_t from, int32_t to) {
    for (int32_t w = from / 64; 64 * w < to; w++) {
        word[w] |= part(w, from, to);
    }
}

bool culm_bits_has_range(const uint64_t *word, int32_t from, int32_t to) {
    for (int32_t w = from / 64; 64 * w < to; w++) {
        const uint64_t bits = part(w, from, to);
        if ((word[w] & bits) != bits) {
            return false;
        }
    }
    return true;
}
