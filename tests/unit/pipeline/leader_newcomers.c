/* The leader alone: workers from elsewhere, and how many there are to be here. */
#include "expect_mark.h"
#include "leader_driven.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct culm_pipeline_leader_options options(bool open, int32_t here_most) {
    return (struct culm_pipeline_leader_options){
        .layout = &layout,
        .shape = {.pipelines = 1,
                  .stages = STAGES,
                  .lanes = 1,
                  .micros = 1,
                  .micros_per_lane = 1,
                  .global_samples = 1,
                  .micro_samples = 1,
                  .steps = 3,
                  .redundancy = CULM_REDUNDANCY_NONE},
        .settings = {.crew = {.heartbeat_ms = 100,
                              .suspect_ms = 1000,
                              .kill_suspect_ms = 1000,
                              .stuck_ms = 60000,
                              .replace_ms = 500,
                              .wait_ms = 5000,
                              .max_nodes = 3,
                              .join_ms = 1000}},
        .start_source = "",
        .open = open,
        .here_most = here_most,
    };
}

static bool admits(struct fixture *f, uint32_t as, const char *refusal) {
    const struct culm_node_info info = {.role = as, .name = "elsewhere"};
    struct culm_error error = {0};
    uint32_t role = 7;
    bool may = culm_pipeline_leader_actor.leads->admits(f->c, &info, &role, &error);
    if (may ? role != CULM_ROLE_WORKER : !refusal || !strstr(error.text, refusal)) {
        fail_msg("role %u, refused: %s", role, error.text);
    }
    return may;
}

static void comes(struct fixture *f, int32_t node) {
    f->fake.role[node] = CULM_NO_ROLE; /* the agent has not started it */
    joined(f, node);
}

static void test_a_run_of_one_machine_lets_nobody_in(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_admits_no_newcomers);
    struct fixture f;
    begin(&f, options(false, 0));
    assert_int_equal(f.fake.started, STAGES); /* the limit is that of open runs */
    assert_false(admits(&f, CULM_ROLE_WORKER, "lets in no newcomers"));
    end(&f);
}

static void test_who_may_come_and_how_many(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_ends_before_a_newcomer);
    struct fixture f;
    begin(&f, options(true, INT32_MAX));
    assert_int_equal(f.fake.started, STAGES);
    assert_true(admits(&f, CULM_ROLE_WORKER, NULL));
    assert_false(admits(&f, CULM_ROLE_WORKER + 1, "only workers"));
    joined(&f, 0);
    joined(&f, 1);
    comes(&f, 2); /* stands by */
    assert_false(admits(&f, CULM_ROLE_WORKER, "the run has 3 nodes, and cluster.max_nodes is 3"));
    culm_pipeline_leader_actor.leads->stop(f.c);
    assert_int_equal(f.fake.exit_code, 75); /* nothing has been loaded */
    assert_false(admits(&f, CULM_ROLE_WORKER, "about to end"));
    end(&f);
}

/* With none here the run waits, is begun by those who come, and asks nobody here when one is lost. */
static void test_none_are_here(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options(true, 0));
    assert_int_equal(f.fake.started, 0);
    assert_non_null(fake_world_told(&f.fake, "waiting"));
    comes(&f, 0);
    assert_int_equal(totals(&f).view, 0);
    comes(&f, 1);
    assert_int_equal(totals(&f).view, 1);
    SAY(&f, 0, LOADED, loaded, .view = 1);
    SAY(&f, 1, LOADED, loaded, .view = 1);
    assert_int_equal(totals(&f).view, 2);
    lost(&f, 1);
    assert_int_equal(totals(&f).rollbacks, 1); /* its stage has no other copy */
    for (int32_t i = 0; i < 40; i++) {
        SAY_WORD(&f, 0, HEARTBEAT, heartbeat, .kind = -1);
        tick(&f, 100);
    }
    assert_int_equal(f.fake.started, 0);
    assert_int_equal(f.fake.exit_code, -1); /* it waits, though nobody is on the way */
    comes(&f, 2);
    assert_int_equal(newest(&f, 0)->phase, CULM_VIEW_LOAD);
    end(&f);
}

