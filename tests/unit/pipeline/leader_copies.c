/*
 * The leader alone: copies of stages that are begun, waited for where lanes wait, and let go. Workers are played by the test.
 */
#include "expect_mark.h"
#include "leader_alive.h"

/* Two pipelines of two stages, without shadows: a loss stops a pipeline. */
static void begin_two(struct fixture *f) {
    struct culm_pipeline_leader_options o = options(2);
    o.shape.redundancy = CULM_REDUNDANCY_NONE;
    o.settings.crew.replace_ms = 60000;
    begin(f, o);
    run(f);
}

static void has(struct fixture *f, int32_t node, uint32_t transfer) {
    SAY(f, node, JOINED, joined, .version = totals(f).committed, .transfer = transfer);
}

static bool holds(const struct fixture *f, int32_t to, int32_t node, int32_t stage) {
    return culm_stage_set_has(&culm_view_find(newest(f, to), node)->holds, stage);
}

/* Nobody is silent, and so much time passes. */
static void pass(struct fixture *f, int64_t ms) {
    for (int64_t gone = 0; gone < ms; gone += 100) {
        for (int32_t i = 0; i < f->next; i++) {
            beat(f, i, -1, 0, 0);
        }
        tick(f, 100);
    }
}

/* One worker of each pipeline is lost, of different stages: no pipeline is whole, and each of the
 * others gets a copy of what it lacks. */
static void begin_parked(struct fixture *f) {
    begin_two(f);
    lost(f, 0);
    lost(f, 3);
    assert_int_equal(totals(f).rollbacks, 0);
    assert_int_equal(newest(f, 1)->lane_pipeline[0], -1);
    assert_int_equal(totals(f).transfers, 2);
}

static void test_late_copies_without_which_nothing_goes_on_are_waited_for(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_late_copies_are_waited_for);
    EXPECT_MARK(pipeline_copy_from_another_pipeline);
    struct fixture f;
    begin_parked(&f);
    pass(&f, 1500);
    assert_int_equal(totals(&f).transfers, 2);
    end(&f);
}

static void test_one_copy_is_enough_if_the_other_is_late(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_late_copies_are_waited_for_without_others);
    struct fixture f;
    begin_parked(&f);
    const struct culm_transfer first = newest(&f, 1)->transfer[0];
    has(&f, first.destination, first.id);
    assert_int_equal(newest(&f, 1)->lane_pipeline[0], -1);
    pass(&f, 1500);
    assert_true(newest(&f, 1)->lane_pipeline[0] >= 0);
    assert_true(newest(&f, 1)->lane_pipeline[1] >= 0);
    end(&f);
}

/* A step is committed for which all had been done before lanes had to wait. What had come by then is a version behind. */
static void test_a_copy_is_overtaken_by_a_commit(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_is_overtaken_by_a_commit);
    struct fixture f;
    begin_parked(&f);
    const struct culm_transfer first = newest(&f, 1)->transfer[0];
    has(&f, first.destination, first.id);
    commit(&f);
    assert_false(holds(&f, 1, first.destination, first.stage));
    assert_int_equal(totals(&f).transfers, 2); /* it is to say so again */
    end(&f);
}

static void test_one_that_joins_while_lanes_wait_is_of_use(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_joins_while_lanes_wait);
    EXPECT_MARK(pipeline_vacant_slot_is_taken);
    struct fixture f;
    begin_parked(&f);
    joined(&f,
           4); /* it takes the first vacant slot, and so the copy for node 1 is one for it now */
    assert_int_equal(totals(&f).transfers, 2);
    assert_int_equal(newest(&f, 4)->transfer[1].destination, 4);
    end(&f);
}

/* A worker that joins has copies on their way; node 0 works on, and is prepared. */
static void begin_copying(struct fixture *f) {
    struct culm_pipeline_leader_options o = options(1);
    o.settings.crew.replace_ms = 60000;
    begin(f, o);
    run(f);
    lost(f, 1);
    joined(f, f->next++);
    commit(f);
    assert_int_equal(totals(f).transfers, 2);
    assert_int_equal(totals(f).committed, 1);
}

static void test_a_step_waits_for_no_copy(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_from_own_pipeline);
    struct fixture f;
    begin_copying(&f);
    const uint64_t view = totals(&f).view;
    for (int64_t step = 2; step < 5; step++) {
        commit(&f);
        pass(&f, 600); /* nor is anything given up */
    }
    assert_int_equal(totals(&f).transfers, 2);
    assert_int_equal(totals(&f).view, view); /* and nothing else changes */
    end(&f);
}

