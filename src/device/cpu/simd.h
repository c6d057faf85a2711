/*
 * Sixteen lanes, whatever the processor has: one 512-bit register, two of 256 bits, four of 128
 * bits (simd_neon.h), or what the compiler makes of it. Every kernel is written once on top of this
 * and compiled once per instruction set (CULM_ISA names it), and every operation below rounds the
 * same everywhere, so the instruction set changes speed and no bit.
 *
 * Multiply-add is fused and written out (vfma). max(a, b) is a > b ? a : b, so NaN in b passes.
 * Loads and stores need no alignment. The base variant calls fmaf per lane: right, and slow.
 */
#ifndef CULM_DEVICE_CPU_SIMD_H
#define CULM_DEVICE_CPU_SIMD_H

#include "device/cpu/cpu.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CULM_PASTE2(a, b) a##_##b
#define CULM_PASTE(a, b) CULM_PASTE2(a, b)
#define ISA_NAME(name) CULM_PASTE(name, CULM_ISA)

/*
 * AVX512_BF16 adds an instruction that rounds to bf16. Files that do not round, nor call any that does, are
 * alike with and without it, and are compiled once for both (meson.build has the list). After a function
 * that other files call, such a file has ALIKE(function), which gives it both names. What does not belong
 * there does not build: rounding is refused at the end of this header, and what a file calls of those
 * that round, or forgets to mark, the linker does not find.
 */
#ifdef CULM_ALIKE
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define CULM_STRING2(x) #x
#define CULM_STRING(x) CULM_STRING2(x)
#define CULM_SECOND_NAME(name, second)                                                             \
    extern __typeof__(ISA_NAME(name)) second __attribute__((alias(CULM_STRING(ISA_NAME(name)))))
