/*
 * The scheduler alone, whose feeds, loads and batches the test plays: what fails, comes too late or has gone, and
 * layouts that take the place of others meanwhile.
 */
#include "expect_mark.h"

#include "base/buf.h"
#include "edge/scheduler.h"

#include "../fake_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull
#define TENSORS 3

static const int32_t tensors_of[TENSORS][1] = {{0}, {1}, {2}};
static const size_t tensor_bytes[TENSORS] = {1000, 1000, 1000};

/* Queries of one tensor each on feeds that two of them share: a batch takes 10 ms, a load 20, an answer may take 100. */
struct fixture {
    struct fake_world fake;
    struct culm_edge_exec exec;
    struct culm_edge_scheduler *scheduler;
    struct culm_edge_query query[TENSORS];
    struct culm_edge_feed feed[2];
    struct culm_edge_layout layout;
    struct culm_edge_plan plan;
    size_t frames; /* bytes that they hold, as the executor says */
    int64_t dropped, answered;
    int32_t relaid, evicted;
};

static struct fixture *self; /* of whom the executor belongs */

static enum culm_status does_nothing(struct culm_job *job) { return job->status; }

static void loaded(struct culm_edge_exec *exec, const struct culm_edge_load *load, uint64_t ns) {
    (void)exec;
    (void)load;
    (void)ns;
}

static void ran(struct culm_edge_exec *exec, const struct culm_edge_batch *batch, uint64_t ns) {
    (void)exec;
    (void)batch;
    (void)ns;
}

static void evict(struct culm_edge_exec *exec, int32_t tensor) {
    (void)exec;
    (void)tensor;
    self->evicted++;
}

static void activations(struct culm_edge_exec *exec, size_t bytes) {
    (void)exec;
    (void)bytes;
}

static size_t frames(struct culm_edge_exec *exec) {
    (void)exec;
    return self->frames;
}

static void settled(struct culm_edge_exec *exec, int32_t query, const struct culm_edge_look *look,
                    const struct culm_edge_batch *batch) {
    (void)exec;
    (void)query;
    (void)look;
    self->answered += batch != NULL;
    self->dropped += batch == NULL;
}

static void relaid(struct culm_edge_exec *exec) {
    (void)exec;
    self->relaid++;
}

static const struct culm_edge_exec_ops ops = {.size = sizeof ops,
                                              .load = does_nothing,
                                              .infer = does_nothing,
                                              .loaded = loaded,
                                              .ran = ran,
                                              .evict = evict,
                                              .activations = activations,
                                              .frames = frames,
                                              .settled = settled,
                                              .relaid = relaid};

static void prepare(struct fixture *f, int32_t queries, int32_t feeds, size_t limit) {
    *f = (struct fixture){.exec.ops = &ops};
    self = f;
    fake_world_init(&f->fake);
    for (int32_t q = 0; q < TENSORS; q++) {
        f->query[q] = (struct culm_edge_query){.feed = q % feeds,
                                               .deadline_ns = 100 * MS,
                                               .batches = 1,
                                               .batch = {1},
                                               .run_ns = {10 * MS},
                                               .tensor_count = 1,
                                               .tensor = tensors_of[q]};
        snprintf(f->query[q].name, sizeof f->query[q].name, "q%d", q);
        f->plan.order[q] = q;
        f->plan.visit[q] = 1;
    }
    f->feed[0].period_ns = f->feed[1].period_ns = 40 * MS;
    f->layout = (struct culm_edge_layout){.query_count = queries,
                                          .feed_count = feeds,
                                          .tensor_count = TENSORS,
                                          .query = f->query,
                                          .feed = f->feed,
                                          .tensor_bytes = tensor_bytes,
                                          .load_ns_per_byte = 20 * MS / 1000,
                                          .limit_bytes = limit};
    f->plan.count = queries;
    f->plan.slots = 2;
    f->plan.passes = 1000;
}

static void go(struct fixture *f) {
    const struct culm_edge_scheduler_options options = {.world = &f->fake.world,
                                                        .exec = &f->exec,
                                                        .layout = &f->layout,
                                                        .plan = &f->plan,
                                                        .goes_on = true};
    f->scheduler = culm_edge_scheduler_new(&options);
    assert_non_null(f->scheduler);
    culm_edge_scheduler_actor.start(f->scheduler);
}

static void begin(struct fixture *f, int32_t queries, int32_t feeds, size_t limit) {
    prepare(f, queries, feeds, limit);
    go(f);
}

static void end(struct fixture *f) {
    culm_edge_scheduler_free(f->scheduler);
    fake_world_release(&f->fake);
}