/* It holds what it has at once, as long as it is at the version of all others. */
static void test_a_copy_counts_if_it_is_whole_in_time(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_is_whole_too_late);
    struct fixture f;
    begin_copying(&f);
    const struct culm_transfer first = newest(&f, 2)->transfer[0];
    commit(&f);
    SAY(&f, 2, JOINED, joined, .version = 1, .transfer = first.id);
    assert_int_equal(totals(&f).transfers, 2);
    assert_false(holds(&f, 0, 2, first.stage));
    SAY(&f, 2, JOINED, joined, .version = 2, .transfer = first.id, .bytes = 700, .took_ms = 5);
    assert_int_equal(totals(&f).transfers, 1);
    assert_true(holds(&f, 0, 2, first.stage));
    const json_t *told = fake_world_told(&f.fake, "copied");
    assert_int_equal(json_integer_value(json_object_get(told, "node")), 2);
    assert_int_equal(json_integer_value(json_object_get(told, "stage")), first.stage);
    assert_int_equal(json_integer_value(json_object_get(told, "bytes")), 700);
    assert_int_equal(json_integer_value(json_object_get(told, "took_ms")), 5);
    assert_int_equal(json_integer_value(json_object_get(told, "source")), first.source);
    assert_int_equal(newest(&f, 0)->totals.copied, 700);
    end(&f);
}

static void test_a_copy_for_one_that_is_lost_is_no_more(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_is_not_wanted_any_more);
    struct fixture f;
    begin_copying(&f);
    lost(&f, 2);
    assert_int_equal(totals(&f).transfers, 0);
    commit(&f);
    end(&f);
}

/* Whoever took over a stage lets it go at a commit once its slot has a node that holds it. */
static void test_a_copy_that_is_of_no_use_any_more_is_let_go(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_is_let_go);
    struct fixture f;
    begin_parked(&f);
    for (int32_t i = 0; i < 2; i++) {
        const struct culm_transfer one = newest(&f, 1)->transfer[i];
        has(&f, one.destination, one.id);
    }
    assert_true(holds(&f, 1, 1, 0)); /* node 1 runs both stages of the first pipeline */
    joined(&f, 4);
    f.next = 5;
    commit(&f);
    const struct culm_transfer one = newest(&f, 4)->transfer[0];
    assert_int_equal(one.destination, 4);
    has(&f, 4, one.id);
    assert_true(holds(&f, 1, 1, 0));
    commit(&f);
    assert_false(holds(&f, 1, 1, 0));
    end(&f);
}

/* The last copy but one is let go only when the one that is on its way has come. */
static void test_a_copy_is_kept_until_another_has_come(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_copy_is_kept_until_another_has_come);
    struct fixture f;
    begin_parked(&f);
    for (int32_t i = 0; i < 2; i++) {
        const struct culm_transfer one = newest(&f, 1)->transfer[i];
        has(&f, one.destination, one.id);
    }
    joined(&f, 4);
    f.next = 5;
    commit(&f);
    has(&f, 4, newest(&f, 4)->transfer[0].id); /* node 1 can let stage 0 go, */
    lost(&f, 2);                               /* which one more has lost; */
    joined(&f, 5);
    f.next = 6;
    commit(&f); /* and node 5 is to get all */
    assert_int_equal(totals(&f).transfers, 2);
    assert_true(holds(&f, 1, 1, 0));
    for (int32_t i = 0; i < 2; i++) { /* the first goes when it has come */
        const struct culm_transfer one = newest(&f, 5)->transfer[0];
        assert_int_equal(one.destination, 5);
        has(&f, one.destination, one.id);
    }
    assert_true(holds(&f, 1, 1, 0));
    commit(&f);
    assert_false(holds(&f, 1, 1, 0));
    end(&f);
}

/* Its pipeline had stopped, and others had its lanes: nothing is left to be taken over. */
static void test_one_that_had_nothing_to_do_is_recovered_at_once(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_lost_with_nothing_to_do);
    struct fixture f;
    begin_two(&f);
    lost(&f, 0);
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 0);
    lost(&f, 1);
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 1);
    assert_int_equal(
        json_integer_value(json_object_get(fake_world_told(&f.fake, "recovered"), "node")), 1);
    end(&f);
}

/* Who has the lanes had them before, as far as it has heard, and has taken over nothing that it could tell of. */
static void test_nobody_says_that_it_took_over(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_recovered_and_nobody_said_so);
    for (int pipelines = 1; pipelines <= 2; pipelines++) {
        struct fixture f;
        if (pipelines == 1) {
            begin(&f, options(1));
            run(&f);
        } else {
            begin_two(&f);
        }
        lost(&f, 0);
        commit(&f);
        assert_int_equal(fake_world_events(&f.fake, "recovered"), 0);
        for (int32_t id = 1; totals(&f).transfers > 0; id++) {
            has(&f, 1, (uint32_t)id);
        }
        commit(&f);
        assert_int_equal(fake_world_events(&f.fake, "recovered"), 1);
        assert_string_equal(
            json_string_value(json_object_get(fake_world_told(&f.fake, "recovered"), "source")),
            pipelines == 1 ? "shadow" : "peer");
        end(&f);
    }
}

/* --- memory --- */

