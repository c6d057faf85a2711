/* The leader alone: workers that ask to leave, played by the test. */
#include "expect_mark.h"
#include "leader_alive.h"

static void asks(struct fixture *f, int32_t node) {
    SAY_WORD(f, node, NOTICE, notice, .within_ms = 25000);
}

static int32_t released(const struct fixture *f, int32_t node) {
    return fake_world_sent(&f->fake, node, CULM_WORD_RELEASED);
}

static const char *cause(const struct fixture *f) {
    const json_t *event = fake_world_told(&f->fake, "lost");
    return event ? json_string_value(json_object_get(event, "cause")) : "none";
}

/* It goes on until the step is committed; then others do what it did, and it may end. */
static void test_one_leaves_at_the_boundary(void **state) {
    (void)state;
    EXPECT_MARK(crew_asks_to_leave);
    EXPECT_MARK(crew_asked_to_leave_and_is_released);
    EXPECT_MARK(pipeline_leaver_gives_its_seat_up);
    EXPECT_MARK(pipeline_leaver_is_released);
    struct fixture f;
    begin(&f, options(2));
    run(&f);
    const int32_t started = f.fake.started;
    const uint64_t view = totals(&f).view;
    asks(&f, 1);
    asks(&f, 1); /* as to a leader that it has not told yet */
    assert_int_equal(fake_world_events(&f.fake, "notice"), 1);
    assert_int_equal(f.fake.started, started + 1); /* another one comes while it is still there */
    assert_int_equal(totals(&f).view, view);
    assert_int_equal(released(&f, 1), 0);
    commit(&f);
    assert_int_equal(released(&f, 1), 1);
    assert_string_equal(cause(&f), "left");
    assert_null(culm_view_find(newest(&f, 0), 1));
    assert_int_equal(newest(&f, 0)->role[0][1].owner, 0);
    beat(&f, 1, -1, 0, 0); /* it had said so before it heard */
    assert_int_equal(fake_world_sent(&f.fake, 1, CULM_WORD_FENCED), 0);
    assert_int_equal(released(&f, 1), 2);
    lost(&f, 1);
    ended(&f, 1);
    assert_int_equal(totals(&f).losses, 0);
    assert_int_equal(totals(&f).rollbacks, 0);
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 0);
    assert_int_equal(f.fake.started, started + 1);
    commit(&f);
    end(&f);
}

/* What it holds once more is not given away before the other copy is there. */
static void test_one_stays_until_others_have_a_copy(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_leaver_stays_for_a_copy);
    struct fixture f;
    begin(&f, options(1));
    run(&f);
    asks(&f, 1);
    join(&f);
    commit(&f);
    assert_int_equal(newest(&f, 0)->role[0][1].owner, 0);
    assert_non_null(culm_view_find(newest(&f, 0), 1));
    assert_int_equal(culm_view_find(newest(&f, 0), 1)->pipeline, -1);
    assert_int_equal(totals(&f).transfers, 2);
    assert_int_equal(released(&f, 1), 0);
    const struct culm_transfer first = newest(&f, 2)->transfer[0];
    const struct culm_transfer second = newest(&f, 2)->transfer[1];
    SAY(&f, 2, JOINED, joined, .version = 1, .transfer = first.id);
    assert_int_equal(released(&f, 1), 0);
    SAY(&f, 2, JOINED, joined, .version = 1, .transfer = second.id);
    assert_int_equal(released(&f, 1), 1);
    assert_null(culm_view_find(newest(&f, 0), 1));
    assert_int_equal(totals(&f).losses, 0);
    end(&f);
}

/* Nobody else has its stage: it works on, and if it ends it is a loss like any other. */
static void test_the_only_holder_works_on(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_leaver_keeps_its_seat);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    o.settings.crew.replace_ms = 60000;
    begin(&f, o);
    run(&f);
    asks(&f, 1);
    commit(&f);
    commit(&f);
    assert_int_equal(released(&f, 1), 0);
    assert_int_equal(newest(&f, 0)->role[0][1].owner, 1);
    lost(&f, 1);
    assert_string_equal(cause(&f), "eof");
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(totals(&f).rollbacks, 1);
    end(&f);
}

