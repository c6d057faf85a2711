/* Order: every epoch is a permutation, a pure function of its inputs, and evenly spread. */
#include "ledger/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_epoch(uint64_t seed, int64_t samples, uint64_t epoch, int64_t *ret_fixed) {
    struct culm_order order;
    unsigned char *seen = calloc((size_t)samples, 1);
    culm_order_init(&order, seed, samples);
    int64_t fixed = 0;
    for (int64_t i = 0; i < samples; i++) {
        int64_t sample = culm_order_sample(&order, epoch * (uint64_t)samples + (uint64_t)i);
        if (sample < 0 || sample >= samples || seen[sample]) {
            fail_msg("seed %lu samples %ld epoch %lu: position %ld gives %ld twice or outside",
                     (unsigned long)seed, (long)samples, (unsigned long)epoch, (long)i,
                     (long)sample);
        }
        seen[sample] = 1;
        fixed += sample == i;
    }
    free(seen);
    *ret_fixed = fixed;
}

static void test_is_a_permutation(void **state) {
    (void)state;
    int64_t fixed;
    for (int64_t samples = 1; samples <= 300; samples++) {
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            check_epoch(7, samples, epoch, &fixed);
        }
    }
    const int64_t large[] = {1023, 1024, 1025, 9973, 34000, 65536, 99991};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        check_epoch(1, large[i], 5, &fixed);
        assert_in_range(fixed, 0, 10); /* one expected; the identity would have all */
    }
}

/* Counts all permutations of 2..5 samples over many seeds and epochs; each must be as frequent as
 * the others. The bounds are chi-square's 99.99 % for 1, 5, 23 and 119 degrees of freedom. */
static void test_small_permutations_are_even(void **state) {
    (void)state;
    const double bound[6] = {0, 0, 15.2, 25.8, 58.7, 182.0};
    const int perms[6] = {1, 1, 2, 6, 24, 120};
    for (int samples = 2; samples <= 5; samples++) {
        int counts[3125] = {0};
        const int per = 300;
        for (int trial = 0; trial < per * perms[samples]; trial++) {
            struct culm_order order;
            culm_order_init(&order, (uint64_t)trial / 10, samples);
            int code = 0;
            for (int i = 0; i < samples; i++) {
                code = code * samples +
                       (int)culm_order_sample(&order, (uint64_t)(trial % 10 * samples + i));
            }
            counts[code]++;
        }
        double chi = 0;
        int seen = 0;
        for (int code = 0; code < 3125; code++) {
            if (counts[code]) {
                seen++;
                chi += (double)(counts[code] - per) * (counts[code] - per) / per;
            }
        }
        if (seen != perms[samples] || chi > bound[samples]) {
            fail_msg("%d samples: %d of %d permutations, chi-square %.1f > %.1f", samples, seen,
                     perms[samples], chi, bound[samples]);
        }
    }
}

/* Where a sample lands must be even, and neighbours must not stay neighbours. */
static void test_places_are_even(void **state) {
    (void)state;
    enum { N = 97, TRIALS = 3000 };
    static int counts[N][N];
    memset(counts, 0, sizeof counts);
    int64_t neighbours = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct culm_order order;
        culm_order_init(&order, (uint64_t)trial, N);
        int64_t before = -5;
        for (int i = 0; i < N; i++) {
            int64_t sample = culm_order_sample(&order, (uint64_t)i);
            counts[i][sample]++;
            neighbours += sample == before + 1;
            before = sample;
        }
    }
    double chi = 0, expected = (double)TRIALS / N;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            chi += (counts[i][j] - expected) * (counts[i][j] - expected) / expected;
        }
    }
    /* 96 * 96 degrees of freedom: mean 9216, standard deviation 136 */
    assert_true(chi > 9216 - 5 * 136 && chi < 9216 + 5 * 136);
    /* one ascending pair expected per trial; standard deviation about 1 */
    assert_true(neighbours > TRIALS - 280 && neighbours < TRIALS + 280);
}

static void test_is_a_function_of_seed_and_count(void **state) {
    (void)state;
    struct culm_order a, b, other_seed;
    culm_order_init(&a, 42, 34000);
    culm_order_init(&b, 42, 34000);
    culm_order_init(&other_seed, 43, 34000);
    int same_seed = 0, same_epoch = 0;
    for (uint64_t p = 0; p < 1000; p++) {
        uint64_t backwards = 999 - p;
        assert_int_equal(culm_order_sample(&a, backwards), culm_order_sample(&b, backwards));
        same_seed += culm_order_sample(&a, p) == culm_order_sample(&other_seed, p);
        same_epoch += culm_order_sample(&a, p) == culm_order_sample(&a, p + 34000);
    }
    assert_in_range(same_seed, 0, 5);
    assert_in_range(same_epoch, 0, 5);
}

