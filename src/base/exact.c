/* Functions of float64 in binary128. See exact.h. */
#include "base/exact.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#if __LDBL_MANT_DIG__ == 113
typedef long double quad;
#define Q(digits) digits##L
#else
typedef __float128 quad;
#define Q(digits) digits##Q
#endif

/* ln 2 in two parts: the first has 90 bits, so that its product with an exponent is exact. */
static const quad ln2_high = Q(0x2c5c85fdf473de6af278ece.0p-90);
static const quad ln2_low = Q(0x1.803f2f6af40f343267298b62d8a1p-92);
static const quad half_pi = Q(1.5707963267948966192313216916397514420985847);
static const quad two_by_root_pi = Q(1.12837916709551257389615890312154517168810126);

/* 64 zeros and 2/pi after the point. */
static const uint64_t two_by_pi[] = {
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
};

/* --- in binary128 --- */

/* 2^n. |n| <= 2000. */
static quad power_of_two(int n) { return (quad)ldexp(1, n / 2) * (quad)ldexp(1, n - n / 2); }

/* y and n: e^x = 2^n (1 + y), |y| < 0.42, y as accurate as itself. |x| <= 800. */
static quad exp_parts(quad x, int *ret_n) {
    int n = (int)rint((double)x * 1.4426950408889634);
    quad r = ((x - n * ln2_high) - n * ln2_low) / 16, y = 0; /* |r| < 0.022 */
    for (int k = 15; k >= 1; k--) {
        y = r / k * (1 + y);
    }
    for (int k = 0; k < 4; k++) {
        y = y * (2 + y); /* e^2r - 1 of e^r - 1 */
    }
    *ret_n = n;
    return y;
}

static quad exp_of(quad x) {
    int n;
    quad y = exp_parts(x, &n);
    return power_of_two(n) * (1 + y);
}

/* e^x - 1 */
static quad exp_less_one(quad x) {
    int n;
    quad y = exp_parts(x, &n);
    return n == 0 ? y : power_of_two(n) * y + (power_of_two(n) - 1);
}

/* x > 0, finite */
static quad log_of(double x) {
    int n;
    double m = frexp(x, &n);
    if (m < 0.70710678118654752) {
        m *= 2;
        n--;
    }
    /* ln m = 2 (s + s^3/3 + s^5/5 ...), |s| < 0.172 */
    quad s = ((quad)m - 1) / ((quad)m + 1), z = s * s, sum = 0;
    for (int k = 45; k >= 3; k -= 2) {
        sum = z * (sum + (quad)1 / k);
    }
    return n * ln2_high + (n * ln2_low + 2 * (s + s * sum));
}

/* sin x = x (1 - x^2/(2 3) (1 - x^2/(4 5) ...)) or cos x = 1 - x^2/(1 2) (1 - x^2/(3 4) ...).
 * |x| < 0.79 */
static quad turn_of(quad x, bool cosine) {
    quad z = x * x, sum = 1;
    for (int k = cosine ? 27 : 28; k >= 1; k -= 2) {
        sum = 1 - z / (k * (k + 1)) * sum;
    }
    return cosine ? sum : x * sum;
}

/* |x| < 6. All terms are positive: 2/sqrt(pi) e^(-x^2) (x + x 2x^2/3 + x (2x^2)^2/(3 5) ...) */
static quad erf_of(double x) {
    quad z = (quad)x * x, term = x, sum = x;
    for (int k = 3; fabs((double)term) > fabs((double)sum) * 0x1p-118; k += 2) {
        term *= 2 * z / k;
        sum += term;
    }
    return two_by_root_pi * exp_of(-z) * sum;
}

/* --- angles --- */

/* 64 bits from bit `at` on. */
static uint64_t bits_of_two_by_pi(int at) {
    const uint64_t *word = &two_by_pi[at / 64];
    return at % 64 ? word[0] << at % 64 | word[1] >> (64 - at % 64) : word[0];
}

/* x = (4 k + whole + rest) pi/2 with |rest| <= 1/2; gives whole, returns rest pi/2. x >= 0, finite.
 * In whole numbers: x = m 2^e. Bits of 2/pi that make multiples of 4 of it are left out; of its
 * product with the 256 bits that follow, all that is below 4 is kept. */
static quad reduce(double x, unsigned *ret_whole) {
    if (x < 0.78) {
        *ret_whole = 0;
        return x;
    }
    int e;
    uint64_t m = (uint64_t)ldexp(frexp(x, &e), 53), word[5] = {0};
    unsigned __int128 product = 0;
    for (int i = 3; i >= 0; i--) {
        product += (unsigned __int128)m * bits_of_two_by_pi(e - 53 + 62 + 64 * i);
        word[i] = (uint64_t)product;
        product >>= 64;
    }
    bool above = word[0] >> 61 & 1; /* nearer to the next whole one: less than nothing is left */
    quad rest = 0;
    for (int i = 3; i >= 0; i--) {
        uint64_t bits = word[i] << 2 | word[i + 1] >> 62;
        rest = (rest + (above ? ~bits : bits)) * (quad)0x1p-64;
    }
    *ret_whole = (unsigned)(word[0] >> 62) + above;
    return (above ? -rest : rest) * half_pi;
}

/* sin(x + quarters pi/2). x >= 0 */
static double sine(double x, unsigned quarters) {
    if (!isfinite(x)) {
        return NAN;
    }
    unsigned whole;
    quad rest = reduce(x, &whole);
    quarters += whole;
    double value = (double)turn_of(rest, quarters & 1);
    return quarters & 2 ? -value : value;
}

/* --- the functions --- */

double culm_exact_exp(double x) {
    if (!(fabs(x) < 800)) {
        return isnan(x) ? x : x > 0 ? INFINITY : 0;
    }
    return (double)exp_of(x);
}

double culm_exact_log(double x) {
    if (!(x > 0) || isinf(x)) {
        return x == 0 ? -INFINITY : x > 0 || isnan(x) ? x : NAN;
    }
    return (double)log_of(x);
}

/* A power may be just the middle of two numbers, and then its last bits decide: what comes so close
 * to a number of 54 bits is that number. x > 0 */
static quad straight(quad x) {
    quad most = x * (quad)0x1p59;
    quad near = (most + x) - most, off = x - near;
    return (off < 0 ? -off : off) < x * (quad)0x1p-95 ? near : x;
}

double culm_exact_pow(double x, double y) {
    if (x == 0 || x == 1 || y == 0 || !isfinite(x) || !isfinite(y)) {
        return pow(x, y); /* special values */
    }
    if (x < 0 && rint(y) != y) {
        return NAN;
    }
    quad power = y * log_of(fabs(x));
    double value = power > 800 ? INFINITY : power < -800 ? 0 : (double)straight(exp_of(power));
    return x < 0 && fmod(y, 2) != 0 ? -value : value;
}

double culm_exact_sin(double x) { return x < 0 ? -sine(-x, 0) : sine(x, 0); }

double culm_exact_cos(double x) { return sine(fabs(x), 1); }

double culm_exact_tanh(double x) {
    if (!(fabs(x) < 40)) {
        return isnan(x) ? x : x > 0 ? 1 : -1;
    }
    quad y = exp_less_one(2 * (quad)x);
    return x == 0 ? x : (double)(y / (y + 2));
}

double culm_exact_erf(double x) {
    if (!(fabs(x) < 6)) {
        return isnan(x) ? x : x > 0 ? 1 : -1;
    }
    return x == 0 ? x : (double)erf_of(x);
}
