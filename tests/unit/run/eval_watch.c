/*
 * Evaluation beside training: which checkpoints are evaluated when they come faster than that.
 *
 * The watch starts its own program as `culm eval`, which is this one: as such it waits until the
 * test opens the pipe DIR/go, and answers with its checkpoint's name.
 */
#include "../folder.h"

#include "run/eval_watch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* culm eval DIR --weights CHECKPOINT ... */
static int evaluate(char **argv) {
    char path[CULM_PATH_MAX];
    struct sigaction pipe_action;
    sigset_t blocked;
    sigaction(SIGPIPE, NULL, &pipe_action);
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    printf("{\"name\": \"x\", \"checkpoint\": \"%s\", \"loss\": 1.5, \"ignored\": %d, \"blocked\": "
           "%d, \"deaf\": %d}\n",
           strrchr(argv[4], '/') + 1, pipe_action.sa_handler == SIG_IGN,
           sigismember(&blocked, SIGCHLD), sigismember(&blocked, SIGTERM));
    fflush(stdout); /* it has begun */
    snprintf(path, sizeof path, "%s/go", argv[2]);
    int go = open(path, O_RDONLY);
    return go >= 0 ? close(go) : 1;
}

/* Lets the evaluation that runs end. */
static void let_end(void) {
    char path[CULM_PATH_MAX];
    snprintf(path, sizeof path, "%s/go", folder);
    int go = open(path, O_WRONLY);
    assert_true(go >= 0);
    close(go);
}

static void checkpoint(struct culm_eval_watch *watch, int step) {
    char path[CULM_PATH_MAX];
    snprintf(path, sizeof path, "%s/checkpoints/step-%08d", folder, step);
    assert_int_equal(mkdir(path, 0755), 0);
    json_t *event = json_pack("{s:s, s:i, s:s, s:b}", "event", "checkpoint", "step", step, "path",
                              path, "ok", 1);
    culm_eval_watch_event(watch, event);
    json_decref(event);
}

static void drop(int step) {
    char path[CULM_PATH_MAX];
    snprintf(path, sizeof path, "%s/checkpoints/step-%08d", folder, step);
    assert_int_equal(rmdir(path), 0);
}

static void ends(struct culm_eval_watch *watch, int step) {
    char wanted[32];
    snprintf(wanted, sizeof wanted, "step-%08d", step);
    let_end();
    json_t *event = culm_eval_watch_result(watch, true);
    assert_non_null(event);
    assert_int_equal(json_integer_value(json_object_get(event, "step")), step);
    assert_true(json_is_true(json_object_get(event, "ok")));
    assert_string_equal(json_string_value(json_object_get(event, "checkpoint")), wanted);
    json_decref(event);
}

static void test_newest_waits(void **state) {
    (void)state;
    struct culm_eval_watch watch = {
        .last = 13, .every = 2, .dir = folder, .program = "/proc/self/exe"};
    assert_null(culm_eval_watch_result(&watch, true));
    checkpoint(&watch, 1); /* not due */
    assert_int_equal(watch.pid, 0);
    checkpoint(&watch, 2);
    checkpoint(&watch, 4);
    checkpoint(&watch, 6);
    checkpoint(&watch, 7); /* not due */
    assert_null(culm_eval_watch_result(&watch, false));
    ends(&watch, 2);
    assert_true(watch.pid > 0); /* without an event */
    ends(&watch, 6);
    assert_int_equal(watch.pid, 0);
    assert_null(culm_eval_watch_result(&watch, true));
    checkpoint(&watch, 8);
    checkpoint(&watch, 13); /* the last step is due */
    ends(&watch, 8);
    ends(&watch, 13);
    assert_null(culm_eval_watch_result(&watch, true));
}

static void test_removed(void **state) {
    (void)state;
    struct culm_eval_watch watch = {
        .last = 50, .every = 20, .dir = folder, .program = "/proc/self/exe"};
    checkpoint(&watch, 20);
    checkpoint(&watch, 40);
    drop(40);
    ends(&watch, 20);
    assert_null(culm_eval_watch_result(&watch, true));
}

/* A checkpoint that is evaluated may be removed meanwhile: the evaluation has its files until it ends. */
static void test_held(void **state) {
    (void)state;
    struct culm_eval_watch watch = {
        .last = 50, .every = 30, .dir = folder, .program = "/proc/self/exe"};
    char path[CULM_PATH_MAX], held[CULM_PATH_MAX], *text = NULL;
    size_t len;
    snprintf(path, sizeof path, "%s/checkpoints/step-%08d", folder, 30);
    snprintf(held, sizeof held, "%s/logs/evaluated/step-%08d/piece", folder, 30);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/checkpoints/step-%08d/piece", folder, 30);
    assert_int_equal(culm_file_replace(NULL, path, "weights", 7, NULL), CULM_OK);
    json_t *event = json_pack("{s:s, s:i, s:b}", "event", "checkpoint", "step", 30, "ok", 1);
    culm_eval_watch_event(&watch, event);
    json_decref(event);
    assert_int_equal(culm_file_remove(NULL, path, NULL), CULM_OK);
    drop(30);
    assert_int_equal(culm_file_read(NULL, held, 100, &text, &len, NULL), CULM_OK);
    assert_string_equal(text, "weights");
    free(text);
    ends(&watch, 30);
    snprintf(held, sizeof held, "%s/logs/evaluated", folder);
    assert_false(culm_file_is_directory(held));
}

