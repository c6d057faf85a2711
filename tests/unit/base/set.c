/* Sets: as plain lists of all numbers have them, whatever is added and removed; written and read. */
#include "base/set.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define NUMBERS 700
#define SETS 3

static struct culm_set set[SETS];
static bool plain[SETS][NUMBERS];

static void check(int s) {
    int32_t next = culm_set_next(&set[s], 0), count = 0;
    for (int32_t n = 0; n < NUMBERS; n++) {
        assert_int_equal(culm_set_has(&set[s], n), plain[s][n]);
        count += plain[s][n];
        if (plain[s][n]) {
            assert_int_equal(next, n);
            next = culm_set_next(&set[s], n + 1);
        }
    }
    assert_int_equal(next, -1);
    assert_int_equal(culm_set_is_empty(&set[s]), count == 0);
}

static void check_both(int a, int b) {
    bool covers = true, same = true;
    for (int32_t n = 0; n < NUMBERS; n++) {
        covers = covers && (plain[a][n] || !plain[b][n]);
        same = same && plain[a][n] == plain[b][n];
    }
    int32_t next = culm_set_next_both(&set[a], &set[b], 0);
    for (int32_t n = 0; n < NUMBERS; n++) {
        if (plain[a][n] && plain[b][n]) {
            assert_int_equal(next, n);
            next = culm_set_next_both(&set[a], &set[b], n + 1);
        }
    }
    assert_int_equal(next, -1);
    assert_int_equal(culm_set_covers(&set[a], &set[b]), covers);
    assert_int_equal(culm_set_same(&set[a], &set[b]), same);
}

static void as_plain_lists_have_them(void **state) {
    (void)state;
    uint64_t dice = 5;
    for (int turn = 0; turn < 20000; turn++) {
        const int a = (int)culm_rng_below(&dice, SETS), b = (int)culm_rng_below(&dice, SETS);
        const uint64_t act = culm_rng_below(&dice, 40);
        const int32_t near = (int32_t)culm_rng_below(&dice, NUMBERS - 70);
        for (int i = 0; i < 6; i++) {
            const int32_t n = near + (int32_t)culm_rng_below(&dice, 70);
            if (act < 12) {
                assert_true(culm_set_add(&set[a], n));
                plain[a][n] = true;
            } else if (act < 28) {
                culm_set_remove(&set[a], n);
                plain[a][n] = false;
            }
        }
        switch (act) {
        case 30: assert_true(culm_set_add_all(&set[a], &set[b])); break;
        case 31: assert_true(culm_set_copy(&set[a], &set[b])); break;
        case 32: culm_set_remove_all(&set[a], &set[b]); break;
        case 33: culm_set_keep(&set[a], &set[b]); break;
        case 34: culm_set_clear(&set[a]); break;
        case 35: culm_set_release(&set[a]); break;
        case 36: assert_true(culm_set_reserve(&set[a], near)); break;
        default: break;
        }
        for (int32_t n = 0; n < NUMBERS && act >= 30; n++) {
            bool *one = &plain[a][n], other = plain[b][n];
            *one = act == 30   ? *one || other
                   : act == 31 ? other
                   : act == 32 ? *one && !other
                   : act == 33 ? *one && other
                               : *one && act > 35;
        }
        check(a);
        check_both(a, b);
        check_both(b, a);
    }
    for (int s = 0; s < SETS; s++) {
        culm_set_release(&set[s]);
        memset(plain[s], 0, sizeof plain[s]);
    }
}

/* Members below 64, or within any one word, take no memory. */
static void one_word_takes_no_memory(void **state) {
    (void)state;
    struct culm_set small = {0}, large = {0};
    for (int32_t n = 0; n < 64; n++) {
        assert_true(culm_set_add(&small, n));
        assert_true(culm_set_add(&large, 6400 + n));
    }
    assert_null(small.word);
    assert_null(large.word);
    culm_set_keep(&large, &small);
    assert_true(culm_set_is_empty(&large));
    assert_true(culm_set_copy(&large, &small));
    assert_null(large.word);
    assert_true(culm_set_same(&small, &large));
}

/* What was written is read as the same set; equal sets are equal bytes, whatever they had before. */
static void is_written_and_read(void **state) {
    (void)state;
    uint64_t dice = 7;
    struct culm_buf buf, again;
    culm_buf_init(&buf, 1 << 12);
    culm_buf_init(&again, 1 << 12);
    for (int turn = 0; turn < 500; turn++) {
        struct culm_set one = {0}, other = {0};
        const int32_t end = 1 + (int32_t)culm_rng_below(&dice, NUMBERS);
        for (uint64_t m = culm_rng_below(&dice, 5); m > 0; m--) {
            assert_true(culm_set_add(&one, (int32_t)culm_rng_below(&dice, (uint64_t)end)));
        }
        assert_true(culm_set_add(&other, 650)); /* which stays as an empty word */
        culm_set_remove(&other, 650);
        assert_true(culm_set_add_all(&other, &one));
        culm_buf_clear(&buf);
        culm_buf_clear(&again);
        culm_set_write(&one, &buf);
        culm_set_write(&other, &again);
        assert_int_equal(buf.len, again.len);
        assert_memory_equal(buf.data, again.data, buf.len);
        struct culm_reader in = culm_reader_of(buf.data, buf.len);
        assert_int_equal(culm_set_read(&in, end, &other), CULM_OK);
        assert_true(culm_reader_done(&in));
        assert_true(culm_set_same(&one, &other));
        in = culm_reader_of(buf.data, buf.len - 1);
        assert_int_equal(culm_set_read(&in, end, &other), CULM_OK);
        assert_true(in.failed);
        const int32_t first = culm_set_next(&one, 0);
        if (first >= 0) {
            in = culm_reader_of(buf.data, buf.len);
            assert_int_equal(culm_set_read(&in, first, &other),
                             CULM_OK); /* it may not be in there */
            assert_true(in.failed);
        }
        culm_set_release(&one);
        culm_set_release(&other);
    }
    culm_buf_release(&buf);
    culm_buf_release(&again);
}

static void other_bytes_are_refused(void **state) {
    (void)state;
    static const struct {
        int32_t first, words;
        uint64_t word[2];
        bool fails;
    } cases[] = {
        {0, 1, {1, 0}, false},
        {0, 0, {0, 0}, false},
        {1, 0, {0, 0}, true},
        {0, 2, {1, 0}, true},
        {0, 2, {0, 1}, true},
        {1, 1, {63, 0}, false},
        {1, 1, {64, 0}, true},
        {1, 2, {1, 1}, true},
        {-1, 1, {1, 0}, true},
        {0, -1, {1, 0}, true},
        {INT32_MAX, 1, {1, 0}, true},
        {1, INT32_MAX, {1, 0}, true},
        {0, 2, {UINT64_MAX, 63}, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct culm_buf buf;
        struct culm_set read = {0};
        culm_buf_init(&buf, 100);
        culm_buf_i32(&buf, cases[c].first);
        culm_buf_i32(&buf, cases[c].words);
        for (int32_t w = 0; w < 2 && w < cases[c].words; w++) {
            culm_buf_u64(&buf, cases[c].word[w]);
        }
        struct culm_reader in = culm_reader_of(buf.data, buf.len);
        assert_int_equal(culm_set_read(&in, 70, &read), CULM_OK);
        assert_int_equal(in.failed, cases[c].fails);
        culm_set_release(&read);
        culm_buf_release(&buf);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_plain_lists_have_them),
        cmocka_unit_test(one_word_takes_no_memory),
        cmocka_unit_test(is_written_and_read),
        cmocka_unit_test(other_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
