/* Outcomes of epochs: what is kept of them, and what of that comes back from bytes. */
#include "interval/outcome.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void add(struct culm_gnn_curve *curve, int64_t epoch) {
    culm_gnn_curve_add(curve, &(struct culm_gnn_outcome){.epoch = epoch, .loss = (float)epoch});
}

static void is(const struct culm_gnn_curve *curve, int64_t first, int32_t count) {
    assert_int_equal(culm_gnn_curve_first(curve), count ? first : 0);
    assert_int_equal(curve->count, count);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(curve->outcome[i].epoch, first + i);
    }
}

static struct culm_gnn_curve *empty(void) {
    struct culm_gnn_curve *curve = calloc(1, sizeof *curve);
    assert_non_null(curve);
    return curve;
}

static void test_epochs_follow_each_other(void **state) {
    (void)state;
    struct culm_gnn_curve *curve = empty();
    for (int64_t epoch = 3; epoch < 9; epoch++) {
        add(curve, epoch);
        add(curve, epoch); /* told by a commit, and by a view after it */
    }
    is(curve, 3, 6);
    culm_gnn_curve_cut(curve, 4, 7);
    is(curve, 5, 3);
    culm_gnn_curve_cut(curve, 2, 9);
    is(curve, 5, 3);
    add(curve, 10); /* it was not there when the ones between were */
    is(curve, 10, 1);
    culm_gnn_curve_cut(curve, 10, 10);
    is(curve, 0, 0);
    free(curve);
}

static void test_the_oldest_give_way(void **state) {
    (void)state;
    struct culm_gnn_curve *curve = empty();
    for (int64_t epoch = 1; epoch <= CULM_GNN_CURVE_MAX + 1; epoch++) {
        add(curve, epoch);
    }
    is(curve, CULM_GNN_CURVE_MAX / 4 + 2, CULM_GNN_CURVE_MAX - CULM_GNN_CURVE_MAX / 4);
    free(curve);
}

static void test_a_curve_comes_back_from_bytes(void **state) {
    (void)state;
    struct culm_gnn_curve *curve = empty(), *back = empty();
    struct culm_buf buf;
    culm_buf_init(&buf, 128u << 10);
    for (int64_t epoch = 7; epoch < 7 + CULM_GNN_CURVE_MAX; epoch++) {
        const struct culm_gnn_outcome outcome = {.epoch = epoch,
                                                 .loss = 0.25f,
                                                 .evaluated = epoch % 2,
                                                 .correct = {epoch % 2, 0, 0},
                                                 .area = {0, 0, epoch % 2 ? -1 : 0}};
        culm_gnn_curve_add(curve, &outcome);
    }
    culm_gnn_curve_encode(curve, &buf);
    assert_false(buf.failed); /* of as many as there may be */
    assert_int_equal(culm_gnn_curve_decode(buf.data, buf.len, back), CULM_OK);
    assert_int_equal(back->count, CULM_GNN_CURVE_MAX);
    assert_memory_equal(back->outcome, curve->outcome, sizeof curve->outcome);
    for (size_t len = 0; len < 64; len++) {
        assert_int_equal(culm_gnn_curve_decode(buf.data, len, back), CULM_ERR_FORMAT);
    }
    culm_buf_clear(&buf);
    curve->outcome[1].epoch = 99; /* a gap */
    culm_gnn_curve_encode(curve, &buf);
    assert_int_equal(culm_gnn_curve_decode(buf.data, buf.len, back), CULM_ERR_FORMAT);
    culm_buf_release(&buf);
    free(curve);
    free(back);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs_follow_each_other),
        cmocka_unit_test(test_the_oldest_give_way),
        cmocka_unit_test(test_a_curve_comes_back_from_bytes),
    };
    return cmocka_run_group_tests_name("interval/outcome", tests, NULL, NULL);
}
