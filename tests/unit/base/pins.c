/* Pins: what is no difference, what is one, of files small and large and of folders. */
#include "base/pins.h"

#include "../folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LARGE (CULM_PINS_WHOLE + 12345)

static char path[64], other[64];

static void put(const char *to, uint64_t bytes, uint64_t at, const char *text) {
    int fd = open(to, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    assert_int_equal(pwrite(fd, text, strlen(text), (off_t)at), strlen(text));
    close(fd);
}

/* Other times than before, whatever the clock's grain. */
static void touch(const char *of, int64_t seconds) {
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, of, times, 0), 0);
}

/* Writes elsewhere until the file system's clock has moved on: two changes within one tick of it
 * look like one. */
static void let_a_tick_pass(const struct stat *since) {
    struct stat info;
    do {
        put(other, 1, 0, "x");
        assert_int_equal(stat(other, &info), 0);
    } while (memcmp(&info.st_ctim, &since->st_ctim, sizeof info.st_ctim) == 0);
}

static enum culm_status show(struct culm_pins *pins, const char *of, struct culm_error *error) {
    int fd = open(of, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    enum culm_status status = culm_pins_file(pins, of, fd, error);
    close(fd);
    return status;
}

/* Sealed pins of one file as it is. */
static struct culm_pins *pins_of(const char *of) {
    struct culm_pins *pins = culm_pins_new();
    assert_int_equal(show(pins, of, NULL), CULM_OK);
    culm_pins_seal(pins);
    return pins;
}

static void is_changed(enum culm_status status, const struct culm_error *error, const char *of,
                       const char *what) {
    assert_int_equal(status, CULM_ERR_CHANGED);
    assert_non_null(strstr(error->text, of));
    if (!strstr(error->text, what)) {
        fail_msg("'%s' does not say '%s'", error->text, what);
    }
    assert_null(strchr(error->text, '\n'));
}

static void a_small_file(void **state) {
    (void)state;
    struct culm_error error;
    put(path, 100, 10, "content");
    struct culm_pins *pins = pins_of(path);
    touch(path, 5);
    assert_int_equal(show(pins, path, &error), CULM_OK); /* another time alone */
    put(path, 101, 10, "content");
    is_changed(show(pins, path, &error), &error, path, "it has 101 bytes, had 100");
    put(path, 100, 10, "c0ntent");
    is_changed(show(pins, path, &error), &error, path, "its content has changed");
    put(path, 100, 10, "content");
    assert_int_equal(show(pins, path, &error), CULM_OK); /* it is back */
    put(other, 5, 0, "hello");
    is_changed(show(pins, other, &error), &error, other, "it did not exist then");
    assert_int_equal(show(NULL, other, NULL), CULM_OK);
    culm_pins_free(pins);
}

/* What is open as `fd`, of which `stamp` was seen, has `text` at byte 10. */
static enum culm_status read_again(struct culm_pins *pins, int fd, const struct culm_stamp *stamp,
                                   const char *text, struct culm_error *error) {
    char bytes[100];
    const struct culm_pins_reader reader = {
        .pins = pins, .what = "text", .path = path, .fd = fd, .stamp = *stamp};
    enum culm_status status = culm_pins_read(&reader, 0, bytes, sizeof bytes, error);
    if (status == CULM_OK) {
        assert_memory_equal(bytes + 10, text, strlen(text));
    }
    return status;
}

/* Its time is after what 64 bits of nanoseconds can say. */
static void a_file_of_the_year_2500(void **state) {
    (void)state;
    const struct timespec times[2] = {{16725225600, 0}, {16725225600, 5}};
    struct culm_stamp stamp, later;
    struct stat info;
    put(path, 100, 10, "content");
    if (utimensat(AT_FDCWD, path, times, 0) != 0 || stat(path, &info) != 0 ||
        info.st_mtim.tv_sec != times[1].tv_sec) {
        skip(); /* no such times there */
    }
    culm_stamp_of(&info, &stamp);
    info.st_mtim.tv_nsec++;
    culm_stamp_of(&info, &later);
    assert_true(culm_stamp_same(&stamp, &stamp));
    assert_false(culm_stamp_same(&stamp, &later));
}

static void a_file_in_use(void **state) {
    (void)state;
    struct culm_error error;
    struct culm_stamp stamp;
    struct stat info;
    put(path, 100, 10, "content");
    struct culm_pins *pins = pins_of(path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &info), 0);
    culm_stamp_of(&info, &stamp);
    assert_int_equal(read_again(pins, fd, &stamp, "content", &error), CULM_OK);
    let_a_tick_pass(&info);
    touch(path, 7);
    assert_int_equal(read_again(pins, fd, &stamp, "content", &error), CULM_OK);
    assert_int_equal(read_again(pins, fd, &stamp, "content", &error), CULM_OK);
    struct stat touched;
    assert_int_equal(fstat(fd, &touched), 0);
    let_a_tick_pass(&touched);
    put(path, 100, 10, "CONTENT");
    const struct timespec before[2] = {info.st_atim, info.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, before, 0), 0); /* hides nothing */
    is_changed(read_again(pins, fd, &stamp, "content", &error), &error, path, "its content");
    assert_int_equal(fstat(fd, &touched), 0);
    let_a_tick_pass(&touched);
    put(path, 100, 10, "content");
    assert_int_equal(read_again(pins, fd, &stamp, "content", &error), CULM_OK);
    put(other, 100, 0, "another file");
    assert_int_equal(rename(other, path), 0); /* what is open is what it was */
    assert_int_equal(read_again(pins, fd, &stamp, "content", &error), CULM_OK);
    is_changed(show(pins, path, &error), &error, path, "its content");
    close(fd);
    culm_pins_free(pins);
}

