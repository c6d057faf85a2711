/* The lane tree: every lane once, in order, halves as even as they come; and sample positions. */
#include "pipeline/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void describe(const struct culm_lane_tree *tree, int32_t at, char *text, size_t size) {
    const struct culm_lane_node *node = &tree->node[at];
    if (node->left < 0) {
        snprintf(text, size, "%d", node->lo);
        return;
    }
    char left[256], right[256];
    describe(tree, node->left, left, sizeof left);
    describe(tree, node->right, right, sizeof right);
    snprintf(text, size, "(%.120s %.120s)", left, right);
}

static void test_the_order_of_sums_is_fixed(void **state) {
    (void)state;
    static const struct {
        int32_t lanes;
        const char *order;
    } want[] = {
        {1, "0"},
        {2, "(0 1)"},
        {3, "((0 1) 2)"},
        {5, "(((0 1) 2) (3 4))"},
        {6, "(((0 1) 2) ((3 4) 5))"},
        {8, "(((0 1) (2 3)) ((4 5) (6 7)))"},
        {12, "((((0 1) 2) ((3 4) 5)) (((6 7) 8) ((9 10) 11)))"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct culm_lane_tree tree;
        char text[512];
        culm_lane_tree_init(&tree, want[i].lanes);
        describe(&tree, 0, text, sizeof text);
        assert_string_equal(text, want[i].order);
    }
}

static void test_tree_of_any_size(void **state) {
    (void)state;
    for (int32_t lanes = 1; lanes <= CULM_MAX_LANES; lanes++) {
        struct culm_lane_tree tree;
        culm_lane_tree_init(&tree, lanes);
        assert_int_equal(tree.count, 2 * lanes - 1);
        assert_int_equal(tree.node[0].parent, -1);
        for (int32_t l = 0; l < lanes; l++) {
            const struct culm_lane_node *leaf = &tree.node[tree.leaf[l]];
            assert_int_equal(leaf->lo, l);
            assert_int_equal(leaf->hi, l + 1);
        }
        for (int32_t i = 0; i < tree.count; i++) {
            const struct culm_lane_node *at = &tree.node[i];
            if (at->left >= 0) {
                assert_int_equal(tree.node[at->left].lo, at->lo);
                assert_int_equal(tree.node[at->left].hi, tree.node[at->right].lo);
                assert_int_equal(tree.node[at->right].hi, at->hi);
                assert_int_equal(tree.node[at->left].parent, i);
                assert_int_equal(tree.node[at->right].parent, i);
            }
        }
    }
}

static void test_covers(void **state) {
    (void)state;
    struct culm_lane_tree tree;
    culm_lane_tree_init(&tree, 6);
    for (int32_t a = 0; a < tree.count; a++) {
        for (int32_t b = 0; b < tree.count; b++) {
            bool above = false;
            for (int32_t at = b; at >= 0; at = tree.node[at].parent) {
                above |= at == a;
            }
            assert_int_equal(culm_lane_tree_covers(&tree, a, b), above);
        }
    }
}

static void test_samples_follow_each_other(void **state) {
    (void)state;
    const struct culm_run_shape shape = {.micros = 8, .global_samples = 32, .micro_samples = 4};
    uint64_t want = 0;
    for (int64_t k = 1; k <= 3; k++) {
        for (int32_t m = 0; m < 8; m++, want += 4) {
            assert_int_equal(culm_run_shape_first_sample(&shape, k, m), want);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_order_of_sums_is_fixed),
        cmocka_unit_test(test_tree_of_any_size),
        cmocka_unit_test(test_covers),
        cmocka_unit_test(test_samples_follow_each_other),
    };
    return cmocka_run_group_tests_name("pipeline/layout", tests, NULL, NULL);
}
