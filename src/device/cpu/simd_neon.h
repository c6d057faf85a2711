/*
 * Sixteen lanes of simd.h in four NEON registers, for 64-bit ARM. Included by simd.h alone.
 *
 * The fused operations of NEON round once, and denormals are flushed as the control word of the
 * compute threads says; folds add the lanes that simd.h names.
 */
#ifndef CULM_DEVICE_CPU_SIMD_NEON_H
#define CULM_DEVICE_CPU_SIMD_NEON_H

#include <arm_neon.h>

#define SIMD_REGISTERS 16
#define SIMD_WIDE 0
typedef struct {
    float32x4_t a, b, c, d;
} vec;
typedef struct {
    uint32x4_t a, b, c, d;
} uvec;
typedef uvec mask;

#define SIMD_FOUR(type, expr_a, expr_b, expr_c, expr_d) ((type){expr_a, expr_b, expr_c, expr_d})
#define SIMD_ALL(type, expr) SIMD_FOUR(type, expr, expr, expr, expr)

SIMD vec vset(float x) { return SIMD_ALL(vec, vdupq_n_f32(x)); }
SIMD vec vload(const float *p) {
    return SIMD_FOUR(vec, vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12));
}
SIMD void vstore(float *p, vec x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
SIMD vec vload_n(const float *p, int64_t n) {
    float part[LANES] = {0};
    memcpy(part, p, (size_t)n * sizeof *part);
    return vload(part);
}
SIMD void vstore_n(float *p, vec x, int64_t n) {
    float part[LANES];
    vstore(part, x);
    memcpy(p, part, (size_t)n * sizeof *part);
}
SIMD uvec uset(uint32_t x) { return SIMD_ALL(uvec, vdupq_n_u32(x)); }
SIMD uvec ucount(uint32_t x) {
    static const uint32_t first[4] = {0, 1, 2, 3};
    uint32x4_t a = vaddq_u32(vdupq_n_u32(x), vld1q_u32(first));
    return SIMD_FOUR(uvec, a, vaddq_u32(a, vdupq_n_u32(4)), vaddq_u32(a, vdupq_n_u32(8)),
                     vaddq_u32(a, vdupq_n_u32(12)));
}

#define SIMD_BINARY(name, type, result, op)                                                        \
    SIMD result name(type x, type y) {                                                             \
        return SIMD_FOUR(result, op(x.a, y.a), op(x.b, y.b), op(x.c, y.c), op(x.d, y.d));          \
    }
#define SIMD_MAX(x, y) vbslq_f32(vcgtq_f32(x, y), x, y)
#define SIMD_MIN(x, y) vbslq_f32(vcltq_f32(x, y), x, y)
SIMD_BINARY(vadd, vec, vec, vaddq_f32)
SIMD_BINARY(vsub, vec, vec, vsubq_f32)
SIMD_BINARY(vmul, vec, vec, vmulq_f32)
SIMD_BINARY(vdiv, vec, vec, vdivq_f32)
SIMD_BINARY(vmax, vec, vec, SIMD_MAX)
SIMD_BINARY(vmin, vec, vec, SIMD_MIN)
SIMD_BINARY(vless, vec, mask, vcltq_f32)
SIMD_BINARY(uadd, uvec, uvec, vaddq_u32)
SIMD_BINARY(uxor, uvec, uvec, veorq_u32)
SIMD_BINARY(uand, uvec, uvec, vandq_u32)
SIMD_BINARY(uless, uvec, mask, vcltq_u32)
SIMD vec vsqrt(vec x) {
    return SIMD_FOUR(vec, vsqrtq_f32(x.a), vsqrtq_f32(x.b), vsqrtq_f32(x.c), vsqrtq_f32(x.d));
}
SIMD vec vfma(vec x, vec y, vec z) {
    return SIMD_FOUR(vec, vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b),
                     vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d));
}
SIMD vec vfnma(vec x, vec y, vec z) {
    return SIMD_FOUR(vec, vfmsq_f32(z.a, x.a, y.a), vfmsq_f32(z.b, x.b, y.b),
                     vfmsq_f32(z.c, x.c, y.c), vfmsq_f32(z.d, x.d, y.d));
}
SIMD mask vfirst(int64_t n) { return uless(ucount(0), uset((uint32_t)n)); }
SIMD vec vselect(mask m, vec yes, vec no) {
    return SIMD_FOUR(vec, vbslq_f32(m.a, yes.a, no.a), vbslq_f32(m.b, yes.b, no.b),
                     vbslq_f32(m.c, yes.c, no.c), vbslq_f32(m.d, yes.d, no.d));
}
#define SIMD_CAST(name, from, to, op)                                                              \
    SIMD to name(from x) { return SIMD_FOUR(to, op(x.a), op(x.b), op(x.c), op(x.d)); }
