/*
 * Newcomers: processes that nobody started, which join by the token alone, in real processes; and what
 * peers are told of where they listen.
 */
#include "toy_test.h"

#include "cluster/advertise.h"
#include "net/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void one_comes(struct test *t) { test_come(t, "worker", TOY_TOKEN, "guest\n"); }

/* --- it is a node --- */

static void talk(struct test *t, int32_t node, const struct culm_node_info *info) {
    if (node == 0) {
        one_comes(t);
        return;
    }
    assert_int_equal(node, 1);
    assert_int_equal(info->pid, test_came.pid[0]); /* through "unix:" it is known */
    assert_string_equal(info->name, "guest?");
    test_order(t, 0, TOY_BLAST, (struct toy_order){.node = 1, .count = 30});
    test_order(t, 1, TOY_BLAST, (struct toy_order){.node = 0, .count = 30});
    t->world->ops->timer(t->world, 0, 10000000);
}

static void ask_both(struct test *t) {
    test_order(t, 0, TOY_STATUS, (struct toy_order){.node = 1});
    test_order(t, 1, TOY_STATUS, (struct toy_order){.node = 0});
}

static void until_both_30(struct test *t, int32_t node, const struct toy_report *report) {
    static bool whole[2];
    assert_int_equal(report->bad, 0);
    whole[node] = report->messages == 30;
    if (whole[0] && whole[1]) {
        test_finish(t);
    } else if (node == 1) {
        t->world->ops->timer(t->world, 0, 10000000);
    }
}

static void one_joins_without_an_id(void **state) {
    (void)state;
    char words[1024];
    test_came.count = 0;
    RUN(.start = 1, .max_nodes = 2, .on_up = talk, .on_timer = ask_both,
        .on_report = until_both_30);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.ups, 2);
    assert_int_equal(t.losts, 0);
    assert_int_equal(test_came_end(0, words, sizeof words), 1); /* with its leader */
    assert_non_null(strstr(words, "is node 1 in role 7\n"));
    assert_non_null(strstr(words, "the leader is gone"));
    test_release(&t, 0);
}

/* --- its end --- */

static void kill_it(struct test *t, int32_t node, const struct culm_node_info *info) {
    (void)node;
    (void)info;
    t->since_ns = culm_clock_ns();
    kill(test_came.pid[0], SIGKILL);
}

static void it_ended(struct test *t, int32_t node, const struct culm_error *why) {
    assert_int_equal(node, 0);
    assert_null(why);
    test_finish(t);
}

static void the_end_of_its_process_is_told(void **state) {
    (void)state;
    char words[1024];
    test_came.count = 0;
    RUN(.all_started = one_comes, .on_up = kill_it, .on_exit = it_ended);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.eofs, 1);
    assert_true(t.exit_ns[0] >= t.eof_ns[0] && t.exit_ns[0] - t.since_ns < SOON);
    assert_int_equal(test_came_end(0, words, sizeof words), -SIGKILL);
    test_release(&t, 0);
}

static void end_it(struct test *t, int32_t node, const struct culm_node_info *info) {
    (void)info;
    t->agent->ops->end(t->agent, node);
    assert_int_equal(t->eofs + t->exits, 0); /* it never calls back */
}

static void the_leader_can_end_it(void **state) {
    (void)state;
    char words[1024];
    test_came.count = 0;
    RUN(.all_started = one_comes, .on_up = end_it, .on_exit = it_ended);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.eofs, 1);
    assert_int_equal(test_came_end(0, words, sizeof words), 1);
    assert_non_null(strstr(words, "the leader is gone"));
    test_release(&t, 0);
}

static void one_declines(struct test *t) { test_come(t, "decline", TOY_TOKEN, "guest\n"); }

static void end_at_error(struct test *t, const char *name) {
    if (!strcmp(name, "error")) {
        test_finish(t);
    }
}

static void what_it_declines_for_is_told(void **state) {
    (void)state;
    char words[1024];
    test_came.count = 0;
    RUN(.all_started = one_declines, .on_event = end_at_error);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.ups, 0);
    assert_int_equal(t.exits, 0); /* whoever leads has not heard of it */
    assert_int_equal(t.error_events, 1);
    assert_string_equal(t.error_text, "newcomer 'guest?': 'x' is not what it was");
    assert_int_equal(test_came_end(0, words, sizeof words), 1);
    test_release(&t, 0);
}

static void one_sleeps(struct test *t) { test_come(t, "asleep", TOY_TOKEN, "guest\n"); }

static void it_was_silent(struct test *t, const char *name) {
    if (!strcmp(name, "error")) {
        kill(test_came.pid[0], SIGKILL); /* it does not look at its connection */
        test_finish(t);
    }
}

static void one_that_gets_on_with_nothing_is_put_out(void **state) {
    (void)state;
    char words[1024];
    test_came.count = 0;
    RUN(.all_started = one_sleeps, .on_event = it_was_silent, .start_limit_ms = 500);
    assert_int_equal(t.code, 0);
    assert_non_null(strstr(t.error_text, "silent for 500 ms"));
    (void)test_came_end(0, words, sizeof words);
    test_release(&t, 0);
}

