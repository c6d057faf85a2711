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

#if SIMD_WIDE
/* The four words of each entry together: x[i] has those of entries i, i + 4, i + 8 and i + 12. */
SIMD void drop_turn(const uvec w[4], uvec x[4]) {
    uvec low[2] = {_mm512_unpacklo_epi32(w[0], w[1]), _mm512_unpacklo_epi32(w[2], w[3])};
    uvec high[2] = {_mm512_unpackhi_epi32(w[0], w[1]), _mm512_unpackhi_epi32(w[2], w[3])};
    x[0] = _mm512_unpacklo_epi64(low[0], low[1]);
    x[1] = _mm512_unpackhi_epi64(low[0], low[1]);
    x[2] = _mm512_unpacklo_epi64(high[0], high[1]);
    x[3] = _mm512_unpackhi_epi64(high[0], high[1]);
}
#endif

/* The same where a block is not of consecutive elements but of eight heads of an entry of its own: the
 * random bits in order of [entries, heads]. */
struct drop_entries_bits {
    uint32_t word[4 * LANES];
};
SIMD struct drop_entries_bits drop_by_entry(const struct drop_bits *bits) {
    struct drop_entries_bits order;
#if SIMD_WIDE
    uvec x[4];
    drop_turn(bits->word, x);
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

/* The same where a block is not of consecutive elements but of eight heads of an entry of its own: a byte
 * for each of 16 entries, of what is kept. */
SIMD void drop_of_eight(const struct drop_bits *bits, uint32_t threshold, uint8_t kept[16]) {
#if SIMD_WIDE
    uvec x[4];
    drop_turn(bits->word, x);
    __m512i limit = _mm512_set1_epi16((short)threshold);
    __m128i m[4];
    for (int i = 0; i < 4; i++) {
        uint32_t some = threshold > 0xFFFF ? 0 : _mm512_cmpge_epu16_mask(x[i], limit);
        m[i] = _mm_cvtsi32_si128((int)some);
    }
    __m128i even = _mm_unpacklo_epi8(m[0], m[1]), odd = _mm_unpacklo_epi8(m[2], m[3]);
    _mm_storeu_si128((__m128i *)(void *)kept, _mm_unpacklo_epi16(even, odd));
#else
    uint32_t word[4][LANES];
    memcpy(word, bits->word, sizeof word);
    for (int i = 0; i < LANES; i++) {
        kept[i] = 0;
        for (int h = 0; h < 8; h++) {
            uint32_t half = word[h / 2][i] >> (h % 2 * 16) & 0xFFFF;
            kept[i] |= (uint8_t)((half >= threshold) << h);
        }
    }
#endif
}

/* One bit of each lane, and back. */
SIMD uint32_t bits_of_mask(mask m) {
#if SIMD_WIDE
    return m;
#elif defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(m.a)) |
           (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(m.b)) << 8;
#else
    uint32_t lane[LANES], bits = 0;
    memcpy(lane, &m, sizeof lane);
    for (int i = 0; i < LANES; i++) {
        bits |= (uint32_t)(lane[i] != 0) << i;
    }
    return bits;
#endif
}
SIMD mask mask_of_bits(uint32_t bits) {
#if SIMD_WIDE
    return (mask)bits;
#else
    static const uint32_t one[LANES] = {1u << 0,  1u << 1,  1u << 2,  1u << 3, 1u << 4,  1u << 5,
                                        1u << 6,  1u << 7,  1u << 8,  1u << 9, 1u << 10, 1u << 11,
                                        1u << 12, 1u << 13, 1u << 14, 1u << 15};
    uvec lane;
    memcpy(&lane, one, sizeof lane);
    return uless(uset(0), uand(uset(bits), lane));
#endif
}

/* What the rows of a matrix keep: a bit for each of its columns, 16 a number, `drop_pitch` numbers a row. */
static inline int64_t drop_pitch(int64_t columns) { return (columns + 31) / 32 * 2; }

/* Below this, an element is dropped. */
SIMD uint32_t drop_threshold(double p) { return (uint32_t)(p * 65536.0 + 0.5); }

/* x / (1 - p) where kept, zero where dropped. */
SIMD vec drop_apply(const struct drop_bits *bits, int slot, uvec threshold, vec scale, vec x) {
    return vselect(uless(drop_slot(bits, slot), threshold), vzero(), vmul(x, scale));
}

/* Rows of at most eight elements: two a draw. */
SIMD void drop_narrow_rows(const struct culm_dropout *dropout, uint32_t threshold, int64_t first,
                           int64_t end, int64_t columns, uint16_t *kept) {
    uvec counter = uand(ucount(0), uset(7));
    for (int64_t row = first; row < end; row += 2) {
        uint64_t id = culm_dropout_sample(dropout, row);
        uint64_t next = row + 1 < end ? culm_dropout_sample(dropout, row + 1) : id;
        uint32_t low[LANES], high[LANES];
        for (int i = 0; i < LANES; i++) {
            low[i] = (uint32_t)(i < 8 ? id : next);
            high[i] = (uint32_t)((i < 8 ? id : next) >> 32);
        }
        uvec c2, c3;
        memcpy(&c2, low, sizeof c2);
        memcpy(&c3, high, sizeof c3);
        struct drop_bits bits = drop_draw_lanes(dropout->key, counter, uset(0), c2, c3);
        uint32_t left = ~bits_of_mask(uless(drop_slot(&bits, 0), uset(threshold)));
        uint32_t all = (1u << columns) - 1;
        kept[0] = (uint16_t)(left & all);
        kept[1] = 0;
        if (row + 1 < end) {
            kept[2] = (uint16_t)(left >> 8 & all);
            kept[3] = 0;
        }
        kept += 4;
    }
}

/* Draws what rows first .. end - 1 keep; kept[0] is of row `first`. */
SIMD void drop_rows(const struct culm_dropout *dropout, int64_t first, int64_t end, int64_t columns,
                    uint16_t *kept) {
    uint32_t threshold = drop_threshold(dropout->p);
    int64_t pitch = drop_pitch(columns), slots = (columns + LANES - 1) / LANES;
    if (columns <= 8) {
        drop_narrow_rows(dropout, threshold, first, end, columns, kept);
        return;
    }
    for (int64_t row = first; row < end; row++, kept += pitch) {
        uint64_t id = culm_dropout_sample(dropout, row);
        kept[pitch - 1] = 0;
        for (int64_t slot = 0; slot < slots; slot += DROP_GROUP / LANES) {
            struct drop_bits bits =
                drop_draw(dropout->key, id, (uint64_t)(slot / (DROP_GROUP / LANES)));
#pragma GCC unroll 8
            for (int i = 0; i < DROP_GROUP / LANES; i++) {
                if (slot + i < slots) {
                    uvec word = drop_slot(&bits, i);
                    kept[slot + i] = (uint16_t)~bits_of_mask(uless(word, uset(threshold)));
                }
            }
        }
    }
}

#endif
