/*
 * What can go wrong in the real worlds, with toy actors in real processes: refusals, failed starts,
 * faults inside workers, preemption traces.
 */
#include "toy_test.h"

#include "net/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

int toy_launcher(const char *mode) {
    (void)mode;
    return 2;
}

/* --- refusals --- */

static void end_of_bad(struct test *t, int32_t node, const struct culm_error *why) {
    (void)why;
    assert_int_equal(node, t->bad);
    test_finish(t);
}

static void a_wrong_token_is_refused(void **state) {
    (void)state;
    RUN(.start = 1, .bad = 0, .bad_token = "nonsense", .on_exit = end_of_bad);
    char log[1024];
    test_read_log(&t, 0, log, sizeof log);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.ups, 0);
    assert_non_null(strstr(log, "wrong token: that address belongs to another run"));
    assert_non_null(strstr(t.error_text, "node 0: ended with exit code 1 before it joined"));
    assert_non_null(strstr(t.error_text, "wrong token"));
    test_release(&t, 0);
}

static void another_signature_is_refused(void **state) {
    (void)state;
    RUN(.start = 2, .bad = 1, .bad_signature = "other", .on_exit = end_of_bad);
    assert_int_equal(t.code, 0);
    assert_false(t.up[1]);
    assert_int_equal(t.error_events, 1);
    assert_non_null(strstr(t.error_text, "node 1 has the signature 'other', not 'sig'"));
    test_release(&t, 0);
}

static void declined(struct test *t, int32_t node, const struct culm_error *why) {
    (void)node;
    assert_non_null(why);
    assert_int_equal(why->status, CULM_ERR_CHANGED);
    assert_string_equal(why->text, "'x' is not what it was");
    if (t->exits < 3) {
        t->agent->ops->start(t->agent, ROLE); /* told once, however often it happens */
    } else {
        test_finish(t);
    }
}

static void one_that_declines_says_why(void **state) {
    (void)state;
    RUN(.mode = "decline", .start = 1, .on_exit = declined);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.ups, 0);
    assert_int_equal(t.error_events, 1);
    assert_string_equal(t.error_text, "node 0: 'x' is not what it was");
    test_release(&t, 0);
}

static void end_when_up(struct test *t) { test_finish(t); }

static void end_of_slow(struct test *t, int32_t node, const struct culm_error *why) {
    (void)node;
    (void)why;
    test_finish(t);
}

/* It takes longer than the limit for its silence. One that is not heard is ended each time; a machine may be so busy
 * that it is not heard in time, many times. */
static void one_that_prepares_for_long_joins(void **state) {
    (void)state;
    bool joined = false;
    for (int i = 0; i < 10 && !joined; i++) {
        RUN(.mode = "slow", .start = 1, .start_limit_ms = 3000, .all_up = end_when_up,
            .on_exit = end_of_slow);
        joined = t.ups == 1;
        assert_int_equal(t.code, 0);
        if (joined) {
            assert_int_equal(t.error_events, 0);
        } else {
            assert_non_null(strstr(t.error_text, " 3000 ms")); /* of silence, or until it began */
            assert_non_null(strstr(t.error_text, ", and is killed"));
        }
        test_release(&t, 0);
    }
    assert_true(joined);
}

static void end_of_one(struct test *t, int32_t node, const struct culm_error *why) {
    (void)node;
    assert_non_null(strstr(why->text, ", and is killed"));
    test_finish(t);
}

static void one_that_prepares_without_getting_on_is_ended(void **state) {
    (void)state;
    bool late = true; /* on a busy machine it may not have begun to prepare by then */
    for (int64_t limit_ms = 700; late && limit_ms <= 200000; limit_ms *= 2) {
        char want[80];
        RUN(.mode = "asleep", .start = 1, .start_limit_ms = limit_ms, .on_exit = end_of_one);
        snprintf(want, sizeof want,
                 "node 0: was silent for %lld ms while it prepared, and is killed",
                 (long long)limit_ms);
        assert_int_equal(t.code, 0);
        assert_int_equal(t.ups, 0);
        late = strstr(t.error_text, "did not join within");
        if (!late) {
            assert_string_equal(t.error_text, want);
        }
        test_release(&t, 0);
    }
    assert_false(late);
}

static int visit(struct test *t) {
    int fd;
    assert_int_equal(culm_socket_connect(culm_host_address(t->host), &fd, NULL), CULM_OK);
    assert_true(culm_socket_wait(fd, 4 /* POLLOUT */, culm_clock_ns() + WATCHDOG_S * SECOND));
    t->pid[7] = fd;
    t->since_ns = culm_clock_ns();
    t->world->ops->timer(t->world, 0, 1000000);
    return fd;
}

