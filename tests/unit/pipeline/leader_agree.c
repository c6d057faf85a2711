/*
 * The leader alone: what workers say of a gradient or of their state is compared before it counts, and norms
 * are added in order. Workers are played by the test.
 */
#include "expect_mark.h"
#include "leader_alive.h"

#include <math.h>

/* So many workers that hold all of a model, each. */
static void run_copies(struct fixture *f, int32_t count) {
    struct culm_pipeline_leader_options o = options(count);
    o.shape.stages = 1;
    o.settings.checkpoint_every = 1;
    o.settings.crew.replace_ms = -1;
    static int32_t first[1] = {0};
    static struct culm_stage_desc one = {
        .grad_bytes = 8, .grad_count = 2, .param_count = 1, .params = first};
    static struct culm_grad_desc grads[2] = {{0, 0, 0, 4}, {0, -1, 4, 4}};
    static struct culm_param_desc params[1] = {{.stages = {{1}}, .state_bytes = 8}};
    static const struct culm_layout all = {1, 2, 1, &one, grads, params};
    o.layout = &all;
    begin(f, o);
    for (int32_t i = 0; i < count; i++) {
        joined(f, i);
    }
    for (int32_t i = 0; i < count; i++) {
        SAY(f, i, LOADED, loaded, .view = totals(f).view);
    }
}

static void one_stated(struct fixture *f, int32_t from, int64_t version, uint64_t digest) {
    const struct culm_digests what = {totals(f).view, version, {{1}}, 1, 1, &digest};
    culm_digests_encode(&what, &f->buf);
    deliver(f, from, CULM_MSG_DIGESTS);
}

static void one_prepared(struct fixture *f, int32_t from, double norm, double loss) {
    one_stated(f, from, totals(f).committed, 7);
    const struct culm_prepared what = {
        totals(f).view, totals(f).committed + 1, {{1}}, loss, 1, 1.0, 1, 1,
        &norm,          (uint64_t[1]){0}};
    culm_prepared_encode(&what, &f->buf);
    deliver(f, from, CULM_MSG_PREPARED);
}

static void test_whoever_the_majority_contradicts_is_put_out(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_contradicted_is_put_out);
    EXPECT_MARK(crew_differs_and_may_have_to_say_so_again);
    for (int loss = 0; loss < 2; loss++) {
        struct fixture f;
        run_copies(&f, 3);
        for (int again = 0; again < 2; again++) { /* what the first time is of may have been sent */
            one_prepared(&f, 0, 1.0, 1.0);
            one_prepared(&f, 1, loss ? 1.0 : 1.0 + 0x1p-52, loss ? 1.0 + 0x1p-52 : 1.0);
            assert_int_equal(totals(&f).losses, 0); /* not before all have said */
            one_prepared(&f, 2, 1.0, 1.0);
            assert_int_equal(totals(&f).committed, 0);
            assert_int_equal(totals(&f).losses, again);
            assert_int_equal(fake_world_events(&f.fake, "differs"), 1 + again);
        }
        one_prepared(&f, 0, 1.0, 1.0);
        one_prepared(&f, 2, 1.0, 1.0);
        assert_int_equal(totals(&f).committed, 1);
        one_prepared(&f, 1, 1.0, 1.0);
        assert_int_equal(fake_world_sent(&f.fake, 1, CULM_WORD_FENCED), 2);
        end(&f);
    }
}

/* More than half have it from one reducer, which may be lost. */
static void test_what_was_handed_on_is_nobody_s_fault(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_what_was_wrong_was_handed_on);
    struct fixture f;
    run_copies(&f, 3);
    for (int again = 0; again < 2; again++) {
        one_prepared(&f, 0, 1.0, 1.0);
        one_prepared(&f, 1, again ? 1.0 : 2.0, 1.0);
        one_prepared(&f, 2, again ? 1.0 : 2.0, 1.0);
        assert_int_equal(totals(&f).losses, 0);
        assert_int_equal(totals(&f).committed, again);
    }
    assert_int_equal(fake_world_events(&f.fake, "differs"), 1);
    end(&f);
}

static void test_two_that_differ_do_the_step_once_more(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_step_is_done_once_more);
    EXPECT_MARK(pipeline_step_done_once_more_says_who_was_wrong);
    EXPECT_MARK(pipeline_copies_differ_and_it_cannot_be_told);
    for (int again = 0; again < 2; again++) {
        struct fixture f;
        run_copies(&f, 2);
        uint64_t view = totals(&f).view;
        one_prepared(&f, 0, 1.0, 1.0);
        one_prepared(&f, 1, 2.0, 1.0);
        assert_int_equal(totals(&f).committed, 0);
        assert_int_equal(totals(&f).losses, 0);
        assert_int_equal(totals(&f).view, view + 1);
        one_prepared(&f, 0, 1.0, 1.0);
        one_prepared(&f, 1, again ? 2.0 : 1.0, 1.0);
        if (again) { /* nobody can say which is right */
            assert_int_equal(f.fake.exit_code, 1);
        } else { /* the second try contradicts worker 1 */
            assert_int_equal(totals(&f).losses, 1);
            one_prepared(&f, 0, 1.0, 1.0);
            assert_int_equal(totals(&f).committed, 1);
        }
        end(&f);
    }
}

