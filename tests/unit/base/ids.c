/* Things by number: as a plain list of all numbers has them, whatever is added and removed. */
#include "base/ids.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define NUMBERS 200

static void as_a_plain_list_has_them(void **state) {
    (void)state;
    static int thing[NUMBERS];
    bool there[NUMBERS] = {false};
    struct culm_ids ids = {0};
    uint64_t dice = 5;
    for (int turn = 0; turn < 5000; turn++) {
        int32_t number = (int32_t)culm_rng_below(&dice, NUMBERS), id = number * 1000003 - 50000000;
        if (there[number]) {
            assert_ptr_equal(culm_ids_take(&ids, id), &thing[number]);
        } else {
            assert_null(culm_ids_take(&ids, id));
            assert_true(culm_ids_put(&ids, id, &thing[number]));
        }
        there[number] = !there[number];
        int32_t count = 0;
        for (int32_t i = 0; i < NUMBERS; i++) {
            int32_t other = i * 1000003 - 50000000;
            assert_int_equal(culm_ids_from(&ids, other), count);
            assert_ptr_equal(culm_ids_find(&ids, other), there[i] ? &thing[i] : NULL);
            assert_int_equal(culm_ids_has(&ids, other), there[i]);
            count += there[i];
        }
        assert_int_equal(ids.count, count);
    }
    culm_ids_release(&ids);
}

static void the_least_and_the_greatest_number(void **state) {
    (void)state;
    int a, b;
    struct culm_ids ids = {0};
    assert_int_equal(culm_ids_from(&ids, 0), 0);
    assert_true(culm_ids_put(&ids, INT32_MAX, &b));
    assert_true(culm_ids_put(&ids, INT32_MIN, &a));
    assert_ptr_equal(culm_ids_find(&ids, INT32_MIN), &a);
    assert_ptr_equal(culm_ids_find(&ids, INT32_MAX), &b);
    assert_int_equal(culm_ids_from(&ids, 0), 1);
    culm_ids_release(&ids);
    assert_int_equal(ids.count, 0);
}

static void a_thing_that_gets_another_number(void **state) {
    (void)state;
    int thing[3];
    struct culm_ids ids = {0};
    for (int32_t i = 0; i < 3; i++) {
        assert_true(culm_ids_put(&ids, 10 * i, &thing[i]));
    }
    culm_ids_renumber(&ids, 0, 15);
    culm_ids_renumber(&ids, 20, -5);
    culm_ids_renumber(&ids, 10, 10);
    assert_int_equal(ids.count, 3);
    assert_ptr_equal(culm_ids_find(&ids, 15), &thing[0]);
    assert_ptr_equal(culm_ids_find(&ids, 10), &thing[1]);
    assert_ptr_equal(culm_ids_find(&ids, -5), &thing[2]);
    assert_int_equal(culm_ids_from(&ids, 11), 2);
    culm_ids_release(&ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_a_plain_list_has_them),
        cmocka_unit_test(the_least_and_the_greatest_number),
        cmocka_unit_test(a_thing_that_gets_another_number),
    };
    return cmocka_run_group_tests_name("base/ids", tests, NULL, NULL);
}
