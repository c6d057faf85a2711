/* Lines on a disk that fills: whole or lost, counted, told once; files that give way. */
#include "report/journal.h"

#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
// clang-format off
#include <cmocka.h>
// clang-format on

static int make_folder(void **state) {
    char path[] = "/tmp/culm-journal-XXXXXX";
    *state = mkdtemp(path) ? strdup(path) : NULL;
    signal(SIGXFSZ, SIG_IGN);
    return *state ? 0 : -1;
}

static int drop_folder(void **state) {
    (void)culm_tree_remove(NULL, *state, NULL);
    free(*state);
    return 0;
}

static struct culm_journal *begin(const char *dir, int64_t rotate, int64_t keep) {
    char path[CULM_PATH_MAX];
    assert_int_equal(culm_path_format(path, NULL, "%s/a.jsonl", dir), CULM_OK);
    const int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    struct culm_journal *journal;
    struct culm_error error;
    assert_int_equal(
        culm_journal_open(fd, path, &(struct culm_journal_limits){rotate, keep}, &journal, &error),
        CULM_OK);
    return journal;
}

static void write_text(const char *dir, const char *name, const char *text) {
    char path[CULM_PATH_MAX];
    assert_int_equal(culm_path_format(path, NULL, "%s/%s", dir, name), CULM_OK);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect(const char *dir, const char *name, const char *want_or_null) {
    char path[CULM_PATH_MAX], *text = NULL;
    size_t len;
    struct culm_error error;
    assert_int_equal(culm_path_format(path, NULL, "%s/%s", dir, name), CULM_OK);
    if (!want_or_null) {
        assert_int_not_equal(access(path, F_OK), 0);
        return;
    }
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &text, &len, &error), CULM_OK);
    assert_string_equal(text, want_or_null);
    free(text);
}

/* No file of this process may have more bytes: what a full disk does to a write. */
static void limit(rlim_t bytes) {
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &now), 0);
    now.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
}

static void test_what_has_no_room_is_lost_whole(void **state) {
    struct culm_journal *journal = begin(*state, 0, 0);
    struct culm_error error = {0};
    assert_int_equal(culm_journal_add(journal, "one", &error), CULM_JOURNAL_NONE);
    limit(6); /* "two" would be cut */
    assert_int_equal(culm_journal_add(journal, "two", &error), CULM_JOURNAL_LOST);
    assert_non_null(strstr(error.text, "a.jsonl'"));
    assert_int_equal(culm_journal_add(journal, "three", &error), CULM_JOURNAL_NONE); /* told once */
    expect(*state, "a.jsonl", "one\n");
    limit(RLIM_INFINITY);
    assert_int_equal(culm_journal_add(journal, "four", &error), CULM_JOURNAL_WRITTEN);
    assert_int_equal(culm_journal_add(journal, "five", &error), CULM_JOURNAL_NONE);
    assert_int_equal(culm_journal_lost(journal), 2);
    limit(1);
    assert_int_equal(culm_journal_add(journal, "six", &error), CULM_JOURNAL_LOST); /* and again */
    limit(RLIM_INFINITY);
    assert_int_equal(culm_journal_lost(journal), 3);
    culm_journal_free(journal);
    expect(*state, "a.jsonl", "one\nfour\nfive\n");
}

static void test_a_torn_line_is_cut_off(void **state) {
    struct culm_error error = {0};
    write_text(*state, "a.jsonl", "whole\nto");
    struct culm_journal *journal = begin(*state, 0, 0);
    assert_int_equal(culm_journal_add(journal, "next", &error), CULM_JOURNAL_NONE);
    culm_journal_free(journal);
    expect(*state, "a.jsonl", "whole\nnext\n");
}

static void test_the_oldest_give_way(void **state) {
    struct culm_error error = {0};
    /* 8 bytes a file, two lines of four; 24 bytes in all: the file and two renamed ones. */
    struct culm_journal *journal = begin(*state, 8, 24);
    write_text(*state, "a.jsonl.x", "not a renamed one");
    write_text(*state, "b.jsonl.1", "of another");
    for (int i = 0; i < 9; i++) {
        char text[8];
        snprintf(text, sizeof text, "l%02d", i);
        assert_int_equal(culm_journal_add(journal, text, &error), CULM_JOURNAL_NONE);
    }
    expect(*state, "a.jsonl", "l08\n");
    expect(*state, "a.jsonl.4", "l06\nl07\n");
    expect(*state, "a.jsonl.3", "l04\nl05\n");
    expect(*state, "a.jsonl.2", NULL);
    culm_journal_free(journal);
    journal = begin(*state, 8, 24); /* goes on where another one has ended */
    assert_int_equal(culm_journal_add(journal, "l09", &error), CULM_JOURNAL_NONE);
    assert_int_equal(culm_journal_add(journal, "l10", &error), CULM_JOURNAL_NONE);
    expect(*state, "a.jsonl.5", "l08\nl09\n");
    expect(*state, "a.jsonl.3", NULL);
    assert_int_equal(culm_journal_add(journal, "longer than a file may be", &error),
                     CULM_JOURNAL_NONE);
    assert_int_equal(culm_journal_add(journal, "l12", &error), CULM_JOURNAL_NONE);
    expect(*state, "a.jsonl.7", NULL); /* more than all may take */
    expect(*state, "a.jsonl", "l12\n");
    culm_journal_free(journal);
    expect(*state, "a.jsonl.x", "not a renamed one");
    expect(*state, "b.jsonl.1", "of another");
}

