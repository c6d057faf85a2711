/* Placing values: on random programs, no two that live at the same time share a byte. */
#include "graph/memory.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROGRAMS 300
#define VALUES_MAX 60
#define STEPS 40

static uint64_t seed;

static size_t rounded(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

static int32_t random_program(uint64_t *state, struct culm_interval *intervals) {
    int32_t count = (int32_t)culm_rng_below(state, VALUES_MAX + 1);
    bool chain = culm_rng_below(state, 2); /* short lives, as in a network; or any */
    for (int32_t i = 0; i < count; i++) {
        int32_t first = (int32_t)culm_rng_below(state, STEPS);
        uint64_t length = culm_rng_below(state, chain ? 3 : STEPS);
        int32_t last = first + (int32_t)length;
        intervals[i] = (struct culm_interval){
            .first = first, .last = last < STEPS ? last : STEPS - 1, .offset_bytes = 12345};
        intervals[i].size_bytes = 1 + (size_t)culm_rng_below(state, 1000);
    }
    return count;
}

static size_t most_alive(const struct culm_interval *intervals, int32_t count) {
    size_t most = 0;
    for (int32_t step = 0; step < STEPS; step++) {
        size_t alive = 0;
        for (int32_t i = 0; i < count; i++) {
            if (intervals[i].first <= step && step <= intervals[i].last) {
                alive += rounded(intervals[i].size_bytes);
            }
        }
        most = alive > most ? alive : most;
    }
    return most;
}

static void test_no_overlap(void **state) {
    (void)state;
    double worst = 1;
    uint64_t random = seed;
    for (int program = 0; program < PROGRAMS; program++) {
        struct culm_interval a[VALUES_MAX], b[VALUES_MAX];
        int32_t count = random_program(&random, a);
        size_t total, again, end = 0, sum = 0;
        memcpy(b, a, sizeof a);
        assert_int_equal(culm_memory_place(a, count, &total), CULM_OK);
        assert_int_equal(culm_memory_place(b, count, &again), CULM_OK);
        assert_int_equal(total, again);
        for (int32_t i = 0; i < count; i++) {
            size_t stop = a[i].offset_bytes + a[i].size_bytes;
            assert_int_equal(a[i].offset_bytes % 64, 0);
            assert_int_equal(a[i].offset_bytes, b[i].offset_bytes);
            end = a[i].offset_bytes + rounded(a[i].size_bytes) > end
                      ? a[i].offset_bytes + rounded(a[i].size_bytes)
                      : end;
            sum += rounded(a[i].size_bytes);
            for (int32_t j = 0; j < i; j++) {
                bool time = a[i].first <= a[j].last && a[j].first <= a[i].last;
                bool space = a[i].offset_bytes < a[j].offset_bytes + a[j].size_bytes &&
                             a[j].offset_bytes < stop;
                if (time && space) {
                    fail_msg("seed %llu, program %d: values %d and %d overlap",
                             (unsigned long long)seed, program, j, i);
                }
            }
        }
        size_t least = most_alive(a, count);
        assert_int_equal(total, end);
        assert_in_range(total, least, sum);
        if (least > 0 && (double)total / (double)least > worst) {
            worst = (double)total / (double)least;
        }
    }
    print_message("# at worst %.2f times the least possible (seed %llu)\n", worst,
                  (unsigned long long)seed);
    assert_true(worst < 2);
}

static void test_chain_needs_two(void **state) {
    (void)state;
    struct culm_interval chain[20];
    size_t total;
    for (int32_t i = 0; i < 20; i++) {
        chain[i] = (struct culm_interval){.first = i, .last = i + 1, .size_bytes = 100};
    }
    assert_int_equal(culm_memory_place(chain, 20, &total), CULM_OK);
    assert_int_equal(total, 256);
}

static void test_nothing(void **state) {
    (void)state;
    size_t total = 1;
    assert_int_equal(culm_memory_place(NULL, 0, &total), CULM_OK);
    assert_int_equal(total, 0);
}

int main(int argc, char **argv) {
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 20240607;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_overlap),
        cmocka_unit_test(test_chain_needs_two),
        cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests_name("graph/memory", tests, NULL, NULL);
}
