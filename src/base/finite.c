/* Looks at exponents in blocks, so that compilers make vectors of it. See finite.h. */
#include "base/finite.h"

#include <math.h>
#include <string.h>

#define BLOCK 1024

static uint32_t is_other(const float *value) {
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    return (bits & 0x7f800000u) == 0x7f800000u;
}

int64_t culm_finite_find_other(const float *data, int64_t count) {
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t end = count - at < BLOCK ? count : at + BLOCK;
        uint32_t any = 0;
        for (int64_t i = at; i < end; i++) {
            any |= is_other(&data[i]);
        }
        for (int64_t i = at; any && i < end; i++) {
            if (is_other(&data[i])) {
                return i;
            }
        }
    }
    return -1;
}

const char *culm_finite_other_name(float value) { return isnan(value) ? "NaN" : "infinity"; }