static void frame_of(struct fixture *f, int32_t feed, int64_t number, uint16_t type) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_EDGE_FRAME_META);
    culm_buf_u64(&meta, (uint64_t)number);
    culm_buf_u64(&meta, f->fake.now_ns);
    const struct culm_message message = {
        .type = type, .meta = meta.data, .meta_bytes = (uint32_t)meta.len};
    culm_edge_scheduler_actor.message(f->scheduler, feed, &message);
    culm_buf_release(&meta);
}

static void frame(struct fixture *f, int64_t number) { frame_of(f, 0, number, CULM_EDGE_FRAME); }

static void pass(struct fixture *f, uint64_t ms) { f->fake.now_ns += ms * MS; }

static void timer(struct fixture *f) { culm_edge_scheduler_actor.timer(f->scheduler, 0); }

/* What is being loaded, or runs, ends so; of which query it was. */
static int32_t load_ends(struct fixture *f, enum culm_status status) {
    struct culm_edge_load *load = fake_world_io(&f->fake);
    assert_non_null(load);
    int32_t query = load->query;
    load->job.status = status;
    culm_edge_scheduler_actor.job_done(f->scheduler, &load->job);
    return query;
}

static int32_t batch_ends(struct fixture *f, enum culm_status status) {
    struct culm_edge_batch *batch = fake_world_run(&f->fake);
    assert_non_null(batch);
    int32_t query = batch->query;
    batch->job.status = status;
    culm_edge_scheduler_actor.job_done(f->scheduler, &batch->job);
    return query;
}

/* --- loads and batches that fail --- */

static void a_load_that_fails_is_tried_again(void **state) {
    (void)state;
    EXPECT_MARK(edge_load_failed);
    EXPECT_MARK(edge_loaded_after_all);
    struct fixture f;
    begin(&f, 1, 1, 1000);
    frame(&f, 0);
    load_ends(&f, CULM_ERR_IO);
    assert_int_equal(fake_world_events(&f.fake, "load_failed"), 1);
    assert_int_equal(f.fake.io_count, 0); /* not at once */
    pass(&f, 10);
    timer(&f);
    load_ends(&f, CULM_ERR_IO);
    pass(&f, 10);
    timer(&f);
    assert_int_equal(f.fake.io_count, 0); /* later each time */
    pass(&f, 10);
    timer(&f);
    load_ends(&f, CULM_OK);
    batch_ends(&f, CULM_OK);
    assert_int_equal(f.answered, 1);
    end(&f);
}

static void a_batch_that_fails_answers_nothing(void **state) {
    (void)state;
    EXPECT_MARK(edge_batch_failed);
    EXPECT_MARK(edge_batch_ended_too_late);
    struct fixture f;
    begin(&f, 1, 1, 1000);
    frame(&f, 0);
    load_ends(&f, CULM_OK);
    batch_ends(&f, CULM_ERR_IO);
    assert_int_equal(f.dropped, 1);
    assert_int_equal(culm_edge_scheduler_totals(f.scheduler, 0)->late, 0);
    frame(&f, 1);
    pass(&f, 101);
    batch_ends(&f, CULM_OK);
    assert_int_equal(f.dropped, 2);
    assert_int_equal(culm_edge_scheduler_totals(f.scheduler, 0)->late, 1);
    end(&f);
}

/* --- frames --- */

static void frames_give_way_and_grow_old(void **state) {
    (void)state;
    EXPECT_MARK(edge_newer_frames_came);
    EXPECT_MARK(edge_no_time_is_left);
    EXPECT_MARK(edge_frame_without_room);
    struct fixture f;
    begin(&f, 1, 1, 1000);
    frame(&f, 0);
    frame(&f, 1);
    frame(&f, 2); /* of three frames two have a slot */
    assert_int_equal(f.dropped, 1);
    frame_of(&f, 0, 3, CULM_EDGE_FRAME_LOST);
    assert_int_equal(f.dropped, 2);
    pass(&f, 91); /* a batch takes ten */
    timer(&f);
    assert_int_equal(f.dropped, 4);
    end(&f);
}

static void a_batch_has_all_slots(void **state) {
    (void)state;
    EXPECT_MARK(edge_all_slots_are_in_a_batch);
    struct fixture f;
    prepare(&f, 1, 1, 1000);
    f.query[0].batches = 2;
    f.query[0].batch[1] = 2;
    f.query[0].run_ns[1] = 12 * MS;
    f.plan.visit[0] = 2;
    go(&f);
    frame(&f, 0);
    frame(&f, 1);
    load_ends(&f, CULM_OK);
    frame(&f, 2); /* both slots belong to the batch that runs */
    assert_int_equal(f.dropped, 1);
    batch_ends(&f, CULM_OK);
    assert_int_equal(f.answered, 2);
    end(&f);
}

