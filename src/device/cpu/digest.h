/*
 * Digests of arrays of floats, by their bits: runs of DIGEST_RUN elements, 16 lanes of 32 bits
 * each, rotated before the next element is added, so that no single flipped bit can hide and order
 * matters. A run is folded into 64 bits with its number, and the runs are added up, in any order.
 * Elements past the end count as zeros. Integers only: the same on every instruction set.
 */
#ifndef CULM_DEVICE_CPU_DIGEST_H
#define CULM_DEVICE_CPU_DIGEST_H

#include "device/cpu/simd.h"

#define DIGEST_RUN 4096

SIMD uvec digest_begin(void) { return ucount(0x9E3779B9u); }

SIMD uvec digest_next(uvec h, vec x) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    return uadd(_mm512_rol_epi32(h, 7), ubits(x));
#else
    return uadd(uxor(ushift_left(h, 7), ushift_right(h, 25)), ubits(x));
#endif
}

SIMD uint64_t digest_end(uvec h, int64_t run) {
    uint64_t word[LANES / 2], sum = ((uint64_t)run + 1) * 0x9E3779B97F4A7C15ull;
    _Static_assert(sizeof word == sizeof h, "sixteen lanes of 32 bits");
    memcpy(word, &h, sizeof word);
    for (int i = 0; i < LANES / 2; i++) {
        sum = (sum ^ word[i]) * 0xD6E8FEB86659FD93ull;
        sum ^= sum >> 32;
    }
    return sum;
}

/* Of elements from..to, which are run number from / DIGEST_RUN or a part of it that ends it. */
SIMD uint64_t digest_run(const float *x, int64_t from, int64_t to) {
    uvec h = digest_begin();
    int64_t i = from;
    for (; i + LANES <= to; i += LANES) {
        h = digest_next(h, vload(x + i));
    }
    if (i < to) {
        h = digest_next(h, vload_n(x + i, to - i));
    }
    return digest_end(h, from / DIGEST_RUN);
}

static inline void digest_add(uint64_t *sum, uint64_t run) {
    __atomic_fetch_add(sum, run, __ATOMIC_RELAXED);
}

#endif
