/* Tables of functions of libraries that are loaded when they are needed: filled in once, whichever
 * thread comes first, and errors that say what to install. The library is the C library's libm. */
#include "base/library.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define THREADS 8

static double (*floor_of)(double);
static double (*ceil_of)(double);
static int begun;
static bool begins;

static bool begin(void) {
    begun++;
    return begins && floor_of(1.5) == 1; /* the table is there */
}

#define MATHS .name = "libm.so.6", .package = "libc6", .oldest = "2.0"
#define FUNCTIONS(table_) .functions = (table_), .count = sizeof(table_) / sizeof *(table_)

static const struct culm_library_function both[] = {{"floor", &floor_of}, {"ceil", &ceil_of}};

struct caller {
    pthread_t thread;
    pthread_barrier_t *together;
    struct culm_library *library;
    double floor, ceil;
};

static void *call(void *arg) {
    struct caller *caller = arg;
    pthread_barrier_wait(caller->together);
    if (culm_library_load(caller->library, NULL) == CULM_OK) {
        caller->floor = floor_of(2.5);
        caller->ceil = ceil_of(2.5);
    }
    return NULL;
}

static void threads_that_come_together(void **state) {
    (void)state;
    struct culm_library library = {MATHS, FUNCTIONS(both), .begin = begin};
    struct caller callers[THREADS];
    pthread_barrier_t together;
    floor_of = ceil_of = NULL;
    begun = 0;
    begins = true;
    assert_int_equal(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.together = &together, .library = &library};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        assert_true(callers[i].floor == 2 && callers[i].ceil == 3);
    }
    assert_int_equal(begun, 1);
    pthread_barrier_destroy(&together);
}

/* Too old: a function is missing, or the library says so itself. It is asked again the next time. */
static void a_library_that_is_too_old(void **state) {
    (void)state;
    static const struct culm_library_function newer[] = {{"floor", &floor_of},
                                                         {"floor_of_a_later_year", &ceil_of}};
    struct culm_library library = {MATHS, FUNCTIONS(newer), .begin = begin};
    struct culm_error error;
    begun = 0;
    begins = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(culm_library_load(&library, &error), CULM_ERR_MACHINE);
        assert_string_equal(error.text, "libm.so.6 is too old; install libc6 2.0 or later");
    }
    assert_int_equal(begun, 0);
    library = (struct culm_library){MATHS, FUNCTIONS(both), .begin = begin};
    begins = false;
    assert_int_equal(culm_library_load(&library, &error), CULM_ERR_MACHINE);
    assert_string_equal(error.text, "libm.so.6 is too old; install libc6 2.0 or later");
    begins = true;
    assert_int_equal(culm_library_load(&library, &error), CULM_OK);
    assert_int_equal(culm_library_load(&library, &error), CULM_OK);
    assert_int_equal(begun, 2);
}

static void a_library_that_is_not_there(void **state) {
    (void)state;
    struct culm_library library = {
        .name = "libnowhere.so.1", .package = "libnowhere1", .oldest = "1", FUNCTIONS(both)};
    struct culm_error error;
    assert_int_equal(culm_library_load(&library, &error), CULM_ERR_MACHINE);
    assert_string_equal(error.text, "libnowhere.so.1 cannot be loaded; install libnowhere1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_come_together),
        cmocka_unit_test(a_library_that_is_too_old),
        cmocka_unit_test(a_library_that_is_not_there),
    };
    return cmocka_run_group_tests_name("base/library", tests, NULL, NULL);
}
