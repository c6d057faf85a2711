/*
 * The fold: every part once, in order, halves as even as they come; slices in any order, repeated and
 * as larger sums; and that the sum has the same bits whichever of them came.
 */
#include "ledger/fold.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PARTS_MAX 200

static void describe(const struct culm_fold_tree *tree, int32_t at, char *text, size_t size) {
    const struct culm_fold_node *node = &tree->node[at];
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
        int32_t parts;
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
        struct culm_fold_tree tree;
        char text[512];
        assert_true(culm_fold_tree_init(&tree, want[i].parts));
        describe(&tree, 0, text, sizeof text);
        assert_string_equal(text, want[i].order);
        culm_fold_tree_release(&tree);
    }
}

static void test_tree_of_any_size(void **state) {
    (void)state;
    for (int32_t parts = 1; parts <= PARTS_MAX; parts++) {
        struct culm_fold_tree tree;
        assert_true(culm_fold_tree_init(&tree, parts));
        assert_int_equal(tree.count, 2 * parts - 1);
        assert_int_equal(tree.node[0].parent, -1);
        for (int32_t l = 0; l < parts; l++) {
            const struct culm_fold_node *leaf = &tree.node[tree.leaf[l]];
            assert_int_equal(leaf->lo, l);
            assert_int_equal(leaf->hi, l + 1);
        }
        for (int32_t i = 0; i < tree.count; i++) {
            const struct culm_fold_node *at = &tree.node[i];
            if (at->left >= 0) {
                assert_int_equal(tree.node[at->left].lo, at->lo);
                assert_int_equal(tree.node[at->left].hi, tree.node[at->right].lo);
                assert_int_equal(tree.node[at->right].hi, at->hi);
                assert_int_equal(tree.node[at->left].parent, i);
                assert_int_equal(tree.node[at->right].parent, i);
            }
        }
        culm_fold_tree_release(&tree);
    }
}

static void test_covers(void **state) {
    (void)state;
    struct culm_fold_tree tree;
    assert_true(culm_fold_tree_init(&tree, 6));
    for (int32_t a = 0; a < tree.count; a++) {
        for (int32_t b = 0; b < tree.count; b++) {
            bool above = false;
            for (int32_t at = b; at >= 0; at = tree.node[at].parent) {
                above |= at == a;
            }
            assert_int_equal(culm_fold_tree_covers(&tree, a, b), above);
        }
    }
    culm_fold_tree_release(&tree);
}

/* --- slices and sums --- */

#define PARTS 37 /* as intervals of a graph: no power of two */
#define FLOATS 5

static void copy(void *self, void *out, const void *a, size_t bytes) {
    (void)self;
    memcpy(out, a, bytes);
}

static void add(void *self, void *out, const void *a, const void *b, size_t bytes) {
    (void)self;
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        ((float *)out)[i] = ((const float *)a)[i] + ((const float *)b)[i];
    }
}

static const struct culm_fold_ops floats = {copy, add};

struct parts {
    struct culm_fold_tree tree;
    struct culm_blob_pool *pool;
    float part[PARTS][FLOATS], want[FLOATS];
    struct culm_slice slice[2 * PARTS];
    int32_t covered; /* parts */
};

/* The sum over a node in the order that the tree says, without the code under test. */
static void plainly(const struct parts *p, int32_t at, float *out) {
    const struct culm_fold_node *node = &p->tree.node[at];
    if (node->left < 0) {
        memcpy(out, p->part[node->lo], sizeof p->part[0]);
        return;
    }
    float right[FLOATS];
    plainly(p, node->left, out);
    plainly(p, node->right, right);
    add(NULL, out, out, right, sizeof right);
}

static void parts_init(struct parts *p) {
    uint64_t random = 7;
    memset(p, 0, sizeof *p);
    assert_true(culm_fold_tree_init(&p->tree, PARTS));
    p->pool = culm_blob_pool_new(0);
    assert_non_null(p->pool);
    for (int i = 0; i < PARTS; i++) {
        for (int k = 0; k < FLOATS; k++) { /* far apart, so that another order shows */
            p->part[i][k] = (float)culm_rng_below(&random, 1u << 24) * (i % 3 ? 1e-3f : 1e4f);
        }
    }
    plainly(p, 0, p->want);
}

/* The negative control: by pairs of neighbours, from either end, and by halves of which the right one comes
 * first, such sums are others. */
static void halves_turned(const struct parts *p, int32_t lo, int32_t hi, float *out) {
    float left[FLOATS];
    if (hi - lo == 1) {
        memcpy(out, p->part[lo], sizeof left);
        return;
    }
    halves_turned(p, lo + (hi - lo) / 2, hi, out); /* the middle part goes to the other half */
    halves_turned(p, lo, lo + (hi - lo) / 2, left);
    add(NULL, out, out, left, sizeof left);
}

static void parts_astray(const struct parts *p, float astray[3][FLOATS]) {
    memcpy(astray[0], p->part[0], sizeof astray[0]);
    memcpy(astray[1], p->part[PARTS - 1], sizeof astray[1]);
    for (int i = 1; i < PARTS; i++) {
        add(NULL, astray[0], astray[0], p->part[i], sizeof astray[0]);
        add(NULL, astray[1], astray[1], p->part[PARTS - 1 - i], sizeof astray[1]);
    }
    halves_turned(p, 0, PARTS, astray[2]);
}

