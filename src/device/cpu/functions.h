/*
 * Functions of sixteen lanes on top of simd.h: hyperbolic tangent, the normal distribution,
 * logarithm, and what an element-wise operator computes, forward and backward.
 *
 * Polynomials are fitted for the least maximum error. Relative errors: tanh 3e-7, log 2e-7, the
 * distribution 1e-6 down to -5 and growing with the square of x in the tail, where it is below
 * 1e-6 of anything.
 */
#ifndef CULM_DEVICE_CPU_FUNCTIONS_H
#define CULM_DEVICE_CPU_FUNCTIONS_H

#include "device/cpu/simd.h"

SIMD vec vabs(vec x) { return ufloat_bits(uand(ubits(x), uset(0x7fffffffu))); }

/* Odd polynomial near zero, 1 - 2 / (e^2x + 1) elsewhere. */
SIMD vec vtanh_full(vec x) {
    vec z = vmul(x, x);
    vec p = vset(-5.9058606e-3f);
    p = vfma(p, z, vset(2.08053775e-2f));
    p = vfma(p, z, vset(-5.37866814e-2f));
    p = vfma(p, z, vset(0.133319582f));
    p = vfma(p, z, vset(-0.333332993f));
    vec small = vfma(vmul(p, z), x, x);
    vec e = vexp(vadd(x, x));
    vec large = vsub(vset(1.0f), vdiv(vset(2.0f), vadd(e, vset(1.0f))));
    return vselect(vless(z, vset(0.36f)), small, large);
}

/* P(X < x) of the normal distribution; *ret_e is e^(-x^2 / 2). Below zero e R(t) with t = 1 / (1 +
 * 0.3 |x|), above it one minus that. */
SIMD vec vnormal(vec x, vec *ret_e) {
    vec t = vdiv(vset(1.0f), vfma(vabs(x), vset(0.3f), vset(1.0f)));
    vec p = vset(3.83782754e-2f);
    p = vfma(p, t, vset(-0.169166013f));
    p = vfma(p, t, vset(0.228659812f));
    p = vfma(p, t, vset(-7.65060887e-2f));
    p = vfma(p, t, vset(0.142535196f));
    p = vfma(p, t, vset(9.46836898e-2f));
    p = vfma(p, t, vset(0.121920292f));
    p = vfma(p, t, vset(0.119487697f));
    p = vfma(p, t, vset(7.16834957e-6f));
    vec e = vexp(vmul(vmul(x, x), vset(-0.5f)));
    vec below = vmul(e, p);
    *ret_e = e;
    return vselect(vless(x, vzero()), below, vsub(vset(1.0f), below));
}

/* e^x - 1 for x <= 0: a polynomial near zero, where the difference would lose digits. */
SIMD vec vexpm1_below(vec x) {
    vec p = vset(1.98412698e-4f);
    p = vfma(p, x, vset(1.38888889e-3f));
    p = vfma(p, x, vset(8.33333333e-3f));
    p = vfma(p, x, vset(4.16666667e-2f));
    p = vfma(p, x, vset(0.166666667f));
    p = vfma(p, x, vset(0.5f));
    vec small = vfma(vmul(x, x), p, x);
    return vselect(vless(x, vset(-0.35f)), vsub(vexp(x), vset(1.0f)), small);
}

/* ln x: minus infinity at 0, NaN below. x = 2^n m with m in [sqrt(1/2), sqrt(2)). */
SIMD vec vlog(vec x) {
    uvec bits = ubits(x);
    uvec shifted = uadd(bits, uset(0x3f800000u - 0x3f3504f3u));
    uvec exponent = uand(ushift_right(shifted, 23), uset(0xff));
    vec m = ufloat_bits(uadd(uand(shifted, uset(0x7fffffu)), uset(0x3f3504f3u)));
    /* exponent as a float: its bits below those of 2^23 */
    vec n = vsub(ufloat_bits(uxor(exponent, uset(0x4b000000u))), vset(8388608.0f + 127.0f));
    vec f = vsub(m, vset(1.0f));
    vec p = vset(-7.85954587e-2f);
    p = vfma(p, f, vset(0.128816224f));
    p = vfma(p, f, vset(-0.131287676f));
    p = vfma(p, f, vset(0.141811961f));
    p = vfma(p, f, vset(-0.166245531f));
    p = vfma(p, f, vset(0.200022861f));
    p = vfma(p, f, vset(-0.250008104f));
    p = vfma(p, f, vset(0.333333167f));
    vec ff = vmul(f, f);
    vec low = vfma(n, vset(-2.12194440e-4f), vfma(vmul(f, ff), p, vmul(ff, vset(-0.5f))));
    vec y = vfma(n, vset(0.693359375f), vadd(f, low));
    y = vselect(vless(vset(3.4028234e38f), x), x, y);                 /* infinity */
    y = vselect(vless(x, vset(1.17549435e-38f)), vset(-INFINITY), y); /* zero, or flushed to it */
    return vselect(vless(vset(-1.17549435e-38f), x), y, vset(NAN));   /* below zero, NaN */
}

