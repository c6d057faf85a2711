/*
 * A server alone, whose leader, holder and workers the test plays: what comes late or twice has no effect
 * on what comes next, and what is of no use any more is not kept.
 */
#include "gnn/server.h"

#include "../fake_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull
#define ROW_BYTES 8
#define GRADIENT_BYTES 64 /* of each stage: one passes for the other by its size */

enum { SERVER, HOLDER, WORKER, OTHER, THIRD };
enum { INTERVALS = 3, BUSY = 5 }; /* at most: whose rows are constant; that make workers busy */
enum { FORWARD, LOSS, BACKWARD }; /* the steps of two stages */

struct fixture {
    struct fake_world fake;
    struct culm_gnn_layout layout;
    struct culm_blob_pool *pool;
    struct culm_gnn_server *server;
    struct culm_buf buf;
    uint64_t view; /* told last */
};

/* Every byte of it is `mark`. */
static struct culm_blob *blob(struct fixture *f, size_t bytes, int mark) {
    struct culm_blob *blob;
    assert_int_equal(culm_blob_pool_get(f->pool, bytes, &blob), CULM_OK);
    memset(blob->data, mark, bytes);
    return blob;
}

/* What lies in the buffer, as a message of `from`. */
static void deliver(struct fixture *f, int32_t from, uint16_t type,
                    struct culm_blob *take_payload) {
    const struct culm_message message = {.type = type,
                                         .meta = f->buf.data,
                                         .meta_bytes = (uint32_t)f->buf.len,
                                         .payload = take_payload,
                                         .payload_bytes =
                                             take_payload ? take_payload->size_bytes : 0};
    culm_gnn_server_actor.message(f->server, from, &message);
    culm_blob_unref(take_payload);
    culm_buf_clear(&f->buf);
}

/* Who owns which interval from now on. */
static void tell_owners(struct fixture *f, const int32_t *owner) {
    struct culm_gnn_view view = {.number = ++f->view,
                                 .course = {.epoch = 1, .train = true},
                                 .saver = -1,
                                 .holder_count = 1,
                                 .holder = {{HOLDER, -1, 1}}};
    memcpy(view.owner, owner, (size_t)f->layout.intervals * sizeof *owner);
    culm_gnn_view_encode(&view, f->layout.intervals, &f->buf);
    deliver(f, CULM_LEADER, CULM_GNN_MSG_VIEW, NULL);
}

/* Intervals of two vertices, each of which reads all. `constant`: the first stage learns nothing, so its rows
 * are always the same. */
static void begin_with(struct fixture *f, const int32_t *owner, int32_t intervals, bool constant) {
    static const size_t row_bytes[] = {ROW_BYTES, ROW_BYTES};
    const size_t gradient_bytes[] = {constant ? 0 : GRADIENT_BYTES, GRADIENT_BYTES};
    *f = (struct fixture){0};
    fake_world_init(&f->fake);
    culm_buf_init(&f->buf, CULM_GNN_META_MAX);
    f->pool = culm_blob_pool_new(0);
    assert_int_equal(culm_gnn_layout_init(&f->layout, intervals, NULL), CULM_OK);
    for (int32_t i = 0; i < intervals; i++) {
        f->layout.first[i + 1] = f->layout.first[i] + 2;
        for (int32_t j = 0; j < intervals; j++) {
            culm_gnn_layout_reads(&f->layout, false, i, j);
            culm_gnn_layout_reads(&f->layout, true, i, j);
        }
    }
    culm_gnn_layout_steps(&f->layout, 2, row_bytes, row_bytes, gradient_bytes);
    for (int32_t s = 0; s < f->layout.steps; s++) {
        f->layout.step[s].remote = true;
        f->layout.step[s].kept = f->layout.step[s].kind == CULM_GNN_BACKWARD;
    }
    const struct culm_gnn_server_options options = {.node = {.world = &f->fake.world,
                                                             .layout = &f->layout,
                                                             .pool = f->pool,
                                                             .id = SERVER,
                                                             .beat_ms = 100,
                                                             .pace = {.epochs = 9}},
                                                    .workers = true};
    f->server = culm_gnn_server_new(&options);
    assert_non_null(f->server);
    culm_gnn_server_actor.start(f->server);
    tell_owners(f, owner);
    const struct culm_gnn_version version = {0, 0, 0};
    culm_gnn_version_encode(&version, &f->buf);
    deliver(f, HOLDER, CULM_GNN_MSG_WEIGHTS, blob(f, 8, 1));
}

