/*
 * What every store of keys does (net/keys.h): run on the one in memory; and on etcd where CULM_TEST_KEYS names it, which
 * tests/system/keys.py serves. `keys try` only says what becomes of one question.
 */
#include "cloud/etcd.h"
#include "sim/keys_memory.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct culm_keys *keys;
static struct culm_keys_memory *memory; /* NULL: they are in etcd */
static uint64_t virtual_ns = 1000000000;
static void (*due)(void); /* what somebody else does while it waits */
static struct culm_error error;
static int64_t ask_ms = 30000; /* a busy machine is no fault */

static uint64_t memory_now(void *ctx) {
    (void)ctx;
    return virtual_ns;
}

static void memory_pass(void *ctx, uint64_t ns) {
    (void)ctx;
    virtual_ns += ns;
    if (due) {
        void (*now)(void) = due;
        due = NULL;
        now();
    }
}

static enum culm_status open_keys(struct culm_keys **ret_keys) {
    const struct culm_etcd_options options = {.place = getenv("CULM_TEST_KEYS"), .ask_ms = ask_ms};
    if (options.place) {
        return culm_etcd_open(&options, ret_keys, &error);
    }
    memory = culm_keys_memory_new(memory_now, memory_pass, NULL);
    *ret_keys = memory ? &memory->keys : NULL;
    return memory ? CULM_OK : CULM_ERR_MEMORY;
}

static int begin(void **state) {
    (void)state;
    const enum culm_status status = open_keys(&keys);
    if (status != CULM_OK) {
        print_error("%s\n", error.text);
    }
    return status != CULM_OK;
}

static int end(void **state) {
    (void)state;
    culm_keys_close(keys);
    return 0;
}

static void ok(enum culm_status status) {
    if (status != CULM_OK) {
        fail_msg("%s", error.text);
    }
}

static void sleep_ms(int64_t ms) {
    if (memory) {
        virtual_ns += (uint64_t)ms * 1000000;
        return;
    }
    const struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&rest, NULL);
}

/* --- what the tests do --- */

/* One change under one condition; its revision, or 0: it has not happened. */
static int64_t change(const char *key, const char *value, int64_t lease,
                      const struct culm_keys_condition *condition) {
    const struct culm_keys_change one = {key, value, value ? strlen(value) : 0, lease};
    const struct culm_keys_transaction what = {condition, condition != NULL, &one, 1};
    bool happened;
    int64_t revision;
    ok(keys->ops->transact(keys, &what, &happened, &revision, &error));
    assert_true(revision > 0);
    return happened ? revision : 0;
}

static int64_t put(const char *key, const char *value) { return change(key, value, 0, NULL); }

static struct culm_keys_list list(const char *prefix) {
    struct culm_keys_list found;
    ok(keys->ops->list(keys, prefix, NULL, &found, &error));
    return found;
}

static bool is_there(const char *key) {
    struct culm_keys_list found = list(key);
    const bool there = culm_keys_find(&found, key) != NULL;
    culm_keys_list_release(&found);
    return there;
}

/* NULL: it is not there. */
static void expect(const char *key, const char *value) {
    struct culm_keys_list found = list(key);
    const struct culm_keys_pair *pair = culm_keys_find(&found, key);
    assert_int_equal(pair != NULL, value != NULL);
    if (pair && value) {
        assert_int_equal(pair->len, strlen(value));
        assert_string_equal(pair->value, value);
    }
    culm_keys_list_release(&found);
}

static struct culm_keys_condition since(const char *key) {
    struct culm_keys_list found = list(key);
    const struct culm_keys_pair *pair = culm_keys_find(&found, key);
    const struct culm_keys_condition condition = {key, pair ? pair->created : 0,
                                                  pair ? pair->changed : 0};
    culm_keys_list_release(&found);
    return condition;
}

/* --- transactions --- */

