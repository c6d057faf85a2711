/*
 * Candidates for leader in threads of their own (launch/candidate.h), and who watches the one that leads (launch/sentry.h), at a
 * store in memory, on the real clock. Who may lead when is crew/lead.c's to show.
 */
#include "launch/candidate.h"

#include "base/clock.h"
#include "net/socket.h"
#include "sim/keys_memory.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define RUN "one"
#define LEASE_MS 30000 /* nobody waits for its end here */
#define LIMIT_NS 20000000000ull

/* --- one store for several threads --- */

static struct culm_keys_memory *memory;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now_ns(void *ctx) {
    (void)ctx;
    return culm_clock_ns();
}

static void pass(void *ctx, uint64_t ns) {
    (void)ctx;
    (void)ns;
    abort(); /* who waits is kept here */
}

static void rest(void) {
    const struct timespec pause = {.tv_nsec = 2000000};
    (void)nanosleep(&pause, NULL);
}

static enum culm_status locked_transact(struct culm_keys *keys,
                                        const struct culm_keys_transaction *what,
                                        bool *ret_happened, int64_t *ret_revision,
                                        struct culm_error *error) {
    (void)keys;
    pthread_mutex_lock(&lock);
    const enum culm_status status =
        memory->keys.ops->transact(&memory->keys, what, ret_happened, ret_revision, error);
    pthread_mutex_unlock(&lock);
    return status;
}

static enum culm_status locked_list(struct culm_keys *keys, const char *prefix,
                                    const char *const *rest, struct culm_keys_list *ret_list,
                                    struct culm_error *error) {
    (void)keys;
    pthread_mutex_lock(&lock);
    const enum culm_status status =
        memory->keys.ops->list(&memory->keys, prefix, rest, ret_list, error);
    pthread_mutex_unlock(&lock);
    return status;
}

static enum culm_status locked_grant(struct culm_keys *keys, int64_t ms, int64_t *ret_lease,
                                     int64_t *ret_ms, struct culm_error *error) {
    (void)keys;
    pthread_mutex_lock(&lock);
    const enum culm_status status =
        memory->keys.ops->grant(&memory->keys, ms, ret_lease, ret_ms, error);
    pthread_mutex_unlock(&lock);
    return status;
}

static enum culm_status locked_keep(struct culm_keys *keys, int64_t lease,
                                    struct culm_error *error) {
    (void)keys;
    pthread_mutex_lock(&lock);
    const enum culm_status status = memory->keys.ops->keep(&memory->keys, lease, error);
    pthread_mutex_unlock(&lock);
    return status;
}

static enum culm_status locked_revoke(struct culm_keys *keys, int64_t lease,
                                      struct culm_error *error) {
    (void)keys;
    pthread_mutex_lock(&lock);
    const enum culm_status status = memory->keys.ops->revoke(&memory->keys, lease, error);
    pthread_mutex_unlock(&lock);
    return status;
}

static enum culm_status locked_wait(struct culm_keys *keys, const char *prefix, int64_t revision,
                                    int64_t ms, bool *ret_changed, struct culm_error *error) {
    const uint64_t until = culm_clock_ns() + (uint64_t)ms * 1000000u;
    enum culm_status status = CULM_OK;
    *ret_changed = false;
    while (status == CULM_OK && !*ret_changed && culm_clock_ns() < until) {
        struct culm_keys_list list = {0};
        status = locked_list(keys, prefix, NULL, &list, error);
        pthread_mutex_lock(&lock);
        *ret_changed = culm_keys_memory_changed(memory, prefix, revision);
        pthread_mutex_unlock(&lock);
        culm_keys_list_release(&list);
        rest();
    }
    return status;
}

static void locked_close(struct culm_keys *keys) { (void)keys; }

static const struct culm_keys_ops locked_ops = {
    .size = sizeof locked_ops,
    .transact = locked_transact,
    .list = locked_list,
    .grant = locked_grant,
    .keep = locked_keep,
    .revoke = locked_revoke,
    .wait = locked_wait,
    .close = locked_close,
};