static void test_any_position_and_count(void **state) {
    (void)state;
    const int64_t counts[] = {1, 2, 3, INT64_MAX, INT64_MAX - 1, (int64_t)1 << 62, 4294967296};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct culm_order order;
        culm_order_init(&order, UINT64_MAX, counts[i]);
        const uint64_t positions[] = {0, 1, UINT64_MAX, UINT64_MAX - 1, (uint64_t)1 << 63};
        for (size_t p = 0; p < sizeof positions / sizeof positions[0]; p++) {
            int64_t sample = culm_order_sample(&order, positions[p]);
            assert_true(sample >= 0 && sample < counts[i]);
        }
    }
}

static void test_position_is_the_inverse(void **state) {
    (void)state;
    const int64_t counts[] = {1, 2, 3, 5, 97, 1024, 34001, (int64_t)1 << 40};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct culm_order order;
        culm_order_init(&order, 11, counts[i]);
        for (uint64_t p = 0; p < 300; p++) {
            uint64_t epoch = p / (uint64_t)counts[i];
            assert_int_equal(culm_order_position(&order, epoch, culm_order_sample(&order, p)), p);
        }
    }
}

/* Turns, one by one, against the stream gone through with the samples taken out. */
static void test_turns_pass_over(void **state) {
    (void)state;
    static const int64_t lists[][4] = {{0}, {6}, {0, 6}, {1, 2, 3, 5}, {0, 1, 2, 3}};
    static const size_t lengths[] = {1, 1, 2, 4, 4};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct culm_order order;
        struct culm_order_left_out *made = culm_order_left_out_new(lists[i], lengths[i]);
        struct culm_order_left_out *left_out = culm_order_left_out_copy(made);
        culm_order_left_out_free(made);
        assert_non_null(left_out);
        culm_order_init(&order, 3 + i, 7);
        order.left_out = left_out;
        uint64_t turn = 0, ids = 0;
        for (uint64_t p = 0; p < 7 * 5; p++) {
            int64_t sample = culm_order_sample(&order, p);
            bool out = false;
            for (size_t k = 0; k < lengths[i]; k++) {
                out = out || lists[i][k] == sample;
            }
            assert_int_equal(culm_order_left_out_has(left_out, sample), out);
            if (!out) {
                const struct culm_order_place place = culm_order_turn(&order, turn++);
                assert_int_equal(place.position, p);
                assert_int_equal(place.sample, sample);
                ids += culm_order_id(p, sample);
            }
        }
        assert_int_equal(culm_order_ids(&order, 0, (int64_t)turn), ids);
        for (uint64_t back = turn; back-- > 0;) { /* in any order of epochs */
            assert_int_not_equal(culm_order_turn(&order, back).position,
                                 culm_order_turn(&order, back + 7).position);
        }
        culm_order_left_out_free(left_out);
    }
}

/* One list may serve orders of several seeds at once. */
static void test_turns_of_several_orders(void **state) {
    (void)state;
    const int64_t sample[] = {2, 90, 91};
    struct culm_order order[2], alone[2];
    struct culm_order_left_out *shared = culm_order_left_out_new(sample, 3), *own[2];
    for (int i = 0; i < 2; i++) {
        culm_order_init(&order[i], (uint64_t)i, 100);
        alone[i] = order[i];
        order[i].left_out = shared;
        alone[i].left_out = own[i] = culm_order_left_out_new(sample, 3);
    }
    for (uint64_t turn = 0; turn < 400; turn++) {
        for (int i = 0; i < 2; i++) {
            assert_int_equal(culm_order_turn(&order[i], turn).position,
                             culm_order_turn(&alone[i], turn).position);
        }
    }
    culm_order_left_out_free(shared);
    culm_order_left_out_free(own[0]);
    culm_order_left_out_free(own[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_a_permutation),
        cmocka_unit_test(test_small_permutations_are_even),
        cmocka_unit_test(test_places_are_even),
        cmocka_unit_test(test_is_a_function_of_seed_and_count),
        cmocka_unit_test(test_any_position_and_count),
        cmocka_unit_test(test_position_is_the_inverse),
        cmocka_unit_test(test_turns_pass_over),
        cmocka_unit_test(test_turns_of_several_orders),
    };
    return cmocka_run_group_tests_name("ledger/order", tests, NULL, NULL);
}