static void a_key_is_created_once(void **state) {
    (void)state;
    const struct culm_keys_condition absent = {.key = "once/a"};
    const int64_t first = change("once/a", "one", 0, &absent);
    assert_true(first > 0);
    assert_int_equal(change("once/a", "two", 0, &absent), 0);
    expect("once/a", "one");
    assert_true(put("once/b", "x") > first);
    assert_true(change("once/a", NULL, 0, NULL) > 0);
    expect("once/a", NULL);
    assert_true(change("once/a", "three", 0, &absent) > 0);
    expect("once/a", "three");
}

static void who_holds_a_key_alone_may_change_others(void **state) {
    (void)state;
    put("lead/key", "me");
    const struct culm_keys_condition mine = {"lead/key", since("lead/key").created, 0};
    put("lead/key", "me, later"); /* it is still the same key */
    assert_true(change("lead/done", "1", 0, &mine) > 0);
    change("lead/key", NULL, 0, NULL);
    put("lead/key", "somebody else");
    assert_int_equal(change("lead/done", "2", 0, &mine), 0);
    expect("lead/done", "1");
}

static void what_has_changed_since_is_noticed(void **state) {
    (void)state;
    put("since/a", "1");
    const struct culm_keys_condition seen = since("since/a");
    assert_true(change("since/a", "2", 0, &seen) > 0);
    assert_int_equal(change("since/a", "3", 0, &seen), 0);
    expect("since/a", "2");
}

static void all_or_nothing(void **state) {
    (void)state;
    put("all/there", "x");
    const struct culm_keys_condition condition[] = {{.key = "all/new"}, {.key = "all/there"}};
    const struct culm_keys_change changes[] = {
        {"all/new", "1", 1, 0}, {"all/other", "2", 1, 0}, {"all/there", NULL, 0, 0}};
    struct culm_keys_transaction what = {condition, 2, changes, 3};
    bool happened;
    int64_t revision;
    ok(keys->ops->transact(keys, &what, &happened, &revision, &error));
    assert_false(happened);
    expect("all/new", NULL);
    expect("all/there", "x");
    what.condition_count = 1;
    ok(keys->ops->transact(keys, &what, &happened, &revision, &error));
    assert_true(happened);
    expect("all/new", "1");
    expect("all/other", "2");
    expect("all/there", NULL);
    struct culm_keys_list found = list("all/");
    assert_int_equal(found.count, 2);
    assert_int_equal(found.pair[0].created, revision); /* both at once */
    assert_int_equal(found.pair[1].created, revision);
    assert_true(found.revision >= revision);
    culm_keys_list_release(&found);
}

static void a_key_that_is_not_there_is_removed(void **state) {
    (void)state;
    assert_true(change("removed/never", NULL, 0, NULL) > 0);
    expect("removed/never", NULL);
}

/* --- what is stored --- */

static void keys_are_listed_in_order(void **state) {
    (void)state;
    put("list/b", "2");
    put("list/a", "1");
    put("list/b/c", "3");
    put("listed", "no");
    struct culm_keys_list found = list("list/");
    assert_int_equal(found.count, 3);
    assert_string_equal(found.pair[0].key, "list/a");
    assert_string_equal(found.pair[1].key, "list/b");
    assert_string_equal(found.pair[2].key, "list/b/c");
    assert_true(found.pair[0].created > found.pair[1].created);
    assert_null(culm_keys_find(&found, "list/c"));
    culm_keys_list_release(&found);
    static const char *const some[] = {"a", "b/", "none", NULL};
    put("list/bc", "4");
    ok(keys->ops->list(keys, "list/", some, &found, &error));
    assert_int_equal(found.count, 2);
    assert_string_equal(found.pair[0].key, "list/a");
    assert_string_equal(found.pair[1].key, "list/b/c");
    culm_keys_list_release(&found);
    found = list("nothing/");
    assert_int_equal(found.count, 0);
    assert_true(found.revision > 0);
    culm_keys_list_release(&found);
}

