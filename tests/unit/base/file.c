/* Files, directories and SHA-256 of the base room: what the store stands on. */
#include "base/file.h"
#include "base/sha256.h"

#include "fault_fs.h"
#include "sample.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_sha256_vectors(void **state) {
    (void)state;
    char hex[CULM_SHA256_HEX];
    assert_int_equal(culm_sha256_of("", 0, hex), CULM_OK);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(culm_sha256_of("abc", 3, hex), CULM_OK);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    struct culm_sha256 hash;
    char parts[CULM_SHA256_HEX];
    assert_int_equal(culm_sha256_init(&hash), CULM_OK);
    culm_sha256_update(&hash, "a", 1);
    culm_sha256_update(&hash, NULL, 0);
    culm_sha256_update(&hash, "bc", 2);
    assert_int_equal(culm_sha256_final(&hash, parts), CULM_OK);
    assert_string_equal(hex, parts);
    culm_sha256_release(&hash);
}

static void test_read_and_replace(void **state) {
    (void)state;
    char dir[64], path[128], *data = NULL;
    size_t len = 0;
    struct culm_error error = {0};
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/x", dir);
    assert_int_equal(culm_file_read(NULL, path, 10, &data, &len, &error), CULM_ERR_NOT_FOUND);
    assert_int_equal(culm_file_replace(NULL, path, "hello", 5, &error), CULM_OK);
    assert_int_equal(culm_file_read(NULL, path, 4, &data, &len, &error), CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, "has 5 bytes; at most 4"));
    assert_null(data);
    assert_int_equal(culm_file_read(NULL, path, 5, &data, &len, &error), CULM_OK);
    assert_int_equal(len, 5);
    assert_string_equal(data, "hello");
    free(data);
    assert_int_equal(culm_file_replace(NULL, path, "", 0, &error), CULM_OK);
    assert_int_equal(culm_file_read(NULL, path, 5, &data, &len, &error), CULM_OK);
    assert_int_equal(len, 0);
    free(data);
    assert_int_equal(culm_file_read(NULL, dir, 5, &data, &len, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "is a directory"));
    struct culm_names names;
    assert_int_equal(culm_dir_list(dir, &names, &error), CULM_OK);
    assert_int_equal(names.count, 1); /* no temporary is left */
    culm_names_release(&names);
    temp_dir_drop(dir);
}

