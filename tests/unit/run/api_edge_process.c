/* Edges in a process that does other things: two at once, threads that post while one ends, and the
 * process's own signals. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api_edge.h"

/* --- several at once --- */

struct poster {
    struct culm_edge *edge;
    int64_t shift;
    int failed;
};

/* No assertions here, which are for the thread of the test. */
static void *post_many(void *arg) {
    struct poster *it = arg;
    struct culm_error own;
    struct culm_edge_answer answer = {.size = sizeof answer};
    uint8_t pixels[SIDE * SIDE * 3];
    const struct culm_picture picture = {
        .size = sizeof picture, .pixels = pixels, .width = SIDE, .height = SIDE, .channels = 3};
    for (int64_t i = 0; i < 20 && !it->failed; i++) {
        int64_t frame;
        paint_square(pixels, i + it->shift);
        it->failed = culm_edge_post(it->edge, "hall", &picture, &frame, &own) || frame != i;
        for (int q = 0; q < 2 && !it->failed; q++) {
            it->failed = culm_edge_take_answer(it->edge, -1, &answer, &own) || answer.frame != i ||
                         answer.prediction->count != 1 ||
                         (answer.prediction->box[0].x > 2) != ((i + it->shift) % 2 == 1);
        }
    }
    return NULL;
}

static void two_runs_in_one_process(void **state) {
    (void)state;
    make_detector();
    const struct culm_edge_options one = usual("run-one"), two = usual("run-two");
    struct poster poster[2] = {{.edge = start_edge(WORKLOAD, &one)},
                               {.edge = start_edge(WORKLOAD, &two), .shift = 1}};
    struct culm_edge *same = open_edge(WORKLOAD, &one);
    FAILS(CULM_ERR_EXISTS, culm_edge_start(same, &error)); /* the folder is the first one's */
    assert_non_null(strstr(error.text, "run-one"));
    culm_edge_close(same);
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, post_many, &poster[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(poster[i].failed, 0);
    }
    for (int i = 0; i < 2; i++) {
        culm_edge_close(poster[i].edge);
    }
}

static void *post_until_closed(void *arg) {
    struct culm_edge *edge = arg;
    static const uint8_t black[SIDE * SIDE * 3];
    const struct culm_picture picture = {
        .size = sizeof picture, .pixels = black, .width = SIDE, .height = SIDE, .channels = 3};
    enum culm_status status = CULM_OK;
    while (status == CULM_OK || status == CULM_ERR_AGAIN) { /* too many at once */
        status = culm_edge_post(edge, "hall", &picture, NULL, NULL);
        sched_yield();
    }
    return status == CULM_ERR_CLOSED ? NULL : edge;
}

/* It ends while other threads post, and is closed with frames and answers that nobody has taken. */
static void closed_with_frames_in_flight(void **state) {
    (void)state;
    make_detector();
    const struct culm_edge_options options = usual("run");
    for (int turn = 0; turn < 3; turn++) {
        struct culm_edge *edge = start_edge(WORKLOAD, &options);
        struct culm_edge_answer answer = {.size = sizeof answer};
        pthread_t thread[2];
        void *failed;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&thread[i], NULL, post_until_closed, edge), 0);
        }
        MUST(culm_edge_take_answer(edge, -1, &answer, &error));
        culm_edge_stop(edge);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_join(thread[i], &failed), 0);
            assert_null(failed);
        }
        culm_edge_close(edge);
        edge = start_edge(WORKLOAD, &options); /* again, and at once */
        for (int64_t i = 0; i < 50; i++) {
            (void)post(edge, i);
        }
        culm_edge_close(edge);
    }
}

/* --- signals --- */

static pthread_t main_thread;
static volatile sig_atomic_t caught, elsewhere;

static void on_signal(int number) {
    (void)number;
    caught++;
    elsewhere += !pthread_equal(pthread_self(), main_thread);
}

/* Handlers and masks are the program's, and so are signals: no thread of a run takes one. */
static void signals_are_left_alone(void **state) {
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    struct sigaction action = {.sa_handler = on_signal}, there;
    sigset_t before, after, held;
    make_detector();
    main_thread = pthread_self();
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sigaction(numbers[i], &action, NULL), 0);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    const struct culm_edge_options options = usual("run");
    struct culm_edge *edge = start_edge("feeds:\n  hall: {file: nowhere}\nqueries:\n" QUERY(
                                            "one", "") "edge: {memory: all, threads: 3}\n",
                                        &options);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < NSIG; number++) {
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sigaction(numbers[i], NULL, &there), 0);
        assert_ptr_equal(there.sa_handler, on_signal);
    }
    /* Held here, a signal would go to any other thread that takes it. */
    sigemptyset(&held);
    sigaddset(&held, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &held, NULL);
    kill(getpid(), SIGUSR1);
    for (int64_t i = 0; i < 4; i++) { /* meanwhile all threads of the run do something */
        struct culm_edge_answer answer = {.size = sizeof answer};
        assert_int_equal(post(edge, i), i);
        MUST(culm_edge_take_answer(edge, -1, &answer, &error));
    }
    assert_int_equal(caught, 0);
    pthread_sigmask(SIG_UNBLOCK, &held, NULL);
    assert_int_equal(caught, 1);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGINT);
    kill(getpid(), SIGHUP);
    assert_int_equal(caught, 4);
    assert_int_equal(elsewhere, 0);
    assert_int_equal(post(edge, 4), 4); /* and none has ended it */
    culm_edge_close(edge);
}

static struct culm_edge *stopped_by_handler;

static void stop_it(int number) {
    (void)number;
    culm_edge_stop(stopped_by_handler);
}

static void a_handler_may_stop_it(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = stop_it};
    make_detector();
    const struct culm_edge_options options = usual("run");
    stopped_by_handler = start_edge(WORKLOAD, &options);
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    MUST(culm_edge_wait(stopped_by_handler, &error));
    culm_edge_close(stopped_by_handler);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_PLACE(two_runs_in_one_process),
        IN_PLACE(closed_with_frames_in_flight),
        IN_PLACE(signals_are_left_alone),
        IN_PLACE(a_handler_may_stop_it),
    };
    return cmocka_run_group_tests_name("run/api_edge_process", tests, NULL, NULL);
}
