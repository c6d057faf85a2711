/*
 * The real worlds, with toy actors in real processes: frames between workers, jobs, and the end, be
 * it of a worker, of the launcher or by a stop.
 */
#include "toy_test.h"

#include "base/file.h"
#include "net/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- the shortest run --- */

static void one_that_leaves_at_its_start(void **state) {
    (void)state;
    RUN(.leave_at_start = 5);
    assert_int_equal(t.code, 5);
    test_release(&t, 0);
}

/* --- frames --- */

static void blast_once(struct test *t) {
    test_order(t, 0, TOY_BLAST, (struct toy_order){.node = 1, .count = 200});
    t->world->ops->timer(t->world, 0, 10000000);
}

static void ask_one(struct test *t) { test_order(t, 1, TOY_STATUS, (struct toy_order){.node = 0}); }

static void until_200(struct test *t, int32_t node, const struct toy_report *report) {
    assert_int_equal(node, 1);
    assert_int_equal(report->bad, 0);
    if (report->messages == 200) {
        test_finish(t);
    } else {
        t->world->ops->timer(t->world, 0, 10000000);
    }
}

static void frames_of_every_size_arrive_whole_and_in_order(void **state) {
    (void)state;
    RUN(.start = 2, .all_up = blast_once, .on_timer = ask_one, .on_report = until_200);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.losts, 0);
    test_release(&t, 0);
}

#define MANY 200000

static void blast_many(struct test *t) {
    t->since_ns = culm_clock_ns();
    test_order(t, 0, TOY_BLAST, (struct toy_order){.node = 1, .count = MANY, .size = 1});
    ask_one(t);
}

static void until_many(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    assert_int_equal(report->bad, 0);
    if (report->messages < MANY) {
        ask_one(t);
        return;
    }
    double seconds = (double)(culm_clock_ns() - t->since_ns) / 1e9;
    print_message("%.0f messages/s from worker to worker, %d questions meanwhile\n", MANY / seconds,
                  t->reports);
    test_finish(t);
}

static void messages_a_second(void **state) {
    (void)state;
    RUN(.start = 2, .all_up = blast_many, .on_report = until_many);
    assert_int_equal(t.code, 0);
    test_release(&t, 0);
}

static void leave_talking(struct test *t) {
    test_order(t, 0, TOY_LEAVE, (struct toy_order){.count = 5, .size = 64});
    for (int i = 0; i < 5000; i++) { /* unread when it closes */
        test_order(t, 0, TOY_STATUS, (struct toy_order){0});
    }
}

static void exit_ends(struct test *t, int32_t node, const struct culm_error *why) {
    (void)node;
    (void)why;
    test_finish(t);
}

static void what_was_sent_before_a_leave_arrives(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = leave_talking, .on_exit = exit_ends);
    char log[1024];
    test_read_log(&t, 0, log, sizeof log);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.reports, 64);
    assert_non_null(strstr(log, "ends with 5"));
    test_release(&t, 0);
}

/* --- deaths --- */

static void kill_1(struct test *t) {
    test_order(t, 0, TOY_BLAST, (struct toy_order){.node = 1, .count = 5, .size = 100});
    test_order(t, 1, TOY_STATUS, (struct toy_order){.node = 0});
}

static void kill_when_5(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    if (report->messages < 5) {
        test_order(t, 1, TOY_STATUS, (struct toy_order){.node = 0});
        return;
    }
    t->since_ns = culm_clock_ns();
    kill((pid_t)t->pid[1], SIGKILL);
}

static void lost_1(struct test *t, int32_t node, int32_t lost) {
    assert_int_equal(lost, 1);
    if (node == 0) { /* 2 has never spoken to 1 and finds out when it does */
        test_order(t, 2, TOY_BLAST, (struct toy_order){.node = 1, .count = 3, .size = 9});
    }
    if (t->losts == 2 && t->exits == 1) {
        test_finish(t);
    }
}

static void exit_1(struct test *t, int32_t node, const struct culm_error *why) {
    assert_int_equal(node, 1);
    assert_null(why);
    if (t->losts == 2) {
        test_finish(t);
    }
}

static void a_kill_is_seen(void **state) {
    (void)state;
    RUN(.start = 3, .all_up = kill_1, .on_report = kill_when_5, .on_lost = lost_1,
        .on_exit = exit_1);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.losts, 2);
    assert_int_equal(t.eofs, 1);
    assert_true(t.eof_ns[1] - t.since_ns < SOON && t.exit_ns[1] - t.since_ns < SOON);
    print_message("eof after %.2f ms, exit after %.2f ms\n",
                  (double)(t.eof_ns[1] - t.since_ns) / 1e6,
                  (double)(t.exit_ns[1] - t.since_ns) / 1e6);
    test_release(&t, 0);
}

