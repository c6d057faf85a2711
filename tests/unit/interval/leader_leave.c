/* A leader alone, whose nodes ask to leave. */
#include "expect_mark.h"
#include "leader_played.h"

static void asks(struct fixture *f, int32_t node) {
    culm_notice_encode(&(struct culm_notice){25000}, &f->buf);
    deliver(f, node, CULM_WORD_NOTICE);
    settle(f);
}

static int32_t released(const struct fixture *f, int32_t node) {
    return fake_world_sent(&f->fake, node, CULM_WORD_RELEASED);
}

static bool is_holder(const struct fixture *f, int32_t node) {
    return culm_gnn_view_holds(view_of(f, 0), node);
}

static const char *cause(const struct fixture *f) {
    const json_t *event = fake_world_told(&f->fake, "lost");
    return event ? json_string_value(json_object_get(event, "cause")) : "none";
}

/* Servers 0 and 1 with an interval each, and parameter server 2; the weights are on 0 and 2. */
static void begin_two(struct fixture *f, int32_t intervals) {
    begin_with(f, intervals, 1, 2, 1, 0);
    both_hold(f, 0, 2, 0);
}

static void epoch(struct fixture *f, int64_t number) {
    done_so(f, 0, 0, number, 0);
    done_so(f, 1, 1, number, 0);
    both_hold(f, 0, 2, number);
}

static void test_a_server_leaves_at_the_boundary(void **state) {
    (void)state;
    EXPECT_MARK(interval_leaver_is_released);
    struct fixture f;
    begin_two(&f, 2);
    const int32_t started = f.fake.started_as[CULM_GNN_SERVER];
    asks(&f, 1);
    assert_int_equal(f.fake.started_as[CULM_GNN_SERVER], started + 1);
    assert_int_equal(view_of(&f, 0)->owner[1], 1);
    assert_int_equal(released(&f, 1), 0);
    epoch(&f, 1);
    committed(&f, 1);
    assert_int_equal(view_of(&f, 0)->owner[1], 0);
    assert_int_equal(released(&f, 1), 1);
    assert_string_equal(cause(&f), "left");
    culm_gnn_leader_actor.lost(f.leader, 1);
    assert_int_equal(fake_world_events(&f.fake, "lost"), 1);
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 0);
    done_so(&f, 0, 0, 2, 0);
    done_so(&f, 0, 1, 2, 0);
    both_hold(&f, 0, 2, 2);
    committed(&f, 2);
    end(&f);
}

/* Who stands by has its place at once, and its intervals with the boundary. */
static void test_one_that_stands_by_takes_over(void **state) {
    (void)state;
    struct fixture f;
    begin_two(&f, 2);
    joined(&f, CULM_GNN_SERVER);
    asks(&f, 1);
    assert_int_equal(view_of(&f, 0)->owner[1], 1);
    epoch(&f, 1);
    assert_int_equal(view_of(&f, 0)->owner[1], 3);
    assert_int_equal(released(&f, 1), 1);
    end(&f);
}

/* A holder goes when another one has the weights in its place. */
static void test_a_holder_stays_until_another_one_has_a_copy(void **state) {
    (void)state;
    EXPECT_MARK(interval_leaver_stays_a_holder);
    struct fixture f;
    begin_two(&f, 2);
    asks(&f, 2);
    assert_true(is_holder(&f, 1)); /* it is sent a copy */
    holds(&f, 1, 0);
    assert_true(is_holder(&f, 2)); /* which sums of this epoch are on their way to */
    assert_int_equal(released(&f, 2), 0);
    epoch(&f, 1);
    holds(&f, 1, 1);
    committed(&f, 1);
    assert_false(is_holder(&f, 2));
    assert_int_equal(released(&f, 2), 1);
    assert_int_equal(fake_world_events(&f.fake, "rollback"), 0);
    end(&f);
}

/* There is no other server: it works on, and when it ends it is a loss. */
static void test_the_only_server_works_on(void **state) {
    (void)state;
    struct fixture f;
    begin_with(&f, 1, 1, 1, 1, 0);
    both_hold(&f, 0, 1, 0);
    asks(&f, 0);
    commits_by(&f, 1, 0, 1);
    committed(&f, 1);
    assert_int_equal(view_of(&f, 0)->owner[0], 0);
    assert_int_equal(released(&f, 0), 0);
    lost(&f, 0);
    assert_string_equal(cause(&f), "eof");
    end(&f);
}

static void test_one_leaves_before_there_is_work(void **state) {
    (void)state;
    EXPECT_MARK(interval_leaves_before_the_first_view);
    struct fixture f;
    const struct culm_gnn_settings settings = settings_of(1, 1, 0);
    make(&f, 1, 1, &settings);
    joined(&f, CULM_GNN_SERVER);
    asks(&f, 0);
    assert_int_equal(released(&f, 0), 1);
    joined(&f, CULM_GNN_PARAMETER);
    assert_null(fake_world_last(&f.fake, 1, CULM_GNN_MSG_VIEW));
    joined(&f, CULM_GNN_SERVER);
    assert_int_equal(view_of(&f, 1)->owner[0], 2);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_leaves_at_the_boundary),
        cmocka_unit_test(test_one_that_stands_by_takes_over),
        cmocka_unit_test(test_a_holder_stays_until_another_one_has_a_copy),
        cmocka_unit_test(test_the_only_server_works_on),
        cmocka_unit_test(test_one_leaves_before_there_is_work),
    };
    return cmocka_run_group_tests_name("interval/leader_leave", tests, NULL, NULL);
}