#define GELU_TANH_A 1.5957691216057308f   /* 2 sqrt(2 / pi) */
#define GELU_TANH_B 0.071354816272600247f /* GELU_TANH_A * 0.044715 */
#define GELU_TANH_3B 0.21406444881780074f
#define NORMAL_DENSITY 0.39894228040143268f /* 1 / sqrt(2 pi) */

/* The ReLU family alone, and its gradient from operand or result. */
SIMD vec vrelu(enum culm_function function, vec x, vec alpha) {
    switch (function) {
    case CULM_FUNCTION_RELU: return vmax(vzero(), x);
    case CULM_FUNCTION_LEAKY_RELU: return vselect(vless(x, vzero()), vmul(x, alpha), x);
    case CULM_FUNCTION_RELU6: return vmin(vset(6.0f), vmax(vzero(), x));
    default: return x;
    }
}
SIMD vec vrelu_backward(enum culm_function function, vec dy, vec kept, vec alpha) {
    switch (function) {
    case CULM_FUNCTION_RELU: return vselect(vless(vzero(), kept), dy, vzero());
    case CULM_FUNCTION_LEAKY_RELU: return vselect(vless(vzero(), kept), dy, vmul(dy, alpha));
    case CULM_FUNCTION_RELU6:
        dy = vselect(vless(vzero(), kept), dy, vzero());
        return vselect(vless(kept, vset(6.0f)), dy, vzero());
    default: return dy;
    }
}

/* y = function(x) */
SIMD vec vfunction(enum culm_function function, vec x, vec alpha) {
    vec e;
    switch (function) {
    case CULM_FUNCTION_GELU_TANH:
        return vmul(x, vsigmoid(vmul(x, vfma(vmul(x, x), vset(GELU_TANH_B), vset(GELU_TANH_A)))));
    case CULM_FUNCTION_GELU_ERF: return vmul(x, vnormal(x, &e));
    case CULM_FUNCTION_TANH: return vtanh_full(x);
    case CULM_FUNCTION_SIGMOID: return vsigmoid(x);
    case CULM_FUNCTION_SILU: return vmul(x, vsigmoid(x));
    case CULM_FUNCTION_ELU: return vselect(vless(x, vzero()), vmul(alpha, vexpm1_below(x)), x);
    case CULM_FUNCTION_EXP: return vexp(x);
    case CULM_FUNCTION_LOG: return vlog(x);
    case CULM_FUNCTION_SQRT: return vsqrt(x);
    case CULM_FUNCTION_RECIPROCAL: return vdiv(vset(1.0f), x);
    default: return vrelu(function, x, alpha);
    }
}

/* dx from dy and what culm_function_keeps_output says was kept, x or y. */
SIMD vec vfunction_backward(enum culm_function function, vec dy, vec kept, vec alpha) {
    vec e, s, slope;
    switch (function) {
    case CULM_FUNCTION_GELU_TANH:
        s = vmul(kept, kept);
        slope = vmul(kept, vfma(s, vset(GELU_TANH_3B), vset(GELU_TANH_A)));
        s = vsigmoid(vmul(kept, vfma(s, vset(GELU_TANH_B), vset(GELU_TANH_A))));
        return vmul(dy, vfma(vfnma(s, s, s), slope, s));
    case CULM_FUNCTION_GELU_ERF:
        s = vnormal(kept, &e);
        return vmul(dy, vfma(vmul(kept, vset(NORMAL_DENSITY)), e, s));
    case CULM_FUNCTION_TANH: return vmul(dy, vfnma(kept, kept, vset(1.0f)));
    case CULM_FUNCTION_SIGMOID: return vmul(dy, vfnma(kept, kept, kept));
    case CULM_FUNCTION_SILU: s = vsigmoid(kept); return vmul(dy, vfma(vfnma(s, s, s), kept, s));
    case CULM_FUNCTION_ELU: return vselect(vless(vzero(), kept), dy, vmul(dy, vadd(kept, alpha)));
    case CULM_FUNCTION_EXP: return vmul(dy, kept);
    case CULM_FUNCTION_LOG: return vdiv(dy, kept);
    case CULM_FUNCTION_SQRT: return vdiv(vmul(dy, vset(0.5f)), kept);
    case CULM_FUNCTION_RECIPROCAL: return vmul(vmul(dy, kept), vfnma(kept, vset(1.0f), vzero()));
    default: return vrelu_backward(function, dy, kept, alpha);
    }
}

#endif