static void print_pid(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    printf("%d\n", (int)report->pid);
    if (t->reports == 3) {
        (void)culm_tree_remove(NULL, t->dir, NULL); /* nobody can when it is killed */
        fflush(stdout);
    }
}

static void ask_all(struct test *t) {
    test_order(t, 1, TOY_BUSY, (struct toy_order){0}); /* one with a job that never ends */
    for (int32_t i = 0; i < 3; i++) {
        test_order(t, i, TOY_STATUS, (struct toy_order){0});
    }
}

int toy_launcher(const char *mode) {
    bool wrapped = strcmp(mode, "wrapped") == 0; /* they are not the processes that were started */
    struct test t = {.listen = wrapped ? "tcp:127.0.0.1:0" : NULL,
                     .bad = -1,
                     .mode = mode,
                     .start = 3,
                     .all_up = ask_all,
                     .on_report = print_pid};
    test_run(&t); /* until it is killed */
    return 1;
}

static void read_pids(int fd, int64_t *pid) {
    char text[256];
    size_t len = 0;
    uint64_t deadline = culm_clock_ns() + WATCHDOG_S * SECOND;
    for (int lines = 0; lines < 3;) {
        assert_true(culm_socket_wait(fd, 1 /* POLLIN */, deadline));
        assert_int_equal(read(fd, text + len, 1), 1);
        lines += text[len++] == '\n';
    }
    text[len] = '\0';
    assert_int_equal(sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNd64, &pid[0], &pid[1], &pid[2]),
                     3);
}

/* All are gone soon after the launcher's death: none waits until it misses it. */
static void launcher_dies(const char *mode, bool freeze) {
    int out[2];
    int64_t pid[3];
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe(out), 0);
    pid_t launcher = fork();
    if (launcher == 0) {
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        execl("/proc/self/exe", "world", "launcher", mode, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    read_pids(out[0], pid);
    if (freeze) {
        assert_int_equal(kill((pid_t)pid[2], SIGSTOP), 0);
    }
    uint64_t since = culm_clock_ns();
    assert_int_equal(kill(launcher, SIGKILL), 0);
    alarm(WATCHDOG_S);
    for (;;) { /* its descendants are ours now */
        pid_t one = waitpid(-1, NULL, 0);
        if (one < 0) {
            assert_int_equal(errno, ECHILD);
            break;
        }
    }
    alarm(0);
    double ms = (double)(culm_clock_ns() - since) / 1e6;
    print_message("%s: all gone after %.1f ms\n", mode, ms);
    assert_true(ms < SOON / 1e6);
    close(out[0]);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static void workers_die_with_the_launcher(void **state) {
    (void)state;
    launcher_dies("worker", true);
}

static void workers_of_others_end_when_the_leader_is_gone(void **state) {
    (void)state;
    launcher_dies("wrapped", false);
}

static void freeze_0(struct test *t) {
    kill((pid_t)t->pid[0], SIGSTOP);
    t->since_ns = culm_clock_ns();
    test_finish(t);
}

static void a_frozen_worker_is_killed_after_the_end(void **state) {
    (void)state;
    RUN(.start = 2, .all_up = freeze_0);
    uint64_t took = culm_clock_ns() - t.since_ns;
    assert_int_equal(t.code, 0);
    assert_true(took > 3 * SECOND / 2 && took < SOON);
    test_release(&t, 0);
}

/* --- stops --- */

static void ask_to_stop(struct test *t) {
    assert_int_equal(eventfd_write(t->stop_fd, CULM_HOST_STOP), 0);
}

static void stop_asked(struct test *t) { t->world->ops->leave(t->world, 75, NULL); }

static void a_stop_is_asked_for(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = ask_to_stop, .on_stop = stop_asked);
    assert_int_equal(t.code, 75);
    test_release(&t, 0);
}

/* It is still at it when it is asked again. */
static void stops_slowly(struct test *t) {
    ask_to_stop(t);
    t->world->ops->timer(t->world, 0, 20000000);
}

static void ask_twice(struct test *t) {
    ask_to_stop(t);
    ask_to_stop(t);
}

static void a_stop_is_asked_for_once(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = ask_twice, .on_stop = stops_slowly, .on_timer = stop_asked);
    assert_int_equal(t.code, 75);
    assert_int_equal(t.stops, 1);
    test_release(&t, 0);
}

