/* The leader alone, where rows may be stale and another one may lead: commits are written down before anyone is told. */
#include "expect_mark.h"
#include "leader_played.h"

#include "interval/committed.h"

#define JOIN_MS 1000

/* Server 0, and 1 and 2, parameter servers that hold the weights. */
static void begin_recorded(struct fixture *f, int32_t staleness) {
    struct culm_gnn_settings settings = settings_of(1, 2, 0);
    settings.pace.staleness = staleness;
    settings.crew.join_ms = JOIN_MS;
    struct culm_gnn_leader_options options = prepare(f, 1, 1, &settings);
    options.record = &f->fake.record;
    lead(f, &options);
    joined(f, CULM_GNN_SERVER);
    joined(f, CULM_GNN_PARAMETER);
    joined(f, CULM_GNN_PARAMETER);
    both_hold(f, 1, 2, 0);
}

static void is_written(struct fixture *f) {
    culm_gnn_leader_actor.leads->written(f->leader, CULM_DEED_COMMIT);
}

/* Nobody hears of it before, and no view is made that might have to take it back. */
static void test_a_commit_is_written_before_it_is_told(void **state) {
    (void)state;
    EXPECT_MARK(interval_view_waits_for_a_commit);
    struct fixture f;
    begin_recorded(&f, 1);
    commits(&f, 1);
    assert_int_equal(f.fake.deeds, 1);
    assert_int_equal(f.fake.deed, CULM_DEED_COMMIT);
    assert_int_equal(f.fake.deed_step, 1);
    struct culm_gnn_committed committed;
    assert_int_equal(culm_gnn_committed_read(f.fake.deed_about, &committed), CULM_OK);
    assert_int_equal(committed.commit.epoch, 1);
    assert_int_equal(committed.commit.next.epoch, 2);
    assert_int_equal(committed.digest, 1);
    assert_int_equal(culm_gnn_past_branch(&committed.past), 1);
    fake_world_forget(&f.fake);
    lost(&f, 2);
    done(&f, 2); /* the server runs ahead */
    assert_int_equal(fake_world_events(&f.fake, "epoch"), 0);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_GNN_MSG_COMMIT), 0);
    assert_int_equal(fake_world_events(&f.fake, "view"), 0);
    is_written(&f);
    assert_int_equal(fake_world_events(&f.fake, "epoch"), 1);
    assert_int_equal(fake_world_sent(&f.fake, 0, CULM_GNN_MSG_COMMIT), 1);
    assert_int_equal(fake_world_events(&f.fake, "view"), 1);
    assert_int_equal(view_of(&f, 0)->holder[0].node, 1);
    end(&f);
}

/* Done again, an epoch has the same bits: nothing waits for what is written. */
static void test_none_is_written_where_rows_are_never_stale(void **state) {
    (void)state;
    struct fixture f;
    begin_recorded(&f, 0);
    commits(&f, 1);
    assert_int_equal(f.fake.deeds, 0);
    committed(&f, 1);
    end(&f);
}

/* A stop that comes meanwhile ends the run after what is committed. */
static void test_a_stop_waits_for_a_commit(void **state) {
    (void)state;
    struct fixture f;
    begin_recorded(&f, 1);
    commits(&f, 1);
    culm_gnn_leader_actor.leads->stop(f.leader);
    later(&f, 100);
    assert_int_equal(f.fake.deeds, 1);
    assert_int_equal(f.fake.exit_code, -1);
    is_written(&f);
    committed(&f, 1);
    assert_int_equal(order_of(&f, &(struct culm_gnn_save){0}), 1); /* what is committed is saved */
    end(&f);
}

/* A copy that comes while the commit is written, of the version before: what would bring it on is committed, and is not summed any
 * more. */
static void test_a_copy_that_comes_while_it_is_written(void **state) {
    (void)state;
    EXPECT_MARK(interval_copy_is_of_the_version_before);
    struct fixture f;
    begin_recorded(&f, 1);
    lost(&f, 2);
    joined(&f, CULM_GNN_PARAMETER); /* 3 */
    const uint64_t since = view_of(&f, 3)->number;
    assert_int_equal(view_of(&f, 3)->holder[1].from, 1);
    later(&f, JOIN_MS + 100);
    done(&f, 1);
    holds(&f, 1, 1);
    assert_int_equal(f.fake.deeds, 1);
    holds(&f, 3, 0);
    is_written(&f);
    committed(&f, 1);
    const struct culm_gnn_view *view = view_of(&f, 3);
    assert_true(view->number > since);
    for (int32_t h = 0; h < view->holder_count; h++) {
        assert_true(view->holder[h].node != 3 || view->holder[h].since > since);
    }
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_commit_is_written_before_it_is_told),
        cmocka_unit_test(test_none_is_written_where_rows_are_never_stale),
        cmocka_unit_test(test_a_stop_waits_for_a_commit),
        cmocka_unit_test(test_a_copy_that_comes_while_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
