/* The checksum: the same however the bytes are cut, another for any flipped bit, or length. */
#include "base/checksum.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define BYTES 300

static uint64_t random_state;

static int seed(void **state) {
    const char *given = getenv("CULM_TEST_SEED");
    uint64_t number = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    (void)state;
    print_message("CULM_TEST_SEED=%llu\n", (unsigned long long)number);
    random_state = culm_rng_mix(number, 1);
    return 0;
}

static void fill(uint8_t data[BYTES]) {
    for (size_t i = 0; i < BYTES; i++) {
        data[i] = (uint8_t)culm_rng_below(&random_state, 256);
    }
}

static void cutting_changes_nothing(void **state) {
    uint8_t data[BYTES];
    (void)state;
    for (int round = 0; round < 500; round++) {
        fill(data);
        size_t len = culm_rng_below(&random_state, BYTES + 1);
        struct culm_checksum sum;
        culm_checksum_init(&sum);
        for (size_t at = 0, some; at < len; at += some) {
            some = 1 + culm_rng_below(&random_state, len - at);
            some = culm_rng_below(&random_state, 2) ? some : 1;
            culm_checksum_add(&sum, data + at, some);
        }
        assert_true(culm_checksum_value(&sum) == culm_checksum_of(data, len));
    }
}

static void every_bit_counts(void **state) {
    uint8_t data[BYTES];
    (void)state;
    fill(data);
    for (size_t len = 1; len <= BYTES; len += len < 70 ? 1 : 23) {
        uint64_t whole = culm_checksum_of(data, len);
        for (size_t bit = 0; bit < 8 * len; bit++) {
            data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_true(culm_checksum_of(data, len) != whole);
            data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

/* Two words that have changed places, of one lane or of two: sums that have no order do not see it. */
static void places_count(void **state) {
    uint8_t data[BYTES], moved[BYTES];
    (void)state;
    fill(data);
    uint64_t whole = culm_checksum_of(data, BYTES);
    for (size_t a = 0; a + 8 <= BYTES; a += 8) {
        for (size_t b = a + 8; b + 8 <= BYTES; b += 8) {
            memcpy(moved, data, BYTES);
            memcpy(moved + a, data + b, 8);
            memcpy(moved + b, data + a, 8);
            assert_true(culm_checksum_of(moved, BYTES) != whole);
        }
    }
}

/* The same bit of two words of a lane: what sums without rotation do not see. */
static void two_bits_count(void **state) {
    uint8_t data[BYTES];
    (void)state;
    fill(data);
    uint64_t whole = culm_checksum_of(data, BYTES);
    for (size_t a = 0; a < 8 * BYTES; a++) {
        for (size_t b = a % 256 + 256 * (a / 256 + 1); b < 8 * BYTES; b += 256) {
            data[a / 8] ^= (uint8_t)(1u << a % 8);
            data[b / 8] ^= (uint8_t)(1u << b % 8);
            assert_true(culm_checksum_of(data, BYTES) != whole);
            data[a / 8] ^= (uint8_t)(1u << a % 8);
            data[b / 8] ^= (uint8_t)(1u << b % 8);
        }
    }
}

static void length_counts(void **state) {
    static const uint8_t zero[BYTES];
    uint64_t seen[BYTES + 1];
    (void)state;
    for (size_t len = 0; len <= BYTES; len++) {
        seen[len] = culm_checksum_of(zero, len);
        for (size_t i = 0; i < len; i++) {
            assert_true(seen[i] != seen[len]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cutting_changes_nothing),
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(places_count),
        cmocka_unit_test(two_bits_count),
        cmocka_unit_test(length_counts),
    };
    return cmocka_run_group_tests_name("base/checksum", tests, seed, NULL);
}