static void knock(struct test *t) {
    assert_true(send(visit(t), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, MSG_NOSIGNAL) == 27);
}

static void visit_in_silence(struct test *t) { (void)visit(t); }

static void until_closed(struct test *t) {
    char byte;
    ssize_t got = recv((int)t->pid[7], &byte, 1, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
        t->world->ops->timer(t->world, 0, 1000000);
        return;
    }
    close((int)t->pid[7]);
    test_order(t, 0, TOY_STATUS, (struct toy_order){0});
}

static void report_ends(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    assert_int_equal(report->bad, 0);
    test_finish(t);
}

static void garbage_harms_nobody(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = knock, .on_timer = until_closed, .on_report = report_ends);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.eofs, 0);
    test_release(&t, 0);
}

static void a_silent_connection_is_shown_out(void **state) {
    (void)state;
    RUN(.start = 1, .hello_limit_ms = 300, .all_up = visit_in_silence, .on_timer = until_closed,
        .on_report = report_ends);
    uint64_t took = culm_clock_ns() - t.since_ns;
    assert_int_equal(t.code, 0);
    assert_true(took > 3 * SECOND / 10 && took < SOON);
    test_release(&t, 0);
}

static void a_silent_start_is_ended(void **state) {
    (void)state;
    uint64_t since = culm_clock_ns();
    RUN(.start = 1, .bad = 0, .mode = "silent", .start_limit_ms = 300, .on_exit = end_of_bad);
    assert_int_equal(t.code, 0);
    assert_true(culm_clock_ns() - since < SOON);
    assert_int_equal(t.error_events, 1);
    assert_non_null(strstr(t.error_text, "node 0: did not join within 300 ms, and is killed"));
    test_release(&t, 0);
}

static void start_again(struct test *t, int32_t node, const struct culm_error *why) {
    (void)why;
    if (node < 3) {
        t->agent->ops->start(t->agent, ROLE);
    } else {
        test_finish(t);
    }
}

static void the_same_failure_is_told_once(void **state) {
    (void)state;
    RUN(.start = 1, .mode = "nonsense", .exe = "/bin/false", .on_exit = start_again);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.exits, 4);
    assert_int_equal(t.error_events, 1);
    assert_non_null(strstr(t.error_text, "node 0: ended with exit code 1 before it joined"));
    test_release(&t, 0);
}

static void wait_on(struct test *t, int32_t node, const struct culm_error *why) {
    (void)node;
    (void)why;
    t->world->ops->timer(t->world, 0, (uint64_t)t->start_limit_ms * SECOND / 1000 * 7 / 6);
}

/* Its end is told; that it did not join either, is not, when start_limit_ms have passed. A busy machine may take longer
 * to start it: then it is tried with more. */
static void an_end_before_the_hello_is_told_once(void **state) {
    (void)state;
    bool late = true;
    for (int64_t limit_ms = 1000; late && limit_ms <= 200000; limit_ms *= 3) {
        RUN(.start = 1, .mode = "nonsense", .exe = "/bin/false", .start_limit_ms = limit_ms,
            .on_exit = wait_on, .on_timer = test_finish);
        assert_int_equal(t.code, 0);
        assert_int_equal(t.error_events, 1);
        late = strstr(t.error_text, "did not join within");
        assert_true(late ||
                    strstr(t.error_text, "node 0: ended with exit code 1 before it joined"));
        test_release(&t, 0);
    }
    assert_false(late);
}

static void a_log_that_cannot_be_written_is_told(void **state) {
    (void)state;
    RUN(.start = 1, .bad = 0, .log_dir = "/nonexistent", .on_exit = end_of_bad);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.error_events, 1);
    assert_non_null(strstr(t.error_text, "node 0: open '/nonexistent/node-0.log': No such file"));
    test_release(&t, 0);
}

static void an_impossible_start_is_told(void **state) {
    (void)state;
    RUN(.start = 1, .bad = 0, .exe = "/nonexistent/worker", .on_exit = end_of_bad);
    assert_int_equal(t.code, 0);
    assert_non_null(strstr(t.error_text, "start '/nonexistent/worker'"));
    test_release(&t, 0);
}

/* --- floods --- */

#define CALLERS 20
#define FLOOD 1100 /* more than a leader keeps */

static int flood[FLOOD];

static void knock_often(struct test *t) {
    for (int i = 0; i < FLOOD; i++) {
        assert_int_equal(culm_socket_connect(culm_host_address(t->host), &flood[i], NULL), CULM_OK);
    }
    t->agent->ops->start(t->agent, ROLE);
}