/* What others have beside it stays, whatever its name, and is not written through. */
static void test_replace_touches_nothing_else(void **state) {
    (void)state;
    char dir[64], path[128], other[256], own[128], *data = NULL;
    size_t len = 0;
    struct culm_error error = {0};
    struct stat info;
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/x", dir);
    snprintf(own, sizeof own, "%s/kept", dir);
    assert_int_equal(culm_file_replace(NULL, own, "mine", 4, &error), CULM_OK);
    snprintf(other, sizeof other, "%s/x.tmp", dir);
    assert_int_equal(culm_file_replace(NULL, other, "mine", 4, &error), CULM_OK);
    snprintf(other, sizeof other, "%s/.x.%ld-0.tmp", dir, (long)getpid());
    assert_int_equal(symlink("kept", other), 0);
    assert_int_equal(culm_file_replace(NULL, path, "hello", 5, &error), CULM_OK);
    assert_int_equal(lstat(other, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    snprintf(other, sizeof other, "%s/x.tmp", dir);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(culm_file_read(NULL, i ? own : other, 9, &data, &len, &error), CULM_OK);
        assert_string_equal(data, "mine");
        free(data);
    }
    memset(other, 'n', sizeof other); /* a name as long as a name may be */
    other[255] = '\0';
    char *longest;
    assert_true(asprintf(&longest, "%s/%s", dir, other) > 0);
    assert_int_equal(culm_file_replace(NULL, longest, "x", 1, &error), CULM_OK);
    free(longest);
    temp_dir_drop(dir);
}

static void test_replace_is_whole(void **state) {
    (void)state;
    for (int mode = 0; mode < FAULT_MODES; mode++) {
        bool fired = true;
        for (int n = 1; fired; n++) {
            char dir[64], path[128], *data = NULL;
            size_t len = 0;
            struct culm_error error = {0};
            struct fault_fs *fault = malloc(sizeof *fault);
            assert_non_null(fault);
            temp_dir_make(dir);
            snprintf(path, sizeof path, "%s/x", dir);
            assert_int_equal(culm_file_replace(NULL, path, "old", 3, NULL), CULM_OK);
            fault_fs_init(fault, (enum fault_mode)mode, n, ENOSPC);
            enum culm_status status =
                culm_file_replace(&fault->fs, path, "the new one", 11, &error);
            fired = fault->fired;
            assert_true(fired || status == CULM_OK);
            if (status != CULM_OK) {
                assert_int_equal(status, CULM_ERR_IO);
                assert_non_null(strstr(error.text, "No space left"));
            }
            if ((fired && mode == FAULT_POWER) ||
                status == CULM_OK) { /* what has succeeded stays */
                fault_fs_power_off(fault, dir);
            }
            assert_int_equal(culm_file_read(NULL, path, 100, &data, &len, NULL), CULM_OK);
            assert_true(strcmp(data, "the new one") == 0 ||
                        (status != CULM_OK && strcmp(data, "old") == 0));
            free(data);
            temp_dir_drop(dir);
            free(fault);
        }
    }
}

static void test_directories(void **state) {
    (void)state;
    char dir[64], path[256], other[256];
    struct culm_error error = {0};
    struct culm_names names;
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/a/b//c/", dir);
    assert_int_equal(culm_dir_make(NULL, path, &error), CULM_OK);
    assert_int_equal(culm_dir_make(NULL, path, &error), CULM_OK);
    assert_true(culm_file_is_directory(path));
    static const char *const made[] = {"z", "b", "B", ".hidden"};
    for (int i = 0; i < 4; i++) {
        snprintf(other, sizeof other, "%s/a/b/c/%s", dir, made[i]);
        assert_int_equal(culm_file_replace(NULL, other, "x", 1, NULL), CULM_OK);
    }
    assert_int_equal(culm_dir_list(path, &names, &error), CULM_OK);
    assert_int_equal(names.count, 4);
    assert_string_equal(names.name[0], ".hidden");
    assert_string_equal(names.name[1], "B");
    assert_string_equal(names.name[3], "z");
    culm_names_release(&names);
    /* a file in the way */
    snprintf(path, sizeof path, "%s/a/b/c/z/d", dir);
    assert_int_equal(culm_dir_make(NULL, path, &error), CULM_ERR_IO);
    snprintf(path, sizeof path, "%s/a/b/c/z", dir);
    assert_int_equal(culm_dir_make(NULL, path, &error), CULM_ERR_IO);
    /* a link is removed, what it points to is not */
    snprintf(path, sizeof path, "%s/kept", dir);
    assert_int_equal(culm_dir_make(NULL, path, &error), CULM_OK);
    snprintf(other, sizeof other, "%s/a/b/link", dir);
    assert_int_equal(symlink(path, other), 0);
    snprintf(other, sizeof other, "%s/a", dir);
    assert_int_equal(culm_tree_remove(NULL, other, &error), CULM_OK);
    assert_int_equal(culm_tree_remove(NULL, other, &error), CULM_OK);
    assert_false(culm_file_is_directory(other));
    assert_true(culm_file_is_directory(path));
    assert_int_equal(culm_dir_list(other, &names, &error), CULM_ERR_NOT_FOUND);
    temp_dir_drop(dir);
}

static void test_temporary(void **state) {
    (void)state;
    char dir[64], first[CULM_PATH_MAX], second[CULM_PATH_MAX] = "untouched";
    struct culm_error error = {0};
    struct stat info;
    temp_dir_make(dir);
    assert_int_equal(setenv("TMPDIR", dir, 1), 0);
    assert_int_equal(culm_dir_make_temporary("mine", first, &error), CULM_OK);
    assert_memory_equal(first, dir, strlen(dir));
    assert_non_null(strstr(first, "/mine-"));
    assert_int_equal(stat(first, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(culm_dir_make_temporary("none/mine", second, &error), CULM_ERR_IO);
    assert_string_equal(second, "untouched");
    assert_int_equal(culm_dir_make_temporary("mine", second, &error), CULM_OK);
    assert_string_not_equal(first, second);
    assert_int_equal(unsetenv("TMPDIR"), 0);
    temp_dir_drop(dir);
}

static void test_relative_paths(void **state) {
    (void)state;
    char dir[64], before[4096];
    struct culm_error error = {0};
    temp_dir_make(dir);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(culm_dir_make(NULL, "runs/tiny", &error), CULM_OK);
    assert_int_equal(culm_dir_make(NULL, "single", &error), CULM_OK);
    assert_int_equal(culm_file_replace(NULL, "plain", "x", 1, &error), CULM_OK);
    assert_true(culm_file_is_directory("runs/tiny") && culm_file_is_regular("plain"));
    assert_int_equal(chdir(before), 0);
    temp_dir_drop(dir);
}

/* Who finds directories that another process made knows not whether it lived to sync them. */
static void test_directories_of_the_dead(void **state) {
    (void)state;
    bool fired = true;
    int cut = 0;
    for (int n = 1; fired; n++) {
        char dir[64], path[128];
        struct culm_error error = {0};
        struct fault_fs *fault = malloc(sizeof *fault);
        assert_non_null(fault);
        temp_dir_make(dir);
        snprintf(path, sizeof path, "%s/runs/tiny/checkpoints", dir);
        fault_fs_init(fault, FAULT_DEATH, n, EIO);
        culm_dir_make(&fault->fs, path, &error);
        fired = fault->fired;
        cut += fired && culm_file_is_directory(path);
        fault->fail_at = 0; /* another process goes on */
        assert_int_equal(culm_dir_make(&fault->fs, path, &error), CULM_OK);
        fault_fs_power_off(fault, dir);
        if (!culm_file_is_directory(path)) {
            fail_msg("died at operation %d; made again, and lost", n);
        }
        temp_dir_drop(dir);
        free(fault);
    }
    assert_true(cut > 0); /* some died after the last mkdir */
}

/* A device or a pipe that is named as an output stays what it is, and nothing is left beside it. */
static void test_no_file(void **state) {
    (void)state;
    struct culm_error error = {0};
    struct culm_names names;
    struct stat there;
    char dir[64], path[CULM_PATH_MAX], link[CULM_PATH_MAX];
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/pipe", dir);
    snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(symlink("pipe", link), 0);
    assert_int_equal(culm_file_replace(NULL, path, "x", 1, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "/pipe' is not a plain file"));
    assert_int_equal(culm_file_replace(NULL, link, "x", 1, &error), CULM_ERR_CONFIG);
    assert_int_equal(culm_file_rename(NULL, "nothing", path, &error), CULM_ERR_CONFIG);
    assert_int_equal(stat(path, &there), 0);
    assert_true(S_ISFIFO(there.st_mode));
    assert_int_equal(culm_dir_list(dir, &names, NULL), CULM_OK);
    assert_int_equal(names.count, 2);
    culm_names_release(&names);
    temp_dir_drop(dir);
}

/* So does a link to what a process has open, as /dev/stdout is one, though a file is behind it. */
static void test_name_of_open(void **state) {
    (void)state;
    struct culm_error error = {0};
    struct stat there;
    char dir[64], path[CULM_PATH_MAX], link[CULM_PATH_MAX], to[64];
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(link, sizeof link, "%s/link", dir);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    snprintf(to, sizeof to, "/proc/self/fd/%d", fd);
    assert_int_equal(symlink(to, link), 0);
    assert_int_equal(culm_file_may_replace(path, &error), CULM_OK);
    assert_int_equal(culm_file_may_replace(link, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "/link' is not a plain file"));
    assert_int_equal(culm_file_replace(NULL, link, "x", 1, &error), CULM_ERR_CONFIG);
    assert_int_equal(culm_file_rename(NULL, "nothing", link, &error), CULM_ERR_CONFIG);
    assert_int_equal(lstat(link, &there), 0);
    assert_true(S_ISLNK(there.st_mode));
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("file", link), 0); /* one of the user's own */
    assert_int_equal(culm_file_replace(NULL, link, "x", 1, &error), CULM_OK);
    close(fd);
    temp_dir_drop(dir);
}

static void test_long_path(void **state) {
    (void)state;
    char text[CULM_PATH_MAX + 8], path[CULM_PATH_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(culm_path_format(path, NULL, "%s", text), CULM_ERR_ARGUMENT);
    text[CULM_PATH_MAX - 1] = '\0';
    assert_int_equal(culm_path_format(path, NULL, "%s", text), CULM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256_vectors),
        cmocka_unit_test(test_read_and_replace),
        cmocka_unit_test(test_replace_touches_nothing_else),
        cmocka_unit_test(test_replace_is_whole),
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_temporary),
        cmocka_unit_test(test_relative_paths),
        cmocka_unit_test(test_long_path),
        cmocka_unit_test(test_directories_of_the_dead),
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_name_of_open),
    };
    return cmocka_run_group_tests_name("base/file", tests, NULL, NULL);
}
