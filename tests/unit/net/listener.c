/* A listener hears those who knock, and neither spins nor forgets them while descriptors are out.
 */
#include "net/listener.h"

#include "net/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define PATIENCE (600 * SECOND) /* only a fault meets it */
#define CALLERS 3

struct fixture {
    uv_loop_t loop;
    uv_prepare_t prepare;
    struct culm_listener listener;
    int listen_fd, caller[CALLERS], accepted;
    int64_t turns;
};

static void on_accepted(void *ctx, int take_fd) {
    struct fixture *f = ctx;
    f->accepted++;
    close(take_fd);
}

static void on_turn(uv_prepare_t *prepare) { ((struct fixture *)prepare->data)->turns++; }

static void set_limit(rlim_t limit) {
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    now.rlim_cur = limit;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static void on_enough(uv_timer_t *timer) { uv_stop(timer->loop); }

static void run_for(struct fixture *f, uint64_t ms) {
    uv_timer_t timer;
    uv_timer_init(&f->loop, &timer);
    uv_timer_start(&timer, on_enough, ms, 0);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void out_of_descriptors(void **state) {
    struct fixture f = {0};
    struct culm_error error;
    struct rlimit before;
    char address[CULM_ADDRESS_SIZE];
    (void)state;
    uv_loop_init(&f.loop);
    uv_prepare_init(&f.loop, &f.prepare);
    f.prepare.data = &f;
    uv_prepare_start(&f.prepare, on_turn);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(culm_socket_listen("unix:", &f.listen_fd, address, &error), CULM_OK);
    assert_int_equal(
        culm_listener_init(&f.listener, &f.loop, f.listen_fd, on_accepted, NULL, &f, &error),
        CULM_OK);
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(culm_socket_connect(address, &f.caller[i], &error), CULM_OK);
        assert_true(culm_socket_wait(f.caller[i], 4 /* POLLOUT */, culm_clock_ns() + PATIENCE));
    }
    culm_listener_start(&f.listener);
    set_limit((rlim_t)f.caller[0]); /* no number below is free */
    run_for(&f, 350);
    assert_int_equal(f.accepted, 0);
    assert_true(f.turns < 50);
    set_limit(before.rlim_cur);
    while (f.accepted < CALLERS) {
        uv_run(&f.loop, UV_RUN_ONCE);
    }
    culm_listener_close(&f.listener);
    uv_close((uv_handle_t *)&f.prepare, NULL);
    uv_run(&f.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f.loop), 0);
    for (int i = 0; i < CALLERS; i++) {
        close(f.caller[i]);
    }
    close(f.listen_fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_of_descriptors),
    };
    return cmocka_run_group_tests_name("net/listener", tests, NULL, NULL);
}