/* --- its id --- */

static void of_another_build(struct test *t) {
    test_come_as(t, "worker", TOY_TOKEN, "another", "stranger");
}

static void then_the_next(struct test *t, const char *name) {
    if (!strcmp(name, "error") && test_came.count == 1) {
        test_come(t, "decline", TOY_TOKEN, "waverer");
    } else if (!strcmp(name, "error") && test_came.count == 2) {
        one_comes(t);
    }
}

static void end_when_it_is_up(struct test *t, int32_t node, const struct culm_node_info *info) {
    assert_int_equal(node, 0);
    assert_string_equal(info->name, "guest?");
    test_finish(t);
}

/* Whoever is refused or declines, however often, uses none up. */
static void an_id_is_for_one_that_is_ready(void **state) {
    (void)state;
    char words[3][1024];
    test_came.count = 0;
    RUN(.all_started = of_another_build, .on_event = then_the_next, .on_up = end_when_it_is_up);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.ups, 1);
    assert_int_equal(t.exits, 0);
    assert_int_equal(t.error_events, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(test_came_end(i, words[i], sizeof words[i]), 1);
    }
    assert_non_null(strstr(words[0], "refused: newcomer 'stranger' has the signature 'another', "
                                     "not 'sig'; start workers of the same build"));
    assert_null(strstr(words[0], "is node"));
    assert_non_null(strstr(words[2], "is node 0 in role 7\n"));
    test_release(&t, 0);
}

/* --- who may not come --- */

static bool last_has_ended(void) {
    struct pollfd last = {.fd = test_came.words[test_came.count - 1], .events = POLLIN};
    siginfo_t info = {0};
    bool ended = waitid(P_PID, (id_t)test_came.pid[test_came.count - 1], &info,
                        WEXITED | WNOHANG | WNOWAIT) ||
                 info.si_pid;
    return ended && poll(&last, 1, 0) == 1;
}

static void strangers_come(struct test *t) {
    if (test_came.count < 3 && (test_came.count == 0 || last_has_ended())) {
        t->since_ns = culm_clock_ns();
        test_come_as(t, "worker", TOY_TOKEN, "another", "stranger");
    } else if (last_has_ended()) {
        test_finish(t);
        return;
    }
    t->world->ops->timer(t->world, 0, 5000000);
}

/* As when something starts it anew whenever it ends: told once, and each waits longer than the one before. */
static void one_that_comes_again_and_again(void **state) {
    (void)state;
    char words[1024];
    test_came.count = 0;
    RUN(.all_started = strangers_come, .on_timer = strangers_come);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.ups + t.exits, 0);
    assert_int_equal(t.error_events, 1);
    assert_true(culm_clock_ns() - t.since_ns >= SECOND / 5);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(test_came_end(i, words, sizeof words), 1);
        assert_non_null(strstr(words, "refused: newcomer 'stranger' has the signature"));
    }
    test_release(&t, 0);
}

/* Leaves when the newcomer that is to be refused has ended. */
static void watch(struct test *t) {
    if (last_has_ended()) {
        test_finish(t);
    } else {
        t->world->ops->timer(t->world, 0, 5000000);
    }
}

static void refused(struct test *t, int index, int ups, const char *why) {
    char words[1024];
    assert_int_equal(t->code, 0);
    assert_int_equal(t->ups, ups);
    assert_int_equal(test_came_end(index, words, sizeof words), 1);
    assert_true(strchr(words, '\n') == words + strlen(words) - 1); /* one line */
    if (!strstr(words, why)) {
        fail_msg("'%s' says nothing of '%s'", words, why);
    }
}

static void one_with_a_wrong_token(struct test *t) {
    test_come(t, "worker", "0123456789abcdef0123456789abcdeg", "guest\n");
    watch(t);
}

static void a_wrong_token_is_refused(void **state) {
    (void)state;
    test_came.count = 0;
    RUN(.all_started = one_with_a_wrong_token, .on_timer = watch);
    refused(&t, 0, 0, "wrong token");
    assert_int_equal(t.exits, 0);
    test_release(&t, 0);
}

static void next_comes(struct test *t, int32_t node, const struct culm_node_info *info) {
    (void)info;
    one_comes(t);
    if (node == 1) {
        watch(t);
    }
}

static void one_more_than_max_nodes_is_refused(void **state) {
    (void)state;
    char words[1024];
    test_came.count = 0;
    RUN(.start = 1, .max_nodes = 2, .on_up = next_comes, .on_timer = watch);
    refused(&t, 1, 2, "refused: the run has 2 nodes already, and max_nodes is 2");
    assert_int_equal(test_came_end(0, words, sizeof words), 1);
    test_release(&t, 0);
}

static void comes_and_is_watched(struct test *t) {
    one_comes(t);
    watch(t);
}

static void a_run_that_asks_for_none_lets_in_none(void **state) {
    (void)state;
    test_came.count = 0;
    RUN(.closed = true, .all_started = comes_and_is_watched, .on_timer = watch);
    refused(&t, 0, 0, "refused: this run starts its nodes itself");
    test_release(&t, 0);
}