SIMD_CAST(ubits, vec, uvec, vreinterpretq_u32_f32)
SIMD_CAST(ufloat_bits, uvec, vec, vreinterpretq_f32_u32)
SIMD uvec ushift_left(uvec x, int bits) {
    return SIMD_FOUR(uvec, x.a << bits, x.b << bits, x.c << bits, x.d << bits);
}
SIMD uvec ushift_right(uvec x, int bits) {
    return SIMD_FOUR(uvec, x.a >> bits, x.b >> bits, x.c >> bits, x.d >> bits);
}
/* Sixteen numbers of 64 bits; those whose operands are halves take low ones. */
typedef struct {
    uvec low, high;
} dvec;
SIMD void umul_wide_part(uint32x4_t x, uint32_t m, uint32x4_t *high, uint32x4_t *low) {
    uint32x4_t first = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(x), m));
    uint32x4_t second = vreinterpretq_u32_u64(vmull_n_u32(vget_high_u32(x), m));
    *low = vuzp1q_u32(first, second);
    *high = vuzp2q_u32(first, second);
}
SIMD dvec dwiden(uvec x) { return (dvec){x, x}; }
SIMD uvec dlow(dvec x) { return x.low; }
SIMD dvec dhigh(dvec x) { return dwiden(x.high); }
SIMD dvec dmul(dvec x, uint32_t m) { /* products of halves */
    dvec y;
    umul_wide_part(x.low.a, m, &y.high.a, &y.low.a);
    umul_wide_part(x.low.b, m, &y.high.b, &y.low.b);
    umul_wide_part(x.low.c, m, &y.high.c, &y.low.c);
    umul_wide_part(x.low.d, m, &y.high.d, &y.low.d);
    return y;
}
SIMD dvec dxor(dvec x, dvec y, uint32_t z) { /* of halves */
    return dwiden(uxor(uxor(x.low, y.low), uset(z)));
}

SIMD float vsum(vec x) {
    float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
SIMD float vmax_of(vec x) {
    float32x4_t low = SIMD_MAX(x.a, x.c), high = SIMD_MAX(x.b, x.d), four = SIMD_MAX(low, high);
    float32x2_t l = vget_low_f32(four), h = vget_high_f32(four);
    float32x2_t two = vbsl_f32(vcgt_f32(l, h), l, h);
    float a = vget_lane_f32(two, 0), b = vget_lane_f32(two, 1);
    return a > b ? a : b;
}

SIMD vec vload_bf16(const uint16_t *p) {
    uint16x8_t x = vld1q_u16(p), y = vld1q_u16(p + 8);
    return ufloat_bits(SIMD_FOUR(uvec, vshll_n_u16(vget_low_u16(x), 16), vshll_high_n_u16(x, 16),
                                 vshll_n_u16(vget_low_u16(y), 16), vshll_high_n_u16(y, 16)));
}
/* The bf16 in the low half of each lane; as bf16_round does it. */
SIMD uint32x4_t round_bf16_part(float32x4_t x) {
    uint32x4_t bits = vreinterpretq_u32_f32(x), size = vdupq_n_u32(0x7f800000u);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t up = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    uint32x4_t nan = vcgtq_u32(vandq_u32(bits, vdupq_n_u32(0x7fffffffu)), size);
    uint32x4_t tiny = vceqzq_u32(vandq_u32(bits, size));
    up = vbslq_u32(nan, vorrq_u32(bits, vdupq_n_u32(0x400000)), up);
    up = vbslq_u32(tiny, vandq_u32(bits, vdupq_n_u32(0x80000000u)), up);
    return vshrq_n_u32(up, 16);
}
SIMD uvec vround_bf16(vec x) {
    return SIMD_FOUR(uvec, round_bf16_part(x.a), round_bf16_part(x.b), round_bf16_part(x.c),
                     round_bf16_part(x.d));
}
SIMD void vstore_bf16(uint16_t *p, vec x) {
    uvec y = vround_bf16(x);
    vst1q_u16(p, vcombine_u16(vmovn_u32(y.a), vmovn_u32(y.b)));
    vst1q_u16(p + 8, vcombine_u16(vmovn_u32(y.c), vmovn_u32(y.d)));
}

#endif
