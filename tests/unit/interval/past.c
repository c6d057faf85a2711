/* Branches of a run, and commits as text. */
#include "expect_mark.h"
#include "interval/committed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Began with version 2 of another run; went back from some version to 10 in attempt 5, and from another to 20 in attempt 9. */
static struct culm_gnn_past example(void) {
    struct culm_gnn_past past = {0};
    culm_gnn_past_add(&past, 1, 2);
    culm_gnn_past_add(&past, 5, 10);
    culm_gnn_past_add(&past, 9, 20);
    return past;
}

static void test_what_is_named(void **state) {
    (void)state;
    const struct culm_gnn_past past = example(), none = {0};
    assert_true(culm_gnn_past_names(&none, 7, 3)); /* whatever it begins with */
    assert_int_equal(culm_gnn_past_branch(&past), 9);
    assert_true(culm_gnn_past_names(&past, 2, 0));
    assert_false(culm_gnn_past_names(&past, 3, 0));
    assert_true(culm_gnn_past_names(&past, 10, 1));
    assert_false(culm_gnn_past_names(&past, 11, 1)); /* undone */
    assert_true(culm_gnn_past_names(&past, 20, 5));
    assert_false(culm_gnn_past_names(&past, 21, 5));
    assert_true(culm_gnn_past_names(&past, 1000, 9));
}

/* What a branch began with may be undone by a later one. */
static void test_a_branch_that_is_undone(void **state) {
    (void)state;
    struct culm_gnn_past past = example();
    culm_gnn_past_add(&past, 12, 10);
    assert_int_equal(past.count, 2);
    assert_true(culm_gnn_past_names(&past, 10, 1));
    assert_false(culm_gnn_past_names(&past, 11, 5));
    assert_false(culm_gnn_past_names(&past, 21, 9));
    assert_true(culm_gnn_past_names(&past, 11, 12));
    culm_gnn_past_add(&past, 13, 0);
    assert_int_equal(past.count, 1);
}

static void test_more_than_there_is_room_for(void **state) {
    (void)state;
    EXPECT_MARK(interval_past_is_cut);
    struct culm_gnn_past past = {0};
    for (uint32_t b = 0; b <= CULM_GNN_BRANCHES_MAX; b++) {
        culm_gnn_past_add(&past, 1 + b, 10 * (int64_t)b);
    }
    assert_int_equal(past.count, CULM_GNN_BRANCHES_MAX);
    assert_false(culm_gnn_past_names(&past, 5, 1)); /* nothing is known of it any more */
    assert_true(culm_gnn_past_names(&past, 15, 2));
}

static void test_a_commit_as_text(void **state) {
    (void)state;
    struct culm_gnn_committed back, committed = {.digest = UINT64_MAX,
                                                 .commit = {.attempt = 65537,
                                                            .epoch = 12,
                                                            .next = {.epoch = 13, .train = true},
                                                            .outcome = {.epoch = 12,
                                                                        .loss = 0.5f,
                                                                        .evaluated = true,
                                                                        .correct = {1, 2, 3},
                                                                        .area = {0.1, 0.2, -1}},
                                                            .balance = {.losses = 3, .usd = 2.5}}};
    char about[CULM_DEED_ABOUT_MAX];
    for (uint32_t b = 0; b < CULM_GNN_BRANCHES_MAX; b++) { /* as long as it gets */
        culm_gnn_past_add(&committed.past, 1 + b, 10 * (int64_t)b);
    }
    assert_true(culm_gnn_committed_write(&committed, about));
    assert_int_equal(strcspn(about, "\"\\"), strlen(about));
    assert_int_equal(culm_gnn_committed_read(about, &back), CULM_OK);
    assert_int_equal(back.digest, committed.digest);
    assert_int_equal(back.commit.epoch, 12);
    assert_int_equal(back.commit.attempt, 65537);
    assert_true(back.commit.outcome.loss == 0.5f);
    assert_int_equal(back.commit.outcome.correct[2], 3);
    assert_true(back.commit.balance.usd == 2.5);
    assert_int_equal(back.past.count, CULM_GNN_BRANCHES_MAX);
    assert_memory_equal(back.past.branch, committed.past.branch, sizeof back.past.branch);
    for (size_t len = 0; len < strlen(about); len++) {
        char cut[CULM_DEED_ABOUT_MAX];
        snprintf(cut, sizeof cut, "%.*s", (int)len, about);
        assert_int_equal(culm_gnn_committed_read(cut, &back), CULM_ERR_FORMAT);
    }
    about[4] = 'x';
    assert_int_equal(culm_gnn_committed_read(about, &back), CULM_ERR_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_named),
        cmocka_unit_test(test_a_branch_that_is_undone),
        cmocka_unit_test(test_more_than_there_is_room_for),
        cmocka_unit_test(test_a_commit_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
