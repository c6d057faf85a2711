/* Frames that come in time, a little late, too late and never, on a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "edge/due.h"

#define MS UINT64_C(1000000)

static int missed(struct culm_edge_due *due, uint64_t now_ms, bool came) {
    uint64_t at_ns = 0, before_ns = 0;
    int count = 0;
    for (; culm_edge_due_missed(due, 100 * MS, now_ms * MS, came, &at_ns); count++) {
        assert_true(count == 0 || at_ns == before_ns + due->period_ns);
        before_ns = at_ns;
    }
    return count;
}

/* The place in ms of a frame that comes now, before which so many places have stayed empty. */
static void comes(struct culm_edge_due *due, uint64_t now_ms, int empty, uint64_t at_ms) {
    assert_int_equal(missed(due, now_ms, true), empty);
    assert_int_equal(culm_edge_due_take(due, now_ms * MS), at_ms * MS);
}

static void keeps_its_place(void **state) {
    (void)state;
    struct culm_edge_due due = {.period_ns = 40 * MS};
    assert_int_equal(missed(&due, 5000, false), 0); /* time begins with the first frame */
    comes(&due, 5000, 0, 5000);
    comes(&due, 5001, 0, 5040); /* too early: it waits */
    comes(&due, 5180, 0, 5080); /* late, as are the next two, but none by more than the slack */
    comes(&due, 5180, 0, 5120);
    comes(&due, 5180, 0, 5160);
    comes(&due, 5180, 0, 5200);
}

static void too_late(void **state) {
    (void)state;
    struct culm_edge_due due = {.period_ns = 40 * MS};
    comes(&due, 1000, 0, 1000);
    comes(&due, 1150, 2,
          1120); /* 1040 is over the slack, so 1080 goes with it: the present is due */
    comes(&due, 1160, 0, 1160);
    assert_int_equal(missed(&due, 1300, false), 0);
    assert_int_equal(missed(&due, 1301, false),
                     1); /* none comes: each goes as it is over the slack */
    assert_int_equal(missed(&due, 1380, false), 1);
    comes(&due, 1390, 2, 1360);
    comes(&due, 1391, 0, 1400);
}

/* A place that is rarer than the slack, and far longer ago: the frame waits for the next one. */
static void rare(void **state) {
    (void)state;
    struct culm_edge_due due = {.period_ns = 1000 * MS};
    comes(&due, 0, 0, 0);
    comes(&due, 1100, 0, 1000);
    comes(&due, 2101, 1, 3000);
    comes(&due, 14050, 10, 14000);
}

/* Nine frames a second for 25: nothing is lost from the count. */
static void slow(void **state) {
    (void)state;
    struct culm_edge_due due = {.period_ns = 40 * MS};
    int empty = 0, frames = 0;
    uint64_t at_ns = 0;
    for (uint64_t now = 0; now < 10000; now += 10) {
        empty += missed(&due, now, false);
        if (now % 110 == 0) {
            empty += missed(&due, now, true);
            at_ns = culm_edge_due_take(&due, now * MS);
            assert_true(now * MS <= at_ns + 100 * MS);
            frames++;
        }
    }
    assert_int_equal(frames, 91);
    assert_int_equal(at_ns / (40 * MS), (uint64_t)(frames + empty - 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_its_place),
                                       cmocka_unit_test(too_late), cmocka_unit_test(rare),
                                       cmocka_unit_test(slow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