static void up_ends(struct test *t, int32_t node, const struct culm_node_info *info) {
    (void)info;
    if (node == 1) {
        test_finish(t);
    }
}

static void a_worker_gets_in_through_a_crowd(void **state) {
    (void)state;
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    RUN(.start = 1, .all_up = knock_often, .on_up = up_ends, .on_exit = end_of_bad, .bad = 1);
    assert_int_equal(t.code, 0);
    assert_true(t.up[1]);
    for (int i = 0; i < FLOOD; i++) {
        close(flood[i]);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    test_release(&t, 0);
}

/* The system has no descriptor left for whom the leader awaits: an unknown connection makes room. */
static void knock_until_full(struct test *t) {
    struct rlimit limit;
    int next = dup(0);
    assert_true(next > 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(culm_socket_connect(culm_host_address(t->host), &flood[i], NULL), CULM_OK);
    }
    t->agent->ops->start(t->agent, ROLE);
    /* What is open stays; half of the callers find room, and the worker does when one of them goes.
     */
    limit.rlim_cur = (rlim_t)(next + CALLERS + CALLERS / 2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void a_worker_gets_in_without_descriptors(void **state) {
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    uint64_t since = culm_clock_ns();
    RUN(.start = 1, .all_up = knock_until_full, .on_up = up_ends, .on_exit = end_of_bad, .bad = 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(t.code, 0);
    assert_true(t.up[1]);
    assert_true(culm_clock_ns() - since < SOON); /* not because they ran out of time */
    int shown_out = 0;
    for (int i = 0; i < CALLERS; i++) {
        char byte;
        shown_out += recv(flood[i], &byte, 1, MSG_DONTWAIT) == 0;
        close(flood[i]);
    }
    assert_in_range(shown_out, 1, CALLERS);
    test_release(&t, 0);
}

/* --- one who knows the token --- */

static pid_t impostor;

/* It calls as node 0, which was started and has not come yet. */
static void start_impostor(struct test *t) {
    impostor = fork();
    assert_true(impostor >= 0);
    if (impostor == 0) { /* a program of its own: threads and fork do not go together */
        (void)!freopen("/dev/null", "w", stderr);
        execv("/proc/self/exe", toy_argv("worker", TOY_TOKEN, "sig", 0, "impostor",
                                         culm_host_address(t->host), -1, NULL));
        _exit(127);
    }
    t->world->ops->timer(t->world, 0, SECOND / 100);
}

static void impostor_ends(struct test *t) {
    int status;
    pid_t ended = waitpid(impostor, &status, WNOHANG);
    if (ended == 0) {
        t->world->ops->timer(t->world, 0, SECOND / 100);
        return;
    }
    assert_int_equal(ended, impostor);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1); /* refused */
    test_finish(t);
}

static void nobody_takes_an_awaited_place(void **state) {
    (void)state;
    RUN(.start = 1, .mode = "silent", .all_started = start_impostor, .on_timer = impostor_ends);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.ups, 0);
    assert_non_null(strstr(t.error_text, "node 0 is process"));
    test_release(&t, 0);
}

/* --- a process that does not end --- */

/* It does not end by itself: a sanitizer would look for leaks then, which it cannot while traced.
 */
static void leave_with_one(struct test *t) {
    kill((pid_t)t->pid[0], SIGSTOP);
    t->since_ns = culm_clock_ns();
    test_finish(t);
}

static void one_that_survives_a_kill_is_left_behind(void **state) {
    (void)state;
    RUN(.start = 1, .mode = "undead", .all_up = leave_with_one);
    uint64_t took = culm_clock_ns() - t.since_ns;
    char log[1024];
    int helper = 0;
    test_read_log(&t, 0, log, sizeof log);
    assert_int_equal(t.code, 0);
    if (strstr(log, "no tracing here")) {
        print_message("a process cannot be traced here\n");
        test_release(&t, 0);
        skip();
    }
    assert_int_equal(sscanf(log, "held by %d", &helper), 1);
    assert_true(took < SOON);
    assert_int_equal(t.error_events, 1);
    assert_non_null(strstr(t.error_text, "node 0 does not end although it was killed"));
    assert_int_equal(kill((pid_t)helper, SIGKILL), 0); /* lets it go */
    assert_int_equal(waitpid((pid_t)t.pid[0], NULL, 0), t.pid[0]);
    test_release(&t, 0);
}

/* --- faults --- */

static void blast_and_tear(struct test *t) {
    test_order(t, 0, TOY_BLAST,
               (struct toy_order){.node = 1,
                                  .count = 10,
                                  .size = 300001,
                                  .phase = TOY_PHASE_SEND,
                                  .step = 3,
                                  .fault_at = 6});
}

static void ask_one(struct test *t) { test_order(t, 1, TOY_STATUS, (struct toy_order){.node = 0}); }

static void ask_after_loss(struct test *t, int32_t node, int32_t lost) {
    assert_int_equal(node, 1);
    assert_int_equal(lost, 0);
    ask_one(t);
}

static void five_whole(struct test *t, int32_t node, const struct toy_report *report) {
    assert_int_equal(node, 1);
    assert_int_equal(report->messages, 5);
    assert_int_equal(report->bad, 0);
    test_finish(t);
}

static void a_torn_frame_is_never_delivered(void **state) {
    (void)state;
    RUN(.start = 2, .fault = "0,4,3,-1,0", .host_fault = {0, "toy", CULM_HOW_KILL, 0},
        .all_up = blast_and_tear, .on_lost = ask_after_loss, .on_report = five_whole);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.reports, 1);
    test_release(&t, 1);
}

static void tear_and_ask(struct test *t) {
    t->since_ns = culm_clock_ns();
    blast_and_tear(t);
    ask_one(t);
}

static void until_10(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    assert_int_equal(report->bad, 0);
    if (report->messages < 10) {
        ask_one(t);
    } else {
        assert_true(culm_clock_ns() - t->since_ns > SECOND / 5);
        test_finish(t);
    }
}

static void a_frame_torn_by_a_freeze_is_mended_by_the_thaw(void **state) {
    (void)state;
    RUN(.start = 2, .fault = "0,4,3,-1,1", .host_fault = {0, "toy", CULM_HOW_STOP, 200},
        .all_up = tear_and_ask, .on_report = until_10);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.losts, 0);
    test_release(&t, 1);
}