/* One server that owns the only interval, and is given its weights. */
static void begin(struct fixture *f) {
    static const int32_t owner[] = {SERVER};
    begin_with(f, owner, 1, false);
}

static void end(struct fixture *f) {
    assert_int_equal(f->fake.exit_code, -1);
    culm_gnn_server_free(f->server);
    fake_world_release(&f->fake);
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats(f->pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    culm_blob_pool_free(f->pool);
    culm_gnn_layout_release(&f->layout);
    culm_buf_release(&f->buf);
}

static enum culm_gnn_task_kind finish(struct fixture *f, struct culm_gnn_task *task, int mark) {
    enum culm_gnn_task_kind kind = task->kind;
    if (kind != CULM_GNN_TASK_OWN) {
        task->output = blob(f, 2 * ROW_BYTES, mark);
    }
    if (kind == CULM_GNN_TASK_APPLY && f->layout.step[task->step].gradient) {
        task->gradient = blob(f, GRADIENT_BYTES, mark);
    }
    culm_gnn_server_actor.job_done(f->server, &task->job);
    return kind;
}

/* The task that the server has begun comes to its end. `mark`: of what it makes. Its kind. */
static enum culm_gnn_task_kind run_next(struct fixture *f, int mark) {
    struct culm_gnn_task *task = fake_world_run(&f->fake);
    assert_non_null(task);
    return finish(f, task, mark);
}

/* The same of one that must be of that kind. */
static void run(struct fixture *f, enum culm_gnn_task_kind kind, int mark) {
    assert_int_equal(run_next(f, mark), kind);
}

static void ready(struct fixture *f, int32_t worker) {
    const struct culm_gnn_set warm = {{(1ull << f->layout.intervals) - 1}};
    culm_gnn_warm_encode(&warm, f->layout.intervals, &f->buf);
    deliver(f, worker, CULM_GNN_MSG_READY, NULL);
}

static void share_of(struct fixture *f, int32_t worker, int32_t interval, int32_t step, int mark) {
    const struct culm_gnn_task_key key = {0, 1, 0, interval, step};
    culm_gnn_task_key_encode(&key, &f->buf);
    deliver(f, worker, CULM_GNN_MSG_SHARE, blob(f, GRADIENT_BYTES, mark));
}

static void rows_of(struct fixture *f, int32_t worker, int32_t interval, int32_t step, int mark) {
    const struct culm_gnn_result result = {.key = {0, 1, 0, interval, step}};
    bool makes = f->layout.step[step].makes >= 0;
    culm_gnn_result_encode(&result, &f->buf);
    deliver(f, worker, CULM_GNN_MSG_ROWS, makes ? blob(f, 2 * ROW_BYTES, mark) : NULL);
}

/* Of the first interval. */
static void share(struct fixture *f, int32_t worker, int32_t step, int mark) {
    share_of(f, worker, 0, step, mark);
}

static void rows(struct fixture *f, int32_t worker, int32_t step, int mark) {
    rows_of(f, worker, 0, step, mark);
}

/* The interval has come to its step with a loss, which a worker has been given. */
static void come_to_loss(struct fixture *f) {
    begin(f);
    run(f, CULM_GNN_TASK_OWN, 0);
    ready(f, WORKER);
    ready(f, WORKER); /* it takes two at once */
    assert_int_equal(fake_world_sent(&f->fake, WORKER, CULM_GNN_MSG_TASK), 1);
    rows(f, WORKER, FORWARD, 2);
    run(f, CULM_GNN_TASK_GATHER, 3);
    assert_int_equal(fake_world_sent(&f->fake, WORKER, CULM_GNN_MSG_TASK), 2);
}

/* The sum that its holder was sent of a stage is all `mark`. */
static void assert_pushed(struct fixture *f, int32_t stage, int mark) {
    int32_t found = 0;
    for (int32_t i = 0; i < f->fake.sent_count; i++) {
        const struct fake_sent *sent = &f->fake.sent[i];
        struct culm_gnn_gradient_key key;
        if (sent->to != HOLDER || sent->type != CULM_GNN_MSG_GRADIENT) {
            continue;
        }
        assert_int_equal(
            culm_gnn_gradient_decode(sent->meta, sent->meta_bytes, &f->layout, 1, &key), CULM_OK);
        if (key.stage == stage) {
            uint8_t wanted[GRADIENT_BYTES];
            memset(wanted, mark, sizeof wanted);
            assert_memory_equal(sent->payload->data, wanted, sizeof wanted);
            found++;
        }
    }
    assert_int_equal(found, 1);
}

/* A worker pushes its gradient, and holds its rows back for so long that the server does the task too
 * and is first. What is left of the worker's is not of the next step. */
static void test_late_gradient(void **state) {
    (void)state;
    struct fixture f;
    come_to_loss(&f);
    f.fake.now_ns += 6000 * MS;
    culm_gnn_server_actor.timer(f.server, CULM_GNN_TIMER_LATE);
    share(&f, WORKER, LOSS, 4);
    run(&f, CULM_GNN_TASK_APPLY, 5);
    assert_pushed(&f, 1, 5);
    run(&f, CULM_GNN_TASK_GATHER, 6);
    assert_int_equal(fake_world_sent(&f.fake, WORKER, CULM_GNN_MSG_TASK), 3);
    rows(&f, WORKER, LOSS, 4); /* nobody waits for them any more */
    share(&f, WORKER, BACKWARD, 7);
    rows(&f, WORKER, BACKWARD, 7);
    assert_pushed(&f, 0, 7);
    assert_int_equal(fake_world_sent(&f.fake, CULM_LEADER, CULM_GNN_MSG_DONE), 1);
    end(&f);
}

/* A worker dies between its two pushes: the gradient that came is let go of with it. */
static void test_lost_between_pushes(void **state) {
    (void)state;
    struct fixture f;
    come_to_loss(&f);
    share(&f, WORKER, LOSS, 4);
    culm_gnn_server_actor.lost(f.server, WORKER);
    run(&f, CULM_GNN_TASK_APPLY, 5);
    assert_pushed(&f, 1, 5);
    ready(&f, OTHER);
    run(&f, CULM_GNN_TASK_GATHER, 6);
    share(&f, OTHER, BACKWARD, 7);
    share(&f, OTHER, BACKWARD, 8); /* twice: the first one counts */
    rows(&f, OTHER, BACKWARD, 7);
    assert_pushed(&f, 0, 7);
    end(&f);
}

/* Rows without the gradient that must come before them are no result. */
static void test_rows_alone(void **state) {
    (void)state;
    struct fixture f;
    come_to_loss(&f);
    rows(&f, WORKER, LOSS, 4);
    assert_null(fake_world_run(&f.fake));
    share(&f, WORKER, LOSS, 4);
    rows(&f, WORKER, LOSS, 4);
    assert_pushed(&f, 1, 4);
    run(&f, CULM_GNN_TASK_GATHER, 6);
    end(&f);
}

static int64_t used(const struct fixture *f) {
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats(f->pool, &stats);
    return (int64_t)stats.used_bytes;
}

/* Rows that never change, of interval 1, for what this server has of `readers`. */
static void constant_rows(struct fixture *f, int32_t from, uint64_t readers, uint64_t view) {
    const struct culm_gnn_slice_key key = {
        .epoch = 1, .interval = 1, .readers = {{readers}}, .view = view};
    culm_gnn_slice_encode(&key, f->layout.intervals, &f->buf);
    deliver(f, from, CULM_GNN_MSG_SLICE, blob(f, 2 * ROW_BYTES, 9));
}

/* Rows that never change are sent once, and kept for as long as an interval here reads them: intervals come
 * and go, and memory does not grow. */
static void test_constants(void **state) {
    (void)state;
    static const int32_t home[] = {SERVER, OTHER, THIRD}, without_third[] = {SERVER, OTHER, SERVER},
                         alone[] = {SERVER, SERVER, SERVER};
    struct fixture f;
    begin_with(&f, home, INTERVALS, true);
    int64_t none = used(&f);
    constant_rows(&f, OTHER, 1, f.view);
    int64_t one = used(&f);
    assert_true(one > none);
    constant_rows(&f, OTHER, 1, f.view); /* twice */
    assert_int_equal(used(&f), one);
    for (int i = 0; i < 3; i++) {
        tell_owners(&f, without_third);
        constant_rows(&f, OTHER, 4, f.view);
        assert_true(used(&f) > one);
        constant_rows(&f, OTHER, 1 | 4, f.view); /* all that the others have */
        assert_int_equal(used(&f), one);
        tell_owners(&f, home);
        assert_int_equal(used(&f), one); /* interval 0 reads some of them */
        tell_owners(&f, alone);
        assert_int_equal(used(&f), none);
        tell_owners(&f, home);
        constant_rows(&f, OTHER, 1, f.view);
        assert_int_equal(used(&f), one);
        tell_owners(&f, without_third);
        constant_rows(&f, OTHER, 4, f.view);
        tell_owners(&f, home);
        assert_int_equal(used(&f), one); /* nobody reads the second ones */
    }
    end(&f);
}

/* Who sends may know views that this server does not know yet. */
static void test_constants_ahead(void **state) {
    (void)state;
    static const int32_t home[] = {SERVER, OTHER, THIRD}, without[] = {OTHER, OTHER, THIRD};
    struct fixture f;
    begin_with(&f, home, INTERVALS, true);
    int64_t none = used(&f);
    constant_rows(&f, OTHER, 1, f.view);
    int64_t one = used(&f);
    constant_rows(&f, OTHER, 1, f.view + 2); /* sent again, as interval 0 goes and comes back */
    tell_owners(&f, without);
    assert_int_equal(used(&f), one);
    tell_owners(&f, home);
    assert_int_equal(used(&f), one);
    tell_owners(&f, without);
    assert_int_equal(used(&f), none);
    end(&f);
}

/* On another link more of them comes later, though it was sent earlier: it takes their place, and stays as
 * long as they would have. */
static void test_constants_overtaken(void **state) {
    (void)state;
    static const int32_t home[] = {SERVER, OTHER, SERVER}, without[] = {OTHER, OTHER, OTHER};
    struct fixture f;
    begin_with(&f, home, INTERVALS, true);
    int64_t none = used(&f);
    constant_rows(&f, THIRD, 1, f.view + 2);
    int64_t one = used(&f);
    constant_rows(&f, OTHER, 1 | 4, f.view);
    assert_int_equal(used(&f), one);
    tell_owners(&f, without);
    assert_int_equal(used(&f), one);
    tell_owners(&f, home);
    assert_int_equal(used(&f), one);
    tell_owners(&f, without);
    assert_int_equal(used(&f), none);
    end(&f);
}

/* And whoever sends sends again what was let go of there. */
static void test_constants_again(void **state) {
    (void)state;
    static const int32_t home[] = {SERVER, OTHER}, alone[] = {SERVER, SERVER};
    struct fixture f;
    begin_with(&f, home, 2, true);
    run(&f, CULM_GNN_TASK_OWN, 0);
    culm_gnn_server_actor.timer(f.server, CULM_GNN_TIMER_WATCH); /* no worker comes */
    run(&f, CULM_GNN_TASK_APPLY, 5);
    run(&f, CULM_GNN_TASK_SLICE, 6);
    assert_int_equal(fake_world_sent(&f.fake, OTHER, CULM_GNN_MSG_SLICE), 1);
    tell_owners(&f, home);
    assert_null(fake_world_run(&f.fake));
    tell_owners(&f, alone);
    run(&f, CULM_GNN_TASK_OWN, 0);
    tell_owners(&f, home);
    struct culm_gnn_task *task;
    while ((task = fake_world_run(&f.fake))) { /* the other interval was begun here */
        if (task->kind != CULM_GNN_TASK_DROP) {
            task->output = blob(&f, 2 * ROW_BYTES, 7);
        }
        culm_gnn_server_actor.job_done(f.server, &task->job);
    }
    assert_int_equal(fake_world_sent(&f.fake, OTHER, CULM_GNN_MSG_SLICE), 2);
    end(&f);
}

/* --- whoever has done a stage forward --- */

/* How often a worker was told to do that step of an interval. */
static int32_t told(const struct fixture *f, int32_t worker, int32_t interval, int32_t step) {
    int32_t count = 0;
    for (int32_t i = 0; i < f->fake.sent_count; i++) {
        const struct fake_sent *sent = &f->fake.sent[i];
        struct culm_gnn_task_key key;
        if (sent->to == worker && sent->type == CULM_GNN_MSG_TASK &&
            culm_gnn_task_key_decode(sent->meta, sent->meta_bytes, &f->layout, &key) == CULM_OK) {
            count += key.interval == interval && key.step == step;
        }
    }
    return count;
}

/* OTHER, alone, has done so many intervals forward, and the server their losses. Another worker has
 * come, which is before OTHER in every list. What is next is to gather what goes back. */
static void come_to_backward(struct fixture *f, int32_t intervals) {
    static const int32_t owner[BUSY] = {SERVER, SERVER, SERVER, SERVER, SERVER};
    begin_with(f, owner, intervals, false);
    f->layout.step[LOSS].remote = false;
    for (int32_t i = 0; i < intervals; i++) {
        run(f, CULM_GNN_TASK_OWN, 0);
    }
    ready(f, OTHER);
    ready(f, OTHER);
    int32_t tasks = 2 * intervals; /* of the server: gathers and losses */
    for (int32_t i = 0; i < intervals; i++) {
        while (!told(f, OTHER, i, FORWARD) && tasks-- > 0) {
            run_next(f, 3);
        }
        rows_of(f, OTHER, i, FORWARD, 2);
    }
    while (tasks-- > 0) {
        run_next(f, 4);
    }
    ready(f, WORKER);
    ready(f, WORKER);
}

static void test_goes_back_to_the_same(void **state) {
    (void)state;
    struct fixture f;
    come_to_backward(&f, 1);
    run(&f, CULM_GNN_TASK_GATHER, 5);
    assert_int_equal(told(&f, OTHER, 0, BACKWARD), 1);
    assert_int_equal(told(&f, WORKER, 0, BACKWARD), 0);
    end(&f);
    /* Where nothing is kept, anybody does it. */
    come_to_backward(&f, 1);
    f.layout.step[BACKWARD].kept = false;
    run(&f, CULM_GNN_TASK_GATHER, 5);
    assert_int_equal(told(&f, OTHER, 0, BACKWARD), 0);
    assert_int_equal(told(&f, WORKER, 0, BACKWARD), 1);
    end(&f);
}

/* It is lost, before and after it was told; or it is on its way out. */
static void test_the_same_is_gone(void **state) {
    (void)state;
    struct fixture f;
    come_to_backward(&f, 1);
    culm_gnn_server_actor.lost(f.server, OTHER);
    run(&f, CULM_GNN_TASK_GATHER, 5);
    assert_int_equal(told(&f, WORKER, 0, BACKWARD), 1);
    end(&f);
    come_to_backward(&f, 1);
    run(&f, CULM_GNN_TASK_GATHER, 5);
    assert_int_equal(told(&f, OTHER, 0, BACKWARD), 1);
    culm_gnn_server_actor.lost(f.server, OTHER);
    assert_int_equal(told(&f, WORKER, 0, BACKWARD), 1);
    end(&f);
    come_to_backward(&f, 1);
    deliver(&f, OTHER, CULM_GNN_MSG_LEAVING, NULL);
    run(&f, CULM_GNN_TASK_GATHER, 5);
    assert_int_equal(told(&f, WORKER, 0, BACKWARD), 1);
    end(&f);
}

/* It has as many tasks as it takes. One that would be idle gets the next task; one that would not does not,
 * and the one behind waits until the former has done something. */
static void test_the_same_is_busy(void **state) {
    (void)state;
    struct fixture f;
    come_to_backward(&f, BUSY);
    for (int32_t i = 0; i < BUSY; i++) {
        while (run_next(&f, 5) != CULM_GNN_TASK_GATHER) { /* it adds up gradients in between */
        }
    }
    assert_int_equal(told(&f, OTHER, 0, BACKWARD), 1);
    assert_int_equal(told(&f, OTHER, 1, BACKWARD), 1);
    assert_int_equal(told(&f, WORKER, 2, BACKWARD), 1);
    for (int32_t i = 3; i < BUSY; i++) {
        assert_int_equal(told(&f, OTHER, i, BACKWARD) + told(&f, WORKER, i, BACKWARD), 0);
    }
    share_of(&f, OTHER, 0, BACKWARD, 7);
    rows_of(&f, OTHER, 0, BACKWARD, 7);
    assert_int_equal(told(&f, OTHER, 3, BACKWARD), 1);
    share_of(&f, WORKER, 2, BACKWARD, 7);
    rows_of(&f, WORKER, 2, BACKWARD, 7);
    assert_int_equal(told(&f, WORKER, 4, BACKWARD), 1);
    end(&f);
}

/* What is next of all intervals is to go back: whoever is told does so. How many steps waited for a worker. */
static int64_t waited(struct fixture *f) {
    static const int32_t workers[] = {WORKER, OTHER};
    bool back[BUSY] = {false};
    struct culm_gnn_task *task;
    int64_t waited = 0, done = 0;
    for (int32_t i = 0; i < BUSY; i++) {
        while (run_next(f, 5) != CULM_GNN_TASK_GATHER) {
        }
    }
    for (int32_t round = 0; round < BUSY; round++) { /* what waits is given out meanwhile */
        for (int32_t at = 0; at < 2 * BUSY; at++) {
            int32_t i = at / 2, worker = workers[at % 2];
            if (!back[i] && told(f, worker, i, BACKWARD)) {
                back[i] = true;
                share_of(f, worker, i, BACKWARD, 7);
                rows_of(f, worker, i, BACKWARD, 7);
            }
        }
        while ((task = fake_world_run(&f->fake))) {
            finish(f, task, 8);
        }
    }
    for (int32_t i = 0; i < f->fake.sent_count; i++) {
        const struct fake_sent *sent = &f->fake.sent[i];
        struct culm_gnn_done message;
        if (sent->to == CULM_LEADER && sent->type == CULM_GNN_MSG_DONE) {
            assert_int_equal(
                culm_gnn_done_decode(sent->meta, sent->meta_bytes, &f->layout, &message), CULM_OK);
            waited += message.work.applies_waiting;
            done++;
        }
    }
    assert_int_equal(done, BUSY);
    return waited;
}

/* Whoever says how many workers there should be is told what no worker has room for. A step that waits for
 * the one that went forward, though another has room, does not want for workers. */
static void test_waits(void **state) {
    (void)state;
    struct fixture f;
    come_to_backward(&f, BUSY); /* the fourth waits for OTHER when the last one is gathered */
    assert_int_equal(waited(&f), 0);
    end(&f);
    come_to_backward(&f, BUSY);
    deliver(&f, WORKER, CULM_GNN_MSG_LEAVING, NULL); /* the third waits, then the fourth too */
    assert_int_equal(waited(&f), 1 + 2);
    end(&f);
}

/* Whoever asks for weights that there never will be is not answered, and holds up nobody. */
static void test_asked_for_nonsense(void **state) {
    struct fixture f;
    (void)state;
    begin(&f);
    static const int64_t version[] = {CULM_COUNT_MAX, CULM_COUNT_MAX + 1, INT64_MAX - 1, INT64_MAX};
    for (size_t v = 0; v < sizeof version / sizeof *version; v++) {
        for (int64_t half = 0; half <= 2; half++) {
            const struct culm_gnn_version what = {0, version[v], version[v] / 2 * half};
            culm_gnn_version_encode(&what, &f.buf);
            deliver(&f, OTHER, CULM_GNN_MSG_GET, NULL);
        }
    }
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_gradient),
        cmocka_unit_test(test_lost_between_pushes),
        cmocka_unit_test(test_rows_alone),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_constants_ahead),
        cmocka_unit_test(test_constants_overtaken),
        cmocka_unit_test(test_constants_again),
        cmocka_unit_test(test_goes_back_to_the_same),
        cmocka_unit_test(test_the_same_is_gone),
        cmocka_unit_test(test_the_same_is_busy),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_asked_for_nonsense),
    };
    return cmocka_run_group_tests_name("gnn/server", tests, NULL, NULL);
}
