/* A leader alone, whose new holders are sent a copy of the weights for longer than join_ms. */
#include "expect_mark.h"
#include "leader_played.h"

#define JOIN_MS 1000
#define REASON "copies took longer than cluster.join_ms"

/* From whom the node is sent a copy; -1: from nobody, though it is a holder; -2: it is none. */
static int32_t source_of(const struct fixture *f, int32_t node) {
    const struct culm_gnn_view *view = view_of(f, 0);
    for (int32_t h = 0; h < view->holder_count; h++) {
        if (view->holder[h].node == node) {
            return view->holder[h].from;
        }
    }
    return -2;
}

static const char *reason(const struct fixture *f) {
    return json_string_value(json_object_get(fake_world_told(&f->fake, "view"), "reason"));
}

static bool commits_some(const struct fixture *f) {
    return fake_world_last(&f->fake, 0, CULM_GNN_MSG_COMMIT) != NULL;
}

/* Parameter servers 1 and 2 hold the weights; 2 is lost, and 3 is sent a copy in its place. */
static void begin_copy(struct fixture *f, int64_t epochs) {
    struct culm_gnn_settings settings = settings_of(1, 2, 0);
    settings.crew.join_ms = JOIN_MS;
    settings.pace.epochs = epochs;
    begin_held_by_two(f, &settings);
    lost(f, 2);
    joined(f, CULM_GNN_PARAMETER);
    assert_int_equal(source_of(f, 3), 1);
}

/* The epoch is committed without it, and for a while it is left alone; a server keeps the second copy. */
static void test_an_epoch_goes_on_without_a_late_copy(void **state) {
    (void)state;
    EXPECT_MARK(interval_late_copy_is_given_up);
    struct fixture f;
    begin_copy(&f, 9);
    later(&f, JOIN_MS - 100);
    done(&f, 1);
    holds(&f, 1, 1);
    later(&f, 99);
    assert_false(commits_some(&f));
    later(&f, 1);
    committed(&f, 1);
    assert_string_equal(reason(&f), REASON);
    assert_int_equal(source_of(&f, 3), -2);
    assert_int_equal(source_of(&f, 0), 1);
    holds(&f, 3, 0); /* the copy came after all: it is one of the past */
    assert_int_equal(source_of(&f, 3), -2);
    holds(&f, 0, 1);
    commits_by(&f, 2, 0, 1);
    committed(&f, 2);
    assert_int_equal(source_of(&f, 3), -2);
    end(&f);
}

/* It is sent another after join_ms, and after twice as long once that was late, too. */
static void test_a_late_copy_is_tried_again(void **state) {
    (void)state;
    struct fixture f;
    begin_copy(&f, 99);
    int64_t epoch = 0;
    for (uint64_t pause = JOIN_MS; pause <= 4 * JOIN_MS; pause *= 2) {
        done(&f, ++epoch);
        holds(&f, 0, epoch); /* which it does once the first was late */
        holds(&f, 1, epoch);
        assert_int_equal(source_of(&f, 3), 1);
        later(&f, JOIN_MS);
        committed(&f, epoch);
        assert_int_equal(source_of(&f, 3), -2);
        holds(&f, 0, epoch);
        for (uint64_t over = 0; over < 2; over++) {
            later(&f, over ? 1 : pause - 1);
            done(&f, ++epoch);
            holds(&f, 0, epoch);
            holds(&f, 1, epoch);
            committed(&f, epoch);
            assert_int_equal(source_of(&f, 3), over ? 1 : -2);
        }
    }
    holds(&f, 3, epoch); /* in time: it holds the weights from now on */
    assert_int_equal(source_of(&f, 3), -1);
    done(&f, ++epoch);
    holds(&f, 0, epoch);
    holds(&f, 1, epoch);
    later(&f, 10 * JOIN_MS);
    assert_int_equal(source_of(&f, 3), -1);
    holds(&f, 3, epoch);
    committed(&f, epoch);
    end(&f);
}