static void values_have_any_bytes(void **state) {
    (void)state;
    char all[256];
    for (size_t len = 0; len <= sizeof all; len += len < 4 ? 1 : 63) {
        for (size_t i = 0; i < len; i++) {
            all[i] = (char)(i * 7);
        }
        const struct culm_keys_change one = {"bytes", all, len, 0};
        const struct culm_keys_transaction what = {NULL, 0, &one, 1};
        bool happened;
        int64_t revision;
        ok(keys->ops->transact(keys, &what, &happened, &revision, &error));
        struct culm_keys_list found = list("bytes");
        assert_int_equal(found.count, 1);
        assert_int_equal(found.pair[0].len, len);
        assert_memory_equal(found.pair[0].value, all, len);
        assert_int_equal(found.pair[0].value[len], '\0');
        culm_keys_list_release(&found);
    }
}

static void large_values(void **state) {
    (void)state;
    char *large = calloc(1, CULM_KEYS_VALUE_MAX + 2);
    assert_non_null(large);
    memset(large, 'x', CULM_KEYS_VALUE_MAX);
    put("large", large);
    expect("large", large);
    large[CULM_KEYS_VALUE_MAX] = 'x';
    const struct culm_keys_change one = {"large", large, CULM_KEYS_VALUE_MAX + 1, 0};
    const struct culm_keys_transaction what = {NULL, 0, &one, 1};
    bool happened;
    int64_t revision;
    assert_int_equal(keys->ops->transact(keys, &what, &happened, &revision, &error),
                     CULM_ERR_ARGUMENT);
    assert_non_null(strstr(error.text, "1048577 bytes"));
    change("large", NULL, 0, NULL);
    free(large);
}

static void keys_that_are_none(void **state) {
    (void)state;
    char name[CULM_KEYS_KEY_MAX + 2];
    memset(name, 'k', sizeof name);
    name[sizeof name - 1] = '\0';
    const char *const bad[] = {"", name};
    for (size_t i = 0; i < 2; i++) {
        const struct culm_keys_change one = {bad[i], "x", 1, 0};
        const struct culm_keys_transaction what = {NULL, 0, &one, 1};
        bool happened;
        int64_t revision;
        assert_int_equal(keys->ops->transact(keys, &what, &happened, &revision, &error),
                         CULM_ERR_ARGUMENT);
    }
    name[CULM_KEYS_KEY_MAX] = '\0';
    put(name, "x");
    expect(name, "x");
    change(name, NULL, 0, NULL);
}

/* --- leases --- */

static int64_t grant(int64_t ms, int64_t *ret_ms) {
    int64_t lease;
    ok(keys->ops->grant(keys, ms, &lease, ret_ms, &error));
    assert_true(lease != 0 && *ret_ms >= ms);
    return lease;
}

/* For longer than it lasts by itself. False: this process was too slow for that. */
static bool keep_for_a_while(int64_t lease, int64_t ms) {
    struct timespec since, now;
    for (int i = 0; i < 6; i++) {
        clock_gettime(CLOCK_MONOTONIC, &since);
        sleep_ms(ms / 4);
        const enum culm_status status = keys->ops->keep(keys, lease, &error);
        const bool there = is_there("lease/a");
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - since.tv_sec) * 1000 + (now.tv_nsec - since.tv_nsec) / 1000000 >
            ms * 3 / 4) {
            return false;
        }
        ok(status);
        assert_true(there);
    }
    return true;
}

