/*
 * Nodes that an engine starts: a toy engine, and the processes that it would have started somewhere.
 */
#include "toy_test.h"

#include "cluster/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define STARTS 8

struct toy_engine {
    struct culm_engine engine; /* first */
    struct test *t;
    int deliver; /* how many processes come of a start */
    bool fail;   /* none, and it says so */
    bool shut;   /* it cannot be opened */
    struct culm_engine_report *report;
    pthread_t thread[STARTS];
    int threads;
    int32_t starts, came, ends;
    bool ended[STARTS];
    bool opened, closed;
};

static struct toy_engine *of(struct culm_engine *engine) { return (struct toy_engine *)engine; }

static enum culm_status toy_open(struct culm_engine *engine, struct culm_engine_report *report,
                                 struct culm_error *error) {
    of(engine)->report = report;
    of(engine)->opened = true;
    return of(engine)->shut ? culm_error_set(error, CULM_ERR_IO, "the service is not there")
                            : CULM_OK;
}

static void *say(void *report) {
    struct culm_error why;
    culm_error_set(&why, CULM_ERR_IO, "room is short");
    culm_engine_complain(report, &why);
    culm_engine_complain(report, &why);
    culm_error_set(&why, CULM_ERR_CONFIG, "there is no such function");
    culm_engine_ended(report, 0, &why);
    culm_engine_ended(report, 0, &why); /* once is enough */
    culm_engine_ended(report, 99, &why);
    return NULL;
}

static void say_ended(struct toy_engine *engine) {
    assert_int_equal(pthread_create(&engine->thread[engine->threads++], NULL, say, engine->report),
                     0);
}

static void toy_start(struct culm_engine *engine, const struct culm_engine_start *start) {
    struct toy_engine *toy = of(engine);
    char name[CULM_ENGINE_NAME_SIZE];
    assert_true(toy->opened && !toy->closed);
    assert_int_equal(start->role, ROLE);
    assert_string_equal(start->token, TOY_TOKEN);
    assert_string_equal(start->address, culm_host_address(toy->t->host));
    culm_engine_node_name(engine, start->number, name);
    assert_string_equal(start->name, name);
    assert_int_equal(culm_engine_number(engine, name), start->number);
    toy->starts++;
    for (int i = 0; i < toy->deliver; i++) {
        test_come(toy->t, "worker", TOY_TOKEN, start->name);
    }
    if (toy->fail) {
        say_ended(toy);
    }
}

static void toy_came(struct culm_engine *engine, int32_t number) {
    assert_true(number >= 0 && number < STARTS && !of(engine)->ended[number]);
    of(engine)->came++;
}

static void toy_end(struct culm_engine *engine, int32_t number) {
    assert_true(number >= 0 && number < STARTS && !of(engine)->ended[number]); /* once */
    of(engine)->ended[number] = true;
    of(engine)->ends++;
}

static void toy_close(struct culm_engine *engine) {
    struct toy_engine *toy = of(engine);
    assert_false(toy->closed);
    toy->closed = true;
    for (int i = 0; i < toy->threads; i++) {
        pthread_join(toy->thread[i], NULL);
    }
}

static void toy_free(struct culm_engine *engine) { (void)engine; }

static const struct culm_engine_ops toy_ops = {.size = sizeof toy_ops,
                                               .name = "toy",
                                               .open = toy_open,
                                               .start = toy_start,
                                               .came = toy_came,
                                               .end = toy_end,
                                               .close = toy_close,
                                               .free = toy_free};

static struct toy_engine toy;

/* With the toy engine, which the test says more of. */
#define RUN_TOY(deliver_, fail_, ...)                                                              \
    struct test t = {.engine = &toy.engine, __VA_ARGS__};                                          \
    toy = (struct toy_engine){.engine = {&toy_ops}, .t = &t, .deliver = deliver_, .fail = fail_};  \
    test_came.count = 0;                                                                           \
    test_run(&t);                                                                                  \
    assert_int_equal(t.code, 0)