static void feeds_that_are_gone(void **state) {
    (void)state;
    EXPECT_MARK(edge_feed_is_lost);
    EXPECT_MARK(edge_frame_of_a_feed_that_is_gone);
    struct fixture f;
    begin(&f, 1, 1, 1000);
    f.feed[0].gone = true;
    frame(&f, 0);
    assert_int_equal(f.fake.io_count, 0);
    culm_edge_scheduler_actor.lost(f.scheduler, 0);
    assert_int_equal(fake_world_events(&f.fake, "feed"), 1);
    end(&f);
}

/* --- choices --- */

/* Its frame is too old when its tensors are there: another query becomes the target. */
static void a_target_that_comes_too_late(void **state) {
    (void)state;
    EXPECT_MARK(edge_target_is_given_up);
    struct fixture f;
    begin(&f, 2, 2, 2000);
    frame_of(&f, 0, 0, CULM_EDGE_FRAME);
    pass(&f, 50);
    frame_of(&f, 1, 0, CULM_EDGE_FRAME);
    pass(&f, 45);
    assert_int_equal(load_ends(&f, CULM_OK), 0);
    assert_int_equal(load_ends(&f, CULM_OK), 1);
    assert_int_equal(batch_ends(&f, CULM_OK), 1);
    assert_int_equal(f.dropped, 1);
    end(&f);
}

/* A query that saw frames dropped while others ran is prepared for, though another's next frame comes sooner. */
static void passed_over_often_enough(void **state) {
    (void)state;
    EXPECT_MARK(edge_passed_over_often_enough);
    struct fixture f;
    prepare(&f, 2, 2, 1000);
    f.plan.passes = 1;
    f.feed[1].period_ns = 10 * MS;
    go(&f);
    frame_of(&f, 0, 0, CULM_EDGE_FRAME);
    pass(&f, 95);
    frame_of(&f, 1, 0, CULM_EDGE_FRAME);
    assert_int_equal(f.dropped, 1);
    assert_int_equal(load_ends(&f, CULM_OK), 0);
    assert_int_equal(load_ends(&f, CULM_OK), 1);
    assert_int_equal(batch_ends(&f, CULM_OK), 1);
    assert_int_equal(load_ends(&f, CULM_OK), 0);
    end(&f);
}

/* The target's second tensor needs the memory of a query that could run meanwhile. */
static void a_filler_would_take_the_room(void **state) {
    (void)state;
    EXPECT_MARK(edge_filler_would_take_the_room);
    static const int32_t both[] = {1, 2};
    struct fixture f;
    prepare(&f, 2, 2, 2000);
    f.query[1].tensor = both;
    f.query[1].tensor_count = 2;
    go(&f);
    frame_of(&f, 0, 0, CULM_EDGE_FRAME);
    load_ends(&f, CULM_OK);
    batch_ends(&f, CULM_OK);
    frame_of(&f, 1, 0, CULM_EDGE_FRAME);
    frame_of(&f, 0, 1, CULM_EDGE_FRAME);
    assert_int_equal(f.fake.run_count, 0);
    assert_int_equal(load_ends(&f, CULM_OK), 1);
    assert_int_equal(load_ends(&f, CULM_OK), 1);
    assert_int_equal(f.evicted, 1);
    assert_int_equal(batch_ends(&f, CULM_OK), 1);
    end(&f);
}

/* --- layouts --- */

static void update(struct fixture *f, const struct culm_edge_layout *layout) {
    assert_int_equal(culm_edge_scheduler_update(f->scheduler, layout, &f->plan, NULL), CULM_OK);
}

/* The first query is gone in `ret_query`. */
static struct culm_edge_layout without_first(const struct fixture *f,
                                             struct culm_edge_query *ret_query) {
    struct culm_edge_layout layout = f->layout;
    memcpy(ret_query, f->query, sizeof f->query);
    ret_query[0].gone = true;
    layout.query = ret_query;
    return layout;
}

static void a_layout_waits_for_what_runs(void **state) {
    (void)state;
    EXPECT_MARK(edge_layout_is_taken);
    EXPECT_MARK(edge_layout_is_replaced_before_it_is_taken);
    EXPECT_MARK(edge_tensor_that_nobody_uses_goes);
    EXPECT_MARK(edge_frame_for_a_query_that_is_gone);
    struct fixture f;
    struct culm_edge_query query[TENSORS];
    begin(&f, 2, 1, 2000);
    frame(&f, 0);
    load_ends(&f, CULM_OK);
    assert_int_equal(f.fake.run_count, 1);
    struct culm_edge_layout same = f.layout, next = without_first(&f, query);
    update(&f, &same);
    update(&f, &next);
    assert_int_equal(f.relaid, 0);
    frame(&f, 1); /* for both, of which one is going */
    load_ends(&f, CULM_OK);
    assert_int_equal(f.relaid, 0);
    batch_ends(&f, CULM_OK);
    assert_int_equal(f.relaid, 1);
    assert_int_equal(f.evicted, 1);
    assert_false(culm_edge_scheduler_holds(f.scheduler, 0));
    while (f.fake.run_count > 0) {
        assert_int_equal(batch_ends(&f, CULM_OK), 1);
    }
    end(&f);
}