#define ALIKE(name)                                                                                \
    CULM_SECOND_NAME(name, name##_avx512);                                                         \
    CULM_SECOND_NAME(name, name##_avx512_bf16)
#else
#define ALIKE(name) extern __typeof__(ISA_NAME(name)) ISA_NAME(name)
#endif
#endif

#define LANES 16

/* Whether loops are worth copies for the common types, sizes and functions, with all that they call in
 * line: not without vectors, where that would only make compiling slow. */
#if defined(__AVX2__) || defined(CULM_NEON)
#define SPECIAL 1
#define SIMD static inline __attribute__((always_inline))
#else
#define SPECIAL 0
#define SIMD static __attribute__((unused))
#endif

#if defined(__AVX512F__) && defined(__AVX512DQ__)

#include <immintrin.h>
#define SIMD_REGISTERS 32
#define SIMD_WIDE 1
typedef __m512 vec;
typedef __m512i uvec; /* 16 x u32 */
typedef __mmask16 mask;

SIMD vec vset(float x) { return _mm512_set1_ps(x); }
SIMD vec vload(const float *p) { return _mm512_loadu_ps(p); }
SIMD void vstore(float *p, vec a) { _mm512_storeu_ps(p, a); }
#define SIMD_STREAM
SIMD void vstream(float *p, vec a) { _mm512_stream_ps(p, a); }
SIMD vec vload_n(const float *p, int64_t n) {
    return _mm512_maskz_loadu_ps((mask)((1u << n) - 1), p);
}
SIMD void vstore_n(float *p, vec a, int64_t n) {
    _mm512_mask_storeu_ps(p, (mask)((1u << n) - 1), a);
}
SIMD vec vadd(vec a, vec b) { return _mm512_add_ps(a, b); }
SIMD vec vsub(vec a, vec b) { return _mm512_sub_ps(a, b); }
SIMD vec vmul(vec a, vec b) { return _mm512_mul_ps(a, b); }
SIMD vec vdiv(vec a, vec b) { return _mm512_div_ps(a, b); }
SIMD vec vsqrt(vec a) { return _mm512_sqrt_ps(a); }
SIMD vec vfma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
SIMD vec vfnma(vec a, vec b, vec c) { return _mm512_fnmadd_ps(a, b, c); }
SIMD vec vmax(vec a, vec b) { return _mm512_max_ps(a, b); }
SIMD vec vmin(vec a, vec b) { return _mm512_min_ps(a, b); }
SIMD mask vless(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
SIMD vec vselect(mask m, vec yes, vec no) { return _mm512_mask_blend_ps(m, no, yes); }
/* The first n lanes (n in 0..16). */
SIMD mask vfirst(int64_t n) { return (mask)((1u << n) - 1); }
SIMD uvec ubits(vec a) { return _mm512_castps_si512(a); }
SIMD vec ufloat_bits(uvec a) { return _mm512_castsi512_ps(a); }
SIMD uvec uset(uint32_t x) { return _mm512_set1_epi32((int)x); }
SIMD uvec ucount(uint32_t x) { /* x, x + 1, ..., x + 15 */
    return _mm512_add_epi32(
        uset(x), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
SIMD uvec uadd(uvec a, uvec b) { return _mm512_add_epi32(a, b); }
SIMD uvec uxor(uvec a, uvec b) { return _mm512_xor_si512(a, b); }
SIMD uvec uand(uvec a, uvec b) { return _mm512_and_si512(a, b); }
#define ushift_left(a, bits) _mm512_slli_epi32(a, bits)
#define ushift_right(a, bits) _mm512_srli_epi32(a, bits)
SIMD mask uless(uvec a, uvec b) { return _mm512_cmplt_epu32_mask(a, b); }
/* Sixteen numbers of 64 bits; those whose operands are halves take low ones. */
typedef struct {
    __m512i even, odd; /* lanes 0, 2, ... and 1, 3, ... */
} dvec;
SIMD dvec dwiden(uvec a) { return (dvec){a, _mm512_srli_epi64(a, 32)}; }
SIMD uvec dlow(dvec a) {
    return _mm512_mask_blend_epi32(0xAAAA, a.even, _mm512_slli_epi64(a.odd, 32));
}
SIMD dvec dhigh(dvec a) {
    return (dvec){_mm512_srli_epi64(a.even, 32), _mm512_srli_epi64(a.odd, 32)};
}
SIMD dvec dmul(dvec a, uint32_t m) { /* products of halves */
    return (dvec){_mm512_mul_epu32(a.even, uset(m)), _mm512_mul_epu32(a.odd, uset(m))};
}
SIMD dvec dxor(dvec a, dvec b, uint32_t c) { /* of halves */
    return (dvec){_mm512_ternarylogic_epi32(a.even, b.even, uset(c), 0x96),
                  _mm512_ternarylogic_epi32(a.odd, b.odd, uset(c), 0x96)};
}

#elif defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>
#define SIMD_REGISTERS 16
#define SIMD_WIDE 0
typedef struct {
    __m256 a, b;
} vec;
typedef struct {
    __m256i a, b;
} uvec;
typedef uvec mask;

#define SIMD_BOTH(type, expr_a, expr_b) ((type){expr_a, expr_b})
SIMD vec vset(float x) { return SIMD_BOTH(vec, _mm256_set1_ps(x), _mm256_set1_ps(x)); }
SIMD vec vload(const float *p) {
    return SIMD_BOTH(vec, _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}
SIMD void vstore(float *p, vec x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
#define SIMD_STREAM
SIMD void vstream(float *p, vec x) {
    _mm256_stream_ps(p, x.a);
    _mm256_stream_ps(p + 8, x.b);
}
SIMD uvec uset(uint32_t x) {
    return SIMD_BOTH(uvec, _mm256_set1_epi32((int)x), _mm256_set1_epi32((int)x));
}
SIMD uvec ucount(uint32_t x) {
    __m256i base = _mm256_set1_epi32((int)x);
    return SIMD_BOTH(uvec, _mm256_add_epi32(base, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
                     _mm256_add_epi32(base, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)));
}
SIMD mask vfirst(int64_t n) {
    __m256i count = _mm256_set1_epi32((int)n);
    uvec lane = ucount(0);
    return SIMD_BOTH(mask, _mm256_cmpgt_epi32(count, lane.a), _mm256_cmpgt_epi32(count, lane.b));
}
SIMD vec vload_n(const float *p, int64_t n) {
    mask m = vfirst(n);
    return SIMD_BOTH(vec, _mm256_maskload_ps(p, m.a), _mm256_maskload_ps(p + 8, m.b));
}
/* The lower half. Compilers leave out whatever is done with the upper one, if only the lower is stored. */
#define SIMD_LOW 8
SIMD vec vload_low(const float *p) {
    return SIMD_BOTH(vec, _mm256_loadu_ps(p), _mm256_setzero_ps());
}
SIMD vec vload_low_n(const float *p, int64_t n) {
    return SIMD_BOTH(vec, _mm256_maskload_ps(p, vfirst(n).a), _mm256_setzero_ps());
}
/* The first n of 8 lanes. Not by a masked store, which takes AMD's processors as long as dozens of
 * ordinary ones. */
SIMD void store_first(float *p, __m256 x, int64_t n) {
    __m128 part = _mm256_castps256_ps128(x);
    if (n >= 8) {
        _mm256_storeu_ps(p, x);
        return;
    }
    if (n & 4) {
        _mm_storeu_ps(p, part);
        part = _mm256_extractf128_ps(x, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, part);
        part = _mm_movehl_ps(part, part);
        p += 2;
    }
    if (n & 1) {
        _mm_store_ss(p, part);
    }
}
SIMD void vstore_low_n(float *p, vec x, int64_t n) { store_first(p, x.a, n); }
SIMD void vstore_n(float *p, vec x, int64_t n) {
    store_first(p, x.a, n);
    if (n > 8) {
        store_first(p + 8, x.b, n - 8);
    }
}
#define SIMD_BINARY(name, type, op)                                                                \
    SIMD type name(type x, type y) { return SIMD_BOTH(type, op(x.a, y.a), op(x.b, y.b)); }
SIMD_BINARY(vadd, vec, _mm256_add_ps)
SIMD_BINARY(vsub, vec, _mm256_sub_ps)
SIMD_BINARY(vmul, vec, _mm256_mul_ps)
SIMD_BINARY(vdiv, vec, _mm256_div_ps)
SIMD_BINARY(vmax, vec, _mm256_max_ps)
SIMD_BINARY(vmin, vec, _mm256_min_ps)
SIMD_BINARY(uadd, uvec, _mm256_add_epi32)
SIMD_BINARY(uxor, uvec, _mm256_xor_si256)
SIMD_BINARY(uand, uvec, _mm256_and_si256)
SIMD vec vsqrt(vec x) { return SIMD_BOTH(vec, _mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)); }
SIMD vec vfma(vec x, vec y, vec z) {
    return SIMD_BOTH(vec, _mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
SIMD vec vfnma(vec x, vec y, vec z) {
    return SIMD_BOTH(vec, _mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b));
}
SIMD uvec ubits(vec x) {
    return SIMD_BOTH(uvec, _mm256_castps_si256(x.a), _mm256_castps_si256(x.b));
}
SIMD vec ufloat_bits(uvec x) {
    return SIMD_BOTH(vec, _mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b));
}
SIMD mask vless(vec x, vec y) {
    return ubits(
        SIMD_BOTH(vec, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)));
}
SIMD vec vselect(mask m, vec yes, vec no) {
    vec s = ufloat_bits(m);
    return SIMD_BOTH(vec, _mm256_blendv_ps(no.a, yes.a, s.a), _mm256_blendv_ps(no.b, yes.b, s.b));
}
#define ushift_left(x, bits)                                                                       \
    SIMD_BOTH(uvec, _mm256_slli_epi32((x).a, bits), _mm256_slli_epi32((x).b, bits))
#define ushift_right(x, bits)                                                                      \
    SIMD_BOTH(uvec, _mm256_srli_epi32((x).a, bits), _mm256_srli_epi32((x).b, bits))
SIMD mask uless(uvec x, uvec y) { /* operands below 2^31 */
    return SIMD_BOTH(mask, _mm256_cmpgt_epi32(y.a, x.a), _mm256_cmpgt_epi32(y.b, x.b));
}
/* Sixteen numbers of 64 bits; those whose operands are halves take low ones. */
typedef struct {
    __m256i even[2], odd[2]; /* lanes 0, 2, ... and 1, 3, ... */
} dvec;
#define SIMD_WIDE_BOTH(op, ...)                                                                    \
    ((dvec){{op(even[0], __VA_ARGS__), op(even[1], __VA_ARGS__)},                                  \
            {op(odd[0], __VA_ARGS__), op(odd[1], __VA_ARGS__)}})
#define SIMD_WIDE_HIGH(half, a) _mm256_srli_epi64((a).half, 32)
#define SIMD_WIDE_TIMES(half, a, m) _mm256_mul_epu32((a).half, m)
#define SIMD_WIDE_XOR(half, a, b, c) _mm256_xor_si256(_mm256_xor_si256((a).half, (b).half), c)
SIMD dvec dwiden(uvec x) {
    return (dvec){{x.a, x.b}, {_mm256_srli_epi64(x.a, 32), _mm256_srli_epi64(x.b, 32)}};
}
SIMD uvec dlow(dvec x) {
    return SIMD_BOTH(uvec, _mm256_blend_epi32(x.even[0], _mm256_slli_epi64(x.odd[0], 32), 0xAA),
                     _mm256_blend_epi32(x.even[1], _mm256_slli_epi64(x.odd[1], 32), 0xAA));
}
SIMD dvec dhigh(dvec x) { return SIMD_WIDE_BOTH(SIMD_WIDE_HIGH, x); }
SIMD dvec dmul(dvec x, uint32_t m) { /* products of halves */
    __m256i factor = _mm256_set1_epi32((int)m);
    return SIMD_WIDE_BOTH(SIMD_WIDE_TIMES, x, factor);
}
SIMD dvec dxor(dvec x, dvec y, uint32_t z) { /* of halves */
    __m256i all = _mm256_set1_epi32((int)z);
    return SIMD_WIDE_BOTH(SIMD_WIDE_XOR, x, y, all);
}

#elif defined(CULM_NEON)

#include "device/cpu/simd_neon.h"

#else

#define SIMD_REGISTERS 16
#define SIMD_WIDE 0
typedef struct {
    float lane[LANES];
} vec;
typedef struct {
    uint32_t lane[LANES];
} uvec;
typedef uvec mask;

/* Calls, not inlined: this variant is for being right, and inlining makes compilers slow. */
#define LANEWISE static __attribute__((noinline, unused))
#define SIMD_EACH(type, expr)                                                                      \
    type r;                                                                                        \
    for (int i = 0; i < LANES; i++)                                                                \
        r.lane[i] = (expr);                                                                        \
    return r
LANEWISE vec vset(float x) { SIMD_EACH(vec, x); }
LANEWISE vec vload(const float *p) { SIMD_EACH(vec, p[i]); }
LANEWISE vec vload_n(const float *p, int64_t n) { SIMD_EACH(vec, i < n ? p[i] : 0.0f); }
LANEWISE void vstore(float *p, vec a) { memcpy(p, a.lane, sizeof a.lane); }
LANEWISE void vstore_n(float *p, vec a, int64_t n) { memcpy(p, a.lane, (size_t)n * sizeof(float)); }
LANEWISE vec vadd(vec a, vec b) { SIMD_EACH(vec, a.lane[i] + b.lane[i]); }
LANEWISE vec vsub(vec a, vec b) { SIMD_EACH(vec, a.lane[i] - b.lane[i]); }
LANEWISE vec vmul(vec a, vec b) { SIMD_EACH(vec, a.lane[i] * b.lane[i]); }
LANEWISE vec vdiv(vec a, vec b) { SIMD_EACH(vec, a.lane[i] / b.lane[i]); }
LANEWISE vec vsqrt(vec a) { SIMD_EACH(vec, sqrtf(a.lane[i])); }
LANEWISE vec vfma(vec a, vec b, vec c) { SIMD_EACH(vec, fmaf(a.lane[i], b.lane[i], c.lane[i])); }
LANEWISE vec vfnma(vec a, vec b, vec c) { SIMD_EACH(vec, fmaf(-a.lane[i], b.lane[i], c.lane[i])); }
LANEWISE vec vmax(vec a, vec b) { SIMD_EACH(vec, a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]); }
LANEWISE vec vmin(vec a, vec b) { SIMD_EACH(vec, a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]); }
LANEWISE mask vless(vec a, vec b) { SIMD_EACH(mask, a.lane[i] < b.lane[i]); }
LANEWISE mask vfirst(int64_t n) { SIMD_EACH(mask, i < n); }
LANEWISE vec vselect(mask m, vec yes, vec no) {
    SIMD_EACH(vec, m.lane[i] ? yes.lane[i] : no.lane[i]);
}
LANEWISE uvec uset(uint32_t x) { SIMD_EACH(uvec, x); }
LANEWISE uvec ucount(uint32_t x) { SIMD_EACH(uvec, x + (uint32_t)i); }
LANEWISE uvec uadd(uvec a, uvec b) { SIMD_EACH(uvec, a.lane[i] + b.lane[i]); }
LANEWISE uvec uxor(uvec a, uvec b) { SIMD_EACH(uvec, a.lane[i] ^ b.lane[i]); }
LANEWISE uvec uand(uvec a, uvec b) { SIMD_EACH(uvec, a.lane[i] & b.lane[i]); }
LANEWISE uvec ushift_left(uvec a, int bits) { SIMD_EACH(uvec, a.lane[i] << bits); }
LANEWISE uvec ushift_right(uvec a, int bits) { SIMD_EACH(uvec, a.lane[i] >> bits); }
LANEWISE mask uless(uvec a, uvec b) { SIMD_EACH(mask, a.lane[i] < b.lane[i]); }
LANEWISE uvec ubits(vec a) {
    uvec r;
    memcpy(&r, &a, sizeof r);
    return r;
}
LANEWISE vec ufloat_bits(uvec a) {
    vec r;
    memcpy(&r, &a, sizeof r);
    return r;
}
/* Sixteen numbers of 64 bits; those whose operands are halves take low ones. */
typedef struct {
    uint64_t lane[LANES];
} dvec;
LANEWISE dvec dwiden(uvec a) { SIMD_EACH(dvec, a.lane[i]); }
LANEWISE uvec dlow(dvec a) { SIMD_EACH(uvec, (uint32_t)a.lane[i]); }
LANEWISE dvec dhigh(dvec a) { SIMD_EACH(dvec, a.lane[i] >> 32); }
LANEWISE dvec dmul(dvec a, uint32_t m) { /* products of halves */
    SIMD_EACH(dvec, (uint64_t)(uint32_t)a.lane[i] * m);
}
LANEWISE dvec dxor(dvec a, dvec b, uint32_t c) { /* of halves */
    SIMD_EACH(dvec, (uint32_t)(a.lane[i] ^ b.lane[i] ^ c));
}

#endif

/* Up to LANES elements of which n >= 1 are left: zeros past the end. */
SIMD vec load_part(const float *p, int64_t n) { return n >= LANES ? vload(p) : vload_n(p, n); }
SIMD void store_part(float *p, vec x, int64_t n) {
    if (n >= LANES) {
        vstore(p, x);
    } else {
        vstore_n(p, x, n);
    }
}

/* Stores a vector, aligned to its size, past the caches where the processor can. Other threads see it
 * after vstream_end. */
#ifdef SIMD_STREAM
SIMD void vstream_end(void) { _mm_sfence(); }
#else
SIMD void vstream(float *p, vec x) { vstore(p, x); }
SIMD void vstream_end(void) {}
#endif

SIMD vec vzero(void) { return vset(0.0f); }

/* Which lanes of a vector count: all; some, the first of them; the lower half; some of the lower half.
 * Kernels are compiled for each. Where vectors are pairs, halves are half the work; elsewhere there are
 * none. */
enum simd_lanes { SIMD_ALL, SIMD_SOME, SIMD_HALF, SIMD_HALF_SOME };
#ifndef SIMD_LOW
#define SIMD_LOW 0 /* there are none */
SIMD vec vload_low(const float *p) { return vload(p); }
SIMD vec vload_low_n(const float *p, int64_t n) { return vload_n(p, n); }
SIMD void vstore_low_n(float *p, vec x, int64_t n) { vstore_n(p, x, n); }
#endif
SIMD enum simd_lanes simd_lanes(int64_t n) {
    return n >= LANES                  ? SIMD_ALL
           : !SIMD_LOW || n > SIMD_LOW ? SIMD_SOME
           : n == SIMD_LOW             ? SIMD_HALF
                                       : SIMD_HALF_SOME;
}
SIMD vec vload_lanes(const float *p, int64_t n, const enum simd_lanes lanes) {
    return lanes == SIMD_ALL    ? vload(p)
           : lanes == SIMD_SOME ? vload_n(p, n)
           : lanes == SIMD_HALF ? vload_low(p)
                                : vload_low_n(p, n);
}
SIMD void vstore_lanes(float *p, vec x, int64_t n, const enum simd_lanes lanes) {
    if (lanes == SIMD_ALL) {
        vstore(p, x);
    } else if (lanes == SIMD_SOME) {
        vstore_n(p, x, n);
    } else {
        vstore_low_n(p, x, lanes == SIMD_HALF ? SIMD_LOW : n);
    }
}

/* The fold of all horizontal sums: lanes i and i + 8, then + 4, + 2, + 1. */
#ifdef __AVX2__
SIMD float vsum(vec x) {
#if SIMD_WIDE
    __m256 low = _mm512_castps512_ps256(x), high = _mm512_extractf32x8_ps(x, 1);
#else
    __m256 low = x.a, high = x.b;
#endif
    __m256 eight = _mm256_add_ps(low, high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
SIMD float vmax_of(vec x) {
#if SIMD_WIDE
    __m256 low = _mm512_castps512_ps256(x), high = _mm512_extractf32x8_ps(x, 1);
#else
    __m256 low = x.a, high = x.b;
#endif
    __m256 eight = _mm256_max_ps(low, high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
#elif !defined(CULM_NEON)
LANEWISE float vsum(vec x) {
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) {
            x.lane[i] += x.lane[i + width];
        }
    }
    return x.lane[0];
}
LANEWISE float vmax_of(vec x) {
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) {
            x.lane[i] = x.lane[i] > x.lane[i + width] ? x.lane[i] : x.lane[i + width];
        }
    }
    return x.lane[0];
}
#endif

/* e^x: relative error below 2e-7 in [-87.3, 88]; 0 below, e^88 above; NaN passes. Cody and Waite's
 * reduction to |r| <= ln(2)/2, a polynomial of degree 6, and a scaling by adding to the exponent.
 */
SIMD vec vexp(vec x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    vec bounded = vmax(vset(-87.3f), vmin(vset(88.0f), x));
    vec shifted = vfma(bounded, vset(1.44269504f), vset(magic));
    vec n = vsub(shifted, vset(magic));
    vec r = vfnma(n, vset(0.693145752f), bounded);
    r = vfnma(n, vset(1.42860677e-6f), r);
    vec p = vset(1.3814539e-3f); /* (e^r - 1 - r) / r^2, fitted for the least maximum error */
    p = vfma(p, r, vset(8.3687454e-3f));
    p = vfma(p, r, vset(4.1668389e-2f));
    p = vfma(p, r, vset(0.16666521f));
    p = vfma(p, r, vset(0.49999994f));
    p = vfma(p, r, vset(1.0f));
    p = vfma(p, r, vset(1.0f));
    /* the low bits of shifted hold n; 2^n by moving them into the exponent field */
    uvec power = ushift_left(uadd(ubits(shifted), uset(127)), 23);
    vec y = vmul(p, ufloat_bits(power));
    return vselect(vless(x, vset(-87.3f)), vzero(), y);
}

/* 1 / (1 + e^-x) */
SIMD vec vsigmoid(vec x) { return vdiv(vset(1.0f), vadd(vset(1.0f), vexp(vsub(vzero(), x)))); }

/* --- bf16 in memory, f32 in registers --- */

SIMD float bf16_widen(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* To nearest even; NaN stays NaN; f32 denormals become zero, as AVX512_BF16 does it. */
SIMD uint16_t bf16_round(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    if (!(bits & 0x7f800000u)) {
        return (uint16_t)(bits >> 16 & 0x8000);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
#if SIMD_WIDE
SIMD vec vload_bf16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
#ifdef __AVX512BF16__
SIMD uvec vround_bf16(vec x) { return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)); }
SIMD void vstore_bf16(uint16_t *p, vec x) {
    _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(x));
}
#else
/* The bf16 in the low half of each lane, zeros above. */
SIMD uvec vround_bf16(vec x) {
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __mmask16 tiny = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
    up = _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x400000));
    up = _mm512_mask_and_epi32(up, tiny, bits, _mm512_set1_epi32((int)0x80000000));
    return _mm512_srli_epi32(up, 16);
}
SIMD void vstore_bf16(uint16_t *p, vec x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(vround_bf16(x)));
}
#endif
#elif defined(__AVX2__)
SIMD vec vload_bf16(const uint16_t *p) {
    __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)));
    return SIMD_BOTH(vec, _mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
                     _mm256_castsi256_ps(_mm256_slli_epi32(b, 16)));
}
/* The bf16 in the low half of each lane. */
SIMD __m256i bf16_round_half(__m256 x) {
    __m256i bits = _mm256_castps_si256(x), size = _mm256_set1_epi32(0x7f800000);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i tiny = _mm256_cmpeq_epi32(_mm256_and_si256(bits, size), _mm256_setzero_si256());
    up = _mm256_blendv_epi8(up, _mm256_or_si256(bits, _mm256_set1_epi32(0x400000)), nan);
    up = _mm256_blendv_epi8(up, _mm256_and_si256(bits, _mm256_set1_epi32((int)0x80000000)), tiny);
    return _mm256_srli_epi32(up, 16);
}
SIMD uvec vround_bf16(vec x) { return SIMD_BOTH(uvec, bf16_round_half(x.a), bf16_round_half(x.b)); }
SIMD void vstore_bf16(uint16_t *p, vec x) {
    __m256i both = _mm256_packus_epi32(bf16_round_half(x.a), bf16_round_half(x.b));
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(both, 0xD8));
}
#elif !defined(CULM_NEON)
SIMD vec vload_bf16(const uint16_t *p) {
    float x[LANES];
    for (int i = 0; i < LANES; i++) {
        x[i] = bf16_widen(p[i]);
    }
    return vload(x);
}
LANEWISE uvec vround_bf16(vec x) { SIMD_EACH(uvec, bf16_round(x.lane[i])); }
SIMD void vstore_bf16(uint16_t *p, vec x) {
    float lane[LANES];
    vstore(lane, x);
    for (int i = 0; i < LANES; i++) {
        p[i] = bf16_round(lane[i]);
    }
}
#endif

