/*
 * A server alone, without memory: a view gives it intervals, for which it has no room. It ends, and nothing else
 * happens. The program's calloc and realloc fail when told to (see meson.build).
 */
#include "server_played.h"

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

static int calls, fails_at; /* 0: never */

void *__wrap_calloc(size_t count, size_t size) {
    return ++calls == fails_at ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
    return ++calls == fails_at ? NULL : __real_realloc(old, size);
}

/* It has one interval, and is given all of them, by an attempt that begins. True: there was memory. */
static bool given_all(int at) {
    static const int32_t before[] = {SERVER, OTHER, THIRD};
    int32_t owner[] = {SERVER, SERVER, SERVER};
    struct fixture f;
    begin_with(&f, before, INTERVALS, true);
    const struct culm_gnn_view view = {.number = ++f.view,
                                       .attempt = 1,
                                       .course = {.epoch = 1, .train = true},
                                       .holder_count = 1,
                                       .holder = {{HOLDER, -1, 1}},
                                       .owner = owner};
    culm_gnn_view_encode(&view, INTERVALS, &f.buf);
    calls = 0;
    fails_at = at;
    deliver(&f, CULM_LEADER, CULM_GNN_MSG_VIEW, NULL);
    fails_at = 0;
    const bool there = calls < at;
    assert_int_equal(f.fake.exit_code, there ? -1 : culm_status_exit_code(CULM_ERR_MEMORY));
    f.fake.exit_code = -1;
    end(&f);
    return there;
}

static void test_no_memory_for_a_view(void **state) {
    (void)state;
    int at = 1;
    while (!given_all(at)) {
        at++;
    }
    assert_true(at > 2 * 4); /* two intervals, each in several pieces */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_memory_for_a_view)};
    return cmocka_run_group_tests_name("interval/server_memory", tests, NULL, NULL);
}