/* One comes that takes its seat: it is the source of the copy, and then may go. */
static void test_the_only_holder_hands_over(void **state) {
    (void)state;
    struct fixture f;
    struct culm_pipeline_leader_options o = options(1);
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    begin(&f, o);
    run(&f);
    asks(&f, 1);
    join(&f);
    commit(&f);
    assert_int_equal(totals(&f).transfers, 1);
    const struct culm_transfer copy = newest(&f, 2)->transfer[0];
    assert_int_equal(copy.source, 1);
    assert_int_equal(copy.destination, 2);
    SAY(&f, 2, JOINED, joined, .version = 1, .transfer = copy.id);
    assert_int_equal(released(&f, 1), 1);
    assert_int_equal(newest(&f, 0)->role[0][1].owner, 2);
    assert_int_equal(newest(&f, 0)->lane_pipeline[0], 0);
    assert_int_equal(totals(&f).losses + totals(&f).rollbacks, 0);
    end(&f);
}

/* All are to leave. Those who come first take seats of one pipeline, and learn; those who come then would take the other one's, and
 * nobody could train. */
static void test_a_pipeline_works_on_until_another_one_can(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_leaver_takes_its_seat_back);
    struct fixture f;
    struct culm_pipeline_leader_options o = options(2);
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    begin(&f, o);
    run(&f);
    for (int32_t i = 0; i < 4; i++) {
        asks(&f, i);
    }
    join(&f);
    join(&f);
    commit(&f);
    const int32_t leaving = newest(&f, 4)->lane_pipeline[0];
    assert_int_equal(newest(&f, 4)->lane_pipeline[1], leaving);
    assert_in_range(newest(&f, 4)->role[leaving][0].owner, 0, 3);
    assert_int_equal(totals(&f).transfers, 2);
    join(&f);
    join(&f);
    commit(&f);
    for (int32_t s = 0; s < 2; s++) {
        assert_int_equal(newest(&f, 4)->lane_pipeline[s], leaving);
        assert_in_range(newest(&f, 4)->role[leaving][s].owner, 0, 3);
    }
    while (newest(&f, 4)->transfer_count > 0) {
        const struct culm_transfer copy = newest(&f, 4)->transfer[0];
        SAY(&f, copy.destination, JOINED, joined, .version = 2, .transfer = copy.id);
    }
    commit(&f);
    assert_int_equal(newest(&f, 4)->lane_pipeline[0], 1 - leaving);
    assert_in_range(newest(&f, 4)->role[1 - leaving][0].owner, 4, 7);
    assert_int_equal(totals(&f).losses + totals(&f).rollbacks, 0);
    end(&f);
}

static void test_one_that_dies_as_it_leaves_is_a_loss(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options(2));
    run(&f);
    const int32_t started = f.fake.started;
    asks(&f, 1);
    lost(&f, 1);
    assert_string_equal(cause(&f), "eof");
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(newest(&f, 0)->role[0][1].owner, 0);
    assert_int_equal(f.fake.started, started + 1); /* it had been asked for */
    end(&f);
}

static void test_one_leaves_before_there_is_work(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_leaves_while_waiting);
    struct fixture f;
    begin(&f, options(1));
    joined(&f, 0);
    asks(&f, 0);
    assert_int_equal(released(&f, 0), 1);
    joined(&f, 1);
    assert_int_equal(totals(&f).view, 0); /* one is missing */
    joined(&f, 2);
    assert_int_equal(totals(&f).view, 1);
    assert_null(culm_view_find(newest(&f, 1), 0));
    end(&f);
}

static void test_one_that_stands_by_leaves_at_once(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_leaves_while_it_stands_by);
    struct fixture f;
    begin(&f, options(1));
    run(&f);
    joined(&f, f.next++);
    commit(&f);
    assert_non_null(culm_view_find(newest(&f, 0), 2));
    asks(&f, 2);
    assert_int_equal(released(&f, 2), 1);
    assert_null(culm_view_find(newest(&f, 0), 2));
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_leaves_at_the_boundary),
        cmocka_unit_test(test_one_stays_until_others_have_a_copy),
        cmocka_unit_test(test_the_only_holder_works_on),
        cmocka_unit_test(test_the_only_holder_hands_over),
        cmocka_unit_test(test_a_pipeline_works_on_until_another_one_can),
        cmocka_unit_test(test_one_that_dies_as_it_leaves_is_a_loss),
        cmocka_unit_test(test_one_leaves_before_there_is_work),
        cmocka_unit_test(test_one_that_stands_by_leaves_at_once),
    };
    return cmocka_run_group_tests_name("pipeline/leader_leave", tests, NULL, NULL);
}