/* Whoever holds what was committed before the last epoch does not count when all others are lost. */
static void test_a_late_copy_at_the_end(void **state) {
    (void)state;
    EXPECT_MARK(interval_last_epoch_without_a_late_copy);
    struct fixture f;
    begin_copy(&f, 1);
    done(&f, 1);
    holds(&f, 1, 1);
    later(&f, JOIN_MS);
    committed(&f, 1);
    assert_int_equal(source_of(&f, 3), -2);
    holds(&f, 3, 0);
    lost(&f, 1);
    did(&f, CULM_GNN_TASK_DISCARD, CULM_OK); /* which it was about to write */
    assert_int_equal(fake_world_events(&f.fake, "rollback"), 1);
    end(&f);
}

/* Nobody else has stepped: the epoch waits as long as it takes. */
static void test_a_late_copy_that_is_needed(void **state) {
    (void)state;
    struct fixture f;
    begin_copy(&f, 9);
    done(&f, 1);
    later(&f, 5 * JOIN_MS);
    assert_false(commits_some(&f));
    assert_int_equal(source_of(&f, 3), 1);
    holds(&f, 3, 0);
    holds(&f, 3, 1);
    assert_false(commits_some(&f));
    holds(&f, 1, 1);
    committed(&f, 1);
    end(&f);
}

/* All others who hold the weights are from elsewhere and could not save them: the epoch waits. */
static void test_a_late_copy_that_is_needed_to_save(void **state) {
    (void)state;
    EXPECT_MARK(interval_late_copy_is_needed_to_save);
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.crew.join_ms = JOIN_MS;
    settings.newcomers = true;
    make(&f, 1, 1, &settings);
    joined_from_elsewhere(&f, CULM_GNN_SERVER);
    joined(&f, CULM_GNN_PARAMETER);
    both_hold(&f, 0, 1, 0);
    lost(&f, 1);
    joined(&f, CULM_GNN_PARAMETER);
    assert_int_equal(source_of(&f, 2), 0);
    done(&f, 1);
    holds(&f, 0, 1);
    later(&f, 5 * JOIN_MS);
    assert_false(commits_some(&f));
    assert_int_equal(source_of(&f, 2), 0);
    holds(&f, 2, 1);
    committed(&f, 1);
    end(&f);
}

/* When all load again, whoever was late is no longer left alone. */
static void test_late_before_a_roll_back(void **state) {
    (void)state;
    struct fixture f;
    begin_copy(&f, 9);
    done(&f, 1);
    holds(&f, 1, 1);
    later(&f, JOIN_MS);
    committed(&f, 1);
    lost(&f, 1);
    assert_int_equal(fake_world_events(&f.fake, "rollback"), 1);
    f.attempt++;
    assert_int_equal(source_of(&f, 3), -1);
    holds(&f, 0, 0);
    assert_int_equal(source_of(&f, 3), 0);
    end(&f);
}

/* Nobody waits for weights that are still on their way. */
static void test_whom_nodes_ask_for_weights(void **state) {
    (void)state;
    const struct culm_gnn_view view = {
        .holder_count = 3, .holder = {{.node = 4, .from = 6}, {5, 6, 0}, {.node = 6, .from = -1}}};
    for (int32_t node = 0; node < 6; node++) {
        assert_int_equal(culm_gnn_view_source(&view, node), 6);
    }
    assert_int_equal(culm_gnn_view_source(&view, 6), 4);
    assert_int_equal(culm_gnn_view_source(&(struct culm_gnn_view){0}, 6), -1);
    const struct culm_gnn_view alike = {
        .holder_count = 2, .holder = {{.node = 4, .from = -1}, {.node = 5, .from = -1}}};
    assert_int_equal(culm_gnn_view_source(&alike, 0), 4);
    assert_int_equal(culm_gnn_view_source(&alike, 1), 5);
    assert_int_equal(culm_gnn_view_source(&alike, 4), 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_epoch_goes_on_without_a_late_copy),
        cmocka_unit_test(test_a_late_copy_is_tried_again),
        cmocka_unit_test(test_a_late_copy_at_the_end),
        cmocka_unit_test(test_a_late_copy_that_is_needed),
        cmocka_unit_test(test_a_late_copy_that_is_needed_to_save),
        cmocka_unit_test(test_late_before_a_roll_back),
        cmocka_unit_test(test_whom_nodes_ask_for_weights),
    };
    return cmocka_run_group_tests_name("interval/leader_late", tests, NULL, NULL);
}
