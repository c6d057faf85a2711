/* A number of each lane out of a table: what heads say to their columns. */
#ifndef CULM_DEVICE_CPU_LANES_H
#define CULM_DEVICE_CPU_LANES_H

#include "device/cpu/simd.h"

/* table[index] of each lane; t holds the same elements. */
SIMD vec look_up(vec t, const float *table, uvec index) {
#if SIMD_WIDE
    (void)table;
    return _mm512_permutexvar_ps(index, t);
#elif defined(__AVX2__)
    (void)table;
    __m256i seven = _mm256_set1_epi32(7);
    __m256 low_a = _mm256_permutevar8x32_ps(t.a, index.a);
    __m256 high_a = _mm256_permutevar8x32_ps(t.b, index.a);
    __m256 low_b = _mm256_permutevar8x32_ps(t.a, index.b);
    __m256 high_b = _mm256_permutevar8x32_ps(t.b, index.b);
    return SIMD_BOTH(
        vec,
        _mm256_blendv_ps(low_a, high_a, _mm256_castsi256_ps(_mm256_cmpgt_epi32(index.a, seven))),
        _mm256_blendv_ps(low_b, high_b, _mm256_castsi256_ps(_mm256_cmpgt_epi32(index.b, seven))));
#else
    float out[LANES];
    uint32_t at[LANES];
    (void)t;
    memcpy(at, &index, sizeof at);
    for (int i = 0; i < LANES; i++) {
        out[i] = table[at[i]];
    }
    return vload(out);
#endif
}

#endif
