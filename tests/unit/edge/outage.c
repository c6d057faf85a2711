/* A feed that goes and comes back, on a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "edge/outage.h"

#define S UINT64_C(1000000000)

static void backs_off(void **state) {
    (void)state;
    static const uint64_t wait_s[] = {1, 2, 4, 8, 16, 30, 30, 30};
    struct culm_edge_outage outage = {0};
    uint64_t now = 5 * S, after = 0;
    bool goes_down;
    for (int round = 0; round < 2;
         round++) { /* the second outage begins with the shortest wait again */
        uint64_t began = now;
        assert_false(culm_edge_outage_frame(&outage, now, &after));
        for (size_t i = 0; i < sizeof wait_s / sizeof *wait_s; i++) {
            uint64_t at = culm_edge_outage_fails(&outage, now, &goes_down);
            assert_int_equal(goes_down, i == 0);
            assert_int_equal(at, now + wait_s[i] * S);
            now = at;
        }
        assert_int_equal(culm_edge_outage_down_ns(&outage, now), 121 * S * (uint64_t)(round + 1));
        assert_true(culm_edge_outage_frame(&outage, now, &after));
        assert_int_equal(after, now - began);
        assert_int_equal(outage.reconnects, round + 1);
        now += 60 * S; /* frames come */
        assert_int_equal(culm_edge_outage_down_ns(&outage, now), 121 * S * (uint64_t)(round + 1));
    }
}

/* The wait stays at the longest one, however often it fails. */
static void for_ever(void **state) {
    (void)state;
    struct culm_edge_outage outage = {0};
    bool goes_down;
    for (int i = 0; i < 1000; i++) {
        uint64_t at = culm_edge_outage_fails(&outage, S, &goes_down);
        assert_true(at > S && at <= 31 * S);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(backs_off), cmocka_unit_test(for_ever)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