/* Written, shown and written again at once: a stamp that two contents have is not believed. */
static void two_changes_in_one_tick(void **state) {
    (void)state;
    struct culm_error error;
    struct culm_stamp stamp;
    struct stat info;
    for (int i = 0; i < 10; i++) {
        put(path, 100, 10, "content");
        struct culm_pins *pins = pins_of(path);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_int_equal(fstat(fd, &info), 0);
        culm_stamp_of(&info, &stamp);
        assert_int_equal(culm_pins_file(pins, path, fd, &error), CULM_OK);
        put(path, 100, 10, "CONTENT");
        is_changed(read_again(pins, fd, &stamp, "content", &error), &error, path, "its content");
        put(path, 100, 10, "content"); /* what follows looks at the stamp of this */
        assert_int_equal(read_again(pins, fd, &stamp, "content", &error), CULM_OK);
        put(path, 100, 10, "CONTENT");
        is_changed(read_again(pins, fd, &stamp, "content", &error), &error, path, "its content");
        close(fd);
        culm_pins_free(pins);
    }
}

/* Holes cost no disk. Byte 3 is in the first block, byte 70000 in none. */
static void a_large_file(void **state) {
    (void)state;
    struct culm_error error;
    const bool stop = false;
    put(path, LARGE, 3, "x");
    touch(path, 100);
    struct culm_pins *pins = pins_of(path);
    struct culm_pin pin = culm_pins_at(pins, 0);
    assert_true(pin.part[0] && !pin.whole[0]);
    assert_int_equal(show(pins, path, &error), CULM_OK);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    let_a_tick_pass(&info);
    put(path, LARGE, 3, "y");
    is_changed(show(pins, path, &error), &error, path, "its content has changed");
    put(path, LARGE, 3, "x");
    is_changed(show(pins, path, &error), &error, path, "cannot be compared as a whole");
    culm_pins_free(pins);

    pins = pins_of(path);
    culm_pins_complete(pins, &stop, NULL, NULL);
    assert_true(culm_pins_at(pins, 0).whole[0]);
    touch(path, 200);
    assert_int_equal(show(pins, path, &error), CULM_OK);
    put(path, LARGE, 70000, "y");
    is_changed(show(pins, path, &error), &error, path, "its content has changed");
    culm_pins_free(pins);
}

static bool tell(void *ctx, const struct culm_pin *pin, bool wait, char *ret_hex) {
    assert_string_equal(pin->path, path);
    assert_false(wait);
    strcpy(ret_hex, ctx);
    return false;
}

/* Knows it only when it is asked for the second time. */
static bool tell_later(void *ctx, const struct culm_pin *pin, bool wait, char *ret_hex) {
    assert_string_equal(pin->path, path);
    if (wait) {
        strcpy(ret_hex, ctx);
    }
    return !wait;
}