static struct culm_keys handle = {&locked_ops};

static int begin(void **state) {
    (void)state;
    memory = culm_keys_memory_new(now_ns, pass, NULL);
    return memory == NULL;
}

static int end(void **state) {
    (void)state;
    culm_keys_close(&memory->keys);
    return 0;
}

static bool has(const char *key) {
    struct culm_keys_list list = {0};
    struct culm_error error;
    assert_int_equal(locked_list(&handle, key, NULL, &list, &error), CULM_OK);
    const bool there = culm_keys_find(&list, key) != NULL;
    culm_keys_list_release(&list);
    return there;
}

/* The lease of the one that leads. */
static int64_t leader_lease(void) {
    struct culm_keys_list list = {0};
    struct culm_error error;
    assert_int_equal(locked_list(&handle, RUN "/leader", NULL, &list, &error), CULM_OK);
    const struct culm_keys_pair *key = culm_keys_find(&list, RUN "/leader");
    const int64_t lease = key ? key->lease : 0;
    culm_keys_list_release(&list);
    return lease;
}

/* --- candidates --- */

static struct culm_candidate *stand(const char *address) {
    const struct culm_candidate_options options = {.keys = &handle,
                                                   .more_keys = &handle,
                                                   .run = RUN,
                                                   .address = address,
                                                   .lease_ms = LEASE_MS,
                                                   .most = 3};
    struct culm_candidate *candidate = NULL;
    struct culm_error error;
    assert_int_equal(culm_candidate_new(&options, &candidate, &error), CULM_OK);
    return candidate;
}

static struct culm_candidate *lead(const char *address) {
    enum culm_deed how;
    struct culm_candidate *candidate = stand(address);
    assert_int_equal(culm_candidate_await(candidate, 0, &how), CULM_OK);
    return candidate;
}

/* What it has told; written on its thread. */
struct told {
    pthread_mutex_t lock;
    int32_t written[CULM_DEEDS], entered[8], entered_count, deposed, asked;
};

static void count(struct told *told, int32_t *number) {
    pthread_mutex_lock(&told->lock);
    ++*number;
    pthread_mutex_unlock(&told->lock);
}

static void on_written(void *ctx, enum culm_deed deed) {
    struct told *told = ctx;
    count(told, &told->written[deed]);
}

static void on_entered(void *ctx, int32_t node) {
    struct told *told = ctx;
    pthread_mutex_lock(&told->lock);
    told->entered[told->entered_count++] = node;
    pthread_mutex_unlock(&told->lock);
}

static void on_deposed(void *ctx) {
    struct told *told = ctx;
    count(told, &told->deposed);
}

static void on_away(void *ctx, int64_t ms) {
    (void)ctx;
    (void)ms;
}

static void on_asked(void *ctx) {
    struct told *told = ctx;
    count(told, &told->asked);
}

static const struct culm_candidate_ops told_ops = {.size = sizeof told_ops,
                                                   .written = on_written,
                                                   .entered = on_entered,
                                                   .deposed = on_deposed,
                                                   .away = on_away,
                                                   .asked = on_asked};

static void await(struct told *told, const int32_t *number, int32_t least) {
    const uint64_t until = culm_clock_ns() + LIMIT_NS;
    int32_t now = 0;
    while (now < least && culm_clock_ns() < until) {
        pthread_mutex_lock(&told->lock);
        now = *number;
        pthread_mutex_unlock(&told->lock);
        rest();
    }
    assert_true(now >= least);
}

/* --- cases --- */

