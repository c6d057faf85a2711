/*
 * Dropout's random bits, sixteen Philox blocks at a time: the definition stands at struct
 * culm_dropout in tensor/hyper.h. One call gives the bits of 128 consecutive elements, and the layout is
 * such that each 16 of them lie in one vector.
 */
#ifndef CULM_DEVICE_CPU_DROP_H
#define CULM_DEVICE_CPU_DROP_H

#include "device/cpu/simd.h"

#define DROP_GROUP 128 /* elements */

struct drop_bits {
    uvec word[4];
};

/* culm_rng(key, c3 << 32 | c2, c1 << 32 | c0) of each lane. What is between two rounds are low halves
 * of numbers of 64 bits, so that products need not be taken apart and put together. */
SIMD struct drop_bits drop_draw_lanes(uint64_t key, uvec c0, uvec c1, uvec c2, uvec c3) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    dvec w0 = dwiden(c0), w1 = dwiden(c1), w2 = dwiden(c2), w3 = dwiden(c3);
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        dvec p0 = dmul(w0, 0xD2511F53u), p1 = dmul(w2, 0xCD9E8D57u);
        w0 = dxor(dhigh(p1), w1, k0);
        w2 = dxor(dhigh(p0), w3, k1);
        w1 = p1;
        w3 = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (struct drop_bits){{dlow(w0), dlow(w1), dlow(w2), dlow(w3)}};
}

SIMD struct drop_bits drop_draw(uint64_t key, uint64_t sample, uint64_t group) {
    uint64_t counter = group * 16;
    return drop_draw_lanes(key, ucount((uint32_t)counter), uset((uint32_t)(counter >> 32)),
                           uset((uint32_t)sample), uset((uint32_t)(sample >> 32)));
}

/* The random bits of elements 16 slot .. 16 slot + 15 of the group, slot in 0..7. */
SIMD uvec drop_slot(const struct drop_bits *bits, int slot) {
    uvec word = bits->word[slot / 2];
    return slot % 2 ? ushift_right(word, 16) : uand(word, uset(0xFFFF));
}

/* The same where a block is not of consecutive elements but of eight heads of an entry of its own: the
 * random bits in order of [entries, heads]. */
struct drop_entries_bits {
    uint32_t word[4 * LANES];
};
SIMD struct drop_entries_bits drop_by_entry(const struct drop_bits *bits) {
    struct drop_entries_bits order;
#if SIMD_WIDE
    const uvec *w = bits->word;
    uvec low[2] = {_mm512_unpacklo_epi32(w[0], w[1]), _mm512_unpacklo_epi32(w[2], w[3])};
    uvec high[2] = {_mm512_unpackhi_epi32(w[0], w[1]), _mm512_unpackhi_epi32(w[2], w[3])};
    uvec x[4] = {/* of entries i, i + 4, i + 8 and i + 12 */
                 _mm512_unpacklo_epi64(low[0], low[1]), _mm512_unpackhi_epi64(low[0], low[1]),
                 _mm512_unpacklo_epi64(high[0], high[1]), _mm512_unpackhi_epi64(high[0], high[1])};
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((__m128i *)(order.word + 4 * i), _mm512_castsi512_si128(x[i]));
        _mm_storeu_si128((__m128i *)(order.word + 16 + 4 * i), _mm512_extracti32x4_epi32(x[i], 1));
        _mm_storeu_si128((__m128i *)(order.word + 32 + 4 * i), _mm512_extracti32x4_epi32(x[i], 2));
        _mm_storeu_si128((__m128i *)(order.word + 48 + 4 * i), _mm512_extracti32x4_epi32(x[i], 3));
    }
#else
    uint32_t word[4][LANES];
    memcpy(word, bits->word, sizeof word);
    for (int64_t i = 0; i < LANES; i++) {
        for (int64_t w = 0; w < 4; w++) {
            order.word[i * 4 + w] = word[w][i];
        }
    }
#endif
    return order;
}

/* Those of elements at .. at + 15. */
SIMD uvec drop_of_entries(const struct drop_entries_bits *order, int64_t at) {
    return ushift_right(ubits(vload_bf16((const uint16_t *)order->word + at)), 16);
}

/* Below this, an element is dropped. */
SIMD uint32_t drop_threshold(double p) { return (uint32_t)(p * 65536.0 + 0.5); }

/* x / (1 - p) where kept, zero where dropped. */
SIMD vec drop_apply(const struct drop_bits *bits, int slot, uvec threshold, vec scale, vec x) {
    return vselect(uless(drop_slot(bits, slot), threshold), vzero(), vmul(x, scale));
}

#endif
