/* Sets of stages, at the edges of words and between them. */
#include "pipeline/stages.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Of random sets, and those at the edges of words. */
static struct culm_stage_set draw(uint64_t *dice) {
    struct culm_stage_set set = {{0}};
    const uint64_t many = 1 + culm_rng_below(dice, 40);
    for (uint64_t i = 0; i < many; i++) {
        const int32_t edge = 64 * (int32_t)culm_rng_below(dice, CULM_STAGE_WORDS);
        culm_stage_set_add(&set, culm_rng_below(dice, 2)
                                     ? edge + 63 * (int32_t)culm_rng_below(dice, 2)
                                     : (int32_t)culm_rng_below(dice, CULM_MAX_STAGES));
    }
    return set;
}

static void sets_are_compared_number_by_number(void **state) {
    (void)state;
    uint64_t dice = 1;
    for (int round = 0; round < 200; round++) {
        const struct culm_stage_set a = draw(&dice),
                                    b = round % 5 ? draw(&dice) : culm_stage_set_below(round);
        const struct culm_stage_set both = culm_stage_set_both(&a, &b),
                                    any = culm_stage_set_any(&a, &b);
        const struct culm_stage_set minus = culm_stage_set_minus(&a, &b),
                                    differ = culm_stage_set_differ(&a, &b);
        int32_t count = 0, last = -1, next = culm_stage_set_next(&a, 0);
        for (int32_t i = 0; i < CULM_MAX_STAGES; i++) {
            const bool in_a = culm_stage_set_has(&a, i), in_b = culm_stage_set_has(&b, i);
            assert_int_equal(culm_stage_set_has(&both, i), in_a && in_b);
            assert_int_equal(culm_stage_set_has(&any, i), in_a || in_b);
            assert_int_equal(culm_stage_set_has(&minus, i), in_a && !in_b);
            assert_int_equal(culm_stage_set_has(&differ, i), in_a != in_b);
            count += in_a;
            if (in_a) {
                assert_int_equal(next, i);
                next = culm_stage_set_next(&a, i + 1);
                last = i;
            }
        }
        assert_int_equal(next, -1);
        assert_int_equal(culm_stage_set_count(&a), count);
        assert_int_equal(culm_stage_set_last(&a), last);
        assert_int_equal(culm_stage_set_meets(&a, &b), !culm_stage_set_empty(&both));
        assert_int_equal(culm_stage_set_within(&a, &b), culm_stage_set_empty(&minus));
        assert_int_equal(culm_stage_set_same(&a, &b), culm_stage_set_empty(&differ));
        assert_true(culm_stage_set_within(&both, &a) && culm_stage_set_within(&a, &any));
        assert_true(culm_stage_set_same(&a, &a));
    }
    const struct culm_stage_set none = {{0}}, all = culm_stage_set_below(CULM_MAX_STAGES);
    const struct culm_stage_set one = culm_stage_set_of(CULM_MAX_STAGES - 1);
    assert_true(culm_stage_set_empty(&none) && !culm_stage_set_empty(&one));
    assert_int_equal(culm_stage_set_last(&none), -1);
    assert_int_equal(culm_stage_set_next(&all, CULM_MAX_STAGES), -1);
    assert_int_equal(culm_stage_set_next(&one, 5), CULM_MAX_STAGES - 1);
    assert_int_equal(culm_stage_set_count(&all), CULM_MAX_STAGES);
}

static void a_stage_takes_a_byte(void **state) {
    (void)state;
    struct culm_buf buf;
    culm_buf_init(&buf, 100);
    struct culm_stage_set set = {{0}};
    culm_stage_set_write(&buf, &set);
    assert_int_equal(buf.len, 1);
    culm_stage_set_add(&set, 0);
    culm_stage_set_add(&set, 63);
    culm_stage_set_add(&set, 64);
    culm_stage_set_add(&set, CULM_MAX_STAGES - 1);
    culm_buf_clear(&buf);
    culm_stage_set_write(&buf, &set);
    assert_int_equal(buf.len, 1 + 1 + 1 + 2 + 1);
    struct culm_reader reader = culm_reader_of(buf.data, buf.len);
    const struct culm_stage_set again = culm_stage_set_read(&reader, CULM_MAX_STAGES);
    assert_true(culm_reader_done(&reader) && culm_stage_set_same(&again, &set));
    reader = culm_reader_of(buf.data, buf.len);
    (void)culm_stage_set_read(&reader, CULM_MAX_STAGES - 1); /* one that there is not */
    assert_true(reader.failed);
    reader = culm_reader_of(buf.data, buf.len - 1); /* cut off */
    (void)culm_stage_set_read(&reader, CULM_MAX_STAGES);
    assert_true(reader.failed);
    culm_buf_release(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_compared_number_by_number),
        cmocka_unit_test(a_stage_takes_a_byte),
    };
    return cmocka_run_group_tests_name("pipeline/stages", tests, NULL, NULL);
}