/* What the launcher is to itself, it does not hand on: what it ignores and holds back. What ends runs
 * it hears for the evaluation, too. */
static void test_clean_start(void **state) {
    (void)state;
    struct culm_eval_watch watch = {
        .last = 100, .every = 60, .dir = folder, .program = "/proc/self/exe"};
    sigset_t children, before;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, &before);
    signal(SIGPIPE, SIG_IGN);
    checkpoint(&watch, 60);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    let_end();
    json_t *event = culm_eval_watch_result(&watch, true);
    assert_int_equal(json_integer_value(json_object_get(event, "ignored")), 0);
    assert_int_equal(json_integer_value(json_object_get(event, "blocked")), 0);
    assert_int_equal(json_integer_value(json_object_get(event, "deaf")), 1);
    json_decref(event);
}

static void test_stop(void **state) {
    (void)state;
    struct culm_eval_watch watch = {
        .last = 200, .every = 61, .dir = folder, .program = "/proc/self/exe"};
    culm_eval_watch_stop(&watch); /* nothing runs */
    checkpoint(&watch, 61);
    checkpoint(&watch, 122);
    pid_t pid = watch.pid;
    assert_int_equal(kill(pid, 0), 0);
    culm_eval_watch_stop(&watch);
    assert_int_equal(kill(pid, 0), -1); /* it is reaped, and so no zombie either */
    assert_null(culm_eval_watch_result(&watch, true));
}

static void keep_told(void *context, json_t *event, const json_t *next) {
    (void)next;
    json_t **told = context;
    assert_null(*told);
    *told = json_incref(event);
}

/* The end of a run waits for an evaluation, and the event says for how long; another one does not. */
static void test_waited(void **state) {
    (void)state;
    struct culm_eval_watch watch = {
        .last = 500, .every = 64, .dir = folder, .program = "/proc/self/exe"};
    json_t *step = json_pack("{s:s, s:i}", "event", "step", "step", 300);
    json_t *done = json_pack("{s:s}", "event", "done"), *told = NULL;
    siginfo_t ended;
    checkpoint(&watch, 64);
    culm_eval_watch_before(&watch, step, keep_told, &told);
    assert_null(told);
    let_end();
    assert_int_equal(waitid(P_PID, (id_t)watch.pid, &ended, WEXITED | WNOWAIT), 0);
    culm_eval_watch_before(&watch, step, keep_told, &told);
    assert_non_null(told);
    assert_null(json_object_get(told, "waited_ms"));
    json_decref(told);
    told = NULL;
    checkpoint(&watch, 128);
    let_end();
    culm_eval_watch_before(&watch, done, keep_told, &told);
    assert_true(json_number_value(json_object_get(told, "waited_ms")) > 0);
    json_decref(told);
    json_decref(step);
    json_decref(done);
}

/* Whoever watches may be killed at any time. */
static void test_death_of_the_launcher(void **state) {
    (void)state;
    struct culm_eval_watch watch = {
        .last = 200, .every = 63, .dir = folder, .program = "/proc/self/exe"};
    int ends[2], status;
    pid_t evaluation = 0;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* the evaluation becomes ours */
    assert_int_equal(pipe(ends), 0);
    pid_t launcher = fork();
    if (launcher == 0) {
        checkpoint(&watch, 63);
        struct stat begun = {0};
        while (begun.st_size == 0) {
            stat(watch.output, &begun);
        }
        bool told = write(ends[1], &watch.pid, sizeof watch.pid) == sizeof watch.pid;
        kill(getpid(), told ? SIGKILL : SIGABRT);
    }
    assert_int_equal(waitpid(launcher, &status, 0), launcher);
    assert_int_equal(read(ends[0], &evaluation, sizeof evaluation), sizeof evaluation);
    alarm(600); /* ends the test when nothing ends the evaluation */
    assert_int_equal(waitpid(evaluation, &status, 0), evaluation);
    alarm(0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(ends[0]);
    close(ends[1]);
}

static int begin(void **state) {
    char path[CULM_PATH_MAX];
    if (make_folder(state)) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/go", folder);
    if (mkfifo(path, 0600) != 0) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    if (mkdir(path, 0755) != 0) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/logs", folder);
    return mkdir(path, 0755);
}

int main(int argc, char **argv) {
    if (argc > 4 && strcmp(argv[1], "eval") == 0) {
        return evaluate(argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newest_waits),
        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_clean_start),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_waited),
        cmocka_unit_test(test_death_of_the_launcher),
    };
    return cmocka_run_group_tests_name("run/eval_watch", tests, begin, drop_folder);
}
