/* Dot products of a row with the rows that its entries name, head by head. */
#ifndef CULM_DEVICE_CPU_DOTS_H
#define CULM_DEVICE_CPU_DOTS_H

#include "device/cpu/internal.h"
#include "device/cpu/simd.h"

/* The sums of lanes 0..7 and 8..15, each folded by halves. */
SIMD void vsum_8(vec x, float *ret_low, float *ret_high) {
#ifdef __AVX2__
#if SIMD_WIDE
    __m256 half[2] = {_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)};
#else
    __m256 half[2] = {x.a, x.b};
#endif
    float *const ret[2] = {ret_low, ret_high};
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m128 four =
            _mm_add_ps(_mm256_castps256_ps128(half[i]), _mm256_extractf128_ps(half[i], 1));
        __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        *ret[i] = _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
    }
#else
    float lane[LANES];
    vstore(lane, x);
    for (int width = 4; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) {
            lane[i] += lane[i + width];
            lane[8 + i] += lane[8 + i + width];
        }
    }
    *ret_low = lane[0];
    *ret_high = lane[8];
#endif
}

/* Four vectors of two such sums each, in order. */
SIMD void vsum_8_of_4(const vec *x, float *sum) {
#if SIMD_WIDE
    vec part[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) { /* lanes i and i + 4: four sums of four lanes */
        part[i] = vadd(_mm512_shuffle_f32x4(x[2 * i], x[2 * i + 1], 0x88),
                       _mm512_shuffle_f32x4(x[2 * i], x[2 * i + 1], 0xDD));
    }
    vec two =
        vadd(_mm512_shuffle_ps(part[0], part[1], 0x44), _mm512_shuffle_ps(part[0], part[1], 0xEE));
    vec one = vadd(two, _mm512_movehdup_ps(two));
    uvec order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm256_storeu_ps(sum, _mm512_castps512_ps256(_mm512_permutexvar_ps(order, one)));
#else
    for (int i = 0; i < 4; i++) {
        vsum_8(x[i], &sum[2 * i], &sum[2 * i + 1]);
    }
#endif
}

/* vsum of eight vectors, in order. */
SIMD void vsum_of_8(const vec *x, float *sum) {
#if SIMD_WIDE
    vec half[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { /* lanes i and i + 8 */
        half[i] = vadd(_mm512_shuffle_f32x4(x[2 * i], x[2 * i + 1], 0x44),
                       _mm512_shuffle_f32x4(x[2 * i], x[2 * i + 1], 0xEE));
    }
    vsum_8_of_4(half, sum);
#else
    for (int i = 0; i < 8; i++) {
        sum[i] = vsum(x[i]);
    }
#endif
}

/* Heads of 8 columns, two a vector. */
SIMD void dots_of_8(struct culm_in x, struct culm_in y, int64_t at, int64_t by, int64_t heads,
                    float *value) {
    int64_t h = 0;
    for (; h + 8 <= heads; h += 8) {
        vec p[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            int64_t k = h * 8 + i * LANES;
            p[i] = vmul(tload(x, at + k), tload(y, by + k));
        }
        vsum_8_of_4(p, value + h);
    }
    for (; h < heads; h += 2) {
        int64_t n = at_most(LANES, (heads - h) * 8);
        float low, high;
        vec p = vmul(tload_part(x, at + h * 8, n), tload_part(y, by + h * 8, n));
        vsum_8(p, &low, &high);
        value[h] = low;
        if (n > 8) {
            value[h + 1] = high;
        }
    }
}

/* The products of one head, not yet folded. */
SIMD vec products(struct culm_in x, struct culm_in y, int64_t at, int64_t by, int64_t width) {
    vec sum = vmul(tload_part(x, at, width), tload_part(y, by, width));
    for (int64_t i = LANES; i < width; i += LANES) {
        sum = vfma(tload_part(x, at + i, width - i), tload_part(y, by + i, width - i), sum);
    }
    return sum;
}

/* A row's dot products, entry by entry and head by head: eight of them are folded at a time. */
SIMD void dots(struct culm_in x, int64_t at, struct culm_in y, int64_t ldb, const uint32_t *column,
               int64_t entries, int64_t heads, int64_t width, float *value) {
    int64_t count = entries * heads, head = 0, i = 0;
    vec sum[8];
    for (; i + 8 <= count; i += 8) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) {
            int64_t by = (int64_t)*column * ldb;
            sum[k] = products(x, y, at + head * width, by + head * width, width);
            if (++head == heads) {
                head = 0;
                column++;
            }
        }
        vsum_of_8(sum, value + i);
    }
    for (; i < count; i++) {
        int64_t by = (int64_t)*column * ldb;
        value[i] = vsum(products(x, y, at + head * width, by + head * width, width));
        if (++head == heads) {
            head = 0;
            column++;
        }
    }
}

/* value[entries,heads]: of the row at x[at] with rows column[e] of y, ldb apart. */
SIMD void dots_of_row(struct culm_in x, int64_t at, struct culm_in y, int64_t ldb,
                      const uint32_t *column, int64_t entries, int64_t heads, int64_t width,
                      float *value) {
    if (width != 8) {
        dots(x, at, y, ldb, column, entries, heads, width, value);
        return;
    }
    for (int64_t e = 0; e < entries; e++) {
        dots_of_8(x, y, at, (int64_t)column[e] * ldb, heads, value + e * heads);
    }
}

#endif