static void parts_release(struct parts *p) {
    struct culm_blob_pool_stats stats;
    culm_fold_clear(&p->tree, p->slice);
    culm_blob_pool_stats_of(p->pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    culm_blob_pool_free(p->pool);
    culm_fold_tree_release(&p->tree);
}

/* In a slice of its own or of any node above it. */
static bool is_there(const struct parts *p, int32_t part) {
    for (int32_t at = p->tree.leaf[part]; at >= 0; at = p->tree.node[at].parent) {
        if (p->slice[at].blob) {
            return true;
        }
    }
    return false;
}

/* Someone's sum over a node arrives, somewhere inside of a blob. */
static void arrive(struct parts *p, int32_t node) {
    struct culm_blob *blob;
    size_t offset = (size_t)(node % 4) * 64;
    assert_int_equal(culm_blob_pool_get(p->pool, offset + sizeof p->part[0], &blob), CULM_OK);
    plainly(p, node, (float *)(void *)((char *)blob->data + offset));
    p->covered += culm_fold_add(&p->tree, p->slice, node, blob, offset);
    culm_blob_unref(blob);
    int32_t covered = 0;
    for (int32_t part = 0; part < PARTS; part++) {
        covered += is_there(p, part);
    }
    assert_int_equal(p->covered, covered);
}

static enum culm_status sum(struct parts *p, float *out, struct culm_error *error) {
    const struct culm_fold fold = {&p->tree, p->slice, sizeof p->part[0], p->pool, &floats, NULL};
    return culm_fold_sum(&fold, 0, out, error);
}

static void test_another_order_gives_other_bits(void **state) {
    (void)state;
    struct parts p;
    float astray[3][FLOATS];
    parts_init(&p);
    parts_astray(&p, astray);
    for (int order = 0; order < 3; order++) {
        assert_memory_not_equal(astray[order], p.want, sizeof p.want);
        for (int k = 0; k < FLOATS; k++) {
            assert_true(fabsf(astray[order][k] - p.want[k]) <= 1e-5f * fabsf(p.want[k]));
        }
    }
    parts_release(&p);
}

static void test_any_slices_give_the_same_bits(void **state) {
    (void)state;
    uint64_t seed = 20261122;
    for (int history = 0; history < 200; history++) {
        struct parts p;
        float got[FLOATS];
        parts_init(&p);
        while (p.covered < PARTS) {
            arrive(&p, (int32_t)culm_rng_below(&seed, (uint64_t)p.tree.count));
        }
        assert_int_equal(sum(&p, got, NULL), CULM_OK);
        assert_memory_equal(got, p.want, sizeof got);
        parts_release(&p);
    }
}

static void test_a_larger_slice_takes_the_place_of_its_parts(void **state) {
    (void)state;
    struct parts p;
    parts_init(&p);
    int32_t leaf = p.tree.leaf[3], above = p.tree.node[leaf].parent;
    arrive(&p, leaf);
    assert_true(is_there(&p, 3));
    arrive(&p, above);
    assert_null(p.slice[leaf].blob);
    assert_non_null(p.slice[above].blob);
    const struct culm_blob *kept = p.slice[above].blob;
    arrive(&p, leaf);
    arrive(&p, above); /* known already */
    assert_null(p.slice[leaf].blob);
    assert_ptr_equal(p.slice[above].blob, kept);
    for (int32_t part = 0; part < PARTS; part++) {
        bool below = part >= p.tree.node[above].lo && part < p.tree.node[above].hi;
        assert_int_equal(is_there(&p, part), below);
    }
    assert_true(p.covered < PARTS);
    parts_release(&p);
}

static void test_what_is_missing_is_said(void **state) {
    (void)state;
    struct parts p;
    struct culm_error error = {0};
    float got[FLOATS];
    parts_init(&p);
    for (int32_t part = 0; part < PARTS; part++) {
        if (part != 11) {
            arrive(&p, p.tree.leaf[part]);
        }
    }
    assert_int_equal(sum(&p, got, &error), CULM_ERR_INTERNAL);
    assert_string_equal(error.text, "part 11 of a sum is missing");
    arrive(&p, p.tree.leaf[11]);
    culm_blob_pool_fail(p.pool, 0);
    assert_int_equal(sum(&p, got, &error), CULM_ERR_MEMORY);
    assert_non_null(strstr(error.text, "out of memory for a sum of 20 bytes"));
    assert_int_equal(sum(&p, got, &error), CULM_OK);
    assert_memory_equal(got, p.want, sizeof got);
    parts_release(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_order_of_sums_is_fixed),
        cmocka_unit_test(test_tree_of_any_size),
        cmocka_unit_test(test_covers),
        cmocka_unit_test(test_another_order_gives_other_bits),
        cmocka_unit_test(test_any_slices_give_the_same_bits),
        cmocka_unit_test(test_a_larger_slice_takes_the_place_of_its_parts),
        cmocka_unit_test(test_what_is_missing_is_said),
    };
    return cmocka_run_group_tests_name("ledger/fold", tests, NULL, NULL);
}
