/* What workers are told after the brief, in real processes: all of it, once, in order, whenever they come. */
#include "toy_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <pthread.h>
#include <string.h>

#include <cmocka.h>

static void tell(struct test *t, const char *text) {
    assert_int_equal(culm_host_news(t->host, text, strlen(text)), CULM_OK);
}

static void before_anybody_is_ready(struct test *t) { tell(t, "one "); }

static void *another_thread(void *arg) {
    tell(arg, "two ");
    tell(arg, "three");
    return NULL;
}

static void ask(struct test *t) {
    for (int32_t node = 0; node < t->start; node++) {
        test_order(t, node, TOY_STATUS, (struct toy_order){0});
    }
}

/* From a thread of another kind, while all are up; then a while, for that is not the loop's. */
static void while_they_work(struct test *t) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, another_thread, t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    ask(t);
}

static int32_t done; /* have heard it all */

static void heard(struct test *t, int32_t node, const struct toy_report *report) {
    static const char all[] = "one two three";
    assert_memory_equal(report->news, all, strlen(report->news));
    if (strlen(report->news) < strlen(all)) { /* the question was faster */
        test_order(t, node, TOY_STATUS, (struct toy_order){0});
    } else if (++done == t->start) {
        test_finish(t);
    }
}

static void all_hear_it(void **state) {
    (void)state;
    done = 0;
    RUN(.start = 3, .bad = -1, .all_started = before_anybody_is_ready, .all_up = while_they_work,
        .on_report = heard);
    assert_int_equal(t.code, 0);
    assert_int_equal(done, 3);
    test_release(&t, 0);
}

static bool too_long;

static void say_too_much(struct test *t) {
    static const char much[CULM_HOST_NEWS_MAX + 1];
    too_long = culm_host_news(t->host, much, sizeof much) == CULM_ERR_ARGUMENT;
    test_finish(t);
}

static void more_than_fits_is_refused(void **state) {
    (void)state;
    RUN(.start = 1, .bad = -1, .all_up = say_too_much);
    assert_true(too_long);
    test_release(&t, 0);
}

int toy_launcher(const char *mode) {
    (void)mode;
    return 2;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        return toy_main(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_hear_it),
        cmocka_unit_test(more_than_fits_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
