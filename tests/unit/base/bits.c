/* Sets in words of 64 bits, at the edges of words. */
#include "base/bits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 200

static void numbers_come_and_go(void **state) {
    (void)state;
    uint64_t word[4] = {0};
    assert_int_equal(culm_bits_words(1), 1);
    assert_int_equal(culm_bits_words(64), 1);
    assert_int_equal(culm_bits_words(65), 2);
    assert_int_equal(culm_bits_words(MOST), 4);
    for (int32_t i = 0; i < MOST; i += 7) {
        culm_bits_add(word, i);
    }
    culm_bits_remove(word, 63);
    culm_bits_remove(word, 64); /* it was not there */
    int32_t next = culm_bits_next(word, 4, 0);
    for (int32_t i = 0; i < MOST; i++) {
        assert_int_equal(culm_bits_has(word, i), i % 7 == 0 && i != 63);
        if (i % 7 == 0 && i != 63) {
            assert_int_equal(next, i);
            next = culm_bits_next(word, 4, i + 1);
        }
        assert_int_equal(culm_bits_next(word, 4, i + 1), next);
    }
    assert_int_equal(next, -1);
    assert_int_equal(culm_bits_next(word, 4, 4 * 64), -1);
    assert_int_equal(culm_bits_next(NULL, 0, 0), -1);
}

static void every_range(void **state) {
    (void)state;
    for (int32_t from = 0; from <= MOST; from++) {
        for (int32_t to = from; to <= MOST; to++) {
            uint64_t word[4] = {0};
            culm_bits_add_range(word, from, to);
            for (int32_t i = 0; i < MOST; i++) {
                assert_int_equal(culm_bits_has(word, i), i >= from && i < to);
            }
            assert_true(culm_bits_has_range(word, from, to));
            assert_int_equal(culm_bits_has_range(word, 0, MOST), from == 0 && to == MOST);
            if (to > from) {
                culm_bits_remove(word, from + (to - from) / 2);
                assert_false(culm_bits_has_range(word, from, to));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_and_go),
        cmocka_unit_test(every_range),
    };
    return cmocka_run_group_tests_name("base/bits", tests, NULL, NULL);
}