/* A list that was made before the whole was known. */
static void the_whole_is_told(void **state) {
    (void)state;
    struct culm_error error;
    const bool stop = false;
    char whole[CULM_SHA256_HEX] = "";
    put(path, LARGE, 3, "x");
    touch(path, 100);
    struct culm_pins *pins = pins_of(path), *launcher = pins_of(path);
    culm_pins_ask(pins, tell, whole);
    touch(path, 200);
    is_changed(show(pins, path, &error), &error, path, "cannot be compared as a whole");
    culm_pins_free(launcher);
    launcher = pins_of(path);
    culm_pins_complete(launcher, &stop, NULL, NULL);
    strcpy(whole, culm_pins_at(launcher, 0).whole);
    assert_int_equal(show(pins, path, &error), CULM_OK);
    put(path, LARGE, 70000, "z");
    is_changed(show(pins, path, &error), &error, path, "its content has changed");
    culm_pins_free(pins);
    culm_pins_free(launcher);
}

/* A copy, which has other times; and where none is told in the end, or another one. */
static void the_whole_is_told_later(void **state) {
    (void)state;
    struct culm_error error;
    const bool stop = false;
    char whole[CULM_SHA256_HEX] = "";
    put(path, LARGE, 3, "x");
    put(path, LARGE, 70000, "x");
    touch(path, 100);
    struct culm_pins *pins = pins_of(path), *launcher = pins_of(path);
    culm_pins_complete(launcher, &stop, NULL, NULL);
    culm_pins_ask(pins, tell_later, whole);
    touch(path, 200);
    is_changed(show(pins, path, &error), &error, path, "cannot be compared as a whole");
    strcpy(whole, culm_pins_at(launcher, 0).whole);
    put(path, LARGE, 70000, "z");
    is_changed(show(pins, path, &error), &error, path, "its content has changed");
    culm_pins_free(pins);
    put(path, LARGE, 70000, "x");
    touch(path, 300);
    pins = pins_of(path);
    touch(path, 400);
    culm_pins_ask(pins, tell_later, whole);
    assert_int_equal(show(pins, path, &error), CULM_OK);
    culm_pins_free(pins);
    culm_pins_free(launcher);
}

static void what_changes_before_it_is_completed_stays_unknown(void **state) {
    (void)state;
    const bool stop = false;
    put(path, LARGE, 3, "x");
    struct culm_pins *pins = pins_of(path);
    touch(path, 300);
    culm_pins_complete(pins, &stop, NULL, NULL);
    assert_false(culm_pins_at(pins, 0).whole[0]);
    culm_pins_free(pins);
}

static void a_look(void **state) {
    (void)state;
    struct culm_error error;
    put(path, 100, 10, "content");
    struct culm_pins *pins = pins_of(path);
    assert_int_equal(culm_pins_look(pins, &error), CULM_OK);
    assert_int_equal(truncate(path, 5), 0);
    is_changed(culm_pins_look(pins, &error), &error, path, "it has 5 bytes, had 100");
    assert_int_equal(unlink(path), 0);
    is_changed(culm_pins_look(pins, &error), &error, path, "No such file");
    culm_pins_free(pins);
}

static void two_lists(void **state) {
    (void)state;
    struct culm_error error;
    char note[CULM_ERROR_MAX];
    const bool stop = false;
    put(path, LARGE, 3, "x");
    put(other, 10, 0, "other");
    struct culm_pins *before = pins_of(path), *now = pins_of(path);
    assert_int_equal(culm_pins_compare(before, now, note, &error), CULM_OK);
    assert_string_equal(note, "");
    culm_pins_free(now);
    touch(path, 400);
    now = pins_of(path);
    assert_int_equal(culm_pins_compare(before, now, note, &error), CULM_OK);
    assert_non_null(strstr(note, "more is not known"));
    culm_pins_complete(before, &stop, NULL, NULL); /* too late */
    assert_int_equal(culm_pins_compare(now, now, note, &error), CULM_OK);
    culm_pins_complete(now, &stop, NULL, NULL);
    culm_pins_free(before);
    before = now;
    now = pins_of(path);
    assert_int_equal(culm_pins_compare(before, now, note, &error), CULM_OK);
    assert_true(culm_pins_at(now, 0).whole[0]); /* taken over, without reading it */
    culm_pins_free(now);
    put(path, LARGE, 70000, "y");
    now = pins_of(path);
    is_changed(culm_pins_compare(before, now, note, &error), &error, path, "its content");
    culm_pins_free(now);
    now = pins_of(other);
    is_changed(culm_pins_compare(before, now, note, &error), &error, path, "no longer read");
    assert_int_equal(unlink(path), 0);
    culm_pins_free(before);
    culm_pins_free(now);
}