static void what_hangs_on_a_lease_ends_with_it(void **state) {
    (void)state;
    int64_t ms, lease, seconds = 0;
    put("lease/b", "x");
    do { /* a busy machine needs longer ones */
        lease = grant(1000 * ++seconds, &ms);
        change("lease/a", "x", lease, NULL);
    } while (!keep_for_a_while(lease, ms) && seconds < 20);
    struct culm_keys_list found = list("lease/");
    assert_int_equal(found.pair[0].lease, lease);
    assert_int_equal(found.pair[1].lease, 0);
    culm_keys_list_release(&found);
    sleep_ms(ms);
    for (int i = 0; i < 300 && is_there("lease/a"); i++) {
        sleep_ms(100);
    }
    expect("lease/a", NULL);
    expect("lease/b", "x");
    assert_int_equal(keys->ops->keep(keys, lease, &error), CULM_ERR_NOT_FOUND);
    const struct culm_keys_change late = {"lease/a", "y", 1, lease};
    const struct culm_keys_transaction what = {NULL, 0, &late, 1};
    bool happened;
    int64_t revision;
    assert_int_equal(keys->ops->transact(keys, &what, &happened, &revision, &error),
                     CULM_ERR_NOT_FOUND);
    expect("lease/a", NULL);
}

static void a_lease_is_revoked(void **state) {
    (void)state;
    int64_t ms;
    const int64_t lease = grant(60000, &ms), other = grant(60000, &ms);
    change("revoked/a", "x", lease, NULL);
    change("revoked/b", "x", lease, NULL);
    change("revoked/b", "y", other, NULL); /* it hangs on this one now */
    ok(keys->ops->revoke(keys, lease, &error));
    expect("revoked/a", NULL);
    expect("revoked/b", "y");
    ok(keys->ops->revoke(keys, lease, &error)); /* it has ended, as was wanted */
    change("revoked/b", "z", 0, NULL);
    ok(keys->ops->revoke(keys, other, &error));
    expect("revoked/b", "z");
}

/* --- waiting --- */

static void a_change_before_is_not_waited_for(void **state) {
    (void)state;
    struct culm_keys_list found = list("wait/");
    bool changed;
    ok(keys->ops->wait(keys, "wait/", found.revision, 300, &changed, &error));
    assert_false(changed);
    put("wait/a", "x");
    ok(keys->ops->wait(keys, "wait/", found.revision, 5000, &changed, &error));
    assert_true(changed);
    culm_keys_list_release(&found);
}

static void *change_later(void *arg) {
    struct culm_keys *own = NULL;
    const struct culm_etcd_options options = {.place = getenv("CULM_TEST_KEYS")};
    const struct culm_keys_change one = {"waited/a", NULL, 0, 0};
    const struct culm_keys_transaction what = {NULL, 0, &one, 1};
    bool happened;
    int64_t revision;
    (void)arg;
    usleep(300000);
    if (culm_etcd_open(&options, &own, NULL) == CULM_OK) {
        (void)own->ops->transact(own, &what, &happened, &revision, NULL);
    }
    culm_keys_close(own);
    return NULL;
}

static void change_now(void) { change("waited/a", NULL, 0, NULL); }

static void a_change_is_waited_for(void **state) {
    (void)state;
    pthread_t thread;
    bool changed;
    const int64_t revision = put("waited/a", "x");
    due = change_now;
    if (!memory) {
        assert_int_equal(pthread_create(&thread, NULL, change_later, NULL), 0);
    }
    ok(keys->ops->wait(keys, "waited/", revision, 8000, &changed, &error));
    assert_true(changed);
    expect("waited/a", NULL);
    if (!memory) {
        pthread_join(thread, NULL);
    }
    due = NULL;
}

/* --- no answer --- */