/* In a file that is alike (see above), if any of it is left when it has been optimized. */
#if defined(CULM_ALIKE) && defined(__OPTIMIZE__)
uvec culm_rounds(vec x)
    __attribute__((error("this file rounds to bf16: it is not one of cpu_kernels_alike")));
#define vround_bf16(x) culm_rounds(x)
#define vstore_bf16(p, x) ((void)(p), (void)culm_rounds(x))
#ifndef __AVX512BF16__ /* asked for behind this line, it would be missing in one of the two */
#pragma GCC poison __AVX512BF16__
#endif
#endif

/* Typed arrays: LANES elements from element i, or the n >= 1 that are left. */
SIMD vec tload(struct culm_in x, int64_t i) {
    return x.dtype == CULM_BF16 ? vload_bf16((const uint16_t *)x.data + i)
                                : vload((const float *)x.data + i);
}
SIMD void tstore(struct culm_out y, int64_t i, vec v) {
    if (y.dtype == CULM_BF16) {
        vstore_bf16((uint16_t *)y.data + i, v);
    } else {
        vstore((float *)y.data + i, v);
    }
}
SIMD vec tload_part(struct culm_in x, int64_t i, int64_t n) {
    if (n >= LANES) {
        return tload(x, i);
    }
    if (x.dtype != CULM_BF16) {
        return vload_n((const float *)x.data + i, n);
    }
    uint16_t part[LANES] = {0};
    memcpy(part, (const uint16_t *)x.data + i, (size_t)n * sizeof *part);
    return vload_bf16(part);
}
SIMD void tstore_part(struct culm_out y, int64_t i, vec v, int64_t n) {
    if (n >= LANES) {
        tstore(y, i, v);
    } else if (y.dtype != CULM_BF16) {
        vstore_n((float *)y.data + i, v, n);
    } else {
        uint16_t part[LANES];
        vstore_bf16(part, v);
        memcpy((uint16_t *)y.data + i, part, (size_t)n * sizeof *part);
    }
}

#endif