static void test_what_it_is_asked_is_written(void **state) {
    (void)state;
    struct told told = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct culm_candidate *candidate = lead("tcp:127.0.0.1:1");
    struct culm_record *record = culm_candidate_record(candidate);
    culm_candidate_serve(candidate, &told_ops, &told);
    for (int32_t i = 0; i < 6; i++) {
        struct culm_host_node node = {.node = i, .address = "tcp:127.0.0.1:2", .name = "n"};
        snprintf(node.place.zone, sizeof node.place.zone, "zone-%d", (int)i);
        assert_true(culm_candidate_enter(candidate, &node));
    }
    culm_candidate_gone(candidate, 3);
    record->ops->write(record, CULM_DEED_COMMIT, 4, "0a0b");
    await(&told, &told.written[CULM_DEED_COMMIT], 1);
    record->ops->write(record, CULM_DEED_ROLL_BACK, 5, "");
    culm_candidate_saved(candidate, 25);
    culm_candidate_committed(candidate);
    await(&told, &told.entered_count, 6);
    await(&told, &told.written[CULM_DEED_ROLL_BACK], 1);
    for (int32_t i = 0; i < 6; i++) {
        assert_int_equal(told.entered[i], i);
    }
    const uint64_t until = culm_clock_ns() + LIMIT_NS;
    while ((has(RUN "/node/3") || !has(RUN "/saved")) && culm_clock_ns() < until) {
        rest();
    }
    culm_candidate_free(candidate);

    candidate = lead("tcp:127.0.0.1:1"); /* the next one finds all that */
    const struct culm_reign *reign = culm_candidate_reign(candidate);
    assert_int_equal(reign->term, 2);
    assert_int_equal(reign->count, 5);
    assert_int_equal(reign->node[2].node, 2);
    assert_int_equal(reign->node[3].node, 4);
    assert_string_equal(reign->node[3].address, "tcp:127.0.0.1:2");
    assert_string_equal(reign->node[3].place.zone, "zone-4");
    assert_int_equal(reign->first_node, 6);
    assert_int_equal(reign->saved, 25);
    assert_string_equal(reign->committed, "0a0b");
    culm_candidate_free(candidate);
}

/* One that has only called who led. */
static void test_who_cannot_be_called_is_forgotten(void **state) {
    (void)state;
    struct told told = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct culm_candidate *candidate = lead("tcp:127.0.0.1:1");
    const struct culm_host_node nodes[] = {{.node = 0, .address = "tcp:127.0.0.1:2", .name = "n"},
                                           {.node = 1, .address = "", .name = "n"}};
    culm_candidate_serve(candidate, &told_ops, &told);
    assert_true(culm_candidate_enter(candidate, &nodes[0]));
    assert_true(culm_candidate_enter(candidate, &nodes[1]));
    await(&told, &told.entered_count, 2);
    assert_true(has(RUN "/node/1"));
    culm_candidate_free(candidate);

    candidate = lead("tcp:127.0.0.1:1");
    assert_int_equal(culm_candidate_reign(candidate)->count, 1);
    const uint64_t until = culm_clock_ns() + LIMIT_NS;
    while (has(RUN "/node/1") && culm_clock_ns() < until) {
        rest();
    }
    assert_false(has(RUN "/node/1"));
    assert_true(has(RUN "/node/0"));
    assert_int_equal(culm_candidate_reign(candidate)->first_node, 2);
    culm_candidate_free(candidate);
}

static void test_another_one_leads_when_it_goes(void **state) {
    (void)state;
    enum culm_deed how;
    const int stop = eventfd(1, EFD_CLOEXEC);
    struct culm_candidate *first = lead("tcp:127.0.0.1:1"), *second = stand("tcp:127.0.0.1:2");
    assert_int_equal(culm_candidate_await(second, stop, &how), CULM_ERR_CLOSED);
    culm_candidate_free(first);
    assert_int_equal(culm_candidate_await(second, 0, &how), CULM_OK);
    assert_int_equal(culm_candidate_reign(second)->term, 2);
    culm_candidate_free(second);
    close(stop);
    assert_false(has(RUN "/leader")); /* nothing of them is left */
}