static void a_store_that_is_away(void **state) {
    (void)state;
    if (!memory) {
        skip(); /* tests/system/keys.py kills its servers */
    }
    const struct culm_keys_change one = {"away/a", "x", 1, 0};
    const struct culm_keys_transaction what = {NULL, 0, &one, 1};
    struct culm_keys_list found;
    bool happened;
    int64_t revision, lease, ms;
    memory->away = true;
    assert_int_equal(keys->ops->transact(keys, &what, &happened, &revision, &error),
                     CULM_ERR_AGAIN);
    assert_int_equal(keys->ops->list(keys, "away/", NULL, &found, &error), CULM_ERR_AGAIN);
    assert_int_equal(keys->ops->grant(keys, 1000, &lease, &ms, &error), CULM_ERR_AGAIN);
    assert_int_equal(keys->ops->keep(keys, 1, &error), CULM_ERR_AGAIN);
    assert_int_equal(keys->ops->revoke(keys, 1, &error), CULM_ERR_AGAIN);
    assert_int_equal(keys->ops->wait(keys, "away/", 1, 10, &happened, &error), CULM_ERR_AGAIN);
    memory->away = false;
    expect("away/a", NULL);
    memory->forgetful = true;
    assert_int_equal(keys->ops->transact(keys, &what, &happened, &revision, &error),
                     CULM_ERR_AGAIN);
    memory->forgetful = false;
    expect("away/a", "x"); /* whoever asks looks */
}

static void addresses(void **state) {
    (void)state;
    static const char *const good[] = {"etcd://h1:2379", "etcd://h1:2379,h2:2379,[::1]:3/runs",
                                       "etcds://10.0.0.1:1/x/"},
                             *const bad[] = {"etcd://",           "etcd://h1",
                                             "etcd://h1:",        "etcd://:1",
                                             "etcd://h1:1,",      "etcd://h1:1,,h2:1",
                                             "etcd://h1:1/a/b",   "http://h1:1",
                                             "etcd://me:pw@h1:1", "etcd://h 1:1",
                                             "etcd://h1:1x/",     "h1:1"};
    struct culm_keys *opened;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const struct culm_etcd_options options = {.place = good[i]};
        ok(culm_etcd_open(&options, &opened, &error));
        culm_keys_close(opened);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct culm_etcd_options options = {.place = bad[i]};
        if (culm_etcd_open(&options, &opened, &error) != CULM_ERR_CONFIG) {
            fail_msg("'%s' was taken", bad[i]);
        }
        assert_non_null(strstr(error.text, "etcd://HOST:PORT"));
    }
}

static int try_once(void) {
    struct culm_keys_list found = {0};
    enum culm_status status = open_keys(&keys);
    if (status == CULM_OK) {
        status = keys->ops->list(keys, "try/", NULL, &found, &error);
    }
    printf("%s %s\n", culm_status_name(status), status == CULM_OK ? "" : error.text);
    culm_keys_list_release(&found);
    culm_keys_close(keys);
    return 0;
}

static int wait_once(const char *revision) {
    bool changed = false;
    enum culm_status status = open_keys(&keys);
    if (status == CULM_OK) {
        status = keys->ops->wait(keys, "wait/", atoll(revision), 300, &changed, &error);
    }
    printf("%s %s\n", culm_status_name(status), changed ? "changed" : "nothing");
    culm_keys_close(keys);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_created_once),
        cmocka_unit_test(who_holds_a_key_alone_may_change_others),
        cmocka_unit_test(what_has_changed_since_is_noticed),
        cmocka_unit_test(all_or_nothing),
        cmocka_unit_test(a_key_that_is_not_there_is_removed),
        cmocka_unit_test(keys_are_listed_in_order),
        cmocka_unit_test(values_have_any_bytes),
        cmocka_unit_test(large_values),
        cmocka_unit_test(keys_that_are_none),
        cmocka_unit_test(what_hangs_on_a_lease_ends_with_it),
        cmocka_unit_test(a_lease_is_revoked),
        cmocka_unit_test(a_change_before_is_not_waited_for),
        cmocka_unit_test(a_change_is_waited_for),
        cmocka_unit_test(a_store_that_is_away),
        cmocka_unit_test(addresses),
    };
    ask_ms = argc > 1 ? 0 : ask_ms;
    if (argc > 1 && strcmp(argv[1], "try") == 0) {
        return try_once();
    }
    if (argc > 2 && strcmp(argv[1], "wait") == 0) {
        return wait_once(argv[2]);
    }
    return cmocka_run_group_tests(tests, begin, end);
}