static void rename_to(const char *dir, const char *from, const char *to) {
    char a[CULM_PATH_MAX], b[CULM_PATH_MAX];
    assert_int_equal(culm_path_format(a, NULL, "%s/%s", dir, from), CULM_OK);
    assert_int_equal(culm_path_format(b, NULL, "%s/%s", dir, to), CULM_OK);
    assert_int_equal(rename(a, b), 0);
}

static void test_a_file_that_was_moved_is_begun_anew(void **state) {
    struct culm_error error = {0};
    struct culm_journal *journal = begin(*state, 0, 0);
    assert_int_equal(culm_journal_add(journal, "one", &error), CULM_JOURNAL_NONE);
    assert_true(culm_journal_begin_with(journal, "head"));
    assert_true(culm_journal_follow(journal, &error)); /* it is there */
    assert_int_equal(culm_journal_add(journal, "two", &error), CULM_JOURNAL_NONE);
    rename_to(*state, "a.jsonl", "moved");
    assert_int_equal(culm_journal_add(journal, "three", &error), CULM_JOURNAL_NONE);
    assert_true(culm_journal_follow(journal, &error));
    assert_int_equal(culm_journal_add(journal, "four", &error), CULM_JOURNAL_NONE);
    expect(*state, "moved", "one\ntwo\nthree\n");
    expect(*state, "a.jsonl", "head\nfour\n");
    rename_to(*state, "a.jsonl", "moved");
    write_text(*state, "a.jsonl", "made by who moved it\nto");
    assert_true(culm_journal_follow(journal, &error));
    assert_int_equal(culm_journal_add(journal, "five", &error), CULM_JOURNAL_NONE);
    expect(*state, "a.jsonl", "made by who moved it\nfive\n");
    write_text(*state, "a.jsonl", ""); /* emptied in its place */
    assert_int_equal(culm_journal_add(journal, "six", &error), CULM_JOURNAL_NONE);
    expect(*state, "a.jsonl", "head\nsix\n");
    assert_true(culm_journal_follow(journal, &error));
    assert_int_equal(culm_journal_add(journal, "seven", &error), CULM_JOURNAL_NONE);
    expect(*state, "a.jsonl", "head\nsix\nseven\n");
    culm_journal_free(journal);
}

/* What is at the path is another's: it is neither renamed nor written to. */
static void test_a_path_that_is_taken(void **state) {
    struct culm_error error = {0};
    char path[CULM_PATH_MAX], to[CULM_PATH_MAX];
    struct culm_journal *journal = begin(*state, 8, 24);
    assert_int_equal(culm_path_format(path, NULL, "%s/a.jsonl", (const char *)*state), CULM_OK);
    assert_int_equal(culm_path_format(to, NULL, "%s/other", (const char *)*state), CULM_OK);
    assert_int_equal(culm_journal_add(journal, "l00", &error), CULM_JOURNAL_NONE);
    rename_to(*state, "a.jsonl", "moved");
    write_text(*state, "other", "of another");
    assert_int_equal(symlink(to, path), 0);
    assert_int_equal(culm_journal_add(journal, "l01", &error), CULM_JOURNAL_NONE);
    assert_int_equal(culm_journal_add(journal, "l02", &error), CULM_JOURNAL_NONE); /* full */
    expect(*state, "a.jsonl.1", NULL);
    assert_false(culm_journal_follow(journal, &error));
    assert_non_null(strstr(error.text, "a.jsonl' again"));
    assert_true(culm_journal_follow(journal, &error)); /* told once */
    assert_int_equal(culm_journal_add(journal, "l03", &error), CULM_JOURNAL_NONE);
    expect(*state, "other", "of another");
    expect(*state, "moved", "l00\nl01\nl02\nl03\n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody reads it, and nothing waits for that */
    assert_true(culm_journal_follow(journal, &error));
    assert_int_equal(unlink(path), 0);
    assert_true(culm_journal_follow(journal, &error));
    assert_int_equal(culm_journal_add(journal, "l04", &error), CULM_JOURNAL_NONE);
    expect(*state, "a.jsonl", "l04\n");
    culm_journal_free(journal);
}

static void test_each_file_begins_with_the_head(void **state) {
    struct culm_error error = {0};
    struct culm_journal *journal = begin(*state, 8, 24);
    assert_int_equal(culm_journal_add(journal, "l00", &error), CULM_JOURNAL_NONE);
    assert_true(culm_journal_begin_with(journal, "hea"));
    for (int i = 1; i < 4; i++) {
        char text[8];
        snprintf(text, sizeof text, "l%02d", i);
        assert_int_equal(culm_journal_add(journal, text, &error), CULM_JOURNAL_NONE);
    }
    expect(*state, "a.jsonl.1", "l00\nl01\n");
    expect(*state, "a.jsonl.2", "hea\nl02\n");
    limit(2); /* a head alone says nothing, and a line without one is not understood */
    culm_journal_limit(journal, &(struct culm_journal_limits){4, 0});
    assert_int_equal(culm_journal_add(journal, "l04", &error), CULM_JOURNAL_LOST);
    expect(*state, "a.jsonl", "");
    limit(RLIM_INFINITY);
    assert_int_equal(culm_journal_add(journal, "l05", &error), CULM_JOURNAL_WRITTEN);
    expect(*state, "a.jsonl", "hea\nl05\n");
    culm_journal_free(journal);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_has_no_room_is_lost_whole, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(test_a_torn_line_is_cut_off, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_the_oldest_give_way, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_a_file_that_was_moved_is_begun_anew, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(test_a_path_that_is_taken, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_each_file_begins_with_the_head, make_folder,
                                        drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