static bool full(struct test *t, const struct culm_node_info *info, struct culm_error *ret_error) {
    (void)t;
    culm_error_set(ret_error, CULM_ERR_CONFIG, "'%s' is not what we need", info->name);
    return false;
}

static void the_leader_says_why_not(void **state) {
    (void)state;
    test_came.count = 0;
    RUN(.admits = full, .all_started = comes_and_is_watched, .on_timer = watch);
    refused(&t, 0, 0, "is not what we need");
    test_release(&t, 0);
}

/* --- where peers call it --- */

static void comes_next(struct test *t, int32_t node, const struct culm_node_info *info) {
    if (node == 0) {
        one_comes(t);
    } else {
        assert_int_equal(info->pid, 0); /* TCP does not tell */
        test_order(t, 0, TOY_BLAST, (struct toy_order){.node = 1, .count = 30});
        test_order(t, 1, TOY_STATUS, (struct toy_order){.node = 0});
    }
}

static void until_30(struct test *t, int32_t node, const struct toy_report *report) {
    assert_int_equal(node, 1);
    assert_int_equal(report->bad, 0);
    if (report->messages == 30) {
        test_finish(t);
    } else {
        test_order(t, 1, TOY_STATUS, (struct toy_order){.node = 0});
    }
}

static void lost_1(struct test *t, int32_t node, int32_t lost) {
    assert_int_equal(node, 0);
    assert_int_equal(lost, 1);
    test_finish(t);
}

/* A host that listens everywhere, and nodes that do; `reached`: node 0 found node 1. */
static void advertised(const char *listen, const char *advertise, bool reached) {
    char words[1024];
    test_came.count = 0;
    setenv(TOY_LISTEN, listen, 1); /* of all that are started here */
    if (advertise) {
        setenv(TOY_ADVERTISE, advertise, 1);
    }
    RUN(.listen = "tcp:0.0.0.0:0", .advertise = "tcp:127.0.0.1:0", .start = 1, .on_up = comes_next,
        .on_report = until_30, .on_lost = lost_1);
    unsetenv(TOY_LISTEN);
    unsetenv(TOY_ADVERTISE);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.losts, !reached);
    assert_int_equal(test_came_end(0, words, sizeof words), 1);
    test_release(&t, 0);
}

static void peers_call_where_it_says(void **state) {
    (void)state;
    advertised("tcp:0.0.0.0:0", NULL, true);
    advertised("tcp:0.0.0.0:0", "tcp:127.0.0.2:0", true);
    advertised("tcp:127.0.0.2:0", "tcp:127.0.0.2:0", true);
    advertised("tcp:127.0.0.2:0", "tcp:127.0.0.3:0", false); /* and nowhere else */
}

static void what_can_be_advertised(void **state) {
    (void)state;
    static const struct {
        const char *advertise, *listening, *told; /* NULL: it cannot */
    } rows[] = {
        {NULL, "tcp:127.0.0.1:7", "tcp:127.0.0.1:7"},
        {NULL, "unix:x", "unix:x"},
        {NULL, "tcp:0.0.0.0:7", NULL},
        {NULL, "tcp:[::]:7", NULL},
        {"tcp:0.0.0.0:7", "tcp:127.0.0.1:7", NULL},
        {"tcp:10.0.0.1:0", "tcp:0.0.0.0:7", "tcp:10.0.0.1:7"},
        {"tcp:10.0.0.1:8", "tcp:0.0.0.0:7", "tcp:10.0.0.1:8"},
        {"tcp:n1.example:0", "tcp:[::]:7", "tcp:n1.example:7"},
        {"unix:x", "tcp:0.0.0.0:7", NULL},
        {"tcp:10.0.0.1:8", "unix:x", NULL},
        {"10.0.0.1", "tcp:0.0.0.0:7", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char told[CULM_ADDRESS_SIZE];
        struct culm_error error = {0};
        enum culm_status status =
            culm_advertise(rows[i].advertise, rows[i].listening, told, &error);
        assert_int_equal(status, rows[i].told ? CULM_OK : CULM_ERR_CONFIG);
        if (rows[i].told) {
            assert_string_equal(told, rows[i].told);
        } else {
            assert_true(error.text[0]);
        }
    }
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
        cmocka_unit_test(one_joins_without_an_id),
        cmocka_unit_test(the_end_of_its_process_is_told),
        cmocka_unit_test(the_leader_can_end_it),
        cmocka_unit_test(what_it_declines_for_is_told),
        cmocka_unit_test(one_that_gets_on_with_nothing_is_put_out),
        cmocka_unit_test(an_id_is_for_one_that_is_ready),
        cmocka_unit_test(one_that_comes_again_and_again),
        cmocka_unit_test(a_wrong_token_is_refused),
        cmocka_unit_test(one_more_than_max_nodes_is_refused),
        cmocka_unit_test(a_run_that_asks_for_none_lets_in_none),
        cmocka_unit_test(the_leader_says_why_not),
        cmocka_unit_test(peers_call_where_it_says),
        cmocka_unit_test(what_can_be_advertised),
    };
    return cmocka_run_group_tests_name("cluster/newcomer", tests, NULL, NULL);
}