static void count_changed(void *ctx, const char *changed) {
    char *text = ctx;
    strcat(strcat(text, changed), " ");
}

/* Whoever takes changes up is told of all of them, in either list. */
static void all_differences(void **state) {
    (void)state;
    struct culm_error error = {0};
    char note[CULM_ERROR_MAX], text[512] = "", expected[512];
    put(path, 10, 0, "x");
    put(other, 10, 0, "other");
    struct culm_pins *before = pins_of(path), *now = pins_of(other);
    assert_int_equal(culm_pins_compare_all(before, now, count_changed, text, note, &error),
                     CULM_OK);
    snprintf(expected, sizeof expected, "%s %s ", path, other);
    assert_string_equal(text, expected);
    assert_string_equal(error.text, "");
    text[0] = '\0';
    assert_int_equal(culm_pins_compare_all(now, now, count_changed, text, note, &error), CULM_OK);
    assert_string_equal(text, "");
    is_changed(culm_pins_compare_all(before, now, NULL, NULL, note, &error), &error, path,
               "on what is there now with --resume --accept-inputs");
    culm_pins_free(before);
    culm_pins_free(now);
}

/* --- folders --- */

static const char *const names[] = {"/a", "/b", "/c"};

static const char *path_of(const void *ctx, size_t index) {
    static char text[128];
    (void)ctx;
    snprintf(text, sizeof text, "%s%s", folder, names[index]);
    return text;
}

static void a_folder(void **state) {
    (void)state;
    struct culm_error error;
    struct culm_pins *pins = culm_pins_new();
    struct culm_stamp stamp;
    struct stat info;
    for (size_t i = 0; i < 3; i++) {
        put(path_of(NULL, i), 20, 0, names[i]);
    }
    assert_int_equal(culm_pins_folder(pins, folder, 3, path_of, NULL, &error), CULM_OK);
    culm_pins_seal(pins);
    touch(path_of(NULL, 1), 5);
    assert_int_equal(culm_pins_folder(pins, folder, 3, path_of, NULL, &error), CULM_OK);
    is_changed(culm_pins_folder(pins, folder, 2, path_of, NULL, &error), &error, folder,
               "it has 2 files, had 3");

    char bytes[20] = "/b";
    const char *b = path_of(NULL, 1);
    assert_int_equal(stat(b, &info), 0);
    culm_stamp_of(&info, &stamp);
    assert_int_equal(culm_pins_inside(pins, folder, 1, b, &stamp, bytes, 20, &error), CULM_OK);
    stamp.mtime_ns++;
    assert_int_equal(culm_pins_inside(pins, folder, 1, b, &stamp, bytes, 20, &error), CULM_OK);
    bytes[5] = 1;
    assert_int_equal(culm_pins_inside(pins, folder, 1, b, &stamp, bytes, 20, &error), CULM_OK);
    stamp.ctime_ns++; /* what is read under a known stamp is not looked at */
    is_changed(culm_pins_inside(pins, folder, 1, b, &stamp, bytes, 20, &error), &error, b,
               "its content has changed");
    is_changed(culm_pins_inside(pins, folder, 3, b, &stamp, bytes, 20, &error), &error, b,
               "it did not exist then");

    put(path_of(NULL, 2), 20, 3, "?");
    is_changed(culm_pins_folder(pins, folder, 3, path_of, NULL, &error), &error, folder,
               "different name, size or content");
    culm_pins_free(pins);
}

static int make_paths(void **state) {
    int made = make_folder(state);
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    return made;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_file),
        cmocka_unit_test(a_file_of_the_year_2500),
        cmocka_unit_test(a_file_in_use),
        cmocka_unit_test(two_changes_in_one_tick),
        cmocka_unit_test(a_large_file),
        cmocka_unit_test(the_whole_is_told),
        cmocka_unit_test(the_whole_is_told_later),
        cmocka_unit_test(what_changes_before_it_is_completed_stays_unknown),
        cmocka_unit_test(a_look),
        cmocka_unit_test(two_lists),
        cmocka_unit_test(all_differences),
        cmocka_unit_test(a_folder),
    };
    return cmocka_run_group_tests_name("base/pins", tests, make_paths, drop_folder);
}