static void a_layout_has_to_go_on(void **state) {
    (void)state;
    EXPECT_MARK(edge_layout_does_not_go_on);
    struct fixture f;
    struct culm_error error;
    begin(&f, 2, 1, 2000);
    struct culm_edge_layout less = f.layout;
    less.query_count = 1;
    assert_int_equal(culm_edge_scheduler_update(f.scheduler, &less, &f.plan, &error),
                     CULM_ERR_ARGUMENT);
    assert_int_equal(f.relaid, 0);
    end(&f);
}

/* Frames of the layout before hold their memory for a while: no load takes it meanwhile. */
static void frames_of_the_layout_before(void **state) {
    (void)state;
    EXPECT_MARK(edge_frames_of_the_layout_before_take_room);
    EXPECT_MARK(edge_load_waits_for_the_batch);
    struct fixture f;
    begin(&f, 1, 1, 1000);
    struct culm_edge_layout same = f.layout;
    f.frames = 500;
    update(&f, &same);
    frame(&f, 0);
    assert_int_equal(f.fake.io_count, 0);
    f.frames = 0;
    pass(&f, 10);
    timer(&f);
    load_ends(&f, CULM_OK);
    batch_ends(&f, CULM_OK);
    assert_int_equal(f.answered, 1);
    end(&f);
}

/* --- memory --- */

/* The batch that runs has all the memory there is: its tensors cannot go, and another load waits. */
static void a_load_waits_for_room(void **state) {
    (void)state;
    EXPECT_MARK(edge_load_finds_nothing_to_evict);
    struct fixture f;
    begin(&f, 2, 1, 1000);
    frame(&f, 0);
    load_ends(&f, CULM_OK);
    assert_int_equal(f.fake.run_count, 1);
    assert_int_equal(f.fake.io_count, 0);
    batch_ends(&f, CULM_OK);
    assert_int_equal(load_ends(&f, CULM_OK), 1);
    assert_int_equal(f.evicted, 1);
    batch_ends(&f, CULM_OK);
    assert_int_equal(f.answered, 2);
    end(&f);
}

/* A visit goes on with a larger batch, but its activations have no room beside what is being loaded: a smaller one runs. */
static void a_batch_has_no_room(void **state) {
    (void)state;
    EXPECT_MARK(edge_batch_has_no_room);
    struct fixture f;
    prepare(&f, 2, 2, 2000);
    f.query[0].batches = 2;
    f.query[0].batch[1] = 2;
    f.query[0].run_ns[1] = 12 * MS;
    f.query[0].activation_bytes[1] = 500;
    f.plan.visit[0] = f.plan.slots = 3;
    go(&f);
    frame_of(&f, 0, 0, CULM_EDGE_FRAME);
    load_ends(&f, CULM_OK);
    frame_of(&f, 1, 0, CULM_EDGE_FRAME);
    frame_of(&f, 0, 1, CULM_EDGE_FRAME);
    frame_of(&f, 0, 2, CULM_EDGE_FRAME);
    assert_int_equal(batch_ends(&f, CULM_OK), 0);
    assert_int_equal(batch_ends(&f, CULM_OK), 0);
    assert_int_equal(f.answered, 2);
    end(&f);
}

static void a_stop_waits_for_what_runs(void **state) {
    (void)state;
    EXPECT_MARK(edge_stop_waits_for_a_job);
    struct fixture f;
    begin(&f, 1, 1, 1000);
    frame(&f, 0);
    culm_edge_scheduler_stop(f.scheduler);
    assert_int_equal(f.fake.exit_code, -1);
    load_ends(&f, CULM_OK);
    assert_int_equal(f.fake.run_count, 0);
    assert_int_equal(f.fake.exit_code, 0);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_that_fails_is_tried_again),
        cmocka_unit_test(a_batch_that_fails_answers_nothing),
        cmocka_unit_test(frames_give_way_and_grow_old),
        cmocka_unit_test(a_batch_has_all_slots),
        cmocka_unit_test(feeds_that_are_gone),
        cmocka_unit_test(a_target_that_comes_too_late),
        cmocka_unit_test(passed_over_often_enough),
        cmocka_unit_test(a_filler_would_take_the_room),
        cmocka_unit_test(a_layout_waits_for_what_runs),
        cmocka_unit_test(a_layout_has_to_go_on),
        cmocka_unit_test(frames_of_the_layout_before),
        cmocka_unit_test(a_load_waits_for_room),
        cmocka_unit_test(a_batch_has_no_room),
        cmocka_unit_test(a_stop_waits_for_what_runs),
    };
    return cmocka_run_group_tests_name("edge/recovery", tests, NULL, NULL);
}