/* One is here, at most; it is replaced here, and who came is not. */
static void test_some_are_here(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options(true, 1));
    assert_int_equal(f.fake.started, 1);
    joined(&f, 0);
    comes(&f, 1);
    assert_int_equal(totals(&f).view, 1);
    lost(&f, 1);
    tick(&f, 600);
    assert_int_equal(f.fake.started, 1);
    SAY_WORD(&f, 0, HEARTBEAT, heartbeat, .kind = -1);
    lost(&f, 0);
    tick(&f, 600);
    assert_int_equal(f.fake.started, 2);
    end(&f);
}

static void test_nobody_comes_in_time(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, options(true, 0));
    tick(&f, 4000);
    assert_int_equal(f.fake.exit_code, -1);
    tick(&f, 1100);
    assert_int_equal(f.fake.exit_code, 4);
    end(&f);
}

/* --- machines --- */

static void comes_from(struct fixture *f, int32_t node, const char *machine, const char *zone) {
    const struct culm_node_info info = {
        .pid = 0, .name = "node", .host = machine, .zone = zone, .machine = machine};
    f->fake.role[node] = CULM_NO_ROLE;
    culm_pipeline_leader_actor.leads->joined(f->c, node, &info);
}

static struct culm_pipeline_leader_options two_pipelines(void) {
    struct culm_pipeline_leader_options o = options(true, 0);
    o.shape.pipelines = 2;
    o.shape.lanes = o.shape.micros = 2;
    o.shape.global_samples = 2;
    o.settings.crew.max_nodes = 16;
    return o;
}

static int32_t seated(const struct culm_view *view, int32_t pipeline, int32_t stage) {
    for (int32_t i = 0; i < view->node_count; i++) {
        if (view->node[i].pipeline == pipeline && view->node[i].stage == stage) {
            return view->node[i].id;
        }
    }
    return -1;
}

/* In the order in which they come, each stage would be on one machine. */
static void test_all_are_seated_apart(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_all_are_seated_apart);
    struct fixture f;
    begin(&f, two_pipelines());
    comes_from(&f, 0, "a", NULL);
    comes_from(&f, 1, "b", NULL);
    comes_from(&f, 2, "a", NULL);
    comes_from(&f, 3, "b", NULL);
    const struct culm_view *view = newest(&f, 0);
    assert_int_equal(view->phase, CULM_VIEW_LOAD);
    for (int32_t stage = 0; stage < STAGES; stage++) {
        assert_true((seated(view, 0, stage) + seated(view, 1, stage)) % 2 == 1);
    }
    const json_t *event = fake_world_told(&f.fake, "joined");
    assert_string_equal(json_string_value(json_object_get(event, "host")), "b");
    assert_null(json_object_get(event, "zone"));
    end(&f);
}

/* Of two that stand by, the one from elsewhere takes the place of one that is lost. */
static void test_a_seat_is_taken_apart(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_seat_is_taken_apart);
    struct fixture f;
    begin(&f, two_pipelines());
    comes_from(&f, 0, "a", "x");
    comes_from(&f, 1, "b", "y");
    comes_from(&f, 2, "b", "y");
    comes_from(&f, 3, "a", "x");
    for (int32_t i = 0; i < 4; i++) {
        SAY(&f, i, LOADED, loaded, .view = 1);
    }
    const struct culm_view *view = newest(&f, 0);
    assert_int_equal(view->phase, CULM_VIEW_RUN);
    const int32_t gone = seated(view, 0, 0), other = seated(view, 1, 0);
    assert_int_equal(gone % 3 == 0, other % 3 != 0);
    const char *near = other % 3 == 0 ? "a" : "b", *far = other % 3 == 0 ? "b" : "a";
    comes_from(&f, 4, near, NULL);
    comes_from(&f, 5, far, NULL);
    lost(&f, gone);
    view = newest(&f, other);
    assert_int_equal(seated(view, 0, 0), 5);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_seated_apart),
        cmocka_unit_test(test_a_seat_is_taken_apart),
        cmocka_unit_test(test_a_run_of_one_machine_lets_nobody_in),
        cmocka_unit_test(test_who_may_come_and_how_many),
        cmocka_unit_test(test_none_are_here),
        cmocka_unit_test(test_some_are_here),
        cmocka_unit_test(test_nobody_comes_in_time),
    };
    return cmocka_run_group_tests_name("pipeline/leader_newcomers", tests, NULL, NULL);
}