static void freeze_and_abort(struct test *t) {
    kill((pid_t)t->pid[0], SIGSTOP);
    t->since_ns = culm_clock_ns();
    ask_to_stop(t);
    assert_int_equal(eventfd_write(t->stop_fd, CULM_HOST_ABORT), 0);
}

static void nothing_is_done(struct test *t) { (void)t; }

static void an_abort_kills_all(void **state) {
    (void)state;
    /* An end in peace takes two seconds each time; a machine may be busy many times. */
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 100 && least >= SECOND; i++) {
        RUN(.start = 1, .all_up = freeze_and_abort, .on_stop = nothing_is_done);
        uint64_t took = culm_clock_ns() - t.since_ns;
        least = took < least ? took : least;
        assert_int_equal(t.code, 75);
        test_release(&t, 0);
    }
    assert_true(least < SECOND);
}

/* Whoever embeds the launcher may want these for itself. */
static void no_signal_handler_is_installed(void **state) {
    (void)state;
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction before[5], after;
    for (int i = 0; i < 5; i++) {
        sigaction(numbers[i], NULL, &before[i]);
    }
    RUN(.start = 1, .all_up = test_finish);
    assert_int_equal(t.code, 0);
    for (int i = 0; i < 5; i++) {
        sigaction(numbers[i], NULL, &after);
        assert_ptr_equal(after.sa_handler, before[i].sa_handler);
    }
    test_release(&t, 0);
}

static int handled;

static void take_the_status(int number) {
    int before = errno;
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
        handled++;
    }
    errno = before;
}

/* A program that reaps all its children leaves no status to us. */
static void an_end_that_somebody_else_reaped_is_told(void **state) {
    (void)state;
    const struct sigaction action = {.sa_handler = take_the_status, .sa_flags = SA_RESTART};
    struct sigaction before;
    handled = 0;
    sigaction(SIGCHLD, &action, &before);
    RUN(.start = 2, .all_up = test_finish);
    sigaction(SIGCHLD, &before, NULL);
    assert_int_equal(t.code, 0);
    assert_int_equal(handled, 2);
    test_release(&t, 0);
}

/* --- jobs --- */

static void jobs_0(struct test *t) { test_order(t, 0, TOY_JOBS, (struct toy_order){.count = 30}); }

static void jobs_report(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    assert_int_equal(report->bad, 0);
    assert_int_equal(report->jobs, 60);
    assert_true(report->ticks >= 5);
    test_finish(t);
}

static void jobs_run_in_order_beside_the_loop(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = jobs_0, .on_report = jobs_report);
    assert_int_equal(t.code, 0);
    test_release(&t, 0);
}

static void busy_and_leave(struct test *t) {
    test_order(t, 0, TOY_BUSY, (struct toy_order){0});
    test_order(t, 0, TOY_LEAVE, (struct toy_order){.count = 7});
    t->since_ns = culm_clock_ns();
}

static void a_job_that_hangs_does_not_keep_the_process(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = busy_and_leave, .on_exit = exit_ends);
    assert_int_equal(t.code, 0);
    assert_true(t.exit_ns[0] - t.since_ns < SOON);
    test_release(&t, 0);
}

int main(int argc, char **argv) {
    setenv("TSAN_OPTIONS", "atexit_sleep_ms=0", 0); /* workers inherit it; 2 s are 2 s */
    if (argc > 1) {
        return toy_main(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_leaves_at_its_start),
        cmocka_unit_test(frames_of_every_size_arrive_whole_and_in_order),
        cmocka_unit_test(messages_a_second),
        cmocka_unit_test(what_was_sent_before_a_leave_arrives),
        cmocka_unit_test(a_kill_is_seen),
        cmocka_unit_test(workers_die_with_the_launcher),
        cmocka_unit_test(workers_of_others_end_when_the_leader_is_gone),
        cmocka_unit_test(a_frozen_worker_is_killed_after_the_end),
        cmocka_unit_test(a_stop_is_asked_for),
        cmocka_unit_test(a_stop_is_asked_for_once),
        cmocka_unit_test(an_abort_kills_all),
        cmocka_unit_test(no_signal_handler_is_installed),
        cmocka_unit_test(an_end_that_somebody_else_reaped_is_told),
        cmocka_unit_test(jobs_run_in_order_beside_the_loop),
        cmocka_unit_test(a_job_that_hangs_does_not_keep_the_process),
    };
    return cmocka_run_group_tests_name("cluster/world", tests, NULL, NULL);
}