static void release(struct test *t) {
    test_release(t, 0);
    assert_true(toy.closed);
}

/* --- names --- */

static void whose_a_name_is(void **state) {
    (void)state;
    struct culm_engine engine = {&toy_ops};
    static const struct {
        const char *name;
        int32_t number;
    } rows[] = {{"toy-0", 0},           {"toy-17", 17},
                {"toy-", -1},           {"toy", -1},
                {"toys-1", -1},         {"to-1", -1},
                {"toy-1x", -1},         {"toy--1", -1},
                {"newcomer", -1},       {"", -1},
                {"toy- 1", -1},         {"x toy-1", -1},
                {"toy-01", 1},          {"toy-2147483646", INT32_MAX - 1},
                {"toy-2147483647", -1}, {"toy-9999999999", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(culm_engine_number(&engine, rows[i].name), rows[i].number);
    }
}

/* --- they come and go --- */

static void kill_the_first(struct test *t) {
    kill(test_came.pid[0], SIGKILL);
    (void)t;
}

static void one_has_ended(struct test *t, int32_t node, const struct culm_error *why) {
    assert_true(t->up[node] && t->eof[node]);
    assert_null(why);
    test_finish(t);
}

static void what_comes_is_the_node_that_was_asked_for(void **state) {
    (void)state;
    char words[1024];
    RUN_TOY(1, false, .start = 2, .all_up = kill_the_first, .on_exit = one_has_ended);
    assert_int_equal(toy.starts, 2);
    assert_int_equal(toy.came, 2);
    assert_int_equal(t.ups, 2);
    assert_int_equal(t.pid[0] + t.pid[1], test_came.pid[0] + test_came.pid[1]);
    assert_true(strstr(t.names, "toy-0") && strstr(t.names, "toy-1"));
    assert_true(t.exited[t.pid[1] == test_came.pid[0]]);
    assert_int_equal(test_came_end(0, words, sizeof words), -SIGKILL);
    assert_int_equal(test_came_end(1, words, sizeof words), 1);
    assert_int_equal(toy.ends, 2);
    release(&t);
}

/* Leaves when the newcomer that is to be refused has ended. */
static void watch(struct test *t) {
    siginfo_t info = {0};
    for (int i = 0; i < test_came.count; i++) {
        if (waitid(P_PID, (id_t)test_came.pid[i], &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid) {
            test_finish(t);
            return;
        }
    }
    t->world->ops->timer(t->world, 0, 5000000);
}

static void one_that_is_delivered_twice_makes_one_node(void **state) {
    (void)state;
    char words[2][1024];
    RUN_TOY(2, false, .start = 1, .all_up = watch, .on_timer = watch);
    assert_int_equal(t.ups, 1);
    assert_int_equal(test_came_end(0, words[0], sizeof words[0]), 1);
    assert_int_equal(test_came_end(1, words[1], sizeof words[1]), 1);
    const char *refusal = "refused: 'toy-0' is not expected";
    assert_int_equal(!!strstr(words[0], refusal) + !!strstr(words[1], refusal), 1);
    release(&t);
}

/* --- starts that fail --- */

static void it_will_not_come(struct test *t, int32_t node, const struct culm_error *why) {
    assert_int_equal(node, 0);
    assert_non_null(why);
    assert_int_equal(why->status, CULM_ERR_CONFIG);
    assert_false(t->up[0]);
    test_finish(t);
}

static void a_start_without_a_node_is_told_once(void **state) {
    (void)state;
    RUN_TOY(0, true, .start = 1, .on_exit = it_will_not_come);
    assert_int_equal(t.exits, 1);
    assert_int_equal(t.error_events, 2); /* the complaint, which came twice, and why it ended */
    assert_string_equal(t.error_text, "node 0: there is no such function");
    assert_int_equal(toy.ends, 1);
    release(&t);
}

static void say_that_it_ended(struct test *t) {
    say_ended(&toy);
    t->world->ops->timer(t->world, 0, 100000000);
}

static void an_end_that_is_told_of_a_node_changes_nothing(void **state) {
    (void)state;
    char words[1024];
    RUN_TOY(1, false, .start = 1, .all_up = say_that_it_ended, .on_timer = test_finish);
    assert_int_equal(t.eofs, 0);
    assert_int_equal(t.error_events, 1); /* the complaint */
    assert_int_equal(test_came_end(0, words, sizeof words), 1);
    release(&t);
}

/* It ends the run, and whoever reads its events finds why. */
static void an_engine_that_cannot_be_opened_is_told(void **state) {
    (void)state;
    struct test t = {.engine = &toy.engine, .start = 1};
    toy = (struct toy_engine){.engine = {&toy_ops}, .t = &t, .shut = true};
    test_came.count = 0;
    test_run(&t);
    assert_int_equal(t.code, culm_status_exit_code(CULM_ERR_IO));
    assert_int_equal(t.error_events, 1);
    assert_string_equal(t.error_text, "the service is not there");
    release(&t);
}

/* --- a start that is handed on --- */

static void start_another(struct test *t, int32_t node, const struct culm_error *why) {
    (void)why;
    if (node == 0) {
        toy.deliver = 0; /* whoever has the first start takes that on */
        t->agent->ops->start(t->agent, ROLE);
        test_come(t, "worker", TOY_TOKEN, "toy-0");
    }
}

static void until_the_second(struct test *t, int32_t node, const struct culm_node_info *info) {
    if (node == 0) {
        kill(test_came.pid[0], SIGKILL);
        return;
    }
    assert_int_equal(node, 1);
    assert_int_equal(info->pid, test_came.pid[1]);
    test_finish(t);
}

static void one_that_is_handed_on_is_whoever_is_awaited(void **state) {
    (void)state;
    char words[1024];
    RUN_TOY(1, false, .start = 1, .on_up = until_the_second, .on_exit = start_another);
    assert_int_equal(toy.starts, 2);
    assert_int_equal(t.ups, 2);
    assert_int_equal(test_came_end(0, words, sizeof words), -SIGKILL);
    assert_int_equal(test_came_end(1, words, sizeof words), 1);
    release(&t);
}

/* --- the end of the run --- */

static void end_and_leave(struct test *t) {
    t->agent->ops->end(t->agent, 0);
    assert_int_equal(t->exits, 0); /* it never calls back */
}

static void others_leave(struct test *t, int32_t node, const struct culm_error *why) {
    assert_int_equal(node, 0);
    assert_null(why);
    test_finish(t);
}

static void those_that_never_came_hold_nothing_up(void **state) {
    (void)state;
    RUN_TOY(0, false, .start = 3, .all_started = end_and_leave, .on_exit = others_leave);
    assert_int_equal(toy.starts, 3);
    assert_int_equal(toy.ends, 3);
    release(&t);
}

int toy_launcher(const char *mode) {
    (void)mode;
    return 2;
}

int main(int argc, char **argv) {
    setenv("TSAN_OPTIONS", "atexit_sleep_ms=0", 0); /* newcomers inherit it */
    if (argc > 1) {
        return toy_main(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whose_a_name_is),
        cmocka_unit_test(what_comes_is_the_node_that_was_asked_for),
        cmocka_unit_test(one_that_is_delivered_twice_makes_one_node),
        cmocka_unit_test(a_start_without_a_node_is_told_once),
        cmocka_unit_test(an_end_that_is_told_of_a_node_changes_nothing),
        cmocka_unit_test(an_engine_that_cannot_be_opened_is_told),
        cmocka_unit_test(one_that_is_handed_on_is_whoever_is_awaited),
        cmocka_unit_test(those_that_never_came_hold_nothing_up),
    };
    return cmocka_run_group_tests_name("cluster/engine", tests, NULL, NULL);
}