static void pass_many(struct test *t) {
    t->since_ns = culm_clock_ns();
    for (int64_t step = 1; step < 6; step++) {
        test_order(t, 0, TOY_FAULT, (struct toy_order){.phase = TOY_PHASE_LOOP, .step = step});
        test_order(t, 0, TOY_FAULT, (struct toy_order){.phase = TOY_PHASE_OTHER, .step = 3});
        test_order(t, 0, TOY_FAULT, (struct toy_order){.phase = TOY_PHASE_LOOP, .step = 3});
    }
    test_order(t, 0, TOY_STATUS, (struct toy_order){0});
}

static void thawed(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    (void)report;
    uint64_t took = culm_clock_ns() - t->since_ns;
    assert_true(took > SECOND / 3 && took < SOON);
    test_finish(t);
}

static void a_fault_fires_once_and_a_freeze_is_thawed(void **state) {
    (void)state;
    RUN(.start = 2, .fault = "0,5,3,0,1", .host_fault = {0, "toy", CULM_HOW_STOP, 400},
        .all_up = pass_many, .on_report = thawed);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.eofs, 0);
    test_release(&t, 1);
}

static void report_then_fault(struct test *t) {
    test_order(t, 0, TOY_STATUS, (struct toy_order){0});
    test_order(t, 0, TOY_FAULT_JOB, (struct toy_order){.phase = TOY_PHASE_JOB, .step = 3});
}

static void exit_after_fault(struct test *t, int32_t node, const struct culm_error *why) {
    (void)why;
    assert_int_equal(node, 0);
    assert_int_equal(t->reports, 1);
    assert_int_equal(t->fault_events, 1);
    test_finish(t);
}

static void a_fault_on_the_compute_thread(void **state) {
    (void)state;
    for (int how = 0; how < 3; how += 2) { /* kill, exit */
        const char *const spec = how ? "0,1,3,-1,2" : "0,1,3,-1,0";
        RUN(.start = 1, .fault = spec, .host_fault = {0, "toy", CULM_HOW_KILL, 0},
            .all_up = report_then_fault, .on_exit = exit_after_fault);
        assert_int_equal(t.code, 0);
        test_release(&t, 1);
    }
}

/* The loop does not turn from the order to the event. */
static void freeze_and_publish(struct test *t) {
    siginfo_t info = {0};
    test_order(t, 0, TOY_FAULT, (struct toy_order){.phase = TOY_PHASE_LOOP, .step = 3});
    assert_int_equal(waitid(P_PID, (id_t)t->pid[0], &info, WSTOPPED | WNOWAIT), 0);
    t->world->ops->publish(t->world, json_pack("{s:s, s:i}", "event", "lost", "view", 7));
    test_finish(t);
}

static void lost_after_fault(struct test *t, const char *name) {
    if (!strcmp(name, "lost")) {
        assert_int_equal(t->fault_events, 1);
    }
}

