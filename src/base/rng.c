/* Philox4x32-10 and small helpers. */
#include "base/rng.h"

#include "base/exact.h"

#include <math.h>
#include <stdbool.h>

struct culm_rng_block culm_rng(uint64_t key, uint64_t counter_hi, uint64_t counter_lo) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (struct culm_rng_block){{c0, c1, c2, c3}};
}

static uint64_t finalise(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

uint64_t culm_rng_mix(uint64_t a, uint64_t b) {
    return finalise(finalise(a + 0x9E3779B97F4A7C15ull) * 3 + b);
}

uint64_t culm_rng_mix_bytes(uint64_t a, const void *data, size_t len) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < len; i++) {
        a = (a ^ byte[i]) * 0x100000001b3ull;
    }
    return culm_rng_mix(a, len);
}

/* Box and Muller: radius std sqrt(-2 ln u), angle 2 pi v. */
static double radius_of(double std, double log_u) { return std * sqrt(-2 * log_u); }

/* Whether any x' with |x' - x| <= 2^-46 |x| is the same float. */
static bool certain(double x) { return (float)(x * (1 - 0x1p-46)) == (float)(x * (1 + 0x1p-46)); }

void culm_rng_normal(uint32_t a, uint32_t b, double std, float ret_pair[2]) {
    double u = ((double)a + 0.5) * 0x1p-32, angle = 2 * M_PI * ((double)b + 0.5) * 0x1p-32;
    /* libm's functions are quick and wrong by less than 2^-50, which almost never decides a bit */
    double radius = radius_of(std, log(u)), x = radius * cos(angle), y = radius * sin(angle);
    if (!certain(x) || !certain(y)) {
        radius = radius_of(std, culm_exact_log(u));
        x = radius * culm_exact_cos(angle);
        y = radius * culm_exact_sin(angle);
    }
    ret_pair[0] = (float)x;
    ret_pair[1] = (float)y;
}

uint64_t culm_rng_next(uint64_t *state) { return finalise(*state += 0x9E3779B97F4A7C15ull); }

uint64_t culm_rng_below(uint64_t *state, uint64_t bound) {
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t value;
    do {
        value = culm_rng_next(state);
    } while (value >= limit);
    return value % bound;
}