static void test_state_that_differs_is_not_published(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_piece_of_one_put_out_counts_not);
    EXPECT_MARK(pipeline_copies_differ_and_it_cannot_be_told);
    for (int32_t count = 2; count <= 3; count++) {
        struct fixture f;
        run_copies(&f, count);
        for (int32_t i = 0; i < count; i++) {
            one_prepared(&f, i, 1.0, 1.0);
        }
        assert_int_equal(totals(&f).committed, 1);
        SAY(&f, 0, SAVED, saved, .version = 1, .attempt = 1, .status = CULM_OK, .piece = "piece");
        assert_null(fake_world_io(&f.fake)); /* nobody has said what the state is */
        one_stated(&f, 0, 1, 8);
        for (int32_t i = 1; i < count; i++) {
            one_stated(&f, i, 1, 9);
        }
        if (count == 2) {
            assert_int_equal(f.fake.exit_code, 1);
            assert_null(fake_world_io(&f.fake));
        } else { /* the writer was wrong */
            assert_int_equal(totals(&f).losses, 1);
            struct culm_task *discard = fake_world_io(&f.fake);
            assert_non_null(discard);
            assert_int_equal(discard->kind, CULM_TASK_DISCARD);
        }
        end(&f);
    }
}

static void test_digests_of_another_past_do_not_count(void **state) {
    (void)state;
    struct fixture f;
    run_copies(&f, 2);
    one_stated(&f, 0, 0, 7);
    one_stated(&f, 1, 1, 9); /* of another version */
    one_stated(&f, 1, -1, 9);
    one_prepared(&f, 0, 1.0, 1.0);
    assert_int_equal(totals(&f).committed, 0);
    one_prepared(&f, 1, 1.0, 1.0);
    assert_int_equal(totals(&f).committed, 1);
    end(&f);
}

static void test_a_damaged_copy_is_put_out(void **state) {
    (void)state;
    EXPECT_MARK(pipeline_damaged_is_put_out);
    struct fixture f;
    run_copies(&f, 2);
    one_prepared(&f, 0, 1.0, 1.0);
    SAY(&f, 1, DAMAGED, damaged, .iteration = 1, .why = "a test says so");
    assert_int_equal(totals(&f).losses, 1);
    assert_int_equal(totals(&f).committed, 0);
    assert_int_equal(fake_world_events(&f.fake, "differs"), 1);
    one_prepared(&f, 0, 3.0, 1.0); /* afresh: what it said before does not count */
    assert_int_equal(totals(&f).committed, 1);
    end(&f);
}

/* Squared norms are added in the order of parameters, whichever stage has one and whoever is prepared first. */
static void test_norms_are_added_in_the_order_of_parameters(void **state) {
    (void)state;
    enum { EACH = 5, COUNT = 2 * EACH };
    static int32_t of[2][EACH]; /* stages take turns */
    static struct culm_stage_desc stages[2];
    static struct culm_grad_desc grads[COUNT + 1];
    static struct culm_param_desc params[COUNT];
    static const struct culm_layout turns = {2, COUNT + 1, COUNT, stages, grads, params};
    double norm[COUNT], sum = 0, by_stages = 0;
    for (int32_t i = 0; i < COUNT; i++) {
        int32_t stage = i % 2, at = stage * EACH + i / 2;
        of[stage][i / 2] = i;
        params[i] = (struct culm_param_desc){.stages = culm_stage_set_of(stage), .state_bytes = 8};
        grads[at] = (struct culm_grad_desc){stage, i, (size_t)(i / 2) * 4, 4};
        norm[i] = i ? 1 : 0x1p53; /* to which one adds nothing, and two add two */
        sum += norm[i];
    }
    for (int32_t s = 0; s < 2; s++) {
        double part = 0;
        for (int32_t i = s; i < COUNT; i += 2) {
            part += norm[i];
        }
        by_stages += part;
        stages[s] = (struct culm_stage_desc){.grad_bytes = 4 * EACH + 4 * (size_t)s,
                                             .first_grad = s * EACH,
                                             .grad_count = EACH + s,
                                             .param_count = EACH,
                                             .params = of[s]};
    }
    grads[COUNT] = (struct culm_grad_desc){1, -1, 4 * EACH, 4};
    assert_true(sqrt(sum) != sqrt(by_stages)); /* the negative control */
    for (int32_t first = 0; first < 2; first++) {
        struct fixture f;
        struct culm_pipeline_leader_options o = options(1);
        o.shape.redundancy = CULM_REDUNDANCY_NONE;
        o.layout = &turns;
        begin(&f, o);
        run(&f);
        uint64_t digests[COUNT] = {0};
        for (int32_t i = 0; i < 2; i++) {
            int32_t node = (first + i) % 2;
            const struct culm_stage_set mine = culm_stage_set_of(node);
            SAY(&f, node, DIGESTS, digests, totals(&f).view, 0, mine, COUNT, 2, digests);
            SAY(&f, node, PREPARED, prepared, totals(&f).view, 1, mine, 1.0, 1, 1.0, COUNT, 2, norm,
                (uint64_t[2]){0});
        }
        assert_int_equal(totals(&f).committed, 1);
        const json_t *step = fake_world_told(&f.fake, "step");
        assert_true(json_real_value(json_object_get(step, "grad_norm")) == sqrt(sum));
        end(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whoever_the_majority_contradicts_is_put_out),
        cmocka_unit_test(test_what_was_handed_on_is_nobody_s_fault),
        cmocka_unit_test(test_two_that_differ_do_the_step_once_more),
        cmocka_unit_test(test_state_that_differs_is_not_published),
        cmocka_unit_test(test_digests_of_another_past_do_not_count),
        cmocka_unit_test(test_a_damaged_copy_is_put_out),
        cmocka_unit_test(test_norms_are_added_in_the_order_of_parameters),
    };
    return cmocka_run_group_tests_name("pipeline/leader_agree", tests, NULL, NULL);
}
