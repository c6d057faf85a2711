/* Transposing 16 x 16 blocks of floats, for packing. Moves bits only. */
#ifndef CULM_DEVICE_CPU_TRANSPOSE_H
#define CULM_DEVICE_CPU_TRANSPOSE_H

#include "device/cpu/simd.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)

/* to[j * to_stride + i] = from[i * from_stride + j], i and j in 0..15 */
SIMD void transpose16(const float *from, int64_t from_stride, float *to, int64_t to_stride) {
    vec r[16], s[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        r[i] = vload(from + i * from_stride);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(s[i], s[i + 2], 0xEE);
        r[i + 2] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0xEE);
    }
    /* r[4 g + q] holds, in 128-bit lane l, column 4 l + q of rows 4 g .. 4 g + 3 */
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        vec a = _mm512_shuffle_f32x4(r[q], r[4 + q], 0x88);
        vec b = _mm512_shuffle_f32x4(r[8 + q], r[12 + q], 0x88);
        vec c = _mm512_shuffle_f32x4(r[q], r[4 + q], 0xDD);
        vec d = _mm512_shuffle_f32x4(r[8 + q], r[12 + q], 0xDD);
        vstore(to + q * to_stride, _mm512_shuffle_f32x4(a, b, 0x88));
        vstore(to + (4 + q) * to_stride, _mm512_shuffle_f32x4(c, d, 0x88));
        vstore(to + (8 + q) * to_stride, _mm512_shuffle_f32x4(a, b, 0xDD));
        vstore(to + (12 + q) * to_stride, _mm512_shuffle_f32x4(c, d, 0xDD));
    }
}

#else

/* to[j * to_stride + i] = from[i * from_stride + j], i and j in 0..15 */
SIMD void transpose16(const float *from, int64_t from_stride, float *to, int64_t to_stride) {
    for (int64_t i0 = 0; i0 < 16; i0 += 4) {
        for (int64_t j = 0; j < 16; j++) {
            for (int64_t i = i0; i < i0 + 4; i++) {
                to[j * to_stride + i] = from[i * from_stride + j];
            }
        }
    }
}

#endif

#endif