static void test_it_is_deposed(void **state) {
    (void)state;
    struct told told = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct culm_error error;
    struct culm_candidate *first = lead("tcp:127.0.0.1:1");
    assert_int_equal(locked_revoke(&handle, leader_lease(), &error), CULM_OK);
    struct culm_candidate *second = lead("tcp:127.0.0.1:2");
    struct culm_record *record = culm_candidate_record(first);
    record->ops->write(record, CULM_DEED_DONE, 1, ""); /* before anybody listens */
    const struct timespec pause = {.tv_nsec = 100000000};
    (void)nanosleep(&pause, NULL);
    culm_candidate_serve(first, &told_ops, &told);
    await(&told, &told.deposed, 1);
    assert_int_equal(told.written[CULM_DEED_DONE], 0);
    assert_false(has(RUN "/done"));
    culm_candidate_free(first);
    culm_candidate_free(second);
}

static void test_a_run_that_is_over(void **state) {
    (void)state;
    struct told told = {.lock = PTHREAD_MUTEX_INITIALIZER};
    enum culm_deed how = CULM_DEED_ROLL_BACK;
    struct culm_candidate *first = lead("tcp:127.0.0.1:1"), *second = stand("tcp:127.0.0.1:2");
    culm_candidate_serve(first, &told_ops, &told);
    struct culm_record *record = culm_candidate_record(first);
    record->ops->write(record, CULM_DEED_STOP, 7, "");
    await(&told, &told.written[CULM_DEED_STOP], 1);
    assert_int_equal(culm_candidate_await(second, 0, &how), CULM_ERR_STOPPED);
    assert_int_equal(how, CULM_DEED_STOP);
    culm_candidate_free(second);
    culm_candidate_free(first);
}

/* Whose machine refuses where it listened: its lease is not waited for. One that has not listened yet is left alone. */
static void test_one_whose_machine_refuses(void **state) {
    (void)state;
    enum culm_deed how;
    struct culm_error error;
    char address[CULM_ADDRESS_SIZE];
    int fd, stop = eventfd(1, EFD_CLOEXEC);
    assert_int_equal(culm_socket_reserve("tcp:127.0.0.1:0", &fd, address, &error), CULM_OK);
    struct culm_candidate *first = lead(address), *second = stand("tcp:127.0.0.1:2");
    for (int i = 0; i < 6; i++) { /* which takes 0.6 s */
        assert_int_equal(culm_candidate_await(second, stop, &how), CULM_ERR_CLOSED);
    }
    assert_int_not_equal(leader_lease(), 0);
    assert_int_equal(culm_socket_listen_there(fd, &error), CULM_OK);
    int called = -1;
    assert_true(culm_socket_wait(fd, 1, culm_clock_ns() + LIMIT_NS));
    assert_int_equal(culm_socket_accept(fd, &called, &error), CULM_OK);
    close(called); /* it is called again */
    assert_true(culm_socket_wait(fd, 1, culm_clock_ns() + LIMIT_NS));
    assert_int_equal(culm_socket_accept(fd, &called, &error), CULM_OK);
    close(fd);
    const uint64_t killed = culm_clock_ns();
    close(called);
    assert_int_equal(culm_candidate_await(second, 0, &how), CULM_OK);
    assert_true(culm_clock_ns() - killed < (uint64_t)LEASE_MS * 500000u);
    culm_candidate_free(first);
    culm_candidate_free(second);
    close(stop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_it_is_asked_is_written, begin, end),
        cmocka_unit_test_setup_teardown(test_who_cannot_be_called_is_forgotten, begin, end),
        cmocka_unit_test_setup_teardown(test_another_one_leads_when_it_goes, begin, end),
        cmocka_unit_test_setup_teardown(test_it_is_deposed, begin, end),
        cmocka_unit_test_setup_teardown(test_a_run_that_is_over, begin, end),
        cmocka_unit_test_setup_teardown(test_one_whose_machine_refuses, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
