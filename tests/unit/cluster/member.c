/* A member alone, whose clock and fabric the test plays: how long it dials who cannot be reached. */
#include "cluster/member.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull
#define LIMIT_MS 1000

struct fixture {
    struct culm_fabric fabric; /* first member */
    struct culm_member *member;
    uint64_t now_ns, alarm_ns;
    int32_t calls, ended;
    enum culm_status why;
};

static struct fixture *of(struct culm_fabric *fabric) { return (struct fixture *)fabric; }

static uint64_t now_ns(struct culm_fabric *fabric) { return of(fabric)->now_ns; }

/* As when there are no descriptors left. */
static enum culm_status connect_to(struct culm_fabric *fabric, const char *address,
                                   struct culm_stream **ret_stream, struct culm_error *error) {
    (void)address;
    (void)ret_stream;
    of(fabric)->calls++;
    return culm_error_set(error, CULM_ERR_AGAIN, "not now");
}

static enum culm_status random_bytes(struct culm_fabric *fabric, void *ret_bytes, size_t len) {
    (void)fabric;
    memset(ret_bytes, 7, len);
    return CULM_OK;
}

static void set_alarm(struct culm_fabric *fabric, uint64_t delay_ns) {
    struct fixture *f = of(fabric);
    f->alarm_ns = delay_ns == CULM_NEVER ? CULM_NEVER : f->now_ns + delay_ns;
}

static void on_ended(void *ctx, const struct culm_error *why) {
    struct fixture *f = ctx;
    f->ended++;
    f->why = why->status;
}

static const struct culm_fabric_ops fabric_ops = {.size = sizeof fabric_ops,
                                                  .now_ns = now_ns,
                                                  .connect = connect_to,
                                                  .random = random_bytes,
                                                  .alarm = set_alarm};
static const struct culm_member_ops member_ops = {.ended = on_ended};

static void begin(struct fixture *f) {
    *f = (struct fixture){.fabric.ops = &fabric_ops, .now_ns = 5000 * MS, .alarm_ns = CULM_NEVER};
    const struct culm_member_options options = {.fabric = &f->fabric,
                                                .leader = "somewhere",
                                                .address = "",
                                                .token = "token",
                                                .node = 3,
                                                .join_limit_ms = LIMIT_MS,
                                                .ops = &member_ops,
                                                .ctx = f};
    f->member = culm_member_new(&options);
    assert_non_null(f->member);
    culm_member_join(f->member);
    assert_int_equal(f->calls, 1);
}

/* Its alarms ring when they should, for so long or until it ends; for how many milliseconds they did. */
static int64_t ring(struct fixture *f, int64_t ms) {
    uint64_t began = f->now_ns, end = began + (uint64_t)ms * MS;
    while (!f->ended && f->alarm_ns <= end) {
        f->now_ns = f->alarm_ns > f->now_ns ? f->alarm_ns : f->now_ns;
        culm_member_alarm(f->member);
    }
    return (int64_t)((f->now_ns - began) / MS);
}

static void test_limit(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    assert_in_range(ring(&f, 60000), LIMIT_MS, LIMIT_MS + 100);
    assert_int_equal(f.ended, 1);
    assert_int_equal(f.why, CULM_ERR_TIMEOUT);
    assert_true(f.calls > 3);
    culm_member_free(f.member);
}

/* The machine stands still, again and again: nobody is given up for that, and the rest of the limit is left. */
static void test_pauses(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    int64_t awake = 0;
    for (int pause = 0; pause < 3; pause++) {
        awake += ring(&f, 200);
        int32_t calls = f.calls;
        f.now_ns += 60000 * MS;
        culm_member_alarm(f.member);
        assert_int_equal(f.ended, 0);
        assert_true(f.calls > calls); /* it goes on at once */
    }
    awake += ring(&f, 60000);
    assert_int_equal(f.ended, 1);
    assert_in_range(awake, LIMIT_MS - 3 * 100 - 100, LIMIT_MS + 100);
    culm_member_free(f.member);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_pauses),
    };
    return cmocka_run_group_tests_name("cluster/member", tests, NULL, NULL);
}