static void a_fault_is_told_before_what_comes_of_it(void **state) {
    (void)state;
    RUN(.start = 1, .fault = "0,5,3,-1,1", .host_fault = {0, "toy", CULM_HOW_STOP, 1},
        .all_up = freeze_and_publish, .on_event = lost_after_fault);
    assert_int_equal(t.code, 0);
    test_release(&t, 1);
}

/* --- traces --- */

static void trace_up(struct test *t, int32_t node, const struct culm_node_info *info) {
    (void)node;
    if (!strcmp(info->name, "c")) {
        assert_in_range(t->removes, 0, 2); /* it may start slower than the second is removed */
        assert_true(t->exited[0] || t->exited[1]); /* there is room for two */
    } else if (!strcmp(info->name, "e")) {
        test_finish(t);
    }
}

static void trace_removes(struct test *t, int32_t node) {
    assert_true(node == t->removes - 1 || (node == 1 && t->removes == 1));
}

/* On a busy machine one may be removed before it has joined, which only exits, or be overtaken by one that is added later:
 * then it is tried again, and the trace takes twice as long. */
static void a_trace_is_replayed_with_a_queue(void **state) {
    (void)state;
    bool whole = false;
    for (double scale = 8; !whole && scale >= 0.1; scale /= 2) {
        uint64_t since = culm_clock_ns();
        RUN(.trace_text = "0,add,a\n0,add,b\n0,add,c\n10,add,d\n4000,remove,d\n8000,remove,a\n"
                          "16000,remove,b\n16000,add,e\n",
            .time_scale = scale, .max_nodes = 2, .on_up = trace_up, .on_removed = trace_removes);
        uint64_t took = culm_clock_ns() - since;
        assert_int_equal(t.code, 0);
        whole = t.removes == 2 && (!strcmp(t.names, "a b c e ") || !strcmp(t.names, "b a c e "));
        assert_int_equal(t.exits, 2);
        assert_true(whole || t.removes < 2 || !strcmp(t.names, "a b e ") ||
                    !strcmp(t.names, "b a e "));
        assert_true((double)took >= 16 * (double)SECOND / scale);
        test_release(&t, 0);
    }
    assert_true(whole);
}

static void not_removed(struct test *t, int32_t node) {
    (void)t;
    fail_msg("node %d was removed", (int)node);
}

static void one_removed_before_it_joined_only_exits(void **state) {
    (void)state;
    RUN(.trace_text = "0,add,a\n300,remove,a\n", .max_nodes = 1, .bad = 0, .mode = "silent",
        .on_removed = not_removed, .on_exit = end_of_bad);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.error_events, 0);
    test_release(&t, 0);
}

int main(int argc, char **argv) {
    setenv("TSAN_OPTIONS", "atexit_sleep_ms=0", 0); /* workers inherit it; 2 s are 2 s */
    if (argc > 1) {
        return toy_main(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_token_is_refused),
        cmocka_unit_test(another_signature_is_refused),
        cmocka_unit_test(one_that_declines_says_why),
        cmocka_unit_test(one_that_prepares_for_long_joins),
        cmocka_unit_test(one_that_prepares_without_getting_on_is_ended),
        cmocka_unit_test(garbage_harms_nobody),
        cmocka_unit_test(a_silent_connection_is_shown_out),
        cmocka_unit_test(a_silent_start_is_ended),
        cmocka_unit_test(the_same_failure_is_told_once),
        cmocka_unit_test(an_end_before_the_hello_is_told_once),
        cmocka_unit_test(a_log_that_cannot_be_written_is_told),
        cmocka_unit_test(an_impossible_start_is_told),
        cmocka_unit_test(a_worker_gets_in_through_a_crowd),
        cmocka_unit_test(a_worker_gets_in_without_descriptors),
        cmocka_unit_test(nobody_takes_an_awaited_place),
        cmocka_unit_test(one_that_survives_a_kill_is_left_behind),
        cmocka_unit_test(a_torn_frame_is_never_delivered),
        cmocka_unit_test(a_frame_torn_by_a_freeze_is_mended_by_the_thaw),
        cmocka_unit_test(a_fault_fires_once_and_a_freeze_is_thawed),
        cmocka_unit_test(a_fault_on_the_compute_thread),
        cmocka_unit_test(a_fault_is_told_before_what_comes_of_it),
        cmocka_unit_test(a_trace_is_replayed_with_a_queue),
        cmocka_unit_test(one_removed_before_it_joined_only_exits),
    };
    return cmocka_run_group_tests_name("cluster/faults", tests, NULL, NULL);
}