/* A worker may take what an undisturbed run needs, and no more. */
static void begin_tight(struct fixture *f, struct culm_memory *memory, int64_t replace_ms) {
    struct culm_pipeline_leader_options o = options(1);
    o.settings.crew.replace_ms = replace_ms;
    *memory = (struct culm_memory){.layout = &layout, .base_bytes = 1000};
    size_t most = 0;
    for (int32_t s = 0; s < STAGES; s++) {
        const struct culm_memory_load load = culm_memory_undisturbed(&o.shape, s);
        size_t bytes = culm_memory_of(memory, &o.shape, &load);
        most = bytes > most ? bytes : most;
    }
    memory->node_bytes = most;
    o.memory = memory;
    begin(f, o);
    run(f);
}

static void test_work_waits_for_memory(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_waits_for_memory);
    struct fixture f;
    struct culm_memory memory;
    begin_tight(&f, &memory, 0);
    lost(&f, 1); /* node 0 has a copy, and no room to run it */
    assert_int_equal(newest(&f, 0)->lane_pipeline[0], -1);
    assert_int_equal(fake_world_events(&f.fake, "waiting"), 1);
    assert_int_equal(f.fake.exit_code, -1);
    end(&f);
}

static void test_where_nobody_comes_a_lack_of_memory_ends_the_run(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_no_memory_is_left);
    EXPECT_MARK(crew_lost_for_good);
    struct fixture f;
    struct culm_memory memory;
    begin_tight(&f, &memory, -1);
    lost(&f, 1);
    assert_int_equal(f.fake.exit_code, culm_status_exit_code(CULM_ERR_MEMORY));
    assert_non_null(strstr(f.fake.error, "memory_mb"));
    end(&f);
}

static int32_t seated(const struct culm_view *view, int32_t pipeline, int32_t stage) {
    for (int32_t i = 0; i < view->node_count; i++) {
        if (view->node[i].pipeline == pipeline && view->node[i].stage == stage) {
            return view->node[i].id;
        }
    }
    return -1;
}

/* Both copies of each stage are on one machine until another one comes: it is given a seat at the next boundary, and who had
 * that keeps its copy until the other has come. */
static void test_a_seat_is_given_to_one_elsewhere(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_seat_is_given_to_one_elsewhere);
    EXPECT_MARK(pipeline_copy_is_kept_until_another_has_come);
    struct fixture f;
    begin(&f, options(1));
    run(&f);
    const struct culm_node_info elsewhere = {.name = "node", .machine = "b"};
    f.fake.role[f.next] = CULM_NO_ROLE;
    culm_pipeline_leader_actor.leads->joined(f.c, f.next++, &elsewhere);
    commit(&f);
    const struct culm_view *view = newest(&f, 2);
    assert_int_equal(totals(&f).committed, 1);
    const int32_t stage = seated(view, 0, 0) == 2 ? 0 : 1;
    assert_int_equal(seated(view, 0, stage), 2);
    const int32_t stays = seated(view, 0, 1 - stage), stands = 1 - stays;
    assert_int_equal(view->transfer_count, 2); /* both stages: its own, and that which it shadows */
    assert_int_equal(culm_stage_set_count(&culm_view_find(view, stands)->holds), 2);
    const uint32_t copy[] = {view->transfer[0].id, view->transfer[1].id};
    for (int32_t i = 0; i < 2; i++) {
        SAY(&f, 2, JOINED, joined, .version = 1, .transfer = copy[i]);
    }
    commit(&f);
    view = newest(&f, 2);
    assert_int_equal(view->role[0][stage].owner, 2);
    assert_int_equal(view->role[0][1 - stage].owner, stays);
    assert_int_equal(view->role[0][1 - stage].shadow, 2);
    assert_int_equal(culm_stage_set_count(&culm_view_find(view, stands)->holds), 0);
    commit(&f);
    assert_int_equal(newest(&f, 2)->number, view->number); /* and that is all */
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_seat_is_given_to_one_elsewhere),
        cmocka_unit_test(test_late_copies_without_which_nothing_goes_on_are_waited_for),
        cmocka_unit_test(test_one_copy_is_enough_if_the_other_is_late),
        cmocka_unit_test(test_a_copy_is_overtaken_by_a_commit),
        cmocka_unit_test(test_one_that_joins_while_lanes_wait_is_of_use),
        cmocka_unit_test(test_a_step_waits_for_no_copy),
        cmocka_unit_test(test_a_copy_counts_if_it_is_whole_in_time),
        cmocka_unit_test(test_a_copy_for_one_that_is_lost_is_no_more),
        cmocka_unit_test(test_a_copy_that_is_of_no_use_any_more_is_let_go),
        cmocka_unit_test(test_a_copy_is_kept_until_another_has_come),
        cmocka_unit_test(test_one_that_had_nothing_to_do_is_recovered_at_once),
        cmocka_unit_test(test_nobody_says_that_it_took_over),
        cmocka_unit_test(test_work_waits_for_memory),
        cmocka_unit_test(test_where_nobody_comes_a_lack_of_memory_ends_the_run),
    };
    return cmocka_run_group_tests_name("pipeline/leader_copies", tests, NULL, NULL);
}
