/*
 * What every storage keeps (store/storage.h): run on a folder; and on the bucket that CULM_TEST_STORAGE names, with its
 * server in CULM_TEST_ENDPOINT, which tests/system/archive.py serves.
 */
#include "cloud/s3.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RIVALS 6
#define LARGE ((size_t)20 << 20)

static char folder[64];
static struct culm_storage *storage;

static int begin(void **state) {
    (void)state;
    struct culm_error error = {0};
    const struct culm_s3_options options = {.place = getenv("CULM_TEST_STORAGE"),
                                            .endpoint = getenv("CULM_TEST_ENDPOINT")};
    enum culm_status status;
    if (options.place) {
        assert_true(culm_s3_is_place(options.place));
        status = culm_s3_open(&options, &storage, &error);
    } else {
        strcpy(folder, "/tmp/culm-test-storage-XXXXXX");
        assert_non_null(mkdtemp(folder));
        status = culm_storage_open_folder(folder, &storage, &error);
    }
    if (status != CULM_OK) {
        print_error("%s\n", error.text);
    }
    return status != CULM_OK;
}

static int end(void **state) {
    (void)state;
    culm_storage_free(storage);
    return folder[0] && culm_tree_remove(NULL, folder, NULL) != CULM_OK;
}

static void put(const char *name, const char *text) {
    struct culm_error error = {0};
    if (storage->ops->put(storage, name, text, strlen(text), false, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
}

static void expect(const char *name, const char *text) {
    struct culm_error error = {0};
    char *data;
    size_t len;
    if (storage->ops->get(storage, name, 1000, &data, &len, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(len, strlen(text));
    assert_string_equal(data, text);
    free(data);
}

static void expect_none(const char *name) {
    char *data;
    size_t len;
    struct culm_error error = {0};
    assert_int_equal(storage->ops->get(storage, name, 1000, &data, &len, &error),
                     CULM_ERR_NOT_FOUND);
    assert_true(error.text[0] != '\0');
}

static void expect_list(const char *prefix, const char *const *wanted) {
    struct culm_names names = {0};
    struct culm_error error = {0};
    size_t count = 0;
    if (storage->ops->list(storage, prefix, &names, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    for (; wanted[count]; count++) {
        assert_true(count < names.count);
        assert_string_equal(names.name[count], wanted[count]);
    }
    assert_int_equal(names.count, count);
    culm_names_release(&names);
}

static void clear(void) {
    struct culm_names names = {0};
    assert_int_equal(storage->ops->list(storage, "a/", &names, NULL), CULM_OK);
    for (size_t i = 0; i < names.count; i++) {
        assert_int_equal(storage->ops->remove(storage, names.name[i], NULL), CULM_OK);
    }
    culm_names_release(&names);
}

static void test_what_was_put_is_there(void **state) {
    (void)state;
    clear();
    expect_none("a/one");
    put("a/one", "first");
    expect("a/one", "first");
    put("a/one", "another");
    expect("a/one", "another");
    put("a/none", "");
    expect("a/none", "");
    assert_int_equal(storage->ops->remove(storage, "a/one", NULL), CULM_OK);
    expect_none("a/one");
    assert_int_equal(storage->ops->remove(storage, "a/one", NULL), CULM_OK);
    expect("a/none", "");
}

static void test_a_fresh_one_takes_nobodys_place(void **state) {
    (void)state;
    struct culm_error error = {0};
    clear();
    assert_int_equal(storage->ops->put(storage, "a/fresh", "1", 1, true, &error), CULM_OK);
    assert_int_equal(storage->ops->put(storage, "a/fresh", "2", 1, true, &error), CULM_ERR_EXISTS);
    expect("a/fresh", "1");
    assert_int_equal(storage->ops->remove(storage, "a/fresh", NULL), CULM_OK);
    assert_int_equal(storage->ops->put(storage, "a/fresh", "3", 1, true, &error), CULM_OK);
    expect("a/fresh", "3");
}

static void test_lists_are_whole_and_sorted(void **state) {
    (void)state;
    clear();
    expect_list("a/", (const char *const[]){NULL});
    expect_list("a/b/", (const char *const[]){NULL});
    static const char *const names[] = {"a/b/9", "a/b/10", "a/B", "a/b/c/d",
                                        "a/b.x", "a/bc",   "a/z"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        put(names[i], "x");
    }
    expect_list("a/", (const char *const[]){"a/B", "a/b.x", "a/b/10", "a/b/9", "a/b/c/d", "a/bc",
                                            "a/z", NULL});
    expect_list("a/b/", (const char *const[]){"a/b/10", "a/b/9", "a/b/c/d", NULL});
    expect_list("a/b/c/", (const char *const[]){"a/b/c/d", NULL});
    clear();
    expect_list("a/", (const char *const[]){NULL});
}

static void test_large_ones_and_limits(void **state) {
    (void)state;
    char *data = malloc(LARGE), *back;
    size_t len;
    struct culm_error error = {0};
    assert_non_null(data);
    for (size_t i = 0; i < LARGE; i++) {
        data[i] = (char)(i * 2654435761u >> 13);
    }
    clear();
    assert_int_equal(storage->ops->put(storage, "a/large", data, LARGE, false, &error), CULM_OK);
    assert_int_equal(storage->ops->get(storage, "a/large", LARGE, &back, &len, &error), CULM_OK);
    assert_int_equal(len, LARGE);
    assert_memory_equal(back, data, LARGE);
    free(back);
    assert_int_equal(storage->ops->get(storage, "a/large", LARGE - 1, &back, &len, &error),
                     CULM_ERR_FORMAT);
    assert_int_equal(storage->ops->get(storage, "a/large", 5, &back, &len, &error),
                     CULM_ERR_FORMAT);
    free(data);
    clear();
}

struct rival {
    pthread_t thread;
    char text[2];
    enum culm_status status;
};

static void *put_fresh(void *ctx) {
    struct rival *rival = ctx;
    rival->status = storage->ops->put(storage, "a/rivals", rival->text, 1, true, NULL);
    return NULL;
}

static void test_of_rivals_one_wins(void **state) {
    (void)state;
    if (getenv("CULM_TEST_NO_CONDITIONS")) {
        skip();
    }
    for (int round = 0; round < 5; round++) {
        struct rival rival[RIVALS];
        const char *won = NULL;
        clear();
        for (int i = 0; i < RIVALS; i++) {
            rival[i] = (struct rival){.text = {(char)('a' + i), '\0'}};
            assert_int_equal(pthread_create(&rival[i].thread, NULL, put_fresh, &rival[i]), 0);
        }
        for (int i = 0; i < RIVALS; i++) {
            pthread_join(rival[i].thread, NULL);
        }
        for (int i = 0; i < RIVALS; i++) {
            assert_true(rival[i].status == CULM_OK || rival[i].status == CULM_ERR_EXISTS);
            assert_false(rival[i].status == CULM_OK && won);
            won = rival[i].status == CULM_OK ? rival[i].text : won;
        }
        /* Who won and was not answered asks again, and finds that there is one. */
        assert_true(won || getenv("CULM_TEST_UNANSWERED"));
        if (won) {
            expect("a/rivals", won);
        }
    }
    clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_put_is_there),
        cmocka_unit_test(test_a_fresh_one_takes_nobodys_place),
        cmocka_unit_test(test_lists_are_whole_and_sorted),
        cmocka_unit_test(test_large_ones_and_limits),
        cmocka_unit_test(test_of_rivals_one_wins),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
